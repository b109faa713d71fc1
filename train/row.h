/* SPDX-License-Identifier: BSD-3-Clause */
/* A row of the table of options (options.c): the option, and what a run that is resumed does with it. */
#ifndef PLAIT_TRAIN_ROW_H
#define PLAIT_TRAIN_ROW_H

#include "option.h"
#include "options.h"

/* What a resumed run does with the value that its checkpoint has. */
enum kept {
    FREE,   /* nothing: the option does not shape the result, and no checkpoint has it */
    HELD,   /* take it; another may be given, since nothing in the state depends on it */
    KEPT,   /* take it; another may be given, with a message */
    PLACED, /* take it on the same number of ranks, else choose anew */
    FIXED   /* take it; another is refused: it would not fit the state */
};

/* Where an option has an effect. */
struct need {
    bool (*met)(const struct options *o);
    const char *text;
};

struct row {
    struct option option;
    bool (*print)(const struct options *o, char *out, size_t room); /* OPTION_PARSED: what parse() takes */
    enum kept kept;
    bool own;                /* each rank may have another value (options_alike()) */
    const struct need *need; /* NULL: in all of training */
};

/** Print what option_set() takes; false: nothing is set. */
bool row_print(const struct row *r, const struct options *o, char *out, size_t room);

/** A number with as few digits as all its bits need. */
void row_print_real(double value, char *out, size_t room);

#endif
