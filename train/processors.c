/* SPDX-License-Identifier: BSD-3-Clause */
#include "processors.h"

#include "ending.h"

#include <plait/coll.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct seat processors_seat(const struct bound *ranks, uint32_t n, uint32_t me)
{
    struct seat seat = { 0 };
    uint32_t sharers = 0;

    for (uint32_t rank = 0; rank < n; rank++) {
        const bool here = strcmp(ranks[rank].machine, ranks[me].machine) == 0;

        seat.local += here && rank < me;
        sharers += here && CPU_EQUAL(&ranks[rank].set, &ranks[me].set);
    }
    seat.processors = (uint32_t)CPU_COUNT(&ranks[me].set) / sharers;
    seat.processors = seat.processors > 0 ? seat.processors : 1;
    return seat;
}

/* Containers of one machine share its boot id; where that is hidden, use the host name. */
static void name_machine(char *out, size_t room)
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");

    if (f == NULL || fgets(out, (int)room, f) == NULL)
        gethostname(out, room - 1);
    if (f != NULL)
        fclose(f);
}

struct seat processors_of_rank(struct plait_comm *comm)
{
    const uint32_t n = plait_comm_nrank(comm), me = plait_comm_rank(comm);
    struct bound own = { .machine = "" }, *ranks = allocate(n, sizeof *ranks);

    name_machine(own.machine, sizeof own.machine);
    if (sched_getaffinity(0, sizeof own.set, &own.set) != 0)
        CPU_SET(0, &own.set);
    must(plait_allgather(comm, &own, ranks, sizeof own, PLAIT_UINT8, NULL), "the processors of all ranks");
    const struct seat seat = processors_seat(ranks, n, me);
    free(ranks);
    return seat;
}
