/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory as this process sees it. */
#include "standin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAPPINGS = 4096, FREED = 256 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mapping mappings[MAPPINGS];
static uint32_t nmapping;
static struct mapping freed[FREED]; /* the latest */
static uint32_t nfreed;
static int key = -1; /* of devices' memory; -1: the processor has none */

/* ---- What is where ----------------------------------------------------------------------------------------- */

static struct mapping *find(uint64_t address)
{
    for (uint32_t i = 0; i < nmapping; i++)
        if (address - mappings[i].start < mappings[i].bytes)
            return &mappings[i];
    return NULL;
}

bool mapping_find(uint64_t address, struct mapping *out)
{
    pthread_mutex_lock(&lock);
    const struct mapping *m = find(address);
    if (m != NULL)
        *out = *m;
    pthread_mutex_unlock(&lock);
    return m != NULL;
}

static _Thread_local bool hiding;

void memory_hide(bool hide)
{
    hiding = hide;
}

static void keep(struct mapping m)
{
    m.hidden = hiding;
    pthread_mutex_lock(&lock);
    if (nmapping == MAPPINGS)
        die("more than %d allocations in this process", MAPPINGS);
    mappings[nmapping++] = m;
    pthread_mutex_unlock(&lock);
}

uint32_t memory_count(enum kind kind)
{
    uint32_t n = 0;

    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < nmapping; i++)
        n += mappings[i].kind == kind;
    pthread_mutex_unlock(&lock);
    return n;
}

uint64_t memory_bytes(void)
{
    uint64_t bytes = 0;

    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < nmapping; i++)
        bytes += mappings[i].kind == DEVICE_MEMORY ? mappings[i].bytes : 0;
    pthread_mutex_unlock(&lock);
    return bytes;
}

static void forget(uint64_t start)
{
    pthread_mutex_lock(&lock);
    struct mapping *m = find(start);
    freed[nfreed++ % FREED] = *m;
    *m = mappings[--nmapping];
    pthread_mutex_unlock(&lock);
}

static bool was_freed(uint64_t address)
{
    bool was = false;

    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < FREED; i++)
        was |= address - freed[i].start < freed[i].bytes;
    pthread_mutex_unlock(&lock);
    return was;
}

/* By the program, which may have got the addresses of what was freed. */
static bool is_mapped(uint64_t address)
{
    return msync((void *)(uintptr_t)(address / 4096 * 4096), 1, MS_ASYNC) == 0;
}

/* ---- Who may touch it -------------------------------------------------------------------------------------- */

void memory_allow(bool allow)
{
    if (key >= 0)
        pkey_set(key, allow ? 0 : PKEY_DISABLE_ACCESS);
}

/* Before there is any stream: a thread can allow itself only what there is. */
void memory_open(void)
{
    if (setting("PLAIT_STANDIN_GUARD", 1) != 0)
        key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
}

static void memory_guard(void *start, uint64_t bytes)
{
    if (key >= 0 && pkey_mprotect(start, bytes, PROT_READ | PROT_WRITE, key) != 0)
        die("cannot protect memory: %s", strerror(errno));
}

static void check_reach(const struct stream *s, const struct mapping *m, const char *what)
{
    if (m->kind != DEVICE_MEMORY && m->kind != IMPORTED_MEMORY)
        return;
    if ((int)m->device != s->context->device && !s->context->peers[m->device])
        die("%s on device %d accesses memory of device %u: peer access is not enabled", what, s->context->device,
            m->device);
}

void touch(const struct stream *s, uint64_t address, uint64_t bytes, enum access access, bool host, const char *what)
{
    struct mapping m;

    if (bytes == 0)
        return;
    if (!mapping_find(address, &m)) {
        if (was_freed(address) && !(host && is_mapped(address)))
            die("%s accesses %#llx, which was freed or closed", what, (unsigned long long)address);
        if (host)
            return;
        die("%s accesses %#llx, which is no memory that the device can reach", what, (unsigned long long)address);
    }
    if (address + bytes > m.start + m.bytes)
        die("%s accesses %llu bytes at %#llx, which is %llu bytes too many", what, (unsigned long long)bytes,
            (unsigned long long)address, (unsigned long long)(address + bytes - m.start - m.bytes));
    if (!host)
        check_reach(s, &m, what);
    if (m.kind == PINNED_MEMORY && (access == WRITE || access == SIGNAL))
        pinned_written();
    world_lock();
    if (allocation_at(m.allocation)->id != m.id)
        die("%s on stream %d (process %d) accesses %llu bytes at %#llx, byte %llu of %llu of allocation %llu, which "
            "process %d has freed; the latest allocation is %llu",
            what, s->actor, getpid(), (unsigned long long)bytes, (unsigned long long)address,
            (unsigned long long)(address - m.start), (unsigned long long)m.bytes, (unsigned long long)m.id,
            m.kind == IMPORTED_MEMORY ? m.pid : getpid(), (unsigned long long)allocation_last());
    accessed(m.allocation, address - m.start, bytes, s->actor, access, what);
    world_unlock();
}

/* ---- Allocation -------------------------------------------------------------------------------------------- */

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + 4095) / 4096 * 4096;
}

/* Shared memory, or what the program has: start != NULL. */
enum { SPOILT = 65536 }; /* bytes that new memory begins with and that are NaNs: a driver gives memory that was used */

static int make(void *start, uint64_t bytes, enum kind kind, uint64_t *out)
{
    const struct context *context = context_now();
    const int fd = start == NULL ? memfd_create("plait stand-in memory", MFD_CLOEXEC) : -1;

    if (start == NULL && (fd < 0 || ftruncate(fd, (off_t)round_up(bytes)) != 0))
        return CU_OUT_OF_MEMORY;
    if (start == NULL)
        start = mmap(NULL, round_up(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (start == MAP_FAILED)
        return CU_OUT_OF_MEMORY;
    if (fd >= 0)
        memset(start, 0xff, bytes < SPOILT ? bytes : SPOILT);
    if (kind == DEVICE_MEMORY)
        memory_guard(start, round_up(bytes));
    world_lock();
    const uint32_t allocation = allocation_make(bytes, (uint32_t)context->device, fd);
    const uint64_t id = allocation == UINT32_MAX ? 0 : allocation_at(allocation)->id;
    world_unlock();
    if (id == 0)
        die("too many allocations");
    *out = (uint64_t)(uintptr_t)start;
    keep((struct mapping){ *out, bytes, kind, allocation, (uint32_t)context->device, 0, id, 0, 0 });
    return CU_OK;
}

/* The driver waits for all work of this process. */
static int drop(uint64_t address, enum kind kind, enum kind or)
{
    struct mapping m;

    if (!mapping_find(address, &m) || m.start != address || (m.kind != kind && m.kind != or))
        return CU_INVALID_VALUE;
    process_synchronize();
    world_lock();
    struct allocation *a = allocation_at(m.allocation);
    const int fd = a->fd;
    allocation_free(m.allocation);
    world_unlock();
    forget(address);
    pinned_freed(address, m.bytes);
    if (m.kind != REGISTERED_MEMORY) {
        munmap((void *)(uintptr_t)address, round_up(m.bytes));
        close(fd);
    }
    return CU_OK;
}

/* Bytes of device memory; 0: any. */
static _Atomic uint64_t limit = UINT64_MAX;

void memory_limit(uint64_t bytes)
{
    limit = bytes;
}

static uint64_t most(void)
{
    return limit == UINT64_MAX ? setting("PLAIT_STANDIN_LIMIT", 0) << 10 : limit;
}

EXPORT int cuMemAlloc_v2(cu_address *out, size_t bytes)
{
    CALL(true);
    const int status = capture_unsafe();
    if (status != CU_OK || bytes == 0)
        return status != CU_OK ? status : CU_INVALID_VALUE;
    if (most() != 0 && memory_bytes() + bytes > most())
        return CU_OUT_OF_MEMORY;
    uint64_t address;
    const int made = make(NULL, bytes, DEVICE_MEMORY, &address);
    if (made == CU_OK)
        *out = address;
    return made;
}

EXPORT int cuMemFree_v2(cu_address memory)
{
    CALL(true);
    const int status = capture_unsafe();
    if (status != CU_OK || memory == 0)
        return status;
    return drop(memory, DEVICE_MEMORY, MANAGED_MEMORY);
}

EXPORT int cuMemAllocManaged(cu_address *out, size_t bytes, unsigned flags)
{
    CALL(true);
    uint64_t address;
    const int status =
        bytes == 0 || (flags != 1 && flags != 2) ? CU_INVALID_VALUE : make(NULL, bytes, MANAGED_MEMORY, &address);
    if (status == CU_OK)
        *out = address;
    return status;
}

EXPORT int cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
    CALL(true);
    (void)flags;
    uint64_t address;
    int status = bytes == 0 ? CU_INVALID_VALUE : capture_unsafe();
    if (status == CU_OK)
        status = make(NULL, bytes, PINNED_MEMORY, &address);
    if (status == CU_OK)
        *out = (void *)(uintptr_t)address;
    return status;
}

EXPORT int cuMemAllocHost_v2(void **out, size_t bytes)
{
    return cuMemHostAlloc(out, bytes, 0);
}

EXPORT int cuMemFreeHost(void *memory)
{
    CALL(true);
    const int status = capture_unsafe();
    return status == CU_OK ? drop((uint64_t)(uintptr_t)memory, PINNED_MEMORY, PINNED_MEMORY) : status;
}

EXPORT int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
    CALL(true);
    uint64_t address;
    struct mapping m;

    (void)flags;
    if (memory == NULL || bytes == 0)
        return CU_INVALID_VALUE;
    if (mapping_find((uint64_t)(uintptr_t)memory, &m))
        return CU_HOST_MEMORY_ALREADY_REGISTERED;
    return make(memory, bytes, REGISTERED_MEMORY, &address);
}

EXPORT int cuMemHostUnregister(void *memory)
{
    CALL(true);
    const int status = drop((uint64_t)(uintptr_t)memory, REGISTERED_MEMORY, REGISTERED_MEMORY);
    return status == CU_INVALID_VALUE ? CU_HOST_MEMORY_NOT_REGISTERED : status;
}

EXPORT int cuMemHostGetDevicePointer_v2(cu_address *out, void *memory, unsigned flags)
{
    CALL(true);
    struct mapping m;

    (void)flags;
    if (!mapping_find((uint64_t)(uintptr_t)memory, &m) || (m.kind != PINNED_MEMORY && m.kind != REGISTERED_MEMORY))
        return CU_INVALID_VALUE;
    *out = (uint64_t)(uintptr_t)memory;
    return CU_OK;
}

EXPORT int cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    CALL(true);
    const uint64_t bytes = memory_bytes();

    *total = (size_t)1 << 34;
    *free_bytes = most() == 0 ? *total / 2 : bytes < most() ? most() - bytes : 0;
    return CU_OK;
}

EXPORT int cuMemGetAddressRange_v2(cu_address *start, size_t *bytes, cu_address address)
{
    CALL(true);
    struct mapping m;

    if (!mapping_find(address, &m))
        return CU_NOT_FOUND;
    if (start != NULL)
        *start = m.start;
    if (bytes != NULL)
        *bytes = m.bytes;
    return CU_OK;
}

/* ---- Other processes --------------------------------------------------------------------------------------- */

struct handle {
    uint64_t id;
    uint32_t allocation, device;
    int pid, fd;
    uint64_t start, bytes;
};
_Static_assert(sizeof(struct handle) <= sizeof(cu_ipc_handle), "a handle has 64 bytes");

EXPORT int cuIpcGetMemHandle(cu_ipc_handle *out, cu_address memory)
{
    CALL(true);
    struct handle h = { 0 };
    struct mapping m;

    if (!mapping_find(memory, &m) || m.kind != DEVICE_MEMORY || m.start != memory || m.hidden)
        return CU_INVALID_VALUE;
    world_lock();
    const struct allocation *a = allocation_at(m.allocation);
    h = (struct handle){ m.id, m.allocation, m.device, a->pid, a->fd, m.start, m.bytes };
    world_unlock();
    memset(out, 0, sizeof *out);
    memcpy(out, &h, sizeof h);
    return CU_OK;
}

static bool open_again(const struct handle *h, cu_address *out)
{
    bool found = false;

    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < nmapping && !found; i++)
        if (mappings[i].id == h->id) {
            mappings[i].opened++;
            *out = mappings[i].start;
            found = true;
        }
    pthread_mutex_unlock(&lock);
    return found;
}

/*
 * Is another allocation of that process, which it must have freed, still mapped where this one lies there? A driver cuts
 * blocks of 2 MiB into small allocations and maps a block as a whole: what was freed is in the way of all in its block,
 * unless something of the block that lives is mapped, too: then the block was not freed.
 */
static bool is_taken(const struct handle *h)
{
    const uint64_t block = (uint64_t)2 << 20;
    bool taken = false, stale = false, alive = false;

    world_lock();
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < nmapping; i++) {
        const struct mapping *m = &mappings[i];
        if (m->kind != IMPORTED_MEMORY || m->pid != h->pid)
            continue;
        const bool lives = allocation_at(m->allocation)->id == m->id;
        const bool shares = m->remote / block <= (h->start + h->bytes - 1) / block &&
                            h->start / block <= (m->remote + m->bytes - 1) / block;
        taken |= m->remote < h->start + h->bytes && h->start < m->remote + m->bytes;
        stale |= shares && !lives;
        alive |= shares && lives;
    }
    pthread_mutex_unlock(&lock);
    world_unlock();
    return taken || (stale && !alive);
}

static int open_new(const struct handle *h, cu_address *out)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/fd/%d", h->pid, h->fd);
    world_lock();
    const bool lives = allocation_at(h->allocation)->id == h->id;
    world_unlock();
    const int fd = lives ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return CU_MAP_FAILED;
    void *start = mmap(NULL, round_up(h->bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (start == MAP_FAILED)
        return CU_MAP_FAILED;
    memory_guard(start, round_up(h->bytes));
    *out = (uint64_t)(uintptr_t)start;
    keep((struct mapping){ *out, h->bytes, IMPORTED_MEMORY, h->allocation, h->device, 1, h->id, h->start, h->pid });
    return CU_OK;
}

/* The driver refuses a handle of the same process. */
EXPORT int cuIpcOpenMemHandle_v2(cu_address *out, cu_ipc_handle handle, unsigned flags)
{
    CALL(true);
    struct handle h;

    memcpy(&h, &handle, sizeof h);
    if (flags > 1 || h.id == 0)
        return CU_INVALID_VALUE;
    if (h.pid == getpid())
        return CU_INVALID_CONTEXT;
    if (!devices_reach((uint32_t)context_now()->device, h.device))
        return CU_PEER_ACCESS_UNSUPPORTED;
    if (flags == 1)
        context_now()->peers[h.device] = true;
    if (open_again(&h, out))
        return CU_OK;
    return is_taken(&h) ? CU_ALREADY_MAPPED : open_new(&h, out);
}

EXPORT int cuIpcCloseMemHandle(cu_address memory)
{
    CALL(true);
    struct mapping m;

    if (!mapping_find(memory, &m) || m.kind != IMPORTED_MEMORY || m.start != memory)
        return CU_INVALID_VALUE;
    process_synchronize();
    pthread_mutex_lock(&lock);
    const bool last = --find(memory)->opened == 0;
    pthread_mutex_unlock(&lock);
    if (last) {
        forget(memory);
        munmap((void *)(uintptr_t)memory, round_up(m.bytes));
    }
    return CU_OK;
}

/* ---- Questions --------------------------------------------------------------------------------------------- */

static bool is_host(const struct mapping *m)
{
    return m->kind == PINNED_MEMORY || m->kind == REGISTERED_MEMORY;
}

static int answer(void *out, int attribute, const struct mapping *m, uint64_t address)
{
    switch (attribute) {
    case VALUE_POINTER_ATTRIBUTE_CONTEXT:
        *(void **)out = context_of((int)m->device);
        return CU_OK;
    case VALUE_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(uint32_t *)out = is_host(m) ? VALUE_MEMORYTYPE_HOST : VALUE_MEMORYTYPE_DEVICE;
        return CU_OK;
    case VALUE_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(uint64_t *)out = address;
        return CU_OK;
    case VALUE_POINTER_ATTRIBUTE_HOST_POINTER:
        *(uint64_t *)out = is_host(m) || m->kind == MANAGED_MEMORY ? address : 0;
        return is_host(m) || m->kind == MANAGED_MEMORY ? CU_OK : CU_INVALID_VALUE;
    case VALUE_POINTER_ATTRIBUTE_BUFFER_ID:
        *(uint64_t *)out = m->id;
        return CU_OK;
    case VALUE_POINTER_ATTRIBUTE_IS_MANAGED:
        *(uint32_t *)out = m->kind == MANAGED_MEMORY;
        return CU_OK;
    case VALUE_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)out = (int)m->device;
        return CU_OK;
    case VALUE_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(uint32_t *)out = m->kind == DEVICE_MEMORY;
        return CU_OK;
    case VALUE_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(uint64_t *)out = m->start;
        return CU_OK;
    case VALUE_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(uint64_t *)out = m->bytes;
        return CU_OK;
    case VALUE_POINTER_ATTRIBUTE_MAPPED:
        *(uint32_t *)out = 1;
        return CU_OK;
    default:
        return CU_INVALID_VALUE;
    }
}

EXPORT int cuPointerGetAttribute(void *out, int attribute, cu_address pointer)
{
    CALL(true);
    struct mapping m;

    return mapping_find(pointer, &m) ? answer(out, attribute, &m, pointer) : CU_INVALID_VALUE;
}

/* Of memory that the driver does not know all answers are 0, and the device -2. */
EXPORT int cuPointerGetAttributes(unsigned n, int *attributes, void **data, cu_address pointer)
{
    CALL(false);
    struct mapping m;
    const bool found = mapping_find(pointer, &m);

    for (unsigned i = 0; i < n; i++) {
        const int a = attributes[i];
        const bool word = a == VALUE_POINTER_ATTRIBUTE_MEMORY_TYPE || a == VALUE_POINTER_ATTRIBUTE_IS_MANAGED ||
                          a == VALUE_POINTER_ATTRIBUTE_DEVICE_ORDINAL || a == VALUE_POINTER_ATTRIBUTE_MAPPED ||
                          a == VALUE_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE;
        memset(data[i], 0, word ? 4 : 8);
        if (!found && a == VALUE_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            *(int *)data[i] = -2;
        if (found)
            answer(data[i], a, &m, pointer);
    }
    return CU_OK;
}
