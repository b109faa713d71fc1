/* SPDX-License-Identifier: BSD-3-Clause */
/* The clients of the rendezvous, and how a rank tells the others of its error when it has no descriptor left. */
#include "rendezvous.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/status.h"
#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#define MOST_LINGER  20.0 /* seconds that a failed rank stays to tell others */
#define DEATH_LINGER 0.5  /* seconds that it stays after a death: its own caller is to know within 1 s, too */
#define TRIES_AGAIN  2.0  /* seconds that a rank tries again after rank 0 of this machine closed its connection */

enum plait_status plait_rank_0_is_late(const struct plait_bootstrap *b, const char *why)
{
    return plait_fail(PLAIT_ERR_TIMEOUT, "comm creation: rank 0 did not answer within %g s%s", b->limit, why);
}

double plait_rendezvous_linger(const struct plait_bootstrap *b, enum plait_status why)
{
    const bool seen_by_all = why == PLAIT_ERR_PEER || why == PLAIT_ERR_FAILED; /* later ranks see it themselves */
    const double most = why == PLAIT_ERR_TIMEOUT ? 0 : seen_by_all ? DEATH_LINGER : MOST_LINGER;

    return b->limit > 0 && b->limit < most ? b->limit : most; /* limit 0: the time limit could not be read */
}

/* ---- Joining ------------------------------------------------------------------------------------------------ */

/* Ask to join, and wait until rank 0 has taken the request. PLAIT_ERR_PEER: rank 0 closed the connection first. */
static enum plait_status request_to_join(int fd, const unsigned char *secret, const struct plait_handshake *h,
                                         const struct plait_bootstrap *b, const struct plait_error *verdict,
                                         double until)
{
    struct plait_join_request who = {
        .rank = b->rank, .nrank = b->nrank, .status = verdict->status, .origin = b->origin
    };
    char joined = 0;

    if (verdict->status != PLAIT_OK)
        who.bytes = (uint32_t)strlen(verdict->text);
    plait_join_request_sign(secret, h, &who);
    enum plait_status status = plait_frame_send(fd, &who, sizeof who, until);
    if (status == PLAIT_OK)
        status = plait_frame_send(fd, verdict->text, who.bytes, until);
    if (status == PLAIT_OK)
        status = plait_frame_receive(fd, &joined, 1, until);
    return status == PLAIT_OK && joined != PLAIT_JOINED ? PLAIT_ERR_PEER : status;
}

static enum plait_status find_on_machine(const struct plait_unix_name *name, const struct plait_bootstrap *b,
                                         double until, int *out)
{
    int pid;
    const enum plait_status status = plait_unix_connect(name, until, out, &pid);

    if (status == PLAIT_ERR_PEER)
        return plait_fail(PLAIT_ERR_SYSTEM, "comm creation: process %d, of another user, listens where rank 0 should",
                          pid);
    if (status != PLAIT_ERR_TIMEOUT)
        return status;
    return plait_rank_0_is_late(b, "; the id is of ranks on one machine: where they are on several, the launcher must "
                                   "not say that all are on this one (LOCAL_WORLD_SIZE)");
}

/*
 * Connect to rank 0, which may not listen yet, and join. *out is a socket, also if rank 0 has closed it: its reason may
 * still be there to read.
 */
static enum plait_status join(const struct plait_rendezvous *r, const struct plait_bootstrap *b,
                              const struct plait_error *verdict, double until, int *out)
{
    const unsigned char *secret = r->tcp != NULL ? r->tcp->secret : NULL;
    struct plait_handshake h = { 0 };
    double last = until;
    bool lost = false;

    for (;;) {
        enum plait_status status = r->tcp != NULL ? plait_tcp_find(r->tcp, b, until, &h, out)
                                                  : find_on_machine(&r->name, b, last < until ? last : until, out);
        if (status == PLAIT_ERR_TIMEOUT && r->tcp == NULL && lost)
            return plait_star_blame(b, 0, PLAIT_ERR_PEER);
        if (status != PLAIT_OK)
            return status;
        status = request_to_join(*out, secret, &h, b, verdict, until + PLAIT_TELL);
        if (status != PLAIT_ERR_PEER)
            return plait_star_blame(b, 0, status);
        plait_descriptor_close(*out); /* rank 0 had no room, or has ended */
        *out = -1;
        lost = true;
        last = plait_clock() + TRIES_AGAIN;
        usleep(1000);
    }
}

/* ---- Telling without a free descriptor ----------------------------------------------------------------------- */

/*
 * A process without free descriptors tells the others from a thread with a descriptor table of its own (unshare()). The
 * table is a copy, which has room once the thread has closed some.
 */
struct apart {
    struct plait_bootstrap *b;
    struct plait_rendezvous *r;
    uint32_t told;
    struct plait_error why;
};

static void *tell_in_thread(void *arg)
{
    struct apart *a = arg;
    struct plait_listener *l = &a->r->listener;
    const double until = plait_clock() + plait_rendezvous_linger(a->b, a->why.status);
    int fd;

    if (unshare(CLONE_FILES) != 0)
        return NULL;
    plait_descriptors_apart();
    for (fd = 0; fd < 1024; fd++) /* closes this thread's copies only; keeps standard error for messages */
        if (fd != STDERR_FILENO && !plait_listener_has(l, fd))
            plait_descriptor_close(fd);
    if (a->b->rank > 0)
        join(a->r, a->b, &a->why, until, &fd);
    else if (l->nsocket > 0 || plait_server_listen(a->r, until) == 0)
        plait_server_refuse(a->b, l, &a->told, &a->why, until);
    plait_listener_drop_clients(l); /* their numbers mean nothing outside this thread */
    return NULL;
}

void plait_rendezvous_tell_apart(struct plait_rendezvous *r, struct plait_bootstrap *b, uint32_t told,
                                 const struct plait_error *why)
{
    struct apart apart = { b, r, told, *why };
    pthread_t thread;

    plait_listener_drop_clients(&r->listener); /* ranks among them connect again */
    if (plait_thread_start(&thread, tell_in_thread, &apart) == 0)
        pthread_join(thread, NULL);
}

enum plait_status plait_rendezvous_fail_apart(struct plait_rendezvous *r, struct plait_bootstrap *b,
                                              enum plait_status status)
{
    const struct plait_error mine = plait_error_of(status), why = plait_star_own_error(b, status);

    plait_rendezvous_tell_apart(r, b, 1, &why);
    return plait_fail(status, "%s", mine.text);
}

/* ---- The whole rendezvous ----------------------------------------------------------------------------------- */

/* Wait 2 s longer than rank 0, so that the error of rank 0, which names the culprit, arrives. */
static enum plait_status wait_for_all(struct plait_bootstrap *b)
{
    uint8_t agree = 0;
    const enum plait_status status = plait_star_read(b, 0, &agree, sizeof agree, plait_clock() + b->limit + 2.0);

    if (status == PLAIT_OK && agree != 0)
        b->nodes.claim.of_all = b->origin;
    return status;
}

enum plait_status plait_rendezvous_attend(struct plait_rendezvous *r, struct plait_bootstrap *b, enum plait_status own)
{
    struct plait_error mine = plait_error_of(own);
    const struct plait_error verdict = own == PLAIT_OK ? mine : plait_star_own_error(b, own);
    const double until = plait_clock() + (own == PLAIT_OK ? b->limit : plait_rendezvous_linger(b, own));
    const enum plait_status status = join(r, b, &verdict, until, &b->root);

    if (own == PLAIT_OK && status != PLAIT_OK) {
        const enum plait_status stopped = plait_frame_look();
        if (stopped != PLAIT_OK) { /* connect to say so: rank 0 would wait for this rank until its limit */
            plait_frame_unwatch();
            plait_hang_up(b->root);
            b->root = -1;
            return plait_rendezvous_attend(r, b, stopped);
        }
    }
    if ((status == PLAIT_ERR_SYSTEM || status == PLAIT_ERR_NOMEM) && b->root < 0) {
        if (own != PLAIT_OK)
            plait_fail(own, "%s", mine.text);
        return plait_rendezvous_fail_apart(r, b, own != PLAIT_OK ? own : status);
    }
    if (own != PLAIT_OK)
        return plait_fail(own, "%s", mine.text);
    return status == PLAIT_OK ? wait_for_all(b) : status;
}

enum plait_status plait_rendezvous_run(struct plait_rendezvous *r, struct plait_bootstrap *b, enum plait_status own)
{
    plait_listener_init(&r->listener, r->tcp != NULL ? r->tcp->secret : NULL);
    return b->rank == 0 ? plait_server_run(r, b, own) : plait_rendezvous_attend(r, b, own);
}
