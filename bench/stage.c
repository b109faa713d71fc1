/* SPDX-License-Identifier: BSD-3-Clause */
#include "stage.h"

#include "base/clock.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Seconds from the last rank's arrival to the common start: several times the latency of the news. */
#define LEAD 1e-6

static struct stage *map(int fd, size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    return memory != MAP_FAILED ? memory : NULL;
}

struct stage *stage_create(uint32_t nrank, uint32_t ntensor, int *fd)
{
    const size_t words = ntensor + (size_t)nrank * STAGE_ITERATIONS;
    const size_t bytes = sizeof(struct stage) + words * sizeof(uint64_t);
    struct stage *s = NULL;

    *fd = memfd_create("plait-perf", MFD_CLOEXEC);
    if (*fd >= 0 && ftruncate(*fd, (off_t)bytes) == 0)
        s = map(*fd, bytes);
    if (s == NULL)
        return NULL;
    s->bytes = bytes;
    s->nrank = nrank;
    s->ntensor = ntensor;
    return s;
}

struct stage *stage_map(int fd)
{
    struct stat status;

    if (fstat(fd, &status) != 0)
        return NULL;
    return map(fd, (size_t)status.st_size);
}

void stage_unmap(struct stage *s)
{
    if (s != NULL)
        munmap(s, s->bytes);
}

uint64_t *stage_counts(struct stage *s)
{
    return s->data;
}

double *stage_times(struct stage *s, uint32_t rank)
{
    _Static_assert(sizeof(double) == sizeof(uint64_t), "times lie in the same array as counts");
    return (double *)(s->data + s->ntensor) + (size_t)rank * STAGE_ITERATIONS;
}

void stage_mark(struct stage *s, uint32_t rank, bool done)
{
    const double mark = done;
    __atomic_store(stage_times(s, rank), &mark, __ATOMIC_RELEASE);
}

bool stage_marked(struct stage *s, uint32_t rank)
{
    double mark;
    __atomic_load(stage_times(s, rank), &mark, __ATOMIC_ACQUIRE);
    return mark != 0;
}

void stage_barrier(struct stage *s)
{
    const uint32_t generation = atomic_load_explicit(&s->generation, memory_order_relaxed);

    if (atomic_fetch_add(&s->arrived, 1) + 1 == s->nrank) {
        s->begin = plait_clock() + LEAD;
        atomic_store_explicit(&s->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&s->generation, generation + 1, memory_order_release);
        return;
    }
    while (atomic_load_explicit(&s->generation, memory_order_acquire) == generation &&
           !atomic_load_explicit(&s->cut, memory_order_relaxed))
        if (s->yield)
            sched_yield();
}

double stage_begin(struct stage *s)
{
    double t;

    stage_barrier(s);
    const double begin = s->yield ? 0 : s->begin;
    do
        t = plait_clock();
    while (t < begin);
    return t;
}
