/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls: what they refuse, and a message made of the arguments. */
#include "call.h"
#include "devices.h"
#include "exchange.h"
#include "failure.h"
#include "message.h"
#include "status.h"

static enum plait_status check(const struct plait_comm *comm, const char *name, const void *data, size_t count,
                               enum plait_dtype type, uint32_t peer, const struct plait_call *call)
{
    const size_t size = plait_dtype_size(type);
    const bool send = name[0] == 's';
    size_t bytes;

    if ((unsigned)type >= PLAIT_NDTYPE || size == 0)
        return plait_fail(PLAIT_ERR_ARG, "%s: type is %d, which is no enum plait_dtype of this version", name,
                          (int)type);
    if (peer >= comm->nrank)
        return plait_fail(PLAIT_ERR_ARG, "%s: %s is %u, but the comm has %u ranks", name, send ? "to" : "from", peer,
                          comm->nrank);
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > PLAIT_MOST_BYTES)
        return plait_fail(PLAIT_ERR_ARG, "%s: count is %zu, more than fits in memory; it counts elements of %zu bytes",
                          name, count, size);
    if (data == NULL && count > 0)
        return plait_fail(PLAIT_ERR_ARG, "%s: %s is NULL, but count is not 0", name, send ? "in" : "out");
    if (call != NULL && call->stream != NULL && plait_stream_queue(call->stream) != NULL)
        return plait_fail(PLAIT_ERR_UNSUPPORTED,
                          "%s: call->stream is a GPU's, which messages do not take yet: use a host's, or a request",
                          name);
    if (peer == comm->rank && !plait_in_group() && (call == NULL || (call->request == NULL && call->stream == NULL)))
        return plait_fail(PLAIT_ERR_ARG,
                          "%s: %s is this rank itself, which cannot do both at once; use a group or a request", name,
                          send ? "to" : "from");
    return plait_device_refuse(name, send ? "in" : "out", data);
}

static enum plait_status transfer(struct plait_comm *comm, enum plait_request_kind kind, const void *data, size_t count,
                                  enum plait_dtype type, uint32_t peer, const struct plait_call *call)
{
    const char *name = kind == PLAIT_REQUEST_SEND ? "send" : "recv";
    enum plait_status status = plait_enter(comm, name, PLAIT_SUM, call);

    if (status == PLAIT_OK)
        status = check(comm, name, data, count, type, peer, call);
    if (status != PLAIT_OK)
        return plait_refuse(status);
    const struct plait_letter letter = { .data = (char *)(uintptr_t)data,
                                         .count = count,
                                         .bytes = count * plait_dtype_size(type),
                                         .type = type,
                                         .peer = peer,
                                         .deadline = call != NULL ? call->deadline : 0 };
    const bool alone = plait_blocks_alone(comm, call);
    if (!alone)
        pthread_mutex_lock(&comm->lock);
    status = plait_message_prepare(comm, peer);
    if (status != PLAIT_OK)
        status = plait_comm_fail(comm, status, "cannot begin a %s: %s", name, plait_last_error());
    if (alone)
        return status == PLAIT_OK ? plait_exchange_call(comm, kind, &letter) : plait_refuse(status);
    return plait_request_message(comm, kind, &letter, call, status);
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
