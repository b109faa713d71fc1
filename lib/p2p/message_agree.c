/* SPDX-License-Identifier: BSD-3-Clause */
#include "message.h"

#include "failure/failure.h"

enum { TYPE = 56, DEVICE = 55, NUMBER = 48, NUMBERS = 128 }; /* bit positions; NUMBERS > messages on the way */

#define COUNT (((uint64_t)1 << NUMBER) - 1)
_Static_assert(PLAIT_MOST_BYTES <= COUNT && NUMBERS > PLAIT_WINDOW && NUMBER + 7 == DEVICE, "a note has room");

uint64_t plait_message_note(const struct plait_message *m)
{
    return (uint64_t)m->type << TYPE | (uint64_t)!m->space->host << DEVICE | m->number % NUMBERS << NUMBER | m->count;
}

/* Fibonacci hashing (Knuth 6.4): similar header words get different fingerprints. */
uint32_t plait_message_print(const struct plait_message *m)
{
    return (uint32_t)(plait_message_note(m) * 0x9e3779b97f4a7c15 >> 32);
}

struct side { /* the arguments of one rank */
    uint32_t rank;
    uint64_t count;
    enum plait_dtype type;
    bool device;
};

static enum plait_status say(struct plait_comm *comm, uint32_t culprit, uint64_t number, struct side from,
                             struct side to)
{
    static const char *const memory[] = { " of the host's memory", " of a GPU's memory" };
    const bool kinds = from.device != to.device;

    return plait_comm_blame(
        comm, PLAIT_ERR_MISMATCH, culprit,
        "message #%llu from rank %u to rank %u: rank %u sends %llu %s%s, rank %u receives %llu %s%s",
        (unsigned long long)number + 1, from.rank, to.rank, from.rank, (unsigned long long)from.count,
        plait_dtype_name(from.type), kinds ? memory[from.device] : "", to.rank, (unsigned long long)to.count,
        plait_dtype_name(to.type), kinds ? memory[to.device] : "");
}

static struct side own_side(const struct plait_comm *comm, const struct plait_message *m)
{
    return (struct side){ comm->rank, m->count, m->type, !m->space->host };
}

enum plait_status plait_message_differs(struct plait_comm *comm, const struct plait_message *m, uint64_t note)
{
    const struct side from = { m->peer, note & COUNT, (enum plait_dtype)(note >> TYPE), (note >> DEVICE & 1) != 0 };

    return say(comm, m->peer, m->number, from, own_side(comm, m));
}

/* Can this rank see the peer's messages from device memory? Those from another host are visible to every rank. */
static bool shows_device(const struct plait_comm *comm, uint32_t peer)
{
    return comm->device != NULL || comm->peers[peer].replica != NULL;
}

enum plait_status plait_message_look_in(struct plait_comm *comm, const struct plait_message *m)
{
    static const enum plait_channel channels[] = { PLAIT_CHANNEL_MESSAGES, PLAIT_CHANNEL_DEVICE_MESSAGES };

    for (unsigned device = 0; device < 2; device++) {
        const bool own = device == !m->space->host;
        const struct plait_link *link =
            own || device == 0 || shows_device(comm, m->peer) ? plait_connect(comm, m->peer, channels[device]) : NULL;
        uint32_t print;
        uint64_t note;
        if (link == NULL || !link->transport->peek(link, link->next_in, &print, &note))
            continue;
        /* The other channel may hold a later message. */
        if (own ? print != plait_message_print(m) : (note >> NUMBER) % NUMBERS == m->number % NUMBERS)
            return plait_message_differs(comm, m, note);
    }
    return PLAIT_OK;
}

/* A rank sets control->device before it shows a receive into device memory: 0 after the read means host memory. */
enum plait_status plait_message_look_out(struct plait_comm *comm, const struct plait_message *m)
{
    const struct plait_control *c = comm->peers[m->peer].control;
    struct plait_operation o;

    if (!m->space->queued || atomic_load(&c->device) != 0 ||
        !plait_message_ring_receives(&c->messages, comm->rank, m->number + 1, &o) || atomic_load(&c->device) != 0)
        return PLAIT_OK;
    return say(comm, m->peer, m->number, own_side(comm, m),
               (struct side){ m->peer, o.what.count, (enum plait_dtype)o.what.type, false });
}
