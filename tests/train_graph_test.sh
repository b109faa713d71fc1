#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# plait-train --device cuda --graph as a program: the bits of a run without graphs. On the stand-ins for CUDA's driver, cuDNN
# and cuBLAS, or on the first GPU.
# Usage: train_graph_test.sh PLAIT_TRAIN [FOLDER with the stand-ins for cuDNN and cuBLAS]
. "$(dirname "$0")/train_cuda_run.sh"

tensors() { # RUN: of its last checkpoint; its notes name the options
    local file
    file=$(ls "$data/$1"/step-*.safetensors | tail -1)
    tail -c +$((9 + $(od -An -tu8 -N8 "$file"))) "$file"
}
tested() { # RUN
    sed -n 's/.*"event":"epoch".*"loss":\([0-9.e+-]*\).*/\1/p' "$data/$1/log.jsonl"
}
# both NAME OPTIONS: with graphs and without
both() {
    local losses
    on_gpu "$1-direct" "${@:2}"
    on_gpu "$1" "${@:2}" --graph
    losses=$(numbers loss "$1")
    [ -n "$losses" ] && [ "$losses" = "$(numbers loss "$1-direct")" ] || fail "$1: losses $losses, without graphs $(numbers loss "$1-direct")"
    [ "$(tested "$1")" = "$(tested "$1-direct")" ] || fail "$1: the test $(tested "$1"), without graphs $(tested "$1-direct")"
    same "$1" "$1-direct"
    cmp <(tensors "$1") <(tensors "$1-direct") || fail "$1: another checkpoint"
    [ "$(grep -c '^CUDA graphs: ' "$data/$1.out")" = 1 ] || fail "$1: $(head -6 "$data/$1.out")"
    grep -q '"graph":true' "$data/$1/log.jsonl" && grep -q '"graph":false' "$data/$1-direct/log.jsonl" || fail "$1: graphs in the log"
}
says() { # NAME WORDS
    grep -q "^CUDA graphs: $2" "$data/$1.out" || fail "$1: $(grep graphs "$data/$1.out")"
}
few="--pixels 16 --batch 8 --steps 4 --seed 5 --bucket 64K"

# A pass, two and four for each step; the three precisions; ranks.
both one $few --micro 8 --payload fp32
says one 'forward and backward passes, and the weights of passes$'
run dry --device cuda --graph --dry-run && grep -q '^CUDA graphs: forward and backward' "$data/dry.out" || fail "--dry-run: $(head -6 "$data/dry.out")"
both bf16 $few --precision bf16 --micro 8
both fp16 $few --precision fp16 --payload fp16 --micro 8
both two $few --payload fp32
both four $few --micro 2 --precision bf16
both ranks $few --ranks 2 --micro 2 --payload fp32
both late $few --ranks 2 --no-overlap
[ ! -e "${2:-}/libnvjpeg.so.13" ] || both jpegs $few --decoder nvjpeg -j 2 # threads that decode meanwhile

[ "$(PLAIT_STANDIN_LOG=1 run counted --device cuda $few --micro 8 --graph; grep -c cuGraphLaunch "$data/counted.out")" -gt 20 ] || [ $# -lt 2 ] ||
    fail "no graphs are launched"

# What no graph has runs as before.
both reproducible $few --reproducible --micro 2
says reproducible 'forward passes, the last backward pass, .* not the other backward passes, which with --reproducible'
both norms $few --sync-batch-norm --ranks 2
says norms 'the weights of passes; not the passes, as --sync-batch-norm sums on the host'
both elastic --pixels 16 --batch 8 --epochs 1 --seed 5 --elastic sync1 --ranks 2 --rate 0.005 --warmup 0 --evaluate-every 1
both polish --pixels 16 --batch 32 --micro 32 --epochs 3 --polish 1 --polish-kind statistics --evaluate-every 1 --smoothing 0

# A run goes on with its graphs, and on the other device without.
on_gpu part $few --steps 2 --micro 8 --payload fp32 --graph
run part --resume "$data/part" $few --micro 8 --steps 4 --log-every 1 || fail "$(tail -3 "$data/part.out")"
says part forward
same part one
run part --resume "$data/part" $few --micro 8 --steps 6 --log-every 1 --no-graph || fail "$(tail -3 "$data/part.out")"
! grep -q 'CUDA graphs' "$data/part.out" || fail "--no-graph: $(cat "$data/part.out")"
run one --device cpu --resume "$data/one" $few --micro 8 --steps 6 --log-every 1 || fail "$(tail -3 "$data/one.out")"
! grep -q 'CUDA graphs' "$data/one.out" || fail "--device cpu: $(cat "$data/one.out")"
run dry --device cuda --dry-run --graph || fail "$(cat "$data/dry.out")"
grep -q "the driver's for CUDA graphs is not counted" "$data/dry.out" || fail "dry run: $(cat "$data/dry.out")"

# Mistakes.
complains 2 '--graph has an effect only with --device cuda; leave it out' "$data/images" --graph
if [ $# -gt 1 ]; then # calls that fail
    for call in cuStreamBeginCapture_v2 cuStreamEndCapture cuGraphInstantiateWithFlags cuGraphLaunch; do
        PLAIT_STANDIN_REFUSE=$call run refused --device cuda $few --graph && fail "$call was refused"
        remedy='use --no-graph'
        [ $call != cuGraphLaunch ] || remedy='a graph or earlier work on the GPU failed; --no-graph tells which'
        grep -q -e "--device cuda: ${call%_v2}: unknown error (CUDA_ERROR_UNKNOWN): $remedy" "$data/refused.out" || fail "$call: $(cat "$data/refused.out")"
    done
    PLAIT_STANDIN_REFUSE=cuGraphInstantiateWithFlags PLAIT_STANDIN_REFUSE_WITH=2 run refused --device cuda $few --graph && fail "no memory for graphs"
    grep -q 'no memory left for CUDA graphs: use --no-graph, or a smaller --micro' "$data/refused.out" || fail "no memory: $(cat "$data/refused.out")"
    PLAIT_STANDIN_REFUSE=cuStreamEndCapture run direct --device cuda $few || fail "without graphs: $(tail -3 "$data/direct.out")"
fi
