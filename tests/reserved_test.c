/* SPDX-License-Identifier: BSD-3-Clause */
/* The arena where the system gives a process less than main memory: what is only reserved takes none. */
#include "ranks.h"
#include "unit.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MIB (1UL << 20)

/* Bytes of a line of /proc/self/status. */
static size_t bytes_of(const char *name)
{
    char line[256];
    size_t kib = 0;
    FILE *f = fopen("/proc/self/status", "r");

    if (f == NULL)
        abort();
    while (fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            kib = strtoul(line + strlen(name), NULL, 10);
    fclose(f);
    return kib << 10;
}

static void limit(int resource, rlim_t most)
{
    struct rlimit r;

    if (getrlimit(resource, &r) != 0)
        abort();
    r.rlim_cur = r.rlim_max < most ? r.rlim_max : most;
    if (setrlimit(resource, &r) != 0)
        abort();
}

static int sum(struct plait_comm *comm, uint32_t rank)
{
    static float in[100000], out[100000];

    for (int i = 0; i < 100000; i++)
        in[i] = (float)(rank + 1);
    CHECK(plait_allreduce(comm, in, out, 100000, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK);
    CHECK(out[0] == 3 && out[99999] == 3);
    return 0;
}

static unsigned run(int (*body)(struct plait_comm **, uint32_t, void *))
{
    struct ranks r = { .nprocess = 2, .nthread = 1, .body = body, .no_comm = true, .processes = true };

    unsetenv("PLAIT_ARENA");
    return ranks_run(&r);
}

/* ---- mlockall() ------------------------------------------------------------------------------------- */

static int lock_all(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plait_comm_options o = ranks_options(rank);
    const size_t before = bytes_of("RssShmem:"), locked = bytes_of("VmLck:");

    setenv("PLAIT_ARENA", "512M", 1); /* not main memory's size, which would end other programs if this fails */
    CHECK(mlockall(MCL_FUTURE) == 0);
    CHECK(plait_comm_create(&o, comm) == PLAIT_OK);
    CHECK(sum(*comm, rank) == 0);
    CHECK(bytes_of("RssShmem:") - before < 64 * MIB);
    CHECK(bytes_of("VmLck:") - locked < 64 * MIB);
    return 0;
}

static void what_is_reserved_takes_no_memory_where_all_is_locked(void **state)
{
    if (geteuid() != 0) {
        print_message("skipped: locking more than the limit needs root\n");
        skip();
    }
    assert_int_equal(run(lock_all), 0);
}

static int lock_within_a_limit(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plait_comm_options o = ranks_options(rank);

    limit(RLIMIT_MEMLOCK, 8 * MIB);
    CHECK(geteuid() != 0 || (setgid(65534) == 0 && setuid(65534) == 0)); /* the limit is not root's */
    CHECK(mlockall(MCL_FUTURE) == 0);
    CHECK(plait_comm_create(&o, comm) != PLAIT_OK);
    CHECK(strstr(plait_last_error(), "mlockall") != NULL && strstr(plait_last_error(), "ulimit -l") != NULL);
    return 0;
}

static void a_limit_on_locked_memory_is_named(void **state)
{
    assert_int_equal(run(lock_within_a_limit), 0);
}

/* ---- ulimit -v -------------------------------------------------------------------------------------- */

static int little_space(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plait_comm_options o = ranks_options(rank);

    CHECK(plait_comm_create(&o, comm) == PLAIT_OK);
    return sum(*comm, rank);
}

static int space_of_a_job(struct plait_comm **comm, uint32_t rank, void *arg)
{
    limit(RLIMIT_AS, 4096 * MIB);
    return little_space(comm, rank, arg);
}

static int space_for_the_least(struct plait_comm **comm, uint32_t rank, void *arg)
{
    limit(RLIMIT_AS, bytes_of("VmSize:") + 200 * MIB);
    return little_space(comm, rank, arg);
}

static int space_for_nothing(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plait_comm_options o = ranks_options(rank);

    limit(RLIMIT_AS, bytes_of("VmSize:") + 40 * MIB);
    CHECK(plait_comm_create(&o, comm) == PLAIT_ERR_NOMEM);
    CHECK(strstr(plait_last_error(), "PLAIT_ARENA") != NULL && strstr(plait_last_error(), "ulimit -v") != NULL);
    return 0;
}

static void a_limit_on_address_space_shrinks_the_arena_or_is_named(void **state)
{
    assert_int_equal(run(space_of_a_job), 0);
    assert_int_equal(run(space_for_the_least), 0);
    assert_int_equal(run(space_for_nothing), 0);
}

/* ---- Filters ----------------------------------------------------------------------------------------- */

static bool forbid(unsigned call)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = { sizeof filter / sizeof *filter, filter };

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static int create_without(struct plait_comm **comm, uint32_t rank, void *arg, unsigned call, const char *name)
{
    const struct plait_comm_options o = ranks_options(rank);

    CHECK(forbid(call));
    CHECK(plait_comm_create(&o, comm) == PLAIT_ERR_SYSTEM);
    if (strstr(plait_last_error(), name) == NULL || strstr(plait_last_error(), "filter of system calls") == NULL) {
        fprintf(stderr, "rank %u: %s\n", rank, plait_last_error());
        return 1;
    }
    return 0;
}

static int without_memfd(struct plait_comm **comm, uint32_t rank, void *arg)
{
    return create_without(comm, rank, arg, SYS_memfd_create, "memfd_create()");
}

static int without_getrandom(struct plait_comm **comm, uint32_t rank, void *arg)
{
    return create_without(comm, rank, arg, SYS_getrandom, "getrandom()");
}

static void a_system_call_that_is_denied_is_named(void **state)
{
    assert_int_equal(run(without_memfd), 0);
    assert_int_equal(run(without_getrandom), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_reserved_takes_no_memory_where_all_is_locked),
        cmocka_unit_test(a_limit_on_locked_memory_is_named),
        cmocka_unit_test(a_limit_on_address_space_shrinks_the_arena_or_is_named),
        cmocka_unit_test(a_system_call_that_is_denied_is_named),
    };
    return cmocka_run_group_tests_name("reserved", tests, NULL, NULL);
}
