/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Library memory: buffers that other processes read in place.
 *
 * A collective over memory from plait_mem_alloc() copies nothing into staging buffers. Memory of
 * any other allocator works too; between processes it is staged in slices that stay in cache.
 */
#ifndef PLAIT_MEMORY_H
#define PLAIT_MEMORY_H

#include <plait/status.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Allocate `bytes` of library memory, zeroed, aligned to 4096 bytes.
 *
 * out    the memory, readable and writable by this process, readable by its peers; free it with
 *        plait_mem_free()
 * Ownership: the caller's. It may outlive every comm. A forked child shares it, and cannot free it for the parent.
 * Thread: any
 * Errors: PLAIT_ERR_ARG (0 bytes), PLAIT_ERR_CONFIG (a variable, named), PLAIT_ERR_NOMEM (the arena, PLAIT_ARENA
 *         bytes, is full; or the machine or the control group has no more memory: never a signal later)
 */
PLAIT_API enum plait_status plait_mem_alloc(size_t bytes, void **out);

/**
 * Free memory of plait_mem_alloc(). NULL is allowed; any other pointer is PLAIT_ERR_ARG. In a forked child the
 * call does nothing to its parent's memory and is PLAIT_OK. Thread: any.
 */
PLAIT_API enum plait_status plait_mem_free(void *memory);

/**
 * Always PLAIT_ERR_UNSUPPORTED: memory of other allocators cannot be made readable for other processes after the fact.
 * What could be had instead (process_vm_readv) is slower than staging from 64 KiB up, so there is nothing that
 * registering would buy; allocate with plait_mem_alloc() what is to be read in place.
 *
 * Thread: any
 */
PLAIT_API enum plait_status plait_mem_register(void *memory, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
