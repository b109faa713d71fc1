/* SPDX-License-Identifier: BSD-3-Clause */
#include "device_maps.h"

#include <pthread.h>
#include <stdlib.h>

#define BLOCK ((uint64_t)2 << 20) /* bytes: the driver's own allocation unit, which it cuts into small allocations */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct plait_mapped *all;

/* The child has none of the parent's mappings and must not close them. */
void plait_device_maps_fork(enum plait_fork when)
{
    plait_fork_lock(when, &lock);
    if (when == PLAIT_FORK_CHILD)
        all = NULL;
}

static bool is_of(const struct plait_mapped *m, const struct plait_mappable *what)
{
    return m->process.word[0] == what->process.word[0] && m->process.word[1] == what->process.word[1] &&
           m->device == what->device;
}

/* Compared in whole units of `unit` bytes. */
static bool overlaps(const struct plait_exported *a, const struct plait_exported *b, uint64_t unit)
{
    return a->base / unit <= (b->base + b->bytes - 1) / unit && b->base / unit <= (a->base + a->bytes - 1) / unit;
}

bool plait_device_is_taken(const struct plait_mappable *what)
{
    bool taken = false;

    pthread_mutex_lock(&lock);
    for (const struct plait_mapped *m = all; m != NULL && !taken; m = m->next)
        taken =
            is_of(m, what) && !plait_device_is_same(&m->memory, what->memory) && overlaps(&m->memory, what->memory, 1);
    pthread_mutex_unlock(&lock);
    return taken;
}

/* Close all mappings that overlap; their users still give their shares back. */
static const char *close_stale(const struct plait_mappable *what, uint64_t unit)
{
    const char *why = NULL;

    for (struct plait_mapped **link = &all; *link != NULL && why == NULL;) {
        struct plait_mapped *m = *link;
        if (!is_of(m, what) || !overlaps(&m->memory, what->memory, unit)) {
            link = &m->next;
            continue;
        }
        *link = m->next;
        atomic_store(&m->closed, true);
        why = m->plugin->unmap(m->at);
    }
    return why;
}

static const char *map_new(const struct plait_mappable *what, struct plait_mapped *m)
{
    bool taken = false;
    const char *why = close_stale(what, 1);

    if (why == NULL)
        why = what->plugin->map(&what->memory->handle, what->device, &m->at, &taken);
    if (why == NULL || !taken)
        return why;
    why = close_stale(what, BLOCK); /* the driver freed a block of several small allocations */
    return why != NULL ? why : what->plugin->map(&what->memory->handle, what->device, &m->at, &taken);
}

static struct plait_mapped *find(const struct plait_mappable *what)
{
    struct plait_mapped *m;

    for (m = all; m != NULL && !(is_of(m, what) && plait_device_is_same(&m->memory, what->memory)); m = m->next)
        ;
    return m;
}

const char *plait_device_map(const struct plait_mappable *what, struct plait_mapped **out)
{
    const char *why = NULL;

    pthread_mutex_lock(&lock);
    struct plait_mapped *m = find(what);
    if (m == NULL) {
        m = calloc(1, sizeof *m);
        why = m == NULL ? "out of memory for what another process has shown" : map_new(what, m);
        if (why == NULL) {
            m->plugin = what->plugin;
            m->process = what->process;
            m->device = what->device;
            m->memory = *what->memory;
            m->next = all;
            all = m;
        } else {
            free(m);
        }
    }
    if (why == NULL) {
        m->users++;
        *out = m;
    }
    pthread_mutex_unlock(&lock);
    return why;
}

const char *plait_device_unmap(struct plait_mapped *m)
{
    const char *why = NULL;

    if (m == NULL)
        return NULL;
    pthread_mutex_lock(&lock);
    if (--m->users == 0) {
        struct plait_mapped **link = &all;
        while (*link != NULL && *link != m)
            link = &(*link)->next;
        if (*link != NULL)
            *link = m->next;
        if (!atomic_load(&m->closed))
            why = m->plugin->unmap(m->at);
        free(m);
    }
    pthread_mutex_unlock(&lock);
    return why;
}
