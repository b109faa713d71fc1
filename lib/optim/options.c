/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim.h"

#include "base/bytes.h"
#include "base/ranges.h"
#include "base/status.h"
#include "call/call.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static bool is_float(enum plait_dtype type)
{
    return type == PLAIT_FLOAT32 || type == PLAIT_FLOAT16 || type == PLAIT_BFLOAT16 || type == PLAIT_FLOAT8E4M3 ||
           type == PLAIT_FLOAT8E5M2;
}

static enum plait_status check_memory(const struct plait_queue *queue, uint32_t k, const char *name, const void *memory,
                                      size_t size)
{
    char what[64];

    snprintf(what, sizeof what, "plait_optim_create: parts[%u].%s", k, name);
    return plait_device_fits(what, memory, size, queue);
}

static enum plait_status check_part(const struct plait_optim_options *o, const struct plait_queue *queue, uint32_t k)
{
    const struct plait_optim_part *p = &o->parts[k];

    if (p->tensor >= o->ntensor)
        return plait_fail(PLAIT_ERR_ARG,
                          "plait_optim_create: parts[%u].tensor is %u; it must be below options.ntensor, %u", k,
                          p->tensor, o->ntensor);
    if (p->count == 0 || p->count > PLAIT_MOST_BYTES / sizeof(float))
        return plait_fail(PLAIT_ERR_ARG, "plait_optim_create: parts[%u].count is %zu; leave out parts without elements",
                          k, p->count);
    if (p->gradient == NULL || p->master == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_optim_create: parts[%u].%s is NULL", k,
                          p->gradient == NULL ? "gradient" : "master");
    if (!is_float(p->type) || (p->copy != NULL && !is_float(p->copy_type)))
        return plait_fail(
            PLAIT_ERR_ARG, "plait_optim_create: parts[%u].%s is %s; float32 and floats of 16 and 8 bits are possible",
            k, is_float(p->type) ? "copy_type" : "type", plait_dtype_name(is_float(p->type) ? p->copy_type : p->type));
    if ((p->flags & ~PLAIT_OPTIM_PLAIN) != 0)
        return plait_fail(PLAIT_ERR_ARG, "plait_optim_create: parts[%u].flags is %#x; there are 1 and 2", k, p->flags);
    if (!atomic_load(&plait_other_spaces))
        return PLAIT_OK;
    enum plait_status status = check_memory(queue, k, "gradient", p->gradient, plait_dtype_size(p->type));
    if (status == PLAIT_OK)
        status = check_memory(queue, k, "master", p->master, sizeof *p->master);
    return status == PLAIT_OK ? check_memory(queue, k, "copy", p->copy, plait_dtype_size(p->copy_type)) : status;
}

/* All parts of a tensor must have the same flags. */
static enum plait_status check_flags(const struct plait_optim_options *o)
{
    uint32_t *first = calloc(o->ntensor, sizeof *first); /* part + 1 */
    enum plait_status status = PLAIT_OK;

    if (first == NULL)
        return plait_fail_memory("out of memory for an optimiser of %u tensors", o->ntensor);
    for (uint32_t k = 0; k < o->npart && status == PLAIT_OK; k++) {
        uint32_t *f = &first[o->parts[k].tensor];
        if (*f == 0)
            *f = k + 1;
        else if (o->parts[*f - 1].flags != o->parts[k].flags)
            status = plait_fail(PLAIT_ERR_ARG,
                                "plait_optim_create: parts[%u].flags is %#x, but parts[%u], of the same tensor %u, has "
                                "%#x",
                                k, o->parts[k].flags, *f - 1, o->parts[k].tensor, o->parts[*f - 1].flags);
    }
    free(first);
    return status;
}

/* Weights in two parts would be updated twice. */
static enum plait_status check_apart(const struct plait_optim_options *o)
{
    struct plait_range *ranges = calloc((size_t)o->npart + 1, sizeof *ranges);
    uint32_t pair[2];

    if (ranges == NULL)
        return plait_fail_memory("out of memory for an optimiser of %u parts", o->npart);
    for (uint32_t k = 0; k < o->npart; k++) {
        const uintptr_t start = (uintptr_t)o->parts[k].master;
        ranges[k] = (struct plait_range){ start, start + o->parts[k].count * sizeof(float), k };
    }
    const bool overlap = plait_ranges_overlap(ranges, o->npart, pair);
    free(ranges);
    return !overlap
               ? PLAIT_OK
               : plait_fail(PLAIT_ERR_ARG,
                            "plait_optim_create: parts[%u].master (%p) and parts[%u].master (%p) overlap; each needs "
                            "memory of its own",
                            pair[0], (void *)o->parts[pair[0]].master, pair[1], (void *)o->parts[pair[1]].master);
}

/* On a GPU its values are not checked. The steps are skipped where it is 0, negative or a NaN. */
static enum plait_status check_scale(const struct plait_optim_options *o, const struct plait_queue *queue)
{
    enum plait_status status = PLAIT_OK;

    if (o->scale == NULL)
        return PLAIT_OK;
    if (atomic_load(&plait_other_spaces))
        status = plait_device_fits("plait_optim_create: scale", o->scale, sizeof o->scale->scale, queue);
    return status == PLAIT_OK && queue == NULL ? plait_optim_check_scale("plait_optim_create: scale", o->scale)
                                               : status;
}

static enum plait_status check_numbers(const struct plait_optim_options *o)
{
    const bool lars = o->method == PLAIT_OPTIM_LARS;
    const struct plait_number all[] = {
        { "method", "PLAIT_OPTIM_SGD or PLAIT_OPTIM_LARS", o->method, (unsigned)o->method <= PLAIT_OPTIM_LARS },
        { "ntensor", "1 to 1048576", o->ntensor, o->ntensor > 0 && o->ntensor <= 1 << 20 },
        { "npart", "1 to 1048576, or 0 with comm", o->npart, o->npart <= 1 << 20 && (o->npart > 0 || o->comm != NULL) },
        { "parts", "[npart]", o->parts != NULL, o->npart == 0 || o->parts != NULL },
        { "momentum", "0 to below 1", o->momentum, o->momentum >= 0 && o->momentum < 1 },
        { "decay", "0 or more", o->decay, o->decay >= 0 && isfinite(o->decay) },
        { "eta", "above 0", o->eta, !lars || (o->eta > 0 && isfinite(o->eta)) },
        { "eps", "0 or more", o->eps, !lars || (o->eps >= 0 && isfinite(o->eps)) },
        { "norm_decay", "0 or more, or below 0 for what decay is", o->norm_decay, !lars || isfinite(o->norm_decay) },
    };

    return plait_check_numbers("plait_optim_create", all, sizeof all / sizeof *all);
}

enum plait_status plait_optim_check_options(const struct plait_optim_options *o)
{
    struct plait_queue *queue;
    enum plait_status status = plait_stream_queue("plait_optim_create", o->stream, &queue);

    if (status != PLAIT_OK)
        return status;
    status = check_numbers(o);
    for (uint32_t k = 0; k < o->npart && status == PLAIT_OK; k++)
        status = check_part(o, queue, k);
    if (status == PLAIT_OK)
        status = check_apart(o);
    if (status == PLAIT_OK)
        status = check_scale(o, queue);
    return status == PLAIT_OK ? check_flags(o) : status;
}

enum plait_status plait_optim_check_step(const struct plait_optim *optim, const struct plait_optim_step *s)
{
    if (optim == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_optim_step: optim is NULL");
    if (plait_check_struct("plait_optim_step", "step", s, sizeof *s, "PLAIT_OPTIM_STEP_DEFAULT") != PLAIT_OK)
        return PLAIT_ERR_ARG;
    const struct plait_number all[] = {
        { "lr", "0 or more, and finite as float32", s->lr, s->lr >= 0 && isfinite((float)s->lr) },
        { "factor", "above 0, and finite", s->factor, s->factor > 0 && isfinite(s->factor) },
        { "decay", "0 or more, and finite", s->decay, s->decay >= 0 && isfinite(s->decay) },
    };
    if (plait_check_numbers("plait_optim_step", all, sizeof all / sizeof *all) != PLAIT_OK)
        return PLAIT_ERR_ARG;
    if (s->squares != NULL && optim->queue != NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_optim_step: squares is %p; with options.stream it must be NULL",
                          (const void *)s->squares);
    for (uint32_t k = 0; s->squares != NULL && k < optim->options.npart; k++)
        if (s->squares[k] < 0)
            return plait_fail(PLAIT_ERR_ARG, "plait_optim_step: squares[%u] is %g; a sum of squares is not below 0", k,
                              s->squares[k]);
    return optim->options.scale != NULL && optim->queue == NULL
               ? plait_optim_check_scale("plait_optim_step: options.scale", optim->options.scale)
               : PLAIT_OK;
}

/* Options with the same meaning get the same text. */
void plait_optim_describe(const void *options, FILE *f)
{
    const struct plait_optim_options *o = options;
    const bool lars = o->method == PLAIT_OPTIM_LARS;

    fprintf(f, "ntensor %u\n", o->ntensor);
    fprintf(f, "method %s\n", lars ? "LARS" : "SGD");
    plait_describe_real(f, "momentum", o->momentum);
    fprintf(f, "nesterov %d\n", o->nesterov != 0);
    fprintf(f, "lr_in_momentum %d\n", o->lr_in_momentum != 0);
    plait_describe_real(f, "decay", o->decay);
    plait_describe_real(f, "eta", lars ? o->eta : 0);
    plait_describe_real(f, "eps", lars ? o->eps : 0);
    plait_describe_real(f, "norm_decay", !lars ? 0 : o->norm_decay < 0 ? -1 : o->norm_decay);
    fprintf(f, "check %d\n", o->check != 0);
    fprintf(f, "scale %s\n", o->scale != NULL ? "given" : "NULL");
    fprintf(f, "memory %s\n", o->stream != NULL ? "a GPU's" : "the host's");
}
