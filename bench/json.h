/* SPDX-License-Identifier: BSD-3-Clause */
/* Results as JSON, with nccl-tests' keys (file version 3), and more in objects "plait". */
#ifndef PLAIT_BENCH_JSON_H
#define PLAIT_BENCH_JSON_H

#include "measure.h"

/* Write to `path`, or if that exists to path.0, path.1, ..., as nccl-tests does. Returns false after a message. */
bool json_write(const struct bench *b, const char *path);

#endif
