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

total() { # one closing line for two runs, in pytest's form
    grep -hE '^=+ .* in [0-9.]+s' "$BUILD"/pytest-{others,system}.log | tr -d '=,' | awk '
        { for (i = 1; i < NF && $i != "in"; i += 2) { if (!($(i + 1) in n)) names[++k] = $(i + 1); n[$(i + 1)] += $i }
          sub(/s$/, "", $(i + 1)); if ($(i + 1) + 0 > longest) longest = $(i + 1) + 0 }
        END { for (j = 1; j <= k; j++) text = text (j > 1 ? ", " : "") n[names[j]] " " names[j]
              printf "============ %s in %.2fs ============\n", text, longest }'
}

# System tests wait for processes more than they compute, so the others run beside them. With PYTEST_ARGS: one run.
run_pytest() {
    set -o pipefail
    if [ -n "${PYTEST_ARGS:-}" ]; then
        # shellcheck disable=SC2086 # several arguments
        "${pytest[@]}" $PYTEST_ARGS 2>&1 | tee "$BUILD/pytest.log"
        return
    fi
    "${pytest[@]}" -p no:cacheprovider --ignore=tests/system >"$BUILD/pytest-others.log" 2>&1 &
    local others=$! verdict=0
    trap 'kill "$others" 2>/dev/null' EXIT
    "${pytest[@]}" -p no:cacheprovider tests/system 2>&1 | tee "$BUILD/pytest-system.log" || verdict=1
    wait "$others" || verdict=1
    trap - EXIT
    cat "$BUILD/pytest-others.log"
    cat "$BUILD/pytest-others.log" "$BUILD/pytest-system.log" >"$BUILD/pytest.log"
    total >>"$BUILD/pytest.log"
    return $verdict
}

# Tests that start neither simulators nor compilers, on all cores. One thread each: torch's own would wait for each other.
run_unit_tests() {
    # shellcheck disable=SC2086 # several arguments
    OMP_NUM_THREADS=1 "${pytest[@]}" -q -n "$JOBS" --dist worksteal -m 'not slow and not compiler and not simulator' \
        --durations-min=1 tests/pyside ${PYTEST_ARGS:-}
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
