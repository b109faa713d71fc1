/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Elastic averaging: each rank trains a network of its own (spirals.h), on points of its own, and all are pulled
 * together by a centre, which is tested in the end.
 *
 *     cc -O2 elastic.c $(pkg-config --cflags --libs plait) -lm && ./a.out 4 sync3 && ./a.out 4 hogwild
 *
 * In the modes with servers one more process holds the centre. Exchanges go on during the forward and backward pass.
 */
#include "spirals.h"

#include <plait/elastic.h>
#include <plait/memory.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEPS = 800 };
static float g[WEIGHTS]; /* the gradient */

static void check(enum plait_status status)
{
    if (status != PLAIT_OK)
        fprintf(stderr, "%s: %s\n", plait_status_text(status), plait_last_error()), exit(1);
}

static void train(struct plait_elastic *elastic, float *w, unsigned rank, unsigned nrank)
{
    for (unsigned step = 0; step < STEPS; step++) {
        check(plait_elastic_start(elastic));
        const double loss = forward(w, (step * nrank + rank) * POINTS, 1);
        for (unsigned l = LAYERS; l-- > 0;)
            backward(w, l, g);
        check(plait_elastic_finish(elastic)); /* the weights are pulled towards the centre; then their own step */
        check(plait_elastic_step(elastic, g));
        if (rank == 0 && step % 100 == 0)
            printf("step %4u: loss %.4f\n", step, loss);
    }
    check(plait_elastic_centre(elastic, w));
    if (rank == 0)
        printf("loss of new points: %.17g\n", forward(w, STEPS * nrank * POINTS, 1));
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
        return fprintf(stderr, "usage: %s WORKERS [MODE], with 1 worker or more and a mode of plait/elastic.h\n",
                       argv[0]),
               1;
    o.nrank = nworker + (mode < PLAIT_ELASTIC_SYNC1); /* a server */
    check(plait_unique_id_create(&id));
    while (o.rank < o.nrank - 1 && fork() != 0)
        o.rank++;
    o.id = &id;
    check(plait_comm_create(&o, &comm));
    check(plait_mem_alloc(WEIGHTS * sizeof(float), &memory));
    e.mode = (enum plait_elastic_mode)mode, e.weights = memory, e.count = WEIGHTS;
    e.lr = mode == PLAIT_ELASTIC_ASYNC_MOMENTUM ? 0.02 : 0.2;
    init_weights(e.weights);
    check(plait_elastic_create(comm, &e, &elastic));
    if (o.rank < nworker)
        train(elastic, e.weights, o.rank, nworker);
    else
        check(plait_elastic_serve(elastic));
    check(plait_elastic_destroy(elastic));
    check(plait_mem_free(memory));
    check(plait_comm_destroy(comm));
    int failed = 0, status;
    while (wait(&status) > 0) /* the last rank: the others' */
        failed |= status;
    return failed != 0;
}
