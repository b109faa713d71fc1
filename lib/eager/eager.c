/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Eager operations. Each writer stores its data in a slot of its own control block, then the operation's word with a
 * release store. A reader that sees the word sees all of the data, and reads the data in place. If the data is small
 * enough, both share a cache line.
 *
 * Slots rotate by the operation's number in its comm (t->turn), so ranks that call different operations never mistake
 * each other's data. A writer may run ahead of its readers (the root of broadcasts, all but the root of reductions).
 * Before it overwrites the data of operation q, all readers of that data must have finished q. The slot lists them
 * (plait_eager_entry.to). The writer learns that they have finished q
 *
 * - from the data that it read: a rank that has published data in operation s has finished s - 1. When all have,
 *   comm->begun becomes s. If every rank reads from every other in each operation, this test is enough;
 * - otherwise from `done` of each reader: stored (release) after the reader has read the data, loaded (acquire) before
 *   the writer overwrites the slot. One load usually covers several slots (plait_peer.finished, and comm->begun if all
 *   ranks are readers).
 *
 * If each reader has its own block, the slot holds one part per reader, in rank order from the writer's successor on,
 * without the writer's own block. With variable block sizes (v-forms), every part has room for the largest block, so
 * readers find their part without knowing the other sizes. The size of each part is before it; the reader compares it
 * with the size that it expects. If only sender and receiver know a size, a part has room for plait_selection.split
 * bytes. For a larger block the slot holds the size alone, and the engine moves the block.
 *
 * Long data in library memory is not copied into the slot (single copy). `lies` says where the data is. Readers read
 * it there and publish this in `took`; only then do they wait until their own readers have done so.
 *
 * No deadlock: let m be the lowest operation that some rank has not finished. A rank in m waits for words of m; no
 * word is overwritten before the rank has read the data. Or it waits for readers of operations before m, which have all
 * finished. Or, having read everything, it waits for its own readers in m, to which the same applies.
 */
#include "eager_slots.h"
#include "failure/failure.h"

/* ---- Writer -------------------------------------------------------------------------------------------- */

/*
 * Have all readers of the slot's previous data (before operation `sequence`) finished that operation? If not, *reader
 * is one of those that have not.
 */
static __attribute__((noinline)) bool is_read(struct plait_comm *comm, const struct plait_eager_plan *t,
                                              uint64_t sequence, uint32_t *reader)
{
    const struct plait_eager_entry *entry = plait_eager_entry_at(comm->own, t, plait_eager_slot(t, sequence));
    const uint32_t word = (uint32_t)atomic_load_explicit(&entry->word, memory_order_relaxed);
    const uint64_t last = sequence - ((uint32_t)sequence - word);
    uint64_t all = UINT64_MAX - 1;

    for (uint32_t i = 0, r = entry->to.first; i < entry->to.n; i++, r = plait_eager_next(comm, r)) {
        struct plait_peer *peer = &comm->peers[r];
        if (peer->finished < last)
            peer->finished = atomic_load_explicit(&peer->control->done, memory_order_acquire);
        if (peer->finished < last) {
            *reader = r;
            return false;
        }
        all = peer->finished < all ? peer->finished : all;
    }
    if (entry->to.n == comm->nrank - 1 && comm->begun < all + 1)
        comm->begun = all + 1;
    return true;
}

/* May this rank write its slot for operation `sequence`? Not while a reader may still read the previous data. */
static inline bool is_free(struct plait_comm *comm, const struct plait_eager_plan *t, uint64_t sequence,
                           uint32_t *reader)
{
    return __builtin_expect(sequence - comm->begun <= t->turn, 1) || is_read(comm, t, sequence, reader);
}

/* Can all readers map IN? Yes if it is in the arena or all readers are in this process. */
static bool is_reached(const struct plait_comm *comm, const struct plait_eager_plan *t, const void *in, size_t bytes)
{
    bool all = true;

    if (plait_arena_contains(in, bytes))
        return true;
    for (uint32_t i = 0; i < t->to.n; i++)
        all &= comm->peers[(t->to.first + i) % comm->nrank].process->base == NULL; /* a rank of this process */
    return all;
}

/* If t->single_copy: can all readers read IN in place, and does this rank leave IN unchanged meanwhile? */
static bool may_single_copy(const struct plait_comm *comm, const struct plait_op_plan *o, const void *in,
                            const void *out)
{
    const struct plait_eager_plan *t = &o->eager;
    const bool stays = t->from.n == 0 || in != out || o->geometry.kind == PLAIT_KIND_PART;

    return t->to.n > 0 && stays && is_reached(comm, t, in, o->in_bytes);
}

/* Copies IN to a slot: all parts but this rank's own. */
static void put(const struct plait_comm *comm, const struct plait_eager_plan *t, uint8_t *to, const uint8_t *in)
{
    const size_t behind = (comm->nrank - 1 - comm->rank) * t->part, before = comm->rank * t->part;

    if (behind > 0)
        plait_copy(comm->kernels, to, in + before + t->part, behind);
    if (before > 0)
        plait_copy(comm->kernels, to + behind, in, before);
}

/*
 * Prefetches this rank's next slot for writing, if its readers have done with it: sizes repeat, and a store would wait
 * until the readers' copies of its cache line are gone. The word's line, too, if all ranks read each other and this
 * rank has only just published: no rank ends this operation, and polls the next word, before that data arrives. With
 * large slots the prefetch comes at the end of the operation, when others may poll.
 */
static inline __attribute__((always_inline)) void prefetch_next(const struct plait_run *run)
{
    const struct plait_eager_plan *t = &run->o->eager;
    struct plait_comm *comm = run->comm;
    const size_t slot = plait_eager_slot(t, comm->sequence + 1);
    uint32_t reader;
    const char *from;

    if (t->turn > 1 && t->from.n == comm->nrank - 1)
        __builtin_prefetch(plait_eager_entry_at(comm->own, t, slot), 1);
    if (t->bytes <= PLAIT_BESIDE_WORD || !is_free(comm, t, comm->sequence + 1, &reader))
        return;
    const bool vform = run->o->vform;
    for (uint32_t i = 0, r = t->to.first; i < (vform && t->parts ? t->to.n : 1); i++, r = plait_eager_next(comm, r)) {
        const uint8_t *data = plait_eager_data_at(comm->own, t, slot) + i * t->part;
        const size_t own = vform ? plait_eager_part_in(run, r, &from) : t->bytes;
        const size_t bytes = vform && own > t->room ? 0 : own; /* the slot has no block of that size */
        for (size_t at = 0; at < t->head + bytes; at += PLAIT_LINE)
            __builtin_prefetch(data + at, 1);
    }
}

/* Publishes this rank's data. */
static inline __attribute__((always_inline)) void publish(const struct plait_run *run, size_t slot)
{
    const struct plait_eager_plan *t = &run->o->eager;
    struct plait_comm *comm = run->comm;
    struct plait_eager_entry *entry = plait_eager_entry_at(comm->own, t, slot);
    const bool copies = !run->single_copy;

    if (t->single_copy)
        entry->lies = copies ? PLAIT_LIES_HERE : (int64_t)((uintptr_t)run->in - (uintptr_t)comm->own);
    if (run->o->vform)
        plait_eager_put_parts(run, slot);
    else if (copies && t->parts)
        put(comm, t, plait_eager_data_at(comm->own, t, slot), (const uint8_t *)run->in);
    else if (copies && t->bytes > 0)
        plait_copy(comm->kernels, plait_eager_data_at(comm->own, t, slot), run->in, t->bytes);
    entry->to = t->to;
    atomic_store_explicit(&entry->word, run->word, memory_order_release);
    plait_wake(comm, t->to.first);
    for (uint32_t i = 1, r = t->to.first; i < t->to.n; i++) {
        r = plait_eager_next(comm, r);
        plait_wake(comm, r);
    }
}

/* Publishes this rank's data if its slot is free; false if not. */
static inline __attribute__((always_inline)) bool try_publish(struct plait_run *run)
{
    struct plait_comm *comm = run->comm;
    const struct plait_eager_plan *t = &run->o->eager;

    if (t->to.n == 0)
        return true;
    if (!is_free(comm, t, comm->sequence, &run->reader))
        return false;
    run->single_copy = t->single_copy && may_single_copy(comm, run->o, run->in, run->out);
    publish(run, plait_eager_slot(t, comm->sequence));
    if (t->turn > 1)
        prefetch_next(run);
    if (!run->o->vform) {
        comm->stats.messages += t->to.n;
        comm->stats.bytes_sent += t->to.n * run->o->bytes;
    }
    return true;
}

/* ---- Readers ------------------------------------------------------------------------------------------- */

static inline bool has_published(const struct plait_run *run, uint32_t rank)
{
    const struct plait_eager_plan *t = &run->o->eager;
    const struct plait_control *c = run->comm->peers[rank].control;

    return atomic_load_explicit(&plait_eager_entry_at(c, t, plait_eager_slot(t, run->comm->sequence))->word,
                                memory_order_acquire) == run->word;
}

/* The offset of the data of `rank` from its control block; PLAIT_LIES_HERE: the data is in its slot. */
static inline int64_t lies_at(const struct plait_run *run, uint32_t rank)
{
    const struct plait_eager_plan *t = &run->o->eager;
    const struct plait_control *c = run->comm->peers[rank].control;

    return t->single_copy ? plait_eager_entry_at(c, t, plait_eager_slot(t, run->comm->sequence))->lies
                          : PLAIT_LIES_HERE;
}

/* The published data of `rank` for this rank. at: see lies_at(). */
static inline const void *published_by(const struct plait_run *run, uint32_t rank, int64_t at)
{
    const struct plait_eager_plan *t = &run->o->eager;
    const struct plait_comm *comm = run->comm;
    const struct plait_control *c = comm->peers[rank].control;

    if (at != PLAIT_LIES_HERE)
        return (const uint8_t *)((uintptr_t)c + (uintptr_t)at) + (t->parts ? comm->rank * t->room : 0);
    return plait_eager_data_at(c, t, plait_eager_slot(t, comm->sequence)) +
           plait_eager_own_part(comm, t, rank) * t->part + t->head;
}

/*
 * Before a single-copy read: a failed writer in this process may free its memory. It first waits for all ranks
 * whose rings show them inside the operation. A rank that enters later sees the failure here (plait_engine_turn()).
 * The arena of another process stays mapped, so there is no check.
 */
static enum plait_status check_writer(struct plait_comm *comm, uint32_t rank)
{
    if (comm->peers[rank].process->base != NULL)
        return PLAIT_OK;
    atomic_thread_fence(memory_order_seq_cst);
    return plait_probe_failures(comm);
}

/* Copies this rank's own block to OUT, while the data of the others arrives. */
static __attribute__((noinline)) void keep(const struct plait_run *run)
{
    const struct plait_op_plan *o = run->o;
    struct plait_comm *comm = run->comm;
    const char *from = run->in + o->eager.at;
    char *to = run->out + comm->rank * o->eager.stride;
    size_t bytes = o->bytes;

    if (o->vform) {
        plait_eager_part_in(run, comm->rank, &from);
        bytes = plait_eager_part_out(run, comm->rank, &to);
    }
    plait_eager_copy(comm, to, from, bytes);
}

/* The data of `rank` has arrived. A block that is only copied is copied now, while the next one arrives. */
static inline __attribute__((always_inline)) enum plait_status take(struct plait_run *run, uint32_t rank)
{
    const struct plait_op_plan *o = run->o;
    const int64_t at = lies_at(run, rank);
    enum plait_status status = PLAIT_OK;

    const void *from = published_by(run, rank, at);
    if (at != PLAIT_LIES_HERE) {
        run->by_single_copy = true;
        status = check_writer(run->comm, rank);
    }
    if (status != PLAIT_OK)
        return status;
    if (o->geometry.combines)
        run->from[rank] = from;
    if (o->vform)
        return plait_eager_take_part(run, rank, from);
    if (!o->geometry.combines)
        plait_eager_copy(run->comm, run->out + rank * o->eager.stride, from, o->bytes);
    return PLAIT_OK;
}

/* Reduces all operands into OUT. */
static inline __attribute__((always_inline)) void combine(struct plait_run *run)
{
    const struct plait_op_plan *o = run->o;
    struct plait_comm *comm = run->comm;
    const size_t count = o->vform ? run->sizes.out[0] : o->count;
    const char *own = run->in + o->eager.at;

    if (count == 0)
        return;
    if (o->vform)
        plait_eager_part_in(run, comm->rank, &own);
    run->from[comm->rank] = own;
    o->reduce(run->out, run->from, comm->nrank, count, &o->last);
    comm->stats.bytes_reduced += plait_op_bytes(o, count, false);
}

void plait_eager_tell(struct plait_comm *comm, const struct plait_op_plan *o)
{
    for (uint32_t i = 0, r = o->eager.from.first; i < o->eager.from.n; i++, r = plait_eager_next(comm, r))
        plait_wake(comm, r);
}

/* Have all readers read this rank's single-copy data? If not, run->reader is one that has not. */
static inline bool is_taken(struct plait_run *run)
{
    const struct plait_comm *comm = run->comm;
    const struct plait_ranks *to = &run->o->eager.to;

    for (uint32_t i = 0, r = to->first; i < to->n; i++, r = plait_eager_next(comm, r))
        if (atomic_load_explicit(&comm->peers[r].control->took, memory_order_acquire) < comm->sequence) {
            run->reader = r;
            return false;
        }
    return true;
}

/* All data has arrived, and blocks that are only copied have been copied. */
static inline __attribute__((always_inline)) enum plait_status finish(struct plait_run *run)
{
    const struct plait_op_plan *o = run->o;
    const struct plait_eager_plan *t = &o->eager;
    struct plait_comm *comm = run->comm;

    run->finished = true;
    if (t->from.n == comm->nrank - 1)
        comm->begun = comm->sequence;
    if (t->turn == 1 && t->to.n > 0 && !run->single_copy)
        prefetch_next(run);
    if (o->geometry.out.nslot > 0 && o->geometry.combines)
        combine(run);
    if (run->by_single_copy) {
        atomic_store_explicit(&comm->own->took, comm->sequence, memory_order_release);
        plait_eager_tell(comm, o);
    }
    return plait_probe_failures(comm);
}

/* ---- Driver -------------------------------------------------------------------------------------------- */

/* The writer whose data is read next. */
static inline uint32_t next_writer(const struct plait_run *run)
{
    const uint32_t r = run->o->eager.from.first + run->taken;
    return r < run->comm->nrank ? r : r - run->comm->nrank;
}

uint32_t plait_eager_awaited(const void *context, uint32_t *ranks, uint32_t most)
{
    const struct plait_run *run = context;

    (void)most;
    *ranks = run->published && !run->finished ? next_writer(run) : run->reader;
    return !run->published || run->finished || run->taken < run->o->eager.from.n;
}

/* Steps: publish, read from each writer and, with single copy, wait for the readers. */
static uint64_t steps(const void *context, uint64_t *of)
{
    const struct plait_run *run = context;
    const struct plait_eager_plan *t = &run->o->eager;

    *of = (t->to.n > 0) + t->from.n + run->single_copy;
    return (run->published && t->to.n > 0) + run->taken;
}

static const struct plait_wait_kind for_eager = { plait_eager_awaited, steps };

inline __attribute__((always_inline)) void plait_eager_begin(struct plait_run *run, const struct plait_op_plan *o,
                                                             const struct plait_sizes *v, uint64_t word, const void *in,
                                                             void *out)
{
    run->o = o;
    if (o->vform)
        run->sizes = *v;
    run->word = word;
    run->in = (char *)(uintptr_t)in;
    run->out = out;
    run->taken = 0;
    run->single_copy = run->by_single_copy = run->finished = false;
    run->published = try_publish(run);
    plait_wait_init(&run->wait, &for_eager, run);
    if (o->eager.keeps)
        keep(run);
}

inline __attribute__((always_inline)) enum plait_status plait_eager_turn(struct plait_run *run, bool *moved,
                                                                         bool *ended)
{
    const struct plait_eager_plan *t = &run->o->eager;
    enum plait_status status = PLAIT_OK;

    if (!run->published && !(*moved = run->published = try_publish(run)))
        return PLAIT_OK;
    for (uint32_t r = next_writer(run); run->taken < t->from.n; r = plait_eager_next(run->comm, r)) {
        if (!has_published(run, r))
            return PLAIT_OK;
        *moved = true;
        status = take(run, r);
        if (status != PLAIT_OK)
            return status;
        run->taken++;
    }
    if (!run->finished) {
        *moved = true;
        status = finish(run);
    }
    *ended = status == PLAIT_OK && (!run->single_copy || is_taken(run));
    return status;
}

enum plait_status plait_eager_run(struct plait_comm *comm, const struct plait_op_plan *o, const struct plait_sizes *v,
                                  uint64_t word, const void *in, void *out, bool *ended)
{
    struct plait_run *run = comm->run;
    enum plait_status status;
    bool moved;

    plait_eager_begin(run, o, v, word, in, out);
    do
        status = plait_eager_turn(run, &moved, ended);
    while (status == PLAIT_OK && !*ended && plait_wait_spin(comm, &run->wait));
    if (status == PLAIT_OK && !*ended) {
        run->eager_pending = true;
        run->engine_pending = false;
        run->work = (struct plait_slice_work){ 0 };
    }
    return status;
}
