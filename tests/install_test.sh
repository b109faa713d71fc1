#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs the build into an empty folder and uses it from there, as a stranger's program would.
# Usage: install_test.sh BUILD_DIR SOURCE_DIR SANITIZERS NMAN
# SANITIZERS (meson's b_sanitize): the stranger's program is built with them too, and their own names and libraries
# are not counted as the library's. NMAN: the number of man pages; 0 where help2man is not there or not wanted.
set -u
build=$1
source=$2
nman=$4
CC=${CC:-cc}
CXX=${CXX:-c++}
runtime='^$' # names and libraries that come with the sanitizers
if [ "$3" != none ]; then
    CC="$CC -fsanitize=$3" CXX="$CXX -fsanitize=$3"
    runtime='^__[a-z]*san_\|^__odr_asan\|^__start___sancov\|^__stop___sancov\|lib[a-z]*san\.so'
fi
room=$(mktemp -d) || exit 1
log=$build/meson-logs/install-log.txt # what `ninja uninstall` removes: the user's installation again afterwards
[ ! -e "$log" ] || cp "$log" "$room/log-before"
trap 'rm -f "$log"; [ ! -e "$room/log-before" ] || cp "$room/log-before" "$log"; rm -rf "$room"' EXIT
dest=$room/dest
failed=0

install_copy() {
    meson install -C "$build" --no-rebuild --destdir "$dest" >"$room/log" 2>&1 || { cat "$room/log"; exit 1; }
    lib=$(dirname "$(find "$dest" -name libplait.so | head -1)")
    include=$(dirname "$(find "$dest" -path '*/include/plait' -type d | head -1)")
    pc=$(find "$dest" -name plait.pc | head -1)
    test -n "$lib" -a -d "$include/plait" -a -f "$pc"
}
install_copy || { echo "the installation lacks libplait.so, include/plait or plait.pc:"; find "$dest"; exit 1; }
export LD_LIBRARY_PATH=$lib
export PKG_CONFIG_PATH=$(dirname "$pc") PKG_CONFIG_SYSROOT_DIR=$dest

# `set -e` does not end a test at a command that begins with `!`; it does at these.
refuse() { # COMMAND: fails where it does not
    if "$@"; then return 1; fi
}
no_lines() { # what comes in is printed
    refuse grep .
}

the_library_has_a_soname() {
    # Who opens it late has next to no room for thread-local memory of the static kind.
    test -z "$(readelf -d "$lib/libplait.so" | grep STATIC_TLS)"
    readelf -d "$lib/libplait.so" | grep -q 'SONAME.*\[libplait\.so\.[0-9]*\]'
    soname=$(readelf -d "$lib/libplait.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
    test -e "$lib/$soname"
}
the_library_exports_only_its_own_names() {
    nm -D --defined-only "$lib/libplait.so" | awk '{ print $3 }' | grep -v "$runtime" >"$room/names"
    grep -q '^plait_version$' "$room/names"
    refuse grep -v '^plait_' "$room/names"
}
# Each name that a public header declares is there, and no other.
the_library_exports_what_the_headers_declare() {
    sed 's,/\*.*\*/,,' "$include"/plait/*.h | tr '\n' ' ' | grep -o 'PLAIT_API [^;({]*' |
        grep -o 'plait_[a-z0-9_]*\(\[\]\)\? *$' | tr -d '[] ' | sort -u >"$room/declared"
    nm -D --defined-only "$lib/libplait.so" | awk '{ print $3 }' | grep -v "$runtime" |
        sort -u >"$room/exported"
    diff "$room/declared" "$room/exported"
}
the_library_needs_only_libc_and_libsodium() {
    readelf -d "$lib/libplait.so" >"$room/dynamic"
    grep NEEDED "$room/dynamic" | grep -v -e 'libc\.so' -e libpthread -e ld-linux -e 'libm\.so' -e libgcc_s -e libsodium |
        grep -v "$runtime" | no_lines
}
each_header_compiles_alone_as_c() {
    for h in plait.h $(cd "$include" && echo plait/*.h); do
        echo "#include <$h>" |
            $CC -std=c11 -Wall -Wextra -Werror -pedantic -I"$include" -fsyntax-only -x c -
    done
}
each_header_compiles_alone_as_cxx() {
    for h in plait.h $(cd "$include" && echo plait/*.h); do
        echo "#include <$h>" |
            $CXX -std=c++17 -Wall -Wextra -Werror -pedantic -I"$include" -fsyntax-only -x c++ -
    done
}
plait_h_has_every_header() {
    (cd "$include" && ls plait/*.h) | sort >"$room/headers"
    sed -n 's/^#include <\(.*\)>$/\1/p' "$include/plait.h" | sort | diff "$room/headers" -
}
pkg_config_knows_the_version() {
    test "$(pkg-config --modversion plait)" = "$("$(find "$dest" -name plait-info -type f)" --version)"
}
installed_programs_run() {
    local bin
    bin=$(dirname "$(find "$dest" -name plait-info -type f)")
    "$bin/plait-info" >/dev/null
    "$bin/plait-perf" --ranks 2 -b 1K -e 1K --guard off >"$room/perf" || { cat "$room/perf"; return 1; }
}
installed_programs_find_the_library() {
    local n=0
    for program in $(find "$dest" -path '*/bin/*'); do
        env -u LD_LIBRARY_PATH "$program" --help >/dev/null || return 1
        n=$((n + 1))
    done
    [ $n -ge 12 ] # four tools, and plait-perf under nccl-tests' names
}
nothing_installed_names_a_folder_of_who_built_it() {
    local folders=(-e "$source/" -e "$build/")
    [ "${HOME:-/}" = / ] || folders+=(-e "$HOME/")
    cp -a "$dest" "$room/stripped"
    find "$room/stripped" -type f -exec strip --strip-debug {} + 2>/dev/null || true # not all are programs
    refuse grep -rlaF "${folders[@]}" "$room/stripped"
    train=$(find "$dest" -path '*/bin/plait-train')
    [ -z "$train" ] || env -u LD_LIBRARY_PATH HOME=/nowhere "$train" --help >/dev/null
}
man_pages_are_installed() {
    [ "$(find "$dest" -path '*/man1/*.1' | wc -l)" -eq "$nman" ]
    [ "$nman" -gt 0 ] || { echo "no man pages: this build has no help2man"; return 0; }
    for program in $(find "$dest" -path '*/bin/plait-*'); do
        find "$dest" -path "*/man1/$(basename "$program").1" | grep -q . || return 1
    done
}
compile() {
    $CC -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -pthread "$1" -o "$2" $(pkg-config --cflags --libs plait)
}
# Never where a loader would take it for NVIDIA's; and it finds libplait from there.
libnccl_is_in_a_folder_of_its_own() {
    [ -e "$build/nccl/libnccl.so.2" ] || return 0
    find "$dest" -name 'libnccl*' ! -path '*/plait/nccl/*' | no_lines
    env -u LD_LIBRARY_PATH ldd "$lib/plait/nccl/libnccl.so.2" | grep "libplait.so.0 => $lib/plait/nccl/../../libplait.so.0"
    [ -f "$lib/plait/nccl/include/nccl.h" ]
}
# It has MPI's names, and needs neither MPI nor libplait before the program calls one.
libplait_mpi_may_be_loaded_into_any_program() {
    [ -e "$build/mpi/libplait-mpi.so" ] || return 0
    readelf -d "$lib/libplait-mpi.so" | grep NEEDED | grep -v 'libc\.so' | no_lines
    env -u LD_LIBRARY_PATH ldd "$lib/plait/plait-pmpi.so" | grep "libplait.so.0 => $lib/plait/../libplait.so.0"
    LD_PRELOAD="$lib/libplait-mpi.so" true
}
a_small_program_runs_against_the_copy() {
    compile "$source/tests/install/hello.c" "$room/hello"
    "$room/hello"
}
an_algorithm_from_outside_is_proved_and_runs() {
    compile "$source/tests/outside/star.c" "$room/star"
    "$room/star"
}
a_cmake_project_finds_the_copy() {
    cmake -S "$source/tests/install" -B "$room/cmake" -DCMAKE_PREFIX_PATH="${include%/include}" >"$room/log" 2>&1 &&
        cmake --build "$room/cmake" >>"$room/log" 2>&1 || { cat "$room/log"; return 1; }
    "$room/cmake/hello"
}
cmake_refuses_another_version() {
    for wanted in 0.0 0.2 1.0; do
        refuse cmake -S "$source/tests/install" -B "$room/cmake-$wanted" -DWANTED=$wanted -DCMAKE_PREFIX_PATH="${include%/include}" >"$room/log" 2>&1
        grep -q "PlaitConfig.cmake, version: $(pkg-config --modversion plait)" "$room/log" || { cat "$room/log"; return 1; }
    done
}
# The last one: nothing is left, nor a folder.
what_was_installed_is_removed() {
    # As `ninja uninstall`, which may configure first.
    (cd "$build" && meson --internal uninstall) >"$room/log" 2>&1 || { cat "$room/log"; return 1; }
    [ ! -e "$dest" ] || find "$dest" | no_lines
}

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
run the_library_has_a_soname
run the_library_exports_only_its_own_names
run the_library_exports_what_the_headers_declare
run the_library_needs_only_libc_and_libsodium
run each_header_compiles_alone_as_c
run each_header_compiles_alone_as_cxx
run plait_h_has_every_header
run pkg_config_knows_the_version
run installed_programs_run
run installed_programs_find_the_library
run nothing_installed_names_a_folder_of_who_built_it
run man_pages_are_installed
run libnccl_is_in_a_folder_of_its_own
run libplait_mpi_may_be_loaded_into_any_program
run a_small_program_runs_against_the_copy
run an_algorithm_from_outside_is_proved_and_runs
run a_cmake_project_finds_the_copy
run cmake_refuses_another_version
run what_was_installed_is_removed
exit $failed
