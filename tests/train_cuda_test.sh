#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# plait-train --device cuda as a program: on the stand-ins for CUDA's driver, cuDNN and cuBLAS, or on the first GPU.
# Usage: train_cuda_test.sh PLAIT_TRAIN [FOLDER with the stand-ins for cuDNN and cuBLAS]
. "$(dirname "$0")/train_cuda_run.sh"

# The GPU follows the processor: images of the GPU are rounded to bytes.
on_cpu cpu $few --payload fp32
on_gpu gpu $few --payload fp32
follows gpu cpu 5e-3
on_gpu again $few --payload fp32
same again gpu
on_gpu bf16 $few --precision bf16 --micro 8
follows bf16 cpu 5e-2
on_gpu fp16 $few --precision fp16 --payload fp16 --micro 8
follows fp16 cpu 5e-2
[ "$(numbers scale fp16 | head -1)" = 65536.0 ] || fail "fp16: the loss scale is $(numbers scale fp16)"

grep -q '^GPU 0 (.*), cuDNN 9.*, fp16$' "$data/fp16.out" && grep -q '"device":"GPU 0 .*"precision":"fp16"' "$data/fp16/log.jsonl" ||
    fail "fp16: what it runs on: $(head -4 "$data/fp16.out")"

# Ranks: the same bits for any number; the sums of batch norm; LARS in buckets of their own.
on_gpu one $few --reproducible --micro 2
on_gpu two $few --reproducible --micro 2 --ranks 2
same two one
on_cpu norms_cpu $few --sync-batch-norm --ranks 2 --payload fp32
on_gpu norms $few --sync-batch-norm --ranks 2 --payload fp32
follows norms norms_cpu 5e-3
on_gpu lars $few --optimizer lars --ranks 2 --bucket 64K

# Loss scaling by a power of 2 changes no bits.
on_gpu scaled $few --payload fp32 --loss-scale 1024
same scaled gpu

# What is logged every few steps is the sum over them.
run seldom --device cuda $few --payload fp32 --log-every 3 --run "$data/seldom" || fail "$(tail -3 "$data/seldom.out")"
same seldom gpu
[ "$(numbers images seldom)" = 24.0 ] || fail "seldom: images $(numbers images seldom)"
paste <(numbers loss gpu | awk '{ sum += $1 } END { print sum / NR }') <(numbers loss seldom) |
    awk '{ d = $1 - $2; exit !(d < 1e-4 && d > -1e-4) }' || fail "seldom: the loss $(numbers loss seldom)"

# A step after a wait measures the host.
run host --device cuda --pixels 16 --batch 8 --steps 4 --log-every 2 --run "$data/host" || fail "$(tail -3 "$data/host.out")"
[ "$(numbers host host | wc -l)" = 1 ] && [ "$(numbers step host | tail -1)" = 4 ] || fail "the host's share: $(cat "$data/host/log.jsonl")"

# A checkpoint goes on with the bits of a run that was not stopped, and on the other device.
# So does the loss scale, which now may change: not dynamic's first one, 65536.
on_gpu part $few --payload fp32 --steps 2 --loss-scale 1024
run part --resume "$data/part" $few --steps 3 --log-every 1 --loss-scale dynamic || fail "$(tail -3 "$data/part.out")"
same part gpu
[ "$(grep -c 'note: --resume .*part: it was trained with --device cuda, and goes on so; --device cpu' "$data/part.out")" = 1 ] &&
    grep -q '^GPU 0 ' "$data/part.out" || fail "part goes on elsewhere: $(head -5 "$data/part.out")"
[ "$(numbers scale part | tail -1)" = 1024.0 ] || fail "part goes on with the loss scale $(numbers scale part | tail -1)"
run gpu --device cpu --resume "$data/gpu" $few --steps 4 --log-every 1 || fail "to the processor: $(tail -3 "$data/gpu.out")"
run cpu --device cuda --resume "$data/cpu" $few --steps 4 --log-every 1 || fail "to the GPU: $(tail -3 "$data/cpu.out")"
follows gpu cpu 1e-2
run tested --device cuda --evaluate-only --resume "$data/gpu" --batch 8 || fail "$(tail -3 "$data/tested.out")"
run tested_cpu --evaluate-only --resume "$data/gpu" --batch 8 || fail "$(tail -3 "$data/tested_cpu.out")"
[ "$(grep -o '[0-9]* images' "$data/tested.out")" = "21 images" ] || fail "evaluation: $(cat "$data/tested.out")"

# Lines of the log come as on the processor, also after a resume.
on_cpu lines_cpu --pixels 16 --batch 8 --steps 3 --log-every 4
run lines_cpu --resume "$data/lines_cpu" --batch 8 --steps 8 --log-every 4 || fail "$(tail -3 "$data/lines_cpu.out")"
run lines --device cuda --pixels 16 --batch 8 --steps 3 --log-every 4 --run "$data/lines" || fail "$(tail -3 "$data/lines.out")"
run lines --resume "$data/lines" --batch 8 --steps 8 --log-every 4 || fail "$(tail -3 "$data/lines.out")"
[ "$(numbers step lines | tr '\n' ' ')" = "7 8 " ] && [ "$(numbers step lines)" = "$(numbers step lines_cpu)" ] ||
    fail "lines of the log after steps $(numbers step lines | tr '\n' ' ')"

# Elastic averaging, Final Polishing, evaluation between epochs, the dry run.
on_gpu elastic $few --elastic sync1 --ranks 2 --epochs 1 --evaluate-every 1
# Elastic averaging: the weights go to the host and come back, in steps that exchange them; the centre is tested.
tested() {
    sed -n 's/.*"event":"epoch".*"loss":\([0-9.e+-]*\).*/\1/p' "$data/$1/log.jsonl"
}
apart="--pixels 16 --batch 8 --epochs 1 --seed 5 --elastic sync1 --ranks 2 --rate 0.005 --warmup 0 --evaluate-every 1"
for period in 1 2 9; do
    on_cpu cpu_period$period $apart --period $period
    on_gpu period$period $apart --period $period
    follows period$period cpu_period$period 2e-2
    awk -v a="$(tested period$period)" -v b="$(tested cpu_period$period)" 'BEGIN { d = (a - b) / b; exit !(a > 0 && d < 0.02 && d > -0.02) }' ||
        fail "the centre: $(tested period$period) instead of $(tested cpu_period$period)"
done
[ "$(weights period1)" != "$(weights period9)" ] && [ "$(weights period2)" != "$(weights period9)" ] || fail "exchanges have no effect"

on_gpu served $few --elastic async --ranks 2 --steps 2
on_gpu polish --pixels 16 --batch 32 --micro 32 --epochs 2 --polish 1 --polish-kind statistics --evaluate-every 1
run dry --device cuda --dry-run --ranks 2 || fail "$(cat "$data/dry.out")"
grep -q 'memory of a rank' "$data/dry.out" || fail "dry run: $(cat "$data/dry.out")"

# A rank that is killed: the others name the last checkpoint, as sums that did not arrive may be in the weights, and leave. (The
# stand-in may end one of them, which overwrites gradients that another one still adds up for nobody.)
"$train" "$data/images" --pixels 16 --batch 12 --micro 4 --threads 1 --data-threads 1 --epochs 10000 --ranks 3 --device cuda --save-every 5 \
    --run "$data/kill" >"$data/kill.out" 2>&1 &
child=$!
until [ "$(grep -c '"event":"step"' "$data/kill/log.jsonl" 2>/dev/null)" -ge 2 ] 2>/dev/null; do
    kill -0 $child 2>/dev/null || fail "killed: $(tail -3 "$data/kill.out")"
    sleep 0.1
done
kill -KILL "$(pgrep -P $child | sed -n 2p)"
wait $child
[ $? -eq 4 ] || fail "a rank lost: $(tail -3 "$data/kill.out")"
grep -q 'the steps since the last checkpoint, .*step-[0-9]*.safetensors, are lost; go on with --resume' "$data/kill.out" ||
    fail "a rank lost: $(tail -3 "$data/kill.out")"

# An error of one rank's GPU in a step is that of the others.
if [ $# -gt 1 ]; then
    torch=(env WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$((RANDOM % 9000 + 20000)))
    PLAIT_STANDIN_CUDNN_EXECUTE=5000 "${torch[@]}" RANK=1 LOCAL_RANK=1 "$train" "$data/images" $few --device cuda --run "$data/failed" >"$data/failed1.out" 2>&1 &
    "${torch[@]}" RANK=0 LOCAL_RANK=0 "$train" "$data/images" $few --device cuda --run "$data/failed" >"$data/failed.out" 2>&1
    [ $? -eq 4 ] || fail "the error of another rank: $(tail -3 "$data/failed.out")"
    wait $!
    [ $? -eq 1 ] || fail "the error of a rank: $(tail -3 "$data/failed1.out")"
    grep -q 'aborted by rank 1: --device cuda: .*CUDNN_STATUS_EXECUTION_FAILED' "$data/failed.out" || fail "the error of another rank: $(cat "$data/failed.out")"
fi

# A loss that is not finite is found in the step that reports.
run wrong --device cuda $few --rate 1000 --warmup 0 --steps 9 --log-every 1 --run "$data/wrong" && fail "a rate of 1000"
[ "$(grep -c 'is not finite' "$data/wrong.out")" = 1 ] || fail "a rate of 1000: $(cat "$data/wrong.out")"

# Before a checkpoint a step reports: none has broken weights. Else the message names the steps that it may have been.
wild="--pixels 16 --batch 8 --micro 8 --seed 5 --rate 1000 --warmup 0 --steps 12"
run each --device cuda $wild --log-every 1 --run "$data/each" && fail "a rate of 1000"
run saved --device cuda $wild --log-every 100 --save-every 1 --run "$data/saved" && fail "a rate of 1000"
step=$(sed -n 's/.*is not finite in step \([0-9]*\).*/\1/p' "$data/each.out")
[ -n "$step" ] && grep -q "is not finite in step $step" "$data/saved.out" || fail "step $step: $(tail -2 "$data/saved.out")"
[ ! -e "$data/saved/step-$(printf %08d "$step").safetensors" ] || fail "step $step was saved"
run late --device cuda $wild --log-every 100 --run "$data/late" && fail "a rate of 1000"
grep -q "is not finite in one of the steps 1 to 8" "$data/late.out" || fail "at the end of the epoch: $(tail -2 "$data/late.out")"

# Mistakes.
complains 2 '--device tpu: must be cpu, cuda' "$data/images" --device tpu
complains 2 '--device cuda:0,1: must be cpu, cuda, or cuda:N' "$data/images" --device cuda:0,1
complains 2 '--amp --precision fp32: --amp is' "$data/images" --amp --precision fp32
complains 2 '--reproducible --nondeterministic' "$data/images" --device cuda --reproducible --nondeterministic
complains 2 'fp16: oneDNN does not train in fp16 on processors; use --device cuda, or --precision fp32 or bf16' "$data/images" --precision fp16
run refused --device cpu --resume "$data/fp16" $few && fail "fp16 goes on on the processor"
grep -q 'oneDNN does not train in fp16 on processors; .*or --precision fp32 or bf16$' "$data/refused.out" || fail "fp16: $(tail -2 "$data/refused.out")"
complains 2 '--tf32 .*--device cuda' "$data/images" --tf32
complains 2 '--tf32 has an effect only with --device cuda and --precision fp32' "$data/images" --device cuda --tf32 --precision bf16
[ $# -lt 2 ] || PLAIT_STANDIN_CAPABILITY=75 complains 1 'capability 7.5, and TF32 needs 8.0: use --no-tf32' "$data/images" --device cuda --tf32 --run "$data/none"
complains 1 'there is no GPU 9' "$data/images" --device cuda:9 --run "$data/none"
PLAIT_FOR_TESTS=1 PLAIT_CUDA_DRIVER=/nonexistent complains 1 'no CUDA driver' "$data/images" --device cuda --run "$data/none"
PLAIT_STANDIN_CUDA=12080 complains 1 '--device cuda: cannot load the device code: an error (CUDA_ERROR_.*): it is of nvcc' "$data/images" --device cuda \
    --run "$data/none"
for limit in 1000 33500 36500; do # KiB: for cuBLAS, the network, the buckets
    [ $# -lt 2 ] || PLAIT_STANDIN_LIMIT=$limit complains 1 'no .* memory .* MiB are free.* use a smaller --micro or --batch' "$data/images" --pixels 16 \
        --batch 8 --micro 8 --precision fp16 --device cuda --run "$data/none"
done
[ $# -lt 2 ] || grep -q 'buckets of gradients' "$data/out" || fail "not the buckets: $(tail -1 "$data/out")"
mkdir "$data/broken" && : >"$data/broken/libcudnn.so.9" # not another cuDNN in its place
LD_LIBRARY_PATH=$data/broken:$LD_LIBRARY_PATH complains 1 "broken/libcudnn.so.9: file too short: pip install" "$data/images" --device cuda --run "$data/none"
[ ! -e "$data/none" ] || fail "a run that cannot begin has left a folder"
