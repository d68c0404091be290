#!/bin/bash
# test.sh [check]: runs every check of `make test`, or of `make check`, also after one has failed, and ends with a summary.
# The Makefile has built what is tested: BUILD, BUILD_ASAN (CMake) and VENV (the installed package).
set -u
cd "$(dirname "$0")/.."
: "${BUILD:=build}" "${BUILD_ASAN:=build-asan}" "${VENV:=.venv}" "${JOBS:=$(nproc)}"
failed=0
summary=()

stage() { # stage NAME COMMAND...
    local name=$1 start=$SECONDS verdict=passed
    shift
    printf '\n==> %s\n' "$name"
    if ! "$@" </dev/null; then
        verdict=FAILED
        failed=1
    fi
    summary+=("$(printf '%-34s %s in %d s' "$name" "$verdict" $((SECONDS - start)))")
}

pytest=("$VENV/bin/python" -m pytest --durations=25)
export ARS_BUILD_DIR=$PWD/$BUILD ARS_CSIM_DIR=$PWD/$BUILD/csim

# Tests wait for processes more than they compute, so there are two per core. One thread each: torch's own would wait for
# each other. Neighbours stay together, because they share what they have compiled. With PYTEST_ARGS: one after another.
run_pytest() {
    set -o pipefail
    local options=(-n "$((2 * JOBS))" --dist worksteal -p no:cacheprovider)
    if [ -n "${PYTEST_ARGS:-}" ]; then options=(); fi
    # shellcheck disable=SC2086 # several arguments
    OMP_NUM_THREADS=1 "${pytest[@]}" "${options[@]}" ${PYTEST_ARGS:-} 2>&1 | tee "$BUILD/pytest.log"
}

# Tests that start neither simulators nor compilers, on all cores.
run_unit_tests() {
    # shellcheck disable=SC2086 # several arguments
    OMP_NUM_THREADS=1 "${pytest[@]}" -q -n "$JOBS" --dist worksteal -m 'not slow and not compiler and not simulator' \
        --durations-min=1 tests/unit ${PYTEST_ARGS:-}
}

c_tests() { # c_tests BUILD_DIRECTORY
    ctest --test-dir "$1" --output-on-failure --no-tests=error -j "$JOBS"
}

stage 'lint' make --no-print-directory lint-only
stage 'C tests' c_tests "$BUILD"
if [ "${1:-}" = check ]; then
    stage 'unit tests' run_unit_tests
else
    stage 'C tests under ASan and UBSan' c_tests "$BUILD_ASAN"
    stage 'Python and system tests' run_pytest
fi

printf '\n==> summary\n'
printf '%s\n' "${summary[@]}"
exit $failed
