/* SPDX-License-Identifier: BSD-3-Clause */
/* When what happened to tensors and buckets on this rank. Without options.trace there is none, and no clock is read. */
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
    double begin, end; /* clock */
    uint32_t kind;
    uint32_t number; /* tensor when ready, else bucket */
};

struct plait_trace {
    _Atomic uint32_t n; /* may be more than there is room for */
    struct plait_trace_event events[PLAIT_TRACE_EVENTS];
    /* Who communicates and waits now, and how long it was so. */
    pthread_mutex_t lock;
    uint32_t flying, waiting;
    double changed; /* clock when one of them did */
    struct plait_fusion_times times;
};

struct plait_trace *plait_trace_create(void); /* NULL: out of memory */
void plait_trace_destroy(struct plait_trace *trace);

/* Now, or 0 without a trace. */
double plait_trace_now(const struct plait_trace *trace);

/* It began then and ends now. Any thread. */
void plait_trace_add(struct plait_trace *trace, enum plait_trace_kind kind, uint32_t number, double begin);

/* More (1) or fewer (-1) are in flight; threads wait. */
void plait_trace_flying(struct plait_trace *trace, int more);
void plait_trace_waiting(struct plait_trace *trace, int more);

#endif
