/* SPDX-License-Identifier: BSD-3-Clause */
#include "options.h"

#include "base/ascii.h"
#include "base/bytes.h"
#include "message.h"
#include "names.h"
#include "row.h"

#include <plait/elastic.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- values of their own kind ------------------------------------------------------------------------------------ */

static bool parse_model(struct options *o, const char *flag, const char *value)
{
    char names[256] = "";

    for (const char *const *name = model_names(); *name != NULL; name++) {
        if (plait_same_name(*name, value)) {
            o->model = *name;
            return true;
        }
        list_add(names, sizeof names, *name);
    }
    return complain("%s %s: must be one of %s", flag, value, names);
}

static bool print_model(const struct options *o, char *out, size_t room)
{
    snprintf(out, room, "%s", o->model != NULL ? o->model : "");
    return o->model != NULL;
}

static bool parse_bucket(struct options *o, const char *flag, const char *value)
{
    size_t bytes = SIZE_MAX;

    if (o->recalled && strcmp(value, "computed") == 0) /* a run from before 0.1.0: the size is chosen */
        return true;
    if (strcmp(value, "all") != 0 && !plait_parse_bytes(value, &bytes))
        return layout_parse(value, &o->bucket) || complain("%s %s: must be bytes, as 1M or 512K; 0 sends each tensor "
                                                           "alone, 'all' all in one; or a layout: " LAYOUT_NAMES,
                                                           flag, value);
    o->bucket = (struct layout){ .threshold = bytes };
    return true;
}

static bool print_bucket(const struct options *o, char *out, size_t room)
{
    char name[LAYOUT_TEXT];

    if (o->bucket.rule == NRULE)
        return false;
    layout_name(&o->bucket, name, sizeof name);
    snprintf(out, room, "%s",
             o->bucket.rule != RULE_THRESHOLD ? name
             : o->bucket.threshold == 0       ? "0"
                                              : strchr(name, ':') + 1);
    return true;
}

static bool parse_elastic(struct options *o, const char *flag, const char *value)
{
    char names[256] = "";

    o->elastic = plait_elastic_find(value);
    if (o->elastic >= 0)
        return true;
    for (int m = 0; m < PLAIT_NELASTIC; m++)
        list_add(names, sizeof names, plait_elastic_name((enum plait_elastic_mode)m));
    return complain("%s %s: must be one of %s", flag, value, names);
}

static bool print_elastic(const struct options *o, char *out, size_t room)
{
    snprintf(out, room, "%s", o->elastic >= 0 ? plait_elastic_name((enum plait_elastic_mode)o->elastic) : "");
    return o->elastic >= 0;
}

static bool parse_loss_scale(struct options *o, const char *flag, const char *value)
{
    if (strcmp(value, "dynamic") == 0) {
        o->loss_scale = 0;
        return true;
    }
    return value_real(flag, value, 1, 1 << 24, &o->loss_scale);
}

static bool print_loss_scale(const struct options *o, char *out, size_t room)
{
    row_print_real(o->loss_scale, out, room);
    if (o->loss_scale == 0)
        snprintf(out, room, "dynamic");
    return o->loss_scale >= 0;
}

static bool parse_algorithm(struct options *o, const char *flag, const char *value)
{
    int coll;

    o->algorithm = name_algorithm(value, &coll);
    return (*o->algorithm != '\0' && (coll < 0 || coll == PLAIT_ALLREDUCE)) ||
           complain("%s %s: must be an algorithm of all-reduce, such as ring or allreduce:ring", flag, value);
}

static bool print_algorithm(const struct options *o, char *out, size_t room)
{
    snprintf(out, room, "%s", o->algorithm != NULL ? o->algorithm : "");
    return o->algorithm != NULL;
}

static bool parse_warmup_method(struct options *o, const char *flag, const char *value)
{
    (void)o;
    return plait_same_name(value, "linear") || complain("%s %s: the rate rises linearly; say linear", flag, value);
}

static bool parse_device(struct options *o, const char *flag, const char *value)
{
    const char *number = strncmp(value, "cuda:", 5) == 0 ? value + 5 : NULL;
    const size_t digits = number != NULL ? strspn(number, "0123456789") : 0;

    o->cuda = number != NULL || strcmp(value, "cuda") == 0;
    o->gpu = digits > 0 && digits < 4 ? atoi(number) : -1;
    if (number != NULL ? digits == 0 || digits > 3 || number[digits] != '\0' : !o->cuda && strcmp(value, "cpu") != 0)
        return complain(
            "%s %s: must be cpu, cuda, or cuda:N for the GPU of number N; cuda spreads --ranks over all GPUs, "
            "or those of CUDA_VISIBLE_DEVICES",
            flag, value);
    return true;
}

/* Its number is each rank's own. */
static bool print_device(const struct options *o, char *out, size_t room)
{
    return snprintf(out, room, o->cuda ? "cuda" : "cpu") > 0;
}

const char *options_precision(const struct options *o)
{
    return o->precision == PRECISION_BF16 ? "bf16" : o->precision == PRECISION_FP16 ? "fp16" : "fp32";
}

/* ---- where they have an effect ------------------------------------------------------------------ */

#define NEED(name, words, condition)                \
    static bool name##_met(const struct options *o) \
    {                                               \
        return condition;                           \
    }                                               \
    static const struct need name = { name##_met, words };

NEED(in_memory, "with --in-memory", o->in_memory)
NEED(on_gpu, "with --device cuda", o->cuda)
NEED(in_fp32_on_gpu, "with --device cuda and --precision fp32", o->cuda && o->precision == PRECISION_FP32)
NEED(synchronous, "without --elastic", o->elastic < 0)
NEED(elastic, "with --elastic", o->elastic >= 0)
NEED(served, "with --elastic original, async, async-momentum or hogwild, which have servers",
     o->elastic >= 0 && o->elastic < PLAIT_ELASTIC_SYNC1)
NEED(lars, "with --optimizer lars", o->method == PLAIT_OPTIM_LARS)
NEED(polynomial, "with --decay polynomial", o->decay == PLAIT_DECAY_POLYNOMIAL)
NEED(decaying, "with --decay polynomial or cosine",
     o->decay == PLAIT_DECAY_POLYNOMIAL || o->decay == PLAIT_DECAY_COSINE)
NEED(stepped, "with --decay steps", o->decay == PLAIT_DECAY_STEPS)
NEED(polishing, "with --polish", o->polish > 0)
NEED(weights, "with --weights", o->weights != NULL)
NEED(tested, "with --weights or --resume", o->weights != NULL || o->resume != NULL)
NEED(many_threads, "without --reproducible, which computes with one thread", !o->reproducible || o->threads == 1)
NEED(drawing, "with make-data", o->command == COMMAND_MAKE_DATA)
#undef NEED

/* ---- the table --------------------------------------------------------------------------------- */

static const struct choice broken[] = { { "skip", false }, { "fatal", true }, { 0 } };
static const struct choice decoders[] = { { "cpu", DECODER_CPU }, { "nvjpeg", DECODER_NVJPEG }, { 0 } };
static const struct choice precisions[] = { { "fp32", PRECISION_FP32, "float32 float" },
                                            { "bf16", PRECISION_BF16, "bfloat16" },
                                            { "fp16", PRECISION_FP16, "float16 half" },
                                            { 0 } };
static const struct choice ends[] = { { "off", 0 }, { "on", 1 }, { 0 } };
static const struct choice methods[] = { { "sgd", PLAIT_OPTIM_SGD }, { "lars", PLAIT_OPTIM_LARS }, { 0 } };
static const struct choice decays[] = { { "none", PLAIT_DECAY_NONE },
                                        { "polynomial", PLAIT_DECAY_POLYNOMIAL, "poly" },
                                        { "cosine", PLAIT_DECAY_COSINE, "cosineannealinglr" },
                                        { "steps", PLAIT_DECAY_STEPS, "step steplr" },
                                        { 0 } };
static const struct choice payloads[] = { { "fp32", PLAIT_FLOAT32, "float32 float" },
                                          { "bf16", PLAIT_BFLOAT16, "bfloat16" },
                                          { "fp16", PLAIT_FLOAT16, "float16 half" },
                                          { 0 } };
static const struct choice polishes[] = { { "weights", POLISH_WEIGHTS }, { "statistics", POLISH_STATISTICS }, { 0 } };
#define GROUP(title)                                     \
    {                                                    \
        .option = {.kind = OPTION_TITLE, .text = title } \
    }
#define ROW(option_, ...)              \
    {                                  \
        .option = option_, __VA_ARGS__ \
    }
#define SWITCHED(name, member, text, ...) ROW(OPTION_IN(SWITCH, name, NULL, member, text), __VA_ARGS__)
#define NUMBERED(name, member, least_, most_, text, ...) \
    ROW(OPTION_IN(NUMBER, name, "N", member, text, .least = least_, .most = most_), __VA_ARGS__)
#define REALS(name, member, least_, most_, text, ...) \
    ROW(OPTION_IN(REAL, name, "X", member, text, .least = least_, .most = most_), __VA_ARGS__)
#define TEXTS(name, argument, member, text, ...) ROW(OPTION_IN(TEXT, name, argument, member, text), __VA_ARGS__)
#define CHOSEN(name, member, choices_, text, ...) \
    ROW(OPTION_IN(CHOICE, name, "WHICH", member, text, .choices = choices_), __VA_ARGS__)
#define OWN(name, argument, parse_, text, ...) \
    ROW(OPTION_TO(PARSED, name, argument, NULL, text, .parse = parse_), __VA_ARGS__)

static const struct row rows[] = {
    GROUP("Data"),
    ROW(OPTION_IN(TEXT, "data-path", "FOLDER", data, "the same as the argument DATA", .also = "data-dir"), .own = true),
    ROW(OPTION_IN(NUMBER, "pixels", "N", pixels, "side of an image (chosen: 224; few images: 32)",
                  .also = "train-crop-size img-size", .least = 16, .most = 1024),
        .kept = KEPT),
    SWITCHED("in-memory", in_memory, "hold a part of the files in each rank's memory, shuffled between ranks (off)"),
    NUMBERED("groups", groups, 1, 65536, "--in-memory: number of groups of ranks, each of which holds all files (1)",
             .need = &in_memory),
    ROW(OPTION_IN(REAL, "jitter", "X", jitter, "range of random brightness, contrast and saturation (0.2)",
                  .also = "color-jitter", .least = 0, .most = 1),
        .kept = KEPT),
    REALS("least-area", least_area, 0.01, 1,
          "least area of a random crop, as a fraction of the image (chosen: 0.08; 32 pixels: 0.5)", .kept = KEPT),
    CHOSEN("broken", broken_fatal, broken,
           "a file that cannot be decoded: skip it with a message, or fatal (skip); a missing file is always fatal",
           .kept = HELD),
    ROW(OPTION_IN(NUMBER, "data-threads", "N", data_threads, "decoding threads of each rank (chosen)", .letter = 'j',
                  .also = "workers", .least = 1, .most = 256),
        .own = true),
    CHOSEN("decoder", decoder, decoders, "what decodes JPEGs: cpu, or with --device cuda nvjpeg, the GPU (cpu)",
           .kept = KEPT),
    NUMBERED("queue", queue, 1, 1024, "micro-batches decoded ahead (4)", .own = true),

    GROUP("Model"),
    OWN("model", "NAME", parse_model,
        "resnet20, resnet18, resnet34, resnet50, resnet101 or resnet152 (chosen: resnet50; few images: resnet20)",
        .print = print_model, .kept = FIXED),
    CHOSEN("precision", precision, precisions,
           "type of activations and weights in a pass: fp32, bf16, or on a GPU fp16 (fp32)", .kept = KEPT),
    SWITCHED("amp", amp, "the same as --precision bf16", .own = true),
    ROW(OPTION_IN(SWITCH, "sync-batch-norm", NULL, sync_norm,
                  "batch norm over the images of all ranks (off: of each rank)", .also = "sync-bn"),
        .kept = KEPT),
    CHOSEN("zero-last", zero_last, ends,
           "initialise the last batch norm's scale of each block as 0: on or off (on; resnet20 off)", .kept = FIXED),
    NUMBERED("micro", micro, 1, 65536, "images in one pass of a rank (chosen: at most 64, on a GPU 256)",
             .kept = PLACED),
    OWN("device", "WHICH", parse_device,
        "cpu, cuda, or cuda:N, the GPU of that number; cuda spreads the ranks of a machine over its GPUs (cpu)",
        .print = print_device, .kept = HELD),
    SWITCHED("tf32", tf32, "fp32 convolutions and products round their operands to TF32 (off)", .kept = KEPT,
             .need = &in_fp32_on_gpu),
    SWITCHED("nondeterministic", nondeterministic,
             "allow algorithms whose sums differ in the last bits from run to run (off)", .kept = KEPT,
             .need = &on_gpu),
    SWITCHED("graph", graph, "repeat what is the same in every step on the GPU as CUDA graphs (off)", .kept = HELD,
             .need = &on_gpu),
    NUMBERED("threads", threads, 1, 1024, "computing threads of each rank (chosen: all processors)", .kept = PLACED,
             .need = &many_threads, .own = true),

    GROUP("Training"),
    NUMBERED("epochs", epochs, 1, 100000, "number of epochs (chosen: 90; few images: 30)", .kept = KEPT),
    NUMBERED("steps", steps, 1, 1e15, "stop after N steps, whatever --epochs says", .kept = HELD),
    ROW(OPTION_IN(NUMBER, "batch", "N", batch, "images of all ranks in a step (chosen: 256; few images: 64)",
                  .letter = 'b', .also = "batch-size", .least = 1, .most = 1 << 24),
        .kept = FIXED),
    ROW(OPTION_IN(CHOICE, "optimizer", "WHICH", method, "sgd or lars (sgd)", .also = "opt", .choices = methods),
        .kept = FIXED),
    ROW(OPTION_IN(REAL, "rate", "X", rate, "learning rate after the warm-up (chosen: by optimiser and batch)",
                  .also = "lr", .least = 0, .most = 1000),
        .kept = KEPT),
    ROW(OPTION_IN(REAL, "warmup", "X", warmup, "epochs in which the rate rises from 0 (chosen)",
                  .also = "lr-warmup-epochs warmup-epochs", .least = 0, .most = 1000),
        .kept = KEPT),
    OWN("lr-warmup-method", "linear", parse_warmup_method, "accepted: the rate rises linearly", .own = true),
    ROW(OPTION_IN(CHOICE, "decay", "WHICH", decay,
                  "decay of the rate: polynomial, cosine, steps or none "
                  "(cosine; with --step-epochs or --gamma: steps)",
                  .also = "lr-scheduler sched", .choices = decays),
        .kept = KEPT),
    REALS("power", power, 0.1, 10, "exponent of the polynomial (2)", .kept = KEPT, .need = &polynomial),
    REALS("rate-end", rate_end, 0, 1, "final rate, as a fraction of --rate (0.001)", .kept = KEPT, .need = &decaying),
    ROW(OPTION_IN(REAL, "step-epochs", "X", step_epochs, "--decay steps: epochs from one step to the next (30)",
                  .also = "lr-step-size decay-epochs", .least = 0.001, .most = 100000),
        .kept = KEPT, .need = &stepped),
    ROW(OPTION_IN(REAL, "gamma", "X", gamma, "--decay steps: factor of the rate at each step (0.1)",
                  .also = "lr-gamma decay-rate", .least = 1e-6, .most = 1),
        .kept = KEPT, .need = &stepped),
    REALS("tail", tail, 0, 1000, "final epochs at the final rate (chosen: those of --polish)", .kept = KEPT),
    REALS("momentum", momentum, 0, 0.9999, "momentum of the optimiser (0.9)", .kept = KEPT),
    SWITCHED("nesterov", nesterov, "Nesterov momentum (off)", .kept = KEPT),
    ROW(OPTION_IN(REAL, "weight-decay", "X", weight_decay, "weight decay (1e-4)", .also = "wd", .least = 0, .most = 1),
        .kept = KEPT),
    SWITCHED("decay-all", decay_all, "apply weight decay, and LARS's trust ratio, to biases and batch norm too (off)",
             .kept = KEPT),
    REALS("eta", eta, 1e-6, 1, "trust coefficient of LARS (0.001)", .kept = KEPT, .need = &lars),
    ROW(OPTION_IN(REAL, "smoothing", "X", smoothing, "label smoothing (0.1)", .also = "label-smoothing", .least = 0,
                  .most = 0.99),
        .kept = KEPT),
    OWN("loss-scale", "X", parse_loss_scale, "loss scale: a number, or dynamic (1; with fp16 dynamic)",
        .print = print_loss_scale, .kept = KEPT),
    NUMBERED("polish", polish, 0, 1000, "final epochs with images as in evaluation: Final Polishing (0)", .kept = KEPT),
    CHOSEN("polish-kind", polish_kind, polishes,
           "continue to train the weights at the last rate, or only update batch norm's statistics (weights)",
           .kept = KEPT, .need = &polishing),
    NUMBERED("seed", seed, 0, 1e15, "seed of weights, order and augmentation (1)", .kept = FIXED),
    SWITCHED("reproducible", reproducible, "the same bits for any number of ranks (off)", .kept = FIXED),

    GROUP("Communication"),
    CHOSEN("payload", payload, payloads, "gradients travel as fp32, bf16 or fp16 (bf16; fp32 with --reproducible)",
           .kept = KEPT),
    OWN("bucket", "SIZE", parse_bucket,
        "bucket size in bytes (an eighth of the gradients, 64K to 4M); 0: each tensor alone; or a layout, such as "
        "cuts:4+28",
        .print = print_bucket, .kept = KEPT, .need = &synchronous),
    SWITCHED("overlap", overlap, "exchange buckets during the backward pass (on)", .need = &synchronous),
    ROW(OPTION_TO(PARSED, "algo", "SPEC", NULL,
                  "algorithm of the buckets' all-reduce, e.g. ring (chosen by the library)", .parse = parse_algorithm),
        .print = print_algorithm, .kept = KEPT, .need = &synchronous),
    OWN("elastic", "MODE", parse_elastic,
        "elastic averaging in place of synchronous SGD: original, async, async-momentum, hogwild, sync1, sync2, sync3",
        .print = print_elastic, .kept = KEPT),
    NUMBERED("period", period, 1, 1e6, "--elastic: steps between exchanges (1)", .kept = KEPT, .need = &elastic),
    REALS("beta", beta, 0.001, 1, "--elastic: the pull times the number of workers (0.9)", .kept = KEPT,
          .need = &elastic),
    NUMBERED("servers", servers, 1, 4096, "--elastic: ranks that hold the centre, in modes that need them (1)",
             .kept = KEPT, .need = &served),
    NUMBERED("ranks", ranks, 1, 4096,
             "ranks to start on this machine (1; --resume: as before); not under mpirun, torchrun or Slurm, which "
             "start them",
             .own = true),

    GROUP("The run"),
    ROW(OPTION_IN(TEXT, "run", "FOLDER", run, "folder for checkpoints and log.jsonl (chosen: run-1, run-2, ...)",
                  .also = "output-dir output"),
        .own = true),
    TEXTS("resume", "FOLDER", resume, "resume the run in this folder"),
    ROW(OPTION_IN(TEXT, "weights", "FILE", weights,
                  "start from the weights of a safetensors file, of plait-train or torchvision",
                  .also = "initial-checkpoint")),
    SWITCHED("new-classifier", new_classifier,
             "--weights: do not load the classifier, to train for other classes (off)", .need = &weights),
    NUMBERED("keep", keep, 1, 1000, "keep the last N checkpoints, and the best (2)", .own = true),
    NUMBERED("save-every", save_every, 0, 1e15, "save every N steps; 0: after each epoch (0)"),
    NUMBERED("evaluate-every", evaluate_every, 0, 1e6, "evaluate every N epochs; 0: only at the end (1)", .kept = HELD),
    NUMBERED("log-every", log_every, 1, 1e9, "log every N steps to log.jsonl (10)"),
    ROW(OPTION_IN(NUMBER, "print-every", "N", print_every,
                  "print progress every N steps (chosen: on a terminal ten times a second, else every 10 s)",
                  .also = "print-freq log-interval", .least = 1, .most = 1e9)),
    TEXTS("plot", "FILE", plot, "plot the run at the end; .svg", .own = true),
    TEXTS("trace", "FILE", trace, "trace the first steps, for ui.perfetto.dev", .need = &synchronous),
    ROW(OPTION_IN(SWITCH, "evaluate-only", NULL, evaluate_only,
                  "evaluate the weights of --weights or --resume, and exit", .also = "test-only"),
        .need = &tested),
    SWITCHED("dry-run", dry_run, "print memory, buckets, algorithms and the expected share of communication"),
    { .option = OPTION_TO(HELP, "help", NULL, NULL, "this text") },

    GROUP("make-data"),
    NUMBERED("classes", classes, 2, 48, "number of classes, 2 to 48 (10)", .need = &drawing),
    NUMBERED("train-images", train_images, 1, 1e7, "images for training (2000)", .need = &drawing),
    NUMBERED("val-images", val_images, 1, 1e7, "images for the test (500)", .need = &drawing),
};
#define NROW (sizeof rows / sizeof *rows)
_Static_assert(NROW <= OPTIONS_MOST, "struct options tells of each whether it was given");
#undef GROUP
#undef ROW
#undef SWITCHED
#undef NUMBERED
#undef REALS
#undef TEXTS
#undef CHOSEN
#undef OWN

static const struct option_table table = {
    "Usage: plait-train DATA [options]\n"
    "  or:  plait-train make-data FOLDER [options]\n"
    "  or:  plait-train plot RUN... [--plot FILE]\n\n"
    "Trains a residual network on the images (JPEG, PNG) in DATA/train/CLASS and tests it on those in DATA/val/CLASS.\n"
    "make-data draws such a folder of images; plot draws runs (see docs/training.md).\n",
    "\nExit status: 0 trained; 1 an error; 2 wrong arguments; 3 the loss is not finite; 4 a rank was lost;\n"
    "128 plus the signal's number: a signal stopped the training, and a checkpoint was written.\n",
    &rows[0].option, NROW, sizeof rows[0]
};

void options_help(void)
{
    option_help(&table);
}

/* ---- parsing ----------------------------------------------------------------------------------- */

static void set_defaults(struct options *o)
{
    *o = (struct options){
        .jitter = 0.2,
        .queue = 4,
        .groups = 1,
        .zero_last = -1,
        .seed = 1,
        .method = PLAIT_OPTIM_SGD,
        .rate = -1,
        .warmup = -1,
        .tail = -1,
        .power = 2,
        .rate_end = 0.001,
        .step_epochs = 30,
        .gamma = 0.1,
        .decay = PLAIT_DECAY_COSINE,
        .momentum = 0.9,
        .weight_decay = 1e-4,
        .eta = 0.001,
        .smoothing = 0.1,
        .loss_scale = -1,
        .payload = PLAIT_NDTYPE,
        .bucket = { .rule = NRULE },
        .overlap = true,
        .elastic = -1,
        .period = 1,
        .beta = 0.9,
        .keep = 2,
        .evaluate_every = 1,
        .log_every = 10,
        .classes = 10,
        .train_images = 2000,
        .val_images = 500,
    };
}

static bool take_paths(struct options *o)
{
    if (o->command == COMMAND_PLOT)
        return o->npath > 0 || complain("plot: no run is named: plait-train plot RUN... [--plot FILE]");
    if (o->data != NULL)
        return o->npath == 0 ||
               complain("--data-path %s and '%s': there can be only one folder; leave one out", o->data, o->paths[0]);
    if (o->npath == 0)
        return complain("no folder of images is named: plait-train DATA; 'plait-train make-data DATA' draws one");
    if (o->npath > 1)
        return complain("unexpected argument '%s'; options begin with --, see --help", o->paths[1]);
    o->data = o->paths[0];
    return true;
}

const char *options_flag(const struct options *o, const char *name)
{
    return option_flag(&table, o->given, name);
}

/* make-data and plot take few of the options. */
static bool options_taken(const struct options *o)
{
    static const char *const to_draw[] = { "classes", "train-images", "val-images", "pixels", "seed", NULL };
    static const char *const to_plot[] = { "plot", NULL };
    const char *const *const taken = o->command == COMMAND_MAKE_DATA ? to_draw : to_plot;

    for (size_t i = 0; i < NROW && o->command != COMMAND_TRAIN; i++) {
        size_t k = 0;
        while (o->given[i].yes && taken[k] != NULL && strcmp(taken[k], rows[i].option.name) != 0)
            k++;
        if (o->given[i].yes && taken[k] == NULL)
            return complain("%s has an effect only in training; leave it out", o->given[i].flag);
    }
    return true;
}

bool options_needed(const struct options *o)
{
    for (size_t i = 0; i < NROW; i++)
        if (o->given[i].yes && rows[i].need != NULL && !rows[i].need->met(o))
            return complain("%s has an effect only %s; leave it out", o->given[i].flag, rows[i].need->text);
    return true;
}

bool options_parse(int argc, char **argv, struct options *out)
{
    const char *command = argc > 1 ? argv[1] : "";
    int npath;

    set_defaults(out);
    if (strcmp(command, "make-data") == 0)
        out->command = COMMAND_MAKE_DATA;
    else if (strcmp(command, "plot") == 0)
        out->command = COMMAND_PLOT;
    if (out->command != COMMAND_TRAIN) {
        argc--;
        argv++;
    }
    if (!option_parse(&table, out, out->given, argc, argv, &npath))
        return false;
    out->paths = argv + 1;
    out->npath = (uint32_t)npath;
    if (out->amp && out->given[option_of(&table, "precision")].yes && out->precision != PRECISION_BF16)
        return complain("--amp %s %s: --amp is --precision bf16; leave one out", options_flag(out, "precision"),
                        options_precision(out));
    if (out->amp) {
        out->precision = PRECISION_BF16;
        out->given[option_of(&table, "precision")] = (struct option_given){ true, "--amp" };
    }
    if (out->resume == NULL && !out->given[option_of(&table, "decay")].yes &&
        (out->given[option_of(&table, "step-epochs")].yes || out->given[option_of(&table, "gamma")].yes))
        out->decay = PLAIT_DECAY_STEPS;
    return take_paths(out) && options_taken(out) && (out->resume != NULL || options_needed(out)) && options_check(out);
}

/* ---- of all ranks ------------------------------------------------------------------------------ */

/* --resume first: without it options differ that a run takes from its checkpoint. */
static const struct row *alike_row(uint32_t k)
{
    const size_t first = option_of(&table, "resume");

    if (k-- == 0)
        return &rows[first];
    for (size_t i = 0; i < NROW; i++)
        if (i != first && !rows[i].own && rows[i].option.kind != OPTION_TITLE && rows[i].option.kind != OPTION_HELP &&
            k-- == 0)
            return &rows[i];
    return NULL;
}

bool options_alike(const struct options *o, uint32_t k, struct note *out)
{
    const struct row *r = alike_row(k);

    *out = (struct note){ 0 };
    if (r == NULL)
        return false;
    snprintf(out->name, sizeof out->name, "%s", r->option.name);
    if ((o->resume != NULL && r->kept != FREE && !o->given[r - rows].yes) ||
        !row_print(r, o, out->value, sizeof out->value))
        out->value[0] = '\0';
    else if (r->option.kind == OPTION_TEXT)
        snprintf(out->value, sizeof out->value, "given");
    return true;
}

/* ---- of a run that goes on --------------------------------------------------------------------- */

static const struct row *kept_row(uint32_t k)
{
    for (size_t i = 0; i < NROW; i++)
        if (rows[i].kept != FREE && k-- == 0)
            return &rows[i];
    return NULL;
}

bool options_kept(const struct options *o, uint32_t k, struct note *out)
{
    const struct row *r = kept_row(k);

    *out = (struct note){ 0 };
    if (r == NULL)
        return false;
    snprintf(out->name, sizeof out->name, "option.%s", r->option.name);
    if (!row_print(r, o, out->value, sizeof out->value))
        out->value[0] = '\0';
    return true;
}

/* An option that is given and differs from the checkpoint's: allowed only if the state still fits. */
static bool differs(const struct options *o, const struct row *r, const char *is, const char *was)
{
    const char *none = "none", *flag = o->given[r - rows].flag;

    if (strcmp(is, was) == 0 || r->kept == HELD)
        return true;
    was = *was != '\0' ? was : none;
    if (r->kept == FIXED)
        return complain("%s %s: the run in %s has %s; leave %s out, or begin anew with --run and --weights", flag, is,
                        o->resume, was, flag);
    complain("%s is %s, but was %s: the results will differ from those of an uninterrupted run", flag, is, was);
    return true;
}

static bool recall(struct options *o, const struct row *r, const char *was, bool same_ranks)
{
    struct note now = { 0 };
    char flag[64];

    if (o->given[r - rows].yes) {
        row_print(r, o, now.value, sizeof now.value);
        return differs(o, r, now.value, was);
    }
    if (*was == '\0' || (r->kept == PLACED && !same_ranks && !o->reproducible))
        return true;
    snprintf(flag, sizeof flag, "%s: --%s", o->resume, r->option.name);
    return option_set(&r->option, o, flag, was);
}

bool options_recall(struct options *o, const struct note *notes, bool same_ranks)
{
    const struct row *r;

    o->recalled = true;
    for (int placed = 0; placed < 2; placed++) /* PLACED options last: they depend on --reproducible */
        for (uint32_t k = 0; (r = kept_row(k)) != NULL; k++)
            if ((r->kept == PLACED) == placed && !recall(o, r, notes[k].value, same_ranks))
                return false;
    if (!o->cuda && !o->given[option_of(&table, "decoder")].yes)
        o->decoder = DECODER_CPU; /* --device cpu */
    if (o->cuda && !o->given[option_of(&table, "device")].yes)
        remark("--resume %s: it was trained with --device cuda, and goes on so; --device cpu takes processors",
               o->resume);
    return options_needed(o) && options_check(o);
}
