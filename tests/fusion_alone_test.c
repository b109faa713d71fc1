/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank cannot register: every rank is told which and why, and what was there before goes on. */
#include "inject.h"
#include "pending.h"
#include "unit_ranks.h"

#include <plait/fusion.h>

#include <stdlib.h>
#include <string.h>

#define COUNT 50

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

static int a_wrong_registration_of_one_rank_is_told_to_all(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t cuts[] = { rank == 1 ? 7 : 1 };
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
    o.layout = (struct plait_layout){ PLAIT_LAYOUT_CUTS, 0, cuts, 1 };
    CHECK(told(plait_fusion_create(*comm, &o, &f), rank, PLAIT_ERR_ARG, "plait_fusion_create", "layout.cuts[0] is 7"));
    o.layout.cuts = &(const uint32_t){ 1 };
    CHECK(f == NULL && plait_fusion_create(*comm, &o, &f) == PLAIT_OK);
    CHECK(plait_fusion_nbucket(f) == 2 && sums(f, rank, 3) == 0);
    CHECK(plait_fusion_destroy(f) == PLAIT_OK && plait_barrier(*comm, NULL) == PLAIT_OK);
    return 0;
}

/* Rank 1's nth call that takes a resource fails: the comm of which the fusion would be goes on. */
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
        test_of_both(a_wrong_registration_of_one_rank_is_told_to_all, 3),
        cmocka_unit_test(a_fusion_for_which_one_rank_lacks_memory_leaves_the_comm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
