#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Levels of a comm, as hwloc describes them. Usage: levels_test.sh PLAIT_INFO PLAIT_PLAN PLAIT_PERF
info=$1 plan=$2 perf=$3
failed=0
unset HWLOC_XMLFILE HWLOC_SYNTHETIC HWLOC_THISSYSTEM
tmp=$(mktemp -d) && trap 'rm -rf "$tmp"' EXIT

check() { # WHAT COMMAND...: it succeeds
    what=$1
    shift
    "$@" > "$tmp/check" 2>&1 || { echo "FAILED: $what"; cat "$tmp/out" "$tmp/err"; failed=1; }
}

perf() { # TOPOLOGY RANKS ARGUMENTS...
    topology=$1 n=$2
    shift 2
    HWLOC_SYNTHETIC=$topology PLAIT_BIND=core PLAIT_LOG=info PLAIT_CHECK=1 "$perf" --ranks "$n" -b 1K -e 4K -n 2 "$@" \
        > "$tmp/out" 2> "$tmp/err"
}

if "$info" --features 2> "$tmp/err" | grep -q 'hwloc:no'; then
    "$info" --topology > "$tmp/out" 2> "$tmp/err"
    check 'without hwloc plait-info says that hosts are the only level' grep -q '^place .*hosts are the only level' "$tmp/out"
    exit $failed
fi

# Without its plug-in, hosts are the only level; plait-info says so, and comms work.
mkdir "$tmp/none"
PLAIT_PLUGINS=$tmp/none "$info" --topology > "$tmp/out" 2> "$tmp/err"
check 'no plug-in' grep -q '^place .*hosts are the only level: .*plait-hwloc.so' "$tmp/out"
PLAIT_PLUGINS=$tmp/none perf 'package:2 l3:1 core:2 pu:1' 4
check 'a comm without the plug-in' grep -q 'hosts: 1, Plait' "$tmp/err"
check 'a comm without the plug-in says why' grep -q 'hosts are the only level' "$tmp/err"

two='package:2 l3:1 core:2 pu:1'
HWLOC_SYNTHETIC=$two "$info" --topology > "$tmp/out" 2> "$tmp/err"
check 'two packages' grep -q 'several of 2 packages\|package 0 of 2' "$tmp/out"

# 4 ranks on 2 packages of one cache each: one level. Where ranks share all, there is none.
perf "$two" 4 --algo hierarchy
check 'hierarchy runs over packages' grep -q '4096 .* 0$' "$tmp/out"
check 'packages are a level, caches would say the same' grep -q 'levels: package, Plait' "$tmp/err"
perf 'package:1 l3:1 core:4 pu:1' 4
check 'one package' grep -q 'hosts: 1, Plait' "$tmp/err"
perf 'package:1 l3:1 core:4 pu:1' 4 --algo hierarchy
check 'hierarchy is refused where ranks share all' grep -q 'does not fit 4 ranks; the ranks must lie on two nodes or more' "$tmp/err"

# 6 ranks on 2 packages of 2 caches of 2 cores: groups of 2, 1, 2 and 1. And several hosts.
perf 'package:2 l3:2 core:2 pu:1' 6 --algo hierarchy:direct:ring
check 'two levels' grep -q 'levels: cache, package, Plait' "$tmp/err"
check 'two levels run' grep -q '4096 .* 0$' "$tmp/out"
PLAIT_RACK=a perf 'package:2 l3:2 core:2 pu:1' 6
check 'one rack is no level' grep -q 'levels: cache, package, Plait' "$tmp/err"

# 10 ranks on 16 cores: groups of one and two by cache, of two and three by memory node, of five by package.
for spec in hierarchy hierarchy:tree:two-shot hierarchy:jia:ring; do
    perf 'package:2 numa:2 l3:2 core:2 pu:1' 10 --algo $spec
    check "three levels, $spec" grep -q 'levels: cache, memory node, package, Plait' "$tmp/err"
    check "three levels run, $spec" grep -q '4096 .* 0$' "$tmp/out"
done
"$info" --explain allreduce 1M --levels 2+1,2+2 > "$tmp/out" 2> "$tmp/err"
check 'explained levels of different rank counts' grep -q -- '--levels 2+1,2+2: must be' "$tmp/err"
"$info" --explain allreduce 1M --levels 2+1,2+1 --ranks 4 > "$tmp/out" 2> "$tmp/err"
check 'explained levels of other ranks' grep -q -- '--levels 2+1,2+1 has 3 ranks, but --ranks says 4' "$tmp/err"
"$info" --explain allreduce 1M --levels 2x3 --algo hierarchy > "$tmp/out" 2> "$tmp/err"
check 'explained levels' grep -q '^algorithm  *hierarchy$' "$tmp/out"

# Three levels of uneven groups, by the checker.
"$plan" check hierarchy:direct --levels 2+1+3+2+1,3+3+2+1,6+3 > "$tmp/out" 2> "$tmp/err"
check 'three levels' grep -q '^2 passed, 0 failed' "$tmp/out"
"$plan" check hierarchy --levels 2+1+3,4+3 > "$tmp/out" 2> "$tmp/err"
check 'levels of different rank counts' grep -q -- '--levels 2+1+3,4+3: must be' "$tmp/err"
"$plan" check hierarchy --levels 3+3,2+4 > "$tmp/out" 2> "$tmp/err"
check 'groups that overlap' grep -q "'hierarchy' does not fit 6 ranks" "$tmp/err"
exit $failed
