/* SPDX-License-Identifier: BSD-3-Clause */
/* What tests ask of the stand-in for the driver beside the driver's functions; found by dlsym(). */
#ifndef PLAIT_TESTS_STANDIN_ASK_H
#define PLAIT_TESTS_STANDIN_ASK_H

#include <stdint.h>

struct standin_left { /* what this process has taken and not given back */
    uint32_t memory, pinned, managed, imported, streams, events, modules, contexts;
};

/* name, result, arguments */
#define STANDIN_LIST(X)                                                                               \
    /* How many calls this process has made. */                                                       \
    X(standin_calls, unsigned long long, (void))                                                      \
    /* How many calls of this name, as "cuMemAlloc_v2". */                                            \
    X(standin_named, unsigned long long, (const char *name))                                          \
    /* The n-th call from now on, of any thread, fails. 0: none. */                                   \
    X(standin_fail, void, (unsigned long long n))                                                     \
    /* The n-th call of this thread from now on fails with `error`; 0: they are only counted. */      \
    X(standin_arm, void, (unsigned long long n, int error))                                           \
    /* No more. How many there were; *failed: the name of the one that failed, or NULL. */            \
    X(standin_disarm, unsigned long long, (const char **failed))                                      \
    /* How many calls have put something on a stream, or into its capture. */                         \
    X(standin_puts, unsigned long long, (void *stream))                                               \
    /* How often, in turn, another process had to do something before this stream could go on. */     \
    X(standin_hands, unsigned long long, (void *stream))                                              \
    /* Memory that this thread allocates from now on has no IPC handle. */                            \
    X(standin_hide, void, (int hide))                                                                 \
    X(standin_left, void, (struct standin_left * out))                                                \
    /* Bytes of devices' memory that this process has allocated and not freed. */                     \
    X(standin_bytes, unsigned long long, (void))                                                      \
    /* The most bytes of devices' memory that this process gets; 0: any. */                           \
    X(standin_limit, void, (unsigned long long bytes))                                                \
    /* For the whole world: accesses that no wait orders are allowed, as of comms that have failed */ \
    X(standin_careless, void, (int careless))

struct standin_access { /* of an operation to memory */
    const void *memory;
    uint64_t bytes;
    int writes;
};

/*
 * Of the stand-ins for libraries, which find it by name: put an operation with these accesses on the stream, which calls
 * run() with a copy of the context's bytes. Returns what a call of the driver returns.
 */
typedef int standin_operate_function(void *stream, const char *name, void (*run)(void *), const void *context,
                                     uint64_t bytes, const struct standin_access *accesses, uint32_t naccess);

#endif
