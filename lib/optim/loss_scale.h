/* SPDX-License-Identifier: BSD-3-Clause */
/* The loss scale, which the optimiser and its GPU kernels update alike. */
#ifndef PLAIT_LIB_OPTIM_LOSS_SCALE_H
#define PLAIT_LIB_OPTIM_LOSS_SCALE_H

#include <plait/optim.h>

#include <stdbool.h>

#ifdef __CUDACC__
#define PLAIT_OPTIM_FN __device__ static inline
#else
#define PLAIT_OPTIM_FN static inline
#endif

/* What plait_loss_scale_update() does. */
PLAIT_OPTIM_FN void plait_optim_rescale(struct plait_loss_scale *s, bool finite)
{
    const double less = s->scale * s->backoff, more = s->scale * s->growth;

    if (!finite)
        s->skipped++;
    if (s->interval == 0)
        return;
    if (!finite) {
        s->scale = less > s->least ? less : s->least;
        s->good = 0;
    } else if (++s->good >= s->interval) {
        s->scale = more < s->most ? more : s->most;
        s->good = 0;
    }
}

#endif
