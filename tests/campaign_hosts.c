/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Virtual hosts for the campaign. A worker has one plait-hosts for all of its injections. That runs agents, as many on
 * each host as an injection may have ranks there; an agent makes a process for each injection that has a rank for it.
 *
 * Worker and agents share the ground, a memfd that plait-hosts and agents inherit. A process has another id outside of
 * its host: it locks the byte of its number in that file, and the kernel says whose lock it is.
 */
#include "campaign.h"
#include "child.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_ON_ONE 3 /* ranks of one host */
#define NAGENT      (MOST_HOSTS * MOST_ON_ONE)

struct ground {
    _Atomic uint32_t turn;     /* a number for each injection */
    _Atomic uint32_t answered; /* agents that are done with one, of all turns */
    struct injection injection;
    _Atomic int ended[MOST_RANKS]; /* of each process: as waitpid() says, plus 1; 0: not yet */
    struct scene scene;
};

/* ---- On the hosts ----------------------------------------------------------------------------------------- */

static void await_turn(struct ground *g, uint32_t last)
{
    while (g->turn == last)
        syscall(SYS_futex, &g->turn, FUTEX_WAIT, last, NULL, NULL, 0);
}

/* The process that this agent is to make, or none: MOST_RANKS. */
static uint32_t find_part(const struct injection *j, uint32_t host, uint32_t number)
{
    for (uint32_t r = 0; r < j->nrank; r++)
        if (j->host[r] == host && number-- == 0)
            return r;
    return MOST_RANKS;
}

static void play(struct ground *g, int fd, uint32_t part)
{
    struct flock mine = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = part, .l_len = 1 };

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (g->injection.tcp)
        setenv("UCX_TLS", "tcp", 1);
    must(fcntl(fd, F_SETLK, &mine) == 0, "lock");
    process_main(&g->injection, &g->scene, part);
}

static void make_process(struct ground *g, int fd, uint32_t part)
{
    const pid_t pid = fork();
    int how;

    if (pid == 0) {
        play(g, fd, part);
        _exit(0);
    }
    must(pid > 0 && waitpid(pid, &how, 0) == pid, "a process");
    g->ended[part] = how + 1;
}

int agent_main(int fd)
{
    const uint32_t host = (uint32_t)atoi(getenv("HOST_INDEX")), number = (uint32_t)atoi(getenv("LOCAL_RANK"));
    struct ground *g = mmap(NULL, sizeof *g, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    must(g != MAP_FAILED, "the ground");
    for (uint32_t turn = 0;; turn++) {
        await_turn(g, turn);
        const uint32_t part = find_part(&g->injection, host, number);
        if (part < MOST_RANKS)
            make_process(g, fd, part);
        g->answered++;
    }
}

/* ---- Outside ----------------------------------------------------------------------------------------------- */

bool hosts_possible(void)
{
    const pid_t pid = child_fork();

    if (pid == 0)
        _exit(geteuid() != 0 || unshare(CLONE_NEWNET) != 0);
    return child_end(pid) == 0;
}

bool hosts_find_plugin(void)
{
    const char *set = getenv("PLAIT_PLUGINS");
    char own[4096] = "", folder[4096], file[4200];

    must(readlink("/proc/self/exe", own, sizeof own - 1) > 0, "/proc/self/exe");
    snprintf(folder, sizeof folder, "%s/../transports/ucx", dirname(own));
    snprintf(file, sizeof file, "%s/plait-ucx.so", set != NULL ? set : folder);
    if (access(file, R_OK) != 0) {
        fprintf(stderr,
                "campaign: --hosts needs the plug-in for UCX, but there is no %s; build it (libucx-dev, ninja), or set "
                "PLAIT_PLUGINS to its folder\n",
                file);
        return false;
    }
    return set != NULL || setenv("PLAIT_PLUGINS", folder, 1) == 0;
}

/* plait-hosts with its arguments; it ends with this process. */
static pid_t run_hosts(const char *const *args)
{
    const pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execv(args[0], (char *const *)(uintptr_t)args);
        perror(args[0]);
        _exit(127);
    }
    must(pid > 0, "plait-hosts");
    return pid;
}

static char *text_of(const char *format, int value)
{
    char *text = NULL;

    must(asprintf(&text, format, value) > 0, "memory");
    return text;
}

void place_open(const char *program, struct place *out)
{
    *out = (struct place){ .program = program, .fd = memfd_create("campaign", 0) };
    must(out->fd >= 0 && ftruncate(out->fd, sizeof *out->ground) == 0, "memory");
    struct ground *g = mmap(NULL, sizeof *g, PROT_READ | PROT_WRITE, MAP_SHARED, out->fd, 0);
    must(g != MAP_FAILED, "memory");
    out->s = &g->scene;
    if (program == NULL)
        return;
    char own[4096] = "";
    must(readlink("/proc/self/exe", own, sizeof own - 1) > 0, "/proc/self/exe");
    char *ranks = text_of("%d", MOST_ON_ONE), *hosts = text_of("%d", MOST_HOSTS), *fd = text_of("%d", out->fd);
    const char *const args[] = { program, hosts, "--ranks", ranks, "--raw", "--", own, "--agent", fd, NULL };
    out->ground = g;
    out->pid = run_hosts(args);
    free(ranks);
    free(hosts);
    free(fd);
}

void place_close(struct place *place)
{
    struct ground *g = (struct ground *)(void *)((char *)place->s - offsetof(struct ground, scene));

    if (place->pid > 0) {
        kill(place->pid, SIGKILL); /* which takes down all */
        waitpid(place->pid, NULL, 0);
    }
    munmap(g, sizeof *g);
    close(place->fd);
}

/* The id here of the process that holds the lock of this number; 0: none does yet. */
static pid_t holder(const struct place *place, uint32_t process)
{
    struct flock of = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = process, .l_len = 1 };

    must(fcntl(place->fd, F_GETLK, &of) == 0, "lock");
    return of.l_type == F_UNLCK ? 0 : of.l_pid;
}

void hosts_start(struct place *place, const struct injection *j, pid_t *pids)
{
    struct ground *g = place->ground;

    while (g->answered < NAGENT * g->turn)
        usleep(300);
    g->injection = *j;
    memset(g->ended, 0, sizeof g->ended);
    g->turn++;
    syscall(SYS_futex, &g->turn, FUTEX_WAKE, NAGENT, NULL, NULL, 0);
    for (uint32_t p = 0; p < j->nprocess; p++)
        while ((pids[p] = holder(place, p)) == 0 && g->ended[p] == 0) { /* at once, if it crashed */
            must(waitpid(place->pid, NULL, WNOHANG) == 0, "plait-hosts has ended");
            usleep(300);
        }
}

bool hosts_ended(struct place *place, uint32_t process, int *how)
{
    const int ended = place->ground->ended[process];

    *how = ended - 1;
    return ended != 0;
}

void hosts_link(const struct place *place, uint32_t host, bool up)
{
    char *h = text_of("%d", (int)host), *of = text_of("%d", place->pid);
    const char *const args[] = { place->program, "link", up ? "up" : "down", h, "--of", of, NULL };
    int how;
    const pid_t pid = run_hosts(args);

    must(waitpid(pid, &how, 0) == pid && how == 0, "a link");
    free(h);
    free(of);
}
