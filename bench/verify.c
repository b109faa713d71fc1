/* SPDX-License-Identifier: BSD-3-Clause */
#include "verify.h"

#include "collectives.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Integers up to this size are exact in the type, and so are all sums below it. */
static int64_t exact_limit(enum plait_dtype type)
{
    switch ((int)type) {
    case PLAIT_FLOAT8E5M2:
        return 1 << 3;
    case PLAIT_FLOAT8E4M3:
        return 1 << 4;
    case PLAIT_INT8:
    case PLAIT_UINT8:
        return 1 << 5;
    case PLAIT_BFLOAT16:
        return 1 << 8;
    case PLAIT_FLOAT16:
        return 1 << 11;
    case PLAIT_FLOAT32:
        return 1 << 24;
    case PLAIT_INT32:
    case PLAIT_UINT32:
        return 1 << 30;
    default:
        return (int64_t)1 << 40;
    }
}

static uint64_t mix(uint64_t x) /* splitmix64's finaliser */
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t noise(uint32_t seed, uint32_t rank, size_t i)
{
    return mix(mix(((uint64_t)seed << 32) + rank) + i);
}

/* A whole number in -bound .. bound. */
static int64_t whole(uint64_t random, int64_t bound)
{
    return (int64_t)(random % (uint64_t)(2 * bound + 1)) - bound;
}

/* Is this one of at most `most` ranks with an element i other than the neutral one? */
static bool chosen(uint32_t rank, uint32_t nrank, size_t i, uint32_t most)
{
    const uint32_t stride = (nrank + most - 1) / most;
    return (rank + i) % stride == 0;
}

static double sum_input(int64_t limit, uint32_t nrank, uint32_t rank, uint32_t seed, size_t i)
{
    const int64_t bound = limit / nrank;

    if (bound > 0)
        return (double)whole(noise(seed, rank, i), bound);
    return chosen(rank, nrank, i, (uint32_t)limit) ? (double)whole(noise(seed, rank, i), 1) : 0;
}

/* All ranks hold the same number, plus one that the other rank of the pair holds with the opposite sign. */
static double avg_input(int64_t limit, uint32_t nrank, uint32_t rank, uint32_t seed, size_t i)
{
    const int64_t bound = limit / nrank / 2;
    const uint32_t pair = rank / 2;
    const bool alone = rank == nrank - 1 && nrank % 2 == 1;
    const int64_t sign = rank % 2 ? -1 : 1;

    if (bound > 0) {
        const int64_t common = whole(noise(seed, UINT32_MAX, i), bound);
        return (double)(common + (alone ? 0 : sign * whole(noise(seed, pair, i), bound)));
    }
    const bool holds = chosen(pair, (nrank + 1) / 2, i, (uint32_t)limit / 2);
    return alone || !holds ? 0 : (double)(sign * whole(noise(seed, pair, i), 1));
}

static bool is_integer(enum plait_dtype type)
{
    return type <= PLAIT_UINT64;
}

static bool is_unsigned(enum plait_dtype type)
{
    return type == PLAIT_UINT8 || type == PLAIT_UINT32 || type == PLAIT_UINT64;
}

/* The factor of a rank's input in a pre-multiplied sum. */
static double scale_of(uint32_t rank)
{
    return 1 + rank % 2;
}

static double prod_input(enum plait_dtype type, uint32_t nrank, uint32_t rank, uint32_t seed, size_t i)
{
    const uint64_t random = noise(seed, rank, i);
    const uint32_t most = plait_dtype_size(type) == 1 ? 6 : 12; /* factors other than 1 */
    const int sign = random & 1 ? -1 : 1;
    const int exponent = (int)(random / 2 % 3) - 1;

    if (!chosen(rank, nrank, i, most))
        return sign;
    return ldexp(sign, is_integer(type) ? abs(exponent) : exponent);
}

static double input(enum plait_dtype type, enum plait_op op, uint32_t nrank, uint32_t rank, uint32_t seed, size_t i)
{
    const int64_t limit = exact_limit(type), even = limit / nrank / 2 * 2;

    switch ((int)op) {
    case PLAIT_SUM:
        return sum_input(limit, nrank, rank, seed, i);
    case PLAIT_AVG:
        /* Unsigned inputs are moved up to at least 0. */
        return avg_input(limit, nrank, rank, seed, i) + (is_unsigned(type) ? (double)even : 0);
    case PLAIT_PREMULSUM:
        return sum_input(limit / 2, nrank, rank, seed, i);
    case PLAIT_PROD:
        return prod_input(type, nrank, rank, seed, i);
    default:
        return is_unsigned(type) ? fabs((double)whole(noise(seed, rank, i), limit))
                                 : (double)whole(noise(seed, rank, i), limit);
    }
}

static double combine(enum plait_op op, double a, double b)
{
    switch ((int)op) {
    case PLAIT_PROD:
        return a * b;
    case PLAIT_MIN:
        return a < b ? a : b;
    case PLAIT_MAX:
        return a > b ? a : b;
    default:
        return a + b;
    }
}

/* The bits of a 16-bit float from a float that it represents exactly, zero or normal. */
static uint16_t half_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000, exponent = bits >> 23 & 0xff, fraction = bits >> 13 & 0x3ff;
    return (uint16_t)(exponent == 0 ? sign : sign | (exponent - 112) << 10 | fraction);
}

static uint16_t bfloat_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)(bits >> 16);
}

/* An 8-bit float with `digits` fraction bits and this exponent bias, from a number that it represents exactly. */
static uint8_t byte_bits(double value, int digits, int bias)
{
    int exponent;
    const double fraction = 2 * frexp(fabs(value), &exponent); /* 1 .. 2 */
    const int sign = value < 0 ? 0x80 : 0, power = exponent - 1 + bias;

    if (value == 0)
        return 0;
    if (power < 1) /* denormal */
        return (uint8_t)(sign | (int)ldexp(fraction, digits + power - 1));
    return (uint8_t)(sign | power << digits | (int)ldexp(fraction - 1, digits));
}

static void encode(enum plait_dtype type, double value, unsigned char *out)
{
    const float f = (float)value;
    const int64_t whole = is_integer(type) ? (int64_t)value : 0; /* its low bytes, as sums wrap; little-endian */
    const uint16_t bits = type == PLAIT_FLOAT16 ? half_bits(f) : bfloat_bits(f);
    const uint8_t byte = type == PLAIT_FLOAT8E4M3 ? byte_bits(value, 3, 7) : byte_bits(value, 2, 15);
    const void *from = is_integer(type) ? (const void *)&whole : &value;

    switch ((int)type) {
    case PLAIT_FLOAT32:
        from = &f;
        break;
    case PLAIT_FLOAT16:
    case PLAIT_BFLOAT16:
        from = &bits;
        break;
    case PLAIT_FLOAT8E4M3:
    case PLAIT_FLOAT8E5M2:
        from = &byte;
        break;
    }
    memcpy(out, from, plait_dtype_size(type));
}

/* Allocate a pattern for vectors of up to `most` elements. */
static bool pattern_init(struct pattern *out, const struct inputs *in, size_t lead, size_t most)
{
    const size_t period = most < VERIFY_PERIOD ? most : VERIFY_PERIOD;

    *out = (struct pattern){ .width = plait_dtype_size(in->type), .period = period > 0 ? period : 1, .lead = lead };
    out->element = calloc(out->period, out->width);
    return out->element != NULL;
}

static double number(const struct inputs *in, uint32_t rank, size_t i)
{
    return input(in->type, in->op, in->nrank, rank, in->seed, i);
}

bool pattern_input(struct pattern *out, const struct inputs *in, uint32_t rank, size_t most)
{
    if (!pattern_init(out, in, 0, most))
        return false;
    for (size_t i = 0; i < out->period; i++) {
        const uint64_t bits = noise(in->seed, rank, i);
        if (in->op == PLAIT_NOP)
            memcpy(out->element + i * out->width, &bits, out->width);
        else
            encode(in->type, number(in, rank, i), out->element + i * out->width);
    }
    return true;
}

/* The inputs of all ranks combined. */
static bool pattern_combined(struct pattern *out, const struct inputs *in, size_t lead, size_t most)
{
    const bool scaled = in->op == PLAIT_PREMULSUM;

    if (!pattern_init(out, in, lead, most))
        return false;
    for (size_t i = 0; i < out->period; i++) {
        double result = number(in, 0, i) * (scaled ? scale_of(0) : 1);
        for (uint32_t r = 1; r < in->nrank; r++)
            result = combine(in->op, result, number(in, r, i) * (scaled ? scale_of(r) : 1));
        if (in->op == PLAIT_AVG)
            result = trunc(result / in->nrank);
        encode(in->type, result + 0.0, out->element + i * out->width); /* no sum is -0 */
    }
    return true;
}

bool pattern_output(struct pattern *out, const struct inputs *in, uint32_t rank, uint32_t slot, size_t most)
{
    const struct plait_geometry g = collective_geometry(in->coll, in->nrank, in->root, rank);
    const uint32_t block = g.out.blk + slot * g.out.stride;
    const uint32_t source = g.combines ? rank : collective_source(in->coll, in->nrank, in->root, block);
    const struct plait_geometry from = collective_geometry(in->coll, in->nrank, in->root, source);
    const size_t count = most / collective_parts(in->coll, in->nrank);
    const size_t lead = collective_elements(in->coll, in->nrank, count, &from.in, plait_side_slot(&from.in, block));

    if (g.combines)
        return pattern_combined(out, in, lead, most);
    if (!pattern_input(out, in, source, most))
        return false;
    out->lead = lead;
    return true;
}

void pattern_scale(enum plait_dtype type, uint32_t rank, void *out)
{
    encode(type, scale_of(rank), out);
}

/* The inverse of encode(). */
static float decode_16(enum plait_dtype type, uint16_t bits)
{
    const uint32_t exponent = bits >> 10 & 0x1f;
    const uint32_t half =
        (uint32_t)(bits & 0x8000) << 16 | (exponent > 0 ? exponent + 112 : 0) << 23 | (uint32_t)(bits & 0x3ff) << 13;
    const uint32_t wide = type == PLAIT_FLOAT16 ? half : (uint32_t)bits << 16;
    float value;

    memcpy(&value, &wide, sizeof value);
    return value;
}

bool pattern_as(struct pattern *p, enum plait_dtype from, enum plait_dtype to)
{
    float *wide;

    if (from == to)
        return true;
    wide = malloc(p->period * sizeof *wide);
    for (size_t i = 0; wide != NULL && i < p->period; i++) {
        uint16_t bits;
        memcpy(&bits, p->element + i * p->width, sizeof bits);
        wide[i] = decode_16(from, bits);
    }
    free(p->element);
    p->element = (unsigned char *)wide;
    p->width = sizeof *wide;
    return wide != NULL;
}

void pattern_finish(struct pattern *p)
{
    free(p->element);
    memset(p, 0, sizeof *p);
}

void pattern_fill(const struct pattern *p, void *buffer, size_t count)
{
    unsigned char *to = buffer;

    for (size_t i = 0; i < count; i += p->period)
        memcpy(to + i * p->width, p->element, (count - i < p->period ? count - i : p->period) * p->width);
}

size_t pattern_differing(const struct pattern *p, const void *buffer, size_t count)
{
    const unsigned char *have = buffer;
    size_t wrong = 0, phase = p->lead % p->period;

    for (size_t i = 0; i < count; phase = 0) {
        const size_t left = p->period - phase, n = count - i < left ? count - i : left;
        const unsigned char *part = have + i * p->width, *want = p->element + phase * p->width;
        if (memcmp(part, want, n * p->width) != 0)
            for (size_t k = 0; k < n; k++)
                wrong += memcmp(part + k * p->width, want + k * p->width, p->width) != 0;
        i += n;
    }
    return wrong;
}

void steady_fill(void *buffer, size_t count, enum plait_dtype type, enum plait_op op)
{
    const size_t width = plait_dtype_size(type);
    unsigned char one[8], *to = buffer;

    memset(buffer, 0, count * width);
    if (op != PLAIT_PROD)
        return;
    encode(type, 1, one);
    for (size_t i = 0; i < count; i++)
        memcpy(to + i * width, one, width);
}
