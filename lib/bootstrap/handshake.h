/* SPDX-License-Identifier: BSD-3-Clause */
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
#ifndef PLAIT_LIB_BOOTSTRAP_HANDSHAKE_H
#define PLAIT_LIB_BOOTSTRAP_HANDSHAKE_H

#include "frame.h"
#include "hosts.h"
#include "secret.h"

#include <stdint.h>

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

enum plait_refusal {                        /* why a client is refused, in the order of suspicion */
                     PLAIT_REFUSED_NOTHING, /* it left without a word */
                     PLAIT_REFUSED_CROWD,   /* it was evicted to make room */
                     PLAIT_REFUSED_LEFT,    /* it left after rank 0's hello */
                     PLAIT_REFUSED_SLOW,
                     PLAIT_REFUSED_SECRET,   /* its request has a wrong MAC or wrong fields */
                     PLAIT_REFUSED_STRANGER, /* it speaks another protocol */
};

struct plait_client { /* a connection that has not yet joined as a rank */
    int fd;           /* -1: none */
    bool greeted;     /* its hello has arrived */
    double since;
    size_t got;                    /* bytes received of its next message */
    char from[PLAIT_ADDRESS_TEXT]; /* its address or process */
    struct plait_handshake handshake;
    struct plait_join_request request;
};

/* Read the bytes that have arrived. PLAIT_IN_PROGRESS: more are to come; PLAIT_OK: a rank; else *why it is refused. */
enum plait_status plait_client_advance(struct plait_client *client, const unsigned char *secret,
                                       enum plait_refusal *why);

#endif
