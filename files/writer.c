/* SPDX-License-Identifier: BSD-3-Clause */
#include "writer.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

bool writer_begin(struct writer *w)
{
    *w = (struct writer){ .text = NULL };
    w->f = open_memstream(&w->text, &w->bytes);
    return w->f != NULL;
}

void writer_text(struct writer *w, const char *before, const char *key, const char *text)
{
    json_t *v = json_string(text);
    char *quoted = v != NULL ? json_dumps(v, JSON_ENCODE_ANY) : NULL;

    if (quoted == NULL)
        w->bad = key;
    fprintf(w->f, "%s\"%s\": %s", before, key, quoted != NULL ? quoted : "\"\"");
    free(quoted);
    json_decref(v);
}

void writer_field(struct writer *w, const char *before, const struct plait_field *field, const void *from)
{
    const uint64_t v = plait_field_get(field, from);
    char text[32];

    if (v == 0 && !field->needed)
        return;
    plait_quantity_print(field->quantity, v, text);
    fprintf(w->f, strchr(text, ' ') != NULL ? "%s\"%s\": \"%s\"" : "%s\"%s\": %s", before, field->name, text);
}

char *writer_end(struct writer *w, char *why, size_t room)
{
    if (w->f != NULL && fclose(w->f) == 0 && w->bad == NULL)
        return w->text;
    snprintf(why, room, w->bad != NULL ? "a text \"%s\" is not UTF-8" : "%s", w->bad != NULL ? w->bad : "");
    free(w->text);
    return NULL;
}
