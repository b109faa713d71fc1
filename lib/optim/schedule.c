/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers that change from step to step: the learning rate and the loss scale. */
#include "optim.h"

#include "base/status.h"
#include "call/call.h"

#include <math.h>

#define PI 3.14159265358979323846

static bool is_good(const struct plait_schedule *s, double step)
{
    if (plait_check_struct("plait_schedule_at", "schedule", s, sizeof *s, "PLAIT_SCHEDULE_DEFAULT") != PLAIT_OK)
        return false;
    const struct plait_number all[] = {
        { "step", "0 or more", step, step >= 0 },
        { "base", "0 or more, and finite", s->base, s->base >= 0 && isfinite(s->base) },
        { "warmup", "0 or more, and finite", s->warmup, s->warmup >= 0 && isfinite(s->warmup) },
        { "start", "0 or more, and finite", s->start, s->start >= 0 && isfinite(s->start) },
        { "rule", "one of PLAIT_DECAY_*", s->rule, (unsigned)s->rule <= PLAIT_DECAY_COSINE },
        { "steps", "above 0, and finite", s->steps, s->steps > 0 && isfinite(s->steps) },
        { "power", "above 0, and finite", s->power, s->power > 0 && isfinite(s->power) },
        { "end", "0 or more, and finite", s->end, s->end >= 0 && isfinite(s->end) },
        { "gamma", "above 0, and finite", s->gamma, s->gamma > 0 && isfinite(s->gamma) },
        { "nmilestone", "0 where milestones is NULL", s->nmilestone, s->milestones != NULL || s->nmilestone == 0 },
    };
    bool good = plait_check_numbers("plait_schedule_at", all, sizeof all / sizeof *all) == PLAIT_OK;
    for (uint32_t i = 0; i < s->nmilestone && good; i++) {
        const double x = s->milestones[i];
        const struct plait_number number = { "a milestone", "0 or more, and above the one before", x,
                                             x >= 0 && (i == 0 || x > s->milestones[i - 1]) };
        good = plait_check_numbers("plait_schedule_at", &number, 1) == PLAIT_OK;
    }
    return good;
}

static double milestones(const struct plait_schedule *s, double step)
{
    double factor = 1;

    for (uint32_t i = 0; i < s->nmilestone && step >= s->milestones[i]; i++)
        factor *= s->gamma;
    return factor;
}

double plait_schedule_at(const struct plait_schedule *s, double step)
{
    if (!is_good(s, step))
        return NAN;
    if (step < s->warmup)
        return s->base * (s->start + (1 - s->start) * (step / s->warmup));
    const double t = step - s->warmup, done = t < s->steps ? t / s->steps : 1;
    switch (s->rule) {
    case PLAIT_DECAY_NONE:
        break;
    case PLAIT_DECAY_POLYNOMIAL:
        return s->base * ((1 - s->end) * pow(1 - done, s->power) + s->end);
    case PLAIT_DECAY_STEPS:
        return s->base * milestones(s, step);
    case PLAIT_DECAY_COSINE:
        return s->base * (done < 1 ? (1 - s->end) * (1 + cos(PI * done)) / 2 + s->end : s->end);
    }
    return s->base;
}

/* ---- Loss scale -------------------------------------------------------------------------------------------- */

enum plait_status plait_optim_check_scale(const char *call, const struct plait_loss_scale *s)
{
    const struct plait_number all[] = {
        { "least", "above 0", s->least, s->least > 0 },
        { "most", "least or more, and finite", s->most, s->most >= s->least && isfinite(s->most) },
        { "scale", "from least to most", s->scale, s->scale >= s->least && s->scale <= s->most },
        { "growth", "1 or more, and finite", s->growth, s->growth >= 1 && isfinite(s->growth) },
        { "backoff", "above 0 and at most 1", s->backoff, s->backoff > 0 && s->backoff <= 1 },
    };
    return plait_check_numbers(call, all, sizeof all / sizeof *all);
}

enum plait_status plait_loss_scale_update(struct plait_loss_scale *s, int finite)
{
    if (s == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_loss_scale_update: scale is NULL");
    const enum plait_status status = plait_optim_check_scale("plait_loss_scale_update", s);
    if (status == PLAIT_OK)
        plait_optim_rescale(s, finite != 0);
    return status;
}
