/* SPDX-License-Identifier: BSD-3-Clause */
#include "agree.h"

#include "base/ascii.h"
#include "base/hash.h"
#include "base/status.h"

#include <plait/coll.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 512 }; /* bytes of an error text */

/* ---- All are ready ----------------------------------------------------------------------------------------- */

/* The first rank that failed says why. */
static enum plait_status tell(struct plait_comm *comm, const char *call, uint32_t failed, const char *own)
{
    char text[TEXT] = "";

    snprintf(text, sizeof text, "%.*s", TEXT - 1, own);
    const enum plait_status status = plait_broadcast(comm, text, text, TEXT, PLAIT_UINT8, failed, NULL);
    return status != PLAIT_OK
               ? status
               : plait_fail(PLAIT_ERR_MISMATCH, "%s: rank %u failed: %.*s", call, failed, TEXT - 1, text);
}

enum plait_status plait_all_ready(struct plait_comm *comm, const char *call, enum plait_status status)
{
    const uint32_t nrank = plait_comm_nrank(comm);
    uint32_t failed = status == PLAIT_OK ? nrank : plait_comm_rank(comm);
    struct plait_kept own;

    plait_keep_error(&own, status);
    enum plait_status met = plait_allreduce(comm, &failed, &failed, 1, PLAIT_UINT32, PLAIT_MIN, NULL);
    if (met == PLAIT_OK && failed < nrank)
        met = tell(comm, call, failed, status != PLAIT_OK ? own.text : "");
    return status != PLAIT_OK ? plait_tell_error(&own) : met;
}

/* ---- All are alike ----------------------------------------------------------------------------------------- */

struct plait_text {
    char *at;
    size_t n, room;
};

struct summary { /* of a rank's text */
    uint64_t hash, bytes;
};

void plait_text_add(struct plait_text *t, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    const int n = vsnprintf(t->at != NULL ? t->at + t->n : NULL, t->at != NULL ? t->room - t->n : 0, format, args);
    va_end(args);
    t->n += n > 0 ? (size_t)n : 0;
}

/* With the fewest digits that tell this number from all others. */
void plait_text_add_real(struct plait_text *t, const char *what, double value)
{
    char digits[40] = "", *end;

    for (int n = 6; n == 6 || (n <= 17 && plait_real(digits, &end) != value); n++)
        plait_print_real(digits, sizeof digits, n, value);
    plait_text_add(t, "%s %s\n", what, digits);
}

/* The first line of `a` that differs in `b`, and that line of `b`. */
static void first_difference(const char *a, const char *b, char *of_a, char *of_b, size_t room)
{
    size_t start = 0;

    PLAIT_KNOWN(a != NULL && b != NULL);
    size_t at = 0;

    for (; a[at] == b[at] && a[at] != '\0'; at++)
        if (a[at] == '\n')
            start = at + 1;
    /* Of a long line only the difference, and a little before it. */
    const char *cut = at - start > room / 2 ? "..." : "";
    start = cut[0] != '\0' ? at - room / 4 : start;
    snprintf(of_a, room, "%s%.*s", cut, (int)strcspn(a + start, "\n"), a + start);
    snprintf(of_b, room, "%s%.*s", cut, (int)strcspn(b + start, "\n"), b + start);
}

/* Rank `from` shows its text to all. */
static enum plait_status show(struct plait_comm *comm, uint32_t from, const struct plait_text *own, char *copy,
                              size_t bytes)
{
    if (plait_comm_rank(comm) == from)
        memcpy(copy, own->at, bytes);
    return plait_broadcast(comm, copy, copy, bytes, PLAIT_UINT8, from, NULL);
}

/* Rank 0 and the first rank with another text show theirs, and all ranks report the same difference. */
static enum plait_status tell_difference(struct plait_comm *comm, const char *call, const char *name,
                                         const struct plait_text *own, const struct summary *all, uint32_t other)
{
    char here[160], there[160], *first = malloc(all[0].bytes), *second = malloc(all[other].bytes);
    const bool room = first != NULL && second != NULL;

    enum plait_status status =
        plait_all_ready(comm, call, room ? PLAIT_OK : plait_fail_memory("out of memory for the options of two ranks"));
    PLAIT_KNOWN(status != PLAIT_OK || room);
    if (status == PLAIT_OK)
        status = show(comm, 0, own, first, all[0].bytes);
    if (status == PLAIT_OK)
        status = show(comm, other, own, second, all[other].bytes);
    if (status == PLAIT_OK) {
        first_difference(first, second, here, there, sizeof here);
        status =
            plait_fail(PLAIT_ERR_MISMATCH, "%s: rank 0 has \"%s\" where rank %u has \"%s\"", name, here, other, there);
    }
    free(first);
    free(second);
    return status;
}

/* Out of memory: `at` is NULL. */
static struct plait_text text_of(void (*describe)(const void *, struct plait_text *), const void *options)
{
    struct plait_text t = { 0 };

    describe(options, &t);
    t.room = t.n + 1;
    t.at = calloc(t.room, 1);
    t.n = 0;
    if (t.at != NULL)
        describe(options, &t);
    return t;
}

enum plait_status plait_all_alike(struct plait_comm *comm, const char *call, const char *name,
                                  void (*describe)(const void *, struct plait_text *), const void *options,
                                  enum plait_status status)
{
    const uint32_t nrank = plait_comm_nrank(comm);
    struct summary *all = calloc(nrank, sizeof *all), own;
    struct plait_text t = status == PLAIT_OK ? text_of(describe, options) : (struct plait_text){ 0 };
    uint32_t r = 1;

    if (status == PLAIT_OK && (all == NULL || t.at == NULL))
        status = plait_fail_memory("out of memory for the options of %u ranks", nrank);
    status = plait_all_ready(comm, call, status);
    PLAIT_KNOWN(status != PLAIT_OK || (all != NULL && t.at != NULL));
    if (status == PLAIT_OK) {
        own = (struct summary){ plait_hash(PLAIT_HASH_START, t.at, t.n), t.room };
        status = plait_allgather(comm, &own, all, sizeof own / sizeof own.hash, PLAIT_UINT64, NULL);
    }
    while (status == PLAIT_OK && r < nrank && all[r].hash == all[0].hash)
        r++;
    if (status == PLAIT_OK && r < nrank)
        status = tell_difference(comm, call, name, &t, all, r);
    free(all);
    free(t.at);
    return status;
}
