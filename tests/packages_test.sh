#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs the Debian packages into a fresh bookworm, and uses them there as a stranger would. Slow: only with
# PLAIT_TEST_TIER=full, as root, with Debian's mirror.
# Usage: packages_test.sh SOURCE_DIR
set -u
source=$1
[ "${PLAIT_TEST_TIER:-}" = full ] || { echo "skipped: a slow case; PLAIT_TEST_TIER=full runs it"; exit 77; }
[ "$(id -u)" -eq 0 ] || { echo "skipped: a chroot needs root"; exit 77; }
room=$(mktemp -d) || exit 1
trap 'rm -rf --one-file-system "$room"' EXIT
failed=0

run() {
    echo "[ RUN      ] $1"
    (set -e; "$1") 2>&1
    if [ $? -eq 0 ]; then
        echo "[       OK ] $1"
    else
        echo "[  FAILED  ] $1"
        failed=1
    fi
}
# A command in the fresh system, which has processes and devices of its own.
there() {
    unshare --mount --pid --fork bash -ec 'mount -t proc proc "$1/proc"; mount --rbind /sys "$1/sys"; mount --rbind /dev "$1/dev"
        exec chroot "$1" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin bash -ec "$2"' bash "$room/root" "$1"
}

the_packages_are_built_without_lintian_errors() {
    command -v lintian || { echo "lintian is missing: run tools/setup"; return 1; }
    "$source/tools/packages"
}
they_are_installed_into_a_fresh_system() {
    mkdir "$room/debs"
    cp "$source"/build/packages/*.deb "$room/debs"
    rm -f "$room"/debs/*dbgsym*
    mmdebstrap --mode=root --variant=minbase --include=gcc,libc6-dev,make,pkg-config,cmake,python3,openmpi-bin \
        --customize-hook="copy-in $room/debs /" \
        --customize-hook='chroot "$1" sh -c "apt-get -q -y --install-recommends install /debs/*.deb"' \
        bookworm "$room/root" http://deb.debian.org/debian >"$room/log" 2>&1 || { tail -30 "$room/log"; return 1; }
    cp "$source"/tests/install/* "$room/root/root"
}
a_program_is_compiled_by_pkg_config() {
    there 'cd; cc hello.c -o hello $(pkg-config --cflags --libs plait); ./hello'
}
a_program_is_compiled_by_cmake() {
    there 'cd; cmake -S . -B cmake >log && cmake --build cmake >>log || { cat log; exit 1; }; cmake/hello'
}
the_programs_run() {
    there 'plait-info; plait-info --features'
    # Compiled as a whole: a small call would take a sixth more time.
    there 'plait-info --features | grep "^flags *-O2"'
    there 'plait-perf --ranks 2 -b 1K -e 64K --guard off'
    there 'plait-plan simulate ring --machine abci --bytes 1M'
}
# These are plug-ins' libraries, which are recommended.
the_plug_ins_load() {
    there 'cd /usr/lib/*/plait; for p in plait-*.so; do ldd -r $p | grep -e "not found" -e undefined && exit 1; done; true'
}
libnccl_finds_the_library() {
    there 'cd /usr/lib/*/plait/nccl; ldd libnccl.so.2 | grep libplait.so.0.*=\>.*/libplait.so.0
           python3 -c "import ctypes; ctypes.CDLL(\"$PWD/libnccl.so.2\").ncclGetErrorString"'
}
# By the package's name alone, and compiled outside: the fresh system has no compiler of MPI.
a_program_of_mpi_runs_on_plait() {
    cc -O1 -D_GNU_SOURCE -pthread "$source/tests/mpi/ranks.c" -o "$room/root/root/ranks" $(pkg-config --cflags --libs ompi-c)
    there 'timeout 60 mpirun --allow-run-as-root --oversubscribe -n 2 -x LD_PRELOAD=libplait-mpi.so -x PLAIT_MPI=report \
               /root/ranks progress >/root/report 2>&1 </dev/null || { tail -n 40 /root/report; exit 1; }
           grep "MPI_Allreduce  *[1-9][0-9]* on Plait" /root/report || { cat /root/report; exit 1; }
           { ! grep "could not make" /root/report; }'
}
python_has_the_package() {
    there 'python3 -c "
import numpy, plait
x = numpy.ones(4)
with plait.Comm.create(1, 0, plait.unique_id()) as comm:
    comm.allreduce(x)
print(plait.version(), plait.__file__, x)
from importlib.metadata import entry_points
assert [e.value for e in entry_points(group=\"torch.distributed.backends\")] == [\"plait.torch:register\"]"
        plait --version'
}
they_are_removed_without_a_rest() {
    there 'apt-get -q -y purge libplait0 libplait-dev plait-tools libplait-nccl libplait-mpi python3-plait >/dev/null
           find / -xdev \( -path /debs -o -path /root -o -path /proc -o -path /var/log \) -prune -o -iname "*plait*" -print | { ! grep .; }'
}

run the_packages_are_built_without_lintian_errors
[ $failed -ne 0 ] || run they_are_installed_into_a_fresh_system
[ $failed -eq 0 ] || exit 1
run a_program_is_compiled_by_pkg_config
run a_program_is_compiled_by_cmake
run the_programs_run
run the_plug_ins_load
run libnccl_finds_the_library
run a_program_of_mpi_runs_on_plait
run python_has_the_package
run they_are_removed_without_a_rest
exit $failed
