/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch.h"

#include "child.h"
#include "ending.h"

#include <plait/launch.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

volatile sig_atomic_t asked_to_stop;

static struct timespec asked_at;

/* A launcher and a terminal may both deliver a signal that the user sent once. */
static void on_signal(int number)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    if (asked_to_stop != 0 && t.tv_sec - asked_at.tv_sec > 1)
        _exit(ENDING_SIGNAL + number);
    if (asked_to_stop == 0)
        asked_at = t;
    asked_to_stop = number;
}

/* A signal that is ignored stays ignored, as for nohup or a background job. */
static void handle(int number, void (*handler)(int))
{
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART }, before;

    if (sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(number, &action, NULL);
}

void launch_catch_signals(void)
{
    handle(SIGINT, on_signal);
    handle(SIGTERM, on_signal);
    handle(SIGHUP, on_signal);
    handle(SIGPIPE, SIG_IGN); /* the reader of the output may end before the training */
}

/* ---- the process that has started the ranks ---------------------------------------------------- */

static pid_t *children;
static uint32_t nchild;

/* Ctrl-C reaches the ranks directly, too: on_signal() takes both for one. */
static void hand_on(int number)
{
    for (uint32_t i = 0; i < nchild; i++)
        if (children[i] > 0)
            kill(children[i], number);
}

static void tell_death(uint32_t rank, int how)
{
    char text[64];

    child_end(how, text, sizeof text);
    if (WIFSIGNALED(how))
        complain("rank %u was %s", rank, text);
}

static int wait_for_ranks(void)
{
    int worst = ENDING_GOOD, how;
    pid_t one;

    while ((one = waitpid(-1, &how, 0)) > 0 || (one < 0 && errno == EINTR))
        for (uint32_t i = 0; i < nchild; i++)
            if (children[i] == one) {
                children[i] = 0;
                tell_death(i, how);
                worst = ending_worse(worst, WIFEXITED(how) ? WEXITSTATUS(how) : ENDING_LOST);
            }
    return worst;
}

static bool start_ranks(uint32_t ranks, struct place *out)
{
    if (plait_unique_id_create(&out->id) != PLAIT_OK)
        return complain("%s", plait_last_error());
    children = allocate(ranks, sizeof *children);
    for (out->rank = 0; out->rank < ranks; out->rank++) {
        const pid_t child = child_fork(SIGTERM);
        if (child == 0)
            return true;
        if (child < 0) {
            hand_on(SIGKILL);
            return complain("--ranks %u: cannot start rank %u: %s; use fewer", ranks, out->rank, strerror(errno));
        }
        children[nchild++] = child;
    }
    handle(SIGINT, hand_on);
    handle(SIGTERM, hand_on);
    handle(SIGHUP, hand_on);
    exit(wait_for_ranks());
}

bool launch(uint32_t ranks, uint32_t usual, struct place *out)
{
    struct plait_launch found;

    if (plait_launch_find(&found) != PLAIT_OK)
        return complain("%s", plait_last_error());
    if (found.nrank > 1) {
        *out = (struct place){ found.rank, found.nrank, found.id };
        if (found.rank > 0)
            message_hide(true);
        return ranks == 0 || ranks == found.nrank ||
               complain("%u ranks are asked for, but %s has started %u; leave --ranks out", ranks, found.launcher,
                        found.nrank);
    }
    ranks = ranks > 0 ? ranks : usual;
    *out = (struct place){ 0, ranks, found.id };
    if (ranks > 1 && !start_ranks(ranks, out))
        return false;
    if (out->rank > 0)
        message_hide(true);
    return true;
}
