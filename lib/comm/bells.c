/* SPDX-License-Identifier: BSD-3-Clause */
#include "bells.h"
#include "port.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

struct waitv { /* struct futex_waitv, which older kernel headers lack */
    uint64_t value, address;
    uint32_t flags, reserved;
};

void plait_bells_ring(_Atomic uint32_t *bell)
{
    atomic_fetch_add_explicit(bell, 1, memory_order_seq_cst);
    syscall(SYS_futex, bell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void plait_ring(struct plait_comm *comm)
{
    plait_bells_ring(&comm->own->bell);
    atomic_fetch_add_explicit(&comm->wakes, 1, memory_order_relaxed);
}

void plait_bells_add(struct plait_bells *bells, const _Atomic uint32_t *bell)
{
    if (bells->n == PLAIT_BELLS)
        return;
    bells->at[bells->n].bell = bell;
    bells->at[bells->n++].value = atomic_load(bell);
}

/* One that cannot be slept on is polled. */
static void add_network(struct plait_bells *bells, struct plait_port *port)
{
    const int fd = plait_port_descriptor(port);

    if (fd < 0 || bells->nnetwork == PLAIT_BELLS_NETWORKS || !plait_port_arm(port))
        bells->awake = true;
    else
        bells->network[bells->nnetwork++] = fd;
}

void plait_bells_announce(struct plait_bells *bells, struct plait_comm *comm, const uint32_t *ranks, uint32_t n)
{
    bool far = false;

    atomic_store(&comm->own->asleep, 1);
    for (uint32_t i = 0; i < n; i++) {
        plait_bells_add(bells, &comm->peers[ranks[i]].control->bell);
        far |= comm->port != NULL && plait_port_leads(comm->port, ranks[i]);
    }
    if (far)
        add_network(bells, comm->port);
}

static atomic_bool hears_one; /* the kernel has no futex_waitv(): before 5.16, or forbidden */

bool plait_bells_hear(const struct plait_bells *bells)
{
    return bells->n > 0 && bells->n < PLAIT_BELLS && bells->nnetwork == 0 && !bells->awake &&
           (bells->n == 1 || !atomic_load_explicit(&hears_one, memory_order_relaxed));
}

/* With all signals as they are. */
static void sleep_on_networks(const struct plait_bells *bells, long ns)
{
    const struct timespec most = { 0, ns };
    struct pollfd fds[PLAIT_BELLS_NETWORKS];

    for (uint32_t i = 0; i < bells->nnetwork; i++)
        fds[i] = (struct pollfd){ .fd = bells->network[i], .events = POLLIN };
    ppoll(fds, bells->nnetwork, &most, NULL);
}

void plait_bells_sleep(const struct plait_bells *bells, long ns)
{
    struct waitv list[PLAIT_BELLS];
    const struct timespec most = { 0, ns };
    struct timespec until;
    const int saved = errno; /* sleeps end with errors that are none */

    if (bells->n == 0 || bells->awake) {
        sched_yield();
        return;
    }
    if (bells->nnetwork > 0) {
        sleep_on_networks(bells, ns);
        errno = saved;
        return;
    }
    for (uint32_t i = 0; i < bells->n; i++)
        list[i] = (struct waitv){ bells->at[i].value, (uintptr_t)bells->at[i].bell, 2 /* 32 bits */, 0 };
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ns;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    if (syscall(SYS_futex_waitv, list, bells->n, 0, &until, CLOCK_MONOTONIC) < 0 &&
        (errno == ENOSYS || errno == EPERM)) {
        atomic_store_explicit(&hears_one, true, memory_order_relaxed);
        syscall(SYS_futex, bells->at[0].bell, FUTEX_WAIT, bells->at[0].value, &most, NULL, 0);
    }
    errno = saved;
}
