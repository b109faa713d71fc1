/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device code itself, launched through the driver that PLAIT_CUDA_DRIVER names. A *room* is memory of the host and
 * of the device with the same contents: an argument is built once over each, the kernel runs over both (the host's by the
 * same body), and what is in them is compared.
 */
#ifndef PLAIT_TESTS_GPU_KERNELS_H
#define PLAIT_TESTS_GPU_KERNELS_H

#include <images.h>
#include <kernels.h>

#include <stdbool.h>
#include <stddef.h>

struct room {
    char *host;
    uint64_t device;
    size_t bytes;
};

/* The driver, its first device, all kernels. False: it has said why not. */
bool gpu_open(void);
const char *gpu_name(void);

bool room_make(struct room *room, size_t bytes); /* with small whole numbers of float32 on the host, copied */
void room_free(struct room *room);
bool room_copy_in(const struct room *room, size_t from, size_t bytes);
bool room_copy_out(const struct room *room, void *to, size_t from, size_t bytes);

/* Put it on the stream; the argument is for the device. */
bool gpu_launch(enum plait_cuda_kernel kernel, unsigned blocks, const void *argument);
/* Other kernels: found[n] of these images; and one of them. */
bool gpu_load(const struct plait_cuda_image *images, const char *const *names, size_t n, void **found);
bool gpu_run(void *function, const char *what, unsigned threads, unsigned blocks, const void *argument);
bool gpu_copy(uint64_t to, uint64_t from, size_t bytes);
bool gpu_wait(void);
unsigned gpu_most_blocks(void);

#endif
