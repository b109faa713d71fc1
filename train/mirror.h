/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device memory with a mirror on the host, which checkpoints, other ranks and messages use. Where the device's memory
 * is the host's (device.h), both are one, and nothing is copied.
 */
#ifndef PLAIT_TRAIN_MIRROR_H
#define PLAIT_TRAIN_MIRROR_H

#include "device.h"

struct mirror {
    struct device *device;
    void *memory; /* the device's */
    void *host;
    size_t bytes;
};

/** Zeroed; the host's part is library memory. */
struct mirror mirror_create(struct device *device, size_t bytes);
/** Before the device is destroyed, which frees its part. */
void mirror_destroy(struct mirror *mirror);

/** Copy from the device, after all work before. */
void mirror_read(const struct mirror *mirror);
/** Copy to the device. */
void mirror_write(const struct mirror *mirror);

#endif
