/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a launcher does for its processes besides starting them: it carries a few bytes of rank 0 to the others.
 *
 * A plug-in is a shared object `plait-NAME.so` that exports one `const struct plait_pass_plugin plait_pass_plugin`,
 * loaded when a launcher is found to offer it (lib/plugin/plugin.h). It calls nothing of libplait. launchers/pmix/ is
 * one.
 */
#ifndef PLAIT_LIB_PLUGIN_PASS_H
#define PLAIT_LIB_PLUGIN_PASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAIT_PASS_ABI 1 /* changes with what is below; a plug-in with another number is refused */

struct plait_pass_plugin {
    uint32_t abi;
    /*
     * Rank 0 gives `bytes` under this key and goes on; the others wait for them.
     *
     * key      the same on all ranks, used once
     * seconds  at most; false after it, and for any other failure: `why` [room] has a reason
     */
    bool (*pass)(const char *key, uint32_t rank, void *bytes, size_t n, double seconds, char *why, size_t room);
};

#endif
