/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * At the system's limits: the rank that meets one says which it is and how to raise it, and the others get the same
 * error with the rank's number.
 */
#include "base/clock.h"
#include "base/system_limits.h"
#include "child.h"
#include "unit_ranks.h"
#include "values.h"

#include <plait/group.h>
#include <plait/memory.h>
#include <plait/request.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NRANK 3
#define GROUP 25165824 /* bytes that the control group may use */
#define LATE  100.0    /* seconds: far above a loaded machine's delays, far below the limits of 600 */

struct job { /* shared by the test and its ranks */
    uint32_t victim;
    rlim_t room; /* descriptors, or bytes of address space, that the victim may still take; bytes of a file */
    rlim_t most; /* descriptors that it may have in all */
    char group[128], arena[16]; /* PLAIT_ARENA, or "" */
    enum plait_status status[NRANK];
    char text[NRANK][512];
};

static struct job *open_job(void)
{
    struct job *job = shared_memory(sizeof *job);

    return job;
}

static void note(struct job *job, uint32_t rank, enum plait_status status)
{
    job->status[rank] = status;
    snprintf(job->text[rank], sizeof job->text[rank], "%s", status != PLAIT_OK ? plait_last_error() : "");
}

static int create(struct plait_comm **comm, uint32_t rank, struct job *job)
{
    struct plait_comm_options o = ranks_options(rank);
    const double start = plait_clock();

    o.timeout = 600;
    note(job, rank, plait_comm_create(&o, comm));
    CHECK(plait_clock() - start < LATE);
    return 0;
}

/* Everyone has the same error; its text has `remedy`, and for the others the victim's rank. */
static void assert_all_told(const struct job *job, const char *remedy)
{
    char name[16];

    snprintf(name, sizeof name, "rank %u", job->victim);
    for (uint32_t r = 0; r < NRANK; r++) {
        assert_int_equal(job->status[r], job->status[job->victim]);
        if (strstr(job->text[r], remedy) == NULL || (r != job->victim && strstr(job->text[r], name) == NULL))
            fail_msg("rank %u says '%s', without '%s' or '%s'", r, job->text[r], remedy, name);
    }
}

/* ---- Descriptors ------------------------------------------------------------------------------------------- */

static rlim_t open_descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    rlim_t n = 0;

    while (d != NULL && readdir(d) != NULL)
        n++;
    closedir(d);
    return n - 3;
}

static void limit(int resource, rlim_t most)
{
    struct rlimit r;

    getrlimit(resource, &r);
    r.rlim_cur = most;
    if (setrlimit(resource, &r) != 0)
        abort();
}

static int few_descriptors(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct job *job = arg;

    if (rank == job->victim) {
        for (int fd = 3; fd < 256; fd++)
            close(fd); /* inherited ones: the limit is on numbers */
        job->most = open_descriptors() + job->room;
        limit(RLIMIT_NOFILE, job->most);
    }
    return create(comm, rank, job);
}

/* It cannot even poll the other ranks and its socket. */
static void rank_0_names_the_descriptors_that_it_needs(void **state)
{
    const pid_t pid = child_fork();

    if (pid == 0) {
        struct plait_unique_id id;
        struct plait_comm *comm;
        limit(RLIMIT_NOFILE, 100);
        bool fine = plait_unique_id_create(&id) == PLAIT_OK;
        struct plait_comm_options o = options_of_rank(100, 0, &id);
        o.timeout = 1;
        fine = fine && plait_comm_create(&o, &comm) == PLAIT_ERR_SYSTEM &&
               strstr(plait_last_error(), "rank 0 needs 101 descriptors to meet the others: ") != NULL &&
               strstr(plait_last_error(), "ulimit -n") != NULL;
        _exit(!fine);
    }
    assert_int_equal(child_end(pid), 0);
}

static void a_limit_on_descriptors_is_named_wherever_it_is_met(void **state)
{
    struct job *job = open_job();
    const struct ranks r = {
        .nprocess = NRANK, .nthread = 1, .body = few_descriptors, .arg = job, .no_comm = true, .limit = 150
    };

    for (job->victim = 0; job->victim < 2; job->victim++) {
        unsigned failed = 0;
        for (job->room = 0; job->room < 30; job->room++) {
            assert_int_equal(ranks_run(&r), 0);
            if (job->status[job->victim] == PLAIT_OK)
                break;
            assert_int_equal(job->status[job->victim], PLAIT_ERR_SYSTEM);
            assert_all_told(job, "ulimit -n");
            failed++;
        }
        for (uint32_t rank = 0; rank < NRANK; rank++)
            assert_int_equal(job->status[rank], PLAIT_OK);
        print_message("rank %u: %u limits were too low\n", job->victim, failed);
        assert_in_range(failed, 5, 29);
    }
    munmap(job, sizeof *job);
}

#define NMANY 32

static int descriptors_on_the_way_count_and_are_waited_for(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_comm_options o = ranks_options(rank);
    float one = 1, sum = 0;

    if (geteuid() == 0) /* root's descriptors on the way are not limited */
        CHECK(setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0);
    limit(RLIMIT_NOFILE, open_descriptors() + 3 * NMANY + 8);
    CHECK(plait_comm_create(&o, comm) == PLAIT_OK);
    CHECK(plait_allreduce(*comm, &one, &sum, 1, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK && sum == NMANY);
    return 0;
}

/* ---- Address space ------------------------------------------------------------------------------------------- */

static rlim_t address_space(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    if (f == NULL || fscanf(f, "%lu", &pages) != 1)
        abort();
    fclose(f);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static int little_space(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct job *job = arg;

    setenv("PLAIT_ARENA", "64M", 1);
    if (rank == job->victim)
        limit(RLIMIT_AS, address_space() + job->room);
    return create(comm, rank, job);
}

/* Room for no arena, for the own one, for the own one and one of the two others', for all. */
static void a_limit_on_address_space_is_named_wherever_it_is_met(void **state)
{
    struct job *job = open_job();
    const struct ranks r = {
        .nprocess = NRANK, .nthread = 1, .body = little_space, .arg = job, .no_comm = true, .limit = 150
    };

    for (job->victim = 0; job->victim < 2; job->victim++)
        for (unsigned arenas = 0; arenas <= NRANK; arenas++) {
            job->room = arenas * (64 << 20) + (32 << 20);
            assert_int_equal(ranks_run(&r), 0);
            assert_int_equal(job->status[job->victim], arenas < NRANK ? PLAIT_ERR_NOMEM : PLAIT_OK);
            if (arenas < NRANK)
                assert_all_told(job, "ulimit -v");
        }
    munmap(job, sizeof *job);
}

/* Both have a sum pending, for which the others wait before they come to a group's comm. Two stacks of threads do not fit. */
static int no_thread(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static float in[100000], out[100000];
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_comm_options o = ranks_options(rank);
    struct plait_request *sum = NULL;
    struct plait_comm *other = NULL;
    struct job *job = arg;

    call.request = &sum;
    CHECK(plait_allreduce(*comm, in, out, 100000, PLAIT_FLOAT32, PLAIT_SUM, &call) == PLAIT_OK);
    if (rank == job->victim)
        limit(RLIMIT_AS, address_space() + (4 << 20));
    else
        CHECK(plait_wait(&sum) == PLAIT_OK);
    o.timeout = 5;
    CHECK(plait_group_start() == PLAIT_OK && plait_comm_create(&o, &other) == PLAIT_OK);
    note(job, rank, plait_group_end());
    CHECK(plait_wait(&sum) == PLAIT_OK);
    return 0;
}

static void who_cannot_start_a_thread_for_a_comm_does_what_is_pending(void **state)
{
    struct job *job = open_job();
    const struct ranks r = { .nprocess = NRANK, .nthread = 1, .body = no_thread, .arg = job, .processes = true };

    for (job->victim = 0; job->victim < 2; job->victim++) {
        assert_int_equal(ranks_run(&r), 0);
        assert_all_told(job, "no thread in which");
    }
    munmap(job, sizeof *job);
}

/* ---- The size of files ------------------------------------------------------------------------------------------ */

static int small_files(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct job *job = arg;
    void *memory;

    if (job->arena[0] != '\0')
        setenv("PLAIT_ARENA", job->arena, 1);
    if (rank == job->victim)
        limit(RLIMIT_FSIZE, job->room);
    CHECK(create(comm, rank, job) == 0);
    if (job->status[rank] == PLAIT_OK && rank == job->victim && job->arena[0] == '\0') {
        CHECK(plait_mem_alloc(job->room / 2, &memory) == PLAIT_OK && plait_mem_free(memory) == PLAIT_OK);
        CHECK(plait_mem_alloc(job->room, &memory) == PLAIT_ERR_NOMEM);
        CHECK(strstr(plait_last_error(), "ulimit -f") != NULL);
    }
    return 0;
}

/* The arena has room for one block only, so that it shows whether the first is still there. */
static int memory_that_is_shared_stays_until_it_is_freed_as_often(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const size_t bytes = 40 << 20;
    void *memory, *other = NULL, *again;

    setenv("PLAIT_ARENA", "64M", 1);
    CHECK(plait_mem_alloc(bytes, &memory) == PLAIT_OK);
    memset(memory, 7, bytes);
    char *last = (char *)memory + bytes - 1;
    CHECK(plait_mem_share(last, &again) == PLAIT_OK && again == memory);
    CHECK(plait_mem_free(memory) == PLAIT_OK);
    CHECK(*last == 7 && plait_mem_alloc(bytes, &other) == PLAIT_ERR_NOMEM);
    CHECK(plait_mem_free(again) == PLAIT_OK);
    CHECK(plait_mem_free(again) == PLAIT_ERR_ARG && plait_mem_share(last, &again) == PLAIT_ERR_ARG);
    CHECK(plait_mem_alloc(bytes, &other) == PLAIT_OK && other == memory && *last == 0);
    CHECK(plait_mem_share(last + 1, &again) == PLAIT_ERR_ARG && plait_mem_share(&last, &again) == PLAIT_ERR_ARG);
    CHECK(plait_mem_share(NULL, &again) == PLAIT_ERR_ARG && strstr(plait_last_error(), "inside is ") != NULL);
    CHECK(plait_mem_share(memory, NULL) == PLAIT_ERR_ARG && plait_mem_free(other) == PLAIT_OK);
    return 0;
}

/* Its memory was taken from an arena as large as main memory, whatever PLAIT_ARENA said. */
static int memory_before_the_first_comm_obeys_the_size_of_the_arena(struct plait_comm **comm, uint32_t rank, void *arg)
{
    void *memory;

    setenv("PLAIT_ARENA", "64M", 1);
    CHECK(plait_mem_alloc(65 << 20, &memory) == PLAIT_ERR_NOMEM &&
          strstr(plait_last_error(), "; raise PLAIT_ARENA to at least 13") != NULL);
    CHECK(plait_mem_alloc(64 << 20, &memory) == PLAIT_OK && plait_mem_free(memory) == PLAIT_OK);
    return 0;
}

/* The arena is a file of memory; it was as large as main memory, and a signal ended the process. */
static void a_limit_on_the_size_of_files_shrinks_the_arena_or_is_named(void **state)
{
    static const struct {
        const char *arena;
        rlim_t most;
        bool fits;
    } cases[] = { { "", 100 << 20, true },    { "", (100 << 20) + 5, true }, { "", 1 << 20, false },   { "", 0, false },
                  { "64M", 32 << 20, false }, { "64M", 64 << 20, false },    { "64M", 65 << 20, true } };
    struct job *job = open_job();
    const struct ranks r = {
        .nprocess = NRANK, .nthread = 1, .body = small_files, .arg = job, .no_comm = true, .limit = 150
    };

    job->victim = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char value[32];
        snprintf(value, sizeof value, "at most %llu bytes", (unsigned long long)cases[i].most);
        snprintf(job->arena, sizeof job->arena, "%s", cases[i].arena);
        job->room = cases[i].most;
        assert_int_equal(ranks_run(&r), 0);
        assert_int_equal(job->status[job->victim], cases[i].fits ? PLAIT_OK : PLAIT_ERR_SYSTEM);
        if (!cases[i].fits) {
            assert_all_told(job, "ulimit -f");
            assert_all_told(job, value);
        }
    }
    munmap(job, sizeof *job);
}

/* ---- Main memory ------------------------------------------------------------------------------------------------ */

static void more_than_the_available_memory_is_an_error_not_a_kill(void **state)
{
    const size_t all = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    const pid_t pid = child_fork();

    if (pid == 0) {
        const int fd = open("/proc/self/oom_score_adj", O_WRONLY); /* if it is a kill after all, then of this one */
        void *memory;
        if (fd < 0 || write(fd, "1000", 4) != 4)
            _exit(3);
        if (plait_mem_alloc(all - (1 << 20), &memory) != PLAIT_ERR_NOMEM)
            _exit(1);
        _exit(strstr(plait_last_error(), " of memory: ") != NULL ? 0 : 2);
    }
    assert_int_equal(child_end(pid), 0);
}

/* ---- Control groups -------------------------------------------------------------------------------------------- */

#define QUOTE(x) #x
#define TEXT(x)  QUOTE(x)

static bool write_text(const char *folder, const char *name, const char *text)
{
    char path[256];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    const bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return ok;
}

/* A group with a limit of GROUP bytes, in either version; false: not here. */
static bool make_group(char *group, size_t size)
{
    static const char *const places[][2] = { { "/sys/fs/cgroup/memory", "memory.limit_in_bytes" },
                                             { "/sys/fs/cgroup", "memory.max" } };

    for (unsigned i = 0; i < 2; i++) {
        snprintf(group, size, "%s/plait-test-%d", places[i][0], (int)getpid());
        if (mkdir(group, 0700) == 0 && write_text(group, places[i][1], TEXT(GROUP)))
            return true;
        print_message("%s: %s\n", group, strerror(errno));
        rmdir(group);
    }
    return false;
}

static int in_group(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct job *job = arg;
    const size_t count = (32 << 20) / sizeof(float);
    float *small;
    void *large;

    if (rank == job->victim) {
        char pid[16];
        snprintf(pid, sizeof pid, "%d", (int)getpid());
        CHECK(write_text(job->group, "cgroup.procs", pid));
        CHECK(plait_mem_alloc(32 << 20, &large) == PLAIT_ERR_NOMEM);
        CHECK(strstr(plait_last_error(), TEXT(GROUP)) != NULL && strstr(plait_last_error(), job->group) != NULL);
        CHECK(plait_mem_alloc(8 << 20, (void **)&small) == PLAIT_OK);
        memset(small, 1, 8 << 20);
        CHECK(plait_mem_free(small) == PLAIT_OK);
    }
    /* Staging memory for a slice of 32 MiB, of memory that is never touched. */
    float *v =
        mmap(NULL, count * sizeof *v, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(v != MAP_FAILED);
    call.slice = 32 << 20;
    call.algorithm = "ring";
    note(job, rank, plait_allreduce(*comm, v, v, count, PLAIT_FLOAT32, PLAIT_SUM, &call));
    plait_comm_destroy(*comm);
    *comm = NULL;
    return 0;
}

static void a_memory_limit_of_a_control_group_is_an_error_not_a_kill(void **state)
{
    struct job *job = open_job();
    const struct ranks r = { .nprocess = NRANK, .nthread = 1, .body = in_group, .arg = job, .limit = 150 };

    job->victim = 1;
    if (!make_group(job->group, sizeof job->group)) {
        print_message("no right to make a control group with a memory limit\n");
        munmap(job, sizeof *job);
        skip();
    }
    const unsigned failed = ranks_run(&r);
    rmdir(job->group);
    assert_int_equal(failed, 0);
    assert_int_equal(job->status[1], PLAIT_ERR_NOMEM);
    assert_all_told(job, TEXT(GROUP));
    munmap(job, sizeof *job);
}

/*
 * Its block was given back under those who still read in it that it had left: it had died, they were told. exit() runs
 * what the library does at its end; the others' processes leave later.
 */
static int who_ends_with_memory_of_the_library_has_left(struct plait_comm **comm, uint32_t rank, void *arg)
{
    void *memory;
    float *x;

    CHECK(plait_mem_alloc(4000, &memory) == PLAIT_OK);
    x = memory;
    x[0] = 1;
    CHECK(plait_allreduce(*comm, x, x, 1000, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK);
    if (rank > 0)
        usleep(200000);
    CHECK(plait_comm_destroy(*comm) == PLAIT_OK);
    *comm = NULL;
    if (rank == 0)
        exit(0);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_on_descriptors_is_named_wherever_it_is_met),
        cmocka_unit_test(rank_0_names_the_descriptors_that_it_needs),
        test_of_ranks(descriptors_on_the_way_count_and_are_waited_for, NMANY, 1, .no_comm = true, .limit = 150),
        cmocka_unit_test(a_limit_on_address_space_is_named_wherever_it_is_met),
        cmocka_unit_test(who_cannot_start_a_thread_for_a_comm_does_what_is_pending),
        test_of_ranks(memory_that_is_shared_stays_until_it_is_freed_as_often, 1, 1, .no_comm = true, .processes = true),
        test_of_ranks(memory_before_the_first_comm_obeys_the_size_of_the_arena, 1, 1, .no_comm = true,
                      .processes = true),
        cmocka_unit_test(a_limit_on_the_size_of_files_shrinks_the_arena_or_is_named),
        cmocka_unit_test(more_than_the_available_memory_is_an_error_not_a_kill),
        test_of_ranks(who_ends_with_memory_of_the_library_has_left, 3, 1, .processes = true),
        cmocka_unit_test(a_memory_limit_of_a_control_group_is_an_error_not_a_kill),
    };

    return cmocka_run_group_tests_name("resources", tests, NULL, NULL);
}
