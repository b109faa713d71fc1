/* SPDX-License-Identifier: BSD-3-Clause */
/* What goes wrong is named: wrong arguments, ranks that differ, die, leave or stay away. */
#include "base/clock.h"
#include "bootstrap/bootstrap.h"
#include "child.h"
#include "comm/comm.h"
#include "failure/failure.h"
#include "operation/operation.h"
#include "places.h"
#include "progress/detector.h"
#include "progress/progress.h"
#include "tier.h"
#include "unit_ranks.h"
#include "until.h"

#include <plait/memory.h>
#include <plait/plan.h>
#include <plait/request.h>

#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define COUNT    5000
#define PATIENCE 2 /* seconds for which destroy waits, after a failure, for processes that have not noticed it */

static enum plait_status sum(struct plait_comm *comm, size_t count, const char *algorithm)
{
    static _Thread_local float in[COUNT], out[COUNT];
    struct plait_call call = PLAIT_CALL_DEFAULT;

    call.algorithm = algorithm;
    return plait_allreduce(comm, in, out, count, PLAIT_FLOAT32, PLAIT_SUM, &call);
}

static struct ranks ranks_of(uint32_t nprocess, uint32_t nthread, int (*body)(struct plait_comm **, uint32_t, void *),
                             void *arg)
{
    struct ranks r = { .nprocess = nprocess, .nthread = nthread, .body = body, .arg = arg, .options.deadline = 10 };
    return r;
}

/* ---- Wrong arguments ------------------------------------------------------------------------------- */

static int wrong_arguments_are_named_and_change_nothing(struct plait_comm **comm, uint32_t rank, void *arg)
{
    float v[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, w[8] = { 0 };
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_comm *c = *comm;
    struct plait_comm *other = NULL;
    struct plait_comm_count count;

    CHECK(plait_comm_duplicate(NULL, NULL, &other) == PLAIT_ERR_ARG && says("plait_comm_duplicate: comm is NULL"));
    CHECK(plait_comm_duplicate(c, NULL, NULL) == PLAIT_ERR_ARG && says("plait_comm_duplicate: out is NULL"));
    CHECK(plait_comm_count(NULL, 0, &count) == PLAIT_ERR_ARG && says("plait_comm_count: comm is NULL"));
    CHECK(plait_allreduce(NULL, v, w, 8, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_ERR_ARG && says("comm is NULL"));
    CHECK(plait_allreduce(c, NULL, w, 8, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_ERR_ARG &&
          says("in is NULL, but count is not 0"));
    CHECK(plait_allreduce(c, v, NULL, 8, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_ERR_ARG && says("out is NULL"));
    CHECK(plait_allreduce(c, v, w, SIZE_MAX / 2, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_ERR_ARG && says("count is"));
    CHECK(plait_allreduce(c, v, w, 8, (enum plait_dtype)77, PLAIT_SUM, NULL) == PLAIT_ERR_ARG && says("type is 77"));
    CHECK(plait_allreduce(c, v, w, 8, (enum plait_dtype) - 1, PLAIT_SUM, NULL) == PLAIT_ERR_ARG && says("type is -1"));
    CHECK(plait_allreduce(c, v, w, 8, PLAIT_FLOAT32, (enum plait_op)9, NULL) == PLAIT_ERR_ARG && says("op is 9"));
    CHECK(plait_allreduce(c, v, v + 2, 6, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_ERR_ARG && says("overlap"));
    call.size = 3;
    CHECK(plait_allreduce(c, v, w, 8, PLAIT_FLOAT32, PLAIT_SUM, &call) == PLAIT_ERR_ARG && says("call->size is 3"));
    call.size = sizeof call;
    call.algorithm = "rnig";
    CHECK(plait_allreduce(c, v, w, 8, PLAIT_FLOAT32, PLAIT_SUM, &call) == PLAIT_ERR_CONFIG &&
          says("did you mean 'ring'"));
    call.algorithm = "torus:5x7";
    CHECK(plait_allreduce(c, v, w, 8, PLAIT_FLOAT32, PLAIT_SUM, &call) == PLAIT_ERR_CONFIG && says("does not fit"));
    call.algorithm = "ring";
    call.reproducible = 1;
    CHECK(plait_allreduce(c, v, w, 8, PLAIT_FLOAT32, PLAIT_SUM, &call) == PLAIT_ERR_CONFIG && says("canonical order"));
    call = (struct plait_call)PLAIT_CALL_DEFAULT;
    call.deadline = -1;
    CHECK(plait_allreduce(c, v, w, 8, PLAIT_FLOAT32, PLAIT_SUM, &call) == PLAIT_ERR_ARG && says("deadline is -1"));
    call.deadline = 5; /* an equal call is remembered; its options are looked at nevertheless */
    CHECK(plait_allreduce(c, v, w, 8, PLAIT_FLOAT32, PLAIT_SUM, &call) == PLAIT_OK);
    call.deadline = -3;
    CHECK(plait_allreduce(c, v, w, 8, PLAIT_FLOAT32, PLAIT_SUM, &call) == PLAIT_ERR_ARG && says("deadline is -3"));
    CHECK(plait_barrier(c, &call) == PLAIT_ERR_ARG && says("deadline is -3"));
    memset(w, 0, sizeof w);
    CHECK(plait_mem_free(v) == PLAIT_ERR_ARG && says("plait_mem_alloc() did not return"));
    CHECK(plait_mem_alloc(0, (void **)&v) == PLAIT_ERR_ARG && says("bytes is 0"));
    for (int i = 0; i < 8; i++)
        CHECK(v[i] == (float)(i + 1) && w[i] == 0);
    /* Nothing changed: the comm still works. */
    CHECK(plait_allreduce(c, v, w, 8, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK);
    CHECK(w[7] == 16);
    return 0;
}

/* Which of the times it is, and what may be. */
static void a_wrong_time_is_the_one_that_is_named(void **state)
{
    const struct plait_comm_options good = { .size = sizeof good, .nrank = 1 };
    struct plait_comm_options late = good, silent = good, quiet = good;
    struct plait_comm *comm = NULL;

    late.timeout = 2e6;
    assert_int_equal(plait_comm_create(&late, &comm), PLAIT_ERR_ARG);
    assert_true(says("timeout is 2e+06; 0 (PLAIT_TIMEOUT holds) to 1e+06 seconds are allowed"));
    silent.deadline = -1;
    assert_int_equal(plait_comm_create(&silent, &comm), PLAIT_ERR_ARG);
    assert_true(says("deadline is -1; 0 (PLAIT_DEADLINE holds) to 1e+09 seconds are allowed"));
    quiet.warn = NAN;
    assert_int_equal(plait_comm_create(&quiet, &comm), PLAIT_ERR_ARG);
    assert_true(says("warn is nan; 0 (PLAIT_WARN holds) to inf seconds are allowed"));
}

static void wrong_options_are_named(void **state)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_comm *comm = NULL;
    struct plait_unique_id id = { "not an id" };

    assert_int_equal(plait_comm_create(NULL, &comm), PLAIT_ERR_ARG);
    assert_int_equal(plait_comm_create(&o, &comm), PLAIT_ERR_ARG);
    assert_true(says("nrank is 0"));
    o.nrank = 2;
    o.rank = 2;
    assert_int_equal(plait_comm_create(&o, &comm), PLAIT_ERR_ARG);
    assert_true(says("rank is 2, but nrank is 2"));
    o.rank = 1;
    assert_int_equal(plait_comm_create(&o, &comm), PLAIT_ERR_ARG);
    assert_true(says("id is NULL"));
    o.id = &id;
    assert_int_equal(plait_comm_create(&o, &comm), PLAIT_ERR_ARG);
    assert_true(says("plait_unique_id_create"));
    assert_null(comm);
    assert_int_equal(plait_comm_destroy(NULL), PLAIT_OK);
}

/* ---- Ranks that differ ----------------------------------------------------------------------------- */

#define SAME     SIZE_MAX
#define ONE_LESS (SIZE_MAX - 1)

struct difference { /* what rank 1 calls while the others sum `usual` floats */
    const char *text;
    size_t count;
    enum plait_dtype type;
    enum plait_op op;
    const char *algorithm;
    bool barrier;
    uint32_t mark;
};

static const struct difference differences[] = {
    { "count is", ONE_LESS, PLAIT_FLOAT32, PLAIT_SUM, NULL, false, 0 },
    { "count is", 3, PLAIT_FLOAT32, PLAIT_SUM, NULL, false, 0 },
    { "type is", SAME, PLAIT_INT32, PLAIT_SUM, NULL, false, 0 },
    { "operator is", SAME, PLAIT_FLOAT32, PLAIT_MAX, NULL, false, 0 },
    { "algorithm is", SAME, PLAIT_FLOAT32, PLAIT_SUM, "ring", false, 0 },
    { "collective is", 0, PLAIT_FLOAT32, PLAIT_SUM, NULL, true, 0 },
    { "call->mark is", SAME, PLAIT_FLOAT32, PLAIT_SUM, NULL, false, 7 },
};

/* In the engine; without it, beside the word (up to 14) and in lines of their own. */
static const size_t usual_counts[] = { COUNT, 1, 14, 15, 100 };

struct deviation {
    const struct difference *difference;
    size_t usual;
};

static enum plait_status differ(struct plait_comm *comm, const struct deviation *v)
{
    static _Thread_local float in[COUNT], out[COUNT];
    const struct difference *d = v->difference;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    const size_t count = d->count == SAME ? v->usual : d->count == ONE_LESS ? v->usual - 1 : d->count;

    if (d->barrier)
        return plait_barrier(comm, NULL);
    call.algorithm = d->algorithm;
    call.mark = d->mark;
    return plait_allreduce(comm, in, out, count, d->type, d->op, &call);
}

static int one_rank_differs(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct deviation *v = arg;
    enum plait_status status;

    status = sum(*comm, v->usual, NULL);
    CHECK(status == PLAIT_OK ||
          status == PLAIT_ERR_MISMATCH); /* a late rank may be told of the second call in the first */
    if (status == PLAIT_OK)
        status = rank == 1 ? differ(*comm, v) : sum(*comm, v->usual, NULL);
    /* In the engine it may be done before another rank sees the difference: the next call tells. */
    CHECK(status != PLAIT_OK || v->usual == COUNT);
    if (status == PLAIT_OK)
        status = sum(*comm, v->usual, NULL);
    CHECK(status == PLAIT_ERR_MISMATCH);
    CHECK(says(v->difference->text) && says("rank 1"));
    CHECK(sum(*comm, v->usual, NULL) == PLAIT_ERR_FAILED && says("failed earlier"));
    CHECK(plait_comm_destroy(*comm) == PLAIT_ERR_MISMATCH);
    *comm = NULL;
    return 0;
}

static void a_rank_that_calls_otherwise_is_named_with_the_field(void **state)
{
    for (size_t i = 0; i < sizeof differences / sizeof *differences; i++)
        for (size_t k = 0; k < sizeof usual_counts / sizeof *usual_counts; k++) {
            struct deviation v = { &differences[i], usual_counts[k] };
            const struct ranks processes = ranks_of(3, 1, one_rank_differs, &v);
            const struct ranks threads = ranks_of(1, 3, one_rank_differs, &v);
            if (full() || (i + k) % 2 == 0)
                assert_int_equal(ranks_run(&processes), 0);
            if (full() || (i + k) % 2 == 1)
                assert_int_equal(ranks_run(&threads), 0);
        }
}

/* Never asked for. */
static bool fits_nothing(const struct plait_alg *self, const struct plait_shape *s)
{
    (void)self, (void)s;
    return false;
}

static void emit_nothing(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s,
                         uint32_t me)
{
    (void)self, (void)b, (void)s, (void)me;
}

static struct plait_claim claim_nothing(const struct plait_alg *self, const struct plait_shape *s)
{
    (void)self, (void)s;
    return (struct plait_claim){ 0 };
}

#define ALGORITHM(its_name)                                                                                        \
    {                                                                                                              \
        .name = (its_name), .params = "", .text = "", .source = "", .applies = fits_nothing, .emit = emit_nothing, \
        .claim = claim_nothing                                                                                     \
    }
static const struct plait_alg one_algorithm = ALGORITHM("one"), another_algorithm = ALGORITHM("another");
#undef ALGORITHM

struct discord {                          /* what rank 2 sets; no rank sets what is empty */
    const char *text;                     /* of the error; two hashes follow where it ends with "is " */
    const char *variable, *usual, *other; /* of the environment */
    int reproducible;
    enum plait_round round;
    uint32_t node;
    const struct plait_alg *algorithm;
};

static const struct discord discords[] = {
    { .text = "reproducible is 0 on rank 0 and 1 on rank 2", .reproducible = 1 },
    { .text = "round is 0 on rank 0 and 1 on rank 2", .round = PLAIT_ROUND_ONCE },
    { .text = "round is 0 on rank 0 and 2 on rank 2", .round = PLAIT_ROUND_HOP },
    { .text = "PLAIT_SLICE is 65536 on rank 0 and 131072 on rank 2",
      .variable = "PLAIT_SLICE",
      .usual = "64K",
      .other = "128K" },
    { .text = "PLAIT_NCCL_FUSION is 0 on rank 0 and 4096 on rank 2",
      .variable = "PLAIT_NCCL_FUSION",
      .usual = "0",
      .other = "4K" },
    { .text = "PLAIT_ALGO is allreduce:ring on rank 0 and allreduce:binomial on rank 2",
      .variable = "PLAIT_ALGO",
      .usual = "allreduce:ring",
      .other = "allreduce:binomial" },
    { .text = "the node map (hash) is ", .node = 1 },
    { .text = "the hash of algorithms (give all ranks the same PLAIT_PLANS and options.algorithms) is ",
      .algorithm = &another_algorithm },
};

/* "is N on rank 0 and M on rank 2" where the text ends */
static bool names_both(const char *text)
{
    const char *at = strstr(plait_last_error(), text);
    unsigned long long here, there;

    return at != NULL && sscanf(at + strlen(text), "%llu on rank 0 and %llu on rank", &here, &there) == 2 &&
           here != there && says(" on rank 2");
}

static int options_differ(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct discord *d = arg;
    const bool differs = rank == 2;
    const uint32_t nodes[] = { 0, 0, differs ? d->node : 0 };
    const struct plait_alg *const algorithms[] = { differs && d->algorithm != NULL ? d->algorithm : &one_algorithm,
                                                   NULL };
    struct plait_comm_options o = ranks_options(rank);

    if (d->variable != NULL)
        CHECK(setenv(d->variable, differs ? d->other : d->usual, 1) == 0);
    o.reproducible = differs ? d->reproducible : 0;
    o.round = differs ? d->round : PLAIT_ROUND_DEFAULT;
    o.node = nodes;
    o.algorithms = algorithms;
    CHECK(plait_comm_create(&o, comm) == PLAIT_ERR_MISMATCH);
    CHECK(says(d->text));
    CHECK(d->node + (d->algorithm != NULL) == 0 || names_both(d->text));
    return 0;
}

static void options_and_settings_that_differ_are_named_at_creation(void **state)
{
    for (size_t i = 0; i < sizeof discords / sizeof *discords; i++) {
        struct ranks r = ranks_of(3, 1, options_differ, (void *)(uintptr_t)&discords[i]);
        r.no_comm = true;
        r.processes = true; /* each has an environment */
        assert_int_equal(ranks_run(&r), 0);
    }
}

/* ---- Ranks that die, leave or stay away ------------------------------------------------------------- */

static int one_rank_dies(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const char *algorithm = arg;
    enum plait_status status = sum(*comm, COUNT, algorithm);

    if (rank == 1)
        raise(SIGKILL);
    if (status == PLAIT_OK) /* a late rank may be told of the second call in the first */
        status = sum(*comm, COUNT, algorithm);
    CHECK(status == PLAIT_ERR_PEER);
    CHECK(says("rank 1 (process "));
    CHECK(says(RANKS_ON_HOSTS ? "died after operation #" : "died after operation #1")); /* or what was known of it */
    return plait_comm_destroy(*comm) == PLAIT_ERR_PEER ? (*comm = NULL, 0) : 1;
}

static void a_rank_that_dies_is_named(void **state)
{
    static const char *const algorithms[] = { NULL, "ring", "binomial", "one-shot" };

    for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++) {
        struct ranks r = ranks_of(4, 1, one_rank_dies, (void *)(uintptr_t)algorithms[i]);
        r.processes = true;
        assert_int_equal(ranks_run(&r), 1); /* the killed one */
    }
}

static int one_rank_dies_in_a_request(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const size_t count = (size_t)4 << 20;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *request = NULL;
    float *data = calloc(count, sizeof *data);

    CHECK(data != NULL);
    CHECK(plait_allreduce(*comm, data, data, count, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK);
    ranks_meet();
    if (rank == 1)
        raise(SIGKILL);
    call.request = &request;
    CHECK(plait_allreduce(*comm, data, data, count, PLAIT_FLOAT32, PLAIT_SUM, &call) == PLAIT_OK);
    CHECK(plait_wait(&request) == PLAIT_ERR_PEER && says("rank 1 (process "));
    CHECK(plait_comm_destroy(*comm) == PLAIT_ERR_PEER);
    *comm = NULL;
    free(data);
    return 0;
}

/* Who waits spins as long as others copy, but a request's turns are not all spins: it looked for deaths after minutes. */
static void a_rank_that_dies_in_a_large_request_is_named(void **state)
{
    struct ranks r = ranks_of(2, 1, one_rank_dies_in_a_request, NULL);

    r.processes = true;
    assert_int_equal(ranks_run(&r), 1); /* the killed one */
}

static int one_rank_leaves(struct plait_comm **comm, uint32_t rank, void *arg)
{
    CHECK(sum(*comm, COUNT, NULL) == PLAIT_OK);
    if (rank == 1) {
        CHECK(plait_comm_destroy(*comm) == PLAIT_OK);
        *comm = NULL;
        return 0;
    }
    CHECK(sum(*comm, COUNT, NULL) == PLAIT_ERR_PEER);
    CHECK(says("rank 1 left the comm after operation #1"));
    plait_comm_destroy(*comm);
    *comm = NULL;
    return 0;
}

static void a_rank_that_leaves_is_named(void **state)
{
    const struct ranks r = ranks_of(3, 1, one_rank_leaves, NULL);

    assert_int_equal(ranks_run_both(&r), 0);
}

/* Rank 0 leaves before rank 1 has called what rank 0 has done. It waits in destroy then, not in that operation. */
static int a_rank_that_leaves_waits_in_no_operation(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plait_control *zero = (*comm)->peers[0].control;
    struct plait_operation o;
    float v = 0;

    CHECK(sum(*comm, COUNT, NULL) == PLAIT_OK);
    for (unsigned k = 0; k < 3 && rank == 1; k++) {
        const double last = atomic_load(&zero->seen);
        CHECK(comes_true(atomic_load(&zero->done) == 2 && atomic_load(&zero->seen) > last));
    }
    CHECK(rank == 0 || plait_ring_read(&zero->ring, 2, 2, false, &o));
    CHECK(rank == 0 || !o.has_progress || (o.progress.waiting_for == 0 && o.progress.waited_for == 0));
    CHECK(plait_broadcast(*comm, &v, &v, 1, PLAIT_FLOAT32, 0, NULL) == PLAIT_OK);
    CHECK(plait_comm_destroy(*comm) == PLAIT_OK);
    *comm = NULL;
    return 0;
}

static int a_rank_that_stays_away_is_named_at_the_deadline(struct plait_comm **comm, uint32_t rank, void *arg)
{
    CHECK(sum(*comm, COUNT, NULL) == PLAIT_OK);
    if (rank == 2)
        ranks_meet();
    CHECK(sum(*comm, COUNT, NULL) == PLAIT_ERR_TIMEOUT); /* on rank 2: what the others decided */
    if (rank != 2)
        ranks_meet();
    CHECK(says("no progress for 2 s: rank 2 has not called it"));
    plait_comm_destroy(*comm);
    *comm = NULL;
    return 0;
}

static int ranks_that_stay_away_alike_are_named_together(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const bool away = rank == 1 || rank == 2;

    CHECK(sum(*comm, COUNT, NULL) == PLAIT_OK);
    if (away)
        ranks_meet();
    CHECK(sum(*comm, COUNT, NULL) == PLAIT_ERR_TIMEOUT);
    if (!away)
        ranks_meet();
    CHECK(says("no progress for 2 s: rank 1, 2 has not called it"));
    plait_comm_destroy(*comm);
    *comm = NULL;
    return 0;
}

struct held { /* in a function of the program; shared by the ranks */
    atomic_bool entered, aborted, left;
};

static void hold(void *inout, const void *in, size_t count, enum plait_dtype type, void *context)
{
    struct held *h = context;

    h->entered = true;
    while (!h->aborted)
        usleep(1000);
    usleep(20000);
    h->left = true;
}

static void pass(void *inout, const void *in, size_t count, enum plait_dtype type, void *context)
{
}

static int end_beside_a_rank_that_reduces(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct held *h = arg;
    const struct plait_user_op user = { sizeof user, rank == 1 ? hold : pass, h, 1 };
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *r = NULL;
    float v[2] = { 1, 2 };
    int done;

    call.user = &user;
    call.algorithm = "one-shot"; /* both reduce */
    call.request = rank == 0 ? &r : NULL;
    const enum plait_status status = plait_allreduce(*comm, v, v, 2, PLAIT_FLOAT32, PLAIT_USER, &call);
    CHECK(rank == 1 || (status == PLAIT_OK && comes_true(plait_test(&r, &done) == PLAIT_OK && h->entered)));
    CHECK(rank == 1 || plait_comm_abort(*comm, "of this test") == PLAIT_OK);
    h->aborted = true;
    const double start = plait_clock();
    CHECK(plait_comm_destroy(*comm) == PLAIT_ERR_FAILED);
    *comm = NULL;
    CHECK(h->left || plait_clock() - start >= PATIENCE || RANKS_ON_HOSTS); /* which read no memory of this one */
    return 0;
}

static void destroy_waits_for_ranks_of_other_processes_that_have_not_noticed_the_failure(void **state)
{
    struct held *h = shared_memory(sizeof *h);
    struct ranks r = ranks_of(2, 1, end_beside_a_rank_that_reduces, h);

    r.processes = true;
    assert_int_equal(ranks_run(&r), 0);
    munmap(h, sizeof *h);
}

static int ranks_that_never_come_are_named_at_creation(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_comm_options o = ranks_options(rank);

    o.timeout = 2;
    ranks_meet();
    if (rank == 1 || rank == 3)
        return 0;
    CHECK(plait_comm_create(&o, comm) == PLAIT_ERR_TIMEOUT);
    CHECK(says("2 of 4 ranks did not join within 2 s: rank 1, 3"));
    return 0;
}

static int abort_reaches_every_rank(struct plait_comm **comm, uint32_t rank, void *arg)
{
    CHECK(sum(*comm, COUNT, NULL) == PLAIT_OK);
    ranks_meet();
    if (rank == 0) {
        usleep(50000); /* the others wait for it */
        CHECK(plait_comm_abort(*comm, "the user has had enough") == PLAIT_OK);
    }
    CHECK(sum(*comm, COUNT, NULL) == PLAIT_ERR_FAILED);
    CHECK(says("after operation #1: aborted by rank 0: the user has had enough"));
    plait_comm_destroy(*comm);
    *comm = NULL;
    return 0;
}

static struct plait_comm *failing; /* the comm that interfere() ends */
static plait_reduce_fn reduce_as_before;

/* While rank 0 combines what it has read, that rank fails: its caller may write to its vector from now on. */
static void interfere(void *out, const void *const *in, uint32_t nsrc, size_t count, const struct plait_how *how)
{
    reduce_as_before(out, in, nsrc, count, how);
    plait_comm_announce_abort(failing, "in the middle", true);
}

static int a_peer_fails_meanwhile(struct plait_comm **comm, uint32_t rank, void *arg)
{
    _Atomic(struct plait_comm *) *other = arg;
    const size_t counts[] = { 1, 100 };
    struct plait_comm *c = *comm;

    for (size_t i = 0; i < 2; i++)
        CHECK(sum(c, counts[i], NULL) == PLAIT_OK);
    if (rank == 1) {
        *other = c;
        CHECK(sum(c, 100, NULL) == PLAIT_OK || says("in the middle"));
        while (*other != NULL)
            usleep(1000);
        plait_comm_destroy(c);
        *comm = NULL;
        return 0;
    }
    while (*other == NULL)
        usleep(1000);
    failing = *other;
    reduce_as_before = c->last->reduce;
    c->last->reduce = interfere;
    CHECK(sum(c, 100, NULL) == PLAIT_ERR_FAILED && says("aborted by rank 1: in the middle"));
    *other = NULL;
    plait_comm_destroy(c);
    *comm = NULL;
    return 0;
}

/* Where nothing is waited for, only a look after the combination can see it. */
/* On one host: over hosts there are no eager operations, and news of failures take their time */
static void a_failure_during_a_eager_operation_is_told_by_it(void **state)
{
    _Atomic(struct plait_comm *) other = NULL;
    const struct ranks r = ranks_of(1, 2, a_peer_fails_meanwhile, &other);

    assert_int_equal(ranks_run(&r), 0);
}

/* ---- Bugs that were -------------------------------------------------------------------------------- */

static int barrier_twice(struct plait_comm **comm, uint32_t rank, void *arg)
{
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    return 0;
}

/* An empty message from a NULL buffer was taken for one that has not arrived. */
static void an_empty_message_from_null_arrives(void **state)
{
    const struct ranks r = ranks_of(1, 65, barrier_twice, NULL); /* above 64 ranks the engine runs barriers */

    assert_int_equal(ranks_run(&r), 0);
}

/* Eager operations never looked: they went on after an abort. */
static int abort_reaches_eager_operations(struct plait_comm **comm, uint32_t rank, void *arg)
{
    float v = 1;

    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    ranks_meet(); /* all are out of the barrier before the abort, which is over before they go on */
    if (rank == 0)
        CHECK(plait_comm_abort(*comm, NULL) == PLAIT_OK);
    ranks_meet();
    CHECK(plait_allreduce(*comm, &v, &v, 1, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_ERR_FAILED);
    CHECK(says("aborted by rank 0") && v == 1);
    CHECK(plait_comm_destroy(*comm) == PLAIT_ERR_FAILED);
    *comm = NULL;
    return 0;
}

/* A rank that was done when another one failed did not hear of it in destroy. */
static int destroy_tells_of_a_failure_elsewhere(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    float v = 1, w;

    CHECK(plait_allreduce(*comm, &v, &w, 1, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK);
    call.deadline = 0.3;
    if (rank == 0)
        CHECK(plait_allreduce(*comm, &v, &w, 1, PLAIT_FLOAT32, PLAIT_SUM, &call) == PLAIT_ERR_TIMEOUT);
    ranks_meet();
    /* The news may be on their way. */
    CHECK(rank == 0 || comes_true((*comm)->peers[0].control->failed != PLAIT_OK));
    CHECK(plait_comm_destroy(*comm) == PLAIT_ERR_TIMEOUT);
    *comm = NULL;
    return 0;
}

static int free_after_failure(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const size_t count = 8 << 20;
    float *in = calloc(count, sizeof *in), *out = calloc(count, sizeof *out);
    enum plait_status status = PLAIT_OK;

    CHECK(in != NULL && out != NULL);
    for (unsigned k = 0; status == PLAIT_OK && k < 1000; k++) {
        status = plait_allreduce(*comm, in, out, count, PLAIT_FLOAT32, PLAIT_SUM, NULL);
        if (rank == 1 && k == 2)
            plait_comm_abort(*comm, NULL);
    }
    CHECK(status == PLAIT_ERR_FAILED);
    plait_comm_destroy(*comm);
    *comm = NULL;
    free(in); /* returned to the system at once: whoever still reads it dies */
    free(out);
    return 0;
}

/* Threads read each other's buffers in place; destroy after a failure did not wait for them. */
static void buffers_may_be_freed_after_a_failed_comm_is_destroyed(void **state)
{
    const struct ranks r = ranks_of(1, 4, free_after_failure, NULL);

    for (unsigned k = 0; k < (light() ? 1 : 5); k++)
        assert_int_equal(ranks_run(&r), 0);
}

struct slow { /* a reduction in place that takes long: the operations' own is `reduce` */
    struct plait_comm *comm[2];
    plait_reduce_fn reduce;
    _Atomic uint32_t reading; /* rank + 1 */
    _Atomic bool freed, read_too_late;
};

static struct slow slow;
static _Thread_local uint32_t slow_rank;

/* Meanwhile the comm is aborted, as if by a third thread. */
static void reduce_slowly(void *dst, const void *const *src, uint32_t nsrc, size_t count, const struct plait_how *how)
{
    slow.reading = slow_rank + 1;
    plait_comm_abort(slow.comm[slow_rank], "from another thread");
    for (unsigned ms = 0; ms < 2400 && !slow.freed; ms++) /* longer than destroy waits for other processes */
        usleep(1000);
    slow.read_too_late = slow.freed;
    slow.reduce(dst, src, nsrc, count, how);
}

static int destroy_while_another_reads(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static float in[2][COUNT], out[2][COUNT]; /* both stay, so that a fault is a flag and no signal */
    struct plait_call call = PLAIT_CALL_DEFAULT;

    call.algorithm = "binomial";
    call.slice = COUNT;
    call.deadline = 100;
    slow_rank = rank;
    slow.comm[rank] = *comm;
    CHECK(plait_allreduce(*comm, in[rank], out[rank], COUNT, PLAIT_FLOAT32, PLAIT_SUM, &call) == PLAIT_OK);
    if (rank == 0)
        slow.reduce = (*comm)->last->reduce;
    struct plait_op_plan *same = (*comm)->last;
    CHECK(plait_barrier(*comm, &call) == PLAIT_OK);
    same->reduce = reduce_slowly;
    CHECK(plait_allreduce(*comm, in[rank], out[rank], COUNT, PLAIT_FLOAT32, PLAIT_SUM, &call) == PLAIT_ERR_FAILED);
    CHECK(plait_comm_destroy(*comm) == PLAIT_ERR_FAILED);
    *comm = NULL;
    CHECK(slow.reading != 0);
    slow.freed = true;
    CHECK(!slow.read_too_late);
    return 0;
}

/* After an abort by a third thread it did not wait at all, and else no longer than the comm's deadline. */
/* On one host: over hosts nobody reads another's memory */
static void destroy_waits_for_threads_as_long_as_they_read(void **state)
{
    struct ranks r = ranks_of(1, 2, destroy_while_another_reads, NULL);

    r.options.deadline = 0.02;
    assert_int_equal(ranks_run(&r), 0);
}

/* The child took its parent for itself, and its own memory for its parent's. */
static int a_forked_child_is_another_process(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_comm_options o = ranks_options(rank);
    struct plait_comm *own = NULL;
    float v = 1, w = 0;

    o.nrank = 1;
    CHECK(plait_comm_create(&o, &own) == PLAIT_OK); /* the arena and a comm exist when the child is made */
    o.nrank = 2;
    const pid_t child = child_fork();
    o.rank = child == 0;
    CHECK(plait_comm_create(&o, comm) == PLAIT_OK);
    CHECK(plait_allreduce(*comm, &v, &w, 1, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK && w == 2);
    CHECK(plait_comm_destroy(*comm) == PLAIT_OK);
    *comm = NULL;
    if (child == 0)
        _exit(0);
    CHECK(child_end(child) == 0);
    CHECK(plait_comm_destroy(own) == PLAIT_OK);
    return 0;
}

/* Everyone sends everything to rank 0 and gets it back; the preset says in which order it adds. */
static void hub_emit(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    const bool swapped = self->preset != NULL;

    plait_blocks(b, 1, 1);
    if (me == 0) {
        plait_emit_recv(b, 1, plait_tmp(0), 0, 1);
        plait_emit_reduce(b, plait_out(0), swapped ? plait_tmp(0) : plait_in(0), swapped ? plait_in(0) : plait_tmp(0),
                          0, 1);
        plait_emit_send(b, 1, plait_out(0), 0, 1);
    } else {
        plait_emit_send(b, 0, plait_in(0), 0, 1);
        plait_emit_recv(b, 0, plait_out(0), 0, 1);
    }
}

static bool hub_applies(const struct plait_alg *self, const struct plait_shape *s)
{
    return s->nrank == 2;
}

static struct plait_claim hub_claim(const struct plait_alg *self, const struct plait_shape *s)
{
    return (struct plait_claim){ .depth = 2, .rounds = 2, .nblk = 1, .sent = 1, .received = 1, .rounds_exact = true };
}

/* Everyone adds its left neighbour's vector only. */
static void short_emit(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    plait_blocks(b, 1, 1);
    plait_emit_send(b, (me + 1) % s->nrank, plait_in(0), 0, 1);
    plait_emit_recv(b, (me + s->nrank - 1) % s->nrank, plait_tmp(0), 0, 1);
    plait_emit_reduce(b, plait_out(0), plait_tmp(0), plait_in(0), 0, 1);
}

static bool short_applies(const struct plait_alg *self, const struct plait_shape *s)
{
    return s->nrank > 1;
}

static struct plait_claim short_claim(const struct plait_alg *self, const struct plait_shape *s)
{
    return (struct plait_claim){ .depth = 1, .rounds = 1, .nblk = 1, .sent = 1, .received = 1, .rounds_exact = true };
}

/* The caller's own algorithm left out a contribution, and nobody said so. */
static int a_callers_algorithm_that_is_wrong_is_refused(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static const struct plait_alg alg = { .name = "short",
                                          .params = "",
                                          .text = "",
                                          .source = "",
                                          .applies = short_applies,
                                          .emit = short_emit,
                                          .claim = short_claim };
    const struct plait_alg *const algorithms[] = { &alg, NULL };
    struct plait_comm_options o = ranks_options(rank);

    o.algorithms = algorithms;
    CHECK(plait_comm_create(&o, comm) == PLAIT_OK);
    CHECK(sum(*comm, COUNT, "short") == PLAIT_ERR_PLAN && says("short, 3 ranks"));
    CHECK(sum(*comm, COUNT, NULL) == PLAIT_OK); /* nothing has happened */
    return 0;
}

/* Two algorithms of one name gave a wrong sum: only the name was compared. */
static int ranks_with_other_plans_of_one_name_are_told(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static const struct plait_alg hub = { .name = "hub",
                                          .params = "",
                                          .text = "",
                                          .source = "",
                                          .applies = hub_applies,
                                          .emit = hub_emit,
                                          .claim = hub_claim },
                                  other = { .name = "hub",
                                            .preset = "swapped",
                                            .params = "",
                                            .text = "",
                                            .source = "",
                                            .applies = hub_applies,
                                            .emit = hub_emit,
                                            .claim = hub_claim };
    const struct plait_alg *const algorithms[] = { rank == 0 ? &other : &hub, NULL };
    struct plait_comm_options o = ranks_options(rank);

    o.algorithms = algorithms;
    CHECK(plait_comm_create(&o, comm) == PLAIT_OK);
    CHECK(sum(*comm, COUNT, "hub") == PLAIT_ERR_MISMATCH && says("plan"));
    plait_comm_destroy(*comm);
    *comm = NULL;
    return 0;
}

static bool is_stopped(pid_t pid)
{
    char path[64], text[512] = "";

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return false;
    const size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    const char *end = n > 0 ? strrchr(text, ')') : NULL;
    return end != NULL && end[2] == 'T';
}

/* In a long wait of the operation after this rank's last one. */
static bool waits_long(const struct plait_comm *comm, uint32_t rank)
{
    const uint64_t next = comm->sequence + 1;
    const struct plait_progress *p = plait_ring_progress(&comm->peers[rank].control->ring, next);

    return atomic_load(&p->sequence) == next && atomic_load(&p->waiting_for) > 0;
}

static int stop_while_it_waits(struct plait_comm **comm, uint32_t rank, void *arg)
{
    _Atomic pid_t *waiting = arg;

    CHECK(sum(*comm, COUNT, NULL) == PLAIT_OK);
    if (rank == 2)
        *waiting = getpid();
    if (rank == 0) {
        while (*waiting == 0 || !waits_long(*comm, 2))
            usleep(1000);
        kill(*waiting, SIGSTOP);
        while (!is_stopped(*waiting))
            usleep(1000);
    }
    /* Several steps, whose last needs it. Over hosts it may have what it needs itself, or find that the others have left. */
    const enum plait_status status = sum(*comm, COUNT, RANKS_ON_HOSTS ? "ring" : "two-shot");
    if (!RANKS_ON_HOSTS || rank < 2) {
        CHECK(status == PLAIT_ERR_TIMEOUT);
        CHECK((says("no progress for 2 s: rank 2 has entered the operation, ") && says("but does not respond")) ||
              (RANKS_ON_HOSTS && says("no progress for 2 s: nothing has been heard of rank 2 (process ")));
    }
    if (rank == 0)
        kill(*waiting, SIGCONT);
    plait_comm_destroy(*comm);
    *comm = NULL;
    return 0;
}

/* Whom it had waited for was blamed, or all ranks: "ranks wait for each other". */
static void a_rank_stopped_while_it_waits_is_named(void **state)
{
    _Atomic pid_t *waiting = shared_memory(4096);
    struct ranks r = ranks_of(3, 1, stop_while_it_waits, waiting);

    r.options.deadline = 2;
    r.processes = true;
    assert_int_equal(ranks_run(&r), 0);
    munmap(waiting, 4096);
}

/* Only rank 0 knew who had died; the others blamed rank 0. */
static int a_rank_that_dies_while_descriptors_pass_is_named(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plait_comm_options o = ranks_options(rank);
    const bool gives[4] = { true, true, true, false };
    int own[1] = { 2 }, fds[4][1];
    struct plait_bootstrap *b = NULL;
    enum plait_status status;

    CHECK(plait_bootstrap_create(o.id, rank, 4, 10, PLAIT_OK, &b) == PLAIT_OK);
    if (rank == 2) { /* it was to give a descriptor, and is gone */
        plait_bootstrap_destroy(b);
        return 0;
    }
    status = plait_bootstrap_share(b, gives, own, 1, &fds[0][0]);
    if (rank == 3) { /* it gives none, and hears of it in the next exchange */
        CHECK(status == PLAIT_OK);
        status = plait_bootstrap_agree(b, PLAIT_OK);
    }
    CHECK(status == PLAIT_ERR_PEER && says("comm creation: rank 2 left"));
    plait_bootstrap_destroy(b);
    return 0;
}

struct cut_short {
    bool somebody_dies;
    _Atomic uint32_t told;
};

static int die_and_give_up(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct cut_short *c = arg;

    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    ranks_meet();
    if (rank == 2 && c->somebody_dies)
        raise(SIGKILL);
    if (rank == 1) {
        (*comm)->own->id = 0; /* what is there when creation failed on this rank only */
        while (c->told < (c->somebody_dies ? 1 : 2))
            usleep(1000);
        *comm = NULL;
        return 0;
    }
    const enum plait_status status = sum(*comm, COUNT, NULL);
    c->told++;
    CHECK(status == PLAIT_ERR_PEER);
    CHECK(c->somebody_dies ? says("rank 2 (process ") && says("died") : says("rank 1 gave up while the comm was made"));
    plait_comm_destroy(*comm);
    *comm = NULL;
    return 0;
}

/* A death that cut creation short for some ranks was blamed on those. */
static void a_death_is_not_blamed_on_ranks_that_could_not_create(void **state)
{
    struct cut_short *c = shared_memory(sizeof *c);
    struct ranks r = ranks_of(3, 1, die_and_give_up, c);

    r.processes = true;
    c->somebody_dies = true;
    assert_int_equal(ranks_run(&r), 1);
    *c = (struct cut_short){ false, 0 };
    assert_int_equal(ranks_run(&r), 0);
    munmap(c, sizeof *c);
}

/* Nobody takes from rank 1 and nobody waits for it, nor it for anybody: that used to go on forever. */
static int a_rank_with_another_root_for_whom_nobody_waits_is_found(struct plait_comm **comm, uint32_t rank, void *arg)
{
    float in[30] = { 0 }, out[30];
    enum plait_status status = PLAIT_OK;
    const uint32_t root = rank == 1 ? 1 : 2;

    for (uint32_t i = 0; i < 100 && status == PLAIT_OK; i++)
        status = plait_scatter(*comm, rank == root ? in : NULL, out, 10, PLAIT_FLOAT32, root, NULL);
    CHECK(status == PLAIT_ERR_MISMATCH);
    CHECK(says("scatter #1 ") && says("root is ") && says("rank 1"));
    CHECK(plait_comm_destroy(*comm) == PLAIT_ERR_MISMATCH);
    *comm = NULL;
    return 0;
}

static int die_before_a_short_deadline(struct plait_comm **comm, uint32_t rank, void *arg)
{
    float in[COUNT] = { 0 }, out[COUNT];
    struct plait_call call = PLAIT_CALL_DEFAULT;

    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    ranks_meet();
    if (rank == 1)
        raise(SIGKILL);
    while (!plait_peer_died(&(*comm)->peers[1]))
        usleep(1000);
    call.deadline = 0.02;
    CHECK(plait_allreduce(*comm, in, out, COUNT, PLAIT_FLOAT32, PLAIT_SUM, &call) == PLAIT_ERR_PEER);
    CHECK(says("rank 1 (process ") && says("died"));
    plait_comm_destroy(*comm);
    *comm = NULL;
    return 0;
}

/* A deadline that passed between two looks for deaths came first: the dead rank "did not answer". */
static void a_death_is_told_before_the_deadline_is(void **state)
{
    const struct ranks r = ranks_of(3, 1, die_before_a_short_deadline, NULL);

    assert_int_equal(ranks_run(&r), 1);
}

enum { LOOKS = 5 }; /* for which the link is cut; the second would blame it */
static atomic_bool is_cut;
static atomic_uint nlook;

static const char *broken_when_cut(const struct plait_link *link)
{
    return is_cut && nlook++ < LOOKS ? "cut" : NULL;
}

static int leave_after_a_long_wait(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static struct plait_transport breaks;

    CHECK(sum(*comm, COUNT, NULL) == PLAIT_OK);
    if (rank == 0) {
        struct plait_link *link = (*comm)->peers[1].link[PLAIT_CHANNEL_COLLECTIVES];
        breaks = *link->transport;
        breaks.broken = broken_when_cut;
        link->transport = &breaks;
    } else { /* rank 0 waits long before the link breaks, but not long after it */
        usleep(1300000);
        is_cut = true;
        CHECK(comes_true(nlook >= LOOKS));
    }
    CHECK(sum(*comm, COUNT, NULL) == PLAIT_OK);
    return 0;
}

/* A rank that had left was "not reached any more" where somebody waited long before and its news were still on the way. */
static void a_broken_link_is_blamed_after_a_while(void **state)
{
    const struct ranks r = ranks_of(1, 2, leave_after_a_long_wait, NULL);

    assert_int_equal(ranks_run(&r), 0);
}

static atomic_bool has_aborted;

static int blame_what_aborted(struct plait_comm **comm, uint32_t rank, void *arg)
{
    if (rank == 1) {
        CHECK(plait_comm_abort(*comm, "out of paper") == PLAIT_OK);
        has_aborted = true;
    } else {
        CHECK(comes_true(has_aborted));
        CHECK(plait_comm_blame(*comm, PLAIT_ERR_PEER, 1, "rank 1 died") == PLAIT_ERR_FAILED);
        CHECK(strstr(plait_last_error(), "aborted by rank 1: out of paper") != NULL);
    }
    plait_comm_destroy(*comm);
    *comm = NULL;
    return 0;
}

/* A rank that had aborted and ended was only said to have died, if another rank saw its death first. */
static void an_abort_is_told_rather_than_the_death_that_follows(void **state)
{
    const struct ranks r = ranks_of(1, 2, blame_what_aborted, NULL);

    assert_int_equal(ranks_run(&r), 0);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        test_of_ranks(wrong_arguments_are_named_and_change_nothing, 2, 1, .options.deadline = 10),
        cmocka_unit_test(wrong_options_are_named),
        cmocka_unit_test(a_wrong_time_is_the_one_that_is_named),
        cmocka_unit_test(a_rank_that_calls_otherwise_is_named_with_the_field),
        cmocka_unit_test(options_and_settings_that_differ_are_named_at_creation),
        cmocka_unit_test(a_rank_that_dies_is_named),
        cmocka_unit_test(a_rank_that_dies_in_a_large_request_is_named),
        cmocka_unit_test(a_rank_that_leaves_is_named),
        test_of_both(a_rank_that_leaves_waits_in_no_operation, 2),
        cmocka_unit_test(destroy_waits_for_ranks_of_other_processes_that_have_not_noticed_the_failure),
        test_of_ranks(a_rank_that_stays_away_is_named_at_the_deadline, 3, 1, .options.deadline = 2,
                      .options.warn = 0.5),
        test_of_ranks(ranks_that_stay_away_alike_are_named_together, 4, 1, .options.deadline = 2, .options.warn = 0.5),
        test_of_ranks(ranks_that_never_come_are_named_at_creation, 4, 1, .options.deadline = 10, .no_comm = true),
        test_of_ranks(abort_reaches_every_rank, 3, 1, .options.deadline = 10),
        test_on_one_host(a_failure_during_a_eager_operation_is_told_by_it),
        cmocka_unit_test(an_empty_message_from_null_arrives),
        test_of_ranks(abort_reaches_eager_operations, 3, 1, .options.deadline = 10),
        test_of_ranks(destroy_tells_of_a_failure_elsewhere, 2, 1, .options.deadline = 10),
        cmocka_unit_test(buffers_may_be_freed_after_a_failed_comm_is_destroyed),
        test_on_one_host(destroy_waits_for_threads_as_long_as_they_read),
        test_of_ranks(a_forked_child_is_another_process, 1, 1, .options.deadline = 10, .no_comm = true),
        test_of_ranks(ranks_with_other_plans_of_one_name_are_told, 2, 1, .options.deadline = 10, .no_comm = true),
        test_of_ranks(a_callers_algorithm_that_is_wrong_is_refused, 3, 1, .options.deadline = 10, .no_comm = true),
        cmocka_unit_test(a_rank_stopped_while_it_waits_is_named),
        test_of_ranks(a_rank_that_dies_while_descriptors_pass_is_named, 4, 1, .options.deadline = 10, .no_comm = true),
        test_of_ranks(a_rank_with_another_root_for_whom_nobody_waits_is_found, 3, 1, .options.deadline = 10),
        cmocka_unit_test(a_death_is_told_before_the_deadline_is),
        test_on_one_host(an_abort_is_told_rather_than_the_death_that_follows),
        test_over_hosts(a_broken_link_is_blamed_after_a_while),
        cmocka_unit_test(a_death_is_not_blamed_on_ranks_that_could_not_create),
    };

    return run_tests_of_this_place("failure", tests);
}
