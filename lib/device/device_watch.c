/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The watch releases streams that wait for a rank that will never come. While operations are on a device, no thread on
 * the host waits for them. So one thread of this process checks every millisecond whether a comm has failed or a rank
 * has died. Then it sets the comm's own flags, again and again, until the streams have passed. The data of those
 * operations is lost; the comm reports the error.
 */
#include "device_comm.h"

#include "base/status.h"
#include "failure/failure.h"
#include "progress/detector.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define EVERY 1000 /* us */

static pthread_mutex_t life = PTHREAD_MUTEX_INITIALIZER; /* held while the thread starts or ends, before `lock` */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct plait_device_comm *watched; /* the thread runs while there are some */
static pthread_t thread;

static void forget_parent(void)
{
    watched = NULL;
}

const struct plait_fork_module plait_device_watch_fork = { .lock = &life, .second = &lock, .forget = forget_parent };

/* May an operation of the comm still be on a stream? */
static bool is_under_way(const struct plait_device_comm *d)
{
    return d->captured || !plait_device_has_passed_all(d);
}

/* Find a rank that will never set the flags that this rank's streams wait for. */
static void check_others(struct plait_comm *comm)
{
    char text[256];

    for (uint32_t r = 0; r < comm->nrank; r++) {
        const struct plait_control *c = comm->peers[r].control;
        const int32_t failed = atomic_load(&c->failed);
        if (failed != PLAIT_OK) {
            plait_announce_failure(comm, (enum plait_status)failed, c->failure, c->culprit);
            return;
        }
        /* Check in this order: a rank that ended normally set `departed` before. */
        if (r == comm->rank || !plait_peer_died(&comm->peers[r]) || atomic_load(&c->departed))
            continue;
        snprintf(text, sizeof text,
                 "comm '%s' after operation #%llu: rank %u (process %d) died while operations were on "
                 "a GPU",
                 comm->name, (unsigned long long)atomic_load(&comm->own->done), r, plait_peer_pid(&comm->peers[r]));
        plait_announce_failure(comm, PLAIT_ERR_PEER, text, r + 1);
        return;
    }
}

static void set_flags(const struct plait_device_comm *d)
{
    const size_t words = plait_flag_words(d->comm->nrank) * (d->captured ? 2 : 1);
    struct plait_signal batch[PLAIT_NBATCH];

    for (size_t i = 0; i < words;) {
        size_t n = 0;
        for (; n < PLAIT_NBATCH && i < words; n++, i++)
            batch[n] = (struct plait_signal){ PLAIT_SIGNAL_SET, 1, (uintptr_t)d->flags + i * 4 };
        d->plugin->signal(d->rescue, batch, n);
    }
}

static void check(struct plait_device_comm *d)
{
    struct plait_comm *comm = d->comm;
    bool done; /* the last round's flags are set: more rounds at once would keep the device busy for ever */

    if (!is_under_way(d) && atomic_load(&comm->own->failed) == PLAIT_OK)
        return;
    if (atomic_load(&comm->own->failed) == PLAIT_OK)
        check_others(comm);
    if (atomic_load(&comm->own->failed) != PLAIT_OK && d->plugin->query(d->rescue, &done) == NULL && done)
        set_flags(d);
}

static void *work(void *arg)
{
    for (bool more = true; more; usleep(EVERY)) {
        pthread_mutex_lock(&lock);
        for (struct plait_device_comm *d = watched; d != NULL; d = d->next)
            check(d);
        more = watched != NULL;
        pthread_mutex_unlock(&lock);
    }
    return arg;
}

enum plait_status plait_device_watch(struct plait_device_comm *d)
{
    int error = 0;

    pthread_mutex_lock(&life);
    pthread_mutex_lock(&lock);
    d->next = watched;
    watched = d;
    if (d->next == NULL)
        error = plait_thread_start(&thread, work, NULL);
    if (error != 0)
        watched = NULL;
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&life);
    return error == 0 ? PLAIT_OK : plait_fail_errno(error, "cannot start the thread that watches operations on GPUs");
}

void plait_device_unwatch(struct plait_device_comm *d)
{
    struct plait_device_comm **at = &watched;

    pthread_mutex_lock(&life);
    pthread_mutex_lock(&lock);
    while (*at != NULL && *at != d)
        at = &(*at)->next;
    const bool found = *at != NULL, last = found && watched == d && d->next == NULL;
    if (found)
        *at = d->next;
    pthread_mutex_unlock(&lock);
    if (last)
        pthread_join(thread, NULL);
    pthread_mutex_unlock(&life);
}
