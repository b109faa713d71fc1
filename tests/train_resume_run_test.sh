#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A run of plait-train goes on as it was without being told again. Usage: train_resume_run_test.sh PLAIT_TRAIN
. "$(dirname "$0")/train_run.sh"
go_on() { # NAME OPTIONS: as it was
    local name=$data/$1
    shift
    "$train" "$data/images" --resume "$name" --evaluate-every 0 --data-threads 1 "$@" >"$name.out" 2>&1
}

# Every option that shapes what comes out is in the checkpoint.
shape=(--ranks 2 --optimizer lars --rate 0.7 --warmup 0.5 --decay polynomial --power 3 --rate-end 0.1 --momentum 0.5 --nesterov
    --weight-decay 0.01 --decay-all --eta 0.01 --smoothing 0.3 --polish 1 --tail 2 --jitter 0.5 --least-area 0.2 --payload fp16
    --bucket 4K --seed 9)
run whole "${shape[@]}" --epochs 4 --run "$data/whole" || fail "$(tail -3 "$data/whole.out")"
run part "${shape[@]}" --epochs 4 --steps 5 --run "$data/part" || fail "$(tail -3 "$data/part.out")"
go_on part || fail "$(tail -3 "$data/part.out")"
grep -q -e 'it has reached --steps 5, and nothing is left to do; give a higher --steps' "$data/part.out" || fail "--steps was forgotten: $(cat "$data/part.out")"
go_on part --steps 16 || fail "$(tail -3 "$data/part.out")"
[ "$(grep '"event":"start"' "$data/part/log.jsonl" | tail -1 | grep -o '"ranks":[0-9]*,\|"step":[0-9]*' | tr -d '\n')" = '"step":5"ranks":2,' ] ||
    fail "nobody starts ranks, and it is not the 2 of before: $(cat "$data/part/log.jsonl")"
grep -q 'the results will differ' "$data/part.out" && fail "more steps are no other bits: $(cat "$data/part.out")"
[ -n "$(weights part)" ] && [ "$(weights part)" = "$(weights whole)" ] || fail "a run that is only named goes on with other bits"

# So is the promise of the same bits, on another number of ranks too.
run same --reproducible --epochs 4 --micro 2 --run "$data/same" || fail "$(tail -3 "$data/same.out")"
run same2 --reproducible --epochs 4 --micro 2 --steps 5 --ranks 2 --run "$data/same2" || fail "$(tail -3 "$data/same2.out")"
go_on same2 --steps 16 || fail "$(tail -3 "$data/same2.out")"
[ -n "$(weights same)" ] && [ "$(weights same2)" = "$(weights same)" ] || fail "--reproducible was forgotten"

# Another value is told, or refused where the state makes no sense with it.
go_on part --ranks 1 --steps 1 --rate 0.5 || fail "$(tail -3 "$data/part.out")"
grep -q -e '--rate is 0.5, but was 0.7: the results will differ' "$data/part.out" || fail "another rate is not told: $(cat "$data/part.out")"
grep -q '2 ranks wrote it, and 1 goes on: the results will differ' "$data/part.out" || fail "other ranks are not told: $(cat "$data/part.out")"
go_on part --ranks 2 --batch 16 --rate 0.7 --decay-all || fail "$(tail -3 "$data/part.out")"
grep -q 'the results will differ' "$data/part.out" && fail "the same value is told: $(cat "$data/part.out")"
complains 2 '--batch 32: the run in .*part has 16; leave --batch out' "$data/images" --resume "$data/part" --batch 32
complains 2 '--reproducible on: the run in .*part has off' "$data/images" --resume "$data/part" --reproducible
"$train" make-data "$data/others" --train-images 48 --val-images 10 --pixels 24 >/dev/null || fail "make-data"
complains 1 'its training set is 64 files.*this run.s is 48 files' "$data/others" --resume "$data/part" --ranks 2
complains 1 'no checkpoint there' "$data/images" --resume "$data/nowhere" --ranks 2

# A checkpoint that was damaged, 4 bytes of a tensor of it, is no checkpoint; as weights it is refused.
run damaged --epochs 2 --run "$data/damaged" || fail "$(tail -3 "$data/damaged.out")"
printf abcd | dd of="$data/damaged/step-00000008.safetensors" bs=1 seek=200000 conv=notrunc status=none
go_on damaged || fail "$(tail -3 "$data/damaged.out")"
grep -q 'skipped .*step-00000008.safetensors: damaged: its bytes have the hash' "$data/damaged.out" || fail "damage is not told: $(cat "$data/damaged.out")"
printf abcd | dd of="$data/damaged/step-00000008.safetensors" bs=1 seek=200000 conv=notrunc status=none
complains 1 'step-00000008.safetensors: damaged: its bytes have the hash' "$data/images" --weights "$data/damaged/step-00000008.safetensors" --run "$data/new"

# Neither is a link that leads nowhere; it is named, and so is the step that the run goes on from.
run link --epochs 2 --save-every 1 --keep 3 --run "$data/link" || fail "$(tail -3 "$data/link.out")"
ln -sf nowhere "$data/link/step-00000008.safetensors"
ln -sf step-00000007.safetensors "$data/link/step-00000007.safetensors"
go_on link || fail "$(tail -3 "$data/link.out")"
grep -q 'skipped .*step-00000008.safetensors: No such file or directory (target of this symbolic link)' "$data/link.out" &&
    grep -q 'skipped .*step-00000007.safetensors: Too many levels of symbolic links' "$data/link.out" ||
    fail "a link that leads nowhere is not told: $(cat "$data/link.out")"
grep -q 'goes on from step 6, .*/link/step-00000006.safetensors' "$data/link.out" || fail "from where? $(cat "$data/link.out")"

# Another run does not write among its checkpoints.
complains 1 '--run .*part: it holds the checkpoints of another run; go on with --resume' "$data/images" --run "$data/part" --ranks 2
echo passed
