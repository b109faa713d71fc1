/* SPDX-License-Identifier: BSD-3-Clause */
#include "processors.h"

#include "ending.h"

#include <plait/coll.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint32_t processors_share(const struct seat *seats, uint32_t n, uint32_t me)
{
    uint32_t sharers = 0;

    for (uint32_t rank = 0; rank < n; rank++)
        sharers += strcmp(seats[rank].machine, seats[me].machine) == 0 && CPU_EQUAL(&seats[rank].set, &seats[me].set);
    const uint32_t share = (uint32_t)CPU_COUNT(&seats[me].set) / sharers;
    return share > 0 ? share : 1;
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

uint32_t processors_of_rank(struct plait_comm *comm)
{
    const uint32_t n = plait_comm_nrank(comm), me = plait_comm_rank(comm);
    struct seat own = { .machine = "" }, *seats = allocate(n, sizeof *seats);

    name_machine(own.machine, sizeof own.machine);
    if (sched_getaffinity(0, sizeof own.set, &own.set) != 0)
        CPU_SET(0, &own.set);
    must(plait_allgather(comm, &own, seats, sizeof own, PLAIT_UINT8, NULL), "the processors of all ranks");
    const uint32_t share = processors_share(seats, n, me);
    free(seats);
    return share;
}
