/* SPDX-License-Identifier: BSD-3-Clause */
/* Persistent operations, host streams, and functions of the caller's that other threads run. */
#include "pending.h"
#include "unit_ranks.h"

#include <plait/message.h>
#include <plait/request.h>
#include <plait/stream.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *wait_elsewhere(void *arg)
{
    return (void *)(intptr_t)plait_wait(arg);
}

/* ---- Persistent ------------------------------------------------------------------------------------------ */

static int run_v(struct plait_comm *comm, uint32_t rank)
{
    const uint32_t nrank = plait_comm_nrank(comm);
    size_t counts[8];
    int32_t in[8] = { 0 }, out[64];
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *r;

    for (uint32_t p = 0; p < nrank; p++)
        counts[p] = p + 1;
    call.request = &r;
    call.persistent = 1;
    CHECK(plait_allgatherv(comm, in, out, counts, NULL, PLAIT_INT32, &call) == PLAIT_OK);
    memset(counts, 0x77, sizeof counts); /* they were copied */
    for (int32_t k = 0; k < 10; k++) {
        memset(out, 0, sizeof out);
        for (uint32_t i = 0; i <= rank; i++)
            in[i] = k * 10 + (int32_t)rank;
        CHECK((k % 2 ? plait_run_again(r) : plait_start(r)) == PLAIT_OK && plait_wait(&r) == PLAIT_OK && r != NULL);
        for (uint32_t p = 0, at = 0; p < nrank; p++)
            for (uint32_t i = 0; i <= p; i++)
                CHECK(out[at++] == k * 10 + (int32_t)p);
    }
    CHECK(plait_request_free(&r) == PLAIT_OK && r == NULL);
    return 0;
}

/* Bound once: other operations that take its place in the comm's memory do not matter. */
static int persistent_operations_run_again_and_again(struct plait_comm **comm, uint32_t rank, void *arg)
{
    int32_t *in = memory[rank][0], *out = memory[rank][1], *other = out + 3000;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *r[3];
    struct plait_comm_stats before, after;

    call.persistent = 1;
    for (uint32_t i = 0; i < 3; i++) {
        call.request = &r[i];
        CHECK(plait_allreduce(*comm, in, out, i == 2 ? 3000 : 4 + i, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
    }
    for (uint32_t n = 1; n < 600; n++)
        CHECK(plait_allreduce(*comm, other, other, n, PLAIT_INT32, PLAIT_SUM, NULL) == PLAIT_OK);
    for (uint32_t i = 0; i < 3; i++)
        CHECK(plait_run_again(r[i]) == PLAIT_OK);
    plait_comm_stats(*comm, &before);
    for (int32_t k = 0; k < 300; k++) {
        const uint32_t i = (uint32_t)k % 3, n = i == 2 ? 3000 : 4 + i;
        in[0] = in[n - 1] = k;
        out[0] = out[n - 1] = -1;
        if (k % 2 == 0) {
            CHECK(plait_run_again(r[i]) == PLAIT_OK);
        } else {
            CHECK(plait_start(r[i]) == PLAIT_OK);
            CHECK(plait_start(r[i]) == PLAIT_ERR_ARG && strstr(plait_last_error(), "pending") != NULL);
            CHECK(plait_request_free(&r[i]) == PLAIT_ERR_ARG);
            CHECK(plait_wait(&r[i]) == PLAIT_OK && r[i] != NULL);
        }
        CHECK(out[0] == 3 * k && out[n - 1] == 3 * k);
    }
    plait_comm_stats(*comm, &after);
    CHECK(RANKS_KEEP_MEMORY(before.allocations, after.allocations));
    CHECK(plait_wait(&r[0]) == PLAIT_OK); /* it is not started */
    CHECK(plait_request_free(&r[0]) == PLAIT_OK && r[0] == NULL);
    if (run_v(*comm, rank) != 0)
        return 1;
    CHECK(plait_start(r[1]) == PLAIT_OK); /* pending when its comm is left */
    CHECK(plait_comm_destroy(*comm) == PLAIT_OK);
    *comm = NULL;
    CHECK(plait_wait(&r[1]) == PLAIT_OK);
    CHECK(plait_start(r[1]) == PLAIT_ERR_ARG && strstr(plait_last_error(), "the request's comm was destroyed") != NULL);
    CHECK(plait_run_again(r[2]) == PLAIT_ERR_ARG && plait_start(NULL) == PLAIT_ERR_ARG);
    CHECK(plait_request_free(&r[1]) == PLAIT_OK && plait_request_free(&r[2]) == PLAIT_OK);
    return 0;
}

/* ---- Streams --------------------------------------------------------------------------------------------- */

struct trail { /* what a stream's functions saw */
    const int32_t *watched;
    int32_t seen[3];
    uint32_t n;
    float scale, *to;
    sigset_t masked;
    _Atomic int *gate;
};

static void look(void *context)
{
    struct trail *t = context;

    t->seen[t->n++] = *t->watched;
    pthread_sigmask(SIG_SETMASK, NULL, &t->masked);
}

static void set_scale(void *context)
{
    struct trail *t = context;
    *t->to = t->scale;
}

static void wait_at_gate(void *context)
{
    const struct trail *t = context;

    while (!atomic_load(t->gate))
        usleep(100);
}

static int stream_order(struct plait_comm **comm, uint32_t rank, void *arg)
{
    int32_t *v = memory[rank][0];
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct trail t = { .watched = v, .scale = (float)(rank + 2) };
    float x[4] = { 1, 2, 3, 4 }, y[4], factor = 1000;
    int done = 0;

    t.to = &factor;
    CHECK(plait_stream_create(&call.stream) == PLAIT_OK);
    v[0] = 1;
    CHECK(plait_stream_call(call.stream, look, &t) == PLAIT_OK);
    CHECK(plait_allreduce(*comm, v, v, LONG, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
    CHECK(plait_stream_call(call.stream, look, &t) == PLAIT_OK);
    CHECK(plait_allreduce(*comm, v, v, LONG, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
    CHECK(plait_stream_call(call.stream, look, &t) == PLAIT_OK);
    CHECK(plait_stream_call(call.stream, set_scale, &t) == PLAIT_OK);
    call.scale = &factor; /* read when its turn has come */
    call.scale_when = PLAIT_SCALE_LATE;
    CHECK(plait_allreduce(*comm, x, y, 4, PLAIT_FLOAT32, PLAIT_PREMULSUM, &call) == PLAIT_OK);
    CHECK(plait_stream_synchronize(call.stream) == PLAIT_OK);
    CHECK(plait_stream_query(call.stream, &done) == PLAIT_OK && done == 1);
    CHECK(t.n == 3 && t.seen[0] == 1 && t.seen[1] == 3 && t.seen[2] == 9);
    CHECK(y[3] == 4 * (2 + 3 + 4));
    CHECK(sigismember(&t.masked, SIGTERM) == 1 && sigismember(&t.masked, SIGUSR1) == 1);
    CHECK(plait_stream_destroy(call.stream) == PLAIT_OK);
    return 0;
}

/* Behind one that waits for its stream, calls without a stream wait too: their order is that of the calls. */
static int gate(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    _Atomic int open = 0;
    struct trail t = { .gate = &open };
    int32_t a[4] = { 1, 1, 1, 1 }, b[4] = { 0 }, c[4] = { 0 };
    struct plait_request *r;
    int done;

    CHECK(plait_stream_create(&call.stream) == PLAIT_OK);
    CHECK(plait_stream_call(call.stream, wait_at_gate, &t) == PLAIT_OK);
    CHECK(plait_allreduce(*comm, a, b, 4, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
    CHECK(begin_sum(*comm, b, c, 4, &r) == PLAIT_OK);
    for (uint32_t k = 0; k < 100; k++)
        CHECK(plait_test(&r, &done) == PLAIT_OK && !done);
    CHECK(b[0] == 0);
    open = 1;
    CHECK(plait_wait(&r) == PLAIT_OK && b[0] == 3 && c[0] == 9);
    CHECK(plait_stream_destroy(call.stream) == PLAIT_OK);
    return 0;
}

/* Started again and again, taken by the stream or by who holds it, in any mix. */
static int persistent_on_stream(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    int32_t a[4] = { 1, 2, 3, 4 }, b[4] = { 0 };
    struct plait_request *r;
    size_t index;

    CHECK(plait_stream_create(&call.stream) == PLAIT_OK);
    call.request = &r;
    CHECK(plait_allreduce(*comm, a, b, 4, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_ERR_ARG);
    call.persistent = 1;
    CHECK(plait_allreduce(*comm, a, b, 4, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
    for (int32_t k = 0; k < 400; k++) {
        a[3] = k;
        CHECK(plait_start(r) == PLAIT_OK);
        if (k % 3 == 0)
            CHECK(plait_stream_synchronize(call.stream) == PLAIT_OK);
        else if (k % 3 == 1)
            CHECK(plait_wait(&r) == PLAIT_OK);
        else
            CHECK(plait_wait_any(&r, 1, &index) == PLAIT_OK && index == 0);
        CHECK(r != NULL && b[3] == 3 * k);
    }
    CHECK(plait_run_again(r) == PLAIT_OK);
    CHECK(plait_stream_synchronize(call.stream) == PLAIT_OK && plait_request_free(&r) == PLAIT_OK);
    CHECK(plait_stream_destroy(call.stream) == PLAIT_OK);
    return 0;
}

/*
 * The progress thread ends an operation, the stream's thread takes it, and this one, which drives nothing, sees an idle
 * comm: it takes no lock, so the progress thread must be out of the comm by then.
 */
static int alone_again(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT, persistent = PLAIT_CALL_DEFAULT;
    int32_t a[4] = { 1, 2, 3, 4 }, b[4] = { 0 }, c[4] = { 0 };
    struct plait_request *r;
    int done;

    CHECK(plait_stream_create(&call.stream) == PLAIT_OK);
    persistent.persistent = 1;
    persistent.request = &r;
    CHECK(plait_allreduce(*comm, a, b, 4, PLAIT_INT32, PLAIT_SUM, &persistent) == PLAIT_OK);
    for (int32_t k = 0; k < 300; k++) {
        a[3] = k;
        CHECK(plait_allreduce(*comm, a, c, 4, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
        do
            CHECK(plait_stream_query(call.stream, &done) == PLAIT_OK);
        while (!done);
        CHECK(c[3] == 2 * k);
        CHECK(plait_start(r) == PLAIT_OK && plait_wait(&r) == PLAIT_OK && b[3] == 2 * k);
        CHECK(plait_allreduce(*comm, a, b, 3, PLAIT_INT32, PLAIT_SUM, NULL) == PLAIT_OK && b[2] == 6);
    }
    CHECK(plait_request_free(&r) == PLAIT_OK && plait_stream_destroy(call.stream) == PLAIT_OK);
    return 0;
}

static void whoever_sees_an_idle_comm_is_alone_with_it(void **state)
{
    ranks = (struct ranks){ .nprocess = 1, .nthread = 2, .limit = 120, .body = alone_again, .options.progress = 1 };
    assert_int_equal(ranks_run(&ranks), 0);
}

/* A comm may be left while its operations are still on streams. */
static int leave_with_stream(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_comm_options o = ranks_options(rank);
    int32_t v[4] = { 1, 1, 1, 1 };

    CHECK(plait_stream_create(&call.stream) == PLAIT_OK);
    for (uint32_t k = 0; k < 50; k++) {
        CHECK(plait_comm_create(&o, comm) == PLAIT_OK);
        for (uint32_t i = 0; i < 3; i++)
            CHECK(plait_allreduce(*comm, v, v, 4, PLAIT_INT32, PLAIT_MAX, &call) == PLAIT_OK);
        CHECK(plait_comm_destroy(*comm) == PLAIT_OK);
        *comm = NULL;
    }
    CHECK(plait_stream_destroy(call.stream) == PLAIT_OK && v[0] == 1);
    return 0;
}

/* Of several that fail the stream tells the first; when that was told it is as if there had been none. */
static int first_error(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_comm *one[2];
    _Atomic int open = 0;
    struct trail t = { .gate = &open };
    int32_t v[4] = { 1, 1, 1, 1 };

    o.nrank = 1;
    CHECK(plait_stream_create(&call.stream) == PLAIT_OK &&
          plait_stream_call(call.stream, wait_at_gate, &t) == PLAIT_OK);
    for (unsigned k = 0; k < 2; k++) {
        CHECK(plait_comm_create(&o, &one[k]) == PLAIT_OK);
        CHECK(plait_allreduce(one[k], v, v, 4, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
    }
    CHECK(plait_comm_abort(one[1], "of the second") == PLAIT_OK &&
          plait_comm_abort(one[0], "of the first") == PLAIT_OK);
    open = 1;
    CHECK(plait_stream_synchronize(call.stream) == PLAIT_ERR_FAILED);
    CHECK(strstr(plait_last_error(), "of the first") != NULL);
    CHECK(plait_stream_synchronize(call.stream) == PLAIT_OK && plait_stream_destroy(call.stream) == PLAIT_OK);
    CHECK(plait_comm_destroy(one[0]) == PLAIT_ERR_FAILED && plait_comm_destroy(one[1]) == PLAIT_ERR_FAILED);
    return 0;
}

static void streams_keep_their_order(void **state)
{
    run_both(3, stream_order, NULL);
    run_both(3, gate, NULL);
    run_both(3, persistent_on_stream, NULL);
    ranks = (struct ranks){ .nprocess = 1, .nthread = 2, .limit = 120, .body = leave_with_stream, .no_comm = true };
    assert_int_equal(ranks_run(&ranks), 0);
    ranks = (struct ranks){ .nprocess = 1, .nthread = 1, .limit = 120, .body = first_error, .no_comm = true };
    assert_int_equal(ranks_run(&ranks), 0);
}

/* ---- Streams that hold up the comm ----------------------------------------------------------------------- */

struct inner { /* what a function on a stream calls */
    struct plait_comm *comm;
    _Atomic int *gate;
    bool message;
    double deadline;
    enum plait_status status;
    char text[512];
};

static void call_inside(void *context)
{
    struct inner *i = context;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    const uint32_t rank = plait_comm_rank(i->comm), other = 1 - rank;
    int32_t v[4] = { 1, 1, 1, 1 }, w[4];

    while (!atomic_load(i->gate))
        usleep(100);
    call.deadline = i->deadline;
    if (!i->message)
        i->status = plait_allreduce(i->comm, v, w, 4, PLAIT_INT32, PLAIT_SUM, &call);
    else if (rank == 0)
        i->status = plait_send(i->comm, v, 4, PLAIT_INT32, other, &call);
    else
        i->status = plait_recv(i->comm, w, 4, PLAIT_INT32, other, &call);
    snprintf(i->text, sizeof i->text, "%s", plait_last_error());
}

static enum plait_status call_on_stream(struct plait_comm *comm, bool message, int32_t *v,
                                        const struct plait_call *call)
{
    const uint32_t rank = plait_comm_rank(comm), other = 1 - rank;

    return !message    ? plait_allreduce(comm, v, v, 4, PLAIT_INT32, PLAIT_SUM, call)
           : rank == 0 ? plait_send(comm, v, 4, PLAIT_INT32, other, call)
                       : plait_recv(comm, v, 4, PLAIT_INT32, other, call);
}

/* Both ranks' streams do the same, so that no other rank is late: only this wait's own clock can end it. */
static int hold_up_itself(struct plait_comm **comm, uint32_t rank, void *arg)
{
    _Atomic int open = 0;
    struct inner i = { .comm = *comm, .gate = &open, .message = *(bool *)arg };
    struct plait_call call = PLAIT_CALL_DEFAULT;
    int32_t v[4] = { 1, 1, 1, 1 };

    i.deadline = rank == 0 ? 0.3 : 0; /* its own, or the comm's */
    CHECK(plait_stream_create(&call.stream) == PLAIT_OK);
    CHECK(plait_stream_call(call.stream, call_inside, &i) == PLAIT_OK);
    CHECK(call_on_stream(*comm, i.message, v, &call) == PLAIT_OK);
    open = 1;
    CHECK(plait_stream_synchronize(call.stream) != PLAIT_OK);
    CHECK(i.status == PLAIT_ERR_TIMEOUT || i.status == PLAIT_ERR_FAILED); /* the other one may have been first */
    CHECK(strstr(i.text, "waits for its own stream, which has not come to ") != NULL);
    CHECK(strstr(i.text, !i.message ? "allreduce #1" : "message #1") != NULL);
    CHECK(plait_stream_destroy(call.stream) == PLAIT_OK);
    CHECK(plait_comm_destroy(*comm) != PLAIT_OK);
    *comm = NULL;
    return 0;
}

/* Nothing else was called; the stream goes on long after the comm is gone. */
static int leave_held_up(struct plait_comm **comm, uint32_t rank, void *arg)
{
    _Atomic int open = 0;
    struct trail t = { .gate = &open };
    struct plait_call call = PLAIT_CALL_DEFAULT;
    int32_t v[4] = { 1, 1, 1, 1 };

    CHECK(plait_stream_create(&call.stream) == PLAIT_OK);
    CHECK(plait_stream_call(call.stream, wait_at_gate, &t) == PLAIT_OK);
    CHECK(call_on_stream(*comm, *(bool *)arg, v, &call) == PLAIT_OK);
    CHECK(plait_comm_destroy(*comm) != PLAIT_OK);
    CHECK(strstr(plait_last_error(), "waits for its own stream, which has not come to ") != NULL);
    *comm = NULL;
    open = 1;
    CHECK(plait_stream_destroy(call.stream) != PLAIT_OK);
    return 0;
}

static void who_waits_for_a_stream_that_waits_for_it_has_a_deadline(void **state)
{
    static int (*const bodies[])(struct plait_comm **, uint32_t, void *) = { hold_up_itself, leave_held_up };

    for (unsigned k = 0; k < 4; k++) {
        bool message = k % 2;
        ranks = (struct ranks){
            .nprocess = 2, .nthread = 1, .limit = 60, .body = bodies[k / 2], .arg = &message, .options.deadline = 1
        };
        assert_int_equal(ranks_run(&ranks), 0);
    }
}

/* The stream is still elsewhere when the other rank dies, with which what it holds up cannot end. */
static int hold_up_a_death(struct plait_comm **comm, uint32_t rank, void *arg)
{
    _Atomic int open = 0;
    struct trail t = { .gate = &open };
    struct plait_call call = PLAIT_CALL_DEFAULT;
    int32_t v[4] = { 1, 1, 1, 1 };

    if (rank == 1) {
        usleep(100000);
        raise(SIGKILL);
    }
    CHECK(plait_stream_create(&call.stream) == PLAIT_OK);
    CHECK(plait_stream_call(call.stream, wait_at_gate, &t) == PLAIT_OK);
    CHECK(plait_allreduce(*comm, v, v, 4, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
    CHECK(plait_barrier(*comm, NULL) == PLAIT_ERR_PEER && strstr(plait_last_error(), "rank 1 (process") != NULL);
    open = 1;
    CHECK(plait_stream_destroy(call.stream) == PLAIT_ERR_PEER);
    CHECK(plait_comm_destroy(*comm) == PLAIT_ERR_PEER);
    *comm = NULL;
    return 0;
}

static void who_waits_behind_a_stream_sees_a_death(void **state)
{
    ranks = (struct ranks){ .nprocess = 2, .nthread = 1, .limit = 60, .body = hold_up_a_death, .processes = true };
    assert_int_equal(ranks_run(&ranks), 1); /* the one that was killed */
}

/* A function on a stream may take longer than the deadline, as long as nobody waits behind it. */
static int compute_long(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    _Atomic int open = 0;
    struct trail t = { .gate = &open };
    int32_t v[4] = { 1, 1, 1, 1 };

    CHECK(plait_stream_create(&call.stream) == PLAIT_OK);
    CHECK(plait_stream_call(call.stream, wait_at_gate, &t) == PLAIT_OK);
    CHECK(plait_allreduce(*comm, v, v, 4, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
    usleep(4500000); /* the progress thread turns meanwhile */
    ranks_meet();
    open = 1;
    CHECK(plait_stream_destroy(call.stream) == PLAIT_OK && v[0] == 2);
    return 0;
}

static void a_stream_may_take_longer_than_the_deadline(void **state)
{
    ranks = (struct ranks){
        .nprocess = 2, .nthread = 1, .limit = 60, .body = compute_long, .options.deadline = 3, .options.progress = 1
    };
    assert_int_equal(ranks_run(&ranks), 0);
}

/* ---- Functions of the caller's --------------------------------------------------------------------------- */

static void add_up(void *inout, const void *in, size_t count, enum plait_dtype type, void *context)
{
    int32_t *a = inout;
    const int32_t *b = in;

    for (size_t i = 0; i < count; i++)
        a[i] += b[i];
    atomic_fetch_add((atomic_int *)context, 1);
}

static int functions_of_the_caller_run_in_whatever_thread_drives(struct plait_comm **comm, uint32_t rank, void *arg)
{
    int32_t *a = memory[rank][0], *b = memory[rank][1];
    atomic_int calls = 0;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *r;
    pthread_t thread;
    void *status;

    {
        struct plait_user_op user = { sizeof user, add_up, &calls, 0 }; /* is not kept */
        call.user = &user;
        call.request = &r;
        a[LONG - 1] = (int32_t)rank;
        CHECK(plait_allreduce(*comm, a, b, LONG, PLAIT_INT32, PLAIT_USER, &call) == PLAIT_OK);
        memset(&user, 0, sizeof user);
    }
    CHECK(pthread_create(&thread, NULL, wait_elsewhere, &r) == 0);
    pthread_join(thread, &status);
    CHECK(status == NULL && b[LONG - 1] == 0 + 1 + 2);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_of_both(persistent_operations_run_again_and_again, 3),
        cmocka_unit_test(streams_keep_their_order),
        cmocka_unit_test(who_waits_for_a_stream_that_waits_for_it_has_a_deadline),
        cmocka_unit_test(who_waits_behind_a_stream_sees_a_death),
        cmocka_unit_test(a_stream_may_take_longer_than_the_deadline),
        cmocka_unit_test(whoever_sees_an_idle_comm_is_alone_with_it),
        test_of_both(functions_of_the_caller_run_in_whatever_thread_drives, 3),
    };
    return cmocka_run_group_tests_name("streams", tests, NULL, NULL);
}
