/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device memory between hosts: through pinned staging buffers of both hosts and the network that connects them.
 *
 *     sender      its queue copies the data to a staging buffer; the completed buffer is offered to the network
 *     receiver    the network lands the message in a staging buffer, which the queue reads; an event follows the read
 *
 * If the network itself reads and writes device memory, long messages need no staging buffer, at each end
 * independently. The sender offers the data when earlier operations of its queue have completed. The receiver lands it
 * in place when earlier operations of its queue have completed.
 *
 * The engine and the message queues see the same as with transports/device.c. The next operation on the queue may read
 * a message that has "arrived", and may write memory that was "sent". But here the host takes part in each message, so
 * a call lasts until the data has gone and come. Nothing on a queue ever waits for another host: streams pass whatever
 * happens there. For the same reason these messages cannot be in a graph.
 *
 * An event follows each use of a staging buffer by a queue. Events of sent messages are recorded in the order of the
 * offers, so only the first one that is not done is queried. A receive buffer is free again when the next message of
 * its slot is asked for.
 */
#include "../lib/comm/port.h"
#include "../lib/device/device_comm.h"

#include <stdlib.h>
#include <string.h>

#define LEAST_DIRECT ((size_t)16 << 10) /* bytes; the network would copy shorter messages too */

extern const struct plait_transport plait_transport_staged;

struct slot {
    enum {
        FREE,
        COPIED, /* to the staging buffer, once its event is done */
        SENT,   /* offered to the network */
        AHEAD,  /* operations before its event still use the landing */
        COMING,
        HERE,
        READ /* once its event is done */
    } state;
    uint32_t number, fingerprint;
    uint64_t header_word;
    size_t bytes;
    void *direct;                      /* device memory that the network reads or writes itself; NULL: staged */
    struct plait_device_memory *stage; /* NULL: the message is empty or direct */
    struct plait_event *event;         /* made at the first use */
};

struct staged_link {
    struct plait_link link;
    struct plait_comm *comm;
    struct plait_link *inner;
    bool direct; /* the network needs no staging buffers */
    struct slot out[PLAIT_WINDOW], in[PLAIT_WINDOW];
    struct slot *copied[PLAIT_WINDOW]; /* slots of `out` in state COPIED, in the order of the offers */
    uint32_t first, end;
};

static struct staged_link *staged(const struct plait_link *link)
{
    return (struct staged_link *)(uintptr_t)link;
}

static struct plait_link *staged_connect(struct plait_comm *comm, uint32_t peer, enum plait_channel channel)
{
    const bool leads = channel >= PLAIT_NMAILBOX && comm->peers[peer].process == NULL;
    struct staged_link *l = leads ? calloc(1, sizeof *l) : NULL;

    if (l == NULL)
        return NULL;
    l->comm = comm;
    for (uint32_t i = 0; i < PLAIT_WINDOW; i++)
        l->out[i].number = i - PLAIT_WINDOW; /* as if one window had been sent */
    l->inner = plait_connect_behind(&plait_transport_staged, comm, peer, channel);
    if (l->inner == NULL) {
        free(l);
        return NULL;
    }
    l->direct = plait_port_takes_devices(comm->port);
    return &l->link;
}

/* Staging buffers belong to the comm: the network may still read them. */
static void staged_disconnect(struct plait_link *link)
{
    struct staged_link *l = staged(link);

    if (l == NULL)
        return;
    for (uint32_t i = 0; l->comm->device != NULL && i < PLAIT_WINDOW; i++) {
        l->comm->device->plugin->destroy_event(l->out[i].event);
        l->comm->device->plugin->destroy_event(l->in[i].event);
    }
    l->inner->transport->disconnect(l->inner);
    free(l);
}

static bool staged_reaches(const struct plait_link *link, const void *data, size_t bytes, bool land)
{
    (void)link, (void)data, (void)bytes, (void)land;
    return true;
}

/* ---- Events ---------------------------------------------------------------------------------------------- */

/* Put *copy, if any, on the queue and then the slot's event. */
static bool put(struct staged_link *l, struct slot *s, const struct plait_copy *copy)
{
    struct plait_device_comm *d = l->comm->device;
    struct plait_queue *queue = plait_device_queue(l->comm);

    if (queue != NULL && s->event == NULL)
        plait_device_note(l->comm, d->plugin->create_event(d->device, &s->event));
    if (plait_device_works(l->comm) && copy != NULL)
        plait_device_note(l->comm, d->plugin->copies(queue, copy, 1));
    if (plait_device_works(l->comm))
        plait_device_note(l->comm, d->plugin->record_event(queue, s->event));
    return plait_device_works(l->comm);
}

static bool has_passed(struct staged_link *l, const struct slot *s)
{
    bool passed = false;

    if (plait_device_works(l->comm))
        plait_device_note(l->comm, l->comm->device->plugin->event_done(s->event, &passed));
    return passed && plait_device_works(l->comm);
}

/* ---- Sending -------------------------------------------------------------------------------------------- */

static void advance(struct staged_link *l)
{
    for (; l->first != l->end && has_passed(l, l->copied[l->first % PLAIT_WINDOW]); l->first++) {
        struct slot *s = l->copied[l->first % PLAIT_WINDOW];
        const void *data = s->stage != NULL ? s->stage->memory : s->direct;
        plait_net_set_device(l->inner, s->direct != NULL);
        l->inner->transport->offer(l->inner, s->number, s->fingerprint, s->header_word, data, s->bytes, false);
        s->state = SENT;
        l->comm->device->nstaging--;
    }
}

static bool is_free(const struct staged_link *l, struct slot *s)
{
    if (s->state != SENT || !l->inner->transport->sent(l->inner, s->number))
        return s->state == FREE;
    plait_device_unstage(s->stage);
    s->stage = NULL;
    s->state = FREE;
    return true;
}

static bool staged_ready(const struct plait_link *link, uint32_t number)
{
    struct staged_link *l = staged(link);

    advance(l);
    return is_free(l, &l->out[number % PLAIT_WINDOW]) && l->inner->transport->ready(l->inner, number);
}

static bool staged_offer(struct plait_link *link, uint32_t number, uint32_t fingerprint, uint64_t header_word,
                         const void *data, size_t bytes, bool take)
{
    struct staged_link *l = staged(link);
    struct slot *s = &l->out[number % PLAIT_WINDOW];

    (void)take;
    s->number = number;
    s->fingerprint = fingerprint;
    s->header_word = header_word;
    s->bytes = bytes;
    s->direct = l->direct && bytes >= LEAST_DIRECT ? (void *)(uintptr_t)data : NULL;
    const bool stages = bytes > 0 && s->direct == NULL;
    s->stage = stages ? plait_device_stage(l->comm, bytes) : NULL;
    if (stages && s->stage == NULL)
        return false;
    const struct plait_copy copy = { stages ? s->stage->memory : NULL, data, bytes };
    if (!put(l, s, stages ? &copy : NULL))
        return false;
    s->state = COPIED;
    l->copied[l->end++ % PLAIT_WINDOW] = s;
    l->comm->device->nstaging++;
    l->comm->stats.bytes_staged += stages ? bytes : 0;
    return false;
}

/* A message older than the slot's last one has been sent: the slot was free for the last one. */
static bool staged_sent(const struct plait_link *link, uint32_t number)
{
    struct staged_link *l = staged(link);
    struct slot *s = &l->out[number % PLAIT_WINDOW];

    advance(l);
    return (int32_t)(s->number - number) > 0 || (s->number == number && is_free(l, s));
}

/* ---- Receiving ------------------------------------------------------------------------------------------ */

/* Has a message come for this slot, and is there room for it? */
static bool begin(struct staged_link *l, struct slot *s, uint32_t number, uint32_t fingerprint, void *landing,
                  size_t bytes)
{
    uint32_t print;
    uint64_t header_word;

    if (s->state == READ && has_passed(l, s)) {
        plait_device_unstage(s->stage);
        s->stage = NULL;
        s->state = FREE;
    }
    if (s->state != FREE || !l->inner->transport->peek(l->inner, number, &print, &header_word) || print != fingerprint)
        return false;
    s->direct = l->direct && bytes >= LEAST_DIRECT ? landing : NULL;
    if (s->direct != NULL ? !put(l, s, NULL) : bytes > 0 && (s->stage = plait_device_stage(l->comm, bytes)) == NULL)
        return false;
    s->number = number;
    s->bytes = bytes;
    s->state = s->direct != NULL ? AHEAD : COMING;
    return true;
}

/* Keep a message that must not stay where it is in a staging buffer. */
static const void *keep(struct staged_link *l, struct slot *s, const void *data)
{
    if (s->stage == NULL && (s->stage = plait_device_stage(l->comm, s->bytes)) == NULL)
        return NULL;
    if (data != s->stage->memory)
        memcpy(s->stage->memory, data, s->bytes);
    l->comm->stats.bytes_staged += s->bytes;
    return s->stage->memory;
}

static const void *staged_arrived(struct plait_link *link, uint32_t number, uint32_t fingerprint, void *landing,
                                  size_t *bytes)
{
    struct staged_link *l = staged(link);
    struct slot *s = &l->in[number % PLAIT_WINDOW];
    size_t sent = *bytes;

    if (s->state < AHEAD || s->state == READ)
        if (!begin(l, s, number, fingerprint, landing, *bytes))
            return NULL;
    if (s->number != number) /* that message cannot arrive before this one, a window earlier, is released */
        return NULL;
    if (s->state == HERE)
        return s->stage != NULL ? s->stage->memory : s->direct;
    if (s->state == AHEAD && !has_passed(l, s))
        return NULL;
    s->state = COMING;
    plait_net_set_device(l->inner, s->direct != NULL);
    const void *data = l->inner->transport->arrived(l->inner, number, fingerprint,
                                                    s->stage != NULL ? s->stage->memory : s->direct, &sent);
    if (data == NULL || sent != *bytes || sent == 0) { /* an empty message has an address too */
        *bytes = sent;
        return data;
    }
    if (data != s->direct)
        data = keep(l, s, data);
    s->state = data != NULL ? HERE : COMING;
    return data;
}

static void staged_release(struct plait_link *link, uint32_t number)
{
    struct staged_link *l = staged(link);
    struct slot *s = &l->in[number % PLAIT_WINDOW];

    l->inner->transport->release(l->inner, number);
    s->state = s->stage != NULL && put(l, s, NULL) ? READ : FREE;
}

static bool staged_peek(const struct plait_link *link, uint32_t number, uint32_t *fingerprint, uint64_t *header_word)
{
    const struct plait_link *inner = staged(link)->inner;
    return inner->transport->peek(inner, number, fingerprint, header_word);
}

static const char *staged_broken(const struct plait_link *link)
{
    const struct plait_link *inner = staged(link)->inner;
    return inner->transport->broken != NULL ? inner->transport->broken(inner) : NULL;
}

const struct plait_transport plait_transport_staged = {
    .name = "staged",
    .connect = staged_connect,
    .disconnect = staged_disconnect,
    .reaches = staged_reaches,
    .ready = staged_ready,
    .offer = staged_offer,
    .sent = staged_sent,
    .arrived = staged_arrived,
    .release = staged_release,
    .peek = staged_peek,
    .broken = staged_broken,
};
