/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where slices lie that are staged. It is what they cost: lines that their reader still has in its cache are dear to write,
 * those that no cache holds any more too.
 */
#include "comm/comm.h"
#include "engine/slice.h"
#include "p2p/message.h"
#include "unit_ranks.h"

#include <plait/group.h>
#include <plait/topology.h>

#include <stdlib.h>
#include <string.h>

enum { BYTES = 40000, NTIME = 100 };
enum { SOME = 512 << 10 }; /* bytes of a flight, whatever the processor's caches are */

#define PART PLAIT_ROUND_UP((size_t)BYTES)

static bool is_all(const char *p, char byte, size_t bytes)
{
    while (bytes > 0 && p[bytes - 1] == byte)
        bytes--;
    return bytes == 0;
}

/* ---- After a long slice -------------------------------------------------------------------------------- */

/* Of each flight, how much of its memory slices of 20,000 numbers use in 200 operations. */
static int use_flights(struct plait_comm *comm, uint32_t rank, float *v, size_t used[PLAIT_NSLICE])
{
    for (unsigned d = 0; d < PLAIT_NSLICE; d++)
        used[d] = 0;
    for (unsigned i = 0; i < 200; i++) {
        CHECK(plait_allreduce(comm, v, v, 20000, PLAIT_FLOAT32, PLAIT_MAX, NULL) == PLAIT_OK);
        for (unsigned d = 0; i >= PLAIT_NSLICE && d < PLAIT_NSLICE; d++) { /* all have been launched by then */
            const struct plait_slice *f = &comm->slices[d];
            used[d] = used[d] < f->used ? f->used : used[d];
        }
    }
    return 0;
}

/* The memory grows for the longest slice; were all of it used in turn, no cache would hold it from then on. */
static int a_long_slice_does_not_send_short_ones_through_all_its_memory(struct plait_comm **comm, uint32_t rank,
                                                                        void *arg)
{
    const size_t count = 4 * SOME;
    struct plait_call uncut = PLAIT_CALL_DEFAULT;
    float *v = calloc(count, sizeof *v);
    size_t before[PLAIT_NSLICE], after[PLAIT_NSLICE];

    (*comm)->slice_bytes = SOME;
    uncut.slice = count;
    uncut.algorithm = "two-shot";
    CHECK(v != NULL && use_flights(*comm, rank, v, before) == 0);
    CHECK(plait_allreduce(*comm, v, v, count, PLAIT_FLOAT32, PLAIT_MAX, &uncut) == PLAIT_OK);
    CHECK((*comm)->slices[0].bytes > 2 * (*comm)->slice_bytes);
    CHECK(use_flights(*comm, rank, v, after) == 0);
    for (unsigned d = 0; d < PLAIT_NSLICE; d++)
        CHECK(after[d] > 0 && after[d] == before[d]);
    free(v);
    return 0;
}

/* Half of the last level holds what all ranks stage; longer results pass it. */
static int memory_for_slices_fits_the_last_level_of_cache(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_topology t;

    plait_topology_get(&t);
    const size_t half = (t.l3 > t.l2 ? t.l3 : t.l2) / 2, each = half / (*comm)->nrank;
    CHECK((*comm)->slice_bytes <= each / PLAIT_NSLICE && (*comm)->slice_bytes <= t.l2 / 4 * 3);
    CHECK((*comm)->slice_bytes == each / PLAIT_NSLICE || (*comm)->slice_bytes == t.l2 / 4 * 3);
    CHECK((*comm)->streams_from >= each);
    return 0;
}

/* ---- Turns ---------------------------------------------------------------------------------------------- */

/* From now on blocks of all sizes are staged, with streaming or with cached stores. */
static void stage(struct plait_comm *comm, bool streams)
{
    const enum plait_copy_mode mode = streams ? PLAIT_COPY_STREAMED : PLAIT_COPY_STAGED;

    for (unsigned k = 0; k < PLAIT_COPY_CLASSES; k++)
        comm->copies.modes[k] = (struct plait_copy_modes){ mode, mode };
}

static int exchange(struct plait_comm *comm, uint32_t rank, char *v, char byte)
{
    const size_t counts[2] = { rank == 0 ? 0 : BYTES, rank == 1 ? 0 : BYTES };

    memset(v, byte, BYTES);
    CHECK(plait_alltoallv(comm, v, counts, NULL, v + BYTES, counts, NULL, PLAIT_UINT8, NULL) == PLAIT_OK);
    CHECK(is_all(v + BYTES, byte, BYTES));
    return 0;
}

/* Slices of a flight take one part of its memory after the other. */
static int exchange_both_ways(struct plait_comm **comm, uint32_t rank, void *arg)
{
    char *v = malloc(2 * (size_t)BYTES);
    struct plait_slice *f = (*comm)->slices;

    (*comm)->slice_bytes = SOME;
    CHECK(v != NULL && exchange(*comm, rank, v, -1) == 0 && f->bytes == SOME);
    for (unsigned streams = 0; streams < 2; streams++) {
        stage(*comm, streams);
        CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
        for (unsigned d = 0; d < PLAIT_NSLICE; d++)
            memset(f[d].memory, 'r', f[d].bytes);
        struct plait_comm_stats before, after;
        plait_comm_stats(*comm, &before);
        CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
        for (char i = 0; i < NTIME; i++)
            CHECK(exchange(*comm, rank, v, i) == 0);
        plait_comm_stats(*comm, &after);
        CHECK(after.bytes_staged - before.bytes_staged == (size_t)NTIME * BYTES);
        CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
        size_t nplace = 0, least = SIZE_MAX;
        for (unsigned d = 0; d < PLAIT_NSLICE; d++) {
            for (size_t at = nplace = 0; at + BYTES <= f[d].bytes; at++)
                if (f[d].memory[at] != 'r' && is_all(f[d].memory + at, f[d].memory[at], BYTES)) {
                    nplace++;
                    at += BYTES - 1;
                }
            least = nplace < least ? nplace : least;
        }
        CHECK(least + 1 >= SOME / PART);
    }
    free(v);
    return 0;
}

/* The same of messages: rank 0 sends, and looks. */
static int pass(struct plait_comm *comm, uint32_t rank, char *v, char byte)
{
    memset(v, rank == 0 ? byte : -1, BYTES);
    CHECK((rank == 0 ? plait_send(comm, v, BYTES, PLAIT_UINT8, 1, NULL)
                     : plait_recv(comm, v, BYTES, PLAIT_UINT8, 0, NULL)) == PLAIT_OK);
    CHECK(is_all(v, byte, BYTES));
    return 0;
}

static int send_both_ways(struct plait_comm **comm, uint32_t rank, void *arg)
{
    char *v = malloc(BYTES);

    (void)arg;
    CHECK(v != NULL);
    for (unsigned streams = 0; streams < 2; streams++) {
        stage(*comm, streams);
        CHECK(pass(*comm, rank, v, 0) == 0);
        CHECK(plait_barrier(*comm, NULL) == PLAIT_OK); /* it has been read */
        char *memory = rank == 0 ? (*comm)->messages->pairs[1]->stage : NULL;
        if (rank == 0)
            memset(memory, 'r', PLAIT_MESSAGE_STAGE * PLAIT_MESSAGE_SLICE);
        CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
        for (char i = 0; i < NTIME; i++)
            CHECK(pass(*comm, rank, v, i) == 0);
        CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
        for (unsigned k = 0; k < PLAIT_MESSAGE_STAGE && rank == 0; k++, memory += PLAIT_MESSAGE_SLICE)
            for (size_t at = 0; at + PART <= PLAIT_MESSAGE_SLICE; at += PART)
                CHECK(is_all(memory + at, memory[at], BYTES) && memory[at] != 'r');
    }
    free(v);
    return 0;
}

/* A reader's cache still has the lines that it read last; to write those takes longest. */
static void what_is_staged_takes_parts_of_the_memory_in_turn(void **state)
{
    struct ranks r = { .nprocess = 2, .nthread = 1, .body = exchange_both_ways, .processes = true };

    setenv("PLAIT_CMA", "0", 1);
    unsigned failed = ranks_run(&r);
    r.body = send_both_ways;
    failed += ranks_run(&r);
    unsetenv("PLAIT_CMA");
    assert_int_equal(failed, 0);
}

/* ---- Messages ----------------------------------------------------------------------------------------- */

/* What fits into a mailbox is staged nowhere; a byte more is. */
static int messages_that_fit_into_a_post_are_staged_nowhere(struct plait_comm **comm, uint32_t rank, void *arg)
{
    char in[PLAIT_MAILBOX_DATA + 1] = { 1 }, out[PLAIT_MAILBOX_DATA + 1];

    for (size_t n = PLAIT_MAILBOX_DATA; n <= PLAIT_MAILBOX_DATA + 1; n++) {
        struct plait_comm_stats before, after;
        plait_comm_stats(*comm, &before);
        CHECK(plait_group_start() == PLAIT_OK);
        CHECK(plait_recv(*comm, out, n, PLAIT_INT8, 1 - rank, NULL) == PLAIT_OK);
        CHECK(plait_send(*comm, in, n, PLAIT_INT8, 1 - rank, NULL) == PLAIT_OK && plait_group_end() == PLAIT_OK);
        CHECK(memcmp(in, out, n) == 0);
        plait_comm_stats(*comm, &after);
        CHECK(after.bytes_staged - before.bytes_staged == (n > PLAIT_MAILBOX_DATA ? n : 0));
    }
    return 0;
}

/*
 * Pairs have turns only while a message is pending. That a receive may read what is gone when its sender fails is said, in a full fence,
 * where they are threads of one process.
 */
static int wait_for_messages(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const bool *processes = arg;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *request;
    char byte = 0;

    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    if (rank == 0) {
        call.request = &request;
        for (uint32_t peer = 1; peer < 3; peer++) /* pairs with both */
            CHECK(plait_send(*comm, &byte, 1, PLAIT_INT8, peer, NULL) == PLAIT_OK);
        CHECK(plait_recv(*comm, &byte, 1, PLAIT_INT8, 2, &call) == PLAIT_OK);
        CHECK((*comm)->messages->n == 1);
        CHECK(atomic_load(&(*comm)->own->receiving) == !*processes);
        CHECK(plait_send(*comm, &byte, 1, PLAIT_INT8, 2, NULL) == PLAIT_OK); /* the other may go on */
        CHECK(plait_wait(&request) == PLAIT_OK);
        CHECK((*comm)->messages->n == 0 && atomic_load(&(*comm)->own->receiving) == 0);
    } else {
        CHECK(plait_recv(*comm, &byte, 1, PLAIT_INT8, 0, NULL) == PLAIT_OK);
        if (rank == 2) {
            CHECK(plait_recv(*comm, &byte, 1, PLAIT_INT8, 0, NULL) == PLAIT_OK);
            CHECK(plait_send(*comm, &byte, 1, PLAIT_INT8, 0, NULL) == PLAIT_OK);
        }
    }
    return 0;
}

static void a_receive_from_another_process_costs_no_fence_and_ended_messages_no_turns(void **state)
{
    for (unsigned k = 0; k < 2; k++) {
        bool processes = k == 1;
        const struct ranks r = { .nprocess = processes ? 3 : 1,
                                 .nthread = processes ? 1 : 3,
                                 .body = wait_for_messages,
                                 .arg = &processes,
                                 .processes = processes };
        assert_int_equal(ranks_run(&r), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_of_both(memory_for_slices_fits_the_last_level_of_cache, 2),
        test_of_ranks(a_long_slice_does_not_send_short_ones_through_all_its_memory, 2, 1),
        cmocka_unit_test(what_is_staged_takes_parts_of_the_memory_in_turn),
        test_of_ranks(messages_that_fit_into_a_post_are_staged_nowhere, 2, 1, .processes = true),
        cmocka_unit_test(a_receive_from_another_process_costs_no_fence_and_ended_messages_no_turns),
    };

    return cmocka_run_group_tests_name("staging", tests, NULL, NULL);
}
