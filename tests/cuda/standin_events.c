/* SPDX-License-Identifier: BSD-3-Clause */
/* Events, and the operations that programs queue. */
#include "standin.h"

#include <stdlib.h>
#include <string.h>

struct event {
    struct event *next; /* of all */
    struct context *context;
    struct record *record;   /* the latest; NULL: none yet */
    struct capture *capture; /* the latest was captured */
    uint32_t point;
};

static struct event *events;

/* ---- Events ------------------------------------------------------------------------------------------------ */

static int event_find(void *handle, struct event **out)
{
    bool found = false;

    process_lock();
    for (const struct event *e = events; e != NULL; e = e->next)
        found |= e == handle;
    process_unlock();
    *out = handle;
    return found ? CU_OK : CU_INVALID_HANDLE;
}

/* Threads may record and query an event at the same time. A share of its record, or NULL. */
static struct record *event_hold(const struct event *e)
{
    process_lock();
    struct record *r = e->record;
    if (r != NULL)
        r->held++;
    process_unlock();
    return r;
}

/* Takes the share. */
static void event_set(struct event *e, struct record *record)
{
    process_lock();
    struct record *old = e->record;
    e->record = record;
    process_unlock();
    record_drop(old);
}

uint32_t event_count(void)
{
    uint32_t n = 0;

    process_lock();
    for (const struct event *e = events; e != NULL; e = e->next)
        n++;
    process_unlock();
    return n;
}

EXPORT int cuEventCreate(void **out, unsigned flags)
{
    CALL(true);
    struct event *e = calloc(1, sizeof *e);

    (void)flags;
    if (e == NULL)
        return CU_OUT_OF_MEMORY;
    e->context = context_now();
    process_lock();
    e->next = events;
    events = e;
    process_unlock();
    *out = e;
    return CU_OK;
}

EXPORT int cuEventDestroy_v2(void *event)
{
    CALL(true);
    struct event *e;
    const int status = event_find(event, &e);

    if (status != CU_OK)
        return status;
    process_lock();
    for (struct event **link = &events; *link != NULL; link = &(*link)->next)
        if (*link == e) {
            *link = e->next;
            break;
        }
    process_unlock();
    record_drop(e->record);
    free(e);
    return CU_OK;
}

EXPORT int cuEventRecord(void *event, void *stream)
{
    CALL(true);
    struct stream *s;
    struct event *e;
    int status = event_find(event, &e);

    if (status == CU_OK)
        status = stream_find(stream, &s);
    if (status == CU_OK && s->context != e->context)
        status = CU_INVALID_HANDLE;
    if (status != CU_OK)
        return status;
    e->capture = NULL;
    if (s->capture != NULL) {
        event_set(e, NULL);
        return capture_record(s, &e->capture, &e->point);
    }
    struct record *r = record_make();
    record_hold(r);
    event_set(e, r);
    return stream_put(s, (struct op){ .what = DO_RECORD, .record = r });
}

EXPORT int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    CALL(true);
    struct stream *s;
    struct event *e;
    int status = event_find(event, &e);

    (void)flags;
    if (status == CU_OK)
        status = stream_find(stream, &s);
    if (status != CU_OK)
        return status;
    if (e->capture != NULL)
        return capture_await(s, e->capture, e->point);
    struct record *r = event_hold(e);
    if (r == NULL)
        return CU_OK;
    if (s->capture == NULL)
        return stream_put(s, (struct op){ .what = DO_AWAIT, .record = r });
    record_drop(r);
    capture_spoil(s);
    return CU_STREAM_CAPTURE_ISOLATION;
}

EXPORT int cuEventQuery(void *event)
{
    CALL(true);
    struct event *e;
    int status = event_find(event, &e);

    if (status == CU_OK)
        status = e->capture != NULL ? CU_CAPTURED_EVENT : capture_unsafe();
    if (status != CU_OK)
        return status;
    struct record *r = event_hold(e);
    const bool done = r == NULL || record_is_done(r);
    record_drop(r);
    return done ? CU_OK : CU_NOT_READY;
}

EXPORT int cuEventSynchronize(void *event)
{
    CALL(true);
    struct event *e;
    const int status = event_find(event, &e);

    if (status != CU_OK)
        return status;
    if (e->capture != NULL)
        return CU_CAPTURED_EVENT;
    struct record *r = event_hold(e);
    if (r != NULL)
        record_wait(r);
    record_drop(r);
    return CU_OK;
}

EXPORT int cuEventElapsedTime_v2(float *out, void *start, void *end)
{
    CALL(true);
    *out = 1;
    return cuEventQuery(start) == CU_OK ? cuEventQuery(end) : CU_NOT_READY;
}

/* ---- Copies and memsets ------------------------------------------------------------------------------------ */

static int put(void *stream, struct op op)
{
    struct stream *s;
    const int status = stream_find(stream, &s);

    return status == CU_OK ? stream_put(s, op) : status;
}

static void put_and_wait_on(struct stream *s, struct op op)
{
    struct record *r = record_make();

    stream_put(s, op);
    stream_put(s, (struct op){ .what = DO_RECORD, .record = record_hold(r) });
    record_wait(r);
    record_drop(r);
}

/* On stream 0, and done when the call returns. */
static int put_and_wait(struct op op)
{
    struct stream *s;
    const int status = stream_find(NULL, &s);

    if (status == CU_OK)
        put_and_wait_on(s, op);
    return status;
}

static struct op copy_of(uint64_t to, uint64_t from, size_t bytes)
{
    return (struct op){ .what = DO_COPY, .to = to, .from = from, .bytes = bytes };
}

/*
 * Memory that the driver does not know goes through some of the driver's: a copy to it, and a long one from it, is over
 * when the call returns, which waits for the stream and meanwhile has what no other such copy can have, nor whoever
 * instantiates a graph.
 */
#define STAGED_AT_ONCE (64 << 10)

static bool waits_for_its_stream(const struct stream *s, cu_address to, cu_address from, size_t bytes)
{
    struct mapping m;
    const bool knows_to = mapping_find(to, &m), knows_from = mapping_find(from, &m);

    return s->capture == NULL && knows_to != knows_from && (!knows_to || bytes > STAGED_AT_ONCE);
}

EXPORT int cuMemcpyAsync(cu_address to, cu_address from, size_t bytes, void *stream)
{
    CALL(true);
    struct stream *s;
    const int status = stream_find(stream, &s);

    if (status != CU_OK)
        return status;
    struct op op = copy_of(to, from, bytes);
    if (s->capture == NULL)
        pinned_called(&op);
    if (!waits_for_its_stream(s, to, from, bytes))
        return stream_put(s, op);
    driver_lock();
    put_and_wait_on(s, op);
    driver_unlock();
    return CU_OK;
}

EXPORT int cuMemcpyDtoDAsync_v2(cu_address to, cu_address from, size_t bytes, void *stream)
{
    return cuMemcpyAsync(to, from, bytes, stream);
}

EXPORT int cuMemcpyHtoDAsync_v2(cu_address to, const void *from, size_t bytes, void *stream)
{
    return cuMemcpyAsync(to, (uint64_t)(uintptr_t)from, bytes, stream);
}

EXPORT int cuMemcpyDtoHAsync_v2(void *to, cu_address from, size_t bytes, void *stream)
{
    return cuMemcpyAsync((uint64_t)(uintptr_t)to, from, bytes, stream);
}

EXPORT int cuMemcpy(cu_address to, cu_address from, size_t bytes)
{
    CALL(true);
    return put_and_wait(copy_of(to, from, bytes));
}

EXPORT int cuMemcpyDtoD_v2(cu_address to, cu_address from, size_t bytes)
{
    return cuMemcpy(to, from, bytes);
}

EXPORT int cuMemcpyHtoD_v2(cu_address to, const void *from, size_t bytes)
{
    return cuMemcpy(to, (uint64_t)(uintptr_t)from, bytes);
}

EXPORT int cuMemcpyDtoH_v2(void *to, cu_address from, size_t bytes)
{
    return cuMemcpy((uint64_t)(uintptr_t)to, from, bytes);
}

static struct op set_of(uint64_t to, uint64_t value, uint32_t size, size_t n)
{
    return (struct op){ .what = DO_SET, .to = to, .value = value, .size = size, .bytes = n * size };
}

EXPORT int cuMemsetD8_v2(cu_address to, unsigned char value, size_t n)
{
    CALL(true);
    const int status = capture_unsafe();
    return status == CU_OK ? put_and_wait(set_of(to, value, 1, n)) : status;
}

EXPORT int cuMemsetD32_v2(cu_address to, unsigned value, size_t n)
{
    CALL(true);
    const int status = to % 4 != 0 ? CU_INVALID_VALUE : capture_unsafe();
    return status == CU_OK ? put_and_wait(set_of(to, value, 4, n)) : status;
}

EXPORT int cuMemsetD8Async(cu_address to, unsigned char value, size_t n, void *stream)
{
    CALL(true);
    return put(stream, set_of(to, value, 1, n));
}

EXPORT int cuMemsetD32Async(cu_address to, unsigned value, size_t n, void *stream)
{
    CALL(true);
    return to % 4 != 0 ? CU_INVALID_VALUE : put(stream, set_of(to, value, 4, n));
}

/* ---- Values and host functions ----------------------------------------------------------------------------- */

enum { WAIT_FLAGS = 3 | 1 << 30, WRITE_FLAGS = 1 };

static int check_value(cu_address address, uint32_t size, unsigned flags, unsigned allowed)
{
    struct mapping m;

    return address % size != 0 || !mapping_find(address, &m) || (flags & ~allowed) != 0 ? CU_INVALID_VALUE : CU_OK;
}

static int put_op(void *stream, struct op op)
{
    const int status = check_value(op.to, op.size, op.flags, op.what == DO_WAIT ? WAIT_FLAGS : WRITE_FLAGS);

    return status == CU_OK ? put(stream, op) : status;
}

static int put_value(void *stream, enum what what, cu_address address, uint64_t value, uint32_t size, unsigned flags)
{
    return put_op(stream, (struct op){ .what = what, .to = address, .value = value, .size = size, .flags = flags });
}

EXPORT int cuStreamWriteValue32_v2(void *stream, cu_address address, uint32_t value, unsigned flags)
{
    CALL(true);
    return put_value(stream, DO_WRITE, address, value, 4, flags);
}

EXPORT int cuStreamWriteValue64_v2(void *stream, cu_address address, uint64_t value, unsigned flags)
{
    CALL(true);
    return put_value(stream, DO_WRITE, address, value, 8, flags);
}

EXPORT int cuStreamWaitValue32_v2(void *stream, cu_address address, uint32_t value, unsigned flags)
{
    CALL(true);
    return put_value(stream, DO_WAIT, address, value, 4, flags);
}

EXPORT int cuStreamWaitValue64_v2(void *stream, cu_address address, uint64_t value, unsigned flags)
{
    CALL(true);
    return put_value(stream, DO_WAIT, address, value, 8, flags);
}

static int put_item(void *stream, const cu_mem_op *item, bool joined)
{
    const uint32_t operation = item->item.operation;
    const bool waits = operation == VALUE_STREAM_MEM_OP_WAIT_VALUE_32 || operation == VALUE_STREAM_MEM_OP_WAIT_VALUE_64;
    const bool writes =
        operation == VALUE_STREAM_MEM_OP_WRITE_VALUE_32 || operation == VALUE_STREAM_MEM_OP_WRITE_VALUE_64;
    struct op op = { .what = waits ? DO_WAIT : DO_WRITE,
                     .to = item->item.address,
                     .value = item->item.value,
                     .size = 8,
                     .flags = item->item.flags,
                     .joined = joined };

    if (operation == VALUE_STREAM_MEM_OP_WAIT_VALUE_32 || operation == VALUE_STREAM_MEM_OP_WRITE_VALUE_32) {
        op.size = 4;
        op.value = (uint32_t)op.value;
    }
    return waits || writes ? put_op(stream, op) : CU_INVALID_VALUE;
}

EXPORT int cuStreamBatchMemOp_v2(void *stream, unsigned n, const cu_mem_op *ops, unsigned flags)
{
    CALL(true);
    int status = setting("PLAIT_STANDIN_VALUES", 1) == 0 ? CU_NOT_SUPPORTED
                 : flags != 0 || n >= 256                ? CU_INVALID_VALUE
                                                         : CU_OK;

    for (unsigned i = 0; i < n && status == CU_OK; i++)
        status = put_item(stream, &ops[i], i > 0);
    return status;
}

EXPORT int cuLaunchHostFunc(void *stream, void (*function)(void *), void *context)
{
    CALL(true);
    if (function == NULL)
        return CU_INVALID_VALUE;
    return put(stream, (struct op){ .what = DO_CALL, .call = function, .context = context });
}
