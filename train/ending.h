/* SPDX-License-Identifier: BSD-3-Clause */
/* What the program says when something is wrong, and with which exit status it ends. Thread: any. */
#ifndef PLAIT_TRAIN_ENDING_H
#define PLAIT_TRAIN_ENDING_H

#include <plait/status.h>

#include <stdbool.h>
#include <stddef.h>

enum ending { /* exit statuses */
              ENDING_GOOD = 0,
              ENDING_ERROR = 1,     /* data, memory, a file */
              ENDING_USAGE = 2,     /* arguments */
              ENDING_NONFINITE = 3, /* the loss is infinite or not a number */
              ENDING_LOST = 4,      /* another rank is lost */
              ENDING_SIGNAL = 128   /* and the signal's number: checkpointed and left */
};

/** Print "plait-train: ..." to standard error; false, for `return complain(...)`. */
bool complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** The same of what this rank alone has found. */
void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** complain() says nothing from here on: of ranks that all find the same. */
void complain_no_more(void);

/** Of two ranks' exit statuses the one that says more: a loss, an error or wrong arguments are why others are lost. */
int ending_worse(int a, int b);

/** What an error of the library makes of this process: is another rank the cause? */
enum ending ending_of(enum plait_status status);

/** End this process at once, without destructors: other ranks see that it has gone. */
_Noreturn void leave(enum ending ending);

/** But first, once, on whichever thread leaves: bring to an end what must not be cut off. */
void before_leaving(void (*function)(void *context), void *context);

/** Complain, also on ranks that else say nothing, and end this process. */
_Noreturn void give_up(enum ending ending, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** End this process unless the library's call went well: what was tried, and the library's own words. */
void must(enum plait_status status, const char *what);

/** Memory, zeroed; the process ends when there is none. */
void *allocate(size_t n, size_t size);
/** As realloc(), to n elements. */
void *grow(void *array, size_t n, size_t size);

#endif
