#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A program of NCCL's on several virtual hosts. Usage: hosts_test.sh PLAIT_HOSTS HOSTS_RANKS. Root only.
set -u
hosts=$(realpath "$1")
ranks=$(realpath "$2")
if [ "$(id -u)" -ne 0 ] || ! unshare -n true 2>/dev/null; then
    echo "skipped: virtual hosts need root"
    exit 77
fi
room=$(mktemp -d) || exit 1
trap 'rm -rf "$room"' EXIT
"$hosts" 2 --ranks 2 --share "$room" -- "$ranks" "$room/id" || { echo "FAILED: 4 ranks on 2 hosts"; exit 1; }
