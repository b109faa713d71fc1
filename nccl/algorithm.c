/* SPDX-License-Identifier: BSD-3-Clause */
#include "algorithm.h"

#include "error.h"

#include "../lib/base/ascii.h"

#include <plait/comm.h>
#include <plait/plan.h>

#include <stdio.h>
#include <string.h>

/*
 * Take the next name of a list into out[room], in lower case and with Plait's name for NCCL's. Returns the rest of the
 * list, or NULL.
 */
static const char *next_name(const char *list, char *out, size_t room)
{
    const size_t n = strcspn(list, ",");

    snprintf(out, room, "%.*s", (int)n, list);
    for (char *c = out; *c != '\0'; c++)
        *c = plait_lower(*c);
    if (strcmp(out, "tree") == 0) /* NCCL's trees are double binary trees */
        snprintf(out, room, "double-tree");
    return list[n] == ',' ? list + n + 1 : NULL;
}

/* Does the text name this collective, with or without underscores ("reducescatter")? */
static bool is_collective(const char *text, size_t length, const char *name)
{
    for (; *name != '\0'; name++) {
        if (*name == '_' && (length == 0 || *text != '_'))
            continue;
        if (length == 0 || plait_lower(*text) != *name)
            return false;
        text++;
        length--;
    }
    return length == 0;
}

static bool is_any_collective(const char *text, size_t length)
{
    for (int i = 0; i < PLAIT_NCOLL; i++)
        if (is_collective(text, length, plait_coll_name((enum plait_coll)i)))
            return true;
    return false;
}

/*
 * The part of NCCL_ALGO that applies to this collective: "ring" applies to all, in "allreduce:ring;allgather:bruck"
 * each part to its own. *named: the part names the collective.
 */
static bool part_of(const char *text, int coll, char *out, size_t room)
{
    bool named = false;

    out[0] = '\0';
    while (*text != '\0') {
        const size_t n = strcspn(text, ";"), head = strcspn(text, ":;");
        const bool has_head = text[head] == ':' && is_any_collective(text, head);
        if (!has_head || is_collective(text, head, plait_coll_name((enum plait_coll)coll))) {
            named = has_head;
            snprintf(out, room, "%.*s", (int)(has_head ? n - head - 1 : n), has_head ? text + head + 1 : text);
        }
        text += text[n] == ';' ? n + 1 : n;
    }
    return named;
}

/* Does the list hold only algorithms of other collectives? Then it does not apply to this one. */
static bool is_of_others(const char *list, int coll)
{
    bool others = false;
    char name[64];

    while (list != NULL) {
        list = next_name(list, name, sizeof name);
        name[strcspn(name, ":")] = '\0';
        for (const struct plait_alg *const *a = plait_algs; *a != NULL; a++) {
            if (strcmp((*a)->name, name) == 0 && (int)(*a)->coll == coll)
                return false;
            others |= strcmp((*a)->name, name) == 0;
        }
    }
    return others;
}

static bool is_inplace(const struct nccl_call *c)
{
    const size_t bytes = c->count * plait_dtype_size(c->type);
    const char *in = c->in, *out = c->out;

    switch (c->kind->coll) {
    case PLAIT_REDUCE_SCATTER:
    case PLAIT_SCATTER:
        return in != NULL && out == in + (size_t)c->comm->rank * bytes;
    case PLAIT_ALLGATHER:
    case PLAIT_GATHER:
        return out != NULL && in == out + (size_t)c->comm->rank * bytes;
    default:
        return in == out;
    }
}

static void warn_once(const struct nccl_call *c, const char *list)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;

    if (!atomic_flag_test_and_set(&warned))
        nccl_log(PLAIT_LOG_WARN, "%s: none of the algorithms '%s' can run; the library chooses: %s", c->kind->name,
                 list, plait_last_error());
}

enum plait_status nccl_algorithm_pick(const struct nccl_call *c, const struct plait_call *options, char out[64])
{
    char part[256];
    struct plait_call o = *options;
    const struct plait_shape shape = { .coll = (enum plait_coll)c->kind->coll,
                                       .root = c->kind->rooted ? c->root : 0,
                                       .inplace = is_inplace(c) };
    struct plait_choice choice;
    enum plait_status status = PLAIT_OK;
    bool named = true;

    out[0] = '\0';
    if (c->kind->coll < 0 || (c->algorithms[0] == '\0' && c->comm->algorithms[0] == '\0'))
        return PLAIT_OK;
    if (c->algorithms[0] != '\0')
        snprintf(part, sizeof part, "%s", c->algorithms);
    else
        named = part_of(c->comm->algorithms, c->kind->coll, part, sizeof part);
    o.algorithm = out;
    for (const char *rest = part[0] != '\0' ? part : NULL; rest != NULL;) {
        rest = next_name(rest, out, 64);
        status = plait_comm_choose(atomic_load(&c->comm->plait), &shape, c->count, c->type, c->scale.op, &o, &choice);
        if (status == PLAIT_OK)
            return PLAIT_OK;
    }
    out[0] = '\0';
    if (status == PLAIT_OK || (c->algorithms[0] != '\0' && c->forced))
        return status;
    if (named || !is_of_others(part, c->kind->coll))
        warn_once(c, part);
    return PLAIT_OK;
}
