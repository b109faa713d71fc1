/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The oracle: all ranks of a set of plans in one thread, ready steps picked in seeded random order.
 *
 * It shares nothing with the engine: no fusing, no slices, no library kernels. A SEND completes
 * together with its RECV.
 */
#ifndef PLAIT_TRANSPORTS_LOCAL_H
#define PLAIT_TRANSPORTS_LOCAL_H

#include <plait/plan.h>

struct plait_local_job {
    const struct plait_plan *const *plans; /* [nrank] */
    uint32_t nrank;
    size_t count; /* elements of the vector, or of one block where all blocks have the same size */
    size_t size;  /* bytes of an element */
    /* dst[i] = x[i] op y[i]; dst may equal x or y. */
    void (*combine)(void *dst, const void *x, const void *y, size_t count, void *arg);
    void *arg;
    const void *const *in; /* [nrank], each as long as the rank's IN; in place they share memory with OUT */
    void *const *out;      /* [nrank] */
    uint64_t seed;
};

/*
 * Run to the end. PLAIT_ERR_PLAN: no step is ready before all are done, or a message has other blocks than its receive
 * (plait_last_error() says where). PLAIT_ERR_NOMEM.
 */
enum plait_status plait_local_run(const struct plait_local_job *job);

#endif
