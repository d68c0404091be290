from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import pytest
from column_builder import Loop, Sample, Trace, latent, loop_site, observation, pack, result

from ars import plots
from ars.diagnostics import log_evidence
from ars.errors import NaiveVarianceWarning, WeightError
from ars.posterior import Posterior, RunInfo, Traces

X, Z, Y, MU, VEC, LOOP = range(6)
SITES = [
    latent(X, "x"),
    latent(Z, "until/z"),
    observation(Y, "y"),
    result(MU, "mu"),
    result(VEC, "momentum"),
    loop_site(LOOP, "until"),
]
RUN = RunInfo(seed=7, runs_p=2, tries_q=10, in_loops="proposal", on_failure="zero", simulator=("./sim", "3"))
STATS = {"snapshots": 3, "rewinds": 4, "forks": 5, "seconds": 0.5, "requests": 12, "steps_messages": 4}


def loop(accepted: int, rejected_ratio: float = 0.0, s_pq: float = 0.5) -> Loop:
    return Loop(
        LOOP,
        tries_q=10,
        accepted_q=accepted,
        runs_p=2,
        tries_p=6,
        log_ratio_rejected=rejected_ratio,
        s_pq_sum=10 * s_pq,
    )


TRACES = [
    Trace(
        0,
        0.5,
        samples=[Sample(X, 1.0, log_p=-1.0, log_q=-2.0), Sample(X, 4.0, instance=1), Sample(Z, 7.0, loop=0)],
        observes=[(Y, []), (Y, [])],  # as under a controller: the data that was given is not sent back
        results=[(MU, [10.0]), (VEC, [1.0, 2.0])],
        loops=[loop(5, rejected_ratio=-0.25)],
    ),
    Trace(1, failure=1, text="segmentation fault in the tracker"),
    Trace(
        2,
        -1.0,
        samples=[Sample(X, 3.0), Sample(Z, 8.0, loop=0)],
        observes=[(Y, []), (Y, [])],  # as under a controller: the data that was given is not sent back
        results=[(MU, [30.0]), (VEC, [3.0, 4.0])],
        loops=[loop(10)],
    ),
    Trace(3, failure=3, text="took too long"),
]


def posterior(traces: list[Trace] = TRACES, **changes: object) -> Posterior:
    run = RUN._replace(**changes)  # type: ignore[arg-type]
    return Posterior(pack(traces), SITES, run=run, stats=STATS, observed={"y": np.array([0.25, 0.75])})


ARS = np.array([0.5 + 1.0 + math.log(5 * 3 / 10), -math.inf, -1.0 + math.log(10 * 3 / 10), -math.inf])


def test_weights_of_each_method() -> None:
    post = posterior()
    np.testing.assert_allclose(post.log_weights(), ARS)
    np.testing.assert_allclose(post.log_weights("ars"), ARS)
    np.testing.assert_allclose(post.log_weights("ic"), [1.25, -math.inf, -1.0, -math.inf])
    np.testing.assert_allclose(post.log_weights("biased"), [1.5, -math.inf, -1.0, -math.inf])
    np.testing.assert_allclose(
        post.log_weights("collapsed", pA={"until": 0.5}, qA={"until": lambda t: t["x[0]"] / 4}),
        [1.5 + math.log(0.5), -math.inf, -1.0 + math.log(1.5), -math.inf],
    )
    with pytest.raises(WeightError, match=r'not an array of shape \(2, 2\)\. A latent with several .*"x\[0\]"'):
        post.log_weights("collapsed", pA={"until": 0.5}, qA={"until": lambda t: t["x"] / 4})
    with pytest.raises(WeightError, match="in_loops"):
        post.log_weights("prior")
    with pytest.raises(ValueError, match='"naive" is not a weighting; use one of "ars", "ic"'):
        post.log_weights("naive")
    with pytest.raises(TypeError, match="need pA= and qA="):
        post.log_weights("collapsed")
    with pytest.raises(TypeError, match='not for "ars"'):
        post.log_weights("ars", pA={}, qA={})


def test_failed_traces_follow_the_policy() -> None:
    zero, skip = posterior(), posterior(on_failure="skip")
    assert len(zero) == 4
    assert len(skip) == 2
    assert skip.trace_numbers.tolist() == [0, 2]
    assert zero.log_evidence().evidence == pytest.approx(skip.log_evidence().evidence / 2)
    for post in (zero, skip, posterior(on_failure="raise")):
        assert dict(post.failures) == {"crash": 1, "timeout": 1}
        assert [(e.trace, e.kind, e.text) for e in post.failures.examples] == [
            (1, "crash", "segmentation fault in the tracker"),
            (3, "timeout", "took too long"),
        ]
        assert post.failures
    assert not posterior([TRACES[0]]).failures
    assert len(Traces(pack(TRACES), SITES, run=RUN, stats={})) == 2, "a failed trace of the prior has no values"


def test_diagnostics_are_those_of_the_weights() -> None:
    post = posterior()
    assert post.log_evidence("biased") == log_evidence(post.log_weights("biased"))
    w = np.exp(ARS)
    assert post.ess() == pytest.approx(w.sum() ** 2 / (w**2).sum())
    assert post.mean("mu") == pytest.approx((10 * w[0] + 30 * w[2]) / (w[0] + w[2]))
    np.testing.assert_allclose(
        post.mean("momentum"), (w[0] * np.array([1.0, 2.0]) + w[2] * np.array([3.0, 4.0])) / w.sum()
    )
    assert post.quantile("mu", 0.5) == 10.0
    np.testing.assert_array_equal(post.quantile("mu", [0.5, 1.0]), [10.0, 30.0])
    np.testing.assert_array_equal(post.quantile("momentum", [0.5, 1.0]), [[1.0, 3.0], [2.0, 4.0]])
    assert set(post.resample(100).tolist()) == {0, 2}
    assert math.isnan(post.pareto_k())
    assert post.k_converge() is None


def test_values_by_name() -> None:
    post = posterior(on_failure="skip")
    np.testing.assert_array_equal(post["x"], [[1.0, 4.0], [3.0, math.nan]])
    assert post["x", 0].tolist() == [1.0, 3.0]
    np.testing.assert_array_equal(post["x", 1], [4.0, math.nan])
    np.testing.assert_array_equal(post["x[1]"], post["x", 1])
    assert post["z"].tolist() == post["until/z"].tolist() == [7.0, 8.0]
    assert post["momentum"].tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert post.observations["y"].tolist() == [[0.25, 0.75]] * 2
    assert list(post) == ["mu", "momentum", "x", "z"]
    assert dict(post.results).keys() == {"mu", "momentum"}
    assert "x" in post
    assert "until" not in post
    assert "missing" not in post
    with pytest.raises(KeyError, match='"missing" was not recorded'):
        post["missing"]


def test_a_prior_run_weighs_by_prior() -> None:
    traces = [Trace(0, 0.5, loops=[Loop(LOOP, tries=4)]), Trace(1, 0.25)]
    post = posterior(traces, in_loops="prior", runs_p=None, tries_q=None)
    assert (
        post.log_weights().tolist()
        == post.log_weights("prior").tolist()
        == post.log_weights("ic").tolist()
        == [0.5, 0.25]
    )
    with pytest.raises(WeightError, match='did not make for "until"'):
        post.log_weights("ars")
    assert "prior: evidence" in post.summary()


def test_the_warning_names_the_loop_and_the_remedy() -> None:
    bad = posterior([Trace(i, loops=[loop(5, s_pq=3.0)]) for i in range(50)])
    with pytest.warns(NaiveVarianceWarning, match=r'loop "until" has S_pq = 3 .*infinite variance.*Use "ars"'):
        bad.log_weights("ic")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bad.log_evidence("ars")
        bad.summary()
        posterior([Trace(i, loops=[loop(5, s_pq=0.3)]) for i in range(50)]).log_weights("ic")


def test_stats_and_summary() -> None:
    post = posterior()
    assert post.stats["continuations"] == 9
    assert post.stats["traces_per_second"] == 8.0
    assert post.stats["requests_per_message"] == 3.0
    text = repr(post)
    assert "Posterior of ./sim 3: 4 traces, 8 per second" in text
    for word in ("ars: evidence", "ic: evidence", "biased: evidence", "until", "2 failed traces", "too few"):
        assert word in text, word
    assert "0 traces" in repr(posterior([]))
    prior = Traces(pack(TRACES[:1]), SITES, run=RUN, stats={})
    assert repr(prior) == "Traces of ./sim 3: 1 traces\nlatents: x, z\nresults: mu, momentum\nobservations: y"


def test_plots_draw_what_they_are_given(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=2000)
    traces = [Trace(i, v / 2 - 0.125, samples=[Sample(X, v)], results=[(VEC, [0.0, 1.0])]) for i, v in enumerate(x)]
    post = posterior(traces)
    axes = plots.plot_posterior(post, "x", prior=Traces(pack(traces), SITES, run=RUN, stats={}), exact=([0.0], [0.4]))
    heights = [patch.get_height() * patch.get_width() for patch in axes.containers[-1]]
    centres = [patch.get_x() + patch.get_width() / 2 for patch in axes.containers[-1]]
    assert sum(heights) == pytest.approx(1.0, abs=0.002)  # the range that is shown holds 99.8% of the weight or more
    assert np.dot(heights, centres) == pytest.approx(float(post.mean("x")), abs=0.05)
    axes.figure.savefig(tmp_path / "posterior.png")
    with pytest.raises(ValueError, match=r"2 numbers per trace: plot .* such as \"momentum\[0\]\""):
        plots.plot_posterior(post, "momentum")
    twice = Traces(pack([Trace(0, samples=[Sample(X, 1.0), Sample(X, 2.0, 1)])]), SITES, run=RUN, stats={})
    with pytest.raises(ValueError, match="2 numbers per trace"):
        plots.plot_posterior(post, "x", prior=twice)
    axes = plots.plot_evidence({"M = 2": post}, ("ars", "biased"), exact=1.0)
    assert [line.get_label() for line in axes.lines] == ["ars M = 2", "biased M = 2", "exact"]
    assert axes.lines[0].get_ydata()[-1] == pytest.approx(post.log_evidence().evidence)
    axes.figure.savefig(tmp_path / "evidence.png")
    assert (tmp_path / "evidence.png").stat().st_size > 1000
