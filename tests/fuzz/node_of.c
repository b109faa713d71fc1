/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What another process of this user may send to the first rank of a node, and what all ranks say of their leaders: every
 * call ends, nobody gets in but by a whole message, no descriptor is lost, and nodes are numbered without gaps.
 */
#include "fuzz.h"

#include "../../lib/bootstrap/node.c"

#include <fcntl.h>

#define NRANK 4

static int next_descriptor(void)
{
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    MUST(fd >= 0);
    close(fd);
    return fd;
}

static void receive(const uint8_t *data, size_t size)
{
    struct pollfd peers[NRANK] = { { .fd = -1 }, { .fd = -1 }, { .fd = -1 }, { .fd = -1 } };
    struct plait_bootstrap b = { .rank = 1, .nrank = NRANK, .node = { .root = -1, .peers = peers } };
    struct finding f = { .b = &b, .listener = -1 };
    int ends[2];

    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    MUST(size == 0 || send(ends[1], data, size, MSG_NOSIGNAL) == (ssize_t)size);
    shutdown(ends[1], SHUT_WR);
    const enum plait_status status = receive_one(&f, ends[0]);
    MUST(status == PLAIT_OK);
    for (uint32_t r = 0; r < NRANK; r++) {
        MUST(peers[r].fd < 0 || (r != b.rank && size >= sizeof r && memcmp(data, &r, sizeof r) == 0));
        plait_hang_up(peers[r].fd);
    }
    close(ends[1]);
}

static void number(const uint8_t *data, size_t size)
{
    struct plait_bootstrap b = { .nrank = NRANK };
    struct view all[NRANK] = { { 0 } };
    uint32_t next = 0;
    struct finding f = { .b = &b, .all = all };

    for (uint32_t r = 0; r < NRANK && 4 * r + 4 <= size; r++)
        memcpy(&all[r].leader, data + 4 * r, 4);
    b.nodes.of = malloc(NRANK * sizeof *b.nodes.of);
    b.nodes.hosts = malloc(NRANK * sizeof *b.nodes.hosts);
    MUST(b.nodes.of != NULL && b.nodes.hosts != NULL);
    if (check_leaders(&f) == PLAIT_OK)
        for (uint32_t r = 0; r < NRANK; r++)
            MUST(all[r].leader < NRANK);
    number_nodes(&f);
    for (uint32_t r = 0; r < NRANK; r++) {
        MUST(b.nodes.of[r] <= next);
        next += b.nodes.of[r] == next;
        for (uint32_t k = 0; k < r; k++)
            MUST((b.nodes.of[k] == b.nodes.of[r]) == (all[k].leader == all[r].leader));
    }
    MUST(next == b.nodes.n);
    plait_nodes_finish(&b.nodes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 4096)
        return 0;
    const int next = next_descriptor();
    (data[0] % 2 == 0 ? receive : number)(data + 1, size - 1);
    MUST(next_descriptor() == next);
    return 0;
}
