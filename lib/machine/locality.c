/* SPDX-License-Identifier: BSD-3-Clause */
#include "locality.h"

#include "base/log.h"
#include "plugin/plugin.h"

#include <plait/status.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local struct {
    bool done;
    cpu_set_t cpus;
} bound; /* what the thread was bound to; on a described machine the kernel's mask does not show it */

static const struct plait_locate_plugin *load(const char *folder, struct plait_locality *out)
{
    const void *plugin;

    *out = (struct plait_locality){ .package = PLAIT_NOWHERE, .memory = PLAIT_NOWHERE, .cache = PLAIT_NOWHERE };
    if (plait_plugin_load(&plait_plugin_hwloc, folder, &plugin) == PLAIT_OK)
        return plugin;
    snprintf(out->text, sizeof out->text, "hosts are the only level: %s", plait_last_error());
    return NULL;
}

/* Under the plug-ins' lock. */
static void locate(const struct plait_locate_plugin *p, bool devices, struct plait_locality *out)
{
    cpu_set_t cpus;

    CPU_ZERO(&cpus);
    if (bound.done)
        cpus = bound.cpus;
    else
        sched_getaffinity(0, sizeof cpus, &cpus); /* more than 1024 processors: none is set, so all count */
    out->known = p->locate(&cpus, devices, out);
}

static void bind_thread(const struct plait_locate_plugin *p, enum plait_bind unit, uint32_t index, uint32_t of,
                        struct plait_locality *out)
{
    static const char *const units[] = { "none", "core", "cache", "package" };
    char why[128];

    if (unit == PLAIT_BIND_NONE || bound.done)
        return;
    CPU_ZERO(&bound.cpus);
    sched_getaffinity(0, sizeof bound.cpus, &bound.cpus);
    bound.done = p->bind(unit, index, of, &bound.cpus, why, sizeof why);
    if (!bound.done)
        snprintf(out->text, sizeof out->text, "not bound, although PLAIT_BIND is %s: %s", units[unit], why);
}

void plait_locate(const struct plait_config *config, uint32_t index, uint32_t of, struct plait_locality *out)
{
    const bool described = getenv("HWLOC_SYNTHETIC") != NULL || getenv("HWLOC_XMLFILE") != NULL;

    if (config->bind == PLAIT_BIND_NONE && !described && plait_is_one_place())
        return;
    const struct plait_locate_plugin *p = load(config->plugins, out);
    if (p == NULL)
        return;
    plait_plugins_lock();
    bind_thread(p, (enum plait_bind)config->bind, index, of, out);
    if (out->text[0] == '\0')
        locate(p, plait_log_wants(PLAIT_LOG_INFO), out);
    plait_plugins_unlock();
}

void plait_locality_get(struct plait_locality *out)
{
    struct plait_config config;

    if (out == NULL)
        return;
    if (plait_config_load(&config) != PLAIT_OK)
        config.plugins[0] = '\0';
    const struct plait_locate_plugin *p = load(config.plugins, out);
    if (p == NULL)
        return;
    plait_plugins_lock();
    locate(p, true, out);
    plait_plugins_unlock();
}
