/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tiny all-reduces. A cache line carries 56 bytes of data and the word that says whose operation it
 * belongs to; data is stored first and the word last, so whoever sees the word sees the data: one line
 * transfer each way. Two sets of lines are used in turn: when a rank writes set s again, it has read all
 * others' lines of the operation before, so all others are done with the operation before that.
 */
#include "line.h"

#include "wait.h"

#include <string.h>

static void put(struct plait_flagged_line *line, uint64_t word, const char *data, size_t bytes)
{
    do {
        const size_t n = bytes < PLAIT_LINE_DATA ? bytes : PLAIT_LINE_DATA;
        if (n == PLAIT_LINE_DATA)
            memcpy(line->data, data, PLAIT_LINE_DATA);
        else if (n > 0)
            memcpy(line->data, data, n);
        atomic_store_explicit(&line->word, word, memory_order_release);
        line++;
        data += n;
        bytes -= n;
    } while (bytes > 0);
}

static uint32_t awaited(const void *context, uint32_t *ranks, uint32_t most)
{
    (void)most;
    *ranks = *(const uint32_t *)context;
    return 1;
}

/* Wait for one line. */
static enum plait_status get(struct plait_comm *comm, const struct plait_flagged_line *line, uint64_t word, struct plait_wait *w)
{
    enum plait_status status = PLAIT_OK;

    if (atomic_load_explicit(&line->word, memory_order_acquire) == word)
        return PLAIT_OK;
    while (status == PLAIT_OK && atomic_load_explicit(&line->word, memory_order_acquire) != word)
        status = plait_wait_turn(comm, w);
    plait_wait_progress(comm, w);
    return status;
}

/* One rank's vector; in its line when it fits in one, else gathered into `room`. */
static enum plait_status take(struct plait_comm *comm, const struct plait_flagged_line *line, uint64_t word, size_t bytes,
                              char *room, struct plait_wait *w, const void **out)
{
    enum plait_status status = get(comm, line, word, w);

    *out = bytes <= PLAIT_LINE_DATA ? (const void *)line->data : room;
    while (status == PLAIT_OK && bytes > PLAIT_LINE_DATA) {
        memcpy(room, line->data, PLAIT_LINE_DATA);
        room += PLAIT_LINE_DATA;
        bytes -= PLAIT_LINE_DATA;
        line++;
        status = get(comm, line, word, w);
        if (bytes <= PLAIT_LINE_DATA && status == PLAIT_OK)
            memcpy(room, line->data, bytes);
    }
    return status;
}

enum plait_status plait_line_run(struct plait_comm *comm, const struct plait_op_plan *o, const void *in, void *out)
{
    const uint32_t set = comm->nline++ & 1;
    const uint64_t word = (uint64_t)o->fingerprint << 32 | (uint32_t)comm->sequence;
    const size_t bytes = o->count * o->size;
    const void *from[PLAIT_LINE_RANKS];
    uint32_t peer = 0;
    struct plait_wait w = { .turns = 0 };
    enum plait_status status = PLAIT_OK;

    w.awaited = awaited;
    w.context = &peer;
    put(comm->own->line[set], word, in, bytes);
    for (uint32_t r = 0; r < comm->nrank; r++)
        if (r != comm->rank)
            plait_wake(comm, r);
    from[comm->rank] = in;
    for (uint32_t i = 1; i < comm->nrank && status == PLAIT_OK; i++) {
        peer = comm->rank + i < comm->nrank ? comm->rank + i : comm->rank + i - comm->nrank;
        status = take(comm, comm->peers[peer].control->line[set], word, bytes,
                      (char *)comm->scratch + peer * PLAIT_LINE_MAX, &w, &from[peer]);
    }
    if (status == PLAIT_OK && bytes > 0) {
        o->reduce(out, from, comm->nrank, o->count, o->divisor);
        comm->stats.bytes_reduced += bytes;
    }
    comm->stats.messages += comm->nrank - 1;
    comm->stats.bytes_sent += (comm->nrank - 1) * bytes;
    return status;
}
