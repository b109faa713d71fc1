/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAIT_LIB_REQUEST_STREAM_H
#define PLAIT_LIB_REQUEST_STREAM_H

#include <plait/coll.h>
#include <plait/stream.h>

struct plait_request;

struct plait_item { /* on a stream: a request or a call */
    struct plait_item *next;
    struct plait_request *request; /* or NULL: */
    void (*function)(void *context);
    void *context;
};

/* A request that is held, of a host's stream, would have two takers: PLAIT_ERR_ARG. */
enum plait_status plait_stream_check(const char *name, const struct plait_call *call);

/* A device's: its queue; else NULL. */
struct plait_queue *plait_stream_queue(const struct plait_stream *s);

/* For what has options.stream: its queue; NULL where that is NULL. A host's stream is refused by name. */
enum plait_status plait_stream_of_device(const char *call, const struct plait_stream *s, struct plait_queue **out);

/* The request's turn comes after all that is on its stream; the stream takes it when it has ended. No memory is
 * needed. */
void plait_stream_add(struct plait_request *r);

#endif
