/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pass works in pieces that stay in the L1 cache. Each piece goes through several kernels that do one thing each, so
 * memory is read once and written once. Pieces are short enough that the processor reads the next one while it
 * computes. A pass interleaves NWAY stretches, as prefetchers follow a few cache lines per page. docs/RATIONALE.md
 * explains NWAY and AHEAD.
 */
#include "pass.h"

#include "streaming.h"

#include <math.h>
#include <string.h>

enum { PIECE = PLAIT_PASS_PIECE, NWAY = 2, AHEAD = 1536 /* bytes */ };

static bool is_narrow(const struct plait_kernels *k, enum plait_dtype type)
{
    return k->widen[type] != NULL;
}

static void scale(const struct plait_kernels *k, enum plait_dtype type, void *to, const void *from, size_t n,
                  double factor)
{
    float f = (float)factor, wide[PIECE];

    if (type == PLAIT_FLOAT64) {
        k->scale[type](to, from, n, &factor);
    } else if (type == PLAIT_FLOAT32) {
        k->scale[type](to, from, n, &f);
    } else { /* the factor may have more digits than the type */
        k->widen_by[type](wide, from, n, f);
        k->narrow[type](to, wide, n);
    }
}

/* n <= PIECE */
static void convert(const struct plait_kernels *k, struct plait_vector to, struct plait_vector from, size_t n,
                    double factor)
{
    if (to.type != from.type && is_narrow(k, to.type))
        k->narrow_by[to.type](to.data, from.data, n, (float)factor);
    else if (to.type != from.type)
        k->widen_by[from.type](to.data, from.data, n, (float)factor);
    else if (factor != 1)
        scale(k, to.type, to.data, from.data, n, factor);
    else if (to.data != from.data)
        plait_copy(k, to.data, from.data, n * plait_dtype_size(to.type));
}

static double squares_of(const struct plait_kernels *k, struct plait_vector v, size_t n)
{
    float wide[PIECE];
    double sum = 0;

    if (v.type == PLAIT_FLOAT32)
        return k->squares(v.data, n);
    if (is_narrow(k, v.type)) {
        k->widen[v.type](wide, v.data, n);
        return k->squares(wide, n);
    }
    for (size_t i = 0; v.type == PLAIT_FLOAT64 && i < n; i++)
        sum += ((const double *)v.data)[i] * ((const double *)v.data)[i];
    return sum;
}

/* Squares of finite float64 numbers may overflow. */
static bool all_finite(struct plait_vector v, size_t n, double square)
{
    bool finite = isfinite(square);

    if (finite || v.type != PLAIT_FLOAT64)
        return finite;
    finite = true;
    for (size_t i = 0; i < n; i++)
        finite &= isfinite(((const double *)v.data)[i]) != 0;
    return finite;
}

struct stretch { /* a stretch of the arrays */
    size_t at, end;
    double square;
    struct plait_streaming out;
};

struct job {
    const struct plait_kernels *k;
    struct plait_vector to, from;
    double factor;
    bool streaming, look;
};

/* Each stretch but the last has whole pieces, so the order of summation depends on n alone. */
static void cut(const struct job *j, size_t n, struct stretch stretches[NWAY])
{
    const size_t part = n / NWAY / PIECE * PIECE;

    for (unsigned w = 0; w < NWAY; w++) {
        stretches[w].at = w * part;
        stretches[w].end = w + 1 < NWAY ? (w + 1) * part : n;
        stretches[w].square = 0;
        plait_streaming_init(&stretches[w].out, j->k, (char *)j->to.data + w * part * plait_dtype_size(j->to.type));
    }
}

/* Convert and check the next n elements in one loop; false: no such kernel, nothing is done. */
static bool look_at(const struct job *j, struct stretch *w, struct plait_vector in, size_t n, double *square)
{
    const size_t bytes = n * sizeof(float);
    char *to = (char *)j->to.data + w->at * sizeof(float);

    if (!j->look || j->to.type != PLAIT_FLOAT32 || j->k->look[in.type] == NULL || (to == in.data && j->factor == 1))
        return false;
    if (j->streaming)
        to = plait_streaming_skip(&w->out, bytes);
    if (to != NULL)
        *square = j->k->look[in.type]((float *)(void *)to, in.data, n, (float)j->factor, j->streaming);
    return to != NULL;
}

/* Convert the next n elements with streaming stores in one loop; false: no such kernel, nothing is done. */
static bool pack_at(const struct job *j, struct stretch *w, struct plait_vector in, size_t n)
{
    char *to = NULL;

    if (j->streaming && !j->look && in.type == PLAIT_FLOAT32 && j->k->pack[j->to.type] != NULL)
        to = plait_streaming_skip(&w->out, n * plait_dtype_size(j->to.type));
    if (to == NULL)
        return false;
    j->k->pack[j->to.type](to, in.data, n, (float)j->factor);
    w->at += n;
    return true;
}

/* Process the next piece. False: an element is not finite. */
static bool advance(const struct job *j, struct stretch *w)
{
    const size_t to_size = plait_dtype_size(j->to.type), from_size = plait_dtype_size(j->from.type);
    const size_t n = w->end - w->at < PIECE ? w->end - w->at : PIECE;
    const struct plait_vector in = { (char *)j->from.data + w->at * from_size, j->from.type };
    const struct plait_vector made = { j->streaming ? plait_streaming_room(&w->out)
                                                    : (char *)j->to.data + w->at * to_size,
                                       j->to.type };
    bool finite = true;
    double looked;

    plait_pass_fetch(in.data, PIECE * from_size, AHEAD);
    if (look_at(j, w, in, n, &looked)) {
        w->square += looked;
        w->at += n;
        return isfinite(looked) != 0;
    }
    if (pack_at(j, w, in, n))
        return true;
    convert(j->k, made, in, n, j->factor);
    if (j->look) {
        const double square = squares_of(j->k, made, n);
        finite = all_finite(made, n, square);
        w->square += square;
    }
    if (j->streaming)
        plait_streaming_put(&w->out, n * to_size);
    w->at += n;
    return finite;
}

/* square NULL: do not check. */
static bool pass(const struct plait_kernels *k, struct plait_vector to, struct plait_vector from, size_t n,
                 double factor, bool streaming, double *square)
{
    const struct job j = { k, to, from, factor, streaming, square != NULL };
    struct stretch stretches[NWAY];
    bool finite = true;

    if (square == NULL && !streaming && factor == 1 && to.type == from.type) {
        plait_copy(k, to.data, from.data, n * plait_dtype_size(to.type));
        return true;
    }
    cut(&j, n, stretches);
    while (stretches[NWAY - 1].at < n) /* the longest stretch */
        for (unsigned w = 0; w < NWAY; w++)
            if (stretches[w].at < stretches[w].end)
                finite &= advance(&j, &stretches[w]);
    for (unsigned w = 0; w < NWAY && streaming; w++)
        plait_streaming_finish(&stretches[w].out);
    for (unsigned w = 0; w < NWAY && square != NULL; w++)
        *square += stretches[w].square;
    return finite;
}

void plait_pass_convert(const struct plait_kernels *k, struct plait_vector to, struct plait_vector from, size_t n,
                        double factor, bool streaming)
{
    pass(k, to, from, n, factor, streaming, NULL);
}

bool plait_pass_look(const struct plait_kernels *k, struct plait_vector to, struct plait_vector from, size_t n,
                     double factor, bool streaming, double *square)
{
    *square = 0;
    return pass(k, to, from, n, factor, streaming, square);
}

double plait_pass_squares(const struct plait_kernels *k, const void *data, enum plait_dtype type, size_t n)
{
    const struct plait_vector v = { (char *)(uintptr_t)data, type };
    double square = 0;

    pass(k, v, v, n, 1, false, &square); /* converts nothing */
    return square;
}
