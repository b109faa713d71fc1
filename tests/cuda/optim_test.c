/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The optimiser on a device's memory, in the order of a stream: the bits of the host's, which makes the same steps.
 * Weights and gradients are small whole numbers before each step, so that norms are exact whatever the order of their sums.
 */
#include "../places.h"
#include "../ranks.h"
#include "../tier.h"
#include "device.h"
#include "unit_device.h"

#include <plait/fusion.h>
#include <plait/memory.h>
#include <plait/optim.h>

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* One tensor is longer than two pieces, the last has no norm. */
enum { NTENSOR = 7, MOST = 9001, NSTEP = 4, NRANK = 3, AREA = NTENSOR * MOST * sizeof(float), ROOM = 2 * AREA };
static const size_t counts[NTENSOR] = { 5, 1000, 64, 333, MOST, 1, 40 };

struct kind {
    enum plait_optim_method method;
    enum plait_dtype type, copy_type;
    int nesterov, lr_in_momentum;
    bool cut; /* sharded: a part of each tensor on each rank; else whole tensors */
};

static const struct kind kinds[] = {
    { PLAIT_OPTIM_LARS, PLAIT_FLOAT32, PLAIT_FLOAT16, 0, 1, false },
    { PLAIT_OPTIM_LARS, PLAIT_FLOAT16, PLAIT_FLOAT32, 1, 0, true },
    { PLAIT_OPTIM_SGD, PLAIT_BFLOAT16, PLAIT_BFLOAT16, 0, 0, false },
    { PLAIT_OPTIM_SGD, PLAIT_FLOAT32, PLAIT_FLOAT8E4M3, 1, 1, true },
};
#define NKIND (sizeof kinds / sizeof *kinds)

struct side { /* the host's, or a device's: where tensor t's are */
    char *gradient[NTENSOR], *master[NTENSOR], *copy[NTENSOR];
    struct plait_optim *optim;
    struct plait_optim_part parts[NTENSOR];
    size_t start[NTENSOR]; /* of the part: elements */
    uint32_t npart;
};

struct model {
    struct device_rank d;
    const struct kind *kind;
    struct side host, gpu;          /* the host's: all tensors on each rank */
    struct plait_loss_scale *scale; /* the device's; or NULL */
    char *room;                     /* host's */
};

static int value(uint32_t what, uint32_t t, size_t i)
{
    return t == NTENSOR - 1 && what % 2 == 0 ? 0 : (int)((i * 7 + t * 3 + what * 5) % 9) - 4;
}

/* Small whole numbers are the same in every type that is narrowed by cutting bits off. */
static void put(char *at, enum plait_dtype type, size_t i, int v)
{
    const float f = (float)v;
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    if (type == PLAIT_FLOAT32) {
        memcpy(at + 4 * i, &f, sizeof f);
    } else if (type == PLAIT_BFLOAT16) {
        memcpy(at + 2 * i, (char *)&bits + 2, 2);
    } else {
        const uint32_t half =
            v == 0 ? 0 : (bits >> 16 & 0x8000) | (((bits >> 23 & 0xff) - 112) << 10) | (bits >> 13 & 0x3ff);
        memcpy(at + 2 * i, &half, 2);
    }
}

static size_t bytes_of(uint32_t t, enum plait_dtype type)
{
    return counts[t] * plait_dtype_size(type);
}

static struct plait_optim_options options_of(const struct kind *k)
{
    struct plait_optim_options o = PLAIT_OPTIM_OPTIONS_DEFAULT;

    o.method = k->method;
    o.ntensor = NTENSOR;
    o.nesterov = k->nesterov;
    o.lr_in_momentum = k->lr_in_momentum;
    o.eta = 0.02;
    o.decay = 0.01;
    return o;
}

static struct plait_optim_step step_of(uint32_t step)
{
    struct plait_optim_step s = PLAIT_OPTIM_STEP_DEFAULT;

    s.lr = 0.1 * (step + 1);
    s.factor = 0.5;
    return s;
}

/* Parts: all tensors; or this rank's of them. */
static void make_parts(struct side *s, const struct kind *k, uint32_t rank, uint32_t nrank)
{
    s->npart = 0;
    for (uint32_t t = 0; t < NTENSOR; t++) {
        const size_t start = k->cut ? counts[t] * rank / nrank : 0,
                     end = k->cut ? counts[t] * (rank + 1) / nrank : counts[t];
        if (end == start || (!k->cut && t % nrank != rank))
            continue;
        s->start[s->npart] = start;
        s->parts[s->npart++] =
            (struct plait_optim_part){ .tensor = t,
                                       .count = end - start,
                                       .gradient = s->gradient[t] + start * plait_dtype_size(k->type),
                                       .type = k->type,
                                       .master = (float *)(void *)s->master[t] + start,
                                       .copy = t % 2 ? s->copy[t] + start * plait_dtype_size(k->copy_type) : NULL,
                                       .copy_type = k->copy_type,
                                       .flags = t == 2 ? PLAIT_OPTIM_PLAIN : 0 };
    }
}

/*
 * A model on the host, whole, and one on the device, of which this rank has a part. comm: NULL, it has all. scale: of the
 * device's optimiser, or NULL; the host's has none.
 */
static int begin_scaled(struct model *m, const struct kind *k, uint32_t rank, struct plait_comm *comm,
                        const struct plait_loss_scale *scale)
{
    struct plait_optim_options o = options_of(k);

    m->kind = k;
    CHECK(device_begin(&m->d, ROOM));
    m->room = calloc(4, AREA);
    CHECK(m->room != NULL);
    for (uint32_t t = 0; t < NTENSOR; t++) {
        const size_t at = t * MOST * sizeof(float);
        m->host.gradient[t] = m->room + at;
        m->host.master[t] = m->room + AREA + at;
        m->host.copy[t] = m->room + 2 * AREA + at;
        m->gpu.gradient[t] = m->d.in + at;
        m->gpu.copy[t] = m->d.in + AREA + at;
        m->gpu.master[t] = m->d.out + at;
    }
    make_parts(&m->host, &(struct kind){ .type = k->type, .copy_type = k->copy_type }, 0, 1);
    o.parts = m->host.parts;
    o.npart = m->host.npart;
    CHECK(plait_optim_create(&o, &m->host.optim) == PLAIT_OK);
    make_parts(&m->gpu, k, comm != NULL ? rank : 0, comm != NULL ? plait_comm_nrank(comm) : 1);
    if (comm == NULL && k->cut)
        make_parts(&m->gpu, &(struct kind){ .type = k->type, .copy_type = k->copy_type }, 0, 1);
    o.parts = m->gpu.parts;
    o.npart = m->gpu.npart;
    o.comm = comm;
    o.stream = m->d.stream;
    o.scale = m->scale = scale != NULL ? (void *)(m->d.out + ROOM - sizeof *scale) : NULL;
    CHECK(scale == NULL || device_write(&m->d, m->scale, scale, sizeof *scale));
    CHECK(plait_optim_create(&o, &m->gpu.optim) == PLAIT_OK);
    return 0;
}

static int begin(struct model *m, const struct kind *k, uint32_t rank, struct plait_comm *comm)
{
    return begin_scaled(m, k, rank, comm, NULL);
}

static int end(struct model *m, uint32_t rank)
{
    plait_optim_destroy(m->host.optim);
    plait_optim_destroy(m->gpu.optim);
    CHECK(device_end(&m->d));
    free(m->room);
    return 0;
}

/* Fresh weights and gradients for both, written by the stream. bad: tensor 1 has a gradient that is not finite. */
static int fill(struct model *m, uint32_t rank, uint32_t step, bool bad)
{
    for (uint32_t t = 0; t < NTENSOR; t++) {
        for (size_t i = 0; i < counts[t]; i++) {
            put(m->host.gradient[t], m->kind->type, i, value(2 * step + 1, t, i));
            put(m->host.master[t], PLAIT_FLOAT32, i, value(2 * step, t, i));
        }
        if (bad && t == 1)
            memset(m->host.gradient[t] + plait_dtype_size(m->kind->type) * 999, 0xff, plait_dtype_size(m->kind->type));
        CHECK(device_write(&m->d, m->gpu.gradient[t], m->host.gradient[t], bytes_of(t, m->kind->type)));
        CHECK(device_write(&m->d, m->gpu.master[t], m->host.master[t], bytes_of(t, PLAIT_FLOAT32)));
    }
    return plait_stream_synchronize(m->d.stream) != PLAIT_OK;
}

static int same(const struct model *m, uint32_t rank, const char *what, const void *device_at, const void *host_at,
                size_t bytes)
{
    static _Thread_local char got[MOST * sizeof(float)];

    CHECK(device_read(&m->d, got, device_at, bytes));
    if (memcmp(got, host_at, bytes) == 0)
        return 0;
    fprintf(stderr, "rank %u: %s differs\n", rank, what);
    return 1;
}

/* What the device has is what the host has. */
static int compare(const struct model *m, uint32_t rank)
{
    for (uint32_t k = 0; k < m->gpu.npart; k++) {
        const struct plait_optim_part *p = &m->gpu.parts[k];
        const size_t start = m->gpu.start[k], size = plait_dtype_size(p->copy_type);
        if (same(m, rank, "master", p->master, m->host.master[p->tensor] + 4 * start, p->count * 4) != 0 ||
            same(m, rank, "momentum", plait_optim_momentum(m->gpu.optim, k),
                 plait_optim_momentum(m->host.optim, p->tensor) + start, p->count * 4) != 0 ||
            (p->copy != NULL &&
             same(m, rank, "copy", p->copy, m->host.copy[p->tensor] + start * size, p->count * size) != 0))
            return 1;
    }
    return 0;
}

/* ---- The same bits ------------------------------------------------------------------------------------------------ */

/* Steps that nobody waits for, and steps with a result, of which one is not finite. */
static int run_steps(struct model *m, uint32_t rank)
{
    struct plait_loss_scale scale = PLAIT_LOSS_SCALE_DYNAMIC;

    for (uint32_t step = 0; step < NSTEP; step++) {
        struct plait_optim_result host, gpu = { -1, -1 };
        struct plait_optim_step s = step_of(step);
        s.factor = 1 / scale.scale;
        CHECK(fill(m, rank, step, step == 2) == 0);
        CHECK(plait_optim_step(m->host.optim, &s, &host) == PLAIT_OK);
        CHECK(plait_optim_step(m->gpu.optim, &s, step % 2 == 0 ? &gpu : NULL) == PLAIT_OK);
        if (compare(m, rank) != 0)
            return 1;
        CHECK(host.finite == (step != 2));
        if (step % 2 == 0) {
            CHECK(gpu.finite == host.finite && (gpu.norm == host.norm || !host.finite));
            CHECK(plait_loss_scale_update(&scale, gpu.finite) == PLAIT_OK);
        }
    }
    CHECK(scale.scale == 32768);
    return 0;
}

static int alone(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct model m;

    (void)comm, (void)arg;
    for (unsigned k = 0; k < NKIND; k++)
        if (begin(&m, &kinds[k], rank, NULL) != 0 || run_steps(&m, rank) != 0 || end(&m, rank) != 0)
            return 1;
    return 0;
}

static int sharded(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct model m;

    for (unsigned k = 0; k < NKIND; k++)
        if (begin(&m, &kinds[k], rank, *comm) != 0 || run_steps(&m, rank) != 0 || end(&m, rank) != 0)
            return 1;
    return 0;
}

static void steps_have_the_bits_of_the_host(void **state)
{
    device_run(1, 1, alone, NULL);
}

static void shards_have_the_bits_of_the_whole(void **state)
{
    device_run(1, 1, sharded, NULL);
    device_run(1, NRANK, sharded, NULL);
    device_run(NRANK, 1, sharded, NULL);
    device_run(2, 2, sharded, NULL);
}

/* ---- Loss scales -------------------------------------------------------------------------------------------------- */

/* Powers of two, so that norms stay exact: dynamic, at both limits; static. */
static const struct plait_loss_scale scales[] = { { 16, 2, 0.25, 0.5, 16, 2, 0, 0 }, PLAIT_LOSS_SCALE_STATIC(4) };
#define NSCALE (sizeof scales / sizeof *scales)

/* The host's caller updates the scale by itself, from results. Nobody asks for the device's. */
static int run_scaled(struct model *m, uint32_t rank, struct plait_loss_scale want)
{
    for (uint32_t step = 0; step < 14; step++) {
        const bool bad = step == 2 || (step >= 4 && step < 7);
        struct plait_optim_step s = step_of(step % NSTEP);
        struct plait_optim_result result;
        CHECK(fill(m, rank, step % NSTEP, bad) == 0);
        CHECK(plait_optim_step(m->gpu.optim, &s, NULL) == PLAIT_OK);
        s.factor /= want.scale;
        CHECK(plait_optim_step(m->host.optim, &s, &result) == PLAIT_OK && result.finite == !bad);
        CHECK(plait_loss_scale_update(&want, result.finite) == PLAIT_OK);
        if (compare(m, rank) != 0 || same(m, rank, "loss scale", m->scale, &want, sizeof want) != 0)
            return 1;
    }
    CHECK(want.skipped == 4 && (want.interval == 0 || want.scale == 4));
    return 0;
}

static int scaled(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct model m;

    for (unsigned k = 0; k < NKIND * NSCALE; k++) {
        const struct plait_loss_scale *scale = &scales[k / NKIND];
        if (begin_scaled(&m, &kinds[k % NKIND], rank, arg != NULL ? NULL : *comm, scale) != 0 ||
            run_scaled(&m, rank, *scale) != 0 || end(&m, rank) != 0)
            return 1;
    }
    return 0;
}

static void scales_on_the_device_are_those_of_explicit_updates(void **state)
{
    device_run(1, 1, scaled, &(bool){ true });
    device_run(1, NRANK, scaled, NULL);
    device_run(2, 1, scaled, NULL);
}

/* Every run of a graph reads the scale and updates it. */
static int captured_scale(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_loss_scale want = { 4, 2, 0.5, 1, 16, 1, 0, 0 };
    struct plait_optim_step s = step_of(0);
    struct plait_optim_result result;
    void *graph, *exec;
    struct model m;

    if (begin_scaled(&m, &kinds[3], rank, *comm, &want) != 0)
        return 1;
    CHECK(device.capture_begin(m.d.cuda, CAPTURE_ALONE) == 0);
    CHECK(plait_optim_step(m.gpu.optim, &s, NULL) == PLAIT_OK);
    CHECK(device.capture_end(m.d.cuda, &graph) == 0 && device.instantiate(&exec, graph, 0) == 0);
    CHECK(device.graph_destroy(graph) == 0);
    for (int i = 0; i < 5; i++) {
        CHECK(fill(&m, rank, 0, i == 1) == 0);
        CHECK(device.launch(exec, m.d.cuda) == 0);
        s.factor = step_of(0).factor / want.scale;
        CHECK(plait_optim_step(m.host.optim, &s, &result) == PLAIT_OK && result.finite == (i != 1));
        CHECK(plait_loss_scale_update(&want, result.finite) == PLAIT_OK);
        if (compare(&m, rank) != 0 || same(&m, rank, "loss scale", m.scale, &want, sizeof want) != 0)
            return 1;
    }
    CHECK(want.scale == 16 && device.exec_destroy(exec) == 0);
    return end(&m, rank);
}

static void a_graph_updates_the_scale_again_and_again(void **state)
{
    device_run(1, 1, captured_scale, NULL);
    device_run(1, 3, captured_scale, NULL);
}

/* The host does not see the scales: the ranks' sums do. */
static int differing_scales(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_loss_scale scale = PLAIT_LOSS_SCALE_DYNAMIC;
    const struct plait_optim_step s = step_of(0);
    struct plait_optim_result result;
    struct model m;

    scale.scale = rank == 1 ? 32768 : 65536;
    if (begin_scaled(&m, &kinds[1], rank, *comm, &scale) != 0)
        return 1;
    CHECK(fill(&m, rank, 0, false) == 0);
    CHECK(plait_optim_step(m.gpu.optim, &s, &result) == PLAIT_ERR_MISMATCH);
    CHECK(strstr(plait_last_error(), "the loss scale differed between ranks") != NULL);
    if (compare(&m, rank) != 0 || same(&m, rank, "loss scale", m.scale, &scale, sizeof scale) != 0)
        return 1;
    return end(&m, rank);
}

static void scales_that_differ_between_ranks_are_told_and_nothing_is_changed(void **state)
{
    device_run(1, NRANK, differing_scales, NULL);
    device_run(2, 1, differing_scales, NULL);
}

/* ---- The order of the stream ------------------------------------------------------------------------------------- */

/* Gradients come while the step is on the stream already. */
static int held(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plait_optim_step s = step_of(0);
    struct model m;

    if (begin(&m, &kinds[0], rank, *comm) != 0)
        return 1;
    CHECK(fill(&m, rank, 0, false) == 0);
    CHECK(plait_optim_step(m.host.optim, &s, NULL) == PLAIT_OK);
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    for (uint32_t t = 0; t < NTENSOR; t++)
        CHECK(device_write(&m.d, m.gpu.gradient[t], m.host.copy[t], bytes_of(t, m.kind->type)));
    CHECK(device.stream_call(m.d.cuda, wait_at_gate, NULL) == 0);
    for (uint32_t t = 0; t < NTENSOR; t++)
        CHECK(device_write(&m.d, m.gpu.gradient[t], m.host.gradient[t], bytes_of(t, m.kind->type)));
    CHECK(plait_optim_step(m.gpu.optim, &s, NULL) == PLAIT_OK);
    CHECK(device.stream_query(m.d.cuda) == 600);
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    atomic_store(&gate, 1);
    return compare(&m, rank) != 0 || end(&m, rank) != 0;
}

/* On one host: over hosts a call waits for its stream */
static void a_step_waits_for_its_stream_and_not_the_host(void **state)
{
    atomic_store(&gate, 0);
    device_run(1, 2, held, NULL);
}

/* The step of the capture, three times. */
static int captured(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plait_optim_step s = step_of(0);
    struct plait_optim_result result;
    void *graph, *exec;
    struct model m;

    if (begin(&m, &kinds[3], rank, *comm) != 0)
        return 1;
    CHECK(fill(&m, rank, 0, false) == 0);
    CHECK(device.capture_begin(m.d.cuda, CAPTURE_ALONE) == 0);
    CHECK(plait_optim_step(m.gpu.optim, &s, &result) == PLAIT_ERR_UNSUPPORTED);
    CHECK(strstr(plait_last_error(), "is being captured") != NULL);
    CHECK(plait_optim_step(m.gpu.optim, &s, NULL) == PLAIT_OK);
    CHECK(device.capture_end(m.d.cuda, &graph) == 0 && device.instantiate(&exec, graph, 0) == 0);
    CHECK(device.graph_destroy(graph) == 0);
    for (int i = 0; i < 3; i++) {
        CHECK(device.launch(exec, m.d.cuda) == 0);
        CHECK(plait_optim_step(m.host.optim, &s, NULL) == PLAIT_OK);
    }
    if (compare(&m, rank) != 0)
        return 1;
    CHECK(device.exec_destroy(exec) == 0);
    return end(&m, rank);
}

/* On one host: no operation over hosts is in a graph */
static void a_graph_makes_its_step_again_and_again(void **state)
{
    device_run(1, 1, captured, NULL);
    device_run(1, 3, captured, NULL);
    device_run(2, 1, captured, NULL);
}

/* ---- Ranks that differ --------------------------------------------------------------------------------------------- */

static int differing(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_optim_step s = step_of(0);
    struct plait_optim_result result;
    struct model m;

    for (unsigned waits = 0; waits < 2; waits++) {
        if (begin(&m, &kinds[0], rank, *comm) != 0)
            return 1;
        CHECK(fill(&m, rank, 0, false) == 0);
        s.lr = 1 + rank;
        const enum plait_status first = plait_optim_step(m.gpu.optim, &s, waits ? &result : NULL);
        CHECK(first == PLAIT_ERR_MISMATCH || (first == PLAIT_OK && !waits)); /* it may be over already, on a GPU */
        if (compare(&m, rank) != 0)                                          /* nothing was changed */
            return 1;
        s.lr = 1;
        CHECK(plait_optim_step(m.host.optim, &s, NULL) == PLAIT_OK);
        CHECK(plait_optim_step(m.gpu.optim, &s, &result) == (first == PLAIT_OK ? PLAIT_ERR_MISMATCH : PLAIT_OK));
        CHECK(strstr(plait_last_error(), "lr, factor, decay or the loss scale differed") != NULL && result.finite);
        if (compare(&m, rank) != 0 || end(&m, rank) != 0)
            return 1;
    }
    return 0;
}

static void ranks_that_differ_are_told_and_nothing_is_changed(void **state)
{
    device_run(1, NRANK, differing, NULL);
    device_run(2, 1, differing, NULL);
}

static _Atomic bool late; /* the thread that watches the comms gets a processor only now and then */

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
    int (*next)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

    *(void **)(void *)&next = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    const int error = next(cond, mutex, until);
    if (late)
        usleep(50000);
    return error;
}

static struct plait_comm *comm_of_rank_1;

static void fail_rank_1(void *context)
{
    plait_comm_abort(comm_of_rank_1, "meanwhile");
}

/* Rank 1's comm fails while rank 0's step is on its stream, whose sums may have been anything since then. */
static int fail_on_the_way(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plait_optim_step s = step_of(0);
    struct plait_optim_result result;
    struct model m;

    if (begin(&m, &kinds[0], rank, *comm) != 0)
        return 1;
    ask.standin_careless(1); /* the streams of a failed comm pass in any order */
    CHECK(fill(&m, rank, 0, false) == 0);
    CHECK(plait_optim_step(m.gpu.optim, &s, &result) == PLAIT_OK);
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    if (rank == 1) {
        comm_of_rank_1 = *comm;
        atomic_store(&gate, 1);
    }
    while (!atomic_load(&gate))
        usleep(100);
    late = true;
    usleep(5000); /* it sleeps now */
    CHECK(rank != 0 || device.stream_call(m.d.cuda, fail_rank_1, NULL) == 0);
    const enum plait_status status = plait_optim_step(m.gpu.optim, &s, rank == 0 ? &result : NULL);
    CHECK(rank != 0 || status == PLAIT_ERR_FAILED);
    late = false;
    while (plait_comm_status(*comm) == PLAIT_OK)
        usleep(100);
    CHECK(end(&m, rank) == 0 && plait_comm_destroy(*comm) == PLAIT_ERR_FAILED);
    *comm = NULL;
    return 0;
}

/* It looked at its own failure only, of which the watch tells a millisecond later. */
static void a_step_whose_ranks_have_failed_meanwhile_has_no_result(void **state)
{
    for (int k = 0; k < 5; k++) {
        atomic_store(&gate, 0);
        device_run(1, 2, fail_on_the_way, NULL);
    }
}

/* ---- With a fusion -------------------------------------------------------------------------------------------------- */

/* Gradients of all ranks are summed in shards, each rank steps with its pieces, and all get all weights: never waited for. */
static int with_fusion(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static const char *const names[NTENSOR] = { "a", "b", "c", "d", "e", "f", "g" };
    const struct kind k = { PLAIT_OPTIM_SGD, PLAIT_FLOAT32, PLAIT_FLOAT32, 0, 1, false };
    struct plait_fusion_options fo = PLAIT_FUSION_OPTIONS_DEFAULT;
    struct plait_optim_options o = options_of(&k);
    struct plait_tensor tensors[NTENSOR];
    struct plait_fusion *f;
    struct plait_piece piece;
    struct model m;

    if (begin(&m, &k, rank, *comm) != 0)
        return 1;
    plait_optim_destroy(m.gpu.optim);
    for (uint32_t t = 0; t < NTENSOR; t++)
        tensors[t] = (struct plait_tensor){ names[t], counts[t], PLAIT_FLOAT32, t % 2 ? m.gpu.gradient[t] : NULL };
    fo.tensors = tensors;
    fo.ntensor = NTENSOR;
    fo.sharded = 1;
    fo.weights = PLAIT_FLOAT32;
    fo.stream = m.d.stream;
    CHECK(plait_fusion_create(*comm, &fo, &f) == PLAIT_OK);
    CHECK(fill(&m, rank, 0, false) == 0);
    o.npart = plait_fusion_npiece(f);
    o.parts = m.gpu.parts;
    o.comm = *comm;
    o.stream = m.d.stream;
    for (uint32_t i = 0; i < o.npart; i++) {
        CHECK(plait_fusion_piece(f, i, &piece) == PLAIT_OK);
        m.gpu.parts[i] = (struct plait_optim_part){ piece.tensor,
                                                    piece.count,
                                                    piece.gradient,
                                                    PLAIT_FLOAT32,
                                                    (float *)(void *)m.gpu.master[piece.tensor] + piece.start,
                                                    piece.weight,
                                                    PLAIT_FLOAT32,
                                                    piece.tensor == 2 ? PLAIT_OPTIM_PLAIN : 0 };
    }
    CHECK(plait_optim_create(&o, &m.gpu.optim) == PLAIT_OK);
    for (uint32_t step = 0; step < NSTEP; step++) {
        struct plait_optim_step s = step_of(step);
        for (uint32_t t = 0; t < NTENSOR; t++) {
            CHECK(device_write(&m.d, plait_fusion_data(f, t), m.host.gradient[t], bytes_of(t, PLAIT_FLOAT32)));
            CHECK(plait_fusion_ready(f, t) == PLAIT_OK);
        }
        CHECK(plait_fusion_wait_all(f, NULL) == PLAIT_OK);
        CHECK(plait_optim_step(m.gpu.optim, &s, NULL) == PLAIT_OK);
        CHECK(plait_fusion_gather(f) == PLAIT_OK);
        s.factor *= plait_comm_nrank(*comm); /* the ranks' gradients are the same */
        CHECK(plait_optim_step(m.host.optim, &s, NULL) == PLAIT_OK);
    }
    for (uint32_t t = 0; t < NTENSOR; t++)
        if (same(&m, rank, "weight", plait_fusion_weights(f, t), m.host.master[t], bytes_of(t, PLAIT_FLOAT32)) != 0)
            return 1;
    CHECK(plait_fusion_destroy(f) == PLAIT_OK);
    return end(&m, rank);
}

static void pieces_of_a_sharded_fusion_come_to_the_weights_of_the_whole(void **state)
{
    device_run(1, 1, with_fusion, NULL);
    device_run(1, 4, with_fusion, NULL);
    device_run(2, 1, with_fusion, NULL);
    device_run(2, 2, with_fusion, NULL);
}

/* ---- What is refused ------------------------------------------------------------------------------------------------- */

static bool refuses(const struct plait_optim_options *o, enum plait_status status, const char *what)
{
    struct plait_optim *optim;

    return plait_optim_create(o, &optim) == status && strstr(plait_last_error(), what) != NULL;
}

static int what_does_not_fit_is_refused_by_name(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_optim_options o = options_of(&kinds[0]);
    const double squares[NTENSOR] = { 0 };
    struct plait_loss_scale scale = { .scale = 1, .least = 1, .most = 1, .growth = 0.5, .backoff = 1 };
    struct plait_optim_part part;
    struct plait_optim_step s = step_of(0);
    struct model m;

    if (begin(&m, &kinds[0], rank, NULL) != 0)
        return 1;
    CHECK(fill(&m, rank, 0, false) == 0);
    s.squares = squares;
    CHECK(plait_optim_step(m.gpu.optim, &s, NULL) == PLAIT_ERR_ARG && strstr(plait_last_error(), "squares") != NULL);
    if (compare(&m, rank) != 0)
        return 1;
    o.parts = &part;
    o.npart = 1;
    part = m.gpu.parts[1];
    CHECK(refuses(&o, PLAIT_ERR_ARG, "parts[0].gradient") && refuses(&o, PLAIT_ERR_ARG, "options.stream is NULL"));
    part.gradient = m.host.parts[1].gradient;
    CHECK(refuses(&o, PLAIT_ERR_ARG, "parts[0].master"));
    part = m.host.parts[1];
    part.copy = m.gpu.parts[1].copy;
    CHECK(refuses(&o, PLAIT_ERR_ARG, "parts[0].copy"));
    o.stream = m.d.stream;
    CHECK(refuses(&o, PLAIT_ERR_ARG, "parts[0].gradient") &&
          refuses(&o, PLAIT_ERR_ARG, "is memory that CUDA does not know"));
    part.gradient = m.gpu.parts[1].gradient;
    CHECK(refuses(&o, PLAIT_ERR_ARG, "parts[0].master"));
    part = m.gpu.parts[1];
    part.copy = m.host.parts[1].copy;
    CHECK(refuses(&o, PLAIT_ERR_ARG, "parts[0].copy"));
    part = m.gpu.parts[1];
    part.master = (void *)((char *)part.master + 2);
    CHECK(refuses(&o, PLAIT_ERR_ARG, "parts[0].master") && refuses(&o, PLAIT_ERR_ARG, "no multiple of 4 bytes"));
    part = m.gpu.parts[1];
    o.scale = &scale;
    CHECK(refuses(&o, PLAIT_ERR_ARG, "plait_optim_create: scale is") &&
          refuses(&o, PLAIT_ERR_ARG, "is memory that CUDA does not know"));
    o.scale = (void *)(m.d.out + ROOM - sizeof scale);
    o.stream = NULL;
    part = m.host.parts[1];
    CHECK(refuses(&o, PLAIT_ERR_ARG, "plait_optim_create: scale is") &&
          refuses(&o, PLAIT_ERR_ARG, "options.stream is NULL"));
    o.scale = NULL;
    o.comm = *comm;
    o.stream = rank == 0 ? m.d.stream : NULL;
    part = rank == 0 ? m.gpu.parts[1] : m.host.parts[1];
    CHECK(refuses(&o, PLAIT_ERR_MISMATCH, "rank 0 has \"memory a GPU's\" where rank 1 has \"memory the host's\""));
    return end(&m, rank);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_have_the_bits_of_the_host),
        cmocka_unit_test(shards_have_the_bits_of_the_whole),
        cmocka_unit_test(scales_on_the_device_are_those_of_explicit_updates),
        test_on_one_host(a_graph_updates_the_scale_again_and_again),
        cmocka_unit_test(scales_that_differ_between_ranks_are_told_and_nothing_is_changed),
        test_on_one_host(a_step_waits_for_its_stream_and_not_the_host),
        test_on_one_host(a_graph_makes_its_step_again_and_again),
        cmocka_unit_test(ranks_that_differ_are_told_and_nothing_is_changed),
        test_on_one_host(a_step_whose_ranks_have_failed_meanwhile_has_no_result),
        cmocka_unit_test(pieces_of_a_sharded_fusion_come_to_the_weights_of_the_whole),
        test_on_device(what_does_not_fit_is_refused_by_name, 1, 2),
    };

    if (getenv("PLAIT_CUDA_DRIVER") == NULL)
        return 77;
    return run_tests_of_this_place("the optimiser on a device", tests);
}
