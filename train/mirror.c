/* SPDX-License-Identifier: BSD-3-Clause */
#include "mirror.h"

#include "ending.h"

#include <plait/memory.h>

#include <string.h>

struct mirror mirror_create(struct device *device, size_t bytes)
{
    struct mirror t = { .device = device, .bytes = bytes };

    must(plait_mem_alloc(bytes, &t.host), "memory for the weights");
    memset(t.host, 0, bytes);
    t.memory = device->kind->host ? t.host : device->kind->alloc(device, bytes);
    return t;
}

void mirror_destroy(struct mirror *t)
{
    plait_mem_free(t->host);
}

void mirror_read(const struct mirror *t)
{
    if (t->memory != t->host)
        t->device->kind->copy_out(t->device, t->host, t->memory, t->bytes);
}

void mirror_write(const struct mirror *t)
{
    if (t->memory != t->host)
        t->device->kind->copy_in(t->device, t->memory, t->host, t->bytes);
}
