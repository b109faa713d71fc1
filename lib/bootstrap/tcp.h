/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rendezvous over TCP. Rank 0 listens on the addresses of the id, on the first free one of its ports. The others try
 * all addresses and ports until one gives the right answer (handshake.h).
 *
 * Anybody can connect, so rank 0 never waits for one connection. It talks to PLAIT_MOST_CLIENTS clients at a time. Each
 * client has CLIENT_LIMIT seconds to send a fixed number of bytes. When more connect, the oldest is evicted. A rank
 * that was evicted connects again: a rank counts only once rank 0 has acknowledged it.
 */
#ifndef PLAIT_LIB_BOOTSTRAP_TCP_H
#define PLAIT_LIB_BOOTSTRAP_TCP_H

#include "handshake.h"
#include "id.h"
#include "place.h"

#define PLAIT_MOST_CLIENTS 32
#define PLAIT_MOST_SOURCES 32  /* hosts whose refused connections are counted apart */
#define PLAIT_TAKEN        'T' /* rank 0's acknowledgement of a claim */

/* A client's next message, and why it may be refused. */
enum plait_client_state { PLAIT_CLIENT_HAILS, PLAIT_CLIENT_CLAIMS, PLAIT_CLIENT_EXPLAINS };
enum plait_refusal {
    PLAIT_REFUSED_NOTHING,  /* it left without a word */
    PLAIT_REFUSED_STRANGER, /* it speaks another protocol */
    PLAIT_REFUSED_LEFT,     /* it left after rank 0's answer */
    PLAIT_REFUSED_SECRET,   /* its claim is wrong */
    PLAIT_REFUSED_SLOW,
    PLAIT_REFUSED_CROWD, /* it was evicted to make room */
};

/* A client that has not yet proved to be a rank. */
struct plait_client {
    int fd; /* -1: none */
    enum plait_client_state state;
    double since;
    size_t got; /* bytes received of its next message */
    union plait_address from;
    struct plait_hail hail;
    struct plait_answer answer;
    struct plait_tcp_claim claim;
    char text[sizeof((struct plait_error *)0)->text];
};

/* Read the bytes that have arrived. PLAIT_IN_PROGRESS: more are to come; PLAIT_OK: a rank; else *why it is refused. */
enum plait_status plait_client_advance(struct plait_client *client, const unsigned char *secret,
                                       enum plait_refusal *why);

struct plait_source { /* a host from which clients came */
    union plait_address from;
    unsigned refused, taken;
    enum plait_refusal worst; /* the most suspicious reason; see count_refusal() */
};

struct plait_tcp_place {
    struct plait_place place;
    struct plait_tcp_id id;
    int listeners[PLAIT_MOST_ADDRESSES], timer;
    unsigned nlistener, nguest, nsource;
    bool full;            /* all ports of the id are in use */
    bool closed;          /* for a moment: no room for more clients */
    unsigned unspecified; /* connections refused from hosts beyond `sources` */
    struct plait_client clients[PLAIT_MOST_CLIENTS];
    struct plait_source sources[PLAIT_MOST_SOURCES];
};

/* PLAIT_ERR_UNSUPPORTED: this build has no libsodium. */
enum plait_status plait_tcp_place_init(struct plait_tcp_place *place, const struct plait_tcp_id *id);

/* The place's join(). */
enum plait_status plait_tcp_join(const struct plait_tcp_id *id, const struct plait_bootstrap *b,
                                 const struct plait_error *verdict, double until, int *out);

/* Does a rank 0 with the id's secret answer at this address? Waits for at most `seconds`. */
bool plait_tcp_answers(const struct plait_tcp_id *id, const union plait_address *address, double seconds);

#endif
