/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ring of a rank's last collectives, in its arena: what each was, when it began, how far it is. Sends and receives
 * have another (message_ring.h).
 *
 * Two parts. The *record* says what was called; every operation writes one, with plain stores and no clock, as an eager
 * all-reduce takes less time than reading the clock three times. The *progress* says when and how far; the engine
 * stamps it at the start of each operation, an eager operation only when it waits longer than the spin. A record whose
 * progress carries another sequence number was therefore shorter than the spin, and its neighbours bracket its time.
 *
 * Other ranks and plait-info --dump read the ring while it is written, of processes that run, hang or are stopped. So
 * the word (or sequence) of an entry is zeroed first and written last, and readers look at it before and after.
 */
#ifndef PLAIT_LIB_COMM_RECORD_H
#define PLAIT_LIB_COMM_RECORD_H

#include <plait/coll.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAIT_NRECORD 1024 /* operations a rank remembers */

struct plait_what { /* an operation as a rank called it */
    uint64_t count;
    uint32_t settings, plans; /* hashes: of what is chosen for it, and of all ranks' plans */
    uint8_t coll, type, op, inplace;
    uint8_t wanted;  /* another trial of the ways to write (trial.h) */
    uint8_t ordered; /* a user function that is not commutative */
    uint16_t root;
    float factor;  /* of a fusion's sums (plait_fusion_set_scale()); 0: no fusion's bucket */
    uint8_t sized; /* blocks differ in size; count: in the largest, where all ranks know that; else 0 */
    char algorithm[22];
    uint8_t device; /* its buffers are in a device's memory */
    uint32_t mark;  /* the caller's */
};

/* Also what mismatches are found and named by. */
struct plait_record {
    _Atomic uint64_t word; /* fingerprint << 32 | sequence; written last */
    struct plait_what what;
};

struct plait_progress {
    _Alignas(64) _Atomic uint64_t sequence; /* of the operation that this is about; written last */
    _Atomic uint64_t began, looked;         /* nanoseconds of CLOCK_MONOTONIC: at the start; last during a long wait */
    _Atomic uint64_t steps, nstep;          /* of all slices; written when a wait is long, and at a failure */
    _Atomic uint32_t slices, nslice;        /* written as each ends */
    _Atomic uint32_t waiting_for, waited_for; /* rank + 1: now in a long wait for it; of the last long wait. 0: none */
};
_Static_assert(sizeof(struct plait_record) == 64 && sizeof(struct plait_progress) == 64, "one line each");

struct plait_ring {
    struct plait_record record[PLAIT_NRECORD];
    struct plait_progress progress[PLAIT_NRECORD];
};

static inline struct plait_record *plait_ring_record(const struct plait_ring *ring, uint64_t sequence)
{
    return (struct plait_record *)(uintptr_t)&ring->record[sequence % PLAIT_NRECORD];
}

static inline struct plait_progress *plait_ring_progress(const struct plait_ring *ring, uint64_t sequence)
{
    return (struct plait_progress *)(uintptr_t)&ring->progress[sequence % PLAIT_NRECORD];
}

/* Say what this rank calls, so that the others can compare and name it. `order` of the word: release, or stronger;
 * a constant, as compilers take any other for the strongest. */
static inline __attribute__((always_inline)) void plait_ring_add(struct plait_ring *ring, uint64_t sequence,
                                                                 uint64_t word, const struct plait_what *what,
                                                                 memory_order order)
{
    struct plait_record *r = plait_ring_record(ring, sequence);

    atomic_store_explicit(&r->word, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    r->what = *what;
    atomic_store_explicit(&r->word, word, order);
}

/*
 * Fetch the line that operation `sequence` will write. What it sends is stored after its record and stores happen in
 * order, so a record that had to wait for its line would hold up the data.
 */
static inline void plait_ring_expect(struct plait_ring *ring, uint64_t sequence)
{
    __builtin_prefetch(plait_ring_record(ring, sequence), 1);
}

/* From now on the operation has a time and a progress: of `nslice` slices, `nstep` steps in all. */
void plait_progress_begin(struct plait_ring *ring, uint64_t sequence, uint64_t now, uint64_t nslice, uint64_t nstep);

/* ---- Reading ------------------------------------------------------------------------------------- */

enum plait_state { PLAIT_DONE, PLAIT_RUNNING, PLAIT_FAILED };

struct plait_operation { /* a copy of an entry of a ring */
    uint64_t sequence;   /* of a message: among those to, or from, `peer` */
    bool message, send;  /* of `what` it has count and type */
    uint32_t peer;
    struct plait_what what;
    enum plait_state state;
    bool has_progress; /* the rest is known */
    uint64_t began, looked, steps, nstep;
    uint32_t slices, nslice, waiting_for, waited_for;
};

/*
 * Copy operation `sequence` of a rank that has completed `done` operations. False when the ring does not have it or it
 * is being written. Nothing that is read is trusted.
 */
bool plait_ring_read(const struct plait_ring *ring, uint64_t sequence, uint64_t done, bool failed,
                     struct plait_operation *out);

/* ", 1 of 4 slices, 23 of 72 steps"; "" where it is not known. */
void plait_operation_progress(const struct plait_operation *o, char *text, size_t room);

/*
 * "allreduce #12 (1048576 float32 sum, ring)" or "recv #3 from rank 2 (1000 float32)", and how far it is while it runs.
 * For errors and warnings.
 */
void plait_operation_name(const struct plait_operation *o, char *text, size_t room);

/* The same with bytes, state, time before `now` and whom it waits for: a line of a listing. */
void plait_operation_text(const struct plait_operation *o, uint64_t now, char *text, size_t room);

#endif
