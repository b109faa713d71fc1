/* SPDX-License-Identifier: BSD-3-Clause */
/* What a process has, measured so that two measurements can be compared to the byte. */
#include "campaign.h"
#include "memory/arena.h"

#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__ /* it keeps what is freed, in mappings of its own */
#define MAPS_MEMORY true
#else
#define MAPS_MEMORY false
#endif

static unsigned count_entries(const char *path, struct footprint *f)
{
    char target[256];
    unsigned n = 0;
    DIR *d = opendir(path);

    must(d != NULL, path);
    for (struct dirent *e; (e = readdir(d)) != NULL; n++) {
        const ssize_t got = readlinkat(dirfd(d), e->d_name, target, sizeof target - 1);
        target[got > 0 ? got : 0] = '\0';
        if ((strncmp(target, "/dev/shm/", 9) == 0 || strncmp(target, "/tmp/", 5) == 0) && atoi(e->d_name) > 2)
            memcpy(f->named, target, sizeof target);
    }
    closedir(d);
    return n;
}

static void count_mappings(struct footprint *f)
{
    char line[1024];
    unsigned long from, to;
    FILE *maps = fopen("/proc/self/maps", "r");

    must(maps != NULL, "/proc/self/maps");
    while (fgets(line, sizeof line, maps) != NULL) {
        f->shared += strstr(line, "/memfd:") != NULL;
        if (!MAPS_MEMORY && strstr(line, "[heap]") == NULL && sscanf(line, "%lx-%lx", &from, &to) == 2)
            f->mapped += to - from;
        if (strstr(line, "/dev/shm/") != NULL)
            snprintf(f->named, sizeof f->named, "%.200s", line);
    }
    fclose(maps);
}

static struct footprint look(void)
{
    struct footprint f = { 0 };

    f.descriptors = count_entries("/proc/self/fd", &f);
    f.threads = count_entries("/proc/self/task", &f);
    count_mappings(&f);
    f.arena = plait_arena_used();
    malloc_trim(0);
    const struct mallinfo2 m = mallinfo2();
    f.heap = m.uordblks + m.hblkhd;
    return f;
}

static pthread_barrier_t together;

static void *meet(void *arg)
{
    pthread_barrier_wait(&together);
    return arg;
}

/* A comm of its own, which also frees what was waiting for others to leave. In a thread, which keeps no freed memory.
 */
static void *live_alone(void *arg)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_comm *comm = NULL;

    o.nrank = 1;
    must(plait_comm_create(&o, &comm) == PLAIT_OK && plait_barrier(comm, NULL) == PLAIT_OK &&
             plait_comm_destroy(comm) == PLAIT_OK,
         "a comm alone");
    return arg;
}

/*
 * Before it looks, as many threads as ever live at once have lived, as the C library keeps their stacks; and it has
 * looked before, as looking takes memory.
 */
struct footprint footprint_measure(uint32_t nthread)
{
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 128 << 10); /* otherwise it changes, and freed memory stays mapped */
    pthread_barrier_init(&together, NULL, nthread);
    run_threads(nthread, meet, NULL, 0);
    pthread_barrier_destroy(&together);
    run_threads(1, live_alone, NULL, 0);
    look();
    return look();
}

void footprint_compare(const struct footprint *before, const struct footprint *after, bool network, char *text,
                       size_t size)
{
    const struct {
        const char *what;
        size_t had, has;
    } all[] = { { "bytes of heap", before->heap, after->heap },
                { "bytes mapped", before->mapped, after->mapped },
                { "bytes of the arena", before->arena, after->arena },
                { "descriptors", before->descriptors, after->descriptors },
                { "shared mappings", before->shared, after->shared },
                { "threads", before->threads, after->threads } };
    size_t n = 0;

    for (size_t i = network ? 2 : 0; i < sizeof all / sizeof *all; i++)
        if (all[i].has > all[i].had)
            n += (size_t)snprintf(text + n, size - n, "%s%s: %zu before, %zu after", n > 0 ? "; " : "", all[i].what,
                                  all[i].had, all[i].has);
    if (after->named[0] != '\0')
        snprintf(text + n, size - n, "%sa named file: %.200s", n > 0 ? "; " : "", after->named);
}
