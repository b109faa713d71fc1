/* SPDX-License-Identifier: BSD-3-Clause */
/* The texts that name the culprit of a wait that does not end. */
#ifndef PLAIT_LIB_PROGRESS_CULPRIT_H
#define PLAIT_LIB_PROGRESS_CULPRIT_H

#include "detector.h"

#define PLAIT_RANK_NAME 128 /* bytes */

/* "rank 2 (process 123 on host1)"; the host only if it is another one. */
void plait_rank_name(const struct plait_comm *comm, uint32_t rank, char text[PLAIT_RANK_NAME]);

struct plait_culprit {
    uint32_t rank; /* PLAIT_NOBODY: no single rank */
    char text[448];
};

/* Find the culprit of a stall. */
void plait_culprit_find(const struct plait_comm *comm, const struct plait_detector *d, struct plait_culprit *out);

/* Name a rank of another host from which no update comes. */
void plait_culprit_unheard(const struct plait_comm *comm, uint32_t rank, double now, struct plait_culprit *out);

/* Fail the comm: the detector's suspicion is sure. */
enum plait_status plait_blame_suspect(struct plait_comm *comm, const struct plait_detector *d);

#endif
