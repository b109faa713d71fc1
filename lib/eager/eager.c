/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Eager operations. The word that says whose operation it belongs to shares a line with the data where that fits; the
 * data is stored first and the word last, so whoever sees the word sees all of it, and the others' data is read where
 * it lies.
 *
 * Slots are used in turn, and whose turn it is follows from the number of the operation in its comm (t->turn), so ranks
 * that call different operations never take one's data for another's. Who gives may be ahead of who takes (a root of
 * broadcasts, everyone but the root of reductions): before it writes where it wrote in operation q, all who were to
 * take that have finished q. A slot says who they are (plait_given). That they have finished is known
 *
 * - from what this rank took: who has given in operation s has finished s - 1. When all have, that is comm->begun. So
 *   where everyone takes from everyone, again and again, nobody looks any further;
 * - else from what they publish: `done`, stored (release) after they read what they took, loaded here (acquire) before
 *   the slot is written. One look usually covers several slots (plait_peer.finished, and comm->begun if all take).
 *
 * Where each who takes has a block of its own, the blocks are in a slot as parts, from that of the giver's next rank
 * on; what it keeps itself is not there. Of blocks of different sizes (the v-forms) all parts have the room of the
 * largest: so everyone finds its part without the others' sizes. Beside the word, or if they are too many before each
 * part, are the bytes of each, which who takes it compares with those that it expects. Where each size is known to two
 * ranks only, a part has the room of the largest block that is small (plait_selection.split); of a larger one there are
 * the bytes alone, and it goes through the engine.
 *
 * What is long and lies in library memory is not written again but lent: the word's line says where it lies, and who
 * takes reads it there, publishes that it took it, and only then waits until all have taken what it lent itself. What
 * is long and lies elsewhere is written through the caches or past them, as lend.h measures it.
 *
 * No circle of waits: let m be the lowest operation that some rank has not finished. Who is in m waits for the words of
 * m, which are not overwritten before it has taken them, or for readers of operations before m, who all have finished,
 * or, when it has taken all that it takes, for those who take in m, to whom the same applies.
 */
#include "eager.h"
#include "failure/failure.h"

#include <stddef.h>
#include <string.h>

static inline uint32_t next_rank(const struct plait_comm *comm, uint32_t rank)
{
    return rank + 1 < comm->nrank ? rank + 1 : 0;
}

/* ---- Giving -------------------------------------------------------------------------------------------- */

/* The slot of an operation. Downwards: processors run ahead of who reads upwards, but not into the next one. */
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

/* The bytes of a part, where blocks differ in size. */
static inline uint8_t *head_at(const struct plait_control *c, const struct plait_eager_plan *t, size_t slot,
                               uint32_t part)
{
    return t->beside ? given_at(c, t, slot)->few + part * PLAIT_EAGER_HEAD : data_at(c, t, slot) + part * t->part;
}

/*
 * Have all finished that were to read what this rank gave last in this slot, before `sequence`? If not, *late is one.
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

/* May this rank write what it gives in operation `sequence`? Not if that comes around to what somebody still reads. */
static inline bool is_free(struct plait_comm *comm, const struct plait_eager_plan *t, uint64_t sequence, uint32_t *late)
{
    return __builtin_expect(sequence - comm->begun <= t->turn, 1) || is_read(comm, t, sequence, late);
}

/*
 * Sizes repeat: the lines that the next operation will write come while this one waits, or the caller works. Not that
 * of the word, at which the others may look already, and none that others may still read.
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

/* Of the slots of IN or OUT, of which there is one or as many as ranks, that of what goes to or comes from `rank`. */
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

/* v: where blocks differ in size. */
static inline __attribute__((always_inline)) void give(struct plait_comm *comm, const struct plait_op_plan *o,
                                                       const struct plait_sizes *v, uint64_t word, const void *in,
                                                       size_t slot, bool lends)
{
    const struct plait_eager_plan *t = &o->eager;
    struct plait_given *given = given_at(comm->own, t, slot);

    if (lends)
        given->lies = (int64_t)((uintptr_t)in - (uintptr_t)comm->own);
    else if (t->timed)
        given->lies = plait_eager_put_long(comm, o, data_at(comm->own, t, slot), in);
    else if (t->lends)
        given->lies = PLAIT_LIES_HERE;
    if (o->sized)
        put_parts(comm, o, v, in, slot);
    else if (!lends && !t->timed && t->parts)
        plait_eager_put(comm, t, false, data_at(comm->own, t, slot), in);
    else if (!lends && !t->timed && t->bytes > 0)
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

/* ---- Taking -------------------------------------------------------------------------------------------- */

static inline bool has_given(const struct plait_comm *comm, const struct plait_eager_plan *t, uint32_t rank,
                             size_t slot, uint64_t word)
{
    return atomic_load_explicit(&given_at(comm->peers[rank].control, t, slot)->word, memory_order_acquire) == word;
}

/* Which part of what `rank`, another, gives is for this rank. */
static inline uint32_t own_part(const struct plait_comm *comm, const struct plait_eager_plan *t, uint32_t rank)
{
    return t->parts ? comm->rank + (comm->rank > rank ? 0 : comm->nrank) - rank - 1 : 0;
}

#define LENT (1U << PLAIT_PASS_LENT) /* of ways */

/* What it gives to this one: it has given. *ways: and so it did, 1 << enum plait_passing. */
static inline const void *given_by(const struct plait_comm *comm, const struct plait_eager_plan *t, uint32_t rank,
                                   size_t slot, unsigned *ways)
{
    const struct plait_control *c = comm->peers[rank].control;
    const int64_t at = t->lends ? given_at(c, t, slot)->lies : PLAIT_LIES_HERE;

    if (at != PLAIT_LIES_HERE && at != PLAIT_LIES_PAST) {
        *ways |= LENT;
        return (const uint8_t *)((uintptr_t)c + (uintptr_t)at) + (t->parts ? comm->rank * t->room : 0);
    }
    *ways |= at == PLAIT_LIES_PAST ? 1U << PLAIT_PASS_PAST : 1U << PLAIT_PASS_STAGED;
    return data_at(comm->peers[rank].control, t, slot) + own_part(comm, t, rank) * t->part + t->head;
}

/*
 * A rank of this process that has failed may free what it lent as soon as it sees this one no longer inside: it waits
 * for whom it sees, by the ring, and who came later sees its failure (plait_engine_turn()). Another's arena stays.
 */
static enum plait_status look_at_lender(struct plait_comm *comm, uint32_t rank)
{
    if (comm->peers[rank].process->base != NULL)
        return PLAIT_OK;
    atomic_thread_fence(memory_order_seq_cst);
    return plait_look_for_failures(comm);
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
    const struct plait_eager_plan *t = &o->eager;

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

/* One that is to be combined with others' is only looked at. */
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

static enum plait_copying taking(unsigned ways)
{
    return ways == 1U << PLAIT_PASS_PAST ? PLAIT_TAKING_PAST : PLAIT_TAKING_STAGED;
}

/* The clock, now and then, for those who choose how to write, if all went one way; 0: it is not timed. */
static inline double clock_taking(struct plait_comm *comm, const struct plait_op_plan *o, unsigned ways)
{
    const bool one = ways == 1U << PLAIT_PASS_PAST || ways == 1U << PLAIT_PASS_STAGED;

    return o->eager.timed && one ? plait_lend_clock(comm, taking(ways), plait_eager_passed(o, o->eager.room)) : 0;
}

static inline void end_taking(struct plait_comm *comm, const struct plait_op_plan *o, unsigned ways, double start)
{
    if (start != 0)
        plait_lend_copied(comm, taking(ways), plait_eager_passed(o, o->eager.room), start);
}

/* `rank` has given: what is only copied is, so that the next one's comes meanwhile. */
static inline __attribute__((always_inline)) enum plait_status take(struct plait_comm *comm,
                                                                    const struct plait_op_plan *o,
                                                                    const struct plait_sizes *v, uint32_t rank,
                                                                    const void *from, void *out, unsigned ways)
{
    if (o->sized)
        return take_part(comm, o, v, rank, from, out);
    if (!o->geometry.combines) {
        const double start = clock_taking(comm, o, ways);
        copy(comm, (uint8_t *)out + rank * o->eager.stride, from, o->count * o->size);
        end_taking(comm, o, ways, start);
    }
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
        (const uint8_t *)in + (sized ? v->in_at[slot_of(&o->geometry.in, comm->rank)] * o->size : o->eager.at);
    o->reduce(out, from, comm->nrank, count, &o->last);
    comm->stats.bytes_reduced += count * o->size;
}

void plait_eager_tell(struct plait_comm *comm, const struct plait_op_plan *o)
{
    for (uint32_t i = 0, r = o->eager.from.first; i < o->eager.from.n; i++, r = next_rank(comm, r))
        plait_wake(comm, r);
}

/* Have all taken what this rank lends in its operation? If not, *late is one who has not. */
static inline bool is_taken(const struct plait_comm *comm, const struct plait_eager_plan *t, uint32_t *late)
{
    for (uint32_t i = 0, r = t->to.first; i < t->to.n; i++, r = next_rank(comm, r))
        if (atomic_load_explicit(&comm->peers[r].control->took, memory_order_acquire) < comm->sequence) {
            *late = r;
            return false;
        }
    return true;
}

/* All whom this rank takes from have given, and it took what is only copied. */
static inline __attribute__((always_inline)) enum plait_status
finish(struct plait_comm *comm, const struct plait_op_plan *o, const struct plait_sizes *v, const void **from,
       const void *in, void *out, bool lends, unsigned ways)
{
    const struct plait_eager_plan *t = &o->eager;

    if (t->from.n == comm->nrank - 1)
        comm->begun = comm->sequence;
    if (t->turn == 1 && t->to.n > 0 && !lends) /* of two slots the next is known to be free only now */
        expect(comm, t, comm->sequence + 1, o->selection.split > 0);
    if (t->takes && o->geometry.combines) {
        const double start = clock_taking(comm, o, ways);
        combine(comm, o, v, from, in, out);
        end_taking(comm, o, ways, start);
    }
    if (ways & LENT) {
        atomic_store_explicit(&comm->own->took, comm->sequence, memory_order_release);
        plait_eager_tell(comm, o);
    }
    return plait_look_for_failures(comm);
}

/* ---- At once ------------------------------------------------------------------------------------------- */

struct turn { /* how far a blocking one is */
    const struct plait_eager_plan *t;
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
    w.steps = steps;
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
    unsigned ways = 0;
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
        from[r] = given_by(comm, t, r, slot, &ways);
        if (ways & LENT)
            status = look_at_lender(comm, r);
        if (status == PLAIT_OK)
            status = take(comm, o, v, r, from[r], out, ways);
        if (status != PLAIT_OK)
            return status;
    }
    status = finish(comm, o, v, from, in, out, lends, ways);
    if (status == PLAIT_OK && lends && !is_taken(comm, t, &late))
        status = wait_until(comm, may_return,
                            (struct turn){ .t = t, .rank = late, .done = (uint32_t)nsteps(t, false), .lends = true });
    return status;
}

/* ---- In turns --------------------------------------------------------------------------------------- */

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

/* Is what this rank gives where the others take it? */
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
    run->wait.steps = run_steps;
    run->given = try_give(run);
    if (run->o->eager.keeps)
        keep(comm, run->o, &run->sizes, run->in, run->out);
}

/* All have given: take it. */
static enum plait_status take_all(struct plait_run *run)
{
    struct plait_comm *comm = run->comm;
    const struct plait_eager_plan *t = &run->o->eager;
    const void *from[PLAIT_EAGER_RANKS];
    unsigned ways = 0;

    for (uint32_t i = 0, r = t->from.first; i < t->from.n; i++, r = next_rank(comm, r)) {
        from[r] = given_by(comm, t, r, slot_in(t, comm->sequence), &ways);
        enum plait_status status = ways & LENT ? look_at_lender(comm, r) : PLAIT_OK;
        if (status == PLAIT_OK)
            status = take(comm, run->o, &run->sizes, r, from[r], run->out, ways);
        if (status != PLAIT_OK)
            return status;
    }
    if (t->to.n > 0)
        after_giving(comm, run->o, &run->sizes);
    run->finished = true;
    return finish(comm, run->o, &run->sizes, from, run->in, run->out, run->lends, ways);
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
