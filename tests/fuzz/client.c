/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What comes through the TCP bootstrap's sockets before both ends know each other: strangers that connect to rank 0, and
 * a stranger in rank 0's place. The input's first byte says which; the rest is what the other end has sent. Without the
 * secret none gets in, whatever it says. A request that the harness signs gets in as it is.
 */
#include "fuzz.h"

#include "../../lib/bootstrap/tcp.c"

#include <fcntl.h>

static const unsigned char secret[PLAIT_SECRET_BYTES] = "of the fuzzer";

/* A socket on which these bytes and then the end arrive. */
static int socket_with(int ends[2], const uint8_t *data, size_t size)
{
    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    MUST(size == 0 || send(ends[1], data, size, MSG_NOSIGNAL) == (ssize_t)size);
    return ends[0];
}

static void to_rank_0(const uint8_t *data, size_t size)
{
    struct plait_handshake h;
    struct plait_join_request request;
    enum plait_refusal why = PLAIT_REFUSED_SLOW;
    int ends[2];

    socket_with(ends, data, size);
    shutdown(ends[1], SHUT_WR);
    enum plait_status status = plait_client_greet(ends[0], secret, plait_clock() + 30, &h, &why);
    MUST(status == PLAIT_OK || status == PLAIT_ERR_PEER);
    if (status == PLAIT_OK)
        status = plait_client_admit(ends[0], secret, plait_clock() + 30, &h, &request, &why);
    MUST(status == PLAIT_ERR_PEER && why <= PLAIT_REFUSED_STRANGER && why != PLAIT_REFUSED_SLOW);
    close(ends[0]);
    close(ends[1]);
}

/* The input is the request to join, but for its MAC. */
static void with_the_secret(const uint8_t *data, size_t size)
{
    struct plait_handshake h, own;
    struct plait_join_request request = { 0 }, got;
    enum plait_refusal why;
    const size_t most = offsetof(struct plait_join_request, mac), fields = size < most ? size : most;
    int ends[2];

    MUST(plait_client_hello_make(&h.client) == PLAIT_OK);
    const int fd = socket_with(ends, (const uint8_t *)&h.client, sizeof h.client);
    MUST(plait_client_greet(fd, secret, plait_clock() + 30, &own, &why) == PLAIT_OK);
    MUST(recv(ends[1], &h.server, sizeof h.server, MSG_DONTWAIT) == sizeof h.server);
    MUST(plait_server_hello_is_valid(secret, &h));
    memcpy(&request, data, fields);
    plait_join_request_sign(secret, &h, &request);
    MUST(send(ends[1], &request, sizeof request, MSG_NOSIGNAL) == sizeof request);
    MUST(plait_client_admit(fd, secret, plait_clock() + 30, &own, &got, &why) == PLAIT_OK);
    MUST(got.rank == request.rank && got.nrank == request.nrank);
    close(ends[0]);
    close(ends[1]);
}

static void in_rank_0s_place(const uint8_t *data, size_t size)
{
    struct plait_tcp_id id = { .kind = PLAIT_ID_MADE };
    struct plait_handshake h;
    struct search s = { .id = &id, .h = &h, .until = plait_clock() + 30 };
    struct probe t = { .error = 0 };
    const size_t magic = sizeof h.server.magic;
    int ends[2];

    memcpy(id.secret, secret, sizeof id.secret);
    const int fd = socket_with(ends, data, size);
    shutdown(ends[1], SHUT_WR);
    MUST(greet(&s, &t, 30, fd) == PLAIT_ERR_PEER);
    const bool whole = size >= (size >= magic && memcmp(data, PLAIT_HELLO_MAGIC, magic) == 0 ? sizeof h.server : magic);
    MUST(t.error == (whole ? EPROTO : ECONNRESET)); /* a wrong answer, or a part of one */
    close(fd);
    close(ends[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const all[])(const uint8_t *, size_t) = { to_rank_0, with_the_secret, in_rank_0s_place };

    if (size < 1 || size > 4096)
        return 0;
    all[data[0] % 3](data + 1, size - 1);
    return 0;
}
