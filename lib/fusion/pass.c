/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In pieces that stay in the first-level cache, each of which goes through kernels that do one thing: memory is read once
 * and written once. Pieces are so short that the processor reads the next one while it computes.
 */
#include "pass.h"

#include "past.h"

#include <math.h>
#include <string.h>

enum { PIECE = PLAIT_PASS_PIECE };

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
        memcpy(to.data, from.data, n * plait_dtype_size(to.type));
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

/* Of float64 the squares may be infinite although the numbers are not. */
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

static bool pass(const struct plait_kernels *k, struct plait_vector to, struct plait_vector from, size_t n,
                 double factor, bool past, double *square)
{
    const size_t to_size = plait_dtype_size(to.type), from_size = plait_dtype_size(from.type);
    struct plait_past out;
    bool finite = true;

    plait_past_init(&out, k, to.data);
    for (size_t at = 0; at < n; at += PIECE) {
        const size_t here = n - at < PIECE ? n - at : PIECE;
        const struct plait_vector in = { (char *)from.data + at * from_size, from.type };
        const struct plait_vector made = { past ? plait_past_room(&out) : (char *)to.data + at * to_size, to.type };
        plait_pass_fetch(in.data, PIECE * from_size);
        convert(k, made, in, here, factor);
        if (square != NULL) {
            const double sum = squares_of(k, made, here);
            finite &= all_finite(made, here, sum);
            *square += sum;
        }
        if (past)
            plait_past_put(&out, here * to_size);
    }
    if (past)
        plait_past_finish(&out);
    return finite;
}

void plait_pass_convert(const struct plait_kernels *k, struct plait_vector to, struct plait_vector from, size_t n,
                        double factor, bool past)
{
    pass(k, to, from, n, factor, past, NULL);
}

bool plait_pass_look(const struct plait_kernels *k, struct plait_vector to, struct plait_vector from, size_t n,
                     double factor, bool past, double *square)
{
    *square = 0;
    return pass(k, to, from, n, factor, past, square);
}

double plait_pass_squares(const struct plait_kernels *k, const void *data, enum plait_dtype type, size_t n)
{
    const size_t size = plait_dtype_size(type);
    double sum = 0;

    for (size_t at = 0; at < n; at += PIECE) {
        const struct plait_vector in = { (char *)(uintptr_t)data + at * size, type };
        plait_pass_fetch(in.data, PIECE * size);
        sum += squares_of(k, in, n - at < PIECE ? n - at : PIECE);
    }
    return sum;
}
