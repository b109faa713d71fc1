/* SPDX-License-Identifier: BSD-3-Clause */
/* plait_send() and plait_recv(): check the arguments and make a message of them. */
#include "call.h"
#include "p2p/message.h"

static enum plait_status check(const struct plait_comm *comm, const char *name, const void *data, size_t count,
                               enum plait_dtype type, uint32_t peer, const struct plait_call *call, size_t *bytes)
{
    const bool send = name[0] == 's';

    if (plait_check_type(name, type) != PLAIT_OK)
        return PLAIT_ERR_ARG;
    if (peer >= comm->nrank)
        return plait_fail(PLAIT_ERR_ARG, "%s: %s is %u, but the comm has %u ranks", name, send ? "to" : "from", peer,
                          comm->nrank);
    if (__builtin_mul_overflow(count, plait_dtype_size(type), bytes) || *bytes > PLAIT_MOST_BYTES)
        return plait_fail(PLAIT_ERR_ARG, "%s: count is %zu, more than fits in memory; it counts elements of %zu bytes",
                          name, count, plait_dtype_size(type));
    if (data == NULL && count > 0)
        return plait_fail(PLAIT_ERR_ARG, "%s: %s is NULL, but count is not 0", name, send ? "in" : "out");
    const bool returns = call != NULL && call->request != NULL && call->stream == NULL;
    if (peer == comm->rank && !plait_in_group() && !returns)
        return plait_fail(PLAIT_ERR_ARG,
                          "%s: %s is this rank itself, which cannot do both at once; use a group, or a request without "
                          "a stream",
                          name, send ? "to" : "from");
    return PLAIT_OK;
}

/* If the driver or lack of memory is at fault, fail the comm: the peer must not wait for this rank. */
static enum plait_status cannot(struct plait_comm *comm, enum plait_status status, const char *name)
{
    pthread_mutex_lock(&comm->lock);
    if (comm->failed == PLAIT_OK && (status == PLAIT_ERR_NOMEM || status == PLAIT_ERR_SYSTEM))
        status = plait_comm_fail(comm, status, "cannot begin a %s: %s", name, plait_last_error());
    pthread_mutex_unlock(&comm->lock);
    return plait_refuse(status);
}

static enum plait_status transfer_inside(struct plait_comm *comm, const char *name, enum plait_request_kind kind,
                                         const void *data, size_t count, enum plait_dtype type, uint32_t peer,
                                         const struct plait_call *call)
{
    size_t bytes = 0;
    enum plait_status status = check(comm, name, data, count, type, peer, call, &bytes);

    if (status != PLAIT_OK)
        return plait_refuse(status);
    const bool send = kind == PLAIT_REQUEST_SEND;
    struct plait_args a = { .in = send ? data : NULL,
                            .out = send ? NULL : (void *)(uintptr_t)data,
                            .space = &plait_host_space };
    if (plait_has_spaces() && bytes > 0)
        status = plait_space_find(comm, name, send ? bytes : 0, send ? 0 : bytes, 1, call, &a);
    if (status != PLAIT_OK)
        return cannot(comm, status, name);
    /* It blocks, and nothing of this comm is pending: only the calling thread touches the comm. */
    const bool alone = !a.space->queued && (call == NULL || call->request == NULL) &&
                       atomic_load_explicit(&comm->pending, memory_order_acquire) == 0;
    struct plait_request *r = NULL;
    if (!alone)
        pthread_mutex_lock(&comm->lock);
    status = plait_message_prepare(comm, peer, a.space);
    if (status == PLAIT_OK && (r = plait_request_get(comm)) == NULL)
        status = plait_fail_memory("out of memory for a message");
    if (status == PLAIT_OK && send && a.space->queued)
        status = a.space->check_send(comm, data, peer);
    if (status != PLAIT_OK) {
        if (r != NULL)
            plait_request_give_back(r);
        if (!alone)
            pthread_mutex_unlock(&comm->lock);
        return cannot(comm, status, name);
    }
    r->kind = kind;
    r->space = a.space;
    r->message = (struct plait_message){ .data = (char *)(uintptr_t)data,
                                         .count = count,
                                         .bytes = bytes,
                                         .type = type,
                                         .peer = peer,
                                         .deadline = call != NULL ? call->deadline : 0,
                                         .space = a.space,
                                         .target.queue = a.queue };
    return alone ? plait_exchange_call(r) : plait_request_dispatch(r, call);
}

static enum plait_status transfer(struct plait_comm *comm, enum plait_request_kind kind, const void *data, size_t count,
                                  enum plait_dtype type, uint32_t peer, const struct plait_call *call)
{
    const char *name = kind == PLAIT_REQUEST_SEND ? "send" : "recv";
    const enum plait_status status = plait_enter_alone(comm, name, PLAIT_SUM, call);

    return status == PLAIT_OK ? plait_leave(comm, transfer_inside(comm, name, kind, data, count, type, peer, call))
                              : plait_refuse(status);
}

enum plait_status plait_send(struct plait_comm *comm, const void *in, size_t count, enum plait_dtype type, uint32_t to,
                             const struct plait_call *call)
{
    return transfer(comm, PLAIT_REQUEST_SEND, in, count, type, to, call);
}

enum plait_status plait_recv(struct plait_comm *comm, void *out, size_t count, enum plait_dtype type, uint32_t from,
                             const struct plait_call *call)
{
    return transfer(comm, PLAIT_REQUEST_RECV, out, count, type, from, call);
}
