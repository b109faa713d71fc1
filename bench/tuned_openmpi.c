/* SPDX-License-Identifier: BSD-3-Clause */
#include "tuned_openmpi.h"

#include "collectives.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MAX_TUNED 32

/*
 * Segment size in bytes with which algorithms are tried, too, where they support segments. Open MPI's own choice cuts
 * as well.
 */
#define SEGMENT (64 << 10)
static const bool cuts[NCOLL] = { [PLAIT_ALLREDUCE] = true, [PLAIT_BROADCAST] = true, [PLAIT_REDUCE] = true };

static struct tuned tuned[NCOLL][1 + MAX_TUNED]; /* name "" and comm 0: not created yet */

/* ---- control variables ------------------------------------------------------------------------- */

struct variable {
    MPI_T_cvar_handle handle;
    MPI_T_enum values; /* MPI_T_ENUM_NULL: a number */
};

/* Find variable coll_tuned_<middle><end>; false: there is none. */
static bool find_variable(const char *middle, const char *end, struct variable *out)
{
    char name[128], text[256];
    int index, count, verbosity, binding, scope, length = sizeof name, room = sizeof text;
    MPI_Datatype type;

    snprintf(name, sizeof name, "coll_tuned_%s%s", middle, end);
    return MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS &&
           MPI_T_cvar_get_info(index, name, &length, &verbosity, &type, &out->values, text, &room, &binding, &scope) ==
               MPI_SUCCESS &&
           MPI_T_cvar_handle_alloc(index, NULL, &out->handle, &count) == MPI_SUCCESS;
}

static bool rules_are_dynamic(void)
{
    struct variable v;
    int on = 0;

    if (!find_variable("use_dynamic_rules", "", &v))
        return false;
    const bool ok = MPI_T_cvar_read(v.handle, &on) == MPI_SUCCESS;
    MPI_T_cvar_handle_free(&v.handle);
    return ok && on != 0;
}

/* Algorithms besides Open MPI's own choice, which is the first value. */
static uint32_t count_values(const struct variable *algorithm)
{
    char name[64];
    int n = 0, length = sizeof name;

    if (algorithm->values == MPI_T_ENUM_NULL ||
        MPI_T_enum_get_info(algorithm->values, &n, name, &length) != MPI_SUCCESS)
        return 0;
    return n > 1 ? (uint32_t)n - 1 : 0;
}

/* Create a communicator while the variables have these values, then restore them. segment: NULL: there is none. */
static bool make(const struct variable *algorithm, const struct variable *segment, int item, int bytes,
                 struct tuned *out)
{
    int value, own, whole = 0, length = sizeof out->name;

    if (MPI_T_enum_get_item(algorithm->values, item, &value, out->name, &length) != MPI_SUCCESS ||
        MPI_T_cvar_read(algorithm->handle, &own) != MPI_SUCCESS ||
        (segment != NULL && MPI_T_cvar_read(segment->handle, &whole) != MPI_SUCCESS) ||
        MPI_T_cvar_write(algorithm->handle, &value) != MPI_SUCCESS ||
        (segment != NULL && MPI_T_cvar_write(segment->handle, &bytes) != MPI_SUCCESS))
        return false;
    const bool made = MPI_Comm_dup(MPI_COMM_WORLD, &out->comm) == MPI_SUCCESS &&
                      MPI_Comm_set_errhandler(out->comm, MPI_ERRORS_RETURN) == MPI_SUCCESS;
    const size_t end = strlen(out->name);
    out->cut = bytes > 0;
    if (out->cut)
        snprintf(out->name + end, sizeof out->name - end, " %dK", bytes >> 10);
    return MPI_T_cvar_write(algorithm->handle, &own) == MPI_SUCCESS &&
           (segment == NULL || MPI_T_cvar_write(segment->handle, &whole) == MPI_SUCCESS) && made;
}

/* ---- the list ---------------------------------------------------------------------------------- */

/* First every algorithm, then each again with segments. */
static bool tuned_make(enum plait_coll coll, uint32_t i, struct tuned *out)
{
    const char *mpi = collective_of(coll)->mpi;
    struct variable algorithm, segment;
    bool ok = false;

    if (!rules_are_dynamic() || !find_variable(mpi, "_algorithm", &algorithm))
        return false;
    const bool segments = find_variable(mpi, "_algorithm_segmentsize", &segment);
    const uint32_t n = count_values(&algorithm);
    if (i <= n || (segments && cuts[coll] && i <= 2 * n))
        ok = make(&algorithm, segments ? &segment : NULL, 1 + (int)((i - 1) % n), i <= n ? 0 : SEGMENT, out);
    if (segments)
        MPI_T_cvar_handle_free(&segment.handle);
    MPI_T_cvar_handle_free(&algorithm.handle);
    return ok;
}

const struct tuned *tuned_find(enum plait_coll coll, size_t bytes, uint32_t i)
{
    static bool started;
    int level;

    if (i > MAX_TUNED)
        return NULL;
    struct tuned *t = &tuned[coll][i];
    if (!started)
        started = MPI_T_init_thread(MPI_THREAD_SINGLE, &level) == MPI_SUCCESS;
    if (i == 0)
        t->comm = MPI_COMM_WORLD;
    else if (*t->name == '\0' && !(started && tuned_make(coll, i, t)))
        return NULL;
    return t->cut && bytes <= SEGMENT ? NULL : t;
}
