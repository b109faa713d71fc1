/* SPDX-License-Identifier: BSD-3-Clause */
/* A star of sockets between one hub and peers that misbehave. */
#include "unit.h"

#include "base/clock.h"
#include "base/status.h"
#include "bootstrap/rendezvous.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MANY ((size_t)16 << 20) /* bytes, more than a socket holds */

/* Rank 1 leaves a part of a frame unread; rank 2 learns why nothing comes. */
static void a_broadcast_names_a_rank_that_stopped_reading(void **state)
{
    struct pollfd peers[3] = { { .fd = -1 } };
    int other[3] = { -1, -1, -1 };
    struct plait_bootstrap b = { .nrank = 3, .limit = 0.1, .star = { .root = -1, .peers = peers } };
    struct plait_error error = { .status = PLAIT_OK };
    char *data = calloc(1, MANY);

    assert_non_null(data);
    for (int r = 1; r < 3; r++) {
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        peers[r].fd = pair[0];
        other[r] = pair[1];
    }
    assert_int_equal(plait_bootstrap_broadcast(&b, PLAIT_OK, data, MANY), PLAIT_ERR_TIMEOUT);
    assert_string_equal(plait_last_error(), "comm creation: nothing from rank 1 for 0.1 s");
    assert_true(b.star.over);
    assert_int_equal(plait_frame_read(other[2], data, MANY, plait_clock() + 30, &error), PLAIT_OK);
    assert_int_equal(error.status, PLAIT_ERR_TIMEOUT);
    assert_non_null(strstr(error.text, "rank 1"));
    for (int r = 1; r < 3; r++) {
        close(peers[r].fd);
        close(other[r]);
    }
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_broadcast_names_a_rank_that_stopped_reading),
    };

    return cmocka_run_group_tests_name("star", tests, NULL, NULL);
}
