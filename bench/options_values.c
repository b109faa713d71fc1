/* SPDX-License-Identifier: BSD-3-Clause */
#include "options_values.h"

#include "base/ascii.h"
#include "launch_openmpi.h"
#include "message.h"
#include "names.h"
#include "value.h"

#include <plait/plan.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    enum plait_dtype type;
    const char *label;
} labels[] = {
    { PLAIT_INT8, "int8" },         { PLAIT_UINT8, "uint8" },       { PLAIT_INT32, "int32" },
    { PLAIT_UINT32, "uint32" },     { PLAIT_INT64, "int64" },       { PLAIT_UINT64, "uint64" },
    { PLAIT_FLOAT16, "half" },      { PLAIT_FLOAT32, "float" },     { PLAIT_FLOAT64, "double" },
    { PLAIT_BFLOAT16, "bfloat16" }, { PLAIT_FLOAT8E4M3, "f8e4m3" }, { PLAIT_FLOAT8E5M2, "f8e5m2" },
};
#define NLABEL (sizeof labels / sizeof *labels)

const char *dtype_label(enum plait_dtype type)
{
    for (size_t i = 0; i < NLABEL; i++)
        if (labels[i].type == type)
            return labels[i].label;
    return "?";
}

bool parse_dtype(struct options *o, const char *flag, const char *value)
{
    const int type = plait_dtype_find(value);

    o->ndtype = 0;
    if (strcmp(value, "all") == 0) {
        for (size_t i = 0; i < NLABEL; i++)
            o->dtype[o->ndtype++] = labels[i].type;
        return true;
    }
    if (type < 0)
        return complain("%s %s: no such element type here; use " DTYPE_LABELS " or all", flag, value);
    o->dtype[o->ndtype++] = (enum plait_dtype)type;
    return true;
}

bool parse_op(struct options *o, const char *flag, const char *value)
{
    const int op = plait_op_find(value);

    o->nop = 0;
    if (strcmp(value, "all") == 0) {
        for (int i = 0; i <= PLAIT_PREMULSUM; i++)
            o->op[o->nop++] = (enum plait_op)i;
        return true;
    }
    if (op < 0 || op == PLAIT_USER)
        return complain("%s %s: no such operator here; use sum, prod, min, max, avg, mulsum or all", flag, value);
    o->op[o->nop++] = (enum plait_op)op;
    return true;
}

const char *op_label(enum plait_op op)
{
    return op == PLAIT_NOP ? "none" : plait_op_name(op);
}

/* Call `one` for each name of a comma-separated list; an empty list is an error with this advice. */
static bool parse_list(struct options *o, const char *flag, const char *value, parse_value *one, const char *advice)
{
    char *list = strdup(value), *state = NULL;
    bool ok = list != NULL || complain("out of memory");
    uint32_t n = 0;

    for (char *name = ok ? strtok_r(list, ",", &state) : NULL; ok && name != NULL; name = strtok_r(NULL, ",", &state)) {
        ok = one(o, flag, name);
        n++;
    }
    free(list);
    return ok && (n > 0 || complain("%s '%s' %s", flag, value, advice));
}

static bool add_coll(struct options *o, const struct collective *c)
{
    for (uint32_t i = 0; i < o->ncoll; i++)
        if (o->coll[i] == c)
            return true;
    o->coll[o->ncoll++] = c;
    return true;
}

static bool parse_one_coll(struct options *o, const char *flag, const char *name)
{
    const struct collective *c = collective_find(name);

    if (strcmp(name, "all") != 0)
        return c != NULL ? add_coll(o, c)
                         : complain("%s %s: no such collective here; %s%s", flag, name,
                                    collective_nearest(name) != NULL ? "did you mean " : "--help lists all",
                                    collective_nearest(name) != NULL ? collective_nearest(name) : "");
    for (uint32_t i = 0; i < NCOLLECTIVE; i++)
        add_coll(o, &collectives[i]);
    return true;
}

bool parse_coll(struct options *o, const char *flag, const char *value)
{
    o->ncoll = 0;
    return parse_list(o, flag, value, parse_one_coll, "names no collective; leave it out for allreduce");
}

bool parse_root(struct options *o, const char *flag, const char *value)
{
    o->root = 0;
    o->every_root = strcmp(value, "all") == 0;
    return o->every_root || value_number(flag, value, 0, MAX_RANKS - 1, &o->root);
}

bool parse_threads(struct options *o, const char *flag, const char *value)
{
    o->threads = true;
    return value_number(flag, value, 1, MAX_RANKS, &o->nrank);
}

bool parse_memory(struct options *o, const char *flag, const char *value)
{
    o->library_memory = strcmp(value, "plait") == 0;
    o->same_memory = strcmp(value, "same") == 0;
    return o->library_memory || o->same_memory || strcmp(value, "malloc") == 0 ||
           complain("%s %s: use plait, malloc or same (nccl-tests' GPU memory report is not here)", flag, value);
}

bool parse_place(struct options *o, const char *flag, const char *value)
{
    o->place[OUT_OF_PLACE] = strcmp(value, "in") != 0;
    o->place[IN_PLACE] = strcmp(value, "out") != 0;
    return strcmp(value, "in") == 0 || strcmp(value, "out") == 0 || strcmp(value, "both") == 0 ||
           complain("%s %s: use out, in or both", flag, value);
}

const char *place_name(enum place place)
{
    static const char *const names[NPLACE] = { "out", "in" };
    return names[place];
}

bool parse_overlap(struct options *o, const char *flag, const char *value)
{
    const bool both = strcmp(value, "both") == 0;

    for (int i = 0; i < NCOMPUTATION; i++) {
        o->computation[i] = both || strcmp(value, computation_name((enum computation)i)) == 0;
        o->overlap |= o->computation[i];
    }
    return o->computation[COMPUTE_BUSY] || o->computation[COMPUTE_SLEEP] ||
           complain("%s %s: use busy, sleep or both", flag, value);
}

static bool parse_one_layout(struct options *o, const char *flag, const char *name)
{
    if (o->nlayout == MAX_LAYOUTS)
        return complain("%s: at most %d layouts", flag, MAX_LAYOUTS);
    return layout_parse(name, &o->layout[o->nlayout++]) ||
           complain("%s %s: no such layout; use " LAYOUT_NAMES, flag, name);
}

bool parse_layouts(struct options *o, const char *flag, const char *value)
{
    o->nlayout = 0;
    return parse_list(o, flag, value, parse_one_layout, "names no layout; leave it out for all of them");
}

bool parse_payload(struct options *o, const char *flag, const char *value)
{
    static const enum plait_dtype types[] = { PLAIT_FLOAT32, PLAIT_BFLOAT16, PLAIT_FLOAT16 };
    const bool both = strcmp(value, "both") == 0;

    o->npayload = 0;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if ((both && i < 2) || plait_dtype_find(value) == (int)types[i])
            o->payload[o->npayload++] = types[i];
    return o->npayload > 0 || complain("%s %s: use float, bfloat16, half or both (float and bfloat16)", flag, value);
}

bool parse_gradients(struct options *o, const char *flag, const char *value)
{
    o->gradients[0] = strcmp(value, "own") != 0;
    o->gradients[1] = strcmp(value, "buckets") != 0;
    return strcmp(value, "own") == 0 || strcmp(value, "buckets") == 0 || strcmp(value, "both") == 0 ||
           complain("%s %s: use buckets, own or both", flag, value);
}

bool parse_compute(struct options *o, const char *flag, const char *value)
{
    char *end;

    o->compute = 1e-3 * plait_real(value, &end);
    return (end != value && *end == '\0' && o->compute >= 0 && o->compute <= 60) ||
           complain("%s %s: must be milliseconds from 0 to 60000", flag, value);
}

static bool parse_one_mode(struct options *o, const char *flag, const char *name)
{
    const int mode = plait_elastic_find(name);

    if (mode < 0 && strcmp(name, "all") != 0)
        return complain("%s %s: use original, async, async-momentum, hogwild, sync1, sync2, sync3 or all", flag, name);
    o->modes |= mode < 0 ? (1u << PLAIT_NELASTIC) - 1 : 1u << mode;
    return true;
}

bool parse_modes(struct options *o, const char *flag, const char *value)
{
    o->modes = 0;
    return parse_list(o, flag, value, parse_one_mode, "names no mode; leave it out for all of them");
}

bool parse_algorithm(struct options *o, const char *flag, const char *value)
{
    o->algorithm = name_algorithm(value, &o->algorithm_coll);
    return *o->algorithm != '\0' ||
           complain("%s '%s': names no algorithm; plait-info --algorithms lists all", flag, value);
}

bool parse_plot(struct options *o, const char *flag, const char *value)
{
    o->plot = value;
    return value_picture(flag, value);
}

static bool add_peer(struct options *o, uint32_t config)
{
    for (uint32_t i = 0; i < o->npeer; i++)
        if (o->peer[i] == config)
            return true;
    o->peer[o->npeer++] = config;
    return true;
}

static bool parse_one_peer(struct options *o, const char *flag, const char *name)
{
    if (strncmp(name, "openmpi:", 8) == 0)
        name += 8;
    if (strcmp(name, "gloo") == 0)
        return o->gloo = true;
    if (strcmp(name, "ddp") == 0)
        return o->ddp = true;
    for (uint32_t i = 0; i < openmpi_nconfig; i++)
        if (strcmp(name, openmpi_configs[i].name) == 0)
            return add_peer(o, i);
    if (strcmp(name, "best") != 0 && strcmp(name, "openmpi") != 0)
        return complain("%s %s: unknown peer; use openmpi:ob1, openmpi:ucx, openmpi:sm, openmpi:nocma, openmpi:tuned, "
                        "openmpi:tcp or openmpi:best (all that suit one machine, or under a launcher several), or "
                        "gloo, for fusion ddp",
                        flag, name);
    for (uint32_t i = 0; i < openmpi_nconfig; i++)
        if (o->launched ? openmpi_configs[i].hosts : openmpi_configs[i].machine)
            add_peer(o, i);
    return true;
}

bool parse_peer(struct options *o, const char *flag, const char *value)
{
    return parse_list(o, flag, value, parse_one_peer, "names no peer; use openmpi:best, or leave it out");
}
