/* SPDX-License-Identifier: BSD-3-Clause */
/* The machine as the library sees it: it chooses slices and the form of waiting accordingly. */
#ifndef PLAIT_TOPOLOGY_H
#define PLAIT_TOPOLOGY_H

#include <plait/status.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct plait_topology {
    char processor[64]; /* model name */
    char isa[16];       /* instruction set of the reduction kernels: "avx512", "avx2" or "scalar" */
    uint32_t ncpu;      /* processors this process may run on */
    size_t l1, l2, l3;  /* bytes of data cache; l3 is the whole last level; 0: unknown */
    uint64_t memory;    /* bytes of main memory */
};

/** Fill `out`. Always succeeds; unknown figures are 0. Thread: any. */
PLAIT_API void plait_topology_get(struct plait_topology *out);

#ifdef __cplusplus
}
#endif
#endif
