/* SPDX-License-Identifier: BSD-3-Clause */
/* Large numbers: of elements, bytes, messages, operations, comms and processes. Linked with wrapped system calls. */
#include "child.h"
#include "specs.h"
#include "tier.h"
#include "unit_ranks.h"
#include "usage.h"
#include "values.h"

#include "comm/comm.h"
#include "engine/slice.h"

#include <plait/memory.h>

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COUNT 20000
#define PAGE  4096

static struct ranks ranks_of(uint32_t nprocess, uint32_t nthread, int (*body)(struct plait_comm **, uint32_t, void *),
                             void *arg)
{
    struct ranks r = {
        .nprocess = nprocess, .nthread = nthread, .limit = 120, .body = body, .arg = arg, .options.deadline = 60
    };
    return r;
}

/* A barrier that is not the library's, for ranks in processes and threads. */
static pthread_barrier_t *outside(uint32_t n)
{
    pthread_barrier_t *b = shared_memory(sizeof *b);

    shared_barrier_init(b, n);
    return b;
}

static int sum(struct plait_comm *comm, uint32_t rank, size_t count, const struct plait_call *call)
{
    static _Thread_local float in[COUNT], out[COUNT];
    const uint32_t nrank = plait_comm_nrank(comm);

    values_fill(in, PLAIT_FLOAT32, PLAIT_SUM, nrank, rank, count);
    CHECK(plait_allreduce(comm, in, out, count, PLAIT_FLOAT32, PLAIT_SUM, call) == PLAIT_OK);
    CHECK(values_wrong(out, PLAIT_FLOAT32, PLAIT_SUM, nrank, count) == 0);
    return 0;
}

/* ---- Numbers that wrap ------------------------------------------------------------------------------ */

#define FEW    3000 /* elements */
#define BEFORE 32   /* messages before the wrap */

struct wrap {
    pthread_barrier_t *all;
    struct specs specs;
    uint32_t target; /* number of messages at which each direction between two ranks goes on */
};

/* As if so many messages had been exchanged: the next of each direction has a number just below the target. */
static void jump(struct plait_comm *comm, uint32_t rank, uint32_t target)
{
    for (uint32_t r = 0; r < comm->nrank; r++) {
        struct plait_link *link = comm->peers[r].link[PLAIT_CHANNEL_COLLECTIVES];
        if (link == NULL)
            continue;
        const uint32_t out = (target - link->next_out) & ~(uint32_t)(PLAIT_WINDOW - 1);
        const uint32_t in = (target - link->next_in) & ~(uint32_t)(PLAIT_WINDOW - 1);
        _Atomic uint32_t *acks = plait_control_ack(comm->own, PLAIT_CHANNEL_COLLECTIVES, comm->nrank, r);
        link->next_out += out;
        link->next_in += in;
        for (unsigned slot = 0; slot < PLAIT_WINDOW; slot++)
            acks[slot] += in;
        for (unsigned d = 0; d < PLAIT_NSLICE; d++) {
            comm->slices[d].unread[r].first += out;
            comm->slices[d].unread[r].end += out;
        }
    }
}

static int cross(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct wrap *w = arg;

    for (uint32_t i = 0; i < w->specs.n; i++) {
        struct plait_call call = PLAIT_CALL_DEFAULT;
        uint32_t crossed = 0, links = 0;
        if (w->specs.spec[i].shape.node != NULL)
            continue;
        call.algorithm = w->specs.spec[i].text;
        call.slice = 256; /* many slices, so many messages */
        CHECK(sum(*comm, rank, FEW, &call) == 0);
        pthread_barrier_wait(w->all);
        jump(*comm, rank, w->target - BEFORE);
        pthread_barrier_wait(w->all);
        for (unsigned k = 0; k < 3; k++)
            CHECK(sum(*comm, rank, FEW - k, &call) == 0);
        for (uint32_t r = 0; r < (*comm)->nrank; r++)
            if ((*comm)->peers[r].link[PLAIT_CHANNEL_COLLECTIVES] != NULL) {
                links++;
                crossed += (*comm)->peers[r].link[PLAIT_CHANNEL_COLLECTIVES]->next_out - w->target < 1u << 20;
            }
        CHECK((*comm)->nrank == 1 || (links > 0 && crossed > 0));
    }
    return 0;
}

static void message_numbers_wrap(void **state)
{
    static const uint32_t targets[] = { 1u << 31, 0 };

    for (unsigned t = 0; t < 2; t++)
        for (unsigned threads = 0; threads < 2; threads++)
            for (uint32_t n = 2; n <= 5; n += 3) {
                if (!full() && (n == 2 || (threads == 1 && t == 0)))
                    continue;
                struct wrap w = { .all = outside(n), .target = targets[t] };
                const struct ranks r = ranks_of(threads ? 1 : n, threads ? n : 1, cross, &w);
                specs_init(&w.specs, PLAIT_ALLREDUCE, n, false);
                assert_int_equal(ranks_run(&r), 0);
                specs_finish(&w.specs);
                munmap(w.all, sizeof *w.all);
            }
}

/* The 32 bits of the operation's number that travel wrap; records of 64 operations before the wrap are there. */
static int cross_operations(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint64_t start = (UINT64_C(1) << 32) - PLAIT_NRECORD - 10;
    float v = 1;

    CHECK(sum(*comm, rank, COUNT, NULL) == 0);
    pthread_barrier_wait(arg);
    (*comm)->sequence = start;
    (*comm)->own->done = start;
    pthread_barrier_wait(arg);
    while ((*comm)->sequence < UINT32_MAX - 1) /* the last one has all bits set */
        CHECK(sum(*comm, rank, (*comm)->sequence % 3 ? 10 : COUNT, NULL) == 0);
    CHECK(sum(*comm, rank, COUNT, NULL) == 0);
    pthread_barrier_wait(arg); /* a rank that is not yet done would be told of what the others do next */
    /* Number 2^32, whose 32 bits are 0. */
    const enum plait_status status = plait_allreduce(*comm, &v, &v, rank == 1 ? 0 : 1, PLAIT_FLOAT32, PLAIT_SUM, NULL);
    CHECK(status == PLAIT_ERR_MISMATCH);
    CHECK(strstr(plait_last_error(), "#4294967296") != NULL && strstr(plait_last_error(), "count is") != NULL);
    CHECK(plait_comm_destroy(*comm) == PLAIT_ERR_MISMATCH);
    *comm = NULL;
    return 0;
}

static int cross_and_go_on(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint64_t start = (UINT64_C(1) << 32) - PLAIT_NRECORD - 10;

    pthread_barrier_wait(arg);
    (*comm)->sequence = start;
    (*comm)->own->done = start;
    pthread_barrier_wait(arg);
    for (unsigned k = 0; k < 2 * PLAIT_NRECORD + 20; k++)
        CHECK(sum(*comm, rank, k % 3 ? 10 : COUNT, NULL) == 0);
    CHECK((*comm)->sequence > UINT32_MAX);
    return 0;
}

static void operation_numbers_wrap(void **state)
{
    for (unsigned threads = 0; threads < 2; threads++) {
        pthread_barrier_t *all = outside(3);
        const struct ranks go_on = ranks_of(threads ? 1 : 3, threads ? 3 : 1, cross_and_go_on, all);
        const struct ranks differ = ranks_of(threads ? 1 : 3, threads ? 3 : 1, cross_operations, all);
        assert_int_equal(ranks_run(&go_on), 0);
        assert_int_equal(ranks_run(&differ), 0);
        munmap(all, sizeof *all);
    }
}

/* ---- More than 2^31 elements, more than 2^32 bytes ---------------------------------------------------- */

#define MANY   (((size_t)1 << 31) + (1 << 24) + 5) /* elements of 2 bytes */
#define PERIOD 509                                 /* values repeat after so many: no power of two divides it */
#define TABLE  ((size_t)PERIOD * 128)

static double many_value(uint32_t rank, size_t i)
{
    return (double)(i % PERIOD % 64) - 20 + rank * (double)(i % PERIOD / 64);
}

static int sum_many(struct plait_comm **comm, uint32_t rank, void *arg)
{
    uint16_t *vector, *table = malloc(TABLE * sizeof *table);
    struct plait_call call = PLAIT_CALL_DEFAULT;

    CHECK(table != NULL);
    if (rank == 0)
        CHECK(plait_mem_alloc(MANY * sizeof *vector, (void **)&vector) == PLAIT_OK); /* offsets beyond 2^32 too */
    else
        CHECK((vector = malloc(MANY * sizeof *vector)) != NULL);
    for (unsigned run = 0; run < 2; run++) {
        call.algorithm = run == 0 ? NULL : "ring";
        for (size_t i = 0; i < TABLE; i++)
            values_store(table, PLAIT_FLOAT16, i, many_value(rank, i));
        for (size_t i = 0; i < MANY; i += TABLE)
            memcpy(vector + i, table, (MANY - i < TABLE ? MANY - i : TABLE) * sizeof *table);
        CHECK(plait_allreduce(*comm, vector, vector, MANY, PLAIT_FLOAT16, PLAIT_SUM, &call) == PLAIT_OK);
        for (size_t i = 0; i < TABLE; i++)
            values_store(table, PLAIT_FLOAT16, i, many_value(0, i) + many_value(1, i));
        for (size_t i = 0; i < MANY; i += TABLE)
            if (memcmp(vector + i, table, (MANY - i < TABLE ? MANY - i : TABLE) * sizeof *table) != 0) {
                fprintf(stderr, "rank %u: wrong between element %zu and %zu\n", rank, i, i + TABLE);
                return 1;
            }
    }
    free(table);
    if (rank == 0)
        CHECK(plait_mem_free(vector) == PLAIT_OK);
    else
        free(vector);
    return 0;
}

static size_t available_memory(void)
{
    char line[256];
    size_t kib = 0;
    FILE *f = fopen("/proc/meminfo", "r");

    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, "MemAvailable:", 13) == 0)
            kib = strtoul(line + 13, NULL, 10);
    if (f != NULL)
        fclose(f);
    return kib << 10;
}

static void more_than_2_31_elements_and_2_32_bytes(void **state)
{
    const size_t needed = 2 * MANY * sizeof(uint16_t) + ((size_t)1 << 30);
    struct ranks r = ranks_of(2, 1, sum_many, NULL);

    if (available_memory() < needed) {
        print_message("needs %zu MiB of memory, %zu are free\n", needed >> 20, available_memory() >> 20);
        skip();
    }
    r.limit = 600;
    assert_int_equal(ranks_run(&r), 0);
}

/* ---- Many comms --------------------------------------------------------------------------------------- */

static _Atomic size_t heap; /* bytes in use, of the library and this program */

void *__real_malloc(size_t);
void *__real_calloc(size_t, size_t);
void *__real_realloc(void *, size_t);
void __real_free(void *);
void *__wrap_malloc(size_t);
void *__wrap_calloc(size_t, size_t);
void *__wrap_realloc(void *, size_t);
void __wrap_free(void *);

static void *count(void *p)
{
    heap += malloc_usable_size(p);
    return p;
}

void *__wrap_malloc(size_t n)
{
    return count(__real_malloc(n));
}

void *__wrap_calloc(size_t n, size_t size)
{
    return count(__real_calloc(n, size));
}

void *__wrap_realloc(void *p, size_t n)
{
    heap -= malloc_usable_size(p);
    return count(__real_realloc(p, n));
}

void __wrap_free(void *p)
{
    heap -= malloc_usable_size(p);
    __real_free(p);
}

struct many {
    pthread_barrier_t *all;
    uint32_t n;
    struct plait_unique_id *ids;
};

static enum plait_status create_one(const struct plait_unique_id *id, uint32_t rank, uint32_t nrank,
                                    struct plait_comm **out)
{
    struct plait_comm_options o = options_of_rank(nrank, rank, id);

    return plait_comm_create(&o, out);
}

/* With all comms destroyed everywhere, what is left of them goes with the next call. */
static int settle(const struct many *m, uint32_t rank, struct usage *out)
{
    struct plait_comm *comm;

    pthread_barrier_wait(m->all);
    CHECK(create_one(NULL, 0, 1, &comm) == PLAIT_OK && plait_comm_destroy(comm) == PLAIT_OK);
    *out = usage_now(heap);
    return 0;
}

#ifdef __SANITIZE_ADDRESS__ /* address sanitizer keeps what is freed, in mappings of its own */
#define MAPS_MEMORY true
#else
#define MAPS_MEMORY false
#endif

static size_t pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static int one_after_the_other(struct plait_comm **unused, uint32_t rank, void *arg)
{
    const struct many *m = arg;
    struct plait_comm *comm;
    struct usage first = { 0 }, last;

    for (uint32_t k = 0; k < m->n; k++) {
        CHECK(create_one(&m->ids[k], rank, 2, &comm) == PLAIT_OK);
        CHECK(sum(comm, rank, 10, NULL) == 0 && sum(comm, rank, k % 10 ? 3000 : COUNT, NULL) == 0);
        CHECK(plait_comm_destroy(comm) == PLAIT_OK);
        if (k == 20)
            CHECK(settle(m, rank, &first) == 0);
    }
    CHECK(settle(m, rank, &last) == 0);
    fprintf(stderr,
            "rank %u: %u descriptors, %u mappings, %zu bytes of heap, %zu of arena after 20 comms; %u, %u, %zu, %zu "
            "after %u\n",
            rank, (unsigned)first.descriptors, (unsigned)first.mappings, (size_t)first.heap, first.arena,
            (unsigned)last.descriptors, (unsigned)last.mappings, (size_t)last.heap, last.arena, m->n);
    CHECK(last.descriptors == first.descriptors && (MAPS_MEMORY || last.mappings <= first.mappings));
    CHECK(last.heap == first.heap &&
          last.arena <= PAGE + pages(plait_control_bytes(2))); /* its header, and see usage.h */
    return 0;
}

static struct plait_unique_id *make_ids(uint32_t n)
{
    struct plait_unique_id *ids = malloc(n * sizeof *ids);

    assert_non_null(ids);
    for (uint32_t k = 0; k < n; k++)
        assert_int_equal(plait_unique_id_create(&ids[k]), PLAIT_OK);
    return ids;
}

static void comms_made_one_after_the_other_cost_nothing(void **state)
{
    struct many m = { outside(2), full() ? 10000 : 500, NULL };
    struct ranks r = ranks_of(2, 1, one_after_the_other, &m);

    m.ids = make_ids(m.n);
    r.no_comm = true;
    r.limit = 600;
    assert_int_equal(ranks_run(&r), 0);
    free(m.ids);
    munmap(m.all, sizeof *m.all);
}

/* What plait/comm.h said was of an earlier day: 230 KiB, and 12.2 for each rank. */
static void a_control_block_is_as_large_as_the_manual_says(void **state)
{
    const double kib = 1024, one = (double)plait_control_bytes(1) / kib, many = (double)plait_control_bytes(64) / kib;
    const double each = (many - one) / 63;

    assert_true(each > 12 && each <= 12.15);
    assert_true(one - each > 213.5 && one - each < 214.5);
}

#define ALIVE 100

static int all_at_once(struct plait_comm **unused, uint32_t rank, void *arg)
{
    const struct many *m = arg;
    struct plait_comm *comms[ALIVE];
    struct usage before, one = { 0 }, made, used, after;
    const size_t control = pages(plait_control_bytes(3));
    size_t slices = 0;

    CHECK(settle(m, rank, &before) == 0);
    for (uint32_t k = 0; k < ALIVE; k++) {
        CHECK(create_one(&m->ids[k], rank, 3, &comms[k]) == PLAIT_OK);
        if (k == 0)
            one = usage_now(heap);
    }
    made = usage_now(heap);
    for (unsigned round = 0; round < 3; round++)
        for (uint32_t k = 0; k < ALIVE; k++)
            CHECK(sum(comms[(k * 37) % ALIVE], rank, (k + round) % 3 ? 10 : COUNT, NULL) == 0);
    used = usage_now(heap);
    for (uint32_t k = 0; k < ALIVE; k++)
        for (unsigned d = 0; d < PLAIT_NSLICE; d++)
            slices += pages(comms[k]->slices[d].bytes);
    for (uint32_t k = 0; k < ALIVE; k++)
        CHECK(plait_comm_destroy(comms[(k * 61) % ALIVE]) == PLAIT_OK);
    CHECK(settle(m, rank, &after) == 0);
    if (rank == 0)
        print_message("a comm of 3 processes: %zu bytes of heap, %zu of arena; after 3 operations %zu and %zu\n",
                      (made.heap - one.heap) / (ALIVE - 1), (made.arena - one.arena) / (ALIVE - 1),
                      (used.heap - before.heap) / ALIVE, (used.arena - before.arena) / ALIVE);
    /* plait/comm.h: one descriptor and one mapping per peer process, whatever the number of comms. */
    CHECK(one.descriptors == before.descriptors + 2 && made.descriptors == one.descriptors);
    CHECK(used.descriptors == one.descriptors && after.descriptors == before.descriptors);
    CHECK((made.heap - one.heap) / (ALIVE - 1) <= 13 * 1024 + 400 * 3);
    CHECK(made.arena <= ALIVE * control + PAGE); /* the header */
    CHECK(used.arena <= ALIVE * control + PAGE + slices);
    CHECK(after.arena <= ALIVE * PAGE && after.heap == before.heap);
    return 0;
}

static void a_hundred_comms_live_at_once(void **state)
{
    struct many m = { outside(3), ALIVE, make_ids(ALIVE) };
    struct ranks r = ranks_of(3, 1, all_at_once, &m);

    r.no_comm = true;
    assert_int_equal(ranks_run(&r), 0);
    free(m.ids);
    munmap(m.all, sizeof *m.all);
}

/* ---- Many processes ------------------------------------------------------------------------------------ */

static unsigned sent, received; /* messages with descriptors */

ssize_t __real_sendmsg(int, const struct msghdr *, int);
ssize_t __real_recvmsg(int, struct msghdr *, int);
ssize_t __wrap_sendmsg(int, const struct msghdr *, int);
ssize_t __wrap_recvmsg(int, struct msghdr *, int);

ssize_t __wrap_sendmsg(int socket, const struct msghdr *m, int flags)
{
    const ssize_t n = __real_sendmsg(socket, m, flags);

    sent += n > 0 && m->msg_controllen > 0;
    return n;
}

ssize_t __wrap_recvmsg(int socket, struct msghdr *m, int flags)
{
    const ssize_t n = __real_recvmsg(socket, m, flags);

    received += n > 0 && m->msg_controllen > 0;
    return n;
}

/* Rank 0 has one message with descriptors from each rank, and one for it. */
static int sixty_four_processes_meet_with_few_messages(struct plait_comm **comm, uint32_t rank, void *arg)
{
    CHECK(sent == (rank == 0 ? 63 : 1) && received == sent);
    CHECK(sum(*comm, rank, 10, NULL) == 0 && sum(*comm, rank, COUNT, NULL) == 0);
    return 0;
}

/* Descriptors on the way count as open: too many of them were an error. */
static int users_who_may_open_few_descriptors_start_64_ranks(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_comm_options o = ranks_options(rank);
    const struct rlimit few = { 256, 256 };

    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    CHECK(geteuid() != 0 || setuid(65534) == 0); /* root has no such limit */
    CHECK(plait_comm_create(&o, comm) == PLAIT_OK);
    CHECK(sum(*comm, rank, COUNT, NULL) == 0);
    return 0;
}

/* ---- Systems that lack something ------------------------------------------------------------------------ */

static void forbid_pidfds(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = { sizeof filter / sizeof *filter, filter };

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int wait_without_pidfds(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_comm_options o = ranks_options(rank);

    forbid_pidfds();
    CHECK(syscall(SYS_pidfd_open, getpid(), 0) < 0);
    if (rank == 1)
        usleep(200000);
    CHECK(plait_comm_create(&o, comm) == PLAIT_OK);
    CHECK(sum(*comm, rank, COUNT, NULL) == 0);
    if (rank == 1)
        usleep(500000); /* longer than the others go without looking for deaths */
    CHECK(sum(*comm, rank, COUNT, NULL) == 0);
    return 0;
}

/* Can a process forbid itself system calls here? Tried in one that ends at once. */
static bool can_forbid(void)
{
    const pid_t child = child_fork();

    if (child == 0) {
        forbid_pidfds();
        _exit(syscall(SYS_pidfd_open, getpid(), 0) >= 0);
    }
    return child_end(child) == 0;
}

/* What stood in for the descriptor that old kernels and some containers do not give looked like a dead process. */
static void where_pidfds_are_forbidden_nobody_is_taken_for_dead(void **state)
{
    struct ranks r = ranks_of(3, 1, wait_without_pidfds, NULL);

    if (!can_forbid()) {
        printf("seccomp filters are not permitted\n");
        skip();
    }
    r.no_comm = true;
    assert_int_equal(ranks_run(&r), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message_numbers_wrap),
        cmocka_unit_test(operation_numbers_wrap),
        cmocka_unit_test(more_than_2_31_elements_and_2_32_bytes),
        cmocka_unit_test(comms_made_one_after_the_other_cost_nothing),
        cmocka_unit_test(a_hundred_comms_live_at_once),
        cmocka_unit_test(a_control_block_is_as_large_as_the_manual_says),
        test_of_ranks(sixty_four_processes_meet_with_few_messages, 64, 1, .options.deadline = 60),
        test_of_ranks(users_who_may_open_few_descriptors_start_64_ranks, 64, 1, .options.deadline = 60,
                      .no_comm = true),
        cmocka_unit_test(where_pidfds_are_forbidden_nobody_is_taken_for_dead),
    };

    if (!full())
        cmocka_set_skip_filter("more_than_2_31_*"); /* left out, not counted */
    return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
