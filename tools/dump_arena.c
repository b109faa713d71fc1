/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading another process's arena. The process may write meanwhile, and the bytes may be no arena at all: every offset
 * and number is checked before use, every text is copied and made printable.
 */
#include "dump_arena.h"

#include "../lib/comm/comm.h"

#include <plait/version.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The layout that this file reads; any change needs a new layout number. */
_Static_assert(PLAIT_ARENA_LAYOUT == 6 && sizeof(struct plait_arena_header) == 64 &&
                   offsetof(struct plait_control, nrank) == 20 && offsetof(struct plait_control, name) == 28 &&
                   offsetof(struct plait_control, done) == 128 && offsetof(struct plait_control, failed) == 320 &&
                   offsetof(struct plait_control, failure) == 332 && offsetof(struct plait_control, ring) == 896 &&
                   sizeof(struct plait_ring) == 128 * PLAIT_NRECORD &&
                   offsetof(struct plait_control, messages) == 896 + 128 * PLAIT_NRECORD + 64 * 18 &&
                   sizeof(struct plait_awaited) == 64,
               "raise PLAIT_ARENA_LAYOUT and these figures");
#define AT(type, field, place) (offsetof(struct type, field) == (place))
_Static_assert(sizeof(struct plait_what) == 56 && AT(plait_what, count, 0) && AT(plait_what, factor, 8) &&
                   AT(plait_what, settings, 16) && AT(plait_what, plans, 20) && AT(plait_what, mark, 24) &&
                   AT(plait_what, root, 28) && AT(plait_what, coll, 30) && AT(plait_what, type, 31) &&
                   AT(plait_what, op, 32) && AT(plait_what, algorithm, 34),
               "raise PLAIT_ARENA_LAYOUT and these figures");
_Static_assert(sizeof(struct plait_message_what) == 32 && AT(plait_message_what, number, 0) &&
                   AT(plait_message_what, count, 8) && AT(plait_message_what, peer, 16) &&
                   AT(plait_message_what, nslice, 20) && AT(plait_message_what, slices, 24) &&
                   AT(plait_message_what, type, 28) && AT(plait_message_what, send, 29) &&
                   AT(plait_message_what, space, 30) && AT(plait_awaited, what, 8) && AT(plait_progress, began, 8) &&
                   AT(plait_progress, steps, 16) && AT(plait_progress, slices, 32) &&
                   AT(plait_progress, waiting_for, 40),
               "raise PLAIT_ARENA_LAYOUT and these figures");
#undef AT

/* Copy a text of at most `n` bytes that may change meanwhile; the copy is terminated and printable. */
static void copy_text(char *to, const char *from, size_t n)
{
    const volatile char *source = from;
    size_t i;

    for (i = 0; i + 1 < n && (to[i] = source[i]) != '\0'; i++)
        if (to[i] < ' ' || to[i] > '~')
            to[i] = '?';
    to[i] = '\0';
}

__attribute__((format(printf, 2, 3))) static void say(const struct plait_dump *how, const char *format, ...)
{
    char text[1024], clean[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    copy_text(clean, text, sizeof clean);
    how->line(how->context, clean);
}

__attribute__((format(printf, 3, 4))) static enum plait_status refuse(struct plait_dump *how, enum plait_status status,
                                                                      const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(how->error, sizeof how->error, format, args);
    va_end(args);
    return status;
}

/* Copy the header; false: this is no arena. */
static bool read_header(const void *base, size_t size, struct plait_arena_header *out)
{
    if ((uintptr_t)base % PLAIT_LINE != 0 || size < sizeof *out)
        return false;
    memcpy(out, base, sizeof *out);
    return memcmp(out->magic, PLAIT_ARENA_MAGIC, sizeof out->magic) == 0;
}

int plait_dump_pid(const void *base, size_t size)
{
    struct plait_arena_header h;

    return read_header(base, size, &h) ? h.pid : 0;
}

static void show_operations(const struct plait_control *c, uint64_t done, bool failed, struct plait_dump *how)
{
    const uint32_t most = how->last < PLAIT_NRECORD ? how->last : PLAIT_NRECORD;
    struct plait_operation *o = aligned_alloc(_Alignof(struct plait_operation), 2 * (size_t)most * sizeof *o);
    const uint32_t n = o != NULL ? plait_ring_last(&c->ring, c->messages, done, failed, most, o) : 0;
    char text[512];

    for (uint32_t i = 0; i < n; i++) {
        plait_operation_text(&o[i], how->now, text, sizeof text);
        say(how, "  %s", text);
    }
    if (o == NULL)
        say(how, "  no memory to show its operations");
    free(o);
}

static void show_comm(const struct plait_control *c, uint32_t rank, uint32_t nrank, struct plait_dump *how)
{
    const uint64_t done = atomic_load_explicit(&c->done, memory_order_acquire);
    const bool failed = atomic_load_explicit(&c->failed, memory_order_acquire) != PLAIT_OK;
    const char *state = "";
    char name[sizeof c->name], failure[sizeof c->failure];

    copy_text(name, c->name, sizeof name);
    if (atomic_load_explicit(&c->departed, memory_order_relaxed))
        state = ", left; its memory is kept until the other ranks have left";
    else if (c->id == 0)
        state = ", being created";
    say(how, "comm '%s', rank %" PRIu32 " of %" PRIu32 ": %" PRIu64 " operation%s completed%s%s", name, rank, nrank,
        done, done == 1 ? "" : "s", failed ? ", failed" : "", state);
    if (failed) {
        copy_text(failure, c->failure, sizeof failure);
        say(how, "  failed: %s", failure);
    }
    show_operations(c, done, failed, how);
}

static enum plait_status show_comms(const char *base, size_t size, uint64_t at, struct plait_dump *how)
{
    uint64_t n = 0, mark = 0, next_mark = 1;

    for (; at != 0; n++) {
        if (at % PLAIT_LINE != 0 || size < sizeof(struct plait_control) || at > size - sizeof(struct plait_control))
            return refuse(how, PLAIT_ERR_SYSTEM, "the list of comms is damaged: a block at %" PRIu64 " of %zu bytes",
                          at, size);
        const struct plait_control *c = (const struct plait_control *)(const void *)(base + at);
        const uint32_t nrank = *(const volatile uint32_t *)&c->nrank, rank = *(const volatile uint32_t *)&c->rank;
        if (nrank == 0)
            return refuse(how, PLAIT_ERR_SYSTEM, "a comm was freed while it was read; try again");
        if (nrank > PLAIT_MAX_RANKS || rank >= nrank)
            return refuse(how, PLAIT_ERR_SYSTEM, "the list of comms is damaged: rank %" PRIu32 " of %" PRIu32, rank,
                          nrank);
        if (n == next_mark) { /* Brent's cycle detection: marks at powers of two */
            mark = at;
            next_mark *= 2;
        }
        show_comm(c, rank, nrank, how);
        at = atomic_load_explicit(&c->shown.next, memory_order_acquire);
        if (at != 0 && at == mark)
            return refuse(how, PLAIT_ERR_SYSTEM, "the list of comms is damaged: it has a cycle");
    }
    if (n == 0)
        say(how, "no comm");
    return PLAIT_OK;
}

enum plait_status plait_dump(const void *base, size_t size, struct plait_dump *how)
{
    struct plait_arena_header h;
    char version[sizeof h.version];

    if (!read_header(base, size, &h))
        return refuse(how, PLAIT_ERR_ARG, "this is not an arena of Plait");
    copy_text(version, h.version, sizeof version);
    if (h.layout != PLAIT_ARENA_LAYOUT)
        return refuse(how, PLAIT_ERR_UNSUPPORTED,
                      "the process runs Plait %s, whose arena has layout %" PRIu32 "; this is %s and reads layout %d: "
                      "use the plait-info of that version",
                      version, h.layout, plait_version(), PLAIT_ARENA_LAYOUT);
    say(how, "Plait %s, process %" PRId32 ", %zu bytes of arena", version, h.pid, size);
    return show_comms(base, size, h.first, how);
}
