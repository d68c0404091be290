"""The parts of ``ars reproduce`` that need no simulator: thinning, stages, exact answers, curves, tables."""

from __future__ import annotations

import csv
import json
import math
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from column_builder import Loop, Sample, Trace, latent, loop_site, pack
from scipy import stats
from tests import exact

from ars import diagnostics
from ars.posterior import Posterior, RunInfo
from ars_lab.reproduce import convergence, reference, tables
from ars_lab.reproduce.events import deposits
from ars_lab.reproduce.exact import BetaBernoulli, marsaglia_evidence
from ars_lab.reproduce.mini_sherpa import Event
from ars_lab.reproduce.paper import PAPER
from ars_lab.reproduce.records import pack as pack_record
from ars_lab.reproduce.records import unpack
from ars_lab.reproduce.settings import SIZES, settings_for
from ars_lab.reproduce.thinning import first_of_sum, thin
from ars_lab.reproduce.workspace import Workspace

# ---- thinning --------------------------------------------------------------------------------------------------------


def compositions(total: int, parts: int) -> list[tuple[int, ...]]:
    found = []
    for cuts in combinations(range(1, total), parts - 1):
        ends = (0, *cuts, total)
        found.append(tuple(b - a for a, b in pairwise(ends)))
    return found


@pytest.mark.parametrize(("total", "parts", "first"), [(7, 3, 1), (7, 3, 2), (9, 4, 2), (5, 5, 3), (12, 2, 1)])
def test_the_first_of_a_sum_is_any_composition_equally_likely(total: int, parts: int, first: int) -> None:
    n = 40_000
    drawn = first_of_sum(np.full(n, total), parts, first, np.random.default_rng(1))
    exact = np.bincount([sum(c[:first]) for c in compositions(total, parts)], minlength=total + 1)
    seen = np.bincount(drawn, minlength=total + 1)
    assert not seen[exact == 0].any()
    there = exact > 0
    expected = n * exact[there] / exact.sum()
    assert there.sum() == 1 or stats.chisquare(seen[there], expected).pvalue > 1e-4


@pytest.mark.parametrize("p", [0.15, 0.7])
@pytest.mark.parametrize("M", [1, 2])
def test_a_thinned_run_is_distributed_as_one_with_the_smaller_budget(p: float, M: int) -> None:
    """And is independent of the sum that it came from only as far as it should be: its mean is M/10 of it."""
    rng = np.random.default_rng(3)
    totals = rng.geometric(p, size=(30_000, 10)).sum(axis=1)
    drawn = first_of_sum(totals, 10, M, rng)
    assert abs(drawn.mean() - M / p) < 4 * math.sqrt(M * (1 - p)) / p / math.sqrt(30_000)
    spread = drawn.var() / (M * (1 - p) / p**2)
    assert abs(spread - 1) < 0.06
    direct = rng.geometric(p, size=(30_000, M)).sum(axis=1)
    top = int(np.quantile(direct, 0.99))
    counts = np.stack([np.bincount(np.minimum(x, top), minlength=top + 1) for x in (drawn, direct)])
    assert stats.chi2_contingency(counts[:, counts.sum(axis=0) > 10]).pvalue > 1e-4


def test_thinning_takes_less_and_never_more() -> None:
    columns = pack([Trace(i, loops=[Loop(0, runs_p=10, tries_p=15 + i, tries_q=10)]) for i in range(20)])
    thinned = thin(columns, 2, 1)
    assert (thinned.loops["runs_p"] == 2).all() and (thinned.loops["tries_p"] >= 2).all()
    assert (columns.loops["runs_p"] == 10).all()
    assert (thin(columns, 10, 1).loops["tries_p"] == columns.loops["tries_p"]).all()
    assert (thin(columns, 2, 1).loops["tries_p"] == thinned.loops["tries_p"]).all()
    with pytest.raises(ValueError, match="at least 2"):
        thin(thin(columns, 1, 1), 2, 1)


# ---- stages ----------------------------------------------------------------------------------------------------------


def test_a_stage_is_made_once_for_the_same_settings_and_seed(tmp_path: Path) -> None:
    made: list[int] = []

    def make(seed: int) -> dict[str, Any]:
        made.append(seed)
        return {"x": np.arange(3) + len(made)}

    def stage(seed: int, resume: bool = True, **settings: int) -> list[int]:
        return list(Workspace(tmp_path, seed, resume=resume).arrays("a/b", settings, make)["x"])

    first = stage(1, traces=5)
    assert stage(1, traces=5) == first and len(made) == 1
    assert stage(1, traces=6) != first and len(made) == 2
    assert stage(2, traces=6) != first and len(made) == 3 and made[2] != made[1]
    assert stage(2, resume=False, traces=6) and len(made) == 4
    assert not [p for p in (tmp_path / "stages" / "a").iterdir() if p.name.startswith(".")]


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b[:0], lambda b: b[:-40] + b"x" * 40])
def test_a_damaged_stage_is_made_anew(tmp_path: Path, damage: Any) -> None:
    def make(seed: int) -> Any:
        del seed
        return {"answer": [1, 2.5, None]}

    work = Workspace(tmp_path, 1)
    assert work.json("s", {}, make) == make(0)
    path = work.path("s")
    path.write_bytes(damage(path.read_bytes()))
    assert work.json("s", {}, make) == make(0)
    assert (work.made, work.kept) == (2, 0)
    assert work.json("s", {}, make) == make(0) and work.kept == 1


def test_a_stage_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def make(seed: int) -> Any:
        del seed
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Workspace(tmp_path, 1).arrays("s", {}, make)
    assert not list(tmp_path.rglob("*s*.npz"))


def test_a_record_has_the_weights_of_its_run() -> None:
    rng = np.random.default_rng(1)
    columns = pack(
        [
            Trace(
                i,
                log_likelihood=float(rng.normal()),
                samples=[Sample(1, 0.5, log_p=float(rng.normal()))],
                loops=[
                    Loop(
                        0,
                        tries=2,
                        log_ratio_rejected=0.1,
                        tries_q=10,
                        accepted_q=1 + i % 9,
                        runs_p=10,
                        tries_p=12 + i % 5,
                    )
                ]
                * (i % 3),
            )
            for i in range(30)
        ]
    )
    info = RunInfo(5, 10, 10, "proposal", "raise", ("sim", "1"))
    post = Posterior(
        columns, [loop_site(0, "draw"), latent(1, "x")], run=info, stats={"seconds": 2.0}, observed={"y": np.zeros(2)}
    )
    back = unpack(pack_record(post))
    for method in ("ars", "ic", "biased"):
        assert (back.log_weights(method) == post.log_weights(method)).all()
    assert back.run == info and back.loops["draw"] == post.loops["draw"]


# ---- exact answers, curves, tables -----------------------------------------------------------------------------------


def test_exact_answers_are_those_of_the_notes() -> None:
    assert marsaglia_evidence(0.0) == pytest.approx(1.122592413520931, rel=1e-12)
    assert marsaglia_evidence(-1.0) == pytest.approx(0.6825825736135941, rel=1e-12)
    table = {1: (0.8, 0.8333, 0.6098, 0.6969, 0.7868), 30: (0.2151, 0.5459, 0.3000, 0.3428, 0.3871)}
    for n, (q, *shares) in table.items():
        case = BetaBernoulli("a", n)
        assert case.q_accept == pytest.approx(q, abs=5e-5)
        for method, share in zip(("collapsed", "ars-1", "ars-2", "ars-10"), shares, strict=True):
            assert case.ess_share(method) == pytest.approx(share, abs=1e-4)


@pytest.mark.parametrize("setting", ["a", "b"])
@pytest.mark.parametrize("n", [1, 12])
def test_exact_shares_are_those_of_draws(setting: str, n: int) -> None:
    """Weights drawn here, with no simulator: the collapsed ones, and the noise of K and T."""
    case, size = BetaBernoulli(setting, n), 400_000
    rng = np.random.default_rng(1)
    x = rng.beta(case.alpha + n, case.alpha, size)
    accepted_share = case.bound(x) if setting == "a" else 0.99 + 0.01 * case.bound(x)
    x = x[rng.random(size) < accepted_share]
    assert abs(len(x) / size - case.q_accept) < 4 * math.sqrt(case.q_accept / size)
    shape = stats.beta(case.alpha + n, case.alpha).pdf(x)
    given = case.bound(x) if setting == "a" else 0.99 + 0.01 * case.bound(x)
    w = x**n * stats.beta(case.alpha, case.alpha).pdf(x) / (shape * given / case.q_accept)
    assert abs(w.mean() - case.evidence) < 4 * w.std() / math.sqrt(len(w))
    assert w.mean() ** 2 / (w**2).mean() == pytest.approx(case.ess_share("collapsed"), rel=0.06)
    noisy = w * rng.binomial(10, case.q_accept, len(w)) * rng.geometric(case.p_accept, len(w))
    assert noisy.mean() ** 2 / (noisy**2).mean() == pytest.approx(case.ess_share("ars-1"), rel=0.06)
    prior = rng.beta(case.alpha, case.alpha, size) ** n
    assert prior.mean() ** 2 / (prior**2).mean() == pytest.approx(case.ess_share("prior"), rel=0.05)


def test_the_reference_of_mini_sherpa_is_its_likelihood() -> None:
    """The means of the counts against another writing of the model, and the picture's against both."""
    rng = np.random.default_rng(4)
    for channel in (1, 2, 3):
        u = rng.random((1, 3 + 2 * (channel - 1)))
        momentum, thetas, phis = (x[0] for x in reference._decay(u, channel)[:3])
        mean = exact.mini_sherpa_mean(momentum, thetas, phis)
        event = Event(channel, momentum, thetas, phis, np.zeros(400))
        assert deposits(event).ravel() == pytest.approx(mean, rel=1e-9, abs=1e-12)
        counts = rng.normal(mean, np.maximum(np.sqrt(mean), 0.3))
        truth = stats.norm(mean, np.maximum(np.sqrt(mean), 0.3)).logpdf(counts).sum()
        assert reference.log_likelihood(u, channel, counts)[0] == pytest.approx(truth, rel=1e-10)


def test_the_reference_of_mini_sherpa_has_its_prior() -> None:
    """Whatever momentum and first particle came before, theta has the density 2x / s^2 of |x| and phi is uniform."""
    u = np.random.default_rng(4).random((20_000, 7))
    decay = reference._decay(u, 3)
    before = decay.momentum[:, 0], decay.particles[0][:, 0]
    for i in range(2):
        for half in (before[i] < np.median(before[i]), before[i] >= np.median(before[i])):
            assert stats.kstest(decay.thetas[half, i], lambda x: np.square(x / (math.pi / 4))).pvalue > 1e-3
            assert stats.kstest(decay.phis[half, i], stats.uniform(0, 2 * math.pi).cdf).pvalue > 1e-3
    # (-theta, phi) is the same decay as (theta, phi + pi), which is why positive angles are enough
    for theta, phi in zip(decay.thetas[:10], decay.phis[:10], strict=True):
        same = exact.mini_sherpa_mean([0.1, -0.2, 14.0], -theta, phi + math.pi)
        assert same == pytest.approx(exact.mini_sherpa_mean([0.1, -0.2, 14.0], theta, phi), rel=1e-9, abs=1e-12)


def test_the_reference_of_mini_sherpa_is_the_mean_likelihood() -> None:
    """One particle: plain Monte Carlo over the momentum does as well."""
    rng = np.random.default_rng(5)
    mean = exact.mini_sherpa_mean([0.1, -0.2, 14.0], [], [])
    counts = rng.normal(mean, np.maximum(np.sqrt(mean), 0.3))
    logs = reference.log_likelihood(rng.random((4000, 3)), 1, counts)
    plain = np.exp(logs - logs.max())
    found = reference.channel_evidence(1, counts, 4000, np.random.default_rng(6))
    error = math.hypot(found.error, plain.std() / plain.mean() / math.sqrt(4000))
    assert abs(found.log_evidence - (logs.max() + math.log(plain.mean()))) < 4 * error


@pytest.mark.slow
def test_the_reference_of_mini_sherpa_finds_every_order_of_the_particles() -> None:
    """Three particles: points from the whole cube, which can miss nothing, agree with those around the modes."""
    rng = np.random.default_rng(7)
    # close to each other and of little energy, so that points from the whole cube have something to say
    mean = exact.mini_sherpa_mean([0.2, 0.1, 10.5], [0.35, 0.3], [1.0, 4.0])
    counts = rng.normal(mean, np.maximum(np.sqrt(mean), 0.3))
    logs = np.concatenate([reference.log_likelihood(rng.random((4000, 7)), 3, counts) for _ in range(40)])
    plain = diagnostics.log_evidence(logs)
    found = [reference.channel_evidence(3, counts, 32_000, np.random.default_rng(seed)) for seed in (1, 2)]
    for each in found:
        assert abs(each.log_evidence - plain.log_estimate) < 4 * math.hypot(each.error, plain.relative_error)
        assert each.error < 0.1 and plain.relative_error < 0.1
    assert abs(found[0].log_evidence - found[1].log_evidence) < 4 * math.hypot(found[0].error, found[1].error)


def test_final_numbers_of_equal_weights_and_of_a_known_spread() -> None:
    rng = np.random.default_rng(2)
    runs = [np.log(rng.exponential(2.0, 4000)) for _ in range(40)]
    found = convergence.final(runs, math.log(2.0), logarithmic=False, orderings=5)
    assert abs(found.bias) < 4 * found.bias_error
    assert found.bias_error == pytest.approx(2.0 / math.sqrt(160_000), rel=0.4)
    assert abs(found.ess - 0.5) < 0.01  # E[w]^2 / E[w^2]
    in_logs = convergence.final(runs, math.log(2.0), logarithmic=True, truth_error=1.0, orderings=5)
    assert in_logs.bias == pytest.approx(found.bias / 2.0, abs=1e-3) and in_logs.bias_error >= 1.0
    flat = convergence.final([np.zeros(500)] * 2, 0.0, logarithmic=False, orderings=2)
    assert (flat.bias, flat.ess, flat.k_converge) == (0.0, 1.0, [101, 101])
    curve = convergence.curves(runs[:3])
    assert curve.at[-1] == 4000 and curve.ess.shape == (3, len(curve.at))
    assert curve.ess[1, -1] == pytest.approx(convergence.final(runs[1:2], 0.0, logarithmic=False, orderings=1).ess)


def test_the_comparison_says_how_far_ours_is_from_the_papers(tmp_path: Path) -> None:
    ours = convergence.Final(0.1, -0.2, 0.01, 0.05, 900.0, 0.15, 0.005, [100, None, 300], 0.3)
    (row,) = tables.comparison("marsaglia-a", {"ars-10": ours})
    assert row["paper_bias"] == pytest.approx(-14e-4) and row["paper_ess"] == pytest.approx(0.075)
    assert row["bias_minus_paper_in_errors"] == pytest.approx((-0.2 + 14e-4) / 0.01)
    assert row["ess_over_paper"] == pytest.approx(2.0) and row["k_converge_median"] == 300
    assert tables.comparison("marsaglia-b", {"ars-10": ours})[0]["paper_ess"] is None
    tables.write_rows(tmp_path, "table", [row, {**row, "bias": math.nan}])
    assert [r["bias"] for r in json.loads((tmp_path / "table.json").read_text())] == [-0.2, None]
    with (tmp_path / "table.csv").open() as file:
        assert [r["bias"] for r in csv.DictReader(file)] == ["-0.2", ""]
    assert "1 of 3 not" in tables.comparison_markdown([row])


def test_settings() -> None:
    assert [settings_for(size).size for size in SIZES] == list(SIZES)
    assert settings_for("full").with_runs(7, None).mini_sherpa.runs.repeats == 7
    assert set(PAPER) == {"marsaglia-a", "marsaglia-b", "mini-sherpa-1", "mini-sherpa-2", "mini-sherpa-3"}
    with pytest.raises(ValueError, match="tiny, quick, full"):
        settings_for("huge")
