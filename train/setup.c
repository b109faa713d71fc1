/* SPDX-License-Identifier: BSD-3-Clause */
#include "agree.h"
#include "alike.h"
#include "base/clock.h"
#include "bucket_ends.h"
#include "ending.h"
#include "message.h"
#include "processors.h"
#include "progress.h"
#include "run.h"
#include "share.h"
#include "why.h"

#include <plait/stream.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the network's memory ---------------------------------------------------------------------- */

/* After an error the rest of the pass runs on with wrong values; the step then looks at the status. */
static void sum_norms(void *context, float *values, size_t n)
{
    struct norms *norms = context;
    const double begin = plait_clock();

    if (norms->status == PLAIT_OK)
        norms->status = plait_allreduce(norms->comm, values, values, n, PLAIT_FLOAT32, PLAIT_SUM, NULL);
    norms->seconds += plait_clock() - begin;
}

/*
 * Gradients that travel in 16 bits are written so directly, without packing, if the device computes in that type and
 * nothing is added to them first.
 */
static enum plait_dtype gradient_type(const struct run *r)
{
    const bool once = r->npass == 1 && !r->o->reproducible && r->o->elastic < 0;
    const bool halves = r->o->payload == PLAIT_BFLOAT16 || (r->o->payload == PLAIT_FLOAT16 && r->o->cuda);

    return once && halves ? r->o->payload : PLAIT_FLOAT32;
}

enum precision run_precision(const struct run *r)
{
    return r->gradient_type == PLAIT_BFLOAT16  ? PRECISION_BF16
           : r->gradient_type == PLAIT_FLOAT16 ? PRECISION_FP16
                                               : PRECISION_FP32;
}

/*
 * Finish saving, then tell the others the error of this rank, such as its device's: one of them may save the last step.
 * Without an error of its own all ranks leave.
 */
static void last_words(void *context, const char *why)
{
    struct run *r = context;
    const char *trouble = NULL;

    if (r->keeper != NULL) {
        keeper_wait(r->keeper);
        trouble = keeper_trouble(r->keeper);
    }
    if (trouble != NULL)
        complain("%s", trouble);
    if (why == NULL || r->lost)
        return;
    struct plait_comm *const comms[] = { plait_fusion_comm(r->fusion), r->norms.comm, r->side,
                                         r->comm }; /* wherever they wait */
    for (size_t k = 0; k < sizeof comms / sizeof *comms; k++)
        if (comms[k] != NULL)
            plait_comm_abort(comms[k], why);
}

static void make_device(struct run *r)
{
    const struct options *o = r->o;
    const struct device_options d = { .precision = o->precision,
                                      .threads = (unsigned)o->threads,
                                      .number = !o->cuda      ? 0
                                                : o->gpu >= 0 ? (int)o->gpu
                                                              : device_cuda_of(r->seat.local),
                                      .tf32 = o->tf32,
                                      .nondeterministic = o->nondeterministic };

    r->device = (o->cuda ? &device_cuda : &device_cpu)->create(&d);
    if (r->device->stream != NULL)
        must(plait_stream_create_cuda_on(d.number, r->device->stream, &r->stream),
             "--device cuda: the library cannot use the GPU");
}

static void make_model(struct run *r)
{
    const struct options *o = r->o;
    struct model_options m = { .device = r->device,
                               .name = o->model,
                               .nclass = dataset_nclass(r->train),
                               .pixels = (uint32_t)o->pixels,
                               .batch = (uint32_t)o->micro,
                               .precision = o->precision,
                               .gradients = run_precision(r),
                               .training = true };

    m.bytes = r->device->kind->bytes;
    memcpy(m.mean, image_defaults.mean, sizeof m.mean);
    memcpy(m.deviation, image_defaults.deviation, sizeof m.deviation);
    if (o->sync_norm && r->nrank > 1) {
        must(plait_comm_duplicate(r->comm, "batch norm", &r->norms.comm), "synchronised batch norm");
        m.sum = sum_norms;
        m.nsum = r->nrank;
        m.context = &r->norms;
    }
    r->model = model_create(&m);
    if (r->model == NULL)
        leave(ENDING_ERROR);
    r->ntensor = model_ntensor(r->model);
}

/* Master weights lie in one vector, which elastic averaging exchanges as a whole. */
static void make_weights(struct run *r)
{
    float **host = allocate(r->ntensor, sizeof *host);

    r->start = allocate(r->ntensor, sizeof *r->start);
    for (uint32_t t = 0; t < r->ntensor; t++) {
        r->start[t] = r->count;
        r->count += (model_tensor(r->model, t)->count + 15) / 16 * 16;
    }
    r->weights = mirror_create(r->device, r->count * sizeof(float));
    if (r->o->elastic >= 0)
        r->centre = mirror_create(r->device, r->count * sizeof(float));
    r->master = allocate(r->ntensor, sizeof *r->master);
    for (uint32_t t = 0; t < r->ntensor; t++) {
        r->master[t] = (float *)r->weights.memory + r->start[t];
        host[t] = (float *)r->weights.host + r->start[t];
    }
    model_initialise(r->model, r->o->seed, r->o->zero_last, host);
    free(host);
}

static size_t usual_bucket(const struct run *r)
{
    const size_t bytes = r->count * plait_dtype_size(r->o->payload), eighth = bytes / 8;

    return eighth < 65536 ? 65536 : eighth < (size_t)4 << 20 ? eighth : (size_t)4 << 20;
}

/* The library's memory of a GPU is what is left by that of passes. */
static void must_fit(const struct run *r, enum plait_status status, const char *what)
{
    if (status == PLAIT_ERR_NOMEM && r->stream != NULL)
        give_up(ENDING_ERROR, "%s: %s: use a smaller --micro or --batch", what, plait_last_error());
    must(status, what);
}

/* Gradients lie in the buckets that are exchanged, in backward order. */
static void make_buckets(struct run *r)
{
    const struct options *o = r->o;
    const uint32_t *order = model_backward_order(r->model);
    struct plait_tensor *tensors = allocate(r->ntensor, sizeof *tensors);
    struct plait_fusion_options f = PLAIT_FUSION_OPTIONS_DEFAULT;
    struct layout layout = o->bucket;
    uint64_t *count = allocate(r->ntensor, sizeof *count);
    uint32_t *cuts = allocate(r->ntensor, sizeof *cuts);

    for (uint32_t k = 0; k < r->ntensor; k++) {
        const struct tensor *t = model_tensor(r->model, order[k]);
        count[k] = t->count;
        tensors[k] = (struct plait_tensor){ t->name, t->count, r->gradient_type, NULL };
        r->place[order[k]] = k;
    }
    f.name = "gradients";
    f.tensors = tensors;
    f.ntensor = r->ntensor;
    if (layout.rule == NRULE)
        layout = (struct layout){ .threshold = usual_bucket(r) };
    layout_make(&layout, count, r->ntensor, plait_dtype_size(o->payload), cuts, &f.layout);
    f.payload = o->payload == r->gradient_type ? PLAIT_NDTYPE : o->payload;
    f.reproducible = o->reproducible;
    f.stream = r->stream;
    f.algorithm = o->algorithm;
    f.trace = o->trace != NULL || o->dry_run;
    const enum plait_status status = plait_fusion_create(r->comm, &f, &r->fusion);
    if (o->algorithm != NULL &&
        (status == PLAIT_ERR_CONFIG || status == PLAIT_ERR_UNSUPPORTED)) { /* the same on all ranks */
        complain("%s %s: %s", options_flag(o, "algo"), o->algorithm, plait_last_error());
        leave(ENDING_USAGE);
    }
    if (status == PLAIT_ERR_ARG && layout.rule == RULE_CUTS) { /* the same on all ranks, too */
        complain("%s: %s", options_flag(o, "bucket"), plait_last_error());
        leave(ENDING_USAGE);
    }
    must_fit(r, status, "buckets of gradients");
    for (uint32_t t = 0; t < r->ntensor; t++)
        r->gradient[t] = plait_fusion_data(r->fusion, r->place[t]);
    free(tensors);
    free(count);
    free(cuts);
}

static void make_gradients(struct run *r)
{
    r->gradient = allocate(r->ntensor, sizeof *r->gradient);
    r->scratch = allocate(r->ntensor, sizeof *r->scratch);
    r->place = allocate(r->ntensor, sizeof *r->place);
    if (r->o->reproducible)
        tree_init(&r->tree, r->device, r->npass, r->count);
    if (r->o->elastic < 0) {
        make_buckets(r);
        return;
    }
    float *own = r->device->kind->alloc(r->device, r->count * sizeof *own);
    for (uint32_t t = 0; t < r->ntensor; t++)
        r->gradient[t] = own + r->start[t];
}

/* ---- the optimiser ----------------------------------------------------------------------------- */

static void make_optimiser(struct run *r)
{
    const struct options *o = r->o;
    struct plait_optim_options p = PLAIT_OPTIM_OPTIONS_DEFAULT;
    struct plait_optim_part *parts = allocate(r->ntensor, sizeof *parts);

    r->scale = mirror_create(r->device, sizeof(struct plait_loss_scale));
    *(struct plait_loss_scale *)r->scale.host = o->loss_scale > 0
                                                    ? (struct plait_loss_scale)PLAIT_LOSS_SCALE_STATIC(o->loss_scale)
                                                    : (struct plait_loss_scale)PLAIT_LOSS_SCALE_DYNAMIC;
    mirror_write(&r->scale);
    for (uint32_t t = 0; t < r->ntensor; t++) {
        const struct tensor *tensor = model_tensor(r->model, t);
        const bool plain = tensor->kind != TENSOR_WEIGHT && !o->decay_all; /* Jia et al. 2018 */
        parts[t] = (struct plait_optim_part){ t,
                                              tensor->count,
                                              r->gradient[t],
                                              r->gradient_type,
                                              r->master[t],
                                              NULL,
                                              PLAIT_FLOAT32,
                                              plain ? PLAIT_OPTIM_PLAIN : 0 };
    }
    p.parts = parts;
    p.npart = p.ntensor = r->ntensor;
    p.method = o->method;
    p.momentum = o->momentum;
    p.nesterov = o->nesterov;
    p.decay = o->weight_decay;
    p.eta = o->eta;
    p.scale = r->scale.memory;
    p.stream = r->stream;
    must_fit(r, plait_optim_create(&p, &r->optim), "the optimiser");
    free(parts);
}

/* A fusion cannot be captured: where one of its buckets goes a graph ends. */
static void make_graphs(struct run *r)
{
    const bool early = r->fusion != NULL && r->o->overlap;
    bool *ends = early ? bucket_ends(r->fusion, model_backward_order(r->model), r->ntensor) : NULL;

    model_record(r->model, &(struct model_step){ .smoothing = r->o->smoothing,
                                                 .scale = &((struct plait_loss_scale *)r->scale.memory)->scale,
                                                 .gradients = r->gradient,
                                                 .masters = (const float *const *)r->master,
                                                 .ends = ends });
    free(ends);
}

enum plait_status run_sums(const struct run *r)
{
    return r->stream != NULL && r->fusion != NULL ? plait_comm_status(plait_fusion_comm(r->fusion)) : PLAIT_OK;
}

const struct plait_loss_scale *run_scale(const struct run *r)
{
    return r->scale.host;
}

/* The rate reaches its final value only at the last epochs, which keep it. */
static void make_schedule(struct run *r)
{
    const struct options *o = r->o;
    const double steps = (double)r->epoch_steps, warmup = o->warmup * steps;

    r->schedule = (struct plait_schedule)PLAIT_SCHEDULE_DEFAULT;
    r->schedule.base = o->rate;
    r->schedule.warmup = warmup;
    r->schedule.rule = o->decay;
    r->schedule.steps = fmax(1, ((double)o->epochs - o->tail) * steps - warmup);
    r->schedule.power = o->power;
    r->schedule.end = o->rate_end;
    r->milestones = allocate((size_t)((double)o->epochs / o->step_epochs) + 1, sizeof *r->milestones);
    for (uint32_t k = 1; o->decay == PLAIT_DECAY_STEPS && k * o->step_epochs < (double)o->epochs; k++)
        r->milestones[r->schedule.nmilestone++] = rint(k * o->step_epochs * steps);
    r->schedule.milestones = r->milestones;
    r->schedule.gamma = o->gamma;
}

/* ---- elastic averaging ------------------------------------------------------------------------- */

static bool has_servers(const struct options *o)
{
    return o->elastic >= 0 && o->elastic < PLAIT_ELASTIC_SYNC1;
}

static uint32_t server_count(const struct options *o)
{
    return !has_servers(o) ? 0 : o->servers > 0 ? (uint32_t)o->servers : 1;
}

static struct plait_elastic *make_elastic(const struct options *o, struct plait_comm *all, float *weights, size_t count)
{
    struct plait_elastic_options e = PLAIT_ELASTIC_OPTIONS_DEFAULT;
    struct plait_elastic *elastic;

    e.mode = (enum plait_elastic_mode)o->elastic;
    e.weights = weights;
    e.count = count;
    e.period = (uint32_t)o->period;
    e.beta = o->beta;
    e.momentum = e.mode == PLAIT_ELASTIC_ASYNC_MOMENTUM ? o->momentum : 0;
    e.payload = o->payload;
    e.nserver = server_count(o);
    must(plait_elastic_create(all, &e, &elastic), "elastic averaging");
    return elastic;
}

/* The last ranks hold the centre. Rank 0 sends its size. */
static void serve(const struct options *o, struct plait_comm *all)
{
    uint64_t count = 0;

    must(plait_broadcast(all, &count, &count, 1, PLAIT_UINT64, 0, NULL), "elastic averaging");
    struct plait_elastic *elastic = make_elastic(o, all, NULL, count);
    must(plait_elastic_serve(elastic), "the server of elastic averaging");
    must(plait_elastic_destroy(elastic), "the server of elastic averaging");
}

static void join_elastic(struct run *r, struct plait_comm *all)
{
    uint64_t count = r->count;

    if (has_servers(r->o))
        must(plait_broadcast(all, &count, &count, 1, PLAIT_UINT64, 0, NULL), "elastic averaging");
    r->elastic = make_elastic(r->o, all, r->weights.host, r->count);
}

/* ---- data -------------------------------------------------------------------------------------- */

static void *device_memory(void *context, size_t bytes)
{
    struct device *device = context;

    return device->kind->alloc_host(device, bytes);
}

static void make_loaders(struct run *r)
{
    const struct options *o = r->o;
    struct loader_options l = { .dataset = r->train,
                                .alloc = device_memory,
                                .context = r->device,
                                .image = image_defaults,
                                .batch = (uint32_t)o->batch,
                                .micro = (uint32_t)o->micro,
                                .rank = r->rank,
                                .nrank = r->nrank,
                                .threads = (unsigned)o->data_threads,
                                .queue = (uint32_t)o->queue,
                                .shuffle = true,
                                .broken_fatal = o->broken_fatal,
                                .seed = o->seed };

    if (o->in_memory)
        r->store = store_create(r->comm, r->train, (uint32_t)o->groups);
    if (o->decoder == DECODER_NVJPEG)
        r->decoder = r->device->kind->decoder(r->device, (uint32_t)o->pixels, l.threads);
    l.decoder = r->decoder;
    l.store = r->store;
    l.image.bytes = r->device->kind->bytes;
    l.image.pixels = (uint32_t)o->pixels;
    l.image.jitter = o->jitter;
    l.image.least_area = o->least_area;
    r->loader = loader_create(&l);
    l.dataset = r->val;
    l.store = NULL;
    l.image.transform = TRANSFORM_EVAL;
    l.batch = l.micro * r->nrank;
    l.shuffle = false;
    l.whole = true;
    r->val_loader = loader_create(&l);
    r->epoch_steps = loader_steps(r->loader);
}

static void open_data(struct run *r)
{
    const char *why;

    r->train = dataset_open(r->o->data, "train", &why);
    r->val = r->train != NULL ? dataset_open(r->o->data, "val", &why) : NULL;
    if (why != NULL && r->rank > 0)
        why = because("rank %u: %s", r->rank, why);
    why = share_verdicts(r->comm, why); /* other hosts may have other files */
    if (why != NULL)
        complain("%s", why);
    if (why != NULL || !dataset_same_classes(r->train, r->val))
        leave(ENDING_ERROR);
    if (!dataset_same_on_all(r->train, r->comm) || !dataset_same_on_all(r->val, r->comm))
        leave(ENDING_ERROR);
}

/* ---- all of it --------------------------------------------------------------------------------- */

/* Split into workers and servers. Returns false when this rank is a server. */
static bool part(struct run *r, const struct options *o, struct plait_comm *all)
{
    const uint32_t nserver = server_count(o), nrank = plait_comm_nrank(all), rank = plait_comm_rank(all);

    if (nserver >= nrank)
        give_up(ENDING_USAGE, "%s %s: %u server%s and at least one more rank; start more with --ranks",
                options_flag(o, "elastic"), plait_elastic_name((enum plait_elastic_mode)o->elastic), nserver,
                plural(nserver));
    const bool worker = rank < nrank - nserver;
    must(plait_comm_split(all, worker ? 0 : PLAIT_NO_COLOR, 0, "workers", &r->comm), "meeting");
    r->together = nserver == 0 || o->elastic == PLAIT_ELASTIC_ORIGINAL; /* where workers take turns */
    r->all = nrank;
    return worker;
}

static void check_options(struct run *r, struct options *o, uint32_t cpus)
{
    if (!options_settle(o, dataset_count(r->train), r->nrank, cpus))
        leave(ENDING_USAGE);
    const bool theirs = r->rank == 0 && r->nrank > 1 && strcmp(options_flag(o, "batch"), "--batch") != 0;
    if (theirs) /* torchvision's scripts count the images of one rank */
        remark("%s: %llu images in all, %llu of each rank", options_flag(o, "batch"), (unsigned long long)o->batch,
               (unsigned long long)(o->batch / r->nrank));
    r->npass = (uint32_t)(o->batch / r->nrank / o->micro);
}

static void check_processor(const struct options *o, struct plait_comm *all)
{
    const bool has = o->precision != PRECISION_BF16 || o->cuda || device_cpu_has_bf16();
    const char *why = share_verdicts(
        all, has ? NULL
                 : because("%s: bf16 needs AVX-512 in oneDNN, which the processor of rank %u does not have; use "
                           "--precision fp32 without --amp (with --payload bf16 gradients still travel as bf16)",
                           options_flag(o, "precision"), plait_comm_rank(all)));

    if (why != NULL) {
        complain("%s", why);
        leave(ENDING_USAGE);
    }
}

struct run *run_create(struct options *o, struct plait_comm *all)
{
    struct run *r = allocate(1, sizeof *r);

    alike(o, all);
    r->seat = processors_of_rank(all); /* collective: servers take part */
    r->o = o;
    recall(o, all, &r->recalled);
    check_processor(o, all);
    o->elastic = o->evaluate_only ? -1 : o->elastic; /* a checkpoint holds the centre */
    options_settle_types(o);
    if (!part(r, o, all)) {
        serve(o, all);
        free(r);
        return NULL;
    }
    r->rank = plait_comm_rank(r->comm);
    r->nrank = plait_comm_nrank(r->comm);
    must(plait_comm_duplicate(r->comm, "totals", &r->side), "meeting");
    r->agree = agree_create(r->side);
    open_data(r);
    check_options(r, o, r->seat.processors);
    r->gradient_type = gradient_type(r);
    before_leaving(last_words, r);
    make_device(r);
    make_model(r);
    make_weights(r);
    make_gradients(r);
    make_optimiser(r);
    if (o->graph)
        make_graphs(r);
    r->statistics = statistics_create(r->model, r->comm, r->stream, o->reproducible ? r->npass : 0);
    make_loaders(r);
    make_schedule(r);
    if (!o->dry_run && !o->evaluate_only)
        folder_choose(r);
    r->state = state_create(r);
    state_load(r);
    r->reported = r->logged = r->step;
    if (o->elastic >= 0)
        join_elastic(r, all);
    model_refresh(r->model, (const float *const *)r->master);
    r->progress = o->dry_run || o->evaluate_only ? NULL : progress_create(r);
    return r;
}

void run_destroy(struct run *r)
{
    before_leaving(NULL, NULL);
    keeper_destroy(r->keeper);
    state_destroy(r->state);
    progress_destroy(r->progress);
    loader_destroy(r->loader);
    loader_destroy(r->val_loader);
    store_destroy(r->store);
    dataset_close(r->train);
    dataset_close(r->val);
    plait_elastic_destroy(r->elastic);
    plait_fusion_destroy(r->fusion);
    plait_optim_destroy(r->optim);
    free(r->milestones);
    statistics_destroy(r->statistics);
    model_destroy(r->model);
    mirror_destroy(&r->weights);
    mirror_destroy(&r->centre);
    mirror_destroy(&r->scale);
    plait_stream_destroy(r->stream);
    r->device->kind->destroy(r->device);
    agree_destroy(r->agree);
    plait_comm_destroy(r->norms.comm);
    plait_comm_destroy(r->side);
    plait_comm_destroy(r->comm);
    free(r->start);
    free(r->master);
    free(r->gradient);
    free(r->scratch);
    free(r->place);
    free(r);
}
