/* SPDX-License-Identifier: BSD-3-Clause */
#include "build.h"

#include "made.h"

#include <plait/config.h>
#include <plait/version.h>

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *const build_compiler = MADE_BY, *const build_flags = MADE_AS, *const build_commit = MADE_FROM;

static const struct {
    const char *name, *package, *text;
} known[] = {
    { "hwloc", "libhwloc-dev", "packages, nodes and cores in --topology, machines of hosts" },
    { "jansson", "libjansson-dev", "machine files (plait-json.so), JSON of the programs, checkpoints of plait-train" },
    { "expat", "libexpat1-dev", "machines from NCCL's topology XML" },
    { "xxhash", "libxxhash-dev", "hashes of plait-train's checkpoints" },
    { "libsodium", "libsodium-dev", "comms over TCP" },
    { "mpi", "libopenmpi-dev", "libplait-mpi.so; Open MPI beside Plait in plait-perf" },
    { "pmix", "libpmix-dev", "ranks of mpirun over several hosts find each other (plait-pmix.so)" },
    { "ucx", "libucx-dev", "messages between hosts (plait-ucx.so)" },
    { "cuda", "CUDA's nvcc, or tools/nvcc,", "memory of NVIDIA GPUs (plait-cuda.so)" },
    { "nccl", "", "the interface of NCCL, libnccl.so.2 (-Dnccl=enabled)" },
    { "python", "python3-numpy", "tests of the Python package" },
    { "simd", "", "kernels for AVX2 and AVX-512 beside the plain ones (x86-64, -Dsimd=true)" },
    { "onednn", "oneDNN 3, by tools/onednn,", "plait-train" },
    { "jpeg", "libjpeg-dev", "plait-train" },
    { "png", "libpng-dev", "plait-train" },
};

bool build_feature(size_t k, struct feature *out)
{
    const char *at = plait_features();

    for (; k > 0 && *at != '\0'; k--)
        at += strcspn(at, " ") + (strchr(at, ' ') != NULL);
    const size_t n = strcspn(at, ":");
    *out = (struct feature){ .package = "", .text = "" };
    if (*at == '\0')
        return false;
    snprintf(out->name, sizeof out->name, "%.*s", (int)n, at);
    out->has = strncmp(at + n, ":yes", 4) == 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, out->name) == 0) {
            out->package = known[i].package;
            out->text = known[i].text;
        }
    return true;
}

/* The folder of PLAIT_PLUGINS, or plait/ beside the library. */
static void find_folder(char *out, size_t room)
{
    struct plait_setting s;
    Dl_info library;

    *out = '\0';
    for (size_t i = 0; plait_config_get(i, &s) != PLAIT_ERR_ARG; i++)
        if (strcmp(s.name, "PLAIT_PLUGINS") == 0)
            snprintf(out, room, "%s", s.value);
    if (*out == '\0' && dladdr((const void *)(uintptr_t)plait_version, &library) != 0) {
        const char *slash = strrchr(library.dli_fname, '/');
        snprintf(out, room, "%.*splait", slash != NULL ? (int)(slash + 1 - library.dli_fname) : 0, library.dli_fname);
    }
}

bool build_plugin(size_t k, struct plugin *out)
{
    static const char *const names[] = { "plait-ucx.so", "plait-pmix.so", "plait-pmi.so", "plait-cuda.so",
                                         "plait-json.so" };
    char folder[400];

    if (k >= sizeof names / sizeof *names)
        return false;
    find_folder(folder, sizeof folder);
    out->name = names[k];
    snprintf(out->path, sizeof out->path, "%s/%s", folder, names[k]);
    out->there = access(out->path, R_OK) == 0;
    return true;
}

void build_print_brief(void)
{
    struct feature f;

    for (size_t k = 0; build_feature(k, &f); k++)
        printf("%s%s ", f.has ? "+" : "-", f.name);
    printf("\n");
}

void build_print(void)
{
    struct feature f;
    struct plugin p;

    for (size_t k = 0; build_feature(k, &f); k++)
        if (f.has || *f.package == '\0')
            printf("%-10s %-4s %s\n", f.name, f.has ? "yes" : "no", f.text);
        else
            printf("%-10s %-4s %s (install %s, then build again)\n", f.name, "no", f.text, f.package);
    for (size_t k = 0; build_plugin(k, &p); k++)
        printf("%-10s %-4s %s\n", "plug-in", p.there ? "yes" : "no", p.path);
    printf("%-10s %s\n%-10s %s\n%-10s %s\n", "compiler", build_compiler, "flags", build_flags, "commit", build_commit);
}
