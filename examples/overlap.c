/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The backward pass of training: while a layer's gradient is summed over all processes, the next one is computed.
 *
 *     cc overlap.c $(pkg-config --cflags --libs plait) && ./a.out 4
 */
#include <plait/comm.h>
#include <plait/memory.h>
#include <plait/request.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAYERS 8
#define COUNT  200000 /* elements of a layer's gradient */

/* Every call that can fail returns a status; plait_last_error() has the exact cause. */
static void check(enum plait_status status)
{
    if (status == PLAIT_OK)
        return;
    fprintf(stderr, "%s: %s\n", plait_status_text(status), plait_last_error());
    exit(1);
}

/* Stands for the computation of a layer. */
static void compute(float *gradient, int layer, uint32_t rank)
{
    for (int i = 0; i < COUNT; i++)
        gradient[i] = (float)((rank + 1) * (uint32_t)(layer + 1));
}

static int is_sum(const float *gradient, int layer, uint32_t nrank)
{
    const float expected = (float)((uint32_t)(layer + 1) * nrank * (nrank + 1) / 2);

    for (int i = 0; i < COUNT; i++)
        if (gradient[i] != expected)
            return 0;
    return 1;
}

static void run_rank(const struct plait_unique_id *id, uint32_t rank, uint32_t nrank)
{
    struct plait_comm_options options = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *requests[LAYERS];
    struct plait_comm *comm;
    void *memory;
    float *gradients;

    options.nrank = nrank;
    options.rank = rank;
    options.id = id;
    options.progress = 1; /* a thread of the library carries on what is pending while this one computes */
    check(plait_comm_create(&options, &comm));
    check(plait_mem_alloc((size_t)LAYERS * COUNT * sizeof(float), &memory));
    gradients = memory;

    /* The last layer comes first. A call with a request returns at once; until that has ended its buffers are taken. */
    for (int layer = LAYERS - 1; layer >= 0; layer--) {
        float *gradient = gradients + (size_t)layer * COUNT;
        compute(gradient, layer, rank);
        call.request = &requests[layer];
        check(plait_allreduce(comm, gradient, gradient, COUNT, PLAIT_FLOAT32, PLAIT_SUM, &call));
    }

    /* Now the sums are needed. */
    check(plait_wait_all(requests, LAYERS));
    for (int layer = 0; layer < LAYERS; layer++)
        if (!is_sum(gradients + (size_t)layer * COUNT, layer, nrank)) {
            fprintf(stderr, "rank %u: the gradient of layer %d is wrong\n", rank, layer);
            exit(1);
        }
    printf("rank %u of %u: %d gradients are summed\n", rank, nrank, LAYERS);

    check(plait_comm_destroy(comm));
    check(plait_mem_free(memory));
}

int main(int argc, char **argv)
{
    const uint32_t nrank = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 2;
    struct plait_unique_id id;
    int failed = 0, status;

    /* One process makes the id. Here the others inherit it; else send its bytes to them by any means. */
    check(plait_unique_id_create(&id));
    for (uint32_t rank = 0; rank < nrank; rank++) {
        const pid_t child = fork();
        if (child < 0) {
            perror("fork");
            return 1;
        }
        if (child == 0) {
            run_rank(&id, rank, nrank);
            return 0;
        }
    }
    while (wait(&status) > 0)
        failed |= status != 0;
    return failed;
}
