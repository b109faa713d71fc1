/* SPDX-License-Identifier: BSD-3-Clause */
#include "replace.h"
#include "safetensors_hash.h"
#include "why.h"

#include <jansson.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 }; /* of the data, for vector loads from the mapped file */

/* Add one tensor to the header at *offset, and advance that. */
static bool add_entry(json_t *header, const struct entry *e, uint64_t *offset)
{
    json_t *const shape = json_array();
    uint64_t bytes;

    for (uint32_t d = 0; d < e->ndim; d++)
        json_array_append_new(shape, json_integer((json_int_t)e->shape[d]));
    if (!entry_bytes(e, &bytes) || json_object_get(header, e->name) != NULL || json_array_size(shape) != e->ndim) {
        json_decref(shape);
        return false;
    }
    const json_int_t begin = (json_int_t)*offset;
    *offset += bytes;
    return json_object_set_new(header, e->name,
                               json_pack("{s:s,s:o,s:[I,I]}", "dtype", stored_name(e->type), "shape", shape,
                                         "data_offsets", begin, (json_int_t)*offset)) == 0;
}

/* Larger elements first, so that each tensor is aligned to its elements. */
static const size_t by_size[] = { 8, 4, 2, 1 };
enum { NSIZE = sizeof by_size / sizeof *by_size };

/* The header as text, padded to align the data; NULL: *why is the error. */
static char *make_header(const char *path, const struct entry *entries, uint32_t nentry, const struct note *notes,
                         uint32_t nnote, uint64_t *length, const char **why)
{
    json_t *const header = json_object(), *const metadata = json_object();
    uint64_t offset = 0;
    char *text = NULL;

    *why = json_object_set_new(metadata, HASH, json_string(ZEROS)) != 0 ? because("%s: out of memory", path) : NULL;
    for (uint32_t k = 0; k < nnote && *why == NULL; k++)
        if (strcmp(notes[k].name, HASH) != 0 &&
            json_object_set_new(metadata, notes[k].name, json_string(notes[k].value)) != 0)
            *why = because("%s: note %s cannot be written: not UTF-8, or out of memory", path, notes[k].name);
    json_object_set_new(header, "__metadata__", metadata);
    for (unsigned s = 0; s < NSIZE && *why == NULL; s++)
        for (uint32_t k = 0; k < nentry && *why == NULL; k++)
            if (stored_bytes(entries[k].type) == by_size[s] && !add_entry(header, &entries[k], &offset))
                *why = because("%s: tensor %s cannot be written: there twice, not UTF-8, or out of memory", path,
                               entries[k].name);
    char *const json = *why == NULL ? json_dumps(header, JSON_COMPACT) : NULL;
    if (json != NULL) {
        const size_t used = strlen(json), fill = -(used + sizeof *length) % ALIGNMENT;
        text = realloc(json, used + fill + 1);
        if (text != NULL)
            memset(text + used, ' ', fill);
        else
            free(json);
        *length = used + fill;
    }
    json_decref(header);
    if (text == NULL && *why == NULL)
        *why = because("%s: out of memory", path);
    return text;
}

/* Replace the zeros by the hash. */
static void add_hash(char *header, uint64_t length, const struct entry *entries, uint32_t nentry)
{
    char digits[DIGITS + 1];
    XXH64_state_t hash;

    assert(length > BEFORE + DIGITS && memcmp(header, HASHED ZEROS, BEFORE + DIGITS) == 0);
    XXH64_reset(&hash, 0);
    XXH64_update(&hash, header, length);
    for (unsigned s = 0; s < NSIZE; s++)
        for (uint32_t k = 0; k < nentry; k++)
            if (stored_bytes(entries[k].type) == by_size[s])
                XXH64_update(&hash, entries[k].data, entry_known_bytes(&entries[k]));
    hash_print(&hash, digits);
    memcpy(header + BEFORE, digits, DIGITS);
}

const char *safetensors_write(const char *path, const struct entry *entries, uint32_t nentry, const struct note *notes,
                              uint32_t nnote)
{
    const char *why;
    struct replace file;
    uint64_t length;
    char *const header = make_header(path, entries, nentry, notes, nnote, &length, &why);

    if (header == NULL)
        return why;
    add_hash(header, length, entries, nentry);
    replace_begin(&file, path);
    replace_write(&file, &length, sizeof length);
    replace_write(&file, header, length);
    for (unsigned s = 0; s < NSIZE; s++)
        for (uint32_t k = 0; k < nentry; k++)
            if (stored_bytes(entries[k].type) == by_size[s])
                replace_write(&file, entries[k].data, entry_known_bytes(&entries[k]));
    free(header);
    if (!replace_end(&file))
        return because("%s: cannot %s: %s%s", path, file.doing, strerror(file.error), replace_remedy(file.error));
    return NULL;
}
