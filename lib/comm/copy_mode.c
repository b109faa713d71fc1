/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A calibration: two ranks exchange blocks of each size in each mode, both at once, as ranks of a collective do. They
 * synchronise before and after each exchange. Only the leader's times count, and of each mode only the shortest, since
 * interference makes times longer. The modes alternate, so a slow phase affects all of them.
 *
 * Memory is used as operations use it: staging moves through more memory than a peer's cache keeps of it, and the
 * private buffers are the same in every exchange.
 */
#include "copy_mode.h"

#include "base/clock.h"
#include "base/fork.h"
#include "comm.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define MOST_SECONDS 0.018 /* of a calibration: 20 ms are promised, allocation and a last exchange included */
#define SLICE        ((size_t)256 << 10) /* bytes of a staged slice: a quarter of an L2 of 1 MiB, as operations have */
#define STAGE        (3 * SLICE)         /* bytes of shared memory: three slices, as in lifecycle/connect.c */
#define LONGEST      ((size_t)4 << 20)   /* bytes: longer ones are as fast per byte */
#define PAGE         4096
#define SPINS        64  /* turns between two looks at the clock, about 2 us */
#define GAIN         0.9 /* streaming stores must be so much faster: they empty caches that others use */

/* A size in the middle of each class, and how often it is exchanged in each mode: a few ms in all on a slow machine. */
static const struct {
    size_t bytes;
    unsigned repeats;
} sizes[PLAIT_COPY_CLASSES] = {
    { (size_t)16 << 10, 16 }, { (size_t)64 << 10, 12 }, { (size_t)256 << 10, 8 }, { (size_t)1 << 20, 4 }, { LONGEST, 2 }
};

/* Without a calibration: the kernel's copy is faster from about 1 MiB on, where blocks leave a core's cache. */
static const struct plait_copies built_in = { .modes = { { PLAIT_COPY_STAGED, PLAIT_COPY_STAGED },
                                                         { PLAIT_COPY_STAGED, PLAIT_COPY_STAGED },
                                                         { PLAIT_COPY_STAGED, PLAIT_COPY_STAGED },
                                                         { PLAIT_COPY_SINGLE, PLAIT_COPY_STAGED },
                                                         { PLAIT_COPY_SINGLE, PLAIT_COPY_STAGED } } };

static struct plait_copies known; /* of this process; zeroes: none was timed */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const struct plait_fork_module plait_copies_fork = { .lock = &lock };

struct plait_copies plait_copies_known(bool calibrate)
{
    pthread_mutex_lock(&lock);
    const struct plait_copies k = known;
    pthread_mutex_unlock(&lock);
    return calibrate && k.calibrated ? k : built_in;
}

/* ---- An exchange ------------------------------------------------------------------------------------------ */

struct side { /* this rank's */
    const struct plait_kernels *kernels;
    struct plait_calibration *own;
    const struct plait_calibration *other;
    const struct plait_process *process; /* the other's */
    char *stage;                         /* [STAGE] shared */
    const char *other_stage;
    char *from, *to; /* [LONGEST] private */
    size_t used;     /* of the stage; the same on both sides */
    uint32_t step;
    double end; /* clock at which to give up */
};

/* Wait for the other at this point. False: it does not come. */
static bool meet(struct side *s)
{
    atomic_store_explicit(&s->own->processor, sched_getcpu(), memory_order_relaxed);
    atomic_store_explicit(&s->own->step, ++s->step, memory_order_release);
    for (unsigned turn = 1; (int32_t)(atomic_load_explicit(&s->other->step, memory_order_acquire) - s->step) < 0;
         turn++) {
        plait_pause();
        if (turn % SPINS == 0) {
            if (plait_clock() > s->end)
                return false;
            sched_yield(); /* the other may share this processor */
        }
    }
    return true;
}

static bool share_processor(const struct side *s)
{
    return atomic_load_explicit(&s->own->processor, memory_order_relaxed) ==
           atomic_load_explicit(&s->other->processor, memory_order_relaxed);
}

/* Each sends the other a block in this mode. False: the other does not come, or cannot be read. */
static bool exchange(struct side *s, enum plait_copy_mode mode, size_t bytes)
{
    if (mode == PLAIT_COPY_SINGLE)
        return plait_process_read(s->process, s->other->source, s->to, bytes) == 0 && meet(s);
    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < SLICE ? bytes - at : SLICE;
        if (s->used + n > STAGE)
            s->used = 0;
        if (mode == PLAIT_COPY_STREAMED) {
            s->kernels->stream(s->stage + s->used, s->from + at, n);
            s->kernels->stream_end();
        } else {
            plait_copy(s->kernels, s->stage + s->used, s->from + at, n);
        }
        if (!meet(s))
            return false;
        plait_copy(s->kernels, s->to + at, s->other_stage + s->used, n);
        s->used += n;
    }
    return meet(s);
}

/* The first read of each page would be a page fault, and part of the time. */
static void touch(const volatile char *stage)
{
    for (size_t at = 0; at < STAGE; at += PAGE)
        (void)stage[at];
}

/* ---- Both sides ------------------------------------------------------------------------------------------- */

/*
 * Run an exchange and time it. False: it failed. It does not count if both ranks had one processor: then the time is
 * that of changes of process.
 */
static bool time_exchange(struct side *s, enum plait_copy_mode mode, size_t bytes, double *best)
{
    if (!meet(s))
        return false;
    const double start = plait_clock();
    if (start + *best > s->end || !exchange(s, mode, bytes))
        return false;
    const double took = plait_clock() - start;
    if (!share_processor(s) && (*best == 0 || took < *best))
        *best = took;
    return true;
}

struct plait_copy_modes plait_copies_fastest(const double t[])
{
    const bool streams = t[PLAIT_COPY_STREAMED] < GAIN * t[PLAIT_COPY_STAGED];
    const enum plait_copy_mode other = streams ? PLAIT_COPY_STREAMED : PLAIT_COPY_STAGED;
    const bool single = t[PLAIT_COPY_SINGLE] > 0 && t[PLAIT_COPY_SINGLE] < t[other];

    return (struct plait_copy_modes){ single ? PLAIT_COPY_SINGLE : other, other };
}

/* All exchanges of one size. False: the time is up, or one failed. */
static bool try_size(struct side *s, unsigned k, bool single, double t[PLAIT_NCOPY])
{
    for (unsigned i = 0; i < sizes[k].repeats; i++)
        for (unsigned mode = single ? PLAIT_COPY_SINGLE : PLAIT_COPY_STAGED; mode < PLAIT_NCOPY; mode++)
            if (!time_exchange(s, (enum plait_copy_mode)mode, sizes[k].bytes, &t[mode]))
                return false;
    return true;
}

/* Sizes that were not timed are treated as the next smaller one. False: no size was timed. */
static bool time_all(struct side *s, struct plait_copies *out)
{
    const bool single = s->own->reads && s->other->reads;
    bool goes_on = true, timed = false;

    *out = built_in;
    out->calibrated = true;
    for (unsigned k = 0; k < PLAIT_COPY_CLASSES; k++) {
        double t[PLAIT_NCOPY] = { 0 };
        goes_on = goes_on && try_size(s, k, single, t);
        if (goes_on && t[PLAIT_COPY_STAGED] > 0 && t[PLAIT_COPY_STREAMED] > 0) {
            out->modes[k] = plait_copies_fastest(t);
            if (!timed)
                out->copy = (double)sizes[k].bytes / t[out->modes[k].fastest];
            timed = true;
        } else if (timed) {
            out->modes[k] = out->modes[k - 1];
        }
    }
    return timed;
}

/* Leave the processor of the other rank; *before is then to be restored. Two woken at once may be on the same one. */
static bool move_away(const struct side *s, cpu_set_t *before)
{
    cpu_set_t others;

    if (!share_processor(s) || sched_getaffinity(0, sizeof *before, before) != 0)
        return false;
    others = *before;
    CPU_CLR((size_t)sched_getcpu(), &others);
    return CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof others, &others) == 0;
}

void plait_copies_keep(const struct plait_copies *copies)
{
    pthread_mutex_lock(&lock);
    if (copies->calibrated)
        known = *copies;
    pthread_mutex_unlock(&lock);
}

void *plait_copies_calibrate(struct plait_comm *comm, uint32_t other, bool leads)
{
    const double start = plait_clock();
    const struct plait_control *control = comm->peers[other].control;
    struct side s = { .kernels = comm->kernels,
                      .own = &comm->own->calibration,
                      .other = &control->calibration,
                      .process = comm->peers[other].process,
                      .from = malloc(LONGEST),
                      .to = malloc(LONGEST),
                      .end = start + MOST_SECONDS };
    struct plait_copies copies;
    cpu_set_t before;
    void *stage = NULL;

    if (s.from != NULL && s.to != NULL && plait_arena_alloc(STAGE, &stage) == PLAIT_OK) {
        memset(s.from, 1, LONGEST);
        memset(s.to, 1, LONGEST);
        memset(stage, 1, STAGE);
        s.stage = stage;
        s.own->stage = s.stage - (char *)comm->own;
        s.own->source = (uint64_t)(uintptr_t)s.from;
        s.own->reads = atomic_load_explicit(&comm->own->reads, memory_order_relaxed);
        if (meet(&s)) {
            s.other_stage = (const char *)control + s.other->stage;
            touch(s.other_stage);
            const bool moved = !leads && move_away(&s, &before);
            if (time_all(&s, &copies) && leads)
                comm->copies = copies;
            if (moved)
                sched_setaffinity(0, sizeof before, &before);
        }
    }
    free(s.from);
    free(s.to);
    return stage;
}
