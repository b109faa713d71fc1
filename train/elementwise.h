/* SPDX-License-Identifier: BSD-3-Clause */
/* Loops of the CPU's device (device_cpu.c), which oneDNN's batch norm and convolutions cannot fuse. */
#ifndef PLAIT_TRAIN_ELEMENTWISE_H
#define PLAIT_TRAIN_ELEMENTWISE_H

#include "device.h"

/** a = a + b */
void elements_add(struct elements e, unsigned threads, void *a, const void *b);
/** a = max(a + b, 0) */
void elements_add_relu(struct elements e, unsigned threads, void *a, const void *b);
/** Its backward form: a = out > 0 ? a + b : 0. b NULL: as zeros */
void elements_back_relu(struct elements e, unsigned threads, void *a, const void *b, const void *out);
/** The others as device.h says. */
bool elements_finite(struct elements e, const void *a);
void elements_sum(struct device *device, const struct device_sum *sum);
void elements_multiply(struct device *device, float *to, const float *from, const double *factors, size_t n);
void elements_move(struct device *device, const struct device_move *move);

#endif
