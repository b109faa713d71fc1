#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# How runs of plait-train end: exit status, words, what is saved. Usage: train_endings_test.sh PLAIT_TRAIN
. "$(dirname "$0")/train_run.sh"
start() { # NAME OPTIONS: until it has taken some steps; $child
    local name=$data/$1
    shift
    env --default-signal=INT "$train" "$data/images" --pixels 16 --batch 16 --threads 1 --data-threads 1 --epochs 10000 --log-every 1 \
        --run "$name" "$@" >"$name.out" 2>&1 &
    child=$!
    until grep -q '"event":"step"' "$name/log.jsonl" 2>/dev/null || ! kill -0 $child 2>/dev/null; do sleep 0.1; done
}
ended() { # NAME STATUS WORDS
    wait $child
    local status=$?
    [ $status -eq "$2" ] || fail "$1: status $status: $(tail -3 "$data/$1.out")"
    grep -q -e "$3" "$data/$1.out" "$data/$1/log.jsonl" 2>/dev/null || fail "$1: '$3' is not what it says: $(tail -3 "$data/$1.out")"
}
rank() { # K: the process of a rank
    pgrep -P $child | sed -n "$(($1 + 1))p"
}

# SIGINT to the process that has started the ranks, seconds apart: a rank that does not answer holds up the first one only.
start twice --ranks 2
twice=$child first=$(rank 0) second=$(rank 1) asked=$SECONDS
kill -STOP "$second"
kill -INT $twice

# Workers of a server do not step together; a signal to one of them stops all, between checkpoints that all take part in.
for try in 1 2; do
    start async$try --elastic async --ranks 3 --save-every 2
    kill -TERM "$(rank $((try % 2)))"
    ended async$try 143 '"why":"asked to stop"'
done

until ((SECONDS - asked > 2)); do sleep 0.1; done
child=$twice
kill -0 "$first" || fail "twice: rank 0 did not wait for rank 1: $(tail -3 "$data/twice.out")"
kill -INT $twice
for ((k = 0; k < 100; k++)); do kill -0 "$first" 2>/dev/null && sleep 0.1; done
kill -0 "$first" 2>/dev/null && fail "twice: rank 0 goes on: $(tail -3 "$data/twice.out")"
kill -CONT "$second"
ended twice 130 ''

# A rank is lost in the sums of batch norm: a survivor saves the last complete step.
start norms --ranks 2 --sync-batch-norm
kill -KILL "$(rank 1)"
ended norms 4 'last complete step, [0-9]*, is saved'

# What a survivor saves is of that step alone, also the running statistics, which the next one had moved already.
start lost --ranks 2
kill -KILL "$(rank 1)"
ended lost 4 'last complete step, [0-9]*, is saved'
step=$(sed -n 's/.*last complete step, \([0-9]*\), is saved.*/\1/p' "$data/lost.out")
start again --ranks 2 --steps "$step"
ended again 0 '"why":"trained"'
python3 - "$data"/{lost,again}/step-"$(printf %08d "$step")".safetensors <<'END' || fail "a survivor's checkpoint is not of its step"
import json, struct, sys
def read(path):
    data = open(path, 'rb').read()
    n = struct.unpack('<Q', data[:8])[0]
    about = {k: v['data_offsets'] for k, v in json.loads(data[8:8 + n]).items() if k != '__metadata__'}
    return {k: data[8 + n + a:8 + n + b] for k, (a, b) in sorted(about.items(), key=lambda t: t[1])}
lost, again = map(read, sys.argv[1:])
running = [k for k in lost if 'running' in k]
wrong = [k for k in lost if k not in running and lost[k] != again[k]]
if not again['state.statistics'].startswith(b''.join(lost[k] for k in running)):
    wrong.append('running statistics')
sys.exit(f'{wrong} differ' if wrong or not running else 0)
END

# Of elastic averaging the last checkpoint stands, and is named.
start centre --ranks 2 --elastic sync3 --save-every 2
until compgen -G "$data/centre/step-*" >/dev/null || ! kill -0 $child; do sleep 0.1; done
kill -KILL "$(rank 1)"
ended centre 4 'centre/step-[0-9]*.safetensors, are lost; go on with --resume'

# A class that goes away while it is trained on is no class of broken images.
cp -r "$data/images" "$data/kept"
start away --ranks 2
mv "$data/images/train/$(ls "$data/images/train" | head -1)" "$data/gone class"
ended away 1 'train/.*: No such file or directory; it could be found when the images were listed'
rm -r "$data/images" && mv "$data/kept" "$data/images"

# A test without an image that can be decoded is an error, and what was trained is kept.
cp -r "$data/images" "$data/blind"
for image in "$data"/blind/val/*/*; do : >"$image"; done
"$train" "$data/blind" --pixels 16 --batch 16 --threads 1 --epochs 2 --ranks 2 --run "$data/blind.run" >"$data/blind.out" 2>&1
[ $? -eq 1 ] || fail "a test of nothing: status of $(tail -3 "$data/blind.out")"
grep -q 'blind/val: none of its 21 images could be decoded, so nothing was tested' "$data/blind.out" || fail "a test of nothing: $(tail -3 "$data/blind.out")"
[ -e "$data/blind.run/step-00000004.safetensors" ] || fail "a test of nothing: $(ls "$data/blind.run")"
complains 1 'so nothing was tested' "$data/blind" --evaluate-only --resume "$data/blind.run"

# A full disk ends the log with one message, and nothing else.
mkdir "$data/full" && ln -s /dev/full "$data/full/log.jsonl"
"$train" "$data/images" --pixels 16 --batch 16 --threads 1 --epochs 2 --log-every 1 --run "$data/full" >"$data/full.out" 2>&1 || fail "$(cat "$data/full.out")"
[ "$(grep -c 'log.jsonl cannot be written: No space' "$data/full.out")" = 1 ] || fail "a log that is full: $(cat "$data/full.out")"

# A checkpoint that could not be written is an error, also after a signal: on all ranks.
start gone --ranks 2 --evaluate-every 0 --save-every 1000000
rm -r "$data/gone"
kill -TERM $child
ended gone 1 'the checkpoint of step .*There is no older one'

# An evaluation that is cut off, by a signal to one rank or its loss, is made by the run that goes on.
"$train" make-data "$data/many" --classes 3 --train-images 16 --val-images 3000 --pixels 24 >/dev/null || fail "make-data"
tested() { # NAME: what the epoch came to
    sed -n 's/.*"event":"epoch".*"loss":\([0-9.]*\),"top1":\([0-9.]*\).*/\1 \2/p' "$data/$1/log.jsonl"
}
small=(--pixels 16 --batch 16 --threads 1 --data-threads 1 --epochs 1 --ranks 2 --log-every 1)
"$train" "$data/many" "${small[@]}" --run "$data/whole" >"$data/whole.out" 2>&1 || fail "$(tail -3 "$data/whole.out")"
for signal in TERM KILL; do
    "$train" "$data/many" "${small[@]}" --run "$data/cut$signal" >"$data/cut$signal.out" 2>&1 &
    child=$!
    until grep -q '"event":"step"' "$data/cut$signal/log.jsonl" 2>/dev/null || ! kill -0 $child; do sleep 0.02; done
    kill -$signal "$(rank 1)"
    ended cut$signal "$([ $signal = TERM ] && echo 143 || echo 4)" 'is saved; go on with'
    [ -z "$(tested cut$signal)" ] || fail "$signal: the evaluation was over"
    "$train" "$data/many" --resume "$data/cut$signal" --ranks 2 >>"$data/cut$signal.out" 2>&1 || fail "$(tail -3 "$data/cut$signal.out")"
    [ -n "$(tested cut$signal)" ] || fail "$signal: the epoch was never tested"
    # A lost rank's running statistics are lost, too.
    [ $signal = KILL ] || [ "$(tested cut$signal)" = "$(tested whole)" ] || fail "$(tested cut$signal), not $(tested whole)"
    [ -e "$data/cut$signal/best.safetensors" ] || fail "$signal: the best is not kept"
done

# The terminal is closed; who reads the lines leaves.
if ! ((0x$(sed -n 's/^SigIgn:[[:space:]]*//p' /proc/self/status) & 1)); then # nohup's is not heard
    start hup --ranks 2
    kill -HUP $child
    ended hup 129 'asked to stop: step .* is saved; go on with'
fi
(run_through() { "$train" "$data/images" --pixels 16 --batch 16 --threads 1 --ranks 2 --epochs 2 --run "$data/through" | head -1; }
    set -o pipefail && run_through >/dev/null 2>&1) || fail "a reader that leaves ends the training"

# What rank 0 alone finds is the error of all.
complains 1 'choose another folder with --run' "$data/images" --ranks 2 --run /dev/null/run
complains 1 '--trace .*/nowhere/x: No such file or directory; name another file' "$data/images" --ranks 2 --run "$data/refused" --trace "$data/nowhere/x"
[ ! -e "$data/refused" ] || fail "a run that was refused leaves its folder"
complains 1 '--plot .*: is a folder' "$data/images" --ranks 2 --run "$data/refused" --plot "$(mkdir "$data/d.svg" && echo "$data/d.svg")"

# What cannot be is said before anything is computed.
complains 2 '--plot x.gif: must be a name that ends in .svg' "$data/images" --plot x.gif
complains 2 '--warmup 14: more than --epochs 13' "$data/images" --epochs 13 --warmup 14
complains 2 '--tail 100: more than --epochs 13' "$data/images" --epochs 13 --tail 100
complains 2 '--threads 1024: at most [0-9]*, four for each processor' "$data/images" --threads 1024
complains 2 '--algo nonsense: .*nonsense' "$data/images" --ranks 2 --algo nonsense
complains 2 '--algorithm nonsense: .*nonsense' "$data/images" --ranks 2 --algorithm nonsense
[ "$(grep -c nonsense "$data/out")" = 1 ] || fail "all ranks say the same: $(cat "$data/out")"

# Ranks that a launcher has started, here torchrun's variables: what one of them lacks, or sees otherwise, all know.
others() { # STATUS WORDS OPTIONS: rank 1 has these
    local status=$1 words=$2 torch=(env WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$((RANDOM % 9000 + 20000)))
    shift 2
    "${torch[@]}" RANK=1 LOCAL_RANK=1 "$train" "$@" >"$data/other1.out" 2>&1 &
    "${torch[@]}" RANK=0 LOCAL_RANK=0 "$train" "$data/images" --steps 1 --run "$data/other" >"$data/other.out" 2>&1
    [ $? -eq "$status" ] || fail "$*: $(tail -3 "$data/other.out")"
    wait $!
    [ $? -eq "$status" ] || fail "$*, rank 1: $(tail -3 "$data/other1.out")"
    grep -q -e "$words" "$data/other.out" && [ ! -s "$data/other1.out" ] || fail "$*: $(cat "$data/other.out" "$data/other1.out")"
}
"$train" make-data "$data/others" --train-images 48 --val-images 21 --pixels 24 >/dev/null || fail "make-data"
"$train" make-data "$data/drawn" --train-images 64 --val-images 21 --pixels 24 --seed 2 >/dev/null || fail "make-data"
cp -r "$data/images" "$data/named"
for half in train val; do mv "$data/named/$half/$(ls "$data/images/train" | head -1)" "$data/named/$half/0"; done
others 1 'rank 1: .*nowhere.*No such file' "$data/nowhere" --steps 1
others 1 'rank 1 sees other files than rank 0: 48 images and 64; all ranks need the same tree' "$data/others" --steps 1
others 1 'rank 1 sees other files than rank 0: 64 images and 64, of other names;' "$data/named" --steps 1
others 1 'rank 1 sees other files than rank 0: 64 images and 64, of other sizes;' "$data/drawn" --steps 1
others 2 '^plait-train: --steps: 1 on rank 0, not given on rank 1; give all ranks the same options$' "$data/images"
others 2 '^plait-train: --lr: not given on rank 0, 0.2 on rank 1; give' "$data/images" --steps 1 --lr 0.2
cp -r "$data/images" "$data/copy"
others 0 'trained 1 step' "$data/copy" --steps 1 -j 1 --threads 1 --queue 2 --run "$data/unused"
rm -r "$data/other"

# A loss that is not finite on one rank ends all with the same status and one line, whoever steps together with whom.
wild=(--steps 60 --rate 1000 --warmup 0 --weight-decay 1)
for how in "--ranks 2" "--ranks 3 --batch 48 --sync-batch-norm" "--ranks 2 --elastic sync2" "--ranks 3 --elastic async" \
    "--ranks 2 --bucket 0 --payload fp16 --loss-scale 65536"; do
    run wild $how "${wild[@]}" --run "$data/wild"
    [ $? -eq 3 ] || fail "$how, not finite: $(tail -3 "$data/wild.out")"
    [ "$(grep -c 'rank .* is not finite in step [0-9]*: the first one is in' "$data/wild.out")" = 1 ] || fail "$how: $(tail "$data/wild.out")"
    grep -q error "$data/wild.out" && fail "$how: a rank was missed: $(tail "$data/wild.out")"
    rm -r "$data/wild"
done

# The loss scale is what is too high, not a rate of 0: it is named first.
complains 3 'not finite in step 1.*; one of these may help: a lower --loss-scale (now 16777216), ' "$data/images" --ranks 2 --pixels 16 \
    --batch 16 --payload fp16 --loss-scale 16777216 --run "$data/scaled"
grep -q -e '--rate (now 0)' "$data/out" && fail "a rate of 0 cannot be lower: $(cat "$data/out")"

# The layer is named: here the one that gets what is not finite.
run good --steps 1 --run "$data/good" || fail "$(tail -3 "$data/good.out")"
python3 - "$data/good/step-00000001.safetensors" "$data/bad.safetensors" <<'END' || fail "python3"
import json, struct, sys
data = bytearray(open(sys.argv[1], 'rb').read())
n = struct.unpack('<Q', data[:8])[0]
at = 8 + n + json.loads(data[8:8 + n])['layer2.1.conv2.weight']['data_offsets'][0]
data[at:at + 4] = struct.pack('<f', float('nan'))
data = data.replace(b'"xxh64"', b'"none!"', 1) # else it is found to be damaged
open(sys.argv[2], 'wb').write(data)
END
cmp -s "$data/good/step-00000001.safetensors" "$data/bad.safetensors" && fail "it is not bad"
complains 3 'the loss is not finite in step 1: the first one is in layer2.1.conv2' "$data/images" --weights "$data/bad.safetensors" \
    --ranks 2 --pixels 16 --run "$data/bad"
echo passed
