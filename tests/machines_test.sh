#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Machines: files, XML, synthetic descriptions, this host; their trees and their errors.
# Usage: machines_test.sh PLAIT_INFO PLAIT_PLAN FOLDER_OF_XML FOLDER_OF_MACHINES
set -u
info=$1 plan=$2 xml=$3 presets=$4
tier=${PLAIT_TEST_TIER-}
failed=0
room=$(mktemp -d) || exit 1
trap 'rm -rf "$room"' EXIT
unset $(env | sed -n 's/^\(PLAIT_[A-Z_]*\)=.*/\1/p')

# says STATUS PATTERN COMMAND ...: the exit status, and a line of stdout or stderr. A mistake is one line.
says() {
    local status=$1 pattern=$2
    shift 2
    "$@" >"$room/out" 2>&1
    local got=$?
    if [ $got -ne "$status" ] || ! grep -q -e "$pattern" "$room/out" ||
        { [ $got -ne 0 ] && [ "$(wc -l <"$room/out")" -ne 1 ]; }; then
        echo "$*: exit status $got (expected $status), no line like '$pattern' in:"
        cat "$room/out"
        return 1
    fi
}

# exports EXPRESSION OPTION ...: the exported file, as m, and its levels by name, as l.
exports() {
    local expression=$1
    shift
    "$info" --export "$room/made.json" "$@" && python3 - "$room/made.json" "$expression" <<'END'
import json, sys
m = json.load(open(sys.argv[1]))
l = {level['name']: level for level in m['levels']}
order = [level['name'] for level in m['levels']]
if not eval(sys.argv[2]):
    sys.exit(f'not true: {sys.argv[2]}\n{json.dumps(m, indent=2)}')
END
}

# An exported file is read as the same machine. In it, ranks end with an operation.
used() {
    "$info" --export "$room/again.json" --machine "$room/made.json" && cmp "$room/made.json" "$room/again.json" &&
        says 0 '^halving-doubling ' "$plan" simulate halving-doubling --machine "$room/made.json" --ranks "$1" --bytes 64K
}

synthetic_hosts_of_gpus() {
    exports "order == ['host', 'cluster'] and l['host']['children'] == 8 and l['cluster']['children'] == 128 and \
             l['host']['links'] == 1 and 'assumed' in l['host']['about']" --machine 'host:128 gpu:8' && used 1024 &&
        says 0 '^host:128 gpu:8, 128 hosts of 8 GPUs (1024 ranks)$' "$info" --topology --machine 'host:128 gpu:8' &&
        grep -q '^├─ \.\.\. 124 more  *ranks 24 - 1015$' "$room/out" && grep -q '^└─ host 127  *ranks 1016 - 1023$' "$room/out"
}
synthetic_levels_are_packages_nodes_and_caches() {
    exports "order == ['core', 'L3', 'numa', 'package', 'host'] and l['numa']['memory'] == '80 GB/s' and \
             all('links' not in level for level in m['levels']) and l['core']['children'] == 2" \
        --machine 'package:2 numa:2 l3:2 core:2 pu:2' --rank-per thread && used 32 &&
        exports "order == ['package', 'host'] and l['package']['children'] == 4" --machine 'package:2 core:4' && used 8 &&
        exports "order == ['host'] and l['host']['children'] == 2" --machine 'package:2 core:4' --rank-per package
}
hosts_racks_and_their_uplinks() {
    exports "l['rack'] | {'about': ''} == {'name': 'rack', 'children': 16, 'links': 2, 'bandwidth': '50 GB/s', \
             'latency': '2 us', 'overhead': '500 ns', 'eager': '8 KiB', 'about': ''} and \
             l['cluster']['links'] == 8 and l['cluster']['children'] == 3 and 'only 8 hosts' in l['cluster']['about']" \
        --machine core:4 --hosts 40 --hosts-per-rack 16 --nics 2 --network '400 Gbit/s' --oversubscription 4 && used 64 &&
        exports "l['rack']['children'] == 32 and l['cluster']['children'] == 4" --machine 'rack:4 host:32 core:2'
}
nccl_xml_of_a_host_with_nvlink() {
    exports "order == ['host', 'cluster'] and l['host']['bandwidth'] == '450 GB/s' and l['host']['children'] == 8 and \
             l['cluster']['links'] == 8 and l['cluster']['bandwidth'] == '50 GB/s' and \
             l['cluster']['children'] == 128" --machine "$xml/hgx-h100.xml" --hosts 128 && used 1024 &&
        says 0 'NIC 4  *eth0, network 3.125 GB/s$' "$info" --topology --machine "$xml/hgx-h100.xml" &&
        [ "$(grep -c eth0 "$room/out")" = 1 ] && grep -q '│  └─ GPU 7 .*18 NVLinks, rank 7$\|   └─ GPU 7 .*18 NVLinks, rank 7$' "$room/out"
}
# One of the GPUs has an NVLink less. The NIC is in a slot of x4: 4 lanes of 985 MB/s.
the_slowest_of_links_and_slots_counts() {
    sed '0,/count="4"/s//count="3"/' "$xml/hgx-h100.xml" >"$room/less.xml" &&
        exports "l['host']['bandwidth'] == '425 GB/s'" --machine "$room/less.xml" &&
        sed '/class="0x0207/s/link_width="16"/link_width="4"/' "$xml/p40.xml" >"$room/slot.xml" &&
        exports "l['cluster']['bandwidth'] == '3.94 GB/s'" --machine "$room/slot.xml" --hosts 2
}
nccl_xml_of_a_host_with_pcie() {
    exports "order == ['switch', 'numa', 'host', 'cluster'] and l['switch']['bandwidth'] == '15.8 GB/s' and \
             l['cluster']['links'] == 1 and l['cluster']['bandwidth'] == '12.5 GB/s' and m['copy'] == '156 GB/s'" \
        --machine "$xml/p40.xml" --hosts 4 && used 32
}
nccl_xml_of_a_cloud_has_classes_only() {
    exports "order == ['numa', 'host', 'cluster'] and l['cluster']['links'] == 3 and \
             'Uneven: some have 1 GPUs, but all are taken to have 2' in l['numa']['about']" --machine "$xml/cloud.xml" --hosts 2
}
hwloc_xml_may_be_uneven_and_have_gpus() {
    exports "order == ['package', 'host'] and l['package']['children'] == 4 and \
             'some have 3 cores' in l['package']['about']" --machine "$xml/uneven.xml" && used 8 &&
        exports "order == ['host'] and l['host']['children'] == 2 and l['host']['bandwidth'] == '31.5 GB/s'" \
            --machine "$xml/gpus.xml" &&
        exports "l['package']['children'] == 4" --machine "$xml/gpus.xml" --rank-per core &&
        says 0 'NIC 0  *mlx5_0' "$info" --topology --machine "$xml/gpus.xml" && [ "$(grep -c 'GPU [0-9]' "$room/out")" = 2 ]
}
this_host() {
    says 0 '^host$' "$info" --topology && grep -q '^this-host, [1-9][0-9]* [a-zA-Z]*s\{0,1\} ([1-9][0-9]* ranks\{0,1\})$' "$room/out" &&
        grep -q '^caches ' "$room/out" && exports "m['levels'][-1]['name'] == 'host'" &&
        says 0 '^one-shot ' "$plan" simulate one-shot --machine this-host --bytes 1K
}
presets_are_drawn_and_written() {
    for file in "$presets"/*.json; do
        local name=${file##*/}
        says 0 '^└─ .*ranks\{0,1\} ' "$info" --topology --machine "$(tr a-z- A-Z_ <<<"${name%.json}")" &&
            says 1 "comes with Plait (.*${name%.json}[,)]" "$info" --topology --machine help &&
            says 0 '"levels"' "$info" --export - --machine "${name%.json}" || return 1
    done
    says 0 '^├─ \.\.\. 28 more  *ranks 24 - 247$' "$info" --topology --machine dgx-h100-pod
}
oversubscription_stands_for_links() {
    cat >"$room/made.json" <<'END'
{ "name": "racks", "levels": [
    { "name": "host", "children": 1, "links": 1, "bandwidth": "10 GB/s", "latency": 0 },
    { "name": "rack", "children": 12, "links": 2, "bandwidth": "10 GB/s", "latency": "2 us" },
    { "name": "row", "children": 2, "oversubscription": 3, "latency": "3 us" },
    { "name": "cluster", "children": 2, "oversubscription": 1, "bandwidth": "40 GB/s", "latency": "3 us" } ] }
END
    exports "l['row']['links'] == 8 and l['row']['bandwidth'] == '10 GB/s' and l['cluster']['links'] == 4" \
        --machine "$room/made.json"
}
slow_things_are_kept_and_drawn() {
    cat >"$room/made.json" <<'END'
{ "name": "slow", "levels": [
    { "name": "host", "children": 4, "bandwidth": "10 GB/s", "latency": 100 },
    { "name": "cluster", "children": 9, "links": 1, "bandwidth": "10 GB/s", "latency": "2 us" } ],
  "slow": [ { "links": "host 6", "percent": 50 }, { "rank": 17, "percent": 25 } ] }
END
    exports "m['slow'] == [{'links': 'host 6', 'percent': 50}, {'rank': 17, 'percent': 25}]" --machine "$room/made.json" &&
        says 0 '^├─ host 6  *.*, its links at 50 %$' "$info" --topology --machine "$room/made.json" &&
        grep -q '^├─ host 4 .*, rank 17 at 25 %$' "$room/out" && grep -q '^├─ \.\.\. 1 more  *ranks 12 - 15$' "$room/out" &&
        grep -q '^├─ \.\.\. 1 more  *ranks 28 - 31$' "$room/out"
}
errors_of_files_have_line_field_and_remedy() {
    cat >"$room/m.json" <<'END'
{
  "name": "four hosts",
  "levels": [
    { "name": "host", "children": 2, "bandwidth": "10 GB/s", "latency": "200 ns" },
    { "name": "cluster", "children": 4, "links": 1,
      "bandwidth": 1e9, "latency": "2 us" }
  ],
  "copy": "10 GB/s",
  "slow": [ { "links": "host 3", "percent": 50 } ]
}
END
    says 0 '^four hosts' "$info" --topology --machine "$room/m.json" || return 1
    while IFS='|' read -r what from to; do
        sed "s/$from/$to/" "$room/m.json" >"$room/bad.json"
        says 1 "^plait-info: $room/bad.json, $what" "$info" --topology --machine "$room/bad.json" &&
            says 2 "^plait-plan: $room/bad.json, $what" "$plan" simulate --machine "$room/bad.json" || return 1
    done <<'END'
line 6: levels\[1\] has no field 'bandwith'; did you mean 'bandwidth'?$|bandwidth": 1e9|bandwith": 1e9
line 5: levels\[1\] has no field 'colour'; its fields are name, oversubscription, .*children, links, |"links"|"colour"
line 8: the machine has no field 'overhead'; it belongs into a level$|"copy": "10 GB\/s"|"overhead": "1 us"
line 9: slow\[0\] has no field 'percents'; did you mean 'percent'?|"percent"|"percents"
line 6: levels\[1\].latency is "2 GB\/s"; it must be nanoseconds, or text such as "2 us" (ns, us, ms, s)$|2 us|2 GB\/s
line 8: the machine.copy is "10 gb\/s"; it must be bytes per second|"copy": "10 GB|"copy": "10 gb
line 5: levels\[1\].links is 1.5; it must be a whole number$|"links": 1|"links": 1.5
line 5: levels\[1\] needs "bandwidth": bytes per second|"bandwidth": 1e9, |
line 4: levels\[0\] needs "latency": nanoseconds|, "latency": "200 ns"|
line 4: levels\[0\] needs "name": text of 1 to 23 bytes$|"name": "host", |
line 1: the machine needs "name": text of 1 to 95 bytes$|"name": "four hosts",|
line 2: the machine.name is ""; it must be text of 1|four hosts|
line 4: levels\[0\].children is 0; it must be 1 to 1048576$|"children": 2|"children": 0
line 5: levels\[1\].children is 4294967295; it must be 1 to |"children": 4|"children": 4294967295
line 5: levels\[1\].children is 4294967296; it must be 1 to |"children": 4|"children": 4294967296
line 9: slow\[0\].links is "rack 3"; it must be a unit with its number, from 0, such as "host 0"$|host 3|rack 3
line 9: slow\[0\] needs either "rank": a number, or "links"|"links": "host 3", |
line 5: levels\[1\] has "links" and "oversubscription"; leave one|"links": 1|"links": 1, "oversubscription": 2
line 5: levels\[1\].oversubscription needs links in the level below|"links": 1|"oversubscription": 2
line 4: levels\[0\].oversubscription is -1; it must be a number|"children": 2|"oversubscription": -1, "children": 2
line 8: '\]' expected near '"copy"'$|  \],|
line 4: duplicate object key|"children": 2|"children": 2, "children": 2
END
}
errors_of_machines_without_levels() {
    echo '{ "name": "none" }' >"$room/bad.json"
    says 1 'bad.json, line 1: the machine needs "levels": an array of 1 to 8, the smallest first$' "$info" --topology --machine "$room/bad.json" &&
        printf '{ "name": "none",\n"levels": [] }' >"$room/bad.json" &&
        says 1 'bad.json, line 2: the machine needs "levels": an array' "$info" --topology --machine "$room/bad.json" &&
        printf '{ "name": "none",\n"levels": [\n2 ] }' >"$room/bad.json" &&
        says 1 'bad.json, line 3: levels\[0\] must be an object' "$info" --topology --machine "$room/bad.json" &&
        echo '[]' >"$room/bad.json" &&
        says 1 'bad.json, line 1: it must be an object' "$info" --topology --machine "$room/bad.json" &&
        : >"$room/bad.json" && says 1 'bad.json, line 1: ' "$info" --topology --machine "$room/bad.json"
}
errors_of_other_sources() {
    says 2 "9 ranks, but machine 'four hosts' has room for 8" "$plan" simulate ring --machine "$room/m.json" --ranks 9 &&
        says 2 "there is no machine 'nowhere'; it must be this-host, a machine that comes" "$plan" simulate --machine nowhere &&
        echo '<html><body/></html>' >"$room/bad.xml" &&
        says 1 'bad.xml: it is XML, but neither hwloc.s nor NCCL.s: it has no <topology> and no <system>' "$info" --topology --machine "$room/bad.xml" &&
        sed '/^<\/system>/d' "$xml/p40.xml" >"$room/bad.xml" &&
        says 1 'bad.xml, line 4[0-9]: no element found' "$info" --topology --machine "$room/bad.xml" &&
        sed 's/<\/cpu>/<\/cup>/' "$xml/p40.xml" >"$room/bad.xml" &&
        says 1 'bad.xml, line 2[0-9]: mismatched tag' "$info" --topology --machine "$room/bad.xml" &&
        sed '0,/numaid="1"/s/numaid="1"/host_hash="0x5" &/; 0,/numaid="0"/s/numaid="0"/host_hash="0x4" &/' "$xml/p40.xml" >"$room/bad.xml" &&
        says 1 'bad.xml, line [0-9]*: another host begins; the file must be of one host' "$info" --topology --machine "$room/bad.xml" &&
        echo '<system version="1"><cpu numaid="0"/></system>' >"$room/bad.xml" &&
        says 1 'bad.xml: it has no core that could be a rank; --rank-per' "$info" --topology --machine "$room/bad.xml" &&
        echo '<!DOCTYPE system [ <!ENTITY a "b"> ]><system/>' >"$room/bad.xml" &&
        says 1 'bad.xml, line 1: a document type' "$info" --topology --machine "$room/bad.xml" &&
        sed '20,$d' "$xml/uneven.xml" >"$room/bad.xml" &&
        says 1 'bad.xml, line 20: no element found$' "$info" --topology --machine "$room/bad.xml" &&
        sed '/<object type="Machine"/,/^  <\/object>/d' "$xml/uneven.xml" >"$room/bad.xml" &&
        says 1 'bad.xml: hwloc cannot read it; write it with lstopo' "$info" --topology --machine "$room/bad.xml" &&
        says 1 "hwloc knows no such machine; a description is like" "$info" --topology --machine 'socket:x' &&
        says 1 "'core:99999999' is too large: a host has at most 8192 processing units" timeout 30 "$info" --topology --machine core:99999999 &&
        says 1 "'package:128 core:65 pu:1' is too large" timeout 30 "$info" --topology --machine 'package:128 core:65 pu:1' &&
        says 1 "room for 2097152 ranks; 1048576 are the most" "$info" --topology --machine 'host:1048576 core:2' &&
        says 1 "'rack:2 core:4': racks need hosts" "$info" --topology --machine 'rack:2 core:4' &&
        says 1 'and --hosts say how many hosts' "$info" --topology --machine 'host:2 core:4' --hosts 3 &&
        says 1 'options such as --hosts are for the description of one host' "$info" --topology --machine abci --hosts 3 &&
        says 1 "no GPU that could be a rank" "$info" --topology --machine core:4 --rank-per gpu &&
        says 1 '--export /nowhere/x: No such file' "$info" --export /nowhere/x --machine core:4 &&
        says 2 '--network 100 Gbit: must be bytes per second, or text such as' "$info" --topology --machine core:4 --hosts 2 --network '100 Gbit' &&
        says 2 '--hosts-per-rack, --network and --nics need --hosts' "$info" --topology --machine core:4 --nics 2 &&
        says 2 '--oversubscription needs --hosts-per-rack' "$info" --topology --machine core:4 --hosts 2 --oversubscription 2 &&
        says 2 '--machine has an effect only with --topology and --export' "$info" --machine abci
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
    # Under sanitizers the parsers' errors are for the fuzzers.
    [[ $tier == light && $name == @(errors|presets)_* ]] || run "$name"
done
exit $failed
