#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds the wheel, and uses it where there is no compiler: in a fresh bookworm with nothing but Python, where the user is
# root, and in a virtual environment. Slow, and needs PyPI: only with PLAIT_TEST_TIER=full.
# Usage: wheel_test.sh SOURCE_DIR
set -u
source=$1
[ "${PLAIT_TEST_TIER:-}" = full ] || { echo "skipped: a slow case; PLAIT_TEST_TIER=full runs it"; exit 77; }
unset PYTHONPATH PLAIT_LIBRARY
room=$(mktemp -d) || exit 1
trap 'rm -rf --one-file-system "$room"' EXIT
failed=0

run() {
    echo "[ RUN      ] $1"
    (set -e; "$1") 2>&1
    case $? in
    0) echo "[       OK ] $1" ;;
    77) echo "[  SKIPPED ] $1" ;;
    *)
        echo "[  FAILED  ] $1"
        failed=1
        ;;
    esac
}
# A command in the fresh system, which has processes and devices of its own.
there() {
    unshare --mount --pid --fork bash -ec 'mount -t proc proc "$1/proc"; mount --rbind /sys "$1/sys"; mount --rbind /dev "$1/dev"
        exec chroot "$1" env -i PATH=/root/env/bin:/usr/sbin:/usr/bin:/sbin:/bin "${@:2}"' bash "$room/root" "$@"
}
# A Python program in the environment $1, on stdin, without any program of the system.
python() {
    env -i HOME="$room" PATH="$1/bin" "$1/bin/python" -
}
uses='
import numpy, os, plait
with plait.Comm.create(1, 0, plait.unique_id(tcp=True)) as comm:
    assert (comm.allreduce(numpy.ones(4)) == 1).all()
assert "/plait/_prefix/lib/" in plait._library._path_of(plait._library.lib.plait_version)
machine = os.path.dirname(plait.__file__) + "/_prefix/share/plait/machines/abci.json"
print(plait.version(), plait.simulate(plait.Machine(machine), "ring").time)
'

the_wheel_is_built_for_every_python() {
    PLAIT_MESON_OPTIONS=-Dcuda=disabled "$source/tools/wheel"
    wheel=$(ls "$source"/build/wheel/plait-*.whl)
    [[ $wheel == *-py3-none-manylinux_2_*.whl ]]
}
it_needs_no_newer_glibc_than_the_docs_say() {
    local wheel needs has
    wheel=$(ls "$source"/build/wheel/plait-*.whl)
    needs=$(sed 's/.*-manylinux_2_\([0-9]*\)_x86_64\.whl$/\1/' <<<"$wheel")
    has=$(getconf GNU_LIBC_VERSION | sed 's/^glibc 2\.//')
    echo "it needs glibc 2.$needs; this system has 2.$has"
    [ "$needs" -le "$has" ]
    # Newer systems' compilers name newer functions.
    [ "$has" -gt 36 ] || grep -q "built on Debian 12 needs glibc 2\.$needs:" "$source/docs/install.md"
}
it_is_installed_without_a_compiler() {
    python3 -m venv "$room/env"
    env -i HOME="$room" PATH="$room/env/bin" "$room/env/bin/pip" install --quiet "$source"/build/wheel/plait-*.whl
    python "$room/env" <<<"$uses"
}
its_programs_run() {
    local bin=$room/env/bin
    env -i PATH="$bin" "$bin/plait" | grep '^Plait '
    env -i PATH="$bin" "$bin/plait" perf --ranks 2 -b 1K -e 4K --guard off | grep 'Out of bounds values : 0 OK'
    env -i PATH="$bin" "$bin/plait" plan simulate ring --machine abci --bytes 1M
    # hwloc and jansson are inside.
    env -i PATH="$bin" "$bin/plait" info --features | grep '^\(hwloc\|jansson\|libsodium\) *yes' | wc -l | grep -qx 3
}
a_program_is_typed() {
    "$source/build/wheel/tools/bin/pip" install --quiet mypy
    "$source/build/wheel/tools/bin/mypy" --strict --cache-dir="$room/mypy" --python-executable "$room/env/bin/python" \
        "$source/tests/typed_program.py"
    python "$room/env" <"$source/tests/typed_program.py"
}
it_runs_in_a_fresh_system_with_nothing_but_python() {
    [ "$(id -u)" -eq 0 ] || { echo "a chroot needs root"; return 77; }
    # NumPy comes along: only this system may know a proxy and its certificate. bookworm has Python 3.11.
    mkdir "$room/wheels"
    cp "$source"/build/wheel/plait-*.whl "$room/wheels"
    "$room/env/bin/pip" download --quiet --only-binary :all: --python-version 3.11 --dest "$room/wheels" numpy
    mmdebstrap --mode=root --variant=minbase --include=python3-venv \
        --customize-hook="copy-in $room/wheels /root" \
        --customize-hook='chroot "$1" python3 -m venv /root/env' \
        --customize-hook='chroot "$1" /root/env/bin/pip install --quiet --no-index --find-links /root/wheels plait' \
        bookworm "$room/root" http://deb.debian.org/debian >"$room/log" 2>&1 || { tail -30 "$room/log"; return 1; }
    [ -z "$(there sh -c 'command -v cc gcc clang tcc')" ]
    there python - <<<"$uses"
    there plait perf --ranks 2 -b 1K -e 4K --guard off | grep 'Out of bounds values : 0 OK'
    there plait --features | grep '^\(hwloc\|jansson\|libsodium\) *yes' | wc -l | grep -qx 3
}

run the_wheel_is_built_for_every_python
run it_needs_no_newer_glibc_than_the_docs_say
run it_is_installed_without_a_compiler
[ $failed -eq 0 ] || exit 1
run its_programs_run
run a_program_is_typed
run it_runs_in_a_fresh_system_with_nothing_but_python
exit $failed
