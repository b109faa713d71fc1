/* SPDX-License-Identifier: BSD-3-Clause */
#include <plait/optim.h>

#include "base/status.h"
#include "call/object.h"

#include <math.h>
#include <stdbool.h>

static bool wrong(const char *name, double value, const char *remedy)
{
    plait_fail(PLAIT_ERR_ARG, "plait_schedule_at: %s is %g; it must be %s", name, value, remedy);
    return false;
}

static bool is_good(const struct plait_schedule *s, double step)
{
    if (plait_check_struct("plait_schedule_at", "schedule", s, sizeof *s, "PLAIT_SCHEDULE_DEFAULT") != PLAIT_OK)
        return false;
    if (!(step >= 0))
        return wrong("step", step, "0 or more");
    if (!(s->base >= 0) || !isfinite(s->base))
        return wrong("base", s->base, "0 or more, and finite");
    if (!(s->warmup >= 0) || !isfinite(s->warmup))
        return wrong("warmup", s->warmup, "0 or more, and finite");
    if (!(s->start >= 0) || !isfinite(s->start))
        return wrong("start", s->start, "0 or more, and finite");
    if ((unsigned)s->rule > PLAIT_DECAY_COSINE)
        return wrong("rule", s->rule, "one of PLAIT_DECAY_*");
    if (!(s->steps > 0) || !isfinite(s->steps))
        return wrong("steps", s->steps, "above 0, and finite");
    if (!(s->power > 0) || !isfinite(s->power))
        return wrong("power", s->power, "above 0, and finite");
    if (!(s->end >= 0) || !isfinite(s->end))
        return wrong("end", s->end, "0 or more, and finite");
    if (!(s->gamma > 0) || !isfinite(s->gamma))
        return wrong("gamma", s->gamma, "above 0, and finite");
    if (s->milestones == NULL && s->nmilestone > 0)
        return wrong("nmilestone", s->nmilestone, "0 where milestones is NULL");
    for (uint32_t i = 0; i < s->nmilestone; i++)
        if (!(s->milestones[i] >= 0) || (i > 0 && !(s->milestones[i] > s->milestones[i - 1])))
            return wrong("a milestone", s->milestones[i], "0 or more, and above the one before");
    return true;
}

static double polynomial(const struct plait_schedule *s, double done)
{
    return (1 - s->end) * pow(1 - done, s->power) + s->end;
}

static double cosine(const struct plait_schedule *s, double done)
{
    return (1 - s->end) * (1 + cos(3.14159265358979323846 * done)) / 2 + s->end;
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
        return s->base * polynomial(s, done);
    case PLAIT_DECAY_STEPS:
        return s->base * milestones(s, step);
    case PLAIT_DECAY_COSINE:
        return s->base * (done < 1 ? cosine(s, done) : s->end);
    }
    return s->base;
}
