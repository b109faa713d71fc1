/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of tensors: what is taken lies inside the file, one tensor behind the other without gaps, and is written and read
 * again as it was. */
#include "fuzz.h"

#include "safetensors.h"

#include <unistd.h>

enum { MOST = 1000 }; /* tensors that are written again */

static uint64_t bytes_of(const struct entry *e)
{
    uint64_t bytes = 0;

    MUST(entry_bytes(e, &bytes));
    return bytes;
}

/* The tensors are the end of the file. */
static void must_lie_inside(const struct safetensors *f, const uint8_t *data, size_t size)
{
    const uint32_t n = safetensors_nentry(f);
    const uint8_t *end = data + size;

    for (uint32_t k = n; k-- > 0;) {
        const struct entry *const e = safetensors_entry(f, k);
        MUST(strlen(e->name) < sizeof e->name && e->ndim <= 4 && e->type < NSTORED);
        MUST((uint64_t)(end - data) >= bytes_of(e) && e->data == end - bytes_of(e));
        end = e->data;
        MUST(strcmp(safetensors_find(f, e->name)->name, e->name) == 0);
    }
    MUST(end >= data + 8);
}

static void must_be_equal(const struct entry *a, const struct entry *b)
{
    MUST(b != NULL && a->type == b->type && a->ndim == b->ndim);
    MUST(a->ndim == 0 || memcmp(a->shape, b->shape, a->ndim * sizeof *a->shape) == 0);
    MUST(bytes_of(a) == 0 || memcmp(a->data, b->data, bytes_of(a)) == 0);
}

static void must_be_written_and_read_as_it_is(const struct safetensors *f)
{
    static struct entry entries[MOST];
    struct note note = { .name = "step" };
    const char *const value = safetensors_note(f, note.name), *why;
    const bool fits = value != NULL && strlen(value) < sizeof note.value;
    char path[64];

    for (uint32_t k = 0; k < safetensors_nentry(f); k++)
        entries[k] = *safetensors_entry(f, k);
    snprintf(note.value, sizeof note.value, "%s", fits ? value : "");
    snprintf(path, sizeof path, "%s/plait-fuzz-%d", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid());
    MUST(safetensors_write(path, entries, safetensors_nentry(f), &note, fits) == NULL);
    struct safetensors *const again = safetensors_open(path, &why);
    MUST(again != NULL && safetensors_nentry(again) == safetensors_nentry(f));
    for (uint32_t k = 0; k < safetensors_nentry(f); k++)
        must_be_equal(&entries[k], safetensors_find(again, entries[k].name));
    MUST(!fits || strcmp(safetensors_note(again, note.name), value) == 0);
    safetensors_close(again);
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *why = NULL;
    struct safetensors *const f = safetensors_parse("fuzz", data, size, &why);

    MUST((f == NULL) == (why != NULL));
    if (f == NULL) {
        MUST(strncmp(why, "fuzz: ", 6) == 0);
        return 0;
    }
    must_lie_inside(f, data, size);
    if (safetensors_nentry(f) <= MOST)
        must_be_written_and_read_as_it_is(f);
    safetensors_close(f);
    return 0;
}
