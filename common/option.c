/* SPDX-License-Identifier: BSD-3-Clause */
#include "option.h"

#include "base/ascii.h"
#include "message.h"
#include "program.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option *option_at(const struct option_table *table, size_t k)
{
    return (const struct option *)((const char *)table->options + k * table->stride);
}

size_t option_of(const struct option_table *table, const char *name)
{
    size_t k = 0;

    while (option_at(table, k)->name == NULL || strcmp(option_at(table, k)->name, name) != 0)
        k++;
    return k;
}

const char *option_flag(const struct option_table *table, const struct option_given *given, const char *name)
{
    static _Thread_local char flags[4][32]; /* as many as one message may have */
    static _Thread_local unsigned next;
    const size_t k = option_of(table, name);
    char *flag = flags[next++ % 4];

    if (given[k].yes)
        return given[k].flag;
    snprintf(flag, sizeof flags[0], "--%s", name);
    return flag;
}

void option_misuse(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    tell_list(format, arguments);
    va_end(arguments);
    exit(2);
}

/* ---- --help ------------------------------------------------------------------------------------ */

/* One thing, one name: these are taken for each other in all programs. The first is the one that --help shows. */
static const char *const synonyms[] = {
    "algo algorithm", "coll collective", "datatype type dtype", "json output_file",
    "mode elastic",   "op redop",        "ranks nranks np",     "trace timeline",
};

static bool are_synonyms(const char *a, const char *b)
{
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
        if (list_has(synonyms[i], a) && list_has(synonyms[i], b))
            return true;
    return false;
}

static bool has_letters(const struct option_table *table)
{
    bool found = false;

    for (size_t k = 0; k < table->n; k++)
        found |= option_at(table, k)->letter != 0;
    return found;
}

static void print_also(const char *list)
{
    const char *before = "; also";

    for (; list != NULL && *list != '\0'; list += strspn(list, " ")) {
        const size_t n = strcspn(list, " ");
        printf("%s --%.*s", before, (int)n, list);
        before = ",";
        list += n;
    }
    putchar('\n');
}

void option_help(const struct option_table *table)
{
    const bool letters = has_letters(table);

    fputs(table->head, stdout);
    for (size_t k = 0; k < table->n; k++) {
        const struct option *o = option_at(table, k);
        char flag[64], letter[8] = "";

        if (o->kind == OPTION_TITLE)
            printf("\n%s:\n", o->text);
        if (o->kind == OPTION_TITLE || o->kind == OPTION_IGNORED)
            continue;
        if (letters)
            snprintf(letter, sizeof letter, o->letter != 0 ? "-%c, " : "    ", o->letter);
        snprintf(flag, sizeof flag, "%s--%s%s %s", letter, o->kind == OPTION_SWITCH ? "[no-]" : "", o->name,
                 o->argument != NULL ? o->argument : "");
        printf("  %-*s %s", letters ? 32 : 24, flag, o->text);
        print_also(o->also);
        if (o->kind == OPTION_HELP)
            printf("  %-*s the version\n", letters ? 32 : 24, letters ? "    --version" : "--version");
    }
    if (table->tail != NULL)
        fputs(table->tail, stdout);
}

/* ---- Parsing ----------------------------------------------------------------------------------- */

static bool takes_value(const struct option *o)
{
    return o->kind != OPTION_FLAG && o->kind != OPTION_SWITCH && o->kind != OPTION_HELP;
}

bool option_set(const struct option *o, struct options *base, const char *flag, const char *value)
{
    void *at = o->target != NULL ? o->target : (char *)base + o->offset;
    uint64_t number;

    switch (o->kind) {
    case OPTION_TITLE:
    case OPTION_HELP:
        return false;
    case OPTION_FLAG:
    case OPTION_SWITCH:
        *(bool *)at = strcmp(value, "on") == 0;
        return true;
    case OPTION_COUNT:
        if (!value_number(flag, value, o->least, o->most, &number))
            return false;
        *(uint32_t *)at = (uint32_t)number;
        return true;
    case OPTION_NUMBER:
        return value_number(flag, value, o->least, o->most, at);
    case OPTION_REAL:
        return value_real(flag, value, o->least, o->most, at);
    case OPTION_BYTES:
        return value_bytes(flag, value, at);
    case OPTION_TEXT:
        *(const char **)at = value;
        return *value != '\0' || complain("%s needs a value; see --help", flag);
    case OPTION_CHOICE:
        return value_choice(flag, value, o->choices, at);
    case OPTION_PARSED:
        return o->parse(base, flag, value);
    case OPTION_IGNORED:
        if (strcmp(value, "0") != 0)
            remark("%s %s has no meaning here: %s", flag, value, o->text);
        return true;
    }
    return false;
}

/* name: without dashes. *on: false for "no-name". */
static const struct option *find(const struct option_table *table, const char *name, bool *on)
{
    const bool negated = strncmp(name, "no-", 3) == 0;

    for (size_t k = 0; k < table->n; k++) {
        const struct option *o = option_at(table, k);

        *on = o->name != NULL && (plait_same_name(o->name, name) || list_has(o->also, name));
        if (*on || (negated && o->kind == OPTION_SWITCH && plait_same_name(o->name, name + 3)))
            return o;
    }
    *on = true;
    for (size_t k = 0; k < table->n; k++)
        if (option_at(table, k)->name != NULL && are_synonyms(option_at(table, k)->name, name))
            return option_at(table, k);
    return NULL;
}

static const struct option *find_letter(const struct option_table *table, char letter)
{
    for (size_t k = 0; k < table->n; k++) {
        const struct option *o = option_at(table, k);

        if (o->letter == letter || (letter == 'h' && o->kind == OPTION_HELP))
            return o;
    }
    return NULL;
}

static bool unknown(const struct option_table *table, const char *flag)
{
    const unsigned length = (unsigned)strlen(flag + 2), third = length / 3;
    const char *best = NULL;
    unsigned least = (third > 2 ? third : length > 3 ? 2 : 1) + 1; /* farther is no misspelling */

    for (size_t k = 0; k < table->n; k++) {
        const char *name = option_at(table, k)->name;
        const unsigned d = name != NULL ? plait_distance(flag + 2, name) : least;
        if (d < least) {
            least = d;
            best = name;
        }
    }
    return best == NULL ? complain("unknown option %s; see --help", flag)
                        : complain("unknown option %s; did you mean --%s?", flag, best);
}

/* One option at argv[*k]; *k moves over what is taken. */
static bool parse_one(const struct option_table *table, struct options *base, int argc, char **argv, int *k,
                      const struct option **out)
{
    const bool is_long = strncmp(argv[*k], "--", 2) == 0;
    const size_t length = is_long ? strcspn(argv[*k], "=") : 2;
    const char *value = argv[*k] + length;
    char flag[64];
    bool on = true;

    snprintf(flag, sizeof flag, "%.*s", (int)length, argv[*k]);
    const struct option *o = *out = is_long ? find(table, flag + 2, &on) : find_letter(table, flag[1]);
    if (o == NULL && strcmp(argv[*k], "--version") == 0) {
        puts(VERSION);
        exit(program_end(0));
    }
    if (o == NULL)
        return is_long ? unknown(table, flag) : complain("unknown flag %s; see --help", flag);
    if (o->kind == OPTION_HELP) {
        if (!message_hidden())
            option_help(table);
        exit(program_end(0));
    }
    value = *value == '\0' ? NULL : is_long ? value + 1 : value;
    if (!takes_value(o))
        return value == NULL ? option_set(o, base, flag, on ? "on" : "off") : complain("%s takes no value", flag);
    if (value == NULL && *k + 1 == argc)
        return complain("%s needs a value; see --help", flag);
    return option_set(o, base, flag, value != NULL ? value : argv[++*k]);
}

static void note(struct option_given *given, const char *argument)
{
    const size_t n = argument[1] == '-' ? strcspn(argument, "=") : 2;

    given->yes = true;
    snprintf(given->flag, sizeof given->flag, "%.*s", (int)n, argument);
}

bool option_parse(const struct option_table *table, struct options *o, struct option_given *given, int argc,
                  char **argv, int *nrest)
{
    const struct option *one;
    bool only_rest = false; /* behind -- */

    *nrest = 0;
    for (int k = 1; k < argc; k++) {
        if (only_rest || argv[k][0] != '-' || argv[k][1] == '\0') {
            argv[++*nrest] = argv[k];
        } else if (strcmp(argv[k], "--") == 0) {
            only_rest = true;
        } else {
            const char *flag = argv[k];
            if (!parse_one(table, o, argc, argv, &k, &one))
                return false;
            if (given != NULL)
                note(&given[((const char *)one - (const char *)table->options) / (ptrdiff_t)table->stride], flag);
        }
    }
    return true;
}

/* ---- Groups ------------------------------------------------------------------------------------ */

static bool has_effect(const struct option_table *table, const struct option_given *given, const char *words,
                       const char *command)
{
    char name[32];

    for (; *words != '\0'; words += strspn(words, " ")) {
        const size_t n = strcspn(words, " ");
        snprintf(name, sizeof name, "%.*s", (int)n, words);
        if (strncmp(name, "--", 2) == 0 ? given[option_of(table, name + 2)].yes
                                        : command != NULL && strcmp(name, command) == 0)
            return true;
        words += n;
    }
    return false;
}

void option_effects(const struct option_table *table, const struct option_given *given, const char *command)
{
    const struct option *group = NULL;

    for (size_t k = 0; k < table->n; k++) {
        const struct option *o = option_at(table, k);
        group = o->kind == OPTION_TITLE ? o : group;
        if (given[k].yes && group != NULL && group->also != NULL && !has_effect(table, given, group->also, command))
            option_misuse("%s has an effect only with %s; leave it out", option_flag(table, given, o->name),
                          group->argument);
    }
}
