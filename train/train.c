/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plait-train: residual networks on images, data-parallel over Plait's ranks. This file follows one step from images to
 * new weights; run.h lists the other files.
 */
#include "agree.h"
#include "base/clock.h"
#include "ending.h"
#include "failure.h"
#include "launch.h"
#include "message.h"
#include "progress.h"
#include "run.h"

#include <plait/request.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a step ------------------------------------------------------------------------------------ */

/* After an error no wait would end: it is returned in the place of one. */
static void mark(struct run *r, uint32_t t)
{
    if (r->marked == PLAIT_OK)
        r->marked = plait_fusion_ready(r->fusion, r->place[t]);
}

/* The backward pass has computed a tensor's gradient. In the last pass its exchange begins. */
static void gradient_ready(void *context, uint32_t t)
{
    struct run *r = context;

    if (r->o->reproducible)
        tree_add(&r->tree, r->pass, r->start[t], model_tensor(r->model, t)->count, r->scratch[t]);
    if (r->fusion != NULL && r->o->overlap && r->pass + 1 == r->npass)
        mark(r, t);
}

/* Where this pass writes its gradients: to the buckets, or to this pass's place in the tree of sums. */
static void *const *targets(struct run *r)
{
    float *waits = r->o->reproducible ? tree_place(&r->tree, r->pass) : NULL;

    for (uint32_t t = 0; t < r->ntensor; t++)
        r->scratch[t] = waits != NULL ? waits + r->start[t] : r->gradient[t];
    return r->scratch;
}

/*
 * A device with a stream of its own is waited for only where the log, the output or a checkpoint shows the step, and in
 * elastic averaging, which waits for it anyway. All ranks decide alike.
 */
static bool is_to_report(const struct run *r)
{
    const struct options *o = r->o;
    const uint64_t step = r->step + 1, at = r->at + 1;

    return r->stream == NULL || r->elastic != NULL || step - r->logged >= o->log_every ||
           (o->print_every > 0 && at % o->print_every == 0) || (o->save_every > 0 && step % o->save_every == 0) ||
           at == r->epoch_steps || step == o->steps || r->nonfinite[0] != '\0';
}

/* Add the results of all passes since the last report, up to step `last`. */
static void add_results(struct run *r, uint64_t last, struct totals *totals)
{
    const struct model_result result = model_result(r->model);

    if (!isfinite(result.loss))
        note_nonfinite(r, "the loss", last, model_first_nonfinite(r->model));
    totals->loss += result.loss;
    totals->images += (double)result.n;
    totals->top1 += (double)result.top1;
    totals->top5 += (double)result.top5;
}

static void next_images(struct run *r, struct images *images)
{
    const double begin = plait_clock();

    model_wait_images(r->model); /* loader_next() gives the memory of the last ones to its threads */
    r->copying += plait_clock() - begin;
    if (!loader_next(r->loader, images))
        give_up(ENDING_ERROR, "the loader of epoch %u ended at step %llu of %llu; this is a bug", r->epoch + 1,
                (unsigned long long)r->at, (unsigned long long)r->epoch_steps);
}

/*
 * Forward and backward over this rank's images, pass by pass. The totals of all ranks are summed as soon as they are
 * known.
 */
static enum plait_status passes(struct run *r, struct totals *totals, struct plait_request **summing)
{
    const double *scale = &((const struct plait_loss_scale *)r->scale.memory)->scale;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct images images;

    totals->loss = r->nonfinite[0] != '\0' ? NAN : 0;
    for (r->pass = 0; r->pass < r->npass; r->pass++) {
        next_images(r, &images);
        model_forward(r->model, images.images, images.labels, true, r->o->smoothing);
        if (r->norms.status != PLAIT_OK)
            break;
        if (r->reports)
            add_results(r, r->step + 1, totals);
        statistics_pass(r->statistics, r->pass);
        if (r->together && r->pass + 1 == r->npass) {
            call.request = summing;
            totals->stop = asked_to_stop != 0;
            const enum plait_status status =
                plait_allreduce(r->side, totals, totals, NTOTAL, PLAIT_FLOAT64, PLAIT_SUM, &call);
            if (status != PLAIT_OK)
                return status;
        }
        if (!r->frozen)
            model_backward(r->model, scale, targets(r), r->pass > 0 && !r->o->reproducible, gradient_ready, r);
    }
    return r->norms.status;
}

/* Elastic averaging works on the host's copy of the weights; it makes the first of every `period` exchanges. */
static bool exchanges(const struct run *r)
{
    return r->exchanges % r->o->period == 0;
}

static enum plait_status start_elastic(struct run *r)
{
    if (exchanges(r))
        mirror_read(&r->weights);
    return plait_elastic_start(r->elastic);
}

static enum plait_status finish_elastic(struct run *r)
{
    const enum plait_status status = plait_elastic_finish(r->elastic);

    if (exchanges(r))
        mirror_write(&r->weights);
    r->exchanges++;
    return status;
}

/* Wait until the gradients are summed over all ranks, or these weights are pulled to the centre. */
static enum plait_status wait_for_gradients(struct run *r)
{
    if (r->frozen)
        return PLAIT_OK;
    if (r->fusion == NULL)
        return finish_elastic(r);
    for (uint32_t t = 0; !r->o->overlap && t < r->ntensor; t++)
        mark(r, t);
    const enum plait_status status = r->marked == PLAIT_OK ? plait_fusion_wait_all(r->fusion, NULL) : r->marked;
    return status == PLAIT_OK ? run_sums(r) : status;
}

/* Wait for all communication of this step. This time, and that of sums within the passes, is exposed. */
static enum plait_status wait_for_others(struct run *r, struct plait_request **summing)
{
    const double begin = plait_clock();
    enum plait_status status = wait_for_gradients(r);

    if (status == PLAIT_OK)
        status = statistics_step(r->statistics);
    if (status == PLAIT_OK && *summing != NULL)
        status = plait_wait(summing);
    r->exposed = r->norms.seconds + plait_clock() - begin;
    return status;
}

/* The first tensor in backward order whose gradient is not finite. */
static const char *worst_gradient(const struct run *r)
{
    const uint32_t *order = model_backward_order(r->model);

    for (uint32_t k = 0; k < r->ntensor; k++) {
        const struct tensor *tensor = model_tensor(r->model, order[k]);
        const struct elements e = { run_precision(r), tensor->count };
        if (!r->device->kind->finite(r->device, e, r->gradient[order[k]]))
            return tensor->name;
    }
    return NULL;
}

/*
 * Look at the loss scale. The gradients are those of all ranks; with elastic averaging those of this rank, and the
 * others learn of it in the next step.
 */
static void look_at_scale(struct run *r)
{
    const struct plait_loss_scale *scale = run_scale(r);

    mirror_read(&r->scale);
    if (scale->skipped > r->skipped && r->o->loss_scale > 0)
        note_nonfinite(r, "a gradient", r->step + 1, worst_gradient(r));
    r->skipped = scale->skipped;
    if (r->nonfinite[0] != '\0' && r->fusion != NULL)
        nonfinite(r);
}

/* Update the weights from the gradients, if these are finite, and refresh the model. */
static void update(struct run *r)
{
    struct plait_optim_step step = PLAIT_OPTIM_STEP_DEFAULT;

    step.lr = r->rate;
    step.factor = 1.0 / (r->npass * (r->fusion != NULL ? r->nrank : 1)); /* from sums to means */
    must(plait_optim_step(r->optim, &step, NULL), "the optimiser");
    if (r->reports)
        look_at_scale(r);
    model_refresh(r->model, (const float *const *)r->master);
}

static enum agreed wanted(const struct run *r)
{
    return r->nonfinite[0] != '\0' ? AGREED_WRONG : asked_to_stop != 0 ? AGREED_STOP : AGREED_GO_ON;
}

/* All ranks come here together. */
static void obey(struct run *r, enum agreed agreed)
{
    if (agreed == AGREED_WRONG)
        nonfinite(r);
    r->stopping = agreed == AGREED_STOP;
}

/*
 * Was a rank asked to stop? All ranks learn it after the same step, or, where they do not step together, before they
 * meet.
 */
static enum plait_status heard(struct run *r, const struct totals *totals)
{
    enum agreed agreed = totals->stop > 0 ? AGREED_STOP : AGREED_GO_ON;
    enum plait_status status = PLAIT_OK;

    if (!r->together)
        status = agree_turn(r->agree, wanted(r), &agreed);
    if (status == PLAIT_OK)
        obey(r, agreed);
    return status;
}

static enum plait_status step(struct run *r, struct totals *totals)
{
    struct plait_request *summing = NULL;
    const double begin = plait_clock();
    const struct loader_figures before = loader_figures(r->loader);
    const bool empty = r->reports; /* the last step waited for the device */
    enum plait_status status = PLAIT_OK;

    *totals = (struct totals){ .seconds = r->seconds, .exposed = r->exposed, .data = r->waited, .idle = r->idle };
    r->rate = plait_schedule_at(&r->schedule, (double)r->step);
    r->reports = is_to_report(r);
    r->norms.seconds = r->copying = 0;
    statistics_begin(r->statistics);
    if (r->elastic != NULL && !r->frozen)
        status = start_elastic(r);
    if (status == PLAIT_OK)
        status = passes(r, totals, &summing);
    if (status == PLAIT_OK)
        status = wait_for_others(r, &summing);
    if (status != PLAIT_OK) {
        statistics_undo(r->statistics); /* like the weights */
        return status;
    }
    if (r->together && !isfinite(totals->loss)) /* the loss is summed over all ranks, so all see it */
        nonfinite(r);
    if (!r->frozen && isfinite(totals->loss))
        update(r);
    const struct loader_figures after = loader_figures(r->loader);
    r->waited = after.waited - before.waited;
    r->idle = after.idle - before.idle;
    r->seconds = plait_clock() - begin;
    if (r->stream != NULL && empty && !r->reports && !r->o->sync_norm)
        r->host = r->seconds - r->waited - r->exposed - r->copying;
    r->step++;
    r->at++;
    if (r->reports)
        r->reported = r->step;
    return heard(r, totals);
}

/* ---- epochs ------------------------------------------------------------------------------------ */

/*
 * Final Polishing (Kasagi et al. 2020): the last epochs see images as in evaluation, but shuffled. A dataset tree is
 * sorted by class, and the running statistics would end as those of one class.
 */
static void begin_epoch(struct run *r)
{
    const bool polish = r->epoch + r->o->polish >= r->o->epochs;

    r->frozen = polish && r->o->polish_kind == POLISH_STATISTICS;
    loader_set_transform(r->loader, polish ? TRANSFORM_EVAL : TRANSFORM_TRAIN, true);
    loader_begin(r->loader, r->epoch, r->at);
    if (r->store != NULL && r->epoch + 1 < r->o->epochs)
        store_shuffle(r->store, true, r->o->seed, r->epoch + 1, (uint32_t)r->o->batch);
}

static bool finished(const struct run *r)
{
    return r->stopping || r->epoch >= r->o->epochs || (r->o->steps > 0 && r->step >= r->o->steps);
}

/* Meet the other ranks before a collective. Returns false when they leave instead. */
static bool meet(struct run *r)
{
    enum agreed agreed;

    if (!r->together && !r->stopping) {
        check(r, agree_meet(r->agree, wanted(r), &agreed));
        obey(r, agreed);
    }
    return r->together || !r->stopping;
}

static void train_epoch(struct run *r)
{
    struct totals totals;

    begin_epoch(r);
    while (r->at < r->epoch_steps && !finished(r)) {
        check(r, step(r, &totals));
        totals_add(&r->epoch_sum, &totals);
        progress_step(r->progress, r, &totals);
        if (r->step - r->logged >= r->o->log_every)
            r->logged = r->step;
        if (r->o->save_every > 0 && r->step % r->o->save_every == 0 && meet(r))
            check(r, state_save(r, false));
    }
    if (!r->together && meet(r))
        check(r, totals_sum(r->comm, &r->epoch_sum));
}

/* Broken files do not count in a test. When no file could be decoded, all ranks end. */
static void must_have_tested(struct run *r, const struct totals *tested)
{
    if (tested->images > 0)
        return;
    complain("%s/val: none of its %llu images could be decoded, so nothing was tested; repair them, then go on with "
             "--resume",
             r->o->data, (unsigned long long)dataset_count(r->val));
    if (!r->o->evaluate_only)
        check(r, state_save(r, false)); /* a resumed run begins with this evaluation */
    plait_elastic_destroy(r->elastic);  /* lets its servers end */
    leave(ENDING_ERROR);
}

static void end_epoch(struct run *r)
{
    struct totals tested;
    const uint64_t every = r->o->evaluate_every;
    const bool last = r->epoch + 1 >= r->o->epochs || (r->o->steps > 0 && r->step >= r->o->steps);
    const bool test = last || (every > 0 && (r->epoch + 1) % every == 0);
    bool best = false;

    progress_pause(r->progress, r);
    r->logged = r->step;
    if (test) {
        check(r, evaluate(r, &tested));
        if (r->stopping) /* a resumed run begins with this evaluation */
            return;
        must_have_tested(r, &tested);
        best = tested.top1 / tested.images > r->best;
        r->best = fmax(r->best, tested.top1 / tested.images);
    }
    r->epoch++;
    r->at = 0;
    progress_epoch(r->progress, r, &r->epoch_sum, test ? &tested : NULL);
    r->epoch_sum = (struct totals){ 0 };
    if (r->o->save_every == 0 || best || finished(r))
        check(r, state_save(r, best));
}

/* Steps since the last report may have spoilt the weights. Collective, where ranks step together. */
static void look_before_saving(struct run *r)
{
    struct totals totals = { 0 };

    if (r->reported == r->step || !r->together)
        return;
    add_results(r, r->step, &totals);
    check(r, totals_sum(r->comm, &totals));
    if (!isfinite(totals.loss))
        nonfinite(r);
    r->reported = r->step;
}

static void tell_if_finished(const struct run *r)
{
    const bool steps = r->epoch < r->o->epochs;

    if (r->o->resume != NULL && finished(r))
        complain("--resume %s: it has reached --%s %llu, and nothing is left to do; give a higher --%s to go on",
                 r->o->resume, steps ? "steps" : "epochs", (unsigned long long)(steps ? r->o->steps : r->o->epochs),
                 steps ? "steps" : "epochs");
}

static void train(struct run *r)
{
    tell_if_finished(r);
    if (r->store != NULL)
        store_shuffle(r->store, true, r->o->seed, r->epoch, (uint32_t)r->o->batch);
    while (!finished(r)) {
        train_epoch(r);
        if (r->at == r->epoch_steps && !r->stopping)
            end_epoch(r);
    }
    if (r->at > 0) {
        look_before_saving(r);
        check(r, state_save(r, false));
    }
}

static void count_broken(const struct run *r)
{
    const uint64_t training = loader_broken(r->loader, r->comm), tested = loader_broken(r->val_loader, r->comm);

    if (training > 0)
        complain("broken files: %llu; other images were used in their places", (unsigned long long)training);
    if (tested > 0)
        complain("broken files of the test: %llu; its results leave them out", (unsigned long long)tested);
}

/* Files that the GPU did not decode, of all ranks. */
static void count_refused(const struct run *r)
{
    uint64_t refused;

    if (r->decoder == NULL)
        return;
    refused = atomic_load(&r->decoder->refused);
    must(plait_allreduce(r->comm, &refused, &refused, 1, PLAIT_UINT64, PLAIT_SUM, NULL), "files that were refused");
    if (refused > 0)
        remark("nvJPEG: the processor decoded %llu image%s in its place", (unsigned long long)refused, plural(refused));
}

static bool write_trace(const struct run *r)
{
    if (r->o->trace == NULL || r->fusion == NULL || plait_fusion_trace(r->fusion, r->o->trace) == PLAIT_OK)
        return true;
    return complain("%s %s: %s", options_flag(r->o, "trace"), r->o->trace, plait_last_error());
}

static int evaluate_only(struct run *r)
{
    struct totals tested;
    char text[120];

    check(r, evaluate(r, &tested));
    if (r->stopping)
        return ENDING_SIGNAL + (asked_to_stop != 0 ? asked_to_stop : SIGTERM);
    must_have_tested(r, &tested);
    progress_tested(&tested, text, sizeof text);
    if (r->rank == 0)
        printf("%s, %.0f images\n", text, tested.images);
    return ENDING_GOOD;
}

/* ---- the program ------------------------------------------------------------------------------- */

static void describe(const struct run *r)
{
    const struct options *o = r->o;
    char memory[500];

    memory_text(r, memory, sizeof memory);
    progress_say(r->progress, "%s, %llu x %llu pixels, %llu image%s, %u class%s; %u rank%s of %llu thread%s", o->model,
                 (unsigned long long)o->pixels, (unsigned long long)o->pixels,
                 (unsigned long long)dataset_count(r->train), plural(dataset_count(r->train)), dataset_nclass(r->train),
                 dataset_nclass(r->train) == 1 ? "" : "es", r->nrank, plural(r->nrank), (unsigned long long)o->threads,
                 plural(o->threads));
    progress_say(r->progress, "batch %llu (%u %s of %llu on each rank), %s at rate %g, %llu epoch%s of %llu step%s; %s",
                 (unsigned long long)o->batch, r->npass, r->npass > 1 ? "passes" : "pass", (unsigned long long)o->micro,
                 o->method == PLAIT_OPTIM_LARS ? "LARS" : "SGD", o->rate, (unsigned long long)o->epochs,
                 plural(o->epochs), (unsigned long long)r->epoch_steps, plural(r->epoch_steps), r->folder);
    progress_say(r->progress, "%s, %s%s", r->device->about, options_precision(o), o->tf32 ? " with TF32" : "");
    progress_say(r->progress, "%s", memory);
    if (graphs_text(r) != NULL)
        progress_say(r->progress, "CUDA graphs: %s", graphs_text(r));
    if (o->resume != NULL)
        progress_say(r->progress, "goes on from step %llu, %s", (unsigned long long)r->step, r->recalled.path);
    if (o->precision == PRECISION_BF16 && !o->cuda && !device_cpu_bf16_fast())
        progress_say(r->progress, "this processor has no AVX512_BF16: bf16 is emulated, at half the speed of fp32; "
                                  "--precision fp32 is faster, and gradients still travel as bf16");
}

static int run_training(struct options *o)
{
    struct plait_comm_options c = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_comm *all;
    struct place place;
    int ending = ENDING_GOOD;

    if (!launch((uint32_t)o->ranks, recall_ranks(o), &place))
        return ENDING_USAGE;
    c.rank = place.rank;
    c.nrank = place.nrank;
    c.id = &place.id;
    c.name = "train";
    must(plait_comm_create(&c, &all), "meeting");
    launch_catch_signals();
    struct run *r = run_create(o, all);
    if (r != NULL && o->dry_run)
        dry_run(r);
    else if (r != NULL && o->evaluate_only)
        ending = evaluate_only(r);
    else if (r != NULL) {
        describe(r);
        train(r);
        count_broken(r);
        count_refused(r);
        const bool traced = write_trace(r), saved = state_saved(r);
        progress_end(r->progress, r, saved);
        if (r->stopping)
            ending = ENDING_SIGNAL + (asked_to_stop != 0 ? asked_to_stop : SIGTERM);
        if (!saved || !traced)
            ending = ENDING_ERROR;
    }
    const bool draw = r != NULL && r->rank == 0 && o->plot != NULL && !o->dry_run && !o->evaluate_only;
    char *folder = draw ? strdup(r->folder) : NULL;
    if (r != NULL)
        run_destroy(r);
    must(plait_comm_destroy(all), "leaving");
    if (folder != NULL && plot_runs((const char *const *)&folder, 1, o->plot) != 0)
        ending = ENDING_ERROR;
    free(folder);
    return ending;
}

static int run_command(struct options *o)
{
    if (o->command == COMMAND_MAKE_DATA)
        return make_data(o->data, (uint32_t)o->classes, (uint32_t)o->train_images, (uint32_t)o->val_images,
                         o->pixels > 0 ? (uint32_t)o->pixels : 64, o->seed);
    if (o->command == COMMAND_PLOT)
        return plot_runs((const char *const *)o->paths, o->npath, o->plot != NULL ? o->plot : "run.svg");
    return run_training(o);
}

int main(int argc, char **argv)
{
    struct options o;

    program_begin("plait-train");
    return program_end(options_parse(argc, argv, &o) ? run_command(&o) : ENDING_USAGE);
}
