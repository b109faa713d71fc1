/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch_plait.h"

#include "backend_plait.h"
#include "child.h"
#include "message.h"

#include <plait/comm.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct thread_rank {
    pthread_t thread;
    int fd;
    uint32_t rank;
    const struct options *options;
    const struct plait_unique_id *id;
    bool ok;
};

static void *thread_main(void *argument)
{
    struct thread_rank *t = argument;

    t->ok = plait_worker(t->fd, t->rank, t->options, t->id);
    if (!t->ok)
        _exit(1); /* the other threads may wait for this one forever */
    return NULL;
}

static int run_threads(const int *fd, const struct options *o, const struct plait_unique_id *id)
{
    struct thread_rank *t = calloc(o->nrank, sizeof *t);

    if (t == NULL)
        return 1;
    for (uint32_t i = 0; i < o->nrank; i++) {
        t[i] = (struct thread_rank){ .fd = fd[i], .rank = i, .options = o, .id = id };
        if (pthread_create(&t[i].thread, NULL, thread_main, &t[i]) != 0)
            return 1;
    }
    for (uint32_t i = 0; i < o->nrank; i++)
        pthread_join(t[i].thread, NULL);
    free(t);
    return 0;
}

/* In the child: keep only the sockets fd[first .. first + n - 1]. */
static void become_worker(struct ranks *r, const int *fd, uint32_t first, uint32_t n)
{
    signal(SIGINT, SIG_IGN); /* Ctrl-C reaches all processes of the terminal; the coordinator ends its ranks itself */
    signal(SIGTERM, SIG_DFL);
    for (uint32_t i = 0; i < r->nrank; i++) {
        if (r->fd[i] >= 0)
            close(r->fd[i]);
        if (i < first || i >= first + n)
            close(fd[i]);
    }
}

static bool start_child(struct ranks *r, const struct options *o, const struct plait_unique_id *id, const int *fd,
                        uint32_t first, uint32_t n)
{
    const pid_t child = child_fork(SIGKILL);

    if (child < 0)
        return complain("cannot start rank %u: %s", first, strerror(errno));
    if (child == 0) {
        become_worker(r, fd, first, n);
        _exit(o->threads ? run_threads(fd, o, id) : !plait_worker(fd[first], first, o, id));
    }
    r->child[r->nchild++] = child;
    return true;
}

/* Rank 0 is a child of the coordinator, which must not be measured itself; the launcher has started the others. */
static bool launch_rank_0(struct ranks *r, const struct options *o)
{
    if (!ranks_listen(r))
        return false;
    const pid_t child = child_fork(SIGKILL);
    if (child < 0)
        return complain("cannot start rank 0: %s", strerror(errno));
    if (child == 0) {
        signal(SIGINT, SIG_IGN);
        signal(SIGTERM, SIG_DFL);
        _exit(!plait_worker_launched(r->where, o));
    }
    r->child[r->nchild++] = child;
    return true;
}

static bool launch_all(struct ranks *r, const struct options *o)
{
    struct plait_unique_id id;
    int *theirs = malloc(r->nrank * sizeof *theirs);
    bool ok = theirs != NULL;

    for (uint32_t i = 0; theirs != NULL && i < r->nrank; i++)
        theirs[i] = -1;
    if (plait_unique_id_create(&id) != PLAIT_OK)
        ok = complain("%s", plait_last_error());
    for (uint32_t i = 0; ok && i < r->nrank; i++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
            ok = complain("cannot start %u ranks: %s", r->nrank, strerror(errno));
            break;
        }
        r->fd[i] = pair[0];
        theirs[i] = pair[1];
    }
    if (ok && o->threads)
        ok = start_child(r, o, &id, theirs, 0, r->nrank);
    for (uint32_t i = 0; ok && !o->threads && i < r->nrank; i++)
        ok = start_child(r, o, &id, theirs, i, 1);
    for (uint32_t i = 0; theirs != NULL && i < r->nrank; i++)
        if (theirs[i] >= 0)
            close(theirs[i]);
    free(theirs);
    return ok;
}

bool plait_launch(struct ranks *r, const struct options *o)
{
    return (o->launched ? launch_rank_0 : launch_all)(r, o);
}
