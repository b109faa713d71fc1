/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What comes through the bootstrap's sockets: rank 0 against hostile members, and a member against a hostile rank 0.
 * The input's first byte says which; the rest is what the other side has sent, in two streams divided by the second
 * byte. The files are included because connections are made here by hand: everything has been sent and the other ends
 * are closed, so nothing waits, and whatever came, each call ends in success or in an error with a text.
 */
#include "fuzz.h"

#include "../../lib/bootstrap/listener.c"
#include "../../lib/bootstrap/rendezvous.c"

#include <fcntl.h>

#define NRANK 3

/* A socket on which these bytes and then the end arrive. */
static int socket_with(const uint8_t *data, size_t size)
{
    int ends[2];

    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    MUST(size == 0 || send(ends[1], data, size, MSG_NOSIGNAL) == (ssize_t)size);
    close(ends[1]);
    return ends[0];
}

static void must_be_a_result(enum plait_status status)
{
    MUST(status <= PLAIT_OK && strcmp(plait_status_name(status), "PLAIT_ERR_UNKNOWN") != 0);
    MUST(status == PLAIT_OK || plait_last_error()[0] != '\0');
}

/* Everything that the creation of a comm exchanges, with small cards. */
static void exchange(struct plait_bootstrap *b)
{
    const bool gives[NRANK] = { true, true, true };
    char own[8] = "own", all[NRANK][8];
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC), fds[NRANK][2];
    const int mine[2] = { null, null };
    enum plait_status status = plait_bootstrap_agree(b, PLAIT_OK);

    must_be_a_result(status);
    if (status == PLAIT_OK)
        must_be_a_result(status = plait_bootstrap_allgather(b, PLAIT_OK, own, sizeof own, all));
    if (status == PLAIT_OK) {
        must_be_a_result(plait_bootstrap_share(b, gives, mine, 2, &fds[0][0]));
        for (uint32_t r = 0; r < NRANK; r++)
            for (unsigned i = 0; i < 2; i++)
                MUST(fds[r][i] == -1); /* no descriptor can come as bytes */
    }
    close(null);
}

static enum plait_status join_with(struct plait_bootstrap *b, int fd, uint32_t *joined)
{
    struct plait_join_request request;
    enum plait_refusal why;

    if (plait_client_admit(fd, NULL, plait_clock() + 30, NULL, &request, &why) !=
        PLAIT_OK) { /* it counts for nothing */
        close(fd);
        return PLAIT_OK;
    }
    return add_rank(b, fd, &request, joined);
}

static void as_root(const uint8_t *data, size_t size, size_t cut)
{
    struct plait_bootstrap b = { .nrank = NRANK, .limit = 1, .star.root = -1 };
    struct pollfd peers[NRANK] = { { .fd = -1 }, { .fd = -1 }, { .fd = -1 } };
    uint32_t joined = 1;
    enum plait_status status;

    b.star.peers = peers;
    must_be_a_result(status = join_with(&b, socket_with(data, cut), &joined));
    if (status == PLAIT_OK)
        must_be_a_result(status = join_with(&b, socket_with(data + cut, size - cut), &joined));
    if (status == PLAIT_OK) {
        MUST(joined == 1u + (peers[1].fd >= 0) + (peers[2].fd >= 0) && peers[0].fd == -1);
        if (joined == NRANK)
            exchange(&b);
    }
    for (uint32_t r = 0; r < NRANK; r++)
        if (peers[r].fd >= 0)
            close(peers[r].fd);
}

static void as_member(const uint8_t *data, size_t size)
{
    struct plait_bootstrap b = { .rank = 1, .nrank = NRANK, .limit = 1, .star.root = socket_with(data, size) };

    exchange(&b);
    close(b.star.root);
}

/* The fuzzer itself opens some between executions: a symbolizer. */
static int next_descriptor(void)
{
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    MUST(fd >= 0);
    close(fd);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 8192)
        return 0;
    const size_t cut = data[1] < size - 2 ? data[1] : size - 2;
    const int next = next_descriptor();
    if (data[0] % 2 == 0)
        as_root(data + 2, size - 2, cut);
    else
        as_member(data + 2, size - 2);
    MUST(next_descriptor() == next); /* none is lost */
    return 0;
}
