/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams: threads that do one operation after the other, each a random time later. */
#include "standin.h"

#include "../random.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all streams' queues and all records */
static struct stream *streams;

/* The handle that was given back last is the next stream's, though the old one may still have work. */
static char handles[ACTORS];
static void *unused[ACTORS];
static uint32_t nhandle, nunused;

void process_lock(void)
{
    pthread_mutex_lock(&lock);
}

void process_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

static pthread_mutex_t driver = PTHREAD_MUTEX_INITIALIZER;

void driver_lock(void)
{
    pthread_mutex_lock(&driver);
}

void driver_unlock(void)
{
    pthread_mutex_unlock(&driver);
}

/* ---- Records ----------------------------------------------------------------------------------------------- */

struct record *record_make(void)
{
    struct record *r = calloc(1, sizeof *r);

    if (r == NULL)
        die("out of memory");
    r->held = 1;
    pthread_cond_init(&r->is_done, NULL);
    return r;
}

struct record *record_hold(struct record *record)
{
    if (record != NULL) {
        process_lock();
        record->held++;
        process_unlock();
    }
    return record;
}

void record_drop(struct record *record)
{
    if (record == NULL)
        return;
    process_lock();
    const bool last = --record->held == 0;
    process_unlock();
    if (last)
        free(record);
}

/* What has been waited for the host knows. */
static void learn(const struct clock *clock)
{
    world_lock();
    pinned_known(clock);
    clock_join(host_clock(), clock);
    world_unlock();
}

bool record_is_done(struct record *record)
{
    process_lock();
    const bool done = record->done;
    process_unlock();
    if (done)
        learn(&record->clock);
    return done;
}

static void await_done(struct record *record)
{
    process_lock();
    while (!record->done)
        pthread_cond_wait(&record->is_done, &lock);
    process_unlock();
}

void record_wait(struct record *record)
{
    await_done(record);
    learn(&record->clock);
}

/* ---- What a stream does ------------------------------------------------------------------------------------ */

static const char *const names[] = { "a copy",
                                     "a memset",
                                     "a kernel",
                                     "a library's operation",
                                     "a host function",
                                     "a write of a value",
                                     "a wait for a value",
                                     "an event",
                                     "a wait for an event" };

static void do_set(const struct op *op)
{
    unsigned char *p = (unsigned char *)(uintptr_t)op->to;

    for (uint64_t i = 0; i < op->bytes; i += op->size)
        memcpy(p + i, &op->value, op->size);
}

static uint64_t load(const struct op *op)
{
    const void *p = (const void *)(uintptr_t)op->to;

    return op->size == 8 ? __atomic_load_n((const uint64_t *)p, __ATOMIC_SEQ_CST)
                         : __atomic_load_n((const uint32_t *)p, __ATOMIC_SEQ_CST);
}

static void do_write(const struct stream *s, const struct op *op)
{
    struct mapping m;

    if (!mapping_find(op->to, &m))
        die("a value is written to memory that was freed");
    world_lock();
    value_written(m.allocation, op->to - m.start, op->value, s->actor);
    if (op->size == 8)
        __atomic_store_n((uint64_t *)(uintptr_t)op->to, op->value, __ATOMIC_SEQ_CST);
    else
        __atomic_store_n((uint32_t *)(uintptr_t)op->to, (uint32_t)op->value, __ATOMIC_SEQ_CST);
    world_unlock();
}

static bool is_reached(const void *context, uint64_t now)
{
    const struct op *op = context;

    switch (op->flags & 3) {
    case VALUE_STREAM_WAIT_VALUE_GEQ:
        return op->size == 8 ? (int64_t)(now - op->value) >= 0 : (int32_t)((uint32_t)now - (uint32_t)op->value) >= 0;
    case VALUE_STREAM_WAIT_VALUE_EQ:
        return now == op->value;
    case VALUE_STREAM_WAIT_VALUE_AND:
        return (now & op->value) != 0;
    default:
        return (~(now | op->value) & (op->size == 8 ? UINT64_MAX : UINT32_MAX)) != 0;
    }
}

static void do_wait(const struct stream *s, const struct op *op)
{
    struct timespec moment = { 0, 20000 };
    struct mapping m;

    for (uint32_t turn = 0;; turn++) {
        if (!mapping_find(op->to, &m))
            die("a value is waited for in memory that was freed");
        world_lock();
        const uint64_t now = load(op);
        const bool reached = is_reached(op, now);
        if (reached)
            value_seen(m.allocation, op->to - m.start, now, s->actor, is_reached, op);
        world_unlock();
        if (reached)
            return;
        if (turn < 20)
            sched_yield();
        else
            nanosleep(&moment, NULL);
        if (turn >= 20 && moment.tv_nsec < 200000)
            moment.tv_nsec += moment.tv_nsec / 4;
    }
}

static void do_record(const struct stream *s, const struct op *op)
{
    world_lock();
    op->record->clock = *actor_clock(s->actor);
    op->record->hands = hands_of(s->actor);
    world_unlock();
    process_lock();
    op->record->done = true;
    process_unlock();
    pthread_cond_broadcast(&op->record->is_done);
}

static void do_await(const struct stream *s, const struct op *op)
{
    await_done(op->record);
    world_lock();
    clock_join(actor_clock(s->actor), &op->record->clock);
    hands_join(s->actor, op->record->hands);
    world_unlock();
}

/*
 * The function may tell any thread what it likes. A driver has one thread for the functions of all streams of a process:
 * one that waits holds up the others.
 */
static pthread_mutex_t calling = PTHREAD_MUTEX_INITIALIZER;

static void do_call(const struct stream *s, const struct op *op)
{
    pthread_mutex_lock(&calling);
    learn(actor_clock(s->actor));
    memory_allow(false);
    op->call(op->context);
    memory_allow(true);
    world_lock();
    clock_join(actor_clock(s->actor), host_clock());
    world_unlock();
    pthread_mutex_unlock(&calling);
}

static void announce(const struct stream *s, const struct op *op)
{
    world_lock();
    clock_join(actor_clock(s->actor), op->host);
    actor_tick(s->actor);
    world_unlock();
    switch (op->what) {
    case DO_COPY:
        touch(s, op->from, op->bytes, READ, true, names[DO_COPY]);
        touch(s, op->to, op->bytes, WRITE, true, names[DO_COPY]);
        return;
    case DO_SET:
        touch(s, op->to, op->bytes, WRITE, false, names[DO_SET]);
        return;
    case DO_WRITE:
        touch(s, op->to, op->size, SIGNAL, false, names[DO_WRITE]);
        return;
    case DO_WAIT:
        touch(s, op->to, op->size, WAIT, false, names[DO_WAIT]);
        return;
    case DO_KERNEL:
        kernel_accesses(s, op);
        return;
    case DO_LIBRARY:
        library_accesses(s, op);
        return;
    default:
        return;
    }
}

static void perform(const struct stream *s, const struct op *op)
{
    switch (op->what) {
    case DO_COPY:
        pinned_runs(s, op);
        memmove((void *)(uintptr_t)op->to, (const void *)(uintptr_t)op->from, op->bytes);
        return;
    case DO_SET:
        do_set(op);
        return;
    case DO_KERNEL:
        op->kernel->run(op->argument, op->nblock);
        return;
    case DO_LIBRARY:
        library_run(op);
        return;
    case DO_CALL:
        do_call(s, op);
        return;
    case DO_WRITE:
        do_write(s, op);
        return;
    case DO_WAIT:
        do_wait(s, op);
        return;
    case DO_RECORD:
        do_record(s, op);
        return;
    case DO_AWAIT:
        do_await(s, op);
        return;
    }
}

static void delay(struct stream *s)
{
    const uint64_t longest = setting("PLAIT_STANDIN_DELAY", 50), draw = random_next(&s->random);

    if (longest > 0 && draw % 4 == 0)
        usleep((unsigned)(draw / 4 % longest));
    else if (draw % 4 == 1)
        sched_yield();
}

static void op_free(struct op *op)
{
    record_drop(op->record);
    free(op->argument);
    free(op->host);
    free(op);
}

static struct op *stream_next(struct stream *s)
{
    process_lock();
    while (s->first == NULL && !s->ends)
        pthread_cond_wait(&s->more, &lock);
    struct op *op = s->first;
    if (op != NULL) {
        s->first = op->next;
        if (s->first == NULL)
            s->last = &s->first;
    }
    process_unlock();
    return op;
}

static void *stream_run(void *argument)
{
    struct stream *s = argument;
    struct op *op;

    memory_allow(true);
    while ((op = stream_next(s)) != NULL) {
        delay(s);
        hardware_await(s->hardware, op->turn);
        announce(s, op);
        perform(s, op);
        hardware_done(s->hardware);
        pinned_pending(op, -1);
        op_free(op);
        process_lock();
        s->done++;
        process_unlock();
    }
    actor_drop(s->actor);
    free(s);
    return NULL;
}

/* ---- Queues ------------------------------------------------------------------------------------------------ */

static struct clock host_now(void)
{
    world_lock();
    const struct clock now = *host_clock();
    world_unlock();
    return now;
}

/* Of a stream that is there, with the lock. */
static void queue(struct stream *s, struct op op, const struct clock *host)
{
    struct op *copy = malloc(sizeof *copy);

    op.host = malloc(sizeof *op.host);
    if (copy == NULL || op.host == NULL)
        die("out of memory");
    *op.host = *host;
    *copy = op;
    copy->next = NULL;
    copy->turn = hardware_put(s->hardware);
    pinned_pending(copy, 1);
    *s->last = copy;
    s->last = &copy->next;
    s->queued++;
    pthread_cond_signal(&s->more);
}

int stream_put_now(struct stream *s, struct op op)
{
    const struct clock host = host_now();

    process_lock();
    queue(s, op, &host);
    process_unlock();
    return CU_OK;
}

/*
 * Records of what these streams have now: those for which `asked` is true. Chosen and put in one, as another thread may
 * destroy a stream at any time; what it was given before it still does.
 */
static uint32_t put_records(bool (*asked)(const struct stream *s, const struct stream *by), const struct stream *by,
                            struct record *out[ACTORS])
{
    const struct clock host = host_now();
    uint32_t n = 0;

    process_lock();
    for (struct stream *s = streams; s != NULL && n < ACTORS; s = s->next)
        if (asked(s, by)) {
            out[n] = record_make();
            out[n]->held = 2; /* the caller's, the operation's */
            queue(s, (struct op){ .what = DO_RECORD, .record = out[n++] }, &host);
        }
    process_unlock();
    return n;
}

static bool is_behind_null(const struct stream *s, const struct stream *null)
{
    return s != null && s->context == null->context && (s->flags & VALUE_STREAM_NON_BLOCKING) == 0 &&
           s->done < s->queued;
}

/* The context's stream 0 and its other streams wait for each other, but for those that are made not to. */
static void put_null_order(struct stream *s)
{
    struct record *records[ACTORS];
    struct stream *null = s->context->null;
    uint32_t n = 1;

    if (s == null) {
        n = put_records(is_behind_null, null, records);
    } else if (null != NULL && (s->flags & VALUE_STREAM_NON_BLOCKING) == 0) {
        records[0] = record_make();
        stream_put_now(null, (struct op){ .what = DO_RECORD, .record = record_hold(records[0]) });
    } else {
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        stream_put_now(s, (struct op){ .what = DO_AWAIT, .record = records[i] });
}

int stream_put(struct stream *s, struct op op)
{
    s->ncall += !op.joined;
    if (s->capture != NULL)
        return capture_put(s, op);
    put_null_order(s);
    return stream_put_now(s, op);
}

int stream_make(struct context *context, unsigned flags, int priority, struct stream **out)
{
    static _Atomic uint64_t nstream;
    struct stream *s = calloc(1, sizeof *s);
    const int actor = actor_take();

    if (s == NULL || actor < 0)
        die("more than %d streams", ACTORS);
    s->context = context;
    s->flags = flags;
    s->id = ++nstream;
    s->hardware = hardware_of_new(context->device, priority);
    s->actor = actor;
    s->last = &s->first;
    s->random = setting("PLAIT_STANDIN_SEED", 1) * 1000003 + (uint64_t)actor;
    pthread_cond_init(&s->more, NULL);
    process_lock();
    s->next = streams;
    streams = s;
    process_unlock();
    if (pthread_create(&s->thread, NULL, stream_run, s) != 0)
        die("no thread for a stream");
    pthread_detach(s->thread);
    *out = s;
    return CU_OK;
}

void stream_end(struct stream *s)
{
    process_lock();
    for (struct stream **link = &streams; *link != NULL; link = &(*link)->next)
        if (*link == s) {
            *link = s->next;
            break;
        }
    if (s->handle != NULL)
        unused[nunused++] = s->handle;
    s->handle = NULL;
    s->ends = true;
    pthread_cond_signal(&s->more);
    process_unlock();
}

uint32_t stream_count(void)
{
    uint32_t n = 0;

    process_lock();
    for (const struct stream *s = streams; s != NULL; s = s->next)
        n++;
    process_unlock();
    return n;
}

static int null_stream(struct context *context, struct stream **out)
{
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;

    if (context == NULL)
        return CU_INVALID_CONTEXT;
    pthread_mutex_lock(&one);
    if (context->null == NULL)
        stream_make(context, 0, 0, &context->null);
    *out = context->null;
    pthread_mutex_unlock(&one);
    return CU_OK;
}

/* 0 and 1 are the context's own. */
int stream_find(void *handle, struct stream **out)
{
    struct stream *s;

    if ((uintptr_t)handle <= 1)
        return null_stream(context_now(), out);
    process_lock();
    for (s = streams; s != NULL && s->handle != handle; s = s->next)
        ;
    process_unlock();
    *out = s;
    return s != NULL ? CU_OK : CU_INVALID_HANDLE;
}

static void stream_wait(struct stream *s)
{
    struct record *r = record_make();

    stream_put_now(s, (struct op){ .what = DO_RECORD, .record = record_hold(r) });
    record_wait(r);
    record_drop(r);
}

static bool is_no_capture(const struct stream *s, const struct stream *by)
{
    (void)by;
    return s->capture == NULL;
}

void process_synchronize(void)
{
    struct record *records[ACTORS];
    const uint32_t n = put_records(is_no_capture, NULL, records);

    for (uint32_t i = 0; i < n; i++) {
        record_wait(records[i]);
        record_drop(records[i]);
    }
}

/* ---- Calls ------------------------------------------------------------------------------------------------- */

EXPORT int cuStreamCreateWithPriority(void **out, unsigned flags, int priority)
{
    CALL(true);
    struct stream *s;

    if (flags > 1)
        return CU_INVALID_VALUE;
    stream_make(context_now(), flags, priority, &s);
    process_lock();
    s->handle = nunused > 0 ? unused[--nunused] : &handles[nhandle++];
    *out = s->handle;
    process_unlock();
    return CU_OK;
}

EXPORT int cuStreamCreate(void **out, unsigned flags)
{
    return cuStreamCreateWithPriority(out, flags, 0);
}

EXPORT int cuStreamDestroy_v2(void *stream)
{
    CALL(true);
    struct stream *s;
    const int status = (uintptr_t)stream <= 1 ? CU_INVALID_HANDLE : stream_find(stream, &s);

    if (status == CU_OK)
        stream_end(s);
    return status;
}

EXPORT int cuStreamSynchronize(void *stream)
{
    CALL(true);
    struct stream *s;
    int status = stream_find(stream, &s);

    if (status == CU_OK)
        status = capture_spoil(s);
    if (status == CU_OK)
        status = capture_unsafe();
    if (status == CU_OK)
        stream_wait(s);
    return status;
}

EXPORT int cuStreamQuery(void *stream)
{
    CALL(true);
    struct stream *s;
    int status = stream_find(stream, &s);

    if (status == CU_OK)
        status = capture_spoil(s);
    if (status == CU_OK)
        status = capture_unsafe();
    if (status != CU_OK)
        return status;
    process_lock();
    const bool idle = s->done == s->queued;
    process_unlock();
    if (idle)
        stream_wait(s);
    return idle ? CU_OK : CU_NOT_READY;
}
