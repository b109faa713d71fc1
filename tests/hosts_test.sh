#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# plait-hosts: hosts share nothing but files and the network, and leave nothing behind. Usage: hosts_test.sh PLAIT_HOSTS
set -u
hosts=$(realpath "$1")
failed=0
room=$(mktemp -d /tmp/plait-hosts-test.XXXXXX) || exit 1
pid=
trap '[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null; rm -rf "$room"' EXIT
unset $(env | sed -n 's/^\(PLAIT_[A-Z_]*\)=.*/\1/p')

if ! reason=$(unshare -n true 2>&1) && ! reason=$(unshare -Urn true 2>&1); then
    echo "skipped: no namespaces for this user here: $reason"
    exit 77
fi
if ! python3 -c '' || ! PATH=$PATH:/usr/sbin:/sbin command -v ip tc >/dev/null; then
    echo "python3 or iproute2 is missing: run tools/setup"
    exit 1
fi

# ran STATUS ARGUMENT ...: the exit status, with output in $room/out and $room/err.
ran() {
    local status=$1 got
    shift
    "$hosts" "$@" >"$room/out" 2>"$room/err" </dev/null
    got=$?
    [ $got -eq "$status" ] && return
    echo "plait-hosts $*: exit status $got (expected $status)"
    cat "$room/out" "$room/err"
    return 1
}
# has FILE PATTERN: a line like that.
has() {
    grep -q -e "$2" "$room/$1" && return
    echo "no line like '$2' in:"
    cat "$room/$1"
    return 1
}
# eventually COMMAND ...: it succeeds within a minute, which is a limit against hangs.
eventually() {
    for _ in $(seq 600); do
        "$@" && return
        sleep 0.1
    done
    echo "never: $*"
    return 1
}
# A program for every rank, which finds the folder that all share in $ROOM.
ROOM=$room/shared
mkdir "$ROOM"
export ROOM
program() {
    rm -f "$ROOM"/*
    cat >"$ROOM/program"
}
# background ARGUMENT ...: $pid is plait-hosts. Signals are as on a terminal.
background() {
    set -m
    env --default-signal=INT,HUP "$hosts" --share "$ROOM" "$@" >"$room/out" 2>"$room/err" </dev/null &
    pid=$!
    set +m
}
# It ends with that status.
ends() {
    local got
    wait "$pid" 2>/dev/null
    got=$?
    pid=
    [ $got -eq "$1" ] && return
    echo "exit status $got (expected $1)"
    cat "$room/out" "$room/err"
    return 1
}
# In the namespace that has the bridges.
wires() {
    PATH=$PATH:/usr/sbin:/sbin nsenter -t "$pid" --net "$@" 2>/dev/null ||
        PATH=$PATH:/usr/sbin:/sbin nsenter -t "$pid" -U --preserve-credentials --net "$@"
}

hosts_reach_each_other_by_name_and_address() {
    program <<'END'
import os, socket, time
def connect(to):
    for _ in range(600):
        try:
            return socket.create_connection((to, os.environ['MASTER_PORT']))
        except ConnectionRefusedError:
            time.sleep(.1)
if os.environ['RANK'] == '0':
    server = socket.create_server(('', int(os.environ['MASTER_PORT'])))
    for _ in range(2):
        connection, peer = server.accept()
        print(connection.recv(99).decode(), peer[0])
else:
    connect(os.environ['MASTER_ADDR']).send(b'by address')
    connect('host0').send(b'by name')
    assert socket.gethostbyname(socket.gethostname()) == '10.77.0.2'
END
    ran 0 2 --share "$ROOM" -- python3 "$ROOM/program" &&
        has out '^\[host0 0\] by address 10.77.0.2$' && has out '^\[host0 0\] by name 10.77.0.2$'
}
hosts_of_different_racks_reach_each_other() {
    program <<'END'
import os, socket, time
mine = socket.create_server(('', 4000))
for host in range(5):
    for _ in range(600):
        try:
            socket.create_connection((f'host{host}', 4000))
            break
        except ConnectionRefusedError:
            time.sleep(.1)
    else:
        raise Exception('never reached')
open(os.environ['ROOM'] + '/done' + os.environ['RANK'], 'w')
while not all(os.path.exists(os.environ['ROOM'] + f'/done{r}') for r in range(5)):
    time.sleep(.01)
END
    ran 0 5 --racks 2 --link 1gbit --uplink 250mbit --share "$ROOM" -- python3 "$ROOM/program"
}
hosts_have_namespaces_names_and_folders_of_their_own() {
    program <<'END'
import os, socket, time
room, rank = os.environ['ROOM'], int(os.environ['RANK'])
assert socket.gethostname() == f'host{rank}'
mine = socket.socket(socket.AF_UNIX)
mine.bind(f'\0plait-hosts-test-{rank}')
mine.listen()
for folder in ['/dev/shm', '/tmp']:
    open(f'{folder}/of{rank}', 'w')
open(f'{room}/ready{rank}', 'w')
while not os.path.exists(f'{room}/ready{1 - rank}'):
    time.sleep(.01)
for folder in ['/dev/shm', '/tmp']:
    assert os.path.exists(f'{folder}/of{rank}') and not os.path.exists(f'{folder}/of{1 - rank}'), folder
try:
    socket.socket(socket.AF_UNIX).connect(f'\0plait-hosts-test-{1 - rank}')
    raise Exception('abstract sockets are shared')
except ConnectionRefusedError:
    pass
assert sorted(os.listdir('/sys/class/net')) == ['eth0', 'lo'], os.listdir('/sys/class/net')
assert len([name for name in os.listdir('/proc') if name.isdigit()]) == 2, 'other processes are seen'
for space in ['net', 'mnt', 'uts', 'ipc', 'pid']:
    print(os.readlink(f'/proc/self/ns/{space}'))
open(f'{room}/done{rank}', 'w')
while not os.path.exists(f'{room}/done{1 - rank}'):
    time.sleep(.01)
END
    ran 0 2 --share "$ROOM" -- python3 "$ROOM/program" || return
    readlink /proc/self/ns/{net,mnt,uts,ipc,pid} | cat "$room/out" - | grep -o '[a-z]*:\[.*' | sort | uniq -d >"$room/twice"
    [ ! -s "$room/twice" ] && [ "$(wc -l <"$room/out")" -eq 10 ] || { cat "$room/out" "$room/twice"; return 1; }
}
ranks_know_who_they_are() {
    ran 0 2 --ranks 1+2 -- sh -c 'echo $HOST_INDEX/$HOST_COUNT $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE \
        $GROUP_RANK $MASTER_ADDR $MASTER_PORT' || return
    sort "$room/out" | diff - <(echo '[host0 0] 0/2 0/3 0/1 0 10.77.0.1 29500
[host1 1] 1/2 1/3 0/2 1 10.77.0.1 29500
[host1 2] 1/2 2/3 1/2 1 10.77.0.1 29500')
}
ranks_of_one_run_share_a_secret_of_its_own() {
    (unset PLAIT_SECRET && ran 0 2 --ranks 1 -- sh -c 'echo $PLAIT_SECRET' &&
        [ "$(grep -oE '[0-9a-f]{32}$' "$room/out" | sort | uniq -c | awk '{print $1}')" = 2 ]) || return
    PLAIT_SECRET=one_of_the_user ran 0 2 --ranks 1 -- sh -c 'echo $PLAIT_SECRET' &&
        [ "$(grep -c 'one_of_the_user$' "$room/out")" = 2 ]
}
latency_is_that_of_the_paced_transport() {
    ran 0 1 --latency 20us -- sh -c 'echo $PLAIT_FOR_TESTS $PLAIT_PACE' && has out '^\[host0 0\] 1 20us$'
}
links_are_shaped_at_both_ends_and_carry_what_is_sent() {
    program <<'END'
import os, re, socket, subprocess, time
path = dict(os.environ, PATH=os.environ['PATH'] + ':/usr/sbin:/sbin')
limit = subprocess.run(['tc', '-s', 'qdisc', 'show', 'dev', 'eth0'], env=path, check=True, capture_output=True, text=True).stdout
assert re.search(r'tbf .* rate 200Mbit', limit), limit
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(100):
    sender.sendto(bytes(1000), ('host' + str(1 - int(os.environ['RANK'])), 9))
limit = subprocess.run(['tc', '-s', 'qdisc', 'show', 'dev', 'eth0'], env=path, check=True, capture_output=True, text=True).stdout
assert int(re.search(r'Sent (\d+) bytes', limit).group(1)) > 100000, limit
open(os.environ['ROOM'] + '/sent' + os.environ['RANK'], 'w')
while not os.path.exists(os.environ['ROOM'] + '/enough'):
    time.sleep(.01)
END
    background 2 --racks 2 --link 200mbit --uplink 50mbit -- python3 "$ROOM/program"
    eventually test -e "$ROOM/sent0" -a -e "$ROOM/sent1" || return
    for device in host0 host1; do
        wires tc qdisc show dev $device >"$room/limit" && has limit 'tbf .* rate 200Mbit ' || return
    done
    for device in up0 up1 down0 down1; do
        wires tc qdisc show dev $device >"$room/limit" && has limit 'tbf .* rate 50Mbit ' || return
    done
    for rack in 0 1; do
        wires ip -o link show master rack$rack >"$room/ports"
        has ports " host$rack@" && has ports " up$rack@" && [ "$(wc -l <"$room/ports")" -eq 2 ] || return
    done
    touch "$ROOM/enough"
    ends 0
}
packets_are_not_cut_where_links_are_shaped() {
    program <<'END'
import os, socket, time
def sent(what):
    return int(open('/sys/class/net/eth0/statistics/tx_' + what).read())
if os.environ['RANK'] == '0':
    there = socket.create_server(('', 4000)).accept()[0]
    while there.recv(1 << 20):
        pass
    there.send(b'.')
else:
    for _ in range(600):
        try:
            there = socket.create_connection((os.environ['MASTER_ADDR'], 4000))
            break
        except ConnectionRefusedError:
            time.sleep(.1)
    bytes0, packets0 = sent('bytes'), sent('packets')
    there.sendall(bytes(30 << 20))
    there.shutdown(socket.SHUT_WR)
    assert there.recv(1) == b'.'
    mean = (sent('bytes') - bytes0) / (sent('packets') - packets0)
    assert mean > 6000, f'{mean} bytes a packet'
END
    ran 0 2 --link 1gbit --share "$ROOM" -- python3 "$ROOM/program"
}
unshaped_links_have_no_limit() {
    ran 0 1 -- sh -c 'PATH=$PATH:/usr/sbin:/sbin tc qdisc show dev eth0; echo end' && has out 'end$' &&
        ! grep -q tbf "$room/out"
}

# Everything that an instance made: no process is in these namespaces, and the machine's interfaces are as they were.
used() {
    readlink /proc/[0-9]*/ns/{net,pid} /proc/[0-9]*/task/*/ns/net 2>/dev/null | grep -F -x -f "$ROOM/spaces" | sort | uniq -c
}
nothing() {
    [ -z "$(used)" ] && [ "$(ls /sys/class/net)" = "$interfaces" ]
}
# Ranks that ignore what can be ignored, have a child in a session of its own, and one that is stopped.
stubborn() {
    interfaces=$(ls /sys/class/net)
    program <<'END'
trap '' INT TERM HUP
readlink /proc/self/ns/net /proc/self/ns/pid >"$ROOM/spaces$RANK"
setsid sleep 10000 &
[ "$RANK" != 1 ] || kill -STOP $$
wait
END
    background 2 --ranks 2 --racks 2 --link 1gbit -- sh "$ROOM/program"
    eventually test -s "$ROOM/spaces0" -a -s "$ROOM/spaces1" -a -s "$ROOM/spaces2" -a -s "$ROOM/spaces3" || return
    { cat "$ROOM"/spaces?; readlink "/proc/$pid/ns/net"; } | sort -u >"$ROOM/spaces"
    [ "$(wc -l <"$ROOM/spaces")" -eq 5 ] && [ "$(used | wc -l)" -eq 5 ]
}
# The first process of the host that was made last.
lasthost() {
    sed 's/ *$//; s/.* //' "/proc/$pid/task/$pid/children"
}
killed_hard_everything_is_gone_even_a_stopped_host() {
    stubborn || return
    kill -STOP "$(lasthost)"
    kill -KILL "$pid"
    ends 137 && eventually nothing
}
terminated_everything_is_gone() {
    stubborn || return
    kill -TERM "$pid"
    ends 143 && nothing && has err 'Terminated: passed on to the ranks'
}
interrupted_everything_is_gone() {
    stubborn || return
    kill -INT "$pid"
    ends 130 && nothing
}
killed_at_any_moment_of_the_start_everything_is_gone() {
    interfaces=$(ls /sys/class/net)
    export PLAIT_HOSTS_TEST=$room # marks all processes of it
    for i in $(seq 20); do
        background 3 --racks 2 --link 1gbit -- sleep 10000
        sleep "0.$(printf %02d "$i")"
        kill -KILL "$pid"
        wait "$pid" 2>/dev/null
    done
    unset PLAIT_HOSTS_TEST
    eventually unmarked && [ "$(ls /sys/class/net)" = "$interfaces" ]
}
unmarked() {
    ! grep -l -s -z -x "PLAIT_HOSTS_TEST=$room" /proc/[0-9]*/environ >"$room/marked"
}
ranks_are_told_of_a_signal_and_may_end_by_themselves() {
    program <<'END'
trap 'echo told; exit 3' INT
touch "$ROOM/ready$RANK"
while :; do sleep 0.1; done
END
    background 2 -- sh "$ROOM/program"
    eventually test -e "$ROOM/ready0" -a -e "$ROOM/ready1" || return
    kill -INT "$pid"
    ends 130 && has out '^\[host0 0\] told$' && has out '^\[host1 1\] told$'
}
a_host_that_is_killed_fails_its_ranks_and_no_others() {
    program <<'END'
echo $RANK >"$ROOM/ready$RANK"
until [ -e "$ROOM/enough" ]; do sleep 0.1; done
END
    background 2 -- sh "$ROOM/program"
    eventually test -s "$ROOM/ready0" -a -s "$ROOM/ready1" || return
    kill -KILL "$(lasthost)"
    eventually grep -q 'host1, rank 1: killed by signal 9' "$room/err" || return
    touch "$ROOM/enough"
    ends 137 && ! grep -q 'rank 0:' "$room/err"
}

the_exit_status_is_that_of_the_first_failure() {
    program <<'END'
case $RANK in
1) exit 7 ;;
3) while [ ! -e "$ROOM/enough" ]; do sleep 0.1; done; kill -SEGV $$ ;;
esac
END
    background 2 --ranks 2 -- sh "$ROOM/program"
    eventually grep -q '^plait-hosts: host0, rank 1: exit status 7$' "$room/err" || return
    touch "$ROOM/enough"
    ends 7 && has err '^plait-hosts: host1, rank 3: killed by signal 11 ' &&
        has err '2 of 4 ranks failed; the exit status is that of rank 1, the first$' &&
        ran 139 1 -- sh -c 'kill -SEGV $$'
}
a_command_that_is_not_there_is_named() {
    ran 127 1 -- nonesuch && has err '^\[host0 0\] plait-hosts: host0 cannot run nonesuch: No such file' &&
        ran 127 1 -- /tmp/nonesuch && has err 'host0 cannot run /tmp/nonesuch' && ran 126 1 -- /etc/passwd
}
an_installation_in_tmp_is_seen_or_the_remedy_named() {
    local there="$room/prefix/bin"
    mkdir -p "$there" "$room/libraries" && cp "$hosts" "$there/plait-hosts" && printf '#!/bin/sh\necho here\n' >"$room/tool" &&
        cp "$room/tool" "$there/tool" && chmod +x "$room/tool" "$there/tool" || return
    ran 125 2 -- "$room/tool" && has err "the hosts do not see $room/tool: .*add --share DIR" && [ "$(wc -l <"$room/err")" = 2 ] || return
    PATH=$room:$PATH ran 125 2 -- tool && has err "the hosts do not see $room/tool: " || return
    LD_LIBRARY_PATH=$room/libraries ran 125 1 -- true && has err "do not see $room/libraries: " || return
    LD_LIBRARY_PATH=$room/none ran 0 1 -- true && PATH=$room:$PATH ran 0 1 --share "$room" -- tool || return
    (hosts=$there/plait-hosts && PATH=$there:$PATH && ran 0 1 -- tool && has out 'here') # its own installation needs no --share
}
lines_are_whole_and_have_a_prefix() {
    program <<'END'
import sys
for i in range(200):
    sys.stdout.write('x' * 50)
    sys.stdout.flush()
    print('y' * 10000)
sys.stderr.write('no newline')
END
    ran 0 3 --share "$ROOM" -- python3 "$ROOM/program" || return
    sed 's/x\{50\}/X/; s/y\{1000\}/Y/g' "$room/out" | sort | uniq -c | sed 's/^ *//' |
        diff - <(for r in 0 1 2; do echo "200 [host$r $r] XYYYYYYYYYY"; done) && has err '^\[host2 2\] no newline$'
}
raw_is_raw() {
    [ "$(echo hello | "$hosts" 1 --raw -- cat)" = hello ]
}
the_working_directory_is_shared_also_in_tmp() {
    (cd "$ROOM" && rm -f here* && "$hosts" 2 -- sh -c 'echo x >here$RANK' 2>/dev/null) &&
        [ "$(cat "$ROOM/here0" "$ROOM/here1")" = $'x\nx' ]
}
linked() {
    wires ip -o link show host1 | grep -q 'state UP'
}
links_go_down_and_up() {
    program <<'END'
state() {
    until [ "$(cat /sys/class/net/eth0/operstate)" = $1 ]; do sleep 0.05; done
}
[ "$RANK" = 1 ] || { until [ -e "$ROOM/enough" ]; do state up; sleep 0.05; done; exit; }
state up
touch "$ROOM/ready"
state down
touch "$ROOM/down"
state up
until [ -e "$ROOM/enough" ]; do sleep 0.05; done
END
    background 2 -- sh "$ROOM/program"
    eventually test -e "$ROOM/ready" && "$hosts" link down 1 --of "$pid" && eventually test -e "$ROOM/down" &&
        "$hosts" link up 1 --of "$pid" && eventually linked && touch "$ROOM/enough" && ends 0
}
cuts_happen() {
    program <<'END'
until grep -q "host1 is up" "$ROOM/../err" && [ "$(cat /sys/class/net/eth0/operstate)" = up ]; do sleep 0.05; done
END
    "$hosts" 2 --cut 0.2:1:0.1 --share "$room" -- sh "$ROOM/program" >"$room/out" 2>"$room/err" &&
        [ "$(grep -o 'host1 is .*' "$room/err" | tr '\n' ,)" = 'host1 is down,host1 is up,' ]
}
several_instances_run_at_once() {
    local all=()
    for i in 1 2 3; do
        "$hosts" 3 --link 1gbit -- sh -c 'hostname >/dev/null' >"$room/out$i" 2>&1 &
        all+=($!)
    done
    for one in "${all[@]}"; do
        wait "$one" || { cat "$room"/out?; return 1; }
    done
}
commands_run_on_other_hosts_with_our_input_and_their_status() {
    ran 0 3 --ranks 1+0+0 -- sh -c '
        [ "$(echo in | $HOST_RSH host2 "hostname; cat; echo \$HOST_INDEX")" = "$(printf "host2\nin\n2")" ] || exit 1
        $HOST_RSH 10.77.0.2 exit 4; [ $? = 4 ] || exit 2
        $HOST_RSH 1 kill -9 "\$\$"; [ $? = 137 ] || exit 3
        cd / && [ "$($HOST_RSH host1 pwd)" = / ] || exit 5
        $HOST_RSH host3 true; [ $? = 255 ] || exit 6
        $HOST_RSH host1; [ $? = 255 ] || exit 7' &&
        has err '^\[host0 0\] plait-hosts: on: there is no such host' && ran 255 on host1 true &&
        has err 'on: not on a virtual host'
}
as_many_commands_as_one_likes_run_one_after_the_other() {
    ran 0 2 --ranks 2 -- sh -c 'for i in $(seq 130); do $HOST_RSH host$((1 - HOST_INDEX)) true || exit; done'
}

# says PATTERN ARGUMENT ...: a wrong command line.
says() {
    local pattern=$1
    shift
    ran 2 "$@" && has err "$pattern" && [ "$(wc -l <"$room/err")" = 1 ]
}
wrong_command_lines_are_named() {
    says 'nothing to do: the first argument must be the number of hosts' && says '0: the first argument must be' 0 -- true &&
        says '257: the first argument must be .* from 1 to 256' 257 -- true &&
        says 'the command is missing: 2 -- COMMAND' 2 && says 'the command is missing' 2 -- &&
        says "unexpected argument 'true'; the command comes after --" 2 true &&
        says "unknown option --rank; did you mean --ranks?" 2 --rank 2 -- true &&
        says "--link 1g: must be a rate" 2 --link 1g -- true && says "--link 1bit: must be" 2 --link 1bit -- true &&
        says '--uplink needs --racks' 2 --uplink 1gbit -- true && says '--racks 3: must be a number from 1 to that of the hosts, 2' 2 --racks 3 -- true &&
        says "--ranks 1+2+3: must have one number for each of the 2 hosts" 2 --ranks 1+2+3 -- true &&
        says "--np 1+: must be" 2 --np 1+ -- true && says "--ranks 1+: must be" 2 --ranks 1+ -- true && says "--ranks 0: must be" 2 --ranks 0 -- true &&
        says "--ranks 0+0: must have at least one rank" 2 --ranks 0+0 -- true &&
        says "--cut 1:2: must be .* from 0 to 1" 2 --cut 1:2 -- true && says "--cut 1: must" 2 --cut 1 -- true &&
        says "--cut 1:1,: must" 2 --cut 1:1, -- true && says "--latency 20: must be a time" 2 --latency 20 -- true &&
        says "--share x: must be the absolute path" 2 --share x -- true &&
        says '--of has an effect only with link' 2 --of 3 -- true &&
        says "link needs 'down' or 'up'" link cut 1 && says 'link needs --of PID' link down 1 &&
        ran 125 link down 1 --of $$ && has err 'not a running plait-hosts'
}
what_is_missing_is_named_with_its_remedy() {
    local inside=(unshare -m) ip
    unshare -m true 2>/dev/null || inside=(unshare -Urm)
    ip=$(PATH=$PATH:/usr/sbin:/sbin command -v ip)
    "${inside[@]}" sh -c 'mount --bind /dev/null "$(readlink -f "$1")" && exec "$2" 2 -- true' sh "$ip" "$hosts" \
        >"$room/out" 2>"$room/err"
    [ $? -eq 125 ] && has err 'ip is missing: install the package iproute2' || return
    # A user who may have no more namespaces of networks; where that limit cannot be set there is nothing to see.
    unshare -Ur sh -c 'echo 0 >/proc/sys/user/max_net_namespaces && touch "$2/set" && exec "$1" 2 -- true' sh "$hosts" "$room" \
        >"$room/out" 2>"$room/err"
    [ $? -eq 125 ] && has err 'making namespaces: .*\. Run it as root, or permit' || [ ! -e "$room/set" ]
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
