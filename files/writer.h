/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON as people write it: what belongs together in one line. */
#ifndef PLAIT_FILES_WRITER_H
#define PLAIT_FILES_WRITER_H

#include "../simulate/fields.h"

#include <stdio.h>

struct writer {
    FILE *f;
    char *text;
    size_t bytes;
    const char *bad; /* a key whose text is not UTF-8 */
};

/* False: out of memory. */
bool writer_begin(struct writer *w);

/* before, "key": "text" */
void writer_text(struct writer *w, const char *before, const char *key, const char *text);

/* before, "key": 5 or "2 us"; nothing if the value is 0 and not needed. */
void writer_field(struct writer *w, const char *before, const struct plait_field *field, const void *from);

/* The text, which free() frees. NULL: see `why` [room], which is "" if memory is missing. */
char *writer_end(struct writer *w, char *why, size_t room);

#endif
