/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations of libraries that compute on streams, as cuDNN: their stand-ins put them there by standin_operate(). */
#include "standin_ask.h"

#include "standin.h"

#include <stdlib.h>
#include <string.h>

enum { ACCESSES = 8 };

struct library_op { /* and the context's bytes behind it */
    const char *name;
    void (*run)(void *context);
    struct standin_access accesses[ACCESSES];
    uint32_t naccess;
    uint64_t bytes;
    max_align_t context[];
};

EXPORT standin_operate_function standin_operate;

int standin_operate(void *stream, const char *name, void (*run)(void *), const void *context, uint64_t bytes,
                    const struct standin_access *accesses, uint32_t naccess)
{
    CALL(true);
    struct library_op *l = malloc(sizeof *l + bytes);
    struct stream *s;
    const int status = stream_find(stream, &s);

    if (l == NULL || naccess > ACCESSES)
        die("an operation of a library has %u accesses", naccess);
    if (status != CU_OK) {
        free(l);
        return status;
    }
    *l = (struct library_op){ .name = name, .run = run, .naccess = naccess, .bytes = bytes };
    memcpy(l->accesses, accesses, naccess * sizeof *accesses);
    memcpy(l->context, context, bytes);
    return stream_put(s, (struct op){ .what = DO_LIBRARY, .argument = l });
}

uint64_t library_bytes(const struct op *op)
{
    const struct library_op *l = op->argument;

    return sizeof *l + l->bytes;
}

void library_accesses(const struct stream *stream, const struct op *op)
{
    const struct library_op *l = op->argument;

    for (uint32_t k = 0; k < l->naccess; k++)
        touch(stream, (uint64_t)(uintptr_t)l->accesses[k].memory, l->accesses[k].bytes,
              l->accesses[k].writes ? WRITE : READ, false, l->name);
}

void library_run(const struct op *op)
{
    struct library_op *l = op->argument;

    l->run(l->context);
}
