/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm.h"

#include "base/status.h"

enum plait_status plait_comm_is_closed(const struct plait_comm *comm, const char *call)
{
    if (!plait_comm_inherited(comm))
        return plait_fail(PLAIT_ERR_ARG, "%s: the comm is %s", call,
                          comm->finalized   ? "finalized; only plait_comm_destroy() is left"
                          : comm->suspended ? "suspended; call plait_comm_resume() first"
                                            : "not created yet; ask plait_comm_status()");
    return plait_fail(PLAIT_ERR_ARG,
                      "%s: comm '%s' belongs to rank %u in another process, of which this is a forked child; create a "
                      "comm in the child",
                      call, comm->name, comm->rank);
}

enum plait_status plait_comm_is_inside(const struct plait_comm *comm, const char *call)
{
    const char *inside = atomic_load_explicit(&comm->inside, memory_order_relaxed);

    return inside == NULL
               ? PLAIT_OK
               : plait_fail(PLAIT_ERR_ARG,
                            "%s: comm '%s' is used by another thread, which is in %s: one thread at a time, or "
                            "a comm for each",
                            call, comm->name, inside);
}

uint32_t plait_comm_rank(const struct plait_comm *comm)
{
    return comm != NULL ? comm->rank : 0;
}

uint32_t plait_comm_nrank(const struct plait_comm *comm)
{
    return comm != NULL ? comm->nrank : 0;
}

bool plait_comm_lock_counters(const struct plait_comm *comm)
{
    return pthread_mutex_lock((pthread_mutex_t *)(uintptr_t)&comm->lock) == 0;
}

void plait_comm_unlock_counters(const struct plait_comm *comm, bool locked)
{
    if (locked)
        pthread_mutex_unlock((pthread_mutex_t *)(uintptr_t)&comm->lock);
}
