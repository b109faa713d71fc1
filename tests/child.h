/* SPDX-License-Identifier: BSD-3-Clause */
/* Children of a test beside the ranks of ranks.h, what they share with it, what they write. */
#ifndef PLAIT_TESTS_CHILD_H
#define PLAIT_TESTS_CHILD_H

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Zeros that this process and its later children all see; until munmap(). */
static inline void *shared_memory(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        abort();
    return p;
}

/* fork() of a child that dies with this thread and repeats nothing that was printed. */
static inline pid_t child_fork(void)
{
    fflush(NULL);
    const pid_t pid = fork();

    if (pid < 0)
        abort();
    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    return pid;
}

/* Its exit status when it has ended; that of a signal is negative. */
static inline int child_end(pid_t pid)
{
    int how;

    if (waitpid(pid, &how, 0) != pid)
        abort();
    return WIFEXITED(how) ? WEXITSTATUS(how) : -WTERMSIG(how);
}

/* Its end, which is 0 if body() returns; `text` [room] gets what it writes to stderr. */
static inline int child_run(void (*body)(void), char *text, size_t room)
{
    FILE *err = tmpfile();
    const pid_t pid = child_fork();

    if (pid == 0) {
        dup2(fileno(err), STDERR_FILENO);
        body();
        fflush(NULL);
        _exit(0);
    }
    const int end = child_end(pid);
    rewind(err);
    text[fread(text, 1, room - 1, err)] = '\0';
    fclose(err);
    return end;
}

/* A barrier of n threads of any of these processes. */
static inline void shared_barrier_init(pthread_barrier_t *b, unsigned n)
{
    pthread_barrierattr_t shared;

    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(b, &shared, n);
    pthread_barrierattr_destroy(&shared);
}

#endif
