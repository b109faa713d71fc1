/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plait-perf-openmpi: one Open MPI rank as a worker of plait-perf. Started through mpirun by
 * plait-perf, never by hand; the only program here that knows MPI.
 */
#include "worker.h"

#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static MPI_Datatype mpi_type(enum plait_dtype type)
{
    switch ((int)type) {
    case PLAIT_INT8:
        return MPI_INT8_T;
    case PLAIT_UINT8:
        return MPI_UINT8_T;
    case PLAIT_INT32:
        return MPI_INT32_T;
    case PLAIT_UINT32:
        return MPI_UINT32_T;
    case PLAIT_INT64:
        return MPI_INT64_T;
    case PLAIT_UINT64:
        return MPI_UINT64_T;
    case PLAIT_FLOAT32:
        return MPI_FLOAT;
    case PLAIT_FLOAT64:
        return MPI_DOUBLE;
    default:
        return MPI_DATATYPE_NULL; /* 4.1 has no 16- and 8-bit floats */
    }
}

static MPI_Op mpi_op(enum plait_op op)
{
    switch ((int)op) {
    case PLAIT_SUM:
        return MPI_SUM;
    case PLAIT_PROD:
        return MPI_PROD;
    case PLAIT_MIN:
        return MPI_MIN;
    case PLAIT_MAX:
        return MPI_MAX;
    default:
        return MPI_OP_NULL; /* MPI has no average and no pre-multiplied sum */
    }
}

static void *alloc(void *self, size_t bytes)
{
    (void)self;
    return aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
}

static void release(void *self, void *memory)
{
    (void)self;
    free(memory);
}

static bool supports(void *self, enum plait_dtype type, enum plait_op op)
{
    (void)self;
    return mpi_type(type) != MPI_DATATYPE_NULL && mpi_op(op) != MPI_OP_NULL;
}

static bool allreduce(void *self, const void *in, void *out, size_t count, enum plait_dtype type, enum plait_op op)
{
    int *error = self;

    if (count > INT32_MAX)
        *error = MPI_ERR_COUNT;
    else
        *error =
            MPI_Allreduce(in == out ? MPI_IN_PLACE : in, out, (int)count, mpi_type(type), mpi_op(op), MPI_COMM_WORLD);
    return *error == MPI_SUCCESS;
}

static const char *error_text(void *self)
{
    static char text[MPI_MAX_ERROR_STRING];
    int length;

    MPI_Error_string(*(int *)self, text, &length);
    return text;
}

static const struct backend openmpi = {
    .name = "openmpi",
    .alloc = alloc,
    .free = release,
    .supports = supports,
    .allreduce = allreduce,
    .error = error_text,
};

static struct stage *join(const char *name, int rank, int *fd)
{
    char about[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;

    MPI_Get_library_version(about, &length);
    about[strcspn(about, ",\n")] = '\0';
    *fd = worker_connect(name);
    return *fd >= 0 ? worker_greet(*fd, (uint32_t)rank, about) : NULL;
}

int main(int argc, char **argv)
{
    const char *name = getenv("PLAIT_PERF_SOCKET");
    int rank, fd, error = MPI_SUCCESS;

    if (name == NULL) {
        fprintf(stderr, "plait-perf-openmpi is started by plait-perf --peer openmpi:...\n");
        return 2;
    }
    worker_follow(getppid());
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    struct stage *stage = join(name, rank, &fd);
    if (stage == NULL) {
        perror("plait-perf-openmpi: no coordinator");
        _exit(1);
    }
    worker_watch(fd); /* the launcher is slow to notice that its own parent has gone */
    if (!worker_serve(fd, stage, (uint32_t)rank, &openmpi, &error))
        _exit(1); /* the coordinator has gone or knows; finalizing could wait for ranks that are gone */
    MPI_Finalize();
    return 0;
}
