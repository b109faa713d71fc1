/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A place on a network. Rank 0 listens on the addresses of the id, on the first of its ports that is free; the others
 * try all addresses and ports until one gives the right answer (handshake.h).
 *
 * Anybody can connect. So rank 0 never waits for one connection: it speaks with PLAIT_MOST_GUESTS at a time, each has
 * GUEST_LIMIT seconds and one fixed number of bytes to say, and when there are more the oldest makes room. A rank that
 * lost its place that way comes again: it counts as here only once rank 0 has acknowledged it.
 */
#ifndef PLAIT_LIB_BOOTSTRAP_TCP_H
#define PLAIT_LIB_BOOTSTRAP_TCP_H

#include "handshake.h"
#include "id.h"
#include "place.h"

#define PLAIT_MOST_GUESTS  32
#define PLAIT_MOST_SOURCES 32  /* hosts of strangers that are told apart */
#define PLAIT_TAKEN        'T' /* rank 0 to a rank whose claim it has */

/* What a guest is to say next, and why it may be sent away. */
enum plait_guest_state { PLAIT_GUEST_HAILS, PLAIT_GUEST_CLAIMS, PLAIT_GUEST_EXPLAINS };
enum plait_refusal {
    PLAIT_REFUSED_NOTHING,  /* it left without a word */
    PLAIT_REFUSED_STRANGER, /* it speaks something else */
    PLAIT_REFUSED_LEFT,     /* it left after rank 0's answer */
    PLAIT_REFUSED_SECRET,   /* its claim is wrong */
    PLAIT_REFUSED_SLOW,
    PLAIT_REFUSED_CROWD, /* it made room for another */
};

/* Somebody who has connected and not yet shown that it is a rank. */
struct plait_guest {
    int fd; /* -1: none */
    enum plait_guest_state state;
    double since;
    size_t got; /* bytes of what it is to say next */
    union plait_address from;
    struct plait_hail hail;
    struct plait_answer answer;
    struct plait_tcp_claim claim;
    char text[sizeof((struct plait_error *)0)->text];
};

/* Take in what has come. PLAIT_IN_PROGRESS: more is to come; PLAIT_OK: it is a rank; else *why it is none. */
enum plait_status plait_guest_advance(struct plait_guest *guest, const unsigned char *secret, enum plait_refusal *why);

struct plait_source { /* a host from which guests came */
    union plait_address from;
    unsigned refused, taken;
    enum plait_refusal worst; /* or the last of those that ranks may have, too */
};

struct plait_tcp_place {
    struct plait_place place;
    struct plait_tcp_id id;
    int listeners[PLAIT_MOST_ADDRESSES], timer;
    unsigned nlistener, nguest, nsource;
    bool full;            /* all ports of the id are in use */
    bool closed;          /* for a moment: no more guests */
    unsigned unspecified; /* refused, from more hosts than are told apart */
    struct plait_guest guests[PLAIT_MOST_GUESTS];
    struct plait_source sources[PLAIT_MOST_SOURCES];
};

/* PLAIT_ERR_UNSUPPORTED where this build cannot. */
enum plait_status plait_tcp_place_init(struct plait_tcp_place *place, const struct plait_tcp_id *id);

/* The join() of such a place. */
enum plait_status plait_tcp_join(const struct plait_tcp_id *id, const struct plait_bootstrap *b,
                                 const struct plait_error *verdict, double until, int *out);

/* Does somebody who has the secret answer at this address? Waits for at most `seconds`. */
bool plait_tcp_answers(const struct plait_tcp_id *id, const union plait_address *address, double seconds);

#endif
