/* SPDX-License-Identifier: BSD-3-Clause */
/* Comms over TCP: they work, those made of them too, and nobody who lacks the secret gets in or in the way. */
#include "base/clock.h"
#include "base/status.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/id.h"
#include "child.h"
#include "comm/comm.h"
#include "ranks.h"
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct plait_unique_id the_id;

static int make_id(void **state)
{
    return plait_unique_id_create_tcp("=lo", &the_id) == PLAIT_OK ? 0 : 1;
}

static struct plait_comm_options options(uint32_t rank, uint32_t nrank)
{
    struct plait_comm_options o = options_of_rank(nrank, rank, &the_id);

    return o;
}

/* Does this comm add up? */
static int sum(struct plait_comm *comm, uint32_t rank)
{
    const uint32_t n = plait_comm_nrank(comm);
    int64_t mine = 1 << plait_comm_rank(comm), all = 0;

    CHECK(plait_allreduce(comm, &mine, &all, 1, PLAIT_INT64, PLAIT_SUM, NULL) == PLAIT_OK);
    CHECK(all == ((int64_t)1 << n) - 1);
    return 0;
}

/* ---- Comms --------------------------------------------------------------------------------------------------- */

static int live(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plait_comm_options o = options(rank, 6);
    struct plait_comm *half = NULL, *twin = NULL, *all = NULL, *rest = NULL;
    const uint32_t gone[] = { 0, 3 };

    CHECK(plait_comm_create(&o, comm) == PLAIT_OK);
    CHECK(sum(*comm, rank) == 0);
    for (uint32_t r = 0; r < 6; r++)
        CHECK(plait_node_of(&(*comm)->nodes, r) == 0);
    CHECK((*comm)->nodes.n == 1 && (*comm)->nodes.hosts != NULL);
    CHECK(plait_comm_split(*comm, rank % 2, -(int)rank, NULL, &half) == PLAIT_OK);
    CHECK(sum(half, rank) == 0);
    CHECK(half->nodes.hosts != NULL); /* it met over TCP, too */
    CHECK(plait_comm_duplicate(half, NULL, &twin) == PLAIT_OK);
    CHECK(sum(twin, rank) == 0);
    CHECK(plait_comm_duplicate(*comm, NULL, &all) == PLAIT_OK);
    CHECK(plait_barrier(all, NULL) == PLAIT_OK); /* the shrink would abort the split that others are still in */
    if (rank != 0 && rank != 3) {
        CHECK(plait_comm_shrink(*comm, gone, 2, 1, NULL, &rest) == PLAIT_OK);
        CHECK(plait_comm_nrank(rest) == 4 && sum(rest, rank) == 0);
        CHECK(rest->nodes.hosts != NULL);
    }
    plait_comm_destroy(rest);
    plait_comm_destroy(all);
    plait_comm_destroy(twin);
    plait_comm_destroy(half);
    plait_comm_destroy(*comm); /* revoked by the shrink */
    *comm = NULL;
    return 0;
}

static void comms_over_tcp_split_duplicate_and_shrink(void **state)
{
    const struct ranks r = { .nprocess = 3, .nthread = 2, .body = live, .no_comm = true };

    assert_int_equal(ranks_run(&r), 0);
}

/* ---- Rendezvous ------------------------------------------------------------------------------------------------ */

#define MANY 64

struct counts { /* shared by the ranks */
    uint32_t sends[MANY];
    atomic_uint second; /* ranks that were told of a second rank 0 */
};

static struct counts *counts;
static atomic_uint sends;

ssize_t __real_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);

ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
    sends += bytes > 0;
    return __real_send(fd, data, bytes, flags);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    sends++;
    return __real_sendmsg(fd, message, flags);
}

int __real_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);

static bool node_is_full; /* its first rank has no descriptor for the others */

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
    struct sockaddr_storage own = { 0 };
    socklen_t bytes = sizeof own;

    if (node_is_full && getsockname(fd, (struct sockaddr *)&own, &bytes) == 0 && own.ss_family == AF_UNIX) {
        errno = EMFILE;
        return -1;
    }
    return __real_accept4(fd, address, length, flags);
}

static int meet(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t nrank = *(const uint32_t *)arg;
    const struct plait_comm_options o = options(rank, nrank);

    CHECK(plait_comm_create(&o, comm) == PLAIT_OK);
    counts->sends[rank] = sends;
    return 0;
}

/* Messages per rank: constant, whatever the number of ranks; rank 0, and the node's leader: a few for each other. */
static void sixty_four_ranks_meet_with_few_messages(void **state)
{
    uint32_t nrank;
    const struct ranks r = { .nthread = 1, .body = meet, .arg = &nrank, .no_comm = true };

    for (nrank = 8; nrank <= MANY; nrank *= 8) {
        struct ranks all = r;
        uint32_t many = 0;
        all.nprocess = nrank;
        all.processes = true; /* each counts its own */
        assert_int_equal(make_id(NULL), 0);
        const double start = plait_clock();
        assert_int_equal(ranks_run(&all), 0);
        printf("%u ranks: %.2f s, rank 0 sends %u messages, the last %u\n", nrank, plait_clock() - start,
               counts->sends[0], counts->sends[nrank - 1]);
        for (uint32_t i = 0; i < nrank; i++) {
            assert_true(counts->sends[i] <= 20 * nrank);
            many += counts->sends[i] > 30;
        }
        assert_true(many <= 2); /* rank 0 and the leader */
    }
}

struct ends { /* of ranks that meet without a comm */
    const char *want[4];
    uint32_t nrank[4], rank[4];
    enum plait_status own[4];
    bool dies[4];
};

/* Everyone's result is an error with this text; NULL: none is expected to come back. */
static int fail_to_meet(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct ends *e = arg;
    struct plait_bootstrap *b = NULL;
    enum plait_status own = e->own[rank];

    if (own != PLAIT_OK)
        plait_fail(own, "this is why");
    enum plait_status status =
        plait_bootstrap_create(&the_id, e->rank[rank], e->nrank[rank], e->want[rank] == NULL ? 3 : 30, own, &b);
    if (e->dies[rank]) {
        CHECK(status == PLAIT_OK);
        raise(SIGKILL);
    }
    if (status == PLAIT_OK)
        status = plait_bootstrap_agree(b, PLAIT_OK);
    CHECK(status != PLAIT_OK);
    counts->second += strstr(plait_last_error(), "two ranks have rank 0") != NULL;
    if (e->want[rank] != NULL && strstr(plait_last_error(), e->want[rank]) == NULL) {
        fprintf(stderr, "rank %u: '%s' is not in '%s'\n", rank, e->want[rank], plait_last_error());
        return 1;
    }
    plait_bootstrap_destroy(b);
    return 0;
}

static void run_ends(struct ends *e, unsigned killed)
{
    const struct ranks r = {
        .nprocess = 4, .nthread = 1, .body = fail_to_meet, .arg = e, .no_comm = true, .processes = true
    };

    assert_int_equal(make_id(NULL), 0);
    assert_int_equal(ranks_run(&r), killed);
}

static void the_error_of_one_rank_is_told_to_all(void **state)
{
    for (uint32_t failing = 0; failing < 4; failing++) {
        struct ends e = { .rank = { 0, 1, 2, 3 }, .nrank = { 4, 4, 4, 4 } };
        char want[64];
        snprintf(want, sizeof want, "rank %u: this is why", failing);
        for (uint32_t r = 0; r < 4; r++)
            e.want[r] = r == failing ? "this is why" : want;
        e.own[failing] = PLAIT_ERR_CONFIG;
        run_ends(&e, 0);
    }
}

static void a_rank_that_dies_is_named(void **state)
{
    struct ends e = { .rank = { 0, 1, 2, 3 }, .nrank = { 4, 4, 4, 4 }, .dies = { false, false, true } };

    for (uint32_t r = 0; r < 4; r++)
        e.want[r] = "rank 2 left or died";
    run_ends(&e, 1);
    for (uint32_t r = 0; r < 4; r++) {
        e.want[r] = "rank 0 left or died";
        e.dies[r] = r == 0;
    }
    run_ends(&e, 1);
}

static void an_error_inside_a_node_is_told_to_all(void **state)
{
    struct ends e = { .rank = { 0, 1, 2, 3 }, .nrank = { 4, 4, 4, 4 } };

    for (uint32_t r = 0; r < 4; r++)
        e.want[r] = "accepting the ranks of this node: Too many open files";
    node_is_full = true;
    run_ends(&e, 0);
    node_is_full = false;
}

static void ranks_that_differ_are_named(void **state)
{
    struct ends e = { .rank = { 0, 1, 2, 3 }, .nrank = { 4, 4, 5, 4 } };

    for (uint32_t r = 0; r < 4; r++)
        e.want[r] = "nrank is 4 on rank 0 and 5 on rank 2";
    run_ends(&e, 0);
    e = (struct ends){ .rank = { 0, 1, 1, 3 }, .nrank = { 4, 4, 4, 4 } };
    for (uint32_t r = 0; r < 4; r++)
        e.want[r] = "two ranks have rank 1";
    run_ends(&e, 0);
}

/* The second finds the port taken, and says there that it is another rank 0. */
static void a_second_rank_0_ends_all_who_came(void **state)
{
    struct ends e = { .rank = { 0, 1, 2, 0 }, .nrank = { 4, 4, 4, 4 } };

    for (uint32_t r = 0; r < 4; r++)
        e.want[r] = "two ranks have rank 0";
    run_ends(&e, 0);
}

/* ---- Where rank 0 listens -------------------------------------------------------------------------------------- */

static void make_id_at(const char *address, uint16_t first_port, uint16_t nport)
{
    struct sockaddr_in a = { .sin_family = AF_INET };
    struct plait_hosts hosts = { { 0 } };
    unsigned char secret[PLAIT_SECRET_BYTES] = "of this test";

    assert_int_equal(inet_pton(AF_INET, address, &a.sin_addr), 1);
    assert_true(plait_hosts_add(&hosts, (struct sockaddr *)&a));
    plait_tcp_id_make((struct plait_ports){ first_port, nport }, secret, &hosts, PLAIT_ID_MADE, &the_id);
}

/* Something else listens there. */
static int take_port(uint16_t port)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 8) == 0)
        return fd;
    close(fd);
    return -1;
}

static void assert_rank_0_fails(const char *says)
{
    struct plait_bootstrap *b = NULL;

    assert_int_equal(plait_bootstrap_create(&the_id, 0, 2, 1, PLAIT_OK, &b), PLAIT_ERR_ARG);
    if (strstr(plait_last_error(), says) == NULL)
        fail_msg("'%s' does not say '%s'", plait_last_error(), says);
}

static void rank_0_says_why_it_cannot_listen(void **state)
{
    struct plait_bootstrap *b = NULL;
    uint16_t port = 23456;
    int first, second;

    make_id_at("192.0.2.77", 20000, 8);
    assert_rank_0_fails("no address of the id is one of this host");
    for (;; port += 2) { /* two that are free */
        first = take_port(port);
        second = take_port((uint16_t)(port + 1));
        if (first >= 0 && second >= 0)
            break;
        assert_true(port < 30000);
        close(first);
        close(second);
    }
    make_id_at("127.0.0.1", port, 2);
    assert_rank_0_fails("PLAIT_PORTS");
    close(first); /* now it listens, and nobody comes */
    assert_int_equal(plait_bootstrap_create(&the_id, 0, 2, 0.5, PLAIT_OK, &b), PLAIT_ERR_TIMEOUT);
    assert_non_null(strstr(plait_last_error(), "1 of 2 ranks did not join within 0.5 s: rank 1"));
    close(second);
}

static void an_id_that_is_none_is_refused(void **state)
{
    struct plait_bootstrap *b = NULL;
    struct plait_unique_id id = { "plait1-tcp" };

    assert_int_equal(plait_bootstrap_create(&id, 1, 2, 1, PLAIT_OK, &b), PLAIT_ERR_ARG);
    assert_non_null(strstr(plait_last_error(), "plait_unique_id_create_tcp()"));
    assert_int_equal(plait_unique_id_create_tcp("no-such", &id), PLAIT_ERR_CONFIG);
    assert_int_equal(plait_unique_id_create_tcp(NULL, NULL), PLAIT_ERR_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(comms_over_tcp_split_duplicate_and_shrink, make_id),
        cmocka_unit_test(sixty_four_ranks_meet_with_few_messages),
        cmocka_unit_test(the_error_of_one_rank_is_told_to_all),
        cmocka_unit_test(a_rank_that_dies_is_named),
        cmocka_unit_test(an_error_inside_a_node_is_told_to_all),
        cmocka_unit_test(ranks_that_differ_are_named),
        cmocka_unit_test(a_second_rank_0_ends_all_who_came),
        cmocka_unit_test(rank_0_says_why_it_cannot_listen),
        cmocka_unit_test(an_id_that_is_none_is_refused),
    };

    counts = shared_memory(sizeof *counts);
    return cmocka_run_group_tests_name("tcp", tests, NULL, NULL);
}
