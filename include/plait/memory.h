/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Library memory: buffers that other processes read in place.
 *
 * A collective over memory from plait_mem_alloc() needs no staging buffers. Memory of any other allocator works too.
 * Between processes it is copied through staging buffers in slices that stay in cache, or read by the receiver through
 * the kernel (single copy). Single copy applies in communicators of one host, to blocks of 8 KiB and more of messages,
 * and of collectives in which a rank sends more than 16 KiB and which move data without reducing. It needs the kernel's
 * permission (plait-info says whether; PLAIT_CMA=0 forbids it). It is used if it takes less time than staging, as
 * measured when the process creates its first communicator (PLAIT_CMA=1: always).
 */
#ifndef PLAIT_MEMORY_H
#define PLAIT_MEMORY_H

#include <plait/status.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of memory. symbol, name */
#define PLAIT_MEMORY_LIST(X)                                                          \
    X(PLAIT_MEMORY_HOST, "host")       /* of any allocator of the processor's */      \
    X(PLAIT_MEMORY_PINNED, "pinned")   /* the processor's; a GPU's driver knows it */ \
    X(PLAIT_MEMORY_MANAGED, "managed") /* moves between both */                       \
    X(PLAIT_MEMORY_DEVICE, "device")   /* a GPU's */

enum plait_memory {
#define PLAIT_X(symbol, name) symbol,
    PLAIT_MEMORY_LIST(PLAIT_X)
#undef PLAIT_X
        PLAIT_NMEMORY
};

/**
 * Allocate `bytes` of library memory, zeroed, aligned to 4096 bytes.
 *
 * out    the memory, readable and writable by this process, readable by its peers; free it with plait_mem_free()
 * Ownership: the caller's. It may outlive every comm. A forked child shares it, and cannot free it for the parent.
 * Thread: any
 * Errors: PLAIT_ERR_ARG (0 bytes), PLAIT_ERR_CONFIG (a variable, named), PLAIT_ERR_NOMEM (the arena of PLAIT_ARENA
 *         bytes is full, or the machine or the control group has no more memory: never a signal later)
 */
PLAIT_API enum plait_status plait_mem_alloc(size_t bytes, void **out);

/**
 * Allocate memory of a kind, zeroed: of the calling thread's current GPU, or of the first.
 *
 * kind   PLAIT_MEMORY_HOST: as plait_mem_alloc()
 * out    free it with plait_mem_free()
 * Ownership: the caller's. It must live until its collectives have ended.
 * Thread: any
 * Errors: PLAIT_ERR_ARG, PLAIT_ERR_NOMEM; PLAIT_ERR_UNSUPPORTED (no GPU, no driver, no plug-in)
 */
PLAIT_API enum plait_status plait_mem_alloc_as(enum plait_memory kind, size_t bytes, void **out);

/**
 * Allocate memory of a given GPU, as plait_mem_alloc_as().
 *
 * device  its number, 0 or more
 * Thread: any
 * Errors: as plait_mem_alloc_as()
 */
PLAIT_API enum plait_status plait_mem_alloc_on(int device, size_t bytes, void **out);

/**
 * The calling thread's current GPU, or the first GPU if the thread has none.
 *
 * out    its number; -1: this process has not loaded a driver or has no GPU, and all memory is host memory
 * Thread: any
 * Errors: PLAIT_ERR_ARG (out is NULL); PLAIT_ERR_UNSUPPORTED (the process uses GPUs, but the plug-in cannot be loaded;
 *         the text names its file, and what to do)
 */
PLAIT_API enum plait_status plait_device_now(int *out);

/**
 * The kind of memory at an address, whoever allocated it. Before this process has used a GPU: host.
 *
 * device  the GPU of memory of kind device; -1: memory of any other kind. NULL is allowed
 * Thread: any
 * Errors: PLAIT_ERR_ARG (out is NULL)
 */
PLAIT_API enum plait_status plait_mem_kind(const void *memory, enum plait_memory *out, int *device);

/** The name in the list above; "?" for an unknown value. Thread: any. */
PLAIT_API const char *plait_memory_name(enum plait_memory kind);

/**
 * Add a reference to library memory: it stays until one more plait_mem_free(), even after the fusion in whose buckets
 * it lies was destroyed or has got another layout.
 *
 * inside an address in it
 * out    its beginning; pass it to plait_mem_free() when it is no longer needed
 * Thread: any
 * Errors: PLAIT_ERR_ARG (no memory of this process's is allocated there; in a forked child: its parent's)
 */
PLAIT_API enum plait_status plait_mem_share(const void *inside, void **out);

/**
 * Free memory of plait_mem_alloc(), plait_mem_alloc_as() or plait_mem_share(). NULL is allowed. Of memory of a GPU's
 * driver it is not known who allocated it: it is freed. In a forked child the call does nothing to its parent's memory
 * and is PLAIT_OK.
 *
 * Thread: any
 * Errors: PLAIT_ERR_ARG (memory of another allocator of the host's)
 */
PLAIT_API enum plait_status plait_mem_free(void *memory);

#ifdef __cplusplus
}
#endif
#endif
