/* SPDX-License-Identifier: BSD-3-Clause */
#include "tensors.h"

#include "message.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TENSORS  16384
#define MOST_FLOPS   1000000000000000 /* of a tensor: 16,384 of them stay far below 2^64 */
#define HEADER       "id,name,elements,kind"
#define FLOPS_HEADER ",forward,backward"

enum { ELEMENTS = 2, FORWARD = 4, BACKWARD = 5 };

/* Field k of a line, a whole number from `least` to `most`. strtoull() alone would accept a sign and blanks. */
static bool parse_field(const char *line, int k, uint64_t least, uint64_t most, uint64_t *out)
{
    const char *field = line;
    char *end;

    for (; k > 0; k--) {
        field = strchr(field, ',');
        if (field == NULL)
            return false;
        field++;
    }
    errno = 0;
    *out = strtoull(field, &end, 10);
    return isdigit((unsigned char)*field) && errno == 0 && *out >= least && *out <= most &&
           (*end == ',' || *end == '\n');
}

static bool parse_line(const char *line, struct tensors *t)
{
    const uint32_t i = t->n++;

    return parse_field(line, ELEMENTS, 1, INT32_MAX, &t->count[i]) &&
           (t->forward == NULL || (parse_field(line, FORWARD, 0, MOST_FLOPS, &t->forward[i]) &&
                                   parse_field(line, BACKWARD, 0, MOST_FLOPS, &t->backward[i])));
}

/* Is it a header? Then it may announce FLOPs. */
static bool take_header(const char *line, struct tensors *t, bool *ok)
{
    if (strncmp(line, "id,name,elements", 16) != 0)
        return false;
    if (strcmp(line, HEADER FLOPS_HEADER "\n") == 0) {
        t->forward = calloc(MAX_TENSORS, sizeof *t->forward);
        t->backward = calloc(MAX_TENSORS, sizeof *t->backward);
        *ok = t->forward != NULL && t->backward != NULL;
    }
    return true;
}

bool tensors_parse(FILE *file, const char *name, struct tensors *out)
{
    struct tensors t = { .count = calloc(MAX_TENSORS, sizeof *t.count) };
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    bool memory = t.count != NULL, ok = memory;

    for (unsigned number = 1; ok && (length = getline(&line, &room, file)) >= 0; number++) {
        if (number == 1 && take_header(line, &t, &memory))
            ok = memory;
        else if (t.n == MAX_TENSORS)
            ok = complain("%s: more than %d tensors", name, MAX_TENSORS);
        else if (strlen(line) != (size_t)length)
            ok = complain("%s, line %u: a NUL byte; the file must be text", name, number);
        else if (!parse_line(line, &t))
            ok = complain("%s, line %u: expected " HEADER "%s", name, number, t.forward != NULL ? FLOPS_HEADER : "");
    }
    if (!memory)
        complain("%s: out of memory", name);
    if (ok && ferror(file))
        ok = complain("%s: %s", name, strerror(errno));
    if (ok && t.n == 0)
        ok = complain("%s: no tensors in it", name);
    free(line);
    if (!ok) {
        tensors_finish(&t);
        return false;
    }
    *out = t;
    return true;
}

bool tensors_read(const char *path, struct tensors *out)
{
    FILE *file = fopen(path, "r");

    if (file == NULL)
        return complain("%s: %s", path, strerror(errno));
    const bool ok = tensors_parse(file, path, out);
    fclose(file);
    return ok;
}

void tensors_finish(struct tensors *t)
{
    free(t->count);
    free(t->forward);
    free(t->backward);
    *t = (struct tensors){ 0 };
}

uint32_t tensors_between(const struct tensors *t, uint64_t min, uint64_t max, uint64_t *elements)
{
    uint32_t n = 0;

    *elements = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        if (t->count[i] < min || (max > 0 && t->count[i] >= max))
            continue;
        *elements += t->count[i];
        n++;
    }
    return n;
}
