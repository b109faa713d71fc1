/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of a program: one table gives parsing, --help and the errors. */
#ifndef PLAIT_COMMON_OPTION_H
#define PLAIT_COMMON_OPTION_H

#include "value.h"

#include <stddef.h>

struct options; /* the program's, which it defines */

enum option_kind {
    OPTION_TITLE,  /* no option: the title of a group in --help */
    OPTION_HELP,   /* print --help and exit with status 0 */
    OPTION_FLAG,   /* bool: --name */
    OPTION_SWITCH, /* bool: --name or --no-name */
    OPTION_COUNT,  /* uint32_t, least .. most */
    OPTION_NUMBER, /* uint64_t, least .. most */
    OPTION_REAL,   /* double, least .. most */
    OPTION_BYTES,  /* size_t, with K, M or G */
    OPTION_TEXT,   /* const char *, not empty */
    OPTION_CHOICE, /* an enum, by name */
    OPTION_PARSED, /* by its own function */
    OPTION_IGNORED /* of other programs: has no effect, which a note says if the value is not 0; `text` says why */
};

struct option {
    enum option_kind kind;
    char letter;          /* -x; 0: none */
    const char *name;     /* --name, in any case, with '_' or '-'; NULL: none */
    const char *also;     /* further names, as other programs have them, with spaces between; NULL: none */
    const char *argument; /* what --help calls its value */
    void *target;         /* where the value goes, */
    size_t offset;        /* or, with target NULL, where in the program's struct options */
    double least, most;
    const struct choice *choices;
    bool (*parse)(struct options *o, const char *flag, const char *value);
    const char *text; /* for --help, one line */
};

struct option_table {
    const char *head, *tail; /* of --help, before and after the options; tail may be NULL */
    const struct option *options;
    size_t n, stride; /* number, and bytes from one to the next: rows may be larger structs that begin with an option */
};

/* Rows: kind without OPTION_, name, argument, where the value goes, text; then designated initialisers of the rest. */
#define OPTION_TO(kind_, name_, argument_, target_, text_, ...)                                                     \
    {                                                                                                               \
        .kind = OPTION_##kind_, .name = name_, .argument = argument_, .target = target_, .text = text_, __VA_ARGS__ \
    }
#define OPTION_IN(kind_, name_, argument_, member_, text_, ...)                                                    \
    {                                                                                                              \
        .kind = OPTION_##kind_, .name = name_, .argument = argument_, .offset = offsetof(struct options, member_), \
        .text = text_, __VA_ARGS__                                                                                 \
    }

/*
 * A title of options that have an effect only with some others, or with a command: words are their names, "--step" or
 * "simulate", with spaces between; only is what a message says.
 */
#define OPTION_GROUP(only, words)                                                         \
    {                                                                                     \
        .kind = OPTION_TITLE, .text = "Options of " only, .argument = only, .also = words \
    }

struct option_given {
    bool yes;
    char flag[31]; /* as it was written */
};

/** The k of the option with this name, which must be there. */
size_t option_of(const struct option_table *table, const char *name);

/** For messages: the option as the user wrote it, else by its name. */
const char *option_flag(const struct option_table *table, const struct option_given *given, const char *name);

/**
 * Parse a command line: "-x VALUE", "-xVALUE", "--name VALUE" and "--name=VALUE".
 *
 * o      where offsets count from; may be NULL
 * given  [n] set for each option that was given; NULL: not wanted
 * argv   arguments that are no options are moved to its front, behind argv[0]
 * nrest  gets their number
 *
 * --help and --version print, unless messages are hidden, and end the program. Returns false after a message.
 */
bool option_parse(const struct option_table *table, struct options *o, struct option_given *given, int argc,
                  char **argv, int *nrest);

/** End the program with a message if an option was given without what its group needs. command: NULL: there is none. */
void option_effects(const struct option_table *table, const struct option_given *given, const char *command);

/** Set an option's value. flag: its name in messages. Returns false after a message. */
bool option_set(const struct option *option, struct options *o, const char *flag, const char *value);

void option_help(const struct option_table *table);

/** tell(), and exit with status 2: the command line is wrong. One line: argument, value, remedy. */
_Noreturn void option_misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
