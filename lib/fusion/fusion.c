/* SPDX-License-Identifier: BSD-3-Clause */
#include "fusion.h"

#include "base/bytes.h"
#include "base/ranges.h"
#include "base/status.h"
#include "engine/operate.h"
#include "memory/arena.h"

#include <plait/coll.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Options: checks, and their text for the other ranks ---------------------------------------------------- */

static enum plait_status check_layout(const struct plait_layout *l, uint32_t ntensor)
{
    if (l->rule != PLAIT_LAYOUT_CUTS && l->ncut > 0)
        return plait_fail(
            PLAIT_ERR_ARG,
            "plait_fusion_create: layout.ncut is %u, but layout.rule is not PLAIT_LAYOUT_CUTS; set the rule", l->ncut);
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

/* The options that must be equal on all ranks. */
static void describe(const void *options, FILE *f)
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

/* ---- Copies ----------------------------------------------------------------------------------------------- */

/* One block: tensors, then their names. */
static struct plait_tensor *copy_tensors(const struct plait_tensor *from, uint32_t n)
{
    size_t bytes = n * sizeof *from;

    for (uint32_t t = 0; t < n; t++)
        bytes += strlen(from[t].name) + 1;
    struct plait_tensor *to = malloc(bytes);
    if (to == NULL)
        return NULL;
    memcpy(to, from, n * sizeof *from);
    char *name = (char *)&to[n];
    for (uint32_t t = 0; t < n; t++) {
        to[t].name = strcpy(name, from[t].name);
        name += strlen(name) + 1;
    }
    return to;
}

static enum plait_status copy_options(struct plait_fusion *f, const struct plait_fusion_options *o)
{
    f->options = *o;
    f->ntensor = o->ntensor;
    f->in = f->out = 1;
    snprintf(f->name, sizeof f->name, "%s", o->name != NULL ? o->name : "fusion");
    snprintf(f->algorithm, sizeof f->algorithm, "%s", o->algorithm != NULL ? o->algorithm : "");
    f->options.name = f->name;
    f->options.algorithm = o->algorithm != NULL ? f->algorithm : NULL;
    f->options.layout.cuts = NULL;
    f->tensors = copy_tensors(o->tensors, o->ntensor);
    f->options.tensors = f->tensors;
    f->trace = o->trace ? plait_trace_create() : NULL;
    f->waited = calloc(o->ntensor, sizeof *f->waited);
    return f->tensors != NULL && f->waited != NULL && (!o->trace || f->trace != NULL)
               ? plait_stream_queue("plait_fusion_create", o->stream, &f->stream)
               : plait_fail_memory("out of memory for %u tensors", o->ntensor);
}

/* ---- Marks, shared with the other ranks ------------------------------------------------------------------- */

static enum plait_status take_marks(struct plait_fusion *f)
{
    void *memory = NULL;
    enum plait_status status = plait_arena_alloc(f->ntensor * sizeof *f->marks, &memory);

    f->marks = memory;
    f->others = calloc(f->nrank, sizeof *f->others);
    if (status == PLAIT_OK && f->others == NULL)
        status = plait_fail_memory("out of memory for a fusion of %u ranks", f->nrank);
    return status;
}

/* Collective. Addresses travel as offsets in each rank's arena. */
static enum plait_status show_marks(struct plait_fusion *f)
{
    const uint64_t mine = plait_arena_offset((const void *)(uintptr_t)f->marks);
    uint64_t *places = calloc(f->nrank, sizeof *places);

    if (places == NULL)
        return plait_object_fail(f->comm,
                                 plait_fail_memory("out of memory for what %u ranks show each other", f->nrank));
    const enum plait_status status = plait_allgather(f->comm, &mine, places, 1, PLAIT_UINT64, NULL);
    for (uint32_t r = 0; r < f->nrank && status == PLAIT_OK; r++) {
        const struct plait_process *p = f->comm->peers[r].process;
        f->others[r] = p != NULL ? plait_process_at(p, places[r]) : NULL;
    }
    free(places);
    return status;
}

/* ---- Life ------------------------------------------------------------------------------------------------- */

/* Other ranks may read this memory until the comm is destroyed: destroy the comm first. */
static enum plait_status discard(struct plait_fusion *f)
{
    if (f->stream != NULL && f->comm != NULL)
        f->memory = plait_object_free_later(f->comm, f->memory) ? NULL : f->memory;
    const struct plait_error left = plait_error_of(f->comm != NULL ? plait_comm_destroy(f->comm) : PLAIT_OK);
    plait_fusion_drop_layout(f);
    plait_arena_free((void *)(uintptr_t)f->marks);
    free(f->others);
    free((void *)(uintptr_t)f->waited);
    plait_trace_destroy(f->trace);
    free(f->tensors);
    free(f);
    return plait_restore_error(&left);
}

/* The local part of creation. After an error `out` is the half-made fusion, or NULL. */
static enum plait_status prepare(const struct plait_fusion_options *options, const struct plait_comm *comm,
                                 struct plait_fusion **out)
{
    enum plait_status status = plait_fusion_check_options(options);

    if (status != PLAIT_OK)
        return status;
    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        return plait_fail_memory("out of memory for a fusion");
    (*out)->rank = plait_comm_rank(comm);
    (*out)->nrank = plait_comm_nrank(comm);
    (*out)->kernels = comm->kernels;
    status = copy_options(*out, options);
    return status == PLAIT_OK ? take_marks(*out) : status;
}

/* The part of creation on the fusion's own comm. */
static enum plait_status make(struct plait_fusion *f, const char *call, const struct plait_layout *layout)
{
    enum plait_status status = show_marks(f);

    if (status != PLAIT_OK)
        return status;
    status = f->options.progress ? plait_object_drive(f->comm) : PLAIT_OK;
    return plait_all_ready(f->comm, call, status == PLAIT_OK ? plait_fusion_make_layout(f, layout) : status);
}

enum plait_status plait_fusion_create(struct plait_comm *comm, const struct plait_fusion_options *options,
                                      struct plait_fusion **out)
{
    static const char call[] = "plait_fusion_create";
    struct plait_fusion_options o = PLAIT_FUSION_OPTIONS_DEFAULT;
    enum plait_status status = plait_object_enter(comm, call);
    struct plait_fusion *f = NULL;

    if (status != PLAIT_OK)
        return status;
    status = out == NULL ? plait_fail(PLAIT_ERR_ARG, "%s: out is NULL", call) : prepare(options, comm, &f);
    if (status == PLAIT_OK) {
        o = f->options;
        o.layout = options->layout;
    }
    status = plait_all_alike(comm, call, o.name, describe, &o, status);
    if (status == PLAIT_OK)
        status = plait_comm_duplicate(comm, o.name, &f->comm);
    if (status == PLAIT_OK)
        status = make(f, call, &options->layout);
    if (status != PLAIT_OK) {
        const struct plait_error why = plait_error_of(status);
        if (f != NULL)
            discard(f);
        return plait_restore_error(&why);
    }
    plait_fusion_own(f);
    *out = f;
    return PLAIT_OK;
}

enum plait_status plait_fusion_destroy(struct plait_fusion *f)
{
    if (f == NULL || plait_comm_inherited(f->comm)) /* in a forked child: it belongs to the parent */
        return PLAIT_OK;
    pthread_mutex_lock(&f->comm->lock);
    f->leaving = true;
    pthread_mutex_unlock(&f->comm->lock);
    return discard(f);
}

/* ---- Between steps ---------------------------------------------------------------------------------------- */

enum plait_status plait_fusion_set_scale(struct plait_fusion *f, double in, double out)
{
    const enum plait_status status = plait_fusion_check_idle(f, "plait_fusion_set_scale");

    if (status != PLAIT_OK)
        return status;
    if (!isfinite((float)in) || !isfinite((float)out) || (float)out == 0 || (in != 0 && (float)in == 0))
        return plait_fail(
            PLAIT_ERR_ARG,
            "plait_fusion_set_scale: the factors are %g and %g; as float32 they must be finite, and not 0 but for "
            "a first one that is 0",
            in, out);
    for (uint32_t t = 0; t < f->ntensor && (in != 1 || out != 1); t++)
        if (f->kernels->widen[f->tensors[t].type] == NULL && f->tensors[t].type != PLAIT_FLOAT32 &&
            f->tensors[t].type != PLAIT_FLOAT64)
            return plait_fail(PLAIT_ERR_ARG, "plait_fusion_set_scale: tensor %u '%s' is of %s, which is not scaled", t,
                              f->tensors[t].name, plait_dtype_name(f->tensors[t].type));
    f->in = in;
    f->out = out;
    for (uint32_t k = 0; k < f->flat.nbucket; k++)
        plait_bind_factor(f->buckets[k].request->job.o, out);
    return PLAIT_OK;
}

/* ---- Asking ----------------------------------------------------------------------------------------------- */

void *plait_fusion_data(struct plait_fusion *f, uint32_t tensor)
{
    return f != NULL && tensor < f->ntensor ? f->tensors[tensor].data : NULL;
}

void *plait_fusion_weights(struct plait_fusion *f, uint32_t tensor)
{
    if (f == NULL || tensor >= f->ntensor || f->options.weights == PLAIT_NDTYPE)
        return NULL;
    const struct plait_place *p = &f->flat.places[tensor];
    return f->buckets[p->bucket].weights + p->start * plait_dtype_size(f->options.weights);
}

uint32_t plait_fusion_npiece(const struct plait_fusion *f)
{
    return f != NULL ? f->npiece : 0;
}

/* n: number of `what`. */
static enum plait_status check_index(const char *call, const char *what, const struct plait_fusion *f, uint32_t k,
                                     uint32_t n, const void *out)
{
    if (f == NULL || out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "%s: %s is NULL", call, f == NULL ? "fusion" : "out");
    return k < n
               ? PLAIT_OK
               : plait_fail(PLAIT_ERR_ARG, "%s: k is %u, but %s has %u %s; k counts from 0", call, k, f->name, n, what);
}

enum plait_status plait_fusion_piece(const struct plait_fusion *f, uint32_t k, struct plait_piece *out)
{
    const enum plait_status status = check_index("plait_fusion_piece", "pieces", f, k, plait_fusion_npiece(f), out);

    if (status != PLAIT_OK)
        return status;
    *out = f->pieces[k];
    return PLAIT_OK;
}

struct plait_comm *plait_fusion_comm(const struct plait_fusion *f)
{
    return f != NULL ? f->comm : NULL;
}

uint32_t plait_fusion_nbucket(const struct plait_fusion *f)
{
    return f != NULL ? f->flat.nbucket : 0;
}

enum plait_status plait_fusion_bucket(const struct plait_fusion *f, uint32_t k, struct plait_fusion_bucket *out)
{
    const enum plait_status status = check_index("plait_fusion_bucket", "buckets", f, k, plait_fusion_nbucket(f), out);

    if (status != PLAIT_OK)
        return status;
    const struct plait_slab *s = &f->flat.buckets[k];
    *out = (struct plait_fusion_bucket){ s->type, s->ntensor, s->first, s->last, s->count * plait_dtype_size(s->type) };
    return PLAIT_OK;
}
