/* SPDX-License-Identifier: BSD-3-Clause */
#include "call.h"

#include "comm/port.h"
#include "p2p/message.h"

static bool turn(struct plait_comm *comm, bool rarely)
{
    const uint32_t environment = plait_fpenv_enter();
    enum plait_status status = PLAIT_OK;
    bool moved = comm->owner != NULL && comm->owner->turn(comm->owner->object, rarely);

    plait_network_turn(comm);
    moved |= plait_requests_turn(comm, rarely);
    moved |= plait_messages_turn(comm, rarely);
    /* Without a collective in progress no wait for a rank may probe for failures. */
    if (!moved && !plait_requests_run(comm))
        status = plait_probe_failures(comm);
    if (status != PLAIT_OK)
        plait_requests_fail(comm, status);
    moved |= status != PLAIT_OK;
    plait_fpenv_leave(environment);
    if (moved && atomic_load_explicit(&comm->own->asleep, memory_order_relaxed))
        plait_awake(comm);
    plait_requests_notify(comm);
    return moved;
}

static uint32_t awaited(const struct plait_comm *comm, uint32_t *ranks, uint32_t most)
{
    const uint32_t n = plait_requests_awaited(comm, ranks, most);

    return n + plait_messages_awaited(comm, ranks + n, most - n);
}

const struct plait_drive plait_drive = { turn, awaited, plait_message_begin, plait_messages_fail };
