/* SPDX-License-Identifier: BSD-3-Clause */
/* How the program ends: exit statuses, and errors of the library. Thread: any. */
#ifndef PLAIT_TRAIN_ENDING_H
#define PLAIT_TRAIN_ENDING_H

#include "allocate.h"
#include "message.h"
#include "program.h"

#include <plait/status.h>

enum ending { /* exit statuses */
              ENDING_GOOD = 0,
              ENDING_ERROR = 1,     /* data, memory, a file */
              ENDING_USAGE = 2,     /* arguments */
              ENDING_NONFINITE = 3, /* the loss is infinite or not a number */
              ENDING_LOST = 4,      /* another rank is lost */
              ENDING_SIGNAL = 128   /* plus the signal's number: a checkpoint was written */
};

/**
 * Of two ranks' exit statuses the more specific one: a non-finite loss, an error or wrong arguments on one rank are why
 * others are lost.
 */
int ending_worse(int a, int b);

/** The exit status for an error of the library: was another rank the cause? */
enum ending ending_of(enum plait_status status);

/** End this process unless the library's call succeeded, with a message: what was tried, and the library's error. */
void must(enum plait_status status, const char *what);

#endif
