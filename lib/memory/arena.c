/* SPDX-License-Identifier: BSD-3-Clause */
#include "arena.h"

#include "base/config.h"
#include "base/descriptor.h"
#include "base/fork.h"
#include "base/random.h"
#include "base/status.h"
#include "base/system_limits.h"
#include "devices.h"

#include <plait/memory.h>
#include <plait/version.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define PURPOSE          "its shared memory"
#define PAGE             ((size_t)4096)
#define MOST_BY_DEFAULT  ((size_t)256 << 30)
#define LEAST_BY_DEFAULT ((size_t)64 << 20) /* if the system's limits allow less, creation fails */
#define SHARERS          32 /* arenas of this process and 15 peers fit into half of a limited address space */
#define BACK_AT_ONCE     ((size_t)16 << 20) /* bytes per fallocate(): a signal makes the call start again */
#define CHECK_LEAST      ((size_t)1 << 20)  /* bytes from which an allocation checks for free memory, in 50 us */

struct extent { /* a part of the arena; the list is in address order and covers it all */
    size_t start, size;
    unsigned used; /* reference count; 0: free */
    struct extent *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct plait_arena arena = { .fd = -1 };
static int arena_fd = -1;           /* read-write, to commit pages and give them back */
static _Atomic uint32_t generation; /* the fork generation that made the arena; a forked child makes a new one */
static struct extent *extents;
static struct plait_arena inherited; /* in a forked child: the parent's arena, which stays mapped */

/* A descriptor that peers can map only for reading. Without /proc, a read-write one. */
static int read_only_copy(int fd)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const int copy = plait_descriptor_keep(open(path, O_RDONLY | O_CLOEXEC), PURPOSE);
    return copy >= 0 ? copy : plait_descriptor_keep(fcntl(fd, F_DUPFD_CLOEXEC, 0), PURPOSE);
}

static void write_header(const struct plait_arena *a)
{
    struct plait_arena_header *h = (struct plait_arena_header *)(void *)a->base;

    h->layout = PLAIT_ARENA_LAYOUT;
    h->pid = getpid();
    h->token = a->token;
    h->base = (uint64_t)(uintptr_t)a->base;
    snprintf(h->version, sizeof h->version, "%s", plait_version());
    atomic_thread_fence(memory_order_release);
    memcpy(h->magic, PLAIT_ARENA_MAGIC, sizeof h->magic);
}

/*
 * Main memory, at most 256 GiB: then hundreds of processes can map each other's arenas in 47 bits of address space. The
 * limits on address space and file size may make it smaller, down to LEAST_BY_DEFAULT.
 */
static size_t default_size(void)
{
    const size_t space = plait_limit(RLIMIT_AS) / SHARERS, file = plait_limit(RLIMIT_FSIZE) & ~(PAGE - 1);
    size_t size = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);

    size = size < MOST_BY_DEFAULT ? size : MOST_BY_DEFAULT;
    size = size < space ? size : space;
    size = size < file - PAGE ? size : file - PAGE;
    return size > LEAST_BY_DEFAULT ? size : LEAST_BY_DEFAULT;
}

/* Bytes of the file, with one page more for the header. */
static enum plait_status file_size(size_t bytes, size_t *out)
{
    const size_t most = plait_limit(RLIMIT_FSIZE);

    *out = ((bytes > 0 ? bytes : default_size()) + 2 * PAGE - 1) & ~(PAGE - 1);
    if (*out <= most)
        return PLAIT_OK;
    return plait_fail(PLAIT_ERR_SYSTEM,
                      "no shared memory arena of %zu bytes: this process may make files, also of memory only, of at "
                      "most %zu bytes; raise the limit (ulimit -f) or make the arena smaller (PLAIT_ARENA)",
                      *out, most);
}

static enum plait_status make_arena(size_t bytes)
{
    struct plait_arena a = { .fd = -1 };
    enum plait_status status = file_size(bytes, &a.size);

    if (status == PLAIT_OK)
        status = plait_fork_watch();
    if (status != PLAIT_OK)
        return status;
    struct extent *all = malloc(sizeof *all);
    void *base = NULL;
    const int fd = plait_descriptor_keep(memfd_create("plait", MFD_CLOEXEC), PURPOSE);
    if (all == NULL || fd < 0)
        status = all == NULL
                     ? plait_fail_memory("out of memory for the arena")
                     : plait_fail_errno(
                           errno, "no shared memory arena: memfd_create(), which a filter of system calls must allow");
    else if ((status = plait_random(&a.token, sizeof a.token, "the shared memory arena")) != PLAIT_OK)
        ;
    else if (ftruncate(fd, (off_t)a.size) != 0)
        status = plait_fail_errno(errno, "no shared memory arena of %zu bytes (PLAIT_ARENA makes it smaller)", a.size);
    else
        status = plait_reserve(a.size, true, fd, "the shared memory arena", &base);
    if (status == PLAIT_OK && (a.fd = read_only_copy(fd)) < 0)
        status = plait_fail_errno(errno, "no descriptor of the shared memory arena");
    if (status != PLAIT_OK)
        goto fail;
    a.base = base;
    write_header(&a);
    *all = (struct extent){ .start = PAGE, .size = a.size - PAGE };
    extents = all;
    arena_fd = fd;
    generation = plait_generation;
    arena = a;
    return PLAIT_OK;
fail:
    free(all);
    if (base != NULL)
        munmap(base, a.size);
    plait_descriptor_close(fd);
    return status;
}

enum plait_status plait_arena_get(const struct plait_arena **out)
{
    struct plait_config config;
    enum plait_status status = PLAIT_OK;

    if (generation != plait_generation) /* outside the lock: it may log */
        status = plait_config_load(&config);
    pthread_mutex_lock(&lock);
    if (status == PLAIT_OK && generation != plait_generation)
        status = make_arena(config.arena);
    pthread_mutex_unlock(&lock);
    if (status == PLAIT_OK)
        *out = &arena;
    return status;
}

/*
 * Commit memory for a part of the arena now. If the system had no memory at the first access of a page, the process
 * would die of SIGBUS or of the control group's out-of-memory killer.
 */
static enum plait_status back(size_t start, size_t bytes)
{
    enum plait_status status = PLAIT_OK;

    for (size_t at = 0; at < bytes && status == PLAIT_OK;) {
        /* Checked again for each part, as other processes allocate at the same time. */
        if (bytes - at >= CHECK_LEAST && (status = plait_check_memory(bytes - at)) != PLAIT_OK)
            break;
        if ((status = plait_descriptor_check(arena_fd)) != PLAIT_OK)
            break;
        const size_t n = bytes - at < BACK_AT_ONCE ? bytes - at : BACK_AT_ONCE;
        if (fallocate(arena_fd, 0, (off_t)(start + at), (off_t)n) == 0)
            at += n;
        else if (errno == ENOSPC) /* no memory: a memfd lies on no disk */
            status = plait_fail(PLAIT_ERR_NOMEM,
                                "no memory for %zu bytes of the arena: the machine commits no more; see sysctl "
                                "vm.overcommit_memory",
                                bytes);
        else if (errno != EINTR)
            status = plait_fail_errno(errno, "no memory for %zu bytes of the arena", bytes);
    }
    return status;
}

static bool contains(const struct plait_arena *a, const void *p, size_t bytes)
{
    const uintptr_t start = (uintptr_t)p, base = (uintptr_t)a->base;
    return start >= base && start - base <= a->size && bytes <= a->size - (start - base);
}

/* The extent in use that contains this address, or NULL. */
static struct extent *extent_with(const void *inside)
{
    struct extent *e = generation == plait_generation && contains(&arena, inside, 1) ? extents : NULL;

    while (e != NULL && (const char *)inside >= arena.base + e->start + e->size)
        e = e->next;
    return e != NULL && e->used > 0 && (const char *)inside >= arena.base + e->start ? e : NULL;
}

static void merge_free(void)
{
    for (struct extent *e = extents, *next; e != NULL && (next = e->next) != NULL;)
        if (e->used == 0 && next->used == 0) {
            e->size += next->size;
            e->next = next->next;
            free(next);
        } else {
            e = next;
        }
}

/* Drop one reference to the extent at `p`; the last one frees and zeroes its pages. False: no extent starts there. */
static bool give_back(void *p, bool touched)
{
    pthread_mutex_lock(&lock);
    struct extent *e = extent_with(p);
    const bool starts = e != NULL && arena.base + e->start == (char *)p;
    if (starts && --e->used == 0) {
        /* madvise() first, as the program may have replaced the descriptor; but madvise() refuses locked memory. */
        if (madvise(p, e->size, MADV_REMOVE) != 0 &&
            (!plait_descriptor_is_ours(arena_fd) ||
             fallocate(arena_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)e->start, (off_t)e->size) != 0) &&
            touched)
            memset(p, 0, e->size);
        merge_free();
    }
    pthread_mutex_unlock(&lock);
    return starts;
}

/* Take the first free extent with room, and split off what remains. */
static enum plait_status carve(size_t bytes, size_t *start)
{
    struct extent *e;

    for (e = extents; e != NULL && (e->used > 0 || e->size < bytes); e = e->next)
        ;
    if (e == NULL)
        return plait_fail(PLAIT_ERR_NOMEM, "no %zu bytes left in the arena of %zu; raise PLAIT_ARENA to at least %zu%s",
                          bytes, arena.size - PAGE, arena.size + bytes,
                          arena.size + PAGE > plait_limit(RLIMIT_FSIZE) ? ", and ulimit -f" : "");
    if (e->size > bytes) {
        struct extent *rest = malloc(sizeof *rest);
        if (rest == NULL)
            return plait_fail_memory("out of memory to allocate %zu bytes of the arena", bytes);
        *rest = (struct extent){ e->start + bytes, e->size - bytes, 0, e->next };
        e->size = bytes;
        e->next = rest;
    }
    e->used = 1;
    *start = e->start;
    return PLAIT_OK;
}

enum plait_status plait_arena_alloc(size_t bytes, void **out)
{
    const struct plait_arena *a;
    enum plait_status status = plait_arena_get(&a);
    const size_t rounded = bytes <= SIZE_MAX - PAGE ? (bytes + PAGE - 1) & ~(PAGE - 1) : SIZE_MAX;
    size_t start = 0;

    if (status != PLAIT_OK)
        return status;
    pthread_mutex_lock(&lock);
    status = carve(rounded, &start);
    pthread_mutex_unlock(&lock);
    if (status != PLAIT_OK)
        return status;
    status = back(start, rounded);
    if (status == PLAIT_OK)
        *out = a->base + start;
    else
        give_back(a->base + start, false);
    return status;
}

bool plait_arena_free(void *p)
{
    return p == NULL || give_back(p, true);
}

size_t plait_arena_used(void)
{
    size_t used = 0;

    pthread_mutex_lock(&lock);
    for (const struct extent *e = extents; e != NULL && generation == plait_generation; e = e->next)
        used += e->used > 0 ? e->size : 0;
    pthread_mutex_unlock(&lock);
    return used;
}

/* ---- Shown blocks --------------------------------------------------------------------------------- */

void plait_arena_show(struct plait_shown *block)
{
    pthread_mutex_lock(&lock);
    struct plait_arena_header *h = (struct plait_arena_header *)(void *)arena.base;
    atomic_store_explicit(&block->next, atomic_load_explicit(&h->first, memory_order_relaxed), memory_order_relaxed);
    atomic_store_explicit(&h->first, (uint64_t)((char *)block - arena.base), memory_order_release);
    pthread_mutex_unlock(&lock);
}

void plait_arena_hide(struct plait_shown *block)
{
    if (block == NULL || generation != plait_generation || !plait_arena_contains(block, sizeof *block))
        return; /* a forked child leaves its parent's list alone */
    pthread_mutex_lock(&lock);
    struct plait_arena_header *h = (struct plait_arena_header *)(void *)arena.base;
    const uint64_t offset = (uint64_t)((char *)block - arena.base);
    _Atomic uint64_t *link = &h->first;
    uint64_t at;
    while ((at = atomic_load_explicit(link, memory_order_relaxed)) != 0 && at != offset)
        link = &((struct plait_shown *)(void *)(arena.base + at))->next;
    if (at == offset)
        atomic_store_explicit(link, atomic_load_explicit(&block->next, memory_order_relaxed), memory_order_release);
    pthread_mutex_unlock(&lock);
}

bool plait_arena_contains(const void *p, size_t bytes)
{
    return contains(&arena, p, bytes);
}

uint64_t plait_arena_offset(const void *p)
{
    return (uint64_t)((const char *)p - arena.base);
}

const void *plait_process_at(const struct plait_process *process, uint64_t offset)
{
    return (process->base != NULL ? process->base : arena.base) + offset;
}

/* The child keeps the parent's arena mapped, as the caller's data may lie in it. */
static void forget_parent(void)
{
    if (generation + 1 != plait_generation)
        return;
    plait_descriptor_close(arena.fd);
    plait_descriptor_close(arena_fd);
    for (struct extent *next; extents != NULL; extents = next) {
        next = extents->next;
        free(extents);
    }
    inherited = arena;
}

const struct plait_fork_module plait_arena_fork = { .lock = &lock, .forget = forget_parent };

enum plait_status plait_mem_alloc(size_t bytes, void **out)
{
    if (out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_mem_alloc: out is NULL");
    if (bytes == 0)
        return plait_fail(PLAIT_ERR_ARG, "plait_mem_alloc: bytes is 0; ask for at least 1");
    return plait_arena_alloc(bytes, out);
}

enum plait_status plait_mem_share(const void *inside, void **out)
{
    if (out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_mem_share: out is NULL");
    pthread_mutex_lock(&lock);
    struct extent *e = extent_with(inside);
    if (e != NULL) {
        e->used++;
        *out = arena.base + e->start;
    }
    pthread_mutex_unlock(&lock);
    if (e != NULL)
        return PLAIT_OK;
    return plait_fail(PLAIT_ERR_ARG,
                      "plait_mem_share: inside is %p, where this process has no library memory; give one in what "
                      "plait_mem_alloc() or plait_fusion_data() returned",
                      inside);
}

enum plait_status plait_mem_free(void *memory)
{
    if (memory == NULL || contains(&inherited, memory, 1)) /* a forked child leaves its parent's memory alone */
        return PLAIT_OK;
    return plait_arena_free(memory) ? PLAIT_OK : plait_device_free(memory);
}
