/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data-parallel training: a small network learns on which of three spirals a point lies.
 *
 *     cc -O2 train.c $(pkg-config --cflags --libs plait) -lm && ./a.out 4 && ./a.out 2 reproducible
 *
 * Gradients travel as bfloat16 while those of the layers before are computed. A batch is cut into micro-batches: with
 * "reproducible" their gradients are added in one tree and travel as float32, and 1, 2, 4 and 8 ranks give equal bits.
 */
#include <plait/fusion.h>
#include <plait/optim.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LAYERS = 3, WIDTH = 64, CLASSES = 3, MICRO = 8, POINTS = 32, STEPS = 400, TENSORS = 2 * LAYERS };
static const size_t in[LAYERS] = { 2, WIDTH, WIDTH }, out[LAYERS] = { WIDTH, WIDTH, CLASSES };
static const char *const names[TENSORS] = { "w2", "b2", "w1", "b1", "w0", "b0" }; /* as their gradients appear */

struct point { /* values of each layer, gradients of the loss by them */
    float a[LAYERS + 1][WIDTH], d[LAYERS + 1][WIDTH];
};

static void check(enum plait_status status)
{
    if (status == PLAIT_OK)
        return;
    fprintf(stderr, "%s: %s\n", plait_status_text(status), plait_last_error());
    exit(1);
}

/* Number k of the data: along one arm, a little beside it. Its loss; d is the gradient of its logits, times scale. */
static double forward(struct point *p, unsigned k, float *const *w, float scale)
{
    const unsigned hash = k * 2654435761u, label = k % CLASSES;
    const float far = (float)(hash >> 8 & 0xffff) / 65536, angle = 4 * far + 2.0944F * (float)label;
    float sum = 0, *y = p->a[LAYERS];

    p->a[0][0] = far * cosf(angle) + 0.02F * sinf((float)hash);
    p->a[0][1] = far * sinf(angle) + 0.02F * cosf((float)hash);
    for (int l = 0; l < LAYERS; l++)
        for (size_t j = 0; j < out[l]; j++) {
            float s = w[2 * (LAYERS - 1 - l) + 1][j];
            for (size_t i = 0; i < in[l]; i++)
                s += p->a[l][i] * w[2 * (LAYERS - 1 - l)][i * out[l] + j];
            p->a[l + 1][j] = l < LAYERS - 1 ? fmaxf(s, 0) : s;
        }
    for (unsigned j = 0; j < CLASSES; j++)
        sum += expf(y[j]);
    for (unsigned j = 0; j < CLASSES; j++)
        p->d[LAYERS][j] = scale * (expf(y[j]) / sum - (float)(j == label));
    return -log((double)(expf(y[label]) / sum));
}

/* One layer of a micro-batch. */
static void backward(struct point *points, int l, const float *w, float *dw, float *db)
{
    memset(dw, 0, in[l] * out[l] * sizeof *dw);
    memset(db, 0, out[l] * sizeof *db);
    for (struct point *p = points; p < points + POINTS; p++) {
        for (size_t i = 0; i < in[l]; i++) {
            float s = 0;
            for (size_t j = 0; j < out[l]; j++) {
                dw[i * out[l] + j] += p->a[l][i] * p->d[l + 1][j];
                s += w[i * out[l] + j] * p->d[l + 1][j];
            }
            p->d[l][i] = p->a[l][i] > 0 ? s : 0;
        }
        for (size_t j = 0; j < out[l]; j++)
            db[j] += p->d[l + 1][j];
    }
}

static void run_rank(const struct plait_unique_id *id, uint32_t rank, uint32_t nrank, int reproducible)
{
    struct plait_comm_options options = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_fusion_options fused = PLAIT_FUSION_OPTIONS_DEFAULT;
    struct plait_optim_options recipe = PLAIT_OPTIM_OPTIONS_DEFAULT;
    struct plait_schedule schedule = PLAIT_SCHEDULE_DEFAULT;
    struct plait_loss_scale scale = PLAIT_LOSS_SCALE_DYNAMIC;
    struct plait_tensor tensors[TENSORS];
    struct plait_optim_part parts[TENSORS];
    static struct point points[POINTS];
    float *w[TENSORS], *g[MICRO][TENSORS]; /* weights; gradients of this rank's micro-batches */
    const int nmicro = MICRO / (int)nrank;
    struct plait_comm *comm;
    struct plait_fusion *fusion;
    struct plait_optim *optim;

    options.nrank = nrank, options.rank = rank, options.id = id;
    check(plait_comm_create(&options, &comm));
    for (int t = 0; t < TENSORS; t++)
        tensors[t] = (struct plait_tensor){ names[t], out[LAYERS - 1 - t / 2] * (t % 2 ? 1 : in[LAYERS - 1 - t / 2]),
                                            PLAIT_FLOAT32, NULL };
    fused.tensors = tensors, fused.ntensor = TENSORS, fused.layout.threshold = 4096, fused.check = 1;
    fused.reproducible = reproducible, fused.payload = reproducible ? PLAIT_NDTYPE : PLAIT_BFLOAT16;
    check(plait_fusion_create(comm, &fused, &fusion));
    for (int t = 0; t < TENSORS; t++) {
        w[t] = calloc(tensors[t].count, sizeof(float));
        for (int m = 0; m < nmicro; m++)
            g[m][t] = m == 0 ? plait_fusion_data(fusion, (uint32_t)t) : calloc(tensors[t].count, sizeof(float));
        for (size_t i = 0; t % 2 == 0 && i < tensors[t].count; i++) /* every rank the same */
            w[t][i] = sinf((float)(i * (size_t)(t + 7) * 37)) * sqrtf(3.0F / (float)in[LAYERS - 1 - t / 2]);
        parts[t] = (struct plait_optim_part){ .tensor = (uint32_t)t, .count = tensors[t].count, .gradient = g[0][t],
                                              .type = PLAIT_FLOAT32, .master = w[t],
                                              .flags = t % 2 ? PLAIT_OPTIM_PLAIN : 0 };
    }
    recipe.parts = parts, recipe.npart = recipe.ntensor = TENSORS, recipe.eta = 0.02;
    check(plait_optim_create(&recipe, &optim));
    schedule.base = 1, schedule.warmup = 20, schedule.rule = PLAIT_DECAY_POLYNOMIAL, schedule.steps = STEPS - 20;

    for (unsigned step = 0; step < STEPS; step++) {
        struct plait_optim_step update = PLAIT_OPTIM_STEP_DEFAULT;
        struct plait_optim_result result;
        double loss = 0;
        for (int m = 0; m < nmicro; m++) {
            for (unsigned k = 0; k < POINTS; k++)
                loss += forward(&points[k], ((step * MICRO + rank * (unsigned)nmicro + (unsigned)m) * POINTS + k) % 6000, w,
                                (float)scale.scale) / (POINTS * nmicro);
            for (int t = 0; t < TENSORS; t += 2) {
                backward(points, LAYERS - 1 - t / 2, w[t], g[m][t], g[m][t + 1]);
                for (int b = t; m == nmicro - 1 && b < t + 2; b++) {
                    for (int half = 1; half < nmicro; half *= 2) /* the canonical tree, which goes on over the ranks */
                        for (int i = 0; i < nmicro; i += 2 * half)
                            for (size_t e = 0; e < tensors[b].count; e++)
                                g[i][b][e] += g[i + half][b][e];
                    check(plait_fusion_ready(fusion, (uint32_t)b));
                }
            }
        }
        check(plait_fusion_wait_all(fusion, NULL));
        update.lr = plait_schedule_at(&schedule, step), update.factor = 1 / (scale.scale * MICRO * POINTS);
        check(plait_optim_step(optim, &update, &result));
        check(plait_loss_scale_update(&scale, result.finite));
        if (rank == 0 && step % 50 == 0)
            printf("step %3u: loss %.4f, scale %g\n", step, loss, scale.scale);
    }
    double loss = 0;
    for (unsigned k = 6000; k < 7000; k++) /* points that it has not seen */
        loss += forward(&points[0], k, w, 1) / 1000;
    if (rank == 0)
        printf("loss of new points: %.17g\n", loss);
    plait_optim_destroy(optim);
    check(plait_fusion_destroy(fusion));
    check(plait_comm_destroy(comm));
}

int main(int argc, char **argv)
{
    const uint32_t nrank = argc > 1 ? (uint32_t)atoi(argv[1]) : 4;
    struct plait_unique_id id;
    int status = 0, failed = 0;

    if (nrank == 0 || MICRO % nrank != 0)
        return fprintf(stderr, "%u ranks: 1, 2, 4 and 8 are possible\n", nrank), 2;
    check(plait_unique_id_create(&id));
    for (uint32_t rank = 0; rank < nrank; rank++)
        if (fork() == 0) {
            run_rank(&id, rank, nrank, argc > 2 && strcmp(argv[2], "reproducible") == 0);
            exit(0);
        }
    while (wait(&status) > 0)
        failed += status != 0;
    return failed > 0;
}
