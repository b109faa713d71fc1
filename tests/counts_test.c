/* SPDX-License-Identifier: BSD-3-Clause */
/* What operations cost, counted: allocations, system calls, messages, bytes. Linked with wrapped allocators. */
#include "child.h"
#include "collective.h"
#include "comm/comm.h"
#include "engine/select.h"
#include "specs.h"
#include "tier.h"
#include "unit_ranks.h"

#include <plait/group.h>
#include <plait/memory.h>
#include <plait/message.h>
#include <plait/plan.h>

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static _Atomic uint64_t allocations;

void *__real_malloc(size_t);
void *__real_calloc(size_t, size_t);
void *__real_realloc(void *, size_t);
void *__wrap_malloc(size_t);
void *__wrap_calloc(size_t, size_t);
void *__wrap_realloc(void *, size_t);

void *__wrap_malloc(size_t n)
{
    allocations++;
    return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    allocations++;
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    allocations++;
    return __real_realloc(p, n);
}

/* ---- The steady state ------------------------------------------------------------------------------- */

static int repeat_small(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const size_t counts[] = { 1, 16, 250, 500, 2000, 4000 }; /* lines and engine */
    float in[4000] = { 0 }, out[4000];
    uint64_t fewest = UINT64_MAX;
    cpu_set_t cpu;

    CPU_ZERO(&cpu);
    CPU_SET(rank, &cpu);
    sched_setaffinity(0, sizeof cpu, &cpu);
    for (unsigned i = 0; i < 6; i++)
        CHECK(plait_allreduce(*comm, in, out, counts[i], PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK);
    for (unsigned batch = 0; batch < 200 && fewest > 0; batch++) {
        const struct plait_comm_stats before = stats_of(*comm);
        const uint64_t allocated = allocations;
        for (unsigned k = 0; k < 60; k++)
            CHECK(plait_allreduce(*comm, in, out, counts[k % 6], PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK);
        const struct plait_comm_stats after = stats_of(*comm);
        CHECK(allocations == allocated);
        CHECK(after.allocations == before.allocations);
        const uint64_t calls = after.yields + after.sleeps + after.wakes - before.yields - before.sleeps - before.wakes;
        fewest = calls < fewest ? calls : fewest; /* another program may take the processor from a rank now and then */
        for (unsigned k = 0; k < 2; k++)          /* both ranks must go on equally long */
            in[k] = fewest > 0;
        CHECK(plait_allreduce(*comm, in, out, 1, PLAIT_FLOAT32, PLAIT_MAX, NULL) == PLAIT_OK);
        fewest = out[0] > 0 ? (fewest > 0 ? fewest : 1) : 0;
        in[0] = in[1] = 0;
    }
    CHECK(fewest == 0);
    return 0;
}

static void small_operations_allocate_nothing_and_call_nothing(void **state)
{
    const struct ranks r = { .nprocess = 2, .nthread = 1, .body = repeat_small };

    if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
        print_message("needs 2 processors\n");
        skip();
    }
    assert_int_equal(ranks_run(&r), 0);
}

/* Once each was called, no later call of it allocates: neither on the heap nor in the arena. */
static int a_collective_that_was_called_before_allocates_nothing(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t nrank = plait_comm_nrank(*comm);
    struct collective all[2 + NCOLLECTIVE + NSIZED] = { { .coll = PLAIT_ALLREDUCE }, { .coll = PLAIT_BARRIER } };
    const size_t n = sizeof all / sizeof *all;
    static _Thread_local char in[65536], out[65536];

    for (size_t i = 0; i < n; i++) {
        const bool vform = i >= 2 + NCOLLECTIVE;
        all[i].coll = i < 2 ? all[i].coll : vform ? sized_collectives[i - 2 - NCOLLECTIVE] : collectives[i - 2];
        all[i].type = PLAIT_INT32;
        all[i].count = all[i].coll == PLAIT_BARRIER ? 0 : 900;
        all[i].sizes = vform ? 9 : 0;
        all[i].root = plait_geometry_of(all[i].coll, 1, 0, 0, 1).rooted ? nrank - 1 : 0;
        CHECK(collective_room(&all[i], nrank) * 4 <= sizeof in);
    }
    for (unsigned round = 0; round < 5; round++) {
        const struct plait_comm_stats before = stats_of(*comm);
        const uint64_t allocated = allocations;
        for (size_t i = 0; i < n; i++) {
            const struct collective_buffers b = collective_place(&all[i], nrank, rank, in, out);
            CHECK(collective_run(*comm, &all[i], b.in, b.out) == PLAIT_OK);
        }
        CHECK(round == 0 || (allocations == allocated && stats_of(*comm).allocations == before.allocations));
    }
    return 0;
}

/* ---- System calls, counted by the kernel ------------------------------------------------------------ */

#define CALL_BATCHES 2000 /* 0.2 s: beside other programs most have a system call */

struct calls { /* shared by both ranks */
    _Atomic uint32_t filtered, done;
    uint32_t fewest[2];           /* calls in a batch */
    _Atomic uint32_t quiet_at[2]; /* the first batch before which there was one without calls; 0: none */
    int number[2];                /* of the last call */
    int refused;                  /* errno of prctl() */
    bool clock_calls;             /* reading the clock is a system call here */
};

static volatile sig_atomic_t trapped, trapped_number;

/* Sums and moves of other sizes on every call, over links that no size makes eager (ranks seem to be on two hosts). */
static int change_sizes(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static _Thread_local float in[2048], out[4096];
    uint64_t bound = 0;

    for (size_t n = 1; n <= 64; n++) {
        const size_t counts[] = { n, n };
        CHECK(plait_allgatherv(*comm, in, out, counts, NULL, PLAIT_FLOAT32, NULL) == PLAIT_OK);
        CHECK(plait_reduce_scatterv(*comm, out, in, counts, NULL, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK);
        if (((n - 1) & (n - 2)) == 0) /* the first above a power of two */
            bound = stats_of(*comm).allocations;
        CHECK(stats_of(*comm).allocations == bound);
    }
    return 0;
}

/* Each size was bound once for itself, found not to be eager, and then again as others. */
static void forms_of_different_sizes_are_bound_once_up_to_each_power_of_two(void **state)
{
    static const uint32_t node[] = { 0, 1 };
    struct ranks r = { .nprocess = 2, .nthread = 1, .body = change_sizes, .options.node = node };

    assert_int_equal(ranks_run(&r), 0);
}

static void count_call(int number, siginfo_t *info, void *context)
{
    ucontext_t *at = context;

    /* The call fails; left as it is, poll() would seem to report a rank's death. */
#if defined(__x86_64__)
    at->uc_mcontext.gregs[REG_RAX] = -ENOSYS;
#elif defined(__aarch64__)
    at->uc_mcontext.regs[0] = (unsigned long)-ENOSYS;
#endif
    trapped = trapped + 1;
    trapped_number = info->si_syscall;
}

/* From now on every system call of this thread only raises SIGSYS, except those that end handler and process. */
static int trap_calls(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = { sizeof filter / sizeof *filter, filter };
    struct sigaction action = { .sa_sigaction = count_call, .sa_flags = SA_SIGINFO };

    sigaction(SIGSYS, &action, NULL);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return errno;
    return 0;
}

static void meet(_Atomic uint32_t *arrived)
{
    for (++*arrived; *arrived < 2;)
        ;
}

/* The k-th small operation: all-reduces, and now and then a message in both directions. */
static bool operate(struct plait_comm *comm, uint32_t rank, unsigned k, const float *in, float *out)
{
    static const size_t counts[] = { 1, 16, 250, 500, 2000, 4000 };

    if (k % 7 < 6)
        return plait_allreduce(comm, in, out, counts[k % 7], PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK;
    return plait_group_start() == PLAIT_OK && plait_recv(comm, out, 8, PLAIT_FLOAT32, 1 - rank, NULL) == PLAIT_OK &&
           plait_send(comm, in, 8, PLAIT_FLOAT32, 1 - rank, NULL) == PLAIT_OK && plait_group_end() == PLAIT_OK;
}

static int trap_small(struct plait_comm **comm, uint32_t rank, void *arg)
{
    float in[4000] = { 0 }, out[4000];
    struct calls *calls = arg;
    struct timespec t;
    cpu_set_t cpu;

    CPU_ZERO(&cpu);
    CPU_SET(rank, &cpu);
    sched_setaffinity(0, sizeof cpu, &cpu);
    for (unsigned i = 0; i < 60; i++)
        CHECK(operate(*comm, rank, i, in, out));
    const int refused = trap_calls();
    if (refused != 0)
        calls->refused = refused;
    meet(&calls->filtered); /* a rank that slept could not be woken any more */
    if (calls->refused != 0)
        _exit(0);
    clock_gettime(CLOCK_MONOTONIC, &t);
    if (trapped > 0)
        calls->clock_calls = true;
    uint32_t fewest = UINT32_MAX;
    bool ok = true;
    for (unsigned batch = 0; batch < CALL_BATCHES; batch++) {
        if (fewest == 0 && calls->quiet_at[rank] == 0)
            calls->quiet_at[rank] = batch;
        trapped = 0;
        for (unsigned k = 0; k < 60; k++)
            ok = operate(*comm, rank, k, in, out) && ok;
        const uint32_t n = (uint32_t)trapped;
        fewest = n < fewest ? n : fewest; /* another program may take the processor from a rank now and then */
        const uint32_t quiet[] = { calls->quiet_at[0], calls->quiet_at[1] };
        if (quiet[0] - 1 < batch && quiet[1] - 1 < batch)
            break; /* the other rank has read the same: each wrote its own before this batch, or a later number */
    }
    calls->fewest[rank] = fewest;
    calls->number[rank] = trapped_number;
    meet(&calls->done);
    /* Leaving the comm needs system calls, and so does the leak check that a sanitizer puts into _exit(). */
    syscall(SYS_exit_group, ok ? 0 : 1);
    return 1;
}

static void small_operations_make_no_system_call(void **state)
{
    struct calls *calls = shared_memory(sizeof *calls);
    const struct ranks r = { .nprocess = 2, .nthread = 1, .body = trap_small, .arg = calls };

    if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
        print_message("needs 2 processors\n");
        skip();
    }
    assert_int_equal(ranks_run(&r), 0);
    const struct calls result = *calls;
    munmap(calls, sizeof *calls);
    if (result.refused != 0 || result.clock_calls) {
        print_message("%s%s\n", result.refused ? "seccomp filters are not permitted: " : "",
                      result.refused ? strerror(result.refused) : "the clock is read by system calls here");
        skip();
    }
    for (unsigned rank = 0; rank < 2; rank++)
        if (result.fewest[rank] > 0)
            fail_msg("rank %u: at least %u system calls in 60 operations, the last is number %d", rank,
                     result.fewest[rank], result.number[rank]);
}

/* ---- Messages and bytes ----------------------------------------------------------------------------- */

#define BLOCK  96 /* elements of a block, at most; */
#define LARGER 50 /* times as many of blocks that differ in size, some of which are small */

struct count_job {
    const struct specs *specs;
    uint32_t nrank, root;
    bool library, vform;
};

/* The plan's own figures for one rank. */
struct figures {
    uint64_t messages, sent, staged; /* elements */
};

static size_t elements_of(const struct plait_step *s, const struct collective *c)
{
    return c->sizes != 0 ? collective_block(c, s->blk) : s->nblk * (size_t)BLOCK;
}

static struct figures figures_of(const struct plait_plan *plan, const struct collective *c)
{
    struct figures f = { 0, 0, 0 };

    for (uint32_t i = 0; i < plan->nstep; i++) {
        const struct plait_step *s = &plan->step[i];
        if (s->verb != PLAIT_STEP_SEND)
            continue;
        f.messages++;
        f.sent += elements_of(s, c);
        bool again = false;
        for (uint32_t k = 0; k < i; k++) { /* equal data for several ranks is staged once */
            const struct plait_step *e = &plan->step[k];
            if (e->verb == PLAIT_STEP_SEND)
                again = again || (e->a.buf == s->a.buf && e->a.slot == s->a.slot && e->nblk == s->nblk);
            else if (e->dst.buf == s->a.buf && e->dst.slot < s->a.slot + s->nblk && s->a.slot < e->dst.slot + e->nblk)
                again = false;
        }
        f.staged += again || s->a.buf == PLAIT_TMP ? 0 : elements_of(s, c); /* TMP is library memory */
    }
    return f;
}

/* The operation whose blocks have BLOCK elements, or up to that, by this algorithm. */
static struct collective operation_of(const struct spec *spec, const struct count_job *job, uint64_t nblk)
{
    const bool vector = plait_geometry_of(spec->shape.coll, job->nrank, 0, 0, 1).kind == PLAIT_KIND_VECTOR;
    struct collective c = { .coll = spec->shape.coll,
                            .type = PLAIT_FLOAT32,
                            .root = job->root,
                            .count = vector       ? BLOCK * nblk
                                     : job->vform ? BLOCK * LARGER
                                                  : BLOCK,
                            .slice = (size_t)1 << 30, /* the engine, one slice */
                            .library = job->library,
                            .sizes = job->vform ? 1 + job->nrank + job->root : 0 };

    snprintf(c.spec, sizeof c.spec, "%.*s", (int)sizeof c.spec - 1, spec->text);
    return c;
}

static int count_one(struct plait_comm *comm, uint32_t rank, const struct spec *spec, const struct count_job *job)
{
    struct plait_shape shape = spec->shape;
    shape.root = job->root;
    const struct plait_claim claim = spec->alg->claim(spec->alg, &shape);
    const struct collective c = operation_of(spec, job, claim.nblk);
    const size_t bytes = collective_room(&c, job->nrank) * sizeof(float);
    struct plait_plan *plan;
    void *in = NULL, *out = NULL;

    CHECK(plait_plan_emit(spec->alg, &shape, rank, &plan) == PLAIT_OK);
    const struct figures f = figures_of(plan, &c);
    CHECK(f.sent <= claim.sent * BLOCK * (job->vform ? LARGER : 1));
    if (c.library)
        CHECK(plait_mem_alloc(bytes + 1, &in) == PLAIT_OK && plait_mem_alloc(bytes + 1, &out) == PLAIT_OK);
    else
        CHECK((in = calloc(1, bytes + 1)) != NULL && (out = calloc(1, bytes + 1)) != NULL);
    const struct plait_comm_stats before = stats_of(comm);
    const struct collective_buffers b = collective_place(&c, job->nrank, rank, in, out);
    CHECK(collective_run(comm, &c, b.in, b.out) == PLAIT_OK);
    const struct plait_comm_stats after = stats_of(comm);
    const uint64_t messages = after.messages - before.messages, sent = after.bytes_sent - before.bytes_sent;
    if (messages != f.messages || sent != f.sent * sizeof(float))
        fprintf(stderr, "%s:%s root %u: %llu messages of %llu bytes, the plan says %llu of %llu\n",
                plait_coll_name(c.coll), spec->text, c.root, (unsigned long long)messages, (unsigned long long)sent,
                (unsigned long long)f.messages, (unsigned long long)(f.sent * sizeof(float)));
    CHECK(messages == f.messages && sent == f.sent * sizeof(float));
    if (c.library)
        CHECK(after.bytes_staged == before.bytes_staged);
    else
        CHECK(after.bytes_staged - before.bytes_staged <= f.staged * sizeof(float));
    plait_plan_destroy(plan);
    if (c.library) {
        plait_mem_free(in);
        plait_mem_free(out);
    } else {
        free(in);
        free(out);
    }
    return 0;
}

/* Those that move one block in each message have the form with blocks of different sizes. */
static bool is_counted(const struct spec *spec, const struct count_job *job)
{
    return spec->shape.node == NULL &&
           (!job->vform || strcmp(spec->text, "direct") == 0 || strcmp(spec->text, "ring") == 0);
}

static int count_all(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct count_job job = *(const struct count_job *)arg;
    const enum plait_coll coll = job.specs->spec[0].shape.coll;

    for (uint32_t k = 0; (job.root = specs_root(coll, job.nrank, 4, k)) != UINT32_MAX; k++)
        for (uint32_t i = 0; i < job.specs->n; i++)
            if (is_counted(&job.specs->spec[i], &job) && count_one(*comm, rank, &job.specs->spec[i], &job) != 0) {
                fprintf(stderr, "rank %u: %s%s: %s\n", rank, plait_coll_name(coll), job.vform ? "v" : "",
                        job.specs->spec[i].text);
                return 1;
            }
    return 0;
}

static void count_messages(enum plait_coll coll, uint32_t nrank, bool vform)
{
    struct specs specs;

    specs_init(&specs, coll, nrank, false);
    for (unsigned library = 0; library < 2; library++) {
        struct count_job job = { .specs = &specs, .nrank = nrank, .library = library, .vform = vform };
        const struct ranks r = { .nprocess = nrank, .nthread = 1, .body = count_all, .arg = &job };
        assert_int_equal(ranks_run(&r), 0);
    }
    specs_finish(&specs);
}

static void messages_and_bytes_equal_the_plan_and_library_memory_stages_nothing(void **state)
{
    for (uint32_t n = 1; n <= 8; n += full() || n < 2 ? 1 : 3) {
        count_messages(PLAIT_ALLREDUCE, n, false);
        for (size_t i = 0; i < NCOLLECTIVE; i++)
            count_messages(collectives[i], n, false);
        for (size_t i = 0; i < NSIZED; i++)
            count_messages(sized_collectives[i], n, true);
    }
}

static int two_shot_touches_every_byte_once(struct plait_comm **comm, uint32_t rank, void *arg)
{
    enum { COUNT = 1 << 16, BYTES = COUNT * 4 };
    float *in = calloc(COUNT, 4), *out = calloc(COUNT, 4);
    const struct plait_comm_stats before = stats_of(*comm);

    CHECK(plait_allreduce(*comm, in, out, COUNT, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK);
    const struct plait_comm_stats after = stats_of(*comm);
    CHECK(after.bytes_reduced - before.bytes_reduced == BYTES / 4);   /* its own block, in one pass */
    CHECK(after.bytes_copied - before.bytes_copied == BYTES / 4 * 3); /* the others' results, once each */
    CHECK(after.bytes_staged - before.bytes_staged == BYTES);         /* three blocks of input and its own result */
    free(in);
    free(out);
    return 0;
}

/* Is the block in another rank's output? */
static bool goes_elsewhere(const struct collective *c, uint32_t nrank, uint32_t rank, uint32_t blk)
{
    bool goes = false;

    for (uint32_t r = 0; r < nrank; r++) {
        const struct plait_geometry g = plait_geometry_of(c->coll, nrank, c->root, r, 1);
        goes |= r != rank && plait_side_slot(&g.out, blk) != UINT32_MAX;
    }
    return goes;
}

/*
 * What is given is staged once, whoever gets it, unless it travels in the message or is read where it lies; what is got is
 * written once.
 */
static int count_direct(struct plait_comm *comm, uint32_t rank, const struct collective *c)
{
    const uint32_t nrank = plait_comm_nrank(comm);
    const struct plait_geometry g = plait_geometry_of(c->coll, nrank, c->root, rank, 1);
    const size_t room = collective_room(c, nrank) * sizeof(float) + 1;
    char *in = calloc(1, room), *out = calloc(1, room);
    uint64_t staged = 0, got = 0;

    CHECK(in != NULL && out != NULL);
    const struct plait_comm_stats before = stats_of(comm);
    const struct collective_buffers b = collective_place(c, nrank, rank, in, out);
    CHECK(collective_run(comm, c, b.in, b.out) == PLAIT_OK);
    const struct plait_comm_stats after = stats_of(comm);
    for (uint32_t i = 0; i < g.in.nslot; i++) {
        const uint32_t blk = g.in.blk + i * g.in.stride;
        const size_t bytes = collective_block(c, blk) * sizeof(float);
        const bool once = comm->cma && !g.combines && bytes >= PLAIT_LEAST_ONCE;
        const size_t least = comm->last->selection.split > 0 ? comm->last->selection.split : PLAIT_MAILBOX_DATA;
        staged += goes_elsewhere(c, nrank, rank, blk) && bytes > least && !once ? bytes : 0;
    }
    for (uint32_t i = 0; i < g.out.nslot; i++)
        got += collective_block(c, g.out.blk + i * g.out.stride) * sizeof(float);
    CHECK(after.bytes_staged - before.bytes_staged == staged);
    CHECK(after.bytes_copied - before.bytes_copied == (g.combines ? 0 : got));
    CHECK(after.bytes_reduced - before.bytes_reduced == (g.combines ? got : 0));
    free(in);
    free(out);
    return 0;
}

static int direct_collectives_touch_every_byte_once(struct plait_comm **comm, uint32_t rank, void *arg)
{
    for (size_t i = 0; i < NCOLLECTIVE + NSIZED; i++) {
        struct collective c = { .spec = "direct", .type = PLAIT_FLOAT32, .count = 20000, .slice = 1 << 30 };
        c.coll = i < NCOLLECTIVE ? collectives[i] : sized_collectives[i - NCOLLECTIVE];
        c.root = plait_geometry_of(c.coll, 1, 0, 0, 1).rooted ? 2 : 0;
        c.sizes = i < NCOLLECTIVE ? 0 : 1;
        if (count_direct(*comm, rank, &c) != 0) {
            fprintf(stderr, "%s%s\n", plait_coll_name(c.coll), c.sizes != 0 ? "v" : "");
            return 1;
        }
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_operations_allocate_nothing_and_call_nothing),
        test_of_ranks(a_collective_that_was_called_before_allocates_nothing, 3, 1),
        cmocka_unit_test(forms_of_different_sizes_are_bound_once_up_to_each_power_of_two),
        cmocka_unit_test(small_operations_make_no_system_call),
        cmocka_unit_test(messages_and_bytes_equal_the_plan_and_library_memory_stages_nothing),
        test_of_ranks(two_shot_touches_every_byte_once, 4, 1),
        test_of_ranks(direct_collectives_touch_every_byte_once, 4, 1),
    };

    setenv("PLAIT_CMA", "1", 1); /* what is copied once does not depend on the time that it takes */
    return cmocka_run_group_tests_name("counts", tests, NULL, NULL);
}
