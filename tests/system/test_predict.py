"""Posterior predictive draws against exact answers, and where they go: trees, files, plots, the command line."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ars
from ars import plots
from ars.prediction import Prediction

Made = tuple[ars.Posterior, Prediction, ars.Traces, np.ndarray]
DATA, NOISE, DRAWS = 2.0, 0.5, 2000
MEAN, VARIANCE = DATA * 0.8, 0.2 + NOISE**2  # of the gaussian's predictive: mu is Normal(0, 1), y Normal(mu, 0.5)


def distance(drawn: np.ndarray) -> tuple[float, float]:
    """Of the mean and the variance from the exact ones, in standard errors."""
    n = len(drawn)
    spread = drawn - drawn.mean()
    error = math.sqrt(((spread**2).var()) / n)
    return (drawn.mean() - MEAN) / math.sqrt(VARIANCE / n), (float((spread**2).mean()) - VARIANCE) / error


@pytest.fixture(scope="module")
def gaussian(csim: Callable[[str], str]) -> Made:
    """Posterior, prediction, prior; and data for latents that were drawn without weights."""
    with ars.Simulator([csim("gaussian")], workers=4) as sim:
        post = sim.posterior({"y": DATA}, 6000, proposals={"mu": ars.Normal(1.0, 1.0)}, seed=1)
        predicted = sim.predict(post, DRAWS, seed=2)
        few, again = (sim.predict(post, 50, seed=5).observations["y"] for _ in range(2))
        prior = sim.prior(DRAWS, seed=3)
    np.testing.assert_array_equal(few, again)
    unweighted = post["mu"][:DRAWS] + np.random.default_rng(4).normal(0.0, NOISE, DRAWS)
    return post, predicted, prior, unweighted


def test_the_predictive_distribution_is_exact(
    gaussian: Made,
) -> None:
    post, predicted, prior, unweighted = gaussian
    y = predicted.observations["y"]
    assert y.shape == (DRAWS,)
    assert max(map(abs, distance(y))) < 4.0
    # the latents are the posterior's, bit for bit, and the data are new
    np.testing.assert_array_equal(predicted["mu"], post["mu"][predicted.rows])
    assert len(np.unique(y)) == DRAWS
    # draws of the prior, or of the proposal without weights, are found out
    assert max(map(abs, distance(prior.observations["y"]))) > 10.0
    assert max(map(abs, distance(unweighted))) > 10.0


def test_trees_and_files_hold_the_draws(gaussian: Made, tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    post, predicted, prior, _ = gaussian
    tree = post.to_datatree(predicted=predicted, prior=prior)
    np.testing.assert_array_equal(tree["posterior_predictive"]["y"].values[0], predicted.observations["y"])
    np.testing.assert_array_equal(tree["prior_predictive"]["y"].values[0], prior.observations["y"])
    assert tree["prior"]["mu"].shape == (1, DRAWS)
    assert tree["observed_data"]["y"].dims == tree["posterior_predictive"]["y"].dims[2:]
    assert "posterior_predictive" not in post.to_datatree().children
    post.save(tmp_path / "a.nc", predicted=predicted)
    with xarray.open_datatree(tmp_path / "a.nc") as read:
        np.testing.assert_array_equal(read["posterior_predictive"]["y"].values[0], predicted.observations["y"])
    np.testing.assert_array_equal(ars.Posterior.load(tmp_path / "a.nc").log_weights(), post.log_weights())


def test_plots_of_predictions(gaussian: Made) -> None:
    _, predicted, prior, _ = gaussian
    axes = plots.predictive(predicted, "y", prior=prior)
    assert len(axes.containers) == 2
    assert axes.lines[-1].get_xdata()[0] == DATA
    with pytest.raises(ValueError, match="2 data, but 1"):
        plots.predictive(predicted, "y", data=[1.0, 2.0])


def test_missing_data_and_vectors_are_predicted(
    csim: Callable[[str], str], started: Callable[..., ars.Simulator]
) -> None:
    sim = started(ars.Simulator([csim("gaussian"), "3"], workers=2))
    post = sim.posterior({"y": [1.0, math.nan, 1.2]}, 500, seed=1)
    predicted = sim.predict(post, 50, seed=1)
    assert predicted.observations["y"].shape == (50, 3) and np.isfinite(predicted.observations["y"]).all()
    assert plots.predictive(predicted, "y").lines[-1].get_ydata().shape == (3,)
    tree = post.to_datatree(predicted=predicted)
    assert tree["posterior_predictive"]["y"].shape == (1, 50, 3)


def test_latents_inside_loops_are_given_and_loops_that_give_up_do_so_again(
    csim: Callable[[str], str], started: Callable[..., ars.Simulator]
) -> None:
    sim = started(ars.Simulator([csim("capped")], workers=2))
    post = sim.posterior({"y": 1.0}, 400, seed=1)
    predicted = sim.predict(post, 200, seed=1)
    assert len(predicted) == 200
    for name in post.latents:
        np.testing.assert_array_equal(predicted[name], post[name][predicted.rows])
    gave_up = post.columns.loops["abandoned"][predicted.rows] > 0
    assert 0 < gave_up.sum() < 200
    np.testing.assert_array_equal(predicted.columns.loops["abandoned"] > 0, gave_up)


def test_nothing_can_be_predicted_without_weight_or_with_another_simulator(
    csim: Callable[[str], str], started: Callable[..., ars.Simulator]
) -> None:
    sim = started(ars.Simulator([csim("gaussian")], workers=2))
    post = sim.posterior({"y": 1.0}, 50, seed=1)
    other = started(ars.Simulator([csim("marsaglia")], workers=2))
    with pytest.raises(ValueError, match="does not draw: mu"):
        other.predict(post, 5, seed=1)
    with pytest.raises(ValueError, match="n "):
        sim.predict(post, 0)
    with pytest.warns(ars.ObservationWarning):
        nothing = sim.posterior({"y": 1e200}, 50, seed=1)
    with pytest.raises(ValueError, match="no trace of the posterior has weight"):
        sim.predict(nothing, 5)


def test_the_command_line_predicts_and_reports(csim: Callable[[str], str], tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    command = ["infer", csim("gaussian"), "1", "--observe", "y=1", "--traces", "500", "--workers", "2", "--quiet"]
    files = ["--out", "a.nc", "--report", "a.html", "--predict", "60", "--seed", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "ars", *command, *files], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith("report: a.html")
    with xarray.open_datatree(tmp_path / "a.nc") as tree:
        assert tree["posterior_predictive"]["y"].shape == (1, 60)
        assert tree["prior"]["mu"].shape == (1, 1000)
    text = (tmp_path / "a.html").read_text()
    assert "ars infer " in text and "--predict 60" in text and "60 data sets were simulated" in text
    wrong = subprocess.run(
        [sys.executable, "-m", "ars", *command, "--report", "a.txt"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert wrong.returncode == 2 and "must end in .html" in wrong.stderr
