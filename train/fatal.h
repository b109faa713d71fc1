/* SPDX-License-Identifier: BSD-3-Clause */
/* The way out of a program that cannot go on. */
#ifndef PLAIT_TRAIN_FATAL_H
#define PLAIT_TRAIN_FATAL_H

#include <stddef.h>

/** "plait-train: text" on stderr, and exit 1. Thread: any. */
_Noreturn void fatal(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Memory, zeroed; fatal when there is none. */
void *allocate(size_t n, size_t size);

#endif
