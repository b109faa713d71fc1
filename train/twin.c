/* SPDX-License-Identifier: BSD-3-Clause */
#include "twin.h"

#include "ending.h"

#include <plait/memory.h>

#include <string.h>

struct twin twin_create(struct device *device, size_t bytes)
{
    struct twin t = { .device = device, .bytes = bytes };

    must(plait_mem_alloc(bytes, &t.host), "memory for the weights");
    memset(t.host, 0, bytes);
    t.memory = device->kind->host ? t.host : device->kind->alloc(device, bytes);
    return t;
}

void twin_destroy(struct twin *t)
{
    plait_mem_free(t->host);
}

void twin_read(const struct twin *t)
{
    if (t->memory != t->host)
        t->device->kind->copy_out(t->device, t->host, t->memory, t->bytes);
}

void twin_write(const struct twin *t)
{
    if (t->memory != t->host)
        t->device->kind->copy_in(t->device, t->memory, t->host, t->bytes);
}
