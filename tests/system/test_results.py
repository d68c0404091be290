"""Results of real simulators, as ArviZ and other programs read them; files that are read back; parts of a run."""

from __future__ import annotations

import csv
import errno
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ars
from ars.cli import main
from ars.columns import Columns

# simulator and arguments, data. Prior and posterior means of the results lie many standard errors apart.
CASES = {
    "gaussian": (["1"], {"y": 2.0}),
    "sequence": ([], {"y": 5.0}),
    "nested": ([], {"y": 4.0}),
    "recursive": (["2"], {"y": 3.0}),
    "branching": ([], {"y": -1.5}),
}
REPEATED = ["event_loop", "mini_sherpa"]  # with latents that a trace draws several times


@pytest.fixture(scope="module")
def az() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it announces its successor
        return pytest.importorskip("arviz")


def observed(sim: ars.Simulator) -> dict[str, Any]:
    """What the first trace of the prior observed."""
    return {name: values[0] for name, values in sim.prior(1, seed=1).observations.items()}


def assert_same_bits(one: ars.Posterior, other: ars.Posterior) -> None:
    assert len(one) == len(other)
    np.testing.assert_array_equal(one.columns.traces["trace"], other.columns.traces["trace"])
    for method in ("ars", "ic", "biased"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ars.NaiveVarianceWarning)
            assert one.log_weights(method).tobytes() == other.log_weights(method).tobytes()
    assert set(one) == set(other)
    for name in one:
        assert one[name].shape == other[name].shape
        assert one[name].tobytes() == other[name].tobytes()
    assert {address: repr(loop) for address, loop in one.loops.items()} == {
        address: repr(loop) for address, loop in other.loops.items()
    }
    assert {name: given.tolist() for name, given in one.observed.items()} == {
        name: given.tolist() for name, given in other.observed.items()
    }
    assert dict(one.failures) == dict(other.failures)


# ---- break 6: ArviZ and the weights ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_arviz_sees_the_posterior_and_not_the_proposal(
    csim: Callable[[str], str], az: Any, tmp_path: Path, name: str
) -> None:
    arguments, data = CASES[name]
    with ars.Simulator([csim(name), *arguments], workers=4) as sim:
        post = sim.posterior(data, 3000, seed=11, budget=ars.Budget(M=2, N=10))
    _assert_summary(az, post, post.to_datatree()["posterior"].to_dataset())
    post.save(tmp_path / "post.nc")
    for idata in (post.to_inferencedata(seed=5), az.from_netcdf(tmp_path / "post.nc")):
        _assert_summary(az, post, idata)
        assert 30 < idata.posterior.sizes["draw"] == int(post.ess()) < 3000


def _assert_summary(az: Any, post: ars.Posterior, data: Any) -> None:
    summary = az.summary(data, var_names=list(post.results), round_to="none")
    for result in post.results:
        found, error = summary.loc[result, "mean"], summary.loc[result, "mcse_mean"]
        limit = 4 * np.hypot(error, post.mean_error(result))
        assert abs(found - post.mean(result)) < limit
        assert summary.loc[result, "sd"] == pytest.approx(np.sqrt(_variance(post, result)), rel=0.35)
        proposed = post[result].mean()  # as ArviZ would report it if the traces themselves were the draws
        assert abs(proposed - post.mean(result)) > 2 * limit, "the test must tell the two apart"


def _variance(post: ars.Posterior, key: str) -> float:
    w = np.exp(post.log_weights() - post.log_weights().max())
    return float(np.average((post[key] - post.mean(key)) ** 2, weights=w))


# ---- break 7: every instance -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REPEATED)
def test_every_format_has_every_draw_of_every_trace(csim: Callable[[str], str], tmp_path: Path, name: str) -> None:
    with ars.Simulator([csim(name)], workers=4) as sim:
        post = sim.posterior(observed(sim), 400, seed=2)
    drawn = post.columns.samples["value"]
    assert any(np.ndim(post[latent]) == 2 for latent in post.latents)
    held = np.concatenate([post[latent].ravel() for latent in post.latents])
    assert sorted(held[~np.isnan(held)]) == sorted(drawn)
    for suffix in (".csv", ".npz", ".nc"):
        post.save(tmp_path / f"post{suffix}")
    names = list(post.latents)

    def belongs(title: str) -> bool:
        return title.split("[")[0] in names

    with (tmp_path / "post.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    frame = post.to_dataframe()
    with np.load(tmp_path / "post.npz") as arrays:
        for table in (
            {title: np.array([float(row[title]) for row in rows]) for title in rows[0]},
            {title: arrays[title] for title in arrays.files},
            {title: frame[title].to_numpy() for title in frame},
        ):
            values = np.concatenate([column for title, column in table.items() if belongs(title)])
            assert sorted(values[~np.isnan(values)]) == sorted(drawn)
            assert {len(column) for column in table.values()} == {400}
    for latent in names:
        for column, mean in zip(np.atleast_2d(post[latent].T), np.atleast_1d(post.mean(latent)), strict=True):
            there = ~np.isnan(column)
            w = np.exp(post.log_weights()[there] - post.log_weights()[there].max())
            assert mean == pytest.approx(np.average(column[there], weights=w))


def test_infer_writes_every_instance(
    csim: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ars.Simulator([csim("event_loop")], workers=2) as sim:
        data = observed(sim)
    given = [f"{name}={','.join(repr(float(x)) for x in np.ravel(values))}" for name, values in data.items()]
    observe = [word for one in given for word in ("--observe", one)]
    command = ["infer", csim("event_loop"), *observe, "--traces", "300", "--workers", "2", "--seed", "2", "--quiet"]
    for suffix in (".csv", ".npz", ".nc"):
        assert main([*command, "--out", str(tmp_path / f"post{suffix}")]) == 0
    assert "energies[2]" in capsys.readouterr().out
    with np.load(tmp_path / "post.npz") as arrays:
        held = {name: arrays[name] for name in arrays.files if name.startswith("energy")}
    assert list(held) == ["energy[0]", "energy[1]", "energy[2]"]
    post = ars.Posterior.load(tmp_path / "post.nc")
    np.testing.assert_array_equal(post["energy"], np.stack(list(held.values()), axis=1))


# ---- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*CASES, *REPEATED])
def test_a_file_gives_back_the_run(csim: Callable[[str], str], tmp_path: Path, name: str) -> None:
    arguments, data = CASES.get(name, ([], None))
    with ars.Simulator([csim(name), *arguments], workers=4) as sim:
        post = sim.posterior(data or observed(sim), 300, seed=3, first_trace=2**62, on_failure="zero")
    post.save(tmp_path / "post.nc")
    back = ars.Posterior.load(tmp_path / "post.nc")
    assert_same_bits(post, back)
    for column, mine, theirs in zip(Columns._fields, post.columns, back.columns, strict=True):
        assert mine.tobytes() == theirs.tobytes(), column
    assert (back.run, back.stats, back.sites) == (post.run, post.stats, post.sites)
    assert back.summary() == post.summary()


def test_infer_with_no_weight_at_all_keeps_the_traces(csim: Callable[[str], str], tmp_path: Path) -> None:
    common = ["infer", csim("gaussian"), "1", "--observe", "y=1e200", "--traces", "40", "--workers", "2", "--seed", "1"]
    for suffix in (".nc", ".csv", ".npz"):
        with pytest.warns(ars.ObservationWarning, match='the likelihood of "y" is 0'):
            main([*common, "--quiet", "--out", str(tmp_path / f"post{suffix}")])
    post = ars.Posterior.load(tmp_path / "post.nc")
    assert np.all(post.log_weights() == -np.inf)
    assert np.unique(post["mu"]).size == 40
    with np.load(tmp_path / "post.npz") as arrays:
        np.testing.assert_array_equal(arrays["mu"], post["mu"])
    assert (tmp_path / "post.csv").read_text().count("\n") == 41


# ---- parts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*CASES, *REPEATED])
def test_parts_of_a_run_give_the_run(csim: Callable[[str], str], tmp_path: Path, name: str) -> None:
    """Each part comes from a family of its own, whose sites have other numbers, and one from a file."""
    arguments, data = CASES.get(name, ([], None))

    def run(first: int, traces: int) -> ars.Posterior:
        with ars.Simulator([csim(name), *arguments], workers=3) as sim:
            return sim.posterior(data or observed(sim), traces, seed=4, first_trace=first, on_failure="zero")

    whole = run(0, 300)
    parts = [run(220, 80), run(0, 7), run(7, 213)]
    parts[1].save(tmp_path / "part.nc")
    parts[1] = ars.Posterior.load(tmp_path / "part.nc")
    joined = ars.Posterior.concat(parts)
    assert_same_bits(joined, whole)
    for counter in ("traces", "snapshots", "continuations", "tries_q", "tries_p", "forks"):
        assert joined.stats[counter] == whole.stats[counter]
    with pytest.raises(ValueError, match="in more than one part: 0, 1, 2"):
        ars.Posterior.concat([whole, parts[1]])


def test_parts_of_a_prior_run(csim: Callable[[str], str]) -> None:
    with ars.Simulator([csim("branching")], workers=3) as sim:
        whole = sim.prior(200, seed=4)
    with ars.Simulator([csim("branching")], workers=3) as sim:
        parts = [sim.prior(50, seed=4, first_trace=150), sim.prior(150, seed=4)]
    joined = ars.Traces.concat(parts)
    for name in whole:
        assert joined[name].tobytes() == whole[name].tobytes()
    assert joined.observations["y"].tobytes() == whole.observations["y"].tobytes()


def test_parts_with_other_data_seeds_or_proposals_are_refused(csim: Callable[[str], str]) -> None:
    with ars.Simulator([csim("gaussian"), "1"], workers=2) as sim:
        same: dict[str, Any] = {"observe": {"y": 1.0}, "traces": 20, "seed": 4, "proposals": {"mu": ars.Normal(0.5, 1)}}
        one = sim.posterior(**same)
        for changes, message in (
            ({"observe": {"y": 1.5}}, 'the data of "y" differ'),
            ({"seed": 5}, "seed is 4 and 5"),
            ({"budget": ars.Budget(M=3, N=10)}, "the budget"),
            ({"proposals": {"mu": ars.Normal(0.8, 0.5)}}, "the proposals differ"),
        ):
            with pytest.raises(ValueError, match=message):
                ars.Posterior.concat([one, sim.posterior(**same | {"first_trace": 20} | changes)])
        assert len(ars.Posterior.concat([one, sim.posterior(**same, first_trace=20)])) == 40


def test_infer_prints_its_summary_when_the_file_cannot_be_written(
    csim: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    command = ["infer", csim("gaussian"), "1", "--observe", "y=1", "--traces", "40", "--workers", "2", "--quiet"]
    assert main([*command, "--out", str(tmp_path / "post.nc")]) == 1
    said = capsys.readouterr()
    assert "evidence" in said.out and "mu" in said.out and "written to" not in said.out
    assert "post.nc could not be written: the disk is full" in said.err
    assert list(tmp_path.iterdir()) == []
