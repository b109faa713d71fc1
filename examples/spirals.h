/* SPDX-License-Identifier: BSD-3-Clause */
/* What train.c and elastic.c teach: a small network, which learns on which of three spirals a point lies. */
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { LAYERS = 3, WIDTH = 64, POINTS = 32, WEIGHTS = (3 + WIDTH + 3) * WIDTH };
static const size_t size[LAYERS + 1] = { 3, WIDTH, WIDTH, 3 }, start[LAYERS] = { 0, 3 * WIDTH, (3 + WIDTH) * WIDTH };
static float a[LAYERS + 1][POINTS][WIDTH], d[LAYERS + 1][POINTS][WIDTH]; /* values, the loss's gradients by them */

/* On every rank the same. */
static void init_weights(float *w)
{
    for (size_t l = 0; l < LAYERS; l++)
        for (size_t i = 0; i < size[l] * size[l + 1]; i++)
            w[start[l] + i] = sinf((float)(37 * i * (l + 7))) * sqrtf(3.0F / (float)size[l]);
}

/* The mean loss of points k, k + 1 ..; its gradient by the last layer times `scale`. */
static double forward(const float *w, unsigned k, double scale)
{
    double loss = 0;
    for (unsigned p = 0; p < POINTS; p++, k++) { /* along one arm, a little beside it */
        const unsigned hash = k * 2654435761u, label = k % 3;
        const float far = (float)(hash >> 8 & 0xffff) / 65536, angle = 4 * far + 2.0944F * (float)label;
        a[0][p][0] = far * cosf(angle) + 0.02F * sinf((float)hash);
        a[0][p][1] = far * sinf(angle) + 0.02F * cosf((float)hash);
        a[0][p][2] = 1;
        for (int l = 0; l < LAYERS; l++)
            for (size_t j = 0; j < size[l + 1]; j++) {
                float s = 0;
                for (size_t i = 0; i < size[l]; i++)
                    s += a[l][p][i] * w[start[l] + i * size[l + 1] + j];
                a[l + 1][p][j] = l < LAYERS - 1 ? fmaxf(s, 0) : expf(s);
            }
        const float *y = a[LAYERS][p], sum = y[0] + y[1] + y[2];
        for (unsigned j = 0; j < 3; j++)
            d[LAYERS][p][j] = (float)scale * (y[j] / sum - (float)(j == label)) / POINTS;
        loss -= log((double)(y[label] / sum)) / POINTS;
    }
    return loss;
}

/* The gradients by the weights of one layer, and by its input. */
static void backward(const float *w, unsigned l, float *g)
{
    memset(g + start[l], 0, size[l] * size[l + 1] * sizeof *g);
    for (unsigned p = 0; p < POINTS; p++)
        for (size_t i = 0; i < size[l]; i++) {
            float s = 0;
            for (size_t j = 0, at = start[l] + i * size[l + 1]; j < size[l + 1]; j++, at++) {
                g[at] += a[l][p][i] * d[l + 1][p][j];
                s += w[at] * d[l + 1][p][j];
            }
            d[l][p][i] = a[l][p][i] > 0 ? s : 0;
        }
}
