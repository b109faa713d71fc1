/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks in threads with stacks of 64 KiB, as runtimes of other languages have them. */
#include "unit.h"

#include <plait/coll.h>
#include <plait/comm.h>
#include <plait/status.h>
#include <plait/version.h>

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STACK ((size_t)64 << 10)
#define NRANK 4
#define COUNT 5000 /* elements: several slices of the smallest */

static const uint32_t nodes[NRANK] = { 0, 0, 1, 1 };

struct rank {
    const struct plait_unique_id *id;
    uint32_t rank;
    const char *failed; /* the call */
    char why[512];
    pthread_t thread;
};

static bool ok(struct rank *r, enum plait_status status, const char *call)
{
    if (status == PLAIT_OK || r->failed != NULL)
        return r->failed == NULL;
    r->failed = call;
    snprintf(r->why, sizeof r->why, "%s", plait_last_error());
    return false;
}

static bool sum(struct rank *r, struct plait_comm *comm, enum plait_dtype type, const char *algorithm)
{
    const uint32_t n = plait_comm_nrank(comm);
    struct plait_call call = PLAIT_CALL_DEFAULT;
    char *in = calloc(COUNT, 8), *out = malloc((size_t)COUNT * 8);
    bool right;

    call.algorithm = algorithm;
    call.slice = 4096;
    for (size_t i = 0; type == PLAIT_INT32 && i < COUNT; i++)
        ((int32_t *)(void *)in)[i] = (int32_t)plait_comm_rank(comm) + 1;
    right = ok(r, plait_allreduce(comm, in, out, COUNT, type, PLAIT_SUM, &call), algorithm ? algorithm : "allreduce");
    for (size_t i = 0; right && type == PLAIT_INT32 && i < COUNT; i++)
        right = ((int32_t *)(void *)out)[i] == (int32_t)(n * (n + 1) / 2);
    if (!right && r->failed == NULL)
        r->failed = "a sum is wrong";
    free(in);
    free(out);
    return right;
}

static void use(struct rank *r, struct plait_comm *comm)
{
    char *mine = calloc(NRANK, COUNT), *theirs = malloc((size_t)NRANK * COUNT);
    struct plait_comm *half = NULL, *fewer = NULL;

    sum(r, comm, PLAIT_INT32, NULL);
    sum(r, comm, PLAIT_INT32, "hierarchy");
    sum(r, comm, PLAIT_INT32, "ring");
    sum(r, comm, PLAIT_FLOAT16, "one-shot"); /* widened to float on the stack */
    sum(r, comm, PLAIT_BFLOAT16, "two-shot");
    ok(r, plait_allgather(comm, mine, theirs, COUNT, PLAIT_UINT8, NULL), "allgather");
    ok(r, plait_alltoall(comm, mine, theirs, COUNT, PLAIT_UINT8, NULL), "alltoall");
    ok(r, plait_broadcast(comm, mine, theirs, COUNT, PLAIT_UINT8, 1, NULL), "broadcast");
    ok(r, plait_reduce_scatter(comm, mine, theirs, COUNT, PLAIT_UINT8, PLAIT_MAX, NULL), "reduce_scatter");
    ok(r, plait_barrier(comm, NULL), "barrier");
    if (ok(r, plait_comm_split(comm, (int)r->rank % 2, 0, NULL, &half), "split"))
        sum(r, half, PLAIT_INT32, NULL);
    ok(r, plait_comm_destroy(half), "destroy");
    if (r->rank > 0 && ok(r, plait_comm_shrink(comm, &(uint32_t){ 0 }, 1, 0, NULL, &fewer), "shrink"))
        sum(r, fewer, PLAIT_INT32, NULL);
    ok(r, plait_comm_destroy(fewer), "destroy");
    free(mine);
    free(theirs);
}

static void *run(void *arg)
{
    struct rank *r = arg;
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_comm *comm = NULL;

    o.nrank = NRANK;
    o.rank = r->rank;
    o.id = r->id;
    o.node = nodes;
    if (!ok(r, plait_comm_create(&o, &comm), "create"))
        return NULL;
    use(r, comm);
    ok(r, plait_comm_destroy(comm), "destroy");
    return NULL;
}

static void in_small_threads(const struct plait_unique_id *id)
{
    struct rank ranks[NRANK] = { 0 };
    pthread_attr_t attr;

    pthread_attr_init(&attr);
    assert_int_equal(pthread_attr_setstacksize(&attr, STACK), 0);
    for (uint32_t i = 0; i < NRANK; i++) {
        ranks[i] = (struct rank){ .id = id, .rank = i };
        assert_int_equal(pthread_create(&ranks[i].thread, &attr, run, &ranks[i]), 0);
    }
    for (uint32_t i = 0; i < NRANK; i++)
        pthread_join(ranks[i].thread, NULL);
    pthread_attr_destroy(&attr);
    for (uint32_t i = 0; i < NRANK; i++)
        if (ranks[i].failed != NULL)
            fail_msg("rank %u: %s: %s", i, ranks[i].failed, ranks[i].why);
}

static void stacks_of_64_kib_are_enough_on_one_machine(void **state)
{
    struct plait_unique_id id;

    assert_int_equal(plait_unique_id_create(&id), PLAIT_OK);
    in_small_threads(&id);
}

static void stacks_of_64_kib_are_enough_over_tcp(void **state)
{
    struct plait_unique_id id;

    if (strstr(plait_features(), "libsodium:yes") == NULL) {
        print_message("skipped: built without libsodium\n");
        skip();
    }
    assert_int_equal(plait_unique_id_create_tcp("=lo", &id), PLAIT_OK);
    in_small_threads(&id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stacks_of_64_kib_are_enough_on_one_machine),
        cmocka_unit_test(stacks_of_64_kib_are_enough_over_tcp),
    };

    if (SANITIZED || STACK < (size_t)sysconf(_SC_THREAD_STACK_MIN)) {
        printf("skipped: %s\n", SANITIZED ? "sanitizers enlarge frames" : "no thread may have so small a stack here");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
