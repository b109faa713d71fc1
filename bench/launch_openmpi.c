/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch_openmpi.h"

#include "beside.h"
#include "child.h"
#include "message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ARGUMENTS 48

/*
 * Configurations that were found worth beating. ob1 is the default on one machine, and with tcp between hosts. Without
 * "any", ucx refuses to run where there is no InfiniBand. sm is the shared-memory collective component. nocma copies
 * through shared memory and lets malloc keep its large blocks. tuned tries the algorithms of coll/tuned
 * (tuned_openmpi.h).
 */
const struct openmpi_config openmpi_configs[] = {
    { "ob1", true, false, { "--mca", "pml", "ob1" }, { NULL } },
    { "ucx",
      true,
      true,
      { "--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any" },
      { NULL } },
    { "sm", true, false, { "--mca", "pml", "ob1", "--mca", "coll_sm_priority", "100" }, { NULL } },
    { "nocma",
      true,
      false,
      { "--mca", "pml", "ob1", "--mca", "btl_vader_single_copy_mechanism", "none" },
      { "MALLOC_MMAP_MAX_=0", "MALLOC_TRIM_THRESHOLD_=17179869184" } },
    { "tuned", true, true, { "--mca", "pml", "ob1", "--mca", "coll_tuned_use_dynamic_rules", "1" }, { NULL } },
    { "tcp", false, true, { "--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp" }, { NULL } },
};
const uint32_t openmpi_nconfig = sizeof openmpi_configs / sizeof *openmpi_configs;

static bool find_worker(char *path, size_t room)
{
    return find_beside("plait-perf-openmpi", X_OK, path, room) ||
           complain("--peer openmpi: %s is missing; install libopenmpi-dev (Debian) and build again", path);
}

/* Does one machine, which may be one host or several, have more ranks than processors? */
static bool is_crowded(const struct ranks *plait)
{
    for (uint32_t i = 0; i < plait->nrank; i++) {
        uint32_t beside = 0;
        for (uint32_t k = 0; k < plait->nrank; k++)
            beside += strcmp(plait->hello[i].machine, plait->hello[k].machine) == 0;
        if (beside > plait->hello[i].ncpu)
            return true;
    }
    return false;
}

/* "host0:2,host1:2": hosts with their slots, in rank order. */
static bool list_hosts(const struct ranks *plait, char *out, size_t room)
{
    size_t n = 0;

    for (uint32_t i = 0, next; i < plait->nrank; i = next) {
        const char *host = plait->hello[i].host;
        for (next = i + 1; next < plait->nrank && strcmp(plait->hello[next].host, host) == 0;)
            next++;
        for (uint32_t k = next; k < plait->nrank; k++)
            if (strcmp(plait->hello[k].host, host) == 0)
                return complain("--peer: ranks %u and %u are on %s, but not the ranks between them. mpirun numbers "
                                "ranks host by host: start them in that order, or leave --peer out",
                                i, k, host);
        n += (size_t)snprintf(out + n, n < room ? room - n : 0, "%s%s:%u", i > 0 ? "," : "", host, next - i);
    }
    return n < room || complain("--peer: the names of the hosts take more than %zu characters; leave --peer out", room);
}

static void add(const char **argument, uint32_t *n, const char *const *more)
{
    while (*more != NULL)
        argument[(*n)++] = *more++;
}

/* hosts: "" for this host alone */
static void fill_arguments(const char **argument, const struct openmpi_config *config, bool crowded, const char *hosts,
                           const char *count, const char *worker)
{
    static const char *const bound[] = { "--bind-to", "core", NULL };
    static const char *const unbound[] = { "--bind-to", "none", NULL }; /* ranks bind themselves, see greet.c */
    static const char *const yielding[] = { "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", NULL };
    static const char *const as_root[] = { "--allow-run-as-root", NULL };
    uint32_t n = 0;

    add(argument, &n, (const char *const[]){ "mpirun.openmpi", "-np", count, NULL });
    if (geteuid() == 0)
        add(argument, &n, as_root);
    if (*hosts != '\0')
        add(argument, &n, (const char *const[]){ "-H", hosts, "--map-by", "slot", NULL });
    add(argument, &n, crowded || *hosts != '\0' ? unbound : bound);
    if (crowded)
        add(argument, &n, yielding);
    add(argument, &n, config->flags);
    add(argument, &n, (const char *const[]){ "-x", "PLAIT_PERF_SOCKET", NULL });
    if (getenv("PLAIT_PERF_BUFFERS") != NULL)
        add(argument, &n, (const char *const[]){ "-x", "PLAIT_PERF_BUFFERS", NULL });
    add(argument, &n, (const char *const[]){ worker, NULL });
    argument[n] = NULL;
}

/*
 * Remove what an outer mpirun told this process of its job, which the inner one would take for its own. Settings stay.
 */
static void forget_launcher(void)
{
    static const char *const prefixes[] = {
        "PMIX_",          "PMI_",           "OMPI_COMM_WORLD_", "OMPI_UNIVERSE_",
        "OMPI_APP_",      "OMPI_NUM_APP_",  "OMPI_FIRST_",      "OMPI_COMMAND",
        "OMPI_ARGV",      "OMPI_FILE_",     "OMPI_MCA_orte_",   "OMPI_MCA_ess",
        "OMPI_MCA_pmix=", "OMPI_MCA_shmem", "OMPI_MCA_initial", "OMPI_MCA_mpi_oversub"
    };

    for (char **e = environ; *e != NULL;) {
        char name[256];
        bool told = false;
        for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
            told |= strncmp(*e, prefixes[i], strlen(prefixes[i])) == 0;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*e, "="), *e);
        if (!told || unsetenv(name) != 0)
            e++;
    }
}

static void become_launcher(struct ranks *r, const struct openmpi_config *config, const char **argument)
{
    const int nothing = open("/dev/null", O_RDONLY);

    setpgid(0, 0); /* Ctrl-C goes to the coordinator, which ends the ranks in order */
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    dup2(nothing, 0);
    dup2(r->log_fd, 1);
    dup2(r->log_fd, 2);
    forget_launcher();
    setenv("PLAIT_PERF_SOCKET", r->where, 1);
    for (const char *const *e = config->environment; *e != NULL; e++)
        putenv((char *)(uintptr_t)*e);
    execvp("mpirun.openmpi", (char *const *)(uintptr_t)argument);
    execvp("mpirun", (char *const *)(uintptr_t)argument);
    fprintf(stderr, "mpirun: %s; install openmpi-bin (Debian)\n", strerror(errno));
    _exit(127);
}

bool openmpi_launch(struct ranks *r, const struct openmpi_config *config, const struct options *o,
                    const struct ranks *plait)
{
    const char *argument[ARGUMENTS];
    char worker[4200], count[16], hosts[32768] = "";

    if (!find_worker(worker, sizeof worker) || !ranks_listen(r) ||
        (o->launched && !list_hosts(plait, hosts, sizeof hosts)))
        return false;
    r->like = o->launched ? plait : NULL;
    snprintf(count, sizeof count, "%u", r->nrank);
    fill_arguments(argument, config, o->launched ? is_crowded(plait) : o->nrank > worker_cpus(), hosts, count, worker);
    r->log_fd = memfd_create("openmpi-output", MFD_CLOEXEC);
    r->launcher = true;
    const pid_t child = child_fork(SIGTERM); /* on which mpirun ends its ranks */
    if (child < 0)
        return complain("%s: cannot start mpirun: %s", r->name, strerror(errno));
    if (child == 0)
        become_launcher(r, config, argument);
    r->child[r->nchild++] = child;
    return true;
}
