"""Networks that are trained for missing data, on real simulators: exact answers, effective traces, refusals."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import exact

import ars
from ars.cli import main
from ars.errors import ObservationError

torch = pytest.importorskip("torch")
from ars.network.model.trace_batch import TraceBatch  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.usefixtures("one_torch_thread")]

NAN = math.nan
LIMIT = 3.0  # standard errors
TRACES = 1500
SIZES = {"observe_hidden": 64, "value_dim": 16, "head_hidden": 64}
PATTERNS = [[0.8, -0.1, 1.1], [0.8, NAN, 1.1], [NAN, -0.1, NAN], [2.0, NAN, NAN], [NAN, NAN, -1.5]]


def train(sim: ars.Simulator, traces: int, **options: Any) -> ars.Network:
    settings = {"lstm_dim": 32, "seed": 5, "lr": 3e-3, "batch_size": 256, "threads": 1, "architecture": SIZES}
    return sim.train(traces, **(settings | options))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def network(csim: Callable[[str], str]) -> ars.Network:
    """For three numbers, any of which may be missing."""
    with ars.Simulator([csim("gaussian"), "3"], workers=2) as sim:
        return train(sim, 20_000, missing=0.3)


@pytest.mark.parametrize("y", PATTERNS, ids=[str(y) for y in PATTERNS])
def test_the_network_proposes_what_the_data_that_are_left_say(
    network: ars.Network, simulator: Callable[..., ars.Simulator], y: list[float]
) -> None:
    truth = exact.gaussian([value for value in y if not math.isnan(value)])
    sim = simulator("gaussian", 3, workers=2)
    post = sim.posterior({"y": y}, TRACES, network=network, seed=3)
    found = post.log_evidence("ars")
    assert abs(found.evidence - truth.evidence) < LIMIT * found.standard_error
    assert abs(post.mean("mu") - truth.posterior_mean["mu"]) < LIMIT * post.mean_error("mu")
    assert post.ess() > 0.75 * TRACES
    if math.isnan(sum(y)):
        # Zeros in place of what is missing would be another question: its answer fits badly.
        zeros = exact.gaussian([0.0 if math.isnan(value) else value for value in y])
        posterior = ars.Normal(zeros.posterior_mean["mu"], 1 / math.sqrt(13))
        wrong = sim.posterior({"y": y}, TRACES, proposals={"mu": posterior}, seed=3)
        assert wrong.ess() < 0.5 * post.ess()


def test_what_is_served_is_what_was_trained(network: ars.Network, simulator: Callable[..., ars.Simulator]) -> None:
    """log q of a run against log q of the same latents, all at once, as in training."""
    y = [0.8, NAN, 1.1]
    found = [
        simulator("gaussian", 3, workers=workers).posterior({"y": y}, 200, network=network, seed=4)
        for workers in (1, 8)
    ]
    assert found[0].log_weights("ars").tobytes() == found[1].log_weights("ars").tobytes()
    samples = found[0].columns.samples
    zeros = torch.zeros((1, 200), dtype=torch.int64)
    batch = TraceBatch(
        site=zeros,
        instance=zeros,
        value=torch.from_numpy(samples["value"].copy())[None],
        prior=torch.tensor([0.0, 1.0, 0.0, 0.0], dtype=torch.float64).expand(1, 200, 4),
        categories=None,
        n_categories=zeros,
        mask=torch.ones((1, 200), dtype=torch.bool),
        observation={"y": torch.tensor(y).expand(200, 3)},
    )
    with torch.no_grad():
        np.testing.assert_allclose(network.network.log_probs(batch)[0].numpy(), samples["log_q"], rtol=0, atol=2e-5)


def test_a_network_of_complete_data_refuses_others(simulator: Callable[..., ars.Simulator]) -> None:
    sim = simulator("gaussian", 3, workers=2)
    plain = train(sim, 512, lstm_dim=8)
    sim.posterior({"y": [0.8, -0.1, 1.1]}, 10, network=plain, seed=1)
    with pytest.raises(ObservationError, match=r"'y' has NaN, a number that was not observed.*missing=0\.2"):
        sim.posterior({"y": [0.8, NAN, 1.1]}, 10, network=plain, seed=1)


def test_loops_images_and_files(simulator: Callable[..., ars.Simulator], tmp_path: Path) -> None:
    """A loop, and data seen as an image, of which a part is missing: weights are right, however little is learnt."""
    sim = simulator("gaussian", 64, workers=2)
    made = train(sim, 2_000, lstm_dim=16, missing=0.5, shapes={"y": (8, 8)})
    made.save(tmp_path / "net.safetensors")
    loaded = ars.Network.load(tmp_path / "net.safetensors")
    assert loaded.config.missing_data == "masked" and loaded.training["missing"] == 0.5
    y = np.full((8, 8), NAN)
    y[2, 3:5] = 0.4, 0.9
    truth = exact.gaussian([0.4, 0.9])
    found = [sim.posterior({"y": y}, TRACES, network=each, seed=6) for each in (made, loaded)]
    assert found[0].log_weights().tobytes() == found[1].log_weights().tobytes()
    evidence = found[0].log_evidence()
    assert abs(evidence.evidence - truth.evidence) < LIMIT * evidence.standard_error
    sim = simulator("truncated_normal", "b", workers=2)
    case = exact.truncated_normal("b")
    looped = train(sim, 4_000, lstm_dim=16, missing=0.3)
    given = sim.posterior({"y": -1.0}, TRACES, network=looped, seed=7)
    with pytest.warns(ars.ObservationWarning):
        missing = sim.posterior({"y": NAN}, TRACES, network=looped, seed=7)
    for post, wanted in ((given, case.evidence), (missing, 1.0)):
        evidence = post.log_evidence()
        assert abs(evidence.evidence - wanted) < LIMIT * evidence.standard_error


def test_on_the_command_line(
    csim: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [csim("gaussian"), "3", "--workers", "2", "--quiet"]
    small = ["--lstm-dim", "8", "--batch-size", "128", "--threads", "1", "--seed", "2", "--out", "net.safetensors"]
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    assert "--missing X" in capsys.readouterr().out
    for wrong, message in (
        ("0.95", "0.95 is not from 0 to 0.9"),
        ("nan", "nan is not from"),
        ("x", "'x' is not a num"),
    ):
        with pytest.raises(SystemExit):
            main(["train", *words, *small, "--missing", wrong])
        assert message in capsys.readouterr().err
    assert main(["train", *words, *small, "--traces", "512", "--missing", "0.3"]) == 0
    capsys.readouterr()
    data = ["--observe", "y=0.8,nan,1.1", "--network", "net.safetensors", "--traces", "50", "--seed", "1"]
    assert main(["infer", *words, *data]) == 0
    assert main(["train", *words, *small, "--traces", "1024", "--missing", "0.2", "--resume"]) == 1
    assert "missing was 0.3, is 0.2" in capsys.readouterr().err
    assert main(["train", *words, *small, "--traces", "1024", "--resume"]) == 1
    assert "missing was 0.3, is 0.0" in capsys.readouterr().err
    assert main(["train", *words, *small, "--traces", "1024", "--missing", "0.3", "--resume"]) == 0
    assert main(["train", *words, *small, "--traces", "512", "--missing", "0"]) == 0
    capsys.readouterr()
    assert main(["infer", *words, *data]) == 1
    assert "Train one with missing=0.2 (ars train --missing 0.2)" in capsys.readouterr().err
