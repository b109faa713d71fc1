/* SPDX-License-Identifier: BSD-3-Clause */
#include "group.h"

#include "base/fork.h"
#include "base/status.h"
#include "request.h"

#include <stdio.h>
#include <string.h>

/* Without a memset() of `text`: that takes as long as a short message. */
void plait_outcome_clear(struct plait_outcome *o)
{
    o->status = PLAIT_OK;
    o->text[0] = '\0';
}

void plait_outcome_note(struct plait_outcome *o, enum plait_status status, const char *text)
{
    if (status == PLAIT_OK)
        return;
    const size_t n = strlen(o->text);
    if (o->status == PLAIT_OK)
        o->status = status;
    if (n > 0 && strstr(o->text, text) != NULL)
        return;
    snprintf(o->text + n, sizeof o->text - n, "%s%s", n > 0 ? "\n" : "", text);
}

_Thread_local struct plait_group plait_group;
atomic_bool plait_grouped;

enum plait_status plait_not_in_group(enum plait_status status, const char *call)
{
    if (status != PLAIT_OK || !plait_in_group())
        return status;
    return plait_fail(PLAIT_ERR_ARG, "%s: a group is open; call plait_group_end() first", call);
}

void plait_group_add(struct plait_request *r)
{
    plait_request_set_state(r, PLAIT_REQUEST_GROUPED);
    r->next_of_group = NULL;
    *plait_group.end = r;
    plait_group.end = &r->next_of_group;
}

void plait_group_refuse(enum plait_status status, const char *text)
{
    if (plait_group.refused == PLAIT_OK)
        plait_outcome_clear(&plait_group.refusal);
    plait_outcome_note(&plait_group.refusal, status, text);
    plait_group.refused = plait_group.refusal.status;
}

enum plait_status plait_refuse(enum plait_status status)
{
    if (plait_in_group() && status != PLAIT_OK)
        plait_group_refuse(status, plait_last_error());
    return status;
}

void plait_groups_fork(enum plait_fork when)
{
    if (when != PLAIT_FORK_CHILD)
        return;
    memset(&plait_group, 0, sizeof plait_group); /* its calls were the parent's */
}
