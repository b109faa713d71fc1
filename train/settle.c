/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of options against each other, and choices for unset options. */
#include "ending.h"
#include "options.h"
#include "value.h"

#include <plait/elastic.h>

#include <math.h>
#include <string.h>
#include <unistd.h>

bool options_check(const struct options *o)
{
    if (o->reproducible && o->elastic >= 0)
        return complain("--reproducible %s %s: each rank has its own weights there; leave one out",
                        options_flag(o, "elastic"), plait_elastic_name((enum plait_elastic_mode)o->elastic));
    if (o->reproducible && o->sync_norm)
        return complain("--reproducible %s: its sums depend on the number of ranks; leave one out",
                        options_flag(o, "sync-batch-norm"));
    if (o->reproducible && o->payload != PLAIT_NDTYPE && o->payload != PLAIT_FLOAT32)
        return complain(
            "--reproducible --payload %s: only fp32 gives the same bits for any number of ranks; use --payload fp32",
            o->payload == PLAIT_FLOAT16 ? "fp16" : "bf16");
    if (o->sync_norm && o->elastic >= 0 && o->elastic < PLAIT_ELASTIC_SYNC1)
        return complain("%s %s %s: its workers do not step together; leave one out", options_flag(o, "sync-batch-norm"),
                        options_flag(o, "elastic"), plait_elastic_name((enum plait_elastic_mode)o->elastic));
    const bool processors =
        !o->cuda && (o->resume == NULL || o->recalled); /* a resumed run has its device from there */
    if (o->precision == PRECISION_FP16 && processors)
        return complain(
            "%s fp16: oneDNN does not train in fp16 on processors; use --device cuda, or --precision fp32 or "
            "bf16",
            options_flag(o, "precision"));
    if (o->decoder == DECODER_NVJPEG && !o->cuda)
        return complain("--decoder nvjpeg: nvJPEG decodes on a GPU: add --device cuda, or use --decoder cpu");
    if (o->reproducible && o->nondeterministic)
        return complain("--reproducible --nondeterministic: they contradict each other; leave one out");
    if (o->plot != NULL && !value_picture("--plot", o->plot))
        return false;
    if (o->resume != NULL && o->run != NULL)
        return complain("--resume %s %s %s: a run goes on in its own folder; leave %s out", o->resume,
                        options_flag(o, "run"), o->run, options_flag(o, "run"));
    if (o->evaluate_only && o->dry_run)
        return complain("%s --dry-run: leave one out", options_flag(o, "evaluate-only"));
    if (o->resume != NULL && o->weights != NULL)
        return complain("--resume %s %s %s: both load weights; leave one out", o->resume, options_flag(o, "weights"),
                        o->weights);
    return true;
}

enum { FEW = 100000 }; /* images; ImageNet has 1,281,167 */

/* Linear in the batch (Goyal et al. 2017); for LARS, proportional to its root. */
static double usual_rate(const struct options *o)
{
    return o->method == PLAIT_OPTIM_SGD ? 0.1 * (double)o->batch / 128 : 4 * sqrt((double)o->batch / 256);
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The largest divisor of a rank's images that is at most `most`. */
static uint64_t usual_micro(uint64_t images, uint64_t most)
{
    uint64_t m = at_most(images, most);

    while (images % m != 0)
        m--;
    return m;
}

static bool settle_batch(struct options *o, uint64_t images, uint32_t nworker)
{
    if (o->batch == 0) {
        o->batch = at_most(images < FEW ? 64 : 256, images);
        o->batch = o->batch < nworker ? nworker : o->batch - o->batch % nworker;
    }
    if (o->batch > images)
        return complain("%s %llu: more than the images for training, %llu; use fewer", options_flag(o, "batch"),
                        (unsigned long long)o->batch, (unsigned long long)images);
    if (o->batch % nworker != 0)
        return complain("%s %llu: %u ranks need a multiple of %u", options_flag(o, "batch"),
                        (unsigned long long)o->batch, nworker, nworker);
    if (o->micro == 0) /* reproducible: from the batch alone, whatever the ranks */
        o->micro = o->reproducible ? o->batch / at_most(o->batch & -o->batch, 4)
                                   : usual_micro(o->batch / nworker, o->cuda ? 256 : 64);
    const uint64_t own = o->batch / nworker, passes = own / o->micro;
    if (own % o->micro != 0)
        return complain("--micro %llu: must divide the %llu images of a rank in a step (%s %llu, %u ranks)",
                        (unsigned long long)o->micro, (unsigned long long)own, options_flag(o, "batch"),
                        (unsigned long long)o->batch, nworker);
    return !o->reproducible || nworker == 1 || (passes & (passes - 1)) == 0 ||
           complain("--reproducible: %llu passes of a rank in a step must be a power of two, or the sums depend on the "
                    "number of ranks; change --micro %llu",
                    (unsigned long long)passes, (unsigned long long)o->micro);
}

void options_settle_types(struct options *o)
{
    if (o->payload ==
        PLAIT_NDTYPE) /* elastic averaging exchanges weights, which tolerate less rounding than gradients */
        o->payload = o->reproducible || o->elastic >= 0 ? PLAIT_FLOAT32 : PLAIT_BFLOAT16;
    if (o->loss_scale < 0)
        o->loss_scale = o->payload == PLAIT_FLOAT16 || o->precision == PRECISION_FP16 ? 0 : 1;
}

/* With more threads passes hardly end: the threads wait for each other in turns. */
static uint64_t most_threads(void)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN);

    return 4 * (uint64_t)(online > 0 ? online : 1);
}

bool options_settle(struct options *o, uint64_t images, uint32_t nworker, uint32_t cpus)
{
    const bool few = images < FEW;

    o->model = o->model != NULL ? o->model : few ? "resnet20" : "resnet50";
    o->pixels = o->pixels > 0 ? o->pixels : few ? 32 : 224;
    if (o->zero_last < 0) /* in a run of a few hundred steps, blocks that start at zero would come too late */
        o->zero_last = strcmp(o->model, "resnet20") != 0;
    o->least_area = o->least_area > 0 ? o->least_area : o->pixels < 64 ? 0.5 : 0.08;
    o->epochs = o->epochs > 0 ? o->epochs : few ? 30 : 90;
    if (!settle_batch(o, images, nworker))
        return false;
    if (o->groups > nworker)
        return complain("--groups %llu: more than the %u ranks; use fewer", (unsigned long long)o->groups, nworker);
    if (o->polish > o->epochs)
        return complain("--polish %llu: more than --epochs %llu; use fewer", (unsigned long long)o->polish,
                        (unsigned long long)o->epochs);
    if (o->warmup > (double)o->epochs || o->tail > (double)o->epochs)
        return complain("%s %g: more than --epochs %llu; use fewer",
                        options_flag(o, o->warmup > (double)o->epochs ? "warmup" : "tail"),
                        o->warmup > (double)o->epochs ? o->warmup : o->tail, (unsigned long long)o->epochs);
    if (o->threads > most_threads())
        return complain("--threads %llu: at most %llu, four for each processor of this machine",
                        (unsigned long long)o->threads, (unsigned long long)most_threads());
    o->threads = o->reproducible ? 1 : o->threads > 0 ? o->threads : cpus;
    if (o->data_threads == 0) /* a thread sleeps while the GPU decodes its image */
        o->data_threads = o->decoder == DECODER_NVJPEG ? at_most(2 * (uint64_t)cpus, 256) : cpus;
    o->rate = o->rate >= 0 ? o->rate : usual_rate(o);
    o->warmup = o->warmup >= 0 ? o->warmup : fmin(5, 0.1 * (double)o->epochs);
    o->tail = o->tail >= 0 ? o->tail : (double)o->polish;
    return true;
}
