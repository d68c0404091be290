#!/bin/sh
# check_state.sh LIBARS.A: all that libars keeps from one call to the next is in ars__me, so that one look at process.h says
# what a fork inherits. ars__thread is the one exception: what a thread is, no other thread can say.
set -eu
kept=$("${NM:-nm}" --format=sysv "$1" 2>/dev/null | awk -F'|' '
    { gsub(/ /, "", $1); gsub(/ /, "", $7) }
    $7 ~ /^\.(data|bss|tdata|tbss)(\.|$)/ && $7 !~ /^\.data\.rel\.ro/ && $1 != "ars__me" && $1 != "ars__thread" { print $1 }')
case $("${NM:-nm}" "$1" 2>/dev/null) in *ars__me*) ;; *) echo "$1 has no ars__me: is it libars?" >&2; exit 1 ;; esac
[ -z "$kept" ] && exit 0
echo "libars keeps state outside ars__me (bridge/lib/process.h): move it there:" >&2
echo "$kept" >&2
exit 1
