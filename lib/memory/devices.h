/* SPDX-License-Identifier: BSD-3-Clause */
/* The plug-in for this process's devices (GPUs), loaded at the first use. */
#ifndef PLAIT_LIB_MEMORY_DEVICES_H
#define PLAIT_LIB_MEMORY_DEVICES_H

#include "base/config.h"
#include "plugin/device.h"

#include <plait/status.h>

#include <stdatomic.h>

/* NULL: the process has used no device, so all memory is the host's. */
extern _Atomic(const struct plait_device_plugin *) plait_device;

/* May buffers lie elsewhere than in the host's memory: the process uses a device, or a test added a space? */
extern atomic_bool plait_other_spaces;

static inline const struct plait_device_plugin *plait_device_used(void)
{
    return atomic_load_explicit(&plait_device, memory_order_acquire);
}

/* Load the plug-in if needed. PLAIT_ERR_UNSUPPORTED names the missing part. */
enum plait_status plait_device_get(const struct plait_device_plugin **out);

/*
 * Load the plug-in if the program has loaded the driver: buffers may then be a device's. If that fails, memory of a
 * device is an error from then on (plait_device_find()), and so is asking for the current one (plait_device_now()).
 */
void plait_device_notice(const struct plait_config *config);

/*
 * After a failed call of the plug-in: is the device at fault? PLAIT_ERR_ARG: there is none of this number;
 * PLAIT_ERR_UNSUPPORTED: it cannot be used. `failed`, with the caller's text: it can. -1: the current device.
 */
enum plait_status plait_device_blame(const char *call, int device, enum plait_status failed);

/* Where does memory lie? In the host's if it is NULL or no device is used. The error begins with `call` and `which`. */
enum plait_status plait_device_find(const char *call, const char *which, const void *memory,
                                    struct plait_location *out);

/* Free memory that the driver allocated. PLAIT_ERR_ARG: it is the host's. */
enum plait_status plait_device_free(void *memory);

/*
 * For calls with options.stream: check that `memory` (NULL is allowed) is on the queue's GPU, or, if `queue` is NULL,
 * on no GPU. `what` names the call and its argument in the error. GPU memory must be aligned to `size`, the bytes of an
 * element.
 */
enum plait_status plait_device_fits(const char *what, const void *memory, size_t size, const struct plait_queue *queue);

/* Error text: what memory is that the driver does not know. */
extern const char plait_device_unknown[];

/*
 * PLAIT_ERR_ARG unless the address of this GPU memory is a multiple of `size` bytes; the text begins with `call` and
 * `which`. A misaligned access by a kernel is an error from which the process cannot recover.
 */
enum plait_status plait_device_aligned(const char *call, const char *which, const void *memory, size_t size);

/* The same, and PLAIT_ERR_ARG unless it is device memory of this GPU. at: where it lies. */
enum plait_status plait_device_is_on(const char *call, const char *which, const void *memory,
                                     const struct plait_location *at, size_t size, int device);

/* For calls without support for GPUs: PLAIT_ERR_UNSUPPORTED if this is GPU memory, else PLAIT_OK. */
enum plait_status plait_device_refuse(const char *call, const char *which, const void *memory);

/* The stream's queue; NULL if `stream` is NULL. A parent's stream in a forked child is an error (stream.c). */
enum plait_status plait_stream_queue(const char *call, const struct plait_stream *stream, struct plait_queue **out);

/* PLAIT_ERR_SYSTEM with the plug-in's text `why`; NULL: PLAIT_OK. */
enum plait_status plait_device_result(const char *what, const char *why);

#endif
