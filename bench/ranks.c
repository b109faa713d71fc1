/* SPDX-License-Identifier: BSD-3-Clause */
#include "ranks.h"

#include "base/clock.h"
#include "child.h"
#include "message.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TAIL     1500 /* characters of a launcher's output in an error message */
#define VERDICTS 10   /* seconds that the others have to find out that a rank was lost */

volatile sig_atomic_t interrupted;

bool ranks_init(struct ranks *r, const char *name, const struct options *o, uint32_t ntensor, const uint64_t *counts,
                uint32_t width)
{
    memset(r, 0, sizeof *r);
    snprintf(r->name, sizeof r->name, "%s", name);
    r->listen_fd = r->log_fd = r->stage_fd = -1;
    r->nrank = (uint32_t)o->nrank;
    r->fd = malloc(r->nrank * sizeof *r->fd);
    r->hello = calloc(r->nrank, sizeof *r->hello);
    r->child = calloc(r->nrank, sizeof *r->child);
    for (uint32_t i = 0; r->fd != NULL && i < r->nrank; i++)
        r->fd[i] = -1;
    if (r->fd == NULL || r->hello == NULL || r->child == NULL)
        return complain("%s: out of memory", name);
    r->stage = stage_create(r->nrank, ntensor, &r->stage_fd);
    if (r->stage == NULL)
        return complain("%s: shared page: %s", name, strerror(errno));
    r->apart = r->stage->apart = o->launched;
    r->stage->width = width;
    r->stage->inplace = o->fusion;
    r->stage->unalign = (uint32_t)o->unalign;
    r->stage->yield = r->nrank > worker_cpus();
    memcpy(stage_counts(r->stage), counts, ntensor * sizeof *counts);
    return true;
}

bool ranks_listen(struct ranks *r)
{
    r->listen_fd = greet_listen(r->nrank, r->apart, r->where);
    return r->listen_fd >= 0 || complain("%s: cannot listen: %s", r->name, strerror(errno));
}

/* ---- what went wrong --------------------------------------------------------------------------- */

static void pause_for(double seconds)
{
    const struct timespec t = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
    nanosleep(&t, NULL);
}

/* Reap the i-th child if it has ended; how: in which way, may be NULL. */
static bool reap(struct ranks *r, uint32_t i, char *how, size_t room)
{
    int status;

    if (r->child[i] == 0 || waitpid(r->child[i], &status, WNOHANG) != r->child[i])
        return false;
    r->child[i] = 0;
    if (how != NULL)
        child_end(status, how, room);
    return true;
}

/* Reap one child that has ended. false: none has ended. */
static bool reap_one(struct ranks *r, char *how, size_t room)
{
    for (uint32_t i = 0; i < r->nchild; i++)
        if (reap(r, i, how, room))
            return true;
    return false;
}

/* Is one child of the coordinator all of the ranks, or their launcher? */
static bool all_in_one(const struct ranks *r)
{
    return r->nchild == 1 && !r->apart;
}

/* The end of the launcher's output; "" when there is none. */
static void read_tail(const struct ranks *r, char *tail)
{
    const off_t size = r->log_fd >= 0 ? lseek(r->log_fd, 0, SEEK_END) : 0;
    ssize_t got = 0;

    if (size > 0)
        got = pread(r->log_fd, tail, TAIL, size > TAIL ? size - TAIL : 0);
    tail[got > 0 ? got : 0] = '\0';
}

static bool explain_death(struct ranks *r, uint32_t rank)
{
    char how[128] = "closed its connection", tail[TAIL + 1], who[32];
    const uint32_t child = all_in_one(r) || r->launcher ? 0 : rank; /* not ours: a child of the launcher */

    for (int tries = 0; child < r->nchild && tries < 20 && !reap(r, child, how, sizeof how); tries++)
        pause_for(0.01);
    if (interrupted) /* the signal went to the whole process group */
        return false;
    read_tail(r, tail);
    if (all_in_one(r) && r->nrank > 1)
        snprintf(who, sizeof who, "the process of all ranks");
    else
        snprintf(who, sizeof who, "rank %u", rank);
    return complain("%s: %s ended unexpectedly: %s%s%s", r->name, who, how, *tail != '\0' ? "\n" : "", tail);
}

static bool explain_lateness(struct ranks *r, uint32_t rank, const char *what, double seconds)
{
    char tail[TAIL + 1];

    read_tail(r, tail);
    return complain("%s: rank %u did not %s within %g s; on a slow or busy machine raise -T, or start fewer ranks%s%s",
                    r->name, rank, what, seconds, *tail != '\0' ? "\n" : "", tail);
}

/* ---- conversation ------------------------------------------------------------------------------ */

enum wait_result { READABLE, LATE, INTERRUPTED };

/* Wakes up ten times a second, since a signal may arrive just before poll(). */
static enum wait_result wait_for(int fd, double deadline)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };

    while (!interrupted) {
        if (poll(&p, 1, 100) > 0)
            return READABLE;
        if (plait_clock() > deadline)
            return LATE;
    }
    return INTERRUPTED;
}

/* Receive one whole message of a rank. */
static bool receive(struct ranks *r, uint32_t rank, void *message, size_t bytes, const char *what, double deadline,
                    double seconds)
{
    switch (wait_for(r->fd[rank], deadline)) {
    case INTERRUPTED:
        return false;
    case LATE:
        return explain_lateness(r, rank, what, seconds);
    case READABLE:
        break;
    }
    return greet_receive(r->fd[rank], message, bytes) || explain_death(r, rank);
}

static bool send_stage(struct ranks *r, uint32_t rank)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = { 0 };
    char byte = 0;
    struct iovec part = { &byte, 1 };
    struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &r->stage_fd, sizeof(int));
    return sendmsg(r->fd[rank], &m, MSG_NOSIGNAL) == 1 || explain_death(r, rank);
}

/* For ranks that cannot map the stage. The k-th rank of a peer runs on the processors of Plait's k-th rank. */
static bool send_welcome(struct ranks *r, uint32_t rank)
{
    const struct stage *s = r->stage;
    const size_t bytes = s->ntensor * sizeof(uint64_t);
    struct welcome w;

    memset(&w, 0, sizeof w);
    w.nrank = r->nrank;
    w.ntensor = s->ntensor;
    w.width = s->width;
    w.unalign = s->unalign;
    w.inplace = s->inplace;
    w.bound = r->like != NULL;
    if (w.bound)
        w.cpus = r->like->hello[rank].cpus;
    return (send(r->fd[rank], &w, sizeof w, MSG_NOSIGNAL) == sizeof w &&
            send(r->fd[rank], stage_counts(r->stage), bytes, MSG_NOSIGNAL) == (ssize_t)bytes) ||
           explain_death(r, rank);
}

/* Returns 1 for a new rank, 0 for an unknown rank or one that is connected already, which is closed. */
static uint32_t seat(struct ranks *r, int fd, const struct hello *h)
{
    if (h->rank >= r->nrank || r->fd[h->rank] >= 0) {
        close(fd);
        return 0;
    }
    r->fd[h->rank] = fd;
    r->hello[h->rank] = *h;
    memcpy(r->about, h->about, sizeof r->about);
    return 1;
}

static bool explain_absence(struct ranks *r, double seconds)
{
    uint32_t missing = 0;

    while (r->fd[missing] >= 0)
        missing++;
    return explain_lateness(r, missing, "start", seconds);
}

/* Connections from other programs do not extend the deadline. */
static bool accept_all(struct ranks *r, double deadline, double seconds)
{
    struct listener listener;
    struct hello h;
    char how[128], tail[TAIL + 1];
    bool ok = listener_open(&listener, r->listen_fd, r->where, r->nrank) || complain("%s: out of memory", r->name);

    for (uint32_t connected = 0; ok && connected < r->nrank;) {
        const int fd = listener_next(&listener, 100, &h);
        if (fd >= 0) {
            connected += seat(r, fd, &h);
        } else if (interrupted) {
            ok = false;
        } else if (reap_one(r, how, sizeof how)) {
            read_tail(r, tail);
            ok = complain("%s did not start: %s%s%s", r->name, how, *tail != '\0' ? "\n" : "", tail);
        } else if (plait_clock() > deadline) {
            ok = explain_absence(r, seconds);
        }
    }
    listener_close(&listener);
    return ok;
}

bool ranks_greet(struct ranks *r, double seconds)
{
    const double deadline = plait_clock() + seconds;
    struct hello h;
    struct reply ready;

    if (r->listen_fd >= 0 && !accept_all(r, deadline, seconds))
        return false;
    for (uint32_t i = 0; r->listen_fd < 0 && i < r->nrank; i++) {
        if (!receive(r, i, &h, sizeof h, "start", deadline, seconds))
            return false;
        r->hello[i] = h;
        memcpy(r->about, h.about, sizeof r->about);
    }
    for (uint32_t i = 0; i < r->nrank; i++)
        if (!(r->apart ? send_welcome : send_stage)(r, i))
            return false;
    for (uint32_t i = 0; i < r->nrank; i++) {
        if (!receive(r, i, &ready, sizeof ready, "get ready", deadline, seconds))
            return false;
        if (ready.answer != ANSWER_OK)
            return complain("%s: rank %u: %s", r->name, i, ready.text);
    }
    return true;
}

static bool receive_reply(struct ranks *r, uint32_t rank, const struct command *c, struct reply *reply)
{
    const int fd = r->fd[rank];

    if (!greet_receive(fd, reply, sizeof *reply))
        return false;
    const size_t bytes = reply->answer == ANSWER_BUSY ? 0 : worker_times(r->stage, c, reply);
    return bytes == 0 || greet_receive(fd, stage_times(r->stage, rank), bytes);
}

/* In /proc/PID/stat the state follows the program's name in brackets, which may contain anything. */
static bool is_stopped(pid_t pid)
{
    char path[64], text[512];
    size_t n = 0;

    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *f = fopen(path, "re");
    if (f != NULL) {
        n = fread(text, 1, sizeof text - 1, f);
        fclose(f);
    }
    text[n] = '\0';
    const char *end = strrchr(text, ')');
    return end != NULL && (strncmp(end, ") T", 3) == 0 || strncmp(end, ") t", 3) == 0);
}

/* The ranks of this machine that a signal or a debugger stopped, as "; rank 1 (process 7) is stopped"; "": none. */
static void list_stopped(const struct ranks *r, char *text, size_t room)
{
    size_t n = 0;

    text[0] = '\0';
    for (uint32_t i = 0; !r->apart && i < r->nrank && n < room; i++)
        if (is_stopped(r->hello[i].pid))
            n += (size_t)snprintf(text + n, room - n, "; rank %u (process %ld) is stopped", i, (long)r->hello[i].pid);
}

/* Names the ranks that have not replied, of which one may hold up the others. */
static bool explain_silence(struct ranks *r, const struct pollfd *p, double seconds)
{
    char tail[TAIL + 1], late[256] = "", stopped[512];
    size_t n = 0;

    for (uint32_t i = 0; i < r->nrank && n < sizeof late; i++)
        if (p[i].fd >= 0)
            n += (size_t)snprintf(late + n, sizeof late - n, "%s%u", n > 0 ? ", " : "", i);
    list_stopped(r, stopped, sizeof stopped);
    read_tail(r, tail);
    return complain("%s: rank %s did not answer, and no operation ended, for %g s%s%s; raise -T if no rank hangs%s%s",
                    r->name, late, seconds, stopped,
                    *stopped != '\0' ? ", for which the others wait"
                                     : "; plait-info --dump PID shows the rank that a process waits for",
                    *tail != '\0' ? "\n" : "", tail);
}

/* A command's way through the ranks. */
struct conversation {
    struct ranks *ranks;
    const struct command *command;
    struct reply *replies;
    struct pollfd *open; /* [nrank] fd -1: this rank has replied, or was lost */
    bool *lost;          /* [nrank] */
    uint32_t nopen, nlost;
    bool failed;
    double deadline; /* moves while rank 0 makes progress, until a rank is lost or fails */
    uint64_t passes;
};

/* The others tell what they were doing: by the library's log, and in their replies. */
static void hear_verdicts(struct conversation *t, double seconds)
{
    const double end = plait_clock() + fmin(VERDICTS, seconds);

    atomic_store(&t->ranks->stage->cut, true);
    if (!t->failed)
        t->deadline = end;
    t->failed = true;
}

static void lose(struct conversation *t, uint32_t rank, double seconds)
{
    t->open[rank].fd = -1;
    t->lost[rank] = true;
    t->nopen--;
    t->nlost++;
    hear_verdicts(t, seconds);
}

static void take_reply(struct conversation *t, uint32_t rank, double seconds)
{
    struct reply *reply = &t->replies[rank];

    if (!receive_reply(t->ranks, rank, t->command, reply)) {
        lose(t, rank, seconds);
    } else if (reply->answer == ANSWER_BUSY) {
        if (!t->failed)
            t->deadline = plait_clock() + seconds;
    } else {
        t->open[rank].fd = -1;
        t->nopen--;
        if (reply->answer == ANSWER_FAILED)
            hear_verdicts(t, seconds);
    }
}

/* A rank that fails leaves the others waiting for it: watch all of them, and take replies in any order. */
static void converse(struct conversation *t, double seconds)
{
    struct ranks *r = t->ranks;

    for (uint32_t i = 0; i < r->nrank; i++) {
        t->open[i] = (struct pollfd){ .fd = r->fd[i], .events = POLLIN };
        t->replies[i].answer = ANSWER_BUSY;
    }
    for (uint32_t i = 0; i < r->nrank; i++)
        if (send(r->fd[i], t->command, sizeof *t->command, MSG_NOSIGNAL) != sizeof *t->command)
            lose(t, i, seconds);
    while (t->nopen > 0 && !interrupted) {
        const int ready = poll(t->open, r->nrank, 100);
        const uint64_t passes = atomic_load_explicit(&r->stage->passes, memory_order_relaxed);

        if (passes != t->passes && !t->failed)
            t->deadline = plait_clock() + seconds;
        t->passes = passes;
        if (ready <= 0 && plait_clock() > t->deadline)
            return;
        for (uint32_t i = 0; ready > 0 && i < r->nrank; i++)
            if (t->open[i].fd >= 0 && t->open[i].revents != 0)
                take_reply(t, i, seconds);
    }
}

/* Plait's log has the operation of each rank, and the text says whose finding it is: here is the cause alone. */
static bool explain_failure(const struct ranks *r, uint32_t rank, const char *text)
{
    const char *where = "comm 'plait-perf'";
    const char *cause = strncmp(text, where, strlen(where)) == 0 ? strstr(text + strlen(where), ": ") : NULL;

    return cause != NULL ? complain("%s: %s", r->name, cause + 2) : complain("%s: rank %u: %s", r->name, rank, text);
}

/* One line for each lost rank, or for the first that failed: the library's log has a line of each rank. */
static bool explain(struct conversation *t, double seconds)
{
    struct ranks *r = t->ranks;

    if (interrupted)
        return false;
    if (!t->failed)
        return t->nopen == 0 || explain_silence(r, t->open, seconds);
    for (uint32_t i = 0; i < r->nrank; i++) {
        if (t->lost[i])
            explain_death(r, i);
        else if (t->nlost == 0 && t->replies[i].answer == ANSWER_FAILED)
            return explain_failure(r, i, t->replies[i].text);
        if (t->lost[i] && (r->launcher || all_in_one(r)))
            break;
    }
    return false;
}

bool ranks_command(struct ranks *r, const struct command *c, struct reply *replies, double seconds)
{
    struct conversation t = { .ranks = r, .command = c, .replies = replies, .nopen = r->nrank };
    bool ok;

    t.open = calloc(r->nrank, sizeof *t.open);
    t.lost = calloc(r->nrank, sizeof *t.lost);
    t.deadline = plait_clock() + seconds;
    ok = (t.open != NULL && t.lost != NULL) || complain("%s: out of memory", r->name);
    if (ok)
        converse(&t, seconds);
    ok = ok && explain(&t, seconds);
    free(t.open);
    free(t.lost);
    return ok;
}

/* ---- the end ----------------------------------------------------------------------------------- */

static bool all_gone(const struct ranks *r)
{
    for (uint32_t i = 0; i < r->nchild; i++)
        if (r->child[i] != 0)
            return false;
    return true;
}

static bool wait_gone(struct ranks *r, double seconds)
{
    const double deadline = plait_clock() + seconds;

    for (;;) {
        while (reap_one(r, NULL, 0))
            ;
        if (all_gone(r))
            return true;
        if (plait_clock() > deadline)
            return false;
        pause_for(0.005);
    }
}

static void signal_all(struct ranks *r, int signal)
{
    for (uint32_t i = 0; i < r->nchild; i++)
        if (r->child[i] != 0)
            kill(r->child[i], signal);
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Ranks that are not children of this process would take its end for a failure before they have read VERB_QUIT. */
static void hear_goodbye(struct ranks *r)
{
    const double deadline = plait_clock() + 10;
    struct reply reply;

    for (uint32_t i = 0; r->fd != NULL && i < r->nrank; i++)
        while (r->fd[i] >= 0 && wait_for(r->fd[i], deadline) == READABLE &&
               greet_receive(r->fd[i], &reply, sizeof reply) && reply.answer == ANSWER_BUSY)
            ;
}

void ranks_stop(struct ranks *r, bool politely)
{
    const struct command quit = { .verb = VERB_QUIT };

    for (uint32_t i = 0; r->fd != NULL && i < r->nrank; i++) {
        if (politely && r->fd[i] >= 0)
            send(r->fd[i], &quit, sizeof quit, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    if (politely && r->apart)
        hear_goodbye(r);
    if (!politely || !wait_gone(r, 10)) {
        signal_all(r, r->launcher ? SIGTERM : SIGKILL);
        if (!wait_gone(r, 5))
            signal_all(r, SIGKILL); /* the ranks of a launcher end with it, see child_follow() */
        wait_gone(r, 5);
    }
    for (uint32_t i = 0; r->fd != NULL && i < r->nrank; i++)
        close_fd(&r->fd[i]);
    close_fd(&r->listen_fd);
    close_fd(&r->log_fd);
    close_fd(&r->stage_fd);
    stage_unmap(r->stage);
    free(r->fd);
    free(r->hello);
    free(r->child);
    memset(r, 0, sizeof *r);
    r->listen_fd = r->log_fd = r->stage_fd = -1;
}
