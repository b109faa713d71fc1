/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Elastic averaging: each rank trains a network of its own, on points of its own, and all are pulled together by a
 * centre, which is tested in the end. It learns on which of three spirals a point lies.
 *
 *     cc -O2 elastic.c $(pkg-config --cflags --libs plait) -lm && ./a.out 4 sync3 && ./a.out 4 hogwild
 *
 * In the modes with servers one more process holds the centre. Exchanges go on during the forward and backward pass.
 */
#include <plait/elastic.h>
#include <plait/memory.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LAYERS = 3, WIDTH = 64, POINTS = 32, STEPS = 800, WEIGHTS = (3 + WIDTH + 3) * WIDTH };
static const size_t size[LAYERS + 1] = { 3, WIDTH, WIDTH, 3 }, start[LAYERS] = { 0, 3 * WIDTH, (3 + WIDTH) * WIDTH };
static float g[WEIGHTS], a[LAYERS + 1][POINTS][WIDTH], d[LAYERS + 1][POINTS][WIDTH]; /* by weights; values, by them */

static void check(enum plait_status status)
{
    if (status != PLAIT_OK)
        exit(fprintf(stderr, "%s: %s\n", plait_status_text(status), plait_last_error()));
}

/* The mean loss of points k, k + 1 ..; its gradient by the last layer. */
static double forward(const float *w, unsigned k)
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
            d[LAYERS][p][j] = (y[j] / sum - (float)(j == label)) / POINTS;
        loss -= log((double)(y[label] / sum)) / POINTS;
    }
    return loss;
}

static void backward(const float *w)
{
    memset(g, 0, sizeof g);
    for (int l = LAYERS - 1; l >= 0; l--)
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

static void train(struct plait_elastic *elastic, float *w, unsigned rank, unsigned nrank)
{
    for (unsigned step = 0; step < STEPS; step++) {
        check(plait_elastic_start(elastic));
        const double loss = forward(w, (step * nrank + rank) * POINTS);
        backward(w);
        check(plait_elastic_finish(elastic)); /* the weights are pulled towards the centre; then their own step */
        check(plait_elastic_step(elastic, g));
        if (rank == 0 && step % 100 == 0)
            printf("step %4u: loss %.4f\n", step, loss);
    }
    check(plait_elastic_centre(elastic, w));
    if (rank == 0)
        printf("loss of new points: %.17g\n", forward(w, STEPS * nrank * POINTS));
}

int main(int argc, char **argv)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_elastic_options e = PLAIT_ELASTIC_OPTIONS_DEFAULT;
    struct plait_elastic *elastic;
    struct plait_unique_id id;
    struct plait_comm *comm;
    void *memory;
    const unsigned nworker = argc > 1 ? (unsigned)atoi(argv[1]) : 4;
    const int mode = argc > 2 ? plait_elastic_find(argv[2]) : PLAIT_ELASTIC_SYNC3;
    if (nworker == 0 || mode < 0)
        return fprintf(stderr, "%s: no workers, or no such mode (plait/elastic.h)\n", argv[0]);
    o.nrank = nworker + (mode < PLAIT_ELASTIC_SYNC1); /* a server */
    check(plait_unique_id_create(&id));
    while (o.rank < o.nrank - 1 && fork() != 0)
        o.rank++;
    o.id = &id;
    check(plait_comm_create(&o, &comm));
    check(plait_mem_alloc(WEIGHTS * sizeof(float), &memory));
    e.mode = (enum plait_elastic_mode)mode, e.weights = memory, e.count = WEIGHTS;
    e.lr = mode == PLAIT_ELASTIC_ASYNC_MOMENTUM ? 0.02 : 0.2;
    for (size_t l = 0; l < LAYERS; l++)
        for (size_t i = 0; i < size[l] * size[l + 1]; i++) /* on every rank the same */
            e.weights[start[l] + i] = sinf((float)(37 * i * (l + 7))) * sqrtf(3.0F / (float)size[l]);
    check(plait_elastic_create(comm, &e, &elastic));
    if (o.rank < nworker)
        train(elastic, e.weights, o.rank, nworker);
    else
        check(plait_elastic_serve(elastic));
    check(plait_elastic_destroy(elastic));
    check(plait_mem_free(memory));
    check(plait_comm_destroy(comm));
    return wait(NULL) == 0;
}
