# SPDX-License-Identifier: BSD-3-Clause
# Sourced by tests of plait-train on GPUs as a program, with its path as their first argument, and without a GPU the folder of
# the stand-ins for NVIDIA's libraries.
. "$(dirname "$0")/train_run.sh"
if [ $# -gt 1 ]; then # processes of ranks share a GPU through this file
    export LD_LIBRARY_PATH=$2:$LD_LIBRARY_PATH PLAIT_STANDIN_WORLD=$data/world
    : >"$data/world"
fi

numbers() { # NAME RUN: of its log
    sed -n 's/.*"event":"step".*"'"$1"'":\([-0-9.e+]*\).*/\1/p' "$data/$2/log.jsonl"
}
on_gpu() { # NAME OPTIONS
    run "$1" --device cuda --log-every 1 --run "$data/$1" "${@:2}" || fail "$1: $(tail -3 "$data/$1.out")"
}
on_cpu() {
    run "$1" --log-every 1 --run "$data/$1" "${@:2}" || fail "$1: $(tail -3 "$data/$1.out")"
}
follows() { # RUN OTHER TOLERANCE: have they the same losses?
    paste <(numbers loss "$1") <(numbers loss "$2") | awk -v most="$3" '
        NF == 2 { n++; d = ($1 - $2) / $2; if (d < 0) d = -d; if (d > most) bad = bad " " $1 "/" $2 }
        END { if (n == 0 || bad) { print n " steps," bad; exit 1 } }' || fail "$1 does not follow $2"
}
same() { # RUN OTHER: the same weights?
    [ -n "$(weights "$1")" ] && [ "$(weights "$1")" = "$(weights "$2")" ] || fail "$1 and $2 have other weights: $(weights "$1") $(weights "$2")"
}
few="--pixels 16 --batch 8 --steps 3 --seed 5"
