"""50 random programs through the whole system, each against an independent implementation of Definitions 1-3.

Exactly: the reference replays every native trace on its accepted values and computes densities, likelihood, order and
loops anew. Statistically: means over native traces agree with means over the reference's own, in standard errors. And
the same test rejects weights that are wrong on purpose, so that it can fail.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from program_source import to_c_file
from programs import (
    C_FILE,
    KINDS,
    VECTOR_KINDS,
    Branch,
    Call,
    Draw,
    Factor,
    Loop,
    Observe,
    ObserveNormals,
    Program,
    Repeat,
    Result,
    Sample,
    SampleVector,
    Statement,
    inside,
    walk,
)
from proposals import proposals
from random_programs import random_programs
from reference import Key, Table, Traces, infer, infer_loops_prior, score, simulate
from scipy import stats

import ars
from ars._native import SiteKind

SEED = 9
PROGRAMS = 50
M, N = 2, 4
REFERENCE_TRACES = 8_000
FALSE_ALARM = 1e-3  # of the whole module, were the seeds not fixed
ROOT = Path(__file__).resolve().parents[2]

Floats: TypeAlias = npt.NDArray[np.float64]
Array: TypeAlias = npt.NDArray[Any]

# A test alone pays for the generation and the compilation of all programs; the last ones for the runs of all.
pytestmark = [pytest.mark.timeout(600), pytest.mark.slow, pytest.mark.compiler]


# ---- the programs, compiled -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> list[Program]:
    return random_programs(tmp_path_factory, SEED, PROGRAMS)


@pytest.fixture(scope="module")
def executable(programs: list[Program], tmp_path_factory: pytest.TempPathFactory) -> str:
    """All programs in one executable; its argument says which one runs."""
    build = Path(os.environ.get("ARS_BUILD_DIR", ROOT / "build"))
    library = build / "bridge" / "libars.a"
    if not library.exists():
        pytest.fail(f"{library} does not exist; build it (make build) or set ARS_BUILD_DIR", pytrace=False)
    directory = tmp_path_factory.mktemp("random_programs")
    source, target = directory / C_FILE, directory / "random_programs"
    source.write_text(to_c_file(programs), encoding="utf-8")
    compiler = os.environ.get("CC") or shutil.which("cc") or "gcc"
    flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unused"]
    command = [
        compiler,
        *flags,
        f"-I{ROOT / 'bridge' / 'include'}",
        str(source),
        str(library),
        "-lm",
        "-o",
        str(target),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return str(target)


def depth(body: tuple[Statement, ...]) -> int:
    """How many loops are open at once."""
    return max((isinstance(s, Loop) + depth(inside(s)) for s in body), default=0)


def holds_loop(body: tuple[Statement, ...]) -> bool:
    return any(isinstance(s, Loop) for s in walk(body))


def test_the_programs_hold_everything_that_a_program_may(programs: list[Program]) -> None:
    bodies = [body for program in programs for body in program.functions().values()]
    every = [s for body in bodies for s in walk(body)]
    in_loops = [s for loop in every if isinstance(loop, Loop) for s in walk(loop.body)]
    for group in (every, in_loops):
        assert {s.dist.kind for s in group if isinstance(s, Sample)} == set(KINDS)
        assert {s.dist.kind for s in group if isinstance(s, SampleVector)} == set(VECTOR_KINDS)
    assert len({s.dist.kind for s in every if isinstance(s, Draw)}) >= 6
    assert all(sum(isinstance(s, kind) for s in in_loops) >= 3 for kind in (Sample, Draw, Loop, Branch, Call))
    assert all(sum(isinstance(s, kind) for s in every) >= 5 for kind in (Repeat, Observe, ObserveNormals, Factor))
    assert {depth(body) for body in bodies} == {0, 1, 2, 3}
    assert sum(sum(isinstance(s, Loop) for s in body) >= 2 for body in bodies) >= 5  # loops in a row
    assert any(isinstance(s, Repeat) and holds_loop(s.body) for s in every)
    branches = [s for s in every if isinstance(s, Branch) and holds_loop(s.then + s.other)]
    assert len(branches) >= 5
    assert not any(holds_loop(s.then) and holds_loop(s.other) for s in branches)
    assert {bool(s.name) for s in every if isinstance(s, Loop)} == {True, False}
    proposals = [proposal for program in programs for proposal in program.proposals.values()]
    assert {part.kind for proposal in proposals for part in (proposal, *proposal.components)} == {*KINDS, "mixture"}
    assert {bool(proposal.variables) for proposal in proposals} == {True, False}


# ---- native runs ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Study:
    """One program: what the system and what the reference made of it."""

    program: Program
    post: ars.Posterior
    prior_in_loops: ars.Posterior
    prior: ars.Traces
    reference: Traces


def traces_for(program: Program) -> int:
    """More where traces are cheap: a loop costs a handful of forks."""
    entries = float(infer(program, 500, M=1, N=1, seed=1).loops.length.mean())
    return int(np.clip(1100 / (1 + entries), 250, 900))


def run(program: Program, executable: str) -> Study:
    seed = 1000 + program.index
    observe = {name: values[0] if len(values) == 1 else list(values) for name, values in program.data.items()}
    given = proposals(program)
    with ars.Simulator([executable, str(program.index)]) as simulator, warnings.catch_warnings():
        # An interval whose ends numpy and libm compute from the same values may differ in the last bit.
        warnings.simplefilter("ignore", ars.SupportWarning)
        simulator._estimates_the_prior = True  # loops without proposals too: their K and T are compared as well
        post = simulator.posterior(
            observe=observe, traces=traces_for(program), proposals=given, budget=ars.Budget(M=M, N=N), seed=seed
        )
        prior_in_loops = simulator.posterior(
            observe=observe, traces=1000, proposals=given, in_loops="prior", seed=seed + 100
        )
        prior = simulator.prior(1000, seed=seed + 200)
    reference = infer(program, REFERENCE_TRACES, M=M, N=N, seed=seed)
    return Study(program, post, prior_in_loops, prior, reference)


@pytest.fixture(scope="module")
def study(programs: list[Program], executable: str) -> Iterator[Callable[[int], Study]]:
    """Runs a program once; the tests of this module share the result."""
    found: dict[int, Study] = {}

    def of(index: int) -> Study:
        if index not in found:
            found[index] = run(programs[index], executable)
        return found[index]

    yield of
    found.clear()


each_program = pytest.mark.parametrize("index", range(PROGRAMS))


# ---- native traces in the reference's form ----------------------------------------------------------------------


def table(traces: ars.Traces, column: str, names: Mapping[str, str]) -> Table:
    """A column of the run as a Table; ``names`` maps the Table's fields to those of wire.h."""
    kind = {"samples": SiteKind.SAMPLE, "loops": SiteKind.LOOP}[column]
    addresses = {site.id: site.address for site in traces.sites if site.kind == kind}
    items: Array = getattr(traces.columns, column)
    counts = traces.columns.traces[f"n_{column}"].astype(np.int64)
    rows = np.repeat(np.arange(len(traces)), counts)
    position = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    made = Table(len(traces), tuple(names))
    order = np.lexsort((position, rows))  # Table.add takes one item per row at a time
    for place in range(int(counts.max(initial=0))):
        here = order[position[order] == place]
        for site in np.unique(items["site"][here]).tolist():
            mine = here[items["site"][here] == site]
            fields = {name: items[field][mine].astype(np.float64) for name, field in names.items()}
            for (_, instance), at in made.add(rows[mine], addresses[site], **fields):
                np.testing.assert_array_equal(items["instance"][mine[np.isin(rows[mine], at)]], instance)
    return made


def latents_of(traces: ars.Traces) -> Table:
    return table(traces, "samples", {"value": "value", "log_p": "log_p", "log_q": "log_q", "loop": "loop"})


def loops_of(traces: ars.Traces) -> Table:
    names = {"parent": "parent", "tries": "tries", "rejected": "log_ratio_rejected", "K": "accepted_q"}
    found = table(traces, "loops", {**names, "N": "tries_q", "M": "runs_p", "T": "tries_p", "s_pq": "s_pq_sum"})
    for column in found.columns.values():
        if (column.fields["M"][column.present] > 0).all():
            column.fields["T"] = column.fields["T"] / column.fields["M"]
    return found


def results_of(traces: ars.Traces) -> dict[Key, Floats]:
    """Every result's address and instance, with NaN in the traces that have none."""
    found: dict[Key, Floats] = {}
    for site in traces.sites:
        if site.kind == SiteKind.RESULT:
            for instance in range(100):
                values = traces[site.address, instance]
                if np.isnan(values).all():
                    break
                found[site.address, instance] = values
    return found


def assert_close(found: Array, expected: Array, what: object = "") -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9, err_msg=str(what))


def assert_same_items(native: Table, expected: Table, fields: tuple[str, ...]) -> None:
    """The same addresses and instances, in the same places of the same traces, with the same numbers."""
    there = {key for key, column in expected.columns.items() if column.present.any()}
    assert set(native.columns) == there
    for key in there:
        np.testing.assert_array_equal(native.columns[key].position, expected.columns[key].position, err_msg=str(key))
        for name in fields:
            assert_close(native.columns[key].fields[name], expected.columns[key].fields[name], f"{name} of {key}")


# ---- exact ------------------------------------------------------------------------------------------------------


def replay(program: Program, traces: ars.Traces) -> Traces:
    latents = {key: column.fields["value"] for key, column in latents_of(traces).columns.items()}
    return score(program, len(traces), latents, results_of(traces))


def assert_same_results(program: Program, traces: ars.Traces, replayed: Traces) -> None:
    native = results_of(traces)
    present = {key: column for key, column in replayed.results.columns.items() if column.present.any()}
    assert set(native) == set(present)
    for key, values in native.items():
        assert_close(values, present[key].fields["value"], key)
    everything = [s for body in program.functions().values() for s in walk(body)]
    names = {s.name for s in everything if isinstance(s, Draw | Result)}
    assert {address.rpartition("/")[2] for address, _ in native} <= names


@each_program
def test_every_trace_is_what_the_definitions_say(study: Callable[[int], Study], index: int) -> None:
    program, post = study(index).program, study(index).post
    replayed = replay(program, post)
    assert not replayed.wrong.any()
    assert_same_items(latents_of(post), replayed.latents, ("value", "log_p", "log_q", "loop"))
    assert_same_items(loops_of(post), replayed.loops, ("parent",))
    assert_same_results(program, post, replayed)

    traces, loops = post.columns.traces, post.columns.loops
    assert_close(traces["log_likelihood"], replayed.log_likelihood)
    assert_close(traces["log_ratio_accepted"], replayed.log_ratio_accepted)
    assert_close(post.log_weights("biased"), replayed.log_weights("biased"))

    # Definition 1: the accepted draws and, loop by loop, the rejected ones. What a rejected outer try drew in its inner
    # loops is part of the outer loop's rejected draws.
    rows = np.repeat(np.arange(len(post)), traces["n_loops"])
    rejected = np.bincount(rows, loops["log_ratio_rejected"], minlength=len(post))
    assert_close(traces["log_ratio_all"], replayed.log_ratio_accepted + rejected)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ars.NaiveVarianceWarning)
        found = post.log_weights("ic")
    assert_close(found, replayed.log_weights("biased") + rejected)

    # Definition 3.
    assert (loops["tries_q"] == N).all()
    assert (loops["runs_p"] == M).all()
    assert (loops["accepted_q"] <= N).all()
    assert (loops["tries_p"] >= M).all()
    assert (loops["tries"] >= 1).all()
    with np.errstate(divide="ignore"):
        correction = np.log(loops["accepted_q"] * (loops["tries_p"] / M) / N)
    expected = replayed.log_weights("biased") + np.bincount(rows, correction, minlength=len(post))
    assert_close(post.log_weights("ars"), expected)


@each_program
def test_runs_by_the_prior_are_exact_too(study: Callable[[int], Study], index: int) -> None:
    """sim.prior, and in_loops="prior": the same paths, and log q = log p where the prior proposed."""
    it = study(index)
    unproposed = replace(it.program, proposals={})
    for program, traces in ((unproposed, it.prior), (it.program, it.prior_in_loops)):
        replayed = replay(program, traces)
        assert not replayed.wrong.any()
        native = latents_of(traces)
        assert_same_items(native, replayed.latents, ("value", "log_p", "loop"))
        assert_same_items(loops_of(traces), replayed.loops, ("parent",))
        assert_same_results(program, traces, replayed)
        for key, column in native.columns.items():
            in_loop = column.fields["loop"] >= 0
            expected = replayed.latents.columns[key].fields["log_q"]
            expected = np.where(in_loop, column.fields["log_p"], expected)
            assert_close(column.fields["log_q"], expected, key)
    assert_close(it.prior_in_loops.columns.traces["log_likelihood"], replayed.log_likelihood)


# ---- statistical ------------------------------------------------------------------------------------------------


def z_score(native: Floats, reference: Floats) -> float:
    """The difference of the means in standard errors. If they agree they have one variance: that of both together."""
    both = np.concatenate([native, reference])
    if np.ptp(both) == 0:
        return 0.0
    error = both.std() * math.sqrt(1 / len(native) + 1 / len(reference))
    return float((native.mean() - reference.mean()) / error)


def per_trace(latents: Table, loops: Table, addresses: list[tuple[str, str]]) -> dict[str, Floats]:
    """Numbers of which there is one per trace, sums over instances: traces are independent, loop entries are not."""
    found: dict[str, Floats] = {}
    for what, address in addresses:
        source = latents if what == "latent" else loops
        there = [column.present for key, column in source.columns.items() if key[0] == address]
        found[f"{what} {address}: instances"] = np.sum([np.zeros(source.n), *there], axis=0)
        if what == "latent":
            found[f"latent {address}: value"] = source.sum(address, "value")
            continue
        found[f"loop {address}: tries"] = source.sum(address, "tries")
        if any(np.isfinite(column.fields["K"]).any() for column in source.columns.values()):
            found[f"loop {address}: K"] = source.sum(address, "K")
            found[f"loop {address}: T"] = source.sum(address, "T")
            # bounded, because the sum itself may have an infinite variance
            found[f"loop {address}: S_pq"] = np.tanh(source.sum(address, "s_pq") / N)
    return found


def z_scores(it: Study) -> dict[str, float]:
    latents, loops, expected = latents_of(it.post), loops_of(it.post), it.reference
    addresses = [("latent", address) for address in expected.latents.addresses]
    addresses += [("loop", address) for address in expected.loops.addresses]
    native = per_trace(latents, loops, addresses)
    reference = per_trace(expected.latents, expected.loops, addresses)
    found = {name: z_score(native[name], reference[name]) for name in reference}
    for method in ("ars", "biased"):
        weights = np.exp(it.post.log_weights(method)), np.exp(expected.log_weights(method))
        found[f"evidence by {method}"] = z_score(*weights)
    found["log p/q of all draws"] = z_score(it.post.columns.traces["log_ratio_all"], expected.log_ratio_all)
    weights = (
        np.exp(it.prior_in_loops.log_weights("prior")),
        np.exp(infer_loops_prior(it.program, REFERENCE_TRACES, seed=it.program.index).log_weights("biased")),
    )
    found["evidence with the prior in loops"] = z_score(*weights)
    return found | prior_z_scores(it)


def prior_z_scores(it: Study) -> dict[str, float]:
    unproposed = replace(it.program, proposals={})
    expected = infer_loops_prior(unproposed, REFERENCE_TRACES, seed=it.program.index)
    addresses = [("latent", address) for address in expected.latents.addresses]
    addresses += [("loop", address) for address in expected.loops.addresses]
    native = per_trace(latents_of(it.prior), loops_of(it.prior), addresses)
    reference = per_trace(expected.latents, expected.loops, addresses)
    found = {f"prior {name}": z_score(native[name], reference[name]) for name in reference}
    for name, elements in simulate(it.program, REFERENCE_TRACES, seed=it.program.index).items():
        observed = np.asarray(it.prior.observations[name]).reshape(len(it.prior), -1)
        assert observed.shape[1] == len(elements)
        for i, element in enumerate(elements):
            found[f"prior data {name}[{i}]"] = z_score(observed[:, i], element)
    return found


@pytest.fixture(scope="module")
def scores(study: Callable[[int], Study]) -> Iterator[Callable[[int], dict[str, float]]]:
    found: dict[int, dict[str, float]] = {}

    def of(index: int) -> dict[str, float]:
        if index not in found:
            found[index] = z_scores(study(index))
        return found[index]

    yield of
    found.clear()


COMPARISONS = 3000  # more than there are, over all programs
LIMIT = float(stats.norm.isf(FALSE_ALARM / COMPARISONS / 2))


@each_program
def test_means_agree_with_the_reference(scores: Callable[[int], dict[str, float]], index: int) -> None:
    wrong = {name: z for name, z in scores(index).items() if not abs(z) < LIMIT}
    assert not wrong


def pooled_p_value(z: list[float]) -> float:
    """Of the sum of squares of independent standard normals."""
    return float(stats.chi2.sf(np.sum(np.square(z)), len(z)))


FAMILIES = {
    "evidence by ars": lambda name: name == "evidence by ars",
    "evidence by biased": lambda name: name == "evidence by biased",
    "evidence with the prior in loops": lambda name: name == "evidence with the prior in loops",
    "log p/q": lambda name: name == "log p/q of all draws",
    "K": lambda name: name.startswith("loop") and name.endswith(": K"),
    "T": lambda name: name.startswith("loop") and name.endswith(": T"),
    "tries": lambda name: name.startswith("loop") and name.endswith(": tries"),
    "S_pq": lambda name: name.startswith("loop") and name.endswith(": S_pq"),
    "values": lambda name: name.startswith("latent") and name.endswith(": value"),
    "prior values": lambda name: name.startswith("prior latent") and name.endswith(": value"),
    "prior data": lambda name: name.startswith("prior data"),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_all_programs_together_agree(scores: Callable[[int], dict[str, float]], family: str) -> None:
    """One number per program (the last of its kind, which depends on all before it), so that they are independent."""
    assert sum(len(scores(index)) for index in range(PROGRAMS)) <= COMPARISONS
    z = []
    for index in range(PROGRAMS):
        if mine := [z for name, z in scores(index).items() if FAMILIES[family](name) and z != 0]:
            z.append(mine[-1])
    assert len(z) > PROGRAMS // 2
    p = pooled_p_value(z)
    assert 1e-4 < p < 1 - 1e-4, (p, z)  # too good a fit would mean that the errors are not what we think


# ---- power ------------------------------------------------------------------------------------------------------


def wrong_weights(it: Study) -> dict[str, Floats]:
    """Mistakes that an implementation could make, each applied to the native traces."""
    loops, base = it.post.columns.loops, it.post.log_weights("biased")
    rows = np.repeat(np.arange(len(base)), it.post.columns.traces["n_loops"])

    def corrected(correction: Array) -> Floats:
        with np.errstate(divide="ignore"):
            return np.exp(base + np.bincount(rows, np.log(correction), minlength=len(base)))

    q, p, inner = loops["accepted_q"] / N, M / loops["tries_p"], loops["parent"] >= 0
    return {
        "biased": np.exp(base),
        "without K": corrected(1 / p),
        "without T": corrected(q),
        "p(A) for 1/p(A)": corrected(q * p),
        "inner loops without K": corrected(np.where(inner, 1, q) / p),
        "inner loops without T": corrected(q / np.where(inner, 1, p)),
    }


def looped(study: Callable[[int], Study]) -> list[Study]:
    return [it for it in map(study, range(PROGRAMS)) if len(it.reference.loops.addresses)]


@pytest.mark.parametrize(
    ("mistake", "share"),
    [("biased", 0.25), ("without K", 0.8), ("without T", 0.8), ("p(A) for 1/p(A)", 0.8)],
)
def test_wrong_weights_are_rejected(study: Callable[[int], Study], mistake: str, share: float) -> None:
    """With these weights the evidence would not pass the test above: not in all programs together, often not in one."""
    z = [z_score(wrong_weights(it)[mistake], np.exp(it.reference.log_weights("ars"))) for it in looped(study)]
    assert pooled_p_value(z) < 1e-12
    assert max(np.abs(z)) > LIMIT
    alone = float(stats.norm.isf(FALSE_ALARM / 2))
    assert np.mean(np.abs(z) > alone) > share, sorted(np.abs(z))


@pytest.mark.parametrize("mistake", ["inner loops without K", "inner loops without T"])
def test_wrong_weights_of_nested_loops_are_rejected(study: Callable[[int], Study], mistake: str) -> None:
    nested = [it for it in looped(study) if (it.post.columns.loops["parent"] >= 0).any()]
    assert len(nested) >= 8
    z = [z_score(wrong_weights(it)[mistake], np.exp(it.reference.log_weights("ars"))) for it in nested]
    assert pooled_p_value(z) < 1e-12
