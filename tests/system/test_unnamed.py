"""Draws without names: their addresses, whatever the program was compiled with, and what becomes of them.

unnamed/generator.cpp is an event generator that asks an engine for uniform numbers; unnamed/main.cpp gives it libars.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from build_helpers import COMPILERS, Builder, Variant
from unnamed_tools import ANGLE, ENERGY, EXTRA, NEXT, OTHER, build, build_library, build_main, log_evidence

import ars
from ars._native import SiteKind
from ars.toolchain.flags import libs

pytestmark = pytest.mark.compiler

Start = Callable[..., ars.Simulator]
Y = 1.3
SMALL = {"observe_hidden": 32, "value_dim": 16, "head_hidden": 64}


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    return Builder(tmp_path_factory.mktemp("unnamed"))


@pytest.fixture(scope="module")
def program(builder: Builder) -> Path:
    return build(builder, COMPILERS[0], "-O2", "-g")


@pytest.fixture
def start(program: Path, started: Callable[[ars.Simulator], ars.Simulator]) -> Start:
    def make(*arguments: str, program: Path = program, **options: object) -> ars.Simulator:
        return started(ars.Simulator([str(program), *arguments], **{"workers": 2, **options}))  # type: ignore[arg-type]

    return make


def near(a: float, b: float) -> ars.Mixture:
    """A proposal whose weights are bounded."""
    return ars.Mixture([0.3, 0.7], [ars.Beta(1, 1), ars.Beta(a, b)])


def latents(traces: ars.posterior.Traces) -> set[str]:
    return {site.address for site in traces.sites if site.kind == SiteKind.SAMPLE}


# ---- addresses ------------------------------------------------------------------------------------------------------


def test_addresses_are_call_paths(start: Start) -> None:
    found = latents(start().prior(400, seed=1))
    assert {ENERGY, ANGLE, OTHER, EXTRA} < found
    rest = found - {ENERGY, ANGLE, OTHER, EXTRA}
    assert rest and all(address.startswith(NEXT + "radiate#") for address in rest)
    assert len(rest) <= 16  # of a recursion that goes down 60 levels


@pytest.mark.slow
def test_addresses_survive_other_compilers_flags_and_libraries(builder: Builder, start: Start, tmp_path: Path) -> None:
    first, last = COMPILERS[0], COMPILERS[-1]
    ways = {
        "no optimisation": [build(builder, first, "-O0", "-g")],
        "all of it": [build(builder, first, "-O3", "-g", "-no-pie", "-march=native")],
        "another compiler": [build(builder, last, "-O0", "-g")],
        "with frame pointers": [build(builder, last, "-O2", "-g", "-fno-omit-frame-pointer")],
        "all in one file": [build(builder, first, "-O2", "-g", "-static", *libs(static=True)[1:])],
    }
    library = build_library(tmp_path / "linked", first, "-O2", "-g")
    ways["a library"] = [build_main(tmp_path / "linked", first, [library], "-O1", "-g")]
    library = build_library(tmp_path / "opened", last, "-O2", "-g")
    opener = build_main(tmp_path / "opened", last, [], "-O1", "-g", "-DDLOPEN")
    ways["a library that is opened"] = [opener, library]
    prior = start().prior(200, seed=1)
    for way, words in ways.items():
        other = start(*[str(word) for word in words[1:]], program=words[0]).prior(200, seed=1)
        assert latents(other) == latents(prior), way
        for name in ("energy", "angle", "shower", "extra"):
            np.testing.assert_array_equal(other[name], prior[name], err_msg=way)


def test_without_debug_information_names_are_those_of_symbols(builder: Builder, start: Start) -> None:
    """Which hold for this binary, and for others that were compiled alike; a stripped one has no names to show."""
    plain = build(builder, COMPILERS[0], "-O0")
    found = latents(start(program=plain).prior(200, seed=1))
    assert {ENERGY, ANGLE, EXTRA} < found
    stripped = plain.with_name("stripped")
    shutil.copy(plain, stripped)
    subprocess.run(["strip", str(stripped)], check=True)
    runs = [start(program=stripped).prior(200, seed=1) for _ in range(2)]  # at two load addresses
    assert latents(runs[0]) == latents(runs[1])
    assert len(latents(runs[0])) == len(found)


def test_an_event_loop_of_its_own_is_the_root(start: Start) -> None:
    found = latents(start("events").prior(50, seed=1))
    assert ENERGY.replace("model#1>", "main#1>") in found


# ---- weights --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["auto", "fork"])
def test_weights_are_right_with_proposals_for_addresses(start: Start, mode: str) -> None:
    sim = start(continuations=mode, flat_policy={"radiate": "nuisance", ":Normal": "nuisance"}, workers=24)
    proposals = {ENERGY: near(1.5, 3), ANGLE: near(2, 2), OTHER: near(5, 1)}
    post = sim.posterior(
        observe={"y": Y},
        traces=4000 if mode == "auto" else 1000,
        seed=3,
        budget=ars.Budget(M=2, N=4),
        proposals=proposals,
    )
    exact = log_evidence(Y)
    found = post.log_evidence("ars")
    assert abs(np.exp(found.log_estimate) - np.exp(exact)) < 4 * found.standard_error
    biased = post.log_evidence("biased")
    assert abs(np.exp(biased.log_estimate) - np.exp(exact)) > 4 * biased.standard_error


@pytest.mark.filterwarnings("ignore::ars.errors.SupportWarning")
@pytest.mark.parametrize(
    ("proposal", "possible"),
    [(ars.Normal(0.5, 2.0), False), (ars.Uniform(0.0, 5e-324), True), (ars.Uniform(1 - 2.0**-53, 1.0), True)],
)
def test_a_flat_draw_is_strictly_inside_whatever_is_proposed(
    start: Start, proposal: ars.Proposal, possible: bool
) -> None:
    """The program aborts at 0, 1 and beyond."""
    post = start().posterior(observe={"y": Y}, traces=200, seed=3, proposals={ENERGY: proposal})
    assert not post.failures
    drawn = 1 - post["energy"]
    assert ((drawn >= 0) & (drawn <= 1)).all()
    assert np.isneginf(post.log_weights("ars")).any() is not possible


# ---- policy ---------------------------------------------------------------------------------------------------------


def test_the_last_rule_that_matches_wins(start: Start) -> None:
    def kept(*arguments: str, **rules: dict[str, str]) -> set[str]:
        return latents(start(*arguments, **rules).prior(100, seed=1))

    everything = kept()
    assert kept(flat_policy={"radiate": "nuisance"}) == {ENERGY, ANGLE, OTHER, EXTRA}
    assert kept(flat_policy={"*": "nuisance", "decay#?>*": "latent"}) == set()
    assert kept(flat_policy={"*": "nuisance", "*decay#?>*": "latent"}) == {ANGLE, OTHER}
    assert kept(flat_policy={"*decay#?>*": "latent", "*": "nuisance"}) == set()
    assert kept(flat_policy={"no such function": "nuisance"}) == everything
    assert kept("policy") == {ANGLE, OTHER}
    assert kept("policy", flat_policy={"decay/": "nuisance", ":Normal": "latent"}) == {EXTRA}


def test_a_nuisance_is_drawn_from_the_prior(start: Start) -> None:
    rules = {"*": "nuisance", ENERGY: "latent"}
    prior, free = start(flat_policy=rules).prior(300, seed=5), start().prior(300, seed=5)
    for name in ("energy", "angle", "shower", "extra"):
        np.testing.assert_array_equal(prior[name], free[name])
    post = start(flat_policy=rules, workers=24).posterior(
        observe={"y": Y}, traces=3000, seed=3, proposals={ENERGY: near(1.5, 3)}
    )
    found = post.log_evidence("ars")
    assert abs(np.exp(found.log_estimate) - np.exp(log_evidence(Y))) < 4 * found.standard_error


def test_rules_belong_to_the_run(start: Start, tmp_path: Path) -> None:
    options = {"observe": {"y": Y}, "traces": 20, "seed": 1, "resume": tmp_path / "run"}
    start(flat_policy={"radiate": "nuisance"}).posterior(**options)
    with pytest.raises(ars.errors.StorageError, match="ARS_FLAT_POLICY"):
        start(flat_policy={"radiate": "latent"}).posterior(**options)


def test_rules_of_the_command_line(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from ars.cli import main

    assert main(["inspect", "--traces", "50", "--nuisance", "*", "--latent", "*energy*", str(program)]) == 0
    shown = capsys.readouterr().out
    assert ENERGY in shown and ANGLE not in shown
    with pytest.raises(SystemExit):
        main(["inspect", "--nuisance", "", str(program)])
    assert "patterns are non-empty text" in capsys.readouterr().err


# ---- scopes and mistakes --------------------------------------------------------------------------------------------


def test_a_scope_left_open_ends_with_its_trace(start: Start) -> None:
    found = latents(start("left-open", workers=1).prior(100, seed=1))
    assert f"left open>{ENERGY}" in found
    assert not any(address.startswith("left open>left open") for address in found)


@pytest.fixture(scope="module")
def scopes(builder: Builder) -> Path:
    return builder.program([Path(__file__).parent / "unnamed" / "scopes.cpp"], Variant(COMPILERS[0], ("-O1", "-g")))


MAIN = "main::lambda#1"
SCOPES = {  # "inner" covers the first try alone: the retries end it
    "inside": {f"decay/outer>inner>{MAIN}>retried_inside#1", f"decay/outer>{MAIN}>retried_inside#2", MAIN},
    "left": {f"decay/left>{MAIN}>left_open#1", MAIN},
    "unclosed": {f"outer>unclosed>{MAIN}>unclosed#1", MAIN},
}


@pytest.mark.parametrize("kind", SCOPES)
def test_a_retry_closes_scopes_and_their_objects_end_in_peace(scopes: Path, start: Start, kind: str) -> None:
    prior = start(kind, program=scopes).prior(60, seed=1)
    assert not prior.failures
    assert latents(prior) == SCOPES[kind]


def test_draws_in_default_members_and_arguments(scopes: Path, start: Start) -> None:
    prior = start("defaults", program=scopes).prior(20, seed=1)
    assert latents(prior) == {f"{MAIN}>defaults#1>Particle::Particle#1", f"{MAIN}>defaults#1", MAIN}


@pytest.mark.parametrize("kind", SCOPES)
def test_scopes_without_a_controller(scopes: Path, kind: str) -> None:
    """The plain simulator sees no retries: the scopes of a hundred rejected tries stay open, and do no harm."""
    subprocess.run([str(scopes), kind], env={"ARS_SEED": "4", "ARS_TRACES": "20"}, check=True)


MISTAKES = {
    "misuse-pop": ("misuse", "ars_scope_pop was called, but no scope is open"),
    "misuse-empty-scope": ("misuse", "ars_scope_push needs a name that is not empty"),
    "misuse-deep": ("limit", "64 scopes are open, and no more are allowed"),
    "misuse-many": ("limit", "more than 4095 different scopes"),
    "misuse-parameter": ("parameter", r"ars_sample\(NULL\): Normal"),
    "misuse-empty-name": ("misuse", "ars_sample needs a name that is not empty"),
    "misuse-late-policy": ("misuse", "after the first trace had begun"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_have_names(start: Start, mistake: str) -> None:
    kind, says = MISTAKES[mistake]
    prior = start(mistake).prior(3, seed=1, on_failure="zero")
    assert dict(prior.failures) == {kind: 3}
    assert all(re.search(says, example.text) for example in prior.failures.examples)


EARLY = {
    "misuse-pattern": "the pattern is empty",
    "misuse-kind": "the policy must be ARS_LATENT or ARS_NUISANCE",
    "misuse-outside": "ars_flat was called outside a trace",
    "misuse-outside-sample": r"ars_sample\(NULL\) was called outside a trace",
    "misuse-outside-scope": r'ars_scope_push\("early"\) was called outside a trace',
}


@pytest.mark.parametrize("mistake", EARLY)
def test_mistakes_before_the_first_trace(program: Path, start: Start, mistake: str) -> None:
    alone = subprocess.run([str(program), mistake], capture_output=True, text=True, check=False)
    assert alone.returncode < 0 and re.search(EARLY[mistake], alone.stderr)
    with pytest.raises(ars.errors.LaunchError, match=EARLY[mistake]):
        start(mistake).prior(3, seed=1)


def test_the_plain_simulator_needs_no_names(program: Path) -> None:
    env = {"ARS_SEED": "4", "ARS_TRACES": "50"}
    lines = subprocess.run([str(program)], env=env, capture_output=True, text=True, check=True).stdout.splitlines()
    with ars.Simulator([str(program)], workers=1) as sim:
        prior = sim.prior(50, seed=4)
    for column, name in enumerate(("energy", "angle", "shower", "extra")):
        np.testing.assert_array_equal([float(line.split()[column]) for line in lines], prior[name])


def test_bad_rules_end_the_start(start: Start) -> None:
    with pytest.raises(ars.errors.LaunchError, match='the rule "often:x": it must begin with latent: or nuisance:'):
        start(env={"ARS_FLAT_POLICY": "often:x"}).prior(3, seed=1)


# ---- a network, and a rebuilt generator -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("one_torch_thread")
def test_a_network_is_still_right_after_a_rebuild(builder: Builder, start: Start) -> None:
    """Trained on one build, used on another: it knows the draws, its proposals count, and the evidence is exact."""
    pytest.importorskip("torch")
    rules = {"radiate": "nuisance", ":Normal": "nuisance"}
    before, after = build(builder, COMPILERS[0], "-O0", "-g"), build(builder, COMPILERS[-1], "-O3", "-g", "-no-pie")
    options = {"batch_size": 128, "seed": 1, "lr": 3e-3, "threads": 1, "architecture": SMALL}
    network = start(program=before, flat_policy=rules).train(4000, 16, **options)
    found = {}
    for program in (before, after):
        sim = start(program=program, flat_policy=rules, workers=24)
        asked = {"observe": {"y": Y}, "traces": 1000, "seed": 4, "budget": ars.Budget(M=1, N=4)}
        found[program] = sim.posterior(network=network, **asked)
    post = found[after]
    assert latents(post) == {ENERGY, ANGLE, OTHER}
    evidence = post.log_evidence("ars")
    assert abs(np.exp(evidence.log_estimate) - np.exp(log_evidence(Y))) < 4 * evidence.standard_error
    for name in ("energy", "angle"):  # the network proposes what it proposed for the old build, and not the prior
        np.testing.assert_allclose(post[name], found[before][name], rtol=1e-6)
        assert (post[name] != sim.prior(1000, seed=4)[name]).mean() > 0.5
    np.testing.assert_allclose(post.log_weights("ars"), found[before].log_weights("ars"), rtol=1e-5)
