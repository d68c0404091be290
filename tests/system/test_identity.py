"""Loop identity: whatever the compiler does to a loop, libars sees the loops that the source has.

The programs in identity/ count their loops by themselves, in plain variables, and report what they counted as results
of the trace. The loop table of libars must say exactly the same: names, nesting, entries and tries.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from build_helpers import COMPILERS, Builder, Variant

import ars
from ars.continuations import Continuations

pytestmark = [
    pytest.mark.timeout(600),  # the first test compiles all programs
    pytest.mark.slow,
    pytest.mark.compiler,
    pytest.mark.usefixtures("estimates_the_prior"),
]

HERE = Path(__file__).resolve().parent / "identity"
C_SOURCES = ("loops.c", "second.c", "shadow.c")
CXX_SOURCES = ("methods.cpp", "other.cpp", "shadow.c")
PROGRAMS = {"C": C_SOURCES, "C++": CXX_SOURCES}

# Inlining without restraint: a recursive function would be inlined into itself many times over.
EAGER = {
    "gcc": (
        *("-O3", "-finline-functions", "-finline-limit=100000", "-fipa-cp-clone", "-funroll-all-loops"),
        *("-fpeel-loops", "-fsplit-loops", "-funswitch-loops", "-ftracer"),
        *("--param=max-inline-insns-recursive-auto=100000", "--param=max-inline-recursive-depth-auto=16"),
        *("--param=max-inline-insns-auto=100000", "--param=min-inline-recursive-probability=0"),
        *("--param=large-function-growth=100000", "--param=inline-unit-growth=100000"),
    ),
    "clang": ("-O3", "-funroll-loops", "-mllvm", "-inline-threshold=1000000", "-mllvm", "-unroll-threshold=100000"),
}
FLAGS: dict[str, tuple[tuple[str, ...], ...]] = {
    "C": (
        ("-O0",),
        ("-O2",),
        ("-O3",),
        ("-Os",),
        ("-O2", "-flto"),
        ("-O3", "-fomit-frame-pointer", "-fno-pie", "-no-pie"),
        ("-O2", "-fPIC", "-fstack-protector-all"),
        ("-O1", "-fsanitize=address"),
    ),
    "C++": (("-O0",), ("-O2",), ("-O2", "-flto"), ("-O1", "-fsanitize=address")),
}


def variants(language: str) -> list[Variant]:
    found = []
    for compiler in COMPILERS:
        extra = (("-O2", "-maccumulate-outgoing-args"),) if (language, compiler) == ("C", "gcc") else ()
        for flags in (*FLAGS[language], EAGER[compiler], *extra):
            found.append(Variant(compiler, flags, ("-flto",) if "-flto" in flags else ()))
    return found


MATRIX = [(language, variant) for language in PROGRAMS for variant in variants(language)]
ADDRESSES: dict[str, dict[str, Counter[str]]] = {}


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    return Builder(tmp_path_factory.mktemp("identity"))


@pytest.fixture(scope="module")
def built(builder: Builder) -> dict[tuple[str, Variant], Path]:
    """Every program of the matrix. All at once, so that no compiler runs during a test."""
    wanted = [([HERE / name for name in PROGRAMS[language]], variant) for language, variant in MATRIX]
    return dict(zip(MATRIX, builder.programs(wanted), strict=True))


# ---- comparing --------------------------------------------------------------------------------------------------


def fnv(name: str) -> int:
    value = 2166136261
    for byte in name.encode():
        value = (value ^ byte) * 16777619 % 2**32
    return value


def own_name(address: str, parent: str | None) -> str:
    if parent is None:
        return address
    assert address.startswith(parent + "/"), f"{address} is not below {parent}"
    return address[len(parent) + 1 :]


def traces_of(run: ars.Traces) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.void]]:
    """Per trace: its loops, its samples, what the program itself counted, and its head."""
    columns = run.columns
    counted = run["shadow"]
    loops = samples = 0
    for row, head in enumerate(columns.traces):
        next_loops, next_samples = loops + int(head["n_loops"]), samples + int(head["n_samples"])
        own = counted[row][~np.isnan(counted[row])].reshape(-1, 3)
        yield columns.loops[loops:next_loops], columns.samples[samples:next_samples], own, head
        loops, samples = next_loops, next_samples


def check(run: ars.Traces, traces: int) -> Counter[str]:
    """The loop table equals what the program counted. Returns how often each address was met."""
    assert len(run) == traces
    assert not run.failures
    address = {site.id: site.address for site in run.sites}
    met: Counter[str] = Counter()
    for loops, samples, own, _ in traces_of(run):
        addresses = [address[int(site)] for site in loops["site"]]
        parents = [None if p < 0 else addresses[p] for p in loops["parent"]]
        names = [own_name(a, parent) for a, parent in zip(addresses, parents, strict=True)]
        assert [fnv(name) for name in names] == own[:, 0].astype(int).tolist(), names
        assert loops["parent"].tolist() == own[:, 1].astype(int).tolist()
        assert loops["tries"].tolist() == own[:, 2].astype(int).tolist()
        seen: Counter[str] = Counter()
        for a, instance in zip(addresses, loops["instance"], strict=True):
            assert instance == seen[a], f"{a} has instance {instance}"
            seen[a] += 1
        met += seen
        for sample in samples:
            loop = int(sample["loop"])
            assert own_name(address[int(sample["site"])], addresses[loop] if loop >= 0 else None) == "x"
    return met


def check_estimates(run: ars.Posterior, M: int, N: int) -> None:
    """Every loop of the accepted path was estimated, and every entry, rejected ones included, made one snapshot."""
    loops = run.columns.loops
    assert (loops["tries_q"] == N).all()
    assert (loops["runs_p"] == M).all()
    assert (loops["tries_p"] >= M).all()
    extra = loops["forks"].astype(int) - loops["accepted_q"].astype(int) - (M - 1)
    assert np.isin(extra, (0, 1)).all(), "a rejected continuation goes on as the next try"
    assert run.columns.traces["snapshots"].tolist() == run["entries"].astype(int).tolist()


def simulate(program: Path, *arguments: str, mode: Continuations = "fork") -> ars.Simulator:
    env = {"ARS_SNAPSHOTS": "256", "ASAN_OPTIONS": "detect_leaks=0"}
    return ars.Simulator([str(program), *arguments], workers=2, env=env, continuations=mode)


# ---- the matrix -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("language", "variant"), MATRIX, ids=[f"{language}: {v}"[:90] for language, v in MATRIX])
def test_the_loop_table_is_what_the_program_counted(
    language: str, variant: Variant, built: dict[tuple[str, Variant], Path]
) -> None:
    with simulate(built[language, variant]) as sim:
        met = check(sim.prior(60, seed=7), 60)
        post = sim.posterior(observe={"y": 0.5}, traces=3, budget=ars.Budget(M=1, N=3), seed=7)
        check(post, 3)
        check_estimates(post, M=1, N=3)
        # the same draws through a proposer: retries go through the first draw's cache
        asked = sim.posterior(
            observe={"y": 0.5}, traces=2, budget=ars.Budget(M=1, N=2), seed=8, proposals={"x": ars.Uniform(0, 1)}
        )
        check(asked, 2)
        check_estimates(asked, M=1, N=2)
    with simulate(built[language, variant], mode="auto") as sim:
        rewound = sim.posterior(observe={"y": 0.5}, traces=3, budget=ars.Budget(M=1, N=3), seed=7)
        check(rewound, 3)
        assert rewound.log_weights("ars").tobytes() == post.log_weights("ars").tobytes()
        assert (rewound.stats["rewinds"] > 0) == ("-fsanitize=address" not in variant.flags)
    ADDRESSES.setdefault(language, {})[str(variant)] = met


@pytest.mark.parametrize("language", PROGRAMS)
def test_all_compilers_and_flags_give_the_same_addresses(language: str) -> None:
    """The seed fixes the draws, so also how often each address is met is the same everywhere."""
    found = ADDRESSES.get(language, {})
    if len(found) < 2:
        pytest.skip("runs after the matrix")
    first_variant, first = next(iter(found.items()))
    for variant, met in found.items():
        assert met == first, f"{variant} differs from {first_variant}"


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(("language", "name"), [("C", "loops.c"), ("C++", "methods.cpp")])
def test_addresses_survive_edits_above(
    language: str, name: str, compiler: str, builder: Builder, tmp_path: Path
) -> None:
    """Blank lines, and a function with a loop of its own above the others."""
    extra = """


    static __attribute__((unused)) int newcomer(void) {
        for (;;) { rs_start(); if (ACCEPT(0.5)) { rs_end(); return 1; } }
    }

    """
    if language not in ADDRESSES:
        pytest.skip("runs after the matrix")
    lines = (HERE / name).read_text().split("\n")
    last_include = max(i for i, line in enumerate(lines) if line.startswith("#include"))
    lines.insert(last_include + 1, extra)
    (tmp_path / name).write_text("\n\n".join(lines))
    sources = [tmp_path / name, *(HERE / other for other in PROGRAMS[language][1:])]
    program = builder.program(sources, Variant(compiler, ("-O2", f"-I{HERE}", "-Wno-unused-function")))
    with simulate(program) as sim:
        met = check(sim.prior(60, seed=7), 60)
    assert met == next(iter(ADDRESSES[language].values()))


def test_alone_the_draws_do_not_depend_on_the_compiler(built: dict[tuple[str, Variant], Path]) -> None:
    for language in PROGRAMS:
        said = {}
        for variant in variants(language):
            program = str(built[language, variant])
            env = {"ARS_SEED": "5", "ARS_TRACES": "20", "ASAN_OPTIONS": "detect_leaks=0"}
            said[variant] = subprocess.run([program], env=env, capture_output=True, text=True, check=True).stdout
        assert len(next(iter(said.values())).split()) == 20
        assert len(set(said.values())) == 1


# ---- the stack --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [("-O0",), ("-O2",)], ids=" ".join)
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("with_array", [False, True], ids=["plain", "array around the loop"])
def test_the_stack_does_not_grow_with_the_traces(
    with_array: bool, compiler: str, flags: tuple[str, ...], builder: Builder
) -> None:
    """One activation of main enters its loop 300,000 times."""
    if with_array and compiler == "gcc":
        pytest.skip("GCC keeps the arrays of a function that calls alloca until it returns; ars.h says so")
    extra = ("-DWITH_ARRAY",) if with_array else ()
    program = builder.program([HERE / "long_lived.c", HERE / "shadow.c"], Variant(compiler, (*flags, *extra)))
    env = {"ARS_TRACES": "20000", "ARS_SEED": "1"}
    alone = subprocess.run([program, "64"], env=env, capture_output=True, text=True, check=False)
    assert (alone.returncode, alone.stderr) == (0, "")
    assert int(alone.stdout) < 1000
    with ars.Simulator([str(program), "64"], workers=2) as sim:
        run = sim.prior(150_000, seed=1)
    assert run["depth"].max() < 1000
    tries = run["shadow"][:, 2::3]
    assert tries.shape == (150_000, 4)
    assert (run.columns.loops["tries"].reshape(-1, 4) == tries).all()
