/* SPDX-License-Identifier: BSD-3-Clause */
#include "handshake.h"

#include "base/random.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

enum plait_status plait_client_hello_make(struct plait_client_hello *out)
{
    memcpy(out->magic, PLAIT_HELLO_MAGIC, sizeof out->magic);
    return plait_random(out->nonce, sizeof out->nonce, "a handshake");
}

#define HELLOS offsetof(struct plait_handshake, server.mac) /* bytes of both hellos, without gaps */

static void mac_of_hello(const unsigned char *secret, const struct plait_handshake *h,
                         unsigned char out[PLAIT_MAC_BYTES])
{
    plait_mac(secret, "rank 0 answers", h, HELLOS, out);
}

/* In constant time. */
static bool is_equal(const unsigned char a[PLAIT_MAC_BYTES], const unsigned char b[PLAIT_MAC_BYTES])
{
    unsigned char differs = 0;

    for (unsigned i = 0; i < PLAIT_MAC_BYTES; i++)
        differs |= a[i] ^ b[i];
    return differs == 0;
}

bool plait_server_hello_is_valid(const unsigned char *secret, const struct plait_handshake *h)
{
    unsigned char mac[PLAIT_MAC_BYTES];

    mac_of_hello(secret, h, mac);
    return memcmp(h->server.magic, PLAIT_HELLO_MAGIC, sizeof h->server.magic) == 0 && is_equal(mac, h->server.mac);
}

/* Without a secret: the protocol's name. */
void plait_join_request_sign(const unsigned char *secret, const struct plait_handshake *h,
                             struct plait_join_request *request)
{
    unsigned char all[HELLOS + offsetof(struct plait_join_request, mac)];

    _Static_assert(sizeof *request == 8 + PLAIT_MAC_BYTES, "no gaps");
    memset(request->mac, 0, PLAIT_MAC_BYTES);
    memcpy(request->mac, PLAIT_HELLO_MAGIC, sizeof h->client.magic);
    if (secret == NULL)
        return;
    memcpy(all, h, HELLOS);
    memcpy(all + HELLOS, request, sizeof all - HELLOS);
    plait_mac(secret, "a rank claims", all, sizeof all, request->mac);
}

/* ---- Rank 0's end ------------------------------------------------------------------------------------------- */

static bool has_valid_mac(const unsigned char *secret, const struct plait_client *c)
{
    struct plait_join_request expected = c->request;

    plait_join_request_sign(secret, &c->handshake, &expected);
    return is_equal(expected.mac, c->request.mac);
}

/* Answer the client's hello. So few bytes fit into an empty socket buffer; if not, the client is no rank. */
static enum plait_status answer(struct plait_client *c, const unsigned char *secret, enum plait_refusal *why)
{
    struct plait_server_hello *hello = &c->handshake.server;

    *why = PLAIT_REFUSED_STRANGER;
    if (memcmp(c->handshake.client.magic, PLAIT_HELLO_MAGIC, sizeof c->handshake.client.magic) != 0 ||
        plait_random(hello->nonce, sizeof hello->nonce, "a handshake") != PLAIT_OK)
        return PLAIT_ERR_PEER;
    memcpy(hello->magic, PLAIT_HELLO_MAGIC, sizeof hello->magic);
    mac_of_hello(secret, &c->handshake, hello->mac);
    *why = PLAIT_REFUSED_LEFT;
    c->greeted = true;
    c->got = 0;
    return send(c->fd, hello, sizeof *hello, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof *hello ? PLAIT_IN_PROGRESS
                                                                                           : PLAIT_ERR_PEER;
}

enum plait_status plait_client_advance(struct plait_client *c, const unsigned char *secret, enum plait_refusal *why)
{
    for (;;) {
        const bool hello = secret != NULL && !c->greeted;
        const size_t bytes = hello ? sizeof c->handshake.client : sizeof c->request;
        char *at = hello ? (char *)&c->handshake.client : (char *)&c->request;
        const ssize_t n = recv(c->fd, at + c->got, bytes - c->got, MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return PLAIT_IN_PROGRESS;
        if (n <= 0) {
            *why = c->greeted ? PLAIT_REFUSED_LEFT : c->got > 0 ? PLAIT_REFUSED_STRANGER : PLAIT_REFUSED_NOTHING;
            return PLAIT_ERR_PEER;
        }
        c->got += (size_t)n;
        if (c->got < bytes)
            continue;
        if (!hello) {
            *why = secret != NULL ? PLAIT_REFUSED_SECRET : PLAIT_REFUSED_STRANGER;
            return has_valid_mac(secret, c) ? PLAIT_OK : PLAIT_ERR_PEER;
        }
        const enum plait_status status = answer(c, secret, why);
        if (status != PLAIT_IN_PROGRESS)
            return status;
    }
}
