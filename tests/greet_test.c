/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-perf's ranks connect however many strangers do, and the time that they have ends all the same. */
#include "../bench/ranks.h" /* the tests have another */
#include "child.h"
#include "unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define NRANK     2
#define STRANGERS 60 /* more than are let in beside each other */
#define MOST      40 /* seconds: a limit against hangs */

static void listen_for(struct ranks *r)
{
    const struct options o = { .nrank = NRANK, .launched = true };
    const uint64_t count = 1;

    alarm(MOST);
    assert_true(ranks_init(r, "test", &o, 1, &count, 1));
    assert_true(ranks_listen(r));
}

/* Through the port that ranks are told. */
static int connect_to(const struct ranks *r)
{
    unsigned port = 0;
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(sscanf(r->where, "tcp %*s %u", &port), 1);
    at.sin_port = htons((uint16_t)port);
    if (connect(fd, (void *)&at, sizeof at) == 0)
        return fd;
    close(fd);
    return -1;
}

static pid_t start(void (*what)(const struct ranks *, uint32_t), const struct ranks *r, uint32_t rank)
{
    const pid_t child = child_fork();

    if (child > 0)
        return child;
    close(r->listen_fd);
    what(r, rank);
    _exit(0);
}

static void end(pid_t child, int signal)
{
    kill(child, signal);
    child_end(child);
}

/* A third says nothing, a third the beginning of something, a third what is no hello of ours. */
static void be_strange(const struct ranks *r, uint32_t rank)
{
    static const char nonsense[sizeof(struct hello)] = "GET / HTTP/1.1";

    for (int i = 0; i < STRANGERS; i++) {
        const int fd = connect_to(r);
        if (i % 3 > 0)
            send(fd, nonsense, i % 3 == 1 ? 5 : sizeof nonsense, MSG_NOSIGNAL);
    }
    pause();
}

static void be_a_rank(const struct ranks *r, uint32_t rank)
{
    const struct reply ready = { .answer = ANSWER_OK };
    int fd;

    if (worker_meet(r->where, rank, "test", &fd) == NULL || send(fd, &ready, sizeof ready, MSG_NOSIGNAL) < 0)
        _exit(1);
    pause();
}

/* Each that said nothing kept the others waiting for two seconds. */
static void silent_strangers_keep_no_rank_waiting(void **state)
{
    struct ranks r;
    pid_t rank[NRANK];

    listen_for(&r);
    const pid_t strangers = start(be_strange, &r, 0);
    sleep(1); /* they are first */
    for (uint32_t i = 0; i < NRANK; i++)
        rank[i] = start(be_a_rank, &r, i);
    assert_true(ranks_greet(&r, 20));
    for (uint32_t i = 0; i < NRANK; i++) {
        assert_true(r.hello[i].pid == rank[i]);
        end(rank[i], SIGKILL);
    }
    end(strangers, SIGKILL);
    ranks_stop(&r, false);
}

static void come_again(const struct ranks *r, uint32_t rank)
{
    for (;;) {
        const int fd = connect_to(r);
        if (fd >= 0)
            close(fd);
    }
}

/* As long as somebody came, the deadline was not looked at. */
static void the_deadline_counts_although_strangers_come(void **state)
{
    struct ranks r;

    listen_for(&r);
    const pid_t strangers = start(come_again, &r, 0);
    assert_false(ranks_greet(&r, 1));
    end(strangers, SIGKILL);
    ranks_stop(&r, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silent_strangers_keep_no_rank_waiting),
        cmocka_unit_test(the_deadline_counts_although_strangers_come),
    };

    return cmocka_run_group_tests_name("greet", tests, NULL, NULL);
}
