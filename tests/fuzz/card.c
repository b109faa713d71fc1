/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cards by which ranks describe themselves when a comm is created. The input changes bytes of right cards: two
 * bytes where, one what. A card that is taken lies within its arena, and so does its control block; cards that may form
 * a comm are equal in all that is compared. The file is included because cards are its own.
 */
#include "fuzz.h"

#include "../../lib/lifecycle/connect.c"

#include <stddef.h>

#define NRANK 3

/* The corpus says which bytes it changes. */
_Static_assert(sizeof(struct plait_card) == 488 && offsetof(struct plait_card, slice) == 40 &&
                   offsetof(struct plait_card, nccl_fusion) == 48 && offsetof(struct plait_card, node_hash) == 72 &&
                   offsetof(struct plait_card, algorithms) == 80 && offsetof(struct plait_card, reproducible) == 108 &&
                   offsetof(struct plait_card, round) == 112 && offsetof(struct plait_card, version) == 117 &&
                   offsetof(struct plait_card, algo) == 133 && offsetof(struct plait_card, network) == 356,
               "make the corpus anew when cards change");

static void fill(struct plait_card *all)
{
    memset(all, 0, NRANK * sizeof *all);
    for (uint32_t r = 0; r < NRANK; r++) {
        all[r].process.word[0] = r / 2;
        all[r].control = (uint64_t)4096 * (1 + r % 2);
        all[r].arena_size = (uint64_t)1 << 24;
        all[r].id = 7;
        all[r].pid = 100 + (int32_t)r / 2;
        strcpy(all[r].version, "0.1.0");
        strcpy(all[r].algo, "allreduce:ring");
    }
}

/* In all that the ranks of a comm must have in common. */
static bool are_equal(const struct plait_card *a, const struct plait_card *b)
{
    return strcmp(a->version, b->version) == 0 && strcmp(a->algo, b->algo) == 0 && a->slice == b->slice &&
           a->nccl_fusion == b->nccl_fusion && a->reproducible == b->reproducible && a->round == b->round &&
           a->node_hash == b->node_hash && a->hosts == b->hosts && a->algorithms == b->algorithms &&
           a->pace.latency == b->pace.latency && a->pace.bandwidth == b->pace.bandwidth &&
           strcmp(a->network, b->network) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plait_card *all = malloc(NRANK * sizeof *all);
    uint32_t node[NRANK] = { 0 };
    const struct connecting m = { .all = all, .node = node };
    enum plait_status status;

    MUST(all != NULL);
    fill(all);
    for (size_t i = 0; i + 3 <= size; i += 3)
        ((uint8_t *)all)[((size_t)data[i] << 8 | data[i + 1]) % (NRANK * sizeof *all)] = data[i + 2];
    status = plait_cards_check(all, NRANK);
    for (uint32_t r = 0; r < NRANK && status == PLAIT_OK; r++) {
        MUST(strnlen(all[r].version, sizeof all->version) < sizeof all->version);
        MUST(strnlen(all[r].algo, sizeof all->algo) < sizeof all->algo);
        MUST(strnlen(all[r].network, sizeof all->network) < sizeof all->network);
        MUST(strnlen(all[r].hostname, sizeof all->hostname) < sizeof all->hostname && all[r].address <= 64 << 10);
        MUST(all[r].control < all[r].arena_size);
        MUST(all[r].arena_size - all[r].control >= plait_control_bytes(NRANK));
        MUST(is_leader(&m, r) == (r == 0 || !plait_is_same_token(all[r].process, all[r - 1].process)) || r == 2);
    }
    MUST(status == PLAIT_OK || status == PLAIT_ERR_MISMATCH);
    MUST(status == PLAIT_OK || strncmp(plait_last_error(), "comm creation: ", 15) == 0);
    if (status == PLAIT_OK)
        for (uint32_t r = 1; r < NRANK; r++)
            MUST(are_equal(&all[0], &all[r]));
    free(all);
    return 0;
}
