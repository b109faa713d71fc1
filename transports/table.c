/* SPDX-License-Identifier: BSD-3-Clause */
/* Every transport of this build, in order of preference, and the choice among them. */
#include "../lib/comm/comm.h"
#include "paced.h"

extern const struct plait_transport plait_transport_shm, plait_transport_net, plait_transport_device,
    plait_transport_staged;

const struct plait_transport *const plait_transports[] = {
    &plait_transport_paced,  /* for tests: over any of those below */
    &plait_transport_device, /* only for device channels: over one of those below */
    &plait_transport_staged, /* the same, to other hosts */
    &plait_transport_net,    /* to ranks whose network address the comm knows */
    &plait_transport_shm,    NULL,
};

struct plait_link *plait_connect_by(const struct plait_transport *const *transports, struct plait_comm *comm,
                                    uint32_t peer, enum plait_channel channel)
{
    struct plait_link *link = NULL;

    for (const struct plait_transport *const *t = transports; *t != NULL && link == NULL; t++)
        if ((link = (*t)->connect(comm, peer, channel)) != NULL)
            link->transport = *t;
    return link;
}

struct plait_link *plait_connect_behind(const struct plait_transport *before, struct plait_comm *comm, uint32_t peer,
                                        enum plait_channel channel)
{
    const struct plait_transport *const *t = plait_transports;

    while (*t++ != before)
        ;
    return plait_connect_by(t, comm, peer, channel);
}

struct plait_link *plait_connect(struct plait_comm *comm, uint32_t peer, enum plait_channel channel)
{
    struct plait_link **link = &comm->peers[peer].link[channel];

    if (*link == NULL)
        *link = plait_connect_by(plait_transports, comm, peer, channel);
    return *link;
}
