"""Errors that are true when few traces count: NaN with the reason, warnings, and errors of quantiles."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Sequence

import numpy as np
import pytest
from column_builder import Sample, Trace, latent, pack, result
from scipy import stats

import ars
from ars import diagnostics as d
from ars.cli.show import missed_requirements
from ars.posterior import Posterior, RunInfo
from ars.results import specific
from ars.results.assessment import RunDiagnostics, assess_value, assess_weighting, warnings_of

SITES = [latent(0, "x"), result(1, "r"), result(2, "pair")]
RUN = RunInfo(seed=3, runs_p=1, tries_q=10, in_loops="proposal", on_failure="zero", simulator=("./sim",))


def posterior(x: Sequence[float] | np.ndarray, log_weights: Sequence[float] | np.ndarray) -> Posterior:
    traces = [
        Trace(i, float(weight), samples=[Sample(0, float(at))], results=[(1, [float(at)]), (2, [float(at), 2.0])])
        for i, (at, weight) in enumerate(zip(x, log_weights, strict=True))
    ]
    return Posterior(pack(traces), SITES, run=RUN, stats={}, observed={})


def trusted(n: int = 2000, seed: int = 1) -> Posterior:
    """Proposed from N(0, 1.5), target N(0.5, 1): weights that are bounded."""
    x = 1.5 * np.random.default_rng(seed).normal(size=n)
    return posterior(x, -0.5 * (x - 0.5) ** 2 + x**2 / 4.5)


# ---- fewer than two effective traces -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "log_weights"),
    [([0.3], [0.0]), ([0.3, 0.4, 0.1], [0.0, -2.4, -9.0]), ([0.1, 0.2, 0.9], [-1e5, -1e5 - 800, -math.inf])],
    ids=["one trace", "one large weight", "one weight that counts"],
)
def test_no_error_without_two_effective_traces(x: list[float], log_weights: list[float]) -> None:
    post = posterior(x, log_weights)
    assert post.ess() < 2.0
    for estimate in (lambda: post.mean_error("x"), lambda: post.quantile_error("x", 0.5)):
        with pytest.warns(ars.FewTracesWarning, match=r"x: 1\.\d effective traces are too few for a standard error"):
            assert math.isnan(estimate())
    evidence = post.log_evidence()
    assert math.isnan(evidence.standard_error) and math.isnan(evidence.relative_error)
    assert "effective traces are too few" in str(evidence.reason)
    assert math.isnan(evidence.distance(1.0))
    found = post.diagnostics()["ars"]
    assert math.isnan(found.log_evidence_error) and found.error_reason == evidence.reason
    assert all(math.isnan(value.mean_error) and value.error_reason == evidence.reason for value in found.values)
    text = post.summary()
    assert "s.e. unknown" in text and "too few" in text and "Pareto k is unknown" in text


def test_one_number_of_effective_traces_for_one_run() -> None:
    """A line and its warning, or a requirement and what misses it, do not contradict each other by rounding."""
    log_weights = [0.0] * 10 + [0.05]
    effective = d.ess(log_weights)
    assert effective < 11.0 and f"{effective:.1f}" == "11.0"
    weighting = assess_weighting("ars", np.array(log_weights), {}, ())
    assert "; 10.9 effective traces" in weighting.line()
    run = RunDiagnostics(("./sim",), 1, 11, {}, "ars", (weighting,))
    assert missed_requirements(run, 11.0, None) == ["10.9 effective traces, but --require-ess 11"]
    assert d.shown_ess(d.ess([0.0, 0.0])) == "2.0"
    shown = {1.99: "1.9", 99.99: "99.9", 100.0: "100", 199.9: "199", 12_345.6: "12,345"}
    assert {number: d.shown_ess(number) for number in shown} == shown
    assert str(d.pareto_k([0.0]).reason).startswith("1 weight is too few")


def test_two_equal_traces_are_two() -> None:
    assert d.weighted_mean_error([1.0, 3.0], [0.1, 0.1]) == pytest.approx(math.sqrt(0.5))
    assert d.log_evidence([0.1, 0.1]).relative_error == 0.0


def test_an_error_from_few_traces_comes_with_a_warning() -> None:
    post = posterior(np.arange(5.0), np.zeros(5))
    with pytest.warns(ars.FewTracesWarning, match=r"pair\[0\].*only 3\.6 effective traces"):
        assert np.isfinite(post.mean_error("pair")).all()


def test_a_vector_gets_one_warning() -> None:
    post = posterior(np.arange(5.0), [0.0, -50.0, -50.0, -50.0, -50.0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        post.mean_error("pair")
    assert len(caught) == 1 and "(and 1 more elements)" in str(caught[0].message)


def test_weights_that_can_be_trusted_warn_of_nothing() -> None:
    """Bounded weights, equal weights, and weights most of which tie for the largest: no false alarm."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=1000)
    for post in (trusted(), posterior(x, np.zeros(1000)), posterior(x, np.log(np.where(x > 0.0, 2.0, 1.0)))):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            post.mean_error("x")
            post.quantile_error("x", [0.1, 0.5])
        found = post.diagnostics()["ars"]
        assert found.trusted and not any(value.warnings for value in found.values)
        assert "!" not in post.summary() and "unknown" not in post.summary()


def test_a_tail_that_is_unknown_is_not_trusted() -> None:
    """Few traces; nearly all weights 0; a few large weights among many that tie."""
    huge = np.zeros(1000)
    huge[:3] = 10.0
    lonely = np.full(1000, -math.inf)
    lonely[:4] = 0.0
    for log_weights in (np.zeros(15), huge, lonely):
        post = posterior(np.linspace(0.0, 1.0, len(log_weights)), log_weights)
        assert post.pareto_k().unknown and not post.pareto_k().reliable
        assert "Pareto k is unknown" in post.summary() and "do not trust" in post.summary()
        assert any("unknown" in warning for warning in post.diagnostics()["ars"].warnings)


def test_a_heavy_tail_is_not_trusted() -> None:
    post = posterior(np.linspace(0.0, 1.0, 3000), 1.2 * np.random.default_rng(5).exponential(size=3000))
    assert post.pareto_k() > 0.7
    assert "too large" in post.summary() and "do not trust" in post.summary()
    with pytest.warns(ars.FewTracesWarning, match="Pareto k"):
        post.mean_error("x")


def test_equal_weights_have_no_tail() -> None:
    for weights in (np.zeros(1000), np.where(np.arange(1000) < 500, 0.0, -1.0)):
        k = d.pareto_k(weights)
        assert k == -math.inf and k.reliable and not k.unknown and "no tail" in str(k.reason)


# ---- evidences that a double cannot hold -------------------------------------------------------------------


@pytest.mark.parametrize("shift", [-1e5, 1e5, 0.0])
def test_log_evidence_at_full_resolution(shift: float) -> None:
    rng = np.random.default_rng(8)
    log_weights = rng.normal(0.0, 0.5, 2000)
    post = posterior(rng.normal(size=2000), log_weights + shift)
    evidence, plain = post.log_evidence(), d.log_evidence(log_weights)
    assert evidence.log_estimate == pytest.approx(plain.log_estimate + shift, abs=1e-9)
    assert evidence.relative_error == pytest.approx(plain.relative_error, rel=1e-6)
    # the exact evidence is exp(0.125 + shift): the distance is that of the unshifted weights
    assert evidence.distance(log_exact=0.125 + shift) == pytest.approx(plain.distance(math.exp(0.125)), abs=1e-5)
    assert abs(evidence.distance(log_exact=0.125 + shift)) < 4
    line = post.summary().splitlines()[1]
    assert f"(log {evidence.log_estimate:.3f}, s.e. {evidence.relative_error:.2g})" in line
    assert "evidence 0," not in line and "s.e. 0 " not in line and "inf" not in line
    found = post.diagnostics()["ars"]
    assert found.log_evidence == evidence.log_estimate and found.log_evidence_error == evidence.relative_error
    assert math.isnan(found.evidence) == math.isnan(found.evidence_error) == (shift != 0.0)


def test_distance_does_not_divide_by_zero() -> None:
    flat = d.log_evidence(np.zeros(100))
    assert (flat.distance(1.0), flat.distance(0.5), flat.distance(2.0)) == (0.0, math.inf, -math.inf)
    tiny = d.log_evidence(-1e5 - 0.1 * np.arange(10.0))
    assert tiny.distance(0.0) == pytest.approx(1.0 / tiny.relative_error)
    assert tiny.distance(1.0) == -math.inf
    assert math.isnan(d.log_evidence([-math.inf] * 9).distance(1.0))
    with pytest.raises(TypeError, match="exact or log_exact"):
        flat.distance()


def test_every_weight_zero_is_said() -> None:
    post = posterior([1.0, 2.0], [-math.inf, -math.inf])
    assert post.zero_share() == 1.0
    assert "every weight is 0" in post.summary()
    value = post.diagnostics()["ars"].values[0]
    assert math.isnan(value.mean) and "weight 0" in str(value.error_reason)


# ---- specific to a value -----------------------------------------------------------------------------------


def test_specific_diagnostics_by_hand() -> None:
    x, w = np.array([1.0, 2.0, 6.0, math.nan]), np.array([1.0, 2.0, 1.0, 5.0])
    terms = np.abs(x[:3] - 11 / 4) * w[:3]
    assert specific.specific_ess(x, np.log(w)) == pytest.approx(terms.sum() ** 2 / (terms**2).sum())
    assert specific.specific_ess(x + 100.0, np.log(w)) == pytest.approx(specific.specific_ess(x, np.log(w)))
    assert specific.specific_ess([3.0, 3.0], [0.0, 0.0]) == 2.0, "a constant: all that can go wrong is the weights"
    assert specific.specific_ess([math.nan], [0.0]) == 0.0


def test_a_value_may_have_a_heavy_tail_though_the_weights_have_none() -> None:
    """Equal weights, values with a Cauchy-like tail: the mean does not exist, and only the specific k shows it."""
    x = np.exp(1.1 * np.random.default_rng(2).exponential(size=4000))
    post = posterior(x, np.zeros(4000))
    assert post.pareto_k() == -math.inf
    assert post.pareto_k(of="x") > 0.7
    assert post.ess(of="x") < 0.2 * post.ess()
    assert any("too large" in warning for warning in post.diagnostics()["ars"].values[0].warnings)


def test_a_rare_outcome_has_few_traces_of_its_own() -> None:
    x = np.zeros(5000)
    x[:2] = 1.0
    found = assess_value("rare", "result", x, np.zeros(5000), (0.5,))
    assert found.ess == pytest.approx(5000.0) and found.specific_ess < 10.0
    assert "determine this mean" in found.warnings[0]
    common = assess_value("common", "result", (np.arange(5000) % 3 == 0).astype(float), np.zeros(5000), (0.5,))
    assert not common.warnings


def test_a_late_large_outcome_is_not_overlooked() -> None:
    """Two outcomes for a long time, then a heavy tail."""
    x = np.concatenate([np.arange(2000) % 2, np.exp(1.3 * np.random.default_rng(6).exponential(size=400))])
    assert specific.specific_pareto_k(x.astype(float), np.zeros(2400)) > 0.7
    assert specific.specific_pareto_k(x[:2000].astype(float), np.zeros(2000)) == -math.inf


def test_values_of_vectors_are_assessed_one_by_one() -> None:
    post = trusted()
    assert np.shape(post.ess(of="pair")) == np.shape(post.pareto_k(of="pair")) == (2,)
    names = [value.name for value in post.diagnostics()["ars"].values]
    assert names == ["r", "pair[0]", "pair[1]", "x"]
    assert np.shape(post.quantile_error("pair", [0.1, 0.5, 0.9])) == np.shape(post.quantile("pair", [0.1, 0.5, 0.9]))
    assert isinstance(post.quantile_error("x", 0.5), float)
    with pytest.raises(ValueError, match="between 0 and 1"):
        post.quantile_error("x", 1.5)


# ---- quantiles ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("q", [0.05, 0.5, 0.9])
def test_quantile_errors_cover_the_exact_quantile(q: float) -> None:
    """Against the exact quantiles of the target: distances in standard errors are those of a normal variable."""
    rng = np.random.default_rng(int(1000 * q))
    exact, runs = stats.norm.ppf(q, 0.5, 1.0), 500
    found, errors = np.empty(runs), np.empty(runs)
    for i in range(runs):
        x = 1.5 * rng.normal(size=600)
        log_weights = -0.5 * (x - 0.5) ** 2 + x**2 / 4.5
        found[i] = d.weighted_quantile(x, q, log_weights)
        ((errors[i], _),) = specific.weighted_quantile_errors(x, [q], log_weights)
    off = found - exact
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(off.std(), rel=0.13)  # 4 standard errors of a spread of 500
    inside = np.mean(np.abs(off) < 1.96 * errors)
    assert 0.90 < inside < 0.985
    if q == 0.05:  # an error that takes all traces for equal is wrong where the weights are small
        assert math.sqrt(q * (1 - q) / 600) / stats.norm.pdf(exact, 0.5, 1.0) > 1.4 * off.std()


def test_quantiles_without_an_error_say_why() -> None:
    x = np.arange(30.0)
    for q, reason in ((0.0, "smallest"), (1.0, "largest"), (0.01, "beyond the 0.01 quantile")):
        ((error, why),) = specific.weighted_quantile_errors(x, [q], np.zeros(30))
        assert math.isnan(error) and reason in str(why)
    assert specific.weighted_quantile_errors(x, [0.5], np.zeros(30))[0][1] is None


# ---- report data -------------------------------------------------------------------------------------------


def test_report_data_are_plain_and_complete() -> None:
    post = trusted()
    content = json.loads(json.dumps(post.diagnostics().to_dict(), allow_nan=False))
    assert content["method"] == "ars" and content["traces"] == 2000 and content["seed"] == 3
    assert [weighting["method"] for weighting in content["weightings"]] == ["ars", "ic", "biased"]
    weighting = content["weightings"][0]
    for name in ("log_evidence", "log_evidence_error", "ess", "zero_share", "pareto_k", "warnings", "error_reason"):
        assert name in weighting
    value = weighting["values"][-1]
    assert value["name"] == "x" and value["kind"] == "latent" and value["traces"] == 2000
    assert value["mean"] == post.mean("x") and value["mean_error"] == post.mean_error("x")
    assert value["ess"] == post.ess() and value["specific_ess"] == post.ess(of="x")
    assert value["pareto_k"] == post.pareto_k() and value["specific_pareto_k"] == post.pareto_k(of="x")
    assert [quantile["level"] for quantile in value["quantiles"]] == [0.05, 0.5, 0.95]
    assert [quantile["error"] for quantile in value["quantiles"]] == list(post.quantile_error("x", [0.05, 0.5, 0.95]))


def test_report_data_of_bad_runs_are_json_too() -> None:
    for post in (posterior([], []), posterior([1.0], [0.0]), posterior([1.0, 2.0], [-math.inf] * 2)):
        content = json.loads(json.dumps(post.diagnostics().to_dict(), allow_nan=False))
        assert len(content["weightings"]) == (3 if len(post) else 0)
    with pytest.raises(KeyError, match='"prior" is not assessed here; these are: ars, ic, biased'):
        trusted(50).diagnostics()["prior"]


def test_zero_share() -> None:
    assert posterior([1.0, 2.0, 3.0, 4.0], [0.0, -math.inf, 0.0, 0.0]).zero_share("ars") == 0.25


def test_warnings_name_the_worst_tail_once() -> None:
    heavy, light = d.ParetoK(0.9, threshold=0.7), d.ParetoK(0.1, threshold=0.7)
    assert warnings_of(100.0, light) == ()
    assert len(warnings_of(100.0, light, heavy)) == 1
    assert len(warnings_of(5.0, heavy, heavy)) == 2
