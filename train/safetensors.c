/* SPDX-License-Identifier: BSD-3-Clause */
#include "safetensors.h"

#include "safetensors_hash.h"
#include "why.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_STATIC_LINKING_ONLY /* declares the state struct, for a state on the stack */
#include <xxhash.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format is little-endian, and data is not converted");

enum { HEADER_MOST = 100000000 }; /* the format's limit */

#define STORED_ROW(name, bytes) { #name, bytes },
static const struct {
    const char *name;
    size_t bytes;
} types[] = { STORED_LIST(STORED_ROW) };
#undef STORED_ROW

const char *stored_name(enum stored type)
{
    return types[type].name;
}

size_t stored_bytes(enum stored type)
{
    return types[type].bytes;
}

bool entry_bytes(const struct entry *e, uint64_t *out)
{
    uint64_t n = types[e->type].bytes;

    for (uint32_t d = 0; d < e->ndim; d++)
        if (__builtin_mul_overflow(n, e->shape[d], &n))
            return false;
    *out = n;
    return true;
}

/* ---- Reading ------------------------------------------------------------------------------------------------ */

struct safetensors {
    void *map; /* NULL: the bytes are the caller's */
    size_t size;
    json_t *header;
    bool hashed;
    uint32_t nentry;
    struct entry *entries;
};

static bool whole_number(const json_t *value, uint64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

static bool find_type(const char *name, enum stored *out)
{
    for (unsigned t = 0; name != NULL && t < NSTORED; t++)
        if (strcmp(types[t].name, name) == 0) {
            *out = (enum stored)t;
            return true;
        }
    return false;
}

static const char *read_shape(const char *path, const json_t *shape, struct entry *out)
{
    const size_t most = sizeof out->shape / sizeof *out->shape;

    if (!json_is_array(shape))
        return because("%s: tensor %s has no shape", path, out->name);
    if (json_array_size(shape) > most)
        return because("%s: tensor %s has %zu dimensions; at most %zu can be read", path, out->name,
                       json_array_size(shape), most);
    out->ndim = (uint32_t)json_array_size(shape);
    for (uint32_t d = 0; d < out->ndim; d++)
        if (!whole_number(json_array_get(shape, d), &out->shape[d]))
            return because("%s: dimension %u of tensor %s is not a number of elements", path, d, out->name);
    return NULL;
}

/* Read one tensor of the header. data: [room] bytes of all tensors. */
static const char *read_entry(const char *path, const char *name, const json_t *about, const uint8_t *data,
                              uint64_t room, struct entry *out)
{
    const char *const type = json_string_value(json_object_get(about, "dtype"));
    const json_t *const offsets = json_object_get(about, "data_offsets");
    uint64_t begin, end, bytes;

    if ((size_t)snprintf(out->name, sizeof out->name, "%s", name) >= sizeof out->name)
        return because("%s: tensor %.100s has a name longer than %zu bytes", path, name, sizeof out->name - 1);
    if (!find_type(type, &out->type))
        return because("%s: tensor %s is of unknown type %.20s", path, name, type != NULL ? type : "(none)");
    const char *const why = read_shape(path, json_object_get(about, "shape"), out);
    if (why != NULL)
        return why;
    if (json_array_size(offsets) != 2 || !whole_number(json_array_get(offsets, 0), &begin) ||
        !whole_number(json_array_get(offsets, 1), &end))
        return because("%s: tensor %s has no valid data_offsets", path, name);
    if (begin > end || end > room)
        return because("%s: tensor %s lies at %" PRIu64 " to %" PRIu64 ", but there are %" PRIu64
                       " bytes of data: was it "
                       "cut short?",
                       path, name, begin, end, room);
    if (!entry_bytes(out, &bytes) || bytes != end - begin)
        return because("%s: tensor %s has %" PRIu64 " bytes, which do not match its type and shape", path, name,
                       end - begin);
    out->data = (void *)(uintptr_t)(data + begin);
    return NULL;
}

uint64_t entry_known_bytes(const struct entry *e)
{
    uint64_t bytes = 0;

    entry_bytes(e, &bytes);
    return bytes;
}

static int by_place(const void *a, const void *b)
{
    const struct entry *const x = a, *const y = b;
    const uint64_t nx = entry_known_bytes(x), ny = entry_known_bytes(y);

    if (x->data != y->data)
        return (uintptr_t)x->data < (uintptr_t)y->data ? -1 : 1;
    return nx == ny ? strcmp(x->name, y->name) : nx < ny ? -1 : 1;
}

/* The sorted tensors cover the data exactly: none overlaps another, and nothing lies between or after them. */
static const char *check_places(const char *path, const struct safetensors *f, const uint8_t *data, uint64_t room)
{
    const uint8_t *next = data;

    for (uint32_t k = 0; k < f->nentry; k++) {
        const uint8_t *const at = f->entries[k].data;
        if (at < next)
            return because("%s: tensor %s overlaps tensor %s", path, f->entries[k].name, f->entries[k - 1].name);
        if (at > next)
            return because("%s: %td bytes before tensor %s belong to no tensor", path, at - next, f->entries[k].name);
        next = at + entry_known_bytes(&f->entries[k]);
    }
    if (next != data + room)
        return because("%s: %td bytes at the end belong to no tensor", path, data + room - next);
    return NULL;
}

static const char *check_notes(const char *path, json_t *notes)
{
    const char *name;
    json_t *value;

    if (!json_is_object(notes))
        return because("%s: __metadata__ is no object", path);
    json_object_foreach(notes, name, value)
    {
        if (!json_is_string(value))
            return because("%s: %.80s in __metadata__ is no text", path, name);
    }
    return NULL;
}

static const char *read_header(const char *path, struct safetensors *f, const uint8_t *data, uint64_t room)
{
    const char *name, *why = NULL;
    json_t *about;

    f->entries = calloc(json_object_size(f->header) + 1, sizeof *f->entries);
    if (f->entries == NULL)
        return because("%s: out of memory", path);
    json_object_foreach(f->header, name, about)
    {
        if (strcmp(name, "__metadata__") == 0)
            why = check_notes(path, about);
        else
            why = read_entry(path, name, about, data, room, &f->entries[f->nentry++]);
        if (why != NULL)
            return why;
    }
    qsort(f->entries, f->nentry, sizeof *f->entries, by_place);
    return check_places(path, f, data, room);
}

static const char *no_safetensors(const char *path, const uint8_t *bytes, size_t size)
{
    /* torch.save() writes a zip archive, before PyTorch 1.6 a pickle. */
    if (size >= 4 && (memcmp(bytes, "PK\3\4", 4) == 0 || memcmp(bytes, "\x80\2\x8a\n", 4) == 0))
        return because(
            "%s: a file of torch.save(), not safetensors; convert it first (docs/checkpoints.md has the line)", path);
    return because("%s: not a safetensors file, or one that was cut short", path);
}

void hash_print(const XXH64_state_t *hash, char out[DIGITS + 1])
{
    snprintf(out, DIGITS + 1, "%016" PRIx64, XXH64_digest(hash));
}

/* bytes: what is hashed. A file that another program rewrote has the note, but not at its place. */
static const char *check_hash(const char *path, struct safetensors *f, const uint8_t *bytes, size_t size)
{
    const char *const says = safetensors_note(f, HASH);
    char is[DIGITS + 1];
    XXH64_state_t hash;

    f->hashed = says != NULL && strlen(says) == DIGITS && size >= BEFORE + DIGITS && memcmp(bytes, HASHED, BEFORE) == 0;
    if (!f->hashed)
        return NULL;
    XXH64_reset(&hash, 0);
    XXH64_update(&hash, bytes, BEFORE);
    XXH64_update(&hash, ZEROS, DIGITS);
    XXH64_update(&hash, bytes + BEFORE + DIGITS, size - BEFORE - DIGITS);
    hash_print(&hash, is);
    return strcmp(is, says) == 0
               ? NULL
               : because("%s: damaged: its bytes have the hash %s, and it was written with %s; take another copy", path,
                         is, says);
}

static const char *parse(const char *path, struct safetensors *f, const uint8_t *bytes, size_t size)
{
    uint64_t length;
    json_error_t error;

    if (size < sizeof length)
        return no_safetensors(path, bytes, size);
    memcpy(&length, bytes, sizeof length);
    if (length > size - sizeof length || length > HEADER_MOST || length == 0 || bytes[sizeof length] != '{')
        return no_safetensors(path, bytes, size);
    f->header = json_loadb((const char *)bytes + sizeof length, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    if (f->header == NULL)
        return because("%s: byte %d of its header: %s", path, error.position, error.text);
    const char *const why = read_header(path, f, bytes + sizeof length + length, size - sizeof length - length);
    return why != NULL ? why : check_hash(path, f, bytes + sizeof length, size - sizeof length);
}

struct safetensors *safetensors_parse(const char *path, const void *bytes, size_t size, const char **why)
{
    struct safetensors *const f = calloc(1, sizeof *f);

    *why = f == NULL ? because("%s: out of memory", path) : parse(path, f, bytes, size);
    if (*why == NULL)
        return f;
    safetensors_close(f);
    return NULL;
}

/* The error of a file that could not be opened, from errno. */
static const char *not_opened(const char *path)
{
    const int error = errno;
    struct stat about;
    const bool link = lstat(path, &about) == 0 && S_ISLNK(about.st_mode);

    return because("%s: %s%s", path, strerror(error), link ? " (target of this symbolic link)" : "");
}

/* Map a file; NULL: *why is the error. O_NONBLOCK: opening a pipe would wait for a writer. */
static void *map_file(const char *path, size_t *size, const char **why)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat about;
    void *map = NULL;

    *why = NULL;
    if (fd < 0 || fstat(fd, &about) != 0)
        *why = not_opened(path);
    else if (!S_ISREG(about.st_mode))
        *why = because("%s: not a file%s", path, S_ISDIR(about.st_mode) ? " but a folder; name a file in it" : "");
    else if (about.st_size == 0)
        *why = because("%s: empty", path);
    else if ((map = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED) {
        *why = because("%s: cannot be mapped: %s", path, strerror(errno));
        map = NULL;
    }
    if (fd >= 0)
        close(fd);
    if (map != NULL)
        *size = (size_t)about.st_size;
    return map;
}

struct safetensors *safetensors_open(const char *path, const char **why)
{
    size_t size;
    void *const map = map_file(path, &size, why);

    if (map == NULL)
        return NULL;
    struct safetensors *const f = safetensors_parse(path, map, size, why);
    if (f == NULL) {
        munmap(map, size);
        return NULL;
    }
    f->map = map;
    f->size = size;
    return f;
}

void safetensors_close(struct safetensors *f)
{
    if (f == NULL)
        return;
    json_decref(f->header);
    free(f->entries);
    if (f->map != NULL)
        munmap(f->map, f->size);
    free(f);
}

const struct entry *safetensors_find(const struct safetensors *f, const char *name)
{
    for (uint32_t k = 0; k < f->nentry; k++)
        if (strcmp(f->entries[k].name, name) == 0)
            return &f->entries[k];
    return NULL;
}

const char *safetensors_note(const struct safetensors *f, const char *name)
{
    return json_string_value(json_object_get(json_object_get(f->header, "__metadata__"), name));
}

bool safetensors_hashed(const struct safetensors *f)
{
    return f->hashed;
}

uint32_t safetensors_nentry(const struct safetensors *f)
{
    return f->nentry;
}

const struct entry *safetensors_entry(const struct safetensors *f, uint32_t k)
{
    return &f->entries[k];
}
