#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# run.sh PROGRAM CORPUS OPTION ...: one short run of a fuzzer, always the same. What it finds out is thrown away; an
# input that fails is kept in the current folder, and its name printed.
program=$1 corpus=$2
shift 2
found=$(mktemp -d) || exit 1
trap 'rm -rf "$found"' EXIT
# libFuzzer's own exit code for a failure, 77, means "skipped" to meson.
"$program" -seed=1 -timeout=60 -error_exitcode=1 -timeout_exitcode=1 -print_final_stats=1 "$@" "$found" "$corpus"
