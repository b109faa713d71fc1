/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAIT_LIB_BASE_THREAD_H
#define PLAIT_LIB_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>

/* Start a thread that takes none of the program's signals. Returns 0 or an errno. */
static inline int plait_thread_start(pthread_t *out, void *(*run)(void *), void *arg)
{
    sigset_t all, saved;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &saved);
    const int error = pthread_create(out, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    return error;
}

#endif
