/* SPDX-License-Identifier: BSD-3-Clause */
/* Times of this rank's tensors and buckets. Without options.trace there is no trace, and no clock is read. */
#ifndef PLAIT_LIB_FUSION_TRACE_H
#define PLAIT_LIB_FUSION_TRACE_H

#include <plait/fusion.h>

#include <pthread.h>
#include <stdatomic.h>

#define PLAIT_TRACE_EVENTS 32768

enum plait_trace_kind {
    PLAIT_TRACE_READY,
    PLAIT_TRACE_PACK,
    PLAIT_TRACE_TRANSFER,
    PLAIT_TRACE_UNPACK,
    PLAIT_TRACE_WAIT,
    PLAIT_NTRACE_KIND
};

struct plait_trace_event {
    double begin, end; /* plait_clock(), s */
    uint32_t kind;
    uint32_t number; /* of the tensor for PLAIT_TRACE_READY, else of the bucket */
};

struct plait_trace {
    _Atomic uint32_t n; /* may exceed PLAIT_TRACE_EVENTS */
    struct plait_trace_event events[PLAIT_TRACE_EVENTS];
    /* Buckets in flight and threads that wait now; the lock protects these and the times. */
    pthread_mutex_t lock;
    uint32_t in_flight, waiting;
    double changed; /* time when one of them changed */
    struct plait_fusion_times times;
};

struct plait_trace *plait_trace_create(void); /* NULL: out of memory */
void plait_trace_destroy(struct plait_trace *trace);

/* Now, or 0 without a trace. */
double plait_trace_now(const struct plait_trace *trace);

/* Record an event that began at `begin` and ends now. Any thread may call. */
void plait_trace_add(struct plait_trace *trace, enum plait_trace_kind kind, uint32_t number, double begin);

/* So many buckets more are in flight, so many threads more wait: 1, 0 or -1. */
void plait_trace_change(struct plait_trace *trace, int in_flight, int waiting);

#endif
