/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomic commit of exchanges on several servers. Server 0 is the coordinator.
 *
 *     a server -> server 0    HAS     worker w's exchange is complete here
 *                             LOST    worker w is dead, or has given up
 *                             END     no worker is left here
 *     server 0 -> the others  APPLY   all servers have w's exchange
 *                             DROP    to servers that have w's exchange: another server will never have it
 *                             END     no worker is left anywhere
 *
 * All servers apply an exchange or none does, whenever the worker dies or a server is silent. All apply exchanges in
 * the same order. A worker has one exchange in flight, so each server sends HAS at most once between two decisions. All
 * servers end together, so a server that has an exchange always gets a decision. Each serving thread has its own
 * council, with the threads of the other servers that serve the same workers.
 *
 * The server that listens to a dead server finds it, and fails the council's comm for all. A stopped server is found,
 * too, but only while something depends on it: an undecided exchange, or the end. Servers that wait run their failure
 * detector every few turns, so a live server is seen (comm->patience) however long workers take.
 */
#include "council.h"

#include "base/status.h"
#include "failure/failure.h"

#include <plait/message.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fraction of the comm's deadline. Servers time out before workers, which cannot tell the server that is lost. */
#define SHARE 0.75

enum { HAS, LOST, END, APPLY, DROP };

struct vote {
    uint32_t kind, worker;
};

struct letter {
    struct vote vote;
    struct plait_request *sent;
};

struct plait_council {
    const struct plait_elastic *e;
    struct plait_comm *comm; /* of the servers, in their order */
    uint32_t nserver, nworker, self;
    struct vote *heard;          /* [nserver] */
    struct plait_request **next; /* [nserver] receives `heard`; persistent; NULL: that server sends nothing */
    bool *ended;                 /* [nserver] sends nothing more */
    struct letter *letters;      /* [nworker + 1][nserver] last message to each server about each worker; then END */
    bool opened, closing, said_end;
    struct plait_kept why; /* a server is lost: no exchange can complete */
    bool *has;             /* [nworker][nserver] HAS since the last decision; only server 0 knows of other servers */
    bool *lost;            /* [nworker] used by server 0 */
};

/* ---- Life -------------------------------------------------------------------------------------------------- */

static enum plait_status hear_all(struct plait_council *c)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    enum plait_status status = PLAIT_OK;

    call.persistent = 1;
    call.deadline = PLAIT_FOREVER;
    for (uint32_t s = 0; s < c->nserver && status == PLAIT_OK; s++) {
        c->ended[s] = s == c->self || (c->self > 0 && s > 0);
        call.request = &c->next[s];
        if (!c->ended[s])
            status = plait_recv(c->comm, &c->heard[s], sizeof *c->heard, PLAIT_UINT8, s, &call);
    }
    return status;
}

enum plait_status plait_council_create(struct plait_elastic *e, uint32_t shift, struct plait_council **out)
{
    struct plait_council *c = calloc(1, sizeof *c);
    const uint32_t ns = e->nserver, nw = e->nworker;
    char name[64];

    snprintf(name, sizeof name, "%.30s: servers, thread %u", e->name, shift);
    *out = c; /* also after an error */
    if (c != NULL) {
        *c = (struct plait_council){ .nserver = ns, .nworker = nw, .self = e->comm->rank - nw, .e = e };
        c->heard = calloc(ns, sizeof *c->heard);
        c->next = calloc(ns, sizeof(struct plait_request *));
        c->ended = calloc(ns, sizeof *c->ended);
        c->letters = calloc((size_t)ns * (nw + 1), sizeof *c->letters);
        c->has = calloc((size_t)ns * nw, sizeof *c->has);
        c->lost = calloc(nw, sizeof *c->lost);
    }
    if (c == NULL || c->heard == NULL || c->next == NULL || c->ended == NULL || c->letters == NULL || c->has == NULL ||
        c->lost == NULL)
        return plait_fail_memory("out of memory for %u servers of %u workers", ns, nw);
    enum plait_status status = plait_comm_split(e->comm, 0, 0, name, &c->comm);
    if (status == PLAIT_OK) {
        c->comm->patience = PLAIT_FOREVER;
        status = hear_all(c);
    }
    return status;
}

static void end_request(struct plait_request **r)
{
    if (*r != NULL)
        plait_wait(r);
    plait_request_free(r);
}

void plait_council_destroy(struct plait_council *c)
{
    bool awaits = false;

    if (c == NULL)
        return;
    for (uint32_t s = 0; s < c->nserver && c->comm != NULL; s++)
        awaits |= !c->ended[s];
    if (c->opened && awaits)
        plait_comm_abort(c->comm, "the server has left before the others");
    for (uint32_t s = 0; c->next != NULL && s < c->nserver; s++)
        end_request(&c->next[s]);
    for (size_t i = 0; c->letters != NULL && i < (size_t)c->nserver * (c->nworker + 1); i++)
        end_request(&c->letters[i].sent);
    plait_comm_destroy(c->comm);
    free(c->heard);
    free(c->next);
    free(c->ended);
    free(c->letters);
    free(c->has);
    free(c->lost);
    free(c);
}

/* ---- Messages ---------------------------------------------------------------------------------------------- */

/* The comm has failed with the last error; no more messages. The culprit may be another server than `server`. */
static enum plait_decision lose_server(struct plait_council *c, uint32_t server, enum plait_status status)
{
    const uint32_t culprit = atomic_load(&c->comm->own->failed) != PLAIT_OK ? c->comm->own->culprit : 0;

    plait_keep_error(&c->why, plait_elastic_blame(c->e, culprit > 0 ? culprit - 1 : server, "", status));
    for (uint32_t s = 0; s < c->nserver; s++)
        c->ended[s] = true;
    return PLAIT_DECISION_DROP_ALL;
}

enum plait_decision plait_council_open(struct plait_council *c)
{
    enum plait_status status = PLAIT_OK;

    for (uint32_t s = 0; s < c->nserver && !c->opened; s++) {
        status = c->ended[s] ? PLAIT_OK : plait_start(c->next[s]);
        if (status != PLAIT_OK)
            return lose_server(c, s, status);
    }
    c->opened = true;
    return PLAIT_DECISION_NONE;
}

/* Stall detection is on only while an exchange is undecided, and at the end. */
static void set_patience(struct plait_council *c)
{
    const bool needed = c->closing || memchr(c->has, true, (size_t)c->nserver * c->nworker) != NULL;

    atomic_store_explicit(&c->comm->patience, needed ? SHARE * c->comm->deadline : PLAIT_FOREVER, memory_order_relaxed);
}

/* worker is nworker for END. The last message about it was received: an answer or another message came since. */
static void say(struct plait_council *c, uint32_t server, uint32_t kind, uint32_t worker)
{
    struct letter *l = &c->letters[(size_t)worker * c->nserver + server];
    struct plait_call call = PLAIT_CALL_DEFAULT;

    call.request = &l->sent;
    call.deadline = PLAIT_FOREVER;
    if (plait_wait(&l->sent) == PLAIT_OK) {
        l->vote = (struct vote){ kind, worker };
        plait_send(c->comm, &l->vote, sizeof l->vote, PLAIT_UINT8, server, &call);
    } /* if the send fails: the server that listens finds the dead one */
}

/* ---- Decisions --------------------------------------------------------------------------------------------- */

/* Send DROP to all servers that have the worker's exchange. True: this server has it, too. */
static bool drop(struct plait_council *c, uint32_t w)
{
    bool *has = &c->has[(size_t)w * c->nserver];
    const bool own = has[0];

    for (uint32_t s = 1; s < c->nserver; s++)
        if (has[s])
            say(c, s, DROP, w);
    for (uint32_t s = 0; s < c->nserver; s++)
        has[s] = false;
    return own;
}

/* Server s has w's exchange. */
static enum plait_decision count(struct plait_council *c, uint32_t w, uint32_t s)
{
    bool *has = &c->has[(size_t)w * c->nserver], all = true;

    has[s] = true;
    if (c->lost[w])
        return drop(c, w) ? PLAIT_DECISION_DROP : PLAIT_DECISION_NONE;
    for (uint32_t i = 0; i < c->nserver; i++)
        all &= has[i];
    for (uint32_t i = 0; all && i < c->nserver; i++) {
        has[i] = false;
        if (i > 0)
            say(c, i, APPLY, w);
    }
    return all ? PLAIT_DECISION_APPLY : PLAIT_DECISION_NONE;
}

static enum plait_decision lose(struct plait_council *c, uint32_t w)
{
    c->lost[w] = true;
    return drop(c, w) ? PLAIT_DECISION_DROP : PLAIT_DECISION_NONE;
}

enum plait_decision plait_council_report(struct plait_council *c, uint32_t worker, bool has)
{
    enum plait_decision d = PLAIT_DECISION_NONE;

    if (c->why.status != PLAIT_OK)
        return PLAIT_DECISION_DROP;
    if (c->self == 0) {
        d = has ? count(c, worker, 0) : lose(c, worker);
    } else {
        c->has[(size_t)worker * c->nserver + c->self] |= has;
        say(c, 0, has ? HAS : LOST, worker);
    }
    set_patience(c);
    return d;
}

static enum plait_decision take(struct plait_council *c, struct vote v, uint32_t server)
{
    if (v.kind == HAS)
        return count(c, v.worker, server);
    if (v.kind == LOST)
        return lose(c, v.worker);
    c->has[(size_t)v.worker * c->nserver + c->self] = false;
    return v.kind == APPLY ? PLAIT_DECISION_APPLY : PLAIT_DECISION_DROP;
}

enum plait_decision plait_council_hear(struct plait_council *c, uint32_t server, enum plait_status status,
                                       uint32_t *worker)
{
    const struct vote v = c->heard[server];

    *worker = v.worker;
    if (status == PLAIT_OK && v.kind == END) {
        c->ended[server] = true;
        return PLAIT_DECISION_NONE;
    }
    if (status == PLAIT_OK && v.worker >= c->nworker)
        status = plait_comm_blame(c->comm, PLAIT_ERR_PEER, server, "rank %u speaks of worker %u of %u", server,
                                  v.worker, c->nworker);
    if (status == PLAIT_OK)
        status = plait_start(c->next[server]);
    if (status != PLAIT_OK)
        return lose_server(c, server, status);
    const enum plait_decision d = take(c, v, server);
    set_patience(c);
    return d;
}

uint32_t plait_council_awaited(const struct plait_council *c, struct plait_request **requests, uint32_t *servers)
{
    uint32_t n = 0;

    for (uint32_t s = 0; s < c->nserver; s++)
        if (!c->ended[s]) {
            requests[n] = c->next[s];
            servers[n++] = s;
        }
    return n;
}

void plait_council_close(struct plait_council *c)
{
    bool all = true;

    for (uint32_t s = 0; s < c->nserver; s++)
        all &= c->self > 0 || c->ended[s];
    c->closing = true;
    set_patience(c);
    for (uint32_t s = 0; s < c->nserver && all && !c->said_end && c->why.status == PLAIT_OK; s++)
        if (s != c->self && (c->self == 0 || s == 0))
            say(c, s, END, c->nworker);
    c->said_end |= all;
}

enum plait_status plait_council_tell(const struct plait_council *c)
{
    return plait_tell_error(&c->why);
}
