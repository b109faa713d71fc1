/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a device: a message of the host's says where the data lies, a flag of the device's when it is there.
 *
 * Both ranks put what they do on a queue: the sender gives the receiver's flag "arrived" and then offers a message with
 * the address; the receiver, when it has that message, takes the flag on its own queue, after which it may read. Its
 * release() gives the sender's flag "read" and releases the message; the sender takes that flag when it sees that. So
 * "sent" and "arrived" mean here: from this place of the queue on.
 *
 * Addresses of another process are mapped through a handle of their allocation, which the sender shows in its arena, and
 * stay mapped (lib/device_maps.h).
 */
#include "../lib/device_comm.h"
#include "../lib/device_maps.h"

#include <stdlib.h>
#include <string.h>

extern const struct plait_transport plait_transport_device;

struct device_link {
    struct plait_link link;
    struct plait_comm *comm;
    uint32_t peer;
    enum plait_channel channel;
    struct plait_link *inner;               /* NULL: the peer has not used its device yet */
    const struct plait_device_shown *shown; /* the peer's */
    bool one_process;
    uint64_t flags; /* the peer's, as they are here */
    struct plait_mapped *flags_mapped;
    bool unread[PLAIT_WINDOW];                /* offered, and the queue does not wait yet until it was read */
    struct plait_mapped *mapped[PLAIT_NLENT]; /* this link's shares */
    uint32_t nmapped;
};

struct letter { /* the message */
    uint64_t address, bytes;
    uint64_t lent; /* number of the allocation; 0: the address is good here */
    uint64_t base; /* of the allocation */
};
_Static_assert(sizeof(struct letter) <= PLAIT_POST_DATA, "travels in a line");

static struct device_link *device(const struct plait_link *link)
{
    return (struct device_link *)(uintptr_t)link;
}

static struct plait_link *device_connect(struct plait_comm *comm, uint32_t peer, enum plait_channel channel)
{
    struct device_link *l = channel >= PLAIT_NPOSTED && comm->peers[peer].process != NULL ? calloc(1, sizeof *l) : NULL;

    if (l == NULL)
        return NULL;
    l->comm = comm;
    l->peer = peer;
    l->channel = channel;
    l->one_process = comm->peers[peer].process->base == NULL;
    return &l->link;
}

static void device_disconnect(struct plait_link *link)
{
    struct device_link *l = device(link);

    if (l == NULL)
        return;
    plait_device_unmap(l->flags_mapped);
    for (uint32_t i = 0; i < l->nmapped; i++)
        plait_device_unmap(l->mapped[i]);
    if (l->inner != NULL)
        l->inner->transport->disconnect(l->inner);
    free(l);
}

/* What is on the comm's queues has happened. Of what goes into a graph nothing has begun. */
static void settle(const struct device_link *l)
{
    struct plait_queue *queue = plait_device_here(l->comm);

    if (queue != NULL && !l->comm->device->captures)
        plait_device_note(l->comm, l->comm->device->plugin->drain(queue));
}

/* All at once: it is not worth knowing which is the oldest. */
static bool make_room(struct device_link *l)
{
    if (l->comm->device->captured)
        plait_device_note(l->comm,
                          "graphs may use the 64 allocations of another process that are mapped: no other can be");
    else
        settle(l);
    for (; plait_device_works(l->comm) && l->nmapped > 0; l->nmapped--)
        plait_device_note(l->comm, plait_device_unmap(l->mapped[l->nmapped - 1]));
    return plait_device_works(l->comm);
}

/* What the peer's process has freed, as others have seen. */
static void forget_closed(struct device_link *l)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < l->nmapped; i++)
        if (atomic_load(&l->mapped[i]->closed))
            plait_device_unmap(l->mapped[i]);
        else
            l->mapped[n++] = l->mapped[i];
    l->nmapped = n;
}

static void note_unmapped(const struct device_link *l, const char *why)
{
    if (why != NULL && plait_device_works(l->comm))
        l->comm->device->unmapped = l->peer + 1;
    plait_device_note(l->comm, why);
}

/* What the peer has shown under this number, unless something else has taken its place. */
static const char *read_lent(const struct device_link *l, uint64_t number, struct plait_lent *out)
{
    const struct plait_lent *lent = &l->shown->lent[number % PLAIT_NLENT];
    const bool before = atomic_load_explicit(&lent->number, memory_order_acquire) == number;

    out->id = lent->id;
    out->base = lent->base;
    out->bytes = lent->bytes;
    out->handle = lent->handle;
    atomic_thread_fence(memory_order_acquire);
    if (before && atomic_load_explicit(&lent->number, memory_order_relaxed) == number)
        return NULL;
    return "another process has given memory of more than 64 allocations at the same time: give it in fewer, or one "
           "after "
           "the other";
}

/* NULL, and a note: it cannot be mapped. */
static struct plait_mapped *share(const struct device_link *l, const struct plait_lent *lent)
{
    const struct plait_device_comm *d = l->comm->device;
    const struct plait_mappable what = { d->plugin, l->comm->peers[l->peer].process->token, d->device, lent };
    struct plait_mapped *m = NULL;

    if (plait_device_is_taken(&what))
        settle(l);
    if (plait_device_works(l->comm))
        note_unmapped(l, plait_device_map(&what, &m));
    return m;
}

/* Where the peer's allocation is here; NULL, and a note. */
static char *map(struct device_link *l, uint64_t number)
{
    struct plait_lent lent;
    struct plait_mapped *const *m = l->mapped;
    const char *why = read_lent(l, number, &lent);

    for (uint32_t i = 0; why == NULL && i < l->nmapped; i++)
        if (m[i]->id == lent.id && m[i]->base == lent.base && !atomic_load(&m[i]->closed))
            return m[i]->at;
    plait_device_note(l->comm, why);
    if (why != NULL)
        return NULL;
    forget_closed(l);
    if (l->nmapped == PLAIT_NLENT && !make_room(l))
        return NULL;
    struct plait_mapped *new = share(l, &lent);
    if (new == NULL)
        return NULL;
    l->mapped[l->nmapped++] = new;
    return new->at;
}

/* Where the peer's flags are, once it has some. */
static bool find_flags(struct device_link *l)
{
    const struct plait_device_comm *d = l->comm->device;

    if (l->one_process) {
        plait_device_note(l->comm, d->plugin->reach(d->device, (int)l->shown->device));
        l->flags = l->shown->flags;
        return true;
    }
    l->flags_mapped = share(l, &l->shown->flags_lent);
    if (l->flags_mapped != NULL)
        l->flags = (uintptr_t)l->flags_mapped->at + (l->shown->flags - l->shown->flags_lent.base);
    return l->flags_mapped != NULL;
}

static bool is_there(struct device_link *l)
{
    const struct plait_peer *p = &l->comm->peers[l->peer];
    const struct plait_arena *arena;

    if (l->inner != NULL)
        return true;
    const uint64_t at = atomic_load_explicit(&p->control->device, memory_order_acquire);
    if (at == 0 || plait_arena_get(0, &arena) != PLAIT_OK)
        return false;
    l->shown = (const void *)((l->one_process ? arena->base : p->process->base) + at);
    if (!find_flags(l))
        return false;
    l->inner = plait_connect_behind(&plait_transport_device, l->comm, l->peer, l->channel);
    return l->inner != NULL;
}

static bool device_reaches(const struct plait_link *link, const void *data, size_t bytes, bool land)
{
    const struct device_link *l = device(link);
    const char *why;
    uint64_t base;

    (void)land;
    return l->one_process || bytes == 0 || plait_device_lend(l->comm, data, &base, &why) > 0;
}

static bool device_ready(const struct plait_link *link, uint32_t number)
{
    struct device_link *l = device(link);
    return is_there(l) && !l->unread[number % PLAIT_WINDOW] && l->inner->transport->ready(l->inner, number);
}

static uint64_t own_flag(const struct device_link *l, int which, uint32_t number)
{
    return plait_flag((uintptr_t)l->comm->device->flags, l->comm->nrank, l->channel, l->peer, which, number);
}

static void give(struct device_link *l, int which, uint32_t number)
{
    const uint64_t flag = plait_flag(l->flags, l->comm->nrank, l->channel, l->comm->rank, which, number);
    struct plait_queue *queue = plait_device_here(l->comm);

    if (l->flags_mapped != NULL && atomic_load(&l->flags_mapped->closed))
        plait_device_note(l->comm, "another process has freed what its comm had on a GPU");
    else if (queue != NULL)
        plait_device_note(l->comm, l->comm->device->plugin->give(queue, flag));
}

static void take(struct device_link *l, int which, uint32_t number)
{
    struct plait_queue *queue = plait_device_here(l->comm);

    if (queue != NULL)
        plait_device_note(l->comm, l->comm->device->plugin->take(queue, own_flag(l, which, number)));
}

static bool device_offer(struct plait_link *link, uint32_t number, uint32_t fingerprint, uint64_t note,
                         const void *data, size_t bytes, bool copy)
{
    struct device_link *l = device(link);
    struct letter letter = { .address = (uintptr_t)data, .bytes = bytes };
    const char *why = NULL;

    (void)copy;
    if (!l->one_process && bytes > 0)
        letter.lent = plait_device_lend(l->comm, data, &letter.base, &why);
    plait_device_note(l->comm, why);
    give(l, PLAIT_FLAG_ARRIVED, number);
    if (!plait_device_works(l->comm)) /* the peer must not wait for what was not given */
        return false;
    l->inner->transport->offer(l->inner, number, fingerprint, note, &letter, sizeof letter, true);
    l->unread[number % PLAIT_WINDOW] = true;
    return false;
}

static bool device_sent(const struct plait_link *link, uint32_t number)
{
    struct device_link *l = device(link);

    if (l->inner == NULL || !l->inner->transport->sent(l->inner, number))
        return false;
    if (l->unread[number % PLAIT_WINDOW])
        take(l, PLAIT_FLAG_READ, number);
    l->unread[number % PLAIT_WINDOW] = false;
    return true;
}

static const void *device_arrived(struct plait_link *link, uint32_t number, uint32_t fingerprint, void *landing,
                                  size_t *bytes)
{
    struct device_link *l = device(link);
    size_t size = sizeof(struct letter);
    const struct letter *letter =
        is_there(l) ? l->inner->transport->arrived(l->inner, number, fingerprint, NULL, &size) : NULL;
    const char *data;

    (void)landing;
    if (letter == NULL)
        return NULL;
    const bool wrong = letter->bytes != *bytes;
    *bytes = letter->bytes;
    data = (const char *)(uintptr_t)letter->address;
    if (!wrong && letter->lent > 0) {
        const char *at = map(l, letter->lent);
        if (at == NULL)
            return NULL;
        data = at + (letter->address - letter->base);
    }
    if (!wrong)
        take(l, PLAIT_FLAG_ARRIVED, number);
    return data != NULL ? data : (const void *)letter; /* an empty one has an address too */
}

static void device_release(struct plait_link *link, uint32_t number)
{
    struct device_link *l = device(link);

    give(l, PLAIT_FLAG_READ, number);
    if (plait_device_works(l->comm))
        l->inner->transport->release(l->inner, number);
}

static bool device_peek(const struct plait_link *link, uint32_t number, uint32_t *fingerprint, uint64_t *note)
{
    struct device_link *l = device(link);
    return is_there(l) && l->inner->transport->peek(l->inner, number, fingerprint, note);
}

const struct plait_transport plait_transport_device = {
    .name = "device",
    .connect = device_connect,
    .disconnect = device_disconnect,
    .reaches = device_reaches,
    .ready = device_ready,
    .offer = device_offer,
    .sent = device_sent,
    .arrived = device_arrived,
    .release = device_release,
    .peek = device_peek,
};
