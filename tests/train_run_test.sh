#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# plait-train as a program, with resnet20 on tiny drawn images. Usage: train_run_test.sh PLAIT_TRAIN [PLAIT_HOSTS]
. "$(dirname "$0")/train_run.sh"

# 1, 2 and 4 ranks have the same bits after some steps.
steps=$([ "${PLAIT_TEST_TIER-}" = full ] && echo 50 || echo 20)
for ranks in 1 2 4; do
    run "same$ranks" --reproducible --ranks $ranks --steps $steps --run "$data/same$ranks" || fail "$(tail -3 "$data/same$ranks.out")"
    echo "$ranks ranks, $steps steps: $(weights same$ranks)"
    [ -n "$(weights same1)" ] && [ "$(weights same$ranks)" = "$(weights same1)" ] || fail "$ranks ranks have other bits"
done

# A run that was stopped and goes on has the bits of one that was not; bf16 payload, two ranks with their own statistics.
# It goes on with its loss scale, too, which as a power of 2 changes no bits: not with dynamic's first one, 65536.
run whole --ranks 2 --steps 12 --run "$data/whole" || fail "$(tail -3 "$data/whole.out")"
run part --ranks 2 --steps 7 --loss-scale 1024 --run "$data/part" || fail "$(tail -3 "$data/part.out")"
run part --ranks 2 --steps 12 --loss-scale dynamic --resume "$data/part" || fail "$(tail -3 "$data/part.out")"
[ "$(weights part)" = "$(weights whole)" ] || fail "a run that goes on has other bits"
scale=$(sed -n 's/.*"event":"step".*"scale":\([0-9.]*\).*/\1/p' "$data/part/log.jsonl" | tail -1)
[ "$scale" = 1024.0 ] || fail "a run goes on with the loss scale $scale"

# Progress within an epoch comes where output is a file, too.
run lines --ranks 2 --epochs 2 --print-every 2 --run "$data/lines" || fail "$(tail -3 "$data/lines.out")"
[ "$(grep -o '^epoch 1/2  step [24]/4 \|^epoch   1/2 |' "$data/lines.out" | tr '\n' ,)" = 'epoch 1/2  step 2/4 ,epoch 1/2  step 4/4 ,epoch   1/2 |,' ] ||
    fail "progress in a file: $(cat "$data/lines.out")"

# SIGINT to the process that has started the ranks: a checkpoint, and status 128 + 2.
env --default-signal=INT "$train" "$data/images" --pixels 16 --batch 16 --threads 1 --epochs 10000 --ranks 2 --run "$data/int" >"$data/int.out" 2>&1 &
child=$!
until grep -q '"event":"step"' "$data/int/log.jsonl" 2>/dev/null; do sleep 0.1; done
kill -INT $child
wait $child
[ $? -eq 130 ] || fail "SIGINT: $(tail -3 "$data/int.out")"
grep -q '"why":"asked to stop"' "$data/int/log.jsonl" || fail "SIGINT: no end in the log"
grep -q 'asked to stop: step [0-9]* is saved; go on with plait-train .*images --resume .*/int$' "$data/int.out" || fail "SIGINT: $(tail -3 "$data/int.out")"

# A rank that is killed: the others name it, save and leave with status 4.
"$train" "$data/images" --pixels 16 --batch 16 --threads 1 --epochs 10000 --ranks 2 --run "$data/kill" >"$data/kill.out" 2>&1 &
child=$!
until grep -q '"event":"step"' "$data/kill/log.jsonl" 2>/dev/null; do sleep 0.1; done
kill -KILL "$(pgrep -P $child | head -1)"
wait $child
[ $? -eq 4 ] || fail "a rank lost: $(tail -3 "$data/kill.out")"
grep -q ': the last complete step.*go on with --resume' "$data/kill.out" && [ "$(grep -c ' died' "$data/kill.out")" = 1 ] ||
    fail "a rank lost: $(tail -3 "$data/kill.out")"

# Evaluation counts each image once, however uneven the split.
run uneven --ranks 2 --steps 1 --epochs 1 --batch 64 --micro 8 --run "$data/uneven" || fail "$(tail -3 "$data/uneven.out")"
grep -q '"images":21\.0' "$data/uneven/log.jsonl" || fail "uneven: $(tail -2 "$data/uneven/log.jsonl")"

# A step of a worker that does not step with the others counts for all of them, and all waiting counts as exposed.
run workers --ranks 3 --elastic async --steps 3 --log-every 1 --run "$data/workers" || fail "$(tail -3 "$data/workers.out")"
[ "$(grep -c '"event":"step".*"images":16\.0' "$data/workers/log.jsonl")" = 3 ] || fail "workers: $(cat "$data/workers/log.jsonl")"
run norms --ranks 2 --sync-batch-norm --polish 13 --polish-kind statistics --steps 3 --run "$data/norms" || fail "$(tail -3 "$data/norms.out")"
grep '"event":"epoch"\|"event":"step"' "$data/norms/log.jsonl" | grep -q '"exposed":0\.0[,}]' && fail "sums of batch norm: $(cat "$data/norms/log.jsonl")"

# Hosts of one machine, as its containers are, divide its processors. Not where this user has no namespaces.
if [ $# -gt 1 ] && { unshare -n true || unshare -Urn true; } 2>/dev/null; then
    each=$(($(env -u OMP_NUM_THREADS nproc) / 2))
    "$2" 2 --share "$data" -- "$train" "$data/images" --pixels 16 --batch 4 --steps 1 --evaluate-every 0 --run "$data/hosts" >"$data/hosts.out" 2>&1 ||
        fail "two hosts: $(cat "$data/hosts.out")"
    grep -q "; 2 ranks of $((each > 0 ? each : 1)) thread" "$data/hosts.out" || fail "two hosts: $(cat "$data/hosts.out")"
fi

# A rate that is far too high: the layer is named.
run wild --ranks 2 --steps 40 --rate 1000 --warmup 0 --weight-decay 1 --run "$data/wild"
[ $? -eq 3 ] || fail "not finite: $(tail -3 "$data/wild.out")"

run of_each -b 16 --ranks 2 --steps 1 --run "$data/of_each" || fail "$(tail -3 "$data/of_each.out")"
[ "$(grep -c 'note: -b: 16 images in all, 8 of each rank$' "$data/of_each.out")" = 1 ] || fail "-b: $(cat "$data/of_each.out")"
run in_all --batch 16 --ranks 2 --steps 1 --run "$data/in_all" || fail "$(tail -3 "$data/in_all.out")"
grep -q 'of each rank' "$data/in_all.out" && fail "--batch: $(cat "$data/in_all.out")"

# The fields of log.jsonl are those of the page, and the other way round (host is of a GPU).
run tested --ranks 2 --steps 4 --evaluate-every 1 --run "$data/tested" || fail "$(tail -3 "$data/tested.out")"
python3 - "$(dirname "$0")/../docs/training.md" "$data"/*/log.jsonl <<'END' || fail "docs/training.md, The log"
import json, re, sys
section = open(sys.argv[1], encoding='utf-8').read().split('## The log')[1].split('\n## ')[0]
told = {}
for row in re.findall(r'^\| `(\w+)`[^|]*\|(.*)\|$', section, re.M):
    told[row[0]] = set(re.findall(r'`(\w+)`', row[1]))
every = set(re.findall(r'`(\w+)`', section.split('|')[0]))
written = {event: set() for event in told}
for path in sys.argv[2:]:
    for line in open(path, encoding='utf-8'):
        fields = json.loads(line)
        written[fields['event']] |= set(fields)
for event, fields in written.items():
    assert told[event] | every == fields | ({'host'} if event == 'step' else set()), (event, (told[event] | every) ^ fields)
END

complains 2 'no folder of images'
complains 2 '--batch 7x: must be a whole number' "$data/images" --batch 7x
complains 2 'did you mean --epochs' "$data/images" --epoch 3
complains 2 'needs a value' "$data/images" --batch
complains 2 '--opt adam: must be one of sgd, lars' "$data/images" --opt adam
complains 2 '--sched plateau: must be one of none, polynomial, cosine, steps' "$data/images" --sched plateau
run cpu --device cpu --steps 1 --run "$data/cpu" || fail "--device cpu: $(tail -3 "$data/cpu.out")"
complains 2 '--device tpu: must be cpu, cuda' "$data/images" --device tpu
complains 2 '--lr-step-size x: must be a number' "$data/images" --lr-step-size x
complains 2 '--lr-step-size has an effect only with --decay steps' "$data/images" --lr-step-size 3 --decay cosine
complains 2 '--batch-size 7: 2 ranks need a multiple of 2' "$data/images" --batch-size 7 --ranks 2
complains 2 '--optimizer adam: must be one of sgd, lars' "$data/images" --optimizer adam
complains 2 'leave one out' "$data/images" --reproducible --elastic sync3
complains 2 '--groups has an effect only with --in-memory; leave it out' "$data/images" --groups 2
complains 2 '--bucket has an effect only without --elastic' "$data/images" --bucket 1M --elastic sync3
complains 2 '--no-overlap has an effect only without --elastic\|--overlap has an effect only' "$data/images" --no-overlap --elastic sync3
complains 2 '--servers has an effect only with --elastic original' "$data/images" --servers 2 --elastic sync3
complains 2 '--eta has an effect only with --optimizer lars' "$data/images" --eta 0.01
complains 2 '--classes has an effect only with make-data' "$data/images" --classes 3
complains 2 '--batch has an effect only in training; leave it out' make-data "$data/drawn" --batch 16
complains 2 '--epochs has an effect only in training; leave it out' plot "$data/same1" --epochs 2
complains 1 'images/train: it has 64 files of another data set; they would be mixed with 32 images' make-data "$data/images" --train-images 32
complains 1 'images/train: it has 64 files of another data set; they would be mixed with 64 images of 8 classes' make-data "$data/images" --train-images 64 --val-images 21 --classes 8
complains 0 'images: 64 images for training and 21 for the test, of 10 classes' make-data "$data/images" --train-images 64 --val-images 21 --pixels 24
complains 2 '--groups 3: more than the 2 ranks; use fewer' "$data/images" --in-memory --groups 3 --ranks 2
complains 1 '--weights nofile: No such file or directory; name a safetensors file' "$data/images" --weights nofile --run "$data/none"
complains 1 'not a safetensors file' "$data/images" --weights "$data/same1/log.jsonl" --run "$data/none" --ranks 2
complains 1 'not a file but a folder' "$data/images" --weights "$data/images" --run "$data/none"
[ ! -e "$data/drawn" ] && [ ! -e "$data/none" ] || fail "an error left a folder"
complains 2 '--threads has an effect only without --reproducible' "$data/images" --threads 2 --reproducible
complains 2 'need a multiple of 2' "$data/images" --ranks 2 --batch 15
complains 1 'nowhere' "$data/nowhere"
complains 2 'ends in .svg' plot "$data/same1" --plot x.pdf
mkdir "$data/short" && grep '"event":"start"' "$data/same1/log.jsonl" >"$data/short/log.jsonl"
complains 1 'short has no point yet' plot "$data/short" --plot "$data/x.svg"
complains 0 'plot:' plot "$data/same1" "$data/same2" --plot "$data/x.svg"
complains 0 'exposed' "$data/images" --dry-run --ranks 2 --pixels 16
echo passed
