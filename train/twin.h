/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device memory with a copy on the host, for files, other ranks and the eye. Where the device's memory is the host's
 * (device.h), both are one, and nothing is copied.
 */
#ifndef PLAIT_TRAIN_TWIN_H
#define PLAIT_TRAIN_TWIN_H

#include "device.h"

struct twin {
    struct device *device;
    void *memory; /* the device's */
    void *host;
    size_t bytes;
};

/** Zeroed; the host's part is library memory. */
struct twin twin_create(struct device *device, size_t bytes);
/** Before the device is destroyed, which frees its part. */
void twin_destroy(struct twin *twin);

/** Copy from the device, after all work before. */
void twin_read(const struct twin *twin);
/** Copy to the device. */
void twin_write(const struct twin *twin);

#endif
