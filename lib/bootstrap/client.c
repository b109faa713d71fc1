/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank 0's end of the TCP handshake with one client. No call here waits. */
#include "tcp.h"

#include "base/status.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* Where the client's next message goes. */
static void *due(struct plait_client *g, size_t *bytes)
{
    switch (g->state) {
    case PLAIT_CLIENT_HAILS:
        *bytes = sizeof g->hail;
        return &g->hail;
    case PLAIT_CLIENT_CLAIMS:
        *bytes = sizeof g->claim;
        return &g->claim;
    case PLAIT_CLIENT_EXPLAINS:
        break;
    }
    *bytes = g->claim.bytes;
    return g->text;
}

/* So few bytes fit into an empty socket buffer; if not, the client is no rank. */
static bool send_at_once(int fd, const void *data, size_t bytes)
{
    return send(fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)bytes;
}

static bool says_more(const struct plait_tcp_claim *claim)
{
    return claim->status != PLAIT_OK;
}

/* A complete message has arrived. */
static enum plait_status understand(struct plait_client *g, const unsigned char *secret, enum plait_refusal *why)
{
    g->got = 0;
    if (g->state == PLAIT_CLIENT_HAILS) {
        *why = PLAIT_REFUSED_STRANGER;
        if (!plait_hail_is_one(&g->hail) || plait_answer_make(secret, &g->hail, &g->answer) != PLAIT_OK)
            return PLAIT_ERR_PEER;
        *why = PLAIT_REFUSED_LEFT;
        g->state = PLAIT_CLIENT_CLAIMS;
        return send_at_once(g->fd, &g->answer, sizeof g->answer) ? PLAIT_IN_PROGRESS : PLAIT_ERR_PEER;
    }
    if (g->state == PLAIT_CLIENT_CLAIMS) {
        const struct plait_tcp_claim *c = &g->claim;
        *why = PLAIT_REFUSED_SECRET;
        if (!plait_tcp_claim_is_right(secret, &g->hail, &g->answer, c) || c->bytes >= sizeof g->text ||
            (says_more(c) ? !plait_is_error(c->status) : c->bytes != 0))
            return PLAIT_ERR_PEER;
        g->state = PLAIT_CLIENT_EXPLAINS;
        if (says_more(c) && c->bytes > 0)
            return PLAIT_IN_PROGRESS;
    }
    *why = PLAIT_REFUSED_LEFT;
    g->text[g->claim.bytes] = '\0';
    const char taken = PLAIT_TAKEN;
    return send_at_once(g->fd, &taken, 1) ? PLAIT_OK : PLAIT_ERR_PEER;
}

enum plait_status plait_client_advance(struct plait_client *g, const unsigned char *secret, enum plait_refusal *why)
{
    for (;;) {
        size_t bytes;
        char *at = due(g, &bytes);
        const ssize_t n = recv(g->fd, at + g->got, bytes - g->got, MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return PLAIT_IN_PROGRESS;
        if (n <= 0) {
            *why = g->state != PLAIT_CLIENT_HAILS ? PLAIT_REFUSED_LEFT
                   : g->got > 0                   ? PLAIT_REFUSED_STRANGER
                                                  : PLAIT_REFUSED_NOTHING;
            return PLAIT_ERR_PEER;
        }
        g->got += (size_t)n;
        if (g->got < bytes)
            continue;
        const enum plait_status status = understand(g, secret, why);
        if (status != PLAIT_IN_PROGRESS)
            return status;
    }
}
