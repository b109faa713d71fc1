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

#define PLAIT_NOWHERE UINT32_MAX

/*
 * Where the calling thread may run, by hwloc. Numbers count from 0 over the objects of the host; PLAIT_NOWHERE: in
 * several of them, or not known. The ranks of a comm exchange these, so that hierarchical algorithms know which ranks
 * share a cache, a memory node, a package or a host (`level` in plan.h).
 */
struct plait_locality {
    int known;                       /* 0: hwloc is missing or cannot read the host; then hosts are the only level */
    uint32_t package, memory, cache; /* `cache` is the outermost, the one that most cores share */
    uint32_t npackage, nmemory, ncache, ncore; /* of the host */
    char devices[256];                         /* GPUs and NICs beside these processors: "card0, mlx5_0" */
    char text[512];                            /* the reason, if not known; else advice on binding; "": none */
};

/** Where this thread's processors lie. hwloc's variables count (HWLOC_XMLFILE, HWLOC_SYNTHETIC). Thread: any. */
PLAIT_API void plait_locality_get(struct plait_locality *out);

/** Fill `out`. Always succeeds; unknown figures are 0. Thread: any. */
PLAIT_API void plait_topology_get(struct plait_topology *out);

#ifdef __cplusplus
}
#endif
#endif
