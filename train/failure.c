/* SPDX-License-Identifier: BSD-3-Clause */
#include "failure.h"

#include "ending.h"
#include "row.h"
#include "why.h"

#include <plait/coll.h>

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

/* Another rank is lost, as the library's log says. Save the weights after the last step that is complete here. */
static _Noreturn void lost(struct run *r)
{
    char newest[PATH_MAX];
    const char *why = NULL;

    if (r->stream != NULL) /* seen after the call that queued the operation: the library's log has nothing of it */
        complain("rank %u: %s", r->rank, plait_last_error());
    r->lost = true;
    const bool gone =
        r->elastic != NULL || r->stream != NULL; /* a GPU's last step may have been made with wrong sums */
    if (gone && r->keeper != NULL)
        keeper_wait(r->keeper);
    if (gone && !checkpoint_newest(r->folder, newest, sizeof newest))
        give_up(ENDING_LOST, "cannot go on: no checkpoint was complete yet");
    if (gone)
        give_up(ENDING_LOST, "the steps since the last checkpoint, %s, are lost; go on with --resume %s", newest,
                r->folder);
    if (r->keeper == NULL) /* one rank at a time writes a folder: rank 0, or, when it is lost, the first to come here */
        r->keeper = keeper_create(r->folder, (uint32_t)r->o->keep, &why);
    if (r->keeper == NULL)
        leave(ENDING_LOST);
    keeper_wait(r->keeper);
    why = state_save_alone(r);
    if (why != NULL)
        give_up(ENDING_LOST, "the last step could not be saved: %s", why);
    give_up(ENDING_LOST, "the last complete step, %llu, is saved; go on with --resume %s", (unsigned long long)r->step,
            r->folder);
}

void check(struct run *r, enum plait_status status)
{
    if (status == PLAIT_OK)
        return;
    if (ending_of(status) == ENDING_LOST && r->all > 1)
        lost(r);
    give_up(ending_of(status), "rank %u: %s", r->rank, plait_last_error());
}

void note_nonfinite(struct run *r, const char *what, uint64_t last, const char *layer)
{
    char steps[80];

    if (r->nonfinite[0] != '\0')
        return;
    if (last - r->reported > 1)
        snprintf(steps, sizeof steps, "one of the steps %" PRIu64 " to %" PRIu64, r->reported + 1, last);
    else
        snprintf(steps, sizeof steps, "step %" PRIu64, last);
    snprintf(r->nonfinite, sizeof r->nonfinite, "%s is not finite in %s%s%s", what, steps,
             layer != NULL ? ": the first one is in " : "", layer != NULL ? layer : "");
}

/* Remedies, the most likely first. In the first step of a warm-up the rate is 0, and has had no effect yet. */
static const char *remedies(const struct run *r, char *out, size_t room)
{
    const bool scaled = r->o->loss_scale > 1;
    char scale[32];
    size_t n = 0;

    row_print_real(r->o->loss_scale, scale, sizeof scale);
    if (scaled)
        n += (size_t)snprintf(out + n, room - n, ", a lower --loss-scale (now %s)", scale);
    if (r->rate > 0)
        n += (size_t)snprintf(out + n, room - n, ", a lower --rate (now %g), a longer --warmup", r->rate);
    if (r->o->loss_scale > 0)
        n += (size_t)snprintf(out + n, room - n, ", --loss-scale dynamic");
    if (r->o->payload == PLAIT_FLOAT16)
        n += (size_t)snprintf(out + n, room - n, ", --payload bf16");
    if (n == 0)
        snprintf(out, room, ", other initial weights");
    return out + 2;
}

void nonfinite(struct run *r)
{
    char help[160];
    uint32_t first = r->nonfinite[0] != '\0' ? r->rank : r->nrank;

    check(r, plait_allreduce(r->comm, &first, &first, 1, PLAIT_UINT32, PLAIT_MIN, NULL));
    check(r, plait_broadcast(r->comm, r->nonfinite, r->nonfinite, sizeof r->nonfinite, PLAIT_UINT8, first, NULL));
    complain("rank %u: %s; one of these may help: %s", first, r->nonfinite, remedies(r, help, sizeof help));
    plait_elastic_destroy(r->elastic); /* its servers may go */
    leave(ENDING_NONFINITE);
}
