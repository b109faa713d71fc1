/* SPDX-License-Identifier: BSD-3-Clause */
/* Every option of plait-train, and what a run that goes on does with it. */
#include "unit.h"

#include "../train/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* They do not shape what comes out of a run. */
static const struct {
    const char *name, *why;
} free_options[] = {
    { "in-memory", "where images come from; the bits are the same" },
    { "groups", "the same" },
    { "data-threads", "the same bits for any number" },
    { "queue", "how far ahead" },
    { "overlap", "when buckets travel; the bits are the same" },
    { "lr-warmup-method", "linear alone" },
    { "ranks", "those that wrote a checkpoint are in it; another number is told" },
    { "run", "a place" },
    { "resume", "this one itself" },
    { "weights", "what a run began with; it has its own since" },
    { "new-classifier", "of --weights" },
    { "keep", "files" },
    { "save-every", "files" },
    { "log-every", "lines of the log" },
    { "print-every", "lines of the output" },
    { "data-path", "a place" },
    { "amp", "another name of --precision bf16, which is kept" },
    { "plot", "a place" },
    { "trace", "a place" },
    { "evaluate-only", "another thing to do" },
    { "dry-run", "another thing to do" },
    { "help", "another thing to do" },
    { "version", "another thing to do" },
    { "classes", "make-data" },
    { "train-images", "make-data" },
    { "val-images", "make-data" },
};

/* A value other than the default of every option that is kept, and what it needs to have an effect. */
static const struct {
    const char *name, *value, *needs[2];
} kept_options[] = {
    { "pixels", "48" },
    { "jitter", "0.5" },
    { "least-area", "0.25" },
    { "broken", "fatal" },
    { "model", "resnet18" },
    { "precision", "bf16" },
    { "device", "cuda" },
    { "tf32", "on", { "--device", "cuda" } },
    { "decoder", "nvjpeg", { "--device", "cuda" } },
    { "nondeterministic", "on", { "--device", "cuda" } },
    { "graph", "on", { "--device", "cuda" } },
    { "sync-batch-norm", "on" },
    { "zero-last", "on" },
    { "micro", "3" },
    { "threads", "2" },
    { "epochs", "7" },
    { "steps", "8" },
    { "batch", "24" },
    { "optimizer", "lars" },
    { "rate", "0.7" },
    { "warmup", "0.1" },
    { "decay", "polynomial" },
    { "power", "3", { "--decay", "polynomial" } },
    { "rate-end", "0.125" },
    { "step-epochs", "2", { "--decay", "steps" } },
    { "gamma", "0.5", { "--decay", "steps" } },
    { "tail", "2" },
    { "momentum", "0.5" },
    { "nesterov", "on" },
    { "weight-decay", "0.01" },
    { "decay-all", "on" },
    { "eta", "0.01", { "--optimizer", "lars" } },
    { "smoothing", "0.3" },
    { "loss-scale", "dynamic" },
    { "polish", "1" },
    { "polish-kind", "statistics", { "--polish", "1" } },
    { "seed", "9" },
    { "reproducible", "on" },
    { "payload", "fp16" },
    { "bucket", "cuts:4+28" },
    { "algo", "ring" },
    { "elastic", "sync2" },
    { "period", "3", { "--elastic", "sync2" } },
    { "beta", "0.5", { "--elastic", "sync2" } },
    { "servers", "2", { "--elastic", "async" } },
    { "evaluate-every", "5" },
};

/* Ranks that train together may have other values. */
static const struct {
    const char *name, *why;
} own_options[] = {
    { "data-path", "the same images in another place" },
    { "data-threads", "the same bits for any number" },
    { "queue", "how far ahead" },
    { "amp", "another name of --precision bf16, which is compared" },
    { "threads", "hosts have more or less processors" },
    { "lr-warmup-method", "linear alone" },
    { "ranks", "compared with the launcher's" },
    { "run", "rank 0's" },
    { "keep", "files" },
    { "plot", "rank 0's" },
    { "help", "another thing to do" },
    { "version", "another thing to do" },
};

static bool is_own(const char *name)
{
    bool found = false;

    for (size_t i = 0; i < sizeof own_options / sizeof *own_options; i++)
        found |= strcmp(own_options[i].name, name) == 0;
    return found;
}

/* The value that ranks compare; false: each rank has its own. */
static bool alike_of(const struct options *o, const char *name, struct note *out)
{
    for (uint32_t k = 0; options_alike(o, k, out); k++)
        if (strcmp(out->name, name) == 0)
            return true;
    return false;
}

static bool is_free(const char *name)
{
    bool found = false;

    for (size_t i = 0; i < sizeof free_options / sizeof *free_options; i++)
        found |= strcmp(free_options[i].name, name) == 0;
    return found;
}

/* Its note in a checkpoint; false: it is not kept. */
static bool note_of(const struct options *o, const char *name, struct note *out)
{
    for (uint32_t k = 0; options_kept(o, k, out); k++)
        if (strcmp(out->name + strlen("option."), name) == 0)
            return true;
    return false;
}

static void parse(struct options *out, const char *const *words)
{
    char *argv[24] = { (char *)(uintptr_t) "plait-train", (char *)(uintptr_t) "images" };
    int n = 2;

    for (; *words != NULL; words++)
        argv[n++] = (char *)(uintptr_t)*words;
    assert_true(options_parse(n, argv, out));
}

/* The names that --help shows, from "      --name", "  -x, --name" and "      --[no-]name". */
static size_t names_of_help(char names[OPTIONS_MOST][32])
{
    FILE *const f = tmpfile();
    const int before = dup(STDOUT_FILENO);
    char line[512];
    size_t n = 0;

    assert_non_null(f);
    fflush(stdout);
    dup2(fileno(f), STDOUT_FILENO);
    options_help();
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    rewind(f);
    while (fgets(line, sizeof line, f) != NULL) {
        const char *at = line + strlen("  -x, --");
        if (strncmp(line, "  ", 2) != 0 || strncmp(at - 2, "--", 2) != 0)
            continue;
        at += strncmp(at, "[no-]", 5) == 0 ? 5 : 0;
        assert_true(n < OPTIONS_MOST);
        snprintf(names[n++], sizeof names[0], "%.*s", (int)strcspn(at, " \n"), at);
    }
    fclose(f);
    return n;
}

static void every_option_is_kept_by_a_checkpoint_or_listed_as_free(void **state)
{
    static char names[OPTIONS_MOST][32];
    const size_t n = names_of_help(names);
    size_t nfree = 0, nkept = 0;
    struct options o;
    struct note note;

    parse(&o, (const char *const[]){ NULL });
    assert_true(n > 40);
    for (size_t i = 0; i < n; i++) {
        const bool kept = note_of(&o, names[i], &note), listed = is_free(names[i]);
        if (kept == listed)
            fail_msg("--%s is %s", names[i], kept ? "kept and listed as free" : "neither kept nor listed as free");
        nfree += listed;
        nkept += kept;
    }
    assert_int_equal(nfree, sizeof free_options / sizeof *free_options);
    assert_int_equal(nkept, sizeof kept_options / sizeof *kept_options);
}

static void every_option_is_compared_between_ranks_or_listed_as_a_ranks_own(void **state)
{
    static char names[OPTIONS_MOST][32];
    const size_t n = names_of_help(names);
    struct options o;
    struct note note;
    size_t nown = 0;

    parse(&o, (const char *const[]){ NULL });
    for (size_t i = 0; i < n; i++) {
        if (alike_of(&o, names[i], &note) == is_own(names[i]))
            fail_msg("--%s is %s", names[i], is_own(names[i]) ? "compared and listed" : "neither compared nor listed");
        nown += is_own(names[i]);
    }
    assert_int_equal(nown, sizeof own_options / sizeof *own_options);
}

static bool differ(const char *name, const char *const *words, const char *const *other)
{
    struct options o;
    struct note a, b;

    parse(&o, words);
    assert_true(alike_of(&o, name, &a));
    parse(&o, other);
    assert_true(alike_of(&o, name, &b));
    return strcmp(a.value, b.value) != 0;
}

static void ranks_see_options_of_others_that_differ(void **state)
{
    const char *const none[] = { NULL }, *const goes_on[] = { "--resume", "here", NULL };

    assert_true(differ("rate", (const char *const[]){ "--lr", "0.3", NULL }, none));
    assert_true(differ("precision", (const char *const[]){ "--amp", NULL }, none));
    assert_true(differ("device", (const char *const[]){ "--device", "cuda", NULL }, none));
    assert_true(differ("model", (const char *const[]){ "--model", "resnet18", NULL }, none));
    assert_true(differ("resume", goes_on, none));
    assert_true(differ("momentum", (const char *const[]){ "--resume", "here", "--momentum", "0.9", NULL }, goes_on));
    assert_false(differ("momentum", (const char *const[]){ "--momentum", "0.9", NULL }, none));
    assert_false(differ("resume", (const char *const[]){ "--resume", "there", NULL }, goes_on));
    assert_false(differ("device", (const char *const[]){ "--device", "cuda:1", NULL },
                        (const char *const[]){ "--device", "cuda", NULL }));
}

static void flags_of_torchvision_and_timm_are_known(void **state)
{
    struct options o;

    parse(&o, (const char *const[]){ "--lr", "0.3", "-b", "48", "-j", "3", "--wd", "0.01", "--amp", "--print-freq", "7",
                                     "--lr-step-size", "2", NULL });
    assert_true(o.rate == 0.3 && o.batch == 48 && o.data_threads == 3 && o.weight_decay == 0.01);
    assert_true(o.precision == PRECISION_BF16 && o.print_every == 7 && o.step_epochs == 2);
    assert_int_equal(o.decay, PLAIT_DECAY_STEPS);
    parse(&o, (const char *const[]){ "--model", "ResNet18", NULL });
    assert_string_equal(o.model, "resnet18");
    parse(&o, (const char *const[]){ "--decay-rate", "0.2", NULL });
    assert_true(o.decay == PLAIT_DECAY_STEPS && o.gamma == 0.2);
    parse(&o, (const char *const[]){ "--batch-size=96", "--workers=2", "--test-only", "--weights", "w", NULL });
    assert_true(o.batch == 96 && o.data_threads == 2 && o.evaluate_only);
    char *argv[] = { (char *)(uintptr_t) "plait-train", (char *)(uintptr_t) "--data-path", (char *)(uintptr_t) "here" };
    assert_true(options_parse(3, argv, &o));
    assert_string_equal(o.data, "here");
    parse(&o, (const char *const[]){ "--opt", "LARS", "--sched", "poly", "--label-smoothing", "0.3", "--output-dir",
                                     "there", "--sync-bn", "--warmup-epochs=3", "--device", "cpu", NULL });
    assert_true(o.method == PLAIT_OPTIM_LARS && o.decay == PLAIT_DECAY_POLYNOMIAL && o.smoothing == 0.3);
    assert_true(o.sync_norm && o.warmup == 3 && strcmp(o.run, "there") == 0);
    parse(&o, (const char *const[]){ "--lr-scheduler=steplr", "--decay-epochs", "4", "--decay-rate", "0.5",
                                     "--lr-warmup-epochs", "2", "--smoothing", "0", "--output", "out", NULL });
    assert_true(o.decay == PLAIT_DECAY_STEPS && o.step_epochs == 4 && o.gamma == 0.5 && o.warmup == 2);
    assert_true(o.smoothing == 0 && strcmp(o.run, "out") == 0);
    parse(&o, (const char *const[]){ "--lr-scheduler", "CosineAnnealingLR", "--lr-warmup-method", "linear",
                                     "--train-crop-size", "176", NULL });
    assert_true(o.decay == PLAIT_DECAY_COSINE && o.pixels == 176);
    parse(&o, (const char *const[]){ "--img-size", "160", "--color-jitter", "0.3", "--initial-checkpoint", "w", NULL });
    assert_true(o.pixels == 160 && o.jitter == 0.3 && strcmp(o.weights, "w") == 0);
}

static void one_thing_has_the_names_of_the_other_programs(void **state)
{
    struct options o;

    parse(&o, (const char *const[]){ "--algo", "all_reduce:ring", "--payload", "bfloat16", "--Batch_Size=8", "--np",
                                     "2", "--timeline", "t", NULL });
    assert_string_equal(o.algorithm, "ring");
    assert_true(o.payload == PLAIT_BFLOAT16 && o.batch == 8 && o.ranks == 2 && strcmp(o.trace, "t") == 0);
    assert_string_equal(options_flag(&o, "trace"), "--timeline");
    parse(&o, (const char *const[]){ "--elastic", "Async_Momentum", NULL });
    assert_true(o.elastic >= 0);
    parse(&o, (const char *const[]){ "--mode", "sync2", NULL });
    assert_true(o.elastic >= 0);
    char *argv[] = { (char *)(uintptr_t) "plait-train", (char *)(uintptr_t) "x",
                     (char *)(uintptr_t) "--algo=gather:direct" };
    assert_false(options_parse(3, argv, &o));
}

static void an_option_keeps_the_name_that_the_user_wrote(void **state)
{
    struct options o;

    parse(&o, (const char *const[]){ "-b96", "--lr=0.1", "--no-overlap", "--amp", NULL });
    assert_string_equal(options_flag(&o, "batch"), "-b");
    assert_string_equal(options_flag(&o, "rate"), "--lr");
    assert_string_equal(options_flag(&o, "overlap"), "--no-overlap");
    assert_string_equal(options_flag(&o, "precision"), "--amp");
    assert_string_equal(options_flag(&o, "warmup"), "--warmup");
}

static void decoding_threads_that_wait_for_a_gpu_are_twice_the_processors(void **state)
{
    struct options o;

    parse(&o, (const char *const[]){ "--device", "cuda", NULL });
    assert_true(options_settle(&o, 1000, 1, 3));
    assert_int_equal(o.data_threads, 3);
    parse(&o, (const char *const[]){ "--device", "cuda", "--decoder", "nvjpeg", NULL });
    assert_true(options_settle(&o, 1000, 1, 3));
    assert_int_equal(o.data_threads, 6);
}

static void a_run_that_goes_on_has_every_option_that_was_kept(void **state)
{
    static struct note notes[OPTIONS_MOST];
    struct note is, usual;
    struct options before, after;

    for (size_t i = 0; i < sizeof kept_options / sizeof *kept_options; i++) {
        const char *const *const needs = kept_options[i].needs;
        char word[80];
        snprintf(word, sizeof word, "--%s%s%s", kept_options[i].name,
                 strcmp(kept_options[i].value, "on") == 0 ? "" : "=",
                 strcmp(kept_options[i].value, "on") == 0 ? "" : kept_options[i].value);
        if (strcmp(kept_options[i].name, "zero-last") == 0)
            snprintf(word, sizeof word, "--zero-last=on");
        parse(&before, (const char *const[]){ word, needs[0], needs[1], NULL });
        for (uint32_t k = 0; options_kept(&before, k, &notes[k]); k++)
            ;
        parse(&after, (const char *const[]){ "--resume", "run-1", NULL });
        assert_true(note_of(&after, kept_options[i].name, &usual));
        assert_true(options_recall(&after, notes, true));
        assert_true(note_of(&after, kept_options[i].name, &is));
        assert_string_equal(is.value, kept_options[i].value);
        assert_string_not_equal(is.value, usual.value);
    }
}

/* "computed" was a value of --bucket. */
static void a_run_with_computed_buckets_goes_on_with_a_chosen_size(void **state)
{
    static struct note notes[OPTIONS_MOST];
    struct options before, after;

    parse(&before, (const char *const[]){ "--bucket=4K", NULL });
    for (uint32_t k = 0; options_kept(&before, k, &notes[k]); k++)
        if (strcmp(notes[k].name, "option.bucket") == 0)
            snprintf(notes[k].value, sizeof notes[k].value, "computed");
    parse(&after, (const char *const[]){ "--resume", "run-1", NULL });
    assert_true(options_recall(&after, notes, true));
    assert_true(after.bucket.rule == NRULE);
    char *argv[] = { (char *)(uintptr_t) "plait-train", (char *)(uintptr_t) "x",
                     (char *)(uintptr_t) "--bucket=computed" };
    assert_false(options_parse(3, argv, &after));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_is_kept_by_a_checkpoint_or_listed_as_free),
        cmocka_unit_test(every_option_is_compared_between_ranks_or_listed_as_a_ranks_own),
        cmocka_unit_test(ranks_see_options_of_others_that_differ),
        cmocka_unit_test(flags_of_torchvision_and_timm_are_known),
        cmocka_unit_test(one_thing_has_the_names_of_the_other_programs),
        cmocka_unit_test(an_option_keeps_the_name_that_the_user_wrote),
        cmocka_unit_test(decoding_threads_that_wait_for_a_gpu_are_twice_the_processors),
        cmocka_unit_test(a_run_that_goes_on_has_every_option_that_was_kept),
        cmocka_unit_test(a_run_with_computed_buckets_goes_on_with_a_chosen_size),
    };
    return cmocka_run_group_tests_name("train_options", tests, NULL, NULL);
}
