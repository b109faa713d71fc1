/* SPDX-License-Identifier: BSD-3-Clause */
#include <plait/optim.h>

#include "base/status.h"

#include <math.h>
#include <stdbool.h>

static enum plait_status wrong(const char *name, double value, const char *remedy)
{
    return plait_fail(PLAIT_ERR_ARG, "plait_loss_scale_update: %s is %g; it must be %s", name, value, remedy);
}

static enum plait_status check(const struct plait_loss_scale *s)
{
    if (s == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_loss_scale_update: scale is NULL");
    if (!(s->least > 0))
        return wrong("least", s->least, "above 0");
    if (!(s->most >= s->least) || !isfinite(s->most))
        return wrong("most", s->most, "least or more, and finite");
    if (!(s->scale >= s->least && s->scale <= s->most))
        return wrong("scale", s->scale, "from least to most");
    if (!(s->growth >= 1) || !isfinite(s->growth))
        return wrong("growth", s->growth, "1 or more, and finite");
    if (!(s->backoff > 0 && s->backoff <= 1))
        return wrong("backoff", s->backoff, "above 0 and at most 1");
    return PLAIT_OK;
}

enum plait_status plait_loss_scale_update(struct plait_loss_scale *s, int finite)
{
    const enum plait_status status = check(s);

    if (status != PLAIT_OK || s->interval == 0)
        return status;
    if (!finite) {
        s->scale = fmax(s->scale * s->backoff, s->least);
        s->good = 0;
    } else if (++s->good >= s->interval) {
        s->scale = fmin(s->scale * s->growth, s->most);
        s->good = 0;
    }
    return PLAIT_OK;
}
