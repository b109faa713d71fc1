/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data-parallel training: a small network learns on which of three spirals a point lies.
 *
 *     cc -O2 train.c $(pkg-config --cflags --libs plait) -lm && ./a.out 4 && ./a.out 2 reproducible
 *
 * Gradients travel as bfloat16 while the next ones are computed. With "reproducible" those of micro-batches are added in
 * one tree, which goes on over the ranks, and travel as float32: 1, 2, 4 and 8 ranks give equal bits.
 */
#include <plait/fusion.h>
#include <plait/optim.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LAYERS = 3, WIDTH = 64, MICRO = 8, POINTS = 32, STEPS = 400, KNOWN = 6000 };
static const size_t size[LAYERS + 1] = { 3, WIDTH, WIDTH, 3 };
static float w[LAYERS][WIDTH * WIDTH], g[LAYERS][MICRO][WIDTH * WIDTH];  /* weights, gradients of each micro-batch */
static float a[LAYERS + 1][POINTS][WIDTH], d[LAYERS + 1][POINTS][WIDTH]; /* values, the loss's gradients by them */

static void check(enum plait_status status)
{
    if (status != PLAIT_OK)
        exit(fprintf(stderr, "%s: %s\n", plait_status_text(status), plait_last_error()));
}

/* The mean loss of points k, k + 1 ..; its gradient by the last layer times `scale`. */
static double forward(unsigned k, double scale)
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
                    s += a[l][p][i] * w[l][i * size[l + 1] + j];
                a[l + 1][p][j] = l < LAYERS - 1 ? fmaxf(s, 0) : expf(s);
            }
        const float *y = a[LAYERS][p], sum = y[0] + y[1] + y[2];
        for (unsigned j = 0; j < 3; j++)
            d[LAYERS][p][j] = (float)scale * (y[j] / sum - (float)(j == label));
        loss -= log((double)(y[label] / sum)) / POINTS;
    }
    return loss;
}

static void backward(uint32_t l, float *dw)
{
    memset(dw, 0, size[l] * size[l + 1] * sizeof *dw);
    for (unsigned p = 0; p < POINTS; p++)
        for (size_t i = 0; i < size[l]; i++) {
            float s = 0;
            for (size_t j = 0, at = i * size[l + 1]; j < size[l + 1]; j++, at++) {
                dw[at] += a[l][p][i] * d[l + 1][p][j];
                s += w[l][at] * d[l + 1][p][j];
            }
            d[l][p][i] = a[l][p][i] > 0 ? s : 0;
        }
}

static void train(struct plait_comm *comm, unsigned rank, unsigned nmicro, int reproducible)
{
    struct plait_fusion_options fused = PLAIT_FUSION_OPTIONS_DEFAULT;
    struct plait_optim_options lars = PLAIT_OPTIM_OPTIONS_DEFAULT;
    struct plait_optim_step update = PLAIT_OPTIM_STEP_DEFAULT;
    struct plait_loss_scale scale = PLAIT_LOSS_SCALE_DYNAMIC;
    struct plait_optim_result result;
    struct plait_tensor tensors[LAYERS]; /* as their gradients appear: the last layer first */
    struct plait_optim_part parts[LAYERS];
    struct plait_fusion *fusion;
    struct plait_optim *optim;
    for (uint32_t t = 0, l = LAYERS - 1; t < LAYERS; t++, l--) {
        const size_t n = size[l] * size[l + 1];
        for (size_t i = 0; i < n; i++) /* on every rank the same */
            w[l][i] = sinf((float)(37 * i * (l + 7))) * sqrtf(3.0F / (float)size[l]);
        tensors[t] = (struct plait_tensor){ "weights", n, PLAIT_FLOAT32, g[l][0] };
        parts[t] = (struct plait_optim_part){ t, n, g[l][0], PLAIT_FLOAT32, w[l], NULL, PLAIT_FLOAT32, 0 };
    }
    fused.tensors = tensors, fused.ntensor = LAYERS, fused.layout.threshold = 4096;
    fused.reproducible = reproducible, fused.payload = reproducible ? PLAIT_NDTYPE : PLAIT_BFLOAT16;
    check(plait_fusion_create(comm, &fused, &fusion));
    lars.parts = parts, lars.npart = lars.ntensor = LAYERS, lars.eta = 0.01;
    check(plait_optim_create(&lars, &optim));
    for (unsigned step = 0; step < STEPS; step++) {
        for (unsigned m = 0; m < nmicro; m++) {
            const double loss = forward((step * MICRO + rank * nmicro + m) * POINTS % KNOWN, scale.scale);
            if (rank == 0 && m == 0 && step % 50 == 0)
                printf("step %3u: loss %.4f\n", step, loss);
            for (uint32_t t = 0, l = LAYERS - 1; t < LAYERS; t++, l--) {
                backward(l, g[l][m]);
                for (unsigned half = 1; m == nmicro - 1 && half < nmicro; half *= 2)
                    for (unsigned i = 0; i < nmicro; i += 2 * half)
                        for (size_t e = 0; e < tensors[t].count; e++)
                            g[l][i][e] += g[l][i + half][e];
                if (m == nmicro - 1)
                    check(plait_fusion_ready(fusion, t));
            }
        }
        check(plait_fusion_wait_all(fusion, NULL));
        update.lr = 0.2, update.factor = 1 / (scale.scale * MICRO * POINTS);
        check(plait_optim_step(optim, &update, &result));
        check(plait_loss_scale_update(&scale, result.finite));
    }
    if (rank == 0)
        printf("loss of new points: %.17g\n", forward(KNOWN, 1));
    plait_optim_destroy(optim);
    check(plait_fusion_destroy(fusion));
}

int main(int argc, char **argv)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_unique_id id;
    struct plait_comm *comm;
    o.nrank = argc > 1 ? (uint32_t)atoi(argv[1]) : 4;
    if (o.nrank == 0 || MICRO % o.nrank != 0)
        return fprintf(stderr, "%u ranks are not possible; 1, 2, 4 and 8 are\n", o.nrank);
    check(plait_unique_id_create(&id));
    while (o.rank < o.nrank - 1 && fork() != 0)
        o.rank++;
    o.id = &id;
    check(plait_comm_create(&o, &comm));
    train(comm, o.rank, MICRO / o.nrank, argc > 2 && strcmp(argv[2], "reproducible") == 0);
    check(plait_comm_destroy(comm));
    return wait(NULL) == 0;
}
