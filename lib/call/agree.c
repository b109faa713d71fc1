/* SPDX-License-Identifier: BSD-3-Clause */
#include "object.h"

#include "base/ascii.h"
#include "base/status.h"

#include <plait/coll.h>

#include <stdarg.h>
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
    struct plait_saved_error own;

    plait_save_error(&own, status);
    enum plait_status met = plait_allreduce(comm, &failed, &failed, 1, PLAIT_UINT32, PLAIT_MIN, NULL);
    if (met == PLAIT_OK && failed < nrank)
        met = tell(comm, call, failed, status != PLAIT_OK ? own.text : "");
    return status != PLAIT_OK ? plait_restore_error(&own) : met;
}

/* ---- All are alike ----------------------------------------------------------------------------------------- */

struct plait_text {
    char *at;
    size_t n, room;
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
    size_t start = 0, at = 0;

    PLAIT_KNOWN(a != NULL && b != NULL);
    for (; a[at] == b[at] && a[at] != '\0'; at++)
        if (a[at] == '\n')
            start = at + 1;
    /* Of a long line only the difference, and a little before it. */
    const char *cut = at - start > room / 2 ? "..." : "";
    start = cut[0] != '\0' ? at - room / 4 : start;
    snprintf(of_a, room, "%s%.*s", cut, (int)strcspn(a + start, "\n"), a + start);
    snprintf(of_b, room, "%s%.*s", cut, (int)strcspn(b + start, "\n"), b + start);
}

/* Compare with the text of rank 0. */
static enum plait_status compare(const struct plait_comm *comm, const char *name, const char *first, const char *own)
{
    char there[160], here[160];

    if (strcmp(first, own) == 0)
        return PLAIT_OK;
    first_difference(first, own, there, here, sizeof here);
    return plait_fail(PLAIT_ERR_MISMATCH, "%s: rank 0 has \"%s\" where rank %u has \"%s\"", name, there,
                      plait_comm_rank(comm), here);
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

/* Rank 0 shows its text to all. */
enum plait_status plait_all_alike(struct plait_comm *comm, const char *call, const char *name,
                                  void (*describe)(const void *, struct plait_text *), const void *options,
                                  enum plait_status status)
{
    struct plait_text t = status == PLAIT_OK ? text_of(describe, options) : (struct plait_text){ 0 };
    uint64_t bytes = t.room;
    char *first = NULL;

    if (status == PLAIT_OK && t.at == NULL)
        status = plait_fail_memory("out of memory for the options of a rank");
    status = plait_all_ready(comm, call, status);
    if (status == PLAIT_OK)
        status = plait_broadcast(comm, &bytes, &bytes, 1, PLAIT_UINT64, 0, NULL);
    if (status == PLAIT_OK) {
        first = calloc(bytes, 1);
        status = plait_all_ready(
            comm, call, first != NULL ? PLAIT_OK : plait_fail_memory("out of memory for the options of a rank"));
    }
    PLAIT_KNOWN(status != PLAIT_OK || (first != NULL && t.at != NULL));
    if (status == PLAIT_OK && plait_comm_rank(comm) == 0)
        memcpy(first, t.at, bytes);
    if (status == PLAIT_OK)
        status = plait_broadcast(comm, first, first, bytes, PLAIT_UINT8, 0, NULL);
    if (status == PLAIT_OK)
        status = plait_all_ready(comm, call, compare(comm, name, first, t.at));
    free(first);
    free(t.at);
    return status;
}
