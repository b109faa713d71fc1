/* SPDX-License-Identifier: BSD-3-Clause */
/* Strangers at the port of a network between hosts, which say nothing and stay. */
#include "ranks.h"
#include "unit.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define STRANGERS 200
#define MOST      96 /* descriptors of rank 0 */

static char log_path[] = "/tmp/plait-crowded-XXXXXX";

/* The port at which this process listens, or 0. */
static int own_port(void)
{
    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_in at;
        socklen_t size = sizeof at;
        int listens = 0;
        socklen_t n = sizeof listens;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &n) == 0 && listens &&
            getsockname(fd, (struct sockaddr *)&at, &size) == 0 && at.sin_family == AF_INET)
            return ntohs(at.sin_port);
    }
    return 0;
}

static void connect_to(int port)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0)
        (void)!connect(fd, (struct sockaddr *)&to, sizeof to);
}

static bool is_noticed(void)
{
    char text[4096] = "";
    FILE *f = fopen(log_path, "r");
    const size_t n = f != NULL ? fread(text, 1, sizeof text - 1, f) : 0;

    if (f != NULL)
        fclose(f);
    text[n] = '\0';
    return strstr(text, "needs 8 more descriptors") != NULL && strstr(text, "ulimit -n") != NULL;
}

static int be_crowded(struct plait_comm **comm, uint32_t rank, void *arg)
{
    int port = own_port(), ports[2];

    CHECK(plait_allgather(*comm, &port, ports, 1, PLAIT_INT32, NULL) == PLAIT_OK);
    CHECK(ports[0] != 0);
    if (rank == 0) {
        struct rlimit r;
        CHECK(getrlimit(RLIMIT_NOFILE, &r) == 0);
        r.rlim_cur = MOST;
        CHECK(setrlimit(RLIMIT_NOFILE, &r) == 0);
    } else {
        const time_t until = time(NULL) + 60;
        for (int i = 0; i < STRANGERS; i++)
            connect_to(ports[0]);
        while (!is_noticed() && time(NULL) < until)
            usleep(50000);
    }
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK); /* of comms that have met, nothing is lost */
    CHECK(rank == 0 || is_noticed());
    return 0;
}

static void strangers_that_take_all_descriptors_are_noticed(void **state)
{
    const struct ranks r = { .nprocess = 2, .nthread = 1, .body = be_crowded, .limit = 120, .processes = true };
    const int fd = mkstemp(log_path);

    assert_true(fd >= 0);
    close(fd);
    setenv("PLAIT_LOG_FILE", log_path, 1);
    assert_int_equal(ranks_run(&r), 0);
    unlink(log_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_that_take_all_descriptors_are_noticed),
    };
    return cmocka_run_group_tests_name("crowded", tests, NULL, NULL);
}
