/* SPDX-License-Identifier: BSD-3-Clause */
#include "call.h"

#include "base/ascii.h"
#include "base/status.h"

#include <plait/coll.h>

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
    const struct plait_error own = plait_error_of(status);

    enum plait_status met = plait_allreduce(comm, &failed, &failed, 1, PLAIT_UINT32, PLAIT_MIN, NULL);
    if (met == PLAIT_OK && failed < nrank)
        met = tell(comm, call, failed, status != PLAIT_OK ? own.text : "");
    return status != PLAIT_OK ? plait_restore_error(&own) : met;
}

/* ---- All are alike ----------------------------------------------------------------------------------------- */

/* With the fewest digits that tell this number from all others. */
void plait_describe_real(FILE *f, const char *what, double value)
{
    char digits[40] = "", *end;

    for (int n = 6; n == 6 || (n <= 17 && plait_real(digits, &end) != value); n++)
        plait_print_real(digits, sizeof digits, n, value);
    fprintf(f, "%s %s\n", what, digits);
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

/* *bytes: with its end. NULL: out of memory. */
static char *text_of(void (*describe)(const void *, FILE *), const void *options, uint64_t *bytes)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    if (f == NULL)
        return NULL;
    describe(options, f);
    const bool failed = ferror(f) != 0;
    if (fclose(f) != 0 || failed) {
        free(text);
        return NULL;
    }
    *bytes = n + 1;
    return text;
}

/* Rank 0 shows its text to all. */
enum plait_status plait_all_alike(struct plait_comm *comm, const char *call, const char *name,
                                  void (*describe)(const void *, FILE *), const void *options, enum plait_status status)
{
    uint64_t bytes = 0;
    char *own = status == PLAIT_OK ? text_of(describe, options, &bytes) : NULL, *first = NULL;

    if (status == PLAIT_OK && own == NULL)
        status = plait_fail_memory("out of memory for the options of a rank");
    status = plait_all_ready(comm, call, status);
    if (status == PLAIT_OK)
        status = plait_broadcast(comm, &bytes, &bytes, 1, PLAIT_UINT64, 0, NULL);
    if (status == PLAIT_OK) {
        first = calloc(bytes, 1);
        status = plait_all_ready(
            comm, call, first != NULL ? PLAIT_OK : plait_fail_memory("out of memory for the options of a rank"));
    }
    PLAIT_KNOWN(status != PLAIT_OK || (first != NULL && own != NULL));
    if (status == PLAIT_OK && plait_comm_rank(comm) == 0)
        memcpy(first, own, bytes);
    if (status == PLAIT_OK)
        status = plait_broadcast(comm, first, first, bytes, PLAIT_UINT8, 0, NULL);
    if (status == PLAIT_OK)
        status = plait_all_ready(comm, call, compare(comm, name, first, own));
    free(first);
    free(own);
    return status;
}
