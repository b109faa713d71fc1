/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A step: tensors are marked; buckets are packed and begin, end in order and are unpacked; callers wait for them;
 * weights are gathered.
 */
#include "fusion.h"

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/status.h"
#include "pass.h"

#include <stdio.h>
#include <string.h>

/* ---- Marks ------------------------------------------------------------------------------------------------ */

static enum plait_status refuse(const struct plait_fusion *f, const char *call, uint32_t tensor, const char *why)
{
    return plait_fail(PLAIT_ERR_ARG, "%s: %s: tensor %u '%s' %s", call, f->name, tensor, f->tensors[tensor].name, why);
}

static enum plait_status check(const struct plait_fusion *f, const char *call, uint32_t tensor)
{
    if (f == NULL)
        return plait_fail(PLAIT_ERR_ARG, "%s: fusion is NULL", call);
    if (tensor >= f->ntensor)
        return plait_fail(PLAIT_ERR_ARG, "%s: %s: there is no tensor %u of %u", call, f->name, tensor, f->ntensor);
    return plait_object_check(f->comm, call, f->name);
}

enum plait_status plait_fusion_check_idle(const struct plait_fusion *f, const char *call)
{
    const enum plait_status status = check(f, call, 0);

    for (uint32_t t = 0; status == PLAIT_OK && t < f->ntensor; t++)
        if (plait_mark_round(f->marks[t]) != plait_bucket_ended(&f->buckets[f->flat.places[t].bucket]))
            return refuse(f, call, t, "is under way; call plait_fusion_wait_all() first");
    return status;
}

static void raise_to(_Atomic uint32_t *latest, uint32_t round)
{
    uint32_t before = atomic_load_explicit(latest, memory_order_relaxed);

    while ((int32_t)(round - before) > 0 && !atomic_compare_exchange_weak(latest, &before, round))
        ;
}

/*
 * The gradient is on the device's stream. Several threads may call: the one that brings the bucket's last gradient puts
 * an event after all of them. The bucket begins later, when all have counted down.
 */
static enum plait_status come(struct plait_fusion *f, const char *call, struct plait_bucket *b)
{
    enum plait_status status = PLAIT_OK;

    if (atomic_fetch_sub(&b->coming, 1) == 1)
        status = plait_device_result(call, plait_device_used()->record_event(f->stream, b->ready));
    if (status != PLAIT_OK)
        atomic_fetch_add(&b->coming, 1);
    return status;
}

static enum plait_status mark(struct plait_fusion *f, const char *call, uint32_t tensor, bool skipped)
{
    enum plait_status status = check(f, call, tensor);

    if (status == PLAIT_OK && f->stream != NULL)
        status = plait_fusion_device_check(f, call);
    if (status != PLAIT_OK)
        return status;
    struct plait_bucket *b = &f->buckets[f->flat.places[tensor].bucket];
    const uint32_t round = plait_bucket_ended(b) + 1;
    uint32_t before = atomic_load_explicit(&f->marks[tensor], memory_order_relaxed);
    if (plait_mark_round(before) != round - 1 || /* a round ends only when all its tensors are marked */
        !atomic_compare_exchange_strong(&f->marks[tensor], &before, skipped ? round | PLAIT_FUSION_SKIPPED : round))
        return refuse(f, call, tensor,
                      before & PLAIT_FUSION_SKIPPED ? "is skipped already in this step"
                                                    : "is ready already; wait for it first");
    if (f->stream != NULL && (status = come(f, call, b)) != PLAIT_OK) {
        atomic_store(&f->marks[tensor], before);
        return status;
    }
    atomic_fetch_add(&f->comm->pending, 1); /* before the count-down, after which the round may end */
    plait_progress_add(f->comm);
    plait_trace_ready(f->trace, tensor);
    raise_to(&f->latest, round);
    if ((uint32_t)atomic_fetch_sub_explicit(&b->state, 1, memory_order_acq_rel) == 1)
        plait_progress_wake(); /* the bucket is complete */
    return PLAIT_OK;
}

enum plait_status plait_fusion_ready(struct plait_fusion *f, uint32_t tensor)
{
    return mark(f, "plait_fusion_ready", tensor, false);
}

enum plait_status plait_fusion_skip(struct plait_fusion *f, uint32_t tensor)
{
    return mark(f, "plait_fusion_skip", tensor, true);
}

/* ---- Copies into the payload, and of the results out of it ------------------------------------------------- */

/* The payload from element `start` of a tensor on. */
static struct plait_vector payload_at(const struct plait_fusion *f, uint32_t tensor, size_t start)
{
    const enum plait_dtype type = f->flat.buckets[f->flat.places[tensor].bucket].type;

    return (struct plait_vector){ plait_fusion_payload(f, tensor) + start * plait_dtype_size(type), type };
}

static void pack_tensor(const struct plait_fusion *f, uint32_t t)
{
    const struct plait_tensor *x = &f->tensors[t];
    const struct plait_vector to = payload_at(f, t, 0);
    const struct plait_vector from = { x->data, x->type };

    if (plait_fusion_skips(f, t))
        memset(to.data, 0, x->count * plait_dtype_size(to.type));
    else if (to.data != from.data || f->in != 1)
        plait_pass(f->kernels, to, from, x->count, f->in, f->streaming, NULL);
}

static void pack_bucket(struct plait_fusion *f, uint32_t bucket)
{
    if (f->stream != NULL) {
        plait_fusion_device_pack(f, bucket);
        return;
    }
    for (uint32_t t = f->flat.buckets[bucket].first; t != PLAIT_NOTHING; t = f->flat.places[t].next)
        pack_tensor(f, t);
}

static void unpack_piece(struct plait_fusion *f, struct plait_piece *piece)
{
    const struct plait_vector from = payload_at(f, piece->tensor, piece->start);
    const struct plait_vector to = { piece->gradient, f->tensors[piece->tensor].type };
    const bool apart = to.data != from.data;
    double *square = f->options.check ? &piece->square : NULL;

    if ((apart || f->out != 1 || square != NULL) &&
        !plait_pass(f->kernels, to, from, piece->count, f->out, f->streaming && apart, square))
        atomic_store(&f->infinite, 1);
}

static void unpack_bucket(struct plait_fusion *f, uint32_t bucket)
{
    if (f->stream != NULL) {
        plait_fusion_device_unpack(f, bucket);
        return;
    }
    for (uint32_t t = f->flat.buckets[bucket].first; t != PLAIT_NOTHING; t = f->flat.places[t].next)
        if (plait_fusion_piece_of(f, t) != NULL)
            unpack_piece(f, plait_fusion_piece_of(f, t));
}

/* ---- Progress, under the comm's lock ---------------------------------------------------------------------- */

/* Can the next bucket begin? */
static bool is_complete(const struct plait_fusion *f)
{
    return f->nflying < f->flat.nbucket && plait_bucket_missing(&f->buckets[f->next]) == 0;
}

static void begin(struct plait_fusion *f, uint32_t k)
{
    struct plait_bucket *b = &f->buckets[k];

    const double start = plait_trace_now(f->trace);
    pack_bucket(f, k);
    plait_trace_add(f->trace, PLAIT_TRACE_PACK, k, start);
    b->began = plait_trace_now(f->trace);
    b->unpacked = false;
    f->nflying++;
    plait_trace_change(f->trace, 1, 0);
    f->next = (k + 1) % f->flat.nbucket;
    plait_request_begin(b->request);
}

/* The bucket's transfer has succeeded. */
static void unpack(struct plait_fusion *f, uint32_t k)
{
    struct plait_bucket *b = &f->buckets[k];

    plait_trace_add(f->trace, PLAIT_TRACE_TRANSFER, k, b->began);
    plait_trace_change(f->trace, -1, 0);
    const double start = plait_trace_now(f->trace);
    unpack_bucket(f, k);
    plait_trace_add(f->trace, PLAIT_TRACE_UNPACK, k, start);
    b->unpacked = true;
}

/* The oldest bucket in flight is unpacked: its tensors may be read. */
static void end(struct plait_fusion *f, uint32_t k)
{
    const uint32_t n = f->flat.buckets[k].ntensor;

    f->nflying--;
    plait_bucket_open(&f->buckets[k], plait_bucket_ended(&f->buckets[k]) + 1, n);
    f->comm->ncompleted += n;
    plait_progress_wake();
}

/* No bucket begins any more: marked tensors no longer keep the comm active. */
static void let_go(struct plait_fusion *f)
{
    uint32_t marked = 0;

    for (uint32_t k = 0; k < f->flat.nbucket; k++)
        marked += f->flat.buckets[k].ntensor - plait_bucket_missing(&f->buckets[k]);
    f->comm->ncompleted += marked - f->gone;
    f->gone = marked;
    plait_progress_wake();
}

/* Unpack the bucket once its transfer has ended. Can its round end? */
static bool has_come(struct plait_fusion *f, uint32_t k, bool *moved)
{
    if (!f->buckets[k].unpacked) {
        struct plait_request *r = f->buckets[k].request;
        if (!plait_request_has_ended(r) || plait_request_take(&r) != PLAIT_OK)
            return false;
        unpack(f, k);
        *moved = true;
    }
    return f->stream == NULL || plait_fusion_device_has_come(f, k);
}

bool plait_fusion_turn(struct plait_fusion *f, enum plait_fusion_awaits *awaits)
{
    bool moved = false;

    while (f->nflying > 0 && has_come(f, plait_fusion_oldest(f), &moved)) {
        end(f, plait_fusion_oldest(f));
        moved = true;
    }
    const bool left = f->leaving && f->nflying == 0 && !is_complete(f);
    if (plait_has_failed(f->comm) || left) {
        let_go(f);
        return moved;
    }
    while (is_complete(f)) {
        begin(f, f->next);
        moved = true;
    }
    if (f->nflying > 0 && f->stream != NULL && f->buckets[plait_fusion_oldest(f)].unpacked)
        *awaits = PLAIT_FUSION_AWAITS_DEVICE;
    else if (f->nflying == 0 && atomic_load_explicit(&f->waiting, memory_order_relaxed) > 0)
        *awaits = PLAIT_FUSION_AWAITS_SELF;
    return moved;
}

/* ---- Waiting ---------------------------------------------------------------------------------------------- */

struct awaited_round {
    struct plait_comm *comm;
    const struct plait_bucket *bucket;
    uint32_t round;
};

static bool is_there(const struct awaited_round *w)
{
    return (int32_t)(plait_bucket_ended(w->bucket) - w->round) >= 0;
}

static bool is_over(void *awaited)
{
    const struct awaited_round *w = awaited;

    return is_there(w) || plait_has_failed(w->comm);
}

static void interrupt(void *awaited)
{
    plait_comm_announce_abort(((const struct awaited_round *)awaited)->comm, PLAIT_INTERRUPTED, false);
}

static enum plait_status failure_of(const struct plait_fusion *f, const char *call)
{
    const struct plait_control *own = f->comm->own;

    pthread_mutex_lock(&f->comm->lock); /* wait for a thread that is in a turn now */
    pthread_mutex_unlock(&f->comm->lock);
    return plait_fail((enum plait_status)atomic_load(&own->failed), "%s: %s", call, own->failure);
}

/* Wait until `round` rounds of bucket k have ended. */
static enum plait_status wait_for(struct plait_fusion *f, const char *call, uint32_t k, uint32_t round)
{
    struct awaited_round w = { f->comm, &f->buckets[k], round };
    enum plait_status status = PLAIT_OK;

    if (!is_there(&w)) {
        const double start = plait_trace_now(f->trace);
        plait_trace_change(f->trace, 0, 1);
        atomic_fetch_add(&f->waiting, 1);
        plait_progress_until(is_over, interrupt, &w, plait_spins(f->comm));
        if (!is_there(&w))
            status = failure_of(f, call);
        atomic_fetch_sub(&f->waiting, 1);
        plait_trace_change(f->trace, 0, -1);
        plait_trace_add(f->trace, PLAIT_TRACE_WAIT, k, start);
    }
    if (status != PLAIT_OK || f->stream == NULL)
        return status;
    const char *why = plait_device_used()->wait_event(f->stream, w.bucket->done);
    return plait_device_result("a stream cannot wait for a fusion", why);
}

enum plait_status plait_fusion_wait(struct plait_fusion *f, uint32_t tensor)
{
    enum plait_status status = check(f, "plait_fusion_wait", tensor);

    if (status != PLAIT_OK)
        return status;
    const uint32_t round = plait_mark_round(atomic_load(&f->marks[tensor]));
    if (round == 0)
        return refuse(f, "plait_fusion_wait", tensor, "was never ready nor skipped");
    if (atomic_load(&f->waited[tensor]) == round && (int32_t)(atomic_load(&f->latest) - round) > 0)
        return refuse(f, "plait_fusion_wait", tensor, "is neither ready nor skipped in this step, others are");
    status = wait_for(f, "plait_fusion_wait", f->flat.places[tensor].bucket, round);
    plait_trace_waited(f->trace);
    if (status == PLAIT_OK)
        atomic_store(&f->waited[tensor], round);
    return status;
}

/* The latest round in which a tensor of the bucket was marked. */
static uint32_t latest_round(const struct plait_fusion *f, uint32_t k)
{
    const uint64_t state = atomic_load(&f->buckets[k].state);

    return (uint32_t)(state >> 32) + ((uint32_t)state < f->flat.buckets[k].ntensor);
}

enum plait_status plait_fusion_wait_all(struct plait_fusion *f, struct plait_fusion_result *result)
{
    enum plait_status status = check(f, "plait_fusion_wait_all", 0);

    for (uint32_t k = 0; status == PLAIT_OK && k < f->flat.nbucket; k++) {
        const uint32_t round = latest_round(f, k);
        status = wait_for(f, "plait_fusion_wait_all", k, round);
        for (uint32_t t = f->flat.buckets[k].first; status == PLAIT_OK && t != PLAIT_NOTHING;
             t = f->flat.places[t].next)
            atomic_store_explicit(&f->waited[t], round, memory_order_relaxed);
    }
    plait_trace_waited(f->trace);
    const int finite = status == PLAIT_OK ? !atomic_exchange(&f->infinite, 0) : 0;
    if (status == PLAIT_OK && result != NULL)
        result->finite = finite;
    return status;
}

/* ---- Weights ---------------------------------------------------------------------------------------------- */

enum plait_status plait_fusion_gather(struct plait_fusion *f)
{
    static const char call[] = "plait_fusion_gather";
    enum plait_status status = plait_fusion_check_idle(f, call);
    uint32_t n = 0;

    if (status == PLAIT_OK)
        status = plait_not_in_group(PLAIT_OK, call);
    if (status == PLAIT_OK && f->options.weights == PLAIT_NDTYPE)
        return plait_fail(PLAIT_ERR_ARG, "%s: %s has no weights; see the options sharded and weights", call, f->name);
    if (status == PLAIT_OK && f->stream != NULL &&
        (status = plait_fusion_device_check(f, call)) != PLAIT_ERR_UNSUPPORTED)
        status = plait_object_fail(f->comm, status); /* the others must not wait for this rank */
    while (status == PLAIT_OK && n < f->flat.nbucket)
        status = plait_start(f->buckets[n++].gather);
    for (uint32_t k = 0; k < n; k++) { /* wait for all: none may be pending after an error */
        const enum plait_status ended = plait_wait(&f->buckets[k].gather);
        status = status == PLAIT_OK ? ended : status;
    }
    return status;
}
