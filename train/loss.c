/* SPDX-License-Identifier: BSD-3-Clause */
#include "loss.h"

#include <math.h>
#include <string.h>

/* The logarithm of the sum of exponentials. */
static double log_sum(const float *x, uint32_t n)
{
    float most = x[0];
    double sum = 0;

    for (uint32_t c = 1; c < n; c++)
        most = x[c] > most ? x[c] : most;
    for (uint32_t c = 0; c < n; c++)
        sum += exp((double)x[c] - most);
    return most + log(sum);
}

/* How many classes rank before this one; of equal ones the first does. A NaN ranks last. */
static uint32_t place(const float *x, uint32_t n, uint32_t label)
{
    uint32_t before = 0;

    for (uint32_t c = 0; c < n; c++)
        if (c != label && !(x[c] < x[label]) && (c < label || x[c] != x[label]))
            before++;
    return before;
}

void loss_forward(struct device *device, const struct loss *loss, struct model_result *add)
{
    const uint32_t nclass = loss->nclass;

    (void)device;
    for (uint32_t k = 0; k < loss->n; k++) {
        const float *x = loss->logits + (size_t)k * nclass;
        const double whole = log_sum(x, nclass);
        double all = 0;
        uint32_t before;

        if (loss->labels[k] < 0)
            continue;
        for (uint32_t c = 0; c < nclass; c++)
            all += whole - x[c];
        add->loss += (1 - loss->smoothing) * (whole - x[loss->labels[k]]) + loss->smoothing * all / nclass;
        before = place(x, nclass, (uint32_t)loss->labels[k]);
        add->n++;
        add->top1 += before < 1;
        add->top5 += before < 5;
    }
}

void loss_backward(struct device *device, const struct loss *loss, float *gradient)
{
    const double factor = (loss->scale != NULL ? *loss->scale : 1) / loss->divisor;
    const uint32_t nclass = loss->nclass;

    (void)device;
    for (uint32_t k = 0; k < loss->n; k++) {
        const float *x = loss->logits + (size_t)k * nclass;
        float *to = gradient + (size_t)k * nclass;
        const double whole = log_sum(x, nclass);

        if (loss->labels[k] < 0) {
            memset(to, 0, nclass * sizeof *to);
            continue;
        }
        for (uint32_t c = 0; c < nclass; c++) {
            const double wanted = loss->smoothing / nclass + (c == (uint32_t)loss->labels[k] ? 1 - loss->smoothing : 0);

            to[c] = (float)(factor * (exp(x[c] - whole) - wanted));
        }
    }
}
