#!/bin/sh
# check_exports.sh ARS.H LIBARS.SO FOLDER-OR-FILE...: the symbols of the shared library are the functions that ars.h marks
# ARS_API. A name that leaks, or one that is declared and missing, fails. So does one without a use: in a source file of the
# folders, or in another line of ars.h.
set -eu
LC_ALL=C
export LC_ALL
header=$1 library=$2
shift 2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

grep '^ARS_API ' "$header" | sed -E 's/^[^(]*[ *](ars_[a-z0-9_]+)\(.*/\1/' | sort -u >"$work/declared"
"${NM:-nm}" -D --defined-only "$library" | awk '{ sub(/@.*/, "", $3); print $3 }' | sort -u >"$work/exported"

status=0
if ! diff -u --label "$header" --label "$library" "$work/declared" "$work/exported"; then
    echo "The exported symbols differ: ARS_API belongs to the functions of $header, and to no other." >&2
    status=1
fi
for name in $(cat "$work/declared"); do
    [ "$(grep -cw "$name" "$header")" -gt 1 ] && continue
    grep -rqw --include='*.c' --include='*.cpp' --include='*.hpp' --include='*.h' --include='*.py' --include='*.f90' "$name" "$@" && continue
    echo "$name is exported, and nobody calls it: neither $header nor a source file below $*" >&2
    status=1
done
exit $status
