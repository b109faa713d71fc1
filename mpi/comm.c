/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plait's comm of an MPI communicator. It is an attribute of the communicator, so that it ends with it. It is made at
 * the first blocking collective that Plait could run: all ranks are in that call, and it may wait. All of them agree in
 * MPI that it was made, or all stay in MPI. A nonblocking call makes none, as it must not wait.
 */
#include "front.h"

#include <plait/launch.h>
#include <plait/log.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

MPI_Comm plait_mpi_own = MPI_COMM_NULL;
static int key = MPI_KEYVAL_INVALID;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list */
static struct plait_mpi_comm *first;

/* ---- Progress of MPI while Plait waits -------------------------------------------------------------------------- */

static _Thread_local plait_idle_function programs_idle; /* the program's own plait_idle_set() */

/* A receive that never ends. To ask for its status is progress of all that is pending, and any thread may. */
static MPI_Request unending = MPI_REQUEST_NULL;

static void progress_mpi(void)
{
    int flag;

    PMPI_Request_get_status(unending, &flag, MPI_STATUS_IGNORE);
    if (programs_idle != NULL)
        programs_idle();
}

static _Thread_local unsigned depth; /* the program's function may call MPI, whose call enters once more */

void plait_mpi_enter(void)
{
    const plait_idle_function before = plait_idle_set(progress_mpi);

    if (depth++ == 0)
        programs_idle = before;
}

void plait_mpi_leave(void)
{
    if (--depth == 0)
        plait_idle_set(programs_idle);
}

/* ---- The list --------------------------------------------------------------------------------------------------- */

void plait_mpi_comm_hold(struct plait_mpi_comm *c)
{
    atomic_fetch_add(&c->users, 1);
}

void plait_mpi_comm_drop(struct plait_mpi_comm *c)
{
    if (atomic_fetch_sub(&c->users, 1) == 1)
        free(c);
}

static int end(MPI_Comm mpi, int keyval, void *value, void *state)
{
    struct plait_mpi_comm *c = value, **link = &first;

    (void)mpi;
    (void)keyval;
    (void)state;
    pthread_mutex_lock(&lock);
    while (*link != c)
        link = &(*link)->next;
    *link = c->next;
    pthread_mutex_unlock(&lock);
    plait_mpi_enter();
    plait_comm_destroy(c->plait); /* its error was that of its last call */
    plait_mpi_leave();
    c->plait = NULL;
    c->mpi = MPI_COMM_NULL;
    plait_mpi_comm_drop(c);
    return MPI_SUCCESS;
}

bool plait_mpi_comms_init(void)
{
    return PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end, &key, NULL) == MPI_SUCCESS &&
           PMPI_Comm_dup(MPI_COMM_SELF, &plait_mpi_own) == MPI_SUCCESS &&
           PMPI_Comm_set_errhandler(plait_mpi_own, MPI_ERRORS_RETURN) == MPI_SUCCESS &&
           PMPI_Irecv(NULL, 0, MPI_BYTE, 0, 0, plait_mpi_own, &unending) == MPI_SUCCESS;
}

void plait_mpi_comms_finish(void)
{
    for (;;) {
        pthread_mutex_lock(&lock);
        const MPI_Comm mpi = first != NULL ? first->mpi : MPI_COMM_NULL;
        pthread_mutex_unlock(&lock);
        if (mpi == MPI_COMM_NULL)
            break;
        PMPI_Comm_delete_attr(mpi, key); /* the newest first, on all ranks */
    }
    PMPI_Cancel(&unending);
    PMPI_Wait(&unending, MPI_STATUS_IGNORE);
    PMPI_Comm_free(&plait_mpi_own);
}

/* ---- Making one ------------------------------------------------------------------------------------------------- */

/* Are all its ranks in this rank's MPI_COMM_WORLD? Then they have the same world, so all ranks find the same answer. */
static bool is_of_one_world(MPI_Comm mpi, int nrank)
{
    MPI_Group world, here, both;
    int n = 0;

    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Comm_group(mpi, &here);
    PMPI_Group_intersection(here, world, &both);
    PMPI_Group_size(both, &n);
    PMPI_Group_free(&both);
    PMPI_Group_free(&here);
    PMPI_Group_free(&world);
    return n == nrank;
}

/* Why Plait cannot have it, whatever the ranks agree on; the same on all of them. */
static enum plait_mpi_why classify(struct plait_mpi_comm *c)
{
    int inter = 0;

    PMPI_Comm_test_inter(c->mpi, &inter);
    PMPI_Comm_rank(c->mpi, &c->rank);
    PMPI_Comm_size(c->mpi, &c->nrank);
    return inter                                ? PLAIT_MPI_INTER
           : c->nrank == 1                      ? PLAIT_MPI_ALONE
           : c->nrank > PLAIT_MAX_RANKS         ? PLAIT_MPI_MANY
           : !is_of_one_world(c->mpi, c->nrank) ? PLAIT_MPI_WORLDS
                                                : PLAIT_MPI_RUNS;
}

static atomic_bool failed_once;

/* 1 if it is true of a rank, and after ask() of all ranks: all are on one host; none has failed to make a comm. */
struct answers {
    int one_host, unfailed;
};

static bool ask(const struct plait_mpi_comm *c, struct answers *all)
{
    struct answers mine = { .unfailed = !atomic_load(&failed_once) };
    MPI_Comm host;
    int n = 0;

    if (PMPI_Comm_split_type(c->mpi, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host) == MPI_SUCCESS) {
        PMPI_Comm_size(host, &n);
        PMPI_Comm_free(&host);
    }
    mine.one_host = n == c->nrank;
    return PMPI_Allreduce(&mine, all, 2, MPI_INT, MPI_MIN, c->mpi) == MPI_SUCCESS;
}

static enum plait_status allgather(void *context, const void *mine, size_t bytes, void *all)
{
    return PMPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, *(MPI_Comm *)context) == MPI_SUCCESS
               ? PLAIT_OK
               : PLAIT_ERR_SYSTEM;
}

static enum plait_status share_id(struct plait_mpi_comm *c, bool one_host, struct plait_unique_id *id)
{
    enum plait_status status = PLAIT_OK;

    if (!one_host)
        return plait_unique_id_exchange((uint32_t)c->rank, (uint32_t)c->nrank, allgather, &c->mpi, id);
    if (c->rank == 0)
        status = plait_unique_id_create(id); /* a wrong id fails on all ranks */
    return PMPI_Bcast(id, sizeof *id, MPI_BYTE, 0, c->mpi) == MPI_SUCCESS ? status : PLAIT_ERR_SYSTEM;
}

static enum plait_status meet(struct plait_mpi_comm *c, const struct plait_unique_id *id)
{
    struct plait_comm_options options = PLAIT_COMM_OPTIONS_DEFAULT;
    char name[MPI_MAX_OBJECT_NAME] = "";
    enum plait_status status;
    int n;

    PMPI_Comm_get_name(c->mpi, name, &n);
    options.nrank = (uint32_t)c->nrank;
    options.rank = (uint32_t)c->rank;
    options.id = id;
    options.name = name[0] != '\0' ? name : "MPI communicator";
    options.deadline = plait_mpi_deadline();
    options.progress = 1; /* a rank may wait in MPI while another waits for its nonblocking call */
    options.background = 1;
    if ((status = plait_comm_create(&options, &c->plait)) != PLAIT_OK)
        return status;
    while ((status = plait_comm_status(c->plait)) == PLAIT_IN_PROGRESS) {
        plait_mpi_enter();
        progress_mpi(); /* MPI's last messages may have to leave yet */
        plait_mpi_leave();
        usleep(50);
    }
    return status;
}

enum { CAUSE, VICTIM, MADE };

/* The lowest rank that failed, by itself if there is one; -1: none, on all ranks. */
static int find_failed(const struct plait_mpi_comm *c, int how)
{
    const struct {
        int how, rank;
    } mine = { how, c->rank };
    struct {
        int how, rank;
    } all;

    if (PMPI_Allreduce(&mine, &all, 1, MPI_2INT, MPI_MINLOC, c->mpi) != MPI_SUCCESS)
        return c->rank;
    return all.how == MADE ? -1 : all.rank;
}

static enum plait_mpi_why make(struct plait_mpi_comm *c)
{
    struct plait_unique_id id = { { 0 } };
    struct answers all;
    char text[1100];

    if (!ask(c, &all) || !all.unfailed)
        return PLAIT_MPI_FAILED;
    enum plait_status status = share_id(c, all.one_host, &id);
    if (status == PLAIT_OK)
        status = meet(c, &id);
    const int how = status == PLAIT_OK ? MADE : status > PLAIT_ERR_PEER ? CAUSE : VICTIM;
    const int failed = find_failed(c, how);
    if (failed < 0)
        return PLAIT_MPI_RUNS;
    if (failed == c->rank || how == CAUSE) {
        snprintf(text, sizeof text, "an MPI communicator of %d ranks stays in MPI: %s", c->nrank, plait_last_error());
        plait_log_write(PLAIT_LOG_WARN, text);
    }
    atomic_store(&failed_once, true);
    plait_comm_destroy(c->plait);
    c->plait = NULL;
    return PLAIT_MPI_FAILED;
}

static struct plait_mpi_comm *keep(struct plait_mpi_comm *c)
{
    pthread_mutex_lock(&lock);
    c->next = first;
    first = c;
    pthread_mutex_unlock(&lock);
    PMPI_Comm_set_attr(c->mpi, key, c);
    return c;
}

struct plait_mpi_comm *plait_mpi_comm_of(MPI_Comm mpi, bool blocks)
{
    static struct plait_mpi_comm wrong = { .why = PLAIT_MPI_WRONG }, early = { .why = PLAIT_MPI_EARLY };
    struct plait_mpi_comm *c;
    int found;

    if (mpi == MPI_COMM_NULL || PMPI_Comm_get_attr(mpi, key, &c, &found) != MPI_SUCCESS)
        return &wrong;
    if (found)
        return c;
    if ((c = calloc(1, sizeof *c)) == NULL) {
        plait_log_write(PLAIT_LOG_ERROR, "out of memory for a communicator, and the other ranks wait for this one");
        abort();
    }
    c->mpi = mpi;
    c->users = 1;
    c->why = classify(c);
    if (c->why == PLAIT_MPI_RUNS && !blocks) {
        free(c);
        return &early;
    }
    if (c->why == PLAIT_MPI_RUNS)
        c->why = make(c);
    return keep(c);
}
