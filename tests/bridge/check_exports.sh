#!/bin/sh
# check_exports.sh EXPORTS.TXT ARS.H LIBARS.SO FOLDER...: the symbols of the shared library, the functions that ars.h marks
# ARS_API, and the checked-in list are the same set. A name that leaks, or one that is declared and missing, fails. So does
# one without a use: in a source file of the folders, or in another line of ars.h.
set -eu
LC_ALL=C
export LC_ALL
expected=$1 header=$2 library=$3
shift 3

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

sort -u "$expected" >"$work/expected"
grep '^ARS_API ' "$header" | sed -E 's/^[^(]*[ *](ars_[a-z0-9_]+)\(.*/\1/' | sort -u >"$work/declared"
"${NM:-nm}" -D --defined-only "$library" | awk '{ sub(/@.*/, "", $3); print $3 }' | sort -u >"$work/exported"

status=0
compare() {
    diff -u --label "$expected" --label "$2" "$work/expected" "$work/$1" || status=1
}
compare declared "$header"
compare exported "$library"
if [ $status -ne 0 ]; then
    echo "The exported symbols differ: give internal functions no ARS_API, and list new public ones in $expected." >&2
fi
for name in $(cat "$work/expected"); do
    [ "$(grep -cw "$name" "$header")" -gt 1 ] && continue
    grep -rqw --include='*.c' --include='*.cpp' --include='*.h' --include='*.py' "$name" "$@" && continue
    echo "$name is exported, and nobody calls it: neither $header nor a source file below $*" >&2
    status=1
done
exit $status
