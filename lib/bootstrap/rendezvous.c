/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rendezvous: rank 0 accepts the others as clients and tells them when all have connected.
 *
 * Rank 0 watches every connected rank. A rank that reports a failure, or whose socket closes, ends the rendezvous at
 * once for all connected ranks. Ranks that connect later are told too, for MOST_LINGER seconds. After a death it is
 * DEATH_LINGER: the dead process may have had more ranks, which never come, and nobody knows which.
 */
#include "machine.h"
#include "place.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/status.h"
#include "base/system_limits.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_LINGER  20.0 /* seconds that a failed rank stays to tell others */
#define OTHERS_COME  2.0  /* seconds of these for ranks of another job, once as many ranks as this job has were told */
#define LOOK_EVERY   0.1  /* seconds between checks for another process with this rank */
#define DEATH_LINGER 0.5  /* seconds that rank 0 stays after a death: its own caller is to know within 1 s, too */

enum plait_status plait_rank_0_is_late(const struct plait_bootstrap *b, const char *why)
{
    return plait_fail(PLAIT_ERR_TIMEOUT, "comm creation: rank 0 did not come within %g s%s", b->limit, why);
}

/* ---- Rank 0 ------------------------------------------------------------------------------------------- */

static void name_missing(const struct plait_bootstrap *b, char *text, size_t size)
{
    size_t n = 0;
    unsigned missing = 0;

    for (uint32_t r = 1; r < b->nrank && n + 16 < size; r++) {
        if (b->peers[r].fd >= 0)
            continue;
        if (++missing > 16) {
            snprintf(text + n, size - n, ", ...");
            return;
        }
        n += (size_t)snprintf(text + n, size - n, "%s%u", missing > 1 ? ", " : "", r);
    }
}

/* The peer's address or process, for error texts. */
static const char *end_of(int fd, char text[PLAIT_ADDRESS_TEXT])
{
    union plait_address a = { .any.sa_family = AF_UNSPEC };
    socklen_t length = sizeof a;
    int pid = 0;

    if (getpeername(fd, &a.any, &length) == 0 && (a.any.sa_family == AF_INET || a.any.sa_family == AF_INET6))
        return plait_address_text(&a, false, text);
    plait_is_this_user(fd, &pid);
    snprintf(text, PLAIT_ADDRESS_TEXT, "process %d", pid);
    return text;
}

static enum plait_status refuse_twin(const struct plait_bootstrap *b, uint32_t rank, int fd)
{
    char first[PLAIT_ADDRESS_TEXT] = "here", second[PLAIT_ADDRESS_TEXT];

    if (rank > 0 && rank < b->nrank)
        end_of(b->peers[rank].fd, first);
    return plait_fail(PLAIT_ERR_MISMATCH, "comm creation: two ranks have rank %u: %s and %s%s", rank, first,
                      end_of(fd, second), b->launched ? "; " PLAIT_OTHER_JOB : "");
}

/* A connected rank with the same machine and another launcher; nrank: none. */
static uint32_t find_other_origin(const struct plait_bootstrap *b, struct plait_origin origin)
{
    uint32_t r = 0;

    while (r < b->nrank && !((r == 0 || b->peers[r].fd >= 0) && plait_origins_differ(b->origins[r], origin)))
        r++;
    return r;
}

/* Accept a rank. An error of its own, or a mismatch in its hello, ends the rendezvous. */
static enum plait_status let_in(struct plait_bootstrap *b, int fd, const struct plait_hello *hello,
                                const struct plait_error *verdict, uint32_t *joined)
{
    enum plait_status status = PLAIT_OK;
    uint32_t other;

    if (verdict->status != PLAIT_OK)
        status = plait_fail(verdict->status, "%s", verdict->text);
    else if (hello->nrank != b->nrank)
        status = plait_fail(PLAIT_ERR_MISMATCH, "comm creation: nrank is %u on rank 0 and %u on rank %u", b->nrank,
                            hello->nrank, hello->rank);
    else if (hello->rank == 0 || hello->rank >= b->nrank || b->peers[hello->rank].fd >= 0)
        status = refuse_twin(b, hello->rank, fd);
    else if (b->launched && (other = find_other_origin(b, hello->origin)) < b->nrank)
        status = plait_fail(PLAIT_ERR_MISMATCH,
                            "comm creation: two launchers on one host started ranks %u and %u: " PLAIT_OTHER_JOB
                            "; or ranks of one job have a launcher or a wrapper script each, which TORCHELASTIC_RUN_ID "
                            "mends: set it to one value for all of them",
                            other, hello->rank);
    ++*joined;
    if (status == PLAIT_OK) {
        b->peers[hello->rank].fd = fd;
        b->origins[hello->rank] = hello->origin;
        return PLAIT_OK;
    }
    const struct plait_error why = plait_error_of(status);
    plait_frame_write_error(fd, &why, plait_clock() + PLAIT_TELL);
    plait_descriptor_close(fd);
    return status;
}

static enum plait_status admit(struct plait_bootstrap *b, struct plait_place *place, uint32_t *joined, double until)
{
    struct plait_hello hello;
    struct plait_error verdict;
    int fd;
    const enum plait_status status = place->take(place, b->peers[0].fd, &hello, &verdict, until, &fd);

    return fd < 0 ? status : let_in(b, fd, &hello, &verdict, joined);
}

static enum plait_status say_who_is_missing(const struct plait_bootstrap *b, const struct plait_place *place,
                                            uint32_t joined)
{
    char text[256] = "", why[256] = "";

    name_missing(b, text, sizeof text);
    place->explain(place, why, sizeof why);
    return plait_fail(PLAIT_ERR_TIMEOUT, "comm creation: %u of %u ranks did not come within %g s: rank %s%s",
                      b->nrank - joined, b->nrank, b->limit, text, why);
}

/* plait_star_poll() that also fails when another process claims this rank. */
static enum plait_status wait_for_news(struct plait_bootstrap *b, double until)
{
    for (;;) {
        const double look = plait_clock() + LOOK_EVERY;
        const bool last = until <= look || b->nodes.claim.fd <= 0;
        const enum plait_status status = plait_star_poll(b, last ? until : look);
        if (status != PLAIT_OK && status != PLAIT_ERR_TIMEOUT)
            return status;
        const enum plait_status claimed = plait_claim_check(&b->nodes.claim, b->rank);
        if (claimed != PLAIT_OK || status == PLAIT_OK || last)
            return claimed != PLAIT_OK ? claimed : status;
    }
}

/*
 * One step: a rank connects, or a connected rank is lost. A connected rank sends nothing until all have connected, so
 * an event on its socket means that it is lost.
 */
static enum plait_status meet_next(struct plait_bootstrap *b, struct plait_place *place, uint32_t *joined, double until)
{
    const enum plait_status status = wait_for_news(b, until);

    if (status == PLAIT_ERR_TIMEOUT)
        return say_who_is_missing(b, place, *joined);
    if (status != PLAIT_OK)
        return status;
    for (uint32_t r = 1; r < b->nrank; r++)
        if (b->peers[r].fd >= 0 && b->peers[r].revents != 0)
            return plait_star_blame(b, r, PLAIT_ERR_PEER);
    return b->peers[0].revents != 0 ? admit(b, place, joined, until) : PLAIT_OK;
}

/* Name the missing ranks, too: some may have been in the process that died. */
static void add_missing(const struct plait_bootstrap *b, struct plait_error *death)
{
    const size_t n = strlen(death->text);
    char missing[256] = "";

    name_missing(b, missing, sizeof missing);
    if (missing[0] != '\0')
        snprintf(death->text + n, sizeof death->text - n, "; rank %s had not come", missing);
}

/* ---- Telling ---------------------------------------------------------------------------------------- */

/* Seconds that a failed rank tells others why: at most the time for which it would have waited for them. */
static double linger(const struct plait_bootstrap *b, enum plait_status why)
{
    const bool seen_by_all = why == PLAIT_ERR_PEER || why == PLAIT_ERR_FAILED; /* later ranks see it themselves */
    const double most = why == PLAIT_ERR_TIMEOUT ? 0 : seen_by_all ? DEATH_LINGER : MOST_LINGER;

    return b->limit > 0 && b->limit < most ? b->limit : most; /* limit 0: the time limit could not be read */
}

/* Tell ranks that still connect. False when this process has no descriptor to accept them. */
static bool refuse(const struct plait_bootstrap *b, struct plait_place *place, int door, uint32_t *told,
                   const struct plait_error *why, double until)
{
    struct plait_error verdict;
    struct plait_hello hello;

    /* Two jobs have this id, and all ranks of both connect here. */
    const bool twice = b->launched && why->status == PLAIT_ERR_MISMATCH;

    double last = 0; /* deadline for the other job's ranks; 0: fewer ranks have been told than this job has */

    for (uint32_t expected = (twice ? 2 : 1) * b->nrank; *told < expected;) {
        int fd;
        if (twice && last == 0 && *told >= b->nrank)
            last = plait_clock() + OTHERS_COME;
        if (plait_frame_wait(door, POLLIN, last > 0 && last < until ? last : until) != PLAIT_OK)
            break;
        const enum plait_status status = place->take(place, door, &hello, &verdict, until, &fd);
        if (status != PLAIT_OK && status != PLAIT_ERR_PEER)
            return false;
        *told += fd >= 0 || status == PLAIT_ERR_PEER;
        if (fd < 0)
            continue;
        plait_frame_write_error(fd, why, plait_clock() + PLAIT_TELL);
        plait_descriptor_close(fd);
        expected = hello.nrank > expected ? hello.nrank : expected;
    }
    return true;
}

/*
 * A process without free descriptors tells the others from a thread with a descriptor table of its own (unshare()). The
 * table is a copy, which has room once the thread has closed some.
 */
struct apart {
    struct plait_bootstrap *b;
    struct plait_place *place;
    int door; /* -1: not open yet, and on all ranks but 0 */
    uint32_t told;
    struct plait_error why;
};

static void *speak(void *arg)
{
    struct apart *a = arg;
    const bool host = a->b->rank == 0;
    const double until = plait_clock() + linger(a->b, a->why.status);
    int fd;

    if (unshare(CLONE_FILES) != 0)
        return NULL;
    plait_descriptors_apart();
    for (fd = 0; fd < 1024; fd++) /* closes this thread's copies only; keeps standard error for messages */
        if (fd != STDERR_FILENO && (a->door < 0 || !a->place->keeps(a->place, a->door, fd)))
            plait_descriptor_close(fd);
    if (host && a->door < 0)
        a->door = a->place->open(a->place, a->b, until);
    if (host && a->door >= 0)
        refuse(a->b, a->place, a->door, &a->told, &a->why, until);
    else if (!host)
        a->place->join(a->place, a->b, &a->why, until, &fd);
    return NULL;
}

static void tell_apart(struct apart *apart)
{
    sigset_t all, before;
    pthread_t thread;

    sigfillset(&all); /* the caller's signals are not for this thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, speak, apart) == 0)
        pthread_join(thread, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* End a failed rendezvous. Connected ranks are told first and hung up, which frees descriptors to accept the others. */
static void break_up(struct plait_bootstrap *b, struct plait_place *place, int door, uint32_t told,
                     const struct plait_error *why)
{
    struct apart apart = { .b = b, .place = place, .door = door, .told = told, .why = *why };

    plait_star_tell_all(b, why);
    for (uint32_t r = 1; b->peers != NULL && r < b->nrank; r++) {
        plait_hang_up(b->peers[r].fd);
        b->peers[r].fd = -1;
    }
    if (!refuse(b, place, door, &apart.told, why, plait_clock() + linger(b, why->status)))
        tell_apart(&apart);
}

/* This rank could not open a socket. */
static enum plait_status fail_apart(struct plait_bootstrap *b, struct plait_place *place, enum plait_status status)
{
    const struct plait_error mine = plait_error_of(status);
    struct apart apart = { b, place, -1, 1, plait_star_own_error(b, status) };

    tell_apart(&apart);
    return plait_fail(status, "%s", mine.text);
}

/* ---- The whole rendezvous -------------------------------------------------------------------------- */

static bool all_agree(const struct plait_bootstrap *b)
{
    uint32_t r = 0;

    while (r < b->nrank && plait_origins_agree(b->origins[r], b->origin))
        r++;
    return r == b->nrank;
}

/* Wait until all have joined; then tell them so, and whether one process started them all. */
static enum plait_status meet_all(struct plait_bootstrap *b, struct plait_place *place, int door, uint32_t *joined,
                                  double until)
{
    enum plait_status status = PLAIT_OK;

    b->peers[0].fd = door;
    while (status == PLAIT_OK && *joined < b->nrank)
        status = meet_next(b, place, joined, until);
    b->peers[0].fd = -1;
    if (status != PLAIT_OK)
        return status;
    const uint8_t agree = all_agree(b);
    if (agree)
        b->nodes.claim.of_all = b->origin;
    for (uint32_t r = 1; r < b->nrank; r++)
        plait_frame_write(b->peers[r].fd, &agree, sizeof agree, plait_clock() + PLAIT_TELL);
    return PLAIT_OK;
}

/*
 * Is there room for the others' sockets? Later each rank may share PLAIT_COMM_SHARES more. Some of these take the place
 * of the descriptors at which ranks connected.
 */
static enum plait_status check_room(const struct plait_bootstrap *b, const struct plait_place *place, int door)
{
    size_t later = (b->nrank - 1) * PLAIT_COMM_SHARES, freed = 0;

    for (int fd = 0; fd < 1024; fd++)
        freed += fd != door && place->keeps(place, door, fd);
    later -= freed < later ? freed : later;
    return plait_check_descriptors(b->nrank - 1, later, "rank 0 of a comm, to meet the others");
}

static enum plait_status host(struct plait_bootstrap *b, struct plait_place *place, int door, enum plait_status own)
{
    const double until = plait_clock() + b->limit;
    enum plait_status status = own;
    uint32_t joined = 1;

    b->peers = malloc(b->nrank * sizeof *b->peers);
    b->origins = calloc(b->nrank, sizeof *b->origins);
    for (uint32_t r = 0; b->peers != NULL && r < b->nrank; r++)
        b->peers[r] = (struct pollfd){ .fd = -1, .events = POLLIN };
    if (b->origins != NULL)
        b->origins[0] = b->origin;
    if (status == PLAIT_OK && (b->peers == NULL || b->origins == NULL))
        status = plait_fail_memory("out of memory for %u ranks", b->nrank);
    if (status == PLAIT_OK)
        status = check_room(b, place, door);
    const bool failed = status != PLAIT_OK;
    if (!failed)
        status = meet_all(b, place, door, &joined, until);
    if (status != PLAIT_OK) {
        struct plait_error mine = plait_error_of(status);
        if (!failed && status == PLAIT_ERR_PEER)
            add_missing(b, &mine);
        const bool stopped = !failed && plait_frame_look() != PLAIT_OK;
        const struct plait_error why = failed || stopped ? plait_star_own_error(b, status) : mine;
        plait_frame_unwatch(); /* ranks that connect now are told all the same */
        break_up(b, place, door, joined, &why);
        plait_fail(status, "%s", mine.text);
    }
    free(b->origins);
    b->origins = NULL;
    return status;
}

/* Errors of which rank 0 cannot tell the others, as they look for it elsewhere. NULL: another error. */
static const char *why_nowhere(int error)
{
    return error == EADDRNOTAVAIL ? "no address of the id is one of this host; rank 0 must be on the host where the id "
                                    "was made"
           : error == EBUSY       ? "all ports that the id names are in use on this host"
                                  : NULL;
}

/* Wait 2 s longer than rank 0, so that the error of rank 0, which names the culprit, arrives. */
static enum plait_status wait_for_all(struct plait_bootstrap *b)
{
    uint8_t agree = 0;
    const enum plait_status status = plait_star_read(b, 0, &agree, sizeof agree, plait_clock() + b->limit + 2.0);

    if (status == PLAIT_OK && agree != 0)
        b->nodes.claim.of_all = b->origin;
    return status;
}

static enum plait_status attend(struct plait_bootstrap *b, struct plait_place *place, enum plait_status own)
{
    struct plait_error mine = plait_error_of(own);
    const struct plait_error verdict = own == PLAIT_OK ? mine : plait_star_own_error(b, own);
    const double until = plait_clock() + (own == PLAIT_OK ? b->limit : linger(b, own));
    const enum plait_status status = place->join(place, b, &verdict, until, &b->root);

    if (own == PLAIT_OK && status != PLAIT_OK) {
        const enum plait_status stopped = plait_frame_look();
        if (stopped != PLAIT_OK) { /* connect to say so: rank 0 would wait for this rank until its limit */
            plait_frame_unwatch();
            plait_hang_up(b->root);
            b->root = -1;
            return attend(b, place, stopped);
        }
    }
    if ((status == PLAIT_ERR_SYSTEM || status == PLAIT_ERR_NOMEM) && b->root < 0) {
        if (own != PLAIT_OK)
            plait_fail(own, "%s", mine.text);
        return fail_apart(b, place, own != PLAIT_OK ? own : status);
    }
    if (own != PLAIT_OK)
        return plait_fail(own, "%s", mine.text);
    return status == PLAIT_OK ? wait_for_all(b) : status;
}

static enum plait_status open_and_host(struct plait_bootstrap *b, struct plait_place *place, enum plait_status own)
{
    const int door = place->open(place, b, plait_clock() + b->limit), error = errno;
    enum plait_status status = own;

    if (door < 0 && status == PLAIT_OK)
        status = plait_frame_look(); /* this rank may have been told to stop */
    if (door < 0 &&
        error == EADDRINUSE) { /* tell the other rank 0, as each of its ranks does: it tells all that connect */
        if (status == PLAIT_OK)
            status = plait_fail(PLAIT_ERR_MISMATCH, "comm creation: two ranks have rank 0, or the id is used twice%s",
                                b->launched ? "; " PLAIT_OTHER_JOB : "");
        return attend(b, place, status);
    }
    if (door < 0 && why_nowhere(error) != NULL) {
        char why[256] = "";
        place->explain(place, why, sizeof why);
        return status != PLAIT_OK ? status : plait_fail(PLAIT_ERR_ARG, "comm creation: %s%s", why_nowhere(error), why);
    }
    if (door < 0)
        return fail_apart(b, place,
                          status != PLAIT_OK ? status : plait_fail_errno(error, "comm creation: no socket to meet at"));
    status = host(b, place, door, own);
    place->close(place, door);
    return status;
}

enum plait_status plait_meet_at(struct plait_bootstrap *b, struct plait_place *place, enum plait_status own)
{
    return b->rank == 0 ? open_and_host(b, place, own) : attend(b, place, own);
}
