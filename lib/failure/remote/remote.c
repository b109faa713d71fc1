/* SPDX-License-Identifier: BSD-3-Clause */
#include "relay.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/fork.h"
#include "base/status.h"
#include "base/thread.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define TICK      0.1 /* seconds between turns of the thread */
#define LAST_WORD 1.0 /* seconds, at most, to send a rank's last update */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  /* of all variables below, and of the remotes */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER; /* the list of remotes, or `left` of one */
static struct plait_remote *remotes;
static pthread_t thread;
static bool running;
static atomic_int doorbell[2] = { -1, -1 }; /* a socket pair that wakes the thread: receiving end, ringing end */

/* Send an empty message: harmless if the program has reused the descriptor for its own socket. Signal-safe. */
static void ring(void)
{
    const int saved = errno;

    send(atomic_load(&doorbell[1]), "", 0, MSG_DONTWAIT | MSG_NOSIGNAL);
    errno = saved;
}

/* ---- The thread ------------------------------------------------------------------------------------------ */

static void close_doorbell(void)
{
    for (unsigned i = 0; i < 2; i++)
        plait_descriptor_close(atomic_exchange(&doorbell[i], -1));
}

/* Returns 0 or an errno. */
static int open_doorbell(void)
{
    int ends[2], error = 0;

    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        return errno;
    for (unsigned i = 0; i < 2; i++) {
        doorbell[i] = plait_descriptor_keep(ends[i], "waking the thread that hears of other hosts");
        error = doorbell[i] < 0 ? errno : error;
    }
    if (error != 0)
        close_doorbell();
    return error;
}

/* If the program has closed the doorbell, the comms on several hosts fail. */
static void drain_doorbell(void)
{
    char none;
    enum plait_status status = plait_descriptor_check(doorbell[0]);

    if (status == PLAIT_OK)
        status = plait_descriptor_check(doorbell[1]);
    for (struct plait_remote *r = remotes; r != NULL && status != PLAIT_OK; r = r->next)
        plait_relay_note_loss(r, status);
    if (status != PLAIT_OK)
        close_doorbell();
    while (doorbell[0] >= 0 && recv(doorbell[0], &none, sizeof none, MSG_DONTWAIT) >= 0)
        ;
}

/* The descriptors to poll, [*n], to be freed. Out of memory: none, as each tick serves all lines, too. */
static struct pollfd *gather(nfds_t *n)
{
    nfds_t need = 1, at = 0;

    for (const struct plait_remote *r = remotes; r != NULL; r = r->next)
        need += r->nline;
    struct pollfd *list = malloc(need * sizeof *list);
    if (list != NULL)
        list[at++] = (struct pollfd){ .fd = doorbell[0], .events = POLLIN };
    for (const struct plait_remote *r = remotes; r != NULL && list != NULL; r = r->next)
        for (uint32_t i = 0; i < r->nline; i++) { /* poll() ignores closed ones */
            const short events = r->lines[i].filled > 0 ? POLLIN | POLLOUT : POLLIN;
            list[at++] = (struct pollfd){ .fd = r->lines[i].fd, .events = events };
        }
    *n = at;
    return list;
}

static void *run(void *arg)
{
    nfds_t n;

    (void)arg;
    pthread_mutex_lock(&lock);
    for (;;) {
        if (remotes == NULL) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        struct pollfd *list = gather(&n);
        pthread_mutex_unlock(&lock);
        poll(list, n, (int)(TICK * 1e3));
        free(list);
        pthread_mutex_lock(&lock);
        drain_doorbell();
        for (struct plait_remote *r = remotes; r != NULL; r = r->next) {
            plait_relay_turn(r);
            if (r->left)
                pthread_cond_broadcast(&changed);
        }
    }
    return NULL;
}

/* ---- Life ------------------------------------------------------------------------------------------------- */

enum plait_status plait_remote_create(struct plait_comm *comm, struct plait_remote **out)
{
    const uint32_t n = comm->rank == 0 ? comm->nrank : 1;
    const size_t bytes = sizeof(struct plait_remote) + n * sizeof(struct line);
    struct plait_remote *r = aligned_alloc(_Alignof(struct plait_remote), bytes);

    if (r == NULL)
        return plait_fail_memory("out of memory for a comm of %u ranks on several hosts", comm->nrank);
    memset(r, 0, bytes);
    r->comm = comm;
    r->nline = n;
    for (uint32_t i = 0; i < n; i++) {
        r->lines[i].fd = -1;
        r->lines[i].update.rank = i;
        r->lines[i].update.bytes = PLAIT_CONTROL_UPDATE_LEAST;
    }
    pthread_mutex_lock(&lock);
    int error = doorbell[0] >= 0 ? 0 : open_doorbell();
    if (error == 0 && !running)
        error = plait_thread_start(&thread, run, NULL);
    running |= error == 0;
    r->next = remotes;
    remotes = error == 0 ? r : remotes;
    pthread_mutex_unlock(&lock);
    if (error == 0) {
        *out = r;
        return PLAIT_OK;
    }
    free(r);
    return plait_fail_errno(error, "no thread to hear of other hosts, for a comm of %u ranks", comm->nrank);
}

void plait_remote_begin(struct plait_remote *r, const int *sockets)
{
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < r->nline; i++) {
        r->lines[i].fd = r->comm->rank > 0 || i > 0 ? sockets[i] : -1;
        r->lines[i].heard = plait_clock();
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    ring();
}

double plait_remote_heard(const struct plait_remote *r, uint32_t rank)
{
    const struct plait_replica *m = r->comm->peers[rank].replica;
    const double told =
        plait_relay_is_root(r) ? plait_clock() : atomic_load_explicit(&r->lines[0].heard, memory_order_relaxed);
    const double silent = m != NULL ? atomic_load_explicit(&m->silent, memory_order_relaxed) : 0;

    return silent > 0 && silent < told ? silent : told;
}

enum plait_status plait_remote_check(const struct plait_remote *r)
{
    return r == NULL || !atomic_load(&r->lost) ? PLAIT_OK : plait_restore_error(&r->loss);
}

bool plait_remote_is_over(const struct plait_remote *r)
{
    return r != NULL && atomic_load(&r->over);
}

void plait_remote_tell(struct plait_remote *r)
{
    if (r != NULL)
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
    r->leaving = true;
    ring();
    while (!r->left && pthread_cond_timedwait(&changed, &lock, &until) == 0)
        ;
    pthread_mutex_unlock(&lock);
}

void plait_remote_destroy(struct plait_remote *r)
{
    struct plait_remote **link;

    if (r == NULL)
        return;
    pthread_mutex_lock(&lock);
    for (link = &remotes; *link != r; link = &(*link)->next)
        ;
    *link = r->next;
    pthread_mutex_unlock(&lock);
    for (uint32_t i = 0; i < r->nline; i++)
        plait_descriptor_close(r->lines[i].fd);
    free(r);
}

/* The child has neither thread nor comms. It closes its copies of the connections, whose end means a death. */
static void forget_parent(void)
{
    for (; remotes != NULL; remotes = remotes->next)
        for (uint32_t i = 0; i < remotes->nline; i++)
            plait_descriptor_close(remotes->lines[i].fd);
    close_doorbell();
    running = false;
    changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER; /* it counts the parent's thread as waiting */
}

const struct plait_fork_module plait_remotes_fork = { .lock = &lock, .forget = forget_parent };
