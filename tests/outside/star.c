/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An algorithm that is no part of Plait: docs/CONTRIBUTING.md's five steps with public headers only.
 *
 * Rank 0 gathers every vector, adds them and sends the sum back.
 */
#include <plait/comm.h>
#include <plait/plan.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* Step 1: the moves of one rank, in program order. */
static void star_emit(const struct plait_alg *self, struct plait_builder *b, const struct plait_shape *s, uint32_t me)
{
    (void)self;
    plait_blocks(b, 1, s->nrank);
    if (me != 0) {
        plait_emit_send(b, 0, plait_in(0), 0, 1);
        plait_emit_recv(b, 0, plait_out(0), 0, 1);
        return;
    }
    if (s->nrank == 1)
        plait_emit_copy(b, plait_out(0), plait_in(0), 0, 1);
    for (uint32_t r = 1; r < s->nrank; r++)
        plait_emit_recv(b, r, plait_tmp(r), 0, 1);
    for (uint32_t r = 1; r < s->nrank; r++)
        plait_emit_reduce(b, plait_out(0), r == 1 ? plait_in(0) : plait_out(0), plait_tmp(r), 0, 1);
    for (uint32_t r = 1; r < s->nrank; r++)
        plait_emit_send(b, r, plait_out(0), 0, 1);
}

/* Step 2: what it can run on. */
static bool star_applies(const struct plait_alg *self, const struct plait_shape *s)
{
    (void)self;
    return s->nrank >= 1;
}

/* Step 3: what it costs. */
static struct plait_claim star_claim(const struct plait_alg *self, const struct plait_shape *s)
{
    struct plait_claim claim;

    (void)self;
    memset(&claim, 0, sizeof claim);
    claim.depth = s->nrank > 1 ? 2 : 0;
    claim.rounds = 2 * (uint64_t)(s->nrank - 1);
    claim.nblk = 1;
    claim.sent = s->nrank - 1;
    claim.received = s->nrank - 1;
    claim.rounds_exact = true;
    return claim;
}

/* Step 4: the entry of the table. Inside Plait it goes into algorithms/table.c. */
static const struct plait_alg star = {
    .name = "star",
    .coll = PLAIT_ALLREDUCE,
    .params = "",
    .text = "rank 0 adds and tells everyone",
    .source = "folklore",
    .no_partials = true,
    .applies = star_applies,
    .emit = star_emit,
    .claim = star_claim,
};
static const struct plait_alg *const mine[] = { &star, NULL };

/* Step 5: prove it, then run it. */
static int prove(void)
{
    for (uint32_t n = 1; n <= 32; n++)
        for (int inplace = 0; inplace < 2; inplace++) {
            struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = n, .inplace = inplace };
            struct plait_report report;
            if (plait_alg_check(&star, &shape, &report) != PLAIT_OK) {
                fprintf(stderr, "%s\n", report.text);
                return 1;
            }
        }
    return 0;
}

#define RANKS 3
#define COUNT 5000

struct rank {
    struct plait_unique_id id;
    uint32_t number;
    int failed;
};

static void *run(void *arg)
{
    struct rank *r = arg;
    struct plait_comm_options options = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_choice choice;
    struct plait_comm *comm = NULL;
    int64_t in[COUNT], out[COUNT];

    for (int i = 0; i < COUNT; i++)
        in[i] = i * (int64_t)(r->number + 1);
    options.nrank = RANKS;
    options.rank = r->number;
    options.id = &r->id;
    options.algorithms = mine;
    call.algorithm = "star";
    r->failed = plait_comm_create(&options, &comm) != PLAIT_OK ||
                plait_comm_choose(comm, &(struct plait_shape){ .coll = PLAIT_ALLREDUCE }, COUNT, PLAIT_INT64, PLAIT_SUM,
                                  &call, &choice) != PLAIT_OK ||
                plait_allreduce(comm, in, out, COUNT, PLAIT_INT64, PLAIT_SUM, &call) != PLAIT_OK;
    if (r->failed)
        fprintf(stderr, "rank %u: %s\n", r->number, plait_last_error());
    for (int i = 0; !r->failed && i < COUNT; i++)
        r->failed = out[i] != (int64_t)i * (1 + 2 + 3);
    if (!r->failed)
        r->failed = strcmp(choice.algorithm, "star") != 0;
    plait_comm_destroy(comm);
    return NULL;
}

int main(void)
{
    struct rank ranks[RANKS];
    pthread_t threads[RANKS];
    int failed = 0;

    if (prove() != 0)
        return 1;
    if (plait_unique_id_create(&ranks[0].id) != PLAIT_OK) {
        fprintf(stderr, "%s\n", plait_last_error());
        return 1;
    }
    for (unsigned i = 0; i < RANKS; i++) {
        ranks[i].id = ranks[0].id;
        ranks[i].number = i;
        if (pthread_create(&threads[i], NULL, run, &ranks[i]) != 0)
            return 1;
    }
    for (unsigned i = 0; i < RANKS; i++) {
        pthread_join(threads[i], NULL);
        failed |= ranks[i].failed;
    }
    printf("star: %s\n", failed ? "wrong" : "proved for 1 to 32 ranks, right on 3");
    return failed;
}
