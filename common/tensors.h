/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A model's gradients, from a CSV file with the header id,name,elements,kind, and further columns or none. With the
 * header id,name,elements,kind,forward,backward (bench/data/make.py) it has the FLOPs, too.
 */
#ifndef PLAIT_COMMON_TENSORS_H
#define PLAIT_COMMON_TENSORS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct tensors {
    uint64_t *count;              /* [n] elements, in forward order */
    uint64_t *forward, *backward; /* [n] FLOPs of a sample in the tensor's layer; NULL: the file has none */
    uint32_t n;
};

/* Errors name the file and the line. Free with tensors_finish(). */
bool tensors_read(const char *path, struct tensors *out);
/* The same of an open file; `name` is for the errors. */
bool tensors_parse(FILE *file, const char *name, struct tensors *out);
void tensors_finish(struct tensors *t);

/* How many tensors have min <= elements < max (0: no limit), and their elements. */
uint32_t tensors_between(const struct tensors *t, uint64_t min, uint64_t max, uint64_t *elements);

#endif
