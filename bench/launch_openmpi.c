/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch_openmpi.h"

#include "message.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ARGUMENTS 48

/*
 * Those that were found worth beating on one machine. ob1 is the default; ucx would refuse without
 * "any" where there is no InfiniBand; sm is the shared-memory collective; nocma copies through shared
 * memory and lets malloc keep its large blocks; tuned tries what coll/tuned has (tuned_openmpi.h).
 */
const struct openmpi_config openmpi_configs[] = {
    { "ob1", { "--mca", "pml", "ob1" }, { NULL } },
    { "ucx", { "--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any" }, { NULL } },
    { "sm", { "--mca", "pml", "ob1", "--mca", "coll_sm_priority", "100" }, { NULL } },
    { "nocma",
      { "--mca", "pml", "ob1", "--mca", "btl_vader_single_copy_mechanism", "none" },
      { "MALLOC_MMAP_MAX_=0", "MALLOC_TRIM_THRESHOLD_=17179869184" } },
    { "tuned", { "--mca", "pml", "ob1", "--mca", "coll_tuned_use_dynamic_rules", "1" }, { NULL } },
};
const uint32_t openmpi_nconfig = sizeof openmpi_configs / sizeof *openmpi_configs;

/* An abstract name that cannot be guessed. */
static bool listen_somewhere(struct ranks *r, char *name, size_t room)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    uint64_t secret[2];

    if (getrandom(secret, sizeof secret, 0) != sizeof secret)
        return complain("%s: no random numbers: %s", r->name, strerror(errno));
    snprintf(name, room, "plait-perf-%016llx%016llx", (unsigned long long)secret[0], (unsigned long long)secret[1]);
    memcpy(address.sun_path + 1, name, strlen(name));
    r->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (r->listen_fd < 0 ||
        bind(r->listen_fd, (void *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))) !=
            0 ||
        listen(r->listen_fd, (int)r->nrank) != 0)
        return complain("%s: cannot listen: %s", r->name, strerror(errno));
    return true;
}

/* plait-perf-openmpi beside this program (build tree) or in the libexec folder of the installation. */
static bool find_worker(char *path, size_t room)
{
    char self[4096];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

    if (length > 0) {
        self[length] = '\0';
        *strrchr(self, '/') = '\0';
        snprintf(path, room, "%s/plait-perf-openmpi", self);
        if (access(path, X_OK) == 0)
            return true;
    }
    snprintf(path, room, "%s/plait-perf-openmpi", PERF_LIBEXEC);
    return access(path, X_OK) == 0 ||
           complain("--peer openmpi: %s is missing; install libopenmpi-dev (Debian) and build again", path);
}

static void fill_arguments(const char **argument, const struct openmpi_config *config, const struct options *o,
                           const char *count, const char *worker)
{
    static const char *const bound[] = { "--bind-to", "core", NULL };
    static const char *const crowded[] = { "--bind-to", "none", "--oversubscribe", "--mca", "mpi_yield_when_idle",
                                           "1",         NULL };
    const char *const *binding = o->nrank > worker_cpus() ? crowded : bound;
    uint32_t n = 0;

    argument[n++] = "mpirun.openmpi";
    if (geteuid() == 0)
        argument[n++] = "--allow-run-as-root";
    argument[n++] = "-np";
    argument[n++] = count;
    while (*binding != NULL)
        argument[n++] = *binding++;
    for (const char *const *f = config->flags; *f != NULL; f++)
        argument[n++] = *f;
    argument[n++] = "-x";
    argument[n++] = "PLAIT_PERF_SOCKET";
    argument[n++] = worker;
    argument[n] = NULL;
}

static void become_launcher(pid_t parent, struct ranks *r, const struct openmpi_config *config, const char *name,
                            const char **argument)
{
    const int nothing = open("/dev/null", O_RDONLY);

    prctl(PR_SET_PDEATHSIG, SIGTERM); /* mpirun ends its ranks on SIGTERM */
    if (getppid() != parent)
        _exit(1);
    setpgid(0, 0); /* Ctrl-C is for the coordinator, which ends the ranks in order */
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    dup2(nothing, 0);
    dup2(r->log_fd, 1);
    dup2(r->log_fd, 2);
    setenv("PLAIT_PERF_SOCKET", name, 1);
    for (const char *const *e = config->environment; *e != NULL; e++)
        putenv((char *)(uintptr_t)*e);
    execvp("mpirun.openmpi", (char *const *)(uintptr_t)argument);
    execvp("mpirun", (char *const *)(uintptr_t)argument);
    fprintf(stderr, "mpirun: %s; install openmpi-bin (Debian)\n", strerror(errno));
    _exit(127);
}

bool openmpi_launch(struct ranks *r, const struct openmpi_config *config, const struct options *o)
{
    const char *argument[ARGUMENTS];
    char worker[4200], name[64], count[16];

    if (!find_worker(worker, sizeof worker) || !listen_somewhere(r, name, sizeof name))
        return false;
    snprintf(count, sizeof count, "%u", r->nrank);
    fill_arguments(argument, config, o, count, worker);
    r->log_fd = memfd_create("openmpi-output", MFD_CLOEXEC);
    r->launcher = true;
    fflush(NULL);
    const pid_t parent = getpid(), child = fork();
    if (child < 0)
        return complain("%s: cannot start mpirun: %s", r->name, strerror(errno));
    if (child == 0)
        become_launcher(parent, r, config, name, argument);
    r->child[r->nchild++] = child;
    return true;
}
