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

static enum plait_status check_type(const struct plait_kernels *kernels, enum plait_dtype type, enum plait_op op)
{
    if ((unsigned)type >= PLAIT_NDTYPE || plait_dtype_size(type) == 0)
        return plait_fail(PLAIT_ERR_ARG, "allreduce: type is %d, which is no enum plait_dtype of this version",
                          (int)type);
    if ((unsigned)op >= PLAIT_NOP)
        return plait_fail(PLAIT_ERR_ARG, "allreduce: op is %d, which is no enum plait_op", (int)op);
    if (plait_reduce_find(kernels, type, op) == NULL)
        return plait_fail(PLAIT_ERR_UNSUPPORTED, "allreduce: no kernel for type %s with op %s", plait_dtype_name(type),
                          plait_op_name(op));
    return PLAIT_OK;
}

static enum plait_status check_count(size_t count, size_t size)
{
    if (count > MOST_BYTES / size)
        return plait_fail(PLAIT_ERR_ARG,
                          "allreduce: count is %zu, more than fits in memory; it counts elements of %zu bytes", count,
                          size);
    return PLAIT_OK;
}

static enum plait_status check_buffers(const void *in, const void *out, size_t bytes)
{
    const uintptr_t a = (uintptr_t)in, b = (uintptr_t)out;

    if (bytes > 0 && (in == NULL || out == NULL))
        return plait_fail(PLAIT_ERR_ARG, "allreduce: %s is NULL, but count is not 0", in == NULL ? "in" : "out");
    if (a != b && a < b + bytes && b < a + bytes)
        return plait_fail(PLAIT_ERR_ARG,
                          "allreduce: in %p and out %p overlap within %zu bytes; they must be equal or apart", in, out,
                          bytes);
    return PLAIT_OK;
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

enum plait_status plait_check_operation(const struct plait_kernels *kernels, size_t count, enum plait_dtype type,
                                        enum plait_op op, const struct plait_call *call)
{
    enum plait_status status = check_type(kernels, type, op);

    if (status == PLAIT_OK)
        status = check_count(count, plait_dtype_size(type));
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
static inline bool fits(const struct plait_op_plan *o, enum plait_coll coll, size_t count, enum plait_dtype type,
                        enum plait_op op, bool inplace, const struct plait_call *call)
{
    return o->count == count && o->type == type && o->op == op && o->inplace == inplace && o->coll == coll &&
           (call != NULL ? same_wishes(o, call) : o->plain);
}

static void wish_of(const struct plait_comm *comm, enum plait_coll coll, const struct plait_call *call,
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
    };
}

/* Plans know the all-reduce only; a barrier is the all-reduce of nothing. */
static struct plait_shape shape_of(const struct plait_comm *comm, bool inplace)
{
    return (
        struct plait_shape){ .coll = PLAIT_ALLREDUCE, .nrank = comm->nrank, .inplace = inplace, .node = comm->node };
}

static enum plait_status find_prog(struct plait_comm *comm, const struct plait_shape *shape,
                                   const struct plait_selection *s, bool average, struct plait_prog **out)
{
    for (struct plait_prog *p = comm->progs; p != NULL; p = p->next)
        if (p->alg == s->alg && p->inplace == shape->inplace && p->round == s->round && p->average == average &&
            strcmp(p->spec, s->spec) == 0) {
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
    const uint64_t fields[] = {
        o->coll, o->type, o->op, o->count, o->selection.plan_hash, o->prog != NULL ? o->prog->hash : 0, o->what.ordered
    };
    const uint64_t h = plait_hash(PLAIT_HASH_START, fields, sizeof fields);
    return PLAIT_GUARDS ? (uint32_t)(h ^ h >> 32) : 0;
}

static void describe(const struct plait_op_plan *o, struct plait_what *out)
{
    *out = (struct plait_what){
        .count = o->count,
        .plan = o->selection.plan_hash,
        .coll = (uint8_t)o->coll,
        .type = (uint8_t)o->type,
        .op = (uint8_t)o->op,
        .inplace = o->inplace,
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
    struct plait_shape shape = shape_of(comm, o->inplace);
    struct plait_wish wish;
    char spec[PLAIT_MAX_SPEC];
    enum plait_status status;

    wish_of(comm, o->coll, &o->call, spec, &wish);
    status = plait_select(&shape, o->count, o->type, &wish, &o->selection);
    if (status == PLAIT_OK && !o->selection.tiny)
        status = find_prog(comm, &shape, &o->selection, o->op == PLAIT_AVG, &o->prog);
    if (status != PLAIT_OK)
        return status;
    o->size = plait_dtype_size(o->type);
    describe_how(o, comm->nrank);
    o->reduce = plait_reduce_find(comm->kernels, o->type, o->op);
    describe(o, &o->what);
    o->fingerprint = fingerprint_of(o);
    plait_comm_log(comm, PLAIT_LOG_DEBUG, "%s of %zu %s, %s: %s, because %s", plait_coll_name(o->coll), o->count,
                   plait_dtype_name(o->type), plait_op_name(o->op), o->selection.spec, o->selection.why);
    return PLAIT_OK;
}

static enum plait_status find_op_plan(struct plait_comm *comm, enum plait_coll coll, size_t count,
                                      enum plait_dtype type, enum plait_op op, bool inplace,
                                      const struct plait_call *options)
{
    const struct plait_call *call = options != NULL ? options : &no_wishes;
    const uint64_t key = count << 8 ^ (uint64_t)type << 4 ^ (uint64_t)op << 2 ^ (uint64_t)coll << 1 ^ inplace;
    struct plait_op_plan **place = &comm->op_plans[(key * 0x9e3779b97f4a7c15u) >> 56];
    struct plait_op_plan fresh = { .coll = coll,
                                   .type = type,
                                   .op = op,
                                   .inplace = inplace,
                                   .count = count,
                                   .plain = options == NULL,
                                   .call = *call };
    enum plait_status status;

    if (*place != NULL && fits(*place, coll, count, type, op, inplace, options)) {
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
static enum plait_status cannot_begin(struct plait_comm *comm, enum plait_status status, enum plait_coll coll,
                                      size_t count, enum plait_dtype type, enum plait_op op)
{
    char why[512];

    if (comm->failed != PLAIT_OK || (status != PLAIT_ERR_NOMEM && status != PLAIT_ERR_SYSTEM))
        return status;
    snprintf(why, sizeof why, "%s", plait_last_error());
    comm->sequence++; /* the last one is not to blame */
    return plait_comm_fail(comm, status, "cannot begin %s #%llu (%zu %s %s): %s", plait_coll_name(coll),
                           (unsigned long long)comm->sequence, count, plait_dtype_name(type), plait_op_name(op), why);
}

static enum plait_status run(struct plait_comm *comm, const struct plait_op_plan *o, const void *in, void *out,
                             const struct plait_call *call)
{
    enum plait_status status;

    if (PLAIT_GUARDS)
        comm->call = call; /* its deadline, if a wait is long */
    const uint32_t environment = plait_fpenv_enter();
    if (call != NULL && call->scale != NULL && o->count > 0) { /* on, in place */
        comm->kernels->scale[o->type](out, in, o->count, call->scale);
        in = out;
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

enum plait_status plait_allreduce(struct plait_comm *comm, const void *in, void *out, size_t count,
                                  enum plait_dtype type, enum plait_op op, const struct plait_call *call)
{
    enum plait_status status;

    if (comm == NULL)
        return plait_fail(PLAIT_ERR_ARG, "allreduce: comm is NULL");
    if (plait_comm_inherited(comm))
        return plait_comm_is_inherited(comm, "allreduce");
    if (has_failed(comm))
        return earlier_failure(comm);
    status = call != NULL ? check_call(call) : PLAIT_OK;
    if (status == PLAIT_OK && call != NULL)
        status = check_op(op, call);
    if (status != PLAIT_OK)
        return status;
    const bool inplace = (in == out || (call != NULL && call->scale != NULL)) && count > 0;
    if (comm->last == NULL || !fits(comm->last, PLAIT_ALLREDUCE, count, type, op, inplace, call)) {
        status = plait_check_operation(comm->kernels, count, type, op, call);
        if (status == PLAIT_OK)
            status = check_buffers(in, out, count * plait_dtype_size(type));
        if (status == PLAIT_OK)
            status = find_op_plan(comm, PLAIT_ALLREDUCE, count, type, op, inplace, call);
        if (status != PLAIT_OK)
            return cannot_begin(comm, status, PLAIT_ALLREDUCE, count, type, op);
    } else {
        status = check_buffers(in, out, count * comm->last->size);
    }
    return status == PLAIT_OK ? run(comm, comm->last, in, out, call) : status;
}

enum plait_status plait_barrier(struct plait_comm *comm, const struct plait_call *call)
{
    enum plait_status status;

    if (comm == NULL)
        return plait_fail(PLAIT_ERR_ARG, "barrier: comm is NULL");
    if (plait_comm_inherited(comm))
        return plait_comm_is_inherited(comm, "barrier");
    if (has_failed(comm))
        return earlier_failure(comm);
    status = call != NULL ? check_call(call) : PLAIT_OK;
    if (status == PLAIT_OK && call != NULL)
        status = check_op(PLAIT_SUM, call);
    if (status == PLAIT_OK &&
        (comm->last == NULL || !fits(comm->last, PLAIT_BARRIER, 0, PLAIT_INT32, PLAIT_SUM, false, call)))
        status = find_op_plan(comm, PLAIT_BARRIER, 0, PLAIT_INT32, PLAIT_SUM, false, call);
    if (status != PLAIT_OK)
        return cannot_begin(comm, status, PLAIT_BARRIER, 0, PLAIT_INT32, PLAIT_SUM);
    return run(comm, comm->last, NULL, NULL, call);
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
    status = plait_check_operation(comm->kernels, count, type, op, call);
    if (status != PLAIT_OK)
        return status;
    shape = shape_of(comm, inplace != 0);
    wish_of(comm, coll, call != NULL ? call : &no_wishes, spec, &wish);
    status = plait_select(&shape, count, type, &wish, &s);
    if (status == PLAIT_OK)
        plait_explain(&s, plait_dtype_size(type), out);
    return status;
}
