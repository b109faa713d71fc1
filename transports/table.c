/* SPDX-License-Identifier: BSD-3-Clause */
/* Every transport of this build, in order of preference, and the choice among them. */
#include "../lib/comm.h"

extern const struct plait_transport plait_transport_shm;

const struct plait_transport *const plait_transports[] = {
    &plait_transport_shm,
    NULL,
};

struct plait_link *plait_connect(struct plait_comm *comm, uint32_t peer, enum plait_channel channel)
{
    struct plait_link **link = &comm->peers[peer].link[channel];

    for (const struct plait_transport *const *t = plait_transports; *t != NULL && *link == NULL; t++)
        if ((*link = (*t)->connect(comm, peer, channel)) != NULL)
            (*link)->transport = *t;
    return *link;
}
