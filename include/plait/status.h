/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Status codes and the text of the last error.
 *
 * Every function that can fail returns an `enum plait_status`: 0 is success, a negative value an error, grouped by what
 * is broken; only plait_comm_status() answers "not yet". The function that decides an error records its exact cause
 * once; read it with plait_last_error() on the thread that got the status.
 */
#ifndef PLAIT_STATUS_H
#define PLAIT_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PLAIT_API __attribute__((visibility("default")))
#else
#define PLAIT_API
#endif

/* name, value, text: the enum, plait_status_name() and plait_status_text() all come from this list. */
#define PLAIT_STATUS_LIST(X)                                                             \
    X(PLAIT_OK, 0, "success")                                                            \
    X(PLAIT_IN_PROGRESS, 1, "not yet done")                                              \
    /* The caller's argument is wrong. Nothing happened; the comm is as it was. */       \
    X(PLAIT_ERR_ARG, -1, "invalid argument")                                             \
    X(PLAIT_ERR_UNSUPPORTED, -2, "not supported")                                        \
    X(PLAIT_ERR_CONFIG, -3, "invalid configuration")                                     \
    /* A resource of this process is exhausted. */                                       \
    X(PLAIT_ERR_NOMEM, -10, "out of memory")                                             \
    X(PLAIT_ERR_SYSTEM, -11, "system call failed")                                       \
    /* Another rank is the cause. The comm has failed: destroy it. */                    \
    X(PLAIT_ERR_PEER, -20, "a rank died or left")                                        \
    X(PLAIT_ERR_TIMEOUT, -21, "a rank did not arrive in time")                           \
    X(PLAIT_ERR_MISMATCH, -22, "ranks called with different arguments")                  \
    X(PLAIT_ERR_FAILED, -23, "the comm failed earlier")                                  \
    /* A plan is wrong: a fault in an algorithm, found by the checker or the builder. */ \
    X(PLAIT_ERR_PLAN, -30, "invalid plan")

enum plait_status {
#define PLAIT_X(name, value, text) name = value,
    PLAIT_STATUS_LIST(PLAIT_X)
#undef PLAIT_X
};

/** Name of a status, e.g. "PLAIT_ERR_ARG"; "PLAIT_ERR_UNKNOWN" for any other value. Never NULL. Thread: any. */
PLAIT_API const char *plait_status_name(enum plait_status status);

/** What a status means, a few words. Never NULL. Thread: any. */
PLAIT_API const char *plait_status_text(enum plait_status status);

/**
 * Exact cause of the last error of the calling thread: argument, value and remedy, or the rank, operation and step that
 * failed.
 *
 * Ownership: the library's; valid until the next Plait call of this thread.
 * Thread: per thread. Never NULL; "" when no call of this thread failed yet.
 */
PLAIT_API const char *plait_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
