/* SPDX-License-Identifier: BSD-3-Clause */
#include "listener.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "base/random.h"
#include "base/status.h"
#include "rendezvous.h"
#include "unix.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define CLIENT_LIMIT 5.0 /* seconds for a client to join */
#define TURN         0.1 /* the same while there is no room for others, which wait in the backlog */

void plait_listener_init(struct plait_listener *l, const unsigned char *secret)
{
    memset(l, 0, sizeof *l);
    l->secret = secret;
    for (unsigned i = 0; i < PLAIT_MOST_CLIENTS; i++)
        l->clients[i].fd = -1;
}

bool plait_listener_add(struct plait_listener *l, const struct sockaddr *address, socklen_t length)
{
    const int fd = plait_listen(address, length);

    if (fd >= 0)
        l->sockets[l->nsocket++] = fd;
    return fd >= 0;
}

void plait_listener_remove_all(struct plait_listener *l)
{
    while (l->nsocket > 0)
        plait_hang_up(l->sockets[--l->nsocket]);
}

bool plait_peer_name(int fd, char out[PLAIT_ADDRESS_TEXT])
{
    union plait_address a = { .any.sa_family = AF_UNSPEC };
    socklen_t length = sizeof a;
    int pid;

    getpeername(fd, &a.any, &length);
    if (a.any.sa_family == AF_INET || a.any.sa_family == AF_INET6) {
        plait_address_text(&a, false, out);
        return true;
    }
    const bool ours = plait_is_this_user(fd, &pid);
    snprintf(out, PLAIT_ADDRESS_TEXT, "process %d", pid);
    return ours;
}

/* ---- Refused connections ------------------------------------------------------------------------------------ */

static const char *const refusals[] = {
    [PLAIT_REFUSED_NOTHING] = "said nothing",
    [PLAIT_REFUSED_CROWD] = "was one of too many",
    [PLAIT_REFUSED_LEFT] = "closed after rank 0's answer: it is of another comm, has another secret, or did not wait",
    [PLAIT_REFUSED_SLOW] = "took too long",
    [PLAIT_REFUSED_SECRET] = "did not know this comm's secret",
    [PLAIT_REFUSED_STRANGER] = "did not speak the protocol of this version of Plait",
};

static void refuse(struct plait_listener *l, struct plait_client *c, enum plait_refusal why)
{
    if (l->refused++ == 0 || why > l->worst) {
        l->worst = why;
        memcpy(l->from, c->from, sizeof l->from);
    }
    plait_descriptor_close(c->fd);
    c->fd = -1;
}

/* False: there were none. */
static bool refuse_all(struct plait_listener *l, enum plait_refusal why)
{
    bool some = false;

    for (struct plait_client *c = l->clients; c < l->clients + PLAIT_MOST_CLIENTS; c++)
        if (c->fd >= 0) {
            refuse(l, c, why);
            some = true;
        }
    return some;
}

void plait_listener_explain(const struct plait_listener *l, char *text, size_t size)
{
    if (l->worst > PLAIT_REFUSED_NOTHING)
        snprintf(text, size, "; refused connections: %u; one from %s %s", l->refused, l->from, refusals[l->worst]);
}

/* ---- Clients ------------------------------------------------------------------------------------------------- */

/* The slot of the next client: free, or taken by the oldest one, whose turn may not be over yet. */
static struct plait_client *next_slot(struct plait_listener *l)
{
    struct plait_client *next = l->clients;

    for (struct plait_client *c = l->clients; c < l->clients + PLAIT_MOST_CLIENTS && next->fd >= 0; c++)
        if (c->fd < 0 || c->since < next->since)
            next = c;
    return next;
}

static bool has_room(struct plait_listener *l)
{
    const struct plait_client *c = next_slot(l);

    return c->fd < 0 || plait_clock() - c->since > TURN;
}

unsigned plait_listener_watch(struct plait_listener *l, struct pollfd polls[PLAIT_LISTENER_POLLS])
{
    const unsigned nsocket = has_room(l) ? l->nsocket : 0;
    unsigned n = 0;

    for (unsigned i = 0; i < nsocket; i++)
        polls[n++] = (struct pollfd){ .fd = l->sockets[i], .events = POLLIN };
    for (unsigned i = 0; i < PLAIT_MOST_CLIENTS; i++)
        if (l->clients[i].fd >= 0)
            polls[n++] = (struct pollfd){ .fd = l->clients[i].fd, .events = POLLIN };
    return n;
}

static enum plait_status accept_client(struct plait_listener *l, int listener)
{
    const int one = 1;

    if (!has_room(l))
        return PLAIT_OK;
    const int fd = plait_descriptor_keep(accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), PLAIT_FOR_RANKS);
    const bool full = fd < 0 && (errno == EMFILE || errno == ENFILE);
    if (full && refuse_all(l, PLAIT_REFUSED_CROWD)) /* which frees descriptors */
        return PLAIT_OK;
    if (full || (fd < 0 && (errno == ENOMEM || errno == ENOBUFS)))
        return plait_fail_errno(errno, "comm creation: rank 0 cannot accept the others' connections");
    if (fd < 0) /* there is none, it has left, or a network is down */
        return PLAIT_OK;
    struct plait_client *c = next_slot(l);
    if (c->fd >= 0)
        refuse(l, c, PLAIT_REFUSED_CROWD);
    *c = (struct plait_client){ .fd = -1, .since = plait_clock() };
    if (!plait_peer_name(fd, c->from)) {
        plait_descriptor_close(fd);
        return PLAIT_OK;
    }
    if (l->secret != NULL)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->fd = fd;
    return PLAIT_OK;
}

/* *out is the client's socket once it has joined. */
static void serve(struct plait_listener *l, struct plait_client *c, struct plait_join_request *request, int *out)
{
    enum plait_refusal why = PLAIT_REFUSED_SLOW;
    const enum plait_status status = plait_client_advance(c, l->secret, &why);

    if (status == PLAIT_IN_PROGRESS && plait_clock() - c->since < CLIENT_LIMIT)
        return;
    if (status != PLAIT_OK || send(c->fd, &(const char){ PLAIT_JOINED }, 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1) {
        refuse(l, c, status != PLAIT_OK ? why : PLAIT_REFUSED_LEFT);
        return;
    }
    *request = c->request;
    *out = c->fd;
    c->fd = -1;
}

enum plait_status plait_listener_take(struct plait_listener *l, struct plait_join_request *request, int *out)
{
    enum plait_status status = PLAIT_OK;

    *out = -1;
    for (unsigned i = 0; i < l->nsocket && status == PLAIT_OK; i++)
        status = accept_client(l, l->sockets[i]);
    for (unsigned i = 0; i < PLAIT_MOST_CLIENTS && status == PLAIT_OK && *out < 0; i++)
        if (l->clients[i].fd >= 0)
            serve(l, &l->clients[i], request, out);
    return status;
}

void plait_listener_close(struct plait_listener *l)
{
    refuse_all(l, PLAIT_REFUSED_NOTHING);
    if (l->refused > 0) /* a client that only leaves may be a rank that did not get its answer in time */
        plait_log(l->worst <= PLAIT_REFUSED_LEFT ? PLAIT_LOG_INFO : PLAIT_LOG_WARN,
                  "comm creation: refused connections: %u; one from %s %s", l->refused, l->from, refusals[l->worst]);
    plait_listener_remove_all(l);
}

/* ---- The handshake ----------------------------------------------------------------------------------------------- */

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
