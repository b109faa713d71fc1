/* SPDX-License-Identifier: BSD-3-Clause */
#include "progress.h"

#include "base/clock.h"
#include "base/fork.h"
#include "base/interrupt.h"
#include "base/status.h"
#include "failure/failure.h"
#include "reduce/reduce.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#define YIELD_FOR 2e-3      /* seconds of yields before the first sleep */
#define LATE      1e-4      /* seconds of a yield after which others are taken to have run */
#define DOUBLINGS 3         /* of the longest sleep, after sleeps without progress */
#define IDLE_NS   100000000 /* longest sleep while only this process is awaited */
#define REST_US   1000      /* of the progress thread while other threads drive */
#define TURN_NS   100000    /* time slice of the progress thread; the shortest that Linux allows */

/* ---- The list ---------------------------------------------------------------------------------------- */

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER; /* taken while a comm's lock is held */
static struct plait_comm *first;
_Atomic uint32_t plait_nactive;

static _Atomic uint32_t doorbell, sleepers;
static _Atomic uint32_t drivers; /* threads in plait_progress_until() */

void plait_progress_add(struct plait_comm *comm)
{
    if (atomic_load(&comm->listed))
        return;
    pthread_mutex_lock(&list_lock);
    if (!comm->listed) {
        comm->listed = true;
        comm->next_active = first;
        first = comm;
        atomic_fetch_add(&plait_nactive, 1);
    }
    pthread_mutex_unlock(&list_lock);
}

/* Callers of plait_progress_add() count pending first, then read listed; this reads them in the opposite order. */
void plait_progress_remove(struct plait_comm *comm, uint32_t n)
{
    struct plait_comm **link = &first;

    pthread_mutex_lock(&list_lock);
    if (comm->listed) {
        atomic_store(&comm->listed, false);
        atomic_store(&comm->listed, atomic_load(&comm->pending) != n);
        while (*link != comm)
            link = &(*link)->next_active;
        if (!comm->listed) {
            *link = comm->next_active;
            atomic_fetch_sub(&plait_nactive, 1);
        }
    }
    pthread_mutex_unlock(&list_lock);
}

/* The k-th active comm, locked; NULL: another thread holds its lock. False: there are no more. */
static bool take(uint32_t k, struct plait_comm **out)
{
    struct plait_comm *c;

    pthread_mutex_lock(&list_lock);
    for (c = first; c != NULL && k > 0; k--)
        c = c->next_active;
    *out = c != NULL && pthread_mutex_trylock(&c->lock) == 0 ? c : NULL;
    pthread_mutex_unlock(&list_lock);
    return c != NULL;
}

/* ---- Progress ---------------------------------------------------------------------------------------- */

static bool drive(bool rarely)
{
    struct plait_comm *comm;
    bool moved = false;

    if (atomic_load_explicit(&plait_nactive, memory_order_relaxed) == 0)
        return false;
    for (uint32_t k = 0; take(k, &comm); k++)
        if (comm != NULL) {
            moved |= comm->drive->turn(comm, rarely);
            pthread_mutex_unlock(&comm->lock);
        }
    return moved;
}

bool plait_progress(void)
{
    return drive(false);
}

bool plait_progress_rarely(void)
{
    return drive(true);
}

/* ---- Waiting ----------------------------------------------------------------------------------------- */

/* Dekker's pattern: each side writes its word, then reads the other's. A sleeper is woken or does not fall asleep. */
void plait_progress_wake(void)
{
    atomic_fetch_add(&doorbell, 1);
    if (atomic_load(&sleepers) > 0)
        plait_doorbells_ring(&doorbell);
}

static _Atomic uint64_t alarm_at; /* written without a lock; a lost alarm costs one sleep */

uint64_t plait_progress_until_alarm(void)
{
    const uint64_t when = atomic_load_explicit(&alarm_at, memory_order_relaxed), now = when > 0 ? plait_clock_ns() : 0;

    return when > now ? when - now : 0;
}

void plait_progress_alarm(uint64_t when)
{
    if (plait_progress_until_alarm() == 0 || when < atomic_load_explicit(&alarm_at, memory_order_relaxed))
        atomic_store_explicit(&alarm_at, when, memory_order_relaxed);
}

/* After the spin, with the clock read: decide between yields and sleeps. */
static void tick(struct plait_spinner *s, double now)
{
    if (s->since == 0)
        s->since = now;
    s->sleepy = now - s->since > YIELD_FOR;
}

/*
 * Sleep for at most `ns` nanoseconds, unless no doorbells are announced. Then begin a new announcement. The caller adds
 * its doorbells and polls once more before the next call, so that no wake-up is lost.
 */
static void sleep_a_while(struct plait_spinner *s, long ns)
{
    if (s->announced) {
        const bool all_ring = plait_doorbells_hear(&s->doorbells);
        const bool others = atomic_load(&plait_nactive) > 0 || s->doorbells.n > 1; /* another rank is awaited */
        const long most = !others ? IDLE_NS : all_ring ? ns : PLAIT_SLEEP_NS;
        const uint64_t alarm = plait_progress_until_alarm();
        atomic_fetch_add(&sleepers, 1);
        plait_doorbells_sleep(&s->doorbells, alarm > 0 && alarm < (uint64_t)most ? (long)alarm : most);
        atomic_fetch_sub(&sleepers, 1);
        s->sleeps++;
    }
    s->announced = true;
    s->doorbells.n = s->doorbells.nnetwork = 0;
    s->doorbells.awake = false;
}

/* Before a sleep: add the doorbells that active comms await, and the one that other threads of this process ring. */
static void announce(struct plait_doorbells *doorbells)
{
    struct plait_comm *comm;
    uint32_t ranks[PLAIT_DOORBELLS];

    plait_doorbells_add(doorbells, &doorbell);
    for (uint32_t k = 0; take(k, &comm); k++)
        if (comm != NULL) {
            plait_doorbells_announce(doorbells, comm, ranks, comm->drive->awaited(comm, ranks, PLAIT_DOORBELLS));
            pthread_mutex_unlock(&comm->lock);
        }
}

static void sleep_on_all(struct plait_spinner *spinner, long ns)
{
    sleep_a_while(spinner, ns);
    announce(&spinner->doorbells);
}

static void idle(struct plait_spinner *spinner, uint32_t spins)
{
    if (spinner->turns++ < spins) {
        plait_pause();
        return;
    }
    tick(spinner, plait_clock());
    const bool works = plait_idle();
    if (spinner->sleepy && !works)
        sleep_on_all(spinner, PLAIT_SLEEP_NS);
    else
        sched_yield();
}

void plait_progress_until(bool (*over)(void *self), void (*interrupt)(void *self), void *self, uint32_t spins)
{
    struct plait_spinner spinner = { .turns = 0 };

    if (over(self))
        return;
    const uint32_t environment = plait_fpenv_enter(); /* idling uses floating point for times */
    atomic_fetch_add(&drivers, 1);
    while (!over(self))
        if (plait_progress())
            plait_spinner_reset(&spinner);
        else if (spinner.turns > spins && plait_interrupted())
            interrupt(self);
        else
            idle(&spinner, spins);
    atomic_fetch_sub(&drivers, 1);
    plait_fpenv_leave(environment);
}

/* ---- The thread -------------------------------------------------------------------------------------- */

static pthread_mutex_t thread_lock = PTHREAD_MUTEX_INITIALIZER; /* taken before any other lock */
static pthread_t thread;
static unsigned nstart;
static atomic_bool stop;

/*
 * Idle beside threads that may compute. On an idle processor a yield returns at once, and polling reacts sooner than a
 * sleeper wakes. On a busy one a yield costs a time slice, while a sleeper runs soon after it is woken. A yield that
 * returns late shows a busy processor. Sleeps without progress get longer: a turn takes some 20 us from computation.
 */
static void idle_with_others(struct plait_spinner *spinner, uint32_t *crowded)
{
    const double now = plait_clock();

    tick(spinner, now);
    if (*crowded == 0 && !spinner->sleepy) {
        sched_yield();
        if (plait_clock() - now > LATE)
            *crowded = PLAIT_CROWDED_SLEEPS;
        return;
    }
    *crowded -= spinner->announced && *crowded > 0;
    sleep_on_all(spinner, PLAIT_SLEEP_NS << (spinner->sleeps < DOUBLINGS ? spinner->sleeps : DOUBLINGS));
}

/*
 * Ask for short time slices: beside computing threads this one then keeps its share and runs sooner once woken. Else a
 * link that needs this thread stands still for another thread's slice, 3 ms. Needs Linux 6.12; older ones ignore it.
 */
static void take_short_turns(void)
{
    struct { /* the kernel's sched_attr; glibc lacks it */
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attr = { .size = sizeof attr };

    if (syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0) != 0 || attr.policy != SCHED_OTHER)
        return;
    attr.runtime = TURN_NS;
    syscall(SYS_sched_setattr, 0, &attr, 0);
}

static void *run_thread(void *arg)
{
    struct plait_spinner spinner = { .turns = 0 };
    uint32_t crowded = 0; /* sleeps left before it yields again */

    (void)arg;
    take_short_turns();
    while (!atomic_load_explicit(&stop, memory_order_relaxed))
        if (atomic_load_explicit(&drivers, memory_order_relaxed) > 0)
            usleep(REST_US);
        else if ((spinner.sleeps > 1 ? plait_progress_rarely()
                                     : plait_progress())) /* after long sleeps, probe at once */
            plait_spinner_reset(&spinner);
        else
            idle_with_others(&spinner, &crowded);
    return NULL;
}

enum plait_status plait_progress_thread_start(void)
{
    int error = 0;

    pthread_mutex_lock(&thread_lock);
    if (nstart++ == 0) {
        atomic_store(&stop, false);
        error = plait_thread_start(&thread, run_thread, NULL);
        nstart -= error != 0;
    }
    pthread_mutex_unlock(&thread_lock);
    return error == 0 ? PLAIT_OK : plait_fail_errno(error, "cannot start the progress thread");
}

void plait_progress_thread_stop(void)
{
    pthread_mutex_lock(&thread_lock);
    if (--nstart == 0) {
        atomic_store(&stop, true);
        plait_progress_wake();
        pthread_join(thread, NULL);
    }
    pthread_mutex_unlock(&thread_lock);
}

/* The child has neither the thread nor the comms. */
static void forget_parent(void)
{
    first = NULL;
    nstart = 0;
    plait_nactive = 0;
    sleepers = drivers = 0;
}

const struct plait_fork_module plait_progress_fork = { .lock = &thread_lock,
                                                       .second = &list_lock,
                                                       .forget = forget_parent };

/* ---- Waiting for other ranks ------------------------------------------------------------------------------------- */

#define PROBE_EVERY 8 /* turns after the spin between probes */

/* Sleep on the doorbells of the awaited ranks, and of the process's other pending operations. */
static void doze(struct plait_comm *comm, struct plait_wait *w)
{
    struct plait_spinner *s = &w->spinner;
    uint32_t ranks[PLAIT_DOORBELLS];

    comm->stats.sleeps += s->announced;
    sleep_a_while(s, PLAIT_SLEEP_NS);
    plait_doorbells_announce(&s->doorbells, comm, ranks, plait_detector_awaited(&w->detector, ranks, PLAIT_DOORBELLS));
    announce(&s->doorbells);
}

static enum plait_status long_turn(struct plait_comm *comm, struct plait_wait *w)
{
    struct plait_spinner *s = &w->spinner;
    bool moved = plait_progress(); /* the awaited rank may wait for another comm of this process */

    if (s->turns < plait_spins(comm)) {
        s->turns++;
        plait_pause();
        return PLAIT_OK;
    }
    if (s->turns++ % PROBE_EVERY == 0 || s->sleepy) {
        const double now = plait_clock();
        const enum plait_status status = plait_detector_probe(comm, &w->detector, now);
        if (status != PLAIT_OK)
            return status;
        if (plait_interrupted())
            return plait_comm_fail(comm, PLAIT_ERR_FAILED, PLAIT_INTERRUPTED);
        tick(s, now);
        moved |= plait_idle();
    }
    if (s->sleepy && !moved) {
        doze(comm, w);
    } else {
        comm->stats.yields++;
        sched_yield();
    }
    return PLAIT_OK;
}

enum plait_status plait_wait_long(struct plait_comm *comm, struct plait_wait *w)
{
    const int saved = errno; /* probes must not change the caller's errno */
    const enum plait_status status = long_turn(comm, w);

    errno = saved;
    return status;
}

enum plait_status plait_wait_poll(struct plait_comm *comm, struct plait_wait *w, bool moved, bool rarely)
{
    const int saved = errno;
    enum plait_status status = PLAIT_OK;

    if (moved)
        plait_wait_progress(comm, w);
    else if (rarely || (w->spinner.turns++ >= plait_spins(comm) && w->spinner.turns % PROBE_EVERY == 0))
        status = plait_detector_probe(comm, &w->detector, plait_clock());
    errno = saved;
    return status;
}
