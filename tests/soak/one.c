/* SPDX-License-Identifier: BSD-3-Clause */
#include "soak.h"

#include "../collective.h"
#include "../values.h"

#include <plait/request.h>

#include <stdio.h>
#include <string.h>

const void *two(enum plait_dtype type)
{
    static char all[PLAIT_NDTYPE][8];

    values_store(all[type], type, 0, 2);
    return all[type];
}

static int64_t load(const char *at, size_t size)
{
    int64_t x = 0;

    memcpy(&x, at, size); /* little-endian */
    return x << (64 - 8 * size) >> (64 - 8 * size);
}

/* Integers wrap, so those without a sign too are halved as if they had one: none is large. */
void halve(void *vector, enum plait_dtype type, size_t count)
{
    static const uint8_t digits[PLAIT_NDTYPE] = {
        [PLAIT_FLOAT16] = 10, [PLAIT_FLOAT32] = 23,   [PLAIT_FLOAT64] = 52,
        [PLAIT_BFLOAT16] = 7, [PLAIT_FLOAT8E4M3] = 3, [PLAIT_FLOAT8E5M2] = 2
    };
    const size_t size = plait_dtype_size(type);

    for (size_t i = 0; i < count; i++) {
        char *at = (char *)vector + i * size;
        const int64_t x = load(at, size), sign = INT64_MIN >> (64 - 8 * size);
        const int64_t half = digits[type] == 0 ? x >> 1 : (x & ~sign) != 0 ? x - ((int64_t)1 << digits[type]) : x;
        memcpy(at, &half, size);
    }
}

size_t draw_count(struct soak *s, size_t size)
{
    const uint32_t bits = below(s, 100) == 0 ? 22 : below(s, 20);
    const size_t bytes = ((size_t)1 << bits) + draw(s) % ((size_t)1 << bits);

    return below(s, 50) == 0 ? 0 : (bytes < MOST_BYTES - 64 ? bytes : MOST_BYTES - 64) / size;
}

/* NULL: chosen by the library. One that may not serve here is not taken. */
static const char *draw_algorithm(struct soak *s, const struct place *place, bool reproducible)
{
    const struct specs *specs = &s->specs[place->nrank];
    const struct spec *spec = &specs->spec[below(s, specs->n)];

    if (below(s, 3) == 0 || spec->shape.node != NULL || (reproducible && !spec->alg->canonical))
        return NULL;
    return spec->text;
}

enum plait_coll draw_collective(struct soak *s, bool allreduce)
{
    const uint32_t k = below(s, NCOLLECTIVE + 1 + allreduce);

    return k < NCOLLECTIVE ? collectives[k] : k == NCOLLECTIVE ? PLAIT_BARRIER : PLAIT_ALLREDUCE;
}

/* Any other collective, by any of its algorithms. */
bool move(struct soak *s, struct place *place)
{
    struct collective c = { .coll = draw_collective(s, false),
                            .type = (enum plait_dtype)below(s, PLAIT_NDTYPE),
                            .op = (enum plait_op)below(s, PLAIT_PREMULSUM),
                            .root = below(s, place->nrank) };
    const size_t size = plait_dtype_size(c.type);
    const uint64_t choice = draw(s), salt = draw(s);
    uint32_t n = 0;

    c.count = draw_count(s, size) / place->nrank;
    if (c.coll == PLAIT_BARRIER)
        c.count = 0;
    c.inplace = below(s, 2);
    c.mixed = below(s, 2);
    if (below(s, 3) == 0 && plait_geometry_of(c.coll, 1, 0, 0, 1).kind != PLAIT_KIND_VECTOR) {
        c.sizes = 1 + below(s, 1000);
        c.count -= c.count > 0; /* for the elements between blocks */
    }
    for (const struct plait_alg *const *a = plait_algs; *a != NULL && choice % 3 > 0 && c.sizes == 0; a++)
        n += (*a)->coll == c.coll;
    for (const struct plait_alg *const *a = plait_algs; *a != NULL && n > 0; a++)
        if ((*a)->coll == c.coll && (choice >> 8) % n-- == 0) {
            snprintf(c.spec, sizeof c.spec, "%s", (*a)->name);
            break;
        }
    if (place->rank == UINT32_MAX)
        return true;
    const struct plait_geometry g = plait_geometry_of(c.coll, place->nrank, c.root, place->rank, 1);
    if (c.spec[0] != '\0' && place->reproducible && g.combines && c.coll != PLAIT_BARRIER)
        snprintf(c.spec, sizeof c.spec, "direct");
    const size_t give = collective_elements(&c, &g.in), get = collective_elements(&c, &g.out);
    char *in = s->memory[0][salt % MEMORIES], *out = s->memory[1][(salt >> 8) % MEMORIES];
    const struct collective_buffers b = collective_place(&c, place->nrank, place->rank, in, out);
    if (b.in != NULL)
        collective_fill(&c, place->nrank, place->rank, b.in);
    if (collective_run(place->comm, &c, b.in, b.out) != PLAIT_OK)
        return complain(s, plait_coll_name(c.coll));
    collective_want(&c, place->nrank, place->rank, s->scratch[0], s->scratch[1]);
    if (!collective_right(&c, place->nrank, place->rank, b.out, s->scratch[1])) {
        fprintf(stderr, "soak: %s%s of %zu %s, %s, on %u ranks, %s%s is wrong\n", plait_coll_name(c.coll),
                c.sizes != 0 ? "v" : "", c.count, plait_dtype_name(c.type), plait_op_name(c.op), place->nrank,
                c.spec[0] != '\0' ? c.spec : "default",
                !c.inplace ? ""
                : c.mixed  ? ", in place on even ranks"
                           : ", in place");
        return complain(s, "wrong results");
    }
    if (place->rank == 0) {
        s->shared->operations++;
        s->shared->bytes += (give > get ? give : get) * size;
    }
    return true;
}

/* As a persistent operation, started a few times. */
static enum plait_status persist(const struct place *place, char *in, char *out, size_t count, enum plait_dtype type,
                                 enum plait_op op, struct plait_call call, uint32_t starts)
{
    struct plait_request *r;
    enum plait_status status;

    call.request = &r;
    call.persistent = 1;
    status = plait_allreduce(place->comm, in, out, count, type, op, &call);
    for (uint32_t k = 0; k < starts && status == PLAIT_OK; k++) {
        values_fill(in, type, op == PLAIT_PREMULSUM ? PLAIT_SUM : op, place->nrank, place->rank, count);
        status = k % 2 ? plait_run_again(r) : plait_start(r);
        if (k % 2 == 0 && status == PLAIT_OK)
            status = plait_wait(&r);
    }
    return status == PLAIT_OK ? plait_request_free(&r) : status;
}

bool operate(struct soak *s, struct place *place)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    const enum plait_dtype type = (enum plait_dtype)below(s, PLAIT_NDTYPE);
    const enum plait_op op = (enum plait_op)below(s, PLAIT_PREMULSUM + 1);
    const enum plait_op plain = op == PLAIT_PREMULSUM ? PLAIT_SUM : op; /* of the values */
    const size_t size = plait_dtype_size(type), count = draw_count(s, size);
    const bool inplace = below(s, 2);
    const uint32_t starts = below(s, 6) == 0 ? 1 + below(s, 3) : 0;

    call.reproducible = below(s, 8) == 0;
    call.algorithm = draw_algorithm(s, place, place->reproducible || call.reproducible);
    call.slice = below(s, 3) ? 0 : (size_t)4096 << below(s, 9);
    call.round = (enum plait_round)below(s, PLAIT_ROUND_HOP + 1);
    call.scale = op == PLAIT_PREMULSUM ? two(type) : NULL;
    call.scale_when = below(s, 2) ? PLAIT_SCALE_LATE : PLAIT_SCALE_NOW;
    const bool options = op == PLAIT_PREMULSUM || starts > 0 || below(s, 4) != 0;
    const uint64_t salt = draw(s);
    if (place->rank == UINT32_MAX)
        return true;
    /* Which memory is each rank's own matter. */
    const uint32_t kind = (uint32_t)((salt >> 8) + s->me * (salt % 7)) % MEMORIES;
    char *in = s->memory[0][kind] + (kind == 2 ? size : 0);
    char *out = inplace ? in : s->memory[1][(kind + (salt >> 40)) % MEMORIES];
    values_fill(in, type, plain, place->nrank, place->rank, count);
    if ((starts > 0 ? persist(place, in, out, count, type, op, call, starts)
                    : plait_allreduce(place->comm, in, out, count, type, op, options ? &call : NULL)) != PLAIT_OK)
        return complain(s, "allreduce");
    if (op == PLAIT_PREMULSUM)
        halve(out, type, count);
    const size_t wrong = values_wrong(out, type, plain, place->nrank, count);
    if (wrong > 0) {
        fprintf(stderr, "soak: %zu of %zu %s %s are wrong on %u ranks, %s, slice %zu, round %d%s%s\n", wrong, count,
                plait_dtype_name(type), plait_op_name(op), place->nrank,
                options && call.algorithm ? call.algorithm : "default", call.slice, (int)call.round,
                inplace ? ", in place" : "", options ? "" : ", no options");
        return complain(s, "wrong results");
    }
    if (place->rank == 0) {
        s->shared->operations++;
        s->shared->bytes += count * size;
    }
    return true;
}
