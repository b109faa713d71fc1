/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank's port: its endpoint in a network (lib/plugin/net.h), for one comm. Creation of a comm makes these calls:
 *
 *     plait_port_open(comm, NULL, devices)  loads the plug-in and opens a network: comm->port
 *     plait_port_address(comm->port, ..)    goes to all ranks, in an allgather
 *     plait_port_lead(comm->port, r, ..)    for each rank r that is reached over it
 *
 * Then plait_connect() makes links over the port to those ranks (transports/net.c; ports are in transports/port.c).
 * plait_port_close() closes it, with everything in flight, before the comm's memory is freed.
 *
 * A port follows the threading rules of its comm: used by the one calling thread, or with the comm's lock held.
 */
#ifndef PLAIT_LIB_COMM_PORT_H
#define PLAIT_LIB_COMM_PORT_H

#include "comm.h"
#include "plugin/net.h"

struct plait_port;

/*
 * plugin: NULL: UCX; devices: as in plait_net_options. PLAIT_ERR_UNSUPPORTED: no plug-in; PLAIT_ERR_SYSTEM: its network
 * does not open.
 */
enum plait_status plait_port_open(struct plait_comm *comm, const struct plait_net_plugin *plugin, const char *devices);
void plait_port_close(struct plait_port *port); /* NULL is allowed */

/* The address by which others reach this rank; network and version, which must be equal on all ranks. */
const void *plait_port_address(const struct plait_port *port, size_t *bytes);
const char *plait_port_version(const struct plait_port *port);
const char *plait_port_network(const struct plait_port *port); /* name, such as "ucx" */

/* Connect to `rank`, before the first wait for a message to or from it. The address is copied. */
enum plait_status plait_port_lead(struct plait_port *port, uint32_t rank, const void *address, size_t bytes);

bool plait_port_leads(const struct plait_port *port, uint32_t rank);

/* Has anything arrived from `rank` over this port? */
bool plait_port_has_heard(const struct plait_port *port, uint32_t rank);

/* Can the network read and write device memory directly? */
bool plait_port_takes_devices(const struct plait_port *port);

/* Say whether the next buffers given to a link of net.c, to send or receive, are device memory. */
void plait_net_set_device(struct plait_link *link, bool device);

/*
 * One turn of the network; transports are polled after it. Called once per turn of the comm, not per poll. Acks travel
 * with messages in the other direction, else after half a window or some turns in which nothing arrived.
 */
void plait_port_turn(struct plait_port *port);

static inline void plait_network_turn(const struct plait_comm *comm)
{
    if (comm->port != NULL)
        plait_port_turn(comm->port);
}

/* Nothing more is expected for now: acknowledge all received messages. */
void plait_port_rest(struct plait_port *port);

/* Has `rank` acknowledged every message that was sent to it on the channel? */
bool plait_port_is_taken(const struct plait_port *port, uint32_t rank, enum plait_channel channel);

/* Does this rank owe `rank` acks? */
bool plait_port_owes(const struct plait_port *port, uint32_t rank);

/* Is no transfer from or to others' memory in flight? Then the port may be closed later. */
bool plait_port_is_quiet(const struct plait_port *port);

/* Describe the path of messages to the rank, for logs; "" if the rank is not reached over this port. */
void plait_port_describe(struct plait_port *port, uint32_t rank, char *text, size_t room);

/* A descriptor to sleep on, or -1. Sleep only if plait_port_arm() returns true: nothing has arrived meanwhile. */
int plait_port_descriptor(const struct plait_port *port);
bool plait_port_arm(struct plait_port *port);

#endif
