"""libars belongs to one thread: a call from a second one costs its trace, by name, and no number is ever made of it.

threads/threads.c makes one call from a second thread, in the traces whose first draw says so.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build_helpers import COMPILERS, ROOT, Builder, Variant

import ars

pytestmark = [pytest.mark.compiler, pytest.mark.usefixtures("estimates_the_prior")]

SOURCE = Path(__file__).resolve().parent / "threads" / "threads.c"
SEED, TRACES = 3, 24
OBSERVE = {"y": 0.4}
BUDGET = ars.Budget(M=1, N=2)
CALLS = (
    "ars_sample",
    "ars_draw",
    "ars_observe",
    "ars_observe_normals",
    "ars_observe_value",
    "ars_observe_vector",
    "ars_observe_values",
    "ars_given",
    "ars_factor",
    "ars_result",
    "ars_results",
    "ars_results_shaped",
    "rs_start",
    "rs_end",
    "ars_reject",
    "ars_next_trace",
    "ars_flat",
    "ars_scope_push",
    "ars_scope_pop",
)
HARMLESS_ALONE = ("rs_start", "rs_end", "ars_reject")  # marks do nothing then; this body of ars_reject draws nothing


def built(tmp_path_factory: pytest.TempPathFactory, *link: str) -> Path:
    builder = Builder(tmp_path_factory.mktemp("threads"))
    return builder.program([SOURCE], Variant(COMPILERS[0], ("-O2", "-pthread")), link=link)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory)


@pytest.fixture
def start(program: Path, mode: Any, started: Callable[[ars.Simulator], ars.Simulator]) -> Callable[..., ars.Simulator]:
    options = {"workers": 2, "trace_timeout": 60, "continuations": mode}
    return lambda *arguments: started(ars.Simulator([str(program), *arguments], **options))


def posterior(sim: ars.Simulator, on_failure: ars.simulator.OnFailure = "zero") -> ars.Posterior:
    return sim.posterior(observe=OBSERVE, traces=TRACES, budget=BUDGET, seed=SEED, on_failure=on_failure)


@pytest.fixture(scope="module")
def right(program: Path) -> dict[str, ars.Posterior]:
    """The same runs without a second thread."""
    found = {}
    for role in ("worker", "continuation"):
        with ars.Simulator([str(program), "nothing", role], workers=2, continuations="fork") as sim:
            found[role] = posterior(sim)
        assert 3 <= found[role]["bad"].sum() <= TRACES - 3
    return found


def says(call: str) -> str:
    return (
        rf"a second thread called {call}\. Only the thread that called ars_main, or ars_next_trace .*OMP_NUM_THREADS=1"
    )


def check(found: ars.Posterior, right: ars.Posterior, call: str) -> None:
    bad = right["bad"] == 1
    assert dict(found.failures) == {"threads": int(bad.sum())}
    for example in found.failures.examples:
        assert bad[example.trace]
        assert re.search(says(call), example.text), example.text
    np.testing.assert_array_equal(found["x"][~bad], right["x"][~bad])
    np.testing.assert_array_equal(found.log_weights("ars")[~bad], right.log_weights("ars")[~bad])
    assert np.isneginf(found.log_weights("ars")[bad]).all()


@pytest.mark.parametrize("call", CALLS)
def test_a_call_from_a_second_thread_fails_its_trace(
    call: str, start: Callable[..., ars.Simulator], right: dict[str, ars.Posterior]
) -> None:
    check(posterior(start(call)), right["worker"], call)


@pytest.mark.parametrize("call", ["ars_sample", "ars_draw", "rs_end"])
def test_also_in_a_continuation(
    call: str, start: Callable[..., ars.Simulator], right: dict[str, ars.Posterior]
) -> None:
    check(posterior(start(call, "continuation")), right["continuation"], call)


def test_draws_from_four_threads_are_refused(start: Callable[..., ars.Simulator]) -> None:
    """Four at once in every trace, while the worker's own thread waits for them: the reproduction of break 4."""
    with pytest.raises(ars.TraceFailure, match=r"threads: a second thread called ars_draw"):
        posterior(start("many"), "raise")
    assert dict(posterior(start("many")).failures) == {"threads": TRACES}


def alone(program: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, "ARS_SEED": "5", "ARS_TRACES": "20", **environment}
    return subprocess.run(
        [str(program), *arguments], capture_output=True, text=True, check=False, timeout=60, env=settings
    )


@pytest.mark.parametrize("call", CALLS)
def test_alone_the_program_says_so_and_aborts(call: str, program: Path) -> None:
    done = alone(program, call)
    if call in HARMLESS_ALONE:
        assert done.returncode == 0, done
    else:
        assert done.returncode == -6, done
        assert re.search("libars: threads: " + says(call), done.stderr), done.stderr


def test_alone_traces_may_run_in_any_one_thread(program: Path) -> None:
    """The thread that asks for the first trace owns libars, whether it is that of main or not."""
    elsewhere, here = alone(program, "elsewhere"), alone(program, "nothing")
    assert elsewhere.returncode == here.returncode == 0
    assert elsewhere.stdout == here.stdout
    assert len(here.stdout.splitlines()) == 20


LOADER = r"""
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

/* Loads the simulator and its libars when threads have come and gone, and one is there. */
static void *wait_for_the_end(void *lock) {
    pthread_mutex_lock(lock);
    return NULL;
}

int main(int argc, char **argv) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_t thread;
    pthread_mutex_lock(&lock);
    if (pthread_create(&thread, NULL, wait_for_the_end, &lock)) return 2;
    void *library = dlopen(argv[1], RTLD_NOW);
    if (!library) return fprintf(stderr, "%s\n", dlerror()), 3;
    int (*simulate)(int, char **) = (int (*)(int, char **))dlsym(library, "simulate");
    int code = simulate ? simulate(argc - 1, argv + 1) : 4;
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
    return code;
}
"""


def test_a_libars_that_is_loaded_late_knows_its_thread(program: Path, tmp_path: Path) -> None:
    """dlopen after threads have begun: the thread-local word is there in all of them."""
    build = Path(os.environ.get("ARS_BUILD_DIR", ROOT / "build")) / "bridge"
    if not (build / "libars.so").exists() or b"__asan" in (build / "libars.so").read_bytes():
        pytest.skip("needs a shared libars that is not sanitized")
    loader, library = tmp_path / "loader", tmp_path / "simulator.so"
    (tmp_path / "loader.c").write_text(LOADER)
    compiler = COMPILERS[0]
    include = ROOT / "bridge" / "include"
    shared = [
        "-shared",
        "-fPIC",
        "-Dmain=simulate",
        f"-I{include}",
        SOURCE,
        f"-L{build}",
        "-lars",
        f"-Wl,-rpath,{build}",
    ]
    subprocess.run([compiler, "-O2", "-pthread", *shared, "-o", library], check=True)
    subprocess.run([compiler, "-O2", "-pthread", tmp_path / "loader.c", "-ldl", "-o", loader], check=True)
    assert alone(loader, str(library), "nothing").stdout == alone(program, "nothing").stdout
    done = alone(loader, str(library), "ars_draw")
    assert done.returncode == -6
    assert re.search(says("ars_draw"), done.stderr), done.stderr
