#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# MPI programs under libplait-mpi.so, on this host and on virtual ones, and programs without MPI.
# Usage: mpi_test.sh LIBPLAIT_MPI RANKS PLAIT_HOSTS OTHER_MPI OTHER_MODULE
set -u
library=$(realpath "$1") ranks=$(realpath "$2") hosts=$(realpath "$3") other=$(realpath "$4") module=$(realpath "$5")
page=$(realpath "$(dirname "$0")/../../docs/mpi.md")
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
failed=0 # of the present function
any=0
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PLAIT_CALIBRATE=0 # no subject here, and tens of ms of every process
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 # Open MPI's
library=$(ldd "$library" | sed -n 's/.*=> \(.*san\.so[^ ]*\).*/\1/p' | tr '\n' ':')$library # sanitizers first
unset PLAIT_MPI $(env | sed -n 's/^\(OMPI_COMM_[A-Z_]*\|PMIX_[A-Z_]*\)=.*/\1/p')

# mpi STATUS N [-x NAME=VALUE ...] MODE: the program under the library. STATUS: 0, or x for any other.
mpi() {
    local status=$1 n=$2 got
    shift 2
    timeout 150 mpirun --oversubscribe -n "$n" -x LD_PRELOAD="$library" "${@:1:$#-1}" "$ranks" "${!#}" >"$out" 2>&1 </dev/null
    got=$?
    [ $got -eq 124 ] && status=never
    [ $got -eq "$status" ] 2>/dev/null || { [ "$status" = x ] && [ $got -ne 0 ]; } || show "$* on $n ranks: exit status $got"
}
show() {
    echo "FAILED: $1"
    tail -n 40 "$out"
    failed=1
    return 1
}
# has COUNT PATTERN: that many lines like it; +: at least one.
has() {
    local n
    n=$(grep -c -E -e "$2" "$out")
    [ "$n" = "$1" ] || { [ "$1" = + ] && [ "$n" -gt 0 ]; } || show "$n lines like '$2', not $1"
}

every_collective_equals_that_of_mpi() {
    mpi 0 4 -x PLAIT_MPI=report collectives && has 28 'MPI_[A-Z].* on Plait$' &&
        has 8 'MPI_(A|R|Ia|Ir)[a-z]*educe.* in MPI: operator or type' &&
        has 0 'could not make|in MPI: (an argument|Plait is off)'
    mpi 0 3 collectives
}
a_communicator_is_freed_before_its_request_has_ended() {
    mpi 0 3 -x PLAIT_MPI=report freed && has 1 'MPI_Iallreduce +3 on Plait'
}
ranks_wait_in_one_library_and_answer_in_the_other() {
    mpi 0 3 progress
}
a_programs_own_idle_function_is_called_and_stays() {
    mpi 0 3 -x PLAIT_MPI=report idles && has 1 'MPI_Iallreduce +6 on Plait'
}
threads_have_communicators_of_their_own() {
    mpi 0 3 -x PLAIT_MPI=report threads && has 1 'MPI_Allreduce +2700 on Plait' && has 1 'MPI_Iallreduce +2700 on Plait'
}
communicators_with_spawned_ranks_stay_in_mpi() {
    mpi 0 2 -x PLAIT_MPI=report spawn && has 2 'MPI_Allreduce +6 on Plait' && has 2 'MPI_Allreduce +6 in MPI: intercomm' &&
        has 2 'MPI_Allreduce +6 in MPI: communicator with ranks outside' && has 2 'MPI_Barrier +6 in MPI: intercomm'
}
a_dead_rank_is_an_error_with_a_text() {
    mpi x 3 killed && has + 'rank [02]: code wrong, class own: MPI_Allreduce: .*rank 1 \(process [0-9]+\) died'
}
a_rank_that_differs_is_named_on_all() {
    mpi 0 3 errors && has 3 '^rank [0-2]: MPI_Iallreduce: .*count is [12] on rank [0-2] and [12] on rank [0-2]'
}
a_refused_call_fails_on_all_ranks_and_each_logs_its_own_cause() {
    mpi 0 3 refused && has 2 'error: MPI_Allreduce: .*NULL' && has 1 'error: MPI_Iallreduce: .*NULL' &&
        has 1 'error: MPI_Allreduce: .*overlap'
}
each_rank_logs_why_it_made_no_comm() {
    local -a on=(-x PLAIT_MPI=report -x LD_PRELOAD="$library")
    timeout 150 mpirun --oversubscribe "${on[@]}" -n 1 "$ranks" progress : "${on[@]}" -x PLAIT_PLANS=/none1 -n 1 "$ranks" progress : \
        "${on[@]}" -x PLAIT_PLANS=/none2 -n 1 "$ranks" progress >"$out" 2>&1 </dev/null || show "exit status $?"
    has 1 'stays in MPI: PLAIT_PLANS: /none1: ' && has 1 'stays in MPI: PLAIT_PLANS: /none2: ' && has 0 'on Plait'
}
in_place_where_mpi_has_none_is_for_mpi() {
    mpi 0 3 -x PLAIT_MPI=report misplaced && has 1 'MPI_Bcast +3 in MPI: an argument' && has 1 'MPI_Reduce +2 in MPI: an argument' &&
        has 1 'MPI_Gather +2 in MPI: an argument' && has 1 'MPI_Scatter +2 in MPI: an argument' && has 1 'on Plait'
}
a_type_that_is_not_committed_is_an_error_on_all() {
    mpi 0 3 uncommitted && has 3 '^rank [0-2]: MPI_Bcast: .*MPI cannot pack'
}
types_that_the_page_names_reduce_on_plait() {
    mpi 0 2 -x PLAIT_MPI=report names && has 0 'in MPI' && has 28 '^name MPI_'
    sed -n 's/^name //p' "$out" | sort >"$out.names"
    sed -n '/^| types that Plait reduces/,/^$/s/`/\n/gp' "$page" | grep '^MPI_' | sort | diff "$out.names" - || show "names differ from the page"
    rm -f "$out.names"
}
errors_of_requests_are_in_their_statuses() {
    mpi 0 3 statuses
}
off_is_off() {
    mpi 0 2 -x PLAIT_MPI=off progress && has 0 plait
    mpi 0 3 -x PLAIT_MPI=off few && has 0 plait
}
wrong_settings_are_named() {
    mpi x 2 -x PLAIT_MPI=yes progress && has + "PLAIT_MPI='yes' .*: allowed is on, off or report"
    timeout 150 mpirun --oversubscribe -x LD_PRELOAD="$library" -x PLAIT_MPI=off -n 1 "$ranks" progress : \
        -x LD_PRELOAD="$library" -n 1 "$ranks" progress >"$out" 2>&1 </dev/null && show "differing PLAIT_MPI"
    has + 'PLAIT_MPI differs between ranks'
}
programs_without_mpi_are_left_alone() {
    local program
    for program in true "ls /" "bash -c true" "python3 -c print()"; do
        LD_PRELOAD=$library LD_BIND_NOW=1 $program >"$out" 2>&1 || show "$program: exit status $?"
        has 0 'plait|MPI|error'
    done
    LD_PRELOAD=$library cat /proc/self/maps >"$out" && has + 'libplait-mpi\.so' && has 0 'libmpi\.so|libplait\.so'
}
a_program_with_another_mpi_runs_there() {
    LD_PRELOAD=$library "$other" >"$out" 2>&1 || show "another MPI: exit status $?"
    has 1 'compiled for .*this program has another MPI' && has 1 '^code 7, sum 3456$'
}
a_module_with_another_mpi_runs_there() { # as mpi4py does, whose MPI only that module sees
    LD_PRELOAD=$library python3 -c "import ctypes; ctypes.CDLL('$module').main()" >"$out" 2>&1 || show "exit status $?"
    has 1 '^code 7, sum 3456$'
}
after_one_failure_no_comm_is_made_and_all_stay_in_mpi() {
    timeout 150 mpirun --oversubscribe -x PLAIT_MPI=report -x LD_PRELOAD="$library" -n 1 -x PLAIT_SLICE=64K "$ranks" progress : \
        -x PLAIT_MPI=report -x LD_PRELOAD="$library" -n 2 "$ranks" progress >"$out" 2>&1 </dev/null || show "exit status $?"
    has 1 'warn: an MPI communicator of 3 ranks stays in MPI: .*PLAIT_SLICE' && has 1 'MPI_Allreduce +9 in MPI: Plait could not make' &&
        has 0 'on Plait'
}
over_hosts() {
    if [ "$(id -u)" -ne 0 ] || ! unshare -n true 2>/dev/null; then
        echo "virtual hosts need root"
        return 77
    fi
    local mode
    for mode in progress few; do
        timeout 150 "$hosts" 2 --ranks 1+0 -- mpirun --bind-to none -H host0:1,host1:2 -x LD_PRELOAD="$library" \
            -x PLAIT_MPI=report -x PLAIT_CALIBRATE "$ranks" $mode >"$out" 2>&1 </dev/null || show "$mode over hosts: exit status $?"
        has 1 'MPI_Allreduce +[0-9]+ on Plait' && has 0 'could not make'
    done
}

for name in $(declare -F | sed -n 's/^declare -f //p' | grep _); do
    printf '[ RUN      ] %s\n' "$name"
    failed=0
    "$name"
    [ $? -eq 77 ] && [ $failed -eq 0 ] && printf '[  SKIPPED ] %s\n' "$name" && continue
    [ $failed -eq 0 ] && printf '[       OK ] %s\n' "$name" && continue
    printf '[  FAILED  ] %s\n' "$name"
    any=1
done
exit $any
