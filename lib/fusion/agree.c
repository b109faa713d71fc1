/* SPDX-License-Identifier: BSD-3-Clause */
/* All ranks must register the same. They compare hashes of a text; an error shows the first line that differs. */
#include "fusion.h"

#include "base/hash.h"
#include "base/status.h"
#include "call/ready.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text {
    char *at;
    size_t n, room;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    const int n = vsnprintf(t->at != NULL ? t->at + t->n : NULL, t->at != NULL ? t->room - t->n : 0, format, args);
    va_end(args);
    t->n += n > 0 ? (size_t)n : 0;
}

static void describe_layout(const struct plait_layout *l, struct text *t)
{
    static const char *const rules[] = { "threshold", "cuts", "cubic" };

    add(t, "layout %s", rules[l->rule]);
    if (l->rule == PLAIT_LAYOUT_THRESHOLD)
        add(t, " of %zu bytes", l->threshold);
    for (uint32_t i = 0; l->rule == PLAIT_LAYOUT_CUTS && i < l->ncut; i++)
        add(t, "%c%u", i > 0 ? ',' : ' ', l->cuts[i]);
    add(t, "\n");
}

static void describe(const char *name, const struct plait_fusion_options *o, struct text *t)
{
    t->n = 0;
    add(t, "name %s\n", name);
    add(t, "trace %d\n", o->trace != 0);
    describe_layout(&o->layout, t);
    add(t, "operator %s\n", plait_op_name(o->op));
    add(t, "payload %s\n", o->payload == PLAIT_NDTYPE ? "as gradients" : plait_dtype_name(o->payload));
    add(t, "rounding %d\n", (int)o->round);
    add(t, "sharded %d\n", o->sharded != 0);
    add(t, "weights %s\n", o->weights == PLAIT_NDTYPE ? "none" : plait_dtype_name(o->weights));
    add(t, "check %d\n", o->check != 0);
    add(t, "memory %s\n", o->stream != NULL ? "a GPU's" : "the host's");
    add(t, "reproducible %d\n", o->reproducible != 0);
    add(t, "algorithm %s\n", o->algorithm != NULL ? o->algorithm : "chosen by size");
    add(t, "tensors %u\n", o->ntensor);
    for (uint32_t i = 0; i < o->ntensor; i++)
        add(t, "tensor %u '%s', %zu %s\n", i, o->tensors[i].name, o->tensors[i].count,
            plait_dtype_name(o->tensors[i].type));
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

/* Every rank gathers all texts and reports the same difference. */
static enum plait_status tell_difference(struct plait_comm *comm, const char *call, const char *name,
                                         const struct text *own, const uint64_t *hashes)
{
    size_t *counts = calloc(2 * (size_t)comm->nrank, sizeof *counts), *starts = counts + comm->nrank, total = 0;
    char here[160], there[160], *all = NULL;

    for (uint32_t r = 0; r < comm->nrank && counts != NULL; r++) {
        counts[r] = (size_t)hashes[2 * r + 1];
        starts[r] = total;
        total += counts[r];
    }
    if (counts != NULL)
        all = malloc(total);
    enum plait_status status = plait_all_ready(
        comm, call,
        all != NULL ? PLAIT_OK : plait_fail_memory("out of memory for what %u ranks register", comm->nrank));
    PLAIT_KNOWN(status != PLAIT_OK || counts != NULL);
    if (status == PLAIT_OK)
        status = plait_allgatherv(comm, own->at, all, counts, starts, PLAIT_UINT8, NULL);
    for (uint32_t r = 1; r < comm->nrank && status == PLAIT_OK; r++)
        if (hashes[2 * r] != hashes[0]) {
            first_difference(all, all + starts[r], here, there, sizeof here);
            status =
                plait_fail(PLAIT_ERR_MISMATCH, "%s: rank 0 has \"%s\" where rank %u has \"%s\"", name, here, r, there);
        }
    free(all);
    free(counts);
    return status;
}

/* Out of memory: `at` is NULL. */
static struct text text_of(const char *name, const struct plait_fusion_options *options)
{
    struct text t = { 0 };

    describe(name, options, &t);
    t.room = t.n + 1;
    t.at = malloc(t.room);
    describe(name, options, &t);
    return t;
}

enum plait_status plait_fusion_agree(struct plait_comm *comm, const char *call, const char *name,
                                     const struct plait_fusion_options *options, enum plait_status status)
{
    uint64_t *hashes = calloc(2 * (size_t)comm->nrank, sizeof *hashes), own[2] = { 0 };
    struct text t = status == PLAIT_OK ? text_of(name, options) : (struct text){ 0 };
    bool alike = true;

    if (status == PLAIT_OK && (hashes == NULL || t.at == NULL))
        status = plait_fail_memory("out of memory for what %u ranks register", comm->nrank);
    status = plait_all_ready(comm, call, status);
    PLAIT_KNOWN(status != PLAIT_OK || (hashes != NULL && t.at != NULL));
    if (status == PLAIT_OK) {
        own[0] = plait_hash(PLAIT_HASH_START, t.at, t.n);
        own[1] = t.room;
        status = plait_allgather(comm, own, hashes, 2, PLAIT_UINT64, NULL);
    }
    for (uint32_t r = 1; r < comm->nrank && status == PLAIT_OK; r++)
        alike &= hashes[2 * r] == hashes[0];
    if (status == PLAIT_OK && !alike)
        status = tell_difference(comm, call, name, &t, hashes);
    free(hashes);
    free(t.at);
    return status;
}
