/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker with servers. It sends each server a control message (struct plait_note) and waits for one from each. Inside
 * a node nothing else is sent: servers read the weights in place (single copy) and answer in their slots. Otherwise the
 * weights follow the control message, and the answer is a message.
 *
 * The server may write the slot from the worker's control message to its answer. The worker may read the slot from
 * there to its next control message. So no rank writes memory that another reads, and a worker that stops anywhere
 * blocks no other rank.
 */
#include "elastic.h"

#include "pass.h"

#include "base/clock.h"
#include "base/status.h"
#include "failure/failure.h"
#include "progress/detector.h"

#include <plait/message.h>

#include <sched.h>
#include <stdio.h>
#include <string.h>

enum { SERVER = 1 };

static struct plait_call as_request(struct plait_request **request)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;

    call.request = request;
    return call;
}

/* Publish the request: all servers find it, even if this worker dies before it has sent to each. */
static void publish(struct plait_elastic *e, enum plait_note_kind kind, double pull)
{
    e->offer->kind = kind;
    e->offer->pull = pull;
    atomic_store_explicit(&e->offer->number, e->number, memory_order_release);
}

static enum plait_dtype answer_type(const struct plait_elastic *e, enum plait_note_kind kind)
{
    return kind == PLAIT_NOTE_READ ? PLAIT_FLOAT32 : e->options.payload;
}

static enum plait_status ask_one(struct plait_elastic *e, struct plait_pair_end *end, enum plait_note_kind kind,
                                 double pull)
{
    struct plait_call call = as_request(&end->data);

    end->said = (struct plait_note){ .kind = kind, .number = e->number, .pull = pull };
    enum plait_status status = plait_start(end->note);
    if (status == PLAIT_OK && !e->mapped)
        status = plait_recv(end->comm, end->slot, end->part.count, answer_type(e, kind), SERVER, &call);
    if (status == PLAIT_OK)
        status = plait_send(end->comm, &end->said, sizeof end->said, PLAIT_UINT8, SERVER, NULL);
    call = as_request(&end->sent);
    if (status == PLAIT_OK && !e->mapped && kind == PLAIT_NOTE_EXCHANGE)
        status = plait_send(end->comm, e->offered + end->part.start, end->part.count, PLAIT_FLOAT32, SERVER, &call);
    return status;
}

/* Return the server's error, with its name. */
static enum plait_status blame(const struct plait_elastic *e, uint32_t server, enum plait_status status)
{
    const struct plait_desk *desk = e->ends[server].desk;
    const uint32_t turn = desk != NULL && e->options.mode == PLAIT_ELASTIC_ORIGINAL ? desk->turn : e->comm->rank;
    const int32_t failed = atomic_load(&e->ends[server].comm->own->failed); /* perhaps an earlier error */
    char why[64] = "";

    if (turn != e->comm->rank && turn < e->nworker)
        snprintf(why, sizeof why, ", as it is the turn of rank %u", turn);
    return plait_elastic_blame(e, server, why, failed != PLAIT_OK ? (enum plait_status)failed : status);
}

/* The server is dead or has left: it reads no weights any more. */
static bool is_gone(const struct plait_elastic *e, uint32_t server)
{
    return plait_peer_died(&e->comm->peers[e->nworker + server]) ||
           atomic_load(&e->ends[server].comm->peers[SERVER].control->departed);
}

/*
 * After an error, withdraw the offer and wait until no server reads: then the caller may write its weights again. The
 * wait for a server that is stopped while it reads ends after the comm's deadline.
 */
static void withdraw(struct plait_elastic *e)
{
    const double end = plait_clock() + e->comm->deadline;

    atomic_store(&e->offer->number, 0);
    for (uint32_t s = 0; s < e->nserver && e->mapped; s++)
        while (atomic_load(&e->ends[s].desk->reads[e->comm->rank]) != 0 && plait_clock() < end && !is_gone(e, s))
            sched_yield();
}

static enum plait_status await_one(struct plait_pair_end *end)
{
    struct plait_request **const all[] = { &end->note, &end->data, &end->sent };
    enum plait_status status = PLAIT_OK;

    for (size_t i = 0; i < sizeof all / sizeof *all && status == PLAIT_OK; i++)
        status = plait_wait(all[i]); /* NULL is success */
    return status;
}

/* The worker computes the pull: servers learn of deaths at different times, but must use the same pull. */
static enum plait_status ask(struct plait_elastic *e, enum plait_note_kind kind)
{
    struct plait_kept why;
    const uint32_t alive = e->mapped ? atomic_load(&e->ends[0].desk->alive) : e->counts.workers; /* 0: it has failed */
    const double pull = e->options.rho > 0 ? e->options.lr * e->options.rho : e->options.beta / (alive > 0 ? alive : 1);

    if (e->offered != e->weights && kind == PLAIT_NOTE_EXCHANGE) {
        memcpy(e->offered, e->weights, e->count * sizeof(float));
        e->counts.staged += e->count * sizeof(float);
    }
    e->number++;
    publish(e, kind, pull);
    for (uint32_t s = 0; s < e->nserver; s++) {
        enum plait_status status = ask_one(e, &e->ends[s], kind, pull);
        if (status == PLAIT_OK)
            continue;
        plait_keep_error(&why, blame(e, s, status));
        for (uint32_t asked = 0; asked < s; asked++)
            await_one(&e->ends[asked]);
        withdraw(e);
        return plait_tell_error(&why);
    }
    return PLAIT_OK;
}

/*
 * Apply a server's answer to an exchange, or copy its answer to a read to `out`. A server that gives up announces it
 * before it reuses the slot, so the check at the end finds a slot that was overwritten.
 */
static enum plait_status take(struct plait_elastic *e, const struct plait_pair_end *end, float *out)
{
    if (out != NULL)
        memcpy(out + end->part.start, end->slot, end->part.count * sizeof(float));
    else
        plait_elastic_add(e->comm->kernels, e->options.payload, e->weights + end->part.start, end->slot,
                          end->part.count, -(float)end->heard.pull);
    return e->mapped ? plait_probe_failures(end->comm) : PLAIT_OK;
}

/* Another server that does not answer and is not in the text yet: the first one may be waiting for it. */
static void add_another(const struct plait_elastic *e, uint32_t server, struct plait_kept *error)
{
    const size_t n = strlen(error->text);
    char name[64];

    snprintf(name, sizeof name, "server %u (rank %u)", server, e->nworker + server);
    if (strstr(error->text, name) == NULL)
        snprintf(error->text + n, sizeof error->text - n, "; nor does %s", name);
}

/*
 * Wait for all servers, also after an error, so that none reads weights that the caller writes again. The error names a
 * dead server rather than servers that wait for it.
 */
static enum plait_status hear(struct plait_elastic *e, float *out)
{
    struct plait_kept first = { .status = PLAIT_OK };

    for (uint32_t s = 0; s < e->nserver; s++) {
        struct plait_pair_end *end = &e->ends[s];
        enum plait_status status = await_one(end);
        if (status == PLAIT_OK)
            status = take(e, end, out);
        if (status == PLAIT_OK)
            continue;
        if (first.status == PLAIT_OK || (status == PLAIT_ERR_PEER && first.status != PLAIT_ERR_PEER))
            plait_keep_error(&first, blame(e, s, status));
        else if (status == PLAIT_ERR_TIMEOUT && first.status == PLAIT_ERR_TIMEOUT)
            add_another(e, s, &first);
    }
    if (first.status != PLAIT_OK) {
        withdraw(e);
        return plait_tell_error(&first);
    }
    e->counts.workers = e->ends[0].heard.workers;
    return PLAIT_OK;
}

static enum plait_status start(struct plait_elastic *e)
{
    return ask(e, PLAIT_NOTE_EXCHANGE);
}

static enum plait_status finish(struct plait_elastic *e)
{
    const enum plait_status status = hear(e, NULL);
    const struct plait_note *first = &e->ends[0].heard; /* staleness is nearly equal on all servers */

    if (status != PLAIT_OK)
        return status;
    e->counts.pull = first->pull;
    e->counts.behind += first->behind;
    if (first->behind > e->counts.behind_max)
        e->counts.behind_max = first->behind;
    return PLAIT_OK;
}

static enum plait_status read_centre(struct plait_elastic *e, float *out)
{
    if (e->serves) {
        memcpy(out + e->own.start, e->centre, e->own.count * sizeof(float));
        return PLAIT_OK;
    }
    const enum plait_status status = ask(e, PLAIT_NOTE_READ);
    return status == PLAIT_OK ? hear(e, out) : status;
}

static void leave(struct plait_elastic *e)
{
    const struct plait_note bye = { .kind = PLAIT_NOTE_LEAVE };

    for (uint32_t i = 0; e->ends != NULL && i < plait_elastic_nend(e); i++) {
        struct plait_pair_end *end = &e->ends[i];
        if (end->comm == NULL || end->gone)
            continue;
        if (e->serves)
            plait_comm_abort(end->comm, "the server has left before this worker");
        else
            plait_send(end->comm, &bye, sizeof bye, PLAIT_UINT8, SERVER, NULL);
    }
    plait_elastic_part_pairs(e);
}

const struct plait_elastic_way plait_elastic_served = { plait_elastic_pair, start, finish, read_centre, leave };
