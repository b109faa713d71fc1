/* SPDX-License-Identifier: BSD-3-Clause */
/* What plait-info --explain says is what runs. Usage: explain_test PLAIT_INFO */
#include "unit.h"

#include <plait/comm.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RANKS  5
#define MOST_RANKS 10 /* with levels */

static const char *info;

struct run {
    struct plait_unique_id id;
    uint32_t rank, nrank;
    enum plait_coll coll;
    bool vform; /* the form with blocks of different sizes */
    size_t bytes;
    enum plait_dtype type;
    enum plait_op op;
    bool inplace;
    const char *algorithm;
    const char *nodes;    /* the map, as plait-info has it, */
    const uint32_t *node; /* and as the library has it; NULL: one node */
    const char *levels;   /* likewise; those of the library are hwloc's */
    enum plait_status status;
    uint64_t plan_hash;
    char error[256];
};

/* Blocks of 4 bytes but the last rank's, which is the largest; all-to-all: all have its size. */
static enum plait_status run_sized(struct plait_comm *comm, const struct run *r, const void *in, void *out,
                                   const struct plait_call *call)
{
    const uint32_t root = r->nrank - 1;
    const size_t n = r->bytes / plait_dtype_size(r->type);
    size_t counts[MOST_RANKS], equal[MOST_RANKS];

    for (uint32_t i = 0; i < r->nrank; i++) {
        counts[i] = i == root ? n : 1;
        equal[i] = n;
    }
    switch (r->coll) {
    case PLAIT_REDUCE_SCATTER:
        return plait_reduce_scatterv(comm, in, out, counts, NULL, r->type, r->op, call);
    case PLAIT_ALLGATHER:
        return plait_allgatherv(comm, in, out, counts, NULL, r->type, call);
    case PLAIT_GATHER:
        return plait_gatherv(comm, in, equal[r->rank], out, equal, NULL, r->type, 0, call);
    case PLAIT_SCATTER:
        return plait_scatterv(comm, in, equal, NULL, out, equal[r->rank], r->type, 0, call);
    default:
        return plait_alltoallv(comm, in, equal, NULL, out, equal, NULL, r->type, call);
    }
}

static void *run_rank(void *arg)
{
    struct run *r = arg;
    struct plait_comm_options options = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_comm_stats stats = { 0 };
    struct plait_comm *comm = NULL;
    void *in = calloc(r->nrank, r->bytes + sizeof(double)), *out = calloc(r->nrank, r->bytes + 1);

    options.nrank = r->nrank;
    options.rank = r->rank;
    options.id = &r->id;
    options.node = r->node;
    call.algorithm = r->algorithm;
    call.scale = r->op == PLAIT_PREMULSUM ? in : NULL;
    r->status = plait_comm_create(&options, &comm);
    if (r->status == PLAIT_OK && r->vform)
        r->status = run_sized(comm, r, in, out, &call);
    else if (r->status == PLAIT_OK)
        r->status = plait_allreduce(comm, r->inplace ? out : in, out, r->bytes / plait_dtype_size(r->type), r->type,
                                    r->op, &call);
    snprintf(r->error, sizeof r->error, "%s", plait_last_error());
    if (r->status == PLAIT_OK)
        plait_comm_stats(comm, &stats);
    r->plan_hash = stats.plan_hash;
    plait_comm_destroy(comm);
    free(in);
    free(out);
    return NULL;
}

/* The hash that plait-info prints. */
static uint64_t explained(const struct run *r)
{
    char command[512], line[512];
    uint64_t hash = 0;
    FILE *f;

    snprintf(command, sizeof command, "'%s' --explain %s%s %zu --ranks %u --type %s --op %s %s %s %s %s %s %s %s", info,
             plait_coll_name(r->coll), r->vform ? "v" : "", r->bytes, r->nrank, plait_dtype_name(r->type),
             plait_op_name(r->op), r->inplace ? "--inplace" : "", r->algorithm != NULL ? "--algo" : "",
             r->algorithm != NULL ? r->algorithm : "", r->nodes != NULL ? "--nodes" : "",
             r->nodes != NULL ? r->nodes : "", r->levels != NULL ? "--levels" : "", r->levels != NULL ? r->levels : "");
    f = popen(command, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL)
        sscanf(line, "plan hash %" SCNx64, &hash);
    assert_int_equal(pclose(f), 0);
    assert_true(hash != 0);
    return hash;
}

static void compare(struct run what)
{
    struct run runs[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    const uint64_t hash = explained(&what);

    assert_int_equal(plait_unique_id_create(&what.id), PLAIT_OK);
    for (uint32_t i = 0; i < what.nrank; i++) {
        runs[i] = what;
        runs[i].rank = i;
        assert_int_equal(pthread_create(&threads[i], NULL, run_rank, &runs[i]), 0);
    }
    for (uint32_t i = 0; i < what.nrank; i++)
        pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < what.nrank; i++) {
        if (runs[i].status != PLAIT_OK)
            fail_msg("rank %u: %s", i, runs[i].error);
        if (runs[i].plan_hash != hash)
            fail_msg("%u ranks, %zu bytes, %s: rank %u ran %" PRIx64 ", explained was %" PRIx64, what.nrank, what.bytes,
                     plait_dtype_name(what.type), i, runs[i].plan_hash, hash);
    }
}

/* Of 10 ranks two caches have two, and memory nodes 3, 2, 3 and 2. It is first, since hwloc reads a host once. */
static void levels_run_as_explained(void **state)
{
    static const char *const algorithms[] = { NULL, "hierarchy", "hierarchy:jia:ring" };

    setenv("HWLOC_SYNTHETIC", "package:2 numa:2 l3:2 core:2 pu:1", 1);
    setenv("PLAIT_BIND", "core", 1);
    for (size_t a = 0; a < sizeof algorithms / sizeof *algorithms; a++)
        for (size_t bytes = 8; bytes <= 4 << 20; bytes *= 512)
            compare((struct run){ .nrank = MOST_RANKS,
                                  .bytes = bytes,
                                  .type = PLAIT_FLOAT32,
                                  .op = PLAIT_SUM,
                                  .algorithm = algorithms[a],
                                  .levels = "2+1+1+1+2+1+1+1,3+2+3+2,5+5" });
    unsetenv("PLAIT_BIND");
    unsetenv("HWLOC_SYNTHETIC");
}

static void every_size_runs_as_explained(void **state)
{
    for (uint32_t nrank = 1; nrank <= MAX_RANKS; nrank++)
        for (size_t bytes = 8; bytes <= 8 << 20; bytes *= 8)
            compare((struct run){ .nrank = nrank, .bytes = bytes, .type = PLAIT_FLOAT32, .op = PLAIT_SUM });
}

static void every_type_and_operator_runs_as_explained(void **state)
{
#define PLAIT_X(symbol, value, ...) symbol,
    static const enum plait_dtype types[] = { PLAIT_DTYPE_LIST(PLAIT_X) };
    static const enum plait_op ops[] = { PLAIT_OP_LIST(PLAIT_X) };
#undef PLAIT_X

    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (size_t o = 0; o < sizeof ops / sizeof ops[0] && ops[o] != PLAIT_USER; o++)
            compare((struct run){
                .nrank = 3, .bytes = 64 << 10, .type = types[t], .op = ops[o], .inplace = (t + o) % 2 == 0 });
}

static void a_named_algorithm_runs_as_explained(void **state)
{
    compare((struct run){ .nrank = 4, .bytes = 1 << 20, .type = PLAIT_FLOAT32, .op = PLAIT_SUM, .algorithm = "ring" });
    compare((struct run){
        .nrank = 4, .bytes = 64, .type = PLAIT_FLOAT32, .op = PLAIT_SUM, .algorithm = "ring", .inplace = true });
}

/* With a node map the rules over hosts were explained, and those of one machine ran. */
static void node_maps_run_as_explained(void **state)
{
    static const uint32_t even[] = { 0, 0, 1, 1 }, uneven[] = { 0, 0, 0, 1 };

    for (size_t bytes = 8; bytes <= 8 << 20; bytes *= 8) {
        const struct run run = { .nrank = 4, .bytes = bytes, .type = PLAIT_FLOAT32, .op = PLAIT_SUM };
        struct run mapped = run;
        mapped.nodes = "2x2";
        mapped.node = even;
        compare(mapped);
        mapped.nodes = "3+1";
        mapped.node = uneven;
        compare(mapped);
    }
}

static void forms_of_different_sizes_run_as_explained(void **state)
{
    static const enum plait_coll colls[] = { PLAIT_REDUCE_SCATTER, PLAIT_ALLGATHER, PLAIT_GATHER, PLAIT_SCATTER,
                                             PLAIT_ALLTOALL };
    static const uint32_t node[] = { 0, 1, 1 };

    for (size_t c = 0; c < sizeof colls / sizeof *colls; c++)
        for (uint32_t nrank = 2; nrank <= 3; nrank++)
            for (size_t bytes = 16; bytes <= 4 << 20; bytes *= 64) {
                struct run run = { .nrank = nrank,
                                   .coll = colls[c],
                                   .vform = true,
                                   .bytes = bytes,
                                   .type = PLAIT_FLOAT32,
                                   .op = PLAIT_SUM };
                compare(run);
                run.nodes = nrank == 2 ? "1+1" : "1+2";
                run.node = node;
                compare(run);
            }
    compare((struct run){ .nrank = 3,
                          .coll = PLAIT_ALLGATHER,
                          .vform = true,
                          .bytes = 64,
                          .type = PLAIT_FLOAT32,
                          .op = PLAIT_SUM,
                          .algorithm = "ring" });
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_run_as_explained),
        cmocka_unit_test(every_size_runs_as_explained),
        cmocka_unit_test(every_type_and_operator_runs_as_explained),
        cmocka_unit_test(a_named_algorithm_runs_as_explained),
        cmocka_unit_test(node_maps_run_as_explained),
        cmocka_unit_test(forms_of_different_sizes_run_as_explained),
    };

    if (argc != 2) {
        fprintf(stderr, "usage: explain_test PLAIT_INFO\n");
        return 2;
    }
    info = argv[1];
    unsetenv("PLAIT_BIND");
    return cmocka_run_group_tests_name("explain", tests, NULL, NULL);
}
