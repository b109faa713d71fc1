/* SPDX-License-Identifier: BSD-3-Clause */
#include "net_link.h"

#include "../lib/base/status.h"
#include "../lib/plugin/plugin.h"

#include <stdlib.h>
#include <string.h>

#define QUIET_TURNS 16 /* turns without an arrival, after which releases are acknowledged */

enum plait_status plait_port_open(struct plait_comm *comm, const struct plait_net_plugin *plugin, const char *devices)
{
    struct plait_port *port = calloc(1, sizeof *port + comm->nrank * sizeof *port->connections);
    const struct plait_net_options o = {
        .nendpoint = comm->nrank, .devices = devices, .context = port, .arrive = plait_net_arrive
    };
    char why[256] = "";

    if (port == NULL)
        return plait_fail_memory("out of memory for the network of %u ranks", comm->nrank);
    port->comm = comm;
    if (plugin == NULL) {
        const enum plait_status status =
            plait_plugin_load(&plait_plugin_ucx, comm->config.plugins, (const void **)&plugin);
        if (status != PLAIT_OK) {
            free(port);
            return status;
        }
    }
    port->plugin = plugin;
    if (!plait_plugin_open_net(plugin, &o, &port->net, why, sizeof why)) {
        free(port);
        return plait_fail(PLAIT_ERR_SYSTEM, "cannot open the network '%s': %s", plugin->name, why);
    }
    comm->port = port;
    return PLAIT_OK;
}

/* Release held messages: their senders may still wait for that. */
static void drop_held(struct plait_port *port, const struct connection *to)
{
    for (unsigned c = 0; c < PLAIT_NCHANNEL; c++)
        for (unsigned i = 0; to->link[c] != NULL && i < PLAIT_WINDOW; i++)
            if (to->link[c]->in[i].held != NULL)
                port->plugin->release(port->net, to->link[c]->in[i].held);
}

static void free_connection(struct connection *to)
{
    for (unsigned c = 0; c < PLAIT_NCHANNEL; c++) {
        for (unsigned i = 0; to->link[c] != NULL && i < PLAIT_WINDOW; i++)
            plait_net_free_room(to->link[c]->in[i].room);
        free(to->link[c]);
    }
    free(to->address);
}

void plait_port_close(struct plait_port *port)
{
    if (port == NULL)
        return;
    for (uint32_t r = 0; r < port->comm->nrank; r++)
        drop_held(port, &port->connections[r]);
    port->plugin->close(port->net); /* from here on the network writes to no landing buffer */
    for (uint32_t r = 0; r < port->comm->nrank; r++)
        free_connection(&port->connections[r]);
    while (port->rooms != NULL) {
        struct room *next = port->rooms->next;
        plait_net_free_room(port->rooms);
        port->rooms = next;
    }
    port->comm->port = NULL;
    free(port);
}

const void *plait_port_address(const struct plait_port *port, size_t *bytes)
{
    return port->plugin->address(port->net, bytes);
}

const char *plait_port_version(const struct plait_port *port)
{
    return port->plugin->version();
}

const char *plait_port_network(const struct plait_port *port)
{
    return port->plugin->name;
}

enum plait_status plait_port_lead(struct plait_port *port, uint32_t rank, const void *address, size_t bytes)
{
    struct connection *to = &port->connections[rank];

    free(to->address);
    to->address = malloc(bytes);
    if (to->address == NULL)
        return plait_fail_memory("out of memory for the network address of rank %u", rank);
    memcpy(to->address, address, bytes);
    to->bytes = bytes;
    return PLAIT_OK;
}

bool plait_port_leads(const struct plait_port *port, uint32_t rank)
{
    return port->connections[rank].address != NULL;
}

bool plait_port_has_heard(const struct plait_port *port, uint32_t rank)
{
    return port->connections[rank].heard;
}

void plait_port_turn(struct plait_port *port)
{
    port->plugin->progress(port->net);
    if (port->nowing > 0 && ++port->quiet >= QUIET_TURNS)
        plait_net_acknowledge(port);
}

void plait_port_rest(struct plait_port *port)
{
    plait_net_acknowledge(port);
}

bool plait_port_takes_devices(const struct plait_port *port)
{
    return port->plugin->devices != NULL && port->plugin->devices(port->net);
}

bool plait_port_is_taken(const struct plait_port *port, uint32_t rank, enum plait_channel channel)
{
    const struct net_link *l = port->connections[rank].link[channel];

    for (uint32_t i = 0; l != NULL && i < PLAIT_WINDOW; i++)
        if (!is_released(l->taken, l->out[i].header.number))
            return false;
    return true;
}

bool plait_port_owes(const struct plait_port *port, uint32_t rank)
{
    const struct connection *to = &port->connections[rank];

    for (unsigned c = 0; c < PLAIT_NCHANNEL && to->broken[0] == '\0'; c++)
        if (to->link[c] != NULL && (to->link[c]->owed > 0 || to->link[c]->ack_state == PLAIT_NET_BUSY))
            return true;
    return false;
}

static bool is_quiet(const struct net_link *l)
{
    for (uint32_t i = 0; i < PLAIT_WINDOW; i++)
        if (l->out[i].state == PLAIT_NET_BUSY || l->in[i].stage == COMING)
            return false;
    return true;
}

bool plait_port_is_quiet(const struct plait_port *port)
{
    for (uint32_t i = 0; i < port->comm->nrank * PLAIT_NCHANNEL; i++) {
        const struct net_link *l = port->connections[i / PLAIT_NCHANNEL].link[i % PLAIT_NCHANNEL];
        if (l != NULL && !is_quiet(l))
            return false;
    }
    return true;
}

void plait_port_describe(struct plait_port *port, uint32_t rank, char *text, size_t room)
{
    struct connection *to = &port->connections[rank];

    if (room > 0)
        *text = '\0';
    if (to->endpoint != NULL)
        port->plugin->describe(to->endpoint, text, room);
}

int plait_port_descriptor(const struct plait_port *port)
{
    return port->plugin->descriptor(port->net);
}

bool plait_port_arm(struct plait_port *port)
{
    return port->nowing == 0 && port->plugin->arm(port->net);
}
