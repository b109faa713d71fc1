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

#include <poll.h>

#define PLAIT_MOST_CLIENTS   16
#define PLAIT_MOST_SOURCES   16 /* addresses and processes whose refused connections are counted; the last: others */
#define PLAIT_LISTENER_POLLS (PLAIT_MOST_ADDRESSES + PLAIT_MOST_CLIENTS)

struct plait_listener {
    const unsigned char *secret; /* NULL: Unix sockets */
    int sockets[PLAIT_MOST_ADDRESSES];
    unsigned nsocket, nsource;
    bool paused; /* no room for clients: new connections wait in the backlog */
    struct plait_client clients[PLAIT_MOST_CLIENTS];
    struct plait_source {
        char from[PLAIT_ADDRESS_TEXT];
        unsigned refused;
        enum plait_refusal worst;
    } sources[PLAIT_MOST_SOURCES];
};

void plait_listener_init(struct plait_listener *l, const unsigned char *secret);

/* Listen at an address; false with errno. */
bool plait_listener_add(struct plait_listener *l, const struct sockaddr *address, socklen_t length);
void plait_listener_remove_all(struct plait_listener *l);

/* The sockets to poll, and how many: when one is ready, or every 0.1 s, take() is due. */
unsigned plait_listener_watch(const struct plait_listener *l, struct pollfd polls[PLAIT_LISTENER_POLLS]);

/*
 * Accept connections, evict and refuse clients, take one rank. *out is its socket, and `request` what it says; -1: none
 * is ready. An error: this process has no descriptor for them.
 */
enum plait_status plait_listener_take(struct plait_listener *l, struct plait_join_request *request, int *out);

/* Refuse the clients, log the refusals, close the sockets. */
void plait_listener_close(struct plait_listener *l);

/* Add a refused connection to an error's text; nothing if there are none. */
void plait_listener_explain(const struct plait_listener *l, char *text, size_t size);

/* The address, or the process, at the other end of a socket. False: another user's process. */
bool plait_peer_name(int fd, char out[PLAIT_ADDRESS_TEXT]);

#endif
