/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank of Plait as a worker, in a process or a thread of its own. */
#ifndef PLAIT_BENCH_BACKEND_PLAIT_H
#define PLAIT_BENCH_BACKEND_PLAIT_H

#include "options.h"
#include "worker.h"

struct plait_unique_id;

/* Join the comm and serve; as worker_serve(). */
bool plait_worker(int fd, uint32_t rank, const struct options *o, const struct plait_unique_id *id);

#endif
