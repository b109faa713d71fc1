/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ranks a processor: who waits for a few bytes keeps it for ranks on another, and gives way to the one on its own. */
#include "child.h"
#include "comm/comm.h"
#include "progress/wait.h"
#include "ranks.h"
#include "unit.h"

#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

enum { NRANK = 4, NCPU = 2 };

static int cpus[NCPU]; /* that this process may use */

struct shared {
    atomic_uint outside; /* ranks that are out of their operations */
    atomic_bool over;
};

static uint32_t awaited(const void *context, uint32_t *ranks, uint32_t most)
{
    *ranks = *(const uint32_t *)context;
    return 1;
}

/* Turns that a wait for this rank has beyond those of the comm. */
static uint32_t more_for(struct plait_comm *comm, uint32_t rank)
{
    struct plait_wait w;

    plait_wait_init(&w, NULL, awaited, &rank);
    plait_wait_for_few_bytes(comm, &w, plait_is_apart(comm, rank));
    return w.more;
}

/* Of a rank of this process: others' cannot be written. */
static struct plait_control *control_of(const struct plait_comm *comm, uint32_t rank)
{
    return (struct plait_control *)(uintptr_t)comm->peers[rank].control;
}

static bool bind_to(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

static int look_at_places(struct plait_comm *comm, uint32_t rank)
{
    for (uint32_t r = 0; r < NRANK; r++) {
        const int told = (int)atomic_load(&control_of(comm, r)->processor) - 1;
        CHECK(told == cpus[r % NCPU]);
        CHECK(plait_is_apart(comm, r) == (r % NCPU != rank % NCPU));
    }
    return 0;
}

/* Ranks 1 and 3 are apart from rank 0; rank 2 shares its processor. */
static int wait_for_some(struct plait_comm *comm, uint32_t rank)
{
    const uint32_t turns = comm->apart;

    CHECK(turns > 0);
    CHECK(more_for(comm, 1) == turns);
    CHECK(more_for(comm, 3) == turns);
    CHECK(more_for(comm, 2) == 0);
    atomic_store(&control_of(comm, 2)->away, 1); /* it waits for its turn here */
    CHECK(more_for(comm, 1) == 0);
    atomic_store(&control_of(comm, 2)->away, 0);
    atomic_store(&control_of(comm, 3)->away, 1); /* that one does elsewhere */
    CHECK(more_for(comm, 1) == turns);
    atomic_store(&control_of(comm, 3)->away, 0);
    return 0;
}

/* All its turns without a yield, then one with, of which the others hear until it is back. */
static int keep_and_give_way(struct plait_comm *comm, uint32_t rank)
{
    const uint32_t one = 1;
    struct plait_wait w;

    plait_wait_init(&w, NULL, awaited, &one);
    plait_wait_for_few_bytes(comm, &w, true);
    const uint64_t before = comm->stats.yields;
    for (uint32_t i = 0; i < PLAIT_SPINS_SHARED + comm->apart; i++)
        CHECK(plait_wait_turn(comm, &w) == PLAIT_OK);
    CHECK(comm->stats.yields == before);
    CHECK(atomic_load(&comm->own->away) == 0);
    CHECK(plait_wait_turn(comm, &w) == PLAIT_OK);
    CHECK(comm->stats.yields == before + 1);
    CHECK(atomic_load(&comm->own->away) == 1);
    plait_wait_progress(comm, &w);
    CHECK(atomic_load(&comm->own->away) == 0);
    return 0;
}

static int wait_bound(struct plait_comm *comm, uint32_t rank, struct shared *shared)
{
    float x = 1, sum = 0;

    CHECK(bind_to(cpus[rank % NCPU]));
    for (int i = 0; i < 3; i++) /* of each the others know when it is over where that one was, as it began */
        CHECK(plait_allreduce(comm, &x, &sum, 1, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK && sum == NRANK);
    CHECK(look_at_places(comm, rank) == 0);
    CHECK(plait_barrier(comm, NULL) == PLAIT_OK);
    atomic_fetch_add(&shared->outside, 1);
    while (rank == 0 && atomic_load(&shared->outside) < NRANK && !atomic_load(&shared->over))
        usleep(1000);
    return rank == 0 && (wait_for_some(comm, rank) != 0 || keep_and_give_way(comm, rank) != 0);
}

static int wait_bound_and_stay(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct shared *shared = arg;
    const int failed = wait_bound(*comm, rank, shared);

    if (rank == 0 || failed)
        atomic_store(&shared->over, true);
    while (!atomic_load(&shared->over)) /* outside of the library, where they would give way */
        usleep(1000);
    return failed;
}

static void who_waits_for_a_few_bytes_keeps_its_processor_for_ranks_on_others(void **state)
{
    struct shared *shared = shared_memory(sizeof *shared);
    const struct ranks r = {
        .nprocess = 1, .nthread = NRANK, .body = wait_bound_and_stay, .arg = shared, .tied = true
    };

    assert_int_equal(ranks_run(&r), 0);
    munmap(shared, sizeof *shared);
}

/* With a processor each, and with more than two on one, nobody tells where it is and waits are as they were. */
static int wait_otherwise(struct plait_comm **comm, uint32_t rank, void *arg)
{
    float x = 1, sum = 0;

    CHECK(plait_allreduce(*comm, &x, &sum, 1, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK);
    CHECK((*comm)->apart == 0);
    CHECK(atomic_load(&(*comm)->own->processor) == 0);
    CHECK(more_for(*comm, (rank + 1) % plait_comm_nrank(*comm)) == 0);
    return 0;
}

static void others_wait_as_ever(void **state)
{
    for (uint32_t n = NCPU; n <= 3 * NCPU; n += 2 * NCPU) {
        const struct ranks r = { .nprocess = n, .nthread = 1, .body = wait_otherwise };
        assert_int_equal(ranks_run(&r), 0);
    }
}

/* All tests have two processors. */
static bool take_two(void)
{
    cpu_set_t all, two;
    int n = 0;

    CPU_ZERO(&two);
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return false;
    for (int cpu = 0; cpu < CPU_SETSIZE && n < NCPU; cpu++)
        if (CPU_ISSET(cpu, &all)) {
            CPU_SET(cpu, &two);
            cpus[n++] = cpu;
        }
    return n == NCPU && sched_setaffinity(0, sizeof two, &two) == 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_for_a_few_bytes_keeps_its_processor_for_ranks_on_others),
        cmocka_unit_test(others_wait_as_ever),
    };

    if (!take_two()) {
        printf("this process may use one processor only\n");
        return 77;
    }
    return cmocka_run_group_tests_name("doubled", tests, NULL, NULL);
}
