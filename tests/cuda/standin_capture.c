/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A capture keeps operations in the order in which they are queued. Each stream in it is a lane. A launch queues them
 * again: the first lane's on the stream of the launch, the others' on streams of the executable graph's own. Lanes wait
 * for each other only where an event was recorded and waited for, so a replay is as free as the capture was.
 */
#include "standin.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 16 };

struct node {
    struct op op;
    uint32_t lane;
};

struct graph {
    struct node *nodes;
    uint32_t nnode, room;
    uint32_t nlane, npoint;
    struct graph *body; /* of its conditional node; NULL: it has none */
    bool is_body;       /* another graph's */
};

struct point { /* where an event was recorded: how much of each lane is done then */
    uint32_t known[LANES];
};

struct capture {
    struct capture *next; /* of all */
    struct graph *graph;
    unsigned long long id;
    struct stream *origin;
    int mode;
    pthread_t thread;
    bool spoilt;
    struct stream *streams[LANES];
    uint32_t count[LANES];        /* operations of a lane */
    uint32_t known[LANES][LANES]; /* to a lane, of each lane */
    struct point *points;
};

struct executable {
    struct graph *graph;
    struct stream *lanes[LANES];
    struct record *last; /* of the latest launch */
};

static struct capture *captures;
static _Atomic unsigned long long ncapture; /* so far */
static _Thread_local int own_mode = VALUE_STREAM_CAPTURE_MODE_GLOBAL;

/* ---- Keeping ----------------------------------------------------------------------------------------------- */

static void graph_add(struct graph *g, struct op op, uint32_t lane)
{
    if (g->nnode == g->room) {
        g->room = g->room == 0 ? 64 : 2 * g->room;
        g->nodes = realloc(g->nodes, g->room * sizeof *g->nodes);
        if (g->nodes == NULL)
            die("out of memory for a graph");
    }
    g->nodes[g->nnode++] = (struct node){ op, lane };
}

int capture_put(struct stream *s, struct op op)
{
    struct capture *c = s->capture;

    if (c->spoilt)
        return CU_STREAM_CAPTURE_INVALIDATED;
    graph_add(c->graph, op, s->lane);
    c->known[s->lane][s->lane] = ++c->count[s->lane];
    return CU_OK;
}

int capture_record(struct stream *s, struct capture **capture, uint32_t *point)
{
    struct capture *c = s->capture;
    const uint32_t n = c->graph->npoint++;

    s->ncall++;
    const int status = capture_put(s, (struct op){ .what = DO_RECORD, .point = n });

    c->points = realloc(c->points, (n + 1) * sizeof *c->points);
    if (c->points == NULL)
        die("out of memory for a capture");
    memcpy(c->points[n].known, c->known[s->lane], sizeof c->points[n].known);
    *capture = c;
    *point = n;
    return status;
}

static bool is_going_on(const struct capture *capture)
{
    bool found = false;

    process_lock();
    for (const struct capture *c = captures; c != NULL; c = c->next)
        found |= c == capture;
    process_unlock();
    return found;
}

/* A stream that waits for a captured event is captured, too. */
int capture_await(struct stream *s, struct capture *c, uint32_t point)
{
    if (!is_going_on(c))
        return CU_INVALID_VALUE;
    if (s->capture != NULL && s->capture != c) {
        s->capture->spoilt = c->spoilt = true;
        return CU_STREAM_CAPTURE_MERGE;
    }
    if (s->capture == NULL) {
        if (c->graph->nlane == LANES)
            die("more than %d streams in one capture", LANES);
        s->lane = c->graph->nlane++;
        c->streams[s->lane] = s;
        s->capture = c;
    }
    s->ncall++;
    const int status = capture_put(s, (struct op){ .what = DO_AWAIT, .point = point });
    for (uint32_t i = 0; i < LANES; i++)
        if (c->known[s->lane][i] < c->points[point].known[i])
            c->known[s->lane][i] = c->points[point].known[i];
    return status;
}

/* ---- What is not allowed meanwhile --------------------------------------------------------------------------- */

int capture_unsafe(void)
{
    const pthread_t self = pthread_self();
    int status = CU_OK;

    process_lock();
    for (struct capture *c = captures; c != NULL; c = c->next) {
        const bool own = pthread_equal(c->thread, self) != 0 && c->mode != VALUE_STREAM_CAPTURE_MODE_RELAXED;
        const bool other = c->mode == VALUE_STREAM_CAPTURE_MODE_GLOBAL && own_mode == VALUE_STREAM_CAPTURE_MODE_GLOBAL;
        if (own_mode != VALUE_STREAM_CAPTURE_MODE_RELAXED && (own || other)) {
            c->spoilt = true;
            status = CU_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    process_unlock();
    return status;
}

int capture_spoil_all(void)
{
    int status = CU_OK;

    process_lock();
    for (struct capture *c = captures; c != NULL; c = c->next) {
        c->spoilt = true;
        status = CU_STREAM_CAPTURE_UNSUPPORTED;
    }
    process_unlock();
    return status;
}

int capture_spoil(struct stream *s)
{
    if (s->capture == NULL)
        return CU_OK;
    s->capture->spoilt = true;
    return CU_STREAM_CAPTURE_UNSUPPORTED;
}

EXPORT int cuThreadExchangeStreamCaptureMode(int *mode)
{
    CALL(false);
    const int was = own_mode;

    if (*mode < 0 || *mode > VALUE_STREAM_CAPTURE_MODE_RELAXED)
        return CU_INVALID_VALUE;
    own_mode = *mode;
    *mode = was;
    return CU_OK;
}

/* ---- Begin and end ----------------------------------------------------------------------------------------- */

static struct graph *graph_make(void)
{
    struct graph *g = calloc(1, sizeof *g);

    if (g == NULL)
        die("out of memory for a graph");
    return g;
}

static struct capture *capture_make(struct stream *s, int mode, struct graph *graph)
{
    struct capture *c = calloc(1, sizeof *c);

    if (c == NULL)
        die("out of memory for a capture");
    c->graph = graph;
    c->id = atomic_fetch_add(&ncapture, 1);
    c->origin = c->streams[0] = s;
    c->graph->nlane = 1;
    c->mode = mode;
    c->thread = pthread_self();
    return c;
}

/* body: what is captured becomes it; NULL: a graph of its own */
static int begin(void *stream, int mode, struct graph *body)
{
    struct stream *s;
    const int status = stream_find(stream, &s);

    if (status != CU_OK)
        return status;
    if ((uintptr_t)stream <= 1)
        return CU_STREAM_CAPTURE_UNSUPPORTED;
    if (s->capture != NULL || mode < 0 || mode > VALUE_STREAM_CAPTURE_MODE_RELAXED)
        return CU_INVALID_VALUE;
    struct capture *c = capture_make(s, mode, body != NULL ? body : graph_make());
    s->lane = 0;
    s->capture = c;
    process_lock();
    c->next = captures;
    captures = c;
    process_unlock();
    return CU_OK;
}

EXPORT int cuStreamBeginCapture_v2(void *stream, int mode)
{
    CALL(true);
    return begin(stream, mode, NULL);
}

EXPORT int cuStreamBeginCaptureToGraph(void *stream, void *graph, void *const *after, const void *edges, size_t nafter,
                                       int mode)
{
    CALL(true);
    struct graph *body = graph;

    (void)after, (void)edges;
    if (nafter > 0 || !body->is_body || body->nnode > 0)
        return CU_NOT_SUPPORTED; /* a driver does */
    return begin(stream, mode, body);
}

static void graph_free(struct graph *g)
{
    if (g->body != NULL)
        graph_free(g->body);
    for (uint32_t i = 0; i < g->nnode; i++)
        free(g->nodes[i].op.argument);
    free(g->nodes);
    free(g);
}

/* Does the first lane wait, in the end, for all others? */
static bool is_joined(const struct capture *c)
{
    for (uint32_t i = 1; i < c->graph->nlane; i++)
        if (c->known[0][i] < c->count[i])
            return false;
    return true;
}

static void capture_leave(struct capture *c)
{
    process_lock();
    for (struct capture **link = &captures; *link != NULL; link = &(*link)->next)
        if (*link == c) {
            *link = c->next;
            break;
        }
    process_unlock();
    for (uint32_t i = 0; i < c->graph->nlane; i++)
        c->streams[i]->capture = NULL;
}

EXPORT int cuStreamEndCapture(void *stream, void **out)
{
    CALL(true);
    struct stream *s;
    int status = stream_find(stream, &s);

    if (status != CU_OK)
        return status;
    struct capture *c = s->capture;
    if (c == NULL)
        return CU_INVALID_VALUE;
    if (c->origin != s)
        return CU_STREAM_CAPTURE_UNMATCHED;
    if (c->mode != VALUE_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(c->thread, pthread_self()))
        return CU_STREAM_CAPTURE_WRONG_THREAD;
    status = c->spoilt ? CU_STREAM_CAPTURE_INVALIDATED : is_joined(c) ? CU_OK : CU_STREAM_CAPTURE_UNJOINED;
    capture_leave(c);
    *out = status == CU_OK ? c->graph : NULL;
    if (status != CU_OK && !c->graph->is_body)
        graph_free(c->graph);
    free(c->points);
    free(c);
    return status;
}

EXPORT int cuStreamGetCaptureInfo(void *stream, int *out, unsigned long long *id)
{
    CALL(true);
    struct stream *s;
    const int status = stream_find(stream, &s);

    if (status == CU_OK && s->capture != NULL)
        *id = s->capture->id;
    if (status == CU_OK)
        *out = s->capture == NULL   ? VALUE_STREAM_CAPTURE_STATUS_NONE
               : s->capture->spoilt ? VALUE_STREAM_CAPTURE_STATUS_INVALIDATED
                                    : VALUE_STREAM_CAPTURE_STATUS_ACTIVE;
    return status;
}

/* ---- Graphs ------------------------------------------------------------------------------------------------ */

static struct op op_copy(const struct op *op)
{
    struct op copy = *op;

    if (op->argument != NULL) {
        const uint64_t bytes = op->what == DO_LIBRARY ? library_bytes(op) : op->kernel->bytes;
        copy.argument = malloc(bytes);
        if (copy.argument == NULL)
            die("out of memory");
        memcpy(copy.argument, op->argument, bytes);
    }
    return copy;
}

static struct graph *graph_copy(const struct graph *g)
{
    struct graph *copy = graph_make();

    for (uint32_t i = 0; i < g->nnode; i++)
        graph_add(copy, op_copy(&g->nodes[i].op), g->nodes[i].lane);
    copy->nlane = g->nlane;
    copy->npoint = g->npoint;
    return copy;
}

EXPORT int cuGraphCreate(void **out, unsigned flags)
{
    CALL(false);
    (void)flags;
    *out = graph_make();
    return CU_OK;
}

EXPORT int cuGraphConditionalHandleCreate(unsigned long long *out, void *graph, void *context, unsigned value,
                                          unsigned flags)
{
    CALL(true);
    (void)graph, (void)context, (void)value, (void)flags;
    *out = 1;
    return CU_OK;
}

/* A conditional node with one body. */
EXPORT int cuGraphAddNode_v2(void **out, void *graph, void *const *after, const void *edges, size_t nafter,
                             cu_node_params *node)
{
    CALL(true);
    struct graph *g = graph;

    (void)after, (void)edges;
    if (node->type != VALUE_GRAPH_NODE_TYPE_CONDITIONAL || node->of.conditional.size != 1 || nafter > 0 ||
        g->body != NULL)
        return CU_NOT_SUPPORTED; /* a driver does */
    g->body = graph_make();
    g->body->is_body = true;
    node->of.conditional.graphs = (void **)&g->body;
    *out = g->body;
    return CU_OK;
}

/* Kernels, copies and memsets may be in the body of a conditional node, but no host functions and no values. */
static bool may_be_body(const struct graph *g)
{
    bool may = true;

    for (uint32_t i = 0; i < g->nnode; i++)
        may &= g->nodes[i].op.what != DO_CALL && g->nodes[i].op.what != DO_WRITE && g->nodes[i].op.what != DO_WAIT;
    return may;
}

EXPORT int cuGraphInstantiateWithFlags(void **out, void *graph, unsigned long long flags)
{
    CALL(true);
    const struct graph *g = graph;

    if (g->body != NULL)
        return may_be_body(g->body) ? CU_NOT_SUPPORTED : CU_INVALID_VALUE; /* a driver makes what may be */
    struct executable *x = calloc(1, sizeof *x);

    (void)flags;
    driver_lock(); /* as a driver does: it waits for copies that wait for their streams */
    driver_unlock();
    if (x == NULL)
        return CU_OUT_OF_MEMORY;
    x->graph = graph_copy(graph);
    for (uint32_t i = 1; i < x->graph->nlane; i++)
        stream_make(context_now(), VALUE_STREAM_NON_BLOCKING, 0, &x->lanes[i]);
    *out = x;
    return CU_OK;
}

static void replay(const struct executable *x, struct stream *s)
{
    const struct graph *g = x->graph;
    struct record **points = calloc(g->npoint + 1, sizeof *points);

    for (uint32_t i = 0; points != NULL && i < g->npoint; i++)
        points[i] = record_make();
    for (uint32_t i = 0; points != NULL && i < g->nnode; i++) {
        struct op op = op_copy(&g->nodes[i].op);
        if (op.what == DO_RECORD || op.what == DO_AWAIT)
            op.record = record_hold(points[op.point]);
        stream_put_now(g->nodes[i].lane == 0 ? s : x->lanes[g->nodes[i].lane], op);
    }
    for (uint32_t i = 0; points != NULL && i < g->npoint; i++)
        record_drop(points[i]);
    free(points);
}

/* One launch of an executable graph begins when the one before has ended. */
EXPORT int cuGraphLaunch(void *executable, void *stream)
{
    CALL(true);
    struct executable *x = executable;
    struct stream *s;
    const int status = stream_find(stream, &s);

    if (status != CU_OK)
        return status;
    if (s->capture != NULL)
        return capture_spoil(s);
    stream_put(s, x->last != NULL ? (struct op){ .what = DO_AWAIT, .record = x->last }
                                  : (struct op){ .what = DO_RECORD, .record = record_make() });
    replay(x, s);
    x->last = record_make();
    return stream_put_now(s, (struct op){ .what = DO_RECORD, .record = record_hold(x->last) });
}

EXPORT int cuGraphUpload(void *executable, void *stream)
{
    CALL(true);
    (void)executable, (void)stream;
    return CU_OK;
}

EXPORT int cuGraphGetNodes(void *graph, void **nodes, size_t *n)
{
    CALL(false);
    const struct graph *g = graph;

    if (nodes != NULL)
        return CU_NOT_SUPPORTED;
    *n = 0;
    for (uint32_t i = 0; i < g->nnode; i++)
        *n += !g->nodes[i].op.joined && g->nodes[i].op.what != DO_RECORD && g->nodes[i].op.what != DO_AWAIT;
    return CU_OK;
}

EXPORT int cuGraphExecDestroy(void *executable)
{
    CALL(true);
    struct executable *x = executable;

    for (uint32_t i = 1; i < x->graph->nlane; i++)
        stream_end(x->lanes[i]);
    record_drop(x->last);
    graph_free(x->graph);
    free(x);
    return CU_OK;
}

EXPORT int cuGraphDestroy(void *graph)
{
    CALL(true);
    graph_free(graph);
    return CU_OK;
}
