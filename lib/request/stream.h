/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAIT_LIB_REQUEST_STREAM_H
#define PLAIT_LIB_REQUEST_STREAM_H

#include <plait/coll.h>
#include <plait/stream.h>

/* Refuse NULL, and a parent's stream in a forked child. `name`: of the call. */
enum plait_status plait_stream_check(const char *name, const struct plait_stream *s);

struct plait_queue *plait_stream_queue(const struct plait_stream *s);

#endif
