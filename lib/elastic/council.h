/* SPDX-License-Identifier: BSD-3-Clause */
/* What the threads of several servers that serve the same workers agree on (council.c). */
#ifndef PLAIT_LIB_ELASTIC_COUNCIL_H
#define PLAIT_LIB_ELASTIC_COUNCIL_H

#include "elastic.h"

enum plait_decision {
    PLAIT_DECISION_NONE,    /* yet */
    PLAIT_DECISION_APPLY,   /* what this worker sent */
    PLAIT_DECISION_DROP,    /* it: there is a server that lacks it for ever */
    PLAIT_DECISION_DROP_ALL /* what any worker sent: a server is dead, or shows no life */
};

/* Of thread `shift`. Collective among servers. *out is to be destroyed, also after an error; NULL is allowed. */
enum plait_status plait_council_create(struct plait_elastic *e, uint32_t shift, struct plait_council **out);
void plait_council_destroy(struct plait_council *c);

/* Before anything else; a second time it does nothing. DROP_ALL: a server is lost already. */
enum plait_decision plait_council_open(struct plait_council *c);

/* What this worker sent is here (which is said once), or the worker is lost. */
enum plait_decision plait_council_report(struct plait_council *c, uint32_t worker, bool has);

/* What to wait for, of which servers, as long as there is any; then what one has said, of which worker. */
uint32_t plait_council_awaited(const struct plait_council *c, struct plait_request **requests, uint32_t *servers);
enum plait_decision plait_council_hear(struct plait_council *c, uint32_t server, enum plait_status status,
                                       uint32_t *worker);

/*
 * No worker is left, which may be said again: what to wait for is the others' end. Server 0 tells them when all have.
 */
void plait_council_close(struct plait_council *c);

/* The error that names the server that was lost, as this thread's last; or PLAIT_OK. */
enum plait_status plait_council_tell(const struct plait_council *c);

#endif
