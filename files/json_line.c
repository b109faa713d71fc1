/* SPDX-License-Identifier: BSD-3-Clause */
#include "json_line.h"

#include <stdbool.h>
#include <string.h>

struct walk {
    const char *at, *end;
    unsigned line;
};

static void skip_space(struct walk *w)
{
    for (; w->at < w->end && memchr(" \t\r\n", *w->at, 4) != NULL; w->at++)
        w->line += *w->at == '\n';
}

/* Behind a string's first quote: go behind its last one. Returns the bytes between. */
static size_t skip_string(struct walk *w)
{
    const char *first = w->at;

    for (; w->at < w->end && *w->at != '"'; w->at++)
        w->at += *w->at == '\\' && w->at + 1 < w->end;
    const size_t n = (size_t)(w->at - first);
    w->at += w->at < w->end;
    return n;
}

/* In an object or array: go to what the step names. False: it is not there. */
static bool enter(struct walk *w, const struct json_step *step)
{
    size_t depth = 0, index = 0;

    for (skip_space(w); w->at < w->end; skip_space(w)) {
        if (depth == 0 && step->key == NULL && index == step->index && *w->at != ']')
            return true;
        const char c = *w->at++;
        if (c == '"') {
            const struct walk key = *w;
            const size_t n = skip_string(w);
            skip_space(w);
            if (depth > 0 || w->at == w->end || *w->at != ':' || step->key == NULL || n != strlen(step->key) ||
                memcmp(key.at, step->key, n) != 0)
                continue;
            w->at++;
            return true;
        }
        if ((c == '}' || c == ']') && depth-- == 0)
            return false;
        depth += c == '{' || c == '[';
        index += c == ',' && depth == 0;
    }
    return false;
}

unsigned json_line(const char *text, size_t bytes, const struct json_step *steps, size_t nstep)
{
    struct walk w = { text, text + bytes, 1 };

    skip_space(&w);
    unsigned line = w.line;
    for (size_t i = 0; i < nstep; i++) {
        skip_space(&w);
        if (w.at == w.end || *w.at++ != (steps[i].key != NULL ? '{' : '[') || !enter(&w, &steps[i]))
            break;
        line = w.line;
    }
    return line;
}
