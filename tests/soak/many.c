/* SPDX-License-Identifier: BSD-3-Clause */
/* Many operations at once: in a group, as requests, or started again. */
#include "soak.h"

#include "../collective.h"
#include "../values.h"

#include <plait/group.h>
#include <plait/message.h>
#include <plait/request.h>

#include <stdio.h>
#include <string.h>

enum way { GROUP, WAIT, WAIT_ANY, PERSISTENT, NWAY };

struct pending {
    struct place *place;
    bool message;
    bool twice; /* a sum of what every rank multiplies by 2 */
    struct collective c;
    uint32_t from, to; /* of a message */
    char *in, *out;
    size_t give, get; /* elements */
    struct plait_request *request;
};

/* Each has a part of the vectors for itself. */
static void draw_pending(struct soak *s, struct pending *p, struct place *place, uint32_t i)
{
    const uint64_t salt = draw(s);
    const size_t part = MOST_BYTES / NMIX & ~(size_t)63;

    *p = (struct pending){ .place = place, .message = below(s, 3) == 0 };
    p->from = below(s, place->nrank);
    p->to = below(s, place->nrank);
    p->c.coll = draw_collective(s, true);
    p->c.type = (enum plait_dtype)below(s, PLAIT_NDTYPE);
    p->c.op = (enum plait_op)below(s, PLAIT_PREMULSUM);
    p->c.root = below(s, place->nrank);
    p->c.count = draw_count(s, plait_dtype_size(p->c.type)) / place->nrank;
    if (p->c.count * place->nrank * plait_dtype_size(p->c.type) > part)
        p->c.count = part / place->nrank / plait_dtype_size(p->c.type);
    if (p->c.coll == PLAIT_BARRIER)
        p->c.count = 0;
    const uint32_t sizes = below(s, 3) == 0 ? 1 + below(s, 1000) : 0;
    const bool vector = plait_geometry_of(p->c.coll, 1, 0, 0, 1).kind == PLAIT_KIND_VECTOR;
    if (!p->message && !vector && sizes > 0) {
        p->c.sizes = sizes;
        p->c.count -= p->c.count > 0; /* for the elements between blocks */
    }
    p->in = s->memory[0][salt % 2] + i * part;
    p->out = s->memory[1][(salt >> 8) % 2] + i * part;
    const struct plait_geometry g = plait_geometry_of(p->c.coll, place->nrank, p->c.root, place->rank, 1);
    p->twice = !p->message && p->c.coll != PLAIT_BARRIER && g.combines && p->c.op == PLAIT_SUM && below(s, 2);
    p->give = p->message ? (p->from == place->rank ? p->c.count : 0) : collective_elements(&p->c, &g.in);
    p->get = p->message ? (p->to == place->rank ? p->c.count : 0) : collective_elements(&p->c, &g.out);
}

/* Of one that is persistent: a run. */
static enum plait_status run_once(struct plait_request **r)
{
    enum plait_status status = plait_start(*r);

    if (status == PLAIT_OK)
        status = plait_wait(r);
    return status == PLAIT_OK ? plait_request_free(r) : status;
}

/* A message carries what its sender would give to a gather. */
static bool begin_pending(struct soak *s, struct pending *p, enum way way)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    const bool held = way == WAIT || way == WAIT_ANY || way == PERSISTENT;
    struct collective c = p->c; /* as it is called */
    struct plait_comm *comm = p->place->comm;
    struct plait_request *sent = NULL;
    enum plait_status status = PLAIT_OK;

    if (p->give > 0)
        values_fill(p->in, p->c.type, p->c.op, p->place->nrank, p->place->rank, p->give);
    call.request = held ? &p->request : NULL;
    call.persistent = way == PERSISTENT;
    if (!p->message) {
        if (p->twice) {
            c.op = PLAIT_PREMULSUM;
            call.scale = two(c.type);
            call.scale_when = p->c.root % 2 ? PLAIT_SCALE_LATE : PLAIT_SCALE_NOW;
        }
        status = collective_call(comm, &c, p->give > 0 ? p->in : NULL, p->get > 0 ? p->out : NULL, call);
    } else {
        if (p->to == p->place->rank)
            status = plait_recv(comm, p->out, p->c.count, p->c.type, p->from, &call);
        if (status == PLAIT_OK && way == PERSISTENT && p->to == p->place->rank)
            status = plait_start(p->request);
        call.request = held ? &sent : NULL;
        if (status == PLAIT_OK && p->from == p->place->rank)
            status = plait_send(comm, p->in, p->c.count, p->c.type, p->to, &call);
        if (status == PLAIT_OK && sent != NULL && p->to == p->place->rank)
            return (way == PERSISTENT ? run_once(&sent) : plait_wait(&sent)) == PLAIT_OK || complain(s, "message");
        if (sent != NULL)
            p->request = sent;
    }
    if (status == PLAIT_OK && way == PERSISTENT && p->request != NULL && !(p->message && p->to == p->place->rank))
        status = plait_start(p->request);
    return status == PLAIT_OK || complain(s, p->message ? "message" : plait_coll_name(p->c.coll));
}

static bool look_at_pending(struct soak *s, const struct pending *p)
{
    const size_t size = plait_dtype_size(p->c.type);

    if (p->get == 0)
        return true;
    if (p->message)
        values_fill(s->scratch[1], p->c.type, p->c.op, p->place->nrank, p->from, p->get);
    else
        collective_want(&p->c, p->place->nrank, p->place->rank, s->scratch[0], s->scratch[1]);
    if (p->twice)
        halve(p->out, p->c.type, p->get);
    if (p->message ? memcmp(p->out, s->scratch[1], p->get * size) == 0
                   : collective_right(&p->c, p->place->nrank, p->place->rank, p->out, s->scratch[1]))
        return true;
    fprintf(stderr, "soak: one of several at once: %s%s of %zu %s, %s, on %u ranks is wrong\n",
            p->message ? "message" : plait_coll_name(p->c.coll), p->c.sizes != 0 ? "v" : "", p->c.count,
            plait_dtype_name(p->c.type), p->twice ? "premulsum" : plait_op_name(p->c.op), p->place->nrank);
    return complain(s, "wrong results");
}

/* Of those that this process takes part in, the last begun is the first waited for, or whichever ends. */
static bool end_pending(struct soak *s, struct pending *p, uint32_t n, bool any)
{
    struct plait_request *r[NMIX];
    size_t index;

    for (uint32_t i = 0; i < n; i++)
        r[i] = p[n - 1 - i].request;
    for (uint32_t i = 0; i < n; i++)
        if ((any ? plait_wait_any(r, n, &index) : plait_wait(&r[i])) != PLAIT_OK)
            return complain(s, "wait");
    for (uint32_t i = 0; i < n; i++)
        if (plait_request_free(&r[i]) != PLAIT_OK) /* NULL, unless it was persistent */
            return complain(s, "free");
    return true;
}

bool mix(struct soak *s, struct place *a, struct place *b)
{
    struct pending p[NMIX];
    const uint32_t n = 1 + below(s, NMIX);
    const enum way way = (enum way)below(s, NWAY);

    for (uint32_t i = 0; i < n; i++)
        draw_pending(s, &p[i], i % 2 ? b : a, i);
    if (way == GROUP && plait_group_start() != PLAIT_OK)
        return complain(s, "group");
    for (uint32_t i = 0; i < n; i++)
        if (p[i].place->rank != UINT32_MAX && !begin_pending(s, &p[i], way))
            return false;
    if (way == GROUP ? plait_group_end() != PLAIT_OK : !end_pending(s, p, n, way == WAIT_ANY))
        return complain(s, "group or wait");
    for (uint32_t i = 0; i < n; i++) {
        if (p[i].place->rank != UINT32_MAX && !look_at_pending(s, &p[i]))
            return false;
        if (p[i].place->rank == 0) {
            s->shared->operations++;
            s->shared->bytes += p[i].c.count * plait_dtype_size(p[i].c.type);
        }
    }
    return true;
}
