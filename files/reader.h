/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects of a JSON file, read by the table of their fields. Each function returns false after it has said why. */
#ifndef PLAIT_FILES_READER_H
#define PLAIT_FILES_READER_H

#include "plugin/files.h"

#include "../simulate/fields.h"
#include "json_line.h"

#include <jansson.h>

struct reader {
    const struct plait_file *file;
    char *why; /* [room] */
    size_t room;
};

#define MOST_STEPS 4

/* An object of the file, and the way to it. */
struct place {
    char name[64]; /* "levels[1]" */
    struct json_step steps[MOST_STEPS];
    size_t nstep;
    json_t *object;
};

/* The fields of a kind of object. */
struct kind {
    const struct plait_field *fields; /* [n] that are numbers */
    size_t n;
    const char *const *others;        /* NULL-ended: read by functions of their own */
    const struct plait_field *inside; /* [ninside] fields of the objects in it, for messages; or NULL */
    size_t ninside;
    const char *of; /* what those objects are: "a level" */
};

/* "FILE, line N: ...", the line of this key of the object; NULL: of the object. */
bool reader_wrong(const struct reader *r, const struct place *p, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The same of a key's value, and what it must be. */
bool reader_wrong_value(const struct reader *r, const struct place *p, const char *key, const char *must);

/* The file as JSON, whose root is an object. NULL after an error. form: what it must be. */
json_t *reader_parse(const struct reader *r, const char *form);

/* Element i of the array `key` of an object, which must be an object with these fields: "with \"name\"". */
bool reader_enter(const struct reader *r, const struct place *p, const char *key, size_t i, const char *with,
                  struct place *out);

/* The object `key` of an object, which must be there. */
bool reader_inside(const struct reader *r, const struct place *p, const char *key, struct place *out);

/* A number that is there. */
bool reader_field(const struct reader *r, const struct place *p, const struct plait_field *f, void *to);

/* All fields that are numbers, into the struct `to`. No field may be unknown. */
bool reader_fields(const struct reader *r, const struct place *p, const struct kind *kind, void *to);

/* Text of 1 to room - 1 bytes. */
bool reader_text(const struct reader *r, const struct place *p, const char *key, bool needed, char *to, size_t room);

/* One of these names, NULL-ended, which must be there: its number. */
bool reader_name(const struct reader *r, const struct place *p, const char *key, const char *const *names,
                 unsigned *out);

#endif
