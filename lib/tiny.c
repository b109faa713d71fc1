/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tiny all-reduces. The word that says whose operation it belongs to shares a line with the data where that fits; the
 * data is stored first and the word last, so whoever sees the word sees all of it, and the others' data is combined
 * where it lies. Two slots are used in turn: when a rank writes a slot again, it has read all others' data of the
 * operation before, so all others have finished the operation before that, which used this slot.
 */
#include "tiny.h"

#include <string.h>

struct turn { /* the rank whose vector is next, the i-th */
    uint32_t rank, i;
};

static uint32_t awaited(const void *context, uint32_t *ranks, uint32_t most)
{
    (void)most;
    *ranks = ((const struct turn *)context)->rank;
    return 1;
}

static uint64_t steps(const void *context)
{
    return ((const struct turn *)context)->i - 1;
}

static enum plait_status wait_for(struct plait_comm *comm, const struct plait_tiny *slot, uint64_t word,
                                  struct turn turn)
{
    struct plait_wait w;
    enum plait_status status = PLAIT_OK;

    plait_wait_init(&w, awaited, &turn);
    w.steps = steps;
    while (status == PLAIT_OK && atomic_load_explicit(&slot->word, memory_order_acquire) != word)
        status = plait_wait_turn(comm, &w);
    plait_wait_progress(comm, &w);
    return status;
}

static inline uint8_t *data_of(struct plait_tiny *slot, size_t bytes)
{
    return bytes <= PLAIT_BESIDE_WORD ? slot->few : slot->many;
}

/*
 * Sizes repeat: the lines that the next operation will write come while the caller works. Not the first, at whose word
 * the others may look already.
 */
static inline void own(struct plait_tiny *slot, size_t bytes)
{
    for (size_t at = 0; bytes > PLAIT_BESIDE_WORD && at < bytes; at += PLAIT_LINE)
        __builtin_prefetch(slot->many + at, 1);
}

static inline void put(struct plait_comm *comm, uint32_t set, uint64_t word, const void *in, size_t bytes)
{
    if (bytes > 0)
        memcpy(data_of(&comm->own->tiny[set], bytes), in, bytes);
    atomic_store_explicit(&comm->own->tiny[set].word, word, memory_order_release);
}

static inline void combine(struct plait_comm *comm, const struct plait_op_plan *o, uint32_t set,
                           const void *const *from, void *out, size_t bytes)
{
    if (bytes > 0)
        o->reduce(out, from, comm->nrank, o->count, &o->last);
    own(&comm->own->tiny[set ^ 1], bytes);
    comm->stats.bytes_reduced += bytes;
    comm->stats.messages += comm->nrank - 1;
    comm->stats.bytes_sent += (comm->nrank - 1) * bytes;
}

enum plait_status plait_tiny_run(struct plait_comm *comm, const struct plait_op_plan *o, uint64_t word, const void *in,
                                 void *out)
{
    const uint32_t set = comm->ntiny++ & 1;
    const size_t bytes = o->count * o->size;
    const void *from[PLAIT_TINY_RANKS];
    enum plait_status status = PLAIT_OK;

    put(comm, set, word, in, bytes);
    from[comm->rank] = in;
    for (uint32_t i = 1, r = comm->rank; i < comm->nrank && status == PLAIT_OK; i++) {
        r = r + 1 < comm->nrank ? r + 1 : 0;
        const struct plait_tiny *slot = &comm->peers[r].control->tiny[set];
        plait_wake(comm, r);
        from[r] = data_of((struct plait_tiny *)(uintptr_t)slot, bytes);
        if (atomic_load_explicit(&slot->word, memory_order_acquire) != word)
            status = wait_for(comm, slot, word, (struct turn){ r, i });
    }
    if (status != PLAIT_OK)
        return status;
    combine(comm, o, set, from, out, bytes);
    return plait_look_for_failures(comm);
}

/* ---- In turns --------------------------------------------------------------------------------------- */

static uint32_t run_awaited(const void *context, uint32_t *ranks, uint32_t most)
{
    const struct plait_run *run = context;

    (void)most;
    *ranks = (run->comm->rank + run->taken) % run->comm->nrank;
    return 1;
}

static uint64_t run_steps(const void *context)
{
    return ((const struct plait_run *)context)->taken - 1;
}

void plait_tiny_begin(struct plait_comm *comm, const struct plait_op_plan *o, uint64_t word, const void *in, void *out)
{
    struct plait_run *run = comm->run;

    run->o = o;
    run->word = word;
    run->in = (char *)(uintptr_t)in;
    run->out = out;
    run->taken = 1;
    plait_wait_init(&run->wait, run_awaited, run);
    run->wait.steps = run_steps;
    put(comm, comm->ntiny++ & 1, word, in, o->count * o->size);
    for (uint32_t r = 0; r < comm->nrank; r++)
        if (r != comm->rank)
            plait_wake(comm, r);
}

enum plait_status plait_tiny_turn(struct plait_comm *comm, bool *moved, bool *ended)
{
    struct plait_run *run = comm->run;
    const uint32_t set = (comm->ntiny - 1) & 1;
    const size_t bytes = run->o->count * run->o->size;
    const void *from[PLAIT_TINY_RANKS];

    while (run->taken < comm->nrank) {
        const struct plait_tiny *slot = &comm->peers[(comm->rank + run->taken) % comm->nrank].control->tiny[set];
        if (atomic_load_explicit(&slot->word, memory_order_acquire) != run->word)
            return PLAIT_OK;
        run->taken++;
        *moved = true;
    }
    for (uint32_t r = 0; r < comm->nrank; r++)
        from[r] = data_of((struct plait_tiny *)(uintptr_t)&comm->peers[r].control->tiny[set], bytes);
    from[comm->rank] = run->in;
    combine(comm, run->o, set, from, run->out, bytes);
    *ended = true;
    return plait_look_for_failures(comm);
}
