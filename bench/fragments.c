/* SPDX-License-Identifier: BSD-3-Clause */
#include "fragments.h"

#include <sys/mman.h>
#include <unistd.h>

size_t fragments_in(FILE *buddyinfo)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char line[512], zone[32];
    size_t sum = 0;
    int at;

    while (fgets(line, sizeof line, buddyinfo) != NULL) {
        if (sscanf(line, "Node %*d, zone %31s%n", zone, &at) != 1)
            continue;
        const char *rest = line + at;
        unsigned long long n;
        for (unsigned order = 0; order < FRAGMENTS_BLOCKS && sscanf(rest, "%llu%n", &n, &at) == 1; order++) {
            sum += (size_t)n * (page << order);
            rest += at;
        }
    }
    return sum;
}

size_t fragments_take(size_t most, size_t *pieces)
{
    static char *held;
    static size_t bytes;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);

    if (bytes > 0)
        munmap(held, bytes);
    bytes = 0;
    FILE *file = fopen(FRAGMENTS_FREE, "re");
    *pieces = file != NULL ? fragments_in(file) : 0;
    if (file != NULL)
        fclose(file);
    const size_t wanted = *pieces < most ? *pieces : most;
    if (wanted == 0)
        return 0;
    held = mmap(NULL, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (held == MAP_FAILED)
        return 0;
    bytes = wanted;
    madvise(held, bytes, MADV_NOHUGEPAGE); /* else the kernel would give huge pages */
    madvise(held, bytes, MADV_DONTFORK);
    for (size_t i = 0; i < bytes; i += page)
        held[i] = 1;
    return bytes;
}
