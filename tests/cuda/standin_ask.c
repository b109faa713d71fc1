/* SPDX-License-Identifier: BSD-3-Clause */
#include "standin_ask.h"

#include "standin.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLAIT_X(name, result, arguments) EXPORT result name arguments;
STANDIN_LIST(PLAIT_X)
#undef PLAIT_X

static atomic_ullong ncall, failing; /* 0: none */
static _Thread_local unsigned long long armed, count;
static _Thread_local int armed_error;
static _Thread_local const char *fired;

enum { NAMES = 128 };
static struct {
    _Atomic(const char *) name;
    atomic_ullong n;
} named[NAMES];

static void count_name(const char *name)
{
    for (unsigned i = 0; i < NAMES; i++) {
        const char *none = NULL;
        if (atomic_compare_exchange_strong(&named[i].name, &none, name) || none == name) {
            named[i].n++;
            return;
        }
    }
    die("the stand-in counts the calls of %d functions", NAMES);
}

unsigned long long standin_named(const char *name)
{
    unsigned long long n = 0;

    for (unsigned i = 0; i < NAMES && named[i].name != NULL; i++)
        if (strcmp(named[i].name, name) == 0)
            n += named[i].n;
    return n;
}

unsigned long long standin_calls(void)
{
    return ncall;
}

void standin_fail(unsigned long long n)
{
    failing = n == 0 ? 0 : ncall + n;
}

void standin_arm(unsigned long long n, int error)
{
    armed = n;
    armed_error = error;
    count = 0;
    fired = NULL;
}

unsigned long long standin_disarm(const char **failed)
{
    *failed = fired;
    armed = 0;
    return count;
}

int fail_now(const char *name)
{
    const unsigned long long call = ++ncall;

    count_name(name);
    count++;
    if (setting("PLAIT_STANDIN_LOG", 0) != 0)
        fprintf(stderr, "stand-in for CUDA: %llu %s\n", call, name);
    if (armed != 0 && count == armed) {
        fired = name;
        return armed_error;
    }
    const char *refused = getenv("PLAIT_STANDIN_REFUSE");
    if (refused != NULL && strcmp(name, refused) == 0)
        return (int)setting("PLAIT_STANDIN_REFUSE_WITH", CU_UNKNOWN);
    return call == failing || call == setting("PLAIT_STANDIN_FAIL", 0) ? CU_UNKNOWN : CU_OK;
}

unsigned long long standin_puts(void *stream)
{
    struct stream *s;

    return stream_find(stream, &s) == CU_OK ? s->ncall : 0;
}

unsigned long long standin_hands(void *stream)
{
    struct stream *s;

    if (stream_find(stream, &s) != CU_OK)
        return 0;
    world_lock();
    const unsigned long long hands = hands_of(s->actor);
    world_unlock();
    return hands;
}

static bool has_reached(const void *value, uint64_t now)
{
    return (int32_t)((uint32_t)now - *(const uint32_t *)value) >= 0;
}

EXPORT void standin_seen(const void *word, uint32_t value);
void standin_seen(const void *word, uint32_t value) /* cuda/driver.h */
{
    struct mapping m;

    if (!mapping_find((uintptr_t)word, &m))
        die("a value is read in memory that was freed");
    world_lock();
    value_seen(m.allocation, (uintptr_t)word - m.start, __atomic_load_n((const uint32_t *)word, __ATOMIC_SEQ_CST), -1,
               has_reached, &value);
    world_unlock();
}

void standin_hide(int hide)
{
    memory_hide(hide != 0);
}

void standin_left(struct standin_left *out)
{
    *out = (struct standin_left){ .memory = memory_count(DEVICE_MEMORY),
                                  .pinned = memory_count(PINNED_MEMORY),
                                  .managed = memory_count(MANAGED_MEMORY),
                                  .imported = memory_count(IMPORTED_MEMORY),
                                  .streams = stream_count(),
                                  .events = event_count(),
                                  .modules = module_count(),
                                  .contexts = context_count() };
}

unsigned long long standin_bytes(void)
{
    return memory_bytes();
}

void standin_limit(unsigned long long bytes)
{
    memory_limit(bytes);
}

void standin_careless(int careless)
{
    world_careless(careless != 0);
}
