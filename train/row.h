/* SPDX-License-Identifier: BSD-3-Clause */
/* A row of the table of options (options.c): where its value lies, and the value from text and to text. */
#ifndef PLAIT_TRAIN_ROW_H
#define PLAIT_TRAIN_ROW_H

#include "options.h"
#include "values.h"

#include <stdbool.h>
#include <stddef.h>

enum kind {
    TITLE,  /* of a group in --help */
    SWITCH, /* bool: --name or --no-name */
    NUMBER, /* uint64_t, least .. most */
    REAL,   /* double, least .. most */
    TEXT,   /* const char * */
    CHOICE, /* an enum, by name */
    PARSED  /* by its own function */
};

/* What a run that goes on does with what it was. */
enum kept {
    FREE,   /* not looked at: it does not shape what comes out */
    HELD,   /* the same again; another one may be asked for: nothing that has been depends on it */
    KEPT,   /* the same again; another one, if asked for, is told */
    PLACED, /* the same again on as many ranks, else chosen anew */
    FIXED   /* the same again; another one is refused: it makes no sense of the state */
};

/* Where an option has an effect. */
struct need {
    bool (*met)(const struct options *o);
    const char *text;
};

struct row {
    enum kind kind;
    const char *name, *argument;
    size_t offset;
    double least, most;
    const struct choice *choices; /* the last has no name */
    bool (*parse)(struct options *o, const char *flag, const char *value);
    bool (*print)(const struct options *o, char *out, size_t room); /* what parse() takes; false: nothing is set */
    const char *text;                                               /* for --help */
    enum kept kept;
    const struct need *need; /* NULL: in all of training */
};

/** value: as a command line has it; a switch's is "on" or "off". flag: for the message. false after a message. */
bool row_set(const struct row *r, struct options *o, const char *flag, const char *value);

/** What row_set() takes; false: nothing is set. */
bool row_print(const struct row *r, const struct options *o, char *out, size_t room);

/** A number with as few digits as all its bits need. */
void row_print_real(double value, char *out, size_t room);

#endif
