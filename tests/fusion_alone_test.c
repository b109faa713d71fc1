/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank cannot register or lay out: every rank is told which and why, and what was there before goes on. */
#include "inject.h"
#include "pending.h"
#include "unit_ranks.h"

#include <plait/fusion.h>

#include <stdlib.h>
#include <string.h>

#define COUNT 50

static const uint32_t two_buckets[] = { 1 };

static int sums(struct plait_fusion *f, uint32_t rank, uint32_t nrank)
{
    for (uint32_t t = 0; t < 2; t++) {
        for (size_t i = 0; i < COUNT; i++)
            ((float *)plait_fusion_data(f, t))[i] = (float)(rank + t);
        CHECK(plait_fusion_ready(f, t) == PLAIT_OK);
    }
    CHECK(plait_fusion_wait_all(f, NULL) == PLAIT_OK);
    for (uint32_t t = 0; t < 2; t++)
        for (size_t i = 0; i < COUNT; i++)
            CHECK(((float *)plait_fusion_data(f, t))[i] == (float)(nrank * (nrank - 1) / 2 + nrank * t));
    return 0;
}

/* What only this rank was told; the others have heard it with its number. */
static bool told(enum plait_status status, uint32_t rank, enum plait_status own, const char *call, const char *why)
{
    char text[300];

    snprintf(text, sizeof text, "%s: rank 1 failed: %s: %s", call, call, why);
    return status == (rank == 1 ? own : PLAIT_ERR_MISMATCH) && says(rank == 1 ? why : text);
}

static int a_wrong_registration_or_layout_of_one_rank_is_told_to_all(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plait_layout right = { PLAIT_LAYOUT_CUTS, 0, two_buckets, 1 };
    const uint32_t cuts[] = { rank == 1 ? 7 : 1 };
    const struct plait_layout layout = { PLAIT_LAYOUT_CUTS, 0, cuts, 1 };
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;
    struct plait_tensor tensors[] = { { "a", COUNT, PLAIT_FLOAT32, NULL }, { "b", COUNT, PLAIT_FLOAT32, NULL } };
    struct plait_fusion *f = NULL;

    o.tensors = tensors;
    o.ntensor = 2;
    CHECK(told(plait_fusion_create(*comm, rank == 1 ? NULL : &o, &f), rank, PLAIT_ERR_ARG, "plait_fusion_create",
               "options is NULL"));
    tensors[0].count = rank == 1 ? 0 : COUNT;
    CHECK(told(plait_fusion_create(*comm, &o, &f), rank, PLAIT_ERR_ARG, "plait_fusion_create",
               "tensor 0 'a': count is 0"));
    tensors[0].count = COUNT;
    CHECK(f == NULL && plait_fusion_create(*comm, &o, &f) == PLAIT_OK && sums(f, rank, 3) == 0);
    CHECK(told(plait_fusion_set_layout(f, &layout), rank, PLAIT_ERR_ARG, "plait_fusion_set_layout",
               "layout.cuts[0] is 7"));
    CHECK(told(plait_fusion_set_layout(f, rank == 1 ? NULL : &layout), rank, PLAIT_ERR_ARG, "plait_fusion_set_layout",
               "layout is NULL"));
    CHECK(plait_fusion_nbucket(f) == 1 && sums(f, rank, 3) == 0);
    CHECK(plait_fusion_set_layout(f, &right) == PLAIT_OK && plait_fusion_nbucket(f) == 2 && sums(f, rank, 3) == 0);
    CHECK(plait_fusion_destroy(f) == PLAIT_OK && plait_barrier(*comm, NULL) == PLAIT_OK);
    return 0;
}

/* Has rank 1's nth call been made to fail? */
static int fired(struct plait_comm *comm, uint32_t rank, uint32_t *out)
{
    *out = inject_fired() != NULL;
    CHECK(plait_broadcast(comm, out, out, 1, PLAIT_UINT32, 1, NULL) == PLAIT_OK);
    return 0;
}

/* Rank 1's nth call that takes a resource fails, for each n. */
static int a_layout_for_which_one_rank_lacks_memory_leaves_the_old_one(struct plait_comm **comm, uint32_t rank,
                                                                       void *arg)
{
    const struct plait_layout layout = { PLAIT_LAYOUT_CUTS, 0, two_buckets, 1 };
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;
    struct plait_tensor tensors[] = { { "a", COUNT, PLAIT_FLOAT32, NULL }, { "b", COUNT, PLAIT_FLOAT32, NULL } };
    struct plait_fusion *f;
    uint32_t more = 1, told_all = 0;

    o.tensors = tensors;
    o.ntensor = 2;
    for (unsigned nth = 1; more; nth++) {
        CHECK(plait_fusion_create(*comm, &o, &f) == PLAIT_OK && sums(f, rank, 2) == 0);
        if (rank == 1)
            inject_arm(nth, false);
        const enum plait_status status = plait_fusion_set_layout(f, &layout);
        inject_disarm();
        CHECK(rank == 1 || status != PLAIT_ERR_MISMATCH || says("rank 1 failed: "));
        CHECK(fired(*comm, rank, &more) == 0);
        CHECK(more || status == PLAIT_OK);
        const enum plait_status left = plait_comm_status(plait_fusion_comm(f));
        if (status != PLAIT_OK && left == PLAIT_OK) {
            CHECK(plait_fusion_nbucket(f) == 1 && sums(f, rank, 2) == 0);
            told_all++;
        }
        CHECK(plait_fusion_destroy(f) == left);
    }
    CHECK(told_all >= 5);
    return 0;
}

/* As before, at creation: the comm of which it would be goes on. */
static int short_at_creation(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;
    const struct plait_tensor tensors[] = { { "a", COUNT, PLAIT_FLOAT32, NULL }, { "b", COUNT, PLAIT_FLOAT32, NULL } };
    struct plait_fusion *f = NULL;

    o.tensors = tensors;
    o.ntensor = 2;
    if (rank == 1)
        inject_arm(*(const unsigned *)arg, false);
    const enum plait_status status = plait_fusion_create(*comm, &o, &f);
    inject_disarm();
    CHECK(told(status, rank, PLAIT_ERR_NOMEM, "plait_fusion_create", "out of memory") ||
          (rank == 0 && status == PLAIT_ERR_MISMATCH && says("rank 1 failed: out of memory")));
    CHECK(f == NULL && plait_fusion_create(*comm, &o, &f) == PLAIT_OK && sums(f, rank, 2) == 0);
    CHECK(plait_fusion_destroy(f) == PLAIT_OK);
    return 0;
}

static void a_fusion_for_which_one_rank_lacks_memory_leaves_the_comm(void **state)
{
    for (unsigned nth = 1; nth <= 3; nth++)
        run(2, 1, short_at_creation, &nth);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_of_both(a_wrong_registration_or_layout_of_one_rank_is_told_to_all, 3),
        test_of_ranks(a_layout_for_which_one_rank_lacks_memory_leaves_the_old_one, 2, 1),
        cmocka_unit_test(a_fusion_for_which_one_rank_lacks_memory_leaves_the_comm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
