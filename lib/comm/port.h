/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank's port: its place in a network (lib/plugin/net.h), for one comm. How a comm gets one, while it is made:
 *
 *     plait_port_open(comm, NULL, devices)  loads the plug-in and opens a network: comm->port
 *     plait_port_address(comm->port, ..)    goes to all ranks, in an allgather
 *     plait_port_lead(comm->port, r, ..)    for each rank r that is to be reached this way
 *
 * After that plait_connect() makes links over it to those ranks (transports/net.c; ports are in transports/port.c).
 * plait_port_close() ends it, with everything that is on the way, before the comm's memory is given back.
 *
 * A port is used under the rules of its comm: by the one thread that calls it, or with its lock held.
 */
#ifndef PLAIT_LIB_COMM_PORT_H
#define PLAIT_LIB_COMM_PORT_H

#include "comm.h"
#include "plugin/net.h"

struct plait_port;

/*
 * plugin: NULL: UCX; devices: as in plait_net_options. PLAIT_ERR_UNSUPPORTED without the plug-in, PLAIT_ERR_SYSTEM when
 * its network does not open.
 */
enum plait_status plait_port_open(struct plait_comm *comm, const struct plait_net_plugin *plugin, const char *devices);
void plait_port_close(struct plait_port *port); /* NULL is allowed */

/* What the others need to reach this rank; and which network of which version, which must be equal on all. */
const void *plait_port_address(const struct plait_port *port, size_t *bytes);
const char *plait_port_version(const struct plait_port *port);
const char *plait_port_network(const struct plait_port *port); /* its name: "ucx" */

/* Reach `rank` this way: before the first message to or from it is waited for. The address is copied. */
enum plait_status plait_port_lead(struct plait_port *port, uint32_t rank, const void *address, size_t bytes);

bool plait_port_leads(const struct plait_port *port, uint32_t rank);

/* Has anything come from it this way? */
bool plait_port_has_heard(const struct plait_port *port, uint32_t rank);

/* Does the network read and write the memory of devices itself? */
bool plait_port_takes_devices(const struct plait_port *port);

/* What a link of net.c is given next, as data or as a landing, is a device's memory, or no longer. */
void plait_net_set_device(struct plait_link *link, bool device);

/*
 * One turn of the network; transports are polled after it. Called once in each turn of the comm, not in each poll.
 * Acknowledgements travel with messages in the other direction, else after half a window or some turns without news.
 */
void plait_port_turn(struct plait_port *port);

static inline void plait_network_turn(const struct plait_comm *comm)
{
    if (comm->port != NULL)
        plait_port_turn(comm->port);
}

/* Nothing more is expected for the time being: what has been received is acknowledged now. */
void plait_port_rest(struct plait_port *port);

/* Has the rank taken every message of the channel that was sent to it? */
bool plait_port_is_taken(const struct plait_port *port, uint32_t rank, enum plait_channel channel);

/* Has this rank taken messages of its without having told it so? */
bool plait_port_owes(const struct plait_port *port, uint32_t rank);

/* Is nothing on the way from or to the memory of others? Then it may be closed later. */
bool plait_port_is_quiet(const struct plait_port *port);

/* What messages to the rank go over, for people; "" when it is not reached this way. */
void plait_port_describe(struct plait_port *port, uint32_t rank, char *text, size_t room);

/* A descriptor to sleep on, or -1; only if arm says that nothing has come meanwhile. */
int plait_port_descriptor(const struct plait_port *port);
bool plait_port_arm(struct plait_port *port);

#endif
