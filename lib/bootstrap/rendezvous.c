/* SPDX-License-Identifier: BSD-3-Clause */
/* The clients of the rendezvous, and how a rank tells the others of an error of its own. */
#include "rendezvous.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/status.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#define MOST_LINGER  20.0 /* seconds that a failed rank stays to tell others */
#define DEATH_LINGER 0.5  /* seconds that it stays after a death: its own caller is to know within 1 s, too */
#define OTHERS_COME  2.0  /* seconds that it stays where ranks of another job come, too: nobody knows how many */
#define TRIES_AGAIN  2.0  /* seconds that a rank tries again after rank 0 of this machine closed its connection */
#define MORE         64   /* descriptors above the soft limit, for telling */

enum plait_status plait_rank_0_is_late(const struct plait_bootstrap *b, const char *why)
{
    return plait_fail(PLAIT_ERR_TIMEOUT, "comm creation: rank 0 did not answer within %g s%s", b->limit, why);
}

bool plait_rendezvous_is_shared(const struct plait_bootstrap *b, enum plait_status why)
{
    return b->launched && why == PLAIT_ERR_MISMATCH;
}

double plait_rendezvous_linger(const struct plait_bootstrap *b, enum plait_status why)
{
    const bool seen_by_all = why == PLAIT_ERR_PEER || why == PLAIT_ERR_FAILED; /* later ranks see it themselves */
    const double most = why == PLAIT_ERR_TIMEOUT             ? 0
                        : seen_by_all                        ? DEATH_LINGER
                        : plait_rendezvous_is_shared(b, why) ? OTHERS_COME
                                                             : MOST_LINGER;

    return b->limit > 0 && b->limit < most ? b->limit : most; /* limit 0: the time limit could not be read */
}

/* Ask to join, and wait until rank 0 has taken the request. PLAIT_ERR_PEER: rank 0 closed the connection first. */
static enum plait_status request_to_join(int fd, const unsigned char *secret, const struct plait_handshake *h,
                                         const struct plait_bootstrap *b, const struct plait_error *verdict,
                                         double until)
{
    struct plait_join_request who = { .rank = b->rank, .nrank = b->nrank, .verdict = *verdict };
    char joined = 0;

    plait_join_request_sign(secret, h, &who);
    enum plait_status status = plait_frame_send(fd, &who, sizeof who, until);
    if (status == PLAIT_OK)
        status = plait_frame_receive(fd, &joined, 1, until);
    return status == PLAIT_OK && joined != PLAIT_JOINED ? PLAIT_ERR_PEER : status;
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
        enum plait_status status = r->tcp != NULL
                                       ? plait_tcp_find(r->tcp, b, until, &h, out)
                                       : plait_unix_connect(&r->name, last < until ? last : until, "rank 0", out);
        if (status == PLAIT_ERR_TIMEOUT && r->tcp == NULL)
            return lost ? plait_star_blame(b, 0, PLAIT_ERR_PEER)
                        : plait_rank_0_is_late(b, "; the id is of ranks on one machine: where they are on several, the "
                                                  "launcher must not say that all are on this one (LOCAL_WORLD_SIZE)");
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

enum plait_status plait_rendezvous_attend(struct plait_rendezvous *r, struct plait_bootstrap *b, enum plait_status own)
{
    struct plait_error verdict = { .status = PLAIT_OK };
    const double until = plait_clock() + (own == PLAIT_OK ? b->limit : plait_rendezvous_linger(b, own));

    if (own != PLAIT_OK)
        verdict = plait_star_own_error(b, own);
    enum plait_status status = join(r, b, &verdict, until, &b->star.root);
    if (status == PLAIT_OK && own == PLAIT_OK) /* rank 0, whose error names the culprit, gives up 2 s earlier */
        return plait_star_read(b, &b->star, 0, NULL, 0, plait_clock() + b->limit + 2.0);
    const enum plait_status stopped = status != PLAIT_OK ? plait_frame_check() : PLAIT_OK;
    r->untold = stopped != PLAIT_OK || ((status == PLAIT_ERR_SYSTEM || status == PLAIT_ERR_NOMEM) && b->star.root < 0);
    return stopped != PLAIT_OK ? stopped : status;
}

static enum plait_status run(struct plait_rendezvous *r, struct plait_bootstrap *b, enum plait_status own)
{
    return b->rank == 0 ? plait_server_run(r, b, own) : plait_rendezvous_attend(r, b, own);
}

void plait_rendezvous_raise_limit(bool raise)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct rlimit before;
    static unsigned tellers; /* ranks of this process */

    pthread_mutex_lock(&lock);
    if (raise && tellers++ == 0) {
        getrlimit(RLIMIT_NOFILE, &before);
        const rlim_t more = before.rlim_max - before.rlim_cur > MORE ? before.rlim_cur + MORE : before.rlim_max;
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){ more, before.rlim_max });
    } else if (!raise && --tellers == 0) {
        setrlimit(RLIMIT_NOFILE, &before);
    }
    pthread_mutex_unlock(&lock);
}

enum plait_status plait_rendezvous_run(struct plait_rendezvous *r, struct plait_bootstrap *b, enum plait_status own)
{
    r->untold = own != PLAIT_OK;
    const enum plait_status status = own == PLAIT_OK ? run(r, b, own) : own;
    if (r->untold) { /* meet the others to tell them */
        const struct plait_error mine = plait_error_of(status);
        plait_rendezvous_raise_limit(true);
        plait_frame_unwatch();
        plait_star_finish(&b->star, b->nrank);
        run(r, b, status);
        plait_rendezvous_raise_limit(false);
        plait_fail(status, "%s", mine.text);
    }
    return status;
}
