/* SPDX-License-Identifier: BSD-3-Clause */
#include "options.h"

#include "ending.h"

#include <plait/elastic.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind {
    TITLE,  /* of a group in --help */
    SWITCH, /* bool: --name or --no-name */
    NUMBER, /* uint64_t, least .. most */
    REAL,   /* double, least .. most */
    TEXT,   /* const char * */
    CHOICE, /* an enum, by name */
    PARSED  /* by its own function */
};

struct choice {
    const char *name;
    int value;
};

struct row {
    enum kind kind;
    const char *name, *argument;
    size_t offset;
    double least, most;
    const struct choice *choices; /* the last has no name */
    bool (*parse)(struct options *o, const char *flag, const char *value);
    const char *text; /* for --help */
};

/* ---- values ------------------------------------------------------------------------------------ */

static bool parse_number(const char *flag, const char *text, double least, double most, uint64_t *out)
{
    char *end;

    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || (double)value < least || (double)value > most)
        return complain("%s %s: expected a whole number from %.0f to %.0f", flag, text, least, most);
    *out = value;
    return true;
}

static bool parse_real(const char *flag, const char *text, double least, double most, double *out)
{
    char *end;
    const double value = strtod(text, &end);

    if (end == text || *end != '\0' || !(value >= least && value <= most))
        return complain("%s %s: expected a number from %g to %g", flag, text, least, most);
    *out = value;
    return true;
}

static bool parse_choice(const char *flag, const char *text, const struct choice *choices, void *out)
{
    char names[256] = "";

    for (const struct choice *c = choices; c->name != NULL; c++) {
        if (strcmp(c->name, text) == 0) {
            memcpy(out, &c->value, sizeof c->value);
            return true;
        }
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", *names != '\0' ? ", " : "", c->name);
    }
    return complain("%s %s: expected one of %s", flag, text, names);
}

static bool parse_model(struct options *o, const char *flag, const char *value)
{
    char names[256] = "";

    for (const char *const *name = model_names(); *name != NULL; name++) {
        if (strcmp(*name, value) == 0) {
            o->model = *name;
            return true;
        }
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", *names != '\0' ? ", " : "", *name);
    }
    return complain("%s %s: expected one of %s", flag, value, names);
}

static bool parse_bucket(struct options *o, const char *flag, const char *value)
{
    static const char units[] = "KMG";
    char *end;

    if (strcmp(value, "all") == 0) {
        o->bucket = SIZE_MAX;
        return true;
    }
    errno = 0;
    const unsigned long long n = strtoull(value, &end, 10);
    const char *unit = *end != '\0' ? strchr(units, *end) : NULL;
    if (*value < '0' || *value > '9' || errno != 0 || n > UINT32_MAX ||
        (*end != '\0' && (unit == NULL || end[1] != '\0')))
        return complain("%s %s: expected bytes, as 1M or 512K; 0 sends each tensor alone, 'all' all in one", flag,
                        value);
    o->bucket = (size_t)n << (unit != NULL ? 10 * (unit - units + 1) : 0);
    return true;
}

static bool parse_elastic(struct options *o, const char *flag, const char *value)
{
    char names[256] = "";

    o->elastic = plait_elastic_find(value);
    if (o->elastic >= 0)
        return true;
    for (int m = 0; m < PLAIT_NELASTIC; m++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", m > 0 ? ", " : "",
                 plait_elastic_name((enum plait_elastic_mode)m));
    return complain("%s %s: expected one of %s", flag, value, names);
}

static bool parse_loss_scale(struct options *o, const char *flag, const char *value)
{
    if (strcmp(value, "dynamic") == 0) {
        o->loss_scale = 0;
        return true;
    }
    return parse_real(flag, value, 1, 1 << 24, &o->loss_scale);
}

static bool parse_help(struct options *o, const char *flag, const char *value)
{
    (void)flag, (void)value;
    o->help = true;
    return true;
}

/* ---- the table --------------------------------------------------------------------------------- */

static const struct choice precisions[] = { { "fp32", PRECISION_FP32 }, { "bf16", PRECISION_BF16 }, { 0 } };
static const struct choice ends[] = { { "off", 0 }, { "on", 1 }, { 0 } };
static const struct choice methods[] = { { "sgd", PLAIT_OPTIM_SGD }, { "lars", PLAIT_OPTIM_LARS }, { 0 } };
static const struct choice decays[] = {
    { "none", PLAIT_DECAY_NONE }, { "polynomial", PLAIT_DECAY_POLYNOMIAL }, { "cosine", PLAIT_DECAY_COSINE }, { 0 }
};
static const struct choice payloads[] = {
    { "fp32", PLAIT_FLOAT32 }, { "bf16", PLAIT_BFLOAT16 }, { "fp16", PLAIT_FLOAT16 }, { 0 }
};
static const struct choice polishes[] = { { "weights", POLISH_WEIGHTS }, { "statistics", POLISH_STATISTICS }, { 0 } };
static const struct choice broken[] = { { "skip", 0 }, { "fatal", 1 }, { 0 } };

static bool parse_broken(struct options *o, const char *flag, const char *value)
{
    int fatal;

    if (!parse_choice(flag, value, broken, &fatal))
        return false;
    o->broken_fatal = fatal;
    return true;
}

#define AT(member) offsetof(struct options, member)
#define GROUP(text)                                  \
    {                                                \
        TITLE, NULL, NULL, 0, 0, 0, NULL, NULL, text \
    }
#define SWITCHED(name, at, text)                           \
    {                                                      \
        SWITCH, name, NULL, AT(at), 0, 0, NULL, NULL, text \
    }
#define NUMBERED(name, at, least, most, text)                    \
    {                                                            \
        NUMBER, name, "N", AT(at), least, most, NULL, NULL, text \
    }
#define REALS(name, at, least, most, text)                     \
    {                                                          \
        REAL, name, "X", AT(at), least, most, NULL, NULL, text \
    }
#define TEXTS(name, argument, at, text)                      \
    {                                                        \
        TEXT, name, argument, AT(at), 0, 0, NULL, NULL, text \
    }
#define CHOSEN(name, at, choices, text)                          \
    {                                                            \
        CHOICE, name, "WHICH", AT(at), 0, 0, choices, NULL, text \
    }
#define OWN(name, argument, parse, text)                   \
    {                                                      \
        PARSED, name, argument, 0, 0, 0, NULL, parse, text \
    }

static const struct row rows[] = {
    GROUP("Data"),
    NUMBERED("pixels", pixels, 16, 1024, "of a side of an image (chosen: 224, for few images 32)"),
    SWITCHED("in-memory", in_memory, "each rank holds a part of the files, shuffled between ranks (off)"),
    NUMBERED("groups", groups, 1, 65536, "--in-memory: groups of ranks that hold all files each (1)"),
    REALS("jitter", jitter, 0, 1, "of brightness, contrast and saturation (0.2)"),
    REALS("least-area", least_area, 0.01, 1, "of a random crop, as part of the image (chosen: 0.08, 32 pixels 0.5)"),
    OWN("broken", "WHICH", parse_broken, "files: skip them, with a line for each, or fatal (skip)"),
    NUMBERED("data-threads", data_threads, 1, 256, "that decode images, for each rank (chosen)"),
    NUMBERED("queue", queue, 1, 1024, "micro-batches decoded ahead (4)"),

    GROUP("Model"),
    OWN("model", "NAME", parse_model,
        "resnet20, resnet18, resnet34, resnet50 or resnet101 (chosen: resnet50, for few images resnet20)"),
    CHOSEN("precision", precision, precisions, "of activations and weights in a pass: fp32 or bf16 (fp32)"),
    SWITCHED("sync-batch-norm", sync_norm, "statistics of all ranks' images (off: of each rank's)"),
    CHOSEN("zero-last", zero_last, ends, "the last scale of each block starts as 0: on or off (on; resnet20 off)"),
    NUMBERED("micro", micro, 1, 65536, "images of one pass of a rank (chosen: at most 64)"),
    NUMBERED("threads", threads, 1, 1024, "that compute, for each rank (chosen: all processors)"),

    GROUP("Training"),
    NUMBERED("epochs", epochs, 1, 100000, "to train (chosen: 90, for few images 30)"),
    NUMBERED("steps", steps, 1, 1e15, "stop after so many, whatever --epochs says"),
    NUMBERED("batch", batch, 1, 1 << 24, "images of all ranks in a step (chosen: 256, for few images 64)"),
    CHOSEN("optimizer", method, methods, "sgd or lars (sgd)"),
    REALS("rate", rate, 0, 1000, "of learning, after the warm-up (chosen: by optimiser and batch)"),
    REALS("warmup", warmup, 0, 1000, "epochs in which the rate rises from nothing (chosen)"),
    CHOSEN("decay", decay, decays, "of the rate: polynomial, cosine or none (cosine)"),
    REALS("power", power, 0.1, 10, "of the polynomial (2)"),
    REALS("rate-end", rate_end, 0, 1, "part of the rate at which its decay ends (0.001)"),
    REALS("tail", tail, 0, 1000, "epochs at the end with that rate (chosen: those of --polish)"),
    REALS("momentum", momentum, 0, 0.9999, "(0.9)"),
    SWITCHED("nesterov", nesterov, "momentum in advance (off)"),
    REALS("weight-decay", weight_decay, 0, 1, "(1e-4)"),
    SWITCHED("decay-all", decay_all, "decay biases and batch norm too; LARS trusts them as the others (off)"),
    REALS("eta", eta, 1e-6, 1, "LARS: the trust coefficient (0.001)"),
    REALS("smoothing", smoothing, 0, 0.99, "of labels (0.1)"),
    OWN("loss-scale", "X", parse_loss_scale, "a number, or dynamic (1; --payload fp16: dynamic)"),
    NUMBERED("polish", polish, 0, 1000, "final epochs on images as in evaluation: Final Polishing (0)"),
    CHOSEN("polish-kind", polish_kind, polishes,
           "train the weights on at the last rate, or only batch norm's statistics (weights)"),
    NUMBERED("seed", seed, 0, 1e15, "of weights, order and augmentation (1)"),
    SWITCHED("reproducible", reproducible, "the same bits for any number of ranks (off)"),

    GROUP("Communication"),
    CHOSEN("payload", payload, payloads, "gradients travel as fp32, bf16 or fp16 (bf16; fp32 with --reproducible)"),
    OWN("bucket", "SIZE", parse_bucket, "bytes that travel together; 0: each tensor alone (chosen)"),
    SWITCHED("overlap", overlap, "buckets travel while the backward pass goes on (on)"),
    TEXTS("algorithm", "SPEC", algorithm, "of the buckets' all-reduce (chosen by size)"),
    OWN("elastic", "MODE", parse_elastic,
        "elastic averaging in place of synchronous SGD: original, async, async-momentum, hogwild, sync1, sync2, sync3"),
    NUMBERED("period", period, 1, 1e6, "--elastic: steps between exchanges (1)"),
    REALS("beta", beta, 0.001, 1, "--elastic: pull times the number of workers (0.9)"),
    NUMBERED("servers", servers, 1, 4096, "--elastic: ranks that hold the centre, in modes that need them (1)"),
    NUMBERED("ranks", ranks, 1, 4096, "to start on this machine (1); under mpirun, torchrun or Slurm theirs count"),

    GROUP("The run"),
    TEXTS("run", "FOLDER", run, "for checkpoints and log.jsonl (chosen: run-1, run-2, ...)"),
    TEXTS("resume", "FOLDER", resume, "go on with the run in this folder"),
    TEXTS("weights", "FILE", weights, "start from those of a safetensors file, ours or torchvision's"),
    SWITCHED("new-classifier", new_classifier, "--weights: but not its last layer, for other classes (off)"),
    NUMBERED("keep", keep, 1, 1000, "so many of the last checkpoints, and the best (2)"),
    NUMBERED("save-every", save_every, 0, 1e15, "steps; 0: after each epoch (0)"),
    NUMBERED("evaluate-every", evaluate_every, 0, 1e6, "epochs; 0: in the end only (1)"),
    NUMBERED("log-every", log_every, 1, 1e9, "steps, to log.jsonl (10)"),
    TEXTS("plot", "FILE", plot, "draw the run in the end; .png or .svg"),
    TEXTS("trace", "FILE", trace, "write what the first steps did, for ui.perfetto.dev"),
    SWITCHED("dry-run", dry_run, "print memory, buckets, algorithms and the expected share of communication"),
    OWN("help", NULL, parse_help, "this text"),

    GROUP("make-data"),
    NUMBERED("classes", classes, 2, 100, "of images (10)"),
    NUMBERED("train-images", train_images, 1, 1e7, "(2000)"),
    NUMBERED("val-images", val_images, 1, 1e7, "(500)"),
};
#define NROW (sizeof rows / sizeof *rows)
#undef AT
#undef GROUP
#undef SWITCHED
#undef NUMBERED
#undef REALS
#undef TEXTS
#undef CHOSEN
#undef OWN

void options_help(void)
{
    printf("Usage: plait-train DATA [options]\n"
           "  or:  plait-train make-data FOLDER [options]\n"
           "  or:  plait-train plot RUN... [--plot FILE]\n\n"
           "Trains a residual network on the images in DATA/train/CLASS/*.jpg and tests it on DATA/val/CLASS/*.jpg.\n"
           "make-data draws such a folder of images; plot draws runs (see docs/training.md).\n");
    for (size_t i = 0; i < NROW; i++) {
        const struct row *r = &rows[i];
        char flag[64];
        if (r->kind == TITLE) {
            printf("\n%s:\n", r->text);
            continue;
        }
        snprintf(flag, sizeof flag, "--%s%s %s", r->kind == SWITCH ? "[no-]" : "", r->name,
                 r->argument != NULL ? r->argument : "");
        printf("  %-24s %s\n", flag, r->text);
    }
    printf("\nExit status: 0 trained; 1 an error; 2 wrong arguments; 3 the loss is not finite; 4 a rank was lost;\n"
           "128 and the signal's number: a checkpoint was written because of a signal.\n");
}

/* ---- parsing ----------------------------------------------------------------------------------- */

static unsigned least3(unsigned a, unsigned b, unsigned c)
{
    return a < b ? (a < c ? a : c) : (b < c ? b : c);
}

/* Letters to insert, delete or change. */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[40];
    const size_t n = strlen(b);

    if (n >= sizeof row / sizeof *row)
        return UINT32_MAX;
    for (unsigned j = 0; j <= n; j++)
        row[j] = j;
    for (unsigned i = 1; a[i - 1] != '\0'; i++) {
        unsigned corner = row[0]++;
        for (size_t j = 1; j <= n; j++) {
            const unsigned change = corner + (a[i - 1] != b[j - 1]);
            corner = row[j];
            row[j] = least3(change, row[j] + 1, row[j - 1] + 1);
        }
    }
    return row[n];
}

static bool unknown(const char *flag)
{
    const char *best = "help";
    unsigned least = 4; /* farther is no misspelling */

    for (size_t i = 0; i < NROW; i++) {
        const unsigned d = rows[i].name != NULL ? distance(flag + 2, rows[i].name) : UINT32_MAX;
        if (d < least) {
            least = d;
            best = rows[i].name;
        }
    }
    return complain("unknown option %s; the nearest is --%s", flag, best);
}

static const struct row *find(const char *name, bool *negated)
{
    *negated = strncmp(name, "no-", 3) == 0;
    for (size_t i = 0; i < NROW; i++)
        if (rows[i].name != NULL && (strcmp(rows[i].name, name) == 0 ||
                                     (*negated && rows[i].kind == SWITCH && strcmp(rows[i].name, name + 3) == 0)))
            return &rows[i];
    return NULL;
}

static bool apply(struct options *o, const struct row *r, const char *flag, const char *value)
{
    void *at = (char *)o + r->offset;

    switch (r->kind) {
    case NUMBER:
        return parse_number(flag, value, r->least, r->most, at);
    case REAL:
        return parse_real(flag, value, r->least, r->most, at);
    case TEXT:
        *(const char **)at = value;
        return *value != '\0' || complain("%s needs a value; see --help", flag);
    case CHOICE:
        return parse_choice(flag, value, r->choices, at);
    case PARSED:
        return r->parse(o, flag, value);
    case TITLE:
    case SWITCH:
        break;
    }
    return false;
}

/* --name VALUE or --name=VALUE; *k moves over what is taken. */
static bool parse_flag(struct options *o, char **argv, int argc, int *k)
{
    char flag[64];
    const char *word = argv[*k], *equals = strchr(word, '=');
    bool negated;

    snprintf(flag, sizeof flag, "%.*s", equals != NULL ? (int)(equals - word) : (int)strlen(word), word);
    const struct row *r = strncmp(flag, "--", 2) == 0 ? find(flag + 2, &negated) : NULL;
    if (r == NULL)
        return strncmp(flag, "--", 2) == 0 ? unknown(flag) : complain("unknown flag %s; see --help", flag);
    if (r->kind == SWITCH || r->argument == NULL) {
        if (equals != NULL)
            return complain("%s takes no value; write %s or --no-%s", word, flag, r->name);
        if (r->kind == PARSED)
            return r->parse(o, flag, "");
        *(bool *)((char *)o + r->offset) = !(negated && strcmp(r->name, flag + 2) != 0);
        return true;
    }
    if (equals == NULL && *k + 1 >= argc)
        return complain("%s needs a value; see --help", flag);
    return apply(o, r, flag, equals != NULL ? equals + 1 : argv[++*k]);
}

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
        .decay = PLAIT_DECAY_COSINE,
        .momentum = 0.9,
        .weight_decay = 1e-4,
        .eta = 0.001,
        .smoothing = 0.1,
        .loss_scale = -1,
        .payload = PLAIT_NDTYPE,
        .bucket = SIZE_MAX - 1,
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
        return o->npath > 0 || complain("plot: which run? plait-train plot RUN... [--plot FILE]");
    if (o->npath == 0)
        return complain("no folder of images is named: plait-train DATA; 'plait-train make-data DATA' draws one");
    if (o->npath > 1)
        return complain("unexpected argument '%s'; options begin with --, see --help", o->paths[1]);
    o->data = o->paths[0];
    return true;
}

/* What excludes each other whatever the data. */
static bool check(const struct options *o)
{
    if (o->reproducible && o->elastic >= 0)
        return complain("--reproducible --elastic %s: each rank has its own weights there; leave one out",
                        plait_elastic_name((enum plait_elastic_mode)o->elastic));
    if (o->reproducible && o->sync_norm)
        return complain("--reproducible --sync-batch-norm: its sums depend on the number of ranks; leave one out");
    if (o->reproducible && o->payload != PLAIT_NDTYPE && o->payload != PLAIT_FLOAT32)
        return complain("--reproducible --payload %s: only fp32 gives the same bits for any number of ranks",
                        o->payload == PLAIT_FLOAT16 ? "fp16" : "bf16");
    if (o->sync_norm && o->elastic >= 0 && o->elastic < PLAIT_ELASTIC_SYNC1)
        return complain("--sync-batch-norm --elastic %s: its workers do not step together; leave one out",
                        plait_elastic_name((enum plait_elastic_mode)o->elastic));
    if (o->resume != NULL && o->run != NULL)
        return complain("--resume %s --run %s: a run goes on in its own folder; leave --run out", o->resume, o->run);
    if (o->resume != NULL && o->weights != NULL)
        return complain("--resume %s --weights %s: which weights? leave one out", o->resume, o->weights);
    if (o->servers > 0 && (o->elastic < 0 || o->elastic >= PLAIT_ELASTIC_SYNC1))
        return complain("--servers %llu: only --elastic original, async, async-momentum and hogwild have servers",
                        (unsigned long long)o->servers);
    return true;
}

bool options_parse(int argc, char **argv, struct options *out)
{
    int k = 1;

    set_defaults(out);
    if (argc > 1 && strcmp(argv[1], "make-data") == 0)
        out->command = COMMAND_MAKE_DATA, k++;
    else if (argc > 1 && strcmp(argv[1], "plot") == 0)
        out->command = COMMAND_PLOT, k++;
    out->paths = allocate((size_t)argc, sizeof *out->paths);
    for (; k < argc; k++)
        if (argv[k][0] != '-')
            out->paths[out->npath++] = argv[k];
        else if (!parse_flag(out, argv, argc, &k))
            return false;
    if (!out->help && !(take_paths(out) && check(out)))
        return false;
    if (out->payload == PLAIT_NDTYPE) /* weights of elastic averaging are not as patient as gradients */
        out->payload = out->reproducible || out->elastic >= 0 ? PLAIT_FLOAT32 : PLAIT_BFLOAT16;
    out->loss_scale = out->loss_scale >= 0 ? out->loss_scale : out->payload == PLAIT_FLOAT16 ? 0 : 1;
    return true;
}

/* ---- what was left open ------------------------------------------------------------------------ */

enum { FEW = 100000 }; /* images; ImageNet has 1,281,167 */

/* Linear with the batch (Goyal et al. 2017); for LARS with its root. */
static double usual_rate(const struct options *o)
{
    return o->method == PLAIT_OPTIM_SGD ? 0.1 * (double)o->batch / 128 : 4 * sqrt((double)o->batch / 256);
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The largest part of a rank's images that is at most 64 and divides them. */
static uint64_t usual_micro(uint64_t images)
{
    uint64_t m = at_most(images, 64);

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
        return complain("--batch %llu: there are only %llu images for training; use fewer",
                        (unsigned long long)o->batch, (unsigned long long)images);
    if (o->batch % nworker != 0)
        return complain("--batch %llu: %u ranks need a multiple of %u", (unsigned long long)o->batch, nworker, nworker);
    if (o->micro == 0) /* where ranks must not matter: of the batch alone */
        o->micro = o->reproducible ? o->batch / at_most(o->batch & -o->batch, 4) : usual_micro(o->batch / nworker);
    const uint64_t own = o->batch / nworker, passes = own / o->micro;
    if (own % o->micro != 0)
        return complain("--micro %llu: must divide the %llu images of a rank in a step (--batch %llu, %u ranks)",
                        (unsigned long long)o->micro, (unsigned long long)own, (unsigned long long)o->batch, nworker);
    return !o->reproducible || nworker == 1 || (passes & (passes - 1)) == 0 ||
           complain("--reproducible: %llu passes of a rank in a step must be a power of two, or the sums depend on the "
                    "number of ranks; change --micro %llu",
                    (unsigned long long)passes, (unsigned long long)o->micro);
}

bool options_settle(struct options *o, uint64_t images, uint32_t nworker, uint32_t cpus, uint32_t nlocal)
{
    const bool few = images < FEW;
    const uint64_t share = cpus / nlocal > 0 ? cpus / nlocal : 1;

    o->model = o->model != NULL ? o->model : few ? "resnet20" : "resnet50";
    o->pixels = o->pixels > 0 ? o->pixels : few ? 32 : 224;
    if (o->zero_last < 0) /* in a run of a few hundred steps blocks that begin as nothing come too late */
        o->zero_last = strcmp(o->model, "resnet20") != 0;
    o->least_area = o->least_area > 0 ? o->least_area : o->pixels < 64 ? 0.5 : 0.08;
    o->epochs = o->epochs > 0 ? o->epochs : few ? 30 : 90;
    if (!settle_batch(o, images, nworker))
        return false;
    if (o->polish > o->epochs)
        return complain("--polish %llu: there are only %llu epochs", (unsigned long long)o->polish,
                        (unsigned long long)o->epochs);
    o->threads = o->reproducible ? 1 : o->threads > 0 ? o->threads : share;
    o->data_threads = o->data_threads > 0 ? o->data_threads : share;
    o->rate = o->rate >= 0 ? o->rate : usual_rate(o);
    o->warmup = o->warmup >= 0 ? o->warmup : fmin(5, 0.1 * (double)o->epochs);
    o->tail = o->tail >= 0 ? o->tail : (double)o->polish;
    return true;
}
