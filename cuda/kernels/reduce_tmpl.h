/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduction and scaling of one element type, included once per type. Needs, and undefines,
 *
 *   T         the stored type
 *   W         the type that is computed with; NARROW is defined where it is not T but float
 *   NAME(x)   the name of this type's functions
 *   ARITH(x)  the name of W's arithmetic (lib/reduce/ops.h)
 *   GET(v), PUT(v)  from T to W and back
 *   BITS(v), OF_BITS(u)  from T to the unsigned integer of its size and back
 *
 * A unit is n elements: NAME(N), which are 16 bytes of T, where all memory is aligned, else 1. The order is E(n), as in
 * lib/reduce/tmpl.h.
 */

enum { NAME(N) = 16 / sizeof(T) };

/* W from 16 bytes, and back. By words, since nvcc turns memcpy() of elements into one access for each. */
BODY void NAME(open)(W *out, struct plait_line line)
{
    for (uint32_t i = 0; i < NAME(N); i++) {
        const uint32_t first = i * sizeof(T) / 4, bit = i * sizeof(T) % 4 * 8;
        const uint64_t high = sizeof(T) == 8 ? (uint64_t)line.word[(first + 1) % 4] << 32 : 0;
        out[i] = GET(OF_BITS((line.word[first] >> bit) | high));
    }
}

BODY struct plait_line NAME(close)(const W *v)
{
    struct plait_line line = { { 0, 0, 0, 0 } };

    for (uint32_t i = 0; i < NAME(N); i++) {
        const uint32_t first = i * sizeof(T) / 4, bit = i * sizeof(T) % 4 * 8;
        const uint64_t bits = BITS(PUT(v[i]));
        line.word[first] |= (uint32_t)bits << bit;
        if (sizeof(T) == 8)
            line.word[(first + 1) % 4] = (uint32_t)(bits >> 32);
    }
    return line;
}

BODY void NAME(load)(W *out, const void *src, uint64_t at, uint32_t n, bool wide)
{
    const T *p = (const T *)src + at;
#ifdef NARROW
    const float *f = (const float *)src + at;

    if (wide) {
        for (uint32_t i = 0; n > 1 && i < n; i += 4) {
            const struct plait_line line = plait_line_get(f + i);
            for (uint32_t k = 0; k < 4; k++)
                out[i + k] = from_bits_f32(line.word[k]);
        }
        if (n == 1)
            out[0] = f[0];
        return;
    }
#else
    (void)wide;
#endif
    if (n == 1)
        out[0] = GET(*p);
    else
        NAME(open)(out, plait_line_get(p));
}

BODY void NAME(store)(void *dst, uint64_t at, const W *v, uint32_t n, bool wide)
{
    T *p = (T *)dst + at;
#ifdef NARROW
    float *f = (float *)dst + at;

    if (wide) {
        for (uint32_t i = 0; n > 1 && i < n; i += 4) {
            const struct plait_line line = { { bits_f32(v[i]), bits_f32(v[i + 1]), bits_f32(v[i + 2]),
                                               bits_f32(v[i + 3]) } };
            plait_line_put(f + i, line);
        }
        if (n == 1)
            f[0] = v[0];
        return;
    }
#else
    (void)wide;
#endif
    if (n == 1)
        *p = PUT(v[0]);
    else
        plait_line_put(p, NAME(close)(v));
}

/* ---- Combining ------------------------------------------------------------------------------------------ */

/* a = a op b */
BODY void NAME(apply)(W *a, const W *b, uint32_t n, uint32_t op)
{
    if (op == PLAIT_PROD)
        for (uint32_t i = 0; i < n; i++)
            a[i] = ARITH(prod)(a[i], b[i]);
    else if (op == PLAIT_MAX)
        for (uint32_t i = 0; i < n; i++)
            a[i] = ARITH(max)(a[i], b[i]);
    else if (op == PLAIT_MIN)
        for (uint32_t i = 0; i < n; i++)
            a[i] = ARITH(min)(a[i], b[i]);
    else
        for (uint32_t i = 0; i < n; i++)
            a[i] = ARITH(sum)(a[i], b[i]);
}

/* Four operands at most, of which lines[] are a line each. */
BODY void NAME(four)(W *acc, const struct plait_line *lines, uint32_t g, uint32_t op)
{
    W b[NAME(N)], c[NAME(N)];

    NAME(open)(acc, lines[0]);
    if (g > 1) {
        NAME(open)(b, lines[1]);
        NAME(apply)(acc, b, NAME(N), op);
    }
    if (g > 2) {
        NAME(open)(b, lines[2]);
        if (g > 3) {
            NAME(open)(c, lines[3]);
            NAME(apply)(b, c, NAME(N), op);
        }
        NAME(apply)(acc, b, NAME(N), op);
    }
}

BODY void NAME(finish)(const struct plait_cuda_list *a, const struct plait_part *p, W *acc, uint32_t i, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        acc[k] = ARITH(clean)(a->divisor != 0 ? ARITH(quotient)(acc[k], a->divisor) : acc[k]);
    if (n == 1 || a->wide_dst != 0) {
        const uint64_t first = p->out / sizeof(T) + i; /* of the result, in elements */
        for (uint32_t d = 0; d < p->ndst; d++)
            NAME(store)(plait_list_to(a, p->dst + d), first, acc, n, a->wide_dst != 0);
        return;
    }
    const struct plait_line line = NAME(close)(acc);
    for (uint32_t d = 0; d < p->ndst; d++)
        plait_line_put(plait_list_to(a, p->dst + d) + p->out + i * (uint32_t)sizeof(T), line);
}

/*
 * Any number of operands of any width: n elements from the i-th of a part on. Partial results are merged like digits of
 * a binary counter: see lib/reduce/tmpl.h.
 */
BODY void NAME(many)(const struct plait_cuda_list *a, struct plait_part p, uint32_t i, uint32_t n)
{
    W stack[9][NAME(N)]; /* 500 operands: at most 8 digits and the newest operand */
    const uint64_t first = p.in / sizeof(T) + i;
    uint32_t depth = 0;

    for (uint32_t s = 0; s < p.nsrc; s++) {
        for (uint32_t digit = s; s > 0 && digit % 2 == 0; digit /= 2, depth--)
            NAME(apply)(stack[depth - 2], stack[depth - 1], n, a->op);
        NAME(load)(stack[depth++], plait_list_at(a, p.src + s), first, n, plait_list_is_wide(a, s));
    }
    for (; depth > 1; depth--)
        NAME(apply)(stack[depth - 2], stack[depth - 1], n, a->op);
    NAME(finish)(a, &p, stack[0], i, n);
}

/* ---- Loops ------------------------------------------------------------------------------------------------ */

/*
 * The fast path: m units of at most n operands, 8 at most, all of type T. All lines are read before the first is used.
 * m and n are constants.
 */
BODY void NAME(lines)(const struct plait_cuda_list *a, const struct plait_part *p, const struct plait_where *at,
                      uint32_t head, uint32_t nunit, uint32_t m, uint32_t n)
{
    for (uint32_t u = at->thread; u < nunit; u += m * at->nthread) {
        struct plait_line lines[4][8];
        UNROLL for (uint32_t k = 0; k < m; k++) UNROLL for (uint32_t s = 0; s < n; s++)
        {
            const uint32_t i = u + k * at->nthread;
            if (i < nunit && s < p->nsrc)
                lines[k][s] =
                    plait_line_get(plait_list_at(a, p->src + s) + p->in + (head + i * NAME(N)) * (uint32_t)sizeof(T));
        }
        UNROLL for (uint32_t k = 0; k < m; k++)
        {
            const uint32_t i = u + k * at->nthread;
            W acc[NAME(N)], right[NAME(N)];
            if (i >= nunit)
                break;
            NAME(four)(acc, lines[k], n == 2 || p->nsrc < 4 ? p->nsrc : 4, a->op);
            if (n > 4 && p->nsrc > 4) {
                NAME(four)(right, lines[k] + 4, p->nsrc - 4, a->op);
                NAME(apply)(acc, right, NAME(N), a->op);
            }
            NAME(finish)(a, p, acc, head + i * NAME(N), NAME(N));
        }
    }
}

/* With wide operands or results: do they all begin a line with the same element as the first result? */
BODY bool NAME(alike)(const struct plait_cuda_list *a, struct plait_part p, uint32_t i)
{
    const uint32_t out = a->wide_dst != 0 ? sizeof(W) : sizeof(T);
    bool alike = plait_is_line(plait_list_to(a, p.dst) + (p.out / sizeof(T) + i) * out);

    for (uint32_t s = 0; s < p.nsrc && alike; s++) {
        const uint32_t in = plait_list_is_wide(a, s) ? sizeof(W) : sizeof(T);
        alike = plait_is_line(plait_list_at(a, p.src + s) + (p.in / sizeof(T) + i) * in);
    }
    return alike;
}

/* Elements before the first whole unit; all: there is none. */
BODY uint32_t NAME(head)(const struct plait_cuda_list *a, const struct plait_part *p)
{
    const uint32_t out = a->wide_dst != 0 ? sizeof(W) : sizeof(T);
    const char *to = plait_list_to(a, p->dst) + p->out / sizeof(T) * out;
    const uint32_t head = (uint32_t)plait_head(to, out, p->count);
    const bool wide = a->wide != 0 || a->wide_dst != 0;

    return (wide ? NAME(alike)(a, *p, head) : p->lines) ? head : p->count;
}

/* One operand without a divisor: copy its bits. */
BODY void NAME(copy)(const struct plait_cuda_list *a, struct plait_part p, struct plait_where at)
{
    const uint32_t size = a->wide_dst != 0 ? sizeof(W) : sizeof(T);

    p.in = p.in / sizeof(T) * size;
    p.out = p.out / sizeof(T) * size;
    plait_part_copy(a, &p, size, &at);
}

BODY void NAME(part)(const struct plait_cuda_list *a, const struct plait_part *p, const struct plait_where *at)
{
    const bool fast = p->nsrc <= 8 && a->wide == 0 && a->wide_dst == 0;

    if (p->nsrc == 1 && a->divisor == 0 && (a->wide & 1) == (a->wide_dst != 0)) {
        NAME(copy)(a, *p, *at);
        return;
    }
    const uint32_t head = NAME(head)(a, p), nunit = (p->count - head) / NAME(N);

    if (fast && p->nsrc <= 2)
        NAME(lines)(a, p, at, head, nunit, sizeof(T) == 1 ? 2 : 4, 2);
    else if (fast && p->nsrc <= 4)
        NAME(lines)(a, p, at, head, nunit, 2, 4);
    else if (fast)
        NAME(lines)(a, p, at, head, nunit, 1, 8);
    for (uint32_t u = at->thread; !fast && u < nunit; u += at->nthread)
        NAME(many)(a, *p, head + u * NAME(N), NAME(N));
    for (uint32_t e = at->thread; e < p->count - nunit * NAME(N); e += at->nthread)
        NAME(many)(a, *p, e < head ? e : e + nunit * NAME(N), 1);
}

BODY void NAME(body)(const struct plait_cuda_list *a, uint32_t phase, const struct plait_where *at, double *shared)
{
    (void)phase, (void)shared;
    plait_list_walk(a, at, sizeof(T), part, NAME(part)(a, &part, at));
}

BODY void NAME(times)(const struct plait_cuda_scale *a, uint64_t i, W by, uint32_t n)
{
    W v[NAME(N)];

    NAME(load)(v, a->src, i, n, false);
    for (uint32_t k = 0; k < n; k++)
        v[k] = ARITH(clean)(ARITH(prod)(v[k], by));
    NAME(store)(a->dst, i, v, n, false);
}

BODY void NAME(scale)(const struct plait_cuda_scale *a, const struct plait_where *at)
{
    const uint64_t first = plait_head(a->dst, sizeof(T), a->count);
    const bool alike = plait_is_line((const T *)a->src + first) && plait_is_line((T *)a->dst + first);
    const uint64_t head = alike ? first : a->count, nunit = (a->count - head) / NAME(N);
    T scalar;

    if (a->late != NULL)
        scalar = *(const T *)a->late;
    else
        memcpy(&scalar, &a->scalar, sizeof scalar);
    for (uint64_t u = plait_thread(at); u < nunit; u += plait_nthread(at))
        NAME(times)(a, head + u * NAME(N), GET(scalar), NAME(N));
    for (uint64_t e = plait_thread(at); e < a->count - nunit * NAME(N); e += plait_nthread(at))
        NAME(times)(a, e < head ? e : e + nunit * NAME(N), GET(scalar), 1);
}

#undef T
#undef W
#undef NARROW
#undef NAME
#undef ARITH
#undef GET
#undef PUT
#undef BITS
#undef OF_BITS
