/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank of a test with memory and a stream of a device: of the driver that PLAIT_CUDA_DRIVER names. */
#ifndef PLAIT_TESTS_DEVICE_H
#define PLAIT_TESTS_DEVICE_H

#include "capture.h"
#include "standin_ask.h"

#include <plait/comm.h>
#include <plait/stream.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device { /* of the driver's: what tests call of it */
    int (*init)(unsigned flags);
    int (*context_retain)(void **out, int device);
    int (*context_push)(void *context);
    int (*context_pop)(void **out);
    int (*capture_mode)(int *mode);
    int (*stream_create)(void **out, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*stream_synchronize)(void *stream);
    int (*stream_query)(void *stream); /* 600: not ready */
    int (*stream_call)(void *stream, void (*function)(void *context), void *context);
    int (*copy)(uint64_t to, uint64_t from, size_t bytes, void *stream);
    int (*capture_begin)(void *stream, int mode);
    int (*capture_end)(void *stream, void **graph);
    int (*instantiate)(void **exec, void *graph, unsigned long long flags);
    int (*launch)(void *exec, void *stream);
    int (*exec_destroy)(void *exec);
    int (*graph_nodes)(void *graph, void **nodes, size_t *n);
    int (*graph_destroy)(void *graph);
};
extern struct device device; /* after device_begin() */

struct device_ask { /* of the stand-in; with a driver they do nothing */
#define PLAIT_X(name, result, arguments) result(*name) arguments;
    STANDIN_LIST(PLAIT_X)
#undef PLAIT_X
};
extern struct device_ask ask;

struct device_rank {
    void *cuda; /* stream */
    struct plait_stream *stream;
    char *in, *out; /* [bytes] of the device's memory */
    char *host;     /* [bytes] */
    size_t bytes;
};

bool device_begin(struct device_rank *d, size_t bytes);
bool device_begin_on(struct device_rank *d, size_t bytes, int number);
/* On one of the PLAIT_STANDIN_DEVICES (1): two neighbours share one. */
bool device_begin_among(struct device_rank *d, size_t bytes, uint32_t rank);
bool device_load(void); /* the driver; device_begin() does */
bool device_end(struct device_rank *d);

/*
 * plait_comm_destroy(). That of a failed comm waits two seconds for ranks that are slow, and then keeps what they may still
 * use: device_kept is true from then on, and what is left need not be nothing.
 */
enum plait_status device_leave(struct plait_comm *comm);
extern _Atomic bool device_kept;

/* On the rank's stream. */
bool device_write(const struct device_rank *d, void *to, const void *from, size_t bytes);
bool device_read(const struct device_rank *d, void *to, const void *from, size_t bytes); /* and waits for it */

#endif
