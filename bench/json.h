/* SPDX-License-Identifier: BSD-3-Clause */
/* Results as JSON: nccl-tests' keys (file version 3), and an object "plait" where there is more to say. */
#ifndef PLAIT_BENCH_JSON_H
#define PLAIT_BENCH_JSON_H

#include "measure.h"

/* Write to `path`, or where that exists to path.0, path.1, ... as nccl-tests does. */
bool json_write(const struct bench *b, const char *path);

#endif
