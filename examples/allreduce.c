/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data-parallel gradients: each process has its own, every process needs the average.
 *
 *     cc allreduce.c $(pkg-config --cflags --libs plait) && ./a.out 4
 */
#include <plait/comm.h>
#include <plait/memory.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT 1000000

/* Every call that can fail returns a status; plait_last_error() has the exact cause. */
static void check(enum plait_status status)
{
    if (status == PLAIT_OK)
        return;
    fprintf(stderr, "%s: %s\n", plait_status_text(status), plait_last_error());
    exit(1);
}

static void run_rank(const struct plait_unique_id *id, uint32_t rank, uint32_t nrank)
{
    struct plait_comm_options options = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_comm *comm;
    void *memory;
    float *gradient;

    /* Meet the others: who has the same id is in the same comm. */
    options.nrank = nrank;
    options.rank = rank;
    options.id = id;
    check(plait_comm_create(&options, &comm));

    /* Library memory is read in place by the other processes. malloc works too, with one more copy. */
    check(plait_mem_alloc(COUNT * sizeof(float), &memory));
    gradient = memory;
    for (int i = 0; i < COUNT; i++)
        gradient[i] = (float)(rank + 1);

    /* In place: the gradients become their average over all ranks. */
    check(plait_allreduce(comm, gradient, gradient, COUNT, PLAIT_FLOAT32, PLAIT_AVG, NULL));
    printf("rank %u of %u: average %g, expected %g\n", rank, nrank, gradient[COUNT - 1], (nrank + 1) / 2.0);
    if (gradient[0] != (nrank + 1) / 2.0f || gradient[COUNT - 1] != gradient[0])
        exit(1);

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
