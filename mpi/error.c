/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors of Plait as MPI's: a class of their own, each with its text, by the communicator's handler. MPI cuts texts,
 * and the mpirun of Open MPI now and then loses them. So they are in Plait's log, too.
 */
#include "front.h"

#include <plait/log.h>

#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int class = MPI_ERR_OTHER;

int plait_mpi_code(const char *text)
{
    char cut[MPI_MAX_ERROR_STRING];
    int code = MPI_ERR_OTHER;

    snprintf(cut, sizeof cut, "%s", text);
    pthread_mutex_lock(&lock);
    if (class == MPI_ERR_OTHER && PMPI_Add_error_class(&class) == MPI_SUCCESS)
        PMPI_Add_error_string(class, "Plait");
    if (class != MPI_ERR_OTHER && PMPI_Add_error_code(class, &code) == MPI_SUCCESS)
        PMPI_Add_error_string(code, cut);
    pthread_mutex_unlock(&lock);
    return code;
}

int plait_mpi_handle(MPI_Comm comm, int code)
{
    if (code != MPI_SUCCESS)
        PMPI_Comm_call_errhandler(comm != MPI_COMM_NULL ? comm : MPI_COMM_WORLD, code);
    return code;
}

int plait_mpi_error(MPI_Comm comm, const char *text)
{
    plait_log_write(PLAIT_LOG_ERROR, text);
    return plait_mpi_handle(comm, plait_mpi_code(text));
}
