/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pass works in pieces that stay in the L1 cache. Each piece goes through several kernels that do one thing each, so
 * memory is read once and written once. Pieces are short enough that the processor reads the next one while it
 * computes. A pass interleaves NWAY stretches, as prefetchers follow a few cache lines per page. docs/RATIONALE.md
 * explains NWAY.
 */
#include "pass.h"

#include <math.h>

enum { PIECE = PLAIT_PASS_PIECE, NWAY = 2 };

static void scale(const struct plait_kernels *k, enum plait_dtype type, void *to, const void *from, size_t n,
                  double factor)
{
    float f = (float)factor, wide[PIECE];

    if (type == PLAIT_FLOAT64) {
        k->scale[type](to, from, n, &factor);
    } else if (type == PLAIT_FLOAT32) {
        k->scale[type](to, from, n, &f);
    } else { /* the factor may have more digits than the type */
        k->widen[type](wide, from, n, f);
        k->narrow[type](to, wide, n, 1);
    }
}

/* n <= PIECE */
static void convert(const struct plait_kernels *k, struct plait_vector to, struct plait_vector from, size_t n,
                    double factor)
{
    if (to.type != from.type && k->narrow[to.type] != NULL)
        k->narrow[to.type](to.data, from.data, n, (float)factor);
    else if (to.type != from.type)
        k->widen[from.type](to.data, from.data, n, (float)factor);
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
    if (k->widen[v.type] != NULL) {
        k->widen[v.type](wide, v.data, n, 1);
        return k->squares(wide, n);
    }
    for (size_t i = 0; v.type == PLAIT_FLOAT64 && i < n; i++)
        sum += ((const double *)v.data)[i] * ((const double *)v.data)[i];
    return sum;
}

/* Squares of finite float64 numbers may overflow. */
static bool all_finite(struct plait_vector v, size_t n, double square)
{
    bool finite = true;

    if (isfinite(square) || v.type != PLAIT_FLOAT64)
        return isfinite(square);
    for (size_t i = 0; i < n; i++)
        finite &= isfinite(((const double *)v.data)[i]) != 0;
    return finite;
}

struct stretch { /* a stretch of the arrays */
    size_t at, end;
    double square;
};

struct job {
    const struct plait_kernels *k;
    struct plait_vector to, from;
    double factor;
    bool streaming; /* whole pieces are whole cache lines */
    bool squares;
};

/* Each stretch but the last has whole pieces, so the order of summation depends on n alone. */
static void cut(size_t n, struct stretch stretches[NWAY])
{
    const size_t part = n / NWAY / PIECE * PIECE;

    for (unsigned w = 0; w < NWAY; w++) {
        stretches[w].at = w * part;
        stretches[w].end = w + 1 < NWAY ? (w + 1) * part : n;
        stretches[w].square = 0;
    }
}

/* Process the next piece. False: an element is not finite. */
static bool advance(const struct job *j, struct stretch *w)
{
    const size_t to_size = plait_dtype_size(j->to.type), from_size = plait_dtype_size(j->from.type);
    const size_t n = w->end - w->at < PIECE ? w->end - w->at : PIECE;
    const struct plait_vector in = { (char *)j->from.data + w->at * from_size, j->from.type };
    char *to = (char *)j->to.data + w->at * to_size;
    _Alignas(64) char room[PIECE * 8];
    const struct plait_vector made = { j->streaming ? room : to, j->to.type };
    bool finite = true;
    double square = 0;

    plait_pass_fetch(in.data, PIECE * from_size);
    w->at += n;
    convert(j->k, made, in, n, j->factor);
    if (j->squares) {
        square = squares_of(j->k, made, n);
        finite = all_finite(made, n, square);
        w->square += square;
    }
    if (j->streaming)
        j->k->stream(to, room, n * to_size);
    return finite;
}

bool plait_pass(const struct plait_kernels *k, struct plait_vector to, struct plait_vector from, size_t n,
                double factor, bool streaming, double *square)
{
    const struct job j = { k, to, from, factor, streaming && (uintptr_t)to.data % 64 == 0, square != NULL };
    struct stretch stretches[NWAY];
    bool finite = true;
    double sum = 0;

    if (square == NULL && !streaming && factor == 1 && to.type == from.type) {
        plait_copy(k, to.data, from.data, n * plait_dtype_size(to.type));
        return true;
    }
    cut(n, stretches);
    while (stretches[NWAY - 1].at < n) /* the longest stretch */
        for (unsigned w = 0; w < NWAY; w++)
            if (stretches[w].at < stretches[w].end)
                finite &= advance(&j, &stretches[w]);
    if (j.streaming)
        k->stream_end();
    for (unsigned w = 0; w < NWAY; w++)
        sum += stretches[w].square;
    if (square != NULL)
        *square = sum;
    return finite;
}

double plait_pass_squares(const struct plait_kernels *k, const void *data, enum plait_dtype type, size_t n)
{
    const struct plait_vector v = { (char *)(uintptr_t)data, type };
    double square = 0;

    plait_pass(k, v, v, n, 1, false, &square); /* converts nothing */
    return square;
}
