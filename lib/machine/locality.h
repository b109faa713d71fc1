/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a thread's processors lie, and binding it. */
#ifndef PLAIT_LIB_MACHINE_LOCALITY_H
#define PLAIT_LIB_MACHINE_LOCALITY_H

#include "base/config.h"
#include "plugin/locate.h"

/* Do all processors of this host share a cache and the one memory node? So says /sys; false also if it does not say. */
bool plait_is_one_place(void);

/*
 * Where the calling thread may run, after binding it as config->bind says: it is number `index` of the `of` ranks of
 * this host. Where there is one place only, and nothing to bind, hwloc is not loaded and `out` stays as it is. Else all
 * of it is written; what fails is said in out->text.
 */
void plait_locate(const struct plait_config *config, uint32_t index, uint32_t of, struct plait_locality *out);

#endif
