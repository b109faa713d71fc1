/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that the runs of a test program share, where it costs much to begin one: with PLAIT_TEST_KEPT=1, which is for a
 * GPU, as each process makes a context there.
 *
 * The program forks a process of ranks when a run first needs it, and again when that one has died. From there on the new
 * process runs the tests as the program itself does, but in a run it is one process of ranks. So whatever a test sets before
 * a run is set in all of them. Tests keep to two rules: what the processes share they allocate before the first run; what
 * they draw at random (kept_time()) is the same in all.
 */
#ifndef PLAIT_TESTS_KEPT_H
#define PLAIT_TESTS_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool kept(void);

/* The time at which the program began. */
uint64_t kept_time(void);

struct kept_run {
    unsigned nprocess; /* 0: the body runs in the program itself, which has never used a GPU, and forks its ranks */
    double limit;      /* seconds until its processes are killed */
    bool tied;         /* a process that fails ends all */
    bool (*begin)(void *arg);                            /* in process 0, before all others: makes the id */
    unsigned (*body)(const void *arg, unsigned process); /* the number of ranks that failed */
    void *arg;
    void *id; /* [id_bytes] a variable of the program's, which all get from process 0 */
    size_t id_bytes;
};

/* Number of ranks that failed; a process that dies is one. */
unsigned kept_run(const struct kept_run *k);

/* A file where the stand-ins of processes meet (PLAIT_STANDIN_WORLD): of a run, or of all where they are kept. */
bool kept_world_begin(void);
void kept_world_end(void);

#endif
