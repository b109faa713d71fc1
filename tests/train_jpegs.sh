#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# plait-train --device cuda from JPEGs, as rows of tools/gpu-check --train, with each decoder: the rate of its last steps, who
# waits; whether its first loss is that of the processor's decoder; and whether --graph, which records while threads decode, has
# the same losses. Usage: train_jpegs.sh PLAIT_TRAIN [--small]
set -u
train=$1 small=${2:-}
model=resnet50 images=1024 pixels=224 batch=256 steps=24 every=8 threads=16 precision=bf16
[ -z "$small" ] || model=resnet20 images=32 pixels=16 batch=8 steps=4 every=2 threads=1 precision=fp32
room=$(mktemp -d) || exit 1
trap 'rm -rf "$room"' EXIT

"$train" make-data "$room/images" --train-images $images --val-images 16 --pixels $((pixels * 8 / 7)) >&2 || exit
number() { # NAME LINE: of the lines of steps, such as 1 or $
    grep '"event":"step"' "$run/log.jsonl" | sed -n "$2"'s/.*"'"$1"'":\([-0-9.e+]*\).*/\1/p'
}
run_from() { # DECODER [--graph]
    run=$room/$1${2:-}
    "$train" "$room/images" --device cuda --decoder "$@" --model $model --pixels $pixels --batch $batch --precision $precision -j $threads --steps $steps \
        --epochs 100 --log-every $every --evaluate-every 0 --run "$run" >"$run.out" 2>&1 || return
    [ -n "$(number loss '$')" ] && [ -n "$(number images_per_second '$')" ] || { echo "its log has no loss or no rate: $(tail -1 "$run/log.jsonl")"; return 1; } >>"$run.out"
}
measure() { # DECODER
    run_from $1 || return
    printf '| %s, %d pixels, %s, batch %d, from JPEGs by %d threads, --decoder %s: images/s; part of the time that the rank waits for images; that threads wait for it | %.0f; %.2f; %.2f | |\n' \
        $model $pixels $precision $batch $threads $1 "$(number images_per_second '$')" "$(number data_wait '$')" "$(number decoders_idle '$')"
}
with_graphs() { # DECODER: the first steps again
    local steps=$every loss same=yes
    loss=$(number loss 1)
    run_from $1 --graph
    how=$?
    cat "$run.out" >&2
    [ $how -eq 0 ] || return $how
    [ "$(number loss 1)" = "$loss" ] || same='**no**'
    printf '| from JPEGs, --decoder %s, --graph: the same loss | %s | yes |\n' $1 "$same"
    [ $same = yes ]
}

measure cpu
how=$?
cat "$run.out" >&2
[ $how -eq 0 ] || exit $how
wanted=$(number loss 1)
measure nvjpeg
how=$?
cat "$run.out" >&2
if [ $how -ne 0 ] && missing=$(grep -o 'there is no nvJPEG .*\|.* is nvJPEG .* is needed' "$run.out"); then
    printf '| from JPEGs, --decoder nvjpeg | not measured: %s | |\n' "${missing:0:300}"
    run=$room/cpu
    with_graphs cpu
    exit
fi
[ $how -eq 0 ] || exit $how
awk -v a="$(number loss 1)" -v b="$wanted" 'BEGIN {
    d = (a - b) / b; if (d < 0) d = -d
    printf "| from JPEGs, --decoder nvjpeg: difference of the first loss from that of --decoder cpu | %.1e | 2e-2 |\n", d
    exit !(d < 2e-2) }' && ! grep -q 'the processor decoded' "$run.out" && with_graphs nvjpeg
