/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks as others see them: by plait-info --dump, and in the log. */
#ifndef PLAIT_TESTS_WATCH_H
#define PLAIT_TESTS_WATCH_H

#include <plait/log.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

extern const char *watch_info; /* the path of plait-info */

/* plait-info --dump of a process, both outputs; its exit status. */
int dump(pid_t pid, const char *more, char *text, size_t room);

/* Dump until the text has the words, which the process comes to by itself. */
bool dump_says(pid_t pid, const char *words, char *text, size_t room);

struct heard {
    pthread_mutex_t lock;
    unsigned n[PLAIT_LOG_DEBUG + 1];
    char warning[1024], all[32768];
};

/* For plait_log_callback(), with such a context. */
void hear(void *context, enum plait_log_level level, const char *line);

#endif
