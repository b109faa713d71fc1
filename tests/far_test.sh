#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Ranks on virtual hosts: right results where hosts have different numbers of ranks, the bytes that algorithms claim on the
# wires, memory that is used again, who is cut off and who computes. Usage: far_test.sh PLAIT_HOSTS FAR_RANKS. Root only.
set -u
hosts=$(realpath "$1")
ranks=$(realpath "$2")
failed=0

if [ "$(id -u)" -ne 0 ] || ! unshare -n true 2>/dev/null; then
    echo "skipped: virtual hosts need root"
    exit 77
fi
export PLAIT_CALIBRATE=0 # no subject here, and tens of ms of every process
export PLAIT_SECRET=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef

# on N RANKS MODE [OPTIONS]: with what UCX likes best and over TCP.
check() {
    "$hosts" "$1" --ranks "$2" ${4-} -- "$ranks" "$3" || { echo "FAILED: $3 on $2 ranks"; failed=1; return 1; }
}
check 3 3+1+2 right
UCX_TLS=tcp check 3 1+3+2 right
check 4 2 bytes
check 2 1 reuse
UCX_TLS=tcp check 2 2 reuse
PLAIT_FOR_TESTS=1 PLAIT_HOSTS=2 check 1 2 reuse # UCX reads the other process's memory
# These mostly wait: together. They are cut when they surely run.
waits=
PLAIT_DEADLINE=6 check 3 1+2+1 cut "--cut 12:1" &
waits="$waits $!"
PLAIT_DEADLINE=3 check 3 1 served "--cut 12:0" &
waits="$waits $!"
PLAIT_DEADLINE=4 check 2 1 busy &
waits="$waits $!"
PLAIT_DEADLINE=3 check 2 1 late "--cut 12:1" &
waits="$waits $!"
for one in $waits; do
    wait "$one" || failed=1
done

# behind N COMMANDS MODE: the same after commands of the shell on each host.
behind() {
    "$hosts" "$1" -- sh -c "$2 exec \"\$0\" $3" "$ranks" || { echo "FAILED: $3 behind '$2'"; failed=1; }
}
# Data does not go over a bridge of containers, which has one address on all hosts and claims more than the cable.
behind 2 'ip link add docker0 mtu 9000 type bridge && ip addr add 172.17.0.1/16 dev docker0 &&
    ip link add d0 mtu 9000 type veth peer name d1 mtu 9000 && ip link set d0 master docker0 up && ip link set d1 up &&
    ip link set docker0 up &&' right
# Ranks meet, and what UCX is told to take leads nowhere.
UCX_NET_DEVICES=nowhere PLAIT_DEADLINE=3 behind 2 'ip link add nowhere type veth peer name end &&
    ip addr add 192.168.$((50 + HOST_INDEX)).1/24 dev nowhere && ip link set nowhere up && ip link set end up &&
    ip route add default via 10.77.7.7 && ip neigh add 10.77.7.7 lladdr 02:00:00:00:00:99 dev eth0 nud permanent &&' walled
exit $failed
