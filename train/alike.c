/* SPDX-License-Identifier: BSD-3-Clause */
#include "alike.h"

#include "ending.h"
#include "share.h"
#include "why.h"

#include <plait/coll.h>

#include <string.h>

static const char *of(const struct note *note)
{
    return note->value[0] != '\0' ? note->value : "not given";
}

void alike(const struct options *o, struct plait_comm *comm)
{
    struct note first[OPTIONS_MOST] = { 0 }, own;
    const char *why = NULL;

    for (uint32_t k = 0; options_alike(o, k, &first[k]); k++)
        ;
    must(plait_broadcast(comm, first, first, sizeof first, PLAIT_UINT8, 0, NULL), "the options of all ranks");
    for (uint32_t k = 0; why == NULL && options_alike(o, k, &own); k++)
        if (strcmp(own.value, first[k].value) != 0)
            why = because("%s: %s on rank 0, %s on rank %u; give all ranks the same options", options_flag(o, own.name),
                          of(&first[k]), of(&own), plait_comm_rank(comm));
    why = share_verdicts(comm, why);
    if (why != NULL) {
        complain("%s", why);
        leave(ENDING_USAGE);
    }
}
