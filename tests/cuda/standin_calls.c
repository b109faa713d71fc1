/* SPDX-License-Identifier: BSD-3-Clause */
/* What every call begins with; devices, contexts, errors. */
#include "standin.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 32, MADE = 16, CONTEXTS = DEVICES + MADE };

static atomic_bool initialised;
static struct context contexts[CONTEXTS]; /* the primary ones, then those of cuCtxCreate() */
static _Thread_local struct context *stack[DEPTH];
static _Thread_local uint32_t depth;

uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0' ? strtoull(value, NULL, 10) : otherwise;
}

int calls_begin(const char *name, bool needs_context)
{
    const int failed = fail_now(name);

    if (failed != CU_OK)
        return failed;
    if (!initialised)
        return CU_NOT_INITIALIZED;
    return needs_context && context_now() == NULL ? CU_INVALID_CONTEXT : CU_OK;
}

/* ---- Start and errors -------------------------------------------------------------------------------------- */

static void initialise(void)
{
    world_open();
    memory_open();
}

static int ndevice(void)
{
    const uint64_t n = setting("PLAIT_STANDIN_DEVICES", 1);

    return n < DEVICES ? (int)n : DEVICES;
}

EXPORT int cuInit(unsigned flags)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, initialise);
    const int status = calls_begin(__func__, false);
    if (status != CU_OK && status != CU_NOT_INITIALIZED)
        return status;
    if (flags != 0)
        return CU_INVALID_VALUE;
    if (ndevice() == 0)
        return CU_NO_DEVICE;
    initialised = true;
    return CU_OK;
}

EXPORT int cuDriverGetVersion(int *out)
{
    *out = (int)setting("PLAIT_STANDIN_CUDA", 13000);
    return CU_OK;
}

EXPORT int cuGetErrorName(int error, const char **out)
{
    switch (error) {
    case CU_OK:
        *out = "CUDA_SUCCESS";
        return CU_OK;
#define PLAIT_X(name, value)        \
    case value:                     \
        *out = "CUDA_ERROR_" #name; \
        return CU_OK;
        DRIVER_ERROR_LIST(PLAIT_X)
#undef PLAIT_X
    default:
        *out = NULL;
        return CU_INVALID_VALUE;
    }
}

EXPORT int cuGetErrorString(int error, const char **out)
{
    const int status = cuGetErrorName(error, out);

    if (status == CU_OK)
        *out = error == CU_UNKNOWN ? "unknown error" : error == CU_OUT_OF_MEMORY ? "out of memory" : "an error";
    return status;
}

/* The newest version there is, as the driver gives to programs of its own age. */
EXPORT int cuGetProcAddress_v2(const char *symbol, void **out, int version, uint64_t flags, int *found)
{
    static const char *const suffixes[] = { "_v3", "_v2", "" };
    char name[128];
    Dl_info self;

    (void)version, (void)flags;
    *out = NULL;
    if (dladdr((void *)(uintptr_t)cuInit, &self) == 0)
        return CU_NOT_FOUND;
    void *library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    for (uint32_t i = 0; library != NULL && *out == NULL && i < 3; i++) {
        snprintf(name, sizeof name, "%s%s", symbol, suffixes[i]);
        *out = dlsym(library, name);
    }
    if (library != NULL)
        dlclose(library);
    if (found != NULL)
        *found = *out == NULL ? 1 : 0; /* CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, or SUCCESS */
    return *out != NULL ? CU_OK : CU_NOT_FOUND;
}

/* ---- Devices ----------------------------------------------------------------------------------------------- */

static bool is_device(int device)
{
    return device >= 0 && device < ndevice();
}

bool devices_reach(uint32_t device, uint32_t other)
{
    const uint64_t alone = setting("PLAIT_STANDIN_ALONE", 64);

    return device == other || (device != alone && other != alone);
}

EXPORT int cuDeviceGetCount(int *out)
{
    CALL(false);
    *out = ndevice();
    return CU_OK;
}

EXPORT int cuDeviceGet(int *out, int ordinal)
{
    CALL(false);
    if (!is_device(ordinal))
        return CU_INVALID_DEVICE;
    *out = ordinal;
    return CU_OK;
}

EXPORT int cuDeviceGetName(char *name, int room, int device)
{
    CALL(false);
    if (!is_device(device))
        return CU_INVALID_DEVICE;
    snprintf(name, (size_t)room, "no GPU: a stand-in for tests");
    return CU_OK;
}

EXPORT int cuDeviceGetUuid_v2(void *uuid, int device)
{
    CALL(false);
    if (!is_device(device))
        return CU_INVALID_DEVICE;
    memset(uuid, 0, 16);
    *(unsigned char *)uuid = (unsigned char)(device + 1);
    return CU_OK;
}

EXPORT int cuDeviceGetPCIBusId(char *id, int room, int device)
{
    CALL(false);
    if (!is_device(device))
        return CU_INVALID_DEVICE;
    snprintf(id, (size_t)room, "0000:%02x:00.0", (unsigned)device + 1);
    return CU_OK;
}

EXPORT int cuDeviceTotalMem_v2(size_t *out, int device)
{
    CALL(false);
    *out = (size_t)1 << 34;
    return is_device(device) ? CU_OK : CU_INVALID_DEVICE;
}

EXPORT int cuDeviceGetAttribute(int *out, int attribute, int device)
{
    CALL(false);
    if (!is_device(device))
        return CU_INVALID_DEVICE;
    switch (attribute) {
    case VALUE_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *out = 2;
        return CU_OK;
    case VALUE_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *out = (int)setting("PLAIT_STANDIN_CAPABILITY", 75) / 10;
        return CU_OK;
    case VALUE_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *out = (int)setting("PLAIT_STANDIN_CAPABILITY", 75) % 10;
        return CU_OK;
    default:
        *out = 1; /* whatever it is, it can */
        return attribute > 0 ? CU_OK : CU_INVALID_VALUE;
    }
}

EXPORT int cuDeviceCanAccessPeer(int *out, int device, int other)
{
    CALL(false);
    if (!is_device(device) || !is_device(other))
        return CU_INVALID_DEVICE;
    *out = device != other && devices_reach((uint32_t)device, (uint32_t)other);
    return CU_OK;
}

/* ---- Contexts ---------------------------------------------------------------------------------------------- */

struct context *context_now(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

struct context *context_of(int device)
{
    return &contexts[device];
}

uint32_t context_count(void)
{
    uint32_t n = 0;

    process_lock();
    for (uint32_t i = 0; i < CONTEXTS; i++)
        n += contexts[i].retained;
    process_unlock();
    return n;
}

static bool is_context(const struct context *c)
{
    return c >= contexts && c < contexts + CONTEXTS && c->retained > 0;
}

EXPORT int cuDevicePrimaryCtxRetain(void **out, int device)
{
    CALL(false);
    if (!is_device(device))
        return CU_INVALID_DEVICE;
    process_lock();
    contexts[device].device = device;
    contexts[device].retained++;
    process_unlock();
    *out = &contexts[device];
    return CU_OK;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device)
{
    CALL(false);
    if (!is_device(device) || contexts[device].retained == 0)
        return CU_INVALID_CONTEXT;
    process_lock();
    contexts[device].retained--;
    process_unlock();
    return CU_OK;
}

EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    CALL(false);
    if (!is_device(device))
        return CU_INVALID_DEVICE;
    *flags = 0;
    *active = contexts[device].retained > 0;
    return CU_OK;
}

EXPORT int cuCtxPushCurrent_v2(void *context)
{
    CALL(false);
    if (!is_context(context))
        return CU_INVALID_CONTEXT;
    if (depth == DEPTH)
        die("more than %d contexts are pushed", DEPTH);
    stack[depth++] = context;
    return CU_OK;
}

EXPORT int cuCtxCreate_v2(void **out, unsigned flags, int device)
{
    CALL(false);
    (void)flags;
    if (!is_device(device))
        return CU_INVALID_DEVICE;
    process_lock();
    struct context *c = contexts + DEVICES;
    while (c < contexts + CONTEXTS && c->retained > 0)
        c++;
    if (c == contexts + CONTEXTS || depth == DEPTH)
        die("more than %d contexts are made, or %d pushed", MADE, DEPTH);
    c->device = device;
    c->retained = 1;
    process_unlock();
    *out = stack[depth++] = c;
    return CU_OK;
}

EXPORT int cuCtxDestroy_v2(void *context)
{
    CALL(false);
    struct context *c = context;

    if (!is_context(c) || c < contexts + DEVICES)
        return CU_INVALID_CONTEXT;
    depth -= context_now() == c;
    process_lock();
    c->retained = 0;
    process_unlock();
    return CU_OK;
}

EXPORT int cuCtxPopCurrent_v2(void **out)
{
    CALL(true);
    depth--;
    if (out != NULL)
        *out = stack[depth];
    return CU_OK;
}

EXPORT int cuCtxSetCurrent(void *context)
{
    CALL(false);
    if (context != NULL && !is_context(context))
        return CU_INVALID_CONTEXT;
    depth = depth > 0 ? depth - 1 : 0;
    if (context != NULL)
        stack[depth++] = context;
    return CU_OK;
}

EXPORT int cuCtxGetCurrent(void **out)
{
    CALL(false);
    *out = context_now();
    return CU_OK;
}

EXPORT int cuCtxGetDevice(int *out)
{
    CALL(true);
    *out = context_now()->device;
    return CU_OK;
}

EXPORT int cuCtxSynchronize(void)
{
    CALL(true);
    const int status = capture_spoil_all();
    if (status == CU_OK)
        process_synchronize();
    return status;
}

EXPORT int cuCtxEnablePeerAccess(void *context, unsigned flags)
{
    CALL(true);
    const struct context *other = context;

    if (!is_context(other) || other == context_now())
        return CU_INVALID_CONTEXT;
    if (flags != 0)
        return CU_INVALID_VALUE;
    if (!devices_reach((uint32_t)context_now()->device, (uint32_t)other->device))
        return CU_PEER_ACCESS_UNSUPPORTED;
    if (context_now()->peers[other->device])
        return CU_PEER_ACCESS_ALREADY_ENABLED;
    context_now()->peers[other->device] = true;
    return CU_OK;
}

EXPORT int cuCtxDisablePeerAccess(void *context)
{
    CALL(true);
    const struct context *other = context;

    if (!is_context(other) || !context_now()->peers[other->device])
        return CU_PEER_ACCESS_NOT_ENABLED;
    context_now()->peers[other->device] = false;
    return CU_OK;
}

/* ---- What streams are -------------------------------------------------------------------------------------- */

EXPORT int cuStreamGetCtx(void *stream, void **out)
{
    CALL(false);
    struct stream *s;
    const int status = stream_find(stream, &s);

    if (status == CU_OK)
        *out = s->context;
    return status;
}

EXPORT int cuStreamGetId(void *stream, unsigned long long *out)
{
    CALL(false);
    struct stream *s;
    int status = stream_find(stream, &s);

    if (status == CU_OK)
        status = capture_spoil(s); /* as the driver has it, whatever the thread's mode is */
    if (status == CU_OK)
        *out = s->id;
    return status;
}

EXPORT int cuStreamGetFlags(void *stream, unsigned *out)
{
    CALL(false);
    struct stream *s;
    const int status = stream_find(stream, &s);

    if (status == CU_OK)
        *out = s->flags;
    return status;
}
