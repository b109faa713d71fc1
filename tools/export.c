/* SPDX-License-Identifier: BSD-3-Clause */
#include "export.h"

#include "message.h"
#include "option.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LANES 256

/* GOAL matches messages by tag: those of a lane are numbered, as the k-th SEND pairs with the k-th RECV. */
static uint32_t tag_of(uint32_t *numbers, const struct plait_step *s)
{
    return numbers[(uint32_t)s->peer * LANES + s->lane]++ * LANES + s->lane;
}

static uint64_t bytes_of(const struct plait_plan *plan, const struct plait_step *s, size_t count)
{
    const bool vector = plait_geometry_of((enum plait_coll)plan->coll, 1, 0, 0, 1).kind == PLAIT_KIND_VECTOR;

    if (!vector || s->blk == PLAIT_AS_LIES)
        return s->nblk * (vector ? count / plan->nblk : count) * sizeof(float);
    return (plait_block_start(count, plan->nblk, s->blk + s->nblk) - plait_block_start(count, plan->nblk, s->blk)) *
           sizeof(float);
}

static void print_step(const struct plait_machine *m, const struct plait_plan *plan, uint32_t i, size_t count,
                       uint32_t *sent, uint32_t *received)
{
    const struct plait_step *s = &plan->step[i];
    const uint64_t bytes = bytes_of(plan, s, count);
    const uint64_t rate = m == NULL ? 0 : s->verb == PLAIT_STEP_REDUCE ? m->reduce : m->copy;

    printf("l%" PRIu32 ": ", i);
    if (s->verb == PLAIT_STEP_SEND)
        printf("send %" PRIu64 "b to %" PRId32 " tag %" PRIu32 "\n", bytes, s->peer, tag_of(sent, s));
    else if (s->verb == PLAIT_STEP_RECV)
        printf("recv %" PRIu64 "b from %" PRId32 " tag %" PRIu32 "\n", bytes, s->peer, tag_of(received, s));
    else
        printf("calc %.0f\n", rate > 0 ? 1e9 * (double)bytes / (double)rate : 0);
    for (uint32_t d = 0; d < s->ndep; d++)
        printf("l%" PRIu32 " requires l%" PRIu32 "\n", i, plait_plan_deps(plan)[s->dep0 + d]);
}

static bool print_rank(const struct plait_machine *m, const struct plait_alg *alg, const struct plait_shape *shape,
                       uint32_t rank, size_t count)
{
    uint32_t *numbers = calloc(2 * (size_t)shape->nrank * LANES, sizeof *numbers);
    struct plait_plan *plan = NULL;
    const bool ok = numbers != NULL && plait_plan_emit(alg, shape, rank, &plan) == PLAIT_OK;

    if (ok)
        printf("\nrank %" PRIu32 " {\n", rank);
    for (uint32_t i = 0; ok && i < plan->nstep; i++)
        print_step(m, plan, i, count, numbers, numbers + (size_t)shape->nrank * LANES);
    if (ok)
        printf("}\n");
    else
        complain("rank %" PRIu32 ": %s", rank, numbers != NULL ? plait_last_error() : "out of memory");
    plait_plan_destroy(plan);
    free(numbers);
    return ok;
}

int export_goal(const struct plait_machine *machine, const struct plait_shape *shape, const char *spec, size_t count)
{
    struct plait_shape s = *shape;
    const struct plait_alg *alg;

    if (plait_alg_find(plait_algs, spec, &s, &alg) != PLAIT_OK)
        option_misuse("%s", plait_last_error());
    printf("num_ranks %" PRIu32 "\n", s.nrank);
    for (uint32_t r = 0; r < s.nrank; r++)
        if (!print_rank(machine, alg, &s, r, count))
            return 1;
    return 0;
}
