#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What plait-train promises of training is what its runs do, seen in their logs and checkpoints. Usage: train_rules_test.sh PLAIT_TRAIN
. "$(dirname "$0")/train_run.sh"
go() { # NAME OPTIONS
    local name=$1
    shift
    run "$name" "$@" --run "$data/$name" || fail "$name: $(tail -3 "$data/$name.out")"
}
look() { # WORDS PROGRAM PATH...: python's `files` are the tensors of checkpoints, by name; `rates` those of the first log
    local words=$1 program=$2
    shift 2
    python3 - "$program" "$@" <<'END' || fail "$words"
import json, struct, sys
def read(path):
    data = open(path, 'rb').read()
    n = struct.unpack('<Q', data[:8])[0]
    about = json.loads(data[8:8 + n])
    about.pop('__metadata__', None)
    out = {}
    for name, a in about.items():
        begin, end = a['data_offsets']
        if name.startswith(('state.', 'momentum.')) or a['dtype'] != 'F32':
            continue
        out[name] = list(struct.unpack(f'<{(end - begin) // 4}f', data[8 + n + begin:8 + n + end]))
        shapes[name] = a['shape']
    return out
shapes = {}
files = [read(p) for p in sys.argv[2:] if p.endswith('.safetensors')]
rates = [json.loads(line)['rate'] for p in sys.argv[2:] if p.endswith('.jsonl') for line in open(p) if '"event":"step"' in line]
running = lambda name: '.running_' in name
def far(a, b):
    return max(abs(x - y) / (abs(x) + abs(y) + 1e-30) for x, y in zip(a, b))
exec(sys.argv[1])
END
}
at() { # NAME STEP: its checkpoint
    printf '%s/%s/step-%08d.safetensors' "$data" "$1" "$2"
}
tested() { # loss and top-1 of the last test in the log
    sed -n 's/.*"event":"epoch".*"loss":\([0-9.]*\),"top1":\([0-9.]*\).*/\1 \2/p' "$data/$1/log.jsonl" | tail -1
}

# The rate rises in the warm-up, falls to its end, and stays there for the tail.
go rates --epochs 4 --warmup 1 --tail 1 --rate 0.8 --decay polynomial --power 1 --rate-end 0.5 --log-every 1
look "the rate is not what was asked for" '
up, down, tail = rates[:5], rates[4:13], rates[12:]
assert len(rates) == 16 and up == sorted(set(up)) and abs(up[4] - 0.8) < 1e-6, rates
assert down == sorted(set(down), reverse=True) and all(abs(x - 0.4) < 1e-6 for x in tail), rates' "$data/rates/log.jsonl"

# Neither biases nor batch norm have decay, unless asked for.
step=(--steps 1 --momentum 0 --rate 0.1 --warmup 0)
go bare "${step[@]}" --weight-decay 0
go some "${step[@]}" --weight-decay 0.5
go all "${step[@]}" --weight-decay 0.5 --decay-all
look "decay is not where it should be" '
bare, some, every = files
for name in (n for n in bare if not running(n)):
    plain = len(shapes[name]) == 1
    assert (bare[name] == some[name]) == plain, name
    assert bare[name] != every[name] or (plain and name.endswith(".bias")), name
' "$(at bare 1)" "$(at some 1)" "$(at all 1)"

# Polishing begins in the last epoch: on other images, or with the weights as they are.
same=(--epochs 2 --tail 1 --warmup 0)
go usual "${same[@]}"
go polish "${same[@]}" --polish 1
go frozen "${same[@]}" --polish 1 --polish-kind statistics
look "polishing is not of the last epoch" '
usual4, usual8, polish4, polish8, frozen4, frozen8 = files
assert usual4 == polish4 == frozen4 and usual8 != polish8
assert all((frozen4[n] == frozen8[n]) != running(n) for n in frozen4), "weights moved, or statistics did not"
' "$(at usual 4)" "$(at usual 8)" "$(at polish 4)" "$(at polish 8)" "$(at frozen 4)" "$(at frozen 8)"

# Running statistics come a tenth nearer to the batch's: the same images, weights that stay.
"$train" make-data "$data/few" --classes 2 --train-images 16 --val-images 4 --pixels 24 >/dev/null || fail "make-data"
"$train" "$data/few" --pixels 16 --batch 16 --micro 16 --threads 1 --epochs 3 --keep 3 --polish 3 --polish-kind statistics \
    --evaluate-every 0 --run "$data/still" >"$data/still.out" 2>&1 || fail "$(tail -3 "$data/still.out")"
look "running statistics do not move by a tenth" '
one, two, three = files
for name in filter(running, one):
    steps = [(b - a, c - b) for a, b, c in zip(one[name], two[name], three[name])]
    assert sum(abs(second - 0.9 * first) for first, second in steps) < 1e-3 * sum(abs(first) for first, _ in steps), name
' "$(at still 1)" "$(at still 2)" "$(at still 3)"

# Synchronised batch norm has the variances of all images; of halves the mean of variances is less.
whole=(--batch 16 --steps 1 --payload fp32)
go one "${whole[@]}" --micro 16
go sync "${whole[@]}" --micro 8 --ranks 2 --sync-batch-norm
go halves "${whole[@]}" --micro 8 --ranks 2
look "batch norm is not of all images" '
one, sync, halves = files
for name in (n for n in one if n.endswith("running_var")):
    assert far(one[name], sync[name]) < 1e-4, (name, far(one[name], sync[name]))
assert max(far(one[n], halves[n]) for n in one if n.endswith("running_var")) > 1e-3
' "$(at one 1)" "$(at sync 1)" "$(at halves 1)"

# What is tested is what a checkpoint has: statistics averaged over ranks, of elastic averaging the centre.
for how in "--ranks 2" "--ranks 2 --elastic sync2" "--ranks 3 --elastic async"; do
    name=tested${how//[^a-z]/}
    go "$name" --epochs 2 --evaluate-every 2 $how
    "$train" "$data/images" --evaluate-only --resume "$data/$name" >"$data/again.out" 2>&1 || fail "$how: $(cat "$data/again.out")"
    python3 - "$(tested "$name")" "$(cat "$data/again.out")" <<'END' || fail "$how: tested $(tested "$name"), again $(cat "$data/again.out")"
import re, sys
loss, top1 = map(float, sys.argv[1].split())
again = re.search(r'top-1 +([0-9.]+) %, top-5 +[0-9.]+ %, loss ([0-9.]+), 21 images', sys.argv[2])
sys.exit(abs(float(again[1]) - 100 * top1) > 0.01 or abs(float(again[2]) - loss) > 0.002)
END
done
echo passed
