/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank as launchers start it: it finds its place, adds up, and says so. */
#include <plait/coll.h>
#include <plait/launch.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void check(enum plait_status status)
{
    if (status == PLAIT_OK)
        return;
    fprintf(stderr, "%s\n", plait_last_error());
    exit(1);
}

/* Steps in which ranks wait for each other, for so many seconds, or until there is a file of this name. */
static void train(struct plait_comm *comm, unsigned rank, const char *end)
{
    const time_t until = time(NULL) + (end != NULL ? atoi(end) : 0);
    int64_t go = end != NULL;

    while (go) { /* as long as all want to */
        usleep(20000 + 1000 * rank);
        go = *end == '/' ? access(end, F_OK) != 0 : time(NULL) < until;
        check(plait_allreduce(comm, &go, &go, 1, PLAIT_INT64, PLAIT_MIN, NULL));
    }
}

int main(int argc, char **argv)
{
    const int64_t job = argc > 1 ? atoi(argv[1]) : 0; /* all ranks must be of one */

    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_launch launch;
    struct plait_comm *comm;

    check(plait_launch_find(&launch));
    o.rank = launch.rank;
    o.nrank = launch.nrank;
    o.id = &launch.id;
    for (int again = 0; again < 2; again++) { /* the id is good for one comm after the other */
        int64_t sum = launch.rank, least = job, most = job;
        check(plait_comm_create(&o, &comm));
        check(plait_allreduce(comm, &sum, &sum, 1, PLAIT_INT64, PLAIT_SUM, NULL));
        check(plait_allreduce(comm, &least, &least, 1, PLAIT_INT64, PLAIT_MIN, NULL));
        check(plait_allreduce(comm, &most, &most, 1, PLAIT_INT64, PLAIT_MAX, NULL));
        if (again == 0)
            train(comm, launch.rank, getenv("TRAIN"));
        check(plait_comm_destroy(comm));
        if (least != most)
            return 3;
        if (sum != (int64_t)launch.nrank * (launch.nrank - 1) / 2)
            return 1;
    }
    printf("%s: rank %u of %u, %u of %u here\n", launch.launcher, launch.rank, launch.nrank, launch.local_rank,
           launch.local_nrank);
    return 0;
}
