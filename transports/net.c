/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links over a network (lib/plugin/net.h): numbered messages that may arrive in any order.
 *
 * Message `number` of a link has slot `number % PLAIT_WINDOW` at both ends. A slot is reused after the receiver has
 * released its message, so at most one window of messages is on the way or held. Every header in the other direction
 * acknowledges releases: it has one bit for each slot, which flips with each release of that slot, and the total number
 * of releases. If no message goes that way, a header alone carries the acknowledgement. Headers may overtake each
 * other; one with an older total is ignored.
 *
 * Small data lies in the network's memory until release(). Large data stays with the sender until the receiver asks for
 * the message (rendezvous). The receiver then fetches it into its landing, or, to read it in place, into a buffer of
 * the port, which keeps the buffer for later messages. A message with another fingerprint or size is not fetched.
 *
 * A message may come before its link is connected here: the first message from a rank creates the link's state. The
 * window bounds the number of waiting messages. A message for another comm or rank is dropped and logged. A message
 * beyond the window is dropped and breaks the link.
 */
#include "net_link.h"
#include "slow.h"

#include "../lib/failure/failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ACK_AFTER  (PLAIT_WINDOW / 2) /* releases not yet acknowledged */
#define LEAST_ROOM 4096               /* bytes of the smallest landing buffer of a port */

static struct net_link *net(const struct plait_link *link)
{
    return (struct net_link *)(uintptr_t)link;
}

static struct connection *connection_of(const struct net_link *l)
{
    return &l->port->connections[l->peer];
}

__attribute__((format(printf, 2, 3))) static void break_connection(struct connection *to, const char *format, ...)
{
    va_list args;

    if (to->broken[0] != '\0')
        return;
    va_start(args, format);
    vsnprintf(to->broken, sizeof to->broken, format, args);
    va_end(args);
}

/* ---- Acknowledgements ----------------------------------------------------------------------------------- */

static void read_acknowledgement(struct net_link *l, const struct header *h)
{
    if ((int32_t)(h->nreleased - l->ntaken) <= 0)
        return;
    l->ntaken = h->nreleased;
    l->taken = h->flips;
}

static void write_acknowledgement(struct net_link *l, struct header *h)
{
    h->nreleased = l->nreleased;
    h->flips = l->released;
    l->port->nowing -= l->owed > 0;
    l->owed = 0;
}

static void address_header(const struct net_link *l, struct header *h, enum kind kind)
{
    h->comm = l->port->comm->id;
    h->source = l->port->comm->rank;
    h->to = l->peer;
    h->channel = (uint8_t)l->channel;
    h->kind = (uint8_t)kind;
}

static bool is_connected(struct net_link *l);

static void acknowledge(struct net_link *l)
{
    if (l->owed == 0 || l->ack_state == PLAIT_NET_BUSY || !is_connected(l))
        return;
    address_header(l, &l->ack, ACKNOWLEDGEMENT);
    write_acknowledgement(l, &l->ack);
    l->port->plugin->send(connection_of(l)->endpoint, &l->ack, NULL, 0, &l->ack_state);
}

void plait_net_acknowledge(struct plait_port *port)
{
    for (uint32_t i = 0; port->nowing > 0 && i < port->comm->nrank * PLAIT_NCHANNEL; i++) {
        struct net_link *l = port->connections[i / PLAIT_NCHANNEL].link[i % PLAIT_NCHANNEL];
        if (l != NULL)
            acknowledge(l);
    }
}

/* ---- Links ---------------------------------------------------------------------------------------------- */

static struct net_link *link_of(struct plait_port *port, uint32_t peer, enum plait_channel channel)
{
    struct net_link **place = &port->connections[peer].link[channel], *l = *place;

    if (l != NULL)
        return l;
    l = *place = calloc(1, sizeof *l);
    if (l == NULL)
        return NULL;
    port->comm->stats.allocations++;
    l->port = port;
    l->peer = peer;
    l->channel = channel;
    for (uint32_t i = 0; i < PLAIT_WINDOW; i++) {
        l->out[i].header.number = i - PLAIT_WINDOW; /* as if one window had been sent and released */
        l->in[i].number = i;
    }
    return l;
}

/* Describing takes time. The first connection of a port is enough to see whether a network device is missing. */
static void check_device(struct plait_port *port, uint32_t peer)
{
    char route[256];

    if (port->looked)
        return;
    port->looked = true;
    plait_port_describe(port, peer, route, sizeof route);
    plait_warn_of_device(route);
}

/* Endpoints are made at the first use. A rank that cannot be reached stays unreachable. */
static bool is_connected(struct net_link *l)
{
    struct connection *to = connection_of(l);
    char why[sizeof to->broken];

    if (to->endpoint != NULL || to->broken[0] != '\0')
        return to->endpoint != NULL;
    if (to->address == NULL)
        break_connection(to, "its network address is not known here");
    else if ((to->endpoint = l->port->plugin->connect(l->port->net, to->address, to->bytes, why, sizeof why)) == NULL)
        break_connection(to, "%s", why);
    if (to->endpoint != NULL)
        check_device(l->port, l->peer);
    return to->endpoint != NULL;
}

/* Both ends connect at once: the network may need both ends to make progress. */
static struct plait_link *net_connect(struct plait_comm *comm, uint32_t peer, enum plait_channel channel)
{
    struct net_link *l;

    if (comm->port == NULL || !plait_port_leads(comm->port, peer))
        return NULL;
    l = link_of(comm->port, peer, channel);
    if (l == NULL)
        return NULL;
    is_connected(l);
    return &l->link;
}

/* The port owns the links and the messages on the way. */
static void net_disconnect(struct plait_link *link)
{
    (void)link;
}

void plait_net_set_device(struct plait_link *link, bool device)
{
    net(link)->device = device;
}

static const char *net_broken(const struct plait_link *link)
{
    const struct connection *to = connection_of(net(link));

    if (to->broken[0] != '\0')
        return to->broken;
    return to->endpoint != NULL ? net(link)->port->plugin->failed(to->endpoint) : NULL;
}

/* ---- Sending -------------------------------------------------------------------------------------------- */

static bool net_reaches(const struct plait_link *link, const void *data, size_t bytes, bool land)
{
    (void)link, (void)data, (void)bytes, (void)land;
    return true;
}

static bool net_ready(const struct plait_link *link, uint32_t number)
{
    const struct net_link *l = net(link);
    const struct outgoing *o = &l->out[number % PLAIT_WINDOW];

    return o->header.number == number - PLAIT_WINDOW && o->state != PLAIT_NET_BUSY &&
           is_released(l->taken, o->header.number);
}

static bool net_offer(struct plait_link *link, uint32_t number, uint32_t fingerprint, uint64_t header_word,
                      const void *data, size_t bytes, bool take)
{
    struct net_link *l = net(link);
    struct outgoing *o = &l->out[number % PLAIT_WINDOW];

    o->header.number = number;
    o->header.fingerprint = fingerprint;
    o->header.header_word = header_word;
    address_header(l, &o->header, MESSAGE);
    write_acknowledgement(l, &o->header);
    if (take && bytes > 0 && bytes <= sizeof o->few) {
        memcpy(o->few, data, bytes);
        data = o->few;
    }
    if (is_connected(l))
        (l->device ? l->port->plugin->send_device : l->port->plugin->send)(connection_of(l)->endpoint, &o->header, data,
                                                                           bytes, &o->state);
    else
        o->state = PLAIT_NET_FAILED;
    return take && o->state != PLAIT_NET_BUSY; /* a message that has not gone yet needs more turns */
}

/* A message older than the slot's last one has been sent: the slot was free for the last one. */
static bool net_sent(const struct plait_link *link, uint32_t number)
{
    const struct outgoing *o = &net(link)->out[number % PLAIT_WINDOW];
    const int32_t later = (int32_t)(o->header.number - number);

    return later > 0 || (later == 0 && o->state != PLAIT_NET_BUSY);
}

/* ---- Landing buffers of the port ------------------------------------------------------------------------ */

static struct room *take_room(struct plait_port *port, size_t bytes)
{
    struct room **place, *r;

    for (place = &port->rooms; (r = *place) != NULL; place = &r->next)
        if (r->bytes >= bytes) {
            *place = r->next;
            return r;
        }
    size_t size = LEAST_ROOM;
    while (size < bytes)
        size *= 2;
    r = calloc(1, sizeof *r);
    if (r == NULL || (r->memory = aligned_alloc(PLAIT_LINE, size)) == NULL) {
        free(r);
        return NULL;
    }
    port->comm->stats.allocations++;
    r->bytes = size;
    return r;
}

static void give_room(struct plait_port *port, struct room *r)
{
    if (r == NULL)
        return;
    r->next = port->rooms;
    port->rooms = r;
}

void plait_net_free_room(struct room *r)
{
    if (r != NULL)
        free(r->memory);
    free(r);
}

/* ---- Receiving ------------------------------------------------------------------------------------------ */

static void warn_of_stranger(struct plait_port *port, const struct header *h)
{
    if (!port->warned)
        plait_comm_log(
            port->comm, PLAIT_LOG_WARN,
            "a message of comm %016llx from rank %u to rank %u came to rank %u of comm %016llx and was dropped, "
            "as will be more of its kind",
            (unsigned long long)h->comm, h->source, h->to, port->comm->rank, (unsigned long long)port->comm->id);
    port->warned = true;
}

static bool is_for(const struct plait_port *port, const struct header *h)
{
    return h->comm == port->comm->id && h->to == port->comm->rank && h->source < port->comm->nrank &&
           h->channel < PLAIT_NCHANNEL && h->kind <= ACKNOWLEDGEMENT;
}

/* Put a message into its slot, which the sender knows to be free for this number. */
static bool put(struct net_link *l, const struct header *h, const struct plait_net_arrival *a)
{
    struct incoming *in = &l->in[h->number % PLAIT_WINDOW];

    if (in->stage != EMPTY || h->number != in->number) {
        break_connection(connection_of(l), "it sent message %u, which is not its turn", h->number);
        return false;
    }
    in->stage = a->data != NULL ? HERE : ASKED;
    in->fingerprint = h->fingerprint;
    in->header_word = h->header_word;
    in->data = a->data;
    in->bytes = a->bytes;
    in->held = a->held;
    return true;
}

void plait_net_arrive(void *context, const struct plait_net_arrival *a)
{
    struct plait_port *port = context;
    struct header h;
    struct net_link *l = NULL;

    memcpy(&h, a->header, sizeof h);
    port->quiet = 0;
    if (!is_for(port, &h))
        warn_of_stranger(port, &h);
    else if ((l = link_of(port, h.source, (enum plait_channel)h.channel)) == NULL)
        break_connection(&port->connections[h.source], "out of memory for its messages");
    if (l != NULL) {
        port->connections[h.source].heard = true;
        read_acknowledgement(l, &h);
    }
    if (l == NULL || h.kind == ACKNOWLEDGEMENT || !put(l, &h, a))
        port->plugin->release(port->net, a->held);
}

/* False: the fetch cannot be started. */
static bool start_fetch(struct net_link *l, struct incoming *in, void *landing)
{
    if (landing == NULL) {
        in->room = take_room(l->port, in->bytes);
        if (in->room == NULL) {
            break_connection(connection_of(l), "out of memory for a message of %zu bytes", in->bytes);
            return false;
        }
        landing = in->room->memory;
    }
    in->data = landing;
    in->stage = COMING;
    (l->device ? l->port->plugin->fetch_device : l->port->plugin->fetch)(l->port->net, in->held, landing, in->bytes,
                                                                         &in->state);
    in->held = NULL;
    return true;
}

static const void *net_arrived(struct plait_link *link, uint32_t number, uint32_t fingerprint, void *landing,
                               size_t *bytes)
{
    struct net_link *l = net(link);
    struct incoming *in = &l->in[number % PLAIT_WINDOW];

    if (in->stage == EMPTY || in->number != number || in->fingerprint != fingerprint)
        return NULL;
    if (in->bytes != *bytes) {
        *bytes = in->bytes;
        return in; /* only the size is told */
    }
    if (in->stage == ASKED && !start_fetch(l, in, landing))
        return NULL;
    if (in->stage == COMING && in->state == PLAIT_NET_DONE)
        in->stage = HERE;
    else if (in->stage == COMING && in->state == PLAIT_NET_FAILED)
        break_connection(connection_of(l), "message %u was lost on its way", number);
    return in->stage == HERE ? in->data : NULL;
}

static void net_release(struct plait_link *link, uint32_t number)
{
    struct net_link *l = net(link);
    struct incoming *in = &l->in[number % PLAIT_WINDOW];

    if (in->held != NULL)
        l->port->plugin->release(l->port->net, in->held);
    give_room(l->port, in->room);
    *in = (struct incoming){ .stage = EMPTY, .number = number + PLAIT_WINDOW };
    l->released ^= (uint16_t)(1u << number % PLAIT_WINDOW);
    l->nreleased++;
    l->port->nowing += l->owed == 0;
    if (++l->owed >= ACK_AFTER)
        acknowledge(l);
}

static bool net_peek(const struct plait_link *link, uint32_t number, uint32_t *fingerprint, uint64_t *header_word)
{
    const struct incoming *in = &net(link)->in[number % PLAIT_WINDOW];

    if (in->stage == EMPTY || in->number != number)
        return false;
    *fingerprint = in->fingerprint;
    *header_word = in->header_word;
    return true;
}

const struct plait_transport plait_transport_net = {
    .name = "net",
    .connect = net_connect,
    .disconnect = net_disconnect,
    .reaches = net_reaches,
    .ready = net_ready,
    .offer = net_offer,
    .sent = net_sent,
    .arrived = net_arrived,
    .release = net_release,
    .peek = net_peek,
    .broken = net_broken,
};
