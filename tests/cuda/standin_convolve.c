/* SPDX-License-Identifier: BSD-3-Clause */
#include "standin_convolve.h"

#include "standin_numbers.h"

#include "cudnn9.h"

int64_t convolve_size(int type)
{
    return type == CUDNN9_DATA_FLOAT ? 4 : 2;
}

static float rounded(float value)
{
    uint32_t word;

    memcpy(&word, &value, sizeof word);
    word &= ~UINT32_C(0x1fff);
    memcpy(&value, &word, sizeof value);
    return value;
}

static int64_t count(const int64_t d[4])
{
    return d[0] * d[1] * d[2] * d[3];
}

/* As floats; zeros for the result. */
static float *widen(const struct convolve *c, const int64_t d[4], const void *from, int is_result)
{
    const int64_t n = count(d);
    float *to = calloc((size_t)n, sizeof *to);

    if (to == NULL)
        abort();
    for (int64_t k = 0; k < n && !is_result; k++) {
        const float value = c->type == CUDNN9_DATA_FLOAT      ? ((const float *)from)[k]
                            : c->type == CUDNN9_DATA_BFLOAT16 ? from_bf16(((const uint16_t *)from)[k])
                                                              : from_fp16(((const uint16_t *)from)[k]);
        to[k] = c->tf32 ? rounded(value) : value;
    }
    return to;
}

static void narrow(const struct convolve *c, const int64_t d[4], const float *from, void *to)
{
    for (int64_t k = 0; k < count(d); k++)
        if (c->type == CUDNN9_DATA_FLOAT)
            ((float *)to)[k] = from[k];
        else
            ((uint16_t *)to)[k] = c->type == CUDNN9_DATA_BFLOAT16 ? to_bf16(from[k]) : to_fp16(from[k]);
}

/* One pixel of y with one of x, by the weights of one place of the window, which lie `far` apart for the outputs. */
static void pixel(const struct convolve *c, float *x, float *w, float *y, int64_t far)
{
    const int64_t in = c->x[1], out = c->y[1];

    for (int64_t k = 0; k < out; k++) {
        float *row = w + k * far, sum = y[k];

        for (int64_t i = 0; i < in; i++)
            if (c->direction == TO_Y)
                sum += x[i] * row[i];
            else if (c->direction == TO_X)
                x[i] += y[k] * row[i];
            else
                row[i] += y[k] * x[i];
        y[k] = sum;
    }
}

static void image(const struct convolve *c, float *x, float *w, float *y)
{
    const int64_t in = c->x[1], height = c->w[2], width = c->w[3];

    for (int64_t at = 0; at < c->y[2] * c->y[3] * height * width; at++) {
        const int64_t s = at % width, r = at / width % height, q = at / (width * height) % c->y[3];
        const int64_t p = at / (width * height * c->y[3]);
        const int64_t row = p * c->stride[0] + r - c->pad[0], column = q * c->stride[1] + s - c->pad[1];

        if (row >= 0 && row < c->x[2] && column >= 0 && column < c->x[3])
            pixel(c, x + (row * c->x[3] + column) * in, w + (r * width + s) * in, y + (p * c->y[3] + q) * c->y[1],
                  height * width * in);
    }
}

void convolve(void *context)
{
    const struct convolve *c = context;
    float *x = widen(c, c->x, c->at_x, c->direction == TO_X), *w = widen(c, c->w, c->at_w, c->direction == TO_W);
    float *y = widen(c, c->y, c->at_y, c->direction == TO_Y);

    for (int64_t k = 0; k < c->x[0]; k++) {
        const int64_t n = c->reversed ? c->x[0] - 1 - k : k;
        image(c, x + n * count(c->x) / c->x[0], w, y + n * count(c->y) / c->y[0]);
    }
    if (c->direction == TO_X)
        narrow(c, c->x, x, c->at_x);
    else if (c->direction == TO_W)
        narrow(c, c->w, w, c->at_w);
    else
        narrow(c, c->y, y, c->at_y);
    free(x);
    free(w);
    free(y);
}
