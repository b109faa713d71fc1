/* SPDX-License-Identifier: BSD-3-Clause */
/* The kind of device that this process uses, if it uses one: its plug-in, loaded at the first need. */
#ifndef PLAIT_LIB_MEMORY_DEVICES_H
#define PLAIT_LIB_MEMORY_DEVICES_H

#include "base/config.h"
#include "plugin/device.h"

#include <plait/status.h>

#include <stdatomic.h>

/* NULL: this process has used none, so that no memory is a device's. */
extern _Atomic(const struct plait_device_plugin *) plait_device;

static inline const struct plait_device_plugin *plait_device_used(void)
{
    return atomic_load_explicit(&plait_device, memory_order_acquire);
}

/* Load it. PLAIT_ERR_UNSUPPORTED says what there is not. */
enum plait_status plait_device_get(const struct plait_device_plugin **out);

/* The same where this process has loaded the driver already, so that buffers may be the device's; errors are logged. */
void plait_device_notice(const struct plait_config *config);

/* Free what plait_mem_alloc_as() gave; false: it did not. */
bool plait_device_free(void *memory, enum plait_status *status);

/*
 * For what has options.stream: is this memory of the GPU whose queue that is, or, where it is NULL, of none? Else the
 * error says what (a call and its argument) is not. memory: NULL is allowed. size: of its elements, to which
 * memory of a GPU must be aligned.
 */
enum plait_status plait_device_fits(const char *what, const void *memory, size_t size, const struct plait_queue *queue);

/*
 * A kernel that accesses an element across its alignment ends with an error that the process does not recover from:
 * PLAIT_ERR_ARG where this memory of a GPU is not a multiple of `size` bytes. The error begins with `call` and `which`.
 */
enum plait_status plait_device_aligned(const char *call, const char *which, const void *memory, size_t size);

/* For what takes no memory of devices yet: the error that names it, where this is such memory, or else PLAIT_OK. */
enum plait_status plait_device_refuse(const char *call, const char *which, const void *memory);

/* PLAIT_ERR_SYSTEM with what the plug-in said. */
enum plait_status plait_device_fail(const char *what, const char *why);

#endif
