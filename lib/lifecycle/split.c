/* SPDX-License-Identifier: BSD-3-Clause */
/* Comms made from another comm: split, duplicate, shrink. */
#include "base/hash.h"
#include "base/random.h"
#include "base/status.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/frame.h"
#include "bootstrap/id.h"
#include "call/call.h"
#include "failure/failure.h"
#include "life.h"
#include "progress/detector.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct division { /* the arguments of a call, of which a group keeps a copy */
    struct plait_comm *comm;
    char name[64];  /* "": the parent's */
    int color, key; /* split */
    bool shrinks;   /* the parent may have failed: its survivors form the new comm */
    bool abort;
    uint64_t excluded[PLAIT_MAX_RANKS / 64]; /* shrink: a bit for each rank */
    uint32_t nrank;                          /* of the new comm: the first of the parent's `members` */
};

/* ---- A comm of some of the ranks -------------------------------------------------------------------------- */

/* Polled during the rendezvous: a member's death, or a failure of the parent comm, ends it. */
static enum plait_status check(const void *context)
{
    const struct division *d = context;
    const struct plait_comm *comm = d->comm;

    for (uint32_t r = 0; r < comm->nrank && !d->shrinks; r++)
        if (atomic_load(&comm->peers[r].control->failed) != PLAIT_OK)
            return plait_fail(PLAIT_ERR_FAILED, "comm creation: the comm it is made of failed: %s",
                              comm->peers[r].control->failure);
    for (uint32_t i = 0; i < d->nrank; i++) {
        const struct plait_peer *p = &comm->peers[comm->members[i]];
        if (plait_peer_died(p))
            return plait_fail(PLAIT_ERR_FAILED, "comm creation: rank %u (process %d; rank %u of comm '%s') died", i,
                              plait_peer_pid(p), comm->members[i], comm->name);
    }
    return PLAIT_OK;
}

/*
 * Create the comm of the first n of comm->members; or, if `own` is an error, tell the others of it. All of them have
 * the same salt for the rendezvous's id.
 */
static enum plait_status make(struct division d, uint32_t n, uint64_t salt, enum plait_status own,
                              struct plait_comm **out)
{
    const struct plait_comm *comm = d.comm;
    const uint32_t *members = comm->members;
    const struct plait_watch watch = { check, &d };
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    const struct plait_alg **algorithms = calloc(comm->nown_algorithms + 1, sizeof *algorithms);
    uint32_t *node = comm->node != NULL ? malloc(n * sizeof *node) : NULL;
    struct plait_unique_id id;

    PLAIT_KNOWN(members != NULL && n > 0);
    d.nrank = n;
    plait_unique_id_derive(&comm->id_bytes, salt, plait_hosts_of(&comm->nodes, members[0]), &id);
    o.timeout = comm->config.timeout;
    o.deadline = comm->deadline;
    o.warn = comm->warn;
    o.reproducible = comm->reproducible;
    o.round = comm->round;
    o.progress = comm->progress;
    o.nrank = n;
    while (members[o.rank] != comm->rank)
        o.rank++;
    o.id = &id;
    o.name = d.name[0] != '\0' ? d.name : comm->name;
    if (own == PLAIT_OK && (algorithms == NULL || (comm->node != NULL && node == NULL)))
        own = plait_fail_memory("out of memory for a comm of %u ranks", n);
    if (own == PLAIT_OK) {
        memcpy(algorithms, comm->algorithms, comm->nown_algorithms * sizeof *algorithms);
        for (uint32_t i = 0; node != NULL && i < n; i++)
            node[i] = comm->node[members[i]];
        o.algorithms = comm->nown_algorithms > 0 ? algorithms : NULL;
        o.node = node;
    }
    const enum plait_status status = plait_comm_make(&o, own, &watch, out);
    free(algorithms);
    free(node);
    return status;
}

/* Make the comm, if `status` is no error: now, or at the end of this thread's group. */
static enum plait_status now_or_later(const char *call, enum plait_status status, plait_make_comm *what,
                                      struct division *d, const char *name, struct plait_comm **out)
{
    const int saved = errno;

    if (status == PLAIT_OK && out == NULL)
        status = plait_fail(PLAIT_ERR_ARG, "%s: out is NULL", call);
    if (name != NULL)
        strncpy(d->name, name, sizeof d->name - 1);
    if (plait_in_group())
        return status != PLAIT_OK ? plait_refuse(status) : plait_group_make(what, d, sizeof *d, d->comm, out);
    if (status == PLAIT_OK)
        status = what(d, PLAIT_OK, out);
    errno = saved;
    return status;
}

/* ---- Split ------------------------------------------------------------------------------------------------ */

struct member { /* gathered from each rank */
    int32_t color, key;
    uint32_t rank;
    uint64_t salt; /* for the new comm's id; the first member's is used */
};

static int by_key(const void *a, const void *b)
{
    const struct member *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Move the members of this color to the front, in the order of their keys; returns how many. */
static uint32_t gather_color(struct member *all, uint32_t n, int color)
{
    uint32_t kept = 0;

    PLAIT_KNOWN(all != NULL);
    for (uint32_t r = 0; r < n; r++)
        if (all[r].color == color)
            all[kept++] = all[r];
    qsort(all, kept, sizeof *all, by_key);
    return kept;
}

static enum plait_status split(const void *args, enum plait_status own, struct plait_comm **out)
{
    const struct division *d = args;
    struct plait_comm *comm = d->comm;
    struct member self = { d->color, d->key, comm->rank, 0 }, *all = calloc(comm->nrank, sizeof *all);
    enum plait_status status = own == PLAIT_OK ? plait_random(&self.salt, sizeof self.salt, "a comm of a comm") : own;

    if (status == PLAIT_OK && all == NULL)
        status = plait_fail_memory("out of memory for what %u ranks say", comm->nrank);
    if (status == PLAIT_OK) {
        status = plait_allgather(comm, &self, all, sizeof self, PLAIT_UINT8, NULL);
    } else { /* the other ranks wait for this one in the allgather: make the comm fail, which ends their waits */
        pthread_mutex_lock(&comm->lock);
        status = plait_comm_fail(comm, status, "cannot split the comm: %s", plait_last_error());
        pthread_mutex_unlock(&comm->lock);
    }
    if (status == PLAIT_OK && d->color == PLAIT_NO_COLOR) {
        *out = NULL;
    } else if (status == PLAIT_OK) {
        const uint32_t n = gather_color(all, comm->nrank, d->color);
        for (uint32_t i = 0; i < n; i++)
            comm->members[i] = all[i].rank;
        status = make(*d, n, all[0].salt, PLAIT_OK, out);
    }
    free(all);
    return status;
}

enum plait_status plait_comm_split(struct plait_comm *comm, int color, int key, const char *name,
                                   struct plait_comm **out)
{
    struct division d = { .comm = comm, .color = color, .key = key };
    enum plait_status status = plait_enter(comm, "plait_comm_split", PLAIT_SUM, NULL);

    if (status == PLAIT_OK && color < 0 && color != PLAIT_NO_COLOR)
        status = plait_fail(PLAIT_ERR_ARG, "plait_comm_split: color is %d; 0 or more, or PLAIT_NO_COLOR", color);
    return now_or_later("plait_comm_split", status, split, &d, name, out);
}

enum plait_status plait_comm_duplicate(struct plait_comm *comm, const char *name, struct plait_comm **out)
{
    static const char call[] = "plait_comm_duplicate";
    struct division d = { .comm = comm };

    return now_or_later(call, plait_enter(comm, call, PLAIT_SUM, NULL), split, &d, name, out);
}

/* ---- Shrink ----------------------------------------------------------------------------------------------- */

/* Survivors that exclude the same ranks compute the same id for their rendezvous: no message has to carry it. */
static enum plait_status shrink(const void *args, enum plait_status own, struct plait_comm **out)
{
    const struct division *d = args;
    struct plait_comm *comm = d->comm;
    uint32_t n = 0;

    if (d->abort)
        plait_comm_stop(comm);
    for (uint32_t r = 0; r < comm->nrank; r++)
        if ((d->excluded[r / 64] >> r % 64 & 1) == 0)
            comm->members[n++] = r;
    uint64_t salt = plait_hash(PLAIT_HASH_START, comm->members, n * sizeof *comm->members);
    salt = plait_hash(salt, &comm->nshrink, sizeof comm->nshrink);
    comm->nshrink++;
    return make(*d, n, salt, own, out);
}

static enum plait_status check_shrink(const struct plait_comm *comm, const uint32_t *excluded, uint32_t n, int abort)
{
    if (comm == NULL || (excluded == NULL && n > 0))
        return plait_fail(PLAIT_ERR_ARG, "plait_comm_shrink: %s",
                          comm == NULL ? "comm is NULL" : "excluded is NULL, but n is not 0");
    if (plait_comm_closed(comm))
        return plait_comm_is_closed(comm, "plait_comm_shrink");
    for (uint32_t i = 0; i < n; i++)
        if (excluded[i] >= comm->nrank || excluded[i] == comm->rank)
            return plait_fail(PLAIT_ERR_ARG, "plait_comm_shrink: excluded[%u] is %u, which is %s", i, excluded[i],
                              excluded[i] == comm->rank ? "this rank" : "no rank of the comm");
    return plait_check_flag("plait_comm_shrink", "abort", abort);
}

enum plait_status plait_comm_shrink(struct plait_comm *comm, const uint32_t *excluded, uint32_t n, int abort,
                                    const char *name, struct plait_comm **out)
{
    struct division d = { .comm = comm, .shrinks = true, .abort = abort };
    const enum plait_status status = check_shrink(comm, excluded, n, abort);

    for (uint32_t i = 0; i < n && status == PLAIT_OK; i++)
        d.excluded[excluded[i] / 64] |= (uint64_t)1 << excluded[i] % 64;
    return now_or_later("plait_comm_shrink", status, shrink, &d, name, out);
}
