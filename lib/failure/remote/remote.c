/* SPDX-License-Identifier: BSD-3-Clause */
#include "remote.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/fork.h"
#include "base/status.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEARTBEAT    0.5 /* seconds after which an unchanged update is sent again */
#define TICK         0.1 /* seconds between turns of the thread */
#define LAST_WORD    1.0 /* seconds, at most, to send a rank's last update */
#define DEPARTING_US 200 /* between turns of a rank that leaves */

/* A connection: rank 0 has one to each rank, its own unused; the others have one, to rank 0. */
struct line {
    struct plait_control_update update; /* the last one of the rank at the other end; line 0: of this rank */
    uint64_t version;                   /* of `update`; 0: none yet */
    uint64_t told, upto;                /* the last version that was sent; that of the pass that goes on */
    int fd;                             /* -1: closed */
    _Atomic double heard;               /* clock of the last update that arrived */
    bool silent;                        /* rank 0: the others were told of the silence of the rank */
    uint32_t next;                      /* line whose update is looked at next; 0: a pass begins */
    size_t have, filled, sent;          /* bytes of `in`; of `out` */
    char in[2 * sizeof(struct plait_control_update)], out[4 * sizeof(struct plait_control_update)];
};

struct plait_remote {
    struct plait_remote *next;
    struct plait_comm *comm;
    uint32_t nline;
    bool leaving;
    atomic_bool over;        /* the connection to rank 0 has ended */
    atomic_bool lost;        /* the program has closed a descriptor */
    struct plait_error loss; /* which one; written before `lost` */
    double sent;             /* clock of this rank's last update */
    uint64_t newest;         /* version of the last update of any rank */
    struct line lines[];     /* [nline] */
};

static bool is_root(const struct plait_remote *r)
{
    return r->comm->rank == 0;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  /* of all variables below, and of the remotes */
static pthread_cond_t created = PTHREAD_COND_INITIALIZER; /* a remote */
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

/* ---- Updates ---------------------------------------------------------------------------------------------- */

/* Make a new update of this rank if its state has changed or a heartbeat is due. */
static void update_own(struct plait_remote *r, double now)
{
    struct line *k = &r->lines[0]; /* on rank 0, too */
    struct plait_control_update update;

    plait_control_update_write(r->comm->own, plait_control_wanted(r->comm), (uint64_t)(now * 1e9), &update);
    update.departed = r->leaving;
    if (k->version > 0 && plait_control_update_same(&update, &k->update) && now - r->sent < HEARTBEAT)
        return;
    k->update = update;
    k->version = ++r->newest;
    r->sent = now;
}

/* Take an update of another rank: apply it to the replica, if there is one; rank 0 keeps it to relay it. */
static void learn(struct plait_remote *r, const struct plait_control_update *update, double now)
{
    struct plait_replica *replica = r->comm->peers[update->rank].replica;

    if (replica != NULL)
        plait_control_update_apply(update, replica, (uint64_t)(now * 1e9));
    if (!is_root(r))
        return;
    struct line *k = &r->lines[update->rank];
    if (k->version == 0 || !plait_control_update_same(update, &k->update))
        k->version = ++r->newest;
    k->update = *update;
}

/* Rank 0 reports a rank as dead or silent: the rank's last update, with the current clock. Not after a departure. */
static void report(struct plait_remote *r, uint32_t rank, bool dead, double now)
{
    const double silence = now - r->lines[rank].heard;
    struct plait_control_update update = r->lines[rank].update;

    if (update.departed)
        return;
    update.now += (uint64_t)(silence * 1e9);
    update.dead = dead;
    update.silence = dead ? 0 : (uint32_t)(silence * 1e3);
    learn(r, &update, now);
}

/* The program has closed a descriptor: keep the error. */
static void note_loss(struct plait_remote *r, enum plait_status status)
{
    if (atomic_load(&r->lost))
        return;
    r->loss = plait_error_of(status);
    atomic_store(&r->lost, true);
}

/* The connection has ended: its rank departed, it died, or the program has closed the descriptor. */
static void lose(struct plait_remote *r, uint32_t line, double now)
{
    struct plait_replica *replica = r->comm->peers[0].replica;
    const enum plait_status status = plait_descriptor_check(r->lines[line].fd);

    plait_descriptor_close(r->lines[line].fd);
    r->lines[line].fd = -1;
    if (!is_root(r))
        atomic_store(&r->over, true);
    if (status != PLAIT_OK) {
        note_loss(r, status);
    } else if (is_root(r)) {
        report(r, line, true, now);
    } else if (replica != NULL && !atomic_load_explicit(&replica->control.departed, memory_order_relaxed)) {
        atomic_store_explicit(&replica->dead, 1, memory_order_release);
    }
}

/* Take all updates that arrived; only rank 0 may send those of others. False: the connection has ended. */
static bool hear(struct plait_remote *r, uint32_t line, double now)
{
    struct line *l = &r->lines[line];
    struct plait_control_update update;
    ssize_t n;

    while ((n = recv(l->fd, l->in + l->have, sizeof l->in - l->have, MSG_DONTWAIT)) > 0) {
        size_t taken = 0, bytes;
        l->have += (size_t)n;
        while ((bytes = plait_control_update_read(l->in + taken, l->have - taken, r->comm->nrank, &update)) > 0) {
            if (bytes == SIZE_MAX ||
                (is_root(r) ? update.rank != line || update.dead || update.silence > 0 : update.rank == r->comm->rank))
                return false;
            taken += bytes;
            l->heard = now;
            l->silent = false;
            learn(r, &update, now);
        }
        l->have -= taken;
        memmove(l->in, l->in + taken, l->have);
    }
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

/* Rank 0: find ranks that missed their heartbeats, which come even while a rank computes. */
static void find_silent(struct plait_remote *r, double now)
{
    for (uint32_t rank = 1; is_root(r) && rank < r->nline; rank++) {
        struct line *l = &r->lines[rank];
        if (l->fd < 0 || l->silent || now - l->heard < PLAIT_REMOTE_SILENCE)
            continue;
        l->silent = true;
        report(r, rank, false, now);
    }
}

/* Send as much of `out` as the socket accepts. Returns whether that is all. A failure shows at the next read. */
static bool flush(struct line *l)
{
    while (l->sent < l->filled) {
        const ssize_t n = send(l->fd, l->out + l->sent, l->filled - l->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            return false;
        l->sent += n > 0 ? (size_t)n : 0;
    }
    l->filled = l->sent = 0;
    return true;
}

/* Send the updates that the other end lacks. True: all are sent. */
static bool speak(struct plait_remote *r, uint32_t line)
{
    struct line *l = &r->lines[line];

    while (l->fd >= 0 && (l->next > 0 || l->told != r->newest)) {
        const struct line *k = &r->lines[l->next];
        l->upto = l->next == 0 ? r->newest : l->upto;
        if (k->version > l->told && (!is_root(r) || l->next != line)) {
            if (sizeof l->out - l->filled < k->update.bytes && !flush(l))
                return false;
            memcpy(l->out + l->filled, &k->update, k->update.bytes);
            l->filled += k->update.bytes;
        }
        if (++l->next == r->nline) {
            l->next = 0;
            l->told = l->upto;
        }
    }
    return l->fd < 0 || flush(l);
}

/*
 * Rank 0 leaves when all have finished. Have updates from all of them said so, for it to relay? It may know of ranks on
 * its own host earlier, from their control blocks.
 */
static bool has_heard_all(const struct plait_remote *r)
{
    const uint64_t done = atomic_load_explicit(&r->comm->own->done, memory_order_relaxed);

    for (uint32_t rank = 1; is_root(r) && rank < r->nline; rank++)
        if (r->lines[rank].fd >= 0 && r->lines[rank].update.done < done &&
            atomic_load(&r->comm->own->failed) == PLAIT_OK)
            return false;
    return true;
}

/*
 * Take the updates that arrived, make those that are due, and send what the connections accept. The lock is held. True:
 * this rank leaves, and its last update is sent, or no connection is left.
 */
static bool turn(struct plait_remote *r)
{
    const double now = plait_clock();
    bool all = true;

    update_own(r, now);
    for (uint32_t i = 0; i < r->nline; i++)
        if (r->lines[i].fd >= 0 && (!plait_descriptor_is_ours(r->lines[i].fd) || !hear(r, i, now)))
            lose(r, i, now);
    find_silent(r, now);
    for (uint32_t i = 0; i < r->nline; i++)
        all &= speak(r, i);
    return all && r->leaving && has_heard_all(r);
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
        note_loss(r, status);
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
        while (remotes == NULL)
            pthread_cond_wait(&created, &lock);
        struct pollfd *list = gather(&n);
        pthread_mutex_unlock(&lock);
        poll(list, n, (int)(TICK * 1e3));
        free(list);
        pthread_mutex_lock(&lock);
        drain_doorbell();
        for (struct plait_remote *r = remotes; r != NULL; r = r->next)
            turn(r);
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
    pthread_cond_signal(&created);
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
    pthread_mutex_unlock(&lock);
    ring();
}

double plait_remote_heard(const struct plait_remote *r, uint32_t rank)
{
    const struct plait_replica *m = r->comm->peers[rank].replica;
    const double told = is_root(r) ? plait_clock() : atomic_load_explicit(&r->lines[0].heard, memory_order_relaxed);
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
    const double until = plait_clock() + LAST_WORD;

    if (r == NULL)
        return;
    pthread_mutex_lock(&lock);
    r->leaving = true;
    while (!turn(r) && plait_clock() < until) {
        pthread_mutex_unlock(&lock);
        usleep(DEPARTING_US);
        pthread_mutex_lock(&lock);
    }
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
    created = (pthread_cond_t)PTHREAD_COND_INITIALIZER; /* it counts the parent's thread as waiting */
}

const struct plait_fork_module plait_remotes_fork = { .lock = &lock, .forget = forget_parent };
