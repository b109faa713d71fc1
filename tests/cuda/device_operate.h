/* SPDX-License-Identifier: BSD-3-Clause */
/* A collective on a device's memory, checked. */
#ifndef PLAIT_TESTS_DEVICE_OPERATE_H
#define PLAIT_TESTS_DEVICE_OPERATE_H

#include "../collective.h"
#include "device.h"

/* One operation on the rank's stream, or, `blocking`, without one. 0, or it has printed what is wrong. */
int device_operate(struct plait_comm *comm, uint32_t rank, struct device_rank *d, const struct collective *c,
                   bool blocking);

#endif
