/* SPDX-License-Identifier: BSD-3-Clause */
/* The supervisor: makes the hosts, prints their ranks' output, cuts links, and ends everything. See hosts.h. */
#include "hosts.h"

#include "base/clock.h"
#include "child.h"
#include "message.h"
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define GRACE     2.0        /* seconds from a signal until ranks are killed */
#define LINE_MOST (64 << 10) /* longer lines are printed in parts */

/* stdout or stderr of a rank. */
struct stream {
    int fd, to; /* fd -1: at its end, or not captured */
    size_t prefix, used;
    char *line; /* prefix, and the line so far */
};

static const struct hosts_plan *plan;
static struct host hosts[HOSTS_MAX];
static struct stream *streams; /* two for each rank */
static bool *ended;            /* of each rank */
static uint32_t running, nfailed, first_failed;
static int first_status; /* the exit status */

/* ---- Namespaces -------------------------------------------------------------------------------- */

static _Noreturn void no_namespaces(void)
{
    give_up(HOSTS_FAILED,
            "making namespaces: %s. Run it as root, or permit user namespaces (sysctl user.max_user_namespaces, "
            "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns); in a container: start "
            "the container with --privileged",
            strerror(errno));
}

static void write_file(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        give_up(HOSTS_FAILED, "%s: %s", path, strerror(errno));
    close(fd);
}

/* A user other than root becomes the same user in a user namespace, and has the rights there. */
static void enter_namespaces(void)
{
    const unsigned uid = geteuid(), gid = getegid();
    char map[64];

    if (unshare(CLONE_NEWNET) == 0)
        return;
    if (errno != EPERM || unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        no_namespaces();
    write_file("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "%u %u 1", uid, uid);
    write_file("/proc/self/uid_map", map);
    snprintf(map, sizeof map, "%u %u 1", gid, gid);
    write_file("/proc/self/gid_map", map);
}

/* ---- Hosts ------------------------------------------------------------------------------------- */

/* Open a pipe: the read end stays here, *writer gets the other. */
static void open_stream(struct stream *s, uint32_t h, uint32_t rank, int to, int *writer)
{
    char prefix[64];
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) != 0)
        give_up(HOSTS_FAILED, "pipes for the output of rank %u: %s; raise ulimit -n", rank, strerror(errno));
    snprintf(prefix, sizeof prefix, "[host%u %u] ", h, rank);
    s->line = malloc(sizeof prefix + LINE_MOST + 1);
    if (s->line == NULL)
        give_up(HOSTS_FAILED, "out of memory");
    s->fd = fds[0];
    s->to = to;
    s->prefix = s->used = strlen(prefix);
    memcpy(s->line, prefix, s->prefix);
    *writer = fds[1];
}

static void make_host(uint32_t h)
{
    const unsigned long spaces = CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID;
    static int outputs[HOSTS_MAX][2];
    const uint32_t first = plan->first[h], nrank = plan->first[h + 1] - first;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        give_up(HOSTS_FAILED, "a channel to host%u: %s", h, strerror(errno));
    for (uint32_t i = 0; !plan->raw && i < nrank; i++)
        for (int k = 0; k < 2; k++)
            open_stream(&streams[2 * (first + i) + (uint32_t)k], h, first + i, k + 1, &outputs[i][k]);
    hosts[h].pid = (pid_t)syscall(SYS_clone, spaces | SIGCHLD, NULL, NULL, NULL, NULL);
    if (hosts[h].pid < 0)
        no_namespaces();
    if (hosts[h].pid == 0) {
        for (uint32_t other = 0; other < h; other++)
            close(hosts[other].channel); /* only the supervisor may keep another host's channel open */
        close(pair[0]);
        host_main(plan, h, pair[1], plan->raw ? NULL : outputs);
    }
    hosts[h].channel = pair[0];
    close(pair[1]);
    for (uint32_t i = 0; !plan->raw && i < nrank; i++) {
        close(outputs[i][0]);
        close(outputs[i][1]);
    }
}

static struct host_request request; /* the last that came */

static void make_hosts(void)
{
    struct host_message m;

    for (uint32_t h = 0; h < plan->nhost; h++)
        make_host(h);
    wires_make(plan, hosts);
    for (uint32_t h = 0; h < plan->nhost; h++)
        host_send(hosts[h].channel, HOST_WIRED, 0, 0);
    for (uint32_t h = 0; h < plan->nhost; h++)
        if (!host_receive(hosts[h].channel, &m, &request))
            exit(HOSTS_FAILED); /* the host printed the error */
    for (uint32_t h = 0; h < plan->nhost; h++)
        host_send(hosts[h].channel, HOST_START, 0, 0);
}

static void end_hosts(void)
{
    for (uint32_t h = 0; h < plan->nhost; h++)
        kill(hosts[h].pid, SIGKILL);
    for (uint32_t h = 0; h < plan->nhost; h++)
        waitpid(hosts[h].pid, NULL, 0);
}

/* ---- What ranks say ---------------------------------------------------------------------------- */

static void write_line(struct stream *s)
{
    const char *at = s->line;

    s->line[s->used++] = '\n';
    while (s->used > 0) {
        const ssize_t n = write(s->to, at, s->used);
        struct pollfd room = { s->to, POLLOUT, 0 };
        if (n < 0 && errno == EAGAIN)
            poll(&room, 1, -1);
        else if (n < 0 && errno != EINTR) {
            if (s->to == STDOUT_FILENO)
                output_lost(errno);
            break; /* the ranks run on */
        } else if (n > 0) {
            at += n;
            s->used -= (size_t)n;
        }
    }
    s->used = s->prefix;
}

static void take(struct stream *s, const char *text, size_t length)
{
    while (length > 0) {
        const size_t room = s->prefix + LINE_MOST - s->used, most = length < room ? length : room;
        const char *end = memchr(text, '\n', most);
        const size_t n = end != NULL ? (size_t)(end - text) : most;

        memcpy(s->line + s->used, text, n);
        s->used += n;
        if (end != NULL || n == room)
            write_line(s);
        text += n + (end != NULL);
        length -= n + (end != NULL);
    }
}

/* Print what there is. Returns false at the end of the stream. */
static bool show(struct stream *s)
{
    static char text[LINE_MOST];
    const ssize_t n = read(s->fd, text, sizeof text);

    if (n > 0) {
        take(s, text, (size_t)n);
        return true;
    }
    if (s->used > s->prefix)
        write_line(s);
    close(s->fd);
    s->fd = -1;
    return false;
}

/* ---- How ranks end ----------------------------------------------------------------------------- */

static void end_rank(uint32_t h, uint32_t rank, int status)
{
    char how[64];

    ended[rank] = true;
    running--;
    if (status == 0)
        return;
    child_end(status, how, sizeof how);
    tell("host%u, rank %u: %s", h, rank, how);
    if (nfailed++ == 0) {
        first_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        first_failed = rank;
    }
}

static void hear(uint32_t h)
{
    struct host_message m;

    if (host_receive(hosts[h].channel, &m, &request)) {
        if (m.kind == HOST_ENDED)
            end_rank(h, m.rank, m.value);
        if (m.kind == HOST_COMMAND && m.rank < plan->nhost && hosts[m.rank].channel >= 0)
            host_pass(hosts[m.rank].channel, m.rank, &request);
        session_forget(&request);
        return;
    }
    close(hosts[h].channel);
    hosts[h].channel = -1;
    for (uint32_t r = plan->first[h]; r < plan->first[h + 1]; r++)
        if (!ended[r])
            end_rank(h, r, SIGKILL); /* killed with the first process of the host */
}

/* ---- The loop ---------------------------------------------------------------------------------- */

static void cut(const struct hosts_cut *c, double start)
{
    if (!wires_set(c->host, c->up))
        tell("the link of host%u: %s", c->host, strerror(errno));
    else
        tell("%.3f s: the link of host%u is %s", plait_clock() - start, c->host, c->up ? "up" : "down");
}

/* The first signal is passed to the ranks, which then have GRACE seconds; the second ends them at once. */
static double obey(int number, double deadline)
{
    if (deadline >= 0)
        return 0;
    tell("%s: passed on to the ranks; those that run on after %g s are killed", strsignal(number), GRACE);
    for (uint32_t h = 0; h < plan->nhost; h++)
        if (hosts[h].channel >= 0)
            host_send(hosts[h].channel, HOST_SIGNAL, 0, number);
    return plait_clock() + GRACE;
}

/*
 * Run until all ranks have ended. poll() sees channels before the streams: when a rank's end is seen, its output is
 * complete, and is printed first. Returns the signal that ended the run, or 0.
 */
static int run(int signals, const struct hosts_cut *cuts, uint32_t ncut)
{
    const uint32_t nstream = 2 * plan->first[plan->nhost];
    struct pollfd *ready = calloc(1 + plan->nhost + nstream, sizeof *ready);
    struct pollfd *channels = ready + 1, *outputs = channels + plan->nhost;
    const double start = plait_clock();
    double deadline = -1; /* none */
    int number = 0;
    uint32_t done = 0;

    if (ready == NULL)
        give_up(HOSTS_FAILED, "out of memory");
    while (running > 0 && (deadline < 0 || plait_clock() < deadline)) {
        double until = deadline;

        if (done < ncut && (until < 0 || start + cuts[done].when < until))
            until = start + cuts[done].when;
        ready[0] = (struct pollfd){ signals, POLLIN, 0 };
        for (uint32_t h = 0; h < plan->nhost; h++)
            channels[h] = (struct pollfd){ hosts[h].channel, POLLIN, 0 };
        for (uint32_t i = 0; i < nstream; i++)
            outputs[i] = (struct pollfd){ streams[i].fd, POLLIN, 0 };
        until = until < 0 ? -1 : until > plait_clock() ? 1e3 * (until - plait_clock()) + 1 : 0;
        poll(ready, 1 + plan->nhost + nstream, until < 0 ? -1 : until > 1e9 ? 1000000000 : (int)until);

        for (uint32_t i = 0; i < nstream; i++)
            if (outputs[i].revents != 0)
                show(&streams[i]);
        for (uint32_t h = 0; h < plan->nhost; h++)
            if (channels[h].revents != 0)
                hear(h);
        if (ready[0].revents != 0) {
            struct signalfd_siginfo info;
            if (read(signals, &info, sizeof info) == (ssize_t)sizeof info) {
                number = (int)info.ssi_signo;
                deadline = obey(number, deadline);
            }
        }
        for (; done < ncut && start + cuts[done].when <= plait_clock(); done++)
            cut(&cuts[done], start);
    }
    free(ready);
    return number;
}

/* End as if by signal `number`, which shells look at. */
static _Noreturn void end_by(int number)
{
    sigset_t set;

    signal(number, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    raise(number);
    exit(128 + number);
}

static void greet(void)
{
    char last[HOSTS_ADDRESS_SIZE];

    wires_address(plan->nhost - 1, last);
    if (!plan->raw)
        tell("process %d: %u rank%s, %u host%s at 10.77.0.1%s%s", getpid(), plan->first[plan->nhost],
             plural(plan->first[plan->nhost]), plan->nhost, plural(plan->nhost), plan->nhost > 1 ? " to " : "",
             plan->nhost > 1 ? last : "");
}

/* A descriptor for signals that end this process. Ignored signals stay ignored, as for nohup. */
static int open_signals(void)
{
    static const int all[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction old;
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (sigaction(all[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaddset(&set, all[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC);
}

int supervise(const struct hosts_plan *what, const struct hosts_cut *cuts, uint32_t ncut)
{
    const uint32_t nrank = what->first[what->nhost];
    int signals, number;

    plan = what;
    running = nrank;
    streams = calloc(2 * (size_t)nrank, sizeof *streams);
    ended = calloc(nrank, sizeof *ended);
    if (streams == NULL || ended == NULL)
        give_up(HOSTS_FAILED, "out of memory");
    for (uint32_t i = 0; i < 2 * nrank; i++)
        streams[i].fd = -1;
    wires_find_tools(plan);
    signals = open_signals();
    enter_namespaces();
    greet();
    make_hosts();

    number = run(signals, cuts, ncut);
    end_hosts();
    for (uint32_t i = 0; i < 2 * nrank; i++) {
        while (streams[i].fd >= 0 && show(&streams[i]))
            ;
        free(streams[i].line);
    }
    free(streams);
    free(ended);
    if (number != 0)
        end_by(number);
    if (nfailed > 1)
        tell("%u of %u ranks failed; the exit status is that of rank %u, the first", nfailed, nrank, first_failed);
    return first_status;
}
