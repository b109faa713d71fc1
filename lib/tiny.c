/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tiny operations. The word that says whose operation it belongs to shares a line with the data where that fits; the
 * data is stored first and the word last, so whoever sees the word sees all of it, and the others' data is read where
 * it lies.
 *
 * Slots are used in turn, and whose turn it is follows from the number of the operation in its comm (t->turn), so ranks
 * that call different operations never take one's data for another's. Who gives may be ahead of who takes (a root of
 * broadcasts, everyone but the root of reductions): before it writes where it wrote in operation q, all who were to take
 * that have finished q. A slot says who they are (plait_given). That they have finished is known
 *
 * - from what this rank took: who has given in operation s has finished s - 1. When all have, that is comm->begun. So
 *   where everyone takes from everyone, again and again, nobody looks any further;
 * - else from what they publish: `done`, stored (release) after they read what they took, loaded here (acquire) before
 *   the slot is written. One look usually covers several slots (plait_peer.finished, and comm->begun if all take).
 *
 * Where each who takes has a block of its own, the blocks are in a slot as parts, from that of the giver's next rank on;
 * what it keeps itself is not there. Of blocks of different sizes (the v-forms) all parts have the room of the largest:
 * so everyone finds its part without the others' sizes. Beside the word, or if they are too many before each part, are the
 * bytes of each, which who takes it compares with those that it expects. Where each size is known to two ranks only, a part has
 * the room of the largest block that is small (plait_selection.split); of a larger one there are the bytes alone, and it goes
 * through the engine.
 *
 * What is long and lies in library memory is lent: its place is beside the word, and who takes reads it there, publishes that it
 * took it, and only then waits until all have taken what it lent itself.
 *
 * No circle of waits: let m be the lowest operation that some rank has not finished. Who is in m waits for the words of
 * m, which are not overwritten before it has taken them, or for readers of operations before m, who all have finished, or, when
 * it has taken all, for those who take in m, to whom the same applies.
 */
#include "tiny.h"
#include "failure.h"

#include <stddef.h>
#include <string.h>

static inline uint32_t next_rank(const struct plait_comm *comm, uint32_t rank)
{
    return rank + 1 < comm->nrank ? rank + 1 : 0;
}

/* Pages apart, see struct plait_given. */
_Static_assert(offsetof(struct plait_control, small_data) - offsetof(struct plait_control, small) >= 4096 &&
                   offsetof(struct plait_control, large_data) - offsetof(struct plait_control, large) >= 4096,
               "data is not near the words");

/* ---- Who takes what ------------------------------------------------------------------------------------ */

#define PART_HEAD   sizeof(uint64_t)                /* its bytes; */
#define MOST_BESIDE (PLAIT_BESIDE_WORD / PART_HEAD) /* of so many parts beside the word */
#define MOST_STAGED 2048                            /* bytes that take less time to write again than a wait for readers */

static size_t part_bytes(size_t bytes)
{
    return PART_HEAD + ((bytes + PART_HEAD - 1) & ~(PART_HEAD - 1));
}

static struct plait_ranks others(bool all, uint32_t root, uint32_t nrank, uint32_t rank)
{
    if (all)
        return (struct plait_ranks){ (rank + 1) % nrank, nrank - 1 };
    return (struct plait_ranks){ root, root != rank };
}

size_t plait_tiny_bytes(enum plait_coll coll, uint32_t nrank, size_t bytes, bool sized)
{
    const struct plait_geometry root = plait_geometry_of(coll, nrank, 0, 0, 1);
    const size_t parts = root.in.nslot > 1 ? nrank - 1 : 1;

    return sized ? parts * part_bytes(bytes) : root.in.nslot > 0 ? parts * bytes : 0;
}

/* Everyone who gives gives to everyone who takes: of IN the taker's slot, to OUT the giver's, if there are several. */
struct plait_tiny_plan plait_tiny_plan(const struct plait_op_plan *o, size_t bytes, uint32_t nrank, uint32_t rank,
                                       bool lends)
{
    const struct plait_geometry *mine = &o->geometry;
    const struct plait_geometry root = plait_geometry_of(o->coll, nrank, 0, 0, 1);
    const struct plait_geometry other = plait_geometry_of(o->coll, nrank, 0, nrank > 1, 1);
    const size_t all = plait_tiny_bytes(o->coll, nrank, bytes, o->sized);
    const bool few = all <= PLAIT_BESIDE_WORD, small = all <= PLAIT_TINY_SOME;
    const size_t given = small ? offsetof(struct plait_control, small) : offsetof(struct plait_control, large);
    const uint32_t nparts = root.in.nslot > 1 ? nrank - 1 : 1;
    const bool beside = o->sized && !few && nparts <= MOST_BESIDE;
    const size_t head = o->sized && !beside ? PART_HEAD : 0;

    return (struct plait_tiny_plan){
        .from = mine->out.nslot > 0 ? others(other.in.nslot > 0, o->root, nrank, rank) : (struct plait_ranks){ 0, 0 },
        .to = mine->in.nslot > 0 ? others(other.out.nslot > 0, o->root, nrank, rank) : (struct plait_ranks){ 0, 0 },
        .takes = mine->out.nslot > 0,
        .keeps = mine->out.nslot > 0 && mine->in.nslot > 0 && !mine->combines,
        .lends = lends && !o->sized && all > MOST_STAGED,
        .turn = (small ? PLAIT_TINY_SMALL : PLAIT_TINY_LARGE) - 1,
        .given = given,
        .data = few     ? given + offsetof(struct plait_given, few)
                : small ? offsetof(struct plait_control, small_data)
                        : offsetof(struct plait_control, large_data),
        .apart = few     ? sizeof(struct plait_given)
                 : small ? PLAIT_TINY_SOME
                         : PLAIT_TINY_MAX,
        .bytes = all,
        .at = root.in.nslot > 1 ? rank * bytes : 0,
        .beside = beside,
        .head = head,
        .part = o->sized ? part_bytes(bytes) - (PART_HEAD - head) : bytes,
        .room = bytes,
        .parts = root.in.nslot > 1,
        .stride = mine->out.nslot > 1 ? bytes : 0,
    };
}

bool plait_tiny_has_all(const struct plait_op_plan *o, const struct plait_sizes *v, uint32_t nrank)
{
    const struct plait_tiny_plan *t = &o->tiny;
    bool all = true;

    for (uint32_t i = 0; i < t->to.n; i++)
        all &= v->in[o->geometry.in.nslot > 1 ? (t->to.first + i) % nrank : 0] * o->size <= t->room;
    for (uint32_t i = 0; i < t->from.n; i++)
        all &= v->out[o->geometry.out.nslot > 1 ? (t->from.first + i) % nrank : 0] * o->size <= t->room;
    return all;
}

/* ---- Giving -------------------------------------------------------------------------------------------- */

/* The slot of an operation. Downwards: processors run ahead of who reads upwards, but not into the next one. */
static inline size_t slot_in(const struct plait_tiny_plan *t, uint64_t sequence)
{
    return ~sequence & t->turn;
}

static inline struct plait_given *given_at(const struct plait_control *c, const struct plait_tiny_plan *t, size_t slot)
{
    return (struct plait_given *)((uintptr_t)c + t->given) + slot;
}

static inline uint8_t *data_at(const struct plait_control *c, const struct plait_tiny_plan *t, size_t slot)
{
    return (uint8_t *)(uintptr_t)c + t->data + slot * t->apart;
}

/* The bytes of a part, where blocks differ in size. */
static inline uint8_t *head_at(const struct plait_control *c, const struct plait_tiny_plan *t, size_t slot,
                               uint32_t part)
{
    return t->beside ? given_at(c, t, slot)->few + part * PART_HEAD : data_at(c, t, slot) + part * t->part;
}

/* Have all finished that were to read what this rank gave last in this slot, before `sequence`? If not, *late is one. */
static __attribute__((noinline)) bool is_read(struct plait_comm *comm, const struct plait_tiny_plan *t,
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

/* May this rank write what it gives in operation `sequence`? Not if that comes around to what somebody still reads. */
static inline bool is_free(struct plait_comm *comm, const struct plait_tiny_plan *t, uint64_t sequence, uint32_t *late)
{
    return __builtin_expect(sequence - comm->begun <= t->turn, 1) || is_read(comm, t, sequence, late);
}

/*
 * Sizes repeat: the lines that the next operation will write come while this one waits, or the caller works. Not that of
 * the word, at which the others may look already, and none that others may still read.
 */
static __attribute__((noinline)) void expect(struct plait_comm *comm, const struct plait_tiny_plan *t,
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

/* Of the slots of IN or OUT, of which there is one or as many as ranks, that of what goes to or comes from `rank`. */
static inline uint32_t slot_of(const struct plait_side *side, uint32_t rank)
{
    return side->nslot > 1 ? rank : 0;
}

/* All of IN but this rank's own. */
static void put_blocks(const struct plait_comm *comm, const struct plait_tiny_plan *t, const uint8_t *in, uint8_t *to)
{
    const size_t behind = (comm->nrank - 1 - comm->rank) * t->part, before = comm->rank * t->part;

    if (behind > 0)
        plait_copy(comm->kernels, to, in + before + t->part, behind);
    if (before > 0)
        plait_copy(comm->kernels, to + behind, in, before);
}

static __attribute__((noinline)) void put_parts(const struct plait_comm *comm, const struct plait_op_plan *o,
                                                const struct plait_sizes *v, const void *in, size_t slot)
{
    const struct plait_tiny_plan *t = &o->tiny;
    uint8_t *to = data_at(comm->own, t, slot);

    if (!o->sized) {
        put_blocks(comm, t, in, to);
        return;
    }
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
    const struct plait_ranks *to = &o->tiny.to;

    for (uint32_t i = 0, r = to->first; i < to->n; i++, r = next_rank(comm, r)) {
        const size_t bytes = v->in[slot_of(&o->geometry.in, r)] * o->size;
        comm->stats.messages += bytes <= o->tiny.room;
        comm->stats.bytes_sent += bytes <= o->tiny.room ? bytes : 0;
    }
}

static inline bool is_reached(const struct plait_comm *comm, const struct plait_tiny_plan *t, const void *in, size_t bytes)
{
    bool here = !plait_arena_contains(in, bytes);

    for (uint32_t i = 0, r = t->to.first; here && i < t->to.n; i++, r = next_rank(comm, r))
        if (comm->peers[r].process->base != NULL)
            return false;
    return true;
}

/* Can the others read IN where it lies, and is it not written meanwhile? */
static inline bool may_lend(const struct plait_comm *comm, const struct plait_op_plan *o, const void *in,
                            const void *out)
{
    const struct plait_tiny_plan *t = &o->tiny;
    const bool stays = t->from.n == 0 || in != out || o->geometry.kind == PLAIT_KIND_PART;

    return t->lends && t->to.n > 0 && stays && is_reached(comm, t, in, o->in_bytes);
}

/* v: where blocks differ in size. */
static inline __attribute__((always_inline)) void give(struct plait_comm *comm, const struct plait_op_plan *o,
                                                       const struct plait_sizes *v, uint64_t word, const void *in,
                                                       size_t slot, bool lends)
{
    const struct plait_tiny_plan *t = &o->tiny;
    struct plait_given *given = given_at(comm->own, t, slot);

    if (t->lends)
        given->lent = lends ? (int64_t)((uintptr_t)in - (uintptr_t)comm->own) : 0;
    if (lends)
        ;
    else if (t->parts || o->sized)
        put_parts(comm, o, v, in, slot);
    else if (t->bytes > 0)
        plait_copy(comm->kernels, data_at(comm->own, t, slot), in, t->bytes);
    given->to = t->to;
    atomic_store_explicit(&given->word, word, memory_order_release);
    plait_wake(comm, t->to.first);
    for (uint32_t i = 1, r = t->to.first; i < t->to.n; i++) {
        r = next_rank(comm, r);
        plait_wake(comm, r);
    }
}

/* What else there is to do when it is given: a blocking one does it while the others' is on its way. */
static inline __attribute__((always_inline)) void after_giving(struct plait_comm *comm, const struct plait_op_plan *o,
                                                               const struct plait_sizes *v)
{
    const struct plait_tiny_plan *t = &o->tiny;

    if (o->sized) {
        count_parts(comm, o, v);
    } else {
        comm->stats.messages += t->to.n;
        comm->stats.bytes_sent += t->to.n * o->count * o->size;
    }
    if (t->bytes > PLAIT_BESIDE_WORD && t->turn > 1)
        expect(comm, t, comm->sequence + 1, o->selection.split > 0);
}

/* ---- Taking -------------------------------------------------------------------------------------------- */

static inline bool has_given(const struct plait_comm *comm, const struct plait_tiny_plan *t, uint32_t rank, size_t slot,
                             uint64_t word)
{
    return atomic_load_explicit(&given_at(comm->peers[rank].control, t, slot)->word, memory_order_acquire) == word;
}

/* Which part of what `rank`, another, gives is for this rank. */
static inline uint32_t own_part(const struct plait_comm *comm, const struct plait_tiny_plan *t, uint32_t rank)
{
    return t->parts ? comm->rank + (comm->rank > rank ? 0 : comm->nrank) - rank - 1 : 0;
}

/* What it gives to this one: it has given. */
static inline const void *given_by(const struct plait_comm *comm, const struct plait_tiny_plan *t, uint32_t rank,
                                   size_t slot, bool *lent)
{
    const int64_t at = t->lends ? given_at(comm->peers[rank].control, t, slot)->lent : 0;

    if (at != 0) {
        *lent = true;
        return (const uint8_t *)((uintptr_t)comm->peers[rank].control + (uintptr_t)at) +
               (t->parts ? comm->rank * t->room : 0);
    }
    return data_at(comm->peers[rank].control, t, slot) + own_part(comm, t, rank) * t->part + t->head;
}

static void copy(struct plait_comm *comm, void *to, const void *from, size_t bytes)
{
    if (to == from || bytes == 0) /* in place; or there may be no OUT */
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

/* What it keeps itself: while the others' is on its way. */
static __attribute__((noinline)) void keep(struct plait_comm *comm, const struct plait_op_plan *o,
                                           const struct plait_sizes *v, const void *in, void *out)
{
    const struct plait_tiny_plan *t = &o->tiny;

    if (o->sized)
        copy_part(comm, o, v, comm->rank,
                  (const uint8_t *)in + v->in_at[slot_of(&o->geometry.in, comm->rank)] * o->size, out);
    else
        copy(comm, (uint8_t *)out + comm->rank * t->stride, (const uint8_t *)in + t->at, o->count * o->size);
}

/* What came, as its sender says, is as long as this rank takes it to be. */
static enum plait_status check_part(struct plait_comm *comm, const struct plait_op_plan *o, const struct plait_sizes *v,
                                    uint32_t rank)
{
    const struct plait_tiny_plan *t = &o->tiny;
    const size_t expected = v->out[slot_of(&o->geometry.out, rank)] * o->size;
    uint64_t bytes;

    memcpy(&bytes, head_at(comm->peers[rank].control, t, slot_in(t, comm->sequence), own_part(comm, t, rank)),
           sizeof bytes);
    if (!PLAIT_GUARDS || bytes == expected)
        return PLAIT_OK;
    return plait_comm_blame(comm, PLAIT_ERR_MISMATCH, rank, "rank %u sends %llu bytes where rank %u expects %zu", rank,
                            (unsigned long long)bytes, comm->rank, expected);
}

/* One that is to be combined with others' is only looked at. */
static __attribute__((noinline)) enum plait_status take_part(struct plait_comm *comm, const struct plait_op_plan *o,
                                                             const struct plait_sizes *v, uint32_t rank,
                                                             const void *from, void *out)
{
    const enum plait_status status = check_part(comm, o, v, rank);

    if (status == PLAIT_OK && !o->geometry.combines &&
        v->out[slot_of(&o->geometry.out, rank)] * o->size <= o->tiny.room)
        copy_part(comm, o, v, rank, from, out);
    return status;
}

/* `rank` has given: what is only copied is, so that the next one's comes meanwhile. */
static inline __attribute__((always_inline)) enum plait_status take(struct plait_comm *comm,
                                                                    const struct plait_op_plan *o,
                                                                    const struct plait_sizes *v, uint32_t rank,
                                                                    const void *from, void *out)
{
    if (o->sized)
        return take_part(comm, o, v, rank, from, out);
    if (!o->geometry.combines)
        copy(comm, (uint8_t *)out + rank * o->tiny.stride, from, o->count * o->size);
    return PLAIT_OK;
}

/* from: [nrank], what each gave to this rank; of itself it is put there. */
static inline __attribute__((always_inline)) void combine(struct plait_comm *comm, const struct plait_op_plan *o,
                                                          const struct plait_sizes *v, const void **from,
                                                          const void *in, void *out)
{
    const bool sized = o->sized;
    const size_t count = sized ? v->out[0] : o->count;

    if (count == 0)
        return;
    from[comm->rank] =
        (const uint8_t *)in + (sized ? v->in_at[slot_of(&o->geometry.in, comm->rank)] * o->size : o->tiny.at);
    o->reduce(out, from, comm->nrank, count, &o->last);
    comm->stats.bytes_reduced += count * o->size;
}

void plait_tiny_tell(struct plait_comm *comm, const struct plait_op_plan *o)
{
    for (uint32_t i = 0, r = o->tiny.from.first; i < o->tiny.from.n; i++, r = next_rank(comm, r))
        plait_wake(comm, r);
}

/* Have all taken what this rank lends in its operation? If not, *late is one who has not. */
static inline bool is_taken(const struct plait_comm *comm, const struct plait_tiny_plan *t, uint32_t *late)
{
    for (uint32_t i = 0, r = t->to.first; i < t->to.n; i++, r = next_rank(comm, r))
        if (atomic_load_explicit(&comm->peers[r].control->took, memory_order_acquire) < comm->sequence) {
            *late = r;
            return false;
        }
    return true;
}

/* All whom this rank takes from have given, and it took what is only copied. */
static inline __attribute__((always_inline)) enum plait_status finish(struct plait_comm *comm,
                                                                      const struct plait_op_plan *o,
                                                                      const struct plait_sizes *v, const void **from,
                                                                      const void *in, void *out, bool lends, bool lent)
{
    const struct plait_tiny_plan *t = &o->tiny;

    if (t->from.n == comm->nrank - 1)
        comm->begun = comm->sequence;
    if (t->turn == 1 && t->to.n > 0 && !lends) /* of two slots the next is known to be free only now */
        expect(comm, t, comm->sequence + 1, o->selection.split > 0);
    if (t->takes && o->geometry.combines)
        combine(comm, o, v, from, in, out);
    if (lent) {
        atomic_store_explicit(&comm->own->took, comm->sequence, memory_order_release);
        plait_tiny_tell(comm, o);
    }
    return plait_look_for_failures(comm);
}

/* ---- At once ------------------------------------------------------------------------------------------- */

struct turn { /* how far a blocking one is */
    const struct plait_tiny_plan *t;
    size_t slot;
    uint64_t word;
    uint32_t rank;  /* whom it waits for; */
    uint32_t after; /* and so many others after it; */
    uint32_t done;  /* steps; */
    bool lends;     /* one of them is that the others take what is lent */
};

static uint32_t awaited(const void *context, uint32_t *ranks, uint32_t most)
{
    (void)most;
    *ranks = ((const struct turn *)context)->rank;
    return 1;
}

/* Do all that have not given yet run on other processors? */
static bool are_apart(const struct plait_comm *comm, const struct turn *turn)
{
    bool apart = plait_is_apart(comm, turn->rank);

    for (uint32_t i = 0, r = next_rank(comm, turn->rank); i < turn->after && apart; i++, r = next_rank(comm, r))
        apart = has_given(comm, turn->t, r, turn->slot, turn->word) || plait_is_apart(comm, r);
    return apart;
}

/* Giving, taking from each, and being read. */
static uint64_t nsteps(const struct plait_tiny_plan *t, bool lends)
{
    return (t->to.n > 0) + t->from.n + lends;
}

static uint64_t steps(const void *context, uint64_t *of)
{
    const struct turn *turn = context;

    *of = nsteps(turn->t, turn->lends);
    return turn->done;
}

/* taken: wait until all have taken what is lent, else until its slot may be written. */
static __attribute__((noinline)) enum plait_status
wait_for_readers(struct plait_comm *comm, const struct plait_tiny_plan *t, bool lends, bool taken, uint32_t late)
{
    struct turn turn = { .t = t, .rank = late, .done = taken ? (uint32_t)nsteps(t, false) : 0, .lends = lends };
    struct plait_wait w;
    enum plait_status status = PLAIT_OK;

    plait_wait_init(&w, NULL, awaited, &turn);
    w.steps = steps;
    plait_wait_for_few_bytes(comm, &w, plait_is_apart(comm, late));
    while (status == PLAIT_OK &&
           !(taken ? is_taken(comm, t, &turn.rank) : is_free(comm, t, comm->sequence, &turn.rank)))
        status = plait_wait_turn(comm, &w);
    plait_wait_progress(comm, &w);
    return status;
}

static __attribute__((noinline)) enum plait_status wait_for(struct plait_comm *comm, struct turn turn)
{
    struct plait_wait w;
    enum plait_status status = PLAIT_OK;

    plait_wait_init(&w, NULL, awaited, &turn);
    w.steps = steps;
    plait_wait_for_few_bytes(comm, &w, comm->apart > 0 && are_apart(comm, &turn));
    while (status == PLAIT_OK && !has_given(comm, turn.t, turn.rank, turn.slot, turn.word))
        status = plait_wait_turn(comm, &w);
    plait_wait_progress(comm, &w);
    return status;
}

enum plait_status plait_tiny_run(struct plait_comm *comm, const struct plait_op_plan *o, const struct plait_sizes *v,
                                 uint64_t word, const void *in, void *out)
{
    const struct plait_tiny_plan *t = &o->tiny;
    const size_t slot = slot_in(t, comm->sequence);
    const void *from[PLAIT_TINY_RANKS];
    const bool lends = may_lend(comm, o, in, out);
    enum plait_status status = PLAIT_OK;
    bool lent = false;
    uint32_t late;

    if (t->to.n > 0) {
        if (!is_free(comm, t, comm->sequence, &late))
            status = wait_for_readers(comm, t, lends, false, late);
        if (status != PLAIT_OK)
            return status;
        give(comm, o, v, word, in, slot, lends);
        after_giving(comm, o, v);
    }
    if (t->keeps)
        keep(comm, o, v, in, out);
    for (uint32_t i = 0, r = t->from.first; i < t->from.n; i++, r = next_rank(comm, r)) {
        if (!has_given(comm, t, r, slot, word))
            status = wait_for(comm, (struct turn){ t, slot, word, r, t->from.n - i - 1, (t->to.n > 0) + i, lends });
        if (status != PLAIT_OK)
            return status;
        from[r] = given_by(comm, t, r, slot, &lent);
        status = take(comm, o, v, r, from[r], out);
        if (status != PLAIT_OK)
            return status;
    }
    status = finish(comm, o, v, from, in, out, lends, lent);
    if (status == PLAIT_OK && lends && !is_taken(comm, t, &late))
        status = wait_for_readers(comm, t, lends, true, late);
    return status;
}

/* ---- In turns --------------------------------------------------------------------------------------- */

uint32_t plait_tiny_awaited(const void *context, uint32_t *ranks, uint32_t most)
{
    const struct plait_run *run = context;
    const struct plait_tiny_plan *t = &run->o->tiny;

    (void)most;
    *ranks = run->given && !run->finished ? (t->from.first + run->taken) % run->comm->nrank : run->late;
    return !run->given || run->finished || run->taken < t->from.n;
}

static uint64_t run_steps(const void *context, uint64_t *of)
{
    const struct plait_run *run = context;

    *of = nsteps(&run->o->tiny, run->lends);
    return (run->given && run->o->tiny.to.n > 0) + run->taken;
}

/* Is what this rank gives where the others take it? */
static inline __attribute__((always_inline)) bool try_give(struct plait_run *run)
{
    struct plait_comm *comm = run->comm;
    const struct plait_tiny_plan *t = &run->o->tiny;
    const uint64_t s = comm->sequence;

    if (t->to.n == 0)
        return true;
    if (!is_free(comm, t, s, &run->late))
        return false;
    run->lends = may_lend(comm, run->o, run->in, run->out);
    give(comm, run->o, &run->sizes, run->word, run->in, slot_in(t, s), run->lends);
    return true;
}

void plait_tiny_begin(struct plait_comm *comm, const struct plait_op_plan *o, const struct plait_sizes *v,
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
    plait_wait_init(&run->wait, NULL, plait_tiny_awaited, run);
    run->wait.steps = run_steps;
    run->given = try_give(run);
    if (run->o->tiny.keeps)
        keep(comm, run->o, &run->sizes, run->in, run->out);
}

/* All have given: take it. */
static enum plait_status take_all(struct plait_run *run)
{
    struct plait_comm *comm = run->comm;
    const struct plait_tiny_plan *t = &run->o->tiny;
    const void *from[PLAIT_TINY_RANKS];
    bool lent = false;

    for (uint32_t i = 0, r = t->from.first; i < t->from.n; i++, r = next_rank(comm, r)) {
        from[r] = given_by(comm, t, r, slot_in(t, comm->sequence), &lent);
        const enum plait_status status = take(comm, run->o, &run->sizes, r, from[r], run->out);
        if (status != PLAIT_OK)
            return status;
    }
    if (t->to.n > 0)
        after_giving(comm, run->o, &run->sizes);
    run->finished = true;
    return finish(comm, run->o, &run->sizes, from, run->in, run->out, run->lends, lent);
}

enum plait_status plait_tiny_turn(struct plait_comm *comm, bool *moved, bool *ended)
{
    struct plait_run *run = comm->run;
    const struct plait_tiny_plan *t = &run->o->tiny;
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
