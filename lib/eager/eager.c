/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Eager operations. Each writer stores its data in a slot of its own control block, then the operation's word with a
 * release store. A reader that sees the word sees all of the data, and reads the data in place. If the data is small
 * enough, both share a cache line.
 *
 * Slots rotate by the operation's number in its comm (t->turn), so ranks that call different operations never mistake
 * each other's data. A writer may run ahead of its readers (the root of broadcasts, all but the root of reductions).
 * Before it overwrites the data of operation q, all readers of that data must have finished q. The slot lists them
 * (plait_given.to). The writer learns that they have finished q
 *
 * - from the data that it read: a rank that has published data in operation s has finished s - 1. When all have,
 *   comm->begun becomes s. If every rank reads from every other in each operation, this test is enough;
 * - otherwise from `done` of each reader: stored (release) after the reader has read the data, loaded (acquire) before
 *   the writer overwrites the slot. One load usually covers several slots (plait_peer.finished, and comm->begun if all
 *   ranks are readers).
 *
 * If each reader has its own block, the slot holds one part per reader, in rank order from the writer's successor on,
 * without the writer's own block. With variable block sizes (v-forms), every part has room for the largest block, so
 * readers find their part without knowing the other sizes. The size of each part is beside the word or, if the sizes do
 * not fit there, before the part; the reader compares it with the size that it expects. If only sender and receiver
 * know a size, a part has room for plait_selection.split bytes. For a larger block the slot holds the size alone, and
 * the engine moves the block.
 *
 * Long data in library memory is not copied into the slot (single copy). `lies` says where the data is. Readers read
 * it there and publish this in `took`; only then do they wait until their own readers have done so. Other long data is
 * written with cached or streaming stores, as copy_mode.h says.
 *
 * No deadlock: let m be the lowest operation that some rank has not finished. A rank in m waits for words of m; no
 * word is overwritten before the rank has read the data. Or it waits for readers of operations before m, which have all
 * finished. Or, having read everything, it waits for its own readers in m, to which the same applies.
 */
#include "eager.h"
#include "failure/failure.h"

#include <stddef.h>
#include <string.h>

static inline uint32_t next_rank(const struct plait_comm *comm, uint32_t rank)
{
    return rank + 1 < comm->nrank ? rank + 1 : 0;
}

/* ---- Writer -------------------------------------------------------------------------------------------- */

/* The slot of an operation. Slots descend: a reader's prefetcher runs upwards and so does not fetch the next slot. */
static inline size_t slot_in(const struct plait_eager_plan *t, uint64_t sequence)
{
    return ~sequence & t->turn;
}

static inline struct plait_given *given_at(const struct plait_control *c, const struct plait_eager_plan *t, size_t slot)
{
    return (struct plait_given *)((uintptr_t)c + t->given) + slot;
}

static inline uint8_t *data_at(const struct plait_control *c, const struct plait_eager_plan *t, size_t slot)
{
    return (uint8_t *)(uintptr_t)c + t->data + slot * t->apart;
}

/* The size field of a part (variable block sizes). */
static inline uint8_t *head_at(const struct plait_control *c, const struct plait_eager_plan *t, size_t slot,
                               uint32_t part)
{
    return t->beside ? given_at(c, t, slot)->few + part * PLAIT_EAGER_HEAD : data_at(c, t, slot) + part * t->part;
}

/*
 * Have all readers of the slot's previous data (before operation `sequence`) finished that operation? If not, *late is
 * one of those that have not.
 */
static __attribute__((noinline)) bool is_read(struct plait_comm *comm, const struct plait_eager_plan *t,
                                              uint64_t sequence, uint32_t *late)
{
    const struct plait_given *given = given_at(comm->own, t, slot_in(t, sequence));
    const uint32_t word = (uint32_t)atomic_load_explicit(&given->word, memory_order_relaxed);
    const uint64_t last = sequence - ((uint32_t)sequence - word);
    uint64_t all = UINT64_MAX - 1;

    for (uint32_t i = 0, r = given->to.first; i < given->to.n; i++, r = next_rank(comm, r)) {
        struct plait_peer *peer = &comm->peers[r];
        if (peer->finished < last)
            peer->finished = atomic_load_explicit(&peer->control->done, memory_order_acquire);
        if (peer->finished < last) {
            *late = r;
            return false;
        }
        all = peer->finished < all ? peer->finished : all;
    }
    if (given->to.n == comm->nrank - 1 && comm->begun < all + 1)
        comm->begun = all + 1;
    return true;
}

/* May this rank write its slot for operation `sequence`? Not while a reader may still read the previous data. */
static inline bool is_free(struct plait_comm *comm, const struct plait_eager_plan *t, uint64_t sequence, uint32_t *late)
{
    return __builtin_expect(sequence - comm->begun <= t->turn, 1) || is_read(comm, t, sequence, late);
}

/*
 * Prefetch for writing: sizes repeat, so fetch the cache lines of the next operation's data while this operation waits
 * or the caller computes. Not the cache line of the word, which readers may poll, and none that they may still read.
 */
static __attribute__((noinline)) void expect(struct plait_comm *comm, const struct plait_eager_plan *t,
                                             uint64_t sequence, bool few)
{
    const uint8_t *data = data_at(comm->own, t, slot_in(t, sequence));
    uint32_t late;

    if (!is_free(comm, t, sequence, &late))
        return;
    if (!few)
        plait_expect(data, t->bytes);
    for (uint32_t i = 0; few && i < (t->parts ? t->to.n : 1); i++)
        plait_expect(data + i * t->part, PLAIT_LINE);
}

/* The slot of IN or OUT for the block to or from `rank`: IN and OUT have one slot or one per rank. */
static inline uint32_t slot_of(const struct plait_side *side, uint32_t rank)
{
    return side->nslot > 1 ? rank : 0;
}

static __attribute__((noinline)) void put_parts(const struct plait_comm *comm, const struct plait_op_plan *o,
                                                const struct plait_sizes *v, const void *in, size_t slot)
{
    const struct plait_eager_plan *t = &o->eager;
    uint8_t *to = data_at(comm->own, t, slot);

    for (uint32_t i = 0, r = t->to.first; i < (t->parts ? t->to.n : 1); i++, r = next_rank(comm, r)) {
        const uint32_t s = slot_of(&o->geometry.in, r);
        const uint64_t bytes = v->in[s] * o->size;
        if (bytes > 0 && bytes <= t->room)
            plait_copy(comm->kernels, to + i * t->part + t->head, (const uint8_t *)in + v->in_at[s] * o->size, bytes);
        memcpy(head_at(comm->own, t, slot, i), &bytes, sizeof bytes);
    }
}

static __attribute__((noinline)) void count_parts(struct plait_comm *comm, const struct plait_op_plan *o,
                                                  const struct plait_sizes *v)
{
    const struct plait_ranks *to = &o->eager.to;

    for (uint32_t i = 0, r = to->first; i < to->n; i++, r = next_rank(comm, r)) {
        const size_t bytes = v->in[slot_of(&o->geometry.in, r)] * o->size;
        comm->stats.messages += bytes <= o->eager.room;
        comm->stats.bytes_sent += bytes <= o->eager.room ? bytes : 0;
    }
}

/* Publishes this rank's data. v: used if o->sized. lends: single copy from `in`. */
static inline __attribute__((always_inline)) void give(struct plait_comm *comm, const struct plait_op_plan *o,
                                                       const struct plait_sizes *v, uint64_t word, const void *in,
                                                       size_t slot, bool lends)
{
    const struct plait_eager_plan *t = &o->eager;
    struct plait_given *given = given_at(comm->own, t, slot);

    if (lends)
        given->lies = (int64_t)((uintptr_t)in - (uintptr_t)comm->own);
    else if (t->lends)
        given->lies = PLAIT_LIES_HERE;
    if (o->sized)
        put_parts(comm, o, v, in, slot);
    else if (!lends && (t->parts || t->streams))
        plait_eager_put(comm, t, data_at(comm->own, t, slot), in);
    else if (!lends && t->bytes > 0)
        plait_copy(comm->kernels, data_at(comm->own, t, slot), in, t->bytes);
    given->to = t->to;
    atomic_store_explicit(&given->word, word, memory_order_release);
    plait_wake(comm, t->to.first);
    for (uint32_t i = 1, r = t->to.first; i < t->to.n; i++) {
        r = next_rank(comm, r);
        plait_wake(comm, r);
    }
}

/* Statistics and prefetch, off the critical path: a blocking call does them while it would wait for the others. */
static inline __attribute__((always_inline)) void after_giving(struct plait_comm *comm, const struct plait_op_plan *o,
                                                               const struct plait_sizes *v)
{
    const struct plait_eager_plan *t = &o->eager;

    if (o->sized) {
        count_parts(comm, o, v);
    } else {
        comm->stats.messages += t->to.n;
        comm->stats.bytes_sent += t->to.n * o->count * o->size;
    }
    if (t->bytes > PLAIT_BESIDE_WORD && t->turn > 1)
        expect(comm, t, comm->sequence + 1, o->selection.split > 0);
}

/* ---- Readers ------------------------------------------------------------------------------------------- */

static inline bool has_given(const struct plait_comm *comm, const struct plait_eager_plan *t, uint32_t rank,
                             size_t slot, uint64_t word)
{
    return atomic_load_explicit(&given_at(comm->peers[rank].control, t, slot)->word, memory_order_acquire) == word;
}

/* The index of this rank's part in the slot of `rank`, another rank. */
static inline uint32_t own_part(const struct plait_comm *comm, const struct plait_eager_plan *t, uint32_t rank)
{
    return t->parts ? comm->rank + (comm->rank > rank ? 0 : comm->nrank) - rank - 1 : 0;
}

/* The published data of `rank` for this rank. Sets *lent if this is a single copy. */
static inline const void *given_by(const struct plait_comm *comm, const struct plait_eager_plan *t, uint32_t rank,
                                   size_t slot, bool *lent)
{
    const struct plait_control *c = comm->peers[rank].control;
    const int64_t at = t->lends ? given_at(c, t, slot)->lies : PLAIT_LIES_HERE;

    if (at != PLAIT_LIES_HERE) {
        *lent = true;
        return (const uint8_t *)((uintptr_t)c + (uintptr_t)at) + (t->parts ? comm->rank * t->room : 0);
    }
    return data_at(comm->peers[rank].control, t, slot) + own_part(comm, t, rank) * t->part + t->head;
}

/*
 * Before a single-copy read: a failed writer in this process may free its memory. It first waits for all ranks
 * whose rings show them inside the operation. A rank that enters later sees the failure here (plait_engine_turn()).
 * The arena of another process stays mapped, so there is no check.
 */
static enum plait_status look_at_lender(struct plait_comm *comm, uint32_t rank)
{
    if (comm->peers[rank].process->base != NULL)
        return PLAIT_OK;
    atomic_thread_fence(memory_order_seq_cst);
    return plait_probe_failures(comm);
}

static void copy(struct plait_comm *comm, void *to, const void *from, size_t bytes)
{
    if (to == from || bytes == 0) /* in place, or no OUT */
        return;
    plait_copy(comm->kernels, to, from, bytes);
    comm->stats.bytes_copied += bytes;
}

static void copy_part(struct plait_comm *comm, const struct plait_op_plan *o, const struct plait_sizes *v,
                      uint32_t rank, const void *from, void *out)
{
    const uint32_t slot = slot_of(&o->geometry.out, rank);

    copy(comm, (uint8_t *)out + v->out_at[slot] * o->size, from, v->out[slot] * o->size);
}

/* Copies this rank's own block to OUT, while the data of the others arrives. */
static __attribute__((noinline)) void keep(struct plait_comm *comm, const struct plait_op_plan *o,
                                           const struct plait_sizes *v, const void *in, void *out)
{
    const struct plait_eager_plan *t = &o->eager;

    if (o->sized)
        copy_part(comm, o, v, comm->rank,
                  (const uint8_t *)in + v->in_at[slot_of(&o->geometry.in, comm->rank)] * o->size, out);
    else
        copy(comm, (uint8_t *)out + comm->rank * t->stride, (const uint8_t *)in + t->at, o->count * o->size);
}

/* Compares the size that the sender wrote with the size that this rank expects. */
static enum plait_status check_part(struct plait_comm *comm, const struct plait_op_plan *o, const struct plait_sizes *v,
                                    uint32_t rank)
{
    const struct plait_eager_plan *t = &o->eager;
    const size_t expected = v->out[slot_of(&o->geometry.out, rank)] * o->size;
    uint64_t bytes;

    memcpy(&bytes, head_at(comm->peers[rank].control, t, slot_in(t, comm->sequence), own_part(comm, t, rank)),
           sizeof bytes);
    if (!PLAIT_GUARDS || bytes == expected)
        return PLAIT_OK;
    return plait_comm_blame(comm, PLAIT_ERR_MISMATCH, rank, "rank %u sends %llu bytes where rank %u expects %zu", rank,
                            (unsigned long long)bytes, comm->rank, expected);
}

/* Checks the size; copies the block unless it is an operand of a reduction or too large for the eager path. */
static __attribute__((noinline)) enum plait_status take_part(struct plait_comm *comm, const struct plait_op_plan *o,
                                                             const struct plait_sizes *v, uint32_t rank,
                                                             const void *from, void *out)
{
    const enum plait_status status = check_part(comm, o, v, rank);

    if (status == PLAIT_OK && !o->geometry.combines &&
        v->out[slot_of(&o->geometry.out, rank)] * o->size <= o->eager.room)
        copy_part(comm, o, v, rank, from, out);
    return status;
}

/* The data of `rank` has arrived. A block that is only copied is copied now, while the next one arrives. */
static inline __attribute__((always_inline)) enum plait_status take(struct plait_comm *comm,
                                                                    const struct plait_op_plan *o,
                                                                    const struct plait_sizes *v, uint32_t rank,
                                                                    const void *from, void *out)
{
    if (o->sized)
        return take_part(comm, o, v, rank, from, out);
    if (!o->geometry.combines)
        copy(comm, (uint8_t *)out + rank * o->eager.stride, from, o->count * o->size);
    return PLAIT_OK;
}

/* Reduces all operands into OUT. from: [nrank] operands; this rank's own is set here. */
static inline __attribute__((always_inline)) void combine(struct plait_comm *comm, const struct plait_op_plan *o,
                                                          const struct plait_sizes *v, const void **from,
                                                          const void *in, void *out)
{
    const bool sized = o->sized;
    const size_t count = sized ? v->out[0] : o->count;

    if (count == 0)
        return;
    from[comm->rank] =
        (const uint8_t *)in + (sized ? v->in_at[slot_of(&o->geometry.in, comm->rank)] * o->size : o->eager.at);
    o->reduce(out, from, comm->nrank, count, &o->last);
    comm->stats.bytes_reduced += count * o->size;
}

void plait_eager_tell(struct plait_comm *comm, const struct plait_op_plan *o)
{
    for (uint32_t i = 0, r = o->eager.from.first; i < o->eager.from.n; i++, r = next_rank(comm, r))
        plait_wake(comm, r);
}

/* Have all readers read this rank's single-copy data? If not, *late is one that has not. */
static inline bool is_taken(const struct plait_comm *comm, const struct plait_eager_plan *t, uint32_t *late)
{
    for (uint32_t i = 0, r = t->to.first; i < t->to.n; i++, r = next_rank(comm, r))
        if (atomic_load_explicit(&comm->peers[r].control->took, memory_order_acquire) < comm->sequence) {
            *late = r;
            return false;
        }
    return true;
}

/* All data has arrived, and blocks that are only copied have been copied. */
static inline __attribute__((always_inline)) enum plait_status finish(struct plait_comm *comm,
                                                                      const struct plait_op_plan *o,
                                                                      const struct plait_sizes *v, const void **from,
                                                                      const void *in, void *out, bool lends, bool lent)
{
    const struct plait_eager_plan *t = &o->eager;

    if (t->from.n == comm->nrank - 1)
        comm->begun = comm->sequence;
    if (t->turn == 1 && t->to.n > 0 && !lends) /* with two slots, the next is free only now */
        expect(comm, t, comm->sequence + 1, o->selection.split > 0);
    if (t->takes && o->geometry.combines)
        combine(comm, o, v, from, in, out);
    if (lent) {
        atomic_store_explicit(&comm->own->took, comm->sequence, memory_order_release);
        plait_eager_tell(comm, o);
    }
    return plait_probe_failures(comm);
}

/* ---- Blocking ------------------------------------------------------------------------------------------ */

struct turn { /* progress of a blocking operation */
    const struct plait_eager_plan *t;
    size_t slot;
    uint64_t word;
    uint32_t rank;  /* the rank that it waits for */
    uint32_t after; /* number of further writers after `rank` */
    uint32_t done;  /* finished steps */
    bool lends;     /* single copy: waiting for the readers is one more step */
};

static uint32_t awaited(const void *context, uint32_t *ranks, uint32_t most)
{
    (void)most;
    *ranks = ((const struct turn *)context)->rank;
    return 1;
}

/* Do all writers whose data is missing run on other processors? */
static bool are_apart(const struct plait_comm *comm, const struct turn *turn)
{
    bool apart = plait_is_apart(comm, turn->rank);

    for (uint32_t i = 0, r = next_rank(comm, turn->rank); i < turn->after && apart; i++, r = next_rank(comm, r))
        apart = has_given(comm, turn->t, r, turn->slot, turn->word) || plait_is_apart(comm, r);
    return apart;
}

/* Number of steps: publish, read from each writer and, with single copy, wait for the readers. */
static uint64_t nsteps(const struct plait_eager_plan *t, bool lends)
{
    return (t->to.n > 0) + t->from.n + lends;
}

static uint64_t steps(const void *context, uint64_t *of)
{
    const struct turn *turn = context;

    *of = nsteps(turn->t, turn->lends);
    return turn->done;
}

static bool has_come(struct plait_comm *comm, struct turn *turn)
{
    return has_given(comm, turn->t, turn->rank, turn->slot, turn->word);
}

static bool may_write(struct plait_comm *comm, struct turn *turn)
{
    return is_free(comm, turn->t, comm->sequence, &turn->rank);
}

static bool may_return(struct plait_comm *comm, struct turn *turn)
{
    return is_taken(comm, turn->t, &turn->rank);
}

static __attribute__((noinline)) enum plait_status
wait_until(struct plait_comm *comm, bool (*is_over)(struct plait_comm *comm, struct turn *turn), struct turn turn)
{
    struct plait_wait w;
    enum plait_status status = PLAIT_OK;

    plait_wait_init(&w, NULL, awaited, &turn);
    w.detector.steps = steps;
    plait_wait_for_few_bytes(comm, &w, comm->apart > 0 && are_apart(comm, &turn));
    while (status == PLAIT_OK && !is_over(comm, &turn))
        status = plait_wait_turn(comm, &w);
    plait_wait_progress(comm, &w);
    return status;
}

enum plait_status plait_eager_run(struct plait_comm *comm, const struct plait_op_plan *o, const struct plait_sizes *v,
                                  uint64_t word, const void *in, void *out)
{
    const struct plait_eager_plan *t = &o->eager;
    const size_t slot = slot_in(t, comm->sequence);
    const void *from[PLAIT_EAGER_RANKS];
    const bool lends = t->lends && plait_eager_may_lend(comm, o, in, out);
    enum plait_status status = PLAIT_OK;
    bool lent = false;
    uint32_t late;

    if (t->to.n > 0) {
        if (!is_free(comm, t, comm->sequence, &late))
            status = wait_until(comm, may_write, (struct turn){ .t = t, .rank = late });
        if (status != PLAIT_OK)
            return status;
        give(comm, o, v, word, in, slot, lends);
        after_giving(comm, o, v);
    }
    if (t->keeps)
        keep(comm, o, v, in, out);
    for (uint32_t i = 0, r = t->from.first; i < t->from.n; i++, r = next_rank(comm, r)) {
        if (!has_given(comm, t, r, slot, word))
            status = wait_until(comm, has_come,
                                (struct turn){ t, slot, word, r, t->from.n - i - 1, (t->to.n > 0) + i, lends });
        if (status != PLAIT_OK)
            return status;
        from[r] = given_by(comm, t, r, slot, &lent);
        if (lent)
            status = look_at_lender(comm, r);
        if (status == PLAIT_OK)
            status = take(comm, o, v, r, from[r], out);
        if (status != PLAIT_OK)
            return status;
    }
    status = finish(comm, o, v, from, in, out, lends, lent);
    if (status == PLAIT_OK && lends && !is_taken(comm, t, &late))
        status = wait_until(comm, may_return,
                            (struct turn){ .t = t, .rank = late, .done = (uint32_t)nsteps(t, false), .lends = true });
    return status;
}

/* ---- Nonblocking ------------------------------------------------------------------------------------ */

uint32_t plait_eager_awaited(const void *context, uint32_t *ranks, uint32_t most)
{
    const struct plait_run *run = context;
    const struct plait_eager_plan *t = &run->o->eager;

    (void)most;
    *ranks = run->given && !run->finished ? (t->from.first + run->taken) % run->comm->nrank : run->late;
    return !run->given || run->finished || run->taken < t->from.n;
}

static uint64_t run_steps(const void *context, uint64_t *of)
{
    const struct plait_run *run = context;

    *of = nsteps(&run->o->eager, run->lends);
    return (run->given && run->o->eager.to.n > 0) + run->taken;
}

/* Publishes this rank's data if its slot is free; false if not. */
static inline __attribute__((always_inline)) bool try_give(struct plait_run *run)
{
    struct plait_comm *comm = run->comm;
    const struct plait_eager_plan *t = &run->o->eager;
    const uint64_t s = comm->sequence;

    if (t->to.n == 0)
        return true;
    if (!is_free(comm, t, s, &run->late))
        return false;
    run->lends = t->lends && plait_eager_may_lend(comm, run->o, run->in, run->out);
    give(comm, run->o, &run->sizes, run->word, run->in, slot_in(t, s), run->lends);
    return true;
}

void plait_eager_begin(struct plait_comm *comm, const struct plait_op_plan *o, const struct plait_sizes *v,
                       uint64_t word, const void *in, void *out)
{
    struct plait_run *run = comm->run;

    run->o = o;
    if (o->sized)
        run->sizes = *v;
    run->word = word;
    run->in = (char *)(uintptr_t)in;
    run->out = out;
    run->taken = 0;
    run->lends = run->finished = false;
    plait_wait_init(&run->wait, NULL, plait_eager_awaited, run);
    run->wait.detector.steps = run_steps;
    run->given = try_give(run);
    if (run->o->eager.keeps)
        keep(comm, run->o, &run->sizes, run->in, run->out);
}

/* All writers have published: read their data. */
static enum plait_status take_all(struct plait_run *run)
{
    struct plait_comm *comm = run->comm;
    const struct plait_eager_plan *t = &run->o->eager;
    const void *from[PLAIT_EAGER_RANKS];
    bool lent = false;

    for (uint32_t i = 0, r = t->from.first; i < t->from.n; i++, r = next_rank(comm, r)) {
        from[r] = given_by(comm, t, r, slot_in(t, comm->sequence), &lent);
        enum plait_status status = lent ? look_at_lender(comm, r) : PLAIT_OK;
        if (status == PLAIT_OK)
            status = take(comm, run->o, &run->sizes, r, from[r], run->out);
        if (status != PLAIT_OK)
            return status;
    }
    if (t->to.n > 0)
        after_giving(comm, run->o, &run->sizes);
    run->finished = true;
    return finish(comm, run->o, &run->sizes, from, run->in, run->out, run->lends, lent);
}

enum plait_status plait_eager_turn(struct plait_comm *comm, bool *moved, bool *ended)
{
    struct plait_run *run = comm->run;
    const struct plait_eager_plan *t = &run->o->eager;
    const size_t slot = slot_in(t, comm->sequence);
    enum plait_status status = PLAIT_OK;

    if (!run->given && !(*moved = run->given = try_give(run)))
        return PLAIT_OK;
    for (; run->taken < t->from.n; run->taken++, *moved = true)
        if (!has_given(comm, t, (t->from.first + run->taken) % comm->nrank, slot, run->word))
            return PLAIT_OK;
    if (!run->finished) {
        *moved = true;
        status = take_all(run);
    }
    *ended = status == PLAIT_OK && (!run->lends || is_taken(comm, t, &run->late));
    return status;
}
