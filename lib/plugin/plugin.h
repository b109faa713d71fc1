/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room plugin: parts of the library that need other libraries, and their interfaces.
 *
 * Networks (net.h), devices (device.h) and launchers that pass bytes (pass.h) are shared objects. Each exports one
 * table of functions with a version number. A plug-in is loaded when it is first needed and is never unloaded.
 *
 * The room promises: libplait itself is linked with none of these libraries. A plug-in that is missing, of another
 * build or without its own libraries is an error that says what to install or set. Loading changes no signal handler.
 *
 * A plug-in calls nothing of libplait. The tables know no communicators, plans or settings.
 */
#ifndef PLAIT_LIB_PLUGIN_PLUGIN_H
#define PLAIT_LIB_PLUGIN_PLUGIN_H

#include "device.h"
#include "net.h"
#include "pass.h"

#include <plait/status.h>

/*
 * Load the network plait-NAME.so from `folder`, or, if that is "", from plait/ beside libplait; it is never unloaded.
 * Signal handlers that its libraries install while loading are undone, unless the environment has the variable `keep`,
 * by which the user asks for them. PLAIT_ERR_UNSUPPORTED if there is none; the text says what to install or set.
 */
enum plait_status plait_plugin_net(const char *name, const char *folder, const char *keep,
                                   const struct plait_net_plugin **out);

/* The same for a kind of device. */
enum plait_status plait_plugin_device(const char *name, const char *folder, const struct plait_device_plugin **out);

/* The same for a launcher's broadcast. */
enum plait_status plait_plugin_pass(const char *name, const char *folder, const struct plait_pass_plugin **out);

/* plugin->open() under the room's lock, with all signals blocked, as threads that it starts inherit the mask. */
bool plait_plugin_open_net(const struct plait_net_plugin *plugin, const struct plait_net_options *o,
                           struct plait_net **out, char *why, size_t room);

#endif
