/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pairs of workers and servers, and a worker's side of an exchange.
 *
 * Each pair has its own comm, in which the worker is rank 0 and the server rank 1. A failure of a pair fails no other
 * pair. A worker sends each server a control message (struct plait_elastic_message) and its weights, and waits for a
 * control message and an answer from each. Weights and answer are read in place where both ranks can, else they are
 * messages. A worker that stops anywhere blocks no other rank.
 */
#include "elastic.h"

#include "base/clock.h"
#include "base/status.h"
#include "memory/arena.h"

#include <plait/memory.h>
#include <plait/message.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Preparation ------------------------------------------------------------------------------------------- */

static uint32_t nend_of(const struct plait_elastic *e)
{
    return e->serves ? e->nworker : e->nserver;
}

/*
 * Pairs without a common rank are made in parallel. n is the larger of both numbers; in round r server s meets worker
 * (r + s) mod n, if there is one.
 */
static enum plait_status make_comms(struct plait_elastic *e)
{
    const uint32_t n = e->nworker > e->nserver ? e->nworker : e->nserver, rank = e->rank;
    enum plait_status status = PLAIT_OK;

    for (uint32_t r = 0; r < n && status == PLAIT_OK; r++) {
        const uint32_t server = e->serves ? rank - e->nworker : (rank + n - r) % n;
        const uint32_t worker = e->serves ? (r + server) % n : rank;
        const bool meets = server < e->nserver && worker < e->nworker;
        struct plait_comm *comm;
        char name[96]; /* the comm keeps 63 bytes */
        snprintf(name, sizeof name, "%.20s: rank 0 is worker %u, rank 1 server %u", e->name, worker, server);
        status = plait_comm_split(e->comm, meets ? (int)worker : PLAIT_NO_COLOR,
                                  e->serves ? PLAIT_PAIR_SERVER : PLAIT_PAIR_WORKER, name, &comm);
        if (status != PLAIT_OK || !meets)
            continue;
        e->ends[e->serves ? worker : server].comm = comm;
        if (e->serves) { /* its worker may take its time, or die */
            comm->warn = PLAIT_FOREVER;
            comm->alarm = PLAIT_LOG_WARN;
        }
    }
    return status;
}

static enum plait_status allocate(struct plait_extent part, void **out)
{
    return plait_mem_alloc(part.count > 0 ? part.count * sizeof(float) : 1, out);
}

/* The `at` of messages. 0: the server is on another host, the link is slowed, or the weights are not library memory. */
static uint64_t place_of(const struct plait_elastic *e, const struct plait_pair_end *end)
{
    const float *weights = e->weights + end->part.start;

    if (end->comm->peers[PLAIT_PAIR_SERVER].process == NULL || plait_is_paced(&end->comm->config.pace) ||
        !plait_arena_contains(weights, end->part.count * sizeof *weights))
        return 0;
    return plait_arena_offset(weights);
}

/* Bind the receive of control messages. A worker's other messages need a progress thread while it computes. */
static enum plait_status connect_end(struct plait_elastic *e, struct plait_pair_end *end)
{
    struct plait_call call = plait_elastic_call(&end->control, e->serves ? PLAIT_FOREVER : 0);
    enum plait_status status = PLAIT_OK;

    end->at = e->serves ? 0 : place_of(e, end);
    if (end->at == 0)
        status = allocate(end->part, &end->slot);
    if (status == PLAIT_OK && end->at == 0 && !e->serves)
        status = plait_object_drive(end->comm);
    if (status != PLAIT_OK)
        return plait_object_fail(e->comm, status);
    call.persistent = 1;
    return plait_recv(end->comm, &end->heard, sizeof end->heard, PLAIT_UINT8,
                      e->serves ? PLAIT_PAIR_WORKER : PLAIT_PAIR_SERVER, &call);
}

static enum plait_status pair(struct plait_elastic *e)
{
    const uint32_t nend = nend_of(e);

    e->alive = e->nworker;
    e->ends = calloc(nend, sizeof *e->ends);
    enum plait_status status = e->ends != NULL ? PLAIT_OK : plait_fail_memory("out of memory for %u pairs", nend);
    if (status == PLAIT_OK && e->serves) {
        void *centre = NULL;
        e->own = plait_elastic_part(e->count, e->nserver, e->rank - e->nworker);
        e->counts.slots = e->own.count * sizeof(float) * nend;
        status = allocate(e->own, &centre);
        e->centre = centre;
    }
    status = plait_object_fail(e->comm, status);
    if (status == PLAIT_OK)
        status = make_comms(e);
    for (uint32_t i = 0; i < nend && status == PLAIT_OK; i++) {
        e->ends[i].part = e->serves ? e->own : plait_elastic_part(e->count, e->nserver, i);
        status = connect_end(e, &e->ends[i]);
    }
    return status;
}

/* ---- Exchanges --------------------------------------------------------------------------------------------- */

static enum plait_status ask_one(struct plait_elastic *e, struct plait_pair_end *end, enum plait_message_kind kind,
                                 double pull)
{
    const enum plait_dtype type = kind == PLAIT_MESSAGE_READ ? PLAIT_FLOAT32 : e->options.payload;
    struct plait_call call = plait_elastic_call(&end->data, 0);

    end->said = (struct plait_elastic_message){ .kind = kind, .pull = pull, .at = end->at };
    enum plait_status status = plait_start(end->control);
    if (status == PLAIT_OK && end->at == 0)
        status = plait_recv(end->comm, end->slot, end->part.count, type, PLAIT_PAIR_SERVER, &call);
    if (status == PLAIT_OK)
        status = plait_send(end->comm, &end->said, sizeof end->said, PLAIT_UINT8, PLAIT_PAIR_SERVER, NULL);
    call = plait_elastic_call(&end->sent, 0);
    if (status == PLAIT_OK && end->at == 0 && kind == PLAIT_MESSAGE_EXCHANGE)
        status = plait_send(end->comm, e->weights + end->part.start, end->part.count, PLAIT_FLOAT32, PLAIT_PAIR_SERVER,
                            &call);
    return status;
}

/* Return the server's error, or an earlier one of the pair, with the server's name. */
static enum plait_status blame(const struct plait_elastic *e, uint32_t server, enum plait_status status)
{
    struct plait_comm *comm = e->ends[server].comm;
    const struct plait_error why = plait_error_of(plait_has_failed(comm) ? plait_comm_status(comm) : status);

    return plait_fail(why.status, "%s: exchange with server %u (rank %u): %s", e->name, server, e->nworker + server,
                      why.text);
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
    const double pull = e->options.rho > 0 ? e->options.lr * e->options.rho : e->options.beta / e->counts.workers;

    for (uint32_t s = 0; s < e->nserver; s++) {
        enum plait_status status = ask_one(e, &e->ends[s], kind, pull);
        if (status == PLAIT_OK)
            continue;
        const struct plait_error why = plait_error_of(blame(e, s, status));
        for (uint32_t asked = 0; asked < s; asked++)
            await_one(&e->ends[asked]);
        return plait_restore_error(&why);
    }
    return PLAIT_OK;
}

/*
 * Apply a server's answer to an exchange, or copy its answer to a read to `out`. In place, the answer is the centre
 * before the exchange. In a message it is the difference, and so it is in mode hogwild.
 */
static enum plait_status take(struct plait_elastic *e, const struct plait_pair_end *end, float *out)
{
    const enum plait_dtype payload = e->options.payload;
    const float pull = (float)end->heard.pull;
    const size_t n = end->part.count;
    float *w = e->weights + end->part.start;
    const void *answer = end->slot;

    if (end->heard.at != 0)
        answer = plait_process_at(end->comm->peers[PLAIT_PAIR_SERVER].process, end->heard.at);
    if (out != NULL)
        memcpy(out + end->part.start, answer, n * sizeof(float));
    else if (end->heard.at != 0 && e->options.mode != PLAIT_ELASTIC_HOGWILD)
        plait_elastic_move(e->kernels, payload, w, w, w, answer, n, -pull);
    else
        plait_elastic_add(e->kernels, payload, w, answer, n, -pull);
    return end->heard.at != 0 ? plait_probe_failures(end->comm) : PLAIT_OK;
}

/* Wait for all servers, also after an error, so that no message of this exchange is left. */
static enum plait_status hear(struct plait_elastic *e, float *out)
{
    struct plait_error first = { .status = PLAIT_OK };

    for (uint32_t s = 0; s < e->nserver; s++) {
        struct plait_pair_end *end = &e->ends[s];
        enum plait_status status = await_one(end);
        if (status == PLAIT_OK)
            status = take(e, end, out);
        if (status != PLAIT_OK && first.status == PLAIT_OK)
            first = plait_error_of(blame(e, s, status));
    }
    if (first.status != PLAIT_OK)
        return plait_restore_error(&first);
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

static void part_pairs(struct plait_elastic *e)
{
    for (uint32_t i = 0; e->ends != NULL && i < nend_of(e); i++) {
        plait_object_drop(&e->ends[i].control);
        plait_object_drop(&e->ends[i].data);
        plait_object_drop(&e->ends[i].sent);
        plait_comm_destroy(e->ends[i].comm);
        plait_mem_free(e->ends[i].slot);
    }
    free(e->ends);
    e->ends = NULL;
}

static void leave(struct plait_elastic *e)
{
    const struct plait_elastic_message bye = { .kind = PLAIT_MESSAGE_LEAVE };

    for (uint32_t i = 0; e->ends != NULL && i < nend_of(e); i++) {
        struct plait_pair_end *end = &e->ends[i];
        if (end->comm == NULL || end->gone)
            continue;
        if (e->serves)
            plait_comm_abort(end->comm, "the server has left before this worker");
        else
            plait_send(end->comm, &bye, sizeof bye, PLAIT_UINT8, PLAIT_PAIR_SERVER, NULL);
    }
    part_pairs(e);
}

const struct plait_exchanger plait_elastic_served = { pair, start, finish, read_centre, leave };
