/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rank 0's listening sockets, Unix or TCP, and the handshake with the clients that connect.
 *
 * Any process can connect over TCP, and any of this user's on one machine. So rank 0 gives each 0.2 s to send a fixed
 * number of bytes, one client after the other; the others wait in the kernel's backlog. Over TCP the kernel hands a
 * connection over when its first bytes have come (TCP_DEFER_ACCEPT), so silent ones delay nobody. A rank that was
 * refused connects again, since it counts only once rank 0 has acknowledged it. Refused connections are counted, and
 * logged at the end.
 */
#ifndef PLAIT_LIB_BOOTSTRAP_LISTENER_H
#define PLAIT_LIB_BOOTSTRAP_LISTENER_H

#include "frame.h"
#include "hosts.h"
#include "id.h"

/* ---- The handshake --------------------------------------------------------------------------------------------- */

/*
 * The handshake of a client with rank 0. Over TCP both prove that they know the id's secret, without sending it.
 *
 * A challenge and response in three messages. The client's hello has a nonce. Rank 0's hello has a nonce of its own and
 * a MAC over both, keyed with the secret. This authenticates rank 0, and the client asks to join as its rank, with a
 * MAC over everything so far. The MACs cover the role, so none can be reflected, and the nonces, so none can be
 * replayed. Every comm has a secret of its own, so a message of one comm is worthless in another. Later traffic on the
 * connection is not protected: see docs/security.md.
 *
 * On one machine the kernel tells whose process the other end is. There is no secret (NULL), and the request to join is
 * the only message.
 */
#define PLAIT_NONCE_BYTES 32
#define PLAIT_HELLO_MAGIC "PLAITtc3" /* 8 bytes, without a NUL */
#define PLAIT_JOINED      'T'        /* rank 0's acknowledgement of a request */

struct plait_handshake {
    struct plait_client_hello {
        char magic[8];
        unsigned char nonce[PLAIT_NONCE_BYTES];
    } client;
    struct plait_server_hello {
        char magic[8];
        unsigned char nonce[PLAIT_NONCE_BYTES], mac[PLAIT_MAC_BYTES];
    } server;
};

struct plait_join_request {
    uint32_t rank, nrank;
    unsigned char mac[PLAIT_MAC_BYTES];
};

enum plait_status plait_client_hello_make(struct plait_client_hello *out);

bool plait_server_hello_is_valid(const unsigned char *secret, const struct plait_handshake *h);

/* Set the MAC of a request whose other fields are filled. */
void plait_join_request_sign(const unsigned char *secret, const struct plait_handshake *h,
                             struct plait_join_request *request);

/* ---- Rank 0's end ------------------------------------------------------------------------------------------- */

enum plait_refusal {                         /* why a client is refused, in the order of suspicion */
                     PLAIT_REFUSED_NOTHING,  /* it left without a word, or with too few */
                     PLAIT_REFUSED_SLOW,     /* it took too long: it may be a rank without a processor */
                     PLAIT_REFUSED_LEFT,     /* it left after rank 0's hello */
                     PLAIT_REFUSED_SECRET,   /* its request has a wrong MAC or wrong fields */
                     PLAIT_REFUSED_STRANGER, /* it speaks another protocol */
};

/*
 * greet: exchange hellos with a client, which the request to join follows over TCP. admit: read the request and
 * acknowledge it. PLAIT_ERR_PEER: the client is refused, for *why; PLAIT_ERR_TIMEOUT: it is slow; other errors are rank
 * 0's own.
 */
enum plait_status plait_client_greet(int fd, const unsigned char *secret, double until, struct plait_handshake *h,
                                     enum plait_refusal *why);
enum plait_status plait_client_admit(int fd, const unsigned char *secret, double until, const struct plait_handshake *h,
                                     struct plait_join_request *request, enum plait_refusal *why);

/* ---- The listener ---------------------------------------------------------------------------------------------- */

struct plait_listener {
    const unsigned char *secret; /* NULL: Unix sockets */
    int sockets[PLAIT_MOST_ADDRESSES];
    unsigned nsocket;
    unsigned refused; /* connections; `worst` of them, from `from` */
    enum plait_refusal worst;
    char from[PLAIT_ADDRESS_TEXT];
};

/* Listen at an address; false with errno. */
bool plait_listener_add(struct plait_listener *l, const struct sockaddr *address, socklen_t length);
void plait_listener_remove_all(struct plait_listener *l);

/*
 * Accept a connection of each socket, until one is a rank's. *out is its socket, and `request` what it says; -1: there
 * was none. An error is rank 0's own.
 */
enum plait_status plait_listener_take(struct plait_listener *l, struct plait_join_request *request, int *out);

/* Log how many were refused, close the sockets. */
void plait_listener_close(struct plait_listener *l);

/* Add a refused connection to an error's text; nothing if there are none. */
void plait_listener_explain(const struct plait_listener *l, char *text, size_t size);

/* The address, or the process, at the other end of a socket. False: another user's process. */
bool plait_peer_name(int fd, char out[PLAIT_ADDRESS_TEXT]);

#endif
