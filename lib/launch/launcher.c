/* SPDX-License-Identifier: BSD-3-Clause */
#include "launcher.h"

#include "base/ascii.h"
#include "base/log.h"
#include "base/status.h"

#include <plait/comm.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_JOB   6
#define MOST_VALUE 160 /* bytes of a variable that names a job */

/* The variables of each launcher that is followed. NULL: the launcher has no such variable. */
static const struct launcher {
    const char *name;
    const char *sign; /* set in its processes only */
    const char *rank, *nrank, *local_rank, *local_nrank;
    const char *port;     /* the launcher's own, on rank 0's host */
    const char *nodes;    /* a list of hosts, rank 0's first */
    const char *one_node; /* number of nodes: 1 means that all ranks are on this host */
    const char *job[MOST_JOB];
} launchers[] = {
    { .name = "torchrun",
      .sign = "RANK",
      .rank = "RANK",
      .nrank = "WORLD_SIZE",
      .local_rank = "LOCAL_RANK",
      .local_nrank = "LOCAL_WORLD_SIZE",
      .port = "MASTER_PORT",
      .job = { "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "WORLD_SIZE" } },
    { .name = "openmpi",
      .sign = "OMPI_COMM_WORLD_RANK",
      .rank = "OMPI_COMM_WORLD_RANK",
      .nrank = "OMPI_COMM_WORLD_SIZE",
      .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
      .local_nrank = "OMPI_COMM_WORLD_LOCAL_SIZE",
      .job = { "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_COMM_WORLD_SIZE" } },
    { .name = "mpich", /* and Intel MPI; before Slurm, whose srun may start their mpiexec */
      .sign = "MPI_LOCALNRANKS",
      .rank = "PMI_RANK",
      .nrank = "PMI_SIZE",
      .local_rank = "MPI_LOCALRANKID",
      .local_nrank = "MPI_LOCALNRANKS" },
    { .name = "slurm",
      .sign = "SLURM_STEP_ID", /* a batch script has the other variables, too */
      .rank = "SLURM_PROCID",
      .nrank = "SLURM_NTASKS",
      .local_rank = "SLURM_LOCALID",
      .port = "MASTER_PORT",
      .nodes = "SLURM_STEP_NODELIST",
      .one_node = "SLURM_STEP_NUM_NODES",
      .job = { "SLURM_CLUSTER_NAME", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT" } },
};

/* Launchers that are not followed, and those above if a variable is missing: no process of theirs may run alone. */
static const struct foreign {
    const char *name, *rank, *nrank; /* nrank NULL: not said */
    bool batch;                      /* a batch script has nrank, too, and rank 0 */
} foreigners[] = {
    { "torchrun", "RANK", "WORLD_SIZE" },
    { "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE" },
    { "Slurm without SLURM_STEP_ID", "SLURM_PROCID", "SLURM_NTASKS", .batch = true },
    { "Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE" },
    { "jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE" },
    { "MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE" },
    { "mpirun_rsh", "MPIRUN_RANK", "MPIRUN_NPROCS" },
    { "LSF", "LSF_PM_TASKID", NULL },
    { "Horovod", "HOROVOD_RANK", "HOROVOD_SIZE" },
    { "a launcher with PMI", "PMI_RANK", "PMI_SIZE" },
    { "PALS", "PALS_RANKID", NULL },
    { "PMI 2", "PMI_ID", NULL },
    { "aprun", "ALPS_APP_PE", NULL },
    { "PMIx", "PMIX_RANK", NULL },
};

/* Variables that name a batch job, whichever launcher runs in it. They are equal on all hosts of the job. */
static const char *const jobs[] = {
    "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "LSB_JOBINDEX", "JOB_ID", "SGE_TASK_ID", "FLUX_JOB_ID", "COBALT_JOBID",
};

/*
 * Variables that name a step of a batch job. They are used only if the launcher names no job: mpirun's own host
 * inherits a Slurm step that the other hosts lack, and each agent of torchrun may be a step of its own.
 */
static const char *const steps[] = { "SLURM_STEP_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PALS_APID" };

/* NULL: not set, or empty. */
static const char *get(const char *name)
{
    const char *value = name != NULL ? getenv(name) : NULL;

    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* ---- Numbers and names ----------------------------------------------------------------------------------- */

static enum plait_status read_number(const char *name, uint32_t least, uint32_t most, uint32_t *out)
{
    const char *value = get(name), *c = value;
    uint64_t n = 0;

    if (value == NULL)
        return plait_fail(PLAIT_ERR_CONFIG,
                          "%s is not set, but other variables of a launcher are: set it too, or unset those, or set "
                          "PLAIT_LAUNCHER=none for a process alone",
                          name);
    for (; *c >= '0' && *c <= '9' && n <= most; c++)
        n = n * 10 + (uint64_t)(*c - '0');
    if (*c != '\0' || n < least || n > most)
        return plait_fail(PLAIT_ERR_CONFIG, "%s is '%.40s'; %u to %u are allowed", name, value, least, most);
    *out = (uint32_t)n;
    return PLAIT_OK;
}

static enum plait_status read_text(const char *name, char *out, size_t room)
{
    const char *value = get(name);

    if (value != NULL && strlen(value) >= room)
        return plait_fail(PLAIT_ERR_CONFIG, "%s is '%.40s...', which is longer than %zu characters", name, value,
                          room - 1);
    snprintf(out, room, "%s", value != NULL ? value : "");
    return PLAIT_OK;
}

bool plait_nodelist_first(const char *list, char *out, size_t room)
{
    static const char digits[] = "0123456789", numbers[] = "0123456789-,";
    size_t n = 0;

    for (const char *c = list; *c != '\0' && *c != ',';) {
        const bool many = *c == '[';
        const char *from = c + many;
        const size_t bytes = many ? strspn(from, digits) : 1, all = many ? strspn(from, numbers) : 1;
        if (bytes == 0 || n + bytes >= room || (many ? from[all] != ']' : strchr("] \t\r\n", *c) != NULL))
            return false;
        memcpy(out + n, from, bytes);
        n += bytes;
        c = from + all + many;
    }
    out[n < room ? n : 0] = '\0';
    return n > 0;
}

/* ---- One launcher ---------------------------------------------------------------------------------------------- */

static enum plait_status read_ranks(const struct launcher *l, struct plait_launcher_says *out)
{
    uint32_t nodes = 0;
    enum plait_status status = read_number(l->nrank, 1, PLAIT_MAX_RANKS, &out->nrank);

    if (status == PLAIT_OK)
        status = read_number(l->rank, 0, out->nrank - 1, &out->rank);
    if (status == PLAIT_OK && get(l->local_nrank) != NULL)
        status = read_number(l->local_nrank, 1, out->nrank, &out->local_nrank);
    if (status == PLAIT_OK && get(l->one_node) != NULL)
        status = read_number(l->one_node, 1, UINT32_MAX, &nodes);
    if (nodes == 1)
        out->local_nrank = out->nrank;
    if (status == PLAIT_OK && get(l->local_rank) != NULL)
        status = read_number(l->local_rank, 0, out->local_nrank > 0 ? out->local_nrank - 1 : out->nrank - 1,
                             &out->local_rank);
    return status;
}

/* If rank 0 is at a loopback address, all ranks are on this host. */
static void read_loopback(const struct launcher *l, struct plait_launcher_says *out)
{
    if (out->local_nrank > 0 || (plait_after_prefix(out->host, "127.") == NULL && strcmp(out->host, "::1") != 0 &&
                                 !plait_same_word(out->host, "localhost")))
        return;
    out->local_nrank = out->nrank;
    if (get(l->local_rank) == NULL)
        out->local_rank = out->rank;
}

static enum plait_status read_place(const struct launcher *l, struct plait_launcher_says *out)
{
    const char *nodes = get(l->nodes);
    enum plait_status status = read_text("MASTER_ADDR", out->host, sizeof out->host);

    if (status == PLAIT_OK && get(l->port) != NULL)
        status = read_number(l->port, 1, UINT16_MAX, &out->port);
    read_loopback(l, out);
    if (status != PLAIT_OK || out->host[0] != '\0' || l->nodes == NULL)
        return status;
    if (nodes == NULL)
        nodes = get("SLURM_JOB_NODELIST"); /* older versions of Slurm */
    if (nodes != NULL && !plait_nodelist_first(nodes, out->host, sizeof out->host))
        return plait_fail(PLAIT_ERR_CONFIG,
                          "%s is '%.60s', which is no list of hosts as node[1-4]; set MASTER_ADDR to rank 0's host",
                          l->nodes, nodes);
    return PLAIT_OK;
}

/* Append "NAME=value " for each variable that is set. */
static enum plait_status add_job(const char *const *names, size_t n, struct plait_launcher_says *out)
{
    char one[MOST_VALUE];

    _Static_assert((MOST_JOB + sizeof jobs / sizeof *jobs + sizeof steps / sizeof *steps) * (sizeof one + 32) <
                       sizeof out->job,
                   "there is room for all");
    for (size_t i = 0; i < n && names[i] != NULL; i++) {
        const enum plait_status status = read_text(names[i], one, sizeof one);
        if (status != PLAIT_OK)
            return status;
        if (one[0] != '\0')
            plait_append(out->job, sizeof out->job, "%s=%s ", names[i], one);
    }
    return PLAIT_OK;
}

static enum plait_status read_job(const struct launcher *l, struct plait_launcher_says *out)
{
    const char *name = get(l->job[0]);
    enum plait_status status = add_job(l->job, MOST_JOB, out);

    if (status == PLAIT_OK)
        status = add_job(jobs, sizeof jobs / sizeof *jobs, out);
    if (status == PLAIT_OK &&
        (name == NULL || strcmp(name, "none") == 0)) /* torchrun's word for a job without a name */
        status = add_job(steps, sizeof steps / sizeof *steps, out);
    return status;
}

/* One of several processes would run alone: refuse. found: a launcher that is followed started this one alone. */
static enum plait_status refuse_foreign(bool found)
{
    for (const struct foreign *f = foreigners; f < foreigners + sizeof foreigners / sizeof *foreigners; f++) {
        const char *rank = get(f->rank), *nrank = get(f->nrank);
        if (nrank != NULL ? strcmp(nrank, "1") == 0 : rank == NULL || found)
            continue;
        rank = rank != NULL ? rank : "not set";
        if (!f->batch || (strcmp(rank, "0") != 0 && strcmp(rank, "not set") != 0))
            return plait_fail(
                PLAIT_ERR_CONFIG,
                "%s is %.20s, %s is %.20s: %s started this process as one of several, and Plait cannot join the others "
                "by that. Start it with torchrun, srun, Open MPI's mpirun or MPICH's mpiexec; or set RANK, WORLD_SIZE, "
                "LOCAL_RANK, MASTER_ADDR and MASTER_PORT; or pass an id around (plait_unique_id_exchange). "
                "PLAIT_LAUNCHER=none runs it alone",
                f->rank, rank, f->nrank != NULL ? f->nrank : "the number of ranks", nrank != NULL ? nrank : "not set",
                f->name);
        plait_log(PLAIT_LOG_INFO, "%s is set, but this is no step of srun, which starts ranks: this process is alone",
                  nrank != NULL ? f->nrank : f->rank);
    }
    return PLAIT_OK;
}

enum plait_status plait_launcher_read(const char *launcher, struct plait_launcher_says *out)
{
    bool found = false;

    *out = (struct plait_launcher_says){ .launcher = "none", .nrank = 1, .local_nrank = 1 };
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const struct launcher *l = &launchers[i];
        struct plait_launcher_says says = { .launcher = l->name };
        if (launcher[0] != '\0' ? strcmp(launcher, l->name) != 0 : get(l->sign) == NULL)
            continue;
        enum plait_status status = read_ranks(l, &says);
        if (status == PLAIT_OK && found && says.nrank == 1)
            continue;
        if (status == PLAIT_OK)
            status = read_place(l, &says);
        if (status == PLAIT_OK)
            status = read_job(l, &says);
        if (status != PLAIT_OK)
            return status;
        *out = says;
        found = true;
        if (says.nrank > 1) /* else go on: a launcher of one process may have started another launcher */
            break;
    }
    return launcher[0] != '\0' || out->nrank > 1 ? PLAIT_OK : refuse_foreign(found);
}
