/* SPDX-License-Identifier: BSD-3-Clause */
/* What all processes of a test share: clocks, allocations, and who accessed which bytes when. */
#include "standin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { ALLOCATIONS = 4096, RECORDS = 65536, WORDS = 8192, WRITES = 64, TEXT = 48, NONE = UINT32_MAX };

struct trace { /* of an access */
    uint32_t next;
    int actor;
    uint64_t time, start, end;
    enum access access;
    int pid;
    char what[TEXT];
};

struct place {           /* of a word that values are written to */
    uint64_t allocation; /* id; 0: free */
    uint64_t at;
};

struct word { /* what was written there */
    uint64_t nwrite;
    struct write {
        uint64_t value;
        struct clock clock;
        uint64_t hands;
        int pid;
    } writes[WRITES]; /* the latest */
};

static struct world {
    uint32_t ready;
    pthread_mutex_t lock;
    uint64_t last_id;
    uint32_t free_trace; /* a list; those from `fresh` on were never used */
    uint32_t fresh;
    int owners[ACTORS]; /* processes; 0: free */
    bool careless;      /* a race is none */
    struct clock host, actors[ACTORS];
    uint64_t hands[ACTORS];
    struct allocation allocations[ALLOCATIONS];
    uint32_t nplace; /* those from here on were never used */
    struct place places[WORDS];
    struct word words[WORDS];
    struct trace traces[RECORDS];
} * world;

_Noreturn void die(const char *format, ...)
{
    va_list list;

    fprintf(stderr, "stand-in for CUDA: ");
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "\n");
    fflush(stderr);
    abort();
}

/* ---- Opening ----------------------------------------------------------------------------------------------- */

static void world_begin(void)
{
    pthread_mutexattr_t attributes;

    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&world->lock, &attributes);
    world->free_trace = NONE;
    world->owners[0] = -1; /* 0 is nobody */
    world->ready = 1;
}

void world_open(void)
{
    const char *path = getenv("PLAIT_STANDIN_WORLD");
    const int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : memfd_create("plait stand-in", MFD_CLOEXEC);

    if (fd < 0 || flock(fd, LOCK_EX) != 0 || ftruncate(fd, sizeof *world) != 0)
        die("cannot open the world %s: %s", path != NULL ? path : "of this process", strerror(errno));
    world = mmap(NULL, sizeof *world, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (world == MAP_FAILED)
        die("cannot map the world: %s", strerror(errno));
    if (world->ready == 0)
        world_begin();
    flock(fd, LOCK_UN);
    close(fd);
}

/*
 * A process that was killed may have held it. What it was writing then is a trace too many or too few. Or it had let go, but
 * not woken who waits: so that one looks again.
 */
void world_lock(void)
{
    struct timespec until;
    int error;

    do {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        error = pthread_mutex_timedlock(&world->lock, &until);
    } while (error == ETIMEDOUT);
    if (error == EOWNERDEAD)
        pthread_mutex_consistent(&world->lock);
}

void world_unlock(void)
{
    pthread_mutex_unlock(&world->lock);
}

/* ---- Clocks ------------------------------------------------------------------------------------------------ */

struct clock *host_clock(void)
{
    return &world->host;
}

struct clock *actor_clock(int actor)
{
    return &world->actors[actor];
}

void clock_join(struct clock *a, const struct clock *b)
{
    for (uint32_t i = 0; i < ACTORS; i++)
        if (a->at[i] < b->at[i])
            a->at[i] = b->at[i];
}

uint64_t hands_of(int actor)
{
    return world->hands[actor];
}

void hands_join(int actor, uint64_t hands)
{
    if (world->hands[actor] < hands)
        world->hands[actor] = hands;
}

void actor_tick(int actor)
{
    world->actors[actor].at[actor]++;
}

/* Has the process ended? What its streams were doing went with it. */
static bool is_gone(int pid)
{
    char path[32], state = 'X';

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return true;
    const int found = fscanf(f, "%*d %*[^)]) %c", &state);
    fclose(f);
    return found != 1 || state == 'Z' || state == 'X';
}

static int actor_free(bool gone)
{
    for (int actor = 1; actor < ACTORS; actor++)
        if (world->owners[actor] == 0 || (gone && is_gone(world->owners[actor])))
            return actor;
    return -1;
}

int actor_take(void)
{
    world_lock();
    int actor = actor_free(false);
    if (actor < 0)
        actor = actor_free(true);
    if (actor > 0)
        world->owners[actor] = getpid();
    world_unlock();
    return actor;
}

/* The next stream of this number goes on with its time. */
void actor_drop(int actor)
{
    world_lock();
    world->owners[actor] = 0;
    world_unlock();
}

/* ---- Allocations ------------------------------------------------------------------------------------------- */

uint32_t allocation_make(uint64_t bytes, uint32_t device, int fd)
{
    uint32_t i = 0;

    while (i < ALLOCATIONS && world->allocations[i].id != 0)
        i++;
    if (i == ALLOCATIONS)
        return NONE;
    world->allocations[i] = (struct allocation){ ++world->last_id, bytes, device, getpid(), fd, false, NONE };
    return i;
}

struct allocation *allocation_at(uint32_t allocation)
{
    return &world->allocations[allocation];
}

uint64_t allocation_last(void)
{
    return world->last_id;
}

static void trace_drop(uint32_t trace)
{
    world->traces[trace].next = world->free_trace;
    world->free_trace = trace;
}

static bool is_known(const struct trace *t, const struct clock *by)
{
    return by->at[t->actor] >= t->time;
}

/* Of other processes' streams nothing may be going on any more; the driver waits for this one's. */
void allocation_free(uint32_t allocation)
{
    struct allocation *a = &world->allocations[allocation];

    while (a->first != NONE) {
        const struct trace *t = &world->traces[a->first];
        const uint32_t next = t->next;
        if (!is_known(t, &world->host) && !is_gone(t->pid))
            die("memory of %llu bytes is freed while stream %d (process %d) may be in %s of bytes %llu to %llu of it: "
                "nobody has waited for that",
                (unsigned long long)a->bytes, t->actor, t->pid, t->what, (unsigned long long)t->start,
                (unsigned long long)t->end);
        trace_drop(a->first);
        a->first = next;
    }
    for (uint32_t i = 0; i < world->nplace; i++)
        if (world->places[i].allocation == a->id)
            world->places[i].allocation = 0;
    a->freed = true;
    a->id = 0;
}

/* ---- Accesses ---------------------------------------------------------------------------------------------- */

/* When all lists are full: what the host has waited for goes, as all that is queued from now on knows of it. */
static void trace_sweep(void)
{
    for (uint32_t i = 0; i < ALLOCATIONS; i++)
        for (uint32_t *link = &world->allocations[i].first; world->allocations[i].id != 0 && *link != NONE;) {
            const uint32_t trace = *link;
            if (is_known(&world->traces[trace], &world->host)) {
                *link = world->traces[trace].next;
                trace_drop(trace);
            } else {
                link = &world->traces[trace].next;
            }
        }
    if (world->free_trace == NONE)
        die("more than %d accesses that the host has not waited for", RECORDS);
}

static uint32_t trace_take(void)
{
    if (world->free_trace == NONE && world->fresh < RECORDS)
        return world->fresh++;
    if (world->free_trace == NONE)
        trace_sweep();
    const uint32_t trace = world->free_trace;
    world->free_trace = world->traces[trace].next;
    return trace;
}

static bool conflict(enum access a, enum access b)
{
    if (a == WRITE || b == WRITE)
        return true;
    return (a == READ && b == SIGNAL) || (a == SIGNAL && b == READ);
}

void world_careless(bool careless)
{
    world_lock();
    world->careless = careless;
    world_unlock();
}

static const char *const verb[] = { "reads", "writes", "waits for a value in", "writes a value to" };

static _Noreturn void report(const struct allocation *a, const struct trace *was, const struct trace *is)
{
    die("a race in %llu bytes of device %u: stream %d (process %d) %s bytes %llu to %llu in %s, and stream %d "
        "(process %d) %s bytes %llu to %llu in %s; no wait puts one before the other",
        (unsigned long long)a->bytes, a->device, was->actor, was->pid, verb[was->access],
        (unsigned long long)was->start, (unsigned long long)was->end, was->what, is->actor, is->pid, verb[is->access],
        (unsigned long long)is->start, (unsigned long long)is->end, is->what);
}

/* Is what the older one says said by the newer one, too? */
static bool replaces(const struct trace *is, const struct trace *was)
{
    return is->start <= was->start && is->end >= was->end &&
           (is->access == WRITE || (is->actor == was->actor && is->access == was->access));
}

void accessed(uint32_t allocation, uint64_t start, uint64_t bytes, int actor, enum access access, const char *what)
{
    struct allocation *a = &world->allocations[allocation];
    const struct clock *now = &world->actors[actor];
    struct trace is = { a->first, actor, now->at[actor], start, start + bytes, access, getpid(), "" };

    snprintf(is.what, sizeof is.what, "%s", what);
    for (uint32_t *link = &a->first; *link != NONE;) {
        const uint32_t trace = *link;
        const struct trace *was = &world->traces[trace];
        const bool overlap = was->start < is.end && is.start < was->end;
        if (overlap && conflict(was->access, is.access) && !is_known(was, now) && !world->careless &&
            !is_gone(was->pid))
            report(a, was, &is);
        if (overlap && is_known(was, now) && replaces(&is, was)) {
            *link = was->next;
            trace_drop(trace);
        } else {
            link = &world->traces[trace].next;
        }
    }
    const uint32_t trace = trace_take();
    is.next = a->first;
    world->traces[trace] = is;
    a->first = trace;
}

/* ---- Values ------------------------------------------------------------------------------------------------ */

static struct word *word_find(uint64_t id, uint64_t at)
{
    for (uint32_t i = 0; i < world->nplace; i++)
        if (world->places[i].allocation == id && world->places[i].at == at)
            return &world->words[i];
    return NULL;
}

static struct word *word_take(uint64_t id, uint64_t at)
{
    uint32_t i = 0;

    while (i < world->nplace && world->places[i].allocation != 0)
        i++;
    if (i == WORDS)
        die("values were written to more than %d words", WORDS);
    if (i == world->nplace)
        world->nplace++;
    world->places[i] = (struct place){ id, at };
    world->words[i].nwrite = 0;
    return &world->words[i];
}

void value_written(uint32_t allocation, uint64_t at, uint64_t value, int actor)
{
    const uint64_t id = world->allocations[allocation].id;
    struct word *w = word_find(id, at);

    if (w == NULL)
        w = word_take(id, at);
    w->writes[w->nwrite % WRITES].value = value;
    w->writes[w->nwrite % WRITES].clock = world->actors[actor];
    w->writes[w->nwrite % WRITES].hands = world->hands[actor];
    w->writes[w->nwrite % WRITES].pid = getpid();
    w->nwrite++;
}

/* What no stream wrote the host did. */
void value_seen(uint32_t allocation, uint64_t at, uint64_t value, int actor, bool (*enough)(const void *, uint64_t),
                const void *context)
{
    const struct word *w = word_find(world->allocations[allocation].id, at);
    const struct clock *clock = &world->host;
    uint64_t hands = 0;

    if (w != NULL && w->writes[(w->nwrite - 1) % WRITES].value == value)
        for (uint64_t i = w->nwrite; i > 0 && i + WRITES > w->nwrite; i--) {
            const struct write *write = &w->writes[(i - 1) % WRITES];
            if (!enough(context, write->value))
                break;
            clock = &write->clock;
            hands = write->hands + (write->pid != getpid());
        }
    if (actor < 0)
        pinned_known(clock);
    clock_join(actor < 0 ? &world->host : &world->actors[actor], clock);
    if (actor >= 0)
        hands_join(actor, hands);
}
