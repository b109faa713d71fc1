/* SPDX-License-Identifier: BSD-3-Clause */
/* Modules, launches, and what each kernel of the plug-in reads and writes: cuda/kernels/kernels.h as accesses. */
#include "standin.h"

#include "../../train/cuda/kernels/host.h"

#include <plait/optim.h>

#include <stdlib.h>
#include <string.h>

struct module {
    struct context *context;
};

static _Atomic uint32_t modules;

struct function {
    const struct plait_cuda_host *kernel;
    struct context *context;
};

/* ---- Modules and launches ---------------------------------------------------------------------------------- */

/* CUDA 12 has PTX 8, CUDA 13 PTX 9. */
static bool is_too_new(const char *image)
{
    const uint64_t cuda = setting("PLAIT_STANDIN_CUDA", 0);
    const char *version = cuda != 0 ? strstr(image, "\n.version ") : NULL;

    return version != NULL && strtoull(version + strlen("\n.version "), NULL, 10) + 4 > cuda / 1000;
}

EXPORT int cuModuleLoadData(void **out, const void *image)
{
    CALL(true);
    if (image != NULL && is_too_new(image))
        return CU_UNSUPPORTED_PTX_VERSION;
    struct module *m = calloc(1, sizeof *m);

    if (image == NULL || m == NULL) {
        free(m);
        return CU_INVALID_VALUE;
    }
    m->context = context_now();
    modules++;
    *out = m;
    return CU_OK;
}

EXPORT int cuModuleUnload(void *module)
{
    CALL(true);
    modules--;
    free(module);
    return CU_OK;
}

uint32_t module_count(void)
{
    return modules;
}

/* Every module has all kernels. */
EXPORT int cuModuleGetFunction(void **out, void *module, const char *name)
{
    CALL(true);
    const struct plait_cuda_host *own = plait_cuda_host_find(name);
    const struct plait_cuda_host *kernel = own != NULL ? own : train_cuda_host_find(name);
    struct function *f = kernel != NULL ? calloc(1, sizeof *f) : NULL; /* lives as long as the process */

    if (f == NULL)
        return CU_NOT_FOUND;
    f->kernel = kernel;
    f->context = ((struct module *)module)->context;
    *out = f;
    return CU_OK;
}

EXPORT int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                          unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **arguments,
                          void **extra)
{
    CALL(true);
    const struct function *f = function;
    struct stream *s;
    const int status = stream_find(stream, &s);

    if (status != CU_OK)
        return status;
    if (f == NULL || f->context != s->context)
        return CU_INVALID_HANDLE;
    if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x == 0 || block_y != 1 || block_z != 1 || shared != 0 ||
        arguments == NULL || extra != NULL)
        return CU_INVALID_VALUE;
    if (block_x != f->kernel->threads)
        die("%s is launched with blocks of %u threads; it is made for %u", f->kernel->name, block_x,
            f->kernel->threads);
    struct op op = { .what = DO_KERNEL, .kernel = f->kernel, .nblock = grid_x, .argument = malloc(f->kernel->bytes) };
    if (op.argument == NULL)
        return CU_OUT_OF_MEMORY;
    memcpy(op.argument, arguments[0], f->kernel->bytes);
    return stream_put(s, op);
}

/* ---- Accesses ---------------------------------------------------------------------------------------------- */

static void flush(struct at *at)
{
    touch(at->stream, at->start, at->end - at->start, at->access, false, at->what);
    at->start = at->end = 0;
}

static bool begins_allocation(uint64_t address)
{
    struct mapping m;

    return mapping_find(address, &m) && m.start == address;
}

static void use(struct at *at, enum access access, const void *p, uint64_t bytes)
{
    const uint64_t start = (uint64_t)(uintptr_t)p;

    if (p == NULL || bytes == 0)
        return;
    if (at->start == at->end || at->end != start || at->access != access || begins_allocation(start)) {
        flush(at);
        at->start = start;
        at->access = access;
    }
    at->end = start + bytes;
}

void reads(struct at *at, const void *p, uint64_t bytes)
{
    use(at, READ, p, bytes);
}

void writes(struct at *at, const void *p, uint64_t bytes)
{
    use(at, WRITE, p, bytes);
}

/* At once, as what is there is needed to know what else is read. */
static void reads_table(struct at *at, const void *p, uint64_t bytes)
{
    reads(at, p, bytes);
    flush(at);
}

/* The operands of an item's blocks, or their results. */
static void item_uses(struct at *at, const struct plait_cuda_list *a, const struct plait_cuda_item *item, uint64_t size,
                      bool results)
{
    const uint32_t n = results ? item->ndst : item->nsrc, first = results ? item->dst : item->src;
    const bool moves = item->times > 1 && results == (item->gathers != 0); /* over one after the other block */
    const uint64_t start = results ? item->out : item->in;

    for (uint32_t k = 0; k < n; k++) {
        const bool wide = results ? a->wide_dst != 0 : k < 64 && (a->wide >> k & 1) != 0;
        const uint64_t bytes = item->count * (wide ? 4 : size) * (moves ? item->times : 1);
        use(at, results ? WRITE : READ, (const char *)(uintptr_t)a->slot[first + k] + start, bytes);
    }
}

/* A copy onto itself counts as a write, which changes no verdict. */
static void list_uses(struct at *at, const struct plait_cuda_list *a, enum plait_dtype type)
{
    for (uint32_t i = 0; i < 2 * a->nitem; i++)
        item_uses(at, a, &a->item[i / 2], plait_dtype_size(type), i % 2 != 0);
}

static void scale_uses(struct at *at, const struct plait_cuda_scale *a)
{
    reads(at, a->late, plait_dtype_size(a->type));
    reads(at, a->src, a->count * plait_dtype_size(a->type));
    writes(at, a->dst, a->count * plait_dtype_size(a->type));
}

static void copy_uses(struct at *at, const struct plait_cuda_copy *a)
{
    reads(at, a->src, a->bytes);
    writes(at, a->dst, a->bytes);
}

static bool overlap(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes)
{
    return (uintptr_t)a < (uintptr_t)b + b_bytes && (uintptr_t)b < (uintptr_t)a + a_bytes;
}

/* They run in any order. */
static void copies_use(struct at *at, const struct plait_cuda_copies *a)
{
    for (uint32_t i = 0; i < a->n; i++) {
        const struct plait_cuda_copy *c = &a->copy[i];
        for (uint32_t k = 0; k < a->n; k++)
            if (overlap(c->dst, c->bytes, a->copy[k].src, a->copy[k].bytes) ||
                (k != i && overlap(c->dst, c->bytes, a->copy[k].dst, a->copy[k].bytes)))
                die("copies %u and %u of one kernel overlap", i, k);
        copy_uses(at, c);
    }
}

/* The elements of a piece in the tensor, and in the payload. */
static void tensor_uses(struct at *at, const struct plait_cuda_pack *a, bool pack, bool payload)
{
    for (uint32_t i = 0; i < a->npiece; i++) {
        const struct plait_cuda_piece *p = &a->pieces[i];
        const struct plait_cuda_tensor *t = &a->tensors[p->of];
        const uint32_t type = payload ? a->type : t->type;
        const uint64_t size = plait_dtype_size(type);
        const char *start =
            payload ? (const char *)a->payload + (t->at + p->start) * size : (const char *)t->data + p->start * size;
        if (t->data != NULL || (payload && pack))
            use(at, payload == pack ? WRITE : READ, start, p->count * size);
    }
}

static void pack_uses(struct at *at, const struct plait_cuda_pack *a, bool pack)
{
    reads_table(at, a->pieces, a->npiece * sizeof *a->pieces);
    for (uint32_t i = 0; i < a->npiece; i++)
        if (i == 0 || a->pieces[i].of != a->pieces[i - 1].of)
            reads_table(at, &a->tensors[a->pieces[i].of], sizeof *a->tensors);
    reads(at, a->late, sizeof *a->late);
    tensor_uses(at, a, pack, !pack);
    tensor_uses(at, a, pack, pack);
    if (!pack && a->squares != NULL) {
        writes(at, a->squares, a->npiece * sizeof *a->squares);
        writes(at, a->infinite, sizeof *a->infinite);
    }
}

static void optim_tables(struct at *at, const struct plait_cuda_optim *a)
{
    reads_table(at, a->parts, a->npart * sizeof *a->parts);
    reads_table(at, a->pieces, a->npiece * sizeof *a->pieces);
    reads(at, a->late, sizeof *a->late);
}

static bool has_trust(const struct plait_cuda_optim *a, const struct plait_cuda_part *p)
{
    return a->lars != 0 && (p->flags & PLAIT_OPTIM_NO_TRUST) == 0;
}

/* A part's elements: of one array in all pieces, then of the next. */
enum array { GRADIENT, MASTER, MOMENTUM, COPY };

static void part_uses(struct at *at, const struct plait_cuda_optim *a, enum array array, enum access access, bool all)
{
    for (uint32_t i = 0; i < a->npiece; i++) {
        const struct plait_cuda_piece *piece = &a->pieces[i];
        const struct plait_cuda_part *p = &a->parts[piece->of];
        const uint32_t types[] = { p->type, PLAIT_FLOAT32, PLAIT_FLOAT32, p->copy_type };
        const void *const arrays[] = { p->gradient, p->master, p->momentum, p->copy };
        const uint64_t size = plait_dtype_size(types[array]);
        if (arrays[array] != NULL && (all || has_trust(a, p)))
            use(at, access, (const char *)arrays[array] + piece->start * size, piece->count * size);
    }
}

static void squares_uses(struct at *at, const struct plait_cuda_optim *a)
{
    optim_tables(at, a);
    part_uses(at, a, GRADIENT, READ, a->check != 0);
    writes(at, a->gradient_squares, a->npiece * sizeof(double));
    part_uses(at, a, MASTER, READ, false);
    writes(at, a->weight_squares, a->npiece * sizeof(double));
}

static void trust_uses(struct at *at, const struct plait_cuda_optim *a)
{
    const uint64_t nsum = PLAIT_CUDA_NORMS + 2 * (uint64_t)a->ntensor;

    optim_tables(at, a);
    reads(at, a->scale, sizeof *a->scale);
    if ((a->what & PLAIT_CUDA_ADD) != 0) {
        reads(at, a->ranges, a->ntensor * sizeof *a->ranges);
        reads(at, a->gradient_squares, a->npiece * sizeof(double));
        reads(at, a->weight_squares, a->npiece * sizeof(double));
        writes(at, a->sums, nsum * sizeof(double));
    }
    if ((a->what & PLAIT_CUDA_TRUST) != 0) {
        reads(at, a->sums, nsum * sizeof(double));
        writes(at, a->updates, a->npart * sizeof *a->updates);
        writes(at, a->result, sizeof *a->result);
        writes(at, a->scale, sizeof *a->scale);
    }
}

static void update_uses(struct at *at, const struct plait_cuda_optim *a)
{
    optim_tables(at, a);
    reads(at, a->updates, a->npart * sizeof *a->updates);
    reads_table(at, a->result, sizeof *a->result);
    if (a->result->finite == 0)
        return;
    part_uses(at, a, GRADIENT, READ, true);
    part_uses(at, a, MASTER, WRITE, true);
    part_uses(at, a, MOMENTUM, WRITE, true);
    part_uses(at, a, COPY, WRITE, true);
}

void kernel_accesses(const struct stream *stream, const struct op *op)
{
    struct at at = { stream, op->kernel->name, 0, 0, READ };
    const void *a = op->argument;

    if (train_accesses(&at, a))
        ;
    else if (strcmp(at.what, "plait_scale") == 0)
        scale_uses(&at, a);
    else if (strcmp(at.what, "plait_copy") == 0)
        list_uses(&at, a, PLAIT_UINT8);
    else if (strcmp(at.what, "plait_copies") == 0)
        copies_use(&at, a);
    else if (strcmp(at.what, "plait_pack") == 0)
        pack_uses(&at, a, true);
    else if (strcmp(at.what, "plait_unpack") == 0)
        pack_uses(&at, a, false);
    else if (strcmp(at.what, "plait_optim_squares") == 0)
        squares_uses(&at, a);
    else if (strcmp(at.what, "plait_optim_trust") == 0)
        trust_uses(&at, a);
    else if (strcmp(at.what, "plait_optim_update") == 0)
        update_uses(&at, a);
    else
        list_uses(&at, a, (enum plait_dtype)plait_dtype_find(at.what + strlen("plait_reduce_")));
    flush(&at);
}
