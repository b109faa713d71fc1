/* SPDX-License-Identifier: BSD-3-Clause */
#include "doorbells.h"
#include "port.h"

#include "base/clock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

#define BITS_32 2 /* flag of futex_waitv() */

void plait_doorbells_ring(_Atomic uint32_t *doorbell)
{
    atomic_fetch_add_explicit(doorbell, 1, memory_order_seq_cst);
    syscall(SYS_futex, doorbell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void plait_ring(struct plait_comm *comm)
{
    plait_doorbells_ring(&comm->own->doorbell);
    atomic_fetch_add_explicit(&comm->wakes, 1, memory_order_relaxed);
}

void plait_doorbells_add(struct plait_doorbells *doorbells, const _Atomic uint32_t *doorbell)
{
    if (doorbells->n == PLAIT_DOORBELLS)
        return;
    doorbells->at[doorbells->n].address = (uintptr_t)doorbell;
    doorbells->at[doorbells->n].flags = BITS_32;
    doorbells->at[doorbells->n].reserved = 0;
    doorbells->at[doorbells->n++].value = atomic_load(doorbell);
}

/* A network without a descriptor to sleep on is polled. */
static void add_network(struct plait_doorbells *doorbells, struct plait_port *port)
{
    const int fd = plait_port_descriptor(port);

    if (fd < 0 || doorbells->nnetwork == PLAIT_DOORBELLS_NETWORKS || !plait_port_arm(port))
        doorbells->awake = true;
    else
        doorbells->network[doorbells->nnetwork++] = (struct pollfd){ .fd = fd, .events = POLLIN };
}

void plait_doorbells_announce(struct plait_doorbells *doorbells, struct plait_comm *comm, const uint32_t *ranks,
                              uint32_t n)
{
    bool remote = false;

    atomic_store(&comm->own->asleep, 1);
    for (uint32_t i = 0; i < n; i++) {
        plait_doorbells_add(doorbells, &comm->peers[ranks[i]].control->doorbell);
        remote |= comm->port != NULL && plait_port_leads(comm->port, ranks[i]);
    }
    if (remote)
        add_network(doorbells, comm->port);
}

static atomic_bool one_futex_only; /* futex_waitv() is missing (Linux before 5.16) or forbidden: one futex only */

bool plait_doorbells_hear(const struct plait_doorbells *doorbells)
{
    return doorbells->n > 0 && doorbells->n < PLAIT_DOORBELLS && doorbells->nnetwork == 0 && !doorbells->awake &&
           (doorbells->n == 1 || !atomic_load_explicit(&one_futex_only, memory_order_relaxed));
}

void plait_doorbells_sleep(struct plait_doorbells *doorbells, long ns)
{
    const uint64_t end = plait_clock_ns() + (uint64_t)ns;
    const struct timespec most = { 0, ns }, until = { (time_t)(end / 1000000000), (long)(end % 1000000000) };
    const int saved = errno; /* a sleep that times out or is interrupted sets it */

    if (doorbells->n == 0 || doorbells->awake) {
        sched_yield();
    } else if (doorbells->nnetwork > 0) {
        ppoll(doorbells->network, doorbells->nnetwork, &most, NULL); /* with the signal mask unchanged */
    } else if (syscall(SYS_futex_waitv, doorbells->at, doorbells->n, 0, &until, CLOCK_MONOTONIC) < 0 &&
               (errno == ENOSYS || errno == EPERM)) {
        atomic_store_explicit(&one_futex_only, true, memory_order_relaxed);
        syscall(SYS_futex, doorbells->at[0].address, FUTEX_WAIT, (uint32_t)doorbells->at[0].value, &most, NULL, 0);
    }
    errno = saved;
}
