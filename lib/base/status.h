/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room base: services for every other room, without any notion of ranks.
 *
 * It has statuses with their texts, the log, the configuration, the clock, hashes, the limits of the system, and the
 * library's open descriptors.
 *
 * An error is recorded once, by the function that decides it, with its exact cause (plait_fail()). Callers only pass
 * the status up. The text is thread-local and valid until the thread's next error.
 *
 * Base promises: no function here waits for another process. Functions that allocate say so.
 *
 * Base does not know communicators, plans, transports or devices. It includes no header of another room.
 */
#ifndef PLAIT_LIB_BASE_STATUS_H
#define PLAIT_LIB_BASE_STATUS_H

#include <plait/status.h>

#include <errno.h>

/* Record the text for plait_last_error() of this thread and return `status`, for `return plait_fail(...)`. */
enum plait_status plait_fail(enum plait_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * The same for a system call that failed with `error`. Appends ": " and the errno's text; for a limit also the value
 * and how to raise it. Returns PLAIT_ERR_NOMEM for ENOMEM, else PLAIT_ERR_SYSTEM.
 */
enum plait_status plait_fail_errno(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for a failed allocation. */
#define plait_fail_memory(...) plait_fail_errno(ENOMEM, __VA_ARGS__)

/* An error, to report after clean-up that may record other errors, or to send. PLAIT_OK: none. */
struct plait_error {
    enum plait_status status;
    char text[1024];
};
struct plait_error plait_error_of(enum plait_status status); /* with this thread's last text */
enum plait_status plait_restore_error(const struct plait_error *e);

#ifdef __clang_analyzer__ /* it sees one file at a time, so it cannot know that these return errors */
#define plait_fail(status, ...)      (plait_fail(status, __VA_ARGS__), (status))
#define plait_fail_errno(error, ...) (plait_fail_errno(error, __VA_ARGS__), PLAIT_ERR_SYSTEM)
#define PLAIT_KNOWN(condition)       \
    do {                             \
        if (!(condition))            \
            __builtin_unreachable(); \
    } while (0)
#else
#define PLAIT_KNOWN(condition) ((void)0) /* a condition that another file's code or another rank's message guarantees */
#endif

#endif
