/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room plugin: parts of the library that need other libraries, and their interfaces.
 *
 * Networks (net.h), devices (device.h), launchers that pass bytes (pass.h), the host's hardware (locate.h) and JSON
 * files (files.h) are shared objects. Each exports one table of functions with a version number. A plug-in is loaded
 * when it is first needed and is never unloaded.
 *
 * The room promises: libplait itself is linked with none of these libraries. A plug-in that is missing, of another
 * build or without its own libraries is an error that says what to install or set. Loading changes no signal handler.
 *
 * A plug-in calls nothing of libplait. The tables know no communicators, plans or settings.
 */
#ifndef PLAIT_LIB_PLUGIN_PLUGIN_H
#define PLAIT_LIB_PLUGIN_PLUGIN_H

#include "device.h"
#include "files.h"
#include "locate.h"
#include "net.h"
#include "pass.h"
#include "tuning.h"

#include <plait/status.h>

struct plait_plugin {
    const char *name, *symbol; /* plait-NAME.so exports the table under this symbol */
    const char *built;         /* its folder in a build folder */
    uint32_t abi;
    const char *remedy; /* for a build that lacks it */
    const char *keep;   /* variable by which the user asks for the signal handlers of its libraries; NULL: none */
};
extern const struct plait_plugin plait_plugin_ucx, plait_plugin_pmix, plait_plugin_pmi, plait_plugin_cuda,
    plait_plugin_hwloc, plait_plugin_json;

/*
 * Load plait-NAME.so from `folder`, or, if that is "", from `built` or plait/ beside libplait; it is never unloaded.
 * *out is its table. Signal handlers that its libraries install while loading are undone. PLAIT_ERR_UNSUPPORTED if
 * there is none; the text says what to install or set.
 */
enum plait_status plait_plugin_load(const struct plait_plugin *plugin, const char *folder, const void **out);

/* The room's lock, for tables whose functions no two threads may call at once. */
void plait_plugins_lock(void);
void plait_plugins_unlock(void);

/* plugin->open() under the room's lock, with all signals blocked, as threads that it starts inherit the mask. */
bool plait_plugin_open_net(const struct plait_net_plugin *plugin, const struct plait_net_options *o,
                           struct plait_net **out, char *why, size_t room);

/* The plug-in for JSON files, from the folder of PLAIT_PLUGINS. An error begins with `name`: what it is needed for. */
enum plait_status plait_plugin_load_files(const char *name, const struct plait_files_plugin **out);

/* Read a file. *text, with a zero behind its `bytes`, is to be freed. PLAIT_ERR_SYSTEM: see the text. */
enum plait_status plait_file_read(const char *path, char **text, size_t *bytes);

#endif
