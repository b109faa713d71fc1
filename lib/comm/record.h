/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The flight recorder of a rank, in its arena: a ring of its last collectives, and the sends and receives that it waits
 * for.
 *
 * The ring has two parts. The *record* has the arguments. Every operation writes one with plain stores
 * and reads no clock: an eager all-reduce takes less time than three clock reads. The *progress* has times and steps.
 * The engine writes it at the start of each operation, the eager path only after a wait longer than the spin. So an
 * operation whose progress has another sequence number was shorter than the spin; it ran between the times of the
 * operations before and after it.
 *
 * A send or receive is there only while this rank is in a long wait for it, and 64 of them at most. So messages that
 * pass quickly cost nothing, and the recorder has messages in which a rank hangs, but not all of more than 64.
 *
 * Other ranks and plait-info --dump read all of it concurrently; the process may run, hang or be stopped. Entries are
 * seqlocks: the first word of one is zeroed first and written last; readers check it before and after.
 */
#ifndef PLAIT_LIB_COMM_RECORD_H
#define PLAIT_LIB_COMM_RECORD_H

#include <plait/coll.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAIT_NRECORD  1024 /* collectives a rank remembers */
#define PLAIT_NAWAITED 64   /* messages that it shows */

struct plait_what { /* an operation as a rank called it; no padding, as it is hashed */
    uint64_t count;
    double factor;            /* scale of a fusion's sums (plait_fusion_set_scale()); 0: not from a fusion */
    uint32_t settings, plans; /* hashes of the selection, and of all ranks' plans */
    uint32_t mark;            /* call->mark */
    uint16_t root;
    uint8_t coll, type, op;
    uint8_t ordered : 1; /* the user's reduction is not commutative */
    uint8_t vform : 1;   /* variable block sizes; count is then the largest block's, if all ranks know it, else 0 */
    uint8_t space : 6;   /* id of its buffers' memory space */
    char algorithm[22];
};

/* Whose memory it is, by the id of its space: "the host's". */
static inline const char *plait_space_whose(uint8_t id)
{
    static const char *const whose[] = { "the host's", "a GPU's" };

    return id < sizeof whose / sizeof *whose ? whose[id] : "another space's";
}

/* Mismatches between ranks are found and named by these records. */
struct plait_record {
    _Atomic uint64_t word; /* fingerprint << 32 | sequence; written last */
    struct plait_what what;
};

struct plait_progress {
    _Alignas(64) _Atomic uint64_t sequence;   /* of this operation; written last */
    _Atomic uint64_t began;                   /* ns of CLOCK_MONOTONIC */
    _Atomic uint64_t steps, nstep;            /* over all slices; written in long waits and at a failure */
    _Atomic uint32_t slices, nslice;          /* written as each slice ends; nslice 0: it is made as a whole */
    _Atomic uint32_t waiting_for, waited_for; /* rank + 1, of the current, and the last, long wait; 0: none */
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

/* Publish this rank's call, so that others can compare and name it. `order` of the word: release or stronger; it must
 * be a constant, as compilers treat a variable order as the strongest. */
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
 * Prefetch the cache line of operation `sequence`'s record. Stores retire in order and the data are stored after the
 * record, so a miss on the record would delay the data.
 */
static inline void plait_ring_expect(struct plait_ring *ring, uint64_t sequence)
{
    __builtin_prefetch(plait_ring_record(ring, sequence), 1);
}

/* Start the progress entry of an operation of `nslice` slices, `nstep` steps in all. 0, 0: perhaps as a whole. */
void plait_progress_begin(struct plait_ring *ring, uint64_t sequence, uint64_t now, uint64_t nslice, uint64_t nstep);

/* The operation is made as a whole: by one kernel. */
static inline void plait_progress_whole(struct plait_ring *ring, uint64_t sequence)
{
    atomic_store_explicit(&plait_ring_progress(ring, sequence)->nstep, 1, memory_order_relaxed);
}

/* ---- Messages ------------------------------------------------------------------------------------ */

struct plait_message_what { /* a message as a rank called it, and how far it is */
    uint64_t number;        /* counts messages to, or from, this peer, from 1 */
    uint64_t count;
    uint32_t peer, nslice, slices; /* slices: done */
    uint8_t type, send, space;     /* id of the data's memory space */
};

struct plait_awaited {                   /* a message in a long wait */
    _Alignas(64) _Atomic uint64_t since; /* ns of CLOCK_MONOTONIC; 0: this place is free. Written last */
    struct plait_message_what what;
};
_Static_assert(sizeof(struct plait_awaited) == 64, "one line");

/* Show a message. NULL: there is no room. It is shown until the place's `since` is 0. */
static inline struct plait_awaited *plait_awaited_add(struct plait_awaited all[PLAIT_NAWAITED], uint64_t since,
                                                      const struct plait_message_what *what)
{
    for (struct plait_awaited *a = all; a < all + PLAIT_NAWAITED; a++)
        if (atomic_load_explicit(&a->since, memory_order_relaxed) == 0) {
            atomic_thread_fence(memory_order_release); /* a reader that sees the new `what` sees no old `since` */
            a->what = *what;
            atomic_store_explicit(&a->since, since, memory_order_release);
            return a;
        }
    return NULL;
}

/* ---- Reading ------------------------------------------------------------------------------------- */

enum plait_state { PLAIT_DONE, PLAIT_RUNNING, PLAIT_FAILED };

struct plait_operation { /* a copy of an entry */
    uint64_t sequence;   /* of a message: counts those to, or from, `peer` */
    bool message, send;  /* a message: `what` has count, type and space only */
    uint32_t peer;
    struct plait_what what;
    enum plait_state state;
    bool has_progress; /* `progress` is valid */
    struct plait_progress progress;
};

/* Write a progress entry, and read that of operation `sequence`; false: the entry is another's, or changes. */
void plait_progress_write(struct plait_progress *p, const struct plait_progress *from);
bool plait_progress_read(const struct plait_progress *p, uint64_t sequence, struct plait_progress *out);

/*
 * Copy operation `sequence` of a rank that has completed `done` operations. False if the ring does not have it or its
 * owner is writing it. Nothing that is read is trusted.
 */
bool plait_ring_read(const struct plait_ring *ring, uint64_t sequence, uint64_t done, bool failed,
                     struct plait_operation *out);

/*
 * The last `most` collectives of a rank that has completed `done`, the one in progress included; oldest first. Then at
 * most `most` messages that it waits for. Returns how many are in `out`, [2 * most]. Nothing that is read is trusted.
 */
uint32_t plait_ring_last(const struct plait_ring *ring, const struct plait_awaited *messages, uint64_t done,
                         bool failed, uint32_t most, struct plait_operation *out);

/* Copy a message; false: that place is free, or its owner is writing it. */
bool plait_awaited_read(const struct plait_awaited *a, bool failed, struct plait_operation *out);

/* Append ", 1 of 4 slices, 23 of 72 steps"; nothing if not known. */
void plait_operation_progress(const struct plait_operation *o, char *text, size_t room);

/*
 * "allreduce #12 (1048576 float32 sum, ring)" or "recv #3 from rank 2 (1000 float32)", with the progress while it runs.
 * For errors and warnings.
 */
void plait_operation_name(const struct plait_operation *o, char *text, size_t room);

/* The same with bytes, state, seconds from its start to `now` and the awaited rank: a line of a listing. */
void plait_operation_text(const struct plait_operation *o, uint64_t now, char *text, size_t room);

#endif
