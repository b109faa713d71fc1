/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A second device fits behind train/device.h: one that hides its memory. It lets the CPU compute, but nobody can access
 * memory of it, save what one of its functions is given while it runs. Training gives the CPU's bits, makes the same
 * calls in every step, and allocates nothing in a step.
 */
#include "device.h"
#include "random.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_BLOCKS = 2048, MOST_CALLS = 8192 };

/* ---- Its memory ---- */

static struct hidden {
    struct block {
        char *at;
        size_t bytes;
    } blocks[MOST_BLOCKS];
    size_t nblock;
    uint64_t calls[MOST_CALLS];
    size_t ncall;
} hidden;

static void protect(const struct block *b, int access)
{
    assert_int_equal(mprotect(b->at, b->bytes, access), 0);
}

static void *hide(void *memory, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct block *b = &hidden.blocks[hidden.nblock++];

    assert_true(hidden.nblock <= MOST_BLOCKS);
    *b = (struct block){ memory, (bytes + page - 1) / page * page };
    protect(b, PROT_NONE);
    return memory;
}

/* A pointer that a function gets is the device's, or NULL: a pointer to host memory fails here. */
static void access_memory(const void *memory, int access)
{
    const char *at = memory;

    for (size_t k = 0; k < hidden.nblock && memory != NULL; k++)
        if (hidden.blocks[k].at <= at && at < hidden.blocks[k].at + hidden.blocks[k].bytes) {
            protect(&hidden.blocks[k], access);
            return;
        }
    assert_null(memory);
}

/* ---- Its functions: note the call, open the memory, let the CPU do it, close the memory ---- */

static void note(uint64_t what, const void *memory)
{
    assert_true(hidden.ncall < MOST_CALLS);
    hidden.calls[hidden.ncall++] = what << 56 ^ (uint64_t)(uintptr_t)memory;
}

static void access_all(int access, const void *a, const void *b, const void *c)
{
    access_memory(a, access);
    access_memory(b, access);
    access_memory(c, access);
}

enum call {
    CALL_BEGIN = 1,
    CALL_SYNCHRONIZE,
    CALL_IN,
    CALL_OUT,
    CALL_RUN,
    CALL_ADD,
    CALL_FINITE,
    CALL_SUM,
    CALL_MULTIPLY,
    CALL_MOVE,
    CALL_COPY_IMAGES,
    CALL_LOSS
};

static struct device_kind hiding;

static struct device *create(const struct device_options *options)
{
    struct device *device = device_cpu.create(options);

    device->kind = &hiding;
    return device;
}

static void begin(struct device *device)
{
    note(CALL_BEGIN, device);
    device_cpu.begin(device);
}

static void synchronize(struct device *device)
{
    note(CALL_SYNCHRONIZE, device);
    device_cpu.synchronize(device);
}

static void *alloc(struct device *device, size_t bytes)
{
    return hide(device_cpu.alloc(device, bytes), bytes > 0 ? bytes : 1);
}

static void copy_in(struct device *device, void *to, const void *host, size_t bytes)
{
    note(CALL_IN, to);
    access_memory(to, PROT_WRITE);
    device_cpu.copy_in(device, to, host, bytes);
    access_memory(to, PROT_NONE);
}

static void copy_out(struct device *device, void *host, const void *from, size_t bytes)
{
    note(CALL_OUT, from);
    access_memory(from, PROT_READ);
    device_cpu.copy_out(device, host, from, bytes);
    access_memory(from, PROT_NONE);
}

static void access_arguments(const struct device_op *op, void *const at[NARG], void *scratch, int access)
{
    for (unsigned arg = 0; arg < NARG; arg++)
        if (op->layouts[arg] != NULL) {
            assert_true(at[arg] != NULL || arg == ARG_DIFF_MORE);
            access_memory(at[arg], access);
        }
    access_memory(scratch, access);
}

static void run(struct device_op *op, void *const at[NARG], void *scratch)
{
    note(CALL_RUN, op);
    access_arguments(op, at, scratch, PROT_READ | PROT_WRITE);
    device_cpu.run(op, at, scratch);
    access_arguments(op, at, scratch, PROT_NONE);
}

static void copy_images(struct device_op *op, const void *from, const int32_t *labels, void *to, int32_t *to_labels,
                        void *scratch)
{
    note(CALL_COPY_IMAGES, to);
    access_all(PROT_READ | PROT_WRITE, to, to_labels, scratch);
    device_cpu.copy_images(op, from, labels, to, to_labels, scratch);
    access_all(PROT_NONE, to, to_labels, scratch);
}

static void add(struct device *device, struct elements e, void *a, const void *b)
{
    note(CALL_ADD, a);
    access_all(PROT_READ | PROT_WRITE, a, b, NULL);
    device_cpu.add(device, e, a, b);
    access_all(PROT_NONE, a, b, NULL);
}

static bool is_finite(struct device *device, struct elements e, const void *a)
{
    bool is;

    note(CALL_FINITE, a);
    access_memory(a, PROT_READ);
    is = device_cpu.finite(device, e, a);
    access_memory(a, PROT_NONE);
    return is;
}

static void sum(struct device *device, const struct device_sum *s)
{
    note(CALL_SUM, s->to);
    access_all(PROT_READ | PROT_WRITE, s->to, s->from, NULL);
    device_cpu.sum(device, s);
    access_all(PROT_NONE, s->to, s->from, NULL);
}

static void multiply(struct device *device, float *to, const float *from, const double *factors, size_t n)
{
    note(CALL_MULTIPLY, to);
    access_all(PROT_READ | PROT_WRITE, to, from, factors);
    device_cpu.multiply(device, to, from, factors, n);
    access_all(PROT_NONE, to, from, factors);
}

static void move(struct device *device, const struct device_move *m)
{
    note(CALL_MOVE, m->to);
    access_all(PROT_READ | PROT_WRITE, m->to, m->towards, NULL);
    device_cpu.move(device, m);
    access_all(PROT_NONE, m->to, m->towards, NULL);
}

static void loss(struct device *device, const struct loss *l, struct model_result *add)
{
    note(CALL_LOSS, l->logits);
    access_all(PROT_READ | PROT_WRITE, l->logits, l->labels, add);
    device_cpu.loss(device, l, add);
    access_all(PROT_NONE, l->logits, l->labels, add);
}

static void loss_back(struct device *device, const struct loss *l, float *gradient)
{
    note(CALL_LOSS, gradient);
    access_all(PROT_READ | PROT_WRITE, l->logits, l->labels, gradient);
    access_memory(l->scale, PROT_READ);
    device_cpu.loss_back(device, l, gradient);
    access_memory(l->scale, PROT_NONE);
    access_all(PROT_NONE, l->logits, l->labels, gradient);
}

/* Functions that make layouts and operations access no memory: they are the CPU's. */
static void hiding_init(void)
{
    memset(&hidden, 0, sizeof hidden);
    hiding = device_cpu;
    hiding.name = "hiding";
    hiding.host = false;
    hiding.create = create;
    hiding.begin = begin;
    hiding.synchronize = synchronize;
    hiding.alloc = alloc;
    hiding.copy_in = copy_in;
    hiding.copy_out = copy_out;
    hiding.run = run;
    hiding.copy_images = copy_images;
    hiding.add = add;
    hiding.finite = is_finite;
    hiding.sum = sum;
    hiding.multiply = multiply;
    hiding.move = move;
    hiding.loss = loss;
    hiding.loss_back = loss_back;
}

/* ---- A training loop, which has copies of masters and gradients ---- */

struct loop {
    struct model_options options;
    const struct device_kind *kind;
    struct device *device; /* whose memory has masters and gradients */
    struct model *model;
    uint32_t n;
    float **host, **masters; /* [n] */
    void **gradients;
    float *images, *copy;
    double *scale; /* of the gradients */
    int32_t *labels;
    struct model_result result;
};

/* Two ranks with the same images. */
static void sum_ranks(void *context, float *values, size_t n)
{
    (void)context;
    for (size_t k = 0; k < n; k++)
        values[k] *= 2;
}

static void make_batch(struct loop *l)
{
    const size_t n = (size_t)l->options.batch * l->options.pixels * l->options.pixels * 3;
    uint64_t state = 1;

    l->images = calloc(n, sizeof *l->images);
    l->labels = calloc(l->options.batch, sizeof *l->labels);
    for (size_t k = 0; k < n; k++)
        l->images[k] = (float)random_below(&state, 257) / 64 - 2;
    for (uint32_t k = 0; k < l->options.batch; k++)
        l->labels[k] = (int32_t)random_below(&state, l->options.nclass);
}

static size_t bytes_of(const struct loop *l, uint32_t k)
{
    return model_tensor(l->model, k)->count * sizeof(float);
}

static void give_masters(struct loop *l)
{
    for (uint32_t k = 0; k < l->n; k++)
        l->kind->copy_in(l->device, l->masters[k], l->host[k], bytes_of(l, k));
    model_refresh(l->model, (const float *const *)l->masters);
}

static void loop_init(struct loop *l, const struct device_kind *kind, const struct model_options *options)
{
    size_t most = 0;

    *l = (struct loop){ .options = *options,
                        .kind = kind,
                        .device = kind->create(
                            &(struct device_options){ .precision = options->precision, .threads = options->threads }) };
    l->options.device = l->device;
    l->model = model_create(&l->options);
    l->n = model_ntensor(l->model);
    l->host = calloc(l->n, sizeof *l->host);
    l->masters = calloc(l->n, sizeof *l->masters);
    l->gradients = calloc(l->n, sizeof *l->gradients);
    for (uint32_t k = 0; k < l->n; k++) {
        l->host[k] = calloc(1, bytes_of(l, k));
        l->masters[k] = kind->alloc(l->device, bytes_of(l, k));
        l->gradients[k] = kind->alloc(l->device, bytes_of(l, k));
        most = most < bytes_of(l, k) ? bytes_of(l, k) : most;
    }
    l->copy = calloc(1, most);
    l->scale = kind->alloc(l->device, sizeof *l->scale);
    kind->copy_in(l->device, l->scale, &(double){ 4 }, sizeof *l->scale);
    make_batch(l);
}

static void loop_finish(struct loop *l)
{
    for (uint32_t k = 0; k < l->n; k++)
        free(l->host[k]);
    free(l->host);
    free(l->masters);
    free(l->gradients);
    free(l->copy);
    free(l->images);
    free(l->labels);
    model_destroy(l->model);
    l->kind->destroy(l->device);
}

static float gradient_at(const struct loop *l, size_t i)
{
    uint32_t bits;
    float value;

    if (l->options.gradients == PRECISION_FP32)
        return l->copy[i];
    bits = (uint32_t)((const uint16_t *)(const void *)l->copy)[i] << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void update(struct loop *l)
{
    const size_t halves = l->options.gradients == PRECISION_BF16 ? 2 : 1;

    for (uint32_t k = 0; k < l->n; k++) {
        l->kind->copy_out(l->device, l->copy, l->gradients[k], bytes_of(l, k) / halves);
        for (size_t i = 0; i < model_tensor(l->model, k)->count; i++)
            l->host[k][i] -= 0.0025F * gradient_at(l, i);
    }
    l->kind->move(l->device, &(struct device_move){ model_running(l->model), model_batch(l->model), 1, 0.1F,
                                                    model_statistics_count(l->model) });
    give_masters(l);
}

static void step(struct loop *l, int npass)
{
    for (int pass = 0; pass < npass; pass++) {
        model_forward(l->model, l->images, l->labels, true, 0.1);
        model_wait_images(l->model);
        model_backward(l->model, l->scale, l->gradients, pass > 0, NULL, NULL);
    }
    l->result = model_result(l->model);
    update(l);
}

/* ---- Both devices ---- */

static float *running_of(const struct loop *l)
{
    const size_t bytes = model_statistics_count(l->model) * sizeof(float);
    float *host = malloc(bytes);

    l->kind->copy_out(l->device, host, model_running(l->model), bytes);
    return host;
}

static void check_statistics(const struct loop *a, const struct loop *b)
{
    float *ours = running_of(a), *theirs = running_of(b);

    assert_memory_equal(ours, theirs, model_statistics_count(a->model) * sizeof(float));
    free(ours);
    free(theirs);
}

static void check_same(const struct loop *a, const struct loop *b)
{
    const size_t nlogit = (size_t)a->options.batch * a->options.nclass;

    assert_true(a->result.loss == b->result.loss);
    assert_memory_equal(model_logits(a->model), model_logits(b->model), nlogit * sizeof(float));
    for (uint32_t k = 0; k < a->n; k++)
        assert_memory_equal(a->host[k], b->host[k], bytes_of(a, k));
    check_statistics(a, b);
}

/* The calls of the first step come again in the later ones. */
static void step_hidden(struct loop *l, int npass, int number)
{
    static uint64_t first[MOST_CALLS];
    static size_t nfirst;
    const size_t nblock = hidden.nblock;

    hidden.ncall = 0;
    step(l, npass);
    assert_int_equal(hidden.nblock, nblock);
    if (number == 0) {
        memcpy(first, hidden.calls, sizeof first);
        nfirst = hidden.ncall;
    }
    assert_int_equal(hidden.ncall, nfirst);
    assert_memory_equal(hidden.calls, first, nfirst * sizeof *first);
}

static void check(const struct model_options *options, int nstep, int npass)
{
    struct loop cpu, other;

    hiding_init();
    loop_init(&cpu, &device_cpu, options);
    loop_init(&other, &hiding, options);
    model_initialise(cpu.model, 7, false, cpu.host);
    for (uint32_t k = 0; k < cpu.n; k++)
        memcpy(other.host[k], cpu.host[k], bytes_of(&cpu, k));
    give_masters(&cpu);
    give_masters(&other);
    for (int k = 0; k < nstep; k++) {
        step(&cpu, npass);
        step_hidden(&other, npass, k);
        check_same(&cpu, &other);
    }
    assert_null(model_first_nonfinite(other.model));
    model_forward(cpu.model, cpu.images, cpu.labels, false, 0);
    model_forward(other.model, other.images, other.labels, false, 0);
    cpu.result = model_result(cpu.model);
    other.result = model_result(other.model);
    check_same(&cpu, &other);
    model_convolve(other.model);
    loop_finish(&cpu);
    loop_finish(&other);
}

static const struct model_options small = {
    .name = "resnet20", .nclass = 10, .pixels = 16, .batch = 3, .threads = 1, .training = true
};

static void the_small_network_trains_on_it(void **state)
{
    check(&small, 3, 2);
}

static void the_deep_network_trains_on_it(void **state)
{
    struct model_options options = small;

    options.name = "resnet50";
    options.pixels = 128; /* oneDNN is slow where an image has fewer than 4 x 4 pixels */
    options.batch = 1;
    check(&options, 2, 1);
}

static void it_sums_statistics_over_ranks(void **state)
{
    struct model_options options = small;

    options.sum = sum_ranks;
    options.nsum = 2;
    check(&options, 2, 2);
}

static void it_rounds_gradients(void **state)
{
    struct model_options options = small;

    options.gradients = PRECISION_BF16;
    check(&options, 2, 1);
}

static void it_computes_in_bf16(void **state)
{
    struct model_options options = small;

    options.precision = options.gradients = PRECISION_BF16;
    if (!device_cpu_has_bf16()) {
        print_message("oneDNN needs AVX-512 for bf16\n");
        skip();
    }
    check(&options, 2, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_small_network_trains_on_it),
        cmocka_unit_test(the_deep_network_trains_on_it),
        cmocka_unit_test(it_sums_statistics_over_ranks),
        cmocka_unit_test(it_rounds_gradients),
        cmocka_unit_test(it_computes_in_bf16),
    };

    return cmocka_run_group_tests_name("train_device", tests, NULL, NULL);
}
