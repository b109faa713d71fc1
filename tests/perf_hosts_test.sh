#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# plait-perf under launchers: every process is one rank, rank 0 prints, and Open MPI runs on the same hosts.
# Arguments: plait-perf, plait-hosts, plait-info, and "yes" when the Open MPI peer, UCX's plug-in and PMIx's were built.
set -u
perf=$(realpath "$1") hosts=$(realpath "$2") info=$(realpath "$3") openmpi=$4 ucx=$5 pmix=$6
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
failed=0
unset $(env | sed -n 's/^\(PLAIT_LAUNCHER\|RANK\|WORLD_SIZE\|OMPI_[A-Z_]*\)=.*/\1/p')
quick="-b 4 -e 64K -f 128 -n 10"

# ran STATUS COMMAND ...: the exit status.
ran() {
    local status=$1 got
    shift
    "$@" >"$out" 2>&1 </dev/null
    got=$?
    [ $got -eq "$status" ] && return
    echo "FAIL: $*: exit status $got (expected $status)"
    cat "$out"
    failed=1
    return 1
}
# has COUNT PATTERN: that many lines like it.
has() {
    [ "$(grep -c -E -e "$2" "$out")" -eq "$1" ] && return
    echo "FAIL: not $1 lines like '$2' in:"
    cat "$out"
    failed=1
}
row='^(\[host0 0\])? +[0-9]+ +[0-9]+ +float +sum +-1 .* 0( *$|  \|)'

# torchrun's variables on one host: what a launcher does, with no network.
torchrun() {
    local n=$1 pids="" r status=0
    shift
    for r in $(seq $((n - 1)) -1 0); do
        RANK=$r WORLD_SIZE=$n LOCAL_RANK=$r LOCAL_WORLD_SIZE=$n MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 \
            TORCHELASTIC_RUN_ID=$$ "$@" &
        pids="$pids $!"
    done
    for r in $pids; do
        wait "$r" || status=$?
    done
    return $status
}
ran 0 torchrun 3 "$perf" $quick && has 3 "$row" && has 1 'Rank  2 Group' && has 1 'test concluded'
ran 0 torchrun 2 "$perf" fusion --tensors "$(dirname "$0")/../bench/data/resnet50.csv" --max-elements 4096 -n 5 \
    --layouts cubic --payload float --gradients own
ran 0 torchrun 2 "$perf" --overlap busy -b 64K -e 64K -n 5
ran 0 torchrun 3 "$perf" elastic --mode sync2,async,original --servers 2 --bytes 64K -n 2 --rounds 2 &&
    has 3 '^ +(sync2|async|original) +[0-9]' && has 1 'elastic: rounds of 1 updates'
ran 2 torchrun 2 "$perf" elastic --servers 2 && has 1 'plait-perf: --servers 2 of the 2 ranks'
# A mistake is said once, and nobody waits for the others.
ran 2 torchrun 2 "$perf" --ranks 3 && has 1 'plait-perf: --ranks 3: torchrun started 2 ranks.*leave it out'
ran 2 torchrun 2 "$perf" --tensors /nowhere && has 1 plait-perf:
ran 0 env PLAIT_LAUNCHER=none RANK=0 WORLD_SIZE=5 "$perf" $quick && has 3 "$row"

if [ "$openmpi" = yes ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    ran 0 mpirun --oversubscribe -n 4 "$perf" $quick && has 3 "$row" && has 1 'Rank  3 Group'
    ran 0 mpirun --oversubscribe -n 2 "$perf" $quick --peer openmpi:ob1 && has 3 "$row" && has 1 'openmpi:ob1 +: Open MPI'
fi

if ! reason=$(unshare -n true 2>&1) && ! reason=$(unshare -Urn true 2>&1); then
    echo "skipped: over hosts: no namespaces for this user here: $reason"
    [ $failed -eq 0 ] && exit 77
    exit 1
fi
if [ "$ucx" != yes ]; then
    echo "skipped: over hosts: built without UCX"
    [ $failed -eq 0 ] && exit 77
    exit 1
fi
ran 0 "$hosts" 2 --ranks 1+2 -- "$perf" $quick && has 3 "$row" && has 1 'Rank  0 .* host0 ' && has 2 'Rank  [12] .* host1 '
ran 0 "$hosts" 2 -- "$perf" elastic --mode sync2 --payload bfloat16 --bytes 1M -n 2 --rounds 2 && has 1 '^\[host0 0\] +sync2 +[0-9]'
# Algorithms of several nodes had been refused: who shares a node is known when the ranks meet.
ran 0 "$hosts" 2 --ranks 2 -- "$perf" $quick --algo hierarchy && has 3 "$row"
ran 3 "$hosts" 2 --ranks 2 -- "$perf" $quick --algo hierachy && has 1 "plait-perf: .*did you mean 'hierarchy'"
# Ranks that leave first end well: the thread that hears of other hosts had read memory that was gone already.
for _ in 1 2 3 4 5; do
    ran 0 "$hosts" 3 -- "$perf" -b 4 -e 4 -n 5 --place out || break
done
# Whose process dies is named, and the others end.
ran 3 "$hosts" 2 -- sh -c '"$1" -b 4M -e 4M --cell-time 60 --place in & p=$!
    if [ $HOST_INDEX = 1 ]; then
        until grep -qs memfd:plait /proc/$p/maps || ! kill -0 $p 2>/dev/null; do sleep 0.1; done # it has met the others
        sleep 0.5
        kill -9 $p
        wait $p
        exit 0
    fi
    wait $p' . "$perf" &&
    has 1 'plait-perf: plait: rank (0: .*rank 1|1 ended unexpectedly: closed its connection)'
if [ "$openmpi" = yes ]; then
    ran 0 "$hosts" 2 -- "$perf" $quick --peer openmpi:tcp,openmpi:ucx &&
        has 3 "$row" && has 1 'openmpi:tcp +: Open MPI' && has 1 'openmpi:ucx +: Open MPI'
    ran 0 "$hosts" 3 --ranks 1+0+0 -- mpirun -x MASTER_ADDR -H host0,host1,host2 "$perf" $quick --peer openmpi:tcp &&
        has 3 "$row" && has 1 'Rank  2 .* host2 '
fi
# Rank 0's name has no address at first, as in a cluster of containers that start.
ran 0 "$hosts" 2 -- sh -c '(sleep 1; echo 10.77.0.1 late >>/etc/hosts) & MASTER_ADDR=late exec "$1" --peers' . "$info" && has 1 ' +1  host1 +1 '
# Nobody says where rank 0 is: mpirun passes its id around, secret included.
if [ "$openmpi" = yes ] && [ "$pmix" = yes ]; then
    # MASTER_ADDR and others are rank 0's host's alone.
    ran 0 "$hosts" 2 --ranks 1+0 -- mpirun -H host0:2,host1:2 "$info" --peers &&
        has 2 ' +[23]  host1 +1  ucx +tcp/eth0 ' && has 0 warn
    strayed="OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=1 PMIX_RANK=1"
    ran 1 env $strayed "$info" --peers && has 1 "cannot learn rank 0's address from openmpi: PMIx_Init: .*MASTER_ADDR"
    ran 1 env $strayed PLAIT_PLUGINS=/nowhere "$info" --peers && has 1 'set MASTER_ADDR .* there is no /nowhere/plait-pmix.so'
fi

# plait-info --peers: how each is reached, and a warning where that is slow by surprise.
ran 0 torchrun 3 "$info" --peers && has 2 '^ +[12] .* shm +memory +[0-9.]+ +[0-9.]+$' && has 0 warn
ran 1 env -u RANK "$info" --peers && has 1 'mpirun -n 4 plait-info --peers'
ran 0 "$hosts" 2 --ranks 1+2 -- "$info" --peers && has 2 ' +[12]  host1 +1  ucx +tcp/eth0 ' && has 0 'warn: (rank|mess)'
# As two containers of one machine, each with a host name of its own.
ran 0 "$hosts" 2 -- sh -c 'umount /proc/sys/kernel/random/boot_id && exec "$1" --peers' . "$info" && has 1 'warn: ranks 0 and 1 are on one host.*--network host'
ran 0 "$hosts" 2 -- sh -c '[ $HOST_INDEX = 1 ] || { ip link add slow0 type veth peer name slow1 && ip addr add 10.99.0.1/24 dev slow0; }
    exec "$1" --peers' . "$info" && has 1 'warn: messages go over tcp/eth0; slow0 has an address and is down'
# A slow path between two others, which rank 0 does not go.
ran 0 "$hosts" 3 -- sh -c '[ $HOST_INDEX != 1 ] || { ip link add slow0 link eth0 type macvlan mode bridge && ip link set slow0 up &&
        tc qdisc add dev slow0 root tbf rate 20mbit burst 72kb latency 400ms && ip route add 10.77.0.3/32 dev slow0 src 10.77.0.2; }
    exec "$1" --peers' . "$info" && has 1 'slow: (the path between rank 1 \(host1\) and rank 2 \(host2\): .* GB/s; the medians between hosts are|rank [12] \(host[12]\): 2 of its 2 paths)'
exit $failed
