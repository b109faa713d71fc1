/* SPDX-License-Identifier: BSD-3-Clause */
/* Small measurements of the machine by threads of this process, one per processor. */
#ifndef PLAIT_BENCH_MACHINE_H
#define PLAIT_BENCH_MACHINE_H

#include <stddef.h>
#include <stdint.h>

/* Seconds that a cache line takes from the first processor to the second; 0 on a single processor. */
double machine_latency(void);

enum kernel {
    KERNEL_COPY,        /* a = b: memcpy() or streaming stores, whichever is faster */
    KERNEL_REDUCE,      /* a = b + c in float32, likewise */
    KERNEL_READ,        /* sum of a */
    KERNEL_READ_OTHERS, /* sum of what the thread on the next processor has just written */
    KERNEL_SINGLE_COPY, /* a = b, with b the next processor's thread's, by process_vm_readv() */
};

/*
 * Payload bytes per second of `nthread` threads together: bytes written, or bytes read by the reading kernels.
 *
 * bytes    of all buffers of all threads together
 * seconds  to measure for, at least one pass; the fastest pass counts
 * Returns 0 when memory is short, or the kernel does not permit it.
 */
double machine_rate(enum kernel kernel, uint32_t nthread, size_t bytes, double seconds);

/* Seconds of one clock reading. */
double machine_clock_cost(void);

#endif
