/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several servers to which workers send their weights: is an exchange complete in all of them? Server 0 decides.
 *
 *     a server -> server 0    HAS     what worker w sent is here, all of it
 *                             LOST    worker w is dead, or has given up
 *                             END     no worker is left here
 *     server 0 -> the others  APPLY   all have what w sent
 *                             DROP    to who has it: another has not, and never will
 *                             END     the answer to that
 *
 * So what a worker sent is applied by all or by none, whenever it dies, and by all in the same order. A worker has one
 * exchange under way, so each server says HAS once at most between two decisions. Server 0 stays until all have
 * ended, so nobody who has something waits in vain. Each serving thread sits in a council of its own, with those of the
 * other servers that serve the same workers.
 */
#include "council.h"

#include "../status.h"

#include <plait/message.h>

#include <stdio.h>
#include <stdlib.h>

enum { HAS, LOST, END, APPLY, DROP };

struct vote {
    uint32_t kind, worker;
};

struct letter {
    struct vote vote;
    struct plait_request *sent;
};

struct plait_council {
    struct plait_comm *comm; /* of the servers, in their order */
    uint32_t nserver, nworker, self;
    struct vote *heard;          /* [nserver] */
    struct plait_request **next; /* [nserver] receives it; persistent; NULL where nobody speaks to this one */
    bool *ended;                 /* [nserver] says nothing more */
    struct letter *letters;      /* [nworker + 1][nserver] the last that was said to each of each; of END */
    bool opened;
    bool broken; /* a server is dead: nothing can be complete any more */

    /* Server 0: */
    bool *has;  /* [nworker][nserver] since the last decision */
    bool *lost; /* [nworker] */
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
    *out = c; /* also half made */
    if (c != NULL) {
        *c = (struct plait_council){ .nserver = ns, .nworker = nw, .self = e->comm->rank - nw };
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
        c->comm->warn = PLAIT_FOREVER;
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

/* ---- Saying and hearing ------------------------------------------------------------------------------------ */

static bool await_next(struct plait_council *c, uint32_t s)
{
    c->ended[s] |= plait_start(c->next[s]) != PLAIT_OK;
    c->broken |= c->ended[s];
    return !c->ended[s];
}

void plait_council_open(struct plait_council *c)
{
    for (uint32_t s = 0; s < c->nserver && !c->opened; s++)
        if (!c->ended[s])
            await_next(c, s);
    c->opened = true;
}

/* worker: nworker for END. What was said of it last has been heard: something was answered, or came, since. */
static void say(struct plait_council *c, uint32_t server, uint32_t kind, uint32_t worker)
{
    struct letter *l = &c->letters[(size_t)worker * c->nserver + server];
    struct plait_call call = PLAIT_CALL_DEFAULT;

    if (c->ended[server])
        return;
    call.request = &l->sent;
    call.deadline = PLAIT_FOREVER;
    if (plait_wait(&l->sent) == PLAIT_OK) {
        l->vote = (struct vote){ kind, worker };
        plait_send(c->comm, &l->vote, sizeof l->vote, PLAIT_UINT8, server, &call);
    } /* a server that cannot be reached is found dead by who listens */
}

/* ---- Decisions --------------------------------------------------------------------------------------------- */

/* To all that have what this worker sent; true: this one has. */
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

/* Server s has what w sent. */
static enum plait_decision count(struct plait_council *c, uint32_t w, uint32_t s)
{
    bool *has = &c->has[(size_t)w * c->nserver], all = true;

    has[s] = true;
    if (c->lost[w] || c->broken)
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
    if (c->self == 0)
        return has ? count(c, worker, 0) : lose(c, worker);
    if (c->broken)
        return PLAIT_DECISION_DROP;
    say(c, 0, has ? HAS : LOST, worker);
    return PLAIT_DECISION_NONE;
}

/* Those who wait for its part have waited in vain. */
static enum plait_decision lose_server(struct plait_council *c, uint32_t server)
{
    c->ended[server] = true;
    c->broken = true;
    for (uint32_t w = 0; c->self == 0 && w < c->nworker; w++)
        drop(c, w);
    return PLAIT_DECISION_DROP_ALL;
}

enum plait_decision plait_council_hear(struct plait_council *c, uint32_t server, enum plait_status status,
                                       uint32_t *worker)
{
    const struct vote v = c->heard[server];

    *worker = v.worker;
    if (status == PLAIT_OK && v.kind == END) {
        say(c, server, END, c->nworker);
        c->ended[server] = true;
        return PLAIT_DECISION_NONE;
    }
    if (status != PLAIT_OK || v.worker >= c->nworker || !await_next(c, server))
        return lose_server(c, server);
    switch (v.kind) {
    case HAS:
        return count(c, v.worker, server);
    case LOST:
        return lose(c, v.worker);
    case APPLY:
        return PLAIT_DECISION_APPLY;
    default:
        return PLAIT_DECISION_DROP;
    }
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
    if (c->self == 0 || c->ended[0])
        return;
    say(c, 0, END, c->nworker);
    plait_wait(&c->next[0]); /* nothing else can come: whoever is gone here has nothing to be decided */
    c->ended[0] = true;
}
