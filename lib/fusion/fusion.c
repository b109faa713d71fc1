/* SPDX-License-Identifier: BSD-3-Clause */
#include "fusion.h"

#include "call/agree.h"
#include "call/call.h"
#include "progress/progress.h"
#include "request/stream.h"

#include <plait/memory.h>

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Copies ----------------------------------------------------------------------------------------------- */

/* One block: tensors, then their names. */
static struct plait_tensor *copy_tensors(const struct plait_tensor *from, uint32_t n)
{
    size_t bytes = n * sizeof *from;

    for (uint32_t t = 0; t < n; t++)
        bytes += strlen(from[t].name) + 1;
    struct plait_tensor *to = malloc(bytes);
    if (to == NULL)
        return NULL;
    memcpy(to, from, n * sizeof *from);
    char *name = (char *)&to[n];
    for (uint32_t t = 0; t < n; t++) {
        to[t].name = strcpy(name, from[t].name);
        name += strlen(name) + 1;
    }
    return to;
}

static enum plait_status copy_options(struct plait_fusion *f, const struct plait_fusion_options *o)
{
    f->options = *o;
    f->ntensor = o->ntensor;
    f->in = f->out = 1;
    f->stream = o->stream != NULL ? plait_stream_queue(o->stream) : NULL;
    snprintf(f->name, sizeof f->name, "%s", o->name != NULL ? o->name : "fusion");
    snprintf(f->algorithm, sizeof f->algorithm, "%s", o->algorithm != NULL ? o->algorithm : "");
    f->options.name = f->name;
    f->options.algorithm = o->algorithm != NULL ? f->algorithm : NULL;
    f->options.layout.cuts = NULL;
    f->tensors = copy_tensors(o->tensors, o->ntensor);
    f->options.tensors = f->tensors;
    f->trace = o->trace ? plait_trace_create() : NULL;
    f->waited = calloc(o->ntensor, sizeof *f->waited);
    return f->tensors != NULL && f->waited != NULL && (!o->trace || f->trace != NULL)
               ? PLAIT_OK
               : plait_fail_memory("out of memory for %u tensors", o->ntensor);
}

/* ---- Memory and operations of a layout -------------------------------------------------------------------- */

static bool lives_in_bucket(const struct plait_fusion *f, uint32_t tensor)
{
    return f->tensors[tensor].data == NULL;
}

static bool has_payload_type(const struct plait_fusion *f, uint32_t tensor)
{
    return f->tensors[tensor].type == f->flat.buckets[f->flat.places[tensor].bucket].type;
}

void *plait_fusion_place(const struct plait_fusion *f, uint32_t tensor)
{
    const struct plait_place *p = &f->flat.places[tensor];
    const struct plait_bucket *b = &f->buckets[p->bucket];
    const size_t at = p->start * plait_dtype_size(f->tensors[tensor].type);

    if (!lives_in_bucket(f, tensor))
        return f->tensors[tensor].data;
    return (has_payload_type(f, tensor) ? b->payload : b->gradients) + at;
}

/* A tensor alone in its bucket, of the payload's type, is sent from the caller's memory; else NULL. */
static char *travels_from(const struct plait_fusion *f, uint32_t k)
{
    const struct plait_slab *s = &f->flat.buckets[k];

    return s->ntensor == 1 && !f->options.sharded && has_payload_type(f, s->first) ? f->tensors[s->first].data : NULL;
}

/* Bytes for gradients that live in this bucket in another type than its payload. */
static size_t gradient_bytes(const struct plait_fusion *f, uint32_t k)
{
    const struct plait_slab *s = &f->flat.buckets[k];

    for (uint32_t t = s->first; t <= s->last; t++)
        if (f->flat.places[t].bucket == k && lives_in_bucket(f, t) && !has_payload_type(f, t))
            return s->count * plait_dtype_size(f->tensors[t].type);
    return 0;
}

/* Take the next bytes of the fusion's memory; NULL for 0 bytes. If memory is NULL, only count them. */
static char *cut_off(char *memory, size_t *at, size_t bytes)
{
    char *start = memory != NULL && bytes > 0 ? memory + *at : NULL;

    *at += (bytes + PLAIT_FUSION_ALIGN - 1) / PLAIT_FUSION_ALIGN * PLAIT_FUSION_ALIGN;
    return start;
}

/* Assign the buckets' memory; return the bytes of all. */
static size_t place_buckets(struct plait_fusion *f, char *memory)
{
    size_t at = 0;

    for (uint32_t k = 0; k < f->flat.nbucket; k++) {
        const struct plait_slab *s = &f->flat.buckets[k];
        struct plait_bucket *b = &f->buckets[k];
        b->payload = travels_from(f, k);
        if (b->payload == NULL)
            b->payload = cut_off(memory, &at, s->count * plait_dtype_size(s->type));
        b->gradients = cut_off(memory, &at, gradient_bytes(f, k));
        b->weights = cut_off(memory, &at, s->count * plait_dtype_size(f->options.weights));
    }
    return at;
}

static enum plait_status allocate(struct plait_fusion *f)
{
    const uint32_t n = f->flat.nbucket;
    void *memory = NULL;

    f->buckets = calloc(n, sizeof *f->buckets);
    f->pieces = calloc(f->ntensor, sizeof *f->pieces);
    f->piece_of = calloc(f->ntensor, sizeof *f->piece_of);
    if (f->buckets == NULL || f->pieces == NULL || f->piece_of == NULL)
        return plait_fail_memory("out of memory for %u buckets", n);
    for (uint32_t k = 0; k < n; k++)
        f->buckets[k].state = plait_bucket_state(0, f->flat.buckets[k].ntensor);
    const size_t bytes = place_buckets(f, NULL);
    enum plait_status status = PLAIT_OK;
    if (bytes > 0)
        status = f->stream != NULL ? plait_fusion_device_alloc(f, bytes, &memory) : plait_mem_alloc(bytes, &memory);
    f->memory = memory;
    place_buckets(f, f->memory);
    return status;
}

/* This rank's part of the bucket: all of it, or its shard. */
static void shard_of(const struct plait_fusion *f, uint32_t k, size_t *start, size_t *end)
{
    const struct plait_slab *s = &f->flat.buckets[k];
    const size_t n = f->options.sharded ? s->count / f->comm->nrank : s->count;

    *start = f->options.sharded ? f->comm->rank * n : 0;
    *end = *start + n;
}

static void cut_pieces(struct plait_fusion *f)
{
    f->npiece = 0;
    for (uint32_t t = 0; t < f->ntensor; t++) {
        const struct plait_place *p = &f->flat.places[t];
        size_t first, end;
        shard_of(f, p->bucket, &first, &end);
        const size_t from = p->start > first ? p->start : first;
        const size_t to = p->start + f->tensors[t].count < end ? p->start + f->tensors[t].count : end;
        f->piece_of[t] = from < to ? f->npiece : PLAIT_NO_PIECE;
        if (from >= to)
            continue;
        struct plait_piece *piece = &f->pieces[f->npiece++];
        *piece = (struct plait_piece){ .tensor = t, .start = from - p->start, .count = to - from };
        piece->gradient = (char *)plait_fusion_place(f, t) + piece->start * plait_dtype_size(f->tensors[t].type);
        if (f->options.weights != PLAIT_NDTYPE)
            piece->weight = (char *)plait_fusion_weights(f, t) + piece->start * plait_dtype_size(f->options.weights);
    }
}

/* Ranks with different factors would get different results: the operation compares factors. */
static void compare_factor(struct plait_fusion *f, uint32_t k)
{
    plait_bind_factor((struct plait_op_plan *)(uintptr_t)f->buckets[k].request->job.o, f->out);
}

static enum plait_status bind_bucket(struct plait_fusion *f, uint32_t k)
{
    const struct plait_slab *s = &f->flat.buckets[k];
    const size_t share = s->count / f->comm->nrank, size = plait_dtype_size(f->options.weights);
    char *payload = f->buckets[k].payload, *weights = f->buckets[k].weights;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    enum plait_status status;

    call.algorithm = f->options.algorithm;
    call.round = f->options.round;
    call.reproducible = f->options.reproducible != 0;
    call.persistent = 1;
    call.request = &f->buckets[k].request;
    status = f->options.sharded
                 ? plait_reduce_scatter(f->comm, payload, payload + f->comm->rank * share * plait_dtype_size(s->type),
                                        share, s->type, f->options.op, &call)
                 : plait_allreduce(f->comm, payload, payload, s->count, s->type, f->options.op, &call);
    if (status == PLAIT_OK)
        compare_factor(f, k);
    if (status != PLAIT_OK || weights == NULL)
        return status;
    call = (struct plait_call)PLAIT_CALL_DEFAULT;
    call.persistent = 1;
    call.request = &f->buckets[k].gather;
    return plait_allgather(f->comm, weights + f->comm->rank * share * size, weights, share, f->options.weights, &call);
}

/* Make all that a layout needs. After an error drop_layout() frees the parts that were made. */
static enum plait_status make_layout(struct plait_fusion *f, const struct plait_layout *layout)
{
    const uint32_t nshard = f->options.sharded ? f->comm->nrank : 1;
    enum plait_status status = plait_flat_make(f->tensors, f->ntensor, layout, f->options.payload, nshard, &f->flat);

    if (status == PLAIT_OK)
        status = allocate(f);
    for (uint32_t k = 0; status == PLAIT_OK && k < f->flat.nbucket; k++)
        status = bind_bucket(f, k);
    if (status != PLAIT_OK)
        return status;
    cut_pieces(f);
    f->next = 0;
    return f->stream != NULL ? plait_fusion_device_make(f) : PLAIT_OK;
}

static void begin_rounds(struct plait_fusion *f)
{
    for (uint32_t t = 0; t < f->ntensor; t++) {
        atomic_store_explicit(&f->marks[t], 0, memory_order_relaxed);
        atomic_store_explicit(&f->waited[t], 0, memory_order_relaxed);
    }
    f->latest = 0;
}

/* The request has ended, perhaps as the comm failed, and nobody has waited for it. */
static void free_request(struct plait_request **r)
{
    if (*r != NULL)
        plait_wait(r);
    plait_request_free(r);
}

static void drop_layout(struct plait_fusion *f)
{
    for (uint32_t k = 0; f->buckets != NULL && k < f->flat.nbucket; k++) {
        free_request(&f->buckets[k].request);
        free_request(&f->buckets[k].gather);
    }
    if (f->stream != NULL)
        plait_fusion_device_drop(f);
    else
        plait_mem_free(f->memory);
    free(f->buckets);
    free(f->pieces);
    free(f->piece_of);
    plait_flat_free(&f->flat);
    f->buckets = NULL;
    f->pieces = NULL;
    f->piece_of = NULL;
    f->memory = NULL;
    f->npiece = 0;
}

/* ---- Marks, shared with the other ranks ------------------------------------------------------------------- */

static enum plait_status take_marks(struct plait_fusion *f, uint32_t nrank)
{
    void *memory = NULL;
    enum plait_status status = plait_arena_alloc(f->ntensor * sizeof *f->marks, &memory);

    f->marks = memory;
    f->others = calloc(nrank, sizeof *f->others + sizeof(uint64_t)); /* then room for share_marks() */
    if (status == PLAIT_OK && f->others == NULL)
        status = plait_fail_memory("out of memory for a fusion of %u ranks", nrank);
    return status;
}

static enum plait_status share_marks(struct plait_fusion *f)
{
    PLAIT_KNOWN(f != NULL);
    const uint32_t nrank = f->comm->nrank;
    const struct plait_arena *arena;
    uint64_t *const all = (uint64_t *)(f->others + nrank), own;

    plait_arena_get(0, &arena); /* exists: the marks are in it */
    own = (uint64_t)((char *)(uintptr_t)f->marks - arena->base);
    enum plait_status status = plait_allgather(f->comm, &own, all, 1, PLAIT_UINT64, NULL);
    for (uint32_t r = 0; r < nrank && status == PLAIT_OK; r++) {
        const struct plait_process *p = f->comm->peers[r].process;
        if (p != NULL)
            f->others[r] = (const void *)((p->base != NULL ? p->base : arena->base) + all[r]);
    }
    return status;
}

/* ---- Life ------------------------------------------------------------------------------------------------- */

/* Other ranks may read this memory until the comm is destroyed: destroy the comm first. */
static enum plait_status discard(struct plait_fusion *f)
{
    struct plait_kept left;

    if (f->stream != NULL && f->comm != NULL)
        plait_fusion_device_leave(f);
    plait_keep_error(&left, f->comm != NULL ? plait_comm_destroy(f->comm) : PLAIT_OK);
    drop_layout(f);
    plait_arena_free((void *)(uintptr_t)f->marks);
    free(f->others);
    free((void *)(uintptr_t)f->waited);
    plait_trace_destroy(f->trace);
    free(f->tensors);
    free(f);
    return plait_tell_error(&left);
}

/* Discard a half-made fusion and keep this thread's last error. f NULL: only the comm exists. */
static enum plait_status discard_after(struct plait_fusion *f, struct plait_comm *comm, enum plait_status status)
{
    struct plait_kept why;

    plait_keep_error(&why, status);
    if (f != NULL)
        discard(f);
    else
        plait_comm_destroy(comm);
    return plait_tell_error(&why);
}

/* The local part of creation. After an error `out` is the half-made fusion, or NULL. */
static enum plait_status prepare(const struct plait_fusion_options *options, uint32_t nrank, struct plait_fusion **out)
{
    enum plait_status status = plait_fusion_check_options(options);

    if (status != PLAIT_OK)
        return status;
    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        return plait_fail_memory("out of memory for a fusion");
    status = copy_options(*out, options);
    return status == PLAIT_OK ? take_marks(*out, nrank) : status;
}

static enum plait_status drive(struct plait_fusion *f)
{
    enum plait_status status = PLAIT_OK;

    PLAIT_KNOWN(f != NULL);
    if (f->options.progress && !f->comm->progress) {
        status = plait_progress_thread_start();
        f->comm->progress = status == PLAIT_OK;
    }
    return status;
}

/* The collective part of creation, on the fusion's own comm. f is NULL if this rank has failed. */
static enum plait_status make(struct plait_fusion *f, struct plait_comm *comm,
                              const struct plait_fusion_options *options, enum plait_status status)
{
    static const char call[] = "plait_fusion_create";
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;

    if (status == PLAIT_OK) {
        o = f->options;
        o.layout = options->layout;
        status = drive(f);
    }
    status = plait_all_alike(comm, call, o.name, plait_fusion_describe, &o, status);
    if (status == PLAIT_OK)
        status = share_marks(f);
    if (status != PLAIT_OK)
        return status;
    begin_rounds(f);
    return plait_all_ready(comm, call, make_layout(f, &options->layout));
}

enum plait_status plait_fusion_create(struct plait_comm *comm, const struct plait_fusion_options *options,
                                      struct plait_fusion **out)
{
    enum plait_status status =
        plait_not_in_group(plait_enter(comm, "plait_fusion_create", PLAIT_SUM, NULL), "plait_fusion_create");
    struct plait_fusion *f = NULL;
    struct plait_comm *own = NULL;
    struct plait_kept why;

    if (status != PLAIT_OK)
        return status;
    status =
        out == NULL ? plait_fail(PLAIT_ERR_ARG, "plait_fusion_create: out is NULL") : prepare(options, comm->nrank, &f);
    plait_keep_error(&why, status); /* the other ranks come, and learn of it in make() */
    status = plait_comm_duplicate(comm, f != NULL ? f->name : "fusion", &own);
    if (f != NULL)
        f->comm = own;
    if (status == PLAIT_OK)
        status = make(f, own, options, plait_tell_error(&why));
    if (status != PLAIT_OK)
        return discard_after(f, own, why.status != PLAIT_OK ? plait_tell_error(&why) : status);
    plait_fusion_wait_init(f);
    pthread_mutex_lock(&f->comm->lock);
    f->owner = plait_fusion_owner;
    f->comm->owner = &f->owner;
    pthread_mutex_unlock(&f->comm->lock);
    *out = f;
    return PLAIT_OK;
}

enum plait_status plait_fusion_destroy(struct plait_fusion *f)
{
    if (f == NULL || plait_comm_inherited(f->comm)) /* in a forked child: it belongs to the parent */
        return PLAIT_OK;
    pthread_mutex_lock(&f->comm->lock);
    f->leaving = true;
    pthread_mutex_unlock(&f->comm->lock);
    return discard(f);
}

/* ---- Between steps ---------------------------------------------------------------------------------------- */

enum plait_status plait_fusion_check_idle(const struct plait_fusion *f, const char *call)
{
    if (f == NULL)
        return plait_fail(PLAIT_ERR_ARG, "%s: fusion is NULL", call);
    if (plait_comm_closed(f->comm))
        return plait_comm_is_closed(f->comm, call);
    if (plait_has_failed(f->comm))
        return plait_fail(PLAIT_ERR_FAILED, "%s: %s failed earlier: %s", call, f->name, f->comm->own->failure);
    for (uint32_t t = 0; t < f->ntensor; t++)
        if (plait_mark_round(f->marks[t]) != plait_bucket_ended(&f->buckets[f->flat.places[t].bucket]))
            return plait_fail(PLAIT_ERR_ARG, "%s: %s: tensor %u '%s' is under way; call plait_fusion_wait_all() first",
                              call, f->name, t, f->tensors[t].name);
    return PLAIT_OK;
}

static void copy(struct plait_fusion *f, void *to, const void *from, size_t bytes)
{
    if (f->stream != NULL)
        plait_fusion_device_copy(f, to, from, bytes);
    else
        memcpy(to, from, bytes);
}

/* Move gradients and weights that live in buckets to the new layout. */
static void move_contents(struct plait_fusion *to, struct plait_fusion *from)
{
    for (uint32_t t = 0; t < to->ntensor; t++) {
        const size_t count = to->tensors[t].count;
        if (lives_in_bucket(to, t))
            copy(to, plait_fusion_place(to, t), plait_fusion_place(from, t),
                 count * plait_dtype_size(to->tensors[t].type));
        if (to->options.weights != PLAIT_NDTYPE)
            copy(to, plait_fusion_weights(to, t), plait_fusion_weights(from, t),
                 count * plait_dtype_size(to->options.weights));
    }
}

/* Copy under the lock: a thread that waits for other comms may drive this comm's progress meanwhile. */
static struct plait_fusion without_layout(const struct plait_fusion *f)
{
    pthread_mutex_lock(&f->comm->lock);
    struct plait_fusion g = *f;
    pthread_mutex_unlock(&f->comm->lock);

    g.flat = (struct plait_flat){ 0 };
    g.buckets = NULL;
    g.memory = NULL;
    g.pieces = NULL;
    g.piece_of = NULL;
    return g;
}

enum plait_status plait_fusion_set_layout(struct plait_fusion *f, const struct plait_layout *layout)
{
    static const char call[] = "plait_fusion_set_layout";
    enum plait_status status = plait_not_in_group(plait_fusion_check_idle(f, call), call);

    if (status != PLAIT_OK) /* with buckets in flight no collective call is possible */
        return status;
    status = layout == NULL ? plait_fail(PLAIT_ERR_ARG, "%s: layout is NULL", call)
                            : plait_fusion_check_layout(call, layout, f->ntensor);
    struct plait_fusion_options o = f->options;
    if (status == PLAIT_OK)
        o.layout = *layout;
    while (atomic_load(&f->waiting) > 0) /* threads that waited for the last round are returning */
        sched_yield();
    status = plait_all_alike(f->comm, call, f->name, plait_fusion_describe, &o, status);
    if (status != PLAIT_OK)
        return status;
    struct plait_fusion fresh = without_layout(f);
    status = plait_all_ready(f->comm, call, make_layout(&fresh, layout)); /* from now on no rank reads the old layout */
    if (status != PLAIT_OK) {
        drop_layout(&fresh);
        return status;
    }
    if (f->stream != NULL)
        status = plait_fusion_device_drain(f);
    move_contents(&fresh, f);
    if (status == PLAIT_OK && f->stream != NULL)
        status = plait_fusion_device_drain(&fresh);
    if (f->trace != NULL)
        f->trace->n = 0; /* its events name old buckets */
    drop_layout(f);
    pthread_mutex_lock(&f->comm->lock);
    *f = fresh;
    pthread_mutex_unlock(&f->comm->lock);
    begin_rounds(f);
    return status;
}

enum plait_status plait_fusion_set_scale(struct plait_fusion *f, double in, double out)
{
    const enum plait_status status = plait_fusion_check_idle(f, "plait_fusion_set_scale");

    if (status != PLAIT_OK)
        return status;
    if (!isfinite((float)in) || !isfinite((float)out) || (float)out == 0 || (in != 0 && (float)in == 0))
        return plait_fail(
            PLAIT_ERR_ARG,
            "plait_fusion_set_scale: the factors are %g and %g; as float32 they must be finite, and not 0 but for "
            "a first one that is 0",
            in, out);
    for (uint32_t t = 0; t < f->ntensor && (in != 1 || out != 1); t++)
        if (f->comm->kernels->widen[f->tensors[t].type] == NULL && f->tensors[t].type != PLAIT_FLOAT32 &&
            f->tensors[t].type != PLAIT_FLOAT64)
            return plait_fail(PLAIT_ERR_ARG, "plait_fusion_set_scale: tensor %u '%s' is of %s, which is not scaled", t,
                              f->tensors[t].name, plait_dtype_name(f->tensors[t].type));
    f->in = in;
    f->out = out;
    for (uint32_t k = 0; k < f->flat.nbucket; k++)
        compare_factor(f, k);
    return PLAIT_OK;
}

/* ---- Asking ----------------------------------------------------------------------------------------------- */

void *plait_fusion_data(struct plait_fusion *f, uint32_t tensor)
{
    return f != NULL && tensor < f->ntensor ? plait_fusion_place(f, tensor) : NULL;
}

void *plait_fusion_weights(struct plait_fusion *f, uint32_t tensor)
{
    if (f == NULL || tensor >= f->ntensor || f->options.weights == PLAIT_NDTYPE)
        return NULL;
    const struct plait_place *p = &f->flat.places[tensor];
    return f->buckets[p->bucket].weights + p->start * plait_dtype_size(f->options.weights);
}

uint32_t plait_fusion_npiece(const struct plait_fusion *f)
{
    return f != NULL ? f->npiece : 0;
}

/* n: number of `what`. */
static enum plait_status check_index(const char *call, const char *what, const struct plait_fusion *f, uint32_t k,
                                     uint32_t n, const void *out)
{
    if (f == NULL || out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "%s: %s is NULL", call, f == NULL ? "fusion" : "out");
    return k < n
               ? PLAIT_OK
               : plait_fail(PLAIT_ERR_ARG, "%s: k is %u, but %s has %u %s; k counts from 0", call, k, f->name, n, what);
}

enum plait_status plait_fusion_piece(const struct plait_fusion *f, uint32_t k, struct plait_piece *out)
{
    const enum plait_status status = check_index("plait_fusion_piece", "pieces", f, k, plait_fusion_npiece(f), out);

    if (status != PLAIT_OK)
        return status;
    *out = f->pieces[k];
    return PLAIT_OK;
}

struct plait_comm *plait_fusion_comm(const struct plait_fusion *f)
{
    return f != NULL ? f->comm : NULL;
}

uint32_t plait_fusion_nbucket(const struct plait_fusion *f)
{
    return f != NULL ? f->flat.nbucket : 0;
}

enum plait_status plait_fusion_bucket(const struct plait_fusion *f, uint32_t k, struct plait_fusion_bucket *out)
{
    const enum plait_status status = check_index("plait_fusion_bucket", "buckets", f, k, plait_fusion_nbucket(f), out);

    if (status != PLAIT_OK)
        return status;
    const struct plait_slab *s = &f->flat.buckets[k];
    *out = (struct plait_fusion_bucket){ s->type, s->ntensor, s->first, s->count * plait_dtype_size(s->type) };
    return PLAIT_OK;
}
