/* SPDX-License-Identifier: BSD-3-Clause */
#include "remote.h"

#include "line.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/fork.h"
#include "base/status.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TICK      0.1 /* seconds between turns of the thread */
#define HEARTBEAT 0.5 /* seconds after which an unchanged update is sent again */
#define LAST_WORD 1.0 /* seconds, at most, to send a rank's last update */

struct plait_remote {
    struct plait_remote *next;
    struct plait_comm *comm;
    struct plait_line *lines; /* rank 0: [nrank], its own unused; else one, to rank 0 */
    uint32_t nline;
    atomic_bool leaving;
    atomic_bool over; /* the connection to rank 0 has ended */
    atomic_bool lost; /* the program has closed a descriptor; `loss` says which */
    char loss[256];
    bool begun;
    bool left;            /* the last update is sent, or no connection is left */
    double seen, sent;    /* clock of the rank's last probe; of its last update */
    _Atomic double heard; /* clock of the last update that arrived; from rank 0, but on rank 0 itself */
    uint32_t looks;
    uint64_t newest;     /* version of the last update of any rank */
    struct plait_known { /* the last update; rank 0: of each rank; else of this one */
        uint64_t version;
        double heard; /* rank 0: clock of the last update from the rank */
        bool silent;  /* the others were told of the rank's silence */
        char news[PLAIT_CONTROL_UPDATE_MOST];
    } * known;
};

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

static bool is_root(const struct plait_remote *r)
{
    return r->comm->rank == 0;
}

/* ---- Updates --------------------------------------------------------------------------------------------- */

static uint32_t bytes_of(const char *news)
{
    uint32_t bytes;

    memcpy(&bytes, news, sizeof bytes);
    return bytes;
}

/* Are two updates equal but for their clocks? */
static bool same(const char *a, const char *b)
{
    struct plait_control_update x, y;

    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    x.now = y.now = 0;
    return memcmp(&x, &y, sizeof x) == 0 && memcmp(a + sizeof x, b + sizeof y, x.bytes - sizeof x) == 0;
}

static struct plait_known *known_of(struct plait_remote *r, uint32_t rank)
{
    return is_root(r) ? &r->known[rank] : r->known;
}

/* The first operation that some rank of another host has yet to compare with this rank's, by its last update. */
static uint64_t wanted(const struct plait_remote *r)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t rank = 0; rank < r->comm->nrank; rank++) {
        const struct plait_replica *m = r->comm->peers[rank].replica;
        if (m != NULL && m->wanted < least)
            least = m->wanted;
    }
    return least > 0 ? least : 1;
}

/* Make a new update of this rank if its state has changed or a heartbeat is due. */
static void look_at_own(struct plait_remote *r, double now)
{
    const struct plait_control *own = r->comm->own;
    const double seen = atomic_load_explicit(&own->seen, memory_order_relaxed);
    struct plait_known *k = known_of(r, r->comm->rank);
    char news[PLAIT_CONTROL_UPDATE_MOST];

    r->looks += seen != r->seen;
    r->seen = seen;
    plait_control_update_write(own, wanted(r), r->looks, (uint64_t)(now * 1e9), atomic_load(&r->leaving), news);
    if (k->version > 0 && same(news, k->news) && now - r->sent < HEARTBEAT)
        return;
    memcpy(k->news, news, bytes_of(news));
    k->version = ++r->newest;
    r->sent = now;
}

/* Take an update of another rank: apply it to the replica, if there is one; rank 0 keeps it to relay it. */
static void learn(struct plait_remote *r, const char *news, double now)
{
    struct plait_control_update head;
    struct plait_replica *replica;

    memcpy(&head, news, sizeof head);
    replica = r->comm->peers[head.rank].replica;
    if (replica != NULL)
        plait_control_update_apply(news, replica, (uint64_t)(now * 1e9));
    if (!is_root(r))
        return;
    struct plait_known *k = &r->known[head.rank];
    if (k->version == 0 || !same(news, k->news))
        k->version = ++r->newest;
    memcpy(k->news, news, head.bytes);
}

/* Rank 0 reports a rank as dead or silent: the rank's last update, with the current clock. Not after a departure. */
static void add(struct plait_remote *r, uint32_t rank, bool dead, double now)
{
    const struct plait_known *k = &r->known[rank];
    struct plait_control_update head = { .bytes = sizeof head + sizeof(struct plait_progress), .rank = rank };
    char news[PLAIT_CONTROL_UPDATE_MOST] = "";

    if (k->version > 0) {
        memcpy(news, k->news, sizeof news);
        memcpy(&head, news, sizeof head);
    }
    if (head.departed)
        return;
    head.now += (uint64_t)((now - k->heard) * 1e9);
    head.dead = dead;
    head.silence = dead ? 0 : (uint32_t)((now - k->heard) * 1e3);
    memcpy(news, &head, sizeof head);
    learn(r, news, now);
}

/* The connection to `rank` has ended: it departed, or it died. */
static void lose(struct plait_remote *r, uint32_t rank, double now)
{
    struct plait_replica *replica = r->comm->peers[rank].replica;

    if (is_root(r)) {
        add(r, rank, true, now);
        return;
    }
    atomic_store(&r->over, true);
    if (replica != NULL && !atomic_load_explicit(&replica->control.departed, memory_order_relaxed))
        atomic_store_explicit(&replica->dead, 1, memory_order_release);
}

/* ---- Lines ----------------------------------------------------------------------------------------------- */

static uint32_t rank_at(const struct plait_remote *r, uint32_t line)
{
    return is_root(r) ? line : 0;
}

/* Take all updates that arrived; only rank 0 may send those of others. False: the line is closed. */
static bool hear(struct plait_remote *r, uint32_t line, double now)
{
    struct plait_line *l = &r->lines[line];
    const bool open = plait_line_read(l);
    const char *news;

    while ((news = plait_line_next(l, r->comm->nrank)) != NULL) {
        struct plait_control_update head;
        memcpy(&head, news, sizeof head);
        if (is_root(r) ? head.rank == line && !head.dead && head.silence == 0 : head.rank != r->comm->rank)
            learn(r, news, now);
        else
            plait_line_close(l);
        atomic_store_explicit(&r->heard, now, memory_order_relaxed);
        r->known[line].heard = now;
        r->known[line].silent = false;
    }
    return open && l->fd >= 0;
}

/* Rank 0: find ranks that missed their heartbeats, which come even while a rank computes. */
static void miss(struct plait_remote *r, double now)
{
    for (uint32_t rank = 1; is_root(r) && rank < r->nline; rank++) {
        struct plait_known *k = &r->known[rank];
        if (r->lines[rank].fd < 0 || k->silent || now - k->heard < PLAIT_REMOTE_SILENCE)
            continue;
        k->silent = true;
        add(r, rank, false, now);
    }
}

/* Add the updates that the other end of an idle line lacks. */
static void speak(struct plait_remote *r, uint32_t line)
{
    struct plait_line *l = &r->lines[line];
    const uint32_t n = is_root(r) ? r->comm->nrank : 1;

    if (!plait_line_is_idle(l) || l->told == r->newest)
        return;
    for (uint32_t k = 0; k < n; k++)
        if (r->known[k].version > l->told && (!is_root(r) || k != line) &&
            !plait_line_add(l, r->known[k].news, bytes_of(r->known[k].news)))
            return; /* out of memory: retry at the next turn */
    l->told = r->newest;
}

/*
 * Rank 0 leaves when all have finished. Have updates from all of them said so, for it to relay? It may know of ranks on
 * its own host earlier, from their control blocks.
 */
static bool has_heard_all(const struct plait_remote *r)
{
    const uint64_t done = atomic_load_explicit(&r->comm->own->done, memory_order_relaxed);
    struct plait_control_update head;

    for (uint32_t rank = 1; is_root(r) && rank < r->nline; rank++) {
        memcpy(&head, r->known[rank].news, sizeof head);
        if (r->lines[rank].fd >= 0 && head.done < done && atomic_load(&r->comm->own->failed) == PLAIT_OK)
            return false;
    }
    return true;
}

/* The program has closed a descriptor of the remote: keep the last error as the reason. */
static void note_loss(struct plait_remote *r)
{
    if (atomic_load(&r->lost))
        return;
    snprintf(r->loss, sizeof r->loss, "%s", plait_last_error());
    atomic_store(&r->lost, true);
}

/* Is the line's descriptor still ours? One that the program has reused is left open. */
static bool look_at_line(struct plait_remote *r, uint32_t line)
{
    if (plait_descriptor_check(r->lines[line].fd) == PLAIT_OK)
        return true;
    note_loss(r);
    plait_line_close(&r->lines[line]);
    if (!is_root(r))
        atomic_store(&r->over, true);
    return false;
}

static void serve(struct plait_remote *r, double now)
{
    bool busy = false;

    if (r->begun)
        look_at_own(r, now);
    for (uint32_t i = 0; i < r->nline; i++) {
        struct plait_line *l = &r->lines[i];
        if (l->fd >= 0 && look_at_line(r, i) && !hear(r, i, now) && look_at_line(r, i)) {
            plait_line_close(l);
            lose(r, rank_at(r, i), now);
        }
    }
    miss(r, now);
    for (uint32_t i = 0; i < r->nline; i++) {
        struct plait_line *l = &r->lines[i];
        if (l->fd < 0 || !look_at_line(r, i))
            continue;
        speak(r, i);
        plait_line_write(l);
        busy |= !plait_line_is_idle(l) || l->told != r->newest;
    }
    if (!busy && atomic_load(&r->leaving) && !r->left && has_heard_all(r)) {
        r->left = true;
        pthread_cond_broadcast(&gone);
    }
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
        for (uint32_t i = 0; i < r->nline; i++)
            if (r->lines[i].fd >= 0)
                list[at++] = (struct pollfd){
                    .fd = r->lines[i].fd,
                    .events = (short)(POLLIN | (plait_line_is_idle(&r->lines[i]) ? 0 : POLLOUT)),
                };
    *n = at;
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

/* Drain the doorbell. If the program has closed it, the thread only runs at every tick. */
static void look_at_doorbell(void)
{
    char none;

    if (plait_descriptor_check(doorbell[0]) != PLAIT_OK || plait_descriptor_check(doorbell[1]) != PLAIT_OK) {
        for (struct plait_remote *r = remotes; r != NULL; r = r->next)
            note_loss(r);
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
        look_at_doorbell();
        const double now = plait_clock();
        for (struct plait_remote *r = remotes; r != NULL; r = r->next)
            serve(r, now);
    }
    pthread_mutex_unlock(&lock);
    free(list);
    return NULL;
}

/* With both locks held. */
static enum plait_status start_thread(void)
{
    sigset_t all, saved;
    int error;

    if (running && doorbell[0] >= 0)
        return PLAIT_OK;
    if (!open_doorbell())
        return plait_fail_errno(errno, "no descriptor for the thread that hears of other hosts");
    if (running) /* the thread runs, but had lost its doorbell */
        return PLAIT_OK;
    sigfillset(&all); /* the new thread takes none of the program's signals */
    pthread_sigmask(SIG_SETMASK, &all, &saved);
    running = true;
    error = pthread_create(&thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
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
    r->heard = plait_clock();
    for (uint32_t i = 0; i < r->nline; i++) {
        if (!is_root(r) || i > 0)
            plait_line_open(&r->lines[i], sockets[i]);
        r->known[i].heard = r->heard;
    }
    r->begun = true;
    pthread_mutex_unlock(&lock);
    ring();
}

double plait_remote_heard(const struct plait_remote *r, uint32_t rank)
{
    const struct plait_replica *m = r->comm->peers[rank].replica;
    const double told = is_root(r) ? plait_clock() : atomic_load_explicit(&r->heard, memory_order_relaxed);
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
