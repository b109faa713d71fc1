/* SPDX-License-Identifier: BSD-3-Clause */
#include "kept.h"
#include "child.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { MOST = 16, ID_ROOM = 4096 };

static struct board { /* of all processes; numbers are those of runs */
    _Atomic unsigned begun, ended, failed;
    struct {
        _Atomic unsigned arrived, ended, failed;
    } of[MOST];
    char id[ID_ROOM];
} * board;
static pid_t pids[MOST]; /* 0: none, or dead */
static int me = -1;      /* the program itself */
static unsigned number;

bool kept(void)
{
    const char *set = getenv("PLAIT_TEST_KEPT");

    return set != NULL && strcmp(set, "1") == 0;
}

uint64_t kept_time(void)
{
    static uint64_t began;

    if (began == 0)
        began = (uint64_t)time(NULL);
    return began;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static unsigned follow(const struct kept_run *k)
{
    unsigned failed = 0;

    if (me == 0 && k->nprocess > 0) {
        failed = !k->begin(k->arg);
        memcpy(board->id, k->id, k->id_bytes);
    }
    board->of[me].arrived = number;
    while (board->begun != number)
        usleep(100);
    memcpy(k->id, board->id, k->id_bytes);
    if ((unsigned)me < k->nprocess)
        failed += k->body(k->arg, (unsigned)me);
    fflush(NULL);
    board->of[me].failed = failed;
    board->of[me].ended = number;
    while (board->ended != number)
        usleep(100);
    return board->failed;
}

static unsigned end_all(void)
{
    unsigned ended = 0;

    for (int p = 0; p < MOST; p++)
        if (pids[p] != 0) {
            kill(pids[p], SIGKILL);
            child_end(pids[p]);
            pids[p] = 0;
            ended++;
        }
    return ended;
}

/* Has process p died? Then it is a failure, and is made anew when a run needs it. */
static unsigned has_died(int p)
{
    int how;

    if (waitpid(pids[p], &how, WNOHANG) != pids[p])
        return 0;
    if (WIFSIGNALED(how) && WTERMSIG(how) != SIGKILL)
        fprintf(stderr, "process %d: signal %d\n", p, WTERMSIG(how));
    pids[p] = 0;
    return 1;
}

static bool some_failed(unsigned dead)
{
    for (int p = 0; p < MOST && dead == 0; p++)
        dead = pids[p] != 0 && board->of[p].ended == number && board->of[p].failed > 0;
    return dead > 0;
}

/* Until all have arrived, or ended: how many died. */
static unsigned wait_for(const struct kept_run *k, bool ended, double until)
{
    unsigned dead = 0;

    for (int p = 0; p < MOST; p++)
        while (pids[p] != 0 && (ended ? board->of[p].ended : board->of[p].arrived) != number) {
            dead += has_died(p);
            const bool late = now() > until;
            if (late)
                fprintf(stderr, "time limit: the processes are killed\n");
            if (late || (k->tied && some_failed(dead)))
                dead += end_all();
            usleep(200);
        }
    return dead;
}

static unsigned lead(const struct kept_run *k)
{
    const double until = now() + k->limit;
    unsigned failed = wait_for(k, false, until);

    board->begun = number;
    if (k->nprocess == 0)
        failed += k->body(k->arg, 0);
    failed += wait_for(k, true, until);
    for (int p = 0; p < MOST; p++)
        if (pids[p] != 0)
            failed += board->of[p].failed;
    board->failed = failed;
    board->ended = number;
    return failed;
}

unsigned kept_run(const struct kept_run *k)
{
    if (k->nprocess > MOST || k->id_bytes > ID_ROOM)
        abort();
    kept_time();
    number++;
    if (board == NULL)
        board = shared_memory(sizeof *board);
    for (int p = 0; p < (int)k->nprocess && me < 0; p++) {
        if (pids[p] != 0)
            continue;
        board->of[p].arrived = board->of[p].ended = board->of[p].failed = 0;
        if ((pids[p] = child_fork()) == 0) {
            me = p;
            if (freopen("/dev/null", "w", stdout) == NULL) /* the program says what passed */
                abort();
        }
    }
    return me < 0 ? lead(k) : follow(k);
}

/* ---- The stand-ins' file ---------------------------------------------------------------------------------------- */

static char world[64];

static void unlink_world(void)
{
    if (me < 0)
        unlink(world);
}

bool kept_world_begin(void)
{
    if (kept() && world[0] != '\0')
        return true;
    strcpy(world, "/tmp/plait-device-test-XXXXXX");
    const int fd = mkstemp(world);
    if (fd < 0)
        return false;
    close(fd);
    if (kept())
        atexit(unlink_world);
    return setenv("PLAIT_STANDIN_WORLD", world, 1) == 0;
}

void kept_world_end(void)
{
    if (kept())
        return;
    unsetenv("PLAIT_STANDIN_WORLD");
    unlink(world);
}
