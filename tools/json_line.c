/* SPDX-License-Identifier: BSD-3-Clause */
#include "json_line.h"

#include <stdbool.h>
#include <string.h>

struct cursor {
    const char *at, *end;
    unsigned line;
};

static bool is_at(const struct cursor *c, char wanted)
{
    return c->at < c->end && *c->at == wanted;
}

static void advance(struct cursor *c)
{
    c->line += *c->at++ == '\n';
}

static void skip_space(struct cursor *c)
{
    while (c->at < c->end && memchr(" \t\r\n", *c->at, 4) != NULL)
        advance(c);
}

/* Skip a string; *inside is what lies between its quotes. Returns the bytes of that. */
static size_t skip_string(struct cursor *c, const char **inside)
{
    c->at++;
    *inside = c->at;
    for (; c->at < c->end && *c->at != '"'; c->at++)
        if (*c->at == '\\' && c->at + 1 < c->end)
            c->at++;
    const size_t n = (size_t)(c->at - *inside);
    if (c->at < c->end)
        c->at++;
    return n;
}

/* Skip a value, up to the comma or bracket behind it. */
static void skip_value(struct cursor *c)
{
    const char *inside;

    for (size_t depth = 0; c->at < c->end;) {
        if (*c->at == '"') {
            skip_string(c, &inside);
            continue;
        }
        if (depth == 0 && memchr(",]}", *c->at, 3) != NULL)
            return;
        if (*c->at == '{' || *c->at == '[')
            depth++;
        else if (*c->at == '}' || *c->at == ']')
            depth--;
        advance(c);
    }
}

/* Go to this member of an object, and set *line to its key's. */
static bool enter_object(struct cursor *c, const char *key, unsigned *line)
{
    for (c->at++; skip_space(c), is_at(c, '"');) {
        const char *name;
        const unsigned at = c->line;
        const size_t n = skip_string(c, &name);
        skip_space(c);
        if (is_at(c, ':'))
            c->at++;
        skip_space(c);
        if (n == strlen(key) && memcmp(name, key, n) == 0) {
            *line = at;
            return true;
        }
        skip_value(c);
        if (is_at(c, ','))
            c->at++;
    }
    return false;
}

static bool enter_array(struct cursor *c, size_t index, unsigned *line)
{
    for (c->at++; skip_space(c), c->at < c->end && *c->at != ']'; index--) {
        if (index == 0) {
            *line = c->line;
            return true;
        }
        skip_value(c);
        if (is_at(c, ','))
            c->at++;
        else
            break;
    }
    return false;
}

unsigned json_line(const char *text, size_t bytes, const struct json_step *steps, size_t nstep)
{
    struct cursor c = { text, text + bytes, 1 };
    bool found = true;

    skip_space(&c);
    unsigned line = c.line;
    for (size_t i = 0; i < nstep && found; i++)
        found = steps[i].key != NULL ? is_at(&c, '{') && enter_object(&c, steps[i].key, &line)
                                     : is_at(&c, '[') && enter_array(&c, steps[i].index, &line);
    return line;
}
