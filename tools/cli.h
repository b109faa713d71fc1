/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of the programs: one table gives parsing, --help and the errors. */
#ifndef PLAIT_TOOLS_CLI_H
#define PLAIT_TOOLS_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cli_kind {
    CLI_FLAG,   /* bool, set to true */
    CLI_NUMBER, /* uint32_t, decimal, at least 1 */
    CLI_RANKS,  /* the same, at most what a comm may have */
    CLI_BYTES,  /* size_t, with K, M, G */
    CLI_TEXT    /* const char *, the argument itself */
};

struct cli_option {
    const char *name; /* "--ranks" */
    const char *arg;  /* how --help calls its argument; NULL for CLI_FLAG */
    const char *text; /* one line */
    enum cli_kind kind;
    void *target; /* left alone when the option is not given */
};

struct cli_program {
    const char *name;                 /* "plait-info" */
    const char *usage;                /* what follows the name in --help's first line */
    const char *text;                 /* what it is, and examples; ends with a newline */
    const struct cli_option *options; /* ended by one whose name is NULL; --help is added */
};

/*
 * Parse. "--name value" and "--name=value" are both taken. Arguments that are no options are moved to
 * the front of argv, behind argv[0]; *nrest counts them. --help prints and exits 0; a mistake prints
 * what is wrong and exits 2.
 */
void cli_parse(const struct cli_program *program, int argc, char **argv, int *nrest);

/* "plait-info: text" on stderr, and exit 2: the command line is wrong. */
_Noreturn void cli_fail(const struct cli_program *program, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* "1.5 MiB" into text[32]. */
void cli_show_bytes(char *text, uint64_t bytes);

/*
 * A node map: "4x2" is four nodes of two ranks each, "3+1+2" (or 3,1,2) nodes of that many ranks in
 * rank order. Fills node[0 .. *nrank-1]; false when the text is neither or has more than `room` ranks.
 */
bool cli_nodes(const char *text, uint32_t *node, uint32_t room, uint32_t *nrank);

#endif
