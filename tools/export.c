/* SPDX-License-Identifier: BSD-3-Clause */
#include "export.h"

#include "message.h"
#include "names.h"
#include "option.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LANES 256

/* ---- GOAL --------------------------------------------------------------------------------------------- */

struct item { /* a step as it is written */
    enum plait_verb verb;
    uint32_t number, rank, peer, tag;
    uint64_t bytes;
    double ns; /* of a computation */
    const uint32_t *deps;
    uint32_t ndep;
};

static void write_goal(FILE *f, const struct item *x)
{
    fprintf(f, "l%" PRIu32 ": ", x->number);
    if (x->verb == PLAIT_STEP_SEND)
        fprintf(f, "send %" PRIu64 "b to %" PRIu32 " tag %" PRIu32 "\n", x->bytes, x->peer, x->tag);
    else if (x->verb == PLAIT_STEP_RECV)
        fprintf(f, "recv %" PRIu64 "b from %" PRIu32 " tag %" PRIu32 "\n", x->bytes, x->peer, x->tag);
    else
        fprintf(f, "calc %.0f\n", x->ns);
    for (uint32_t d = 0; d < x->ndep; d++)
        fprintf(f, "l%" PRIu32 " requires l%" PRIu32 "\n", x->number, x->deps[d]);
}

/* ---- Chakra ------------------------------------------------------------------------------------------- */

/*
 * A trace is a sequence of protobuf messages, each after its length: one of metadata, then the nodes. The numbers are
 * those of Chakra's schema. Five kinds of fields are all it needs, so there is no library for them.
 */
enum { VARINT = 0, BYTES = 2 }; /* wire types */
enum { NODE_ID = 1, NODE_NAME, NODE_TYPE, NODE_DATA_DEPS = 5, NODE_DURATION = 7, NODE_ATTRIBUTE = 10 };
enum { ATTRIBUTE_NAME = 1, INT32_VALUE = 7, INT64_VALUE = 9, BOOL_VALUE = 27 };
enum { COMPUTE_NODE = 4, SEND_NODE, RECV_NODE };

struct text { /* fits a node without dependencies */
    unsigned char at[512];
    size_t n;
};

static size_t varint(unsigned char out[10], uint64_t v)
{
    size_t n = 0;

    for (; v >= 128; v >>= 7)
        out[n++] = (unsigned char)(v | 128);
    out[n++] = (unsigned char)v;
    return n;
}

static void put_varint(struct text *t, uint64_t v)
{
    t->n += varint(t->at + t->n, v);
}

static void put_number(struct text *t, uint32_t field, uint64_t v)
{
    put_varint(t, field << 3 | VARINT);
    put_varint(t, v);
}

static void put_bytes(struct text *t, uint32_t field, const void *bytes, size_t n)
{
    put_varint(t, field << 3 | BYTES);
    put_varint(t, n);
    memcpy(t->at + t->n, bytes, n);
    t->n += n;
}

static void put_attribute(struct text *t, const char *name, uint32_t field, uint64_t v)
{
    struct text a = { .n = 0 };

    put_bytes(&a, ATTRIBUTE_NAME, name, strlen(name));
    put_number(&a, field, v);
    put_bytes(t, NODE_ATTRIBUTE, a.at, a.n);
}

static void write_node(FILE *f, const struct item *x)
{
    static const char *const names[] = { "SEND", "RECV", "COPY", "REDUCE" };
    const bool message = x->verb == PLAIT_STEP_SEND || x->verb == PLAIT_STEP_RECV, send = x->verb == PLAIT_STEP_SEND;
    struct text t = { .n = 0 };
    unsigned char number[10];
    size_t deps = 0;

    put_number(&t, NODE_ID, x->number);
    put_bytes(&t, NODE_NAME, names[x->verb], strlen(names[x->verb]));
    put_number(&t, NODE_TYPE, send ? SEND_NODE : message ? RECV_NODE : COMPUTE_NODE);
    if (!message)
        put_number(&t, NODE_DURATION, (uint64_t)(x->ns / 1000 + 0.5));
    put_attribute(&t, "is_cpu_op", BOOL_VALUE, 0);
    if (message) {
        put_attribute(&t, "comm_src", INT32_VALUE, send ? x->rank : x->peer);
        put_attribute(&t, "comm_dst", INT32_VALUE, send ? x->peer : x->rank);
        put_attribute(&t, "comm_tag", INT32_VALUE, x->tag);
        put_attribute(&t, "comm_size", INT64_VALUE, x->bytes);
    }
    for (uint32_t d = 0; d < x->ndep; d++)
        deps += varint(number, x->deps[d]);
    if (x->ndep > 0) { /* packed numbers, the node's last field */
        put_varint(&t, NODE_DATA_DEPS << 3 | BYTES);
        put_varint(&t, deps);
    }
    fwrite(number, 1, varint(number, t.n + deps), f);
    fwrite(t.at, 1, t.n, f);
    for (uint32_t d = 0; d < x->ndep; d++)
        fwrite(number, 1, varint(number, x->deps[d]), f);
}

static void write_metadata(FILE *f)
{
    static const char version[] = "0.0.4";
    struct text t = { .n = 0 };

    put_bytes(&t, 1, version, strlen(version));
    fputc((int)t.n, f);
    fwrite(t.at, 1, t.n, f);
}

/* ---- Plans -------------------------------------------------------------------------------------------- */

static uint64_t bytes_of(const struct plait_plan *plan, const struct plait_step *s, size_t count)
{
    const bool vector = plait_geometry_of((enum plait_coll)plan->coll, 1, 0, 0, 1).kind == PLAIT_KIND_VECTOR;

    if (!vector || s->blk == PLAIT_AS_LIES)
        return s->nblk * (vector ? count / plan->nblk : count) * sizeof(float);
    return (plait_block_start(count, plan->nblk, s->blk + s->nblk) - plait_block_start(count, plan->nblk, s->blk)) *
           sizeof(float);
}

/* numbers: [2][nrank][LANES] messages so far; the k-th SEND of a lane pairs with the k-th RECV. */
static struct item item_of(const struct plait_machine *m, const struct plait_plan *plan, uint32_t i, size_t count,
                           uint32_t *numbers)
{
    const struct plait_step *s = &plan->step[i];
    const uint64_t rate = m == NULL ? 0 : s->verb == PLAIT_STEP_REDUCE ? m->reduce : m->copy;
    struct item x = { .verb = (enum plait_verb)s->verb,
                      .number = i,
                      .rank = plan->rank,
                      .bytes = bytes_of(plan, s, count),
                      .deps = plait_plan_deps(plan) + s->dep0,
                      .ndep = s->ndep };

    x.ns = rate > 0 ? 1e9 * (double)x.bytes / (double)rate : 0;
    if (s->peer >= 0) {
        const size_t side = s->verb == PLAIT_STEP_SEND ? 0 : plan->nrank;
        x.peer = (uint32_t)s->peer;
        x.tag = numbers[(side + x.peer) * LANES + s->lane]++ * LANES + s->lane;
    }
    return x;
}

static void write_plan(enum export_format format, FILE *f, const struct plait_machine *m, const struct plait_plan *plan,
                       size_t count, uint32_t *numbers)
{
    if (format == EXPORT_GOAL)
        fprintf(f, "\nrank %" PRIu32 " {\n", plan->rank);
    else
        write_metadata(f);
    for (uint32_t i = 0; i < plan->nstep; i++) {
        const struct item x = item_of(m, plan, i, count, numbers);
        if (format == EXPORT_GOAL)
            write_goal(f, &x);
        else
            write_node(f, &x);
    }
    if (format == EXPORT_GOAL)
        fprintf(f, "}\n");
}

static bool write_rank(enum export_format format, const char *prefix, const struct plait_machine *m,
                       const struct plait_alg *alg, const struct plait_shape *shape, uint32_t rank, size_t count)
{
    uint32_t *numbers = calloc(2 * (size_t)shape->nrank * LANES, sizeof *numbers);
    struct plait_plan *plan = NULL;
    char path[4096];
    FILE *f = stdout;
    bool ok = numbers != NULL && plait_plan_emit(alg, shape, rank, &plan) == PLAIT_OK;

    if (!ok)
        complain("rank %" PRIu32 ": %s", rank, numbers != NULL ? plait_last_error() : "out of memory");
    snprintf(path, sizeof path, "%s.%" PRIu32 ".et", prefix != NULL ? prefix : "", rank);
    if (ok && format == EXPORT_CHAKRA && (f = fopen(path, "wbe")) == NULL)
        ok = false;
    if (f != NULL && plan != NULL)
        write_plan(format, f, m, plan, count, numbers);
    if (f == NULL || (f != stdout && fclose(f) != 0)) {
        complain("%s: %s", path, strerror(errno));
        ok = false;
    }
    plait_plan_destroy(plan);
    free(numbers);
    return ok;
}

int export_plans(enum export_format format, const char *prefix, const struct plait_machine *machine,
                 const struct plait_shape *shape, const char *spec, size_t count)
{
    struct plait_shape s = *shape;
    const struct plait_alg *alg;

    if (plait_alg_find(name_algorithms(), spec, &s, &alg) != PLAIT_OK)
        option_misuse("%s", plait_last_error());
    if (format == EXPORT_GOAL)
        printf("num_ranks %" PRIu32 "\n", s.nrank);
    for (uint32_t r = 0; r < s.nrank; r++)
        if (!write_rank(format, prefix, machine, alg, &s, r, count))
            return 1;
    return 0;
}
