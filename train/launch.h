/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks: those of mpirun, torchrun or Slurm (plait/launch.h), or processes that this one starts. */
#ifndef PLAIT_TRAIN_LAUNCH_H
#define PLAIT_TRAIN_LAUNCH_H

#include <plait/comm.h>

#include <signal.h>
#include <stdbool.h>

struct place { /* this process's place among the ranks */
    uint32_t rank, nrank;
    struct plait_unique_id id;
};

/**
 * Find this process's rank, or start `ranks` processes. Call it before any thread exists.
 *
 * ranks    asked for; 0: those of the launcher, or, without one, `usual`
 * out      set in each rank; the process that started the ranks waits for them, and ends with their exit status
 * Returns false after a message.
 */
bool launch(uint32_t ranks, uint32_t usual, struct place *out);

/**
 * The signal that asked this rank to stop (SIGINT, SIGTERM, SIGHUP), or 0. A second one, seconds later, ends it at
 * once.
 */
extern volatile sig_atomic_t asked_to_stop;
void launch_catch_signals(void);

#endif
