/* SPDX-License-Identifier: BSD-3-Clause */
/* Names and sizes of collectives, types and operators, from the lists in <plait/coll.h>. */
#include "base/ascii.h"

#include <plait/plan.h>

#include <stdio.h>
#include <string.h>

#define PLAIT_X(symbol, name, text) [symbol] = name,
static const char *const colls[PLAIT_NCOLL] = { PLAIT_COLL_LIST(PLAIT_X) };
#undef PLAIT_X

#define PLAIT_X(symbol, value, bytes, name) [symbol] = { name, bytes },
static const struct {
    const char *name;
    size_t size;
} types[PLAIT_NDTYPE] = { PLAIT_DTYPE_LIST(PLAIT_X) };
#undef PLAIT_X

#define PLAIT_X(symbol, value, name) [symbol] = name,
static const char *const ops[PLAIT_NOP] = { PLAIT_OP_LIST(PLAIT_X) };
#undef PLAIT_X

size_t plait_dtype_size(enum plait_dtype type)
{
    return (unsigned)type < PLAIT_NDTYPE ? types[type].size : 0;
}

const char *plait_coll_name(enum plait_coll coll)
{
    return (unsigned)coll < PLAIT_NCOLL ? colls[coll] : "?";
}

const char *plait_dtype_name(enum plait_dtype type)
{
    return (unsigned)type < PLAIT_NDTYPE ? types[type].name : "?";
}

const char *plait_op_name(enum plait_op op)
{
    return (unsigned)op < PLAIT_NOP ? ops[op] : "?";
}

/* ncclFloat32, MPI_SUM and plait_allreduce are float32, sum and allreduce. NULL is no name. */
static const char *without_prefix(const char *name)
{
    static const char *const prefixes[] = { "nccl", "MPI_", "plait_" };

    for (size_t i = 0; name != NULL && i < sizeof prefixes / sizeof *prefixes; i++)
        if (plait_after_prefix(name, prefixes[i]) != NULL)
            return plait_after_prefix(name, prefixes[i]);
    return name != NULL ? name : "";
}

int plait_coll_find(const char *name)
{
    char own[32], vform[32]; /* longer than any name */
    const size_t n = strlen(without_prefix(name)), perf = strlen("_perf");

    if (n >= sizeof own)
        return -1;
    strcpy(own, without_prefix(name));
    if (n > perf && plait_same_word(own + n - perf, "_perf"))
        own[n - perf] = '\0';
    for (int coll = 0; coll < PLAIT_NCOLL; coll++) {
        const bool blocks = plait_geometry_of((enum plait_coll)coll, 1, 0, 0, 1).kind != PLAIT_KIND_VECTOR;
        snprintf(vform, sizeof vform, "%s%s", colls[coll], blocks ? "v" : "");
        if (plait_same_name(own, colls[coll]) || plait_same_name(own, vform))
            return coll;
    }
    return plait_same_name(own, "bcast")                  ? PLAIT_BROADCAST
           : plait_same_name(own, "reduce_scatter_block") ? PLAIT_REDUCE_SCATTER
                                                          : -1;
}

int plait_dtype_find(const char *name)
{
    static const struct {
        const char *name;
        enum plait_dtype type;
    } short_names[] = {
        { "half", PLAIT_FLOAT16 },      { "float", PLAIT_FLOAT32 },     { "double", PLAIT_FLOAT64 },
        { "bf16", PLAIT_BFLOAT16 },     { "fp16", PLAIT_FLOAT16 },      { "fp32", PLAIT_FLOAT32 },
        { "fp64", PLAIT_FLOAT64 },      { "int", PLAIT_INT32 },         { "char", PLAIT_INT8 },
        { "f8e4m3", PLAIT_FLOAT8E4M3 }, { "f8e5m2", PLAIT_FLOAT8E5M2 },
    };

    name = without_prefix(name);
    for (int type = 0; type < PLAIT_NDTYPE; type++)
        if (plait_same_name(name, types[type].name))
            return type;
    for (size_t i = 0; i < sizeof short_names / sizeof *short_names; i++)
        if (plait_same_name(name, short_names[i].name))
            return (int)short_names[i].type;
    return -1;
}

int plait_op_find(const char *name)
{
    name = without_prefix(name);
    for (int op = 0; op < PLAIT_NOP; op++)
        if (plait_same_name(name, ops[op]))
            return op;
    if (plait_same_name(name, "mulsum")) /* nccl-tests */
        return PLAIT_PREMULSUM;
    return -1;
}
