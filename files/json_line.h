/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a value stands in a JSON text, for messages: jansson has lines for syntax errors only. */
#ifndef PLAIT_FILES_JSON_LINE_H
#define PLAIT_FILES_JSON_LINE_H

#include <stddef.h>

/* A step into an object, or with key NULL into an array. */
struct json_step {
    const char *key;
    size_t index;
};

/*
 * The line, from 1, of the key or element to which the steps lead; else of what contains it. `text` is one that jansson
 * accepts; any other has some line as well.
 */
unsigned json_line(const char *text, size_t bytes, const struct json_step *steps, size_t nstep);

#endif
