/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data-parallel training of the small network in spirals.h.
 *
 *     cc -O2 train.c $(pkg-config --cflags --libs plait) -lm && ./a.out 4 && ./a.out 2 reproducible
 *
 * Gradients travel as bfloat16 while the next ones are computed. With "reproducible" those of micro-batches are added
 * in one tree, which goes on over the ranks, and travel as float32: 1, 2, 4 and 8 ranks give equal bits.
 */
#include "spirals.h"

#include <plait/fusion.h>
#include <plait/optim.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MICRO = 8, STEPS = 400, KNOWN = 6000 };
static float w[WEIGHTS], g[MICRO][WEIGHTS]; /* weights, gradients of each micro-batch */

static void check(enum plait_status status)
{
    if (status == PLAIT_OK)
        return;
    fprintf(stderr, "%s: %s\n", plait_status_text(status), plait_last_error());
    exit(1);
}

/* Pairs of micro-batches, pairs of pairs ..: the sum is in g[0]. */
static void add_micro_batches(unsigned nmicro, size_t first, size_t n)
{
    for (unsigned half = 1; half < nmicro; half *= 2)
        for (unsigned m = 0; m < nmicro; m += 2 * half)
            for (size_t i = first; i < first + n; i++)
                g[m][i] += g[m + half][i];
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
    init_weights(w);
    for (uint32_t t = 0, l = LAYERS - 1; t < LAYERS; t++, l--) {
        const size_t n = size[l] * size[l + 1];
        float *weights = w + start[l], *gradient = g[0] + start[l];
        tensors[t] = (struct plait_tensor){ "weights", n, PLAIT_FLOAT32, gradient };
        parts[t] = (struct plait_optim_part){ t, n, gradient, PLAIT_FLOAT32, weights, NULL, PLAIT_FLOAT32, 0 };
    }
    fused.tensors = tensors, fused.ntensor = LAYERS, fused.layout.threshold = 0; /* each tensor alone */
    fused.reproducible = reproducible, fused.payload = reproducible ? PLAIT_NDTYPE : PLAIT_BFLOAT16;
    check(plait_fusion_create(comm, &fused, &fusion));
    lars.parts = parts, lars.npart = lars.ntensor = LAYERS, lars.eta = 0.01;
    check(plait_optim_create(&lars, &optim));
    for (unsigned step = 0; step < STEPS; step++) {
        for (unsigned m = 0; m < nmicro; m++) {
            const double loss = forward(w, (step * MICRO + rank * nmicro + m) * POINTS % KNOWN, scale.scale);
            if (rank == 0 && m == 0 && step % 50 == 0)
                printf("step %3u: loss %.4f\n", step, loss);
            for (uint32_t t = 0, l = LAYERS - 1; t < LAYERS; t++, l--) {
                backward(w, l, g[m]);
                if (m < nmicro - 1)
                    continue;
                add_micro_batches(nmicro, start[l], tensors[t].count);
                check(plait_fusion_ready(fusion, t)); /* it travels while the next layer is computed */
            }
        }
        check(plait_fusion_wait_all(fusion, NULL));
        update.lr = 0.2, update.factor = 1 / (scale.scale * MICRO);
        check(plait_optim_step(optim, &update, &result));
        check(plait_loss_scale_update(&scale, result.finite));
    }
    if (rank == 0)
        printf("loss of new points: %.17g\n", forward(w, KNOWN, 1));
    plait_optim_destroy(optim);
    check(plait_fusion_destroy(fusion));
}

int main(int argc, char **argv)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_unique_id id;
    struct plait_comm *comm;
    o.nrank = argc > 1 ? (uint32_t)atoi(argv[1]) : 4;
    if (o.nrank == 0 || MICRO % o.nrank != 0) {
        fprintf(stderr, "%u ranks are not possible; use 1, 2, 4 or 8\n", o.nrank);
        return 2;
    }
    check(plait_unique_id_create(&id));
    while (o.rank < o.nrank - 1 && fork() != 0)
        o.rank++;
    o.id = &id;
    check(plait_comm_create(&o, &comm));
    train(comm, o.rank, MICRO / o.nrank, argc > 2 && strcmp(argv[2], "reproducible") == 0);
    check(plait_comm_destroy(comm));
    int failed = 0;
    for (int how; wait(&how) > 0;)
        failed |= how != 0;
    return failed;
}
