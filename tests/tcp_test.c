/* SPDX-License-Identifier: BSD-3-Clause */
/* Comms over TCP: they work, those made of them too, and nobody who lacks the secret gets in or in the way. */
#include "bootstrap/tcp.h"
#include "clock.h"
#include "comm.h"
#include "ranks.h"

#include <plait/log.h>
#include <plait/version.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static struct plait_unique_id the_id;

static int make_id(void **state)
{
    (void)state;
    return plait_unique_id_create_tcp("=lo", &the_id) == PLAIT_OK ? 0 : 1;
}

static struct plait_comm_options options(uint32_t rank, uint32_t nrank)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;

    o.rank = rank;
    o.nrank = nrank;
    o.id = &the_id;
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
    struct plait_comm *half = NULL, *twin = NULL, *rest = NULL;
    const uint32_t gone[] = { 0, 3 };

    (void)arg;
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
    if (rank != 0 && rank != 3) {
        CHECK(plait_comm_shrink(*comm, gone, 2, 1, NULL, &rest) == PLAIT_OK);
        CHECK(plait_comm_nrank(rest) == 4 && sum(rest, rank) == 0);
        CHECK(rest->nodes.hosts != NULL);
    }
    plait_comm_destroy(rest);
    plait_comm_destroy(twin);
    plait_comm_destroy(half);
    plait_comm_destroy(*comm); /* revoked by the shrink */
    *comm = NULL;
    return 0;
}

static void comms_over_tcp_split_duplicate_and_shrink(void **state)
{
    const struct ranks r = { .nprocess = 3, .nthread = 2, .body = live, .no_comm = true };

    (void)state;
    assert_int_equal(ranks_run(&r), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(comms_over_tcp_split_duplicate_and_shrink, make_id),
    };

    return cmocka_run_group_tests_name("tcp", tests, NULL, NULL);
}
