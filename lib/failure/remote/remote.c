/* SPDX-License-Identifier: BSD-3-Clause */
#include "relay.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/fork.h"
#include "base/status.h"
#include "base/thread.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

#define TICK      0.1 /* seconds between turns of the thread */
#define LAST_WORD 1.0 /* seconds, at most, to send a rank's last update */

static pthread_mutex_t life = PTHREAD_MUTEX_INITIALIZER; /* start and stop of the thread; taken before `lock` */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all variables below, and of the remotes */
static pthread_cond_t gone = PTHREAD_COND_INITIALIZER;   /* a remote has left */
static struct plait_remote *remotes;
static pthread_t thread;
static bool running;
static atomic_int doorbell[2] = { -1, -1 }; /* a socket pair: receiving end, ringing end */

/* Send an empty message: harmless if the program has reused the descriptor for its own socket. Signal-safe. */
static void ring(void)
{
    send(atomic_load(&doorbell[1]), "", 0, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- The thread -------------------------------------------------------------------------------------------- */

/* The descriptors to poll, [*n]; the list grows as needed. */
static struct pollfd *gather(struct pollfd *list, nfds_t *capacity, nfds_t *n)
{
    nfds_t need = 1, at = 0;

    for (const struct plait_remote *r = remotes; r != NULL; r = r->next)
        need += r->nline;
    if (need > *capacity) {
        struct pollfd *more = realloc(list, need * sizeof *list);
        if (more == NULL) { /* poll none: a turn at every tick still serves all lines */
            *n = 0;
            return list;
        }
        list = more;
        *capacity = need;
    }
    PLAIT_KNOWN(list != NULL); /* capacity is at least 1 here */
    list[at++] = (struct pollfd){ .fd = doorbell[0], .events = POLLIN };
    for (const struct plait_remote *r = remotes; r != NULL; r = r->next)
        for (uint32_t i = 0; i < r->nline; i++) /* poll() ignores closed ones */
            list[at++] = (struct pollfd){
                .fd = r->lines[i].fd,
                .events = (short)(POLLIN | (plait_line_is_idle(&r->lines[i]) ? 0 : POLLOUT)),
            };
    *n = need;
    return list;
}

static void close_doorbell(void)
{
    for (unsigned i = 0; i < 2; i++)
        plait_descriptor_close(atomic_exchange(&doorbell[i], -1));
}

static bool open_doorbell(void)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        return false;
    for (unsigned i = 0; i < 2; i++)
        doorbell[i] = plait_descriptor_keep(ends[i], "waking the thread that hears of other hosts");
    if (doorbell[0] >= 0 && doorbell[1] >= 0)
        return true;
    close_doorbell();
    return false;
}

/* If the program has closed the doorbell, the thread only runs at every tick. */
static void drain_doorbell(void)
{
    char none;

    if (plait_descriptor_check(doorbell[0]) != PLAIT_OK || plait_descriptor_check(doorbell[1]) != PLAIT_OK) {
        for (struct plait_remote *r = remotes; r != NULL; r = r->next)
            plait_relay_note_loss(r);
        close_doorbell();
    }
    while (doorbell[0] >= 0 && recv(doorbell[0], &none, sizeof none, MSG_DONTWAIT) >= 0)
        ;
}

static void *run(void *arg)
{
    struct pollfd *list = NULL;
    nfds_t capacity = 0, n;

    (void)arg;
    pthread_mutex_lock(&lock);
    while (running) {
        list = gather(list, &capacity, &n);
        pthread_mutex_unlock(&lock);
        poll(list, n, (int)(TICK * 1e3));
        pthread_mutex_lock(&lock);
        drain_doorbell();
        const double now = plait_clock();
        for (struct plait_remote *r = remotes; r != NULL; r = r->next) {
            plait_relay_turn(r, now);
            if (r->left)
                pthread_cond_broadcast(&gone);
        }
    }
    pthread_mutex_unlock(&lock);
    free(list);
    return NULL;
}

/* With both locks held. */
static enum plait_status start_thread(void)
{
    int error;

    if (running && doorbell[0] >= 0)
        return PLAIT_OK;
    if (!open_doorbell())
        return plait_fail_errno(errno, "no descriptor for the thread that hears of other hosts");
    if (running) /* the thread runs, but had lost its doorbell */
        return PLAIT_OK;
    running = true;
    error = plait_thread_start(&thread, run, NULL);
    if (error == 0)
        return PLAIT_OK;
    running = false;
    close_doorbell();
    return plait_fail_errno(error, "cannot start the thread that hears of other hosts");
}

/* With both locks held; releases `lock` while it joins the thread. */
static void stop_thread(void)
{
    const pthread_t last = thread;

    running = false;
    ring();
    pthread_mutex_unlock(&lock);
    pthread_join(last, NULL);
    pthread_mutex_lock(&lock);
    close_doorbell();
}

/* ---- Life ------------------------------------------------------------------------------------------------- */

static void discard(struct plait_remote *r)
{
    for (uint32_t i = 0; r->lines != NULL && i < r->nline; i++)
        plait_line_close(&r->lines[i]);
    free(r->lines);
    free(r->known);
    free(r);
}

enum plait_status plait_remote_create(struct plait_comm *comm, struct plait_remote **out)
{
    struct plait_remote *r = calloc(1, sizeof *r);
    const uint32_t n = comm->rank == 0 ? comm->nrank : 1;
    enum plait_status status;

    if (r != NULL) {
        r->comm = comm;
        r->lines = calloc(n, sizeof *r->lines);
        r->known = calloc(n, sizeof *r->known);
    }
    if (r == NULL || r->lines == NULL || r->known == NULL) {
        if (r != NULL)
            discard(r);
        return plait_fail_memory("out of memory for a comm of %u ranks on several hosts", comm->nrank);
    }
    r->nline = n;
    for (uint32_t i = 0; i < n; i++)
        plait_line_open(&r->lines[i], -1);
    pthread_mutex_lock(&life);
    pthread_mutex_lock(&lock);
    status = start_thread();
    if (status == PLAIT_OK) {
        r->next = remotes;
        remotes = r;
        *out = r;
    }
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&life);
    if (status != PLAIT_OK)
        discard(r);
    return status;
}

void plait_remote_begin(struct plait_remote *r, const int *sockets)
{
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < r->nline; i++) {
        plait_line_open(&r->lines[i], r->comm->rank > 0 || i > 0 ? sockets[i] : -1);
        r->lines[i].heard = plait_clock();
    }
    pthread_mutex_unlock(&lock);
    ring();
}

double plait_remote_heard(const struct plait_remote *r, uint32_t rank)
{
    const struct plait_replica *m = r->comm->peers[rank].replica;
    const double told =
        r->comm->rank == 0 ? plait_clock() : atomic_load_explicit(&r->lines[0].heard, memory_order_relaxed);
    const double silent = m != NULL ? atomic_load_explicit(&m->silent, memory_order_relaxed) : 0;

    return silent > 0 && silent < told ? silent : told;
}

enum plait_status plait_remote_check(const struct plait_remote *r)
{
    return r == NULL || !atomic_load(&r->lost) ? PLAIT_OK : plait_fail(PLAIT_ERR_SYSTEM, "%s", r->loss);
}

bool plait_remote_is_over(const struct plait_remote *r)
{
    return r != NULL && atomic_load(&r->over);
}

void plait_remote_tell(struct plait_remote *remote)
{
    if (remote != NULL)
        ring();
}

void plait_remote_depart(struct plait_remote *r)
{
    struct timespec until;

    if (r == NULL)
        return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)LAST_WORD;
    pthread_mutex_lock(&lock);
    atomic_store(&r->leaving, true);
    ring();
    while (!r->left && pthread_cond_timedwait(&gone, &lock, &until) == 0)
        ;
    pthread_mutex_unlock(&lock);
}

void plait_remote_destroy(struct plait_remote *r)
{
    struct plait_remote **link;

    if (r == NULL)
        return;
    pthread_mutex_lock(&life);
    pthread_mutex_lock(&lock);
    for (link = &remotes; *link != r; link = &(*link)->next)
        ;
    *link = r->next;
    if (remotes == NULL)
        stop_thread();
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&life);
    discard(r);
}

/* The child has neither thread nor comms. It closes its copies of the connections, whose end means a death. */
void plait_remotes_fork(enum plait_fork when)
{
    if (when == PLAIT_FORK_BEFORE) {
        pthread_mutex_lock(&life);
        pthread_mutex_lock(&lock);
        return;
    }
    for (struct plait_remote *r = remotes; when == PLAIT_FORK_CHILD && r != NULL; r = r->next)
        for (uint32_t i = 0; i < r->nline; i++)
            plait_line_close(&r->lines[i]);
    if (when == PLAIT_FORK_CHILD) {
        close_doorbell();
        running = false;
        remotes = NULL;
    }
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&life);
}
