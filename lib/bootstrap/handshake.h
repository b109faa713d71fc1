/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a rank and rank 0 prove to each other over TCP that they have the secret of the id, without saying it.
 *
 * Three messages. The rank hails with a nonce; rank 0 answers with its own and a hash over both, keyed with the secret;
 * the rank, which now knows whom it talks to, claims its rank with a hash over everything so far. Roles are part of the
 * hashes, so that none can be sent back, and the nonces, so that none can be used again. Every comm has a secret of its
 * own, so a message of one is nothing in another. What follows on the connection is not protected: see
 * docs/security.md.
 */
#ifndef PLAIT_LIB_BOOTSTRAP_HANDSHAKE_H
#define PLAIT_LIB_BOOTSTRAP_HANDSHAKE_H

#include "crypto.h"
#include "origin.h"

#include <stdint.h>

#define PLAIT_NONCE_BYTES 32
#define PLAIT_HAIL_MAGIC  "PLAITtc1" /* 8 bytes, without a NUL */

struct plait_hail { /* a rank to rank 0 */
    char magic[8];
    unsigned char nonce[PLAIT_NONCE_BYTES];
};

struct plait_answer { /* rank 0 to the rank */
    char magic[8];
    unsigned char nonce[PLAIT_NONCE_BYTES], mac[PLAIT_MAC_BYTES];
};

struct plait_tcp_claim { /* the rank to rank 0; followed by the text of its error, if it has one */
    uint32_t rank, nrank;
    int32_t status;
    uint32_t bytes; /* of the text */
    struct plait_origin origin;
    unsigned char mac[PLAIT_MAC_BYTES];
};

enum plait_status plait_hail_make(struct plait_hail *out);
bool plait_hail_is_one(const struct plait_hail *hail); /* else it is a stranger */

enum plait_status plait_answer_make(const unsigned char *secret, const struct plait_hail *hail,
                                    struct plait_answer *out);
bool plait_answer_is_right(const unsigned char *secret, const struct plait_hail *hail,
                           const struct plait_answer *answer);

/* The hash of a claim whose other fields are there. */
void plait_tcp_claim_sign(const unsigned char *secret, const struct plait_hail *hail, const struct plait_answer *answer,
                          struct plait_tcp_claim *claim);
bool plait_tcp_claim_is_right(const unsigned char *secret, const struct plait_hail *hail,
                              const struct plait_answer *answer, const struct plait_tcp_claim *claim);

#endif
