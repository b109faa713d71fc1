/* SPDX-License-Identifier: BSD-3-Clause */
#include "device_watch.h"

#include "base/status.h"
#include "base/thread.h"
#include "failure/failure.h"
#include "progress/detector.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

#define EVERY_NS 1000000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;
static struct plait_device_comm *watched;
static pthread_t thread;
static uint32_t running;  /* the generation whose thread runs; 0: no thread runs */
static uintptr_t current; /* threads started with a smaller number end */

void plait_device_watch_fork(enum plait_fork when)
{
    if (when == PLAIT_FORK_BEFORE)
        pthread_mutex_lock(&lock);
    else
        pthread_mutex_unlock(&lock);
    if (when == PLAIT_FORK_CHILD)
        watched = NULL;
}

/* May an operation of the comm still be on a stream? */
static bool is_under_way(const struct plait_device_comm *d)
{
    bool passed = true;

    if (d->captured)
        return true;
    if (d->trails[0].called && d->plugin->passed(d->trails[0].end, &passed) != NULL)
        passed = true; /* the device is broken: the watch cannot help */
    return !passed;
}

/* Find a rank that will never give the flags that this rank's streams wait for. */
static void look_at_others(struct plait_comm *comm)
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

static void look(struct plait_device_comm *d)
{
    struct plait_comm *comm = d->comm;
    const size_t words = plait_flag_words(comm->nrank) * (d->captured ? 2 : 1);
    bool given; /* the last round's flags were given: more rounds at once would keep the device busy for ever */

    if (!is_under_way(d) && atomic_load(&comm->own->failed) == PLAIT_OK)
        return;
    if (atomic_load(&comm->own->failed) == PLAIT_OK)
        look_at_others(comm);
    if (atomic_load(&comm->own->failed) != PLAIT_OK && d->plugin->query(d->rescue, &given) == NULL && given)
        for (size_t i = 0; i < words; i++)
            d->plugin->give(d->rescue, (uintptr_t)d->flags + i * 4);
}

static void *work(void *arg)
{
    pthread_mutex_lock(&lock);
    while (current == (uintptr_t)arg) {
        struct timespec until;
        for (struct plait_device_comm *d = watched; d != NULL; d = d->next)
            look(d);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += EVERY_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&news, &lock, &until);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* The lock is held. */
static enum plait_status start(void)
{
    const int error = plait_thread_start(&thread, work, (void *)current);

    if (error != 0)
        return plait_fail_errno(error, "cannot start the thread that watches operations on GPUs");
    running = plait_generation;
    return PLAIT_OK;
}

enum plait_status plait_device_watch(struct plait_device_comm *d)
{
    enum plait_status status = PLAIT_OK;

    pthread_mutex_lock(&lock);
    d->next = watched;
    watched = d;
    if (running != plait_generation)
        status = start();
    if (status != PLAIT_OK)
        watched = d->next;
    pthread_mutex_unlock(&lock);
    return status;
}

void plait_device_unwatch(struct plait_device_comm *d)
{
    struct plait_device_comm **at = &watched;
    pthread_t last;

    pthread_mutex_lock(&lock);
    while (*at != NULL && *at != d)
        at = &(*at)->next;
    if (*at != NULL)
        *at = d->next;
    const bool stops = watched == NULL && running == plait_generation;
    if (stops) {
        current++;
        running = 0;
        last = thread;
        pthread_cond_broadcast(&news);
    }
    pthread_mutex_unlock(&lock);
    if (stops)
        pthread_join(last, NULL);
}
