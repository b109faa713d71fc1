/* SPDX-License-Identifier: BSD-3-Clause */
#include "mapped.h"

#include "../lib/base/fork.h"

#include <pthread.h>
#include <stdlib.h>

#define BLOCK ((uint64_t)2 << 20) /* bytes: the driver's own allocation unit, which it cuts into small allocations */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct plait_mapped *all;

/* The child has none of the parent's mappings and must not close them. */
static void forget_parent(void)
{
    all = NULL;
}

const struct plait_fork_module plait_device_maps_fork = { .lock = &lock, .forget = forget_parent };

/* Lies another allocation of the process where this one lies? In units of `unit` bytes. */
static bool is_in_the_way(const struct plait_mapped *m, const struct plait_mapped *of, uint64_t unit)
{
    const struct plait_exported *a = &m->memory, *b = &of->memory;

    return m->device == of->device && plait_is_same_token(m->process, of->process) && !plait_is_same_export(a, b) &&
           a->base / unit <= (b->base + b->bytes - 1) / unit && b->base / unit <= (a->base + a->bytes - 1) / unit;
}

bool plait_device_is_taken(const struct plait_mapped *wanted)
{
    bool taken = false;

    pthread_mutex_lock(&lock);
    for (const struct plait_mapped *m = all; m != NULL && !taken; m = m->next)
        taken = is_in_the_way(m, wanted, 1);
    pthread_mutex_unlock(&lock);
    return taken;
}

static const char *close_stale(const struct plait_mapped *wanted, uint64_t unit)
{
    const char *why = NULL;

    for (struct plait_mapped **link = &all; *link != NULL && why == NULL;) {
        struct plait_mapped *m = *link;
        if (!is_in_the_way(m, wanted, unit)) {
            link = &m->next;
            continue;
        }
        *link = m->next;
        atomic_store(&m->closed, true);
        why = m->plugin->close_import(m->at);
    }
    return why;
}

const char *plait_device_map(const struct plait_mapped *wanted, struct plait_mapped **out)
{
    struct plait_mapped *m = malloc(sizeof *m);
    bool taken = false;

    if (m == NULL)
        return "out of memory for what another process has exported";
    *m = *wanted;
    pthread_mutex_lock(&lock);
    const char *why = close_stale(m, 1);
    if (why == NULL)
        why = m->plugin->import_memory(&m->memory, m->device, &m->at, &taken);
    if (taken) /* the driver freed a block of several small allocations */
        why = close_stale(m, BLOCK);
    if (taken && why == NULL)
        why = m->plugin->import_memory(&m->memory, m->device, &m->at, &taken);
    if (why == NULL) {
        m->next = all;
        *out = all = m;
    } else {
        free(m);
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
    struct plait_mapped **link = &all;
    while (*link != NULL && *link != m)
        link = &(*link)->next;
    if (*link != NULL) {
        *link = m->next;
        why = m->plugin->close_import(m->at);
    }
    pthread_mutex_unlock(&lock);
    free(m);
    return why;
}
