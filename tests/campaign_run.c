/* SPDX-License-Identifier: BSD-3-Clause */
/* Run one injection: start its processes, kill or stop the culprits, and end what hangs. */
#include "base/clock.h"
#include "campaign.h"
#include "values.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SETUP_LIMIT 60.0 /* seconds until the fault */
#define CREATION    4e-3 /* seconds that a creation may take */
#define STOPPED     1.0  /* seconds between turns of waiting: the whole machine, or this job, stood still */

struct crew {
    const struct injection *j;
    struct place *place;
    struct scene *s;
    double start, limit;
    double last, lost;      /* the last turn of waiting; seconds in which this process, and so the ranks, did not run */
    pid_t pids[MOST_RANKS]; /* 0: ended */
    uint32_t running, killed, stopped; /* masks of processes */
};

static const char *phase_name(int phase)
{
    static const char *const names[] = {
#define X(symbol, name) [symbol] = name,
        PHASE_LIST(X)
#undef X
    };
    return names[phase];
}

static uint32_t culprit_processes(const struct injection *j)
{
    uint32_t mask = 0;

    for (uint32_t r = 0; r < j->nrank; r++)
        mask |= (uint32_t)is_culprit(j, r) << r / j->nthread;
    return fault_kinds[j->fault].process ? mask : 0;
}

static bool has_ended(struct crew *c, uint32_t p, int *how)
{
    return c->place->ground != NULL ? hosts_ended(c->place, p, how) : waitpid(c->pids[p], how, WNOHANG) == c->pids[p];
}

static void reap(struct crew *c)
{
    for (uint32_t p = 0; p < c->j->nprocess; p++) {
        int how;
        if (!(c->running >> p & 1) || !has_ended(c, p, &how))
            continue;
        c->pids[p] = 0;
        c->running &= ~(1u << p);
        if (WIFSIGNALED(how) && !(c->killed >> p & 1)) {
            c->s->crashed = true;
            snprintf(c->s->trouble, sizeof c->s->trouble, "process %u ended by signal %d", p, WTERMSIG(how));
        }
    }
}

/* Who still runs, and in what. */
static void name_hanging(struct crew *c)
{
    size_t n = 0;

    c->s->hung = true;
    for (uint32_t r = 0; r < c->j->nrank; r++) {
        const struct report *report = &c->s->reports[r];
        if ((c->running >> r / c->j->nthread & 1) && report->phase != PHASE_DONE && n + 80 < sizeof c->s->trouble)
            n += (size_t)snprintf(c->s->trouble + n, sizeof c->s->trouble - n, "%srank %u is in %s (call #%llu)",
                                  n > 0 ? ", " : "hang: ", r, phase_name(report->phase),
                                  (unsigned long long)report->number);
    }
    if (n == 0)
        snprintf(c->s->trouble, sizeof c->s->trouble, "hang: processes 0x%x do not end", c->running);
}

/* A turn of waiting: false when it makes no sense any more. */
static bool wait_turn(struct crew *c)
{
    const double fault = c->s->fault;

    reap(c);
    if (c->s->crashed)
        return false;
    const double now = plait_clock();
    if (now - c->last > STOPPED)
        c->lost += now - c->last;
    c->last = now;
    if (now - c->lost > (fault > 0 ? fault + c->limit : c->start + SETUP_LIMIT)) {
        name_hanging(c);
        return false;
    }
    usleep(300);
    return true;
}

/* From outside: kill or stop, one after the other. */
static void hit(struct crew *c)
{
    const uint32_t mask = culprit_processes(c->j);
    const double scale = c->j->fault == FAULT_BIRTH ? CREATION : c->s->duration > 0 ? c->s->duration : 1e-4;

    wait_moment(c->j->moment * scale);
    c->s->fault = plait_clock();
    for (uint32_t p = 0; p < c->j->nprocess; p++) {
        if (!(mask >> p & 1))
            continue;
        if (c->j->fault == FAULT_STOP)
            c->stopped |= 1u << p;
        else
            c->killed |= 1u << p;
        if (c->pids[p] != 0)
            kill(c->pids[p], c->j->fault == FAULT_STOP ? SIGSTOP : SIGKILL);
        wait_moment(c->j->gap * scale);
    }
}

/* Take the link of the culprits' host down, and up again when everyone has noticed. */
static bool cut(struct crew *c)
{
    const uint32_t host = c->j->host[c->j->actor];
    bool right = true;

    c->s->whole = 0;
    wait_moment(c->j->moment * (c->s->duration > 0 ? c->s->duration : 1e-4));
    c->s->fault = plait_clock();
    hosts_link(c->place, host, false);
    while (right && c->s->failed < c->j->nrank && (c->running & ~c->s->idle))
        right = wait_turn(c);
    hosts_link(c->place, host, true);
    c->s->whole = 1;
    return right;
}

static void end_all(struct crew *c)
{
    c->killed = ~0u;
    for (uint32_t p = 0; p < c->j->nprocess; p++)
        if (c->pids[p] != 0) {
            int how;
            kill(c->pids[p], SIGKILL);
            while (!has_ended(c, p, &how))
                usleep(300);
        }
}

/* Stopped processes go on, or die; then everyone looks for what is left. */
static bool conclude(struct crew *c)
{
    for (uint32_t p = 0; p < c->j->nprocess; p++) {
        if (!(c->stopped >> p & 1) || c->pids[p] == 0)
            continue;
        c->killed |= c->j->resumed ? 0 : 1u << p;
        kill(c->pids[p], c->j->resumed ? SIGCONT : SIGKILL);
    }
    while (c->running & ~c->s->idle)
        if (!wait_turn(c))
            return false;
    c->s->measure = 1;
    while (c->running)
        if (!wait_turn(c))
            return false;
    return true;
}

static bool near(const struct crew *c)
{
    return c->j->fault == FAULT_BIRTH ? c->s->ready == c->j->nrank : c->s->armed > 0;
}

static bool run_to_the_end(struct crew *c)
{
    const bool cuts = c->j->fault == FAULT_CUT;
    const bool outside = cuts || (fault_kinds[c->j->fault].process && c->j->fault != FAULT_EXIT);

    while (outside && !near(c) && (c->running & ~c->s->idle))
        if (!wait_turn(c))
            return false;
    if (cuts && !cut(c))
        return false;
    if (outside && !cuts)
        hit(c);
    while (c->running & ~c->s->idle & ~c->stopped)
        if (!wait_turn(c))
            return false;
    return conclude(c);
}

/* One period of each operation's results is kept, for the ranks to copy. */
static void make_results(const struct injection *j)
{
    char one[8];

    for (int i = 0; i < NSTEP; i++)
        values_want(one, j->steps[i].type, j->steps[i].op, j->nrank, 1);
}

static void start(const struct injection *j, struct scene *s, pid_t *pids)
{
    for (unsigned i = 0; i < 2; i++) {
        must(plait_unique_id_create(&s->ids[i]) == PLAIT_OK, "id");
        s->made[i] = 1;
    }
    make_results(j);
    for (uint32_t p = 0; p < j->nprocess; p++) {
        const pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            process_main(j, s, p);
            _exit(0);
        }
        if (pid < 0)
            abort();
        pids[p] = pid;
    }
}

void injection_run(const struct injection *j, struct place *place, double limit)
{
    struct scene *s = place->s;
    struct crew c = { .j = j, .place = place, .s = s, .start = plait_clock(), .limit = limit };

    c.last = c.start;

    memset(s, 0, sizeof *s);
    s->whole = 1;
    if (place->ground != NULL)
        hosts_start(place, j, c.pids);
    else
        start(j, s, c.pids);
    c.running = (1u << j->nprocess) - 1;
    if (!run_to_the_end(&c))
        end_all(&c);
    if (place->ground == NULL && waitpid(-1, NULL, WNOHANG) != -1 && s->trouble[0] == '\0')
        snprintf(s->trouble, sizeof s->trouble, "a process was left");
}
