#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# plait-info's output and errors. Usage: info_test.sh PLAIT_INFO
set -u
info=$1
failed=0
room=$(mktemp -d) || exit 1
trap 'rm -rf "$room"' EXIT
unset $(env | sed -n 's/^\(PLAIT_[A-Z_]*\)=.*/\1/p')
export PLAIT_TUNING=none # not this user's

# says STATUS PATTERN ARGUMENT ...: the exit status, and a line of stdout or stderr.
says() {
    local status=$1 pattern=$2
    shift 2
    "$info" "$@" >"$room/out" 2>&1
    local got=$?
    if [ $got -ne "$status" ] || ! grep -q -e "$pattern" "$room/out" ||
        { [ $got -eq 2 ] && [ "$(wc -l <"$room/out")" -ne 1 ]; }; then # a mistake is one line
        echo "plait-info $*: exit status $got (expected $status), no line like '$pattern' in:"
        cat "$room/out"
        return 1
    fi
}

overview_names_version_machine_and_next_steps() {
    says 0 '^Plait [0-9]' && says 0 '^caches  *L1 ' && says 0 '^processor ' && says 0 '^cma  *\(yes\|no (process_vm_readv: \)' && says 0 '^gpu  *\(yes: \|no (\)' && says 0 '^Try: '
}
version_is_a_bare_number() {
    says 0 '^[0-9]*\.[0-9]*\.[0-9]*$' --version
}
features_name_the_package_of_what_is_missing() {
    says 0 '^hwloc  *\(yes\|no .*install libhwloc-dev\)' --features &&
        says 0 '^nccl  *\(yes\|no\) .*libnccl.so.2' --features && says 0 '^simd  *\(yes\|no\) .*AVX2' --features &&
        says 0 '^python  *\(yes .*Python\|no .*install python3-numpy\)' --features
}
features_name_plug_ins_compiler_and_commit() {
    says 0 '^plug-in  *\(yes\|no\) .*/plait-ucx.so$' --features && says 0 '^plug-in  *yes .*/plait-pmi.so$' --features && says 0 '^compiler  *[a-z]* [0-9]' --features &&
        says 0 '^commit  *\([0-9a-f]\{7,\}\|unknown\)' --features
}
json_names_a_setting_that_is_refused() {
    PLAIT_WARN=x says 1 "PLAIT_WARN='x'.*: allowed is seconds\|built without JSON" --json
}
json_is_one_object_or_says_why_not() {
    says 1 'built without JSON' --json || "$info" --json | python3 -c '
import json, sys
d = json.load(sys.stdin)
assert d["version"].count(".") == 2 and isinstance(d["features"]["ucx"], bool), d
assert {s["name"] for s in d["settings"]} >= {"PLAIT_ALGO", "PLAIT_LOG"}, d
assert len(d["plugins"]) == 5 and d["machine"]["processors"] > 0 and d["build"]["compiler"], d
'
}
config_shows_value_origin_and_text() {
    says 0 '^PLAIT_DEADLINE  *= 600  *# default; seconds' --config &&
        PLAIT_DEADLINE=5 says 0 '^PLAIT_DEADLINE  *= 5  *# environment; ' --config &&
        echo 'PLAIT_WARN = 7' >"$room/conf" &&
        PLAIT_CONFIG=$room/conf says 0 "^PLAIT_WARN  *= 7  *# $room/conf:1; " --config &&
        PLAIT_DEADLINE=5 says 0 '^setting  *PLAIT_DEADLINE=5 (environment)' &&
        says 0 '^PLAIT_ARENA  *= automatic' --config && says 0 '^PLAIT_SLICE  *= automatic' --config &&
        PLAIT_SLICE=Auto says 0 '^PLAIT_SLICE  *= Auto  *# environment' --config && PLAIT_SLICE=64K says 0 '^slices  *16 of 64 KiB' --explain allreduce 1M --ranks 4 &&
        PLAIT_ARENA=much says 1 'allowed is automatic, or a number of bytes' --config
}
bad_settings_are_errors_and_the_others_are_still_shown() {
    PLAIT_WARN=soon says 1 "PLAIT_WARN='soon' (environment): allowed is seconds" --config &&
        PLAIT_WARN=soon says 1 '^PLAIT_DEADLINE' --config
}
unknown_settings_are_warned_of() {
    PLAIT_DEADLNE=5 says 0 'did you mean PLAIT_DEADLINE?' --config
}
nccl_lists_what_is_real_emulated_and_refused() {
    says 0 '^  ncclAllReduce  *plait_allreduce' --nccl && says 0 '^Refused: ' --nccl && says 0 '^  NCCL_DEBUG ' --nccl
}
algorithms_show_their_claims() {
    says 0 '^ring  *126  *126  *1.969  *1.969 ' --algorithms --ranks 64 &&
        says 0 '^At 6 ranks' --algorithms --nodes 3+1+2
}
explain_says_what_and_why() {
    says 0 '^allreduce of 262144 float32 (1 MiB), sum, 4 ranks$' --explain allreduce 1M --ranks 4 &&
        says 0 '^allgather of 262144 float32 (1 MiB) of one rank, ' --explain allgather 1M --ranks 4 &&
        says 0 '^why  *[A-Za-z0-9]' --explain allreduce 4 --type bfloat16 --op avg --inplace &&
        says 0 '^algorithm  *ring$' --explain allreduce 1M --ranks 4 --algo ring &&
        PLAIT_ALGO=allreduce:ring says 0 '^algorithm  *ring$' --explain allreduce 1M --ranks=4 &&
        says 0 '^plan hash  *[0-9a-f]\{16\}$' --explain allreduce 0 &&
        says 0 '^allgatherv of at most 256 float32 (1 KiB), 3 ranks$' --explain allgatherv 1K --ranks 3 &&
        says 0 '^allgatherv of at most ' --explain ALLGATHERV 1K && says 0 '^allgatherv of at most ' --explain AllGatherV 1K &&
        says 0 '^allgatherv of at most ' --explain MPI_ALLGATHERV 1K && says 0 '^allgatherv of at most ' --explain all_gather_v_perf 1K &&
        says 0 '^algorithm  *direct$' --explain broadcast 1M --ranks 8 &&
        says 0 '^why  *\(one of \)\?the fastest by the model of the machine' --explain broadcast 1M --ranks 8 &&
        says 0 '^candidates  *direct  *[0-9.]* us for 1 MiB$' --explain broadcast 1M --ranks 8 &&
        says 0 '^runner-up  *[a-z-]*  *[0-9.]* us for 1 MiB$' --explain broadcast 1M --ranks 8 &&
        says 1 'root is 8, but the comm has 8 ranks' --explain broadcast 1M --ranks 8 --root 8 &&
        says 0 '^algorithm  *ring$' --explain allreduce 1M --np 4 --algorithm=All_Reduce:ring -d bf16 &&
        says 0 '^allreduce of 8 float16' --explain allreduce 16 --type half && says 0 '^allreduce of 8 float16' --explain allreduce 16 --dtype half &&
        PLAIT_ALGO=ALLGATHER_V:direct says 0 '^algorithm  *direct$' --explain allgatherv 1M --ranks 4 &&
        PLAIT_ALGO=ncclAllGather:ring says 0 '^algorithm  *ring$' --explain allgatherv 1M --ranks 4 &&
        says 2 '--algo all_gather:ring: must be an algorithm of allreduce' --explain allreduce 1M --algo all_gather:ring && says 0 '^allreduce of ' --explain plait_allreduce 1K &&
        says 1 'moves several blocks in one message' --explain allgatherv 1K --ranks 4 --algo bruck &&
        says 2 'must be a collective with data' --explain broadcastv 1K &&
        : "a long chain over a network has messages of 64 KiB at least" &&
        says 0 '^slices  *4 of 4 MiB$' --explain allreduce 16M --nodes 64x1 --algo ring
}
# explained ALGORITHM COLLECTIVE SIZE NODES [OPTION]
explained() {
    local algorithm=$1 coll=$2 size=$3 nodes=$4
    shift 4
    says 0 "^algorithm  *$algorithm\$" --explain "$coll" "$size" --nodes "$nodes" "$@" &&
        says 0 '^why  *\(one of \)\?the fastest by the model' --explain "$coll" "$size" --nodes "$nodes" "$@"
}
crossings_are_where_another_algorithm_is_chosen() {
    says 0 '^from 4 B  *one-shot  *eager' --explain allreduce 64M --crossings --ranks 4 &&
        says 0 '^from [0-9]* [KM]iB  *two-shot  *engine  *\(one of \)\?the fastest' --explain allreduce 64M --crossings --ranks 4 &&
        says 0 '^from [0-9]* [KM]iB  *hierarchy  *engine' --explain allreduce 64M --crossings --nodes 3+1+2
}
explain_knows_several_hosts() {
    explained one-shot allreduce 128K 2x1 && explained hierarchy allreduce 1M 3+1+2 && explained halving-doubling allreduce 1M 4x2 &&
        explained ring allgather 64K 4x2 && explained chain broadcast 16M 4x2 &&
        explained binomial reduce 64K 4x2 --reproducible &&
        says 0 '^algorithm  *two-shot$' --explain allreduce 1M --nodes 1x4
}
explain_refuses_what_the_call_would_refuse() {
    says 1 "did you mean 'ring'" --explain allreduce 1M --algo rin
}
ranks_are_as_many_as_a_comm_may_have() {
    says 0 ' 4096 ranks' --explain allreduce 1M --ranks 4096 &&
        says 2 "--ranks 4097: must be a whole number from 1 to 4096" --explain allreduce 1M --ranks 4097 &&
        says 2 "--ranks 9999999: must be a whole number from 1 to 4096" --explain allreduce 1M --ranks 9999999
}
a_process_that_only_starts_ranks_names_its_children() {
    sh -c 'sleep 60 & echo $! >"$0"; wait' "$room/child" &
    local parent=$! tries=0
    while [ ! -s "$room/child" ] && [ $tries -lt 600 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    says 1 "process $parent: it has no arena of Plait.*among its children: $(cat "$room/child")" --dump $parent
    local status=$?
    kill "$(cat "$room/child")" $parent
    return $status
}
wrong_command_lines_are_named() {
    says 2 "unknown option --rank; did you mean --ranks?" --rank 3 &&
        says 2 "unknown option --bogus; see --help$" --bogus &&
        says 2 '--ranks needs a value' --explain allreduce 1M --ranks &&
        says 2 "--ranks 0: must be a whole number from 1" --algorithms --ranks 0 &&
        says 2 "--ranks 4x: must be" --algorithms --ranks 4x &&
        says 2 '--inplace takes no value' --explain allreduce 1M --inplace=1 &&
        says 2 "unexpected argument 'allreduce'" allreduce 1M &&
        says 2 '--explain needs a collective and a size' --explain allreduce &&
        says 2 "--explain barrier" --explain barrier 4 &&
        says 2 "size 1X" --explain allreduce 1X &&
        says 2 'size 1001: not a whole number of float32 (4 bytes each)' --explain allreduce 1001 &&
        says 2 "--type float31" --explain allreduce 4 --type float31 && says 2 "-d float31" --explain allreduce 4 -d float31 &&
        says 2 "but --np says 5" --algorithms --nodes 3+1+2 --np 5 &&
        says 2 "--op xor" --explain allreduce 4 --op xor &&
        says 2 "--round never" --explain allreduce 4 --round never &&
        says 2 "--nodes 4x: must be" --algorithms --nodes 4x &&
        says 2 "has 6 ranks, but --ranks says 5" --algorithms --nodes 3+1+2 --ranks 5 &&
        says 2 'inplace has an effect only with --explain' --inplace &&
        says 2 "--dump self: must be a process ID" --dump self &&
        says 2 '--last has an effect only with --dump' --last 3 &&
        says 2 '--last 1025: must be at most 1024' --dump 1 --last 1025 &&
        says 2 "give it alone" --json --features
}
a_new_secret_is_for_its_owner_alone_and_replaces_none() {
    mkdir "$room/home" && HOME=$room/home says 0 "^$room/home/.plait-secret: a new secret" --make-secret &&
        [ "$(stat -c %a "$room/home/.plait-secret")" = 600 ] && grep -qx '[0-9a-f]\{64\}' "$room/home/.plait-secret" &&
        cp "$room/home/.plait-secret" "$room/first" && HOME=$room/home says 1 'is there already' --make-secret &&
        cmp "$room/home/.plait-secret" "$room/first" && HOME= says 1 'HOME is not set' --make-secret
}
help_lists_every_option() {
    says 0 '^Usage: plait-info ' --help && says 0 '^      --explain ' --help && says 0 '^  -d, --datatype TYPE ' --help && says 0 '^      --help ' -h && [ "$(grep -c -- --version "$room/out")" = 1 ]
}

run() {
    echo "[ RUN      ] $1"
    if "$1"; then
        echo "[       OK ] $1"
    else
        echo "[  FAILED  ] $1"
        failed=1
    fi
}
for name in $(declare -F | sed -n 's/^declare -f //p' | grep _); do
    run "$name"
done
exit $failed
