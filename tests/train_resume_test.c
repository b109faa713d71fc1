/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run needs to go on: saved and put back with all bits; what does not belong to this run is refused, both values
 * named, and changes nothing. Weights of others. */
#include "child.h"
#include "folder.h"
#include "resume.h"
#include "train_small_model.h"
#include "weights.h"

#include <plait/comm.h>

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct run { /* a small one */
    struct model model;
    struct plait_loss_scale scale;
    uint64_t epoch;
    uint32_t polished;
    double best, strange[4];
    float ours[3];
    bool found;
    const char *network, *optimiser;
};

static void begin(struct run *r, uint32_t nclass, float fill)
{
    memset(r, 0, sizeof *r);
    small_model(&r->model, nclass, fill);
    r->network = "resnet50";
    r->optimiser = "lars";
}

/* What the run that is saved is like. */
static void advance(struct run *r)
{
    r->scale = (struct plait_loss_scale)PLAIT_LOSS_SCALE_DYNAMIC;
    r->scale.scale = 0x1p-20 / 3;
    r->scale.good = 1999;
    r->epoch = UINT64_MAX;
    r->polished = UINT32_MAX;
    r->best = 0.1 + 0.2;
    r->strange[0] = (double)NAN;
    r->strange[1] = (double)-INFINITY;
    r->strange[2] = -0.0;
    r->strange[3] = 0x1p-1074;
    r->ours[0] = 1;
    r->ours[2] = -3;
}

static struct resume *list(struct run *r)
{
    struct resume *const l = resume_create();
    const struct entry ours = { RESUME_STATE "ours", STORED_F32, 1, { 3 }, r->ours };
    char classes[16];

    snprintf(classes, sizeof classes, "%u", r->model.nclass);
    resume_setting(l, "network", "--network", r->network);
    resume_setting(l, "classes", "a dataset with", classes);
    resume_setting(l, "optimiser", "--optimiser", r->optimiser);
    resume_count(l, "epoch", &r->epoch);
    resume_count32(l, "polished", &r->polished);
    resume_real(l, "best", &r->best);
    resume_real(l, "nan", &r->strange[0]);
    resume_real(l, "infinity", &r->strange[1]);
    resume_real(l, "minus 0", &r->strange[2]);
    resume_real(l, "least", &r->strange[3]);
    resume_loss_scale(l, &r->scale);
    resume_weights(l, &r->model, r->model.masters);
    resume_statistics(l, &r->model, r->model.running[0]);
    resume_momentum(l, &r->model, r->model.momenta);
    resume_optional(l, &ours, &r->found);
    return l;
}

static void save(struct run *r, uint64_t step)
{
    const char *why;
    struct resume *const l = list(r);
    struct keeper *const k = keeper_create(folder, 0, &why);

    assert_non_null(k);
    resume_save(l, k, step, false);
    resume_destroy(l);
    assert_null(keeper_destroy(k));
}

#define CHECKPOINT "step-00000042.safetensors"

static const char *restore(struct run *r)
{
    struct resume *const l = list(r);
    const char *const why = resume_restore(l, NULL, in_folder(CHECKPOINT));

    resume_destroy(l);
    return why;
}

static bool same(const struct run *a, const struct run *b)
{
    return small_models_are_equal(&a->model, &b->model) && a->scale.scale == b->scale.scale &&
           a->scale.good == b->scale.good && a->epoch == b->epoch && a->polished == b->polished && a->best == b->best &&
           isnan(b->strange[0]) &&
           memcmp(a->strange + 1, b->strange + 1, sizeof a->strange - sizeof *a->strange) == 0 &&
           memcmp(a->ours, b->ours, sizeof a->ours) == 0;
}

static void every_bit_comes_back(void **state)
{
    struct run was, is;

    begin(&was, 10, 1.1F);
    advance(&was);
    save(&was, 42);
    begin(&is, 10, 7);
    assert_null(restore(&is));
    assert_true(is.found);
    assert_true(same(&was, &is));
}

static void a_rank_that_is_left_alone_saves_what_it_knows(void **state)
{
    struct run was, is;
    struct resume *l;

    begin(&was, 10, 1.1F);
    advance(&was);
    l = list(&was);
    assert_null(resume_save_alone(l, folder, 42));
    resume_destroy(l);
    begin(&is, 10, 7);
    is.found = true;
    assert_null(restore(&is));
    assert_false(is.found); /* of each rank */
    memcpy(is.ours, was.ours, sizeof is.ours);
    assert_true(same(&was, &is));
}

/* Restoring into `is` must fail with these words and change nothing. */
static void refused(struct run *is, const char *words)
{
    struct run before = *is; /* pointers in it lead to *is, but are not followed */
    const char *const why = restore(is);

    if (why == NULL || strstr(why, words) == NULL)
        fail_msg("'%s' was expected, and it said: %s", words, why);
    assert_non_null(strstr(why, in_folder(CHECKPOINT)));
    assert_memory_equal(&before, is, sizeof before);
}

static void another_network_classes_or_optimiser_is_refused_with_both_values(void **state)
{
    struct run was, is;

    begin(&was, 10, 1);
    save(&was, 42);
    begin(&is, 10, 7);
    is.network = "resnet18";
    refused(&is, "its network is resnet50, this run's is resnet18; give --network resnet50, or begin anew");
    begin(&is, 12, 7);
    refused(&is, "its classes is 10, this run's is 12; give a dataset with 10");
    begin(&is, 10, 7);
    is.optimiser = "sgd";
    refused(&is, "its optimiser is lars, this run's is sgd; give --optimiser lars");
}

/* The file again, with one note or tensor changed by edit(). */
static void edited(void (*edit)(struct entry *e, uint32_t *ne, struct note *n, uint32_t *nn))
{
    const char *why;
    struct safetensors *const f = safetensors_open(in_folder(CHECKPOINT), &why);
    struct entry entries[32];
    struct note notes[32];
    static const char *const names[] = {
        "plait", "step",     "network", "classes", "optimiser",        "epoch",          "polished", "best",
        "nan",   "infinity", "minus 0", "least",   "loss_scale.scale", "loss_scale.good"
    };
    uint32_t ne = 0, nn = 0;

    assert_non_null(f);
    for (; ne < safetensors_nentry(f); ne++)
        entries[ne] = *safetensors_entry(f, ne);
    for (; nn < sizeof names / sizeof *names; nn++) {
        snprintf(notes[nn].name, sizeof notes[nn].name, "%s", names[nn]);
        snprintf(notes[nn].value, sizeof notes[nn].value, "%s", safetensors_note(f, names[nn]));
    }
    edit(entries, &ne, notes, &nn);
    assert_null(safetensors_write(in_folder(CHECKPOINT), entries, ne, notes, nn));
    safetensors_close(f);
}

static struct note *note_named(struct note *notes, uint32_t n, const char *name)
{
    for (uint32_t k = 0; k < n; k++)
        if (strcmp(notes[k].name, name) == 0)
            return &notes[k];
    fail_msg("no note %s", name);
    return NULL;
}

static void without_settings(struct entry *e, uint32_t *ne, struct note *n, uint32_t *nn)
{
    (void)e, (void)ne;
    strcpy(note_named(n, *nn, "network")->name, "other");
}

static void without_marker(struct entry *e, uint32_t *ne, struct note *n, uint32_t *nn)
{
    (void)e, (void)ne;
    strcpy(note_named(n, *nn, "plait")->name, "other");
}

static void large_number(struct entry *e, uint32_t *ne, struct note *n, uint32_t *nn)
{
    (void)e, (void)ne;
    strcpy(note_named(n, *nn, "polished")->value, "4294967296");
}

static void negative_number(struct entry *e, uint32_t *ne, struct note *n, uint32_t *nn)
{
    (void)e, (void)ne;
    strcpy(note_named(n, *nn, "epoch")->value, "-1");
}

static void no_number(struct entry *e, uint32_t *ne, struct note *n, uint32_t *nn)
{
    (void)e, (void)ne;
    strcpy(note_named(n, *nn, "best")->value, "0.5x");
}

static struct entry *entry_named(struct entry *e, uint32_t n, const char *name)
{
    for (uint32_t k = 0; k < n; k++)
        if (strcmp(e[k].name, name) == 0)
            return &e[k];
    fail_msg("no tensor %s", name);
    return NULL;
}

static void missing_tensor(struct entry *e, uint32_t *ne, struct note *n, uint32_t *nn)
{
    (void)n, (void)nn;
    *entry_named(e, *ne, "momentum.bn1.bias") = e[*ne - 1];
    --*ne;
}

static void another_type(struct entry *e, uint32_t *ne, struct note *n, uint32_t *nn)
{
    (void)n, (void)nn;
    struct entry *const bias = entry_named(e, *ne, "bn1.bias");
    bias->type = STORED_F16;
}

static void another_shape(struct entry *e, uint32_t *ne, struct note *n, uint32_t *nn)
{
    (void)n, (void)nn;
    entry_named(e, *ne, "conv1.weight")->shape[0] = 1;
}

static void more_tensors(struct entry *e, uint32_t *ne, struct note *n, uint32_t *nn)
{
    (void)n, (void)nn;
    e[*ne] = e[0];
    strcpy(e[(*ne)++].name, "adam.bn1.bias");
}

static void what_is_missing_wrong_or_too_much_is_named(void **state)
{
    static const struct {
        void (*edit)(struct entry *e, uint32_t *ne, struct note *n, uint32_t *nn);
        const char *words;
    } cases[] = {
        { without_settings, "its network is not recorded" },
        { without_marker, "not a checkpoint of plait-train" },
        { large_number, "its polished is 4294967296, which is not a valid number" },
        { negative_number, "its epoch is -1, which is not a valid number" },
        { no_number, "its best is 0.5x, which is not a valid number" },
        { missing_tensor, "it has no tensor momentum.bn1.bias, which this run needs" },
        { another_type, "tensor bn1.bias is F16 [2], this run's is F32 [2]" },
        { another_shape, "tensor conv1.weight is F32 [1, 3, 2, 1], this run's is F32 [2, 3, 2, 1]" },
        { more_tensors, "it has a tensor adam.bn1.bias, which this run does not have" },
    };
    struct run was, is;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(&was, 10, 1);
        save(&was, 42);
        edited(cases[i].edit);
        begin(&is, 10, 7);
        refused(&is, cases[i].words);
    }
}

static void of_other_ranks(struct entry *e, uint32_t *ne, struct note *n, uint32_t *nn)
{
    (void)n, (void)nn;
    entry_named(e, *ne, RESUME_STATE "ours")->shape[0] = 2;
}

static void an_optional_tensor_of_another_shape_is_left_as_it_is(void **state)
{
    struct run was, is;

    begin(&was, 10, 1);
    advance(&was);
    save(&was, 42);
    edited(of_other_ranks);
    begin(&is, 10, 7);
    is.found = true;
    is.ours[0] = 99;
    assert_null(restore(&is));
    assert_false(is.found);
    assert_true(is.ours[0] == 99);
    assert_true(is.epoch == was.epoch);
}

/* ---- Weights ------------------------------------------------------------------------------------------------ */

static const char *load(struct run *r, const char *name, bool new_classifier)
{
    return weights_load(in_folder(name), NULL, &r->model, r->model.masters, r->model.running[0], new_classifier);
}

static void weights_of_a_checkpoint_are_a_beginning_of_another_run(void **state)
{
    struct run was, is, fresh;

    begin(&was, 10, 1);
    save(&was, 42);
    begin(&is, 10, 7);
    begin(&fresh, 10, 7);
    assert_null(load(&is, CHECKPOINT, false));
    assert_memory_equal(is.model.values, was.model.values, sizeof is.model.values);
    assert_memory_equal(is.model.running, was.model.running, sizeof is.model.running);
    assert_memory_equal(is.model.momentum, fresh.model.momentum, sizeof is.model.momentum);
}

/* As PyTorch keeps them: the counts beside them, and each float type. */
static void write_state_dict(const char *name, struct model *m, enum stored type, uint32_t nclass, void *data,
                             const char *extra)
{
    static int64_t count = 12345;
    struct entry e[16];
    uint32_t n = 0;

    for (uint32_t t = 0; t < SMALL_NTENSOR; t++) {
        e[n] = (struct entry){ .type = type, .ndim = m->tensors[t].ndim, .data = data };
        snprintf(e[n].name, sizeof e[n].name, "%s", m->tensors[t].name);
        for (uint32_t d = 0; d < 4; d++)
            e[n].shape[d] = m->tensors[t].shape[d];
        if (t >= 3)
            e[n].shape[0] = nclass;
        n++;
    }
    e[n++] = (struct entry){ "bn1.running_mean", type, 1, { 2 }, data };
    e[n++] = (struct entry){ "bn1.running_var", type, 1, { 2 }, data };
    e[n++] = (struct entry){ "bn1.num_batches_tracked", STORED_I64, 0, { 0 }, &count };
    if (extra != NULL) {
        e[n] = (struct entry){ "", type, 1, { 2 }, data };
        snprintf(e[n++].name, sizeof e->name, "%s", extra);
    }
    assert_null(safetensors_write(in_folder(name), e, n, NULL, 0));
}

static void a_state_dict_of_any_float_type_is_taken(void **state)
{
    /* 1.5, -2, the least half, one of its least digits, infinity; of bfloat16 and double where they have them. */
    const uint16_t half[64] = { 0x3e00, 0xc000, 0x0001, 0x83ff, 0x7c00, 0x0400, 0x8000 };
    const uint16_t brain[64] = { 0x3fc0, 0xc000, 0x3380, 0xb87f, 0x7f80, 0x3880, 0x8000 };
    const double wide[64] = { 1.5, -2, 0x1p-24, -0x1.fep-15, (double)INFINITY, 0x1p-14, -0.0 };
    const float want[7] = { 1.5F, -2, 0x1p-24F, -0x1.ff8p-15F, INFINITY, 0x1p-14F, -0.0F };
    const float want_short[7] = { 1.5F, -2, 0x1p-24F, -0x1.fep-15F, INFINITY, 0x1p-14F, -0.0F };
    const struct {
        enum stored type;
        const void *data;
        const float *want;
    } cases[] = { { STORED_F16, half, want }, { STORED_BF16, brain, want_short }, { STORED_F64, wide, want_short } };
    struct run r;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(&r, 10, 7);
        write_state_dict("dict", &r.model, cases[i].type, 10, (void *)(uintptr_t)cases[i].data, NULL);
        const char *const why = load(&r, "dict", false);
        if (why != NULL)
            fail_msg("%s", why);
        assert_memory_equal(r.model.masters[0], cases[i].want, sizeof want);
        assert_memory_equal(r.model.masters[4], cases[i].want, sizeof want);
        assert_memory_equal(r.model.running[1], cases[i].want, 2 * sizeof *want);
    }
}

static void a_classifier_of_another_size_is_refused_with_the_remedy(void **state)
{
    float data[64] = { 5 };
    struct run r, fresh;

    begin(&r, 10, 7);
    begin(&fresh, 10, 7);
    write_state_dict("dict", &r.model, STORED_F32, 12, data, NULL);
    const char *const why = load(&r, "dict", false);
    assert_non_null(why);
    assert_non_null(strstr(why, "its classifier is for 12 classes, this run's for 10 (fc.weight); --new-classifier"));
    assert_true(small_models_are_equal(&r.model, &fresh.model));
    assert_null(load(&r, "dict", true));
    assert_true(r.model.masters[0][0] == 5);
    assert_memory_equal(r.model.masters[3], fresh.model.masters[3], 20 * sizeof(float));
    assert_memory_equal(r.model.masters[4], fresh.model.masters[4], 10 * sizeof(float));
}

static void weights_of_another_network_are_refused(void **state)
{
    float data[64] = { 5 };
    struct run r, fresh;
    const struct entry other = { "features.0.weight", STORED_F32, 1, { 2 }, data };
    const char *why;

    begin(&r, 10, 7);
    begin(&fresh, 10, 7);
    write_state_dict("dict", &r.model, STORED_F32, 10, data, "layer1.0.conv1.weight");
    why = load(&r, "dict", false);
    assert_non_null(why);
    assert_non_null(strstr(why, "it has a tensor layer1.0.conv1.weight, which this network does not have"));
    assert_null(safetensors_write(in_folder("dict"), &other, 1, NULL, 0));
    why = load(&r, "dict", false);
    assert_non_null(why);
    assert_non_null(strstr(why, "it has no tensor conv1.weight, but 1 others, such as features.0.weight"));
    write_state_dict("dict", &r.model, STORED_I32, 10, data, NULL);
    why = load(&r, "dict", false);
    assert_non_null(why);
    assert_non_null(strstr(why, "tensor conv1.weight is of type I32, not of floats"));
    assert_true(small_models_are_equal(&r.model, &fresh.model));
}

/* ---- Ranks -------------------------------------------------------------------------------------------------- */

/* Rank 1 names files that do not exist: only rank 0 reads. */
static int rank_restores(const struct plait_unique_id *id, uint32_t rank, const struct run *was)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_comm *comm;
    struct run is;

    o.nrank = 2, o.rank = rank, o.id = id;
    if (plait_comm_create(&o, &comm) != PLAIT_OK)
        return 1;
    begin(&is, 10, 7 + (float)rank);
    is.found = rank == 1;
    struct resume *const l = list(&is);
    const char *why = resume_restore(l, comm, rank == 0 ? in_folder(CHECKPOINT) : "/nonexistent");
    resume_destroy(l);
    if (why != NULL || !same(was, &is) || !is.found)
        return 2;
    begin(&is, 10, 7 + (float)rank);
    why = weights_load(rank == 0 ? in_folder(CHECKPOINT) : "/nonexistent", comm, &is.model, is.model.masters,
                       is.model.running[0], false);
    if (why != NULL || memcmp(is.model.values, was->model.values, sizeof is.model.values) != 0)
        return 3;
    why = weights_load(rank == 0 ? "/nonexistent" : in_folder(CHECKPOINT), comm, &is.model, is.model.masters,
                       is.model.running[0], false);
    if (why == NULL || strstr(why, "/nonexistent: No such file") == NULL)
        return 4;
    return plait_comm_destroy(comm) == PLAIT_OK ? 0 : 5;
}

static void one_rank_reads_and_all_have_it(void **state)
{
    struct plait_unique_id id;
    struct run was;

    begin(&was, 10, 1.1F);
    advance(&was);
    save(&was, 42);
    assert_int_equal(plait_unique_id_create(&id), PLAIT_OK);
    const pid_t child = child_fork();
    if (child == 0)
        _exit(rank_restores(&id, 1, &was));
    assert_int_equal(rank_restores(&id, 0, &was), 0);
    assert_int_equal(child_end(child), 0);
}

static int remove_folder(void **state)
{
    unlink(in_folder(CHECKPOINT));
    unlink(in_folder("dict"));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bit_comes_back),
        cmocka_unit_test(a_rank_that_is_left_alone_saves_what_it_knows),
        cmocka_unit_test(another_network_classes_or_optimiser_is_refused_with_both_values),
        cmocka_unit_test(what_is_missing_wrong_or_too_much_is_named),
        cmocka_unit_test(an_optional_tensor_of_another_shape_is_left_as_it_is),
        cmocka_unit_test(weights_of_a_checkpoint_are_a_beginning_of_another_run),
        cmocka_unit_test(a_state_dict_of_any_float_type_is_taken),
        cmocka_unit_test(a_classifier_of_another_size_is_refused_with_the_remedy),
        cmocka_unit_test(weights_of_another_network_are_refused),
        cmocka_unit_test(one_rank_reads_and_all_have_it),
    };

    return cmocka_run_group_tests(tests, folder_make, remove_folder);
}
