/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whoever connects to rank 0 without the secret of the id is refused, counted and named once, and the rendezvous goes on as
 * if nobody had come. Strangers come from 127.0.0.2, ranks from 127.0.0.1.
 */
#include "child.h"
#include "unit.h"

#include "base/clock.h"
#include "base/config.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/id.h"
#include "bootstrap/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define NRANK 3
#define MOST  60.0 /* seconds: a limit against hangs */

struct scene { /* shared by the test and its ranks */
    struct plait_unique_id id;
    struct plait_tcp_id tcp;
    enum plait_status status[NRANK];
    char text[NRANK][512];
    pid_t pid[NRANK];
    char log[64]; /* file of rank 0's log */
};

static void rank_main(struct scene *s, uint32_t rank, unsigned descriptors)
{
    struct plait_bootstrap *b = NULL;
    const struct rlimit few = { descriptors, descriptors };
    uint32_t all[NRANK];

    if (descriptors > 0)
        setrlimit(RLIMIT_NOFILE, &few);
    s->status[rank] = plait_bootstrap_create(&s->id, rank, NRANK, MOST, PLAIT_OK, &b);
    if (s->status[rank] == PLAIT_OK)
        s->status[rank] = plait_bootstrap_allgather(b, PLAIT_OK, &rank, sizeof rank, all);
    for (uint32_t r = 0; s->status[rank] == PLAIT_OK && r < NRANK; r++)
        s->status[rank] = all[r] == r ? PLAIT_OK : PLAIT_ERR_MISMATCH;
    if (s->status[rank] != PLAIT_OK)
        snprintf(s->text[rank], sizeof s->text[rank], "%s", plait_last_error());
    plait_bootstrap_destroy(b);
    _exit(0);
}

static void start(struct scene *s, uint32_t rank, unsigned descriptors)
{
    const pid_t pid = child_fork();

    if (pid > 0) {
        s->pid[rank] = pid;
        return;
    }
    setenv("PLAIT_LOG", "info", 1);
    if (rank == 0)
        setenv("PLAIT_LOG_FILE", s->log, 1);
    else
        setenv("PLAIT_LOG_FILE", "/dev/null", 1);
    struct plait_config config;
    plait_config_load(&config);
    rank_main(s, rank, descriptors);
}

/* A connection to rank 0, once it listens. */
static int come(const struct scene *s)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(plait_tcp_id_port(&s->tcp, 0)) }, from = to;
    const double until = plait_clock() + MOST;

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    from.sin_port = 0;
    for (;;) {
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fd >= 0);
        assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
        if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
            return fd;
        close(fd);
        assert_true(plait_clock() < until);
        usleep(1000);
    }
}

/* Rank 0 has closed the connection; what it said before is skipped. */
static void assert_closed(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    char bytes[256];

    do
        assert_true(poll(&p, 1, (int)(MOST * 1e3)) > 0);
    while (recv(fd, bytes, sizeof bytes, 0) > 0);
    close(fd);
}

/* All ranks but the last have come, strangers do what they do, the last rank comes: all have met. */
static void meet_beside(void (*strangers)(const struct scene *), unsigned descriptors, const char *says)
{
    struct scene *s = shared_memory(sizeof *s);
    char log[4096] = "";

    assert_int_equal(plait_unique_id_create_tcp("=lo", &s->id), PLAIT_OK);
    assert_true(plait_tcp_id_of(&s->id, &s->tcp));
    strcpy(s->log, "/tmp/plait-strangers-XXXXXX");
    const int fd = mkstemp(s->log);
    assert_true(fd >= 0);
    start(s, 0, descriptors);
    start(s, 1, 0);
    close(come(s)); /* it listens */
    strangers(s);
    for (uint32_t r = 2; r < NRANK; r++)
        start(s, r, 0);
    for (uint32_t r = 0; r < NRANK; r++) {
        child_end(s->pid[r]);
        if (s->status[r] != PLAIT_OK)
            fail_msg("rank %u: %s", r, s->text[r]);
    }
    assert_true(read(fd, log, sizeof log - 1) >= 0);
    close(fd);
    unlink(s->log);
    const char *line = strstr(log, "from 127.0.0.2");
    if (line == NULL || strstr(line, says) == NULL || strstr(line + 1, "from 127.0.0.2") != NULL)
        fail_msg("not once '%s' in the log of rank 0: %s", says, log);
    munmap(s, sizeof *s);
}

/* ---- Those who do not know what this is ----------------------------------------------------------------------- */

static void speak_something_else(const struct scene *s)
{
    static const char http[] = "GET /metrics HTTP/1.1\r\nHost: node7\r\nUser-Agent: curious\r\n\r\n";

    for (int i = 0; i < 5; i++) {
        const int fd = come(s);
        assert_int_equal(send(fd, http, sizeof http, MSG_NOSIGNAL), sizeof http);
        assert_closed(fd);
    }
}

static void strangers_are_refused_and_counted(void **state)
{
    meet_beside(speak_something_else, 0, "did not speak the protocol");
}

static void scan(const struct scene *s)
{
    for (int i = 0; i < 500; i++)
        close(come(s));
}

static void port_scans_are_counted(void **state)
{
    meet_beside(scan, 0, "said nothing");
}

static void send_garbage(const struct scene *s)
{
    static char garbage[1 << 20];
    size_t sent = 0;
    ssize_t n;
    const int fd = come(s);

    memset(garbage, 'x', sizeof garbage);
    while ((n = send(fd, garbage, sizeof garbage, MSG_NOSIGNAL)) > 0)
        assert_true((sent += (size_t)n) < (size_t)64 << 20); /* what sockets hold, and no more is read */
    close(fd);
}

static void gigabytes_of_garbage_are_not_read(void **state)
{
    meet_beside(send_garbage, 0, "did not speak the protocol");
}

/* ---- Those who stay ---------------------------------------------------------------------------------------------- */

static int kept[1000];

static void release(void)
{
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (kept[i] > 0) {
            close(kept[i]);
            kept[i] = 0;
        }
}

static void stay_silent(const struct scene *s)
{
    for (int i = 0; i < 500; i++) /* each would take 0.2 s, and all of them longer than the ranks wait */
        kept[i] = come(s);
}

static void connections_that_say_nothing_hold_nobody_up(void **state)
{
    meet_beside(stay_silent, 0, "said nothing");
    release();
}

/* A byte of a right greeting, then nothing, while rank 0 goes on waiting for the last rank. */
static void drip(const struct scene *s)
{
    struct plait_client_hello hello;
    const int fd = come(s);

    assert_int_equal(plait_client_hello_make(&hello), PLAIT_OK);
    assert_int_equal(send(fd, &hello, 1, MSG_NOSIGNAL), 1);
    usleep(100000);
    assert_int_equal(send(fd, (char *)&hello + 1, 1, MSG_NOSIGNAL), 1);
    assert_closed(fd);
}

static void slow_drips_end(void **state)
{
    meet_beside(drip, 0, "took too long");
}

/* Each of these has sent its hello, waits, and leaves after 2 s. Rank 0 has few descriptors. */
static void crowd(const struct scene *s)
{
    struct rlimit limit;
    unsigned most = sizeof kept / sizeof *kept;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < most + 50)
        most = (unsigned)limit.rlim_cur - 50;
    for (unsigned i = 0; i < most; i++) {
        struct plait_client_hello hello;
        assert_int_equal(plait_client_hello_make(&hello), PLAIT_OK);
        kept[i] = come(s);
        assert_int_equal(send(kept[i], &hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
    }
    sleep(2);
    release();
}

static void thousands_of_connections_do_not_take_all_descriptors(void **state)
{
    meet_beside(crowd, 32, "closed after rank 0's answer");
}

/* ---- Those who know what this is, but not the secret -------------------------------------------------------------- */

static void exchange_hellos(int fd, struct plait_handshake *h)
{
    assert_int_equal(send(fd, &h->client, sizeof h->client, MSG_NOSIGNAL), sizeof h->client);
    assert_int_equal(recv(fd, &h->server, sizeof h->server, MSG_WAITALL), sizeof h->server);
}

static void ask_for_rank_2(int fd, const struct plait_join_request *request)
{
    assert_int_equal(send(fd, request, sizeof *request, MSG_NOSIGNAL), sizeof *request);
    assert_closed(fd);
}

static void guess_the_secret(const struct scene *s)
{
    unsigned char other[PLAIT_SECRET_BYTES];
    struct plait_join_request request = { .rank = 2, .nrank = NRANK };
    struct plait_handshake h;
    const int fd = come(s);

    memcpy(other, s->tcp.secret, sizeof other);
    other[31] ^= 1;
    assert_int_equal(plait_client_hello_make(&h.client), PLAIT_OK);
    exchange_hellos(fd, &h);
    assert_true(plait_server_hello_is_valid(s->tcp.secret, &h));
    assert_false(plait_server_hello_is_valid(other, &h));
    plait_join_request_sign(other, &h, &request);
    ask_for_rank_2(fd, &request);
}

static void a_wrong_secret_is_refused(void **state)
{
    meet_beside(guess_the_secret, 0, "did not know this comm's secret");
}

/* Somebody has heard a rank join, and says the same. */
static void say_again_what_was_heard(const struct scene *s)
{
    struct plait_join_request request = { .rank = 2, .nrank = NRANK };
    struct plait_handshake h;
    int fd = come(s);

    assert_int_equal(plait_client_hello_make(&h.client), PLAIT_OK);
    exchange_hellos(fd, &h);
    plait_join_request_sign(s->tcp.secret, &h, &request);
    close(fd);
    fd = come(s);
    exchange_hellos(fd, &h);
    ask_for_rank_2(fd, &request);
}

static void replayed_messages_are_refused(void **state)
{
    meet_beside(say_again_what_was_heard, 0, "did not know this comm's secret");
}

/* The only hash that rank 0 gives away is no request. */
static void send_the_answer_back(const struct scene *s)
{
    struct plait_join_request request = { .rank = 2, .nrank = NRANK };
    struct plait_handshake h;
    const int fd = come(s);

    assert_int_equal(plait_client_hello_make(&h.client), PLAIT_OK);
    exchange_hellos(fd, &h);
    memcpy(request.mac, h.server.mac, sizeof request.mac);
    ask_for_rank_2(fd, &request);
}

static void an_answer_sent_back_is_refused(void **state)
{
    meet_beside(send_the_answer_back, 0, "did not know this comm's secret");
}

/* A right claim whose rank was changed on the way. */
static void change_the_rank(const struct scene *s)
{
    struct plait_join_request request = { .rank = 1, .nrank = NRANK };
    struct plait_handshake h;
    const int fd = come(s);

    assert_int_equal(plait_client_hello_make(&h.client), PLAIT_OK);
    exchange_hellos(fd, &h);
    plait_join_request_sign(s->tcp.secret, &h, &request);
    request.rank = 2;
    ask_for_rank_2(fd, &request);
}

static void a_changed_claim_is_refused(void **state)
{
    meet_beside(change_the_rank, 0, "did not know this comm's secret");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_are_refused_and_counted),
        cmocka_unit_test(port_scans_are_counted),
        cmocka_unit_test(gigabytes_of_garbage_are_not_read),
        cmocka_unit_test(connections_that_say_nothing_hold_nobody_up),
        cmocka_unit_test(slow_drips_end),
        cmocka_unit_test(thousands_of_connections_do_not_take_all_descriptors),
        cmocka_unit_test(a_wrong_secret_is_refused),
        cmocka_unit_test(replayed_messages_are_refused),
        cmocka_unit_test(an_answer_sent_back_is_refused),
        cmocka_unit_test(a_changed_claim_is_refused),
    };

    return cmocka_run_group_tests_name("strangers", tests, NULL, NULL);
}
