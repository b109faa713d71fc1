/* SPDX-License-Identifier: BSD-3-Clause */
/* Agreement among the threads of several servers that serve the same workers (council.c). */
#ifndef PLAIT_LIB_ELASTIC_COUNCIL_H
#define PLAIT_LIB_ELASTIC_COUNCIL_H

#include "elastic.h"

enum plait_decision {
    PLAIT_DECISION_NONE,    /* none yet */
    PLAIT_DECISION_APPLY,   /* apply the worker's exchange */
    PLAIT_DECISION_DROP,    /* drop the exchange: a server will never have it */
    PLAIT_DECISION_DROP_ALL /* drop all exchanges: a server is dead or stalled */
};

/* For thread `shift`; collective among servers. The caller destroys *out, also after an error; NULL is allowed. */
enum plait_status plait_council_create(struct plait_elastic *e, uint32_t shift, struct plait_council **out);
void plait_council_destroy(struct plait_council *c);

/* Call it before all others; a second call does nothing. DROP_ALL: a server is lost already. */
enum plait_decision plait_council_open(struct plait_council *c);

/* has: this server has the worker's exchange (reported once). Else: the worker is lost. */
enum plait_decision plait_council_report(struct plait_council *c, uint32_t worker, bool has);

/* List the requests to wait for, and their servers; 0: none. Then process the message of one, about *worker. */
uint32_t plait_council_awaited(const struct plait_council *c, struct plait_request **requests, uint32_t *servers);
enum plait_decision plait_council_hear(struct plait_council *c, uint32_t server, enum plait_status status,
                                       uint32_t *worker);

/*
 * No worker is left; further calls are allowed. From now on only the other servers' END is awaited. Server 0 sends END
 * when all others have.
 */
void plait_council_close(struct plait_council *c);

/* Set this thread's last error to the one that names the lost server; or PLAIT_OK. */
enum plait_status plait_council_tell(const struct plait_council *c);

#endif
