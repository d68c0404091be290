#!/bin/bash
# test.sh: runs every check of `make test`, also after one has failed, and ends with a summary.
# The Makefile has built what is tested: BUILD, BUILD_ASAN (CMake) and VENV (the installed package).
set -u
cd "$(dirname "$0")/.."
: "${BUILD:=build}" "${BUILD_ASAN:=build-asan}" "${VENV:=.venv}" "${JOBS:=$(nproc)}"
pytest_log=$BUILD/pytest.log
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

run_pytest() {
    set -o pipefail
    ARS_BUILD_DIR=$PWD/$BUILD ARS_CSIM_DIR=$PWD/$BUILD/csim "$VENV/bin/python" -m pytest --durations=30 ${PYTEST_ARGS:-} 2>&1 |
        tee "$pytest_log"
}

rm -f "$pytest_log"
stage 'lint' make --no-print-directory lint-only
stage 'C tests' ctest --test-dir "$BUILD" --output-on-failure --no-tests=error -j "$JOBS"
stage 'C tests under ASan and UBSan' ctest --test-dir "$BUILD_ASAN" --output-on-failure --no-tests=error -j "$JOBS"
stage 'Python and system tests' run_pytest

printf '\n==> summary\n'
printf '%s\n' "${summary[@]}"
exit $failed
