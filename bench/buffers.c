/* SPDX-License-Identifier: BSD-3-Clause */
#include "buffers.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NAME  "PLAIT_PERF_BUFFERS" /* in the environment: the file that all map; not there: malloc's */
#define PAGE  ((size_t)4096)       /* in front of each buffer, with the bytes that are mapped */
#define APART 40                   /* a rank's part of the file begins at rank << APART, and takes what is written */

static _Thread_local off_t at; /* of this rank's next one */

bool buffers_share(uint32_t nrank)
{
    static int fd = -1;
    char path[64];

    if (fd >= 0)
        return true;
    fd = memfd_create("plait-perf-buffers", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), fd);
    return fd >= 0 && ftruncate(fd, (off_t)nrank << APART) == 0 && setenv(NAME, path, 1) == 0;
}

void buffers_of(uint32_t rank)
{
    at = (off_t)rank << APART;
}

static void *map(const char *path, size_t bytes)
{
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    char *memory = MAP_FAILED;

    if (fd >= 0) {
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);
        close(fd);
    }
    if (memory == MAP_FAILED)
        return NULL;
    at += (off_t)bytes;
    memcpy(memory, &bytes, sizeof bytes);
    return memory + PAGE;
}

void *buffers_alloc(size_t bytes)
{
    const char *path = getenv(NAME);
    const size_t whole = (bytes + PAGE - 1) / PAGE * PAGE;

    return path != NULL ? map(path, PAGE + whole) : aligned_alloc(PAGE, whole);
}

void buffers_free(void *memory)
{
    size_t bytes;

    if (memory == NULL || getenv(NAME) == NULL) {
        free(memory);
        return;
    }
    memory = (char *)memory - PAGE;
    memcpy(&bytes, memory, sizeof bytes);
    munmap(memory, bytes);
}
