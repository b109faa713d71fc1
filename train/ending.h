/* SPDX-License-Identifier: BSD-3-Clause */
/* What the program says when something is wrong, and with which exit status it ends. Thread: any. */
#ifndef PLAIT_TRAIN_ENDING_H
#define PLAIT_TRAIN_ENDING_H

#include "memory.h"
#include "message.h"
#include "program.h"

#include <plait/status.h>

enum ending { /* exit statuses */
              ENDING_GOOD = 0,
              ENDING_ERROR = 1,     /* data, memory, a file */
              ENDING_USAGE = 2,     /* arguments */
              ENDING_NONFINITE = 3, /* the loss is infinite or not a number */
              ENDING_LOST = 4,      /* another rank is lost */
              ENDING_SIGNAL = 128   /* and the signal's number: checkpointed and left */
};

/** Of two ranks' exit statuses the one that says more: a loss, an error or wrong arguments are why others are lost. */
int ending_worse(int a, int b);

/** What an error of the library makes of this process: is another rank the cause? */
enum ending ending_of(enum plait_status status);

/** End this process unless the library's call went well: what was tried, and the library's own words. */
void must(enum plait_status status, const char *what);

#endif
