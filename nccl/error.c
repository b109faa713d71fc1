/* SPDX-License-Identifier: BSD-3-Clause */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LONGEST 1024

static pthread_mutex_t last_lock = PTHREAD_MUTEX_INITIALIZER;
static char last[LONGEST];               /* of the process */
static _Thread_local char mine[LONGEST]; /* of this thread */

void nccl_log(enum plait_log_level level, const char *format, ...)
{
    char text[LONGEST];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    plait_log_write(level, text);
}

static void keep(struct ncclComm *comm, const char *text)
{
    snprintf(mine, sizeof mine, "%s", text);
    pthread_mutex_lock(&last_lock);
    snprintf(last, sizeof last, "%s", text);
    pthread_mutex_unlock(&last_lock);
    if (comm == NULL)
        return;
    pthread_mutex_lock(&comm->lock);
    snprintf(comm->error, sizeof comm->error, "%s", text);
    pthread_mutex_unlock(&comm->lock);
}

ncclResult_t(nccl_fail)(ncclResult_t result, struct ncclComm *comm, const char *format, ...)
{
    char text[LONGEST];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    keep(comm, text);
    plait_log_write(PLAIT_LOG_WARN, text);
    return result;
}

ncclResult_t nccl_result_of(enum plait_status status)
{
    switch (status) {
    case PLAIT_OK:
        return ncclSuccess;
    case PLAIT_IN_PROGRESS:
        return ncclInProgress;
    case PLAIT_ERR_ARG:
        return ncclInvalidArgument;
    case PLAIT_ERR_UNSUPPORTED:
    case PLAIT_ERR_CONFIG:
    case PLAIT_ERR_MISMATCH:
        return ncclInvalidUsage;
    case PLAIT_ERR_NOMEM:
    case PLAIT_ERR_SYSTEM:
        return ncclSystemError;
    case PLAIT_ERR_PEER:
    case PLAIT_ERR_FAILED:
        return ncclRemoteError;
    case PLAIT_ERR_TIMEOUT:
        return ncclTimeout;
    case PLAIT_ERR_PLAN:
        break;
    }
    return ncclInternalError;
}

/* The library logs when a comm fails, but leaves it to the caller to report a refused call. */
static bool is_untold(enum plait_status status)
{
    return status == PLAIT_ERR_ARG || status == PLAIT_ERR_UNSUPPORTED || status == PLAIT_ERR_CONFIG;
}

/* Replace the library's names by NCCL's. */
static void translate(const char *from, char *out, size_t room)
{
    static const char *const words[][2] = {
        { ": in is ", ": sendbuff is " },
        { ": out is ", ": recvbuff is " },
        { ": in 0x", ": sendbuff 0x" },
        { " bytes and out 0x", " bytes and recvbuff 0x" },
        { "plait_stream_create_cuda: cuda is ", "stream is " },
        { "plait_stream_create_cuda_on: cuda is ", "stream is " },
        { "plait_stream_create_cuda_on: ", "" },
        { "plait_mem_kind: memory is ", "a buffer is " },
        { "plait_device_now: ", "" },
        { ": call->scale is ", ": the operator's scalar is " },
        { "PLAIT_SCALE_LATE", "ncclScalarDevice" },
    };
    size_t n = 0;

    while (*from != '\0' && n + 1 < room) {
        size_t w = 0;
        while (w < sizeof words / sizeof *words && strncmp(from, words[w][0], strlen(words[w][0])) != 0)
            w++;
        if (w == sizeof words / sizeof *words) {
            out[n++] = *from++;
            continue;
        }
        n += (size_t)snprintf(out + n, room - n, "%s", words[w][1]);
        n = n < room ? n : room - 1;
        from += strlen(words[w][0]);
    }
    out[n] = '\0';
}

ncclResult_t nccl_result(enum plait_status status, struct ncclComm *comm, const char *call)
{
    char text[LONGEST], why[LONGEST];

    if (status == PLAIT_OK)
        return ncclSuccess;
    translate(plait_last_error(), why, sizeof why);
    snprintf(text, sizeof text, "%s: %.*s", call, LONGEST - 64, why);
    keep(comm, text);
    if (is_untold(status))
        plait_log_write(PLAIT_LOG_WARN, text);
    return nccl_result_of(status);
}

ncclResult_t nccl_refuse(const char *call, const char *why)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const char *told[64];
    char text[LONGEST];
    unsigned i = 0;

    pthread_mutex_lock(&lock);
    while (i < sizeof told / sizeof *told && told[i] != NULL && strcmp(told[i], call) != 0)
        i++;
    const bool first = i < sizeof told / sizeof *told && told[i] == NULL;
    if (first)
        told[i] = call;
    pthread_mutex_unlock(&lock);
    snprintf(text, sizeof text, "%s is not supported by this library: %s", call, why);
    keep(NULL, text);
    if (first)
        plait_log_write(PLAIT_LOG_WARN, text);
    return ncclInvalidUsage;
}

/* NCCL's texts, as programs and their users look for them. What went wrong here is in ncclGetLastError(). */
const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[ncclNumResults] = {
        [ncclSuccess] = "no error",
        [ncclUnhandledCudaError] = "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        [ncclSystemError] = "unhandled system error (run with NCCL_DEBUG=INFO for details)",
        [ncclInternalError] = "internal error - please report this issue to the NCCL developers",
        [ncclInvalidArgument] = "invalid argument (run with NCCL_DEBUG=WARN for details)",
        [ncclInvalidUsage] = "invalid usage (run with NCCL_DEBUG=WARN for details)",
        [ncclRemoteError] = "remote process exited or there was a network error",
        [ncclInProgress] = "NCCL operation in progress",
        [ncclTimeout] = "operation timed out",
    };

    return result >= 0 && result < ncclNumResults ? texts[result] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    static _Thread_local char text[LONGEST];

    text[0] = '\0';
    if (nccl_try_enter(comm)) {
        pthread_mutex_lock(&comm->lock);
        snprintf(text, sizeof text, "%s", comm->error);
        pthread_mutex_unlock(&comm->lock);
        nccl_leave(comm);
    }
    if (text[0] == '\0')
        snprintf(text, sizeof text, "%s", mine);
    if (text[0] == '\0') {
        pthread_mutex_lock(&last_lock);
        snprintf(text, sizeof text, "%s", last);
        pthread_mutex_unlock(&last_lock);
    }
    return text;
}

NCCL_TWIN(GetErrorString);
NCCL_TWIN(GetLastError);
