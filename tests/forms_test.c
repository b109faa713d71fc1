/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every collective by every algorithm in every form: request, persistent, group, blocking; many pending at
 * once, messages among them; by processes, threads, and threads that hold several ranks. Results are checked against
 * values that are known, and that a comm's operations end in order.
 */
#include "collective.h"
#include "random.h"
#include "ranks.h"
#include "request/request.h"
#include "tier.h"
#include "unit.h"

#include <plait/group.h>
#include <plait/message.h>
#include <plait/request.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_HELD 6
#define BATCH     12 /* operations pending at once */

enum form { REQUEST, PERSISTENT, GROUP, BLOCKING, NFORM };
enum order { FORWARDS, BACKWARDS, ANY, TEST, ALL, NORDER };

struct play { /* one test, for all ranks */
    uint32_t held, nrank;
    uint64_t seed;
    const struct collective *trial; /* all of them in this order, or NULL: drawn */
    size_t n;
};

struct op {
    bool message;
    enum form form;
    struct collective c;
    uint32_t from, to; /* of a message: of c.count elements of c.type */
};

struct act { /* an op at a rank */
    char *in, *out;
    size_t give, get; /* elements */
    struct plait_request *request;
};

struct actor { /* a thread with its ranks */
    const struct play *play;
    uint32_t first;
    struct plait_comm *comm[MOST_HELD];
    struct op ops[BATCH];
    uint32_t nop;
    struct act act[MOST_HELD][BATCH];
    struct plait_request *pending[MOST_HELD * BATCH]; /* compact, in the order of the calls of each rank */
    struct act *of[MOST_HELD * BATCH];
    size_t npending;
    uint64_t common, own; /* random numbers: equal on all ranks; this thread's */
};

static uint32_t below(uint64_t *state, uint32_t n)
{
    return (uint32_t)(random_next(state) % n);
}

/* ---- Buffers --------------------------------------------------------------------------------------------- */

/* A message's content follows from sender and receiver. */
static void fill_message(const struct op *op, char *out)
{
    for (size_t i = 0; i < op->c.count * plait_dtype_size(op->c.type); i++)
        out[i] = (char)(i * 7 + op->from * 31 + op->to * 17 + op->c.count);
}

static int take_buffers(const struct actor *a, const struct op *op, uint32_t rank, struct act *act)
{
    const struct collective *c = &op->c;
    const struct plait_geometry g = plait_geometry_of(c->coll, a->play->nrank, c->root, rank, 1);
    const size_t size = plait_dtype_size(c->type), room = a->play->nrank * c->count * size + 1;

    *act = (struct act){ .in = malloc(room), .out = malloc(room) };
    CHECK(act->in != NULL && act->out != NULL);
    memset(act->out, 0x7b, room);
    if (op->message) {
        act->give = op->from == rank ? c->count : 0;
        act->get = op->to == rank ? c->count : 0;
        if (op->from == rank)
            fill_message(op, act->in);
        return 0;
    }
    act->give = collective_elements(c, &g.in);
    act->get = collective_elements(c, &g.out);
    if (act->give > 0)
        collective_fill(c, a->play->nrank, rank, act->in);
    return 0;
}

static int look_at_result(const struct actor *a, const struct op *op, uint32_t rank, const struct act *act)
{
    const struct collective *c = &op->c;
    const size_t size = plait_dtype_size(c->type), room = a->play->nrank * c->count * size + 1;
    char *want = malloc(room), *scratch = malloc(room);

    CHECK(want != NULL && scratch != NULL);
    if (op->message)
        fill_message(op, want);
    else
        collective_want(c, a->play->nrank, rank, scratch, want);
    if (memcmp(act->out, want, act->get * size) != 0) {
        fprintf(stderr, "rank %u of %u, seed %llu: %s:%s %s %s count %zu root %u slice %zu, form %d is wrong\n", rank,
                a->play->nrank, (unsigned long long)a->play->seed, op->message ? "message" : plait_coll_name(c->coll),
                c->spec, plait_dtype_name(c->type), plait_op_name(c->op), c->count, c->root, c->slice, (int)op->form);
        CHECK(memcmp(act->out, want, act->get * size) == 0);
    }
    free(want);
    free(scratch);
    return 0;
}

/* ---- Beginning ------------------------------------------------------------------------------------------- */

static int send_or_receive(const struct actor *a, const struct op *op, uint32_t k, struct act *act, bool send)
{
    const uint32_t rank = a->first + k;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *other = NULL;

    if (op->form != GROUP)
        call.request = send ? &act->request : &other;
    if (op->form == PERSISTENT)
        call.persistent = 1;
    if (send)
        CHECK(plait_send(a->comm[k], act->in, op->c.count, op->c.type, op->to, &call) == PLAIT_OK);
    else
        CHECK(plait_recv(a->comm[k], act->out, op->c.count, op->c.type, op->from, &call) == PLAIT_OK);
    if (op->form == PERSISTENT)
        CHECK(plait_start(*call.request) == PLAIT_OK);
    if (!send)
        act->request = other;
    return 0;
}

/* A rank's own messages to itself are sent in the form of a request that is taken here. */
static int begin_message(const struct actor *a, const struct op *op, uint32_t k, struct act *act)
{
    const uint32_t rank = a->first + k;
    struct op own = *op;

    if (op->from == rank && op->to == rank) {
        own.form = op->form == GROUP ? GROUP : REQUEST;
        if (send_or_receive(a, &own, k, act, true) != 0)
            return 1;
        struct plait_request *sent = act->request;
        act->request = NULL;
        if (send_or_receive(a, &own, k, act, false) != 0)
            return 1;
        CHECK(own.form == GROUP || plait_wait(&sent) == PLAIT_OK);
        return 0;
    }
    if (op->from == rank)
        return send_or_receive(a, op, k, act, true);
    return op->to == rank ? send_or_receive(a, op, k, act, false) : 0;
}

static int begin(const struct actor *a, const struct op *op, uint32_t k, struct act *act)
{
    const uint32_t rank = a->first + k;
    struct plait_call call = PLAIT_CALL_DEFAULT;

    if (op->message)
        return begin_message(a, op, k, act);
    if (op->form == REQUEST || op->form == PERSISTENT)
        call.request = &act->request;
    call.persistent = op->form == PERSISTENT;
    CHECK(collective_call(a->comm[k], &op->c, act->give > 0 ? act->in : NULL, act->get > 0 ? act->out : NULL, call) ==
          PLAIT_OK);
    if (op->form == PERSISTENT) /* twice: the second run gives the same */
        CHECK(plait_run_again(act->request) == PLAIT_OK && plait_start(act->request) == PLAIT_OK);
    return 0;
}

/* ---- Ending ---------------------------------------------------------------------------------------------- */

/* When one of a rank's collectives has ended, all those before it have. */
static int look_at_order(const struct actor *a, uint32_t k)
{
    const uint32_t rank = a->first + k;
    bool open = false;

    for (uint32_t i = a->nop; i-- > 0;) {
        const struct plait_request *r = a->act[k][i].request;
        if (a->ops[i].message || r == NULL || a->ops[i].form != REQUEST)
            continue;
        const bool ended = plait_request_has_ended(r);
        CHECK(!open || ended);
        open = ended;
    }
    return 0;
}

static void collect(struct actor *a)
{
    a->npending = 0;
    for (uint32_t i = 0; i < a->nop; i++)
        for (uint32_t k = 0; k < a->play->held; k++)
            if (a->act[k][i].request != NULL) {
                a->pending[a->npending] = a->act[k][i].request;
                a->of[a->npending++] = &a->act[k][i];
            }
}

/* What was taken is no longer the act's, unless it is persistent. */
static void took(struct actor *a, size_t i)
{
    if (a->pending[i] == NULL)
        a->of[i]->request = NULL;
}

static int end_all(struct actor *a)
{
    const uint32_t rank = a->first;
    const enum order order = (enum order)below(&a->own, NORDER);
    size_t left, index;

    collect(a);
    left = a->npending;
    if (order == ALL) {
        CHECK(plait_wait_all(a->pending, a->npending) == PLAIT_OK);
        for (size_t i = 0; i < a->npending; i++)
            took(a, i);
        return 0;
    }
    for (size_t turn = 0; left > 0; turn++) {
        for (uint32_t k = 0; k < a->play->held; k++)
            if (look_at_order(a, k) != 0)
                return 1;
        if (order == ANY) {
            CHECK(plait_wait_any(a->pending, a->npending, &index) == PLAIT_OK && index < a->npending);
        } else if (order == TEST) {
            int done;
            index = turn % a->npending;
            if (a->of[index]->request == NULL || plait_request_state(a->of[index]->request) == PLAIT_REQUEST_IDLE)
                continue;
            CHECK(plait_test(&a->pending[index], &done) == PLAIT_OK);
            if (!done)
                continue;
        } else {
            index = order == FORWARDS ? turn : a->npending - 1 - turn;
            CHECK(plait_wait(&a->pending[index]) == PLAIT_OK);
        }
        took(a, index);
        left--;
    }
    return 0;
}

/* ---- Batches --------------------------------------------------------------------------------------------- */

static int begin_all(struct actor *a)
{
    const uint32_t rank = a->first;

    for (uint32_t i = 0; i < a->nop; i++) {
        const struct op *op = &a->ops[i];
        CHECK(op->form != GROUP || plait_group_start() == PLAIT_OK);
        for (uint32_t k = 0; k < a->play->held; k++)
            if (begin(a, op, k, &a->act[k][i]) != 0)
                return 1;
        CHECK(op->form != GROUP || plait_group_end() == PLAIT_OK);
    }
    return 0;
}

static int run_batch(struct actor *a)
{
    const uint32_t rank = a->first;

    for (uint32_t k = 0; k < a->play->held; k++)
        for (uint32_t i = 0; i < a->nop; i++)
            if (take_buffers(a, &a->ops[i], a->first + k, &a->act[k][i]) != 0)
                return 1;
    if (begin_all(a) != 0 || end_all(a) != 0)
        return 1;
    for (uint32_t k = 0; k < a->play->held; k++) {
        for (uint32_t i = 0; i < a->nop; i++) {
            struct act *act = &a->act[k][i];
            CHECK(plait_request_free(&act->request) == PLAIT_OK);
            if (look_at_result(a, &a->ops[i], a->first + k, act) != 0)
                return 1;
            free(act->in);
            free(act->out);
        }
    }
    return 0;
}

/*
 * Where a thread holds several ranks they can only begin together: nothing blocks but in a group, and a persistent
 * collective runs twice, the first time blocking. Of messages ranks may send to each other at the same time.
 */
static enum form fit_form(const struct actor *a, enum form form, bool message)
{
    const bool several = a->play->held > 1;
    const bool blocks = form == BLOCKING ? several || message : form == PERSISTENT && several && !message;

    return blocks ? REQUEST : form;
}

static void draw(struct actor *a)
{
    static const enum plait_dtype types[] = { PLAIT_INT32, PLAIT_FLOAT32, PLAIT_BFLOAT16, PLAIT_UINT8 };
    uint64_t *s = &a->common;

    a->nop = 1 + below(s, BATCH);
    for (uint32_t i = 0; i < a->nop; i++) {
        struct op *op = &a->ops[i];
        *op = (struct op){ .message = below(s, 3) == 0,
                           .c = { .coll = (enum plait_coll)below(s, PLAIT_NCOLL),
                                  .type = types[below(s, 4)],
                                  .op = (enum plait_op)below(s, 4),
                                  .root = below(s, a->play->nrank),
                                  .slice = below(s, 2) * 4096 },
                           .from = below(s, a->play->nrank),
                           .to = below(s, a->play->nrank) };
        op->form = fit_form(a, (enum form)below(s, NFORM), op->message);
        op->c.count = below(s, 4) == 0 ? below(s, 20000) : below(s, 40);
        if (!op->message && op->c.coll == PLAIT_BARRIER)
            op->c = (struct collective){ .coll = PLAIT_BARRIER, .type = PLAIT_INT32 };
    }
}

/* The next trials of the list, in forms that take turns. */
static void pick(struct actor *a, size_t at)
{
    for (a->nop = 0; a->nop < BATCH && at < a->play->n; a->nop++, at++)
        a->ops[a->nop] = (struct op){ .c = a->play->trial[at],
                                      .form = fit_form(a, (enum form)((at + a->play->seed) % NFORM), false) };
}

static int act_all(struct actor *a)
{
    const size_t n = a->play->trial != NULL ? a->play->n : a->play->n * BATCH;

    for (size_t at = 0; at < n; at += BATCH) {
        if (a->play->trial != NULL)
            pick(a, at);
        else
            draw(a);
        if (run_batch(a) != 0)
            return 1;
    }
    return 0;
}

/* ---- Ranks ----------------------------------------------------------------------------------------------- */

static struct ranks ranks;

static int body(struct plait_comm **none, uint32_t thread, void *arg)
{
    const struct play *play = arg;
    struct actor *a = calloc(1, sizeof *a);
    struct plait_comm_options o = ranks_options(0);
    const uint32_t rank = thread * play->held;

    CHECK(a != NULL && plait_group_start() == PLAIT_OK);
    a->play = play;
    a->first = rank;
    a->common = play->seed;
    a->own = play->seed + 1000 + thread;
    o.nrank = play->nrank;
    for (uint32_t k = 0; k < play->held; k++) {
        o.rank = rank + k;
        CHECK(plait_comm_create(&o, &a->comm[k]) == PLAIT_OK);
    }
    CHECK(plait_group_end() == PLAIT_OK);
    for (uint32_t k = 0; k < play->held; k++)
        CHECK(plait_comm_rank(a->comm[k]) == rank + k);
    if (act_all(a) != 0)
        return 1;
    for (uint32_t k = 0; k < play->held; k++)
        CHECK(plait_comm_destroy(a->comm[k]) == PLAIT_OK);
    free(a);
    return 0;
}

/* `nprocess` processes of `nthread` threads that hold `held` ranks each. */
static void play(struct play p, uint32_t nprocess, uint32_t nthread, uint32_t held)
{
    p.held = held;
    p.nrank = nprocess * nthread * held;
    ranks = (struct ranks){
        .nprocess = nprocess, .nthread = nthread, .limit = full() ? 1200 : 240, .body = body, .arg = &p, .no_comm = true
    };
    assert_int_equal(ranks_run(&ranks), 0);
}

static uint64_t draw_seed(void)
{
    const char *given = getenv("PLAIT_TEST_SEED");
    const uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);

    printf("PLAIT_TEST_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

/* ---- Tests ----------------------------------------------------------------------------------------------- */

struct trials {
    struct collective trial[4096];
    size_t n;
};

static void add(struct trials *all, enum plait_coll coll, const char *spec, uint32_t nrank)
{
    static const size_t counts[] = { 0, 1, 13, 1000, 4099 };
    const bool rooted = plait_geometry_of(coll, nrank, 0, 0, 1).rooted;

    for (size_t i = 0; i < (coll == PLAIT_BARRIER ? 1 : 5) && all->n < 4096; i++) {
        struct collective *c = &all->trial[all->n++];
        *c = (struct collective){ .coll = coll,
                                  .type = i % 2 ? PLAIT_INT32 : PLAIT_FLOAT16,
                                  .op = (enum plait_op)(i % 4),
                                  .root = rooted ? (uint32_t)i % nrank : 0,
                                  .count = coll == PLAIT_BARRIER ? 0 : counts[i],
                                  .slice = i == 4 ? 1000 : 0 };
        if (coll == PLAIT_BARRIER)
            *c = (struct collective){ .coll = coll, .type = PLAIT_INT32 };
        snprintf(c->spec, sizeof c->spec, "%s", spec);
    }
}

static void every_algorithm(uint32_t nprocess, uint32_t nthread, uint32_t held, uint64_t seed)
{
    static struct trials all;
    const uint32_t nrank = nprocess * nthread * held;

    all.n = 0;
    for (int coll = 0; coll < PLAIT_NCOLL; coll++)
        add(&all, (enum plait_coll)coll, "", nrank);
    for (const struct plait_alg *const *a = plait_algs; *a != NULL; a++) {
        struct plait_shape shape = { .coll = (*a)->coll, .nrank = nrank };
        const struct plait_alg *found;
        if (plait_alg_find(plait_algs, (*a)->name, &shape, &found) == PLAIT_OK && found == *a)
            add(&all, (*a)->coll, (*a)->name, nrank);
    }
    play((struct play){ .seed = seed, .trial = all.trial, .n = all.n }, nprocess, nthread, held);
}

static void every_algorithm_is_right_in_every_form(void **state)
{
    const uint64_t seed = draw_seed();

    for (uint32_t n = 1; n <= 6; n += full() ? 1 : 2) { /* seeds that differ in every way modulo NFORM */
        every_algorithm(n, 1, 1, seed + n);
        every_algorithm(1, n, 1, seed + 11 + n);
        every_algorithm(1, 1, n, seed + 22 + n);
    }
    every_algorithm(2, 1, 2, seed + 30);
    every_algorithm(2, 2, 1, seed + 31);
}

static void forms_mix_at_random(void **state)
{
    const uint64_t seed = draw_seed();
    const struct play p = { .n = full() ? 300 : 12 };

    for (uint32_t i = 0; i < (full() ? 6 : 1); i++)
        for (uint32_t n = 1; n <= 6; n++) {
            struct play each = p;
            each.seed = seed + 100 * i + n;
            if ((n + i + seed) % 3 == 0 || full())
                play(each, n, 1, 1);
            if ((n + i + seed) % 3 == 1 || full())
                play(each, 1, n, 1);
            if ((n + i + seed) % 3 == 2 || full())
                play(each, 1, 1, n);
        }
    play((struct play){ .n = p.n, .seed = seed + 7 }, 2, 1, 3);
    play((struct play){ .n = p.n, .seed = seed + 8 }, 2, 2, 2);
}

/* ---- Blocks of different sizes --------------------------------------------------------------------------- */

#define ROOM 600 /* elements */

/* Elements that rank `from` gives to rank `to`, and the first of them. */
static size_t part(uint32_t from, uint32_t to, uint32_t k)
{
    return (from * 5 + to * 3 + k) % 7;
}

static int32_t value(uint32_t from, uint32_t to, uint32_t k)
{
    return (int32_t)(from * 100 + to * 10 + k);
}

struct vform { /* an operation at this rank: its arrays are the caller's no longer than the call */
    size_t give[16], get[16];
    int32_t in[ROOM], out[ROOM];
    struct plait_request *request;
};

/* All collectives as one: rank a gives b what `part` says, where the collective has such a part. */
static bool goes(enum plait_coll coll, uint32_t root, uint32_t from, uint32_t to)
{
    return (coll != PLAIT_GATHER || to == root) && (coll != PLAIT_SCATTER || from == root);
}

static enum plait_status call_sized(struct plait_comm *comm, enum plait_coll coll, uint32_t root, struct vform *s,
                                    const struct plait_call *call)
{
    switch (coll) {
    case PLAIT_REDUCE_SCATTER:
        return plait_reduce_scatterv(comm, s->in, s->out, s->give, NULL, PLAIT_INT32, PLAIT_SUM, call);
    case PLAIT_ALLGATHER:
        return plait_allgatherv(comm, s->in, s->out, s->get, NULL, PLAIT_INT32, call);
    case PLAIT_GATHER:
        return plait_gatherv(comm, s->in, s->give[root], s->out, s->get, NULL, PLAIT_INT32, root, call);
    case PLAIT_SCATTER:
        return plait_scatterv(comm, s->in, s->give, NULL, s->out, s->get[root], PLAIT_INT32, root, call);
    default:
        return plait_alltoallv(comm, s->in, s->give, NULL, s->out, s->get, NULL, PLAIT_INT32, call);
    }
}

/* Sizes: of a part of reduce-scatter follow from who gets it, of all-gather from who gives it. */
static void size_up(struct vform *s, enum plait_coll coll, uint32_t root, uint32_t nrank, uint32_t rank, uint32_t k)
{
    size_t at = 0;

    for (uint32_t p = 0; p < nrank; p++) {
        s->give[p] = part(coll == PLAIT_REDUCE_SCATTER ? 0 : rank, coll == PLAIT_ALLGATHER ? 0 : p, k);
        s->get[p] = part(coll == PLAIT_REDUCE_SCATTER ? 0 : p, coll == PLAIT_ALLGATHER ? 0 : rank, k);
        for (size_t i = 0; i < s->give[p] && (coll != PLAIT_ALLGATHER || p == 0) && goes(coll, root, rank, p); i++)
            s->in[at++] = value(rank, coll == PLAIT_ALLGATHER ? 0 : p, k);
    }
}

static int look_at_sized(const struct vform *s, enum plait_coll coll, uint32_t root, uint32_t nrank, uint32_t rank,
                         uint32_t k)
{
    const int32_t *out = s->out;
    int32_t sum = 0;

    for (uint32_t p = 0; p < nrank; p++)
        sum += value(p, rank, k);
    for (uint32_t p = 0; p < (coll == PLAIT_REDUCE_SCATTER ? 1 : nrank); p++) {
        const size_t n = part(coll == PLAIT_REDUCE_SCATTER ? 0 : p, coll == PLAIT_ALLGATHER ? 0 : rank, k);
        for (size_t i = 0; i < n && goes(coll, root, p, rank); i++, out++)
            CHECK(*out == (coll == PLAIT_REDUCE_SCATTER ? sum : value(p, coll == PLAIT_ALLGATHER ? 0 : rank, k)));
    }
    return 0;
}

static int run_sized(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static const enum plait_coll colls[] = { PLAIT_REDUCE_SCATTER, PLAIT_ALLGATHER, PLAIT_GATHER, PLAIT_SCATTER,
                                             PLAIT_ALLTOALL };
    const uint32_t nrank = plait_comm_nrank(*comm);
    struct vform *s = calloc(5, sizeof *s);

    CHECK(s != NULL);
    for (uint32_t k = 0; k < 24; k++) {
        CHECK(k % 3 != 2 || plait_group_start() == PLAIT_OK);
        for (uint32_t i = 0; i < 5; i++) {
            struct plait_call call = PLAIT_CALL_DEFAULT;
            call.request = &s[i].request;
            size_up(&s[i], colls[i], k % nrank, nrank, rank, k);
            CHECK(call_sized(*comm, colls[i], k % nrank, &s[i], &call) == PLAIT_OK);
            memset(s[i].give, 0x77, sizeof s[i].give);
            memset(s[i].get, 0x77, sizeof s[i].get);
        }
        CHECK(k % 3 != 2 || plait_group_end() == PLAIT_OK);
        for (uint32_t i = 5; i-- > 0;)
            CHECK(plait_wait(&s[i].request) == PLAIT_OK &&
                  look_at_sized(&s[i], colls[i], k % nrank, nrank, rank, k) == 0);
    }
    free(s);
    return 0;
}

static void blocks_of_different_sizes_in_every_form(void **state)
{
    for (uint32_t n = 1; n <= 5; n += n < 3 ? 1 : 2) {
        const struct ranks processes = { .nprocess = n, .nthread = 1, .body = run_sized };
        const struct ranks threads = { .nprocess = 1, .nthread = n, .body = run_sized };
        assert_int_equal(ranks_run(&processes), 0);
        assert_int_equal(ranks_run(&threads), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_is_right_in_every_form),
        cmocka_unit_test(forms_mix_at_random),
        cmocka_unit_test(blocks_of_different_sizes_in_every_form),
    };
    return cmocka_run_group_tests_name("forms", tests, NULL, NULL);
}
