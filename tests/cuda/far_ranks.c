/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank of far_test.sh, on virtual hosts, with a device of the stand-in's; those of a host share it.
 *
 * far_ranks right   every collective, by every kind of plan, on a stream and without
 * far_ranks cut     of a rank on the host whose link is cut nothing has been heard, say the others
 * far_ranks dies    so has the last rank, which kills itself with its stream held up
 */
#include "../collective.h"
#include "../ranks.h"
#include "../specs.h"
#include "device.h"
#include "device_operate.h"

#include <plait/launch.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 1 << 21, COUNT = 1000 };

static int run_all(struct plait_comm *comm, uint32_t rank)
{
    const uint32_t nrank = plait_comm_nrank(comm);
    struct device_rank d;

    CHECK(device_begin(&d, ROOM));
    for (unsigned i = 0; i < NCOLLECTIVE; i++) {
        struct specs specs;
        specs_init(&specs, collectives[i], nrank, 0);
        for (uint32_t k = 0; k < specs.n; k++) {
            struct collective c = { .coll = collectives[i],
                                    .type = PLAIT_FLOAT32,
                                    .root = specs.spec[k].shape.root,
                                    .count = k % 2 ? 997 : 30001,
                                    .slice = k % 4 == 2 ? 16 << 10 : 0 };
            if (specs.spec[k].shape.node != NULL)
                continue;
            memcpy(c.spec, specs.spec[k].text, sizeof c.spec - 1);
            if (device_operate(comm, rank, &d, &c, k % 8 == 7) != 0)
                return 1;
        }
        specs_finish(&specs);
    }
    CHECK(device_end(&d));
    return 0;
}

static void wait_for_ever(void *context)
{
    for (;;)
        pause();
}

static void *die_soon(void *unused)
{
    usleep(100000);
    kill(getpid(), SIGKILL);
    return NULL;
}

/* The stream passes, and the error says who. */
static int run_on(struct plait_comm *comm, uint32_t rank, const char *who, const char *what, bool dies)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct device_rank d;
    pthread_t killer;

    CHECK(device_begin(&d, ROOM));
    ask.standin_careless(1);
    call.stream = d.stream;
    CHECK(plait_allreduce(comm, d.in, d.out, COUNT, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
    plait_barrier(comm, NULL); /* everyone is out of it; who dies may be out of this first */
    if (dies)
        CHECK(device.stream_call(d.cuda, wait_for_ever, NULL) == 0 &&
              pthread_create(&killer, NULL, die_soon, NULL) == 0);
    while (plait_allreduce(comm, d.in, d.out, COUNT, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK)
        usleep(1000);
    CHECK(strstr(plait_last_error(), who) != NULL && strstr(plait_last_error(), what) != NULL);
    CHECK(plait_stream_synchronize(d.stream) == PLAIT_OK);
    CHECK(plait_comm_destroy(comm) != PLAIT_OK);
    CHECK(device_end(&d));
    return 0;
}

int main(int argc, char **argv)
{
    static const char world[] = "/tmp/world"; /* of this host */
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_launch launch;
    struct plait_comm *comm;
    char last[32];

    if (argc != 2 || plait_launch_find(&launch) != PLAIT_OK)
        return 2;
    const uint32_t rank = launch.rank;
    const int fd = open(world, O_CREAT | O_RDWR, 0600);
    CHECK(fd >= 0 && close(fd) == 0 && setenv("PLAIT_STANDIN_WORLD", world, 1) == 0);
    o.rank = rank;
    o.nrank = launch.nrank;
    o.id = &launch.id;
    CHECK(plait_comm_create(&o, &comm) == PLAIT_OK);
    snprintf(last, sizeof last, "rank %u (process ", launch.nrank - 1);
    if (strcmp(argv[1], "cut") == 0) /* the link of rank 0's host */
        return run_on(comm, rank, "nothing has been heard of rank ", "(process ", false);
    if (strcmp(argv[1], "dies") == 0)
        return run_on(comm, rank, last, "died", rank + 1 == launch.nrank);
    if (run_all(comm, rank) != 0)
        return 1;
    CHECK(plait_comm_destroy(comm) == PLAIT_OK);
    return 0;
}
