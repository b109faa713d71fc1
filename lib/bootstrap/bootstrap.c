/* SPDX-License-Identifier: BSD-3-Clause */
/* Creates and destroys a rank's connection; chooses the rendezvous place that the id names. */
#include "bootstrap.h"

#include "base/descriptor.h"
#include "base/status.h"
#include "machine.h"
#include "node.h"
#include "tcp.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TELL_FOR 2.0 /* seconds for a rank whose number another process holds to tell the others */

static void finish(struct plait_bootstrap *b)
{
    plait_star_finish(b);
    plait_node_destroy(b->node);
    plait_nodes_finish(&b->nodes);
}

static enum plait_status meet_on_machine(struct plait_bootstrap *b, const struct plait_unique_id *id,
                                         enum plait_status own)
{
    const size_t n = strnlen((const char *)id->bytes, sizeof id->bytes);
    struct plait_machine_place place;

    if (strncmp((const char *)id->bytes, PLAIT_ID_MACHINE, strlen(PLAIT_ID_MACHINE)) != 0 ||
        n >= sizeof place.address.sun_path)
        return own != PLAIT_OK
                   ? own
                   : plait_fail(PLAIT_ERR_ARG, "comm creation: id was not made by plait_unique_id_create() nor by "
                                               "plait_unique_id_create_tcp()");
    plait_machine_place_init(&place, (const char *)id->bytes, n);
    own = plait_meet_at(b, &place.place, own);
    return own == PLAIT_OK && b->launched ? plait_bootstrap_agree(b, plait_claim_check(&b->nodes.claim, b->rank)) : own;
}

static enum plait_status meet_over_tcp(struct plait_bootstrap *b, const struct plait_tcp_id *id, enum plait_status own)
{
    struct plait_tcp_place *place = malloc(sizeof *place); /* too large for a small stack */
    enum plait_status status =
        place != NULL ? plait_tcp_place_init(place, id) : plait_fail_memory("out of memory for a meeting over TCP");

    if (status != PLAIT_OK)
        status = own != PLAIT_OK ? own : status;
    else if ((status = plait_meet_at(b, &place->place, own)) == PLAIT_OK)
        status = plait_node_find(b, id, plait_claim_check(&b->nodes.claim, b->rank));
    free(place);
    return status;
}

enum plait_status plait_bootstrap_create(const struct plait_unique_id *id, uint32_t rank, uint32_t nrank,
                                         double seconds, enum plait_status own, struct plait_bootstrap **out)
{
    struct plait_bootstrap *b = malloc(sizeof *b), here;
    struct plait_tcp_id tcp;

    here = (struct plait_bootstrap){ .rank = rank, .nrank = nrank, .limit = seconds, .root = -1, .nodes = { .n = 1 } };
    if (b == NULL && own == PLAIT_OK)
        own = plait_fail_memory("out of memory for the bootstrap");
    here.launched = nrank > 1 && plait_id_is_unnamed(id);
    if (here.launched) {
        here.origin = plait_origin_find(nrank);
        const enum plait_status claimed =
            own == PLAIT_OK ? plait_claim_make(id, rank, here.origin, &here.nodes.claim) : own;
        if (own == PLAIT_OK && claimed != PLAIT_OK && seconds > TELL_FOR)
            here.limit = TELL_FOR; /* only ranks that connect now can be told */
        own = claimed;
    }
    if (nrank > 1)
        own = plait_tcp_id_of(id, &tcp) ? meet_over_tcp(&here, &tcp, own) : meet_on_machine(&here, id, own);
    if (own != PLAIT_OK) {
        finish(&here);
        free(b);
        return own;
    }
    if (b != NULL)
        *b = here;
    *out = b;
    return PLAIT_OK;
}

void plait_bootstrap_destroy(struct plait_bootstrap *b)
{
    if (b != NULL)
        finish(b);
    free(b);
}

enum plait_status plait_bootstrap_share(struct plait_bootstrap *b, const bool *gives, const int *mine, uint32_t n,
                                        int *all)
{
    return b->node != NULL ? plait_node_share(b, gives, mine, n, all) : plait_star_share(b, gives, mine, n, all);
}

void plait_nodes_finish(struct plait_nodes *nodes)
{
    free(nodes->of);
    free(nodes->hosts);
    if (nodes->claim.fd > 0)
        plait_descriptor_close(nodes->claim.fd);
    *nodes = (struct plait_nodes){ 0 };
}

const struct plait_nodes *plait_bootstrap_nodes(const struct plait_bootstrap *b)
{
    return &b->nodes;
}

struct plait_nodes plait_bootstrap_take_nodes(struct plait_bootstrap *b)
{
    const struct plait_nodes nodes = b->nodes;

    b->nodes = (struct plait_nodes){ .n = 1 };
    return nodes;
}

void plait_bootstrap_take_sockets(struct plait_bootstrap *b, int *fds)
{
    for (uint32_t r = 0; r < b->nrank; r++) {
        fds[r] = b->peers != NULL && r > 0 ? b->peers[r].fd : -1;
        if (fds[r] >= 0)
            b->peers[r].fd = -1;
    }
    if (b->rank > 0) {
        fds[0] = b->root;
        b->root = -1;
    }
}
