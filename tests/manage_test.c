/* SPDX-License-Identifier: BSD-3-Clause */
/* Comms made of comms, and a comm while it lives: split, shrink, finalize, revoke, suspend, abort, looked at. */
#include "base/clock.h"
#include "child.h"
#include "tier.h"
#include "unit_ranks.h"

#include <plait/group.h>
#include <plait/log.h>
#include <plait/memory.h>
#include <plait/message.h>
#include <plait/plan.h>
#include <plait/request.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void run(uint32_t nprocess, uint32_t nthread, int (*body)(struct plait_comm **, uint32_t, void *), void *arg)
{
    const struct ranks r = { .nprocess = nprocess, .nthread = nthread, .body = body, .arg = arg };
    assert_int_equal(ranks_run(&r), 0);
}

/* The sum over the comm of each rank's number in the world. */
static int sum_of(struct plait_comm *comm, uint32_t rank, int32_t want)
{
    int32_t in = (int32_t)rank + 1, out = 0;

    CHECK(plait_allreduce(comm, &in, &out, 1, PLAIT_INT32, PLAIT_SUM, NULL) == PLAIT_OK);
    CHECK(out == want);
    return 0;
}

/* ---- Split ------------------------------------------------------------------------------------------------- */

static int ranks_of_one_color_form_a_comm_in_the_order_of_their_keys(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_comm *part = *comm;
    const int color = rank == 4 ? PLAIT_NO_COLOR : (int)(rank % 2);

    CHECK(plait_comm_split(*comm, color, -(int)rank, "half", &part) == PLAIT_OK);
    if (color == PLAIT_NO_COLOR) {
        CHECK(part == NULL);
        return 0;
    }
    CHECK(strcmp(plait_comm_name(part), "half") == 0);
    CHECK(plait_comm_nrank(part) == 2);
    CHECK(plait_comm_rank(part) == (rank >= 2 ? 0u : 1u)); /* keys fall as ranks grow */
    CHECK(sum_of(part, rank, color == 0 ? 1 + 3 : 2 + 4) == 0);
    CHECK(plait_comm_destroy(part) == PLAIT_OK);
    return 0;
}

static int a_duplicate_lives_longer_than_what_it_was_made_of(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_comm *same, *again;

    CHECK(plait_comm_duplicate(*comm, NULL, &same) == PLAIT_OK);
    CHECK(plait_comm_rank(same) == rank && plait_comm_nrank(same) == 4);
    CHECK(plait_comm_duplicate(same, NULL, &again) == PLAIT_OK);
    CHECK(sum_of(same, rank, 10) == 0 && sum_of(*comm, rank, 10) == 0 && sum_of(again, rank, 10) == 0);
    CHECK(plait_comm_destroy(same) == PLAIT_OK);
    CHECK(sum_of(again, rank, 10) == 0);
    CHECK(plait_comm_destroy(again) == PLAIT_OK);
    return 0;
}

static int a_part_has_the_options_of_the_whole(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_choice choice;
    struct plait_comm *part;

    call.algorithm = "ring";
    CHECK(plait_comm_split(*comm, 0, 0, NULL, &part) == PLAIT_OK);
    CHECK(plait_comm_choose(part, &(struct plait_shape){ .coll = PLAIT_ALLREDUCE }, 1 << 20, PLAIT_FLOAT16, PLAIT_SUM,
                            &call, &choice) == PLAIT_ERR_CONFIG);
    CHECK(says("canonical order"));
    CHECK(plait_comm_choose(part, &(struct plait_shape){ .coll = PLAIT_ALLREDUCE }, 1 << 20, PLAIT_FLOAT16, PLAIT_SUM,
                            NULL, &choice) == PLAIT_OK);
    CHECK(choice.round == PLAIT_ROUND_ONCE); /* as `reproducible` has it */
    CHECK(strcmp(plait_comm_name(part), "strict") == 0);
    CHECK(plait_comm_destroy(part) == PLAIT_OK);
    return 0;
}

/* ---- Shrink ------------------------------------------------------------------------------------------------ */

static int shrink_after_a_death(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t dead[] = { 3, 1 };
    struct plait_comm *rest;

    if (rank == 1 || rank == 3)
        raise(SIGKILL);
    CHECK(plait_barrier(*comm, NULL) == PLAIT_ERR_PEER);
    CHECK(plait_comm_shrink(*comm, dead, 2, 0, "rest", &rest) == PLAIT_OK);
    CHECK(plait_comm_nrank(rest) == 3 && plait_comm_rank(rest) == rank / 2);
    CHECK(sum_of(rest, rank, 1 + 3 + 5) == 0);
    CHECK(plait_comm_destroy(rest) == PLAIT_OK);
    CHECK(plait_comm_destroy(*comm) == PLAIT_ERR_PEER);
    *comm = NULL;
    return 0;
}

static void survivors_go_on_in_a_smaller_comm(void **state)
{
    const struct ranks r = { .nprocess = 5, .nthread = 1, .body = shrink_after_a_death, .processes = true };

    assert_int_equal(ranks_run(&r), 2); /* the two that were killed */
}

static int a_comm_shrinks_again_and_again(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t last[] = { 3 }, first[] = { 0 }, self[] = { rank }, none[] = { 4 };
    struct plait_comm *a = NULL, *b = NULL;

    CHECK(plait_comm_shrink(*comm, self, 1, 0, NULL, &a) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "excluded[0]") != NULL && strstr(plait_last_error(), "this rank") != NULL);
    CHECK(plait_comm_shrink(*comm, none, 1, 0, NULL, &a) == PLAIT_ERR_ARG);
    CHECK(plait_comm_shrink(NULL, none, 1, 0, NULL, &a) == PLAIT_ERR_ARG);
    CHECK(plait_comm_shrink(*comm, none, 1, 0, NULL, NULL) == PLAIT_ERR_ARG);
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK); /* nothing happened */
    if (rank != 3) {
        CHECK(plait_comm_shrink(*comm, last, 1, 0, NULL, &a) == PLAIT_OK);
        CHECK(sum_of(a, rank, 1 + 2 + 3) == 0);
    }
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK); /* all are out of `a` */
    if (rank != 3 && rank != 0) {
        CHECK(plait_comm_shrink(a, first, 1, 1, NULL, &b) == PLAIT_OK); /* stops what is in flight: nothing */
        CHECK(sum_of(b, rank, 2 + 3) == 0);
        CHECK(plait_comm_destroy(b) == PLAIT_OK);
    }
    const enum plait_status left = plait_comm_destroy(a); /* rank 0 may leave before the others stop it */
    CHECK(left == PLAIT_ERR_FAILED || (left == PLAIT_OK && (rank == 0 || rank == 3)));
    return 0;
}

/* Each is a comm of its own, though all leave out the same rank and a rank may be far ahead. */
static int comms_that_shrank_alike_are_different_ones(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t last[] = { 3 };
    struct plait_comm *rest[6];

    for (uint32_t k = 0; k < 6 && rank != 3; k++) {
        usleep(k % 3 == rank ? 20000 : 0);
        CHECK(plait_comm_shrink(*comm, last, 1, 0, NULL, &rest[k]) == PLAIT_OK);
    }
    for (uint32_t k = 6; k-- > 0 && rank != 3;) {
        CHECK(sum_of(rest[k], rank, 1 + 2 + 3) == 0);
        CHECK(plait_comm_destroy(rest[k]) == PLAIT_OK);
    }
    return plait_barrier(*comm, NULL) != PLAIT_OK;
}

/* The list lives until the call returns, as every argument does. */
static int a_shrink_in_a_group_has_copied_whom_it_excludes(struct plait_comm **comm, uint32_t rank, void *arg)
{
    uint32_t gone[] = { 3 };
    struct plait_comm *a = NULL;

    CHECK(plait_comm_shrink(*comm, NULL, 1, 0, NULL, &a) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "excluded is NULL, but n is not 0") != NULL);
    if (rank == 3)
        return 0;
    CHECK(plait_group_start() == PLAIT_OK);
    CHECK(plait_comm_shrink(*comm, gone, 1, 0, "rest", &a) == PLAIT_OK);
    gone[0] = rank;
    CHECK(plait_group_end() == PLAIT_OK);
    CHECK(plait_comm_nrank(a) == 3 && sum_of(a, rank, 1 + 2 + 3) == 0);
    CHECK(plait_comm_destroy(a) == PLAIT_OK);
    return 0;
}

/* One thread holds all three that go on: in a group none waits for the others, and what is in flight is stopped first. */
static int a_shrink_in_a_group_stops_what_is_in_flight(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static struct plait_comm *all[4];
    static _Atomic uint32_t there;
    static pthread_barrier_t over;
    const uint32_t gone = 3;
    int32_t v[3] = { 0 }, w[3];
    struct plait_request *r[3];
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_comm *rest[3];

    if (rank == 0)
        pthread_barrier_init(&over, NULL, 4);
    all[rank] = *comm;
    atomic_fetch_add(&there, 1);
    while (atomic_load(&there) % 4 != 0)
        usleep(100);
    if (rank == 0) {
        for (uint32_t k = 0; k < 3; k++) { /* rank 3 never comes */
            call.request = &r[k];
            CHECK(plait_allreduce(all[k], &v[k], &w[k], 1, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
        }
        CHECK(plait_group_start() == PLAIT_OK);
        CHECK(plait_comm_revoke(all[0]) == PLAIT_ERR_ARG);
        CHECK(plait_group_end() == PLAIT_OK);
        CHECK(plait_comm_shrink(all[0], &gone, 1, 5, "rest", &rest[0]) == PLAIT_ERR_ARG);
        CHECK(strstr(plait_last_error(), "abort is 5; it must be 0 or 1") != NULL);
        CHECK(plait_group_start() == PLAIT_OK); /* a group that is refused stops nothing */
        CHECK(plait_comm_shrink(all[0], &gone, 1, 1, "rest", &rest[0]) == PLAIT_OK);
        CHECK(plait_allreduce(all[1], v, w, 1, (enum plait_dtype)99, PLAIT_SUM, NULL) == PLAIT_ERR_ARG);
        CHECK(plait_group_end() == PLAIT_ERR_ARG && plait_comm_status(all[0]) == PLAIT_OK);
        CHECK(plait_group_start() == PLAIT_OK);
        for (uint32_t k = 0; k < 3; k++)
            CHECK(plait_comm_shrink(all[k], &gone, 1, 1, "rest", &rest[k]) == PLAIT_OK);
        CHECK(plait_group_end() == PLAIT_OK);
        CHECK(plait_wait_all(r, 3) == PLAIT_ERR_FAILED && strstr(plait_last_error(), "revoked") != NULL);
        CHECK(plait_group_start() == PLAIT_OK);
        for (uint32_t k = 0; k < 3; k++) {
            v[k] = (int32_t)k + 1;
            CHECK(plait_allreduce(rest[k], &v[k], &w[k], 1, PLAIT_INT32, PLAIT_SUM, NULL) == PLAIT_OK);
        }
        CHECK(plait_group_end() == PLAIT_OK && w[0] == 6 && w[1] == 6 && w[2] == 6);
        for (uint32_t k = 0; k < 3; k++)
            CHECK(plait_comm_destroy(rest[k]) == PLAIT_OK);
    }
    pthread_barrier_wait(&over);
    CHECK(plait_comm_destroy(*comm) == PLAIT_ERR_FAILED);
    *comm = NULL;
    return 0;
}

/* ---- Failing ------------------------------------------------------------------------------------------------ */

static void *abort_soon(void *comm)
{
    usleep(50000);
    plait_comm_abort(comm, "for a test");
    return NULL;
}

/* One rank does not come to the rendezvous: it aborts, or dies. The default timeout of a minute would end the test. */
static int split_without_one(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const bool dies = *(const bool *)arg;
    struct plait_comm *part;
    pthread_t thread;
    char token[24] = { 0 }, all[3][24]; /* color, key, rank, salt */

    memcpy(token + 8, &rank, sizeof rank);
    if (rank == 2 && dies) { /* the exchange of a split, and no rendezvous */
        plait_allgather(*comm, token, all, sizeof token, PLAIT_UINT8, NULL);
        raise(SIGKILL);
    }
    if (rank == 2) {
        CHECK(pthread_create(&thread, NULL, abort_soon, *comm) == 0);
        plait_allgather(*comm, token, all, sizeof token, PLAIT_UINT8, NULL);
        pthread_join(thread, NULL);
    } else {
        CHECK(plait_comm_split(*comm, 0, 0, NULL, &part) == PLAIT_ERR_FAILED);
        CHECK(strstr(plait_last_error(), dies ? "died" : "for a test") != NULL);
    }
    plait_comm_destroy(*comm);
    *comm = NULL;
    return 0;
}

static void a_split_ends_when_one_aborts_or_dies(void **state)
{
    for (unsigned dies = 0; dies < 2; dies++) {
        bool arg = dies;
        struct ranks r = { .nprocess = 3, .nthread = 1, .body = split_without_one, .processes = true, .arg = &arg };
        assert_int_equal(ranks_run(&r), dies);
    }
}

/* Rank 2 is dead and not excluded. */
static int shrink_with_a_dead_rank(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t excluded[] = { 3 };
    _Atomic int *told = arg;
    struct plait_comm *rest;

    if (rank >= 2)
        raise(SIGKILL);
    CHECK(plait_barrier(*comm, NULL) == PLAIT_ERR_PEER);
    CHECK(plait_comm_shrink(*comm, excluded, 1, 0, NULL, &rest) == PLAIT_ERR_FAILED);
    CHECK(strstr(plait_last_error(), "rank 2") != NULL && strstr(plait_last_error(), "died") != NULL);
    ++*told;
    while (*told < 2) /* the other one looks at this process, too */
        usleep(1000);
    plait_comm_destroy(*comm);
    *comm = NULL;
    return 0;
}

static void a_shrink_with_a_dead_rank_names_it(void **state)
{
    _Atomic int *told = shared_memory(sizeof *told);
    struct ranks r = { .nprocess = 4, .nthread = 1, .body = shrink_with_a_dead_rank, .arg = told, .processes = true };

    assert_int_equal(ranks_run(&r), 2);
    munmap((void *)(uintptr_t)told, sizeof *told);
}

static int parts_have_the_timeout_of_the_whole(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t excluded[] = { 1 };
    struct plait_comm *rest;

    if (rank == 0) { /* the others exclude nobody, and never come */
        CHECK(plait_comm_shrink(*comm, excluded, 1, 0, NULL, &rest) == PLAIT_ERR_TIMEOUT);
        CHECK(strstr(plait_last_error(), "within 2 s") != NULL);
    }
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    return 0;
}

/* ---- In a group: several ranks of a thread ------------------------------------------------------------------ */

static void one_thread_splits_for_all_its_ranks(void **state)
{
    enum { N = 4 };
    struct plait_unique_id id;
    struct plait_comm *comm[N], *half[N];
    int32_t in[N], out[N];

    assert_int_equal(plait_unique_id_create(&id), PLAIT_OK);
    assert_int_equal(plait_group_start(), PLAIT_OK);
    for (uint32_t r = 0; r < N; r++) {
        struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
        o.nrank = N;
        o.rank = r;
        o.id = &id;
        assert_int_equal(plait_comm_create(&o, &comm[r]), PLAIT_OK);
    }
    assert_int_equal(plait_group_end(), PLAIT_OK);
    assert_int_equal(plait_group_start(), PLAIT_OK);
    for (uint32_t r = 0; r < N; r++)
        assert_int_equal(plait_comm_split(comm[r], (int)(r / 2), 0, NULL, &half[r]), PLAIT_OK);
    assert_int_equal(plait_group_end(), PLAIT_OK);
    assert_int_equal(plait_group_start(), PLAIT_OK);
    for (uint32_t r = 0; r < N; r++) {
        in[r] = (int32_t)r;
        assert_int_equal(plait_allreduce(half[r], &in[r], &out[r], 1, PLAIT_INT32, PLAIT_SUM, NULL), PLAIT_OK);
    }
    assert_int_equal(plait_group_end(), PLAIT_OK);
    for (uint32_t r = 0; r < N; r++)
        assert_int_equal(out[r], r < 2 ? 0 + 1 : 2 + 3);
    for (uint32_t r = 0; r < N; r++) {
        assert_int_equal(plait_comm_destroy(half[r]), PLAIT_OK);
        assert_int_equal(plait_comm_destroy(comm[r]), PLAIT_OK);
    }
}

static int comms_made_of_one_comm_in_a_group_are_made_in_order(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_comm *all, *half, *same;

    for (unsigned i = 0; i < 20; i++) {
        CHECK(plait_group_start() == PLAIT_OK);
        CHECK(plait_comm_split(*comm, 0, 0, NULL, &all) == PLAIT_OK);
        CHECK(plait_comm_split(*comm, (int)rank % 2, 0, NULL, &half) == PLAIT_OK);
        CHECK(plait_comm_shrink(*comm, NULL, 0, 0, NULL, &same) == PLAIT_OK);
        CHECK(plait_comm_finalize(*comm) == PLAIT_ERR_ARG && plait_comm_suspend(*comm) == PLAIT_ERR_ARG);
        CHECK(plait_group_end() == PLAIT_OK);
        CHECK(sum_of(all, rank, 10) == 0 && sum_of(half, rank, rank % 2 ? 6 : 4) == 0 && sum_of(same, rank, 10) == 0);
        CHECK(plait_comm_destroy(all) == PLAIT_OK && plait_comm_destroy(half) == PLAIT_OK);
        CHECK(plait_comm_destroy(same) == PLAIT_OK);
    }
    return 0;
}

/* ---- In the background --------------------------------------------------------------------------------------- */

/* These used to crash. */
static int comm_that_is_not_there_can_be_looked_at(struct plait_comm *c, uint32_t rank)
{
    struct plait_comm_memory memory;
    struct plait_choice choice;

    CHECK(strcmp(plait_comm_name(c), "later") == 0 && plait_comm_nrank(c) == 3 && plait_comm_rank(c) == 0);
    CHECK(plait_comm_choose(c, &(struct plait_shape){ .coll = PLAIT_ALLREDUCE }, 1, PLAIT_INT32, PLAIT_SUM, NULL,
                            &choice) == PLAIT_ERR_ARG);
    CHECK(plait_comm_waited(c, 1) == 0);
    plait_comm_memory(c, &memory);
    CHECK(memory.control == 0 && memory.staging == 0);
    return 0;
}

static int a_comm_is_created_in_the_background(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_comm_options o = ranks_options(rank);
    struct plait_comm *c;
    enum plait_status status;
    char name[] = "later";

    o.background = 1;
    o.name = name;
    if (rank == 0) {
        CHECK(plait_comm_create(&o, &c) == PLAIT_OK);
        memset(name, '?', sizeof name - 1); /* it was copied */
        CHECK(plait_comm_status(c) == PLAIT_IN_PROGRESS);
        CHECK(plait_barrier(c, NULL) == PLAIT_ERR_ARG && strstr(plait_last_error(), "not created yet") != NULL);
        CHECK(comm_that_is_not_there_can_be_looked_at(c, rank) == 0);
        ranks_meet(); /* now the others come */
    } else {
        ranks_meet();
        CHECK(plait_comm_create(&o, &c) == PLAIT_OK);
    }
    while ((status = plait_comm_status(c)) == PLAIT_IN_PROGRESS)
        usleep(1000);
    CHECK(status == PLAIT_OK);
    CHECK(strcmp(plait_comm_name(c), "later") == 0);
    CHECK(sum_of(c, rank, 6) == 0);
    *comm = c;
    return 0;
}

static void an_abort_ends_creation_in_the_background(void **state)
{
    struct plait_unique_id id;
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_comm *comm;
    enum plait_status status;

    for (uint32_t rank = 0; rank < 2; rank++) { /* the timeout is a minute: longer than this test may take */
        assert_int_equal(plait_unique_id_create(&id), PLAIT_OK);
        o.nrank = 2;
        o.rank = rank;
        o.id = &id;
        o.background = 1;
        assert_int_equal(plait_comm_create(&o, &comm), PLAIT_OK);
        assert_int_equal(plait_comm_abort(comm, "no longer wanted"), PLAIT_OK);
        while ((status = plait_comm_status(comm)) == PLAIT_IN_PROGRESS)
            usleep(1000);
        assert_int_equal(status, PLAIT_ERR_FAILED);
        assert_non_null(strstr(plait_last_error(), "aborted"));
        assert_int_equal(plait_comm_destroy(comm), PLAIT_OK);
        assert_int_equal(plait_comm_create(&o, &comm), PLAIT_OK);
        assert_int_equal(plait_comm_destroy(comm), PLAIT_OK); /* does not wait for who never comes either */
    }
}

static void creation_in_the_background_fails_with_its_error(void **state)
{
    struct plait_unique_id id;
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_comm *comm;
    enum plait_status status;

    assert_int_equal(plait_unique_id_create(&id), PLAIT_OK);
    o.nrank = 2;
    o.id = &id;
    o.timeout = 0.2;
    o.background = 1;
    assert_int_equal(plait_comm_create(&o, &comm), PLAIT_OK);
    while ((status = plait_comm_status(comm)) == PLAIT_IN_PROGRESS)
        usleep(1000);
    assert_int_equal(status, PLAIT_ERR_TIMEOUT);
    assert_non_null(strstr(plait_last_error(), "rank 1"));
    assert_int_equal(plait_comm_destroy(comm), PLAIT_OK);
}

/* ---- Stopping and pausing ------------------------------------------------------------------------------------ */

static int finalize_ends_what_is_pending(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *r;
    int32_t in = (int32_t)rank, out = -1;

    call.request = &r;
    CHECK(plait_allreduce(*comm, &in, &out, 1, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
    CHECK(plait_comm_finalize(*comm) == PLAIT_OK);
    CHECK(out == 3);
    CHECK(plait_wait(&r) == PLAIT_OK);
    CHECK(plait_barrier(*comm, NULL) == PLAIT_ERR_ARG && strstr(plait_last_error(), "finalized") != NULL);
    CHECK(plait_comm_finalize(*comm) == PLAIT_ERR_ARG);
    return 0;
}

static int a_suspended_comm_holds_no_staging_memory(struct plait_comm **comm, uint32_t rank, void *arg)
{
    enum { N = 300000 };
    struct plait_comm_memory before, after;
    float *in = calloc(N, sizeof *in), *out = malloc(N * sizeof *out);

    CHECK(in != NULL && out != NULL);
    for (unsigned k = 0; k < 3; k++) {
        in[N - 1] = (float)rank;
        CHECK(plait_allreduce(*comm, in, out, N, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK && out[N - 1] == 3);
        CHECK(plait_group_start() == PLAIT_OK); /* messages have staging memory of their own */
        CHECK(plait_send(*comm, in, N, PLAIT_FLOAT32, (rank + 1) % 3, NULL) == PLAIT_OK);
        CHECK(plait_recv(*comm, out, N, PLAIT_FLOAT32, (rank + 2) % 3, NULL) == PLAIT_OK);
        CHECK(plait_group_end() == PLAIT_OK && plait_barrier(*comm, NULL) == PLAIT_OK); /* all of them are read */
        plait_comm_memory(*comm, &before);
        CHECK(before.staging > 100000 && before.control > 100000);
        CHECK(plait_comm_suspend(*comm) == PLAIT_OK);
        plait_comm_memory(*comm, &after);
        CHECK(after.staging == 0 && after.control == before.control);
        CHECK(plait_barrier(*comm, NULL) == PLAIT_ERR_ARG && strstr(plait_last_error(), "suspended") != NULL);
        CHECK(plait_comm_suspend(*comm) == PLAIT_ERR_ARG);
        CHECK(plait_comm_resume(*comm) == PLAIT_OK);
        CHECK(plait_comm_resume(*comm) == PLAIT_ERR_ARG);
    }
    free(in);
    free(out);
    return 0;
}

static int a_stuck_operation_is_revoked_and_the_others_go_on(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t excluded[] = { 2 };
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *r = NULL;
    struct plait_comm *rest;
    int32_t in = 1, out;

    call.request = &r;
    if (rank < 2) {
        CHECK(plait_allreduce(*comm, &in, &out, 1, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
        CHECK(plait_comm_shrink(*comm, excluded, 1, 1, NULL, &rest) == PLAIT_OK);
        CHECK(plait_wait(&r) == PLAIT_ERR_FAILED && strstr(plait_last_error(), "revoked") != NULL);
        CHECK(sum_of(rest, rank, 3) == 0);
        CHECK(plait_comm_destroy(rest) == PLAIT_OK);
    } else {
        /* Its call would be another one than theirs, which they would be told of. */
        while (plait_comm_status(*comm) == PLAIT_OK)
            usleep(1000);
    }
    CHECK(plait_comm_destroy(*comm) == PLAIT_ERR_FAILED || rank == 2);
    *comm = NULL;
    return 0;
}

static int the_status_of_a_comm_tells_other_ranks_failures(struct plait_comm **comm, uint32_t rank, void *arg)
{
    enum plait_status status = PLAIT_OK;

    if (rank == 0)
        CHECK(plait_comm_abort(*comm, "enough") == PLAIT_OK);
    while (status == PLAIT_OK) /* in no call that waits */
        status = plait_comm_status(*comm);
    CHECK(status == PLAIT_ERR_FAILED && strstr(plait_last_error(), "aborted by rank 0: enough") != NULL);
    CHECK(plait_comm_destroy(*comm) == PLAIT_ERR_FAILED);
    *comm = NULL;
    return 0;
}

/* ---- Abort from any thread ------------------------------------------------------------------------------------ */

#define TRIES 1000
#define LATE  20 /* seconds: not a figure, but a wait that somebody's limit ended */
#define SOON  1  /* second, which is promised; beside other programs a few may be later */

struct shot {
    struct plait_comm *comm;
    unsigned after; /* microseconds */
};

static void ignore(void *context, enum plait_log_level level, const char *line)
{
}

static void *shoot(void *arg)
{
    const struct shot *s = arg;

    usleep(s->after);
    plait_comm_abort(s->comm, "shot");
    return NULL;
}

struct aborts {
    struct plait_unique_id *ids; /* [TRIES] */
    uint64_t seed;
};

static uint64_t random_of(uint64_t seed)
{
    seed = (seed + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    return seed ^ seed >> 31;
}

/* A comm over hosts takes longer to make. */
static unsigned tries(void)
{
    return RANKS_ON_HOSTS ? TRIES / 10 : full() ? TRIES : TRIES / 4;
}

/* One of several kinds; of a group of messages there is no request. */
static enum plait_status call_any(struct plait_comm *comm, uint64_t kind, float *in, float *out, size_t n,
                                  const struct plait_call *call)
{
    const uint32_t rank = plait_comm_rank(comm), nrank = plait_comm_nrank(comm);
    const size_t counts[3] = { n / 4, n / 8, n / 3 };
    enum plait_status status;

    switch (kind % 5) {
    case 0:
        status = plait_group_start();
        if (status == PLAIT_OK)
            status = plait_send(comm, in, n, PLAIT_FLOAT32, (rank + 1) % nrank, NULL);
        if (status == PLAIT_OK)
            status = plait_recv(comm, out, n, PLAIT_FLOAT32, (rank + nrank - 1) % nrank, NULL);
        return plait_group_end() == PLAIT_OK ? status : PLAIT_ERR_FAILED;
    case 1:
        return plait_allgatherv(comm, in, out, counts, NULL, PLAIT_FLOAT32, call);
    case 2:
        return plait_broadcast(comm, in, out, n, PLAIT_FLOAT32, 1, call);
    case 3:
        return plait_gatherv(comm, in, counts[rank], out, counts, NULL, PLAIT_FLOAT32, 2, call);
    default:
        return plait_allreduce(comm, in, out, n, PLAIT_FLOAT32, PLAIT_SUM, call);
    }
}

enum { BLOCKING, REQUESTS, PERSISTENT, NFORM };
enum { WINDOW = 4 }; /* requests in flight */

struct form {
    unsigned kind, next;
    struct plait_request *requests[WINDOW];
};

/* One more, waited for: itself, or the one that was begun WINDOW calls ago. */
static enum plait_status call_in_form(struct plait_comm *comm, struct form *f, uint64_t kind, float *in, float *out,
                                      size_t n)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request **r = &f->requests[f->kind == REQUESTS ? f->next++ % WINDOW : 0];
    enum plait_status status = PLAIT_OK;

    if (f->kind == PERSISTENT && *r != NULL) { /* of a group of messages there is none */
        status = plait_start(*r);
        return status == PLAIT_OK ? plait_wait(r) : status;
    }
    if (f->kind == REQUESTS && *r != NULL)
        status = plait_wait(r);
    call.request = f->kind == REQUESTS || f->kind == PERSISTENT ? r : NULL;
    call.persistent = f->kind == PERSISTENT;
    if (status == PLAIT_OK)
        status = call_any(comm, kind, in, out, n, &call);
    return status;
}

/* Operations of all sizes and forms until somebody's thread aborts: each returns, soon. */
static int abort_again_and_again(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct aborts *a = arg;
    enum { MOST = 1 << 18 };
    float *in = calloc(MOST, sizeof *in), *out = malloc(MOST * sizeof *out);
    unsigned late = 0;

    CHECK(in != NULL && out != NULL);
    plait_log_callback(ignore, NULL); /* thousands of lines */
    for (unsigned t = 0; t < tries(); t++) {
        const uint64_t h = random_of(a->seed + t);
        const uint32_t shooter = (uint32_t)(h % 3);
        struct plait_comm_options o = ranks_options(rank);
        struct shot s = { NULL, (unsigned)(h >> 8 & 1023) };
        pthread_t thread;
        enum plait_status status = PLAIT_OK;
        const size_t n = (size_t)1 << (h >> 20) % 19;
        struct form f = { .kind = (h >> 40) % NFORM };
        double start = 0;

        o.id = &a->ids[t];
        CHECK(plait_comm_create(&o, &s.comm) == PLAIT_OK);
        if (rank == shooter)
            CHECK(pthread_create(&thread, NULL, shoot, &s) == 0);
        while (status == PLAIT_OK) {
            start = plait_clock();
            status = call_in_form(s.comm, &f, h >> 44, in, out, n);
        }
        CHECK(status == PLAIT_ERR_FAILED && strstr(plait_last_error(), "shot") != NULL);
        plait_wait_all(f.requests, WINDOW);
        for (unsigned k = 0; k < WINDOW; k++) /* each has ended, one way or the other */
            CHECK(plait_request_free(&f.requests[k]) == PLAIT_OK && f.requests[k] == NULL);
        const double took = plait_clock() - start;
        CHECK(took < LATE);
        late += took > SOON;
        if (rank == shooter)
            pthread_join(thread, NULL);
        CHECK(plait_comm_destroy(s.comm) == PLAIT_ERR_FAILED);
    }
    CHECK(late <= tries() / 50);
    free(in);
    free(out);
    return 0;
}

/* seed: unless the environment has another. */
static void run_aborts(struct ranks *r, uint64_t seed)
{
    const char *v = getenv("PLAIT_TEST_SEED");
    struct aborts a = { calloc(TRIES, sizeof *a.ids), v != NULL ? strtoull(v, NULL, 0) : seed };

    print_message("PLAIT_TEST_SEED=%llu\n", (unsigned long long)a.seed);
    assert_non_null(a.ids);
    for (unsigned t = 0; t < TRIES; t++)
        assert_int_equal(plait_unique_id_create(&a.ids[t]), PLAIT_OK);
    r->arg = &a;
    assert_int_equal(ranks_run(r), 0);
    free(a.ids);
}

static void an_abort_from_any_thread_ends_every_operation(void **state)
{
    struct ranks r = { .nprocess = 3, .nthread = 1, .body = abort_again_and_again, .no_comm = true };

    run_aborts(&r, 20261121);
}

/*
 * Any rank aborts, at any moment of a creation: before it has come to the rendezvous, in it, or after its last look and before
 * its end is known. Every rank hears of it, and of what it was, long before the timeout; but one that gets no processor for
 * half a second comes too late.
 */
static int abort_creation(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct aborts *a = arg;
    unsigned late = 0;

    plait_log_callback(ignore, NULL);
    for (unsigned t = 0; t < TRIES / 4; t++) {
        const uint64_t h = random_of(a->seed + t);
        const uint32_t shooter = h % 2;
        struct plait_comm_options o = ranks_options(rank);
        struct plait_comm *c;
        enum plait_status status;
        o.id = &a->ids[t];
        o.background = 1;
        ranks_meet();
        if ((h >> 8) % 4 == rank) /* one of them, or none, is late */
            usleep((useconds_t)(h >> 16) % 2000);
        CHECK(plait_comm_create(&o, &c) == PLAIT_OK);
        const double moment = plait_clock() + 1e-6 * (double)((h >> 32) % 2000) * ((h >> 10) % 3 > 0);
        while (rank == shooter && plait_clock() < moment && plait_comm_status(c) == PLAIT_IN_PROGRESS)
            ;
        CHECK(rank != shooter || plait_comm_abort(c, "too late") == PLAIT_OK);
        const double until = plait_clock() + 60;
        do
            status = plait_comm_status(c);
        while ((status == PLAIT_IN_PROGRESS || status == PLAIT_OK) && plait_clock() < until);
        CHECK(status == PLAIT_ERR_FAILED || status == PLAIT_ERR_PEER || status == PLAIT_ERR_TIMEOUT);
        late += status == PLAIT_ERR_TIMEOUT;
        plait_comm_destroy(c);
    }
    CHECK(late <= TRIES / 4 / 25);
    return 0;
}

static void an_abort_of_a_creation_is_every_ranks_error(void **state)
{
    struct ranks r = {
        .nprocess = 2, .nthread = 1, .limit = 170, .body = abort_creation, .no_comm = true, .options.timeout = 5
    };

    run_aborts(&r, 20261127);
}

static _Atomic useconds_t slow; /* us that each send() of this process takes */

ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
    usleep(slow);
    return syscall(SYS_sendto, fd, data, bytes, flags, NULL, 0);
}

/*
 * Rank 0's answers take longer than rank 1 waits until it looks whether it is aborted. So rank 0 creates the comm, and
 * rank 1, which was aborted before the last answer came, does not. Rank 0 believed in its comm for ever.
 */
static int abort_before_the_last_answer(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct aborts *a = arg;

    plait_log_callback(ignore, NULL);
    for (unsigned t = 0; t < 12; t++) {
        struct plait_comm_options o = ranks_options(rank);
        struct plait_comm *c;
        enum plait_status status = PLAIT_OK;
        o.id = &a->ids[t];
        o.background = 1;
        o.timeout = 5; /* rank 0 may come too late to be told */
        slow = rank == 0 ? 120000 : 0;
        ranks_meet();
        CHECK(plait_comm_create(&o, &c) == PLAIT_OK);
        if (rank == 1) {
            usleep(60000 + 100000 * t);
            CHECK(plait_comm_abort(c, "too late") == PLAIT_OK);
        }
        const double until = plait_clock() + 60;
        while ((status == PLAIT_IN_PROGRESS || status == PLAIT_OK) && plait_clock() < until) {
            usleep(1000);
            status = plait_comm_status(c);
        }
        CHECK(status == PLAIT_ERR_FAILED || status == PLAIT_ERR_PEER || status == PLAIT_ERR_TIMEOUT);
        plait_comm_destroy(c);
    }
    return 0;
}

static void an_abort_before_the_last_answer_of_a_creation_is_every_ranks_error(void **state)
{
    struct ranks r = {
        .nprocess = 2, .nthread = 1, .limit = 170, .body = abort_before_the_last_answer, .no_comm = true
    };

    run_aborts(&r, 1);
}

/* Rank 1 comes to a creation that rank 0 has aborted a while ago. */
static int come_to_an_aborted_creation(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static atomic_bool told;
    const struct aborts *a = arg;

    plait_log_callback(ignore, NULL);
    for (unsigned t = 0; t < 5 && !told; t++) { /* it may be held up for longer than rank 0 stays */
        struct plait_comm_options o = ranks_options(rank);
        struct plait_comm *c;
        enum plait_status status = PLAIT_IN_PROGRESS;
        o.id = &a->ids[t];
        o.timeout = 3;
        o.background = 1;
        if (rank == 0) {
            CHECK(plait_comm_create(&o, &c) == PLAIT_OK && plait_comm_abort(c, NULL) == PLAIT_OK);
            ranks_meet();
        } else {
            ranks_meet();
            usleep(200000);
            CHECK(plait_comm_create(&o, &c) == PLAIT_OK);
        }
        while (status == PLAIT_IN_PROGRESS)
            status = plait_comm_status(c);
        if (rank == 1 && status == PLAIT_ERR_FAILED && strstr(plait_last_error(), "rank 0: ") != NULL)
            told = true;
        plait_comm_destroy(c);
        ranks_meet();
    }
    CHECK(told);
    return 0;
}

/* It waited for its timeout: rank 0 went at its first look. */
static void who_comes_late_to_an_aborted_creation_is_told(void **state)
{
    struct ranks r = { .nprocess = 1, .nthread = 2, .body = come_to_an_aborted_creation, .no_comm = true };

    run_aborts(&r, 1);
}

/* ---- Looked at -------------------------------------------------------------------------------------------------- */

static int waiting_is_counted_for_whom_it_is(struct plait_comm **comm, uint32_t rank, void *arg)
{
    int32_t counted = 0;

    for (int k = 0; k < 100 && !counted; k++) { /* rank 0 may come late, too */
        usleep(rank == 1 ? 20000 : 0);
        CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
        counted = rank == 0 && plait_comm_waited(*comm, 1) > 0;
        CHECK(plait_broadcast(*comm, &counted, &counted, 1, PLAIT_INT32, 0, NULL) == PLAIT_OK);
    }
    if (rank == 0) {
        CHECK(plait_comm_waited(*comm, 1) > 0 && plait_comm_waited(*comm, 0) == 0);
        CHECK(plait_comm_waited(*comm, 7) == 0 && plait_comm_waited(NULL, 0) == 0);
    }
    return 0;
}

static int look_at_peers(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_peer_info info;

    for (uint32_t peer = 0; peer < 3; peer++) {
        CHECK(plait_comm_peer(*comm, peer, &info) == PLAIT_OK);
        CHECK(strcmp(info.transport, peer == rank ? "self" : "shm") == 0);
        CHECK(info.device[0] == '\0' && info.node == 0 && strcmp(info.gpu, "mapped") == 0);
    }
    info.node = 7;
    CHECK(plait_comm_peer(*comm, 3, &info) == PLAIT_ERR_ARG && strstr(plait_last_error(), "rank is 3") != NULL);
    CHECK(plait_comm_peer(NULL, 0, &info) == PLAIT_ERR_ARG && info.node == 7);
    return 0;
}

static void a_comm_tells_how_each_rank_is_reached(void **state)
{
    run(1, 3, look_at_peers, NULL);
    run(3, 1, look_at_peers, NULL);
}

static int operations_are_counted_by_algorithm(struct plait_comm **comm, uint32_t rank, void *arg)
{
    float v[1000] = { 0 }, w[1000];
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_comm_count c;
    uint64_t ring = 0, all = 0;

    call.algorithm = "ring";
    for (uint32_t i = 0; i < 700; i++) /* more kinds of operation than are remembered */
        CHECK(plait_allreduce(*comm, v, w, 1 + i, PLAIT_FLOAT32, PLAIT_SUM, i % 7 == 0 ? &call : NULL) == PLAIT_OK);
    CHECK(plait_broadcast(*comm, v, w, 10, PLAIT_FLOAT32, 0, NULL) == PLAIT_OK);
    for (size_t i = 0; plait_comm_count(*comm, i, &c) == PLAIT_OK; i++) {
        all += c.operations;
        if (strcmp(c.algorithm, "ring") == 0) {
            CHECK(c.coll == PLAIT_ALLREDUCE && c.bytes == 4 * (100 + 7 * 99 * 100 / 2));
            ring = c.operations;
        }
        if (c.coll == PLAIT_BROADCAST)
            CHECK(c.operations == 1 && c.bytes == 40);
    }
    CHECK(ring == 100 && all == 701);
    CHECK(plait_comm_count(NULL, 0, &c) == PLAIT_ERR_ARG && plait_comm_count(*comm, 0, NULL) == PLAIT_ERR_ARG);
    return 0;
}

static int wrong_arguments_change_nothing(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_comm *part;

    CHECK(plait_comm_split(NULL, 0, 0, NULL, &part) == PLAIT_ERR_ARG);
    CHECK(plait_comm_split(*comm, -2, 0, NULL, &part) == PLAIT_ERR_ARG && strstr(plait_last_error(), "-2") != NULL);
    CHECK(plait_comm_split(*comm, 0, 0, NULL, NULL) == PLAIT_ERR_ARG);
    CHECK(plait_comm_finalize(NULL) == PLAIT_ERR_ARG && plait_comm_revoke(NULL) == PLAIT_ERR_ARG);
    CHECK(plait_comm_suspend(NULL) == PLAIT_ERR_ARG && plait_comm_resume(NULL) == PLAIT_ERR_ARG);
    CHECK(plait_comm_status(NULL) == PLAIT_ERR_ARG && plait_comm_status(*comm) == PLAIT_OK);
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_of_both(ranks_of_one_color_form_a_comm_in_the_order_of_their_keys, 5),
        test_of_ranks(a_duplicate_lives_longer_than_what_it_was_made_of, 4, 1),
        test_of_ranks(a_part_has_the_options_of_the_whole, 2, 1, .options.reproducible = 1, .options.name = "strict"),
        cmocka_unit_test(survivors_go_on_in_a_smaller_comm),
        test_of_both(a_comm_shrinks_again_and_again, 4),
        test_of_both(comms_that_shrank_alike_are_different_ones, 4),
        test_of_both(a_shrink_in_a_group_has_copied_whom_it_excludes, 4),
        test_of_ranks(a_shrink_in_a_group_stops_what_is_in_flight, 1, 4),
        cmocka_unit_test(one_thread_splits_for_all_its_ranks),
        cmocka_unit_test(a_split_ends_when_one_aborts_or_dies),
        cmocka_unit_test(a_shrink_with_a_dead_rank_names_it),
        test_of_ranks(parts_have_the_timeout_of_the_whole, 3, 1, .options.timeout = 2),
        test_of_ranks(comms_made_of_one_comm_in_a_group_are_made_in_order, 4, 1),
        test_of_ranks(a_comm_is_created_in_the_background, 3, 1, .no_comm = true),
        cmocka_unit_test(an_abort_ends_creation_in_the_background),
        cmocka_unit_test(creation_in_the_background_fails_with_its_error),
        test_of_ranks(finalize_ends_what_is_pending, 3, 1),
        test_of_ranks(a_suspended_comm_holds_no_staging_memory, 3, 1),
        test_of_ranks(a_stuck_operation_is_revoked_and_the_others_go_on, 3, 1),
        test_of_ranks(the_status_of_a_comm_tells_other_ranks_failures, 2, 1),
        cmocka_unit_test(an_abort_from_any_thread_ends_every_operation),
        cmocka_unit_test(an_abort_of_a_creation_is_every_ranks_error),
        cmocka_unit_test(an_abort_before_the_last_answer_of_a_creation_is_every_ranks_error),
        cmocka_unit_test(who_comes_late_to_an_aborted_creation_is_told),
        cmocka_unit_test(a_comm_tells_how_each_rank_is_reached),
        test_of_ranks(waiting_is_counted_for_whom_it_is, 2, 1),
        test_of_ranks(operations_are_counted_by_algorithm, 2, 1),
        test_of_ranks(wrong_arguments_change_nothing, 2, 1),
    };

    return cmocka_run_group_tests_name("manage", tests, NULL, NULL);
}
