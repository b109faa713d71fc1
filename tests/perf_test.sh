#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# plait-perf as users run it: rows, JSON, wrong results, mistakes, and nothing left behind.
# Arguments: plait-perf, the library with broken collectives, "yes" when the Open MPI peer was built, a list of tensors, a
# python3 with PyTorch, or "none".
perf=$1 broken=$2 openmpi=$3 tensors=$4 python=$5
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
PERF_TEST_MARK=$work
export PERF_TEST_MARK
quick="-b 4 -e 64K -f 128 -n 10 --guard off"

preload="$(ldd "$perf" | awk '/lib[at]san/ { print $3 }') $broken" # a sanitizer's library wants to be the first

fail() {
    echo "FAIL: $*"
    failed=1
}

# Processes that this script started; each has the mark in its environment.
living() {
    for p in $(pgrep -f plait-perf); do
        [ "$p" != $$ ] && grep -qsF "PERF_TEST_MARK=$work" "/proc/$p/environ" && echo "/proc/$p"
    done
}

# Until none lives, for a minute.
until_gone() {
    for turn in $(seq 600); do
        [ -z "$(living)" ] && break
        sleep 0.1
    done
}

rows() {
    grep -E '^ +[0-9]' "$work/out"
}

"$perf" $quick >"$work/out" 2>&1 || fail "a plain run fails: $(cat "$work/out")"
[ "$(rows | wc -l)" -eq 3 ] || fail "not three rows: $(cat "$work/out")"
rows | awk '$3 != "float" || $4 != "sum" || $5 != -1 || $9 != 0 || $13 != 0 { exit 1 }' ||
    fail "columns are not those of nccl-tests: $(rows)"
grep -q '^# Out of bounds values : 0 OK' "$work/out" || fail "no summary"
[ "$openmpi" != yes ] || { "$perf" -b 4 -e 4 -n 10 --guard off --peer openmpi:ob1 >"$work/out" 2>&1 &&
    grep -q '^# us of single operations' "$work/out"; } || fail "no table that tools/demo looks for: $(cat "$work/out")"

# By default there are the columns of nccl-tests, and a line on the machine; nothing that is automatic is a number.
"$perf" -b 4 -e 4 --csv "$work/x.csv" >"$work/out" 2>&1 || fail "--csv: $(cat "$work/out")"
rows | awk 'NF != 13 { exit 1 }' || fail "more columns than nccl-tests has: $(rows)"
grep -q 'warmup iters: auto iters: auto' "$work/out" && ! grep -q nGpus "$work/out" || fail "what is automatic is not said: $(cat "$work/out")"
grep -q 'GB/s, reduce' "$work/out" && fail "the machine's limits are shown without -v"
[ "$(sed 's/[^,]//g' "$work/x.csv" | sort -u)" = ,,,,,,,,,,,,,,, ] && [ "$(wc -l <"$work/x.csv")" -eq 3 ] ||
    fail "CSV: $(cat "$work/x.csv")"
"$perf" -b 4 -e 4 -v >"$work/out" 2>&1 || fail "-v: $(cat "$work/out")"
grep -q 'GB/s, reduce' "$work/out" || [ "$(nproc)" -eq 1 ] || fail "-v shows no limits: $(cat "$work/out")"
# Working sets above the largest operation's are not measured: that takes longer than the operations.
[ "$(grep -c 'GB/s, reduce' "$work/out")" -eq 2 ] || [ "$(nproc)" -eq 1 ] || fail "-v measures more than 64 KiB for 4 bytes: $(cat "$work/out")"

# Habits of nccl-tests' users: its flags for GPUs are a line of note, its programs' names are ours.
"$perf" -b 8 -e 128 -f 2 -g 1 -n 10 --guard off >"$work/out" 2>"$work/err" || fail "-g 1: $(cat "$work/err")"
[ "$(cat "$work/err")" = "plait-perf: note: -g 1 has no meaning here: ranks are processes or threads, not GPUs; --ranks says how many" ] ||
    fail "-g 1: $(cat "$work/err")"
[ "$(rows | wc -l)" -eq 5 ] || fail "-b 8 -e 128 -f 2: $(cat "$work/out")"
for flag in "-z 1:every operation here blocks" "-p 1:ranks always start together"; do
    "$perf" -b 8 -e 8 ${flag%%:*} -n 10 --coll plait_allreduce --guard off >"$work/out" 2>"$work/err" || fail "$flag: $(cat "$work/err")"
    [ "$(cat "$work/err")" = "plait-perf: note: ${flag%%:*} has no meaning here: ${flag#*:}" ] || fail "$flag: $(cat "$work/err")"
done
# One name for one thing: options of the other tools, types and collectives in any spelling.
"$perf" -b 48 -e 48 -n 10 --type ncclHalf --inplace --np 3 --algorithm=All_Reduce:ring --guard off >"$work/out" 2>&1 || fail "--type: $(cat "$work/out")"
rows | awk '$3 != "half" || $6 != "N/A" || $10 == "N/A" { exit 1 } END { exit NR != 1 }' && grep -q 'Rank  2 ' "$work/out" || fail "--type: $(cat "$work/out")"
"$perf" -b 1K -e 1K -n 10 --coll MPI_Allgatherv,sendrecv,reduce --algo ALLGATHER_V:ring --guard off >"$work/out" 2>&1 ||
    fail "an algorithm of one collective: $(cat "$work/out")"
PLAIT_ALGO=allgatherv:direct "$perf" -b 1K -e 1K -n 10 --coll allgatherv --guard off >"$work/out" 2>&1 || fail "PLAIT_ALGO of a v-form: $(cat "$work/out")"
PLAIT_ALGO=allgatherv:bruck "$perf" --ranks 4 -b 1K -e 1K -n 10 --coll allgatherv --guard off >"$work/out" 2>&1 && fail "PLAIT_ALGO of a v-form has no effect"
ln -s "$(realpath "$perf")" "$work/all_gather_perf"
"$work/all_gather_perf" --place out -n 1 -w 1 --rounds 1 --guard off >"$work/out" 2>&1 || fail "all_gather_perf: $(cat "$work/out")"
rows | awk '$1 != 33554432 { exit 1 } END { exit NR != 1 }' && grep -q 'concluded: all_gather_perf' "$work/out" ||
    fail "all_gather_perf: $(cat "$work/out")"
ln -s "$(realpath "$perf")" "$work/hypercube_perf"
"$work/hypercube_perf" -b 8 -e 8 >"$work/out" 2>&1
[ $? -eq 2 ] && grep -q 'there is no hypercube_perf here' "$work/out" || fail "hypercube_perf: $(cat "$work/out")"
"$perf" -b 8 -e 8 -n 1000000 >"$work/out" 2>&1
[ $? -eq 2 ] && grep -q -- '-n 1000000: at most 20480 with --rounds 5' "$work/out" || fail "-n: $(cat "$work/out")"

# Ranks that share processors are bound to them in turn, Open MPI's as Plait's: else which ranks share one is chance.
ranks=$(($(nproc) + 1))
peer=
[ "$openmpi" = yes ] && peer="--peer openmpi:ob1"
"$perf" --ranks $ranks -b 64 -e 64 --guard off --rounds 100 --cell-time 100 $peer >"$work/out" 2>&1 &
run=$!
expected=$ranks
[ -n "$peer" ] && expected=$((2 * ranks))
bound=0
times=0 # in a row: hwloc binds a process to each processor while it looks at them
for turn in $(seq 600); do
    bound=$(living | while read -r p; do
        grep -qs '^Cpus_allowed_list:.[0-9]*$' "$p/status" && echo "$p"
    done | wc -l)
    times=$((bound == expected ? times + 1 : 0))
    [ $times -ge 10 ] && break
    sleep 0.1
done
kill $run 2>/dev/null
wait $run 2>/dev/null
[ "$(nproc)" -eq 1 ] || [ $times -ge 10 ] || fail "$bound of $expected ranks are bound: $(tail -3 "$work/out")"

"$perf" $quick --as threads --ranks 3 --memory plait -d all -o avg -u 1 >"$work/out" 2>&1 ||
    fail "threads, library memory, all types, unaligned: $(tail -3 "$work/out")"

# With --memory same a rank has the same pages in every backend: all map one file.
same_peer='' same_wanted=2
[ "$openmpi" = yes ] && same_peer="--peer openmpi:ob1" same_wanted=4
"$perf" -b 4 -e 1M -f 16 --ranks 2 --guard off --memory same $same_peer --cell-time 100 >"$work/out" 2>&1 &
run=$! maps=0
for _ in $(seq 600); do # where in the file each process's are, and how many have the same
    maps=$(for p in $(living); do
        sed -n 's/^[^ ]* [^ ]* \([^ ]*\) .*memfd:plait-perf-buffers.*/\1/p' "$p/maps" 2>/dev/null | sort | tr '\n' ' '
        echo
    done | sort | uniq -c | awk '$1 == '$((same_wanted / 2))' && NF == 3' | wc -l)
    [ "$maps" -eq 2 ] && break
    sleep 0.1
done
kill $run 2>/dev/null
wait $run 2>/dev/null
[ "$maps" -eq 2 ] || fail "--memory same: $(tail -3 "$work/out"): not two ranks' pages, each in $((same_wanted / 2)) processes"
"$perf" $quick --memory same $same_peer >"$work/out" 2>&1 || fail "--memory same: $(tail -3 "$work/out")"
"$perf" $quick --memory same --as threads --ranks 3 >"$work/out.threads" 2>&1 || fail "--memory same, threads: $(tail -3 "$work/out.threads")"
grep -q 'buffers from pages that all backends share' "$work/out" && ! grep -q 'wrong elements' "$work/out" || fail "--memory same: $(tail -3 "$work/out")"

PLAIT_SECRET=nobody-may-read-this-one PLAIT_WARN=31 "$perf" -b 64 -e 64 -n 20 --guard off -I 1 -J "$work/x.json" >"$work/out" 2>&1 ||
    fail "-J: $(tail -3 "$work/out")"
if grep -q 'built without JSON' "$work/out"; then
    echo "JSON is not built; not tested"
else
    python3 - "$work/x.json" <<'PYTHON' || fail "JSON"
import json, sys
d = json.load(open(sys.argv[1]))
top = "version start_time args env nccl_version config results out_of_bounds average_bus_bandwidth errors end_time"
assert not set(top.split()) - set(d), d.keys()
config = ("nthreads ngpus minimum_bytes maximum_bytes warmup_iters iterations aggregated_iterations validation graph "
          "blocking_collectives per_iter_timing per_iter_skip parallel_init devices")
assert not set(config.split()) - set(d["config"]), d["config"].keys()
assert "PLAIT_WARN=31" in d["env"] and not any("nobody-may-read" in e for e in d["env"]), d["env"]
assert d["config"]["warmup_iters"] is None and d["config"]["iterations"] == 20, d["config"]
result, = d["results"]
more = result["plait"]["in_place"]
assert all(more[k] is None for k in "latency_before_ns latency_after_ns copy_before_gbs copy_after_gbs".split()), more
keys = ("size count type redop root out_of_place in_place out_of_place_per_iter in_place_per_iter actual_iterations "
        "experiment_name")
assert not set(keys.split()) - set(result), result.keys()
assert set(result["in_place"]) == {"time", "alg_bw", "bus_bw", "nwrong"}
assert result["in_place"]["nwrong"] == 0 and len(result["in_place_per_iter"]["times_us"]) == 20
assert d["out_of_bounds"] == {"count": 0, "okay": "true"}
assert (d["plait"]["collective"], result["experiment_name"], result["root"]) == ("allreduce", "all_reduce_perf", "    -1")
PYTHON
fi

# Every collective: program, operator, root. Rank 1 is the root, where there is one.
everything="all_reduce_perf:sum:-1 reduce_scatter_perf:sum:-1 all_gather_perf:none:-1 broadcast_perf:none:1
    reduce_perf:sum:1 gather_perf:none:1 scatter_perf:none:1 alltoall_perf:none:-1 sendrecv_perf:none:-1
    reduce_scatter_v_perf:sum:-1 all_gather_v_perf:none:-1 gather_v_perf:none:1 scatter_v_perf:none:1 alltoall_v_perf:none:-1
    barrier_perf:none:-1"
# The rows of one program's table.
table() {
    sed -n "/starting: $1\$/,/concluded: $1\$/p" "$work/out" | grep -E '^ +[0-9]'
}
# Each table has two rows, a barrier's one, with the operator, the root, and so many wrong elements; some have no form in place.
tables_have() {
    for row in $everything; do
        program=${row%%:*} rest=${row#*:}
        inplace=$1 n=2
        case $program in alltoall_perf | alltoall_v_perf | sendrecv_perf | barrier_perf) inplace=N/A ;; esac
        case $program in barrier_perf) n=1 ;; esac
        table $program | awk -v op=${rest%:*} -v root=${rest#*:} -v out="$1" -v inplace=$inplace -v n=$n '
            $4 != op || $5 != root || $9 != out || $13 != inplace { exit 1 }
            END { exit NR != n }' || fail "$program: not as expected: $(table $program)"
    done
}
each="--coll all -r 1 -b 100 -e 3200 -f 32 -n 4 -w 1 --guard off"

"$perf" $each >"$work/out" 2>&1 || fail "--coll all fails: $(tail -3 "$work/out")"
tables_have 0
[ "$(table sendrecv_perf | awk 'NR == 1 { print $1, $2 }')" = "100 25" ] || fail "size of sendrecv: $(rows)"
table sendrecv_perf | awk 'NR == 2 && ($8 < 0.9 * $7 - 0.011 || $8 > 1.1 * $7 + 0.011) { exit 1 }' || fail "busbw: $(rows)"
# 100 bytes are 25 floats, or 12 for each of 2 ranks; the bandwidth of the bus is half of the algorithm's.
[ "$(table all_reduce_perf | awk 'NR == 1 { print $1, $2 }')" = "100 25" ] || fail "size of all-reduce: $(rows)"
[ "$(table all_gather_perf | awk 'NR == 1 { print $1, $2 }')" = "96 12" ] || fail "size of all-gather: $(rows)"
table all_gather_perf | awk 'NR == 2 && ($8 < 0.4 * $7 - 0.011 || $8 > 0.6 * $7 + 0.011) { exit 1 }' || fail "busbw: $(rows)"
grep -q 'rounded down to whole 16 bytes of each rank' "$work/out" || fail "the rounding is not said"

LD_PRELOAD=$preload "$perf" $each >"$work/out" 2>&1
[ $? -eq 1 ] || fail "wrong results do not give exit status 1"
tables_have 1

"$perf" $each --ranks 3 --memory plait -d double -o mulsum -u 1 -r all --as threads >"$work/out" 2>&1 ||
    fail "every root, library memory: $(tail -3 "$work/out")"
[ "$(table broadcast_perf | awk '{ print $5 }' | sort -u | xargs)" = "0 1 2" ] || fail "not every root: $(rows)"
"$perf" --coll bcast --tensors "$tensors" --place in -n 2 -w 1 --guard off >"$work/out" 2>&1 ||
    fail "a broadcast of tensors: $(tail -3 "$work/out")"

if "$perf" --coll all -b 1K -e 1K -n 2 -w 1 --guard off -J "$work/y.json" >"$work/out" 2>&1; then
    python3 - "$work" <<'PYTHON' || fail "JSON of every collective"
import json, sys
d = {c: json.load(open(f"{sys.argv[1]}/y-{c}.json")) for c in ("allreduce", "allgather", "gather")}
assert all(d[c]["plait"]["collective"] == c for c in d)
assert [d[c]["results"][0]["experiment_name"] for c in d] == ["all_reduce_perf", "all_gather_perf", "gather_perf"]
assert [d[c]["results"][0]["root"] for c in d] == ["    -1", "    -1", "     0"]
assert [d[c]["results"][0]["redop"] for c in d] == ["sum", "none", "none"]
PYTHON
else
    grep -q 'built without JSON' "$work/out" || fail "-J of every collective: $(tail -3 "$work/out")"
fi

# Several starts: every start's table, and at the end the medians over them; the best peer has the greatest median ratio.
starts_peer=''
[ "$openmpi" = yes ] && starts_peer="--peer openmpi:ob1,openmpi:sm"
"$perf" --coll bcast,all_gather,bcast -b 1K -e 16K -f 16 -n 4 --rounds 2 -w 1 --guard off --starts 3 $starts_peer >"$work/out" 2>&1 ||
    fail "--starts 3: $(tail -3 "$work/out")"
[ "$(grep -c '^# Start [123] of 3$' "$work/out")" -eq 3 ] || fail "not three starts: $(grep '^# Start' "$work/out")"
[ "$(grep -o 'Pid *[0-9]* ' "$work/out" | sort -u | wc -l)" -eq 6 ] || fail "not two new ranks for each start"
python3 - "$work/out" $starts_peer <<'PYTHON' || fail "--starts: $(cat "$work/out")"
import statistics, sys
peers = [p.split(":")[1] for p in sys.argv[3].split(",")] if len(sys.argv) > 3 else []
single, over, table, title = {}, {}, None, None
for line in open(sys.argv[1]):
    if line.startswith("# plait-perf, "):
        title = line[len("# plait-perf, "):].split(";")[0]
        table = over if line.endswith("; 3 starts\n") else single
    words = line[1:].split()
    if line[0] == "#" and len(words) > 6 and words[0].isdigit() and words[4] in ("out", "in"):
        key = title, words[0], words[4]
        if table is single:
            single.setdefault(key, []).append([float(x) for x in words[6:7 + 2 * len(peers)]])
        else:
            assert key not in over
            over[key] = words
    elif line[0] == " " and not peers and words and words[0].isdigit():
        for place, at in ("out", 13), ("in", 16):
            assert words[at] == "|", words
            single.setdefault((title, line.split()[0], place), []).append([float(words[at + 2])])
assert len(single) == len(over) == 8, (single, over)
for key, starts in single.items():
    assert len(starts) == 3, starts
    words = over[key]
    own = sorted(s[0] for s in starts)
    least, most = float(words[7].strip("[,")), float(words[8].strip("]"))
    assert [float(words[6]), least, most] == [own[1], own[0], own[2]], (words, own)
    ratio = {}
    for k, peer in enumerate(peers):
        assert float(words[9 + 2 * k]) == statistics.median(s[1 + 2 * k] for s in starts), (words, starts)
        ratio[peer] = statistics.median(s[2 + 2 * k] for s in starts)
        assert float(words[10 + 2 * k]) == ratio[peer], (words, starts)
    if peers:
        best, value, low, high = words[-4], float(words[-3]), float(words[-2].strip("[,")), float(words[-1].strip("]"))
        assert ratio[best] == value == max(ratio.values()), words
        its = [s[2 + 2 * peers.index(best)] for s in starts]
        assert [low, high] == [min(its), max(its)], words
PYTHON
[ -z "$(living)" ] || fail "after --starts these live on: $(living)"
LD_PRELOAD=$preload NCCL_TESTS_MIN_BW=1e9 "$perf" --coll bcast,barrier -b 4 -e 4 -n 4 -w 1 --guard off --starts 3 >"$work/out" 2>&1
[ $? -eq 1 ] || fail "wrong results do not give exit status 1 with --starts"
[ "$(grep -c '^# Start [123] of 3$' "$work/out")" -eq 3 ] || fail "--starts ends at a start whose bandwidth is not enough"
[ "$(sed -n '/; 3 starts$/,$p' "$work/out" | grep -c '^# .* 3 WRONG$')" -eq 3 ] || fail "wrong results do not show over starts: $(cat "$work/out")"
grep -q 'Avg bus bandwidth *: 0 *FAILED' "$work/out" && fail "a barrier has no bandwidth that could be missed"
"$perf" -b 4 -e 4 -n 4 -w 1 --guard off --starts 2 -J "$work/s.json" >"$work/out" 2>&1 || grep -q 'without JSON' "$work/out" ||
    fail "--starts -J: $(tail -3 "$work/out")"
[ ! -f "$work/s.json" ] || { grep -q '"start": 1,' "$work/s.json" && grep -q '"start": 2,' "$work/s.json.0"; } ||
    fail "JSON does not say which start it is: $(ls "$work")"

# Overlap: each computation, driven in three ways, without wrong elements. Times are not judged.
# overlap: what the last column must be, from the others; medians of one round are exact up to rounding.
overlap_follows() {
    rows | awk '{ x = 100 * (1 - ($12 - $11) / $10); x = x < 0 ? 0 : x > 100 ? 100 : x
        if (x - $13 > 2 || $13 - x > 2) { print; exit 1 } }' || fail "overlap does not follow from the times: $(rows)"
}
overlap="--coll all -r 1 -b 64K -e 64K -n 2 --rounds 1 -w 1"
"$perf" $overlap --overlap both -J "$work/z.json" >"$work/out" 2>&1 || grep -q 'without JSON' "$work/out" ||
    fail "--overlap both: $(tail -3 "$work/out")"
if [ -f "$work/z-allreduce.json" ]; then
    [ "$(rows | wc -l)" -eq 156 ] || fail "not 6 rows for each of 26 tables' halves: $(rows)"
    for how in busy.nobody busy.tests busy.thread sleep.nobody sleep.tests sleep.thread; do
        [ "$(grep -cE "^ .* plait +${how%.*} +${how#*.} " "$work/out")" -eq 26 ] || fail "rows of $how: $(rows)"
    done
    overlap_follows
    [ "$(grep -c '^# Out of bounds values : 0 OK' "$work/out")" -eq 15 ] || fail "wrong elements: $(cat "$work/out")"
    python3 - "$work/z-allgather.json" <<'PYTHON' || fail "JSON of overlap"
import json, sys
result, = json.load(open(sys.argv[1]))["results"]
rows = result["plait"]["overlap"]
assert [r["driven_by"] for r in rows] == ["nobody", "tests", "thread"] * 4
assert [r["computing"] for r in rows] == (["busy"] * 3 + ["sleep"] * 3) * 2
assert [r["place"] for r in rows] == ["out"] * 6 + ["in"] * 6
keys = {"place", "backend", "computing", "driven_by", "blocking_us", "compute_us", "total_us", "overlap_pct"}
assert all(set(r) == keys and 0 <= r["overlap_pct"] <= 100 and r["backend"] == "plait" for r in rows)
PYTHON
fi
"$perf" $overlap --overlap busy --as threads --ranks 3 --memory plait -d double -o mulsum --overlap-tests 3 \
    --place out >"$work/out" 2>&1 || fail "--overlap of threads: $(tail -3 "$work/out")"
[ "$(rows | wc -l)" -eq 45 ] || fail "--overlap busy of threads: $(cat "$work/out")"
LD_PRELOAD=$preload "$perf" -b 64 -e 64 -n 2 -w 1 --overlap sleep >"$work/out" 2>&1
[ $? -eq 1 ] || fail "wrong results do not give exit status 1 with --overlap"
# Out of place and in place one element of the blocking operation and of each that overlaps.
grep -q '^# Out of bounds values : 8 FAILED' "$work/out" || fail "not every wrong result shows: $(cat "$work/out")"

# Fusion: a row for each way, with what is counted; nothing wrong. Each of two ranks sends each vector once.
fusion="fusion --tensors $tensors --max-elements 4096 -n 2 --rounds 1 -w 1"
PLAIT_ALGO=allreduce:one-shot "$perf" $fusion --compute-ms 2 --timeline "$work/t.json" -J "$work/f.json" >"$work/out" 2>&1 ||
    grep -q 'without JSON' "$work/out" || fail "fusion: $(tail -3 "$work/out")"
if [ -f "$work/f.json" ]; then
    [ "$(rows | wc -l)" -eq 0 ] && [ "$(grep -cE '^ +b?float' "$work/out")" -eq 40 ] || fail "not 10 rows in 4 cells: $(cat "$work/out")"
    grep -q '^# computing .* a sleep of 2 ms' "$work/out" || fail "it is not said that computing is a sleep"
    grep -q '^# Out of bounds values : 0 OK' "$work/out" || fail "fusion: wrong elements: $(cat "$work/out")"
    python3 - "$work" <<'PYTHON' || fail "JSON of fusion"
import glob, json, sys
work = sys.argv[1]
d = json.load(open(work + "/f.json"))
assert [(r["type"], r["size"]) for r in d["results"]] == 2 * [("float", 232864)] + 2 * [("bfloat16", 116432)], d["results"]
ways = ["computing", "per tensor", "threshold:1M", "threshold:4M", "threshold:all", "segments", "cubic", "ddp", "horovod",
        "flat"]
for cell in d["results"]:
    rows = cell["plait"]["fusion"]
    assert [r["exchange"] for r in rows] == ways
    by = {r["exchange"]: r for r in rows}
    for r in rows[1:]:
        assert 0 <= r["bytes_sent"] - cell["size"] < 0.02 * cell["size"], r
        assert r["step_us"] >= 2000 and 0 <= r["exposed_pct"] <= 100, r
    assert (by["segments"]["buckets"], by["cubic"]["buckets"], by["threshold:all"]["buckets"]) == (2, 4, 1)
    assert all(0 <= r["hidden_ms"] <= r["communicating_ms"] for r in rows if "buckets" in r)
    assert (by["per tensor"]["messages"], by["cubic"]["messages"], by["flat"]["messages"]) == (108, 4, 1)
lines = glob.glob(work + "/t-*.json")
assert len(lines) == 7 * 4 and work + "/t-threshold-all-bfloat16-own.json" in lines, lines
events = json.load(open(work + "/t-cubic-float-own.json"))["traceEvents"]
names = [e.get("name", "") for e in events]
assert sum("tensor " in n for n in names) >= 2 * 108, names
PYTHON
fi
"$perf" $fusion --gradients own --payload half --layouts ddp,threshold:64K --as threads --ranks 3 --memory plait \
    --timeline "$work/u" >"$work/out" 2>&1 || fail "fusion of threads: $(tail -3 "$work/out")"
[ "$(grep -cE '^ +half +own ' "$work/out")" -eq 4 ] || fail "fusion, chosen rows: $(cat "$work/out")"
[ -f "$work/u-ddp-half-own" ] || fail "no timeline: $(ls "$work")"
LD_PRELOAD=$preload "$perf" $fusion --gradients own --payload float --layouts cubic >"$work/out" 2>&1
[ $? -eq 1 ] || fail "wrong results do not give exit status 1 with fusion"
# One element of each of 108 tensors alone, of the fused ones, and of the flat one.
grep -q '^# Out of bounds values : 110 FAILED' "$work/out" || fail "not every wrong gradient shows: $(cat "$work/out")"

"$perf" elastic --bytes 64K --compute-ms 1 --ranks 3 --servers 2 -n 2 --rounds 2 >"$work/out" 2>&1 ||
    fail "elastic: $(tail -3 "$work/out")"
for mode in original sync1 sync2 sync3 async async-momentum hogwild; do
    [ "$(grep -cE "^ +$mode +[0-9]" "$work/out")" -eq 1 ] || fail "elastic, $mode: $(cat "$work/out")"
done
grep -q 'a timed sleep of 1 ms' "$work/out" || fail "elastic does not say that it sleeps"
awk '$1 == "original" && $6 != "2.00" { exit 1 }' "$work/out" || fail "in turn two others come between: $(cat "$work/out")"

mistake() {
    expected=$1
    shift
    timeout 120 "$perf" "$@" >"$work/out" 2>"$work/err"
    status=$?
    [ $status -eq 2 ] || fail "$*: exit status $status, expected 2"
    grep -q -- "$expected" "$work/err" && [ "$(wc -l <"$work/err")" -eq 1 ] || fail "$*: $(cat "$work/err")"
}
mistake 'did you mean --ranks?' --rnaks 2
mistake 'unknown option --foo; see --help' --foo 2
mistake 'unknown flag -q' -q
mistake 'needs a value' -b
mistake '-e 4 is less than the smallest size, 8; lower that with -b,' -b 8 -e 4
mistake 'describes 8 ranks' --nodes 4x2
mistake 'unknown peer' --peer mpi
mistake "of whole steps PyTorch's DDP is measured, over Gloo; use --peer ddp" $fusion --peer gloo
mistake 'use --peer gloo, or plait-perf fusion --tensors FILE --peer ddp' --tensors "$tensors" --peer ddp
mistake 'only for a power of two; use 2, 4 or 8 ranks' $fusion --peer ddp --ranks 3
mistake '--help lists all' --coll foo
mistake 'did you mean allgather' --coll all_gater
mistake '-r 2: the last of 2 ranks is 1' --coll broadcast -r 2
mistake 'all-to-all has no form in place; use --place out' --coll all --place in
mistake 'send-receive has no form in place' --coll sendrecv --place in
mistake 'a send-receive has no algorithms; leave it out' --coll sendrecv --algo ring
mistake 'gather works on a part of each rank' --coll gather --tensors "$tensors"
mistake 'no size from 4 to 31 bytes holds 16 bytes for each of 2 ranks' --coll alltoall -b 4 -e 31
mistake 'change --algo or the ranks, or give one collective' --coll all --algo halving-doubling
mistake '--algorithm allgather:ring: no allgather is measured' --algorithm all_gather:ring
mistake '--algo .allreduce:.: names no algorithm' --algo allreduce:
# Errors name the option as it was written.
mistake '-e 4 is less than the smallest size, 8; lower that with --minbytes' --minbytes 8 -e 4
mistake '--MAX-BYTES 4 is less' -b 8 --MAX-BYTES 4
mistake '--iters 1000000: at most' --iters 1000000
mistake '--per-iter-skip 3 has no effect' --per-iter-skip 3
mistake '--trace is an option of plait-perf fusion' --trace x
mistake '--elastic is an option of plait-perf elastic' --elastic sync3
mistake '--json /nowhere/x: its folder is missing' --json /nowhere/x
mistake '--agg-iters does not go with --overlap' --overlap busy --agg-iters 2
mistake "--coll '' names no collective" --coll ''
mistake 'did you mean scatter' --coll gather,scater
mistake '--starts 0: must be a whole number from 1 to 100' --starts 0
mistake '--starts 2 does not go with --overlap' --starts 2 --overlap busy
mistake '--starts 2 does not go with --plot' --starts 2 --plot x.svg
mistake '--starts 2 does not go with --csv' --starts 2 --csv x.csv
mistake '--starts 2 does not go with -N' --starts 2 -N 3
mistake '--starts 2 does not go with plait-perf fusion' $fusion --starts 2
mistake '--starts 2 does not go with plait-perf elastic' elastic --starts 2
mistake "--mode ',' names no mode" elastic --mode ,
mistake '--tensors: a barrier has no size' --coll bcast,barrier --tensors "$tensors"
mistake '--plot: a barrier has no size' --coll barrier --plot x.svg
mistake 'barrier has no form in place' --coll barrier --place in
mistake 'use busy, sleep or both' --overlap gpu
mistake '--tensors does not go with --overlap' --overlap both --tensors "$tensors"
mistake '-m does not go with --overlap' --overlap busy -m 2
mistake '--csv does not go with --overlap' --overlap busy --csv x.csv
mistake '--csv does not go with plait-perf fusion' $fusion --csv x.csv
mistake '--csv does not go with plait-perf elastic' elastic --csv x.csv
mistake '--overlap-tests 0: must be a whole number from 1' --overlap busy --overlap-tests 0
export PLAIT_PROGRESS=1
mistake 'PLAIT_PROGRESS is set.*unset it' --overlap sleep
unset PLAIT_PROGRESS
mistake 'needs --tensors FILE' fusion
mistake '--mode sync4: use original' elastic --mode sync4
mistake '--bytes 6: must be a multiple of 4' elastic --bytes 6
mistake '--bytes 0: must be a multiple of 4' elastic --bytes 0
mistake '--peer does not go with plait-perf elastic' elastic --peer openmpi:best
mistake '--memory same does not go with plait-perf elastic' elastic --memory same
mistake '--memory same does not go with plait-perf fusion' $fusion --memory same
mistake '--as threads does not go with plait-perf elastic' elastic --as threads
mistake '--mode is an option of plait-perf elastic' --mode sync3
mistake '--overlap does not go with plait-perf fusion' $fusion --overlap both
mistake '--plot does not go with plait-perf fusion' $fusion --plot x.svg
mistake 'leave out --coll, -o and -d' $fusion --coll broadcast
mistake 'leave out --coll, -o and -d' $fusion -d double
mistake 'no such layout; use threshold:SIZE' $fusion --layouts cubic,square
mistake "'' names no layout" $fusion --layouts ''
mistake '--payload double: use float, bfloat16, half or both' $fusion --payload double
mistake '--gradients here: use buckets, own or both' $fusion --gradients here
mistake '--compute-ms -1: must be milliseconds' $fusion --compute-ms -1
mistake '--min-elements 9999 is more than --max-elements 4096' $fusion --min-elements 9999
mistake 'no tensor has from 0 to 3 elements' $fusion --max-elements 3
mistake '--timeline.*its folder is missing' $fusion --timeline "$work/none/t.json"
mistake '--timeline is an option of plait-perf fusion' --tensors "$tensors" --timeline "$work/t.json"
mistake 'a name that ends in .svg' --plot x.gif
mistake 'No such file' --tensors "$work/none.csv"
mistake 'no algorithm' --algo nosuch
mistake 'torus:2x9.*does not fit 2 ranks; the product of its factors.*; change --algo or the ranks' --algo torus:2x9
mistake 'does not fit 3 ranks' --algo torus:2x2 --nodes 1+2 --ranks 3
mistake '--reproducible --algo ring.*; use ' --reproducible --algo ring
mistake "--peer '' names no peer" --peer ''
mistake "--peer ',' names no peer" --peer ,
mistake 'no size from 0 to 0 bytes' -b 0 -e 0
mistake 'no size from 0 to 0 bytes' -b 0 -e 0 -i 0
mistake '-i 4 makes more than 10000 rows' -b 4 -e 64M -i 4
mistake 'more than' -b 4 -e 18446744073709551615
mistake 'more than' -b 18446744073709551612 -e 18446744073709551615 -i 16

timeout 120 "$perf" -b 0 -e 64 -n 10 --guard off >"$work/out" 2>&1 || fail "-b 0: $(tail -3 "$work/out")"
[ "$(rows | wc -l)" -eq 3 ] || fail "-b 0 does not go on with one element: $(cat "$work/out")"

# Ranks in the middle of operations, in the background; $coordinator is their parent. The buffers are below those for which
# it first takes gigabytes of memory. On a busy machine it takes longer than 10 s until they are.
begin_long() {
    "$perf" -b 512K -e 512K --cell-time 100 --guard off "$@" >"$work/out" 2>&1 &
    coordinator=$!
    for i in $(seq 1200); do
        grep -q '^# .*elements' "$work/out" || ! kill -0 $coordinator 2>/dev/null && break
        sleep 0.1
    done
    sleep 0.5
}

# The coordinator dies meanwhile.
peer=
[ "$openmpi" = yes ] && peer="--peer openmpi:ob1"
for how in KILL TERM; do
    begin_long $peer
    [ "$(living | wc -l)" -ge 3 ] || fail "ranks did not start in $i turns: $(living; cat "$work/out")"
    kill -$how $coordinator
    wait $coordinator 2>/dev/null
    until_gone
    [ -z "$(living)" ] || fail "after SIG$how these live on: $(living)"
done

# A rank dies: every other rank says in one line what it did and who died, and with PLAIT_LOG=info the history too.
PLAIT_LOG=info
export PLAIT_LOG
begin_long --ranks 3
unset PLAIT_LOG
second=$(cut -d ' ' -f 2 /proc/$coordinator/task/$coordinator/children)
kill -KILL "$second"
wait $coordinator
status=$?
[ $status -eq 3 ] || fail "a killed rank: exit status $status"
for rank in 0 2; do
    [ "$(grep -c "error: rank $rank of 3 fails: comm 'plait-perf', allreduce #[^:]*: rank 1 (process $second) died" "$work/out")" -eq 1 ] &&
        grep -q "rank $rank: last operations of rank $rank: allreduce" "$work/out" &&
        grep -q "rank $rank: last operations of rank 1: allreduce" "$work/out" || fail "a killed rank, as rank $rank says: $(cat "$work/out")"
done
[ "$(grep -c '^plait-perf: ' "$work/out")" -eq 1 ] &&
    grep -q '^plait-perf: plait: rank 1 ended unexpectedly: killed by signal 9' "$work/out" || fail "a killed rank: $(cat "$work/out")"
grep -q '^# Avg bus bandwidth *: N/A (cut short)$' "$work/out" || fail "the average of no cell: $(cat "$work/out")"

# -T: a start that hangs ends. (That a run which makes progress does not: perf_ranks_test.)
launched="env WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 10000))"
timeout 50 $launched RANK=0 LOCAL_RANK=0 "$perf" -b 4 -e 4 -T 2 >"$work/out" 2>&1
status=$?
[ $status -eq 3 ] && grep -q 'rank 1' "$work/out" || fail "-T does not end a start: $status, $(cat "$work/out")"

# A rank is stopped in the middle of an operation: run_stopped TEXT SETTING=VALUE expects an error that has TEXT.
run_stopped() {
    expected=$1
    shift
    export "$1"
    begin_long --ranks 3 -T 6
    unset "${1%%=*}"
    second=$(cut -d ' ' -f 2 /proc/$coordinator/task/$coordinator/children)
    kill -STOP "$second"
    wait $coordinator
    status=$?
    [ $status -eq 3 ] || fail "a stopped rank, $*: exit status $status"
    grep -q "plait-perf: plait: rank .*$(printf "$expected" "$second")" "$work/out" ||
        fail "rank 1 is stopped, and not named, $*: $(cat "$work/out")"
    grep -q '^plait-perf: .*allreduce #' "$work/out" && fail "what a rank was in is in its own line: $(cat "$work/out")"
    [ -z "$(living)" ] || fail "with a rank stopped these live on: $(living)"
}
# By the library, or by the coordinator if more than half of -T was over.
run_stopped '\(no progress for 3 s: rank 1 \|did not answer, and no operation ended, for 6 s; rank 1 (process %d) is stopped\)' PLAIT_LOG=error
run_stopped 'did not answer, and no operation ended, for 6 s; rank 1 (process %d) is stopped' PLAIT_DEADLINE=60

# has_sigterm FIELD: does this field of the coordinator's /proc/PID/status, a mask of signals, have SIGTERM?
has_sigterm() {
    mask=$(sed -n "s/^$1:[[:space:]]*0*//p" "/proc/$coordinator/status" 2>/dev/null)
    [ $((0x0$mask & 0x4000)) -ne 0 ]
}
# The second signal does not wait for the machine's limits, which take longer than the pauses here. On a busy machine the
# first one's end may come before the second.
for turn in 1 2 3 4 5; do
    "$perf" -b 4M -e 4M -v --cell-time 100 >"$work/out" 2>&1 &
    coordinator=$!
    until has_sigterm SigCgt || ! kill -0 $coordinator 2>/dev/null; do sleep 0.1; done
    sleep 0.5
    kill -TERM $coordinator
    while has_sigterm ShdPnd; do :; done
    kill -TERM $coordinator 2>/dev/null
    wait $coordinator
    status=$?
    grep -q 'Out of bounds' "$work/out" || break
done
[ $status -eq 143 ] || fail "after two SIGTERM: exit status $status"
grep -q 'Out of bounds' "$work/out" && fail "the second SIGTERM did not end the run at once"
until_gone
[ -z "$(living)" ] || fail "after two SIGTERM these live on: $(living)"

if [ "$openmpi" = yes ]; then
    "$perf" $quick -w 1 --peer openmpi:best >"$work/out" 2>&1 || fail "peers: $(tail -5 "$work/out")"
    [ "$(grep -c ' openmpi:' "$work/out")" -ge 5 ] || fail "not five peers: $(cat "$work/out")"
    rows | awk '$18 <= 0 || $23 <= 0 { exit 1 }' || fail "no ratio: $(rows)"
    "$perf" $each --peer openmpi:tuned >"$work/out" 2>&1 || fail "every collective's peer: $(tail -5 "$work/out")"
    tables_have 0
    "$perf" $overlap --overlap sleep --peer openmpi:ob1 >"$work/out.overlap" 2>&1 ||
        fail "overlap of the peer: $(tail -5 "$work/out.overlap")"
    [ "$(grep -c ' openmpi:ob1 *sleep' "$work/out.overlap")" -eq 52 ] || fail "overlap: $(cat "$work/out.overlap")"
    "$perf" $fusion --layouts ddp --payload bfloat16 --gradients own --peer openmpi:ob1 >"$work/out.fusion" 2>&1 ||
        fail "fusion beside the peer: $(tail -5 "$work/out.fusion")"
    [ "$(grep -cE '^ +float .* openmpi:ob1 +(per tensor|flat) ' "$work/out.fusion")" -eq 2 ] &&
        awk '$4 == "ddp" { n++; if ($7 + 0 <= 0 || $8 + 0 <= 0) exit 1 } END { exit n != 1 }' "$work/out.fusion" ||
        fail "fusion: rows of the peer: $(cat "$work/out.fusion")"
    grep -q 'plait-perf: openmpi.*wrong' "$work/out.fusion" && fail "the peer is wrong: $(cat "$work/out.fusion")"
    grep -q 'plait-perf: openmpi.*wrong' "$work/out" "$work/out.overlap" && fail "the peer is wrong: $(grep 'plait-perf:' "$work/out")"
    [ "$(grep -cE '^# .* tuned [0-9.]+ \[' "$work/out")" -eq 51 ] || fail "not every cell has a peer: $(cat "$work/out")"
fi
# PyTorch's DDP: no python3 of this machine needs to have it. Stand-ins for one that has no PyTorch, or one without Gloo.
refused() {
    PYTHONPATH=$work/$1 "$perf" $fusion --peer ddp >"$work/out" 2>"$work/err"
    status=$?
    [ $status -eq 3 ] || fail "--peer ddp with $1: exit status $status, expected 3"
    grep -q "gloo did not start: exit status 1" "$work/err" && grep -q "$2.*pip install torch.*PYTHONPATH" "$work/err" ||
        fail "--peer ddp with $1: $(cat "$work/err")"
    [ -z "$(living)" ] || fail "--peer ddp with $1: these live on: $(living)"
}
mkdir -p "$work/nothing" "$work/gloo-less/torch"
echo 'raise ImportError("there is no torch")' >"$work/nothing/torch.py"
echo '__version__ = "2.15"' >"$work/gloo-less/torch/__init__.py"
printf 'def is_available(): return True\ndef is_gloo_available(): return False\n' >"$work/gloo-less/torch/distributed.py"
refused nothing 'there is no torch'
refused gloo-less 'PyTorch 2.15 was built without Gloo'

if ldd "$perf" | grep -q 'lib[at]san'; then
    echo "python3 cannot load what a sanitizer has built; PyTorch's DDP is not tested"
elif [ "$python" != none ]; then
    PATH=$(dirname "$python"):$PATH
    "$perf" $fusion --layouts ddp --payload float --compute-ms 1 --peer ddp >"$work/out" 2>&1 ||
        fail "PyTorch's DDP: $(tail -5 "$work/out")"
    for row in 'own .* gloo +per tensor' 'buckets .* gloo +ddp +1' 'own .* gloo +ddp +1'; do
        grep -qE "^ +float +$row " "$work/out" || fail "no row '$row': $(cat "$work/out")"
    done
    grep -q 'plait-perf: gloo.*wrong' "$work/out" && fail "DDP is wrong: $(cat "$work/out")"
    "$perf" $each --ranks 3 --peer gloo >"$work/out" 2>&1 || fail "Gloo: $(tail -5 "$work/out")"
    # Two sizes out of place, and in place but for all-to-all; and the barrier.
    [ "$(grep -cE '^# .* gloo [0-9.]+ \[' "$work/out")" -eq 15 ] || fail "rows of Gloo: $(cat "$work/out")"
    grep -q 'plait-perf: gloo.*wrong' "$work/out" && fail "Gloo is wrong: $(grep 'plait-perf:' "$work/out")"
    [ -z "$(living)" ] || fail "after --peer ddp and gloo these live on: $(living)"
else
    echo "python3 has no PyTorch; its DDP is not tested"
fi
[ $failed -eq 0 ] && echo "plait-perf: all as expected"
exit $failed
