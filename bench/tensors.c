/* SPDX-License-Identifier: BSD-3-Clause */
#include "tensors.h"

#include "message.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TENSORS 16384

/* The third field, a whole number above 0. strtoull() alone would accept a sign and blanks. */
static bool parse_line(const char *line, uint64_t *elements)
{
    const char *field = line;
    char *end;

    for (int comma = 0; comma < 2; comma++) {
        field = strchr(field, ',');
        if (field == NULL)
            return false;
        field++;
    }
    errno = 0;
    *elements = strtoull(field, &end, 10);
    return isdigit((unsigned char)*field) && errno == 0 && *elements > 0 && *elements < 1u << 31 &&
           (*end == ',' || *end == '\n');
}

bool tensors_parse(FILE *file, const char *name, struct tensors *out)
{
    struct tensors t = { calloc(MAX_TENSORS, sizeof *t.count), 0 };
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    bool ok = t.count != NULL || complain("--tensors %s: out of memory", name);

    for (unsigned number = 1; ok && (length = getline(&line, &room, file)) >= 0; number++) {
        if (number == 1 && strncmp(line, "id,name,elements", 16) == 0)
            continue;
        if (t.n == MAX_TENSORS)
            ok = complain("--tensors %s: more than %d tensors", name, MAX_TENSORS);
        else if (strlen(line) != (size_t)length)
            ok = complain("--tensors %s, line %u: a NUL byte; the file must be text", name, number);
        else if (!parse_line(line, &t.count[t.n++]))
            ok = complain("--tensors %s, line %u: expected id,name,elements,kind", name, number);
    }
    if (ok && ferror(file))
        ok = complain("--tensors %s: %s", name, strerror(errno));
    if (ok && t.n == 0)
        ok = complain("--tensors %s: no tensors in it", name);
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
        return complain("--tensors %s: %s", path, strerror(errno));
    const bool ok = tensors_parse(file, path, out);
    fclose(file);
    return ok;
}

void tensors_finish(struct tensors *t)
{
    free(t->count);
    t->count = NULL;
    t->n = 0;
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
