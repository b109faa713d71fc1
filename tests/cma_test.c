/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The single copy: memory of any allocator is read by its receivers through the kernel (process_vm_readv), and staged
 * where that is forbidden, switched off or of no use. The call is wrapped: counted, and made to fail.
 */
#include "child.h"
#include "collective.h"
#include "comm/comm.h"
#include "engine/select.h"
#include "engine/slice.h"
#include "p2p/message.h"
#include "tier.h"
#include "unit_ranks.h"

#include <plait/log.h>
#include <plait/message.h>
#include <plait/plan.h>
#include <plait/request.h>

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* ---- The call ------------------------------------------------------------------------------------------ */

static _Atomic unsigned nread;   /* calls in this process */
static unsigned short_read;      /* bytes; 0: as many as there are */
static unsigned interrupt_every; /* 0: never */

ssize_t __real_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long nlocal, const struct iovec *remote,
                                unsigned long nremote, unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long nlocal, const struct iovec *remote,
                                unsigned long nremote, unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long nlocal, const struct iovec *remote,
                                unsigned long nremote, unsigned long flags)
{
    nread++;
    if (interrupt_every > 0 && nread % interrupt_every == 0) {
        errno = EINTR;
        return -1;
    }
    if (short_read > 0 && remote[0].iov_len > short_read) {
        const struct iovec to = { local[0].iov_base, short_read }, from = { remote[0].iov_base, short_read };
        return __real_process_vm_readv(pid, &to, 1, &from, 1, flags);
    }
    return __real_process_vm_readv(pid, local, nlocal, remote, nremote, flags);
}

/* From now on this thread may not make the call. False: filters are not permitted here. */
static bool forbid_reading(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = { sizeof filter / sizeof *filter, filter };

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* ---- Operations ---------------------------------------------------------------------------------------- */

/* One operation on malloc memory; is the result right, and how many bytes were staged for it? */
static int run_one(struct plait_comm *comm, uint32_t rank, const struct collective *c, uint64_t *staged)
{
    const uint32_t nrank = plait_comm_nrank(comm);
    const size_t room = collective_room(c, nrank) * plait_dtype_size(c->type) + 1;
    char *in = calloc(1, room), *out = calloc(1, room), *want = calloc(1, room), *scratch = calloc(1, room);
    const uint64_t before = stats_of(comm).bytes_staged;

    CHECK(in != NULL && out != NULL && want != NULL && scratch != NULL);
    const struct collective_buffers b = collective_place(c, nrank, rank, in, out);
    if (b.in != NULL)
        collective_fill(c, nrank, rank, b.in);
    collective_want(c, nrank, rank, scratch, want);
    CHECK(collective_run(comm, c, b.in, b.out) == PLAIT_OK);
    CHECK(b.out == NULL || collective_right(c, nrank, rank, b.out, want));
    *staged = stats_of(comm).bytes_staged - before;
    free(in);
    free(out);
    free(want);
    free(scratch);
    return 0;
}

/* Every collective that combines nothing, of `count` int32 in a block; and a message around the ranks. */
static int run_moves(struct plait_comm *comm, uint32_t rank, size_t count, uint64_t *staged)
{
    const uint32_t nrank = plait_comm_nrank(comm);
    uint64_t one;

    *staged = 0;
    for (size_t i = 0; i < NCOLLECTIVE; i++) {
        struct collective c = { .coll = collectives[i], .type = PLAIT_INT32, .count = count };
        const struct plait_geometry g = plait_geometry_of(c.coll, nrank, 0, rank, 1);
        for (c.root = 0; c.root < (g.rooted ? nrank : 1) && !g.combines; c.root++) {
            CHECK(run_one(comm, rank, &c, &one) == 0);
            *staged += one;
        }
    }
    int32_t *v = malloc(2 * count * sizeof *v);
    struct plait_request *r = NULL;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    const uint32_t to = (rank + 1) % nrank, from = (rank + nrank - 1) % nrank;
    CHECK(v != NULL);
    for (size_t i = 0; i < count; i++)
        v[i] = (int32_t)(i * 7 + rank);
    const uint64_t before = stats_of(comm).bytes_staged;
    call.request = &r;
    CHECK(plait_send(comm, v, count, PLAIT_INT32, to, &call) == PLAIT_OK);
    CHECK(plait_recv(comm, v + count, count, PLAIT_INT32, from, NULL) == PLAIT_OK);
    CHECK(plait_wait(&r) == PLAIT_OK);
    for (size_t i = 0; i < count; i++)
        CHECK(v[count + i] == (int32_t)(i * 7 + from));
    *staged += stats_of(comm).bytes_staged - before;
    free(v);
    return 0;
}

/* What a root combines: in place or not, by each algorithm, where all travels in the type and where it is widened. */
static int run_reduces(struct plait_comm *comm, uint32_t rank, size_t count, uint64_t *staged)
{
    static const char *const specs[] = { "", "direct", "binomial" };
    const uint32_t nrank = plait_comm_nrank(comm);
    uint64_t one;

    *staged = 0;
    for (uint32_t k = 0; k < 3 * 2 * 2 * nrank; k++) {
        struct collective c = { .coll = PLAIT_REDUCE,
                                .type = k / 2 % 2 == 0 ? PLAIT_INT32 : PLAIT_BFLOAT16,
                                .op = PLAIT_SUM,
                                .count = k / 2 % 2 == 0 ? count : 2 * count,
                                .inplace = k % 2,
                                .root = k / 12 };
        strcpy(c.spec, specs[k / 4 % 3]);
        CHECK(run_one(comm, rank, &c, &one) == 0);
        *staged += one;
    }
    return 0;
}

static bool single_copy_works(struct plait_comm *comm)
{
    return comm->cma;
}

/* ---- Where it works ------------------------------------------------------------------------------------ */

static _Atomic bool *skipped; /* shared: the machine does not permit what is tested */

static int copy_once(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static const size_t counts[] = { PLAIT_LEAST_ONCE / 4, 10007, 65536 };
    uint64_t staged;

    if (!single_copy_works(*comm)) {
        *skipped = true;
        return 0;
    }
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        CHECK(run_moves(*comm, rank, counts[i], &staged) == 0);
        CHECK(staged == 0);
        CHECK(run_reduces(*comm, rank, counts[i], &staged) == 0);
    }
    CHECK(run_moves(*comm, rank, 100, &staged) == 0);
    CHECK(staged > 0 ||
          (*comm)->peers[(rank + 1) % (*comm)->nrank].process->base == NULL); /* small: the call costs more */
    return 0;
}

static void run_or_skip(const struct ranks *r, unsigned failed)
{
    *skipped = false;
    assert_int_equal(ranks_run(r), failed);
    if (*skipped) {
        print_message("this machine does not permit it\n");
        skip();
    }
}

/* In no collective that only moves, nor in messages, is malloc memory staged: between processes, threads and both. */
static void memory_of_any_allocator_is_copied_once(void **state)
{
    for (uint32_t k = 0; k < 3; k++) {
        const struct ranks r = { .nprocess = k == 0 ? 3 : 2, .nthread = 1 + (k == 2), .body = copy_once };
        run_or_skip(&r, 0);
    }
}

/* From now on blocks of all sizes go in this mode. */
static void use_mode(struct plait_comm *comm, enum plait_copy_mode mode)
{
    for (unsigned k = 0; k < PLAIT_COPY_CLASSES; k++)
        comm->copies.modes[k] = (struct plait_copy_modes){ mode, mode == PLAIT_COPY_SINGLE ? PLAIT_COPY_STAGED : mode };
}

/* Blocks of many slices, of which the last is short, in each mode. */
static int take_blocks_one_way(struct plait_comm **comm, uint32_t rank, void *arg)
{
    enum { BLOCK = (2 << 20) + 5 * 4096 };
    char *in = calloc(2, BLOCK), *out = calloc(2, BLOCK);

    CHECK(in != NULL && out != NULL);
    if (!single_copy_works(*comm)) {
        *skipped = true;
        return 0;
    }
    for (unsigned i = 0; i < 2 * 3; i++) {
        const uint64_t before = stats_of(*comm).bytes_staged;
        use_mode(*comm, (enum plait_copy_mode)(i / 2));
        memset(in, (int)(1 + i), 2 * (size_t)BLOCK);
        CHECK((i % 2 == 0 ? plait_alltoall(*comm, in, out, BLOCK, PLAIT_UINT8, NULL)
                          : plait_broadcast(*comm, in, out, BLOCK, PLAIT_UINT8, 0, NULL)) == PLAIT_OK);
        CHECK(stats_of(*comm).bytes_staged - before == (i < 2 || (i % 2 == 1 && rank == 1) ? 0 : BLOCK));
        for (size_t k = 0; k < BLOCK; k++)
            CHECK(out[k] == (char)(1 + i));
    }
    free(in);
    free(out);
    return 0;
}

/* The last slice was taken for one of a smaller block, with a way and costs of its own. */
static void slices_of_a_block_go_one_way_the_last_one_too(void **state)
{
    const struct ranks r = { .nprocess = 2, .nthread = 1, .body = take_blocks_one_way };

    run_or_skip(&r, 0);
}

/* The slices of an all-to-all. */
static int look_at_a_shared_processor(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_choice choice[2];

    for (size_t k = 0; k < 2; k++) {
        (*comm)->processors = k == 1;
        CHECK(plait_comm_choose(*comm, &(struct plait_shape){ .coll = PLAIT_ALLTOALL }, 128 << 20, PLAIT_UINT8,
                                PLAIT_SUM, NULL, &choice[k]) == PLAIT_OK);
    }
    CHECK(choice[1].slice == 4 * choice[0].slice);
    return 0;
}

/* With more ranks than processors each slice may take a change of process. */
static void ranks_that_share_a_processor_cut_less(void **state)
{
    const struct ranks r = { .nprocess = 2, .nthread = 1, .body = look_at_a_shared_processor };

    run_or_skip(&r, 0);
}

/* Nothing is staged between threads of one process, whatever combines it. */
static int threads_stage_nothing(struct plait_comm **comm, uint32_t rank, void *arg)
{
    uint64_t staged;

    for (size_t i = 0; i < NCOLLECTIVE + 1; i++) {
        const struct collective c = { .coll = i < NCOLLECTIVE ? collectives[i] : PLAIT_ALLREDUCE,
                                      .type = PLAIT_INT32,
                                      .count = 30000 };
        CHECK(run_one(*comm, rank, &c, &staged) == 0);
        CHECK(staged == 0);
    }
    return 0;
}

static int read_in_pieces(struct plait_comm **comm, uint32_t rank, void *arg)
{
    uint64_t staged;

    if (!single_copy_works(*comm)) {
        *skipped = true;
        return 0;
    }
    errno = 4711;
    for (short_read = 1000; short_read < 50000; short_read = 4 * short_read + 1) {
        interrupt_every = 3;
        CHECK(run_moves(*comm, rank, 50000, &staged) == 0);
        CHECK(staged == 0);
    }
    CHECK(errno == 4711);
    return 0;
}

/* A read that gives less than asked for, or is interrupted, goes on. */
static void short_and_interrupted_reads_go_on(void **state)
{
    const struct ranks r = { .nprocess = 2, .nthread = 1, .body = read_in_pieces };

    run_or_skip(&r, 0);
}

/* ---- Where it takes less time -------------------------------------------------------------------------- */

static void classes_of_sizes_and_modes(void **state)
{
    const struct plait_copies c = { .modes = { { PLAIT_COPY_STREAMED, PLAIT_COPY_STREAMED },
                                               [1] = { PLAIT_COPY_SINGLE, PLAIT_COPY_STAGED },
                                               [4] = { PLAIT_COPY_SINGLE, PLAIT_COPY_STAGED } } };

    (void)state;
    for (unsigned k = 0; k < PLAIT_COPY_CLASSES; k++) {
        assert_int_equal(plait_copy_class(PLAIT_LEAST_ONCE << 2 * k), k);
        assert_int_equal(plait_copy_class((PLAIT_LEAST_ONCE << (2 * k + 2)) - 1), k);
    }
    assert_int_equal(plait_copy_class(SIZE_MAX), PLAIT_COPY_CLASSES - 1);
    assert_int_equal(plait_copy_mode_of(&c, PLAIT_LEAST_ONCE - 1, true), PLAIT_COPY_STAGED);
    assert_int_equal(plait_copy_mode_of(&c, PLAIT_LEAST_ONCE, true), PLAIT_COPY_STREAMED);
    assert_int_equal(plait_copy_mode_of(&c, 4 * PLAIT_LEAST_ONCE, true), PLAIT_COPY_SINGLE);
    assert_int_equal(plait_copy_mode_of(&c, 4 * PLAIT_LEAST_ONCE, false), PLAIT_COPY_STAGED);
    assert_int_equal(plait_copy_mode_of(&c, SIZE_MAX, true), PLAIT_COPY_SINGLE);
}

static void the_fastest_mode_is_taken(void **state)
{
    static const struct {
        double t[3]; /* single, staged, streamed */
        enum plait_copy_mode fastest, other;
    } cases[] = { { { 1, 2, 2 }, PLAIT_COPY_SINGLE, PLAIT_COPY_STAGED },
                  { { 3, 2, 2 }, PLAIT_COPY_STAGED, PLAIT_COPY_STAGED },
                  { { 0, 2, 2 }, PLAIT_COPY_STAGED, PLAIT_COPY_STAGED },
                  { { 0, 2, 1 }, PLAIT_COPY_STREAMED, PLAIT_COPY_STREAMED },
                  { { 3, 2, 1 }, PLAIT_COPY_STREAMED, PLAIT_COPY_STREAMED },
                  { { 1.5, 3, 2 }, PLAIT_COPY_SINGLE, PLAIT_COPY_STREAMED },
                  { { 3, 2, 1.9 }, PLAIT_COPY_STAGED, PLAIT_COPY_STAGED } }; /* not by a tenth */

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct plait_copy_modes found = plait_copies_fastest(cases[i].t);
        assert_int_equal(found.fastest, cases[i].fastest);
        assert_int_equal(found.other, cases[i].other);
    }
}

/* Do all ranks have this table? */
static int compare_tables(struct plait_comm *comm, uint32_t rank)
{
    struct plait_copies all[4];

    CHECK(plait_allgather(comm, &comm->copies, all, sizeof *all, PLAIT_UINT8, NULL) == PLAIT_OK);
    for (uint32_t r = 0; r < comm->nrank; r++)
        CHECK(memcmp(&all[r], &comm->copies, sizeof *all) == 0);
    return 0;
}

/* The first two comms of each process. Time may have been too short for a calibration: then the tables are built in. */
static int calibrate_once(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const bool *calibrates = arg;
    struct plait_comm *second;

    CHECK(compare_tables(*comm, rank) == 0);
    CHECK(plait_comm_split(*comm, 0, rank, NULL, &second) == PLAIT_OK);
    CHECK(compare_tables(second, rank) == 0);
    const uint32_t other = (*comm)->nrank == 4 ? 2 : 1; /* the first of another process */
    CHECK(((*comm)->own->calibration.step > 0) == (*calibrates && (rank == 0 || rank == other)));
    if ((*comm)->copies.calibrated) {
        CHECK(*calibrates && (*comm)->nprocess > 0);
        CHECK(second->own->calibration.step == 0);
        CHECK(memcmp(&(*comm)->copies, &second->copies, sizeof second->copies) == 0);
    }
    CHECK(plait_comm_destroy(second) == PLAIT_OK);
    return 0;
}

static void the_first_comm_of_a_process_times_copies_for_all_its_ranks(void **state)
{
    setenv("PLAIT_CMA", "auto", 1);
    for (unsigned k = 0; k < 4; k++) {
        bool calibrates = k < 2;
        const struct ranks r = { .nprocess = k % 2 ? 3 : 2,
                                 .nthread = k % 2 ? 1 : 2,
                                 .body = calibrate_once,
                                 .arg = &calibrates,
                                 .processes = true };
        setenv("PLAIT_CALIBRATE", calibrates ? "1" : "0", 1);
        assert_int_equal(ranks_run(&r), 0);
    }
    setenv("PLAIT_CALIBRATE", "0", 1);
    setenv("PLAIT_CMA", "1", 1);
}

/* A comm without the rank that timed copies has its table. */
static int split_off(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_comm *rest;

    (void)arg;
    CHECK(plait_comm_split(*comm, rank > 0 ? 0 : PLAIT_NO_COLOR, rank, NULL, &rest) == PLAIT_OK);
    if (rank == 0)
        return 0;
    CHECK(rest->own->calibration.step == 0 || !(*comm)->copies.calibrated);
    for (unsigned k = 0; k < PLAIT_COPY_CLASSES && (*comm)->copies.calibrated; k++) /* 3 ranks may share a processor */
        CHECK((rest->copies.modes[k].fastest == PLAIT_COPY_SINGLE) ==
              ((*comm)->copies.modes[k].fastest == PLAIT_COPY_SINGLE));
    CHECK(plait_comm_destroy(rest) == PLAIT_OK);
    return 0;
}

static void a_table_is_kept_by_every_process(void **state)
{
    const struct ranks r = { .nprocess = 3, .nthread = 1, .body = split_off, .processes = true };

    setenv("PLAIT_CMA", "auto", 1);
    setenv("PLAIT_CALIBRATE", "1", 1);
    assert_int_equal(ranks_run(&r), 0);
    setenv("PLAIT_CALIBRATE", "0", 1);
    setenv("PLAIT_CMA", "1", 1);
}

static int calibrate_alone(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plait_copies before = (*comm)->copies;

    (void)arg;
    if (rank == 0)
        plait_copies_calibrate(*comm, 1, true);
    CHECK(memcmp(&(*comm)->copies, &before, sizeof before) == 0);
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    return 0;
}

/* A rank that dies or is stopped in between takes nobody with it. */
static void a_calibration_whose_other_rank_does_not_come_ends(void **state)
{
    const struct ranks r = { .nprocess = 2, .nthread = 1, .body = calibrate_alone };

    assert_int_equal(ranks_run(&r), 0);
}

/* Messages of each size class, in each mode: staged or not, and what arrives. */
static int send_in_each_mode(struct plait_comm **comm, uint32_t rank, void *arg)
{
    enum { MOST = 5 << 20 };
    char *v = malloc(MOST);

    (void)arg;
    CHECK(v != NULL);
    if (!single_copy_works(*comm)) {
        *skipped = true;
        return 0;
    }
    for (unsigned m = 0; m < 3; m++)
        for (size_t bytes = PLAIT_LEAST_ONCE; bytes < MOST; bytes *= 3) {
            const uint64_t before = stats_of(*comm).bytes_staged;
            use_mode(*comm, (enum plait_copy_mode)m);
            memset(v, rank == 0 ? (int)(m + bytes % 97) : -1, bytes);
            CHECK((rank == 0 ? plait_send(*comm, v, bytes, PLAIT_UINT8, 1, NULL)
                             : plait_recv(*comm, v, bytes, PLAIT_UINT8, 0, NULL)) == PLAIT_OK);
            for (size_t k = 0; k < bytes; k++)
                CHECK(v[k] == (char)(m + bytes % 97));
            CHECK(stats_of(*comm).bytes_staged - before == (rank == 1 || m == 0 ? 0 : bytes));
        }
    free(v);
    return 0;
}

static void messages_go_as_the_table_says(void **state)
{
    const struct ranks r = { .nprocess = 2, .nthread = 1, .body = send_in_each_mode };

    run_or_skip(&r, 0);
}

/* ---- Where it does not --------------------------------------------------------------------------------- */

static int stage_all(struct plait_comm **comm, uint32_t rank, void *arg)
{
    uint64_t staged;

    CHECK(run_moves(*comm, rank, 50000, &staged) == 0);
    CHECK(staged > 0);
    CHECK(nread == 0); /* a filter may kill who makes the call */
    return 0;
}

static void switched_off_everything_is_staged_and_nobody_tries(void **state)
{
    const struct ranks r = { .nprocess = 3, .nthread = 1, .body = stage_all, .processes = true };

    setenv("PLAIT_CMA", "0", 1);
    const unsigned failed = ranks_run(&r);
    setenv("PLAIT_CMA", "1", 1);
    assert_int_equal(failed, 0);
}

static void find_line(void *found, enum plait_log_level level, const char *line)
{
    if (level == PLAIT_LOG_INFO &&
        strstr(line, "cannot be read through the kernel (process_vm_readv: Operation not") != NULL)
        *(unsigned *)found += 1;
}

/* Rank 1 may not read: what it gets is staged, what the others get is not. */
static int one_may_not(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plait_comm_options o = ranks_options(rank);
    unsigned lines = 0;
    uint64_t staged;

    if (rank == 1 && !forbid_reading())
        *skipped = true;
    setenv("PLAIT_LOG", "info", 1);
    plait_log_callback(find_line, &lines);
    CHECK(plait_comm_create(&o, comm) == PLAIT_OK);
    plait_log_callback(NULL, NULL);
    setenv("PLAIT_LOG", "warn", 1);
    if (*skipped || !(*comm)->peers[rank == 0 ? 2 : 0].control->reads) {
        *skipped = true;
        return 0;
    }
    CHECK(lines == (rank == 1));
    CHECK(!(*comm)->cma && (*comm)->own->reads == (rank != 1));
    CHECK(run_moves(*comm, rank, 65536, &staged) == 0); /* no slice is small */
    CHECK((staged > 0) == (rank != 1));
    return 0;
}

static void a_rank_that_may_not_read_says_so_and_is_staged_for(void **state)
{
    struct ranks r = { .nprocess = 3, .nthread = 1, .body = one_may_not, .no_comm = true, .processes = true };

    run_or_skip(&r, 0);
}

/* ---- Memory that cannot be read ------------------------------------------------------------------------ */

static int send_nothing_there(struct plait_comm **comm, uint32_t rank, void *arg)
{
    enum { COUNT = 16384 }; /* one slice */
    const bool message = (uintptr_t)arg & 1;
    const uint32_t who = (uint32_t)((uintptr_t)arg >> 1);
    char *v = mmap(NULL, COUNT * 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), address[32];
    enum plait_status status;

    CHECK(v != MAP_FAILED);
    if (!single_copy_works(*comm)) {
        *skipped = true;
        return 0;
    }
    if (rank == who)
        CHECK(mprotect(v + COUNT * 2, COUNT * 2, PROT_NONE) == 0); /* a buffer that is shorter than its count */
    if (message)
        status = rank == 0 ? plait_send(*comm, v, COUNT, PLAIT_INT32, 1, NULL)
                           : plait_recv(*comm, v, COUNT, PLAIT_INT32, 0, NULL);
    else
        status = plait_broadcast(*comm, v, v, COUNT, PLAIT_INT32, 0, NULL);
    CHECK(status == PLAIT_ERR_SYSTEM);
    CHECK(strstr(plait_last_error(), "rank 1: cannot copy ") != NULL);
    CHECK(strstr(plait_last_error(), " of rank 0 (process ") != NULL);
    CHECK(strstr(plait_last_error(), "Bad address") != NULL);
    snprintf(address, sizeof address, rank == 0 ? " at %p of " : " to %p: ", (void *)v);
    CHECK(strstr(plait_last_error(), address) != NULL);
    CHECK(plait_comm_destroy(*comm) == PLAIT_ERR_SYSTEM);
    *comm = NULL;
    munmap(v, COUNT * 4);
    return 0;
}

/* The error names both ranks and both addresses, where staging would have ended one of them by a signal. */
static void memory_that_is_not_there_is_named(void **state)
{
    for (uintptr_t k = 0; k < 4; k++) {
        const struct ranks r = {
            .nprocess = 2, .nthread = 1, .body = send_nothing_there, .arg = (void *)k, .processes = true
        };
        run_or_skip(&r, 0);
    }
}

static int read_a_stranger(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_process p = *(*comm)->peers[1 - rank].process;
    char word[64];

    if (!single_copy_works(*comm)) {
        *skipped = true;
        return 0;
    }
    const uint64_t at = ((const struct plait_arena_header *)(const void *)p.base)->base;
    CHECK(plait_process_read(&p, at, word, sizeof word) == 0 && memcmp(word, PLAIT_ARENA_MAGIC, 8) == 0);
    CHECK(plait_process_read(&p, 8, word, sizeof word) == EFAULT);
    p.token.word[1]++;
    CHECK(plait_process_read(&p, at, word, sizeof word) == ESRCH);
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    return 0;
}

/* The number of a process that has ended may be another's. */
static void a_process_that_is_not_the_one_that_was_met_is_not_read(void **state)
{
    const struct ranks r = { .nprocess = 2, .nthread = 1, .body = read_a_stranger, .processes = true };

    run_or_skip(&r, 0);
}

/* ---- Deaths -------------------------------------------------------------------------------------------- */

/* All ranks broadcast from rank 0, whose memory says which call it is, until rank 1 kills it while it reads. */
static int kill_while_reading(struct plait_comm **comm, uint32_t rank, void *arg)
{
    enum { COUNT = 200000 };
    const uint64_t seed = *(const uint64_t *)arg;
    const unsigned calls = 1 + seed % 5;
    uint32_t *v = malloc(COUNT * sizeof *v);
    enum plait_status status = PLAIT_OK;

    CHECK(v != NULL);
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK); /* all are there */
    for (uint32_t k = 1; status == PLAIT_OK; k++) {
        for (size_t i = 0; rank == 0 && i < COUNT; i++)
            v[i] = k;
        if (rank == 1 && k == calls && fork() == 0) { /* a bystander, at a drawn moment */
            for (volatile uint64_t spin = seed * 7919 % 200000; spin > 0; spin--)
                ;
            kill((*comm)->peers[0].process->pid, SIGKILL);
            _exit(0);
        }
        status = plait_broadcast(*comm, v, v, COUNT, PLAIT_UINT32, 0, NULL);
        for (size_t i = 0; status == PLAIT_OK && i < COUNT; i++)
            CHECK(v[i] == k);
    }
    CHECK(status == PLAIT_ERR_PEER && strstr(plait_last_error(), "rank 0 (process ") != NULL);
    CHECK(strstr(plait_last_error(), "died after operation") != NULL);
    CHECK(plait_comm_destroy(*comm) == PLAIT_ERR_PEER);
    *comm = NULL;
    free(v);
    return 0;
}

/* Whoever is killed while others read its memory is named as dead, and nobody takes what it did not send. */
static void a_rank_that_dies_while_it_is_read_is_named(void **state)
{
    const uint64_t n = full() ? 1000 : 40;
    uint64_t seed;
    const struct ranks r = { .nprocess = 3, .nthread = 1, .body = kill_while_reading, .arg = &seed, .processes = true };

    setenv("PLAIT_LOG_FILE", "/dev/null", 1);
    for (seed = 1; seed <= n; seed++) {
        setenv("PLAIT_CMA", seed % 2 ? "1" : "auto", 1);
        if (ranks_run(&r) != 1) /* the killed one */
            fail_msg("seed %llu", (unsigned long long)seed);
    }
    setenv("PLAIT_CMA", "1", 1);
    unsetenv("PLAIT_LOG_FILE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_of_any_allocator_is_copied_once),
        cmocka_unit_test(slices_of_a_block_go_one_way_the_last_one_too),
        cmocka_unit_test(ranks_that_share_a_processor_cut_less),
        test_of_ranks(threads_stage_nothing, 1, 4),
        cmocka_unit_test(short_and_interrupted_reads_go_on),
        cmocka_unit_test(classes_of_sizes_and_modes),
        cmocka_unit_test(the_fastest_mode_is_taken),
        cmocka_unit_test(a_table_is_kept_by_every_process),
        cmocka_unit_test(the_first_comm_of_a_process_times_copies_for_all_its_ranks),
        cmocka_unit_test(a_calibration_whose_other_rank_does_not_come_ends),
        cmocka_unit_test(messages_go_as_the_table_says),
        cmocka_unit_test(switched_off_everything_is_staged_and_nobody_tries),
        cmocka_unit_test(a_rank_that_may_not_read_says_so_and_is_staged_for),
        cmocka_unit_test(memory_that_is_not_there_is_named),
        cmocka_unit_test(a_process_that_is_not_the_one_that_was_met_is_not_read),
        cmocka_unit_test(a_rank_that_dies_while_it_is_read_is_named),
    };

    setenv("PLAIT_CMA", "1", 1);
    setenv("PLAIT_CALIBRATE", "0", 1);
    skipped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return skipped == MAP_FAILED ? 1 : cmocka_run_group_tests_name("cma", tests, NULL, NULL);
}
