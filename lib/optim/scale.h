/* SPDX-License-Identifier: BSD-3-Clause */
/* The loss scale of a step, on the host and on a GPU: schedule.c, optim.c and the GPU kernels share this file. */
#ifndef PLAIT_LIB_OPTIM_SCALE_H
#define PLAIT_LIB_OPTIM_SCALE_H

#include <plait/optim.h>

#include "bounds.h"

#include <stdint.h>
#include <string.h>

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

/* A step's 18-bit number (plait_optim_call()) with the scale mixed in. Scales with one mantissa never collide. */
PLAIT_OPTIM_FN double plait_optim_mix(double call, double scale)
{
    uint64_t h;

    memcpy(&h, &scale, sizeof h);
    h ^= h >> 18 ^ h >> 36 ^ h >> 54;
    return (double)(((uint32_t)call ^ (uint32_t)h) & 0x3ffff);
}

#endif
