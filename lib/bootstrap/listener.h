/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rank 0's listening sockets, Unix or TCP, and the clients that have connected and not yet joined as ranks.
 *
 * Any process can connect over TCP, and any of this user's on one machine. So rank 0 never waits for one connection: it
 * talks to PLAIT_MOST_CLIENTS at a time and gives each CLIENT_LIMIT seconds to send a fixed number of bytes. When more
 * connect, the oldest is evicted. A rank that was evicted connects again, since it counts only once rank 0 has
 * acknowledged it. Refused connections are counted for each address or process, and logged at the end.
 */
#ifndef PLAIT_LIB_BOOTSTRAP_LISTENER_H
#define PLAIT_LIB_BOOTSTRAP_LISTENER_H

#include "handshake.h"
#include "star.h"

#define PLAIT_MOST_CLIENTS 32
#define PLAIT_MOST_SOURCES 32 /* addresses and processes whose refused connections are counted apart */

struct plait_source { /* of connections */
    char from[PLAIT_ADDRESS_TEXT];
    unsigned refused, joined;
    enum plait_refusal worst; /* the most suspicious reason; see count_refusal() */
};

struct plait_listener {
    const unsigned char *secret; /* NULL: Unix sockets */
    int events;                  /* an epoll descriptor over all sockets; -1: not open, or one client at a time */
    int sockets[PLAIT_MOST_ADDRESSES];
    unsigned nsocket, nclient, nsource, uncounted; /* uncounted: refused connections beyond `sources` */
    bool paused;                                   /* no room for clients: new connections wait in the backlog */
    struct plait_client clients[PLAIT_MOST_CLIENTS];
    struct plait_source sources[PLAIT_MOST_SOURCES];
};

void plait_listener_init(struct plait_listener *l, const unsigned char *secret);

/* Get ready to add addresses; false with errno. */
bool plait_listener_open(struct plait_listener *l);

/* Listen at an address; false with errno. */
bool plait_listener_add(struct plait_listener *l, const struct sockaddr *address, socklen_t length);
void plait_listener_remove_all(struct plait_listener *l);

/* After the last address. With one address and only one more descriptor, that is for clients, one at a time. */
void plait_listener_spare(struct plait_listener *l);

/* Readable when take() is due. */
static inline int plait_listener_fd(const struct plait_listener *l)
{
    return l->events >= 0 ? l->events : l->sockets[0];
}

/*
 * Call this when plait_listener_fd() is readable, and every 0.1 s: accept connections, evict and refuse clients, take
 * one rank. *out is its socket; -1: none is ready. `request` and `verdict` are what the rank says.
 */
enum plait_status plait_listener_take(struct plait_listener *l, struct plait_join_request *request,
                                      struct plait_error *verdict, int *out);

/* Refuse the clients that have not joined. */
void plait_listener_drop_clients(struct plait_listener *l);

/* Refuse the clients, log the refusals, close the sockets. */
void plait_listener_close(struct plait_listener *l);

/* Add the refused connections to an error's text; nothing if there are none. */
void plait_listener_explain(const struct plait_listener *l, char *text, size_t size);

/* Is fd one of the listener's? */
bool plait_listener_has(const struct plait_listener *l, int fd);

/* Are its descriptors still the library's? */
enum plait_status plait_listener_check(const struct plait_listener *l);

/* The address, or the process, at the other end of a socket. */
void plait_peer_name(int fd, char out[PLAIT_ADDRESS_TEXT]);

#endif
