/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker with servers. It sends each server a control message (struct plait_elastic_message) and waits for one from
 * each. Inside a node nothing else is sent: servers read the weights in place (single copy) and answer in their slots.
 * Otherwise the weights follow the control message, and the answer is a message.
 *
 * The server may write the slot from the worker's control message to its answer. The worker may read the slot from
 * there to its next control message. So no rank writes memory that another reads, and a worker that stops anywhere
 * blocks no other rank.
 */
#include "elastic.h"

#include "pass.h"

#include "base/clock.h"
#include "base/status.h"

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
static void publish(struct plait_elastic *e, enum plait_message_kind kind, double pull)
{
    e->offer->kind = kind;
    e->offer->pull = pull;
    atomic_store_explicit(&e->offer->number, e->number, memory_order_release);
}

static enum plait_dtype answer_type(const struct plait_elastic *e, enum plait_message_kind kind)
{
    return kind == PLAIT_MESSAGE_READ ? PLAIT_FLOAT32 : e->options.payload;
}

static enum plait_status ask_one(struct plait_elastic *e, struct plait_pair_end *end, enum plait_message_kind kind,
                                 double pull)
{
    struct plait_call call = as_request(&end->data);

    end->said = (struct plait_elastic_message){ .kind = kind, .number = e->number, .pull = pull };
    enum plait_status status = plait_start(end->control);
    if (status == PLAIT_OK && !e->mapped)
        status = plait_recv(end->comm, end->slot, end->part.count, answer_type(e, kind), SERVER, &call);
    if (status == PLAIT_OK)
        status = plait_send(end->comm, &end->said, sizeof end->said, PLAIT_UINT8, SERVER, NULL);
    call = as_request(&end->sent);
    if (status == PLAIT_OK && !e->mapped && kind == PLAIT_MESSAGE_EXCHANGE)
        status = plait_send(end->comm, e->offered + end->part.start, end->part.count, PLAIT_FLOAT32, SERVER, &call);
    return status;
}

/* Return the server's error, with its name. If it has told of another server's death, that text stays. */
static enum plait_status blame(const struct plait_elastic *e, uint32_t server, enum plait_status status)
{
    const struct plait_pair_end *end = &e->ends[server];
    const uint32_t turn = end->state != NULL && e->options.mode == PLAIT_ELASTIC_ORIGINAL ? end->state->turn : e->rank;
    char text[400], name[sizeof e->name + 16], why[64] = "";

    if (plait_object_failing(end->comm)) /* perhaps an earlier error */
        status = plait_object_failed(end->comm);
    snprintf(text, sizeof text, "%s", plait_last_error());
    snprintf(name, sizeof name, "%s: server ", e->name);
    const char *told = strstr(text, name);
    if (told != NULL)
        return plait_fail(status, "%s", told);
    if (turn != e->rank && turn < e->nworker)
        snprintf(why, sizeof why, ", as it is the turn of rank %u", turn);
    return plait_fail(status, "%s: server %u (rank %u) does not answer%s: %s", e->name, server, e->nworker + server,
                      why, text);
}

/* The server is dead or has left: it reads no weights any more. */
static bool is_gone(const struct plait_elastic *e, uint32_t server)
{
    return plait_object_lost(e->ends[server].comm, SERVER);
}

/*
 * After an error, withdraw the offer and wait until no server reads: then the caller may write its weights again. The
 * wait for a server that is stopped while it reads ends after the comm's deadline.
 */
static void withdraw(struct plait_elastic *e)
{
    const double end = plait_clock() + plait_object_deadline(e->comm);

    atomic_store(&e->offer->number, 0);
    for (uint32_t s = 0; s < e->nserver && e->mapped; s++)
        while (atomic_load(&e->ends[s].state->reads[e->rank]) != 0 && plait_clock() < end && !is_gone(e, s))
            sched_yield();
}

/*
 * The exchange has failed. If a server is dead, and with it a part of the centre, the other servers are told. They have
 * answered this worker or failed, so they receive its next control message.
 */
static void give_up(struct plait_elastic *e)
{
    struct plait_elastic_message lost = { .kind = PLAIT_MESSAGE_LOST, .number = e->nserver };

    withdraw(e);
    for (uint32_t s = 0; s < e->nserver; s++) /* others may have left since, as they were told of the dead one */
        if (is_gone(e, s) && (lost.number == e->nserver || plait_object_died(e->ends[s].comm, SERVER)))
            lost.number = s;
    for (uint32_t s = 0; s < e->nserver && lost.number < e->nserver; s++)
        if (!is_gone(e, s))
            plait_send(e->ends[s].comm, &lost, sizeof lost, PLAIT_UINT8, SERVER, NULL);
}

static enum plait_status await_one(struct plait_pair_end *end)
{
    struct plait_request **const all[] = { &end->control, &end->data, &end->sent };
    enum plait_status status = PLAIT_OK;

    for (size_t i = 0; i < sizeof all / sizeof *all && status == PLAIT_OK; i++)
        status = plait_wait(all[i]); /* NULL is success */
    return status;
}

/* The worker computes the pull: servers learn of deaths at different times, but must use the same pull. */
static enum plait_status ask(struct plait_elastic *e, enum plait_message_kind kind)
{
    struct plait_kept why;
    const uint32_t alive = e->mapped ? atomic_load(&e->ends[0].state->alive) : e->counts.workers; /* 0: it has failed */
    const double pull = e->options.rho > 0 ? e->options.lr * e->options.rho : e->options.beta / (alive > 0 ? alive : 1);

    if (e->offered != e->weights && kind == PLAIT_MESSAGE_EXCHANGE) {
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
        give_up(e);
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
        plait_elastic_add(e->kernels, e->options.payload, e->weights + end->part.start, end->slot, end->part.count,
                          -(float)end->heard.pull);
    return e->mapped ? plait_object_look(end->comm) : PLAIT_OK;
}

/* Wait for all servers, also after an error, so that none reads weights that the caller writes again. */
static enum plait_status hear(struct plait_elastic *e, float *out)
{
    struct plait_kept first = { .status = PLAIT_OK };

    for (uint32_t s = 0; s < e->nserver; s++) {
        struct plait_pair_end *end = &e->ends[s];
        enum plait_status status = await_one(end);
        if (status == PLAIT_OK)
            status = take(e, end, out);
        if (status != PLAIT_OK && first.status == PLAIT_OK)
            plait_keep_error(&first, blame(e, s, status));
    }
    if (first.status != PLAIT_OK) {
        give_up(e);
        return plait_tell_error(&first);
    }
    e->counts.workers = e->ends[0].heard.workers;
    return PLAIT_OK;
}

static enum plait_status start(struct plait_elastic *e)
{
    return ask(e, PLAIT_MESSAGE_EXCHANGE);
}

static enum plait_status finish(struct plait_elastic *e)
{
    const enum plait_status status = hear(e, NULL);
    const struct plait_elastic_message *first = &e->ends[0].heard; /* staleness is nearly equal on all servers */

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
    const enum plait_status status = ask(e, PLAIT_MESSAGE_READ);
    return status == PLAIT_OK ? hear(e, out) : status;
}

static void leave(struct plait_elastic *e)
{
    const struct plait_elastic_message bye = { .kind = PLAIT_MESSAGE_LEAVE };

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

const struct plait_exchanger plait_elastic_served = { plait_elastic_pair, start, finish, read_centre, leave };
