/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives as users call them: check the arguments, find or make what to run, run it. */
#include <plait/coll.h>

#include "clock.h"
#include "engine.h"
#include "hash.h"
#include "prog.h"
#include "report.h"
#include "status.h"
#include "tiny.h"
#include "wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES ((size_t)1 << 47) /* what a process can address */

static const struct plait_call no_wishes = PLAIT_CALL_DEFAULT;

/* ---- Arguments ------------------------------------------------------------------------------------- */

struct args { /* of a call */
    enum plait_coll coll;
    enum plait_dtype type;
    enum plait_op op; /* of a collective that combines, else 0 */
    uint32_t root;    /* of a rooted one, else 0 */
    bool inplace;     /* of what is combined or moved */
    size_t count;
    const void *in;
    void *out;
    bool alias; /* the buffers lie as they do in place */
    bool sized; /* blocks differ in size (comm->sizes); count is 0 */
};

static enum plait_status check_type(const struct plait_kernels *kernels, enum plait_coll coll, enum plait_dtype type,
                                    enum plait_op op)
{
    const char *name = plait_coll_name(coll);

    if ((unsigned)type >= PLAIT_NDTYPE || plait_dtype_size(type) == 0)
        return plait_fail(PLAIT_ERR_ARG, "%s: type is %d, which is no enum plait_dtype of this version", name,
                          (int)type);
    if (!plait_geometry_of(coll, 1, 0, 0, 1).combines)
        return PLAIT_OK;
    if ((unsigned)op >= PLAIT_NOP)
        return plait_fail(PLAIT_ERR_ARG, "%s: op is %d, which is no enum plait_op", name, (int)op);
    if (plait_reduce_find(kernels, type, op) == NULL)
        return plait_fail(PLAIT_ERR_UNSUPPORTED, "%s: no kernel for type %s with op %s", name, plait_dtype_name(type),
                          plait_op_name(op));
    return PLAIT_OK;
}

/* Elements in all blocks of one rank. */
static enum plait_status check_count(enum plait_coll coll, uint32_t nrank, size_t count, size_t size)
{
    const size_t nblk = plait_geometry_of(coll, nrank, 0, 0, 1).kind == PLAIT_KIND_VECTOR ? 1 : nrank;

    if (count > MOST_BYTES / size / nblk)
        return plait_fail(PLAIT_ERR_ARG,
                          "%s: count is %zu, more than fits in memory; it counts elements of %zu bytes%s",
                          plait_coll_name(coll), count, size, nblk > 1 ? ", of one rank" : "");
    return PLAIT_OK;
}

/* Bytes of IN or OUT. */
static size_t side_bytes(const struct plait_geometry *g, const struct plait_side *side, size_t bytes)
{
    return g->kind == PLAIT_KIND_VECTOR ? (side->nslot > 0 ? bytes : 0) : side->nslot * bytes;
}

/* Where IN lies when it is in place, or NULL when this rank has no such form. */
static const void *place_of_in(const struct plait_geometry *g, uint32_t rank, void *out, size_t bytes)
{
    if (g->kind == PLAIT_KIND_PAIR || g->in.nslot == 0 || g->out.nslot == 0 || out == NULL)
        return NULL;
    if (g->kind == PLAIT_KIND_VECTOR)
        return out;
    return (char *)out + ((size_t)plait_side_slot(&g->out, rank) - plait_side_slot(&g->in, rank)) * bytes;
}

/* Are the buffers there, and apart unless they are in place? */
static inline bool buffers_fit(const struct args *a, size_t in_bytes, size_t out_bytes)
{
    const uintptr_t in = (uintptr_t)a->in, out = (uintptr_t)a->out;

    return (a->in != NULL || in_bytes == 0) && (a->out != NULL || out_bytes == 0) &&
           (a->alias || in >= out + out_bytes || out >= in + in_bytes);
}

static enum plait_status wrong_buffers(const struct args *a, const struct plait_geometry *g, size_t in_bytes,
                                       size_t out_bytes)
{
    const bool no_in = in_bytes > 0 && a->in == NULL;

    if (no_in || (out_bytes > 0 && a->out == NULL))
        return plait_fail(PLAIT_ERR_ARG, "%s: %s is NULL, but count is not 0", plait_coll_name(a->coll),
                          no_in ? "in" : "out");
    return plait_fail(PLAIT_ERR_ARG, "%s: in %p of %zu bytes and out %p of %zu bytes overlap; they must be apart%s",
                      plait_coll_name(a->coll), a->in, in_bytes, a->out, out_bytes,
                      g->kind == PLAIT_KIND_PAIR     ? "; there is no form in place"
                      : g->kind == PLAIT_KIND_VECTOR ? " or equal"
                                                     : ", or this rank's part of one be the other (in place)");
}

static enum plait_status check_buffers(const struct args *a, const struct plait_geometry *g, size_t bytes)
{
    const size_t in_bytes = side_bytes(g, &g->in, bytes), out_bytes = side_bytes(g, &g->out, bytes);

    return buffers_fit(a, in_bytes, out_bytes) ? PLAIT_OK : wrong_buffers(a, g, in_bytes, out_bytes);
}

static enum plait_status check_call(const struct plait_call *call)
{
    if (call->size != sizeof *call)
        return plait_fail(PLAIT_ERR_ARG, "call->size is %zu, not %zu; start from PLAIT_CALL_DEFAULT", call->size,
                          sizeof *call);
    if ((unsigned)call->round > PLAIT_ROUND_HOP)
        return plait_fail(PLAIT_ERR_ARG, "call->round is %d, which is no enum plait_round", (int)call->round);
    if (!(call->deadline >= 0))
        return plait_fail(PLAIT_ERR_ARG, "call->deadline is %g, which is no time in seconds", call->deadline);
    if (call->algorithm != NULL && strlen(call->algorithm) >= PLAIT_MAX_SPEC)
        return plait_fail(PLAIT_ERR_ARG, "call->algorithm '%.80s' is longer than %d characters", call->algorithm,
                          PLAIT_MAX_SPEC - 1);
    return PLAIT_OK;
}

/* What premulsum and user need of the options, and others do not take. */
static enum plait_status check_op(enum plait_op op, const struct plait_call *call)
{
    const struct plait_user_op *user = call->user;

    if (op == PLAIT_PREMULSUM && call->scale == NULL)
        return plait_fail(PLAIT_ERR_ARG, "op is premulsum, but call->scale is NULL; it points to this rank's scalar");
    if (op != PLAIT_PREMULSUM && call->scale != NULL)
        return plait_fail(PLAIT_ERR_ARG, "call->scale is %p, but op is %s, which does not scale; use premulsum or NULL",
                          call->scale, plait_op_name(op));
    if ((unsigned)call->scale_when > PLAIT_SCALE_LATE)
        return plait_fail(PLAIT_ERR_ARG, "call->scale_when is %d, which is no enum plait_scale_when",
                          (int)call->scale_when);
    if (op == PLAIT_USER && user == NULL)
        return plait_fail(PLAIT_ERR_ARG, "op is user, but call->user is NULL; it points to the function");
    if (op != PLAIT_USER && user != NULL)
        return plait_fail(PLAIT_ERR_ARG, "call->user is %p, but op is %s, which does not call it; use op user or NULL",
                          (const void *)user, plait_op_name(op));
    if (user != NULL && user->size != sizeof *user)
        return plait_fail(PLAIT_ERR_ARG, "call->user->size is %zu, not %zu; set it to sizeof (struct plait_user_op)",
                          user->size, sizeof *user);
    if (user != NULL && user->combine == NULL)
        return plait_fail(PLAIT_ERR_ARG, "call->user->combine is NULL; it is the function that combines");
    return PLAIT_OK;
}

enum plait_status plait_check_operation(const struct plait_kernels *kernels, enum plait_coll coll, uint32_t nrank,
                                        size_t count, enum plait_dtype type, enum plait_op op,
                                        const struct plait_call *call)
{
    enum plait_status status = check_type(kernels, coll, type, op);

    if (status == PLAIT_OK)
        status = check_count(coll, nrank, count, plait_dtype_size(type));
    if (status == PLAIT_OK && call != NULL)
        status = check_call(call);
    return status == PLAIT_OK ? check_op(op, call != NULL ? call : &no_wishes) : status;
}

/* ---- What to run ----------------------------------------------------------------------------------- */

static inline bool same_user(const struct plait_op_plan *o, const struct plait_user_op *user)
{
    return user == NULL || (o->last.combine == user->combine && o->last.context == user->context &&
                            o->what.ordered == !user->commutative);
}

static inline bool same_wishes(const struct plait_op_plan *o, const struct plait_call *call)
{
    return o->call.slice == call->slice && o->call.round == call->round && o->call.reproducible == call->reproducible &&
           strcmp(o->asked, call->algorithm != NULL ? call->algorithm : "") == 0 && same_user(o, call->user);
}

/* Is `o` this operation? `call` NULL: without options. */
static inline bool fits(const struct plait_op_plan *o, const struct args *a, const struct plait_call *call)
{
    return o->count == a->count && o->type == a->type && o->op == a->op && o->inplace == a->inplace &&
           o->coll == a->coll && o->root == a->root && o->sized == a->sized &&
           (call != NULL ? same_wishes(o, call) : o->plain);
}

static void wish_of(const struct plait_comm *comm, enum plait_coll coll, bool sized, const struct plait_call *call,
                    char spec[PLAIT_MAX_SPEC], struct plait_wish *out)
{
    plait_spec_for(comm->config.algo, coll, spec);
    *out = (struct plait_wish){
        .algorithms = comm->algorithms,
        .spec = call->algorithm != NULL ? call->algorithm : spec,
        .spec_origin = call->algorithm != NULL ? "asked for in the call" : "asked for by PLAIT_ALGO",
        .slice = call->slice ? call->slice : comm->config.slice,
        .cache = comm->cache,
        .round = call->round != PLAIT_ROUND_DEFAULT ? call->round : comm->round,
        .reproducible = comm->reproducible || call->reproducible,
        .user = call->user != NULL,
        .ordered = call->user != NULL && !call->user->commutative,
        .oversubscribed = comm->oversubscribed,
        .sized = sized,
    };
}

/* A barrier runs as the all-reduce of nothing. */
static struct plait_shape shape_of(const struct plait_comm *comm, enum plait_coll coll, uint32_t root, bool inplace)
{
    return (struct plait_shape){ .coll = coll == PLAIT_BARRIER ? PLAIT_ALLREDUCE : coll,
                                 .nrank = comm->nrank,
                                 .root = root,
                                 .inplace = inplace,
                                 .node = comm->node };
}

static enum plait_status find_prog(struct plait_comm *comm, const struct plait_shape *shape,
                                   const struct plait_selection *s, bool average, struct plait_prog **out)
{
    for (struct plait_prog *p = comm->progs; p != NULL; p = p->next)
        if (p->alg == s->alg && p->root == shape->root && p->inplace == shape->inplace && p->round == s->round &&
            p->average == average && strcmp(p->spec, s->spec) == 0) {
            *out = p;
            return PLAIT_OK;
        }
    comm->stats.allocations++;
    if (comm->config.check) {
        const enum plait_status status = plait_alg_check(s->alg, shape, NULL);
        if (status != PLAIT_OK)
            return status;
    }
    const enum plait_status status = plait_prog_create(s->alg, s->spec, shape, comm->rank, s->round, average, out);
    if (status == PLAIT_OK) {
        (*out)->next = comm->progs;
        comm->progs = *out;
    }
    return status;
}

static uint32_t fingerprint_of(const struct plait_op_plan *o)
{
    const uint64_t fields[] = { o->coll,
                                o->type,
                                o->op,
                                o->root,
                                o->sized,
                                o->count,
                                o->selection.plan_hash,
                                o->prog != NULL ? o->prog->hash : 0,
                                o->what.ordered };

    if (!PLAIT_GUARDS)
        return 0;
    const uint64_t h = plait_hash(PLAIT_HASH_START, fields, sizeof fields);
    return (uint32_t)(h ^ h >> 32);
}

static void describe(const struct plait_op_plan *o, struct plait_what *out)
{
    *out = (struct plait_what){
        .count = o->count,
        .plan = o->selection.plan_hash,
        .coll = (uint8_t)o->coll,
        .type = (uint8_t)o->type,
        .op = (uint8_t)o->op,
        .inplace = o->inplace && !o->geometry.rooted,
        .root = (uint16_t)o->root,
        .ordered = o->call.user != NULL && !o->call.user->commutative,
    };
    memcpy(out->algorithm, o->selection.spec, sizeof out->algorithm - 1);
}

/* The caller's struct is not kept. */
static void describe_how(struct plait_op_plan *o, uint32_t nrank)
{
    const struct plait_user_op *user = o->call.user;

    o->inner = (struct plait_how){ .type = o->type };
    if (user != NULL) {
        o->inner.combine = user->combine;
        o->inner.context = user->context;
    }
    o->last = o->inner;
    o->last.divisor = o->op == PLAIT_AVG ? nrank : 0;
}

static enum plait_status make_op_plan(struct plait_comm *comm, struct plait_op_plan *o)
{
    struct plait_shape shape = shape_of(comm, o->coll, o->root, o->inplace);
    struct plait_wish wish;
    char spec[PLAIT_MAX_SPEC];
    enum plait_status status;

    wish_of(comm, o->coll, o->sized, &o->call, spec, &wish);
    status = plait_select(&shape, o->count, o->type, &wish, &o->selection);
    if (status == PLAIT_OK && !o->selection.tiny)
        status = find_prog(comm, &shape, &o->selection, o->op == PLAIT_AVG, &o->prog);
    if (status != PLAIT_OK)
        return status;
    if (o->sized && !o->prog->single)
        return plait_fail(PLAIT_ERR_CONFIG,
                          "algorithm '%s' moves several blocks in one message, so all must be equally big; use direct",
                          o->selection.spec);
    if (o->prog != NULL && (o->sized || !o->prog->sliceable)) {
        o->selection.slice = o->sized ? SIZE_MAX : o->count;
        o->selection.nslice = 1;
    }
    o->geometry = plait_geometry_of(shape.coll, comm->nrank, o->root, comm->rank, o->prog != NULL ? o->prog->nblk : 1);
    o->size = plait_dtype_size(o->type);
    o->in_bytes = side_bytes(&o->geometry, &o->geometry.in, o->count * o->size);
    o->out_bytes = side_bytes(&o->geometry, &o->geometry.out, o->count * o->size);
    describe_how(o, comm->nrank);
    o->reduce = o->geometry.combines ? plait_reduce_find(comm->kernels, o->type, o->op) : NULL;
    describe(o, &o->what);
    o->fingerprint = fingerprint_of(o);
    plait_comm_log(comm, PLAIT_LOG_DEBUG, "%s of %zu %s, %s: %s, because %s", plait_coll_name(o->coll), o->count,
                   plait_dtype_name(o->type), plait_op_name(o->op), o->selection.spec, o->selection.why);
    return PLAIT_OK;
}

static enum plait_status find_op_plan(struct plait_comm *comm, const struct args *a, const struct plait_call *options)
{
    const struct plait_call *call = options != NULL ? options : &no_wishes;
    const uint64_t key = a->count << 16 ^ (uint64_t)a->root << 12 ^ (uint64_t)a->coll << 8 ^ (uint64_t)a->type << 4 ^
                         (uint64_t)a->op << 1 ^ a->inplace ^ (uint64_t)a->sized << 15;
    struct plait_op_plan **place = &comm->op_plans[(key * 0x9e3779b97f4a7c15u) >> 56];
    struct plait_op_plan fresh = { .coll = a->coll,
                                   .type = a->type,
                                   .op = a->op,
                                   .root = a->root,
                                   .inplace = a->inplace,
                                   .sized = a->sized,
                                   .count = a->count,
                                   .plain = options == NULL,
                                   .call = *call };
    enum plait_status status;

    if (*place != NULL && fits(*place, a, options)) {
        comm->last = *place;
        return PLAIT_OK;
    }
    if (call->algorithm != NULL)
        memcpy(fresh.asked, call->algorithm, strlen(call->algorithm) + 1);
    fresh.call.algorithm = call->algorithm != NULL ? fresh.asked : NULL;
    status = make_op_plan(comm, &fresh);
    if (status != PLAIT_OK)
        return status;
    if (*place == NULL) {
        comm->stats.allocations++;
        *place = malloc(sizeof **place);
        if (*place == NULL)
            return plait_fail_memory("out of memory for an operation");
    }
    **place = fresh;
    (*place)->call.algorithm = call->algorithm != NULL ? (*place)->asked : NULL;
    (*place)->call.scale = NULL; /* the caller's, and not kept */
    (*place)->call.user = NULL;
    comm->last = *place;
    return PLAIT_OK;
}

/* ---- Running --------------------------------------------------------------------------------------- */

/*
 * First be seen inside, by the ring, then look for failures: a rank that failed waits in destroy for those it sees
 * inside (comm.c). Both sides write one flag and then read the other's, so both flags are sequentially consistent.
 */
static enum plait_status run_engine(struct plait_comm *comm, const struct plait_op_plan *o, const void *in, void *out)
{
    enum plait_status status;

    if (PLAIT_GUARDS)
        plait_progress_begin(&comm->own->ring, comm->sequence, plait_clock_ns(), o->selection.nslice,
                             o->selection.nslice * o->prog->ninstr);
    status = plait_engine_prepare(comm, o);
    if (status != PLAIT_OK) /* the others must not wait for this rank */
        return comm->failed != PLAIT_OK ? status : plait_comm_fail(comm, status, "%s", plait_last_error());
    status = plait_look_for_failures(comm);
    return status == PLAIT_OK ? plait_engine_run(comm, o, in, out) : status;
}

/* An operation that this rank cannot begin for want of a resource: the others must not wait for it. */
static enum plait_status cannot_begin(struct plait_comm *comm, enum plait_status status, const struct args *a)
{
    char why[512];

    if (comm->failed != PLAIT_OK || (status != PLAIT_ERR_NOMEM && status != PLAIT_ERR_SYSTEM))
        return status;
    snprintf(why, sizeof why, "%s", plait_last_error());
    comm->sequence++; /* the last one is not to blame */
    return plait_comm_fail(comm, status, "cannot begin %s #%llu (%zu %s%s%s): %s", plait_coll_name(a->coll),
                           (unsigned long long)comm->sequence, a->count, plait_dtype_name(a->type),
                           plait_geometry_of(a->coll, 1, 0, 0, 1).combines ? " " : "",
                           plait_geometry_of(a->coll, 1, 0, 0, 1).combines ? plait_op_name(a->op) : "", why);
}

/*
 * A pre-multiplied sum is the sum of scaled inputs: an all-reduce goes on in place in OUT, which has room for them, the
 * others from library memory, which is kept for the next one.
 */
static enum plait_status scale_input(struct plait_comm *comm, const struct plait_op_plan *o, const void **in, void *out,
                                     const void *scale)
{
    const size_t n = o->sized ? comm->sizes.in_end : o->in_bytes / o->size;
    void *to = out;

    if (n == 0)
        return PLAIT_OK;
    if (o->coll != PLAIT_ALLREDUCE) {
        if (comm->scaled_bytes < n * o->size) {
            comm->stats.allocations++;
            const enum plait_status status = plait_arena_alloc(n * o->size, &to);
            if (status != PLAIT_OK)
                return status;
            plait_arena_free(comm->scaled);
            comm->scaled = to;
            comm->scaled_bytes = n * o->size;
        }
        to = comm->scaled;
    }
    comm->kernels->scale[o->type](to, *in, n, scale);
    *in = to;
    return PLAIT_OK;
}

static enum plait_status run(struct plait_comm *comm, const struct plait_op_plan *o, const void *in, void *out,
                             const struct plait_call *call)
{
    enum plait_status status;

    if (PLAIT_GUARDS)
        comm->call = call; /* its deadline, if a wait is long */
    const uint32_t environment = plait_fpenv_enter();
    if (call != NULL && call->scale != NULL && (status = scale_input(comm, o, &in, out, call->scale)) != PLAIT_OK) {
        plait_fpenv_leave(environment);
        return cannot_begin(comm, status, &(struct args){ o->coll, o->type, o->op, o->root, .count = o->count });
    }
    const uint64_t word = plait_word(o, ++comm->sequence);
    if (o->selection.tiny) {
        if (PLAIT_GUARDS)
            plait_ring_add(&comm->own->ring, comm->sequence, word, &o->what, memory_order_release);
        status = plait_tiny_run(comm, o, word, in, out);
    } else {
        if (PLAIT_GUARDS)
            plait_ring_add(&comm->own->ring, comm->sequence, word, &o->what, memory_order_seq_cst);
        status = run_engine(comm, o, in, out);
    }
    if (status == PLAIT_OK) {
        comm->stats.operations++;
        atomic_store_explicit(&comm->own->done, comm->sequence, memory_order_release);
        if (PLAIT_GUARDS)
            plait_ring_expect(&comm->own->ring, comm->sequence + 1);
    }
    plait_fpenv_leave(environment);
    return status;
}

/* On this rank, or by plait_comm_abort() from another thread. */
static inline bool has_failed(const struct plait_comm *comm)
{
    return atomic_load_explicit(&comm->own->failed, memory_order_acquire) != PLAIT_OK;
}

static enum plait_status earlier_failure(const struct plait_comm *comm)
{
    return plait_fail(PLAIT_ERR_FAILED, "the comm failed earlier: %s", comm->own->failure);
}

/* What every call asks first. */
static inline enum plait_status enter(struct plait_comm *comm, const char *name, enum plait_op op,
                                      const struct plait_call *call)
{
    enum plait_status status;

    if (comm == NULL)
        return plait_fail(PLAIT_ERR_ARG, "%s: comm is NULL", name);
    if (plait_comm_inherited(comm))
        return plait_comm_is_inherited(comm, name);
    if (has_failed(comm))
        return earlier_failure(comm);
    if (call == NULL)
        return PLAIT_OK;
    status = check_call(call);
    return status == PLAIT_OK ? check_op(op, call) : status;
}

/* An operation that is not the last one again. */
static __attribute__((noinline)) enum plait_status prepare(struct plait_comm *comm, const struct args *a,
                                                           const struct plait_call *call)
{
    enum plait_status status =
        plait_check_operation(comm->kernels, a->coll, comm->nrank, a->count, a->type, a->op, call);

    if (status == PLAIT_OK && a->root >= comm->nrank)
        status = plait_fail(PLAIT_ERR_ARG, "%s: root is %u, but the comm has %u ranks", plait_coll_name(a->coll),
                            a->root, comm->nrank);
    if (status == PLAIT_OK) {
        const struct plait_geometry g = plait_geometry_of(a->coll, comm->nrank, a->root, comm->rank, 1);
        status = check_buffers(a, &g, a->count * plait_dtype_size(a->type));
    }
    if (status == PLAIT_OK)
        status = find_op_plan(comm, a, call);
    return status == PLAIT_OK ? PLAIT_OK : cannot_begin(comm, status, a);
}

static inline __attribute__((always_inline)) enum plait_status collective(struct plait_comm *comm, const struct args *a,
                                                                          const struct plait_call *call)
{
    const struct plait_op_plan *last = comm->last;

    if (last != NULL && fits(last, a, call)) {
        if (!buffers_fit(a, last->in_bytes, last->out_bytes))
            return wrong_buffers(a, &last->geometry, last->in_bytes, last->out_bytes);
    } else {
        const enum plait_status status = prepare(comm, a, call);
        if (status != PLAIT_OK)
            return status;
    }
    return run(comm, comm->last, a->in, a->out, call);
}

enum plait_status plait_allreduce(struct plait_comm *comm, const void *in, void *out, size_t count,
                                  enum plait_dtype type, enum plait_op op, const struct plait_call *call)
{
    const struct args a = { .coll = PLAIT_ALLREDUCE,
                            .type = type,
                            .op = op,
                            .inplace = count > 0 && plait_works_inplace(PLAIT_ALLREDUCE, in == out, call),
                            .alias = in == out,
                            .count = count,
                            .in = in,
                            .out = out };
    const enum plait_status status = enter(comm, "allreduce", op, call);

    return status == PLAIT_OK ? collective(comm, &a, call) : status;
}

enum plait_status plait_barrier(struct plait_comm *comm, const struct plait_call *call)
{
    const struct args a = { .coll = PLAIT_BARRIER, .type = PLAIT_INT32 };
    const enum plait_status status = enter(comm, "barrier", PLAIT_SUM, call);

    return status == PLAIT_OK ? collective(comm, &a, call) : status;
}

/* The others: whether they are in place depends on where this rank's part is. */
static __attribute__((noinline)) enum plait_status moving(struct plait_comm *comm, struct args a,
                                                          const struct plait_call *call)
{
    const enum plait_status status = enter(comm, plait_coll_name(a.coll), a.op, call);

    if (status != PLAIT_OK)
        return status;
    const struct plait_geometry g = plait_geometry_of(a.coll, comm->nrank, a.root, comm->rank, 1);
    a.alias =
        a.count > 0 && a.in != NULL && a.in == place_of_in(&g, comm->rank, a.out, a.count * plait_dtype_size(a.type));
    a.inplace = plait_works_inplace(a.coll, a.alias, call);
    return collective(comm, &a, call);
}

enum plait_status plait_reduce_scatter(struct plait_comm *comm, const void *in, void *out, size_t count,
                                       enum plait_dtype type, enum plait_op op, const struct plait_call *call)
{
    return moving(comm, (struct args){ PLAIT_REDUCE_SCATTER, type, op, 0, false, count, in, out }, call);
}

enum plait_status plait_allgather(struct plait_comm *comm, const void *in, void *out, size_t count,
                                  enum plait_dtype type, const struct plait_call *call)
{
    return moving(comm, (struct args){ PLAIT_ALLGATHER, type, 0, 0, false, count, in, out }, call);
}

enum plait_status plait_broadcast(struct plait_comm *comm, const void *in, void *out, size_t count,
                                  enum plait_dtype type, uint32_t root, const struct plait_call *call)
{
    return moving(comm, (struct args){ PLAIT_BROADCAST, type, 0, root, false, count, in, out }, call);
}

enum plait_status plait_reduce(struct plait_comm *comm, const void *in, void *out, size_t count, enum plait_dtype type,
                               enum plait_op op, uint32_t root, const struct plait_call *call)
{
    return moving(comm, (struct args){ PLAIT_REDUCE, type, op, root, false, count, in, out }, call);
}

enum plait_status plait_gather(struct plait_comm *comm, const void *in, void *out, size_t count, enum plait_dtype type,
                               uint32_t root, const struct plait_call *call)
{
    return moving(comm, (struct args){ PLAIT_GATHER, type, 0, root, false, count, in, out }, call);
}

enum plait_status plait_scatter(struct plait_comm *comm, const void *in, void *out, size_t count, enum plait_dtype type,
                                uint32_t root, const struct plait_call *call)
{
    return moving(comm, (struct args){ PLAIT_SCATTER, type, 0, root, false, count, in, out }, call);
}

enum plait_status plait_alltoall(struct plait_comm *comm, const void *in, void *out, size_t count,
                                 enum plait_dtype type, const struct plait_call *call)
{
    return moving(comm, (struct args){ PLAIT_ALLTOALL, type, 0, 0, false, count, in, out }, call);
}

/* ---- Blocks of different sizes ---------------------------------------------------------------------- */

/* Where the slots of a side start: the caller's, or one behind the other. Bytes that they cover; SIZE_MAX: too many. */
static size_t place_slots(const size_t *counts, const size_t *starts, uint32_t n, size_t size, size_t *own,
                          const size_t **out, size_t *most)
{
    size_t end = 0;

    *out = starts != NULL ? starts : own;
    for (uint32_t i = 0; i < n; i++) {
        own[i] = end;
        if (counts[i] > MOST_BYTES / size || (*out)[i] > MOST_BYTES / size)
            return SIZE_MAX;
        end = (*out)[i] + counts[i] > end ? (*out)[i] + counts[i] : end;
        *most = counts[i] > *most ? counts[i] : *most;
    }
    return end <= MOST_BYTES / size ? end * size : SIZE_MAX;
}

struct sized { /* a side of a call; NULL counts where the rank has no such buffer */
    const size_t *counts, *starts;
};

/* This rank's block of those whose counts all ranks know. */
static struct sized own_of(const struct plait_comm *comm, const size_t *counts)
{
    return (struct sized){ comm != NULL && counts != NULL ? &counts[comm->rank] : NULL, NULL };
}

static enum plait_status sized(struct plait_comm *comm, struct args a, struct sized in, struct sized out,
                               const struct plait_call *call)
{
    const char *name = plait_coll_name(a.coll);
    enum plait_status status = enter(comm, name, a.op, call);

    if (status == PLAIT_OK)
        status = plait_check_operation(comm->kernels, a.coll, comm->nrank, 0, a.type, a.op, call);
    if (status == PLAIT_OK && a.root >= comm->nrank)
        status = plait_fail(PLAIT_ERR_ARG, "%sv: root is %u, but the comm has %u ranks", name, a.root, comm->nrank);
    if (status != PLAIT_OK)
        return status;
    const struct plait_geometry g = plait_geometry_of(a.coll, comm->nrank, a.root, comm->rank, 1);
    const size_t size = plait_dtype_size(a.type);
    if ((g.in.nslot > 0 && in.counts == NULL) || (g.out.nslot > 0 && out.counts == NULL))
        return plait_fail(PLAIT_ERR_ARG, "%sv: the counts of %s are NULL", name,
                          g.in.nslot > 0 && in.counts == NULL ? "in" : "out");
    if (comm->starts == NULL && (comm->starts = malloc(2 * comm->nrank * sizeof *comm->starts)) == NULL)
        return cannot_begin(comm, plait_fail_memory("out of memory for an operation"), &a);
    struct plait_sizes v = { .in = in.counts, .out = out.counts };
    const size_t in_bytes = place_slots(in.counts, in.starts, g.in.nslot, size, comm->starts, &v.in_at, &v.most);
    const size_t out_bytes =
        place_slots(out.counts, out.starts, g.out.nslot, size, comm->starts + comm->nrank, &v.out_at, &v.most);
    if (in_bytes == SIZE_MAX || out_bytes == SIZE_MAX)
        return plait_fail(PLAIT_ERR_ARG, "%sv: a count or start of %s is more than fits in memory", name,
                          in_bytes == SIZE_MAX ? "in" : "out");
    if (g.kind == PLAIT_KIND_PART && g.in.nslot > 0 && g.out.nslot > 0 && a.in != NULL && a.out != NULL)
        a.alias = (const char *)a.in + v.in_at[plait_side_slot(&g.in, comm->rank)] * size ==
                      (const char *)a.out + v.out_at[plait_side_slot(&g.out, comm->rank)] * size &&
                  in_bytes > 0 && out_bytes > 0;
    a.alias |= in_bytes == 0 || out_bytes == 0; /* nothing overlaps */
    if (!buffers_fit(&a, in_bytes, out_bytes))
        return wrong_buffers(&a, &g, in_bytes, out_bytes);
    const uint32_t own = g.kind == PLAIT_KIND_PAIR ? comm->rank * comm->nrank + comm->rank : comm->rank;
    const uint32_t own_in = plait_side_slot(&g.in, own), own_out = plait_side_slot(&g.out, own);
    if (own_in != UINT32_MAX && own_out != UINT32_MAX && v.in[own_in] != v.out[own_out])
        return plait_fail(PLAIT_ERR_ARG, "%sv: rank %u gives itself %zu elements and expects %zu", name, comm->rank,
                          v.in[own_in], v.out[own_out]);
    v.in_end = in_bytes / size;
    comm->sizes = v;
    a.sized = true;
    /* A rank with an empty part cannot tell: where all must agree the plan is the one out of place, which reads this
     * rank's part before it writes it. */
    a.inplace = g.rooted && plait_works_inplace(a.coll, a.alias, call);
    status = find_op_plan(comm, &a, call);
    return status == PLAIT_OK ? run(comm, comm->last, a.in, a.out, call) : cannot_begin(comm, status, &a);
}

enum plait_status plait_reduce_scatterv(struct plait_comm *comm, const void *in, void *out, const size_t *counts,
                                        const size_t *starts, enum plait_dtype type, enum plait_op op,
                                        const struct plait_call *call)
{
    return sized(comm, (struct args){ PLAIT_REDUCE_SCATTER, type, op, .in = in, .out = out },
                 (struct sized){ counts, starts }, own_of(comm, counts), call);
}

enum plait_status plait_allgatherv(struct plait_comm *comm, const void *in, void *out, const size_t *counts,
                                   const size_t *starts, enum plait_dtype type, const struct plait_call *call)
{
    return sized(comm, (struct args){ PLAIT_ALLGATHER, type, .in = in, .out = out }, own_of(comm, counts),
                 (struct sized){ counts, starts }, call);
}

enum plait_status plait_gatherv(struct plait_comm *comm, const void *in, size_t count, void *out, const size_t *counts,
                                const size_t *starts, enum plait_dtype type, uint32_t root,
                                const struct plait_call *call)
{
    return sized(comm, (struct args){ PLAIT_GATHER, type, 0, root, .in = in, .out = out },
                 (struct sized){ &count, NULL }, (struct sized){ counts, starts }, call);
}

enum plait_status plait_scatterv(struct plait_comm *comm, const void *in, const size_t *counts, const size_t *starts,
                                 void *out, size_t count, enum plait_dtype type, uint32_t root,
                                 const struct plait_call *call)
{
    return sized(comm, (struct args){ PLAIT_SCATTER, type, 0, root, .in = in, .out = out },
                 (struct sized){ counts, starts }, (struct sized){ &count, NULL }, call);
}

enum plait_status plait_alltoallv(struct plait_comm *comm, const void *in, const size_t *in_counts,
                                  const size_t *in_starts, void *out, const size_t *out_counts,
                                  const size_t *out_starts, enum plait_dtype type, const struct plait_call *call)
{
    return sized(comm, (struct args){ PLAIT_ALLTOALL, type, .in = in, .out = out },
                 (struct sized){ in_counts, in_starts }, (struct sized){ out_counts, out_starts }, call);
}

enum plait_status plait_comm_choose(const struct plait_comm *comm, enum plait_coll coll, size_t count,
                                    enum plait_dtype type, enum plait_op op, int inplace, const struct plait_call *call,
                                    struct plait_choice *out)
{
    struct plait_shape shape;
    struct plait_selection s;
    struct plait_wish wish;
    char spec[PLAIT_MAX_SPEC];
    enum plait_status status;

    if (comm == NULL || out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_comm_choose: %s is NULL", comm == NULL ? "comm" : "out");
    if ((unsigned)coll >= PLAIT_NCOLL)
        return plait_fail(PLAIT_ERR_ARG, "plait_comm_choose: coll is %d, which is no enum plait_coll", (int)coll);
    status = plait_check_operation(comm->kernels, coll, comm->nrank, count, type, op, call);
    if (status != PLAIT_OK)
        return status;
    shape = shape_of(comm, coll, 0, plait_works_inplace(coll, inplace != 0, call));
    wish_of(comm, coll, false, call != NULL ? call : &no_wishes, spec, &wish);
    status = plait_select(&shape, count, type, &wish, &s);
    if (status == PLAIT_OK)
        plait_explain(&s, plait_dtype_size(type), out);
    return status;
}
