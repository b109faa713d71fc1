/* SPDX-License-Identifier: BSD-3-Clause */
/* A host: its name, its file systems, its ranks. See hosts.h. */
#include "hosts.h"

#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct host_request request; /* the latest request */

/* Wait for the supervisor's next message, which must be `kind`. Without a supervisor the host ends. */
static void await(int channel, enum host_message_kind kind)
{
    struct host_message m;

    if (!host_receive(channel, &m, &request) || m.kind != kind)
        _exit(HOSTS_FAILED);
}

/* ---- File systems ------------------------------------------------------------------------------ */

static void mount_new(const char *type, const char *at, unsigned long flags, const char *data)
{
    if (mount(type, at, type, flags, data) != 0)
        give_up(HOSTS_FAILED, "mounting a host's %s: %s. In a container: start the container with --privileged", at,
                strerror(errno));
}

static void show_at(int folder, const char *at)
{
    char from[64];

    snprintf(from, sizeof from, "/proc/self/fd/%d", folder);
    if (mount(from, at, NULL, MS_BIND | MS_REC, NULL) != 0)
        give_up(HOSTS_FAILED, "mounting %s into a host: %s", at, strerror(errno));
}

/* Create folder `text` and its parents. */
static void make_folders(char *text)
{
    for (char *slash = strchr(text + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(text, 0755);
        *slash = '/';
    }
    mkdir(text, 0755);
}

/* The path of this program. */
static void find_self(char out[4096])
{
    const ssize_t n = readlink("/proc/self/exe", out, 4095);

    if (n <= 0)
        give_up(HOSTS_FAILED, "/proc/self/exe: %s", strerror(errno));
    out[n] = '\0';
}

/* A folder that stays visible although a file system is mounted above it. */
struct kept {
    char *path;
    int fd;
};

/* Is it where each host has a file system of its own? */
static bool is_private(const char *path)
{
    return strncmp(path, "/tmp/", 5) == 0 || strncmp(path, "/dev/shm/", 9) == 0;
}

/* Returns false for a folder that nothing hides. */
static bool keep(const char *path, struct kept *out)
{
    if (!is_private(path))
        return false;
    out->path = strdup(path);
    out->fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return out->path != NULL && out->fd >= 0;
}

/* The folder of this program, and the folder above, which has its libraries. */
static uint32_t keep_own(struct kept out[2])
{
    uint32_t n = 0;
    char own[4096];

    find_self(own);
    for (int i = 0; i < 2; i++) {
        *strrchr(own, '/') = '\0';
        n += keep(own, &out[n]);
    }
    return n;
}

/* ---- What the ranks need ------------------------------------------------------------------------- */

#define MOST_NEEDED 32

static char *needed[MOST_NEEDED]; /* files and folders that are there before mount_all() */
static uint32_t nneeded;

static void need(const char *path)
{
    char *real = realpath(path, NULL);

    if (real != NULL && is_private(real) && nneeded < MOST_NEEDED)
        needed[nneeded++] = real;
}

/* The command, which is looked for as by execvp(), and the folders of LD_LIBRARY_PATH. */
static void list_needed(const char *command)
{
    const char *path = getenv("PATH"), *libraries = getenv("LD_LIBRARY_PATH");
    char *folders = strdup(path != NULL && strchr(command, '/') == NULL ? path : ""), *rest = folders, file[4096] = "";

    while (access(file, X_OK) != 0 && (path = strsep(&rest, ":")) != NULL)
        snprintf(file, sizeof file, "%s/%s", path, command);
    need(strchr(command, '/') != NULL ? command : file);
    free(folders);
    folders = rest = strdup(libraries != NULL ? libraries : "");
    while ((path = strsep(&rest, ":")) != NULL)
        need(path);
    free(folders);
}

static void must_see_needed(void)
{
    for (uint32_t i = 0; i < nneeded; i++)
        if (access(needed[i], F_OK) != 0)
            give_up(
                HOSTS_FAILED,
                "the hosts do not see %s: each has a /tmp and /dev/shm of its own; add --share DIR, the folder of the "
                "whole installation",
                needed[i]);
}

/* ---- More file systems --------------------------------------------------------------------------- */

/* Make the host's /etc/hosts, with the names of all hosts. */
static void name_hosts(const struct hosts_plan *plan)
{
    static const char *const file = "/tmp/hosts";
    char address[HOSTS_ADDRESS_SIZE];
    FILE *f;

    if (access("/etc/hosts", F_OK) != 0 || (f = fopen(file, "we")) == NULL)
        return;
    fprintf(f, "127.0.0.1 localhost\n::1 localhost\n");
    for (uint32_t h = 0; h < plan->nhost; h++) {
        wires_address(h, address);
        fprintf(f, "%s host%u\n", address, h);
    }
    fclose(f);
    chmod(file, 0644);
    if (mount(file, "/etc/hosts", NULL, MS_BIND, NULL) != 0)
        give_up(HOSTS_FAILED, "mounting a host's /etc/hosts: %s", strerror(errno));
    unlink(file);
}

/*
 * Give the host a boot id with the host's number in a second line. A program that reads only the first line finds the
 * machine, which has the processors. A program that compares the whole finds another host, not a container of the same
 * one.
 */
static void name_boot(uint32_t h)
{
    static const char *const file = "/tmp/boot_id", *const at = "/proc/sys/kernel/random/boot_id";
    char id[64] = "";
    FILE *in = fopen(at, "re"), *out = fopen(file, "we");
    const bool made =
        in != NULL && out != NULL && fgets(id, sizeof id, in) != NULL && fprintf(out, "%shost%u\n", id, h) > 0;

    if (in != NULL)
        fclose(in);
    if (out == NULL || fclose(out) != 0 || !made)
        give_up(HOSTS_FAILED, "writing a host's boot id: %s", strerror(errno));
    chmod(file, 0444);
    if (mount(file, at, NULL, MS_BIND, NULL) != 0)
        give_up(HOSTS_FAILED, "mounting a host's %s: %s", at, strerror(errno));
    unlink(file);
}

/* /sys shows the interfaces of the namespace in which it was mounted; control groups stay the machine's. */
static void mount_sys(void)
{
    const int groups = open("/sys/fs/cgroup", O_PATH | O_DIRECTORY | O_CLOEXEC);

    mount_new("sysfs", "/sys", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    if (groups >= 0) {
        show_at(groups, "/sys/fs/cgroup");
        close(groups);
    }
}

static void mount_all(const struct hosts_plan *plan, uint32_t h)
{
    static struct kept kept[64];
    char *shares = strdup(plan->share != NULL ? plan->share : ""), *rest = shares, here[4096];
    uint32_t nkept = 0;

    if (getcwd(here, sizeof here) == NULL)
        give_up(HOSTS_FAILED, "the working directory: %s", strerror(errno));
    nkept += keep(here, &kept[nkept]);
    nkept += keep_own(&kept[nkept]);
    list_needed(plan->command[0]);
    for (char *folder = strsep(&rest, ":"); folder != NULL && nkept < 64; folder = strsep(&rest, ":"))
        nkept += keep(folder, &kept[nkept]);
    free(shares);

    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        give_up(HOSTS_FAILED, "making a host's mounts private: %s", strerror(errno));
    mount_new("proc", "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    mount_sys();
    mount_new("tmpfs", "/dev/shm", MS_NOSUID | MS_NODEV, "mode=1777");
    mount_new("tmpfs", "/tmp", MS_NOSUID | MS_NODEV, "mode=1777");
    name_hosts(plan);
    name_boot(h);
    for (uint32_t i = 0; i < nkept; i++) {
        make_folders(kept[i].path);
        show_at(kept[i].fd, kept[i].path);
        close(kept[i].fd);
        free(kept[i].path);
    }
    if (chdir(here) != 0) /* the same folder, in the new mounts */
        give_up(HOSTS_FAILED, "the working directory %s: %s", here, strerror(errno));
    if (h == 0) /* one error is enough */
        must_see_needed();
}

/* ---- Ranks ------------------------------------------------------------------------------------- */

static void set_number(const char *name, uint32_t value)
{
    char text[16];

    snprintf(text, sizeof text, "%u", value);
    setenv(name, text, 1);
}

/* Environment of everything that runs on a host. */
static void set_host(const struct hosts_plan *plan, uint32_t h)
{
    char own[4096], agent[sizeof own + 8];

    find_self(own);
    snprintf(agent, sizeof agent, "%s on", own);
    setenv("HOST_RSH", agent, 1);
    setenv("OMPI_MCA_plm_rsh_agent", agent, 1); /* so that mpirun on a host reaches the others */
    set_number("HOST_INDEX", h);
    set_number("HOST_COUNT", plan->nhost);
}

/* Environment of a rank, as of torchrun. */
static void set_rank(const struct hosts_plan *plan, uint32_t h, uint32_t rank)
{
    char root[HOSTS_ADDRESS_SIZE];

    wires_address(0, root);
    setenv("MASTER_ADDR", root, 1);
    set_number("MASTER_PORT", 29500);
    set_number("RANK", rank);
    set_number("WORLD_SIZE", plan->first[plan->nhost]);
    set_number("LOCAL_RANK", rank - plan->first[h]);
    set_number("LOCAL_WORLD_SIZE", plan->first[h + 1] - plan->first[h]);
    set_number("GROUP_RANK", h);
    if (plan->latency != NULL) {
        setenv("PLAIT_FOR_TESTS", "1", 1);
        setenv("PLAIT_PACE", plan->latency, 1);
    }
}

static _Noreturn void run_rank(const struct hosts_plan *plan, uint32_t h, uint32_t rank, const int *output)
{
    sigset_t none;

    setpgid(0, 0);
    if (output != NULL) {
        const int null = open("/dev/null", O_RDONLY);
        dup2(null, STDIN_FILENO);
        dup2(output[0], STDOUT_FILENO);
        dup2(output[1], STDERR_FILENO);
        close(null);
    }
    set_rank(plan, h, rank);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp(plan->command[0], plan->command);
    fprintf(stderr, "plait-hosts: host%u cannot run %s: %s\n", h, plan->command[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

static pid_t pids[HOSTS_MAX]; /* processes of this host's ranks; 0: ended */

static void start_ranks(const struct hosts_plan *plan, uint32_t h, int (*outputs)[2])
{
    for (uint32_t i = 0; i < plan->first[h + 1] - plan->first[h]; i++) {
        pids[i] = fork();
        if (pids[i] < 0)
            give_up(HOSTS_FAILED, "host%u: starting a process: %s", h, strerror(errno));
        if (pids[i] == 0)
            run_rank(plan, h, plan->first[h] + i, outputs != NULL ? outputs[i] : NULL);
        setpgid(pids[i], pids[i]);
    }
    for (uint32_t i = 0; outputs != NULL && i < plan->first[h + 1] - plan->first[h]; i++) {
        close(outputs[i][0]);
        close(outputs[i][1]);
    }
}

/* The first process of a PID namespace also reaps orphans. */
static void reap(const struct hosts_plan *plan, uint32_t h, int channel)
{
    int status;

    for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
        session_end(pid, status);
        for (uint32_t i = 0; i < plan->first[h + 1] - plan->first[h]; i++)
            if (pids[i] == pid) {
                pids[i] = 0;
                host_send(channel, HOST_ENDED, plan->first[h] + i, status);
            }
    }
}

static void signal_ranks(uint32_t nrank, int number)
{
    for (uint32_t i = 0; i < nrank; i++)
        if (pids[i] > 0)
            kill(-pids[i], number);
}

void host_main(const struct hosts_plan *plan, uint32_t h, int channel, int (*outputs)[2])
{
    struct pollfd ready[3] = { { channel, POLLIN, 0 }, { -1, POLLIN, 0 }, { -1, POLLIN, 0 } };
    struct signalfd_siginfo info;
    struct host_message m;
    char name[16];
    sigset_t children;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setsid(); /* Ctrl-C reaches only the supervisor, which tells the ranks */
    sigfillset(&children);
    sigprocmask(SIG_SETMASK, &children, NULL);
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    ready[1].fd = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);

    await(channel, HOST_WIRED);
    snprintf(name, sizeof name, "host%u", h);
    if (sethostname(name, strlen(name)) != 0 || ready[1].fd < 0)
        give_up(HOSTS_FAILED, "setting up %s: %s", name, strerror(errno));
    mount_all(plan, h);
    wires_finish(plan, h);
    ready[2].fd = session_listen();
    set_host(plan, h);
    host_send(channel, HOST_READY, 0, 0);
    await(channel, HOST_START);
    start_ranks(plan, h, outputs);

    for (;;) {
        poll(ready, 3, -1);
        if (ready[0].revents != 0) {
            if (!host_receive(channel, &m, &request))
                _exit(0);
            if (m.kind == HOST_SIGNAL)
                signal_ranks(plan->first[h + 1] - plan->first[h], m.value);
            if (m.kind == HOST_COMMAND)
                session_start(&request);
        }
        if (ready[2].revents != 0)
            session_pass(ready[2].fd, channel);
        while (read(ready[1].fd, &info, sizeof info) == (ssize_t)sizeof info)
            ;
        reap(plan, h, channel);
    }
}
