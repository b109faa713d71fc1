/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Logits, gradients and statistics agree with PyTorch's, which make_train_golden.py wrote down:
 *
 *     train_golden_test [cuda]    on processors, or on the first GPU
 */
#include "device.h"
#include "random.h"
#include "tier.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NSAMPLE = 8 };

static const struct device_kind *kind;

static const double smoothing = 0.1;
static const double negligible = 1e-5; /* a norm of gradients that would be 0 but for rounding */

struct golden {
    FILE *file;
    char network[16];
    struct model *model;
    struct model_options options;
    struct device *device;
    float **masters, **gradients; /* the device's */
    float *images;
    int32_t *labels;
    double autocast;         /* error of PyTorch's own gradients in bf16 */
    double tolerance, worst; /* seen */
    char worst_name[80];
    double latest; /* norm of the tensor before */
};

/* -1 to below 1, exact in fp32; make_train_golden.py has the same. */
static void numbers(uint64_t stream, float *to, size_t n)
{
    for (size_t k = 0; k < n; k++)
        to[k] = (float)(random_next(&stream) >> 40) / (1 << 23) - 1;
}

static void initialise(const struct tensor *tensor, float amount, float *to)
{
    float factor = 0.25F, plus = 0, shift = 0;
    uint64_t stream = 0;

    for (size_t k = 0; tensor->name[k] != '\0'; k++)
        stream += (k + 1) * (uint64_t)tensor->name[k];
    numbers(stream << 32, to, tensor->count);
    if (tensor->ndim == 4)
        factor = (float)sqrt(6.0 / (tensor->shape[0] * tensor->shape[2] * tensor->shape[3]));
    else if (tensor->ndim == 2)
        factor = (float)(1 / sqrt(tensor->shape[1]));
    else if (strstr(tensor->name, "weight") != NULL)
        plus = 1;
    else if (tensor->kind == TENSOR_NORM)
        shift = amount;
    for (size_t k = 0; k < tensor->count; k++)
        to[k] = to[k] * factor + plus + shift * (k % 2 == 0 ? 1 : -1);
}

static float **tensors(const struct golden *g)
{
    float **list = calloc(model_ntensor(g->model), sizeof *list);

    for (uint32_t k = 0; k < model_ntensor(g->model); k++)
        list[k] = kind->alloc(g->device, model_tensor(g->model, k)->count * sizeof **list);
    return list;
}

/* [n] floats of the device on the host, until free(). */
static float *read_back(const struct golden *g, const float *from, size_t n)
{
    float *host = malloc(n * sizeof *host);

    kind->copy_out(g->device, host, from, n * sizeof *host);
    return host;
}

static void make_masters(struct golden *g, float amount)
{
    for (uint32_t k = 0; k < model_ntensor(g->model); k++) {
        const struct tensor *tensor = model_tensor(g->model, k);
        float *host = calloc(tensor->count, sizeof *host);

        initialise(tensor, amount, host);
        kind->copy_in(g->device, g->masters[k], host, tensor->count * sizeof *host);
        free(host);
    }
    model_refresh(g->model, (const float *const *)g->masters);
}

static void golden_open(struct golden *g, const char *name, enum precision precision, double tolerance)
{
    char path[4096];
    uint32_t shift, stream;
    size_t nvalue;

    *g = (struct golden){ .tolerance = tolerance };
    snprintf(path, sizeof path, "%s/%s.txt", GOLDEN_DIR, name);
    g->file = fopen(path, "r");
    assert_non_null(g->file);
    g->options = (struct model_options){ .name = g->network, .precision = precision, .threads = 1, .training = true };
    assert_int_equal(fscanf(g->file, "# %15s %u %u %u %u %u: %*[^\n]\n", g->network, &g->options.nclass,
                            &g->options.pixels, &g->options.batch, &shift, &stream),
                     6);
    assert_int_equal(fscanf(g->file, "autocast %lf\n", &g->autocast), 1);
    g->device = kind->create(&(struct device_options){ .precision = precision, .threads = 1 });
    g->options.device = g->device;
    g->model = model_create(&g->options);
    g->masters = tensors(g);
    g->gradients = tensors(g);
    nvalue = (size_t)g->options.batch * g->options.pixels * g->options.pixels * 3;
    g->images = calloc(nvalue, sizeof *g->images);
    g->labels = calloc(g->options.batch, sizeof *g->labels);
    numbers(stream, g->images, nvalue);
    for (size_t k = 0; k < nvalue; k++)
        g->images[k] *= 2;
    for (uint32_t k = 0; k < g->options.batch; k++)
        g->labels[k] = (int32_t)(k * 7 % g->options.nclass);
    make_masters(g, (float)shift);
}

static void golden_close(struct golden *g)
{
    free(g->masters);
    free(g->gradients);
    free(g->images);
    free(g->labels);
    model_destroy(g->model);
    kind->destroy(g->device);
    fclose(g->file);
}

static void judge(struct golden *g, const char *name, const char *what, double error)
{
    if (error > g->worst) {
        g->worst = error;
        snprintf(g->worst_name, sizeof g->worst_name, "%s of %.60s", what, name);
    }
    if (!(error <= g->tolerance))
        fail_msg("%s of %s differs by %g", what, name, error);
}

struct errors {
    double norm, samples; /* relative */
};

/* The next line is this tensor's. */
static struct errors golden_read(struct golden *g, const char *name, const float *ours, size_t n)
{
    double exact_norm, wanted_norm, norm = 0, error = 0, samples = 0, wanted;
    char there[80];

    assert_int_equal(fscanf(g->file, "%79s %lf", there, &exact_norm), 2);
    wanted_norm = exact_norm;
    assert_string_equal(there, name);
    for (size_t k = 0; k < n; k++)
        norm += (double)ours[k] * ours[k];
    for (uint64_t k = 0; k < NSAMPLE; k++) {
        const double sample = ours[k * 2654435761 % n];

        assert_int_equal(fscanf(g->file, "%lf", &wanted), 1);
        error += (sample - wanted) * (sample - wanted);
        samples += wanted * wanted;
    }
    /* A norm's shift is mostly undone by the next norm, so that its gradient is a small rest of large terms: what it is a
     * part of is the layer's gradient. */
    g->latest =
        strstr(name, ".bias") != NULL && strstr(name, "fc") == NULL ? fmax(wanted_norm, g->latest) : wanted_norm;
    wanted_norm = g->latest;
    if (wanted_norm < negligible)
        return (struct errors){ fmax(0, sqrt(norm) - negligible) / negligible, 0 };
    /* Samples may all be small by chance: they count as at least their part of the norm. */
    return (struct errors){ fabs(sqrt(norm) - exact_norm) / wanted_norm,
                            sqrt(error) / fmax(sqrt(samples), wanted_norm * sqrt((double)NSAMPLE / (double)n)) };
}

static void golden_check(struct golden *g, const char *name, const float *ours, size_t n)
{
    const struct errors e = golden_read(g, name, ours, n);

    judge(g, name, "the norm", e.norm);
    judge(g, name, "a sample", e.samples);
}

/* In 16 bits gradients of deep layers are noisy, PyTorch's too: ours may be as far from exact ones as those. */
static void golden_check_gradients(struct golden *g)
{
    double sum = 0;

    for (uint32_t k = 0; k < model_ntensor(g->model); k++) {
        const struct tensor *tensor = model_tensor(g->model, k);
        float *gradient = read_back(g, g->gradients[k], tensor->count);

        if (g->options.precision == PRECISION_FP32)
            golden_check(g, tensor->name, gradient, tensor->count);
        else
            sum += fmin(1, golden_read(g, tensor->name, gradient, tensor->count).samples) / model_ntensor(g->model);
        free(gradient);
    }
    if (g->options.precision != PRECISION_FP32)
        print_message("%s: mean error of gradients %.3f, PyTorch's %.3f\n", g->network, sum, g->autocast);
    assert_true(sum <= 1.1 * g->autocast);
}

static void golden_evaluate(struct golden *g)
{
    const size_t count = model_statistics_count(g->model);
    float *running;

    kind->move(g->device, &(struct device_move){ model_running(g->model), model_batch(g->model), 1, 0.1F, count });
    running = read_back(g, model_running(g->model), count);
    for (uint32_t k = 0; k < model_nstatistic(g->model); k++) {
        const struct statistic *s = model_statistic(g->model, k);

        golden_check(g, s->name, running + s->start, s->count);
    }
    free(running);
    model_forward(g->model, g->images, g->labels, false, 0);
    golden_check(g, "evaluated", model_logits(g->model), (size_t)g->options.batch * g->options.nclass);
}

static void check(const char *name, enum precision precision, double tolerance)
{
    struct model_result result;
    struct golden g;
    float loss;

    golden_open(&g, name, precision, tolerance);
    model_forward(g.model, g.images, g.labels, true, smoothing);
    result = model_result(g.model);
    model_backward(g.model, NULL, (void *const *)g.gradients, false, NULL, NULL);
    loss = (float)(result.loss / result.n);
    golden_check(&g, "loss", &loss, 1);
    golden_check(&g, "logits", model_logits(g.model), (size_t)g.options.batch * g.options.nclass);
    golden_check_gradients(&g);
    golden_evaluate(&g);
    print_message("%s %s: at most %.1e, %s\n", name, (const char *[]){ "fp32", "bf16", "fp16" }[precision], g.worst,
                  g.worst_name);
    golden_close(&g);
}

static void the_small_network_agrees_with_pytorch(void **state)
{
    check("train_resnet20", PRECISION_FP32, 2e-4);
}

static void the_full_network_agrees_with_pytorch(void **state)
{
    check("train_resnet50", PRECISION_FP32, 2e-4);
}

static void bf16_agrees_with_pytorch(void **state)
{
    if (kind->host && !device_cpu_has_bf16()) {
        print_message("oneDNN needs AVX-512 for bf16\n");
        skip();
    }
    check("train_resnet20", PRECISION_BF16, 2e-2);
    if (kind->host || full())
        check("train_resnet50", PRECISION_BF16, 2e-2);
}

static void fp16_agrees_with_pytorch(void **state)
{
    if (kind->host) {
        print_message("fp16 needs a GPU\n");
        skip();
    }
    check("train_resnet20", PRECISION_FP16, 2e-2);
    if (full())
        check("train_resnet50", PRECISION_FP16, 2e-2);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_small_network_agrees_with_pytorch),
        cmocka_unit_test(the_full_network_agrees_with_pytorch),
        cmocka_unit_test(bf16_agrees_with_pytorch),
        cmocka_unit_test(fp16_agrees_with_pytorch),
    };

    kind = argc > 1 && strcmp(argv[1], "cuda") == 0 ? &device_cuda : &device_cpu;
    return cmocka_run_group_tests_name("train_golden", tests, NULL, NULL);
}
