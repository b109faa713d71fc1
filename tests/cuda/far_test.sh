#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Memory of the stand-in's devices over virtual hosts, by pinned memory and UCX. Usage: far_test.sh PLAIT_HOSTS FAR_RANKS.
# Root only.
set -u
hosts=$(realpath "$1")
ranks=$(realpath "$2")
failed=0

if [ "$(id -u)" -ne 0 ] || ! unshare -n true 2>/dev/null; then
    echo "skipped: virtual hosts need root"
    exit 77
fi
export PLAIT_SECRET=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef

# check STATUS N RANKS MODE [OPTIONS]
check() {
    "$hosts" "$2" --ranks "$3" ${5-} -- "$ranks" "$4"
    [ $? -eq "$1" ] || { echo "FAILED: $4 on $3 ranks"; failed=1; }
}
check 0 2 1 right
check 0 2 2+1 right
UCX_TLS=tcp check 0 2 1+2 right
PLAIT_DEADLINE=3 check 0 2 1 cut "--cut 5:1"
check 137 2 1+2 dies
exit $failed
