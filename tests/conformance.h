/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One suite for every transport. Its algorithms are made to strain the rules of matching: more messages
 * between two ranks than a window holds, lanes taken in another order than sent, messages long before their
 * receive, the same block twice, sends from TMP that is written again, empty blocks, random trees.
 *
 * A new transport gives a harness to conformance_run().
 */
#ifndef PLAIT_TESTS_CONFORMANCE_H
#define PLAIT_TESTS_CONFORMANCE_H

#include "jobs.h"

struct harness {
    const char *name;
    uint32_t least, most; /* ranks */
    /* Run every job on real ranks, filling `out`; false: a rank failed, which has been printed. */
    bool (*run)(const struct jobs *j);
};

/* Number of things that went wrong; all are printed. */
unsigned conformance_run(const struct harness *h);

/* Messages between two ranks below the engine, read in place and landed; number of ranks that failed. */
unsigned conformance_links(uint32_t nprocess, uint32_t nthread);

/* The suite's algorithms, NULL-ended. */
extern const struct plait_alg *const conformance_algs[];

#endif
