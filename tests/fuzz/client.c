/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What comes through the TCP bootstrap's sockets before both ends know each other: strangers at rank 0's door, and a
 * stranger in rank 0's place. The input's first byte says which; the rest is what the other end has sent. Without the
 * secret none gets in, whatever it says; a claim that the harness signs gets in only where its fields make sense.
 */
#include "fuzz.h"

#include "../../lib/bootstrap/reach.c"

#include <fcntl.h>

static const unsigned char secret[PLAIT_SECRET_BYTES] = "of the fuzzer";

/* A socket on which these bytes and then the end arrive. */
static int socket_with(int ends[2], const uint8_t *data, size_t size)
{
    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    MUST(size == 0 || send(ends[1], data, size, MSG_NOSIGNAL) == (ssize_t)size);
    return ends[0];
}

static void at_the_door(const uint8_t *data, size_t size)
{
    struct plait_client g = { .fd = -1 };
    enum plait_refusal why = PLAIT_REFUSED_SLOW;
    int ends[2];

    g.fd = socket_with(ends, data, size);
    MUST(plait_client_advance(&g, secret, &why) != PLAIT_OK);
    MUST(g.state != PLAIT_CLIENT_EXPLAINS);
    shutdown(ends[1], SHUT_WR);
    MUST(plait_client_advance(&g, secret, &why) != PLAIT_OK);
    MUST(why <= PLAIT_REFUSED_CROWD);
    close(ends[0]);
    close(ends[1]);
}

/* The input is the claim, but for its hash, and the text. */
static void with_the_secret(const uint8_t *data, size_t size)
{
    struct plait_client g = { .fd = -1 };
    struct plait_hail hail;
    struct plait_answer answer;
    struct plait_tcp_claim claim = { 0 };
    enum plait_refusal why = PLAIT_REFUSED_SLOW;
    const size_t most = offsetof(struct plait_tcp_claim, mac), fields = size < most ? size : most;
    int ends[2];

    MUST(plait_hail_make(&hail) == PLAIT_OK);
    g.fd = socket_with(ends, (const uint8_t *)&hail, sizeof hail);
    MUST(plait_client_advance(&g, secret, &why) == PLAIT_IN_PROGRESS);
    MUST(recv(ends[1], &answer, sizeof answer, MSG_DONTWAIT) == sizeof answer);
    MUST(plait_answer_is_right(secret, &hail, &answer));
    memcpy(&claim, data, fields);
    plait_tcp_claim_sign(secret, &hail, &answer, &claim);
    MUST(send(ends[1], &claim, sizeof claim, MSG_NOSIGNAL) == sizeof claim);
    MUST(size == fields || send(ends[1], data + fields, size - fields, MSG_NOSIGNAL) == (ssize_t)(size - fields));
    const enum plait_status status = plait_client_advance(&g, secret, &why);
    if (status == PLAIT_OK) {
        MUST(claim.status == PLAIT_OK ? claim.bytes == 0 : plait_is_error(claim.status));
        MUST(claim.bytes < sizeof g.text && claim.bytes <= size - fields && g.text[claim.bytes] == '\0');
        MUST(memcmp(g.text, data + fields, claim.bytes) == 0);
    } else {
        MUST(status == PLAIT_ERR_PEER || (status == PLAIT_IN_PROGRESS && claim.bytes > size - fields));
    }
    close(ends[0]);
    close(ends[1]);
}

static void in_rank_0s_place(const uint8_t *data, size_t size)
{
    const size_t magic =
        size < sizeof((struct plait_answer *)0)->magic ? size : sizeof((struct plait_answer *)0)->magic;
    struct plait_tcp_id id = { .kind = size % 2 ? PLAIT_ID_DERIVED : PLAIT_ID_MADE };
    const bool sibling = id.kind == PLAIT_ID_DERIVED && memcmp(data, PLAIT_HAIL_MAGIC, magic) == 0;
    struct way w = { .state = HAILED, .strange = !sibling /* nothing is logged */, .address.v4.sin_family = AF_INET };
    int ends[2];

    memcpy(id.secret, secret, sizeof id.secret);
    MUST(plait_hail_make(&w.hail) == PLAIT_OK);
    w.fd = socket_with(ends, data, size);
    while (w.fd >= 0 && w.got < size) /* until it has heard enough */
        MUST(!hear(&w, &id));
    MUST(w.strange == !sibling); /* comms made at the same time warned of each other */
    if (w.fd >= 0)
        close(w.fd);
    close(ends[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const all[])(const uint8_t *, size_t) = { at_the_door, with_the_secret, in_rank_0s_place };

    if (size < 1 || size > 4096)
        return 0;
    all[data[0] % 3](data + 1, size - 1);
    return 0;
}
