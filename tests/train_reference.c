/* SPDX-License-Identifier: BSD-3-Clause */
#include "train_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double epsilon = 1e-5;

static double **arrays(uint32_t n)
{
    return calloc(n, sizeof(double *));
}

size_t reference_count(const struct reference *r, uint32_t value)
{
    const struct value *v = &r->network->values[value];

    return (size_t)r->batch * v->channels * v->height * v->width;
}

struct reference *reference_create(const struct network *net, uint32_t batch)
{
    struct reference *r = calloc(1, sizeof *r);

    r->network = net;
    r->batch = batch;
    r->values = arrays(net->nvalue);
    r->gradients = arrays(net->nvalue);
    r->tensors = arrays(net->ntensor);
    r->diffs = arrays(net->ntensor);
    r->means = arrays(net->nnode);
    r->variances = arrays(net->nnode);
    r->running_mean = arrays(net->nnode);
    r->running_variance = arrays(net->nnode);
    for (uint32_t k = 0; k < net->nvalue; k++) {
        r->values[k] = calloc(reference_count(r, k), sizeof(double));
        r->gradients[k] = calloc(reference_count(r, k), sizeof(double));
    }
    for (uint32_t k = 0; k < net->ntensor; k++) {
        r->tensors[k] = calloc(net->tensors[k].count, sizeof(double));
        r->diffs[k] = calloc(net->tensors[k].count, sizeof(double));
    }
    for (uint32_t k = 0; k < net->nnode; k++) {
        const uint32_t channels = net->values[net->nodes[k].out].channels;

        r->means[k] = calloc(channels, sizeof(double));
        r->variances[k] = calloc(channels, sizeof(double));
        r->running_mean[k] = calloc(channels, sizeof(double));
        r->running_variance[k] = calloc(channels, sizeof(double));
        for (uint32_t c = 0; c < channels; c++)
            r->running_variance[k][c] = 1;
    }
    return r;
}

static void arrays_free(double **list, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        free(list[k]);
    free(list);
}

void reference_destroy(struct reference *r)
{
    arrays_free(r->values, r->network->nvalue);
    arrays_free(r->gradients, r->network->nvalue);
    arrays_free(r->tensors, r->network->ntensor);
    arrays_free(r->diffs, r->network->ntensor);
    arrays_free(r->means, r->network->nnode);
    arrays_free(r->variances, r->network->nnode);
    arrays_free(r->running_mean, r->network->nnode);
    arrays_free(r->running_variance, r->network->nnode);
    free(r);
}

/* ---- Where a window's pixel lies; false: in the padding ---- */

static bool pixel(const struct node *node, const struct value *in, uint32_t y, uint32_t x, uint32_t ky, uint32_t kx,
                  size_t *at)
{
    const int64_t row = (int64_t)y * node->stride + ky - node->pad, column = (int64_t)x * node->stride + kx - node->pad;

    if (row < 0 || column < 0 || row >= in->height || column >= in->width)
        return false;
    *at = (size_t)row * in->width + (size_t)column;
    return true;
}

/* ---- Convolution ---- */

struct ends {
    const struct value *in, *out;
    size_t nin, nout; /* pixels */
    double *x, *y, *dx, *dy;
};

static struct ends ends(struct reference *r, const struct node *node)
{
    const struct value *in = &r->network->values[node->in], *out = &r->network->values[node->out];

    return (struct ends){ in,
                          out,
                          (size_t)in->height * in->width,
                          (size_t)out->height * out->width,
                          r->values[node->in],
                          r->values[node->out],
                          r->gradients[node->in],
                          r->gradients[node->out] };
}

/* Calls `each` for every product of a weight and an input in an output. */
static void products(struct reference *r, const struct node *node,
                     void (*each)(struct ends *e, size_t x, size_t w, size_t y, double *weights, double *diffs))
{
    struct ends e = ends(r, node);
    const uint32_t k = node->kernel;

    for (uint32_t n = 0; n < r->batch; n++)
        for (uint32_t o = 0; o < e.out->channels; o++)
            for (uint32_t c = 0; c < e.in->channels; c++)
                for (size_t p = 0; p < e.nout; p++)
                    for (uint32_t q = 0; q < k * k; q++) {
                        const size_t w = ((size_t)o * e.in->channels + c) * k * k + q;
                        size_t at;

                        if (pixel(node, e.in, (uint32_t)(p / e.out->width), (uint32_t)(p % e.out->width), q / k, q % k,
                                  &at))
                            each(&e, ((size_t)n * e.in->channels + c) * e.nin + at, w,
                                 ((size_t)n * e.out->channels + o) * e.nout + p, r->tensors[node->tensor],
                                 r->diffs[node->tensor]);
                    }
}

static void product_there(struct ends *e, size_t x, size_t w, size_t y, double *weights, double *diffs)
{
    (void)diffs;
    e->y[y] += e->x[x] * weights[w];
}

static void product_back(struct ends *e, size_t x, size_t w, size_t y, double *weights, double *diffs)
{
    diffs[w] += e->dy[y] * e->x[x];
    e->dx[x] += e->dy[y] * weights[w];
}

/* ---- Batch norm ---- */

static void norm_statistics(struct reference *r, uint32_t k)
{
    struct ends e = ends(r, &r->network->nodes[k]);
    const double count = (double)r->batch * (double)e.nin;

    for (uint32_t c = 0; c < e.in->channels; c++) {
        double mean = 0, variance = 0;

        for (size_t p = 0; p < r->batch * e.nin; p++)
            mean += e.x[(p / e.nin * e.in->channels + c) * e.nin + p % e.nin] / count;
        for (size_t p = 0; p < r->batch * e.nin; p++)
            variance += pow(e.x[(p / e.nin * e.in->channels + c) * e.nin + p % e.nin] - mean, 2) / count;
        r->means[k][c] = mean;
        r->variances[k][c] = variance;
    }
}

static void norm_forward(struct reference *r, uint32_t k, bool training)
{
    const struct node *node = &r->network->nodes[k];
    struct ends e = ends(r, node);

    if (training)
        norm_statistics(r, k);
    for (size_t i = 0; i < reference_count(r, node->in); i++) {
        const size_t c = i / e.nin % e.in->channels;
        const double mean = training ? r->means[k][c] : r->running_mean[k][c];
        const double variance = training ? r->variances[k][c] : r->running_variance[k][c];
        const double y = (e.x[i] - mean) / sqrt(variance + epsilon) * r->tensors[node->tensor][c] +
                         r->tensors[node->tensor + 1][c] + (node->in2 != 0 ? r->values[node->in2][i] : 0);

        e.y[i] = node->relu && y < 0 ? 0 : y;
    }
}

/* With z the normalised input: dx = scale / deviation (dy - mean of dy - z mean of dy z). */
static void norm_backward(struct reference *r, uint32_t k)
{
    const struct node *node = &r->network->nodes[k];
    struct ends e = ends(r, node);
    const double count = (double)r->batch * (double)e.nin;
    double *scale = r->tensors[node->tensor], *diff_scale = r->diffs[node->tensor],
           *diff_shift = r->diffs[node->tensor + 1];

    for (size_t i = 0; i < reference_count(r, node->in); i++) {
        const size_t c = i / e.nin % e.in->channels;
        const double dy = node->relu && e.y[i] <= 0 ? 0 : e.dy[i];

        diff_scale[c] += dy * (e.x[i] - r->means[k][c]) / sqrt(r->variances[k][c] + epsilon);
        diff_shift[c] += dy;
        if (node->in2 != 0)
            r->gradients[node->in2][i] += dy;
    }
    for (size_t i = 0; i < reference_count(r, node->in); i++) {
        const size_t c = i / e.nin % e.in->channels;
        const double dy = node->relu && e.y[i] <= 0 ? 0 : e.dy[i], deviation = sqrt(r->variances[k][c] + epsilon);
        const double z = (e.x[i] - r->means[k][c]) / deviation;

        e.dx[i] += scale[c] / deviation * (dy - diff_shift[c] / count - z * diff_scale[c] / count);
    }
}

/* ---- Pooling ---- */

static void pool(struct reference *r, const struct node *node, bool back)
{
    struct ends e = ends(r, node);

    for (size_t i = 0; i < reference_count(r, node->out); i++) {
        const size_t plane = i / e.nout, p = i % e.nout;
        double most = -INFINITY, sum = 0, count = 0;
        size_t at, best = 0;

        for (uint32_t q = 0; q < node->kernel * node->kernel; q++)
            if (pixel(node, e.in, (uint32_t)(p / e.out->width), (uint32_t)(p % e.out->width), q / node->kernel,
                      q % node->kernel, &at)) {
                const double x = e.x[plane * e.nin + at];

                sum += x;
                count++;
                if (x > most) {
                    most = x;
                    best = at;
                }
            }
        if (!back)
            e.y[i] = node->kind == NODE_AVERAGE ? sum / count : most;
        else if (node->kind == NODE_LARGEST)
            e.dx[plane * e.nin + best] += e.dy[i];
        else
            for (size_t k = 0; k < e.nin; k++) /* its window is the whole plane */
                e.dx[plane * e.nin + k] += e.dy[i] / count;
    }
}

/* ---- Product ---- */

static void matrix(struct reference *r, const struct node *node, bool back)
{
    struct ends e = ends(r, node);
    const size_t in = e.in->channels, out = e.out->channels;
    double *weights = r->tensors[node->tensor], *bias = r->tensors[node->tensor + 1];

    for (size_t i = 0; i < r->batch * out; i++) {
        const size_t n = i / out, o = i % out;

        if (!back)
            e.y[i] = bias[o];
        else
            r->diffs[node->tensor + 1][o] += e.dy[i];
        for (size_t c = 0; c < in; c++)
            if (!back) {
                e.y[i] += e.x[n * in + c] * weights[o * in + c];
            } else {
                r->diffs[node->tensor][o * in + c] += e.dy[i] * e.x[n * in + c];
                e.dx[n * in + c] += e.dy[i] * weights[o * in + c];
            }
    }
}

/* ---- Passes ---- */

void reference_forward(struct reference *r, bool training)
{
    for (uint32_t k = 0; k < r->network->nnode; k++) {
        const struct node *node = &r->network->nodes[k];

        if (node->kind == NODE_CONVOLUTION) {
            memset(r->values[node->out], 0, reference_count(r, node->out) * sizeof(double));
            products(r, node, product_there);
        } else if (node->kind == NODE_NORM) {
            norm_forward(r, k, training);
        } else if (node->kind == NODE_PRODUCT) {
            matrix(r, node, false);
        } else {
            pool(r, node, false);
        }
    }
}

void reference_backward(struct reference *r)
{
    const struct network *net = r->network;

    for (uint32_t k = 0; k < net->nvalue; k++)
        if (k != net->nodes[net->nnode - 1].out)
            memset(r->gradients[k], 0, reference_count(r, k) * sizeof(double));
    for (uint32_t k = 0; k < net->ntensor; k++)
        memset(r->diffs[k], 0, net->tensors[k].count * sizeof(double));
    for (uint32_t k = net->nnode; k-- > 0;) {
        const struct node *node = &net->nodes[k];

        if (node->kind == NODE_CONVOLUTION)
            products(r, node, product_back);
        else if (node->kind == NODE_NORM)
            norm_backward(r, k);
        else if (node->kind == NODE_PRODUCT)
            matrix(r, node, true);
        else
            pool(r, node, true);
    }
}

double reference_loss(const double *logits, const int32_t *labels, uint32_t n, uint32_t nclass, double smoothing,
                      double *gradient)
{
    double loss = 0;

    for (uint32_t k = 0; k < n; k++) {
        double sum = 0;

        for (uint32_t c = 0; c < nclass; c++)
            sum += exp(logits[k * nclass + c]);
        for (uint32_t c = 0; c < nclass; c++) {
            const double part = exp(logits[k * nclass + c]) / sum;
            const double wanted = smoothing / nclass + (c == (uint32_t)labels[k] ? 1 - smoothing : 0);

            loss -= wanted * log(part);
            if (gradient != NULL)
                gradient[k * nclass + c] = (part - wanted) / n;
        }
    }
    return loss;
}
