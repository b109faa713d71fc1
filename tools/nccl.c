/* SPDX-License-Identifier: BSD-3-Clause */
#include "nccl.h"

#include "../nccl/environment.h"
#include "../nccl/names.h"

#include <stdio.h>

static const struct {
    const char *name;
    enum nccl_support support;
    const char *text;
} functions[] = {
#define NCCL_X(name, support, text) { "nccl" #name, NCCL_##support, text },
    NCCL_NAME_LIST(NCCL_X)
#undef NCCL_X
};
#define NFUNCTION (sizeof functions / sizeof *functions)

static const struct {
    const char *name, *text;
} honoured[] = {
#define NCCL_X(name, initial, text) { name, text },
    NCCL_HONOURED_LIST(NCCL_X)
#undef NCCL_X
},
  meaningless[] = {
#define NCCL_X(start, text) { start, text },
      NCCL_MEANINGLESS_LIST(NCCL_X)
#undef NCCL_X
  };

static void print_functions(enum nccl_support support, const char *title)
{
    unsigned n = 0;

    for (size_t i = 0; i < NFUNCTION; i++)
        n += functions[i].support == support;
    printf("%s (%u):\n", title, n);
    for (size_t i = 0; i < NFUNCTION; i++)
        if (functions[i].support == support)
            printf("  %-*s %s\n", functions[i].text[0] != '\0' ? 34 : 0, functions[i].name, functions[i].text);
    printf("\n");
}

void print_nccl(void)
{
    printf("libnccl.so.2 has all %zu functions of NCCL 2.32.3 (docs/nccl.md).\n\n", NFUNCTION);
    print_functions(NCCL_REAL, "Real");
    print_functions(NCCL_EMULATED, "Emulated: they succeed");
    print_functions(NCCL_REFUSED, "Refused: ncclInvalidUsage, and a line in the log");
    printf("Environment variables that are honoured:\n");
    for (size_t i = 0; i < sizeof honoured / sizeof *honoured; i++)
        printf("  %-20s %s\n", honoured[i].name, honoured[i].text);
    printf("\nEnvironment variables without effect, each reported once:\n");
    for (size_t i = 0; i < sizeof meaningless / sizeof *meaningless; i++)
        printf("  %-20s %s\n", meaningless[i].name, meaningless[i].text);
}
