/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locale-independent parsing and printing of numbers and words, for settings, options and files. A program's locale
 * (de_DE, tr_TR) changes strtod(), printf(), strcasecmp(), tolower() and the like; tests/locale_test.py forbids them
 * elsewhere.
 */
#ifndef PLAIT_LIB_BASE_ASCII_H
#define PLAIT_LIB_BASE_ASCII_H

#include <locale.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline bool plait_is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Strip blanks from both ends; returns the start of the rest. */
static inline char *plait_trim(char *text)
{
    while (plait_is_space(*text))
        text++;
    for (size_t n = strlen(text); n > 0 && plait_is_space(text[n - 1]); n--)
        text[n - 1] = '\0';
    return text;
}

/* Append to a text of `room` bytes; what does not fit is cut. */
__attribute__((format(printf, 3, 4))) static inline void plait_append(char *text, size_t room, const char *format, ...)
{
    const size_t n = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + n, room - n, format, args);
    va_end(args);
}

static inline char plait_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static inline char plait_upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

/* The same name, whatever the case of ASCII letters, with or without '_' and '-'? "All-Reduce" is "allreduce". */
static inline bool plait_same_name(const char *a, const char *b)
{
    for (;; a++, b++) {
        while (*a == '_' || *a == '-')
            a++;
        while (*b == '_' || *b == '-')
            b++;
        if (*a == '\0' || plait_lower(*a) != plait_lower(*b))
            return plait_lower(*a) == plait_lower(*b);
    }
}

/* The part of `name` after `prefix`, in any case of letters; NULL if `name` does not begin with it. */
static inline const char *plait_after_prefix(const char *name, const char *prefix)
{
    for (; *prefix != '\0'; name++, prefix++)
        if (plait_lower(*name) != plait_lower(*prefix))
            return NULL;
    return name;
}

/* Equal, ignoring the case of ASCII letters? */
static inline bool plait_same_word(const char *a, const char *b)
{
    const char *rest = plait_after_prefix(a, b);

    return rest != NULL && *rest == '\0';
}

/* strtod() in the C locale: a decimal point. *end is `text` if there is no number. */
static inline double plait_real(const char *text, char **end)
{
    const locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double value = 0;

    *end = (char *)(uintptr_t)text;
    if (c == (locale_t)0)
        return 0;
    value = strtod_l(text, end, c);
    freelocale(c);
    return value;
}

/* Print as %g with `digits` digits; 0: exactly, as %a. plait_real() reads both. */
static inline void plait_print_real(char *out, size_t room, int digits, double value)
{
    const locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = uselocale(c);

    if (digits > 0)
        snprintf(out, room, "%.*g", digits, value);
    else
        snprintf(out, room, "%a", value);
    uselocale(before);
    if (c != (locale_t)0)
        freelocale(c);
}

/* ---- For "did you mean" ---- */

#define PLAIT_NEAR         3  /* a word at a larger distance from a name is no misspelling of it */
#define PLAIT_LONGEST_WORD 63 /* words are cut there */

/* Edit distance: insertions, deletions and replacements that turn `a` into `b`, without case. */
static inline unsigned plait_distance(const char *a, const char *b)
{
    unsigned row[PLAIT_LONGEST_WORD + 1];
    const size_t la = strlen(a), na = la < PLAIT_LONGEST_WORD ? la : PLAIT_LONGEST_WORD;
    const size_t lb = strlen(b), nb = lb < PLAIT_LONGEST_WORD ? lb : PLAIT_LONGEST_WORD;

    for (size_t j = 0; j <= nb; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; i <= na; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= nb; j++) {
            const unsigned change = diagonal + (plait_lower(a[i - 1]) != plait_lower(b[j - 1]));
            const unsigned grow = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = change < grow ? change : grow;
        }
    }
    return row[nb];
}

#endif
