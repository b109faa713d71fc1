/* SPDX-License-Identifier: BSD-3-Clause */
/* Creates and destroys a rank's connection; runs the rendezvous that the id names. */
#include "bootstrap.h"

#include "base/descriptor.h"
#include "base/status.h"
#include "node.h"
#include "rendezvous.h"

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

/* On this machine or over TCP, as the id says. */
static enum plait_status run_rendezvous(struct plait_bootstrap *b, const struct plait_unique_id *id,
                                        enum plait_status own)
{
    struct plait_rendezvous r;
    struct plait_tcp_id tcp;
    const char *name = (const char *)id->bytes;
    enum plait_status status = PLAIT_OK;

    r.tcp = plait_tcp_id_of(id, &tcp) ? &tcp : NULL;
    if (r.tcp != NULL)
        status = plait_crypto_ready();
    else if (strncmp(name, PLAIT_ID_MACHINE, strlen(PLAIT_ID_MACHINE)) == 0 &&
             strnlen(name, sizeof id->bytes) < sizeof r.name.address.sun_path)
        r.name = plait_unix_name_make(name);
    else
        status = plait_fail(PLAIT_ERR_ARG, "comm creation: id was not made by plait_unique_id_create() nor by "
                                           "plait_unique_id_create_tcp()");
    if (status != PLAIT_OK)
        return own != PLAIT_OK ? own : status;
    status = plait_rendezvous_run(&r, b, own);
    if (status != PLAIT_OK || (r.tcp == NULL && !b->launched))
        return status;
    const enum plait_status claimed = plait_claim_check(&b->nodes.claim, b->rank);
    return r.tcp != NULL ? plait_node_find(b, &tcp, claimed) : plait_bootstrap_agree(b, claimed);
}

enum plait_status plait_bootstrap_create(const struct plait_unique_id *id, uint32_t rank, uint32_t nrank,
                                         double seconds, enum plait_status own, struct plait_bootstrap **out)
{
    struct plait_bootstrap *b = malloc(sizeof *b), here;

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
        own = run_rendezvous(&here, id, own);
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
