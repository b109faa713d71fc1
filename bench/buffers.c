/* SPDX-License-Identifier: BSD-3-Clause */
#include "buffers.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define NAME  "PLAIT_PERF_BUFFERS" /* environment variable: the file that all ranks map; unset: malloc's memory */
#define PAGE  ((size_t)4096)
#define APART 40 /* a rank's part of the sparse file begins at rank << APART */

struct buffer {
    void *memory;
    size_t bytes;
};

static _Thread_local struct {
    bool same;             /* with `same`: */
    int fd;                /* of the file; */
    off_t at;              /* its offset of the next buffer */
    struct buffer *buffer; /* [n] all that were allocated */
    size_t n;
} rank;

bool buffers_choose(bool same, uint32_t nrank)
{
    static int fd = -1;
    char path[64];

    if (!same)
        return unsetenv(NAME) == 0;
    if (fd < 0)
        fd = memfd_create("plait-perf-buffers", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), fd);
    return fd >= 0 && ftruncate(fd, (off_t)nrank << APART) == 0 && setenv(NAME, path, 1) == 0;
}

bool buffers_begin(uint32_t number)
{
    const char *path = getenv(NAME);

    rank.same = path != NULL;
    rank.at = (off_t)number << APART;
    rank.fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    return path == NULL || rank.fd >= 0;
}

static void *map(size_t bytes)
{
    struct buffer *more = realloc(rank.buffer, (rank.n + 1) * sizeof *more);

    if (more == NULL)
        return NULL;
    rank.buffer = more;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, rank.fd, rank.at);
    if (memory == MAP_FAILED)
        return NULL;
    rank.at += (off_t)bytes;
    rank.buffer[rank.n++] = (struct buffer){ memory, bytes };
    return memory;
}

void *buffers_alloc(size_t bytes)
{
    const size_t whole = (bytes + PAGE - 1) / PAGE * PAGE;

    return rank.same ? map(whole > 0 ? whole : PAGE) : aligned_alloc(PAGE, whole);
}

void buffers_free(void *memory)
{
    if (!rank.same) {
        free(memory);
        return;
    }
    for (size_t i = 0; memory != NULL && i < rank.n; i++)
        if (rank.buffer[i].memory == memory) {
            munmap(memory, rank.buffer[i].bytes);
            rank.buffer[i].memory = NULL;
        }
}
