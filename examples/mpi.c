/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An MPI program whose gradients go through Plait: MPI starts the ranks and passes the id around, on one host or
 * several. Nothing else of MPI is used by Plait, so any MPI will do, and Plait needs no plug-in for it.
 *
 *     mpicc mpi.c $(pkg-config --cflags --libs plait) && mpirun -n 4 ./a.out
 */
#include <plait/comm.h>
#include <plait/launch.h>
#include <plait/memory.h>

#include <mpi.h>
#include <stdio.h>

#define COUNT 1000000

/* Every call that can fail returns a status; plait_last_error() has the exact cause. */
static void check(enum plait_status status)
{
    if (status == PLAIT_OK)
        return;
    fprintf(stderr, "%s: %s\n", plait_status_text(status), plait_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* For plait_unique_id_exchange(): any communicator of the ranks that are to be in the comm. */
static enum plait_status allgather(void *context, const void *mine, size_t bytes, void *all)
{
    const MPI_Comm *ranks = context;

    return MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, *ranks) == MPI_SUCCESS
               ? PLAIT_OK
               : PLAIT_ERR_SYSTEM;
}

static void create(MPI_Comm ranks, struct plait_comm **out)
{
    struct plait_comm_options options = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_unique_id id;
    int rank, nrank;

    MPI_Comm_rank(ranks, &rank);
    MPI_Comm_size(ranks, &nrank);
    check(plait_unique_id_exchange((uint32_t)rank, (uint32_t)nrank, allgather, &ranks, &id));
    options.rank = (uint32_t)rank;
    options.nrank = (uint32_t)nrank;
    options.id = &id;
    check(plait_comm_create(&options, out));
}

/* Each rank's gradients are its number + 1; both libraries must find their average. */
static int average(struct plait_comm *comm, float *gradient)
{
    const float rank = (float)plait_comm_rank(comm), nrank = (float)plait_comm_nrank(comm);
    float sum, mine = rank + 1;

    for (int i = 0; i < COUNT; i++)
        gradient[i] = mine;
    check(plait_allreduce(comm, gradient, gradient, COUNT, PLAIT_FLOAT32, PLAIT_AVG, NULL));
    MPI_Allreduce(&mine, &sum, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %g of %g: average %g by Plait, %g by MPI\n", rank, nrank, gradient[COUNT - 1], sum / nrank);
    return gradient[0] != sum / nrank || gradient[COUNT - 1] != gradient[0];
}

int main(int argc, char **argv)
{
    struct plait_comm *comm;
    void *memory;

    MPI_Init(&argc, &argv);
    create(MPI_COMM_WORLD, &comm);
    check(plait_mem_alloc(COUNT * sizeof(float), &memory));
    const int wrong = average(comm, memory);
    check(plait_comm_destroy(comm)); /* before MPI_Finalize(), as mpirun may end the ranks that come after */
    check(plait_mem_free(memory));
    MPI_Finalize();
    return wrong;
}
