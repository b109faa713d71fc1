/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device memory of ranks on one host: a host message carries the data's address, a device flag says that the data is
 * there.
 *
 * Both ranks put operations on a queue. The sender sets the receiver's flag "arrived", then offers a message with the
 * address: when the flag is on the queue (plait_device_notify()). The receiver gets that message and waits for the flag
 * on its own queue; later operations of that queue may read. release() sets the sender's flag "read" and releases the
 * message; the sender sees the release and waits for that flag. So "sent" and "arrived" mean here: from this place of
 * the queue on.
 *
 * Addresses of another process are mapped through a handle of their allocation, which the message carries.
 * The mappings are kept (mapped.h).
 */
#include "../lib/device/device_comm.h"
#include "../lib/device/device_whole.h"
#include "mapped.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_MAPPED 64 /* mappings that no graph uses */

enum { OFFERED, COME }; /* messages to the peer, and from it */

extern const struct plait_transport plait_transport_device;

struct device_link {
    struct plait_link link;
    struct plait_comm *comm;
    uint32_t peer;
    enum plait_channel channel;
    struct plait_link *inner;               /* NULL: the peer has not used its device yet */
    const struct plait_device_shown *shown; /* the peer's */
    bool one_process;
    uint64_t flags; /* the peer's, at their address in this process */
    struct plait_mapped *flags_mapped;
    bool unread[PLAIT_WINDOW]; /* offered; the queue does not wait yet for the receiver's read */
    struct offer {
        uint32_t fingerprint;
        uint64_t header_word;
        struct letter { /* the content of the message */
            uint64_t bytes;
            uint64_t captured; /* 1: the sender's operation is part of a graph */
            struct place {
                uint64_t address;
                struct plait_exported memory; /* the allocation; id 0: the address is valid here */
            } places[2]; /* of the data; of an operation made as a whole (device_whole.h): IN, OUT */
        } letter;
    } offers[PLAIT_WINDOW];            /* that no one has heard of yet */
    bool captured[2][PLAIT_WINDOW];    /* [OFFERED, COME]: the message goes into a graph */
    struct plait_exported exported[2]; /* the allocations of the latest message */
    struct plait_mapped **held;        /* [nheld], of `room`: allocations of the peer's process */
    uint32_t nheld, room;
};

_Static_assert(sizeof(struct letter) <= PLAIT_MAILBOX_DATA, "travels in a line");

static struct device_link *device(const struct plait_link *link)
{
    return (struct device_link *)(uintptr_t)link;
}

static struct plait_link *device_connect(struct plait_comm *comm, uint32_t peer, enum plait_channel channel)
{
    struct device_link *l =
        channel >= PLAIT_NMAILBOX && comm->peers[peer].process != NULL ? calloc(1, sizeof *l) : NULL;

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
    for (uint32_t i = 0; i < l->nheld; i++)
        plait_device_unmap(l->held[i]);
    free(l->held);
    if (l->inner != NULL)
        l->inner->transport->disconnect(l->inner);
    free(l);
}

/* Wait until the operations on the comm's queues have completed. Operations of a capture have not begun. */
static void settle(const struct device_link *l)
{
    struct plait_queue *queue = plait_device_queue(l->comm);

    if (queue != NULL && l->comm->device->capture == 0)
        plait_device_note(l->comm, l->comm->device->plugin->drain(queue));
}

static bool is_closed(const struct plait_mapped *m)
{
    return atomic_load(&m->closed);
}

static bool is_free(const struct plait_mapped *m)
{
    return !m->captured;
}

static uint32_t count(const struct device_link *l, bool (*which)(const struct plait_mapped *))
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < l->nheld; i++)
        n += which(l->held[i]);
    return n;
}

static void drop(struct device_link *l, bool (*which)(const struct plait_mapped *))
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < l->nheld; i++)
        if (which(l->held[i]))
            plait_device_note(l->comm, plait_device_unmap(l->held[i]));
        else
            l->held[n++] = l->held[i];
    l->nheld = n;
}

/*
 * Make room for one more mapping. Mappings whose memory the peer's process has freed go first. If MOST_MAPPED or more
 * are used by no graph, all of these go at once: finding the oldest one is not worth the effort. A graph's mappings
 * stay until the comm is left, as nobody tells when the graph is destroyed.
 */
static bool make_room(struct device_link *l)
{
    drop(l, is_closed);
    if (l->comm->device->capture == 0 && count(l, is_free) >= MOST_MAPPED) {
        settle(l);
        if (plait_device_works(l->comm))
            drop(l, is_free);
    }
    if (plait_device_works(l->comm) && l->nheld == l->room) {
        const uint32_t room = l->room > 0 ? 2 * l->room : MOST_MAPPED;
        struct plait_mapped **more = realloc(l->held, room * sizeof *more);
        plait_device_note(l->comm, more == NULL ? "out of memory for what another process has exported" : NULL);
        l->held = more != NULL ? more : l->held;
        l->room = more != NULL ? room : l->room;
    }
    return plait_device_works(l->comm);
}

static void note_unmapped(const struct device_link *l, const char *why)
{
    if (why != NULL && plait_device_works(l->comm))
        l->comm->device->unmapped = l->peer + 1;
    plait_device_note(l->comm, why);
}

/* NULL: the allocation cannot be mapped, which is noted. */
static struct plait_mapped *map_new(const struct device_link *l, const struct plait_exported *memory)
{
    const struct plait_device_comm *d = l->comm->device;
    const struct plait_mapped wanted = {
        .plugin = d->plugin,
        .process = l->comm->peers[l->peer].process->token,
        .device = d->device,
        .memory = *memory,
        .captured = d->capture != 0,
    };
    struct plait_mapped *m = NULL;

    if (plait_device_is_taken(&wanted))
        settle(l);
    if (plait_device_works(l->comm))
        note_unmapped(l, plait_device_map(&wanted, &m));
    return m;
}

/* The address of the peer's allocation in this process; NULL: an error, which is noted. */
static char *map(struct device_link *l, const struct plait_exported *memory)
{
    for (uint32_t i = 0; i < l->nheld; i++) {
        struct plait_mapped *m = l->held[i];
        if (!plait_is_same_export(&m->memory, memory) || is_closed(m))
            continue;
        m->captured |= l->comm->device->capture != 0;
        return m->at;
    }
    struct plait_mapped *new = make_room(l) ? map_new(l, memory) : NULL;
    if (new == NULL)
        return NULL;
    l->held[l->nheld++] = new;
    return new->at;
}

/* Find the peer's flags, once the peer has some. */
static bool find_flags(struct device_link *l)
{
    const struct plait_device_comm *d = l->comm->device;

    if (l->one_process) {
        plait_device_note(l->comm, d->plugin->enable_peer(d->device, (int)l->shown->device));
        l->flags = l->shown->flags;
        return true;
    }
    l->flags_mapped = map_new(l, &l->shown->flags_exported);
    if (l->flags_mapped != NULL)
        l->flags = (uintptr_t)l->flags_mapped->at + (l->shown->flags - l->shown->flags_exported.base);
    return l->flags_mapped != NULL;
}

static bool has_left(const struct device_link *l)
{
    return atomic_load(&l->comm->peers[l->peer].control->quiet) != 0;
}

/*
 * A rank that leaves a failed comm first sets `quiet`, then waits for the ranks whose device state it sees. So this
 * rank shows its state before it reads the peer's `quiet`.
 */
static bool is_there(struct device_link *l)
{
    if (l->inner != NULL)
        return true;
    l->shown = plait_device_shown_by(l->comm, l->peer);
    if (l->shown == NULL || has_left(l) || !find_flags(l))
        return false;
    l->inner = plait_connect_behind(&plait_transport_device, l->comm, l->peer, l->channel);
    return l->inner != NULL;
}

static bool device_reaches(const struct plait_link *link, const void *data, size_t bytes, bool land)
{
    struct device_link *l = device(link);

    (void)land;
    return l->one_process || bytes == 0 || l->comm->device->plugin->export_memory(data, &l->exported[0]) == NULL;
}

static bool device_ready(const struct plait_link *link, uint32_t number)
{
    struct device_link *l = device(link);
    return is_there(l) && !has_left(l) && !l->unread[number % PLAIT_WINDOW] &&
           l->inner->transport->ready(l->inner, number);
}

/*
 * May this rank set the peer's flag? The flag is counted first: a peer that leaves waits for counted flags before it
 * frees its flags.
 */
static bool may_set(const struct device_link *l)
{
    const struct plait_device_comm *d = l->comm->device;
    char text[64];

    atomic_fetch_add(plait_device_flags_set(d->shown, l->comm->nrank, l->peer), 1);
    if (l->flags_mapped != NULL && atomic_load(&l->flags_mapped->closed)) {
        plait_device_note(l->comm, "another process has freed what its comm had on a GPU");
    } else if (has_left(l) && atomic_load(&l->comm->peers[l->peer].control->failed) == PLAIT_OK) {
        snprintf(text, sizeof text, "rank %u has left the comm", l->peer);
        plait_device_note(l->comm, text);
    }
    return plait_device_works(l->comm);
}

/* Set ARRIVED for a message that this rank has offered, READ for one that it has received. */
static void set_flag(struct device_link *l, enum plait_flag which, uint32_t number)
{
    const bool captured = l->captured[which == PLAIT_FLAG_READ ? COME : OFFERED][number % PLAIT_WINDOW];
    const uint64_t flag = plait_flag(l->flags, l->comm->nrank, l->channel, l->comm->rank, captured, which, number);

    if (plait_device_works(l->comm) && may_set(l))
        plait_device_signal(l->comm, PLAIT_SIGNAL_SET, flag, 1);
}

/* Wait for ARRIVED for a message that this rank receives, READ for one that it has offered. */
static void wait_flag(struct device_link *l, enum plait_flag which, uint32_t number)
{
    const struct plait_device_comm *d = l->comm->device;
    const bool captured = l->captured[which == PLAIT_FLAG_ARRIVED ? COME : OFFERED][number % PLAIT_WINDOW];
    const uint64_t flag = plait_flag((uintptr_t)d->flags, l->comm->nrank, l->channel, l->peer, captured, which, number);

    d->flags_awaited[l->peer] += plait_device_works(l->comm);
    plait_device_signal(l->comm, PLAIT_SIGNAL_AWAIT, flag, 1);
}

static void send_offer(struct plait_link *link, uint32_t number)
{
    struct device_link *l = device(link);
    const struct offer *o = &l->offers[number % PLAIT_WINDOW];

    l->inner->transport->offer(l->inner, number, o->fingerprint, o->header_word, &o->letter, sizeof o->letter, true);
}

static void send_letter(struct device_link *l, uint32_t number, uint32_t fingerprint, uint64_t header_word,
                        struct letter *letter)
{
    const bool captures = l->comm->device->capture != 0;

    letter->captured = captures;
    l->offers[number % PLAIT_WINDOW] = (struct offer){ fingerprint, header_word, *letter };
    l->captured[OFFERED][number % PLAIT_WINDOW] = captures;
    l->unread[number % PLAIT_WINDOW] = true;
    set_flag(l, PLAIT_FLAG_ARRIVED, number);
    plait_device_notify(l->comm, &(struct plait_notification){ &l->link, number, send_offer });
}

static bool device_offer(struct plait_link *link, uint32_t number, uint32_t fingerprint, uint64_t header_word,
                         const void *data, size_t bytes, bool copy)
{
    struct device_link *l = device(link);
    struct letter letter = { .bytes = bytes, .places[0].address = (uintptr_t)data };

    (void)copy;
    if (!l->one_process && bytes > 0) {
        plait_device_note(l->comm, l->comm->device->plugin->export_memory(data, &l->exported[0]));
        letter.places[0].memory = l->exported[0];
    }
    send_letter(l, number, fingerprint, header_word, &letter);
    return false;
}

void plait_device_offer_operands(struct plait_link *link, uint32_t number, uint32_t fingerprint,
                                 const struct plait_operands *own)
{
    struct device_link *l = device(link);
    struct letter letter = { .places = { { .address = (uintptr_t)own->in }, { .address = (uintptr_t)own->out } } };

    for (int i = 0; i < 2 && !l->one_process; i++)
        if (letter.places[i].address != 0)
            letter.places[i].memory = l->exported[i];
    send_letter(l, number, fingerprint, 0, &letter);
}

bool plait_device_shows(struct plait_link *link, uint32_t operand, const void *memory)
{
    struct device_link *l = device(link);

    return l->one_process || l->comm->device->plugin->export_memory(memory, &l->exported[operand]) == NULL;
}

static bool device_sent(const struct plait_link *link, uint32_t number)
{
    struct device_link *l = device(link);

    if (l->inner == NULL || !l->inner->transport->sent(l->inner, number))
        return false;
    if (l->unread[number % PLAIT_WINDOW])
        wait_flag(l, PLAIT_FLAG_READ, number);
    l->unread[number % PLAIT_WINDOW] = false;
    return true;
}

static const char part_of_a_graph_there[] =
    "another rank's stream is being captured, and this one's is not: an operation is "
    "part of a graph on all its ranks or on none";
static const char part_of_a_graph_here[] =
    "the stream is being captured, and another rank's is not: an operation is part of a "
    "graph on all its ranks or on none";

/* NULL: it has not arrived, or cannot be taken, which is noted. */
static const struct letter *take_letter(struct device_link *l, uint32_t number, uint32_t fingerprint)
{
    size_t size = sizeof(struct letter);
    const struct letter *letter =
        is_there(l) ? l->inner->transport->arrived(l->inner, number, fingerprint, NULL, &size) : NULL;

    if (letter == NULL)
        return NULL;
    if (letter->captured != (l->comm->device->capture != 0)) {
        plait_device_note_as(l->comm, PLAIT_ERR_MISMATCH,
                             letter->captured ? part_of_a_graph_there : part_of_a_graph_here);
        return NULL;
    }
    l->captured[COME][number % PLAIT_WINDOW] = letter->captured;
    return letter;
}

/* The address of a place in this process. False: it cannot be mapped, which is noted. */
static bool find_place(struct device_link *l, const struct place *place, char **out)
{
    const char *at = place->memory.id > 0 ? map(l, &place->memory) : NULL;

    *out =
        at != NULL ? (char *)(uintptr_t)at + (place->address - place->memory.base) : (char *)(uintptr_t)place->address;
    return at != NULL || place->memory.id == 0;
}

static const void *device_arrived(struct plait_link *link, uint32_t number, uint32_t fingerprint, void *landing,
                                  size_t *bytes)
{
    struct device_link *l = device(link);
    const struct letter *letter = take_letter(l, number, fingerprint);
    char *data;

    (void)landing;
    if (letter == NULL)
        return NULL;
    const bool wrong = letter->bytes != *bytes;
    *bytes = letter->bytes;
    if (wrong)
        return letter;
    if (!find_place(l, &letter->places[0], &data))
        return NULL;
    wait_flag(l, PLAIT_FLAG_ARRIVED, number);
    return data != NULL ? data : (const void *)letter; /* an empty message has an address too */
}

bool plait_device_take_operands(struct plait_link *link, uint32_t number, uint32_t fingerprint,
                                struct plait_operands *out)
{
    struct device_link *l = device(link);
    const struct letter *letter = take_letter(l, number, fingerprint);
    char *in;

    if (letter == NULL || !find_place(l, &letter->places[0], &in) || !find_place(l, &letter->places[1], &out->out))
        return false;
    out->in = in;
    return true;
}

void plait_device_await(struct plait_link *link, uint32_t number)
{
    wait_flag(device(link), PLAIT_FLAG_ARRIVED, number);
}

static void send_release(struct plait_link *link, uint32_t number)
{
    struct plait_link *inner = device(link)->inner;

    inner->transport->release(inner, number);
}

static void device_release(struct plait_link *link, uint32_t number)
{
    set_flag(device(link), PLAIT_FLAG_READ, number);
    plait_device_notify(device(link)->comm, &(struct plait_notification){ link, number, send_release });
}

static bool device_peek(const struct plait_link *link, uint32_t number, uint32_t *fingerprint, uint64_t *header_word)
{
    struct device_link *l = device(link);
    return is_there(l) && l->inner->transport->peek(l->inner, number, fingerprint, header_word);
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
