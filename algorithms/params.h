/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parsing the text after an algorithm's name, piece by piece. Each function takes one piece from the front of *text, or
 * leaves *text alone and returns false.
 */
#ifndef PLAIT_ALGORITHMS_PARAMS_H
#define PLAIT_ALGORITHMS_PARAMS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Exactly this text, in any case of letters. */
static inline bool take(const char **text, const char *what)
{
    const char *rest = *text;

    for (; *what != '\0'; what++, rest++)
        if (lower(*rest) != lower(*what))
            return false;
    *text = rest;
    return true;
}

/* This word, and the ':' after it if more follows. As in an algorithm's name, case, '_' and '-' have no meaning. */
static inline bool take_word(const char **text, const char *word)
{
    const char *rest = *text;

    for (;; rest++, word++) {
        rest += strspn(rest, "_-");
        word += strspn(word, "_-");
        if (*word == '\0' || lower(*rest) != lower(*word))
            break;
    }
    if (*word != '\0' || (*rest != '\0' && *rest != ':'))
        return false;
    *text = rest + (*rest == ':');
    return true;
}

/* A decimal number from 1 to `last`. */
static inline bool take_number(const char **text, uint32_t last, uint32_t *out)
{
    char *end;
    const unsigned long n = strtoul(*text, &end, 10);

    if (**text < '0' || **text > '9' || n < 1 || n > last)
        return false;
    *out = (uint32_t)n;
    *text = end;
    return true;
}

#endif
