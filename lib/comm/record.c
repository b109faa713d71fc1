/* SPDX-License-Identifier: BSD-3-Clause */
#include "record.h"

#include "base/ascii.h"

#include <plait/plan.h>

#include <stdio.h>
#include <string.h>

/*
 * Readers and the owner may copy at the same time, which readers detect. The race is intended: hidden from TSan. It
 * copies words, so that no field is torn.
 */
__attribute__((no_sanitize("thread"))) static void copy(volatile void *to, const volatile void *from, size_t bytes)
{
    typedef uint64_t __attribute__((may_alias)) word;

    for (size_t i = 0; i < bytes / sizeof(word); i++)
        ((volatile word *)to)[i] = ((const volatile word *)from)[i];
}

/* All but the sequence number. */
static void copy_progress(struct plait_progress *to, const struct plait_progress *from)
{
    copy(&to->began, &from->began, sizeof *to - offsetof(struct plait_progress, began));
}

void plait_progress_write(struct plait_progress *p, const struct plait_progress *from)
{
    atomic_store_explicit(&p->sequence, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    copy_progress(p, from);
    atomic_store_explicit(&p->sequence, from->sequence, memory_order_release);
}

void plait_progress_begin(struct plait_ring *ring, uint64_t sequence, uint64_t now, uint64_t nslice, uint64_t nstep)
{
    const struct plait_progress p = { .sequence = sequence,
                                      .began = now,
                                      .nstep = nstep,
                                      .nslice = nslice < UINT32_MAX ? (uint32_t)nslice : UINT32_MAX };

    plait_progress_write(plait_ring_progress(ring, sequence), &p);
}

/* ---- Reading ------------------------------------------------------------------------------------- */

static bool read_record(const struct plait_record *r, uint64_t sequence, struct plait_what *out)
{
    const uint64_t word = atomic_load_explicit(&r->word, memory_order_acquire);

    if ((uint32_t)word != (uint32_t)sequence)
        return false;
    copy(out, &r->what, sizeof *out);
    out->algorithm[sizeof out->algorithm - 1] = '\0';
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&r->word, memory_order_relaxed) == word;
}

bool plait_progress_read(const struct plait_progress *p, uint64_t sequence, struct plait_progress *out)
{
    if (atomic_load_explicit(&p->sequence, memory_order_acquire) != sequence)
        return false;
    copy_progress(out, p);
    out->sequence = sequence;
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&p->sequence, memory_order_relaxed) == sequence;
}

bool plait_ring_read(const struct plait_ring *ring, uint64_t sequence, uint64_t done, bool failed,
                     struct plait_operation *out)
{
    if (sequence == 0 || !read_record(plait_ring_record(ring, sequence), sequence, &out->what))
        return false;
    out->sequence = sequence;
    out->message = false;
    out->state = sequence <= done ? PLAIT_DONE : failed ? PLAIT_FAILED : PLAIT_RUNNING;
    out->has_progress = plait_progress_read(plait_ring_progress(ring, sequence), sequence, &out->progress);
    return true;
}

static uint32_t last_collectives(const struct plait_ring *ring, uint64_t done, bool failed, uint32_t most,
                                 struct plait_operation *out)
{
    struct plait_operation o;
    const uint64_t ended = !plait_ring_read(ring, done + 1, done, failed, &o); /* 1: none is in progress */
    uint32_t n = 0;

    for (uint64_t k = (most < PLAIT_NRECORD ? most : PLAIT_NRECORD) + ended; k-- > ended;)
        n += k <= done && plait_ring_read(ring, done + 1 - k, done, failed, &out[n]);
    return n;
}

bool plait_awaited_read(const struct plait_awaited *a, bool failed, struct plait_operation *out)
{
    const uint64_t since = atomic_load_explicit(&a->since, memory_order_acquire);
    struct plait_message_what what;

    if (since == 0)
        return false;
    copy(&what, &a->what, sizeof what);
    *out = (struct plait_operation){ .message = true,
                                     .sequence = what.number,
                                     .what = { .count = what.count, .type = what.type, .space = what.space },
                                     .peer = what.peer,
                                     .send = what.send != 0,
                                     .state = failed ? PLAIT_FAILED : PLAIT_RUNNING,
                                     .has_progress = true };
    out->progress.began = since;
    out->progress.nslice = what.nslice;
    out->progress.slices = what.slices;
    out->progress.waiting_for = what.peer + 1;
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&a->since, memory_order_relaxed) == since;
}

uint32_t plait_ring_last(const struct plait_ring *ring, const struct plait_awaited *messages, uint64_t done,
                         bool failed, uint32_t most, struct plait_operation *out)
{
    const uint32_t n = last_collectives(ring, done, failed, most, out);
    uint32_t m = 0;

    for (uint32_t i = 0; i < PLAIT_NAWAITED && m < most; i++)
        m += plait_awaited_read(&messages[i], failed, &out[n + m]);
    return n + m;
}

/* ---- Text ---------------------------------------------------------------------------------------- */

static void put_message(const struct plait_operation *o, char *text, size_t room)
{
    snprintf(text, room, "%s #%llu %s rank %u (%llu %s)", o->send ? "send" : "recv", (unsigned long long)o->sequence,
             o->send ? "to" : "from", o->peer, (unsigned long long)o->what.count, plait_dtype_name(o->what.type));
}

static bool is_whole(const struct plait_operation *o)
{
    return o->has_progress && o->progress.nslice == 0;
}

static void put_collective(const struct plait_operation *o, char *text, size_t room)
{
    const struct plait_what *w = &o->what;

    text[0] = '\0';
    plait_append(text, room, "%s%s #%llu", plait_coll_name(w->coll), w->vform ? "v" : "",
                 (unsigned long long)o->sequence);
    if (w->coll == PLAIT_BARRIER || w->coll >= PLAIT_NCOLL)
        return;
    const struct plait_geometry g = plait_geometry_of(w->coll, 1, 0, 0, 1);
    plait_append(text, room, " (");
    if (!w->vform)
        plait_append(text, room, "%llu ", (unsigned long long)w->count);
    plait_append(text, room, "%s", plait_dtype_name(w->type));
    if (g.combines)
        plait_append(text, room, " %s", plait_op_name(w->op));
    if (g.rooted)
        plait_append(text, room, ", root %u", w->root);
    if (!is_whole(o) || o->progress.nstep > 0)
        plait_append(text, room, ", %.26s", is_whole(o) ? "one kernel" : w->algorithm);
    plait_append(text, room, ")");
}

static void put_name(const struct plait_operation *o, char *text, size_t room)
{
    (o->message ? put_message : put_collective)(o, text, room);
}

void plait_operation_progress(const struct plait_operation *o, char *text, size_t room)
{
    if (o->has_progress && o->progress.nslice > 1)
        plait_append(text, room, ", %u of %u slices", o->progress.slices, o->progress.nslice);
    if (o->has_progress && !is_whole(o) && o->progress.nstep > 0)
        plait_append(text, room, ", %llu of %llu steps", (unsigned long long)o->progress.steps,
                     (unsigned long long)o->progress.nstep);
}

void plait_operation_name(const struct plait_operation *o, char *text, size_t room)
{
    put_name(o, text, room);
    if (o->state != PLAIT_DONE)
        plait_operation_progress(o, text, room);
}

void plait_operation_text(const struct plait_operation *o, uint64_t now, char *text, size_t room)
{
    static const char *const states[] = { "done", "running", "failed" };
    size_t bytes;

    put_name(o, text, room);
    if ((o->message || o->what.coll != PLAIT_BARRIER) && !o->what.vform &&
        !__builtin_mul_overflow(o->what.count, plait_dtype_size(o->what.type), &bytes))
        plait_append(text, room, ", %zu bytes", bytes);
    plait_append(text, room, ", %s", states[o->state]);
    if (!o->has_progress)
        return;
    if (o->state != PLAIT_DONE)
        plait_operation_progress(o, text, room);
    if (now >= o->progress.began)
        plait_append(text, room, ", began %.6f s ago", 1e-9 * (double)(now - o->progress.began));
    if (o->state != PLAIT_DONE && o->progress.waiting_for > 0)
        plait_append(text, room, ", waiting for rank %u", o->progress.waiting_for - 1);
    else if (o->progress.waited_for > 0)
        plait_append(text, room, ", waited for rank %u", o->progress.waited_for - 1);
}
