/* SPDX-License-Identifier: BSD-3-Clause */
#include "handshake.h"

#include "base/random.h"
#include <stddef.h>
#include <string.h>

enum plait_status plait_hail_make(struct plait_hail *out)
{
    memcpy(out->magic, PLAIT_HAIL_MAGIC, sizeof out->magic);
    return plait_random(out->nonce, sizeof out->nonce, "a handshake");
}

bool plait_hail_is_one(const struct plait_hail *hail)
{
    return memcmp(hail->magic, PLAIT_HAIL_MAGIC, sizeof hail->magic) == 0;
}

static void mac_of_answer(const unsigned char *secret, const struct plait_hail *hail, const struct plait_answer *answer,
                          unsigned char out[PLAIT_MAC_BYTES])
{
    unsigned char nonces[2 * PLAIT_NONCE_BYTES];

    memcpy(nonces, hail->nonce, PLAIT_NONCE_BYTES);
    memcpy(nonces + PLAIT_NONCE_BYTES, answer->nonce, PLAIT_NONCE_BYTES);
    plait_mac(secret, "rank 0 answers", nonces, sizeof nonces, out);
}

enum plait_status plait_answer_make(const unsigned char *secret, const struct plait_hail *hail,
                                    struct plait_answer *out)
{
    memcpy(out->magic, PLAIT_HAIL_MAGIC, sizeof out->magic);
    const enum plait_status status = plait_random(out->nonce, sizeof out->nonce, "a handshake");
    if (status == PLAIT_OK)
        mac_of_answer(secret, hail, out, out->mac);
    return status;
}

bool plait_answer_is_right(const unsigned char *secret, const struct plait_hail *hail,
                           const struct plait_answer *answer)
{
    unsigned char mac[PLAIT_MAC_BYTES];

    mac_of_answer(secret, hail, answer, mac);
    return memcmp(answer->magic, PLAIT_HAIL_MAGIC, sizeof answer->magic) == 0 && plait_mac_equal(mac, answer->mac);
}

static void mac_of_claim(const unsigned char *secret, const struct plait_hail *hail, const struct plait_answer *answer,
                         const struct plait_tcp_claim *claim, unsigned char out[PLAIT_MAC_BYTES])
{
    struct {
        unsigned char nonces[2][PLAIT_NONCE_BYTES];
        unsigned char fields[offsetof(struct plait_tcp_claim, mac)];
    } all;

    _Static_assert(sizeof all == 2 * PLAIT_NONCE_BYTES + 24, "no gaps");
    memcpy(all.nonces[0], hail->nonce, PLAIT_NONCE_BYTES);
    memcpy(all.nonces[1], answer->nonce, PLAIT_NONCE_BYTES);
    memcpy(all.fields, claim, sizeof all.fields);
    plait_mac(secret, "a rank claims", &all, sizeof all, out);
}

void plait_tcp_claim_sign(const unsigned char *secret, const struct plait_hail *hail, const struct plait_answer *answer,
                          struct plait_tcp_claim *claim)
{
    mac_of_claim(secret, hail, answer, claim, claim->mac);
}

bool plait_tcp_claim_is_right(const unsigned char *secret, const struct plait_hail *hail,
                              const struct plait_answer *answer, const struct plait_tcp_claim *claim)
{
    unsigned char mac[PLAIT_MAC_BYTES];

    mac_of_claim(secret, hail, answer, claim, mac);
    return plait_mac_equal(mac, claim->mac);
}
