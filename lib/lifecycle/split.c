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
#include "progress/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- A comm of some of the ranks -------------------------------------------------------------------------- */

struct family { /* the parent comm, and those of its ranks that form the new one */
    const struct plait_comm *comm;
    const uint32_t *members; /* [nrank] ranks in `comm` */
    uint32_t nrank;
    bool failed; /* ignore a failure of `comm`: its survivors form the new one */
};

/* Polled during the rendezvous: a member's death, or a failure of the parent comm, ends it. */
static enum plait_status look(const void *context)
{
    const struct family *f = context;

    for (uint32_t r = 0; r < f->comm->nrank && !f->failed; r++)
        if (atomic_load(&f->comm->peers[r].control->failed) != PLAIT_OK)
            return plait_fail(PLAIT_ERR_FAILED, "comm creation: the comm it is made of failed: %s",
                              f->comm->peers[r].control->failure);
    for (uint32_t i = 0; i < f->nrank; i++) {
        const struct plait_peer *p = &f->comm->peers[f->members[i]];
        if (plait_peer_died(p))
            return plait_fail(PLAIT_ERR_FAILED, "comm creation: rank %u (process %d; rank %u of comm '%s') died", i,
                              plait_peer_pid(p), f->members[i], f->comm->name);
    }
    return PLAIT_OK;
}

/* Create the new comm with this rank as `rank`; or, if `own` is an error, tell the other members. */
static enum plait_status make(const struct family *family, const struct plait_unique_id *id, const char *name,
                              uint32_t rank, enum plait_status own, struct plait_comm **out)
{
    const struct plait_comm *comm = family->comm;
    const struct plait_watch watch = { look, family };
    const uint32_t nrank = family->nrank;
    struct plait_comm_options o = plait_comm_options_of(comm);
    const struct plait_alg **algorithms = calloc(comm->nown_algorithms + 1, sizeof *algorithms);
    uint32_t *node = malloc(nrank * sizeof *node);
    enum plait_status status;

    o.nrank = nrank;
    o.rank = rank;
    o.id = id;
    o.name = name != NULL ? name : comm->name;
    if (own == PLAIT_OK && (algorithms == NULL || node == NULL))
        own = plait_fail_memory("out of memory for a comm of %u ranks", nrank);
    if (own == PLAIT_OK) {
        memcpy(algorithms, comm->algorithms, comm->nown_algorithms * sizeof *algorithms);
        for (uint32_t i = 0; comm->node != NULL && i < nrank; i++)
            node[i] = comm->node[family->members[i]];
        o.algorithms = comm->nown_algorithms > 0 ? algorithms : NULL;
        o.node = comm->node != NULL ? node : NULL;
        status = plait_comm_make(&o, &watch, out);
    } else { /* tell the other members of the error */
        status = plait_comm_connect(NULL, &o, own, &watch);
    }
    free(algorithms);
    free(node);
    return status;
}

/* ---- Split ------------------------------------------------------------------------------------------------ */

struct splitting { /* the arguments; a group keeps a copy */
    struct plait_comm *comm;
    int color, key;
    char name[64]; /* "": the parent's */
};

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

/* The id for the rendezvous of these members of `comm`; the first of them becomes rank 0. */
static struct plait_unique_id id_of_members(const struct plait_comm *comm, const uint32_t *members, uint64_t salt)
{
    struct plait_unique_id id;

    plait_unique_id_derive(&comm->id_bytes, salt, plait_hosts_of(&comm->nodes, members[0]), &id);
    return id;
}

static enum plait_status join_color(struct plait_comm *comm, struct member *all, const struct splitting *s,
                                    struct plait_comm **out)
{
    const uint32_t n = gather_color(all, comm->nrank, s->color);
    uint32_t *members = comm->members, rank = 0;

    PLAIT_KNOWN(all != NULL && members != NULL && n > 0);
    for (uint32_t i = 0; i < n; i++) {
        members[i] = all[i].rank;
        rank = all[i].rank == comm->rank ? i : rank;
    }
    const struct family family = { comm, members, n, false };
    const struct plait_unique_id id = id_of_members(comm, members, all[0].salt);
    return make(&family, &id, s->name[0] != '\0' ? s->name : NULL, rank, PLAIT_OK, out);
}

/* The other ranks wait for this one in the allgather: make the comm fail, which ends their waits. */
static enum plait_status cannot_split(struct plait_comm *comm, enum plait_status status)
{
    pthread_mutex_lock(&comm->lock);
    status = plait_comm_fail(comm, status, "cannot split the comm: %s", plait_last_error());
    pthread_mutex_unlock(&comm->lock);
    return status;
}

static enum plait_status split(const void *args, enum plait_status own, struct plait_comm **out)
{
    const struct splitting *s = args;
    struct plait_comm *comm = s->comm;
    struct member self = { s->color, s->key, comm->rank, 0 }, *all = calloc(comm->nrank, sizeof *all);
    enum plait_status status = own == PLAIT_OK ? plait_random(&self.salt, sizeof self.salt, "a comm of a comm") : own;

    if (status == PLAIT_OK && all == NULL)
        status = plait_fail_memory("out of memory for what %u ranks say", comm->nrank);
    status = status != PLAIT_OK ? cannot_split(comm, status)
                                : plait_allgather(comm, &self, all, sizeof self, PLAIT_UINT8, NULL);
    if (status == PLAIT_OK && s->color == PLAIT_NO_COLOR)
        *out = NULL;
    else if (status == PLAIT_OK)
        status = join_color(comm, all, s, out);
    free(all);
    return status;
}

static enum plait_status check_out(struct plait_comm **out, const char *name, enum plait_status status)
{
    return status == PLAIT_OK && out == NULL ? plait_fail(PLAIT_ERR_ARG, "%s: out is NULL", name) : status;
}

/* Now, or at the end of this thread's group. */
static enum plait_status now_or_later(enum plait_status status, plait_make_comm *what, const void *args, size_t bytes,
                                      const struct plait_comm *of, struct plait_comm **out)
{
    const int saved = errno;

    if (plait_in_group())
        return status != PLAIT_OK ? plait_refuse(status) : plait_group_make(what, args, bytes, of, out);
    if (status == PLAIT_OK)
        status = what(args, PLAIT_OK, out);
    errno = saved;
    return status;
}

static enum plait_status split_as(const char *call, struct plait_comm *comm, int color, int key, const char *name,
                                  struct plait_comm **out)
{
    struct splitting s = { comm, color, key, "" };
    enum plait_status status = check_out(out, call, plait_enter(comm, call, PLAIT_SUM, NULL));

    if (status == PLAIT_OK && color < 0 && color != PLAIT_NO_COLOR)
        status = plait_fail(PLAIT_ERR_ARG, "plait_comm_split: color is %d; 0 or more, or PLAIT_NO_COLOR", color);
    if (name != NULL)
        strncpy(s.name, name, sizeof s.name - 1);
    return now_or_later(status, split, &s, sizeof s, comm, out);
}

enum plait_status plait_comm_split(struct plait_comm *comm, int color, int key, const char *name,
                                   struct plait_comm **out)
{
    return split_as("plait_comm_split", comm, color, key, name, out);
}

enum plait_status plait_comm_duplicate(struct plait_comm *comm, const char *name, struct plait_comm **out)
{
    return split_as("plait_comm_duplicate", comm, 0, 0, name, out);
}

/* ---- Shrink ----------------------------------------------------------------------------------------------- */

struct shrinking { /* the arguments; a group keeps a copy */
    struct plait_comm *comm;
    char name[64];
    bool abort;
    uint64_t excluded[PLAIT_MAX_RANKS / 64]; /* a bit for each rank */
};

/* Survivors that exclude the same ranks compute the same id for their rendezvous: no message has to carry it. */
static enum plait_status shrink(const void *args, enum plait_status own, struct plait_comm **out)
{
    const struct shrinking *s = args;
    struct plait_comm *comm = s->comm;
    uint32_t *members = comm->members, n = 0, rank = 0;

    if (s->abort)
        plait_comm_stop(comm);
    for (uint32_t r = 0; r < comm->nrank; r++) {
        if (s->excluded[r / 64] >> r % 64 & 1)
            continue;
        rank = r == comm->rank ? n : rank;
        members[n++] = r;
    }
    uint64_t salt = plait_hash(PLAIT_HASH_START, members, n * sizeof *members);
    salt = plait_hash(salt, &comm->nshrink, sizeof comm->nshrink);
    comm->nshrink++;
    const struct plait_unique_id id = id_of_members(comm, members, salt);
    const struct family family = { comm, members, n, true };
    return make(&family, &id, s->name[0] != '\0' ? s->name : NULL, rank, own, out);
}

static enum plait_status check_shrink(const struct plait_comm *comm, const uint32_t *excluded, uint32_t n, int abort,
                                      struct plait_comm *const *out)
{
    if (comm == NULL || out == NULL || (excluded == NULL && n > 0))
        return plait_fail(PLAIT_ERR_ARG, "plait_comm_shrink: %s",
                          comm == NULL  ? "comm is NULL"
                          : out == NULL ? "out is NULL"
                                        : "excluded is NULL, but n is not 0");
    if (n > PLAIT_MAX_RANKS)
        return plait_fail(PLAIT_ERR_ARG, "plait_comm_shrink: n is %u; a comm has at most %u ranks", n, PLAIT_MAX_RANKS);
    if (plait_comm_closed(comm))
        return plait_comm_is_closed(comm, "plait_comm_shrink");
    if (abort != 0 && abort != 1)
        return plait_fail(PLAIT_ERR_ARG, "plait_comm_shrink: abort is %d; it must be 0 or 1", abort);
    for (uint32_t i = 0; i < n; i++)
        if (excluded[i] >= comm->nrank || excluded[i] == comm->rank)
            return plait_fail(PLAIT_ERR_ARG, "plait_comm_shrink: excluded[%u] is %u, which is %s", i, excluded[i],
                              excluded[i] == comm->rank ? "this rank" : "no rank of the comm");
    return PLAIT_OK;
}

enum plait_status plait_comm_shrink(struct plait_comm *comm, const uint32_t *excluded, uint32_t n, int abort,
                                    const char *name, struct plait_comm **out)
{
    struct shrinking s = { .comm = comm, .abort = abort };
    const enum plait_status status = check_shrink(comm, excluded, n, abort, out);

    strncpy(s.name, name != NULL ? name : "", sizeof s.name - 1);
    for (uint32_t i = 0; i < n && status == PLAIT_OK; i++)
        s.excluded[excluded[i] / 64] |= (uint64_t)1 << excluded[i] % 64;
    return now_or_later(status, shrink, &s, sizeof s, comm, out);
}
