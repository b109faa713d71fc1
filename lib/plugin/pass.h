/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface of a launcher plug-in: the launcher broadcasts a few bytes of rank 0 to the other ranks.
 *
 * A plug-in is a shared object `plait-NAME.so` that exports one `const struct plait_pass_plugin plait_pass_plugin`,
 * loaded when a launcher with this service is detected (lib/plugin/plugin.h). It calls nothing of libplait.
 * launchers/pmix/ and launchers/pmi/ are two.
 */
#ifndef PLAIT_LIB_PLUGIN_PASS_H
#define PLAIT_LIB_PLUGIN_PASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAIT_PASS_ABI 1 /* changes with the declarations below; a plug-in with another number is refused */

struct plait_pass_plugin {
    uint32_t abi;
    /*
     * Rank 0 publishes `bytes` [n] under the key and returns; the other ranks wait for them.
     *
     * key      equal on all ranks, used once
     * seconds  time limit
     * Returns false after the time limit and on any other failure, with the reason in `why` [room].
     */
    bool (*pass)(const char *key, uint32_t rank, void *bytes, size_t n, double seconds, char *why, size_t room);
};

#endif
