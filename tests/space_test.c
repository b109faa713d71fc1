/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two memory spaces beside the host's and that of GPUs: a byte in them is stored in a code of its address. Nothing else
 * in the library knows of them. If the engine or a call touches such memory other than by the space's functions, results
 * are wrong. The second one is queued: its marks are passed some polls after its work was started.
 */
#include "call/call.h"
#include "failure/failure.h"
#include "memory/arena.h"
#include "ranks.h"
#include "request/request.h"
#include "tier.h"

#include <plait/group.h>
#include <plait/memory.h>
#include <plait/message.h>
#include <plait/request.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NRANK 4
#define ROOM  ((size_t)4 << 20) /* bytes of a rank's buffers */
#define APART 25                /* elements, so that IN and OUT have different codes */

/* Of each rank in this process; a thread that waits drives the others' operations, too. */
static struct state {
    struct plait_slice *slices;
    struct plait_room scaled;
    const char *memory; /* [2 * ROOM], in and out */
    bool ordered;       /* order() was called since the last end() */
    uint32_t marks, passed, polls;
    uint32_t begun, ended; /* messages */
    uint32_t held;         /* allocated for the engine */
    uint32_t settled, left, closed;
    /* What fails once. poll_passed: the poll after a mark has passed. leaves: other ranks wait for this rank's work. */
    bool fail_queue, fail_send, fail_poll, poll_passed, leaves;
} states[NRANK];

static atomic_size_t copies, combinations, allocations, begins, ends, unordered, passed_marks;
static bool queued;  /* the space that finds the buffers */
static bool foreign; /* memory of malloc, which other processes cannot map */

static struct state *state_of(const struct plait_comm *comm)
{
    return &states[plait_comm_rank(comm)];
}

/* Ranks map memory at different addresses, in whole pages. */
static unsigned char code_of(const unsigned char *at)
{
    return (unsigned char)((uintptr_t)at % 4096 * 0x9e3779b9 >> 13 | 1);
}

static void encode(void *to, const void *from, size_t bytes)
{
    unsigned char *t = to;

    for (size_t i = 0; i < bytes; i++)
        t[i] = ((const unsigned char *)from)[i] ^ code_of(t + i);
}

static void decode(void *to, const void *from, size_t bytes)
{
    const unsigned char *f = from;

    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)to)[i] = f[i] ^ code_of(f + i);
}

static bool is_coded(const struct plait_comm *comm, const void *p)
{
    const char *memory = state_of(comm)->memory;

    return memory != NULL && (const char *)p >= memory && (const char *)p < memory + 2 * ROOM;
}

static const struct plait_space coded, later;
static struct plait_queue { /* the interface's, which only the space knows */
    int unused;
} the_queue;

static enum plait_status find(struct plait_comm *comm, const char *name, size_t in_bytes, size_t out_bytes, size_t size,
                              const struct plait_call *call, struct plait_args *a)
{
    (void)name, (void)size, (void)call;
    if ((in_bytes > 0 && is_coded(comm, a->in)) || (out_bytes > 0 && is_coded(comm, a->out)))
        a->space = queued ? &later : &coded;
    a->queue = a->space == &later ? &the_queue : NULL;
    return PLAIT_OK;
}

static enum plait_status grow(struct plait_comm *comm, struct plait_room *room, size_t bytes)
{
    if (bytes <= room->bytes)
        return PLAIT_OK;
    allocations++;
    state_of(comm)->held += room->memory == NULL;
    plait_arena_free(room->memory);
    *room = (struct plait_room){ NULL, bytes };
    return plait_arena_alloc(bytes, &room->memory);
}

static enum plait_status begin(struct plait_run *run)
{
    begins++;
    run->slices = state_of(run->comm)->slices;
    run->scaled = &state_of(run->comm)->scaled;
    return PLAIT_OK;
}

static void order(const struct plait_comm *comm, const struct plait_target *target)
{
    assert_ptr_equal(target->queue, queued ? &the_queue : NULL);
    state_of(comm)->ordered = true;
}

static void end(struct plait_comm *comm)
{
    ends++;
    state_of(comm)->ordered = false;
}

static enum plait_status poll_work(struct plait_comm *comm)
{
    const bool fails = state_of(comm)->fail_poll;

    state_of(comm)->fail_poll = false;
    return fails ? plait_comm_fail(comm, PLAIT_ERR_SYSTEM, "the work failed") : PLAIT_OK;
}

static bool is_behind(const struct plait_comm *comm)
{
    (void)comm;
    return false;
}

static void settle(struct plait_comm *comm)
{
    assert_int_equal(state_of(comm)->closed, 0);
    state_of(comm)->settled++;
}

static bool leaves_some(struct plait_comm *comm)
{
    state_of(comm)->left++;
    return state_of(comm)->leaves;
}

static void close_state(struct plait_comm *comm)
{
    state_of(comm)->closed++;
    plait_slices_destroy(state_of(comm)->slices);
    plait_arena_free(state_of(comm)->scaled.memory);
    state_of(comm)->slices = NULL;
}

static size_t bytes_of_state(const struct plait_comm *comm)
{
    return state_of(comm)->memory != NULL ? 2 * ROOM : 0;
}

static void copy(struct plait_comm *comm, void *to, const void *from, size_t bytes, bool streams)
{
    (void)streams;
    unordered += !state_of(comm)->ordered;
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char *f = (const unsigned char *)from + i;
        unsigned char *t = (unsigned char *)to + i;
        *t = *f ^ code_of(f) ^ code_of(t);
    }
    copies++;
}

static size_t bytes_of(const struct plait_combine *c, bool wide)
{
    return c->count * (wide ? sizeof(float) : plait_dtype_size(c->type));
}

static void combine(const struct plait_run *run, const struct plait_combine *c, const struct plait_how *how)
{
    struct plait_combine plain = *c;
    void *src[64];

    for (uint32_t k = 0; k < c->nsrc; k++) {
        const size_t bytes = bytes_of(c, c->wide >> k & 1);
        src[k] = malloc(bytes);
        decode(src[k], c->src[k], bytes);
    }
    plain.src = (const void *const *)src;
    plain.dst = malloc(bytes_of(c, c->wide_dst));
    plait_host_space.combine(run, &plain, how);
    encode(c->dst, plain.dst, bytes_of(c, c->wide_dst));
    for (uint32_t k = 0; k < c->nsrc; k++)
        free(src[k]);
    free(plain.dst);
    unordered += !state_of(run->comm)->ordered;
    combinations++;
}

static void scale(const struct plait_run *run, void *to, const void *from, size_t count, const void *scalar, bool late)
{
    const size_t bytes = count * plait_dtype_size(run->o->type);
    void *plain = malloc(bytes);

    decode(plain, from, bytes);
    plait_host_space.scale(run, plain, plain, count, scalar, late);
    encode(to, plain, bytes);
    unordered += !state_of(run->comm)->ordered;
    free(plain);
}

#define FUNCTIONS                                                                                           \
    .channel = PLAIT_CHANNEL_COLLECTIVES, .messages = PLAIT_CHANNEL_MESSAGES, .find = find, .grow = grow,   \
    .begin = begin, .order = order, .end = end, .poll = poll_work, .is_behind = is_behind, .copy = copy,    \
    .combine = combine, .scale = scale, .settle = settle, .leaves_some = leaves_some, .close = close_state, \
    .bytes = bytes_of_state

static const struct plait_space coded = { .id = 2, FUNCTIONS };

/* ---- The queued one ------------------------------------------------------------------------------------------ */

enum { POLLS = 5 };

static enum plait_status check_queue(const struct plait_comm *comm, const char *name, struct plait_queue *queue)
{
    const bool fails = state_of(comm)->fail_queue;

    assert_ptr_equal(queue, &the_queue);
    state_of(comm)->fail_queue = false;
    return fails ? plait_fail(PLAIT_ERR_UNSUPPORTED, "%s: not on this queue", name) : PLAIT_OK;
}

static enum plait_status check_send(struct plait_comm *comm, const void *data, uint32_t peer)
{
    const bool fails = state_of(comm)->fail_send;

    assert_true(is_coded(comm, data));
    state_of(comm)->fail_send = false;
    return fails ? plait_fail(PLAIT_ERR_UNSUPPORTED, "rank %u cannot read it", peer) : PLAIT_OK;
}

static bool mark(struct plait_comm *comm, struct plait_queue *queue, uint32_t *out)
{
    assert_ptr_equal(queue, &the_queue);
    *out = ++state_of(comm)->marks;
    return true;
}

static bool has_passed(struct plait_comm *comm, uint32_t mark)
{
    struct state *own = state_of(comm);

    assert_true(mark > own->passed && mark <= own->marks);
    if (++own->polls < POLLS)
        return false;
    own->polls = 0;
    own->passed = mark;
    passed_marks++;
    own->fail_poll |= own->poll_passed;
    return true;
}

static void message_begin(struct plait_comm *comm, struct plait_target *target)
{
    assert_ptr_equal(target->queue, &the_queue);
    target->note = ++state_of(comm)->begun;
}

static void message_end(struct plait_comm *comm, const struct plait_target *target)
{
    assert_true(target->note > 0);
    state_of(comm)->ended++;
}

static void message_to_itself(struct plait_comm *comm, const struct plait_target *from, const void *data,
                              const struct plait_target *to, void *place, size_t bytes)
{
    assert_true(from->note > 0 && to->note > 0 && from->note != to->note);
    copy(comm, place, data, bytes, false);
}

static const struct plait_space later = {
    .id = 3,
    .queued = true,
    .check_queue = check_queue,
    .check_send = check_send,
    .mark = mark,
    .has_passed = has_passed,
    .message_begin = message_begin,
    .message_end = message_end,
    .message_to_itself = message_to_itself,
    FUNCTIONS,
};

/* ---- Operations in it ---------------------------------------------------------------------------------------- */

static bool make(struct plait_comm *comm, void **out)
{
    struct state *own = state_of(comm);

    *own = (struct state){ 0 };
    if ((foreign ? (*out = malloc(2 * ROOM)) == NULL : plait_mem_alloc(2 * ROOM, out) != PLAIT_OK) ||
        plait_slices_create(plait_comm_nrank(comm), &own->slices) != PLAIT_OK)
        return false;
    own->memory = *out;
    return true;
}

/* The comm may have gone. */
static void finish(uint32_t rank, void *p)
{
    states[rank] = (struct state){ 0 };
    if (foreign)
        free(p);
    else
        plait_mem_free(p);
}

/* Element i of the block from rank r to rank `to`. Small integers: sums are exact in every order. */
static float value(uint32_t r, uint32_t to, size_t i)
{
    return (float)((r * 31 + to * 7 + i) % 64);
}

static void put(float *in, size_t i, float v)
{
    encode(&in[i], &v, sizeof v);
}

static float get(const float *out, size_t i)
{
    float v;

    decode(&v, &out[i], sizeof v);
    return v;
}

static enum plait_status call_coll(struct plait_comm *comm, enum plait_coll coll, const float *in, float *out, size_t n,
                                   enum plait_op op, const struct plait_call *call)
{
    switch (coll) {
    case PLAIT_ALLREDUCE:
        return plait_allreduce(comm, in, out, n, PLAIT_FLOAT32, op, call);
    case PLAIT_REDUCE_SCATTER:
        return plait_reduce_scatter(comm, in, out, n, PLAIT_FLOAT32, op, call);
    case PLAIT_REDUCE:
        return plait_reduce(comm, in, out, n, PLAIT_FLOAT32, op, 1, call);
    case PLAIT_ALLGATHER:
        return plait_allgather(comm, in, out, n, PLAIT_FLOAT32, call);
    case PLAIT_BROADCAST:
        return plait_broadcast(comm, in, out, n, PLAIT_FLOAT32, 1, call);
    case PLAIT_GATHER:
        return plait_gather(comm, in, out, n, PLAIT_FLOAT32, 1, call);
    case PLAIT_SCATTER:
        return plait_scatter(comm, in, out, n, PLAIT_FLOAT32, 1, call);
    case PLAIT_ALLTOALL:
        return plait_alltoall(comm, in, out, n, PLAIT_FLOAT32, call);
    case PLAIT_BARRIER:
    case PLAIT_NCOLL:
        break;
    }
    return plait_barrier(comm, call);
}

/* Element i of block b of this rank's OUT. */
static float expected(enum plait_coll coll, uint32_t rank, uint32_t b, size_t i, enum plait_op op, float factor)
{
    float sum = 0;

    for (uint32_t r = 0; r < NRANK; r++)
        sum += factor * value(r, coll == PLAIT_REDUCE_SCATTER ? rank : 0, i);
    switch (coll) {
    case PLAIT_ALLREDUCE:
    case PLAIT_REDUCE_SCATTER:
    case PLAIT_REDUCE:
        return op == PLAIT_AVG ? sum / NRANK : sum;
    case PLAIT_BROADCAST:
        return value(1, 0, i);
    case PLAIT_SCATTER:
        return value(1, rank, i);
    case PLAIT_ALLTOALL:
        return value(b, rank, i);
    case PLAIT_ALLGATHER:
    case PLAIT_GATHER:
    case PLAIT_BARRIER:
    case PLAIT_NCOLL:
        break;
    }
    return value(b, 0, i);
}

static int check_coll(struct plait_comm *comm, uint32_t rank, float *buffers, enum plait_coll coll, size_t n,
                      enum plait_op op, bool pending)
{
    const bool has_out = (coll != PLAIT_REDUCE && coll != PLAIT_GATHER) || rank == 1;
    const uint32_t nblock = coll == PLAIT_ALLGATHER || coll == PLAIT_GATHER || coll == PLAIT_ALLTOALL ? NRANK : 1;
    float *in = buffers, *out = buffers + ROOM / sizeof *buffers + APART;
    const float factor = 2;
    struct plait_request *request = NULL;
    struct plait_call call = PLAIT_CALL_DEFAULT;

    for (uint32_t b = 0; b < NRANK; b++)
        for (size_t i = 0; i < n; i++) {
            put(in, b * n + i, value(rank, b, i));
            put(out, b * n + i, -1);
        }
    call.scale = op == PLAIT_PREMULSUM ? &factor : NULL;
    call.request = pending ? &request : NULL;
    CHECK(call_coll(comm, coll, in, out, n, op, &call) == PLAIT_OK);
    CHECK(plait_wait(&request) == PLAIT_OK);
    for (uint32_t b = 0; has_out && b < nblock; b++)
        for (size_t i = 0; i < n; i++)
            CHECK(get(out, b * n + i) == expected(coll, rank, b, i, op, op == PLAIT_PREMULSUM ? factor : 1));
    return 0;
}

/* Each rank sends to the next one, and to itself. */
static int pass_around(struct plait_comm *comm, uint32_t rank, float *buffers, size_t n)
{
    const uint32_t next = (rank + 1) % NRANK, last = (rank + NRANK - 1) % NRANK;
    float *in = buffers, *out = buffers + ROOM / sizeof *buffers + APART;
    const size_t before = copies;

    for (size_t i = 0; i < n; i++)
        put(in, i, value(rank, next, i));
    CHECK(plait_group_start() == PLAIT_OK);
    CHECK(plait_send(comm, in, n, PLAIT_FLOAT32, next, NULL) == PLAIT_OK);
    CHECK(plait_recv(comm, out, n, PLAIT_FLOAT32, last, NULL) == PLAIT_OK);
    CHECK(plait_send(comm, in, n, PLAIT_FLOAT32, rank, NULL) == PLAIT_OK);
    CHECK(plait_recv(comm, out + n, n, PLAIT_FLOAT32, rank, NULL) == PLAIT_OK);
    CHECK(plait_group_end() == PLAIT_OK);
    for (size_t i = 0; i < n; i++)
        CHECK(get(out, i) == value(last, rank, i) && get(out + n, i) == value(rank, next, i));
    CHECK(copies > before);
    return 0;
}

/* A persistent request, started again as soon as it has ended. */
static int start_again(struct plait_comm *comm, uint32_t rank, float *buffers, size_t n)
{
    float *in = buffers, *out = buffers + ROOM / sizeof *buffers + APART;
    struct plait_request *request = NULL;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    const size_t before = passed_marks;

    call.persistent = true;
    call.request = &request;
    CHECK(plait_allreduce(comm, in, out, n, PLAIT_FLOAT32, PLAIT_SUM, &call) == PLAIT_OK);
    for (unsigned k = 0; k < 3; k++) {
        for (size_t i = 0; i < n; i++)
            put(in, i, value(rank + k, 0, i));
        CHECK(plait_start(request) == PLAIT_OK);
        CHECK(plait_wait(&request) == PLAIT_OK);
        for (size_t i = 0; i < n; i++) {
            float sum = 0;
            for (uint32_t r = 0; r < NRANK; r++)
                sum += value(r + k, 0, i);
            CHECK(get(out, i) == sum);
        }
    }
    CHECK(plait_run_again(request) == PLAIT_OK);
    CHECK(plait_request_free(&request) == PLAIT_OK);
    CHECK(!queued || passed_marks >= before + 4);
    return 0;
}

static int use_space(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const size_t counts[] = { 1, 13, 4096, full() ? 100003 : light() ? 9001 : 20011 };
    void *buffers;

    CHECK(make(*comm, &buffers));
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
        for (enum plait_coll coll = 0; coll < PLAIT_NCOLL; coll++)
            for (int form = 0; form < 4; form++) {
                static const enum plait_op ops[] = { PLAIT_SUM, PLAIT_SUM, PLAIT_AVG, PLAIT_PREMULSUM };
                const bool reduces = coll == PLAIT_ALLREDUCE || coll == PLAIT_REDUCE || coll == PLAIT_REDUCE_SCATTER;
                if (coll == PLAIT_BARRIER || (form > 1 && !reduces))
                    continue;
                CHECK(check_coll(*comm, rank, buffers, coll, counts[k], ops[form], form == 1) == 0);
            }
    CHECK(copies > 0 && combinations > 0 && allocations > 0);
    CHECK(states[rank].held <= PLAIT_NSLICE + 1); /* one for each slice, one for scaled input */
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
        CHECK(pass_around(*comm, rank, buffers, counts[k]) == 0);
    CHECK(states[rank].begun == (queued ? 4 * sizeof counts / sizeof *counts : 0));
    CHECK(states[rank].ended == states[rank].begun);
    CHECK(start_again(*comm, rank, buffers, 1000) == 0);
    CHECK(queued == (passed_marks > 0));
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    CHECK(unordered == 0 && begins > 0 && ends >= begins);
    struct plait_comm_memory held;
    plait_comm_memory(*comm, &held);
    CHECK(held.device == 2 * ROOM);
    states[rank].leaves = rank == 0; /* it then waits for its work once more */
    CHECK(plait_comm_destroy(*comm) == PLAIT_OK);
    *comm = NULL;
    CHECK(states[rank].slices == NULL && states[rank].closed == 1 && states[rank].left == 1);
    CHECK(states[rank].settled == (rank == 0 ? 2 : 1));
    finish(rank, buffers);
    return 0;
}

static void a_third_space_needs_no_change_elsewhere(void **state)
{
    struct ranks processes = { .nprocess = NRANK, .nthread = 1, .body = use_space, .arg = states };
    struct ranks threads = { .nprocess = 1, .nthread = NRANK, .body = use_space };

    (void)state;
    plait_spaces[1] = &coded;
    atomic_store(&plait_other_spaces, true);
    assert_int_equal(ranks_run(&processes), 0);
    assert_int_equal(ranks_run(&threads), 0);
    foreign = true; /* staged, and never read by the kernel's single copy, which host memory would be */
    setenv("PLAIT_CMA", "1", 1);
    assert_int_equal(ranks_run(&processes), 0);
    unsetenv("PLAIT_CMA");
    foreign = false;
}

/* Each blocking call waits for its mark, too. */
static void nor_does_a_queued_one(void **state)
{
    struct ranks processes = { .nprocess = NRANK, .nthread = 1, .body = use_space, .arg = states };
    struct ranks threads = { .nprocess = 1, .nthread = NRANK, .body = use_space };

    (void)state;
    queued = true;
    assert_int_equal(ranks_run(&processes), 0);
    assert_int_equal(ranks_run(&threads), 0);
    queued = false;
}

/* ---- What fails ---------------------------------------------------------------------------------------------- */

/* Nothing has happened then, and the next try succeeds. */
static int refuse_once(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_request *request = NULL;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    void *buffers;

    CHECK(make(*comm, &buffers));
    call.persistent = true;
    call.request = &request;
    CHECK(plait_allreduce(*comm, buffers, buffers, 16, PLAIT_FLOAT32, PLAIT_SUM, &call) == PLAIT_OK);
    states[rank].fail_queue = states[rank].fail_send = rank == 0;
    CHECK(plait_start(request) == (rank == 0 ? PLAIT_ERR_UNSUPPORTED : PLAIT_OK));
    CHECK(rank != 0 || plait_start(request) == PLAIT_OK);
    CHECK(plait_wait(&request) == PLAIT_OK);
    CHECK(plait_request_free(&request) == PLAIT_OK);
    if (rank == 0) {
        CHECK(plait_send(*comm, buffers, 16, PLAIT_FLOAT32, 1, NULL) == PLAIT_ERR_UNSUPPORTED);
        CHECK(states[rank].begun == 0);
        CHECK(plait_send(*comm, buffers, 16, PLAIT_FLOAT32, 1, NULL) == PLAIT_OK);
    } else if (rank == 1) {
        CHECK(plait_recv(*comm, buffers, 16, PLAIT_FLOAT32, 0, NULL) == PLAIT_OK);
    }
    CHECK(plait_comm_destroy(*comm) == PLAIT_OK);
    *comm = NULL;
    finish(rank, buffers);
    return 0;
}

/* Another rank waits for what fails here: it is told so. */
enum failing { POLL_COLLECTIVE, POLL_RECV, POLL_PUT, POLL_PASSED };

static int fail_once(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const enum failing what = *(const enum failing *)arg;
    struct state *own = &states[rank];
    void *buffers;

    CHECK(make(*comm, &buffers));
    if (rank == 0) {
        own->poll_passed = what == POLL_PASSED;
        own->fail_poll = what != POLL_PASSED;
    }
    enum plait_status status;
    if (what == POLL_RECV && rank == 0) {
        status = plait_recv(*comm, buffers, 16, PLAIT_FLOAT32, 1, NULL); /* nobody sends */
    } else if (what == POLL_PUT && rank == 0) {
        CHECK(plait_group_start() == PLAIT_OK);
        CHECK(plait_send(*comm, buffers, 16, PLAIT_FLOAT32, 0, NULL) == PLAIT_OK);
        CHECK(plait_recv(*comm, (float *)buffers + 16, 16, PLAIT_FLOAT32, 0, NULL) == PLAIT_OK);
        status = plait_group_end();
    } else {
        status = plait_allreduce(*comm, buffers, buffers, 16, PLAIT_FLOAT32, PLAIT_SUM, NULL);
    }
    CHECK(rank != 0 || status == PLAIT_ERR_SYSTEM);
    CHECK(rank != 0 || what == POLL_PASSED || own->marks == 0); /* what fails is not marked */
    CHECK(own->begun == own->ended);
    ranks_meet();
    CHECK(status != PLAIT_OK || plait_barrier(*comm, NULL) != PLAIT_OK);
    plait_comm_destroy(*comm);
    *comm = NULL;
    CHECK(own->settled == 2 && own->closed == 1);
    finish(rank, buffers);
    return 0;
}

static void errors_of_a_space_fail_the_call_and_the_comm(void **state)
{
    struct ranks refused = { .nprocess = NRANK, .nthread = 1, .body = refuse_once };

    (void)state;
    queued = true;
    assert_int_equal(ranks_run(&refused), 0);
    for (enum failing what = POLL_COLLECTIVE; what <= POLL_PASSED; what++) {
        struct ranks r = { .nprocess = NRANK, .nthread = 1, .body = fail_once, .arg = &what };
        print_message("what fails: %d\n", (int)what);
        assert_int_equal(ranks_run(&r), 0);
    }
    queued = false;
}

/* Rank 0's buffer lies in the space, the others' do not: an error on all that names the operation, and no wrong sum. */
static int mix(struct plait_comm **comm, uint32_t rank, void *arg)
{
    float own[16] = { 0 };
    void *buffers;

    (void)arg;
    CHECK(make(*comm, &buffers));
    float *data = rank == 0 ? buffers : own;
    CHECK(plait_allreduce(*comm, data, data, 16, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_ERR_MISMATCH);
    plait_comm_destroy(*comm);
    *comm = NULL;
    finish(rank, buffers);
    return 0;
}

static void ranks_of_different_spaces_are_told_so(void **state)
{
    struct ranks r = { .nprocess = NRANK, .nthread = 1, .body = mix };

    (void)state;
    assert_int_equal(ranks_run(&r), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_third_space_needs_no_change_elsewhere),
        cmocka_unit_test(nor_does_a_queued_one),
        cmocka_unit_test(errors_of_a_space_fail_the_call_and_the_comm),
        cmocka_unit_test(ranks_of_different_spaces_are_told_so),
    };

    return cmocka_run_group_tests_name("space", tests, NULL, NULL);
}
