/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch.h"

#include <assert.h>

const struct train_kernel_info train_kernels[TRAIN_NKERNEL] = {
#define PLAIT_X(name, args) { #name, sizeof(struct args) },
    TRAIN_KERNEL_LIST(PLAIT_X)
#undef PLAIT_X
};

enum {
    MOST_BLOCKS = 64, /* for each multiprocessor; more would only begin later */
    LONGEST = 64,     /* rows that a thread of batch norm sums in float32 */
    SHORTEST = 8,
    ENOUGH = 1024 /* units that keep a device busy: longer sums only beyond them */
};

static uint32_t size_of(enum plait_dtype type)
{
    assert(type == PLAIT_FLOAT32 || type == PLAIT_BFLOAT16 || type == PLAIT_FLOAT16);
    return type == PLAIT_FLOAT32 ? 4 : 2;
}

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static void launch(const struct train_launcher *l, enum train_kernel kernel, uint64_t units, const void *argument)
{
    const uint64_t most = (uint64_t)l->multiprocessors * MOST_BLOCKS;

    if (units > 0)
        l->launch(l->context, kernel, (uint32_t)(units < most || most == 0 ? units : most), argument);
}

/* Are all of them on boundaries of `bytes`? NULL is. */
static bool are_aligned(size_t bytes, const void *const *pointers, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if ((uintptr_t)pointers[k] % bytes != 0)
            return false;
    return true;
}

#define ALIGNED(bytes, ...)                                  \
    are_aligned(bytes, (const void *const[]){ __VA_ARGS__ }, \
                sizeof((const void *const[]){ __VA_ARGS__ }) / sizeof(const void *))

/* ---- Batch norm ---- */

static struct train_cut cut_of(uint64_t rows, uint32_t channels, enum plait_dtype type, bool wide)
{
    struct train_cut c = { .rows = rows, .channels = channels, .each = 2 * LONGEST, .type = type, .wide = wide };
    const uint32_t lines = wide ? channels / (16 / size_of(type)) : channels;

    while (1U << c.across < lines && 1U << c.across < PLAIT_CUDA_WARP)
        c.across++;
    c.ntile = (uint32_t)divide_up(lines, 1U << c.across);
    do {
        c.each /= 2;
        c.npart = divide_up(rows, (uint64_t)(TRAIN_THREADS >> c.across) * c.each);
    } while (c.each > SHORTEST && c.npart * c.ntile < ENOUGH);
    return c;
}

static bool has_lines(uint32_t channels, enum plait_dtype type)
{
    return channels % (16 / size_of(type)) == 0;
}

static size_t partial_bytes(const struct train_cut *c)
{
    return (size_t)c->npart * 2 * c->channels * sizeof(double);
}

size_t kernel_norm_scratch(uint64_t rows, uint32_t channels, enum plait_dtype type)
{
    const struct train_cut plain = cut_of(rows, channels, type, false);
    const struct train_cut wide = cut_of(rows, channels, type, has_lines(channels, type));

    return partial_bytes(&wide) > partial_bytes(&plain) ? partial_bytes(&wide) : partial_bytes(&plain);
}

static struct train_norm norm_argument(const struct kernel_norm *n)
{
    const bool wide = has_lines(n->channels, n->type) &&
                      ALIGNED(16, n->x, n->addend, n->y, n->diff_y, n->diff_more, n->diff_x, n->mean, n->variance,
                              n->scale, n->shift, n->diff_scale, n->diff_shift);

    assert(n->rows > 0 && n->channels > 0);
    return (struct train_norm){ cut_of(n->rows, n->channels, n->type, wide),
                                n->x,
                                n->addend,
                                n->y,
                                n->diff_y,
                                n->diff_more,
                                n->diff_x,
                                n->mean,
                                n->variance,
                                n->scale,
                                n->shift,
                                n->diff_scale,
                                n->diff_shift,
                                n->scratch,
                                0,
                                n->fused };
}

static void norm_launch(const struct train_launcher *l, enum train_kernel kernel, const struct train_norm *a)
{
    launch(l, kernel, a->cut.npart * a->cut.ntile, a);
}

void kernel_norm_measure(const struct train_launcher *l, const struct kernel_norm *n)
{
    const struct train_norm a = norm_argument(n);

    norm_launch(l, TRAIN_KERNEL_train_norm_sums, &a);
    launch(l, TRAIN_KERNEL_train_norm_combine, divide_up(n->channels, TRAIN_COMBINED), &a);
}

void kernel_norm_forward(const struct train_launcher *l, const struct kernel_norm *n)
{
    const struct train_norm a = norm_argument(n);

    assert(n->fused != TRAIN_ADD_RELU || n->addend != NULL);
    norm_launch(l, TRAIN_KERNEL_train_norm_forward, &a);
}

void kernel_norm_back_sums(const struct train_launcher *l, const struct kernel_norm *n)
{
    const struct train_norm a = norm_argument(n);

    assert(n->fused != TRAIN_ADD_RELU || n->y != NULL);
    norm_launch(l, TRAIN_KERNEL_train_norm_back_sums, &a);
    launch(l, TRAIN_KERNEL_train_norm_back_combine, divide_up(n->channels, TRAIN_COMBINED), &a);
}

void kernel_norm_back(const struct train_launcher *l, const struct kernel_norm *n, double count)
{
    struct train_norm a = norm_argument(n);

    assert(n->fused != TRAIN_ADD_RELU || n->diff_x != n->diff_y);
    a.share = count > 0 ? (float)(1 / count) : 0;
    norm_launch(l, TRAIN_KERNEL_train_norm_back, &a);
}

/* ---- Pooling ---- */

static uint32_t pooled(const struct kernel_pool *p, uint32_t size)
{
    return (size + 2 * p->pad - p->kernel) / p->stride + 1;
}

size_t kernel_pool_workspace(const struct kernel_pool *p)
{
    return p->average ? 0 : (size_t)p->n * pooled(p, p->height) * pooled(p, p->width) * p->channels;
}

/* rows: of one image, of what is written */
static void pool_launch(const struct train_launcher *l, const struct kernel_pool *p, enum train_kernel kernel,
                        struct train_pool a, uint32_t rows)
{
    assert(p->pad < p->kernel && (p->average || p->kernel <= 16) && (uint64_t)p->n * rows <= UINT32_MAX);
    a.nrow = p->n * rows;
    a.channels = p->channels;
    a.height = p->height;
    a.width = p->width;
    a.out_height = pooled(p, p->height);
    a.out_width = pooled(p, p->width);
    a.kernel = p->kernel;
    a.stride = p->stride;
    a.pad = p->pad;
    a.type = p->type;
    a.wide = has_lines(p->channels, p->type) && ALIGNED(16, a.from, a.to, a.won);
    launch(l, kernel, a.nrow, &a);
}

void kernel_pool_forward(const struct train_launcher *l, const struct kernel_pool *p, const void *x, void *y,
                         uint8_t *won)
{
    pool_launch(l, p, p->average ? TRAIN_KERNEL_train_pool_average : TRAIN_KERNEL_train_pool_max,
                (struct train_pool){ .from = x, .to = y, .won = p->average ? NULL : won }, pooled(p, p->height));
}

void kernel_pool_back(const struct train_launcher *l, const struct kernel_pool *p, const void *diff_y,
                      const uint8_t *won, void *diff_x)
{
    pool_launch(
        l, p, p->average ? TRAIN_KERNEL_train_pool_average_back : TRAIN_KERNEL_train_pool_max_back,
        (struct train_pool){ .from = diff_y, .to = diff_x, .won = p->average ? NULL : (uint8_t *)(uintptr_t)won },
        p->height);
}

/* ---- Element by element ---- */

/* Of n elements in units of `each`, `times` for each thread. */
static uint64_t chunks(uint64_t n, uint32_t each, uint32_t times)
{
    return divide_up(n, (uint64_t)TRAIN_THREADS * times * each);
}

static uint64_t line_chunks(uint64_t n, enum plait_dtype type, uint32_t wide)
{
    return chunks(n, wide != 0 ? 16 / size_of(type) : 1, TRAIN_LINES);
}

void kernel_add(const struct train_launcher *l, enum plait_dtype type, uint64_t n, void *a, const void *b)
{
    const struct train_add s = { a, b, n, type, ALIGNED(16, a, b) };

    launch(l, TRAIN_KERNEL_train_add, line_chunks(n, type, s.wide), &s);
}

void kernel_infinite(const struct train_launcher *l, enum plait_dtype type, uint64_t n, const void *a, uint32_t *result)
{
    struct train_finite f = { a, result, n, type, ALIGNED(16, a), 1 };

    launch(l, TRAIN_KERNEL_train_finite, 1, &f);
    f.clear = 0;
    launch(l, TRAIN_KERNEL_train_finite, line_chunks(n, type, f.wide), &f);
}

void kernel_convert(const struct train_launcher *l, uint64_t n, enum plait_dtype from_type, const void *from,
                    enum plait_dtype to_type, void *to, bool add)
{
    const struct train_convert c = { to, from, n, to_type, from_type, add, ALIGNED(16, from, to) };

    assert(size_of(from_type) > 0 && (!add || to_type == PLAIT_FLOAT32));
    launch(l, TRAIN_KERNEL_train_convert, chunks(n, c.wide != 0 ? 8 : 1, TRAIN_LINES / 2), &c);
}

void kernel_images(const struct train_launcher *l, uint64_t n, const uint8_t *from, const float factor[3],
                   const float offset[3], enum plait_dtype type, void *to)
{
    const struct train_images i = { to,
                                    from,
                                    n,
                                    { factor[0], factor[1], factor[2] },
                                    { offset[0], offset[1], offset[2] },
                                    type,
                                    ALIGNED(16, from, to) };

    launch(l, TRAIN_KERNEL_train_images, line_chunks(n, type, i.wide), &i);
}

void kernel_crop(const struct train_launcher *l, const struct train_crop *crop)
{
    assert(crop->width > 0 && crop->height > 0 && crop->side > 0);
    launch(l, TRAIN_KERNEL_train_crop_resize, crop->side, crop);
    launch(l, TRAIN_KERNEL_train_crop_colour, crop->side, crop);
}

void kernel_scale_vector(const struct train_launcher *l, uint64_t n, const float *from, const double *factors,
                         float *to)
{
    const struct train_vector v = { .to = to, .from = from, .factors = factors, .n = n };

    launch(l, TRAIN_KERNEL_train_scale_vector, divide_up(n, TRAIN_THREADS), &v);
}

void kernel_move_vector(const struct train_launcher *l, uint64_t n, float *to, const float *towards, float weight,
                        float factor)
{
    const struct train_vector v = { .to = to, .from = towards, .n = n, .weight = weight, .factor = factor };

    launch(l, TRAIN_KERNEL_train_move_vector, divide_up(n, TRAIN_THREADS), &v);
}

/* ---- Matrices ---- */

void kernel_sum_rows(const struct train_launcher *l, uint64_t nrow, uint64_t columns, const float *from,
                     enum plait_dtype type, void *to, bool add)
{
    const struct train_rows r = { to, from, nrow, columns, type, add };

    assert(!add || type == PLAIT_FLOAT32);
    if (nrow == 1)
        kernel_convert(l, columns, PLAIT_FLOAT32, from, type, to, add);
    else
        launch(l, TRAIN_KERNEL_train_sum_rows, divide_up(columns, PLAIT_CUDA_WARP), &r);
}

void kernel_fill_rows(const struct train_launcher *l, uint64_t nrow, uint64_t columns, const float *from, float *to)
{
    const struct train_rows r = { to, from, nrow, columns, PLAIT_FLOAT32, 0 };

    launch(l, TRAIN_KERNEL_train_fill_rows, nrow, &r);
}

/* Of a tile, the in that are read together: a multiple of 8, if so many fit. */
static uint32_t tile_of(const struct kernel_weights *w)
{
    const uint32_t most = TRAIN_TILE / w->inner;
    const uint32_t some = most >= 8 ? most / 8 * 8 : most;

    return some == 0 ? 1 : some < w->in ? some : w->in;
}

static void weights_launch(const struct train_launcher *l, const struct kernel_weights *w, struct train_weights a)
{
    if (w->inner == 1 || w->in == 1) { /* one order */
        kernel_convert(l, (uint64_t)w->out * w->in * w->inner, (enum plait_dtype)a.from_type, a.from,
                       (enum plait_dtype)a.to_type, a.to, a.add != 0);
        return;
    }
    assert(a.add == 0 || a.to_type == PLAIT_FLOAT32);
    a.out = w->out;
    a.in = w->in;
    a.inner = w->inner;
    a.tile = tile_of(w);
    a.ntile = (uint32_t)divide_up(w->in, a.tile);
    launch(l, TRAIN_KERNEL_train_weights, (uint64_t)a.out * a.ntile, &a);
}

void kernel_weights(const struct train_launcher *l, const struct kernel_weights *w, enum plait_dtype from_type,
                    const void *from, enum plait_dtype to_type, void *to)
{
    weights_launch(l, w, (struct train_weights){ .to = to, .from = from, .to_type = to_type, .from_type = from_type });
}

void kernel_weights_back(const struct train_launcher *l, const struct kernel_weights *w, enum plait_dtype from_type,
                         const void *from, enum plait_dtype to_type, void *to, bool add)
{
    weights_launch(l, w,
                   (struct train_weights){
                       .to = to, .from = from, .to_type = to_type, .from_type = from_type, .to_plain = 1, .add = add });
}

/* ---- The loss ---- */

static struct train_loss loss_argument(const struct kernel_loss *loss)
{
    return (struct train_loss){ .logits = loss->logits,
                                .labels = loss->labels,
                                .smoothing = loss->smoothing,
                                .n = loss->n,
                                .nclass = loss->nclass };
}

size_t kernel_loss_scratch(uint32_t n)
{
    return n * sizeof(struct train_loss_sums);
}

void kernel_loss(const struct train_launcher *l, const struct kernel_loss *loss, struct train_loss_sums *result,
                 void *scratch)
{
    struct train_loss a = loss_argument(loss);

    a.images = scratch;
    a.result = result;
    launch(l, TRAIN_KERNEL_train_loss, a.n, &a);
    launch(l, TRAIN_KERNEL_train_loss_total, 1, &a);
}

void kernel_loss_back(const struct train_launcher *l, const struct kernel_loss *loss, double factor,
                      const double *scale, float *gradient)
{
    struct train_loss a = loss_argument(loss);

    a.late = scale;
    a.factor = factor;
    a.gradient = gradient;
    launch(l, TRAIN_KERNEL_train_loss_back, a.n, &a);
}
