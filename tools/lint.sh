#!/bin/bash
# lint.sh [--fix]: ruff, mypy and clang-format. With --fix, formats instead of checking.
set -u
cd "$(dirname "$0")/.."
: "${VENV:=.venv}"
failed=0
check() {
    echo "$*" | cut -c -100
    "$@" || failed=1
}

mapfile -t python < <(find bridge docs pyside tests tools -name '*.py' -o -name '*.pyi' | sort)
mapfile -t c < <(find bridge csim tests \( -name '*.c' -o -name '*.h' -o -name '*.cpp' -o -name '*.hpp' \) | sort)

if [ "${1:-}" = --fix ]; then
    check "$VENV/bin/ruff" check --quiet --fix "${python[@]}"
    check "$VENV/bin/ruff" format --quiet "${python[@]}"
    check clang-format -i "${c[@]}"
else
    check "$VENV/bin/ruff" check --quiet "${python[@]}"
    check "$VENV/bin/ruff" format --quiet --check "${python[@]}"
    check "$VENV/bin/mypy"
    check clang-format --dry-run -Werror "${c[@]}"
fi
exit $failed
