/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of the library: the program's signals go to the program's threads. */
#ifndef PLAIT_LIB_BASE_THREAD_H
#define PLAIT_LIB_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/* pthread_create() of a thread that blocks all signals. Returns its error number, or 0. */
static inline int plait_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
    sigset_t all, saved;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &saved);
    const int error = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    return error;
}

#endif
