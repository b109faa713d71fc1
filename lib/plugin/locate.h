/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface of the plug-in that knows the host's hardware: a shared object `plait-NAME.so` that exports one
 * `const struct plait_locate_plugin plait_locate_plugin`. It calls nothing of libplait; topology/ is one, by hwloc. No
 * two threads call it at once.
 */
#ifndef PLAIT_LIB_PLUGIN_LOCATE_H
#define PLAIT_LIB_PLUGIN_LOCATE_H

#include <plait/topology.h>

#include <sched.h>
#include <stdbool.h>

#define PLAIT_LOCATE_ABI 1 /* changes with the declarations below; a plug-in with another number is refused */

enum plait_bind { PLAIT_BIND_NONE, PLAIT_BIND_CORE, PLAIT_BIND_CACHE, PLAIT_BIND_PACKAGE };

struct plait_locate_plugin {
    uint32_t abi;
    /*
     * Fill all of `out` for a thread that may run on `cpus`, but for `known`.
     *
     * devices  find GPUs and NICs, too, which takes longer
     * Returns false, with the reason in out->text, if the hardware cannot be read.
     */
    bool (*locate)(const cpu_set_t *cpus, bool devices, struct plait_locality *out);
    /*
     * Bind the calling thread to object index * n / of, of the n objects of this unit. *cpus: in, where it may run now;
     * out, where it may run then. If the topology is not this machine's (HWLOC_SYNTHETIC, HWLOC_XMLFILE), it is only
     * said.
     *
     * Returns false, with the reason in `why` [room], if the thread was not bound; not if it was bound before.
     */
    bool (*bind)(enum plait_bind unit, uint32_t index, uint32_t of, cpu_set_t *cpus, char *why, size_t room);
};

#endif
