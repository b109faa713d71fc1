/* SPDX-License-Identifier: BSD-3-Clause */
/* PLAIT_MPI, the first call, the end of MPI, and the report of which calls ran where. */
#include "front.h"

#include <plait/config.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum mode { UNKNOWN, ON, OFF, REPORT, WRONG };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int mode; /* enum mode; UNKNOWN: not set up yet */
static double deadline;
static bool agreed; /* all ranks are here: MPI_Init() was the C function */

/* For the report: of each name blocking, then not, each with every reason. */
#define NCOUNT (PLAIT_MPI_NNAME * 2 * PLAIT_MPI_NWHY)
static atomic_ullong counts[NCOUNT];

double plait_mpi_deadline(void)
{
    return deadline;
}

void plait_mpi_count(enum plait_mpi_name name, bool blocks, enum plait_mpi_why why)
{
    if (atomic_load_explicit(&mode, memory_order_relaxed) == REPORT)
        atomic_fetch_add_explicit(&counts[(name * 2 + !blocks) * PLAIT_MPI_NWHY + why], 1, memory_order_relaxed);
}

/* Ranks of MPI programs may be late by hours: only a deadline that somebody has set counts. */
static enum mode read_settings(void)
{
    struct plait_setting s;
    enum mode found = ON;
    enum plait_status status;

    deadline = 1e9;
    for (size_t i = 0; (status = plait_config_get(i, &s)) == PLAIT_OK; i++)
        if (strcmp(s.name, "PLAIT_MPI") == 0)
            found = (s.value[0] | 0x20) == 'r' ? REPORT : (s.value[1] | 0x20) == 'f' ? OFF : ON;
        else if (strcmp(s.name, "PLAIT_DEADLINE") == 0 && strcmp(s.origin, "default") != 0)
            deadline = 0;                           /* a comm's default is the setting */
    return status == PLAIT_ERR_ARG ? found : WRONG; /* there is no i-th, or a value is wrong */
}

const char *plait_mpi_name(enum plait_mpi_name name, bool blocks)
{
    static const char *const names[][2] = {
#define MPI_X(name, iname, parameters, arguments, described) { "MPI_" #iname, "MPI_" #name },
        MPI_COLLECTIVE_LIST(MPI_X)
#undef MPI_X
    };

    return names[name][blocks];
}

static void report(void)
{
    static const char *const whys[] = {
#define PLAIT_X(symbol, text) text,
        PLAIT_MPI_WHY_LIST(PLAIT_X)
#undef PLAIT_X
    };
    unsigned long long mine[NCOUNT], all[NCOUNT];
    int rank, nrank;

    for (int i = 0; i < NCOUNT; i++)
        mine[i] = all[i] = atomic_load(&counts[i]);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &nrank);
    if (!agreed) { /* other ranks may have made no call */
        fprintf(stderr, "plait: collective calls of rank %d\n", rank);
    } else {
        PMPI_Reduce(mine, all, NCOUNT, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
        if (rank != 0)
            return;
        fprintf(stderr, "plait: collective calls of all %d ranks together\n", nrank);
    }
    for (int i = 0; i < NCOUNT; i++) {
        const int why = i % PLAIT_MPI_NWHY, form = i / PLAIT_MPI_NWHY;
        if (all[i] > 0)
            fprintf(stderr, "plait: %-26s %10llu %s%s\n", plait_mpi_name(form / 2, form % 2 == 0), all[i],
                    why == PLAIT_MPI_RUNS ? "" : "in MPI: ", whys[why]);
    }
}

/* MPI_Finalize() begins by deleting what is attached to MPI_COMM_SELF, whatever language calls it. */
static int finish(MPI_Comm self, int key, void *value, void *state)
{
    (void)self;
    (void)key;
    (void)value;
    (void)state;
    const int was = atomic_exchange(&mode, OFF);
    plait_mpi_comms_finish();
    if (was == REPORT)
        report();
    return MPI_SUCCESS;
}

static enum mode set_up(void)
{
    int key;
    const enum mode found = read_settings();

    if (found == OFF || found == WRONG)
        return found;
    if (PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, finish, &key, NULL) != MPI_SUCCESS ||
        PMPI_Comm_set_attr(MPI_COMM_SELF, key, NULL) != MPI_SUCCESS || !plait_mpi_comms_init())
        return OFF;
    return found;
}

/* Set up once; returns MPI's code. */
static int begin(void)
{
    int begun = 0, ended = 0;
    char text[1100];

    PMPI_Initialized(&begun);
    PMPI_Finalized(&ended);
    if (!begun || ended)
        return MPI_SUCCESS; /* MPI reports the call */
    pthread_mutex_lock(&lock);
    const enum mode found = atomic_load(&mode) == UNKNOWN ? set_up() : atomic_load(&mode);
    if (found == WRONG)
        snprintf(text, sizeof text, "%s", plait_last_error());
    atomic_store(&mode, found == WRONG ? OFF : found);
    pthread_mutex_unlock(&lock);
    return found == WRONG ? plait_mpi_error(MPI_COMM_WORLD, text) : MPI_SUCCESS;
}

bool plait_mpi_is_on(void)
{
    int now = atomic_load_explicit(&mode, memory_order_acquire);

    if (now == UNKNOWN) {
        begin();
        now = atomic_load_explicit(&mode, memory_order_acquire);
    }
    return now == ON || now == REPORT;
}

/* All ranks must have it, or none. */
static int agree(int code)
{
    const int now = atomic_load(&mode), mine[2] = { now, -now };
    int all[2] = { 0, 0 };

    if (code != MPI_SUCCESS || PMPI_Allreduce(mine, all, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD) != MPI_SUCCESS ||
        all[0] == -all[1]) {
        agreed = code == MPI_SUCCESS;
        return code;
    }
    atomic_store(&mode, OFF);
    return plait_mpi_error(MPI_COMM_WORLD,
                           "PLAIT_MPI differs between ranks: it must be equal on all (mpirun -x PLAIT_MPI)");
}

int plait_mpi_Init(int *argc, char ***argv)
{
    const int code = PMPI_Init(argc, argv);

    return code == MPI_SUCCESS ? agree(begin()) : code;
}

int plait_mpi_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    const int code = PMPI_Init_thread(argc, argv, required, provided);

    return code == MPI_SUCCESS ? agree(begin()) : code;
}
