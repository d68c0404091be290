#!/bin/bash
# fuzz.sh: the long fuzzing, FUZZ_RUNS inputs (10 million) for every decoder. C with libFuzzer where Clang has it, else with
# tests/fuzz/driver.c; Python with tests/fuzz/fuzz_decoders.py. Findings stay in build-fuzz/.
set -eu
cd "$(dirname "$0")/.."
: "${FUZZ_RUNS:=10000000}" "${JOBS:=$(nproc)}" "${VENV:=.venv}" "${BUILD_FUZZ:=build-fuzz}"
targets=(fuzz_message fuzz_steps fuzz_traces fuzz_reply fuzz_segment)

has_libfuzzer() {
    local probe
    probe=$(mktemp -d)
    echo 'int LLVMFuzzerTestOneInput(const char *d, long n) { return d && n ? 0 : 0; }' >"$probe/a.c"
    clang -fsanitize=fuzzer,address "$probe/a.c" -o "$probe/a" >/dev/null 2>&1
    local found=$?
    rm -rf "$probe"
    return $found
}

options=(-DARS_SANITIZE=address,undefined -DARS_WERROR=ON)
limits=(-max_len=4096)
if has_libfuzzer; then
    options+=(-DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DARS_LIBFUZZER=ON)
    limits+=(-timeout=20 -rss_limit_mb=4096 -print_final_stats=1 -verbosity=0)
fi
cmake -S . -B "$BUILD_FUZZ" "${options[@]}" >/dev/null
cmake --build "$BUILD_FUZZ" --parallel "$JOBS" --target fuzz_corpus "${targets[@]}" >/dev/null

fuzz_c() { # fuzz_c TARGET
    local at=$BUILD_FUZZ/tests/fuzz began=$SECONDS
    mkdir -p "$at/found/$1" "$at/grown/$1"
    (cd "$at/found/$1" && ASAN_OPTIONS=detect_stack_use_after_return=0 "../../$1" -runs="$FUZZ_RUNS" "${limits[@]}" \
        "../../grown/$1" "../../corpus/$1") >"$at/$1.log" 2>&1 || {
        echo "$1: a finding; see $at/$1.log and $at/found/$1"
        tail -n 40 "$at/$1.log"
        return 1
    }
    echo "$1: $FUZZ_RUNS inputs without a finding in $((SECONDS - began)) s"
}
fuzz_python() { # fuzz_python DECODER
    "$VENV/bin/python" tests/fuzz/fuzz_decoders.py --runs "$FUZZ_RUNS" "$1"
}

failed=0
for target in "${targets[@]}" $("$VENV/bin/python" tests/fuzz/fuzz_decoders.py --list); do
    while [ "$(jobs -rp | wc -l)" -ge "$JOBS" ]; do wait -n || failed=1; done
    case $target in
    fuzz_*) fuzz_c "$target" & ;;
    *) fuzz_python "$target" & ;;
    esac
done
while [ -n "$(jobs -p)" ]; do wait -n || { [ $? -eq 127 ] && break || failed=1; }; done
exit $failed
