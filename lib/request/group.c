/* SPDX-License-Identifier: BSD-3-Clause */
#include "request.h"

#include "base/fork.h"

#include <stdio.h>
#include <string.h>

void plait_collect_error(struct plait_saved_error *e, enum plait_status status, const char *text)
{
    if (status == PLAIT_OK)
        return;
    if (e->status == PLAIT_OK) {
        e->status = status;
        e->text[0] = '\0';
    }
    const size_t n = strlen(e->text);
    if (n > 0 && strstr(e->text, text) != NULL)
        return;
    snprintf(e->text + n, sizeof e->text - n, "%s%s", n > 0 ? "\n" : "", text);
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

enum plait_status plait_refuse(enum plait_status status)
{
    if (plait_in_group())
        plait_collect_error(&plait_group.refused, status, plait_last_error());
    return status;
}

static void forget_parent(void)
{
    memset(&plait_group, 0, sizeof plait_group); /* its calls were the parent's */
}

const struct plait_fork_module plait_groups_fork = { .forget = forget_parent };
