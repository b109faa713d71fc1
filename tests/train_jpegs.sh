#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# plait-train --device cuda from JPEGs, as rows of tools/gpu-check --train: the rate of its last steps, who waits, and
# whether the last loss is a number. Usage: train_jpegs.sh PLAIT_TRAIN [--small]
set -u
train=$1 small=${2:-}
model=resnet50 images=2048 pixels=224 batch=256 steps=40 every=10 threads=16 precision=bf16
[ -z "$small" ] || model=resnet20 images=32 pixels=16 batch=8 steps=4 every=2 threads=1 precision=fp32
room=$(mktemp -d) || exit 1
trap 'rm -rf "$room"' EXIT

"$train" make-data "$room/images" --train-images $images --val-images 16 --pixels $((pixels * 8 / 7)) >&2 || exit
"$train" "$room/images" --device cuda --model $model --pixels $pixels --batch $batch --precision $precision -j $threads --steps $steps \
    --epochs 100 --log-every $every --evaluate-every 0 --run "$room/run" >&2 || exit
line=$(grep '"event":"step"' "$room/run/log.jsonl" | tail -1)
number() {
    sed -n 's/.*"'"$1"'":\([-0-9.e+]*\).*/\1/p' <<<"$line"
}
[ -n "$(number loss)" ] && [ -n "$(number images_per_second)" ] || { echo "its log has no loss or no rate: $line" >&2; exit 1; }
printf '| %s, %d pixels, %s, batch %d, from JPEGs by %d threads: images/s; part of the time that the rank waits for images; that threads wait for it | %.0f; %.2f; %.2f | |\n' \
    $model $pixels $precision $batch $threads "$(number images_per_second)" "$(number data_wait)" "$(number decoders_idle)"
