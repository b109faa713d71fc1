#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# plait-plan's output and errors, and the numbers of docs/algorithms.md. Usage: plan_tool_test.sh PLAIT_PLAN ALGORITHMS_MD
set -u
plan=$1
docs=$2
here=$(dirname "$0")
failed=0
room=$(mktemp -d) || exit 1
trap 'rm -rf "$room"' EXIT

# says STATUS PATTERN ARGUMENT ...: the exit status, and a line of stdout or stderr.
says() {
    local status=$1 pattern=$2
    shift 2
    "$plan" "$@" >"$room/out" 2>&1
    local got=$?
    if [ $got -ne "$status" ] || ! grep -q -e "$pattern" "$room/out" ||
        { [ $got -eq 2 ] && [ "$(wc -l <"$room/out")" -ne 1 ]; }; then # a mistake is one line
        echo "plait-plan $*: exit status $got (expected $status), no line like '$pattern' in:"
        cat "$room/out"
        return 1
    fi
}

list_shows_parameters_sources_and_costs() {
    says 0 '^torus\[:XxY' list && says 0 'source: Jia et al. 2018' list &&
        says 0 '1024 ranks: depth 2046, rounds 2046, sends 2046 and receives 2046 of 1024 blocks' list --ranks 1024 &&
        says 0 'does not apply to 8 ranks of one node (try --nodes)' list &&
        says 0 '8 ranks: depth 8, rounds at most 8' list --nodes 4x2 &&
        says 0 '^==== alltoall ====$' list --coll all && says 0 '^bruck$' list --coll allgather
}
show_prints_one_rank_or_all() {
    says 0 '^plan 1 allreduce rank 3 of 4, .* out of place' show torus:2x2 --ranks 4 &&
        says 0 '^r1 #1 recv ' show ring --ranks 4 --rank 1 && ! grep -q '^r0' "$room/out" &&
        says 0 'in place$' show ring --ranks 4 --inplace &&
        says 0 '^plan 1 gather root 2 rank 0 of 3' show gather:binomial --root 2 --ranks 3 &&
        says 0 '^plan 1 allgather rank 0 of 4' show MPI_Allgather:ring --ranks 4 &&
        says 0 '^plan 1 allgather rank 0 of 4' show all_gather:ring --ranks 4 &&
        says 0 '^plan 1 allgather rank 0 of 4' show ring --coll ALLGATHER_V --ranks 4 &&
        says 0 '^plan 1 alltoall rank 0 of 4' show MPI_Alltoallv:direct --nranks 4 &&
        says 0 '^plan 1 allreduce rank 0 of 4' show --algo ring --ranks 4 && says 0 '^[0-9]* passed' check --algorithm=AllGather:ring &&
        says 2 'algo ring: SPEC is given, too' show ring --algo ring && says 2 'collective allgathr: must be' show ring --collective allgathr
}
check_proves_ranges_and_node_maps() {
    says 0 '^68 passed, 0 failed' check halving-doubling --ranks 1-34 &&
        says 0 '1024 ranks in place: depth 157, rounds 186' check hierarchy:jia:ring --nodes 64x16 &&
        says 0 '^[0-9]* passed, 0 failed' check all --nodes 3+1+2 &&
        says 0 '^ok    two-shot .* canonical, no partial sums' check &&
        says 0 '^ok    reduce:binomial .* ranks root 8: depth 4' check reduce:binomial --root all --ranks 9 &&
        says 0 '^[0-9]* passed, 0 failed' check all --coll all --root all --ranks 1-12
}
simulate_predicts() {
    cat >"$room/m.json" <<'END'
{ "name": "four hosts", "levels": [
    { "name": "host", "children": 2, "bandwidth": "10 GB/s", "latency": "200 ns" },
    { "name": "cluster", "children": 4, "links": 1, "bandwidth": 1e9, "latency": "2 us" } ] }
END
    says 0 '^four hosts$' simulate --machine "$room/m.json" --bytes 1M && grep -q '^ring  *[0-9]*\.[0-9] ' "$room/out" &&
        says 0 '"algorithms": \[$' simulate ring --machine "$room/m.json" --json &&
        says 0 '^broadcast of 4194304 bytes, 6 ranks$' simulate broadcast:chain --machine "$room/m.json" --ranks 6 &&
        says 0 '^DGX H100 pod' simulate halving-doubling --machine dgx-h100-pod --ranks 16 &&
        says 2 "'broken' does not\|no algorithm 'broken'" simulate broken --machine "$room/m.json" &&
        says 2 'simulate needs --machine' simulate && says 2 "there is no machine 'nowhere'" simulate --machine nowhere || return 1
    while IFS='|' read -r what from to; do
        sed "s/$from/$to/" "$room/m.json" >"$room/bad.json"
        says 2 "$what" simulate --machine "$room/bad.json" || return 1
    done <<'END'
levels\[1\] needs "bandwidth"|"bandwidth": 1e9, |
levels\[0\].latency is "200 m"; it must be|200 ns|200 m
levels\[1\].links is 1.5; it must be a whole number|"links": 1|"links": 1.5
levels\[1\] has no field 'link'|"links"|"link"
levels\[0\].children is 0; it must be 1|"children": 2|"children": 0
bad.json, line 3: |"latency": "2 us"|"latency":
the machine.name is ""; it must be text|"name": "four hosts"|"name": ""
END
}
# Every message is received with its bytes and tag, and every dependency is an earlier step of its rank.
export_is_a_goal_schedule() {
    says 2 'export needs a spec' export || return 1
    for spec in ring trees allgather:bruck alltoall:direct; do
        says 0 '^num_ranks 7$' export $spec --ranks 7 --bytes 1000 &&
            awk '/^rank/ { r = $2; delete seen }
                /: send/ { n++; message[r "-" $5 " " $7 " " $3]++ }
                /: recv/ { message[$5 "-" r " " $7 " " $3]-- }
                /^l[0-9]*:/ { seen[substr($1, 1, length($1) - 1)] = 1 }
                / requires / && !($1 in seen && $3 in seen) { exit bad = 1 }
                END { for (m in message) bad += message[m] != 0; exit bad || n == 0 }' "$room/out" || {
            echo "$spec: not a schedule:"; head -30 "$room/out"; return 1; }
    done
    # 1 MiB / 8 at 100 GB/s.
    echo '{ "name": "m", "reduce": "100 GB/s", "levels": [ { "name": "x", "children": 8, "bandwidth": 1e9, "latency": 1 } ] }' >"$room/reduce.json"
    says 0 '^l[0-9]*: calc 1311$' export ring --machine "$room/reduce.json" --bytes 1M
}
# Decoded by protobuf's own library: the same steps, messages and dependencies as GOAL's.
export_writes_chakra_traces() {
    says 2 'needs --output PREFIX' export ring --format chakra && says 2 'is for --format chakra' export ring --output x &&
        says 1 'No such file' export ring --format chakra --output "$room/none/x" || return 1
    for spec in ring trees allgather:bruck alltoall:direct; do
        says 0 '^num_ranks 7$' export $spec --ranks 7 --bytes 1000 && cp "$room/out" "$room/goal" &&
            $plan export $spec --ranks 7 --bytes 1000 --format chakra --output "$room/trace" &&
            /usr/bin/python3 "$here/chakra.py" 7 "$room/trace" "$room/goal" || return 1
    done
}
mistakes_are_named() {
    says 2 "no algorithm 'rong' for allreduce; did you mean 'ring'" check rong &&
        says 2 "no algorithm 'ring' for barrier, which has none (plait-plan list" check ring --coll barrier &&
        says 2 'needs list, show, check, simulate, export or draw' && says 2 "no command 'prove'" prove &&
        says 2 "'torus:3x3' does not fit 20 ranks" show torus:3x3 --ranks 20 &&
        says 2 "'hierarchy' does not fit 8 ranks; the ranks must lie on two nodes or more" check hierarchy &&
        says 2 "'torus:3y3': parameters '3y3' are not of the form torus" check torus:3y3 &&
        says 2 "ranks 9-3: must be a number" check ring --ranks 9-3 &&
        says 2 "ranks 0: must be a number" check ring --ranks 0 &&
        says 2 "ranks 1-8: must be a number from 1 to [0-9]*$" show ring --ranks 1-8 &&
        says 2 "rank 8: must be a rank from 0 to 7" show ring --rank 8 &&
        says 2 'rank has an effect only with show' check ring --rank 1 &&
        says 2 'sweep has an effect only with simulate' show ring --sweep 1K-1M &&
        says 2 'batch has an effect only with --step' simulate ring --machine abci --batch 3 && says 2 'show needs a spec' show &&
        says 2 "nodes 3+: must be like" check ring --nodes 3+ &&
        says 2 "nodes 2x2 has 4 ranks, but --ranks says 5" check ring --nodes 2x2 --ranks 5 &&
        says 2 "coll alltosome: must be all, or allreduce, barrier, " list --coll alltosome &&
        says 2 "coll all: must be one of allreduce" show ring --coll all &&
        says 2 "root 8: must be a rank from 0 to 7, or all" check gather:direct --root 8 &&
        says 2 "root all: must be a rank from 0 to 7$" show gather:direct --root all &&
        says 2 'alltoall has no form in place' check alltoall:direct --inplace && says 2 "unexpected argument 'ring'" list ring
}
help_shows_commands_and_examples() {
    says 0 '^Usage: plait-plan list' --help && says 0 '  $ plait-plan check all --ranks 1-64' --help
}
numbers_in_the_documentation_are_right() {
    local bar spec ranks depth rounds sent blocks option n=0
    while IFS='|' read -r bar spec ranks depth rounds sent blocks bar; do
        spec=${spec//[\` ]/} ranks=${ranks// /}
        [[ $ranks =~ ^[0-9]+$ ]] && option=--ranks || option=--nodes
        says 0 "depth ${depth// /}, rounds ${rounds// /}, sends ${sent// /} and receives [0-9]* of ${blocks// /} block" \
            check "$spec" $option "$ranks" || return 1
        n=$((n + 1))
    done < <(grep -E '^\| `[^|]*\| [0-9][0-9x+]* \| [0-9]+ \|' "$docs")
    [ $n -gt 10 ]
}

for t in $(declare -F | sed 's/^declare -f //' | grep -v '^says$'); do
    if $t; then
        echo "ok   $t"
    else
        echo "FAIL $t"
        failed=1
    fi
done
exit $failed
