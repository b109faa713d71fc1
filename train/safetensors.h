/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files in the safetensors format: 8 bytes with the length of the header, little-endian; the header, JSON with each
 * tensor's type, shape and place; the tensors, one after the other without gaps. Returned texts are as in why.h.
 */
#ifndef PLAIT_TRAIN_SAFETENSORS_H
#define PLAIT_TRAIN_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORED_LIST(X) /* name in a file, bytes */ \
    X(F32, 4)                                      \
    X(F64, 8)                                      \
    X(I64, 8)                                      \
    X(U8, 1)                                       \
    X(BF16, 2)                                     \
    X(F16, 2)                                      \
    X(BOOL, 1)                                     \
    X(I8, 1)                                       \
    X(F8_E5M2, 1)                                  \
    X(F8_E4M3, 1)                                  \
    X(I16, 2)                                      \
    X(U16, 2)                                      \
    X(I32, 4)                                      \
    X(U32, 4)                                      \
    X(U64, 8)

#define STORED_NAME(name, bytes) STORED_##name,
enum stored { STORED_LIST(STORED_NAME) NSTORED };
#undef STORED_NAME

const char *stored_name(enum stored type);
size_t stored_bytes(enum stored type);

struct entry { /* a named tensor */
    char name[80];
    enum stored type;
    uint32_t ndim;
    uint64_t shape[4];
    void *data; /* in an open file: read-only and perhaps unaligned, so read it with memcpy() */
};

struct note { /* a named scalar, as text */
    char name[40];
    char value[256];
};

/** Bytes of a tensor's data. Returns false for 2^64 or more. */
bool entry_bytes(const struct entry *entry, uint64_t *out);

/**
 * Write a file completely or not at all: until then the old file stays. Its note "xxh64" is a hash of the whole file.
 * Returns NULL, or the error.
 */
const char *safetensors_write(const char *path, const struct entry *entries, uint32_t nentry, const struct note *notes,
                              uint32_t nnote);

struct safetensors;

/**
 * Open a file. Every number in it is checked against the file's length, and its bytes against their hash if
 * safetensors_write() wrote it. NULL: *why is the error.
 */
struct safetensors *safetensors_open(const char *path, const char **why);
/** The same for a file's bytes, which must live as long as the result. */
struct safetensors *safetensors_parse(const char *path, const void *bytes, size_t size, const char **why);
/** NULL is allowed. */
void safetensors_close(struct safetensors *file);

/** The tensor with this name; NULL: none. */
const struct entry *safetensors_find(const struct safetensors *file, const char *name);
/** The value of a note; NULL: none. */
const char *safetensors_note(const struct safetensors *file, const char *name);
/** Did the file have a hash? */
bool safetensors_hashed(const struct safetensors *file);
/** The tensors in the order of their data. */
uint32_t safetensors_nentry(const struct safetensors *file);
const struct entry *safetensors_entry(const struct safetensors *file, uint32_t k);

#endif
