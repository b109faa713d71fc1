/* SPDX-License-Identifier: BSD-3-Clause */
/* Internals shared by links over a network (net.c) and their ports (port.c). */
#ifndef PLAIT_TRANSPORTS_NET_LINK_H
#define PLAIT_TRANSPORTS_NET_LINK_H

#include "../lib/comm/port.h"

enum kind { MESSAGE, ACKNOWLEDGEMENT };

struct header {
    uint64_t comm, header_word;
    uint32_t number, fingerprint;
    uint32_t source, to;
    uint32_t nreleased; /* messages of the other direction that are released; */
    uint16_t flips;     /* one bit per slot: is the number of releases of this slot odd? */
    uint8_t channel, kind;
};
_Static_assert(sizeof(struct header) == PLAIT_NET_HEADER, "what a network carries");
_Static_assert(PLAIT_WINDOW <= 16, "a bit of `flips` each");

struct outgoing {
    struct header header;
    enum plait_net_state state;
    char few[PLAIT_MAILBOX_DATA];
};

struct room { /* a landing buffer of the port */
    struct room *next;
    size_t bytes;
    void *memory;
};

enum stage { EMPTY, ASKED, COMING, HERE }; /* ASKED: the data lies with its sender; HERE: readable */

struct incoming {
    enum stage stage;
    uint32_t number; /* of the message that is here, or comes next */
    uint32_t fingerprint;
    uint64_t header_word;
    const void *data;
    size_t bytes;
    void *held;        /* by the network, until release() */
    struct room *room; /* the data is in this buffer; NULL: in `held` or in the caller's landing */
    enum plait_net_state state;
};

struct net_link {
    struct plait_link link;
    struct plait_port *port;
    uint32_t peer;
    enum plait_channel channel;
    bool device; /* the link carries device memory */
    struct outgoing out[PLAIT_WINDOW];
    uint32_t ntaken; /* releases by the peer, as its last header said */
    uint16_t taken;
    struct incoming in[PLAIT_WINDOW];
    uint32_t nreleased; /* as in the header */
    uint16_t released;
    uint32_t owed; /* releases that the peer has not been told of */
    struct header ack;
    enum plait_net_state ack_state;
};

struct connection { /* the connection to a rank */
    void *address;
    size_t bytes;
    struct plait_net_endpoint *endpoint;
    struct net_link *link[PLAIT_NCHANNEL];
    bool heard;       /* a message or acknowledgement has come from it */
    char broken[256]; /* why no message can pass; "": the connection works */
};

struct plait_port {
    const struct plait_net_plugin *plugin;
    struct plait_net *net;
    struct plait_comm *comm;
    struct room *rooms; /* free landing buffers */
    uint32_t quiet;     /* turns without an arrival */
    uint32_t nowing;    /* links that owe acknowledgements */
    bool warned, looked;
    struct connection connections[]; /* [nrank] */
};

/* Do these bits say that this message, and every earlier one of its slot, has been released? */
static inline bool is_released(uint16_t flips, uint32_t number)
{
    return (flips >> number % PLAIT_WINDOW & 1) == ((number / PLAIT_WINDOW + 1) & 1);
}

/* The arrive() callback of a network; the context is the port. */
void plait_net_arrive(void *context, const struct plait_net_arrival *a);

/* Acknowledge all releases that the other ranks have not been told of. */
void plait_net_acknowledge(struct plait_port *port);

void plait_net_free_room(struct room *r); /* NULL is allowed */

#endif
