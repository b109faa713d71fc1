/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of the caller's options; their text, which must be the same on all ranks. */
#include "fusion.h"

#include "base/bytes.h"
#include "base/ranges.h"
#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum plait_status check_layout(const struct plait_layout *l, uint32_t ntensor)
{
    if (l->rule != PLAIT_LAYOUT_CUTS && l->ncut > 0)
        return plait_fail(PLAIT_ERR_ARG,
                          "plait_fusion_create: layout.ncut is %u, but layout.rule is not "
                          "PLAIT_LAYOUT_CUTS; set the rule",
                          l->ncut);
    if (l->rule == PLAIT_LAYOUT_CUTS && l->cuts == NULL && l->ncut > 0)
        return plait_fail(PLAIT_ERR_ARG, "plait_fusion_create: layout.cuts is NULL, layout.ncut is %u", l->ncut);
    for (uint32_t i = 0; l->rule == PLAIT_LAYOUT_CUTS && i < l->ncut; i++)
        if (l->cuts[i] >= ntensor || l->cuts[i] <= (i > 0 ? l->cuts[i - 1] : 0))
            return plait_fail(
                PLAIT_ERR_ARG,
                "plait_fusion_create: layout.cuts[%u] is %u; cuts increase, from 1 to the number of tensors (%u) - 1",
                i, l->cuts[i], ntensor);
    return PLAIT_OK;
}

static enum plait_status check_tensors(const struct plait_fusion_options *o)
{
    for (uint32_t t = 0; t < o->ntensor; t++) {
        const struct plait_tensor *x = &o->tensors[t];
        const size_t size = plait_dtype_size(x->type);
        if (x->name == NULL || strchr(x->name, '\n') != NULL)
            return plait_fail(PLAIT_ERR_ARG, "plait_fusion_create: tensors[%u].name is %s", t,
                              x->name == NULL ? "NULL" : "of several lines");
        if (size == 0)
            return plait_fail(PLAIT_ERR_ARG,
                              "plait_fusion_create: tensor %u '%s': type is %d, which is no enum plait_dtype of this "
                              "version (see PLAIT_DTYPE_LIST)",
                              t, x->name, (int)x->type);
        if (x->count == 0 || x->count > PLAIT_MOST_BYTES / size)
            return plait_fail(
                PLAIT_ERR_ARG,
                "plait_fusion_create: tensor %u '%s': count is %zu; of %s 1 to %zu are possible; leave out "
                "tensors without elements",
                t, x->name, x->count, plait_dtype_name(x->type), PLAIT_MOST_BYTES / size);
    }
    return PLAIT_OK;
}

/* Overlapping tensors would be summed twice. */
static enum plait_status check_apart(const struct plait_fusion_options *o)
{
    struct plait_range *ranges = calloc(o->ntensor, sizeof *ranges);
    uint32_t n = 0, pair[2];

    if (ranges == NULL)
        return plait_fail_memory("out of memory for %u tensors", o->ntensor);
    for (uint32_t t = 0; t < o->ntensor; t++) {
        const struct plait_tensor *x = &o->tensors[t];
        const uintptr_t start = (uintptr_t)x->data;
        if (x->data != NULL)
            ranges[n++] = (struct plait_range){ start, start + x->count * plait_dtype_size(x->type), t };
    }
    const bool overlap = plait_ranges_overlap(ranges, n, pair);
    free(ranges);
    return !overlap
               ? PLAIT_OK
               : plait_fail(PLAIT_ERR_ARG,
                            "plait_fusion_create: the data of tensor %u '%s' (at %p) and of tensor %u '%s' (at %p) "
                            "overlap; each needs memory of its own",
                            pair[0], o->tensors[pair[0]].name, o->tensors[pair[0]].data, pair[1],
                            o->tensors[pair[1]].name, o->tensors[pair[1]].data);
}

static enum plait_status check_device(const struct plait_fusion_options *o)
{
    struct plait_queue *queue;
    enum plait_status status = plait_stream_queue("plait_fusion_create", o->stream, &queue);
    char what[256];

    for (uint32_t t = 0; atomic_load(&plait_other_spaces) && t < o->ntensor && status == PLAIT_OK; t++) {
        snprintf(what, sizeof what, "plait_fusion_create: tensor %u '%s': data", t, o->tensors[t].name);
        status = plait_device_fits(what, o->tensors[t].data, plait_dtype_size(o->tensors[t].type), queue);
    }
    return status;
}

enum plait_status plait_fusion_check_options(const struct plait_fusion_options *o)
{
    if (plait_check_struct("plait_fusion_create", "options", o, sizeof *o, "PLAIT_FUSION_OPTIONS_DEFAULT") != PLAIT_OK)
        return PLAIT_ERR_ARG;
    const struct plait_number all[] = {
        { "options.round", "one of PLAIT_ROUND_*", o->round, (unsigned)o->round <= PLAIT_ROUND_HOP },
        { "op", "PLAIT_SUM or PLAIT_AVG", o->op, o->op == PLAIT_SUM || o->op == PLAIT_AVG },
        { "payload", "PLAIT_FLOAT16, PLAIT_BFLOAT16 or PLAIT_NDTYPE (the gradients' own types)", o->payload,
          o->payload == PLAIT_NDTYPE || o->payload == PLAIT_FLOAT16 || o->payload == PLAIT_BFLOAT16 },
        { "weights", "a type, with sharded, or PLAIT_NDTYPE", o->weights,
          o->weights == PLAIT_NDTYPE || (o->sharded && plait_dtype_size(o->weights) > 0) },
        { "layout.rule", "one of PLAIT_LAYOUT_*", o->layout.rule, (unsigned)o->layout.rule <= PLAIT_LAYOUT_CUBIC },
        { "tensors", "[ntensor]", o->tensors != NULL, o->tensors != NULL },
        { "ntensor", "1 to 1048576", o->ntensor, o->ntensor > 0 && o->ntensor <= 1 << 20 },
    };
    if (plait_check_numbers("plait_fusion_create", all, sizeof all / sizeof *all) != PLAIT_OK)
        return PLAIT_ERR_ARG;
    enum plait_status s = check_tensors(o);
    if (s == PLAIT_OK)
        s = check_device(o);
    if (s == PLAIT_OK)
        s = check_apart(o);
    return s == PLAIT_OK ? check_layout(&o->layout, o->ntensor) : s;
}

/* ---- Between ranks ---------------------------------------------------------------------------------------- */

static void describe_layout(const struct plait_layout *l, FILE *f)
{
    static const char *const rules[] = { "threshold", "cuts", "cubic" };

    fprintf(f, "layout %s", rules[l->rule]);
    if (l->rule == PLAIT_LAYOUT_THRESHOLD)
        fprintf(f, " of %zu bytes", l->threshold);
    for (uint32_t i = 0; l->rule == PLAIT_LAYOUT_CUTS && i < l->ncut; i++)
        fprintf(f, "%c%u", i > 0 ? ',' : ' ', l->cuts[i]);
    fprintf(f, "\n");
}

/* Of options whose name is set. */
void plait_fusion_describe(const void *options, FILE *f)
{
    const struct plait_fusion_options *o = options;

    fprintf(f, "name %s\n", o->name);
    fprintf(f, "trace %d\n", o->trace != 0);
    describe_layout(&o->layout, f);
    fprintf(f, "operator %s\n", plait_op_name(o->op));
    fprintf(f, "payload %s\n", o->payload == PLAIT_NDTYPE ? "as gradients" : plait_dtype_name(o->payload));
    fprintf(f, "rounding %d\n", (int)o->round);
    fprintf(f, "sharded %d\n", o->sharded != 0);
    fprintf(f, "weights %s\n", o->weights == PLAIT_NDTYPE ? "none" : plait_dtype_name(o->weights));
    fprintf(f, "check %d\n", o->check != 0);
    fprintf(f, "memory %s\n", o->stream != NULL ? "a GPU's" : "the host's");
    fprintf(f, "reproducible %d\n", o->reproducible != 0);
    fprintf(f, "algorithm %s\n", o->algorithm != NULL ? o->algorithm : "chosen by the library");
    fprintf(f, "tensors %u\n", o->ntensor);
    for (uint32_t i = 0; i < o->ntensor; i++)
        fprintf(f, "tensor %u '%s', %zu %s\n", i, o->tensors[i].name, o->tensors[i].count,
                plait_dtype_name(o->tensors[i].type));
}
