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

#define CLIENT_LIMIT 0.2 /* seconds for a client to join */
#define DEFER        30  /* seconds that the kernel keeps a TCP connection on which nothing has come */

bool plait_listener_add(struct plait_listener *l, const struct sockaddr *address, socklen_t length)
{
    const int fd = plait_listen(address, length), defer = DEFER;

    if (fd >= 0 && address->sa_family != AF_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &defer, sizeof defer);
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
    [PLAIT_REFUSED_NOTHING] = "said nothing, or too little",
    [PLAIT_REFUSED_LEFT] = "closed after rank 0's answer: it is of another comm, has another secret, or did not wait",
    [PLAIT_REFUSED_SLOW] = "took too long",
    [PLAIT_REFUSED_SECRET] = "did not know this comm's secret",
    [PLAIT_REFUSED_STRANGER] = "did not speak the protocol of this version of Plait",
};

void plait_listener_explain(const struct plait_listener *l, char *text, size_t size)
{
    if (l->worst > PLAIT_REFUSED_NOTHING)
        snprintf(text, size, "; refused connections: %u; one from %s %s", l->refused, l->from, refusals[l->worst]);
}

/* ---- Clients ------------------------------------------------------------------------------------------------- */

/* *out: the client's socket, once it has joined; else -1. */
static enum plait_status serve(struct plait_listener *l, int fd, struct plait_join_request *request, int *out)
{
    const double until = plait_clock() + CLIENT_LIMIT;
    const int one = 1;
    struct plait_handshake h = { 0 };
    char from[PLAIT_ADDRESS_TEXT];
    enum plait_refusal why = PLAIT_REFUSED_NOTHING;
    enum plait_status status = PLAIT_OK;

    if (!plait_peer_name(fd, from)) {
        plait_descriptor_close(fd);
        return PLAIT_OK;
    }
    if (l->secret != NULL) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        status = plait_client_greet(fd, l->secret, until, &h, &why);
    }
    if (status == PLAIT_OK)
        status = plait_client_admit(fd, l->secret, until, &h, request, &why);
    if (status == PLAIT_OK) {
        *out = fd;
        return PLAIT_OK;
    }
    plait_descriptor_close(fd);
    if (status != PLAIT_ERR_PEER && status != PLAIT_ERR_TIMEOUT)
        return status;
    why = status == PLAIT_ERR_TIMEOUT ? PLAIT_REFUSED_SLOW : why;
    if (l->refused++ == 0 || why > l->worst) {
        l->worst = why;
        memcpy(l->from, from, sizeof from);
    }
    return PLAIT_OK;
}

enum plait_status plait_listener_take(struct plait_listener *l, struct plait_join_request *request, int *out)
{
    enum plait_status status = PLAIT_OK;

    *out = -1;
    for (unsigned i = 0; i < l->nsocket && *out < 0 && status == PLAIT_OK; i++) {
        const int fd =
            plait_descriptor_keep(accept4(l->sockets[i], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), PLAIT_FOR_RANKS);
        if (fd >= 0)
            status = serve(l, fd, request, out);
        else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
            status = plait_fail_errno(errno, "comm creation: rank 0 cannot accept the others' connections");
    }
    return status;
}

void plait_listener_close(struct plait_listener *l)
{
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

enum plait_status plait_client_greet(int fd, const unsigned char *secret, double until, struct plait_handshake *h,
                                     enum plait_refusal *why)
{
    *why = PLAIT_REFUSED_NOTHING;
    enum plait_status status = plait_frame_receive(fd, &h->client, sizeof h->client, until);
    if (status != PLAIT_OK)
        return status;
    *why = PLAIT_REFUSED_STRANGER;
    if (memcmp(h->client.magic, PLAIT_HELLO_MAGIC, sizeof h->client.magic) != 0)
        return PLAIT_ERR_PEER;
    *why = PLAIT_REFUSED_LEFT;
    memcpy(h->server.magic, PLAIT_HELLO_MAGIC, sizeof h->server.magic);
    status = plait_random(h->server.nonce, sizeof h->server.nonce, "a handshake");
    if (status != PLAIT_OK)
        return status;
    mac_of_hello(secret, h, h->server.mac);
    return plait_frame_send(fd, &h->server, sizeof h->server, until);
}

enum plait_status plait_client_admit(int fd, const unsigned char *secret, double until, const struct plait_handshake *h,
                                     struct plait_join_request *request, enum plait_refusal *why)
{
    *why = secret != NULL ? PLAIT_REFUSED_LEFT : PLAIT_REFUSED_NOTHING;
    const enum plait_status status = plait_frame_receive(fd, request, sizeof *request, until);
    if (status != PLAIT_OK)
        return status;
    struct plait_join_request expected = *request;
    plait_join_request_sign(secret, h, &expected);
    if (is_equal(expected.mac, request->mac))
        return plait_frame_send(fd, &(const char){ PLAIT_JOINED }, 1, until);
    *why = secret != NULL ? PLAIT_REFUSED_SECRET : PLAIT_REFUSED_STRANGER;
    return PLAIT_ERR_PEER;
}
