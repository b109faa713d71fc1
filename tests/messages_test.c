/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between ranks, alone and in groups: right, in order, with what is wrong told on both ends. */
#include "base/clock.h"
#include "failure/remote/remote.h"
#include "p2p/message.h"
#include "pending.h"
#include "random.h"
#include "tier.h"
#include "unit_ranks.h"

#include "../transports/net_link.h"

#include <plait/group.h>
#include <plait/memory.h>
#include <plait/message.h>
#include <plait/request.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NRANK 4
#define LATE  300.0 /* seconds: far above a loaded machine's delays, below the default deadline */

static void fill(int32_t *v, size_t n, uint32_t from, uint32_t to, uint32_t k)
{
    for (size_t i = 0; i < n; i++)
        v[i] = (int32_t)(i * 3 + from * 1000 + to * 100 + k);
}

static int holds(const int32_t *v, size_t n, uint32_t from, uint32_t to, uint32_t k)
{
    const uint32_t rank = to;

    for (size_t i = 0; i < n; i++)
        CHECK(v[i] == (int32_t)(i * 3 + from * 1000 + to * 100 + k));
    return 0;
}

/* ---- Right ----------------------------------------------------------------------------------------------- */

/* Every size around the line, the slice and the staged slices, in caller's and in library memory. */
static int send_sizes(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static const size_t counts[] = { 0, 1, 8, 9, 1000, 65535, 65536, 65537, 300000, 700001 };
    const size_t most = 700001 * sizeof(int32_t);
    int32_t *buffers[2];
    void *library;

    CHECK(plait_mem_alloc(most, &library) == PLAIT_OK);
    buffers[0] = malloc(most);
    buffers[1] = library;
    CHECK(buffers[0] != NULL);
    for (uint32_t k = 0; k < 40; k++) {
        const size_t n = counts[k % 10];
        int32_t *v = buffers[k / 10 % 2];
        if (rank == 0) {
            fill(v, n, 0, 1, k);
            CHECK(plait_send(*comm, n > 0 ? v : NULL, n, PLAIT_INT32, 1, NULL) == PLAIT_OK);
            memset(v, 0x55, n * sizeof *v); /* it may be used again */
        } else if (rank == 1) {
            memset(v, 0, n * sizeof *v);
            const uint64_t copied = stats_of(*comm).bytes_copied;
            CHECK(plait_recv(*comm, n > 0 ? v : NULL, n, PLAIT_INT32, 0, NULL) == PLAIT_OK);
            if (holds(v, n, 0, 1, k) != 0)
                return 1;
            CHECK(stats_of(*comm).bytes_copied - copied == n * sizeof *v);
        }
    }
    free(buffers[0]);
    plait_mem_free(library);
    return 0;
}

static void messages_of_any_size_arrive(void **state)
{
    run_both(2, send_sizes, NULL);
    run(2, 1, send_sizes, NULL);
}

/* A link on which one message is late: its memory is in use when that of later ones is not. So it may be over a network. */
static struct plait_transport late;
static const struct plait_transport *as_before;
static _Atomic uint32_t late_number;
static atomic_bool is_late;

static bool sent_late(const struct plait_link *link, uint32_t number)
{
    return !(is_late && number == late_number) && as_before->sent(link, number);
}

static int send_in_any_order(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const size_t n = 3 * PLAIT_MESSAGE_SLICE / sizeof(int32_t);
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *r;
    int done = 0;

    for (uint32_t k = 0; k < 4; k++) { /* the link is there after the first; then one slice after the other is late */
        if (rank == 1) {
            memset(memory[1][0], 0, n * sizeof(int32_t));
            CHECK(plait_recv(*comm, memory[1][0], n, PLAIT_INT32, 0, NULL) == PLAIT_OK);
            CHECK(holds(memory[1][0], n, 0, 1, k) == 0);
            CHECK(plait_barrier(*comm, NULL) == PLAIT_OK && plait_barrier(*comm, NULL) == PLAIT_OK);
            continue;
        }
        struct plait_link *link = (*comm)->peers[1].link[PLAIT_CHANNEL_MESSAGES];
        if (k == 1) {
            as_before = link->transport;
            late = *as_before;
            late.sent = sent_late;
            link->transport = &late;
        }
        is_late = k > 0;
        late_number = k > 0 ? link->next_out + k - 1 : 0;
        fill(memory[0][0], n, 0, 1, k);
        call.request = &r;
        CHECK(plait_send(*comm, memory[0][0], n, PLAIT_INT32, 1, &call) == PLAIT_OK);
        CHECK(plait_barrier(*comm, NULL) == PLAIT_OK); /* it has been received */
        for (unsigned i = 0; i < 100 && !done; i++)
            CHECK(plait_test(&r, &done) == PLAIT_OK);
        CHECK(k == 0 || !done);
        is_late = false;
        CHECK(plait_wait(&r) == PLAIT_OK);
        CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
        done = 0;
    }
    return 0;
}

/* Rank 1 has offered as many slices as go: of these one call of rank 0 takes a few. */
static int take_long(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const size_t n = 2 * PLAIT_WINDOW * PLAIT_MESSAGE_SLICE / sizeof(int32_t);
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *request = NULL;
    struct plait_comm_stats before, after;
    void *v;

    CHECK(plait_mem_alloc(n * sizeof(int32_t), &v) == PLAIT_OK);
    call.request = &request;
    if (rank == 1) {
        fill(v, n, 1, 0, 0);
        CHECK(plait_send(*comm, v, n, PLAIT_INT32, 0, &call) == PLAIT_OK);
    }
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    if (rank == 0) {
        plait_comm_stats(*comm, &before);
        CHECK(plait_recv(*comm, v, n, PLAIT_INT32, 1, &call) == PLAIT_OK);
        plait_comm_stats(*comm, &after);
        CHECK(after.bytes_copied - before.bytes_copied <= 2 * PLAIT_MESSAGE_SLICE);
    }
    CHECK(plait_wait(&request) == PLAIT_OK && holds(v, n, 1, 0, 0) == 0);
    plait_mem_free(v);
    return 0;
}

/* Who took slices as long as there were any offered none, and two long messages that crossed went one after the other. */
static void who_receives_a_long_message_sends_between_its_slices(void **state)
{
    /* Of one process any thread that waits would take slices for rank 0. */
    const struct ranks r = { .nprocess = 2, .nthread = 1, .body = take_long, .processes = true };

    assert_int_equal(ranks_run(&r), 0);
}

/* A message counted as sent when its last slice was: over a network the others may still be read then. */
static void a_message_is_sent_when_all_of_its_slices_are(void **state)
{
    run(1, 2, send_in_any_order, NULL); /* single copy: read where it lies */
}

/* What was sent arrives although the sender has left, and its process has ended. */
static int send_and_leave(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static int32_t v[100000], small[4];

    if (rank == 0) {
        fill(v, 100000, 0, 1, 1);
        fill(small, 4, 0, 1, 2);
        CHECK(plait_send(*comm, v, 100000, PLAIT_INT32, 1, NULL) == PLAIT_OK);
        CHECK(plait_send(*comm, small, 4, PLAIT_INT32, 1, NULL) == PLAIT_OK);
        CHECK(plait_comm_destroy(*comm) == PLAIT_OK);
        *comm = NULL;
        return 0;
    }
    usleep(300000);
    CHECK(plait_recv(*comm, v, 100000, PLAIT_INT32, 0, NULL) == PLAIT_OK && holds(v, 100000, 0, 1, 1) == 0);
    CHECK(plait_recv(*comm, small, 4, PLAIT_INT32, 0, NULL) == PLAIT_OK && holds(small, 4, 0, 1, 2) == 0);
    return 0;
}

static void a_message_outlives_its_sender(void **state)
{
    const struct ranks r = { .nprocess = 2, .nthread = 1, .body = send_and_leave, .processes = true };

    for (unsigned staged = 0; staged < 2; staged++) { /* or read where it lies: then the sender waits */
        setenv("PLAIT_CMA", staged ? "0" : "1", 1);
        assert_int_equal(ranks_run(&r), 0);
    }
    unsetenv("PLAIT_CMA");
}

/* Those that have come, or have room: nobody waits long for them, and the flight recorder has none of them. */
static int send_small(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static const size_t counts[] = { 0, 1, 88, 89, PLAIT_MESSAGE_SMALL / sizeof(int32_t) };
    int32_t v[PLAIT_MESSAGE_SMALL / sizeof(int32_t)];

    for (uint32_t k = 0; k < 40; k++) {
        const size_t n = counts[k % 5];
        fill(v, n, 0, 1, k);
        if (rank == 0)
            CHECK(plait_send(*comm, v, n, PLAIT_INT32, 1, NULL) == PLAIT_OK);
        CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
        if (rank == 1)
            memset(v, 0, sizeof v);
        if (rank == 1)
            CHECK(plait_recv(*comm, v, n, PLAIT_INT32, 0, NULL) == PLAIT_OK && holds(v, n, 0, 1, k) == 0);
        CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
        for (uint32_t i = 0; i < PLAIT_NAWAITED; i++)
            CHECK((*comm)->own->messages[i].since == 0);
    }
    return 0;
}

static void small_messages_leave_no_records(void **state)
{
    const struct ranks r = { .nprocess = 2, .nthread = 1, .body = send_small, .processes = true };

    if (!RANKS_ON_HOSTS)
        assert_int_equal(ranks_run(&r), 0);
}

/* Different ranks do different things, messages beside collectives. */
static int messages_and_collectives_do_not_wait_for_each_other(struct plait_comm **comm, uint32_t rank, void *arg)
{
    int32_t v[8], w[8] = { 0 };
    struct plait_request *r = NULL;
    struct plait_call call = PLAIT_CALL_DEFAULT;

    call.request = &r;
    for (uint32_t k = 0; k < 50; k++) {
        fill(v, 8, rank, 1, k);
        if (rank == 0)
            CHECK(plait_send(*comm, v, 8, PLAIT_INT32, 1, &call) == PLAIT_OK);
        if (rank == 1)
            CHECK(plait_recv(*comm, w, 8, PLAIT_INT32, 0, &call) == PLAIT_OK);
        CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
        CHECK(plait_wait(&r) == PLAIT_OK && r == NULL);
        CHECK(rank != 1 || holds(w, 8, 0, 1, k) == 0);
    }
    return 0;
}

static int send_to_itself(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static int32_t blocks[2][2][2][70000];
    int32_t(*v)[70000] = blocks[rank][0], (*w)[70000] = blocks[rank][1];
    struct plait_request *r[3];
    struct plait_call call = PLAIT_CALL_DEFAULT;
    const uint64_t copied = stats_of(*comm).bytes_copied;

    for (uint32_t k = 0; k < 2; k++)
        fill(v[k], 70000, rank, rank, k);
    CHECK(plait_group_start() == PLAIT_OK);
    for (uint32_t k = 0; k < 2; k++)
        CHECK(plait_send(*comm, v[k], 70000, PLAIT_INT32, rank, NULL) == PLAIT_OK &&
              plait_recv(*comm, w[k], 70000, PLAIT_INT32, rank, NULL) == PLAIT_OK);
    CHECK(plait_group_end() == PLAIT_OK);
    CHECK(holds(w[0], 70000, rank, rank, 0) == 0 && holds(w[1], 70000, rank, rank, 1) == 0);
    CHECK(stats_of(*comm).bytes_copied - copied == 2 * sizeof *w);
    memset(w, 0, 2 * sizeof *w);
    call.request = &r[0];
    CHECK(plait_recv(*comm, w[0], 70000, PLAIT_INT32, rank, &call) == PLAIT_OK);
    call.request = &r[1];
    CHECK(plait_send(*comm, v[0], 70000, PLAIT_INT32, rank, &call) == PLAIT_OK);
    CHECK(plait_wait_all(r, 2) == PLAIT_OK && holds(w[0], 70000, rank, rank, 0) == 0);
    CHECK(plait_send(*comm, v[0], 1, PLAIT_INT32, rank, NULL) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "send: to is this rank itself") != NULL);
    CHECK(plait_recv(*comm, v[0], 1, PLAIT_INT32, rank, NULL) == PLAIT_ERR_ARG);
    return 0;
}

static void a_rank_may_send_to_itself(void **state)
{
    run(1, 1, send_to_itself, NULL);
    run(2, 1, send_to_itself, NULL);
}

/* ---- In groups ------------------------------------------------------------------------------------------- */

/* Everyone to everyone and to itself, again and again; `arg`: elements. */
static int all_to_all(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const size_t n = *(const size_t *)arg;
    const uint32_t nrank = plait_comm_nrank(*comm);
    int32_t *out = malloc((nrank * n + 1) * sizeof *out), *in = malloc((nrank * n + 1) * sizeof *in);

    CHECK(out != NULL && in != NULL);
    for (uint32_t k = 0; k < 5; k++) {
        CHECK(plait_group_start() == PLAIT_OK);
        for (uint32_t p = 0; p < nrank; p++) {
            fill(out + p * n, n, rank, p, k);
            CHECK(plait_send(*comm, out + p * n, n, PLAIT_INT32, p, NULL) == PLAIT_OK);
            CHECK(plait_recv(*comm, in + p * n, n, PLAIT_INT32, p, NULL) == PLAIT_OK);
        }
        CHECK(plait_group_end() == PLAIT_OK);
        for (uint32_t p = 0; p < nrank; p++)
            if (holds(in + p * n, n, p, rank, k) != 0)
                return 1;
    }
    free(out);
    free(in);
    return 0;
}

static int ring(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const size_t n = *(const size_t *)arg;
    const uint32_t nrank = plait_comm_nrank(*comm), to = (rank + 1) % nrank, from = (rank + nrank - 1) % nrank;
    int32_t *out = malloc((n + 1) * sizeof *out), *in = malloc((n + 1) * sizeof *in);

    CHECK(out != NULL && in != NULL);
    for (uint32_t k = 0; k < 20; k++) {
        fill(out, n, rank, to, k);
        CHECK(plait_group_start() == PLAIT_OK);
        CHECK(plait_send(*comm, out, n, PLAIT_INT32, to, NULL) == PLAIT_OK);
        CHECK(plait_recv(*comm, in, n, PLAIT_INT32, from, NULL) == PLAIT_OK);
        CHECK(plait_group_end() == PLAIT_OK && holds(in, n, from, rank, k) == 0);
    }
    free(out);
    free(in);
    return 0;
}

static void rings_and_all_to_alls_in_groups(void **state)
{
    size_t counts[] = { 0, 5, 1000, 400000 }; /* the last: 1.5 MiB, more than is staged at once */

    for (unsigned i = light() ? 1 : 0; i < 4; i += light() ? 2 : 1) {
        run_both(NRANK, ring, &counts[i]);
        run_both(i < 3 ? NRANK : 3, all_to_all, &counts[i]);
    }
}

#define WAITING 1000

struct drawn { /* messages, in an order of each rank's own */
    uint64_t seed;
    struct {
        uint32_t from, to;
        size_t count;
    } message[WAITING];
};

/*
 * All that concerns this rank in one group: per pair in the order of the list, but which pair comes next is drawn, and
 * so is whether it sends or receives.
 */
static int random_pattern(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct drawn *d = arg;
    const uint32_t nrank = plait_comm_nrank(*comm);
    uint64_t state = d->seed + rank + 1;
    size_t at[2 * 8] = { 0 }; /* [send or receive][peer] where in the list */
    int32_t *v[WAITING] = { NULL }, *w[WAITING] = { NULL };

    for (uint32_t m = 0; m < WAITING; m++) {
        v[m] = malloc((d->message[m].count + 1) * sizeof **v);
        w[m] = malloc((d->message[m].count + 1) * sizeof **w);
        CHECK(v[m] != NULL && w[m] != NULL);
        fill(v[m], d->message[m].count, d->message[m].from, d->message[m].to, m);
    }
    CHECK(plait_group_start() == PLAIT_OK);
    for (uint32_t left = 2 * nrank; left > 0;) {
        const uint32_t which = (uint32_t)(random_next(&state) % (2 * nrank)), peer = which / 2, send = which % 2;
        size_t *m = &at[which];
        if (*m > WAITING)
            continue;
        while (*m < WAITING &&
               (d->message[*m].from != (send ? rank : peer) || d->message[*m].to != (send ? peer : rank)))
            ++*m;
        if (*m == WAITING)
            left--;
        else if (send)
            CHECK(plait_send(*comm, v[*m], d->message[*m].count, PLAIT_INT32, peer, NULL) == PLAIT_OK);
        else
            CHECK(plait_recv(*comm, w[*m], d->message[*m].count, PLAIT_INT32, peer, NULL) == PLAIT_OK);
        ++*m;
    }
    CHECK(plait_group_end() == PLAIT_OK);
    for (uint32_t m = 0; m < WAITING; m++) {
        if (d->message[m].to == rank &&
            holds(w[m], d->message[m].count, d->message[m].from, d->message[m].to, m) != 0) {
            fprintf(stderr, "message %u of seed %llu\n", m, (unsigned long long)d->seed);
            return 1;
        }
        free(v[m]);
        free(w[m]);
    }
    return 0;
}

static void a_thousand_random_messages_in_a_group(void **state)
{
    const char *given = getenv("PLAIT_TEST_SEED");
    static struct drawn d;

    d.seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    printf("PLAIT_TEST_SEED=%llu\n", (unsigned long long)d.seed);
    for (uint32_t nrank = 2; nrank <= 6; nrank += 2) {
        uint64_t s = d.seed;
        for (uint32_t m = 0; m < WAITING; m++) {
            d.message[m].from = (uint32_t)(random_next(&s) % nrank);
            d.message[m].to = (uint32_t)(random_next(&s) % nrank);
            d.message[m].count = random_next(&s) % 5 == 0 ? random_next(&s) % 5000 : random_next(&s) % 12;
            if (m % 250 == 0)
                d.message[m].count = 300000;
        }
        run_both(nrank, random_pattern, &d);
    }
}

/* ---- Wrong ----------------------------------------------------------------------------------------------- */

static int wrong_arguments_are_named_and_change_nothing(struct plait_comm **comm, uint32_t rank, void *arg)
{
    int32_t v[4] = { 0 };
    struct plait_call call = PLAIT_CALL_DEFAULT;

    CHECK(plait_send(NULL, v, 4, PLAIT_INT32, 1, NULL) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "send: comm is NULL") != NULL);
    CHECK(plait_recv(*comm, v, 4, PLAIT_INT32, 2, NULL) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "recv: from is 2, but the comm has 2 ranks") != NULL);
    CHECK(plait_send(*comm, v, 4, (enum plait_dtype)99, 1, NULL) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "send: type is 99") != NULL);
    CHECK(plait_send(*comm, NULL, 4, PLAIT_INT32, 1 - rank, NULL) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "send: in is NULL") != NULL);
    CHECK(plait_recv(*comm, v, SIZE_MAX / 4, PLAIT_INT32, 1 - rank, NULL) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "recv: count is") != NULL);
    call.persistent = 1;
    CHECK(plait_recv(*comm, v, 4, PLAIT_INT32, 1 - rank, &call) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "call->request is NULL") != NULL);
    call.persistent = 0;
    call.deadline = -1;
    CHECK(plait_recv(*comm, v, 4, PLAIT_INT32, 1 - rank, &call) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "call->deadline is -1") != NULL);
    if (rank == 0)
        CHECK(plait_send(*comm, v, 4, PLAIT_INT32, 1, NULL) == PLAIT_OK); /* nothing has happened */
    else
        CHECK(plait_recv(*comm, v, 4, PLAIT_INT32, 0, NULL) == PLAIT_OK);
    return 0;
}

struct difference {
    size_t sent, received;
    enum plait_dtype type; /* of what is sent */
    const char *says;
};

/* Both ranks are told what each said; the sender perhaps only at its next call. */
static int differ(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct difference *d = arg;
    int32_t *v = calloc(400000, sizeof *v);
    enum plait_status status;

    CHECK(v != NULL);
    CHECK(rank == 2 || plait_send(*comm, v, 2, PLAIT_INT32, 1 - rank, NULL) == PLAIT_OK);
    CHECK(rank == 2 || plait_recv(*comm, v, 2, PLAIT_INT32, 1 - rank, NULL) == PLAIT_OK);
    if (rank == 0)
        status = plait_send(*comm, v, d->sent, d->type, 1, NULL);
    else
        status = rank == 1 ? plait_recv(*comm, v, d->received, PLAIT_INT32, 0, NULL) : PLAIT_OK;
    CHECK(rank != 1 || status == PLAIT_ERR_MISMATCH);
    if (status == PLAIT_OK)
        status = plait_barrier(*comm, NULL);
    CHECK(status == PLAIT_ERR_MISMATCH || status == PLAIT_ERR_FAILED);
    CHECK(strstr(plait_last_error(), d->says) != NULL);
    CHECK(strstr(plait_last_error(), "message #2 from rank 0 to rank 1") != NULL);
    CHECK(plait_comm_destroy(*comm) != PLAIT_OK);
    *comm = NULL;
    free(v);
    return 0;
}

static int messages_to_oneself_that_differ_are_named(struct plait_comm **comm, uint32_t rank, void *arg)
{
    int32_t in[8] = { 0 }, out[8] = { 0 };

    CHECK(plait_group_start() == PLAIT_OK);
    CHECK(plait_send(*comm, in, 4, PLAIT_INT32, rank, NULL) == PLAIT_OK);
    CHECK(plait_recv(*comm, out, 8, PLAIT_INT32, rank, NULL) == PLAIT_OK);
    CHECK(plait_group_end() != PLAIT_OK && strstr(plait_last_error(), "4 int32, rank ") != NULL);
    CHECK(plait_comm_destroy(*comm) != PLAIT_OK);
    *comm = NULL;
    return 0;
}

static void messages_that_differ_are_named_on_both_ranks(void **state)
{
    static struct difference all[] = {
        { 4, 5, PLAIT_INT32, "rank 0 sends 4 int32, rank 1 receives 5 int32" },
        { 4, 4, PLAIT_FLOAT32, "rank 0 sends 4 float32, rank 1 receives 4 int32" },
        { 4, 4, PLAIT_UINT32, "rank 0 sends 4 uint32, rank 1 receives 4 int32" },
        { 0, 1, PLAIT_INT32, "rank 0 sends 0 int32, rank 1 receives 1 int32" },
        { 400000, 300000, PLAIT_INT32, "rank 0 sends 400000 int32, rank 1 receives 300000 int32" },
    };

    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        run_both(3, differ, &all[i]);
}

enum absence { DIES, LEAVES, SILENT, NEVER_RECEIVES };

/* Rank 1 does not send. Rank 0 is told who, in time; rank 2's messages go on meanwhile and excuse nobody. */
static int miss(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const enum absence absence = *(const enum absence *)arg;
    enum { UNSTAGED = 2 * (int)(PLAIT_MESSAGE_STAGE * PLAIT_MESSAGE_SLICE / sizeof(int32_t)) }; /* not as a whole */
    static int32_t v[UNSTAGED];
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *r = NULL;
    enum plait_status status = PLAIT_OK;
    const double start = plait_clock();

    if (rank == 1) {
        usleep(50000);
        if (absence == DIES)
            _exit(0);
        while ((absence == SILENT || absence == NEVER_RECEIVES) && plait_barrier(*comm, NULL) == PLAIT_OK)
            ;
        plait_comm_destroy(*comm);
        *comm = NULL;
        return 0;
    }
    call.request = &r;
    call.deadline = absence == SILENT || absence == NEVER_RECEIVES ? 0.5 : 0;
    if (rank == 0 && absence == NEVER_RECEIVES)
        CHECK(plait_send(*comm, v, UNSTAGED, PLAIT_INT32, 1, &call) == PLAIT_OK);
    else if (rank == 0)
        CHECK(plait_recv(*comm, v, 4, PLAIT_INT32, 1, &call) == PLAIT_OK);
    while (status == PLAIT_OK && plait_clock() - start < LATE) /* without end: only the failure ends it */
        status = rank == 0 ? plait_recv(*comm, v + 10, 1, PLAIT_INT32, 2, NULL)
                           : plait_send(*comm, v + 10, 1, PLAIT_INT32, 0, NULL);
    CHECK(status != PLAIT_OK && status != PLAIT_ERR_ARG);
    if (rank == 0)
        CHECK(plait_wait(&r) == (absence >= SILENT ? PLAIT_ERR_TIMEOUT : PLAIT_ERR_PEER));
    CHECK(strstr(plait_last_error(), absence == DIES     ? "rank 1 (process"
                                     : absence == LEAVES ? "rank 1 left"
                                     : absence == NEVER_RECEIVES
                                         ? "rank 1 does not receive message #1 from rank 0"
                                         : "rank 1 does not send message #1 to rank 0") != NULL);
    plait_comm_destroy(*comm);
    *comm = NULL;
    return 0;
}

static void who_does_not_send_or_receive_is_named_in_time(void **state)
{
    for (enum absence a = DIES; a <= NEVER_RECEIVES; a++) {
        const struct ranks r = {
            .nprocess = 3, .nthread = 1, .limit = 2 * LATE, .body = miss, .arg = &a, .processes = true
        };
        assert_int_equal(ranks_run(&r), 0);
    }
}

/* ---- Leaving --------------------------------------------------------------------------------------------- */

/* The process of rank 0, by which ranks of several hosts hear of each other, has ended. */
static void wait_for_the_end_of_rank_0(const struct plait_comm *comm)
{
    for (const double until = plait_clock() + 30;
         comm->remote != NULL && !plait_remote_is_over(comm->remote) && plait_clock() < until;)
        usleep(1000);
}

/* A network that does not send the first acknowledgement before this rank leaves. */
static struct plait_net_plugin slow;
static const struct plait_net_plugin *prompt;
static bool leaves;
static struct {
    struct plait_net_endpoint *to;
    const void *header;
    enum plait_net_state *state;
} held;

static void send_slowly(struct plait_net_endpoint *to, const void *header, const void *data, size_t bytes,
                        enum plait_net_state *state)
{
    if (data != NULL || held.state != NULL) {
        prompt->send(to, header, data, bytes, state);
        return;
    }
    held.to = to;
    held.header = header;
    held.state = state;
    *state = PLAIT_NET_BUSY;
}

static bool progress_slowly(struct plait_net *net)
{
    if (leaves && held.to != NULL)
        prompt->send(held.to, held.header, NULL, 0, held.state);
    if (leaves)
        held.to = NULL;
    return prompt->progress(net);
}

static void acknowledge_late(struct plait_port *port)
{
    prompt = port->plugin;
    slow = *prompt;
    slow.send = send_slowly;
    slow.progress = progress_slowly;
    port->plugin = &slow;
}

static int leave_after_rank_0(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t sent = *(const uint32_t *)arg;
    int32_t v[PLAIT_WINDOW] = { 0 };

    if (rank != 1 && rank != 2) /* of two hosts */
        return 0;
    if (rank == 2 && (*comm)->port != NULL)
        acknowledge_late((*comm)->port);
    for (uint32_t k = 0; rank == 1 && k < sent; k++)
        CHECK(plait_send(*comm, &v[k], 1, PLAIT_INT32, 2, NULL) == PLAIT_OK);
    wait_for_the_end_of_rank_0(*comm);
    for (uint32_t k = 0; rank == 2 && k < sent; k++)
        CHECK(plait_recv(*comm, &v[k], 1, PLAIT_INT32, 1, NULL) == PLAIT_OK);
    leaves = true;
    /* Rank 1 waited there until the deadline: nobody said that all were taken. */
    CHECK(plait_comm_destroy(*comm) == PLAIT_OK);
    *comm = NULL;
    return 0;
}

/* That one was taken is still on its way, or that others were is not said yet. */
static void who_leaves_has_said_what_it_has_taken(void **state)
{
    for (uint32_t sent = 1; sent < PLAIT_WINDOW; sent += PLAIT_WINDOW - 2) {
        const struct ranks r = {
            .nprocess = 4, .nthread = 1, .body = leave_after_rank_0, .arg = &sent, .processes = true
        };
        assert_int_equal(ranks_run(&r), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_any_size_arrive),
        cmocka_unit_test(a_message_is_sent_when_all_of_its_slices_are),
        cmocka_unit_test(who_receives_a_long_message_sends_between_its_slices),
        cmocka_unit_test(a_message_outlives_its_sender),
        cmocka_unit_test(small_messages_leave_no_records),
        test_of_both(messages_and_collectives_do_not_wait_for_each_other, 3),
        cmocka_unit_test(a_rank_may_send_to_itself),
        cmocka_unit_test(rings_and_all_to_alls_in_groups),
        cmocka_unit_test(a_thousand_random_messages_in_a_group),
        test_of_ranks(wrong_arguments_are_named_and_change_nothing, 2, 1),
        cmocka_unit_test(messages_that_differ_are_named_on_both_ranks),
        test_of_both(messages_to_oneself_that_differ_are_named, 1),
        cmocka_unit_test(who_does_not_send_or_receive_is_named_in_time),
        cmocka_unit_test(who_leaves_has_said_what_it_has_taken),
    };
    return cmocka_run_group_tests_name("messages", tests, NULL, NULL);
}
