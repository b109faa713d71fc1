/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mutual authentication over TCP: a rank and rank 0 prove that they know the id's secret, without sending it.
 *
 * A challenge and response in three messages. The rank hails with a nonce. Rank 0 answers with a nonce of its own and a
 * MAC over both, keyed with the secret. Now the rank has authenticated rank 0 and claims its rank, with a MAC over
 * everything so far. The MACs cover the role, so none can be reflected, and the nonces, so none can be replayed. Every
 * comm has a secret of its own, so a message of one comm is worthless in another. Later traffic on the connection is
 * not protected: see docs/security.md.
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
bool plait_hail_is_one(const struct plait_hail *hail); /* false: no Plait client of this version */

enum plait_status plait_answer_make(const unsigned char *secret, const struct plait_hail *hail,
                                    struct plait_answer *out);
bool plait_answer_is_right(const unsigned char *secret, const struct plait_hail *hail,
                           const struct plait_answer *answer);

/* Set the MAC of a claim whose other fields are filled. */
void plait_tcp_claim_sign(const unsigned char *secret, const struct plait_hail *hail, const struct plait_answer *answer,
                          struct plait_tcp_claim *claim);
bool plait_tcp_claim_is_right(const unsigned char *secret, const struct plait_hail *hail,
                              const struct plait_answer *answer, const struct plait_tcp_claim *claim);

#endif
