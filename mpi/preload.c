/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libplait-mpi.so: MPI's names. The first call of one loads plait-pmpi.so, if the program has the MPI that this was
 * compiled for. Else each call goes to the next library with that name.
 */
#include "calls.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* ABI names of the MPI that mpi.h belongs to. */
#ifdef OPEN_MPI
static const char *const libraries[] = { "libmpi.so.40" };
#define COMPILED_FOR "Open MPI 4 and 5"
#else
static const char *const libraries[] = { "libmpi.so.12", "libmpich.so.12" };
#define COMPILED_FOR "MPICH and its relatives"
#endif

static const struct plait_mpi_table *table;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* From beside this library, or from the folder of the plug-ins. $ORIGIN would be that of a sanitizer's dlopen(). */
static void load_table(void)
{
    static const char *const places[] = { "plait-pmpi.so", "plait/plait-pmpi.so" };
    char path[4096], reason[512] = "";
    Dl_info own = { .dli_fname = "" };

    dladdr((const void *)&table, &own);
    const char *const slash = strrchr(own.dli_fname, '/');
    const int folder = slash != NULL ? (int)(slash + 1 - own.dli_fname) : 0;
    for (size_t i = 0; i < sizeof places / sizeof *places && table == NULL; i++) {
        snprintf(path, sizeof path, "%.*s%s", folder, own.dli_fname, places[i]);
        void *part = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
        if (part != NULL)
            table = dlsym(part, PLAIT_MPI_TABLE);
        else
            snprintf(reason, sizeof reason, "%s", dlerror());
    }
    if (table == NULL)
        fprintf(stderr, "libplait-mpi.so: all collectives run in MPI: cannot load plait-pmpi.so: %s\n", reason);
}

static void load(void)
{
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        if (dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD) != NULL) {
            load_table();
            return;
        }
    fprintf(stderr, "libplait-mpi.so: it was compiled for " COMPILED_FOR ", and this program has another MPI: all its "
                    "collectives run there\n");
}

static const struct plait_mpi_table *loaded(void)
{
    pthread_once(&once, load);
    return table;
}

/* The library after this one; else the one that the calling library was linked with. */
static void *next(const char *name, const void *caller)
{
    void *function = dlsym(RTLD_NEXT, name);
    Dl_info info;

    if (function == NULL && dladdr(caller, &info) != 0) {
        void *library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        function = library != NULL ? dlsym(library, name) : NULL;
    }
    if (function == NULL) {
        fprintf(stderr, "libplait-mpi.so: no library of this program has %s\n", name);
        abort();
    }
    return function;
}

#define NEXT(name, types) ((int(*) types)next("MPI_" #name, __builtin_return_address(0)))

#define MPI_X(name, iname, parameters, arguments, described)                                                   \
    EXPORT int MPI_##name parameters                                                                           \
    {                                                                                                          \
        const struct plait_mpi_table *t = loaded();                                                            \
        return t != NULL ? t->name(MPI_UNWRAP arguments, NULL) : NEXT(name, parameters) arguments;             \
    }                                                                                                          \
    EXPORT int MPI_##iname(MPI_UNWRAP parameters, MPI_Request *request)                                        \
    {                                                                                                          \
        const struct plait_mpi_table *t = request != NULL ? loaded() : NULL; /* NULL: MPI reports it */        \
        return t != NULL ? t->name(MPI_UNWRAP arguments, request)                                              \
                         : NEXT(iname, (MPI_UNWRAP parameters, MPI_Request *))(MPI_UNWRAP arguments, request); \
    }
MPI_COLLECTIVE_LIST(MPI_X)
#undef MPI_X

#define MPI_X(name, parameters, arguments)                                       \
    EXPORT int MPI_##name parameters                                             \
    {                                                                            \
        const struct plait_mpi_table *t = loaded();                              \
        return t != NULL ? t->name arguments : NEXT(name, parameters) arguments; \
    }
MPI_OTHER_LIST(MPI_X)
#undef MPI_X
