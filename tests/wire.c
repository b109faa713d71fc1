/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire.h"

#include "comm/port.h"

#include "ranks.h"

#include <plait/coll.h>

#include <stdlib.h>
#include <string.h>

const struct plait_net_plugin *wire_plugin;

struct card {
    uint64_t bytes;
    char address[1016];
};

/* Those over which the cards went: every rank forgets them, so that numbers begin anew on both sides. */
static void forget_links(struct plait_comm *comm)
{
    for (uint32_t i = 0; i < comm->nrank * PLAIT_NCHANNEL; i++) {
        struct plait_link **link = &comm->peers[i / PLAIT_NCHANNEL].link[i % PLAIT_NCHANNEL];
        if (*link != NULL)
            (*link)->transport->disconnect(*link);
        *link = NULL;
    }
}

int wire(struct plait_comm *comm, uint32_t rank)
{
    struct card own = { 0 }, *all = calloc(comm->nrank, sizeof *all);

    CHECK(all != NULL && plait_port_open(comm, wire_plugin, NULL) == PLAIT_OK);
    const void *address = plait_port_address(comm->port, &own.bytes);
    CHECK(own.bytes <= sizeof own.address);
    memcpy(own.address, address, own.bytes);
    CHECK(plait_allgather(comm, &own, all, sizeof own, PLAIT_UINT8, NULL) == PLAIT_OK);
    CHECK(plait_barrier(comm, NULL) == PLAIT_OK);
    forget_links(comm);
    for (uint32_t r = 0; r < comm->nrank; r++)
        CHECK(r == rank || plait_port_lead(comm->port, r, all[r].address, all[r].bytes) == PLAIT_OK);
    free(all);
    const struct plait_link *link =
        comm->nrank > 1 ? plait_connect(comm, (rank + 1) % comm->nrank, PLAIT_CHANNEL_MESSAGES) : NULL;
    CHECK(comm->nrank == 1 || (link != NULL && strcmp(link->transport->name, "net") == 0));
    return 0;
}
