/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The failure detector: it finds why a wait does not end. It does not know how the waiting thread spins or sleeps.
 *
 * A probe reads the control blocks of the other ranks: has the comm failed, did a rank call with other arguments, has
 * one left or died, is a link broken? Then it compares the clock with the limits of the slow report and the deadline. A
 * probe finds nothing, or fails the comm with a text that names the culprit.
 */
#ifndef PLAIT_LIB_PROGRESS_DETECTOR_H
#define PLAIT_LIB_PROGRESS_DETECTOR_H

#include "comm/comm.h"

/* Callbacks of a wait, which get its context. blame is NULL for a collective. */
struct plait_wait_kind {
    /* The awaited ranks, at most `most`. NULL: none; the wait is for this rank itself. */
    uint32_t (*awaited)(const void *context, uint32_t *ranks, uint32_t most);
    /* Of a collective: steps done; *of: in all. NULL: not known. */
    uint64_t (*steps)(const void *context, uint64_t *of);

    /* The culprit of a stall (rank + 1; 0: none), and a text that names it. NULL: a collective. */
    uint32_t (*blame)(const void *context, char *text, size_t room);
    /* Write into the ring that the wait is long (`now` in ns) or over (0). NULL: not. */
    void (*note)(const void *context, uint64_t now);
    bool everybody; /* all ranks are needed to end the wait, as in a collective; else the one that is awaited */
};

#define PLAIT_WAITS_FOR_ITSELF "rank %u waits for its own stream: earlier work on it has not finished"

enum plait_suspicion { PLAIT_LEFT, PLAIT_DIED, PLAIT_UNCREATED, PLAIT_UNREAD, PLAIT_CUT_OFF };

struct plait_detector { /* of one wait */
    const struct plait_wait_kind *kind;
    const void *context;
    double limit; /* deadline, but for collectives; 0: the comm's */

    bool timed;         /* the fields below are set: there was a probe */
    bool warned;        /* the slow report was written */
    double start, last; /* clock of the first probe, moved forward by stops of this process; clock of the last probe */
    double check;       /* clock of the next probe for ranks that are gone */
    uint32_t last_awaited; /* rank + 1, at the last probe; 0: none */
    uint32_t suspect;      /* rank + 1 that will not end this wait; its data may still arrive. 0: none */
    enum plait_suspicion suspicion;
    double suspected; /* clock of the first probe with that suspicion */
};

/* The middle of the wait. A rank that has shown no life since then is to blame for a stall. */
static inline double plait_detector_middle(const struct plait_detector *d)
{
    return (d->start + d->last) / 2;
}

static inline bool plait_detector_of_collective(const struct plait_detector *d)
{
    return d->kind->blame == NULL;
}

/* The ranks that the wait is for, at most `most`. */
static inline uint32_t plait_detector_awaited(const struct plait_detector *d, uint32_t *out, uint32_t most)
{
    return d->kind->awaited != NULL ? d->kind->awaited(d->context, out, most) : 0;
}

/* Probe. On an error the comm has failed. */
enum plait_status plait_detector_probe(struct plait_comm *comm, struct plait_detector *d, double now);

/* A wait with probes is over: clear it in this rank's ring. */
void plait_detector_end(struct plait_comm *comm, struct plait_detector *d);

/*
 * Did a rank call one of the operations since own->uncompared with other arguments? All ranks may have returned from
 * such an operation: in rooted collectives with small messages not every rank waits for every other.
 */
enum plait_status plait_probe_past_calls(struct plait_comm *comm);

/* Is `rank` needed to end this wait? Messages need some ranks, a collective needs all. */
bool plait_detector_needs(const struct plait_comm *comm, const struct plait_detector *d, uint32_t rank);

/* Has a rank finished the operation in progress? One that has left or died may have done so before. */
bool plait_peer_finished(const struct plait_comm *comm, uint32_t rank);

/* Has the process of another rank ended? Ranks that are threads of this process never count. And the process's ID. */
bool plait_peer_died(const struct plait_peer *peer);
int plait_peer_pid(const struct plait_peer *peer);

/* Why a link to the rank is broken; NULL: none is. */
const char *plait_peer_cut_off(const struct plait_comm *comm, uint32_t rank);

/* ---- Texts that name the culprit of a wait that does not end: culprit.c ------------------------------- */

struct plait_culprit {
    uint32_t rank; /* PLAIT_NOBODY: no single rank */
    char text[448];
};

/* Find the culprit of a stall. */
void plait_culprit_find(const struct plait_comm *comm, const struct plait_detector *d, struct plait_culprit *out);

/* In a wait without a deadline: fail if a needed rank of another host is unheard for the comm's deadline. */
enum plait_status plait_probe_unheard(struct plait_comm *comm, const struct plait_detector *d, double now);

/* Fail the comm: the detector's suspicion has lasted long enough. */
enum plait_status plait_blame_suspect(struct plait_comm *comm, const struct plait_detector *d);

#endif
