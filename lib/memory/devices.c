/* SPDX-License-Identifier: BSD-3-Clause */
#include "devices.h"

#include "base/fork.h"
#include "base/status.h"
#include "plugin/plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define DRIVER "libcuda.so.1"

_Atomic(const struct plait_device_plugin *) plait_device;
atomic_bool plait_other_spaces;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static char unusable[1024]; /* why the plug-in cannot be used, in a program that uses GPUs */
static _Atomic(int (*)(void *out, int attribute, unsigned long long memory)) ask_driver; /* its query of a pointer */
enum { MEMORY_TYPE = 2, IS_MANAGED = 8, TYPE_DEVICE = 2, NOT_INITIALIZED = 3 };          /* as in cuda.h */

const struct plait_fork_module plait_devices_fork = { .lock = &lock };

enum plait_status plait_device_result(const char *what, const char *why)
{
    return why == NULL ? PLAIT_OK : plait_fail(PLAIT_ERR_SYSTEM, "%s: %s", what, why);
}

static enum plait_status load(const struct plait_config *config)
{
    const struct plait_device_plugin *plugin;
    enum plait_status status;
    const char *why;

    if (config->cuda_driver[0] != '\0' && !config->for_tests)
        return plait_fail(PLAIT_ERR_CONFIG,
                          "PLAIT_CUDA_DRIVER is set, which is for tests only: unset it, or set PLAIT_FOR_TESTS=1 too");
    status = plait_plugin_load(&plait_plugin_cuda, config->plugins, (const void **)&plugin);
    if (status != PLAIT_OK)
        return status;
    why = plugin->open(config->cuda_driver);
    if (why != NULL)
        return plait_fail(PLAIT_ERR_UNSUPPORTED, "no GPU can be used: %s", why);
    atomic_store_explicit(&plait_device, plugin, memory_order_release);
    atomic_store_explicit(&plait_other_spaces, true, memory_order_release);
    return PLAIT_OK;
}

enum plait_status plait_device_get(const struct plait_device_plugin **out)
{
    struct plait_config config;
    enum plait_status status = plait_device_used() == NULL ? plait_config_load(&config) : PLAIT_OK;

    if (plait_device_used() == NULL && status == PLAIT_OK) {
        pthread_mutex_lock(&lock);
        status = plait_device_used() == NULL ? load(&config) : PLAIT_OK;
        pthread_mutex_unlock(&lock);
    }
    *out = plait_device_used();
    return status;
}

/* The lock keeps fork() out of dlopen(): a child forked inside it would crash in its own dynamic loader. */
void plait_device_notice(const struct plait_config *config)
{
    const char *name = config->cuda_driver[0] != '\0' ? config->cuda_driver : DRIVER;
    int (*ask)(void *, int, unsigned long long), type;

    pthread_mutex_lock(&lock);
    const bool known = plait_device_used() != NULL || atomic_load(&ask_driver) != NULL;
    void *driver = known ? NULL : dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    *(void **)(void *)&ask = driver != NULL ? dlsym(driver, "cuPointerGetAttribute") : NULL;
    if (ask != NULL && load(config) != PLAIT_OK && ask(&type, MEMORY_TYPE, 0) != NOT_INITIALIZED) {
        snprintf(unusable, sizeof unusable, "this program uses GPUs, which Plait cannot: %s", plait_last_error());
        atomic_store(&ask_driver, ask);
        atomic_store_explicit(&plait_other_spaces, true, memory_order_release);
    } else if (driver != NULL) {
        dlclose(driver);
    }
    pthread_mutex_unlock(&lock);
}

static bool is_of_a_gpu(const void *memory)
{
    int (*const ask)(void *, int, unsigned long long) = atomic_load(&ask_driver);
    unsigned type = 0, managed = 0;

    return ask != NULL && memory != NULL && ask(&type, MEMORY_TYPE, (uintptr_t)memory) == 0 && type == TYPE_DEVICE &&
           (ask(&managed, IS_MANAGED, (uintptr_t)memory) != 0 || managed == 0);
}

enum plait_status plait_device_blame(const char *call, int device, enum plait_status failed)
{
    const struct plait_device_plugin *plugin = plait_device_used();
    int now = 0, n = 0;
    const char *why = plugin->current(&now, &n);

    if (why == NULL && device >= n)
        return plait_fail(PLAIT_ERR_ARG, "%s: device is %d: there is no GPU %d: the driver has %d", call, device,
                          device, n);
    if (why == NULL)
        why = plugin->use(device >= 0 ? device : now);
    return why == NULL ? failed : plait_fail(PLAIT_ERR_UNSUPPORTED, "%s: the GPU cannot be used: %s", call, why);
}

/* ---- Memory --------------------------------------------------------------------------------------- */

static enum plait_status allocate(const char *name, enum plait_memory kind, int device, size_t bytes, void **out)
{
    const struct plait_device_plugin *plugin;

    if (out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "%s: out is NULL", name);
    if (bytes == 0)
        return plait_fail(PLAIT_ERR_ARG, "%s: bytes is 0; ask for at least 1", name);
    const enum plait_status status = plait_device_get(&plugin);
    if (status != PLAIT_OK)
        return status;
    const char *why = plugin->alloc(kind, device, bytes, out);
    return why == NULL ? PLAIT_OK
                       : plait_device_blame(name, device,
                                            plait_fail(PLAIT_ERR_NOMEM, "%s: no %zu bytes of memory of kind %s: %s",
                                                       name, bytes, plait_memory_name(kind), why));
}

enum plait_status plait_mem_alloc_as(enum plait_memory kind, size_t bytes, void **out)
{
    if (kind == PLAIT_MEMORY_HOST)
        return plait_mem_alloc(bytes, out);
    if ((unsigned)kind >= PLAIT_NMEMORY)
        return plait_fail(PLAIT_ERR_ARG, "plait_mem_alloc_as: kind is %d, which is no enum plait_memory", (int)kind);
    return allocate("plait_mem_alloc_as", kind, -1, bytes, out);
}

enum plait_status plait_mem_alloc_on(int device, size_t bytes, void **out)
{
    if (device < 0)
        return plait_fail(PLAIT_ERR_ARG, "plait_mem_alloc_on: device is %d; GPUs are 0 and more", device);
    return allocate("plait_mem_alloc_on", PLAIT_MEMORY_DEVICE, device, bytes, out);
}

enum plait_status plait_device_now(int *out)
{
    struct plait_config config;

    if (out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_device_now: out is NULL");
    if (plait_device_used() == NULL) {
        const enum plait_status status = plait_config_load(&config);
        if (status != PLAIT_OK)
            return status;
        plait_device_notice(&config);
    }
    const struct plait_device_plugin *plugin = plait_device_used();
    int n;
    *out = -1;
    if (plugin == NULL && atomic_load(&ask_driver) != NULL)
        return plait_fail(PLAIT_ERR_UNSUPPORTED, "%s", unusable);
    const char *why = plugin != NULL ? plugin->current(out, &n) : NULL;
    return plait_device_result("plait_device_now", why);
}

enum plait_status plait_device_find(const char *call, const char *which, const void *memory, struct plait_location *out)
{
    const struct plait_device_plugin *plugin = plait_device_used();

    *out = (struct plait_location){ .kind = PLAIT_MEMORY_HOST, .device = -1 };
    if (plugin == NULL && is_of_a_gpu(memory))
        return plait_fail(PLAIT_ERR_UNSUPPORTED, "%s%s is %p, memory of a GPU: %s", call, which, memory, unusable);
    const char *why = plugin != NULL && memory != NULL ? plugin->locate(memory, out) : NULL;
    return why == NULL ? PLAIT_OK : plait_fail(PLAIT_ERR_SYSTEM, "%s%s is %p: %s", call, which, memory, why);
}

enum plait_status plait_device_free(void *memory)
{
    struct plait_location at;
    enum plait_status status = plait_device_find("plait_mem_free", ": memory", memory, &at);

    if (status != PLAIT_OK) /* a driver's call may return the error of an earlier one */
        status = plait_device_find("plait_mem_free", ": memory", memory, &at);
    if (status != PLAIT_OK)
        return status;
    if (at.kind == PLAIT_MEMORY_HOST)
        return plait_fail(PLAIT_ERR_ARG, "plait_mem_free: memory is %p, which plait_mem_alloc() did not return",
                          memory);
    const char *why = plait_device_used()->free(at.kind, memory);
    return plait_device_result("plait_mem_free", why);
}

enum plait_status plait_mem_kind(const void *memory, enum plait_memory *out, int *device)
{
    struct plait_location at;

    if (out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_mem_kind: out is NULL");
    const enum plait_status status = plait_device_find("plait_mem_kind", ": memory", memory, &at);
    if (status != PLAIT_OK)
        return status;
    *out = at.kind;
    if (device != NULL)
        *device = at.kind == PLAIT_MEMORY_DEVICE ? at.device : -1;
    return PLAIT_OK;
}

const char plait_device_unknown[] = "memory that CUDA does not know (host memory, or freed)";

enum plait_status plait_device_aligned(const char *call, const char *which, const void *memory, size_t size)
{
    if (size == 0 || (uintptr_t)memory % size == 0) /* 0: an unknown type, which the caller refuses */
        return PLAIT_OK;
    return plait_fail(PLAIT_ERR_ARG,
                      "%s%s is %p, which is no multiple of %zu bytes, the size of its elements: copy it to memory "
                      "of the GPU that is",
                      call, which, memory, size);
}

enum plait_status plait_device_is_on(const char *call, const char *which, const void *memory,
                                     const struct plait_location *at, size_t size, int device)
{
    const bool known = at->kind != PLAIT_MEMORY_HOST;
    char of[32] = "";

    if (at->kind == PLAIT_MEMORY_DEVICE && at->device == device)
        return plait_device_aligned(call, which, memory, size);
    if (at->device >= 0)
        snprintf(of, sizeof of, " of GPU %d", at->device);
    return plait_fail(
        PLAIT_ERR_ARG, "%s%s is %p, which is %s%s%s; the call needs device memory of GPU %d: copy it there", call,
        which, memory, known ? plait_memory_name(at->kind) : plait_device_unknown, known ? " memory" : "", of, device);
}

enum plait_status plait_device_fits(const char *what, const void *memory, size_t size, const struct plait_queue *queue)
{
    struct plait_location at;
    const enum plait_status status = plait_device_find(what, "", memory, &at);

    if (status != PLAIT_OK || memory == NULL)
        return status;
    if (queue != NULL)
        return plait_device_is_on(what, "", memory, &at, size, plait_device_used()->device_of(queue));
    return at.kind != PLAIT_MEMORY_DEVICE ? PLAIT_OK
                                          : plait_fail(PLAIT_ERR_ARG,
                                                       "%s is %p, memory of GPU %d, but options.stream is NULL: set it "
                                                       "to a stream of that GPU",
                                                       what, memory, at.device);
}

enum plait_status plait_device_refuse(const char *call, const char *which, const void *memory)
{
    struct plait_location at;
    const enum plait_status status = plait_device_find(call, which, memory, &at);

    return status != PLAIT_OK || at.kind != PLAIT_MEMORY_DEVICE
               ? status
               : plait_fail(PLAIT_ERR_UNSUPPORTED,
                            "%s%s is %p, memory of GPU %d, which this call does not take yet: give it the host's", call,
                            which, memory, at.device);
}

const char *plait_memory_name(enum plait_memory kind)
{
#define PLAIT_X(symbol, name) [symbol] = name,
    static const char *const names[] = { PLAIT_MEMORY_LIST(PLAIT_X) };
#undef PLAIT_X

    return (unsigned)kind < PLAIT_NMEMORY ? names[kind] : "?";
}
