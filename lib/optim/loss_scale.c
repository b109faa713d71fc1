/* SPDX-License-Identifier: BSD-3-Clause */
#include <plait/optim.h>

#include "base/status.h"
#include "call/object.h"

#include <math.h>

static enum plait_status check(const struct plait_loss_scale *s)
{
    if (s == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_loss_scale_update: scale is NULL");
    const struct plait_number all[] = {
        { "least", "above 0", s->least, s->least > 0 },
        { "most", "least or more, and finite", s->most, s->most >= s->least && isfinite(s->most) },
        { "scale", "from least to most", s->scale, s->scale >= s->least && s->scale <= s->most },
        { "growth", "1 or more, and finite", s->growth, s->growth >= 1 && isfinite(s->growth) },
        { "backoff", "above 0 and at most 1", s->backoff, s->backoff > 0 && s->backoff <= 1 },
    };
    return plait_check_numbers("plait_loss_scale_update", all, sizeof all / sizeof *all);
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
