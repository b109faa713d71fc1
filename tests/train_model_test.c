/* SPDX-License-Identifier: BSD-3-Clause */
/* Whole networks: gradients, statistics, the same bits again, and what a training loop asks for. */
#include "model.h"
#include "random.h"
#include "train_reference.h"
#include "unit.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { PIXELS = 8, BATCH = 4, NCLASS = 10 };

/* ---- A model with its tensors and a batch ---- */

struct setup {
    struct model *model;
    float **masters, **gradients;
    float *images;
    int32_t *labels;
    uint32_t batch;
};

static float **tensors(const struct model *model)
{
    float **list = calloc(model_ntensor(model), sizeof *list);

    for (uint32_t k = 0; k < model_ntensor(model); k++)
        list[k] = calloc(model_tensor(model, k)->count, sizeof **list);
    return list;
}

static void tensors_free(float **list, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        free(list[k]);
    free(list);
}

static void setup_init(struct setup *s, struct model_options options)
{
    const size_t nvalue = (size_t)options.batch * options.pixels * options.pixels * 3;
    uint64_t state = 1;

    s->model = model_create(&options);
    s->batch = options.batch;
    s->masters = tensors(s->model);
    s->gradients = tensors(s->model);
    s->images = calloc(nvalue, sizeof *s->images);
    s->labels = calloc(options.batch, sizeof *s->labels);
    for (size_t k = 0; k < nvalue; k++)
        s->images[k] = (float)(random_next(&state) % 257) / 64 - 2;
    for (uint32_t k = 0; k < options.batch; k++)
        s->labels[k] = (int32_t)(random_next(&state) % options.nclass);
    model_initialise(s->model, 7, false, s->masters);
    model_refresh(s->model, (const float *const *)s->masters);
}

static void setup_finish(struct setup *s)
{
    tensors_free(s->masters, model_ntensor(s->model));
    tensors_free(s->gradients, model_ntensor(s->model));
    free(s->images);
    free(s->labels);
    model_destroy(s->model);
}

static struct model_options small_options(void)
{
    return (struct model_options){
        .name = "resnet20", .nclass = NCLASS, .pixels = PIXELS, .batch = BATCH, .threads = 1, .training = true
    };
}

static struct model_result train_pass(struct setup *s, double smoothing, bool accumulate)
{
    struct model_result result;

    model_forward(s->model, s->images, s->labels, true, smoothing);
    result = model_result(s->model);
    model_backward(s->model, NULL, (void *const *)s->gradients, accumulate, NULL, NULL);
    return result;
}

/* ---- The reference of the same network, with the same weights and images ---- */

struct whole {
    struct network *network;
    struct reference *reference;
};

static void whole_init(struct whole *w, const struct setup *s)
{
    const size_t nplane = PIXELS * PIXELS;

    w->network = network_create("resnet20", NCLASS, PIXELS);
    w->reference = reference_create(w->network, s->batch);
    for (uint32_t k = 0; k < w->network->ntensor; k++)
        for (size_t i = 0; i < w->network->tensors[k].count; i++)
            w->reference->tensors[k][i] = s->masters[k][i];
    for (size_t i = 0; i < s->batch * nplane * 3; i++)
        w->reference->values[0][(i / 3 / nplane * 3 + i % 3) * nplane + i / 3 % nplane] = s->images[i];
}

static void whole_finish(struct whole *w)
{
    reference_destroy(w->reference);
    network_destroy(w->network);
}

static double whole_loss(struct whole *w, const struct setup *s, double smoothing)
{
    const uint32_t logits = w->network->nvalue - 1;

    reference_forward(w->reference, true);
    return reference_loss(w->reference->values[logits], s->labels, s->batch, NCLASS, smoothing,
                          w->reference->gradients[logits]);
}

static double difference(const float *ours, const double *wanted, size_t n)
{
    double error = 0, norm = 0;

    for (size_t k = 0; k < n; k++) {
        error += (ours[k] - wanted[k]) * (ours[k] - wanted[k]);
        norm += wanted[k] * wanted[k];
    }
    return sqrt(error / (norm + 1e-20));
}

static void check_tensors(const struct setup *s, float *const *ours, double *const *wanted, double tolerance)
{
    for (uint32_t k = 0; k < model_ntensor(s->model); k++) {
        const struct tensor *tensor = model_tensor(s->model, k);
        const double error = difference(ours[k], wanted[k], tensor->count);

        if (!(error <= tolerance))
            fail_msg("%s differs by %g", tensor->name, error);
    }
}

/* ---- Tests ---- */

static void the_reference_agrees_with_finite_differences(void **state)
{
    const double step = 1e-6, smoothing = 0.1;
    struct setup s;
    struct whole w;

    setup_init(&s, small_options());
    whole_init(&w, &s);
    whole_loss(&w, &s, smoothing);
    reference_backward(w.reference);
    for (uint32_t k = 0; k < w.network->ntensor; k += 7) {
        double *tensor = w.reference->tensors[k], wanted = 0, loss[2];
        const size_t count = w.network->tensors[k].count;

        for (size_t i = 0; i < count; i++)
            wanted += w.reference->diffs[k][i] * (double)(i % 5);
        for (int side = 0; side < 2; side++) {
            for (size_t i = 0; i < count; i++)
                tensor[i] += (side == 0 ? step : -2 * step) * (double)(i % 5);
            loss[side] = whole_loss(&w, &s, smoothing) / BATCH;
        }
        for (size_t i = 0; i < count; i++)
            tensor[i] += step * (double)(i % 5);
        if (!(fabs((loss[0] - loss[1]) / (2 * step) - wanted) <= 1e-3 * (fabs(wanted) + 1e-2)))
            fail_msg("%s: %g, by differences %g", w.network->tensors[k].name, wanted, (loss[0] - loss[1]) / (2 * step));
    }
    whole_finish(&w);
    setup_finish(&s);
}

static void all_gradients_agree_with_the_reference(void **state)
{
    struct setup s;
    struct whole w;
    double loss;

    setup_init(&s, small_options());
    whole_init(&w, &s);
    loss = whole_loss(&w, &s, 0.1);
    reference_backward(w.reference);
    assert_true(fabs(train_pass(&s, 0.1, false).loss - loss) < 1e-4 * loss);
    assert_true(difference(model_logits(s.model), w.reference->values[w.network->nvalue - 1], BATCH * NCLASS) < 1e-4);
    check_tensors(&s, s.gradients, w.reference->diffs, 1e-4);
    whole_finish(&w);
    setup_finish(&s);
}

static const float *batch_of(const struct model *model, uint32_t k)
{
    return model_batch(model) + model_statistic(model, k)->start;
}

static float *running_of(const struct model *model, uint32_t k)
{
    return model_running(model) + model_statistic(model, k)->start;
}

/* The number of a norm's running mean; that of its variance is the next. */
static uint32_t statistic_of(const struct model *model, const struct node *node)
{
    const size_t length = strlen(node->name);
    uint32_t k = 0;

    while (strncmp(model_statistic(model, k)->name, node->name, length) != 0 ||
           strcmp(model_statistic(model, k)->name + length, ".running_mean") != 0)
        assert_true(++k < model_nstatistic(model));
    return k;
}

/* And evaluation takes the running ones. */
static void statistics_are_of_the_batch(void **state)
{
    struct setup s;
    struct whole w;

    setup_init(&s, small_options());
    whole_init(&w, &s);
    train_pass(&s, 0, false);
    whole_loss(&w, &s, 0);
    for (uint32_t k = 0; k < w.network->nnode; k++) {
        const struct value *v = &w.network->values[w.network->nodes[k].out];
        const double count = (double)BATCH * v->height * v->width;

        if (w.network->nodes[k].kind != NODE_NORM)
            continue;
        const uint32_t at = statistic_of(s.model, &w.network->nodes[k]);
        for (uint32_t c = 0; c < v->channels; c++)
            w.reference->variances[k][c] *= count / (count - 1);
        assert_true(difference(batch_of(s.model, at), w.reference->means[k], v->channels) < 1e-4);
        assert_true(difference(batch_of(s.model, at + 1), w.reference->variances[k], v->channels) < 1e-4);
        for (uint32_t c = 0; c < v->channels; c++) {
            w.reference->running_mean[k][c] = running_of(s.model, at)[c] = 0.5F;
            w.reference->running_variance[k][c] = running_of(s.model, at + 1)[c] = 2;
        }
    }
    reference_forward(w.reference, false);
    model_forward(s.model, s.images, s.labels, false, 0);
    assert_true(difference(model_logits(s.model), w.reference->values[w.network->nvalue - 1], BATCH * NCLASS) < 1e-4);
    whole_finish(&w);
    setup_finish(&s);
}

static void a_model_for_evaluation_gives_the_same_logits(void **state)
{
    struct model_options options = small_options();
    struct setup training, evaluating;

    setup_init(&training, options);
    options.training = false;
    setup_init(&evaluating, options);
    model_forward(training.model, training.images, training.labels, false, 0);
    model_forward(evaluating.model, evaluating.images, evaluating.labels, false, 0);
    assert_memory_equal(model_logits(training.model), model_logits(evaluating.model), BATCH * NCLASS * sizeof(float));
    assert_true(model_memory(evaluating.model).activations < model_memory(training.model).activations);
    setup_finish(&training);
    setup_finish(&evaluating);
}

static void passes_give_the_same_bits_again(void **state)
{
    struct setup a, b;

    setup_init(&a, small_options());
    setup_init(&b, small_options());
    train_pass(&a, 0, false);
    train_pass(&b, 0, false);
    train_pass(&b, 0, false);
    for (uint32_t k = 0; k < model_ntensor(a.model); k++)
        assert_memory_equal(a.gradients[k], b.gradients[k], model_tensor(a.model, k)->count * sizeof(float));
    setup_finish(&a);
    setup_finish(&b);
}

static void gradients_accumulate(void **state)
{
    struct setup s;
    float **once;

    setup_init(&s, small_options());
    train_pass(&s, 0, false);
    once = tensors(s.model);
    for (uint32_t k = 0; k < model_ntensor(s.model); k++)
        memcpy(once[k], s.gradients[k], model_tensor(s.model, k)->count * sizeof(float));
    train_pass(&s, 0, true);
    for (uint32_t k = 0; k < model_ntensor(s.model); k++)
        for (size_t i = 0; i < model_tensor(s.model, k)->count; i++)
            assert_true(fabsf(s.gradients[k][i] - 2 * once[k][i]) <= 1e-6F * fabsf(once[k][i]));
    tensors_free(once, model_ntensor(s.model));
    setup_finish(&s);
}

/* To nearest even. */
static uint16_t as_bf16(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void gradients_of_16_bits_are_those_of_32_rounded(void **state)
{
    struct model_options options = small_options();
    struct setup wide, narrow;

    setup_init(&wide, options);
    options.gradients = PRECISION_BF16;
    setup_init(&narrow, options);
    train_pass(&wide, 0.1, false);
    for (uint32_t k = 0; k < model_ntensor(narrow.model); k++)
        memset(narrow.gradients[k], 0x7f, model_tensor(narrow.model, k)->count * sizeof(float));
    train_pass(&narrow, 0.1, false);
    for (uint32_t k = 0; k < model_ntensor(wide.model); k++) {
        const size_t n = model_tensor(wide.model, k)->count;
        const uint16_t *half = (const void *)narrow.gradients[k];
        for (size_t i = 0; i < n; i++)
            assert_int_equal(half[i], as_bf16(wide.gradients[k][i]));
        for (size_t i = n; i < 2 * n; i++)
            assert_int_equal(half[i], 0x7f7f);
    }
    setup_finish(&wide);
    setup_finish(&narrow);
}

/* Each image gets the class that stands at its number: the first for one, the second for the next, ... */
static void the_first_class_and_the_first_five_count(void **state)
{
    enum { CLASSES = 10, IMAGES = 8 };
    struct model_options options = small_options();
    struct model_result result;
    struct setup s;

    options.nclass = CLASSES;
    options.batch = IMAGES;
    setup_init(&s, options);
    model_forward(s.model, s.images, s.labels, false, 0);
    result = model_result(s.model);
    for (uint32_t k = 0; k < IMAGES; k++) {
        const float *x = model_logits(s.model) + (size_t)k * CLASSES;
        for (uint32_t c = 0; c < CLASSES; c++) {
            uint32_t before = 0;
            for (uint32_t d = 0; d < CLASSES; d++)
                before += x[d] > x[c] || (x[d] == x[c] && d < c);
            if (before == k)
                s.labels[k] = (int32_t)c;
        }
    }
    model_forward(s.model, s.images, s.labels, false, 0);
    result = model_result(s.model);
    assert_int_equal(result.n, IMAGES);
    assert_int_equal(result.top1, 1);
    assert_int_equal(result.top5, 5);
    setup_finish(&s);
}

struct seen {
    uint32_t n, order[256];
};

static void see(void *context, uint32_t tensor)
{
    struct seen *seen = context;

    seen->order[seen->n++] = tensor;
}

static void each_gradient_is_ready_once_and_in_order(void **state)
{
    struct seen seen = { 0 };
    struct setup s;

    setup_init(&s, small_options());
    train_pass(&s, 0, false);
    model_backward(s.model, NULL, (void *const *)s.gradients, false, see, &seen);
    assert_int_equal(seen.n, model_ntensor(s.model));
    assert_memory_equal(seen.order, model_backward_order(s.model), seen.n * sizeof *seen.order);
    setup_finish(&s);
}

static void the_first_layer_that_is_not_finite_is_named(void **state)
{
    struct setup s;

    setup_init(&s, small_options());
    train_pass(&s, 0, false);
    assert_null(model_first_nonfinite(s.model));
    s.images[5] = INFINITY;
    train_pass(&s, 0, false);
    assert_string_equal(model_first_nonfinite(s.model), "images");
    s.images[5] = 0;
    for (uint32_t k = 0; k < model_ntensor(s.model); k++)
        if (strcmp(model_tensor(s.model, k)->name, "layer2.1.conv2.weight") == 0)
            s.masters[k][3] = NAN;
    model_refresh(s.model, (const float *const *)s.masters);
    assert_true(isnan(train_pass(&s, 0, false).loss));
    assert_string_equal(model_first_nonfinite(s.model), "layer2.1.conv2");
    setup_finish(&s);
}

static void unlabelled_images_count_for_nothing(void **state)
{
    struct model_result all, part;
    struct setup s;

    setup_init(&s, small_options());
    model_forward(s.model, s.images, s.labels, false, 0);
    all = model_result(s.model);
    s.labels[1] = s.labels[3] = -1;
    model_forward(s.model, s.images, s.labels, false, 0);
    part = model_result(s.model);
    assert_int_equal(all.n, BATCH);
    assert_int_equal(part.n, BATCH - 2);
    assert_true(part.loss < all.loss);
    setup_finish(&s);
}

/* ---- Synchronised batch norm: two passes of half the images each, in threads ---- */

struct meeting {
    pthread_barrier_t barrier;
    float *values[2];
};

struct half {
    struct meeting *meeting;
    int rank;
    struct setup setup;
    pthread_t thread;
};

static void sum_halves(void *context, float *values, size_t n)
{
    struct half *half = context;
    struct meeting *m = half->meeting;
    float *sums = malloc(n * sizeof *sums);

    m->values[half->rank] = values;
    pthread_barrier_wait(&m->barrier);
    for (size_t k = 0; k < n; k++)
        sums[k] = m->values[0][k] + m->values[1][k];
    pthread_barrier_wait(&m->barrier);
    memcpy(values, sums, n * sizeof *sums);
    free(sums);
}

static void *half_main(void *context)
{
    struct half *half = context;

    train_pass(&half->setup, 0, false);
    return NULL;
}

static void half_init(struct half *half, struct meeting *meeting, int rank, const struct setup *whole)
{
    struct model_options options = small_options();

    *half = (struct half){ .meeting = meeting, .rank = rank };
    options.batch = BATCH / 2;
    options.sum = sum_halves;
    options.nsum = 2;
    options.context = half;
    setup_init(&half->setup, options);
    memcpy(half->setup.images, whole->images + (size_t)rank * BATCH / 2 * PIXELS * PIXELS * 3,
           (size_t)BATCH / 2 * PIXELS * PIXELS * 3 * sizeof(float));
    memcpy(half->setup.labels, whole->labels + rank * BATCH / 2, BATCH / 2 * sizeof(int32_t));
}

static void synchronised_halves_give_the_gradients_of_the_whole(void **state)
{
    struct meeting meeting;
    struct half halves[2];
    struct setup s;
    struct whole w;

    setup_init(&s, small_options());
    whole_init(&w, &s);
    whole_loss(&w, &s, 0);
    reference_backward(w.reference);
    pthread_barrier_init(&meeting.barrier, NULL, 2);
    for (int rank = 0; rank < 2; rank++)
        half_init(&halves[rank], &meeting, rank, &s);
    for (int rank = 0; rank < 2; rank++)
        pthread_create(&halves[rank].thread, NULL, half_main, &halves[rank]);
    for (int rank = 0; rank < 2; rank++)
        pthread_join(halves[rank].thread, NULL);
    for (uint32_t k = 0; k < model_ntensor(s.model); k++)
        for (size_t i = 0; i < model_tensor(s.model, k)->count; i++)
            s.gradients[k][i] = (halves[0].setup.gradients[k][i] + halves[1].setup.gradients[k][i]) / 2;
    check_tensors(&s, s.gradients, w.reference->diffs, 1e-4);
    assert_null(model_first_nonfinite(halves[0].setup.model)); /* alone: it sums nothing */
    for (int rank = 0; rank < 2; rank++)
        setup_finish(&halves[rank].setup);
    pthread_barrier_destroy(&meeting.barrier);
    whole_finish(&w);
    setup_finish(&s);
}

/* ---- The table ---- */

static void networks_have_their_number_of_parameters(void **state)
{
    /* torchvision's, and those of He et al.'s small form with projections */
    static const struct {
        const char *name;
        uint32_t nclass, ntensor;
        size_t count;
    } wanted[] = { { "resnet18", 1000, 62, 11689512 },   { "resnet34", 1000, 110, 21797672 },
                   { "resnet50", 1000, 161, 25557032 },  { "resnet101", 1000, 314, 44549160 },
                   { "resnet152", 1000, 467, 60192808 }, { "resnet20", 10, 65, 272474 } };

    for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++) {
        struct network *net = network_create(wanted[k].name, wanted[k].nclass, 64);
        size_t count = 0;

        for (uint32_t t = 0; t < net->ntensor; t++)
            count += net->tensors[t].count;
        assert_int_equal(net->ntensor, wanted[k].ntensor);
        assert_int_equal(count, wanted[k].count);
        network_destroy(net);
    }
}

static void what_is_no_network_is_refused(void **state)
{
    struct model_options options = small_options();

    options.pixels = 7;
    assert_null(model_create(&options));
    options = small_options();
    options.name = "resnet51";
    assert_null(model_create(&options));
}

static void zero_last_starts_each_block_as_its_shortcut(void **state)
{
    struct setup s;
    uint32_t nzero = 0;

    setup_init(&s, small_options());
    model_initialise(s.model, 7, true, s.masters);
    for (uint32_t k = 0; k < model_ntensor(s.model); k++)
        if (model_tensor(s.model, k)->kind == TENSOR_NORM &&
            strstr(model_tensor(s.model, k)->name, "bn2.weight") != NULL)
            nzero += s.masters[k][0] == 0;
    assert_int_equal(nzero, 9);
    setup_finish(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_have_their_number_of_parameters),
        cmocka_unit_test(what_is_no_network_is_refused),
        cmocka_unit_test(the_reference_agrees_with_finite_differences),
        cmocka_unit_test(all_gradients_agree_with_the_reference),
        cmocka_unit_test(statistics_are_of_the_batch),
        cmocka_unit_test(a_model_for_evaluation_gives_the_same_logits),
        cmocka_unit_test(passes_give_the_same_bits_again),
        cmocka_unit_test(the_first_class_and_the_first_five_count),
        cmocka_unit_test(gradients_accumulate),
        cmocka_unit_test(gradients_of_16_bits_are_those_of_32_rounded),
        cmocka_unit_test(each_gradient_is_ready_once_and_in_order),
        cmocka_unit_test(the_first_layer_that_is_not_finite_is_named),
        cmocka_unit_test(unlabelled_images_count_for_nothing),
        cmocka_unit_test(synchronised_halves_give_the_gradients_of_the_whole),
        cmocka_unit_test(zero_last_starts_each_block_as_its_shortcut),
    };

    return cmocka_run_group_tests_name("train_model", tests, NULL, NULL);
}
