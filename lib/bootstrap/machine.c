/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes and threads of one machine, over a Unix socket in the abstract name space.
 *
 * Rank 0 listens under the id's name and serves a star: everyone sends to rank 0, rank 0 answers
 * all. Abstract names vanish with their process. Only processes of the same user are let in.
 *
 * Rank 0 watches everyone who has come: a rank that says it failed, or whose socket closes because it left or died,
 * ends the meeting at once for all who are there. Those who come later are told too, for MOST_LINGER; after a death
 * for DEATH_LINGER only, as the ranks that the process would still have brought never come, and nobody knows which
 * those are.
 */
#include "bootstrap.h"

#include "../clock.h"
#include "../hash.h"
#include "../limits.h"
#include "../status.h"
#include "star.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MAGIC        0x504c4149u /* "PLAI" */
#define MOST_LINGER  20.0        /* seconds that a rank that has failed stays for others */
#define DEATH_LINGER 0.5         /* seconds that rank 0 stays when another has died: it is to know within one, too */

struct hello { /* followed by a frame: the rank's verdict */
    uint32_t magic, nrank, rank;
};

struct place { /* where an id's ranks meet */
    struct sockaddr_un address;
    socklen_t length;
};

_Static_assert(sizeof(struct plait_unique_id) == 128, "as NCCL's");

enum plait_status plait_unique_id_create(struct plait_unique_id *out)
{
    unsigned char random[16];

    if (out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_unique_id_create: out is NULL");
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return plait_fail(PLAIT_ERR_SYSTEM, "no random bytes for a unique id: %s", strerror(errno));
    memset(out, 0, sizeof *out);
    char *name = (char *)out->bytes + sprintf((char *)out->bytes, "plait1-machine-");
    for (size_t i = 0; i < sizeof random; i++)
        name += sprintf(name, "%02x", random[i]);
    return PLAIT_OK;
}

void plait_unique_id_derive(const struct plait_unique_id *from, uint64_t salt, struct plait_unique_id *out)
{
    const uint64_t a = plait_hash(plait_hash(PLAIT_HASH_START, &salt, sizeof salt), from->bytes, sizeof from->bytes);
    const uint64_t b = plait_hash(plait_hash(a, &salt, sizeof salt), from->bytes, sizeof from->bytes);

    memset(out, 0, sizeof *out);
    sprintf((char *)out->bytes, "plait1-machine-%016llx%016llx", (unsigned long long)a, (unsigned long long)b);
}

static bool place_of(const struct plait_unique_id *id, struct place *out)
{
    const size_t n = strnlen((const char *)id->bytes, sizeof id->bytes);

    if (strncmp((const char *)id->bytes, "plait1-machine-", 15) != 0 || n >= sizeof out->address.sun_path)
        return false;
    out->address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    memcpy(out->address.sun_path + 1, id->bytes, n);
    out->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
    return true;
}

/* Closing alone would not end the connection while a child that was forked meanwhile has the socket too. */
static void hang_up(int fd)
{
    if (fd < 0)
        return;
    shutdown(fd, SHUT_RDWR);
    close(fd);
}

static void finish(struct plait_bootstrap *b)
{
    hang_up(b->root);
    for (uint32_t r = 1; b->peers != NULL && r < b->nrank; r++)
        hang_up(b->peers[r].fd);
    free(b->peers);
}

/* ---- Meeting: rank 0 --------------------------------------------------------------------------------- */

static int open_listener(const struct place *place, uint32_t nrank)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 ||
        (bind(fd, (const struct sockaddr *)&place->address, place->length) == 0 && listen(fd, (int)nrank) == 0))
        return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

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

/*
 * Read who has connected. Strangers are not `ours`; PLAIT_ERR_PEER: one of this user's processes ended before it had
 * said who it is.
 */
static enum plait_status read_hello(int fd, struct hello *hello, struct plait_error *verdict, double until, bool *ours)
{
    struct ucred who;
    socklen_t length = sizeof who;

    *ours = false;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0 || who.uid != geteuid())
        return PLAIT_OK;
    enum plait_status status = plait_frame_receive(fd, hello, sizeof *hello, until);
    if (status == PLAIT_OK && hello->magic == MAGIC)
        status = plait_frame_read(fd, NULL, 0, until, verdict);
    *ours = status == PLAIT_OK && hello->magic == MAGIC;
    return status != PLAIT_ERR_PEER
               ? PLAIT_OK
               : plait_fail(status, "comm creation: a rank (process %d) left or died", (int)who.pid);
}

/* Take one connection. *out is -1 when it is nobody or a stranger, who is dropped, and on errors. */
static enum plait_status take(int listener, struct hello *hello, struct plait_error *verdict, double until, int *out)
{
    const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    bool ours;

    *out = -1;
    if (fd < 0 && (errno == EINTR || errno == ECONNABORTED || errno == EAGAIN))
        return PLAIT_OK;
    if (fd < 0)
        return plait_fail_errno(errno, "comm creation: rank 0 cannot let in the others");
    const enum plait_status status = read_hello(fd, hello, verdict, until, &ours);
    if (ours)
        *out = fd;
    else
        close(fd);
    return status;
}

/* Let a rank in. An error of its own, or in what it says of itself, ends the meeting. */
static enum plait_status let_in(struct plait_bootstrap *b, int fd, const struct hello *hello,
                                const struct plait_error *verdict, uint32_t *joined)
{
    enum plait_status status = PLAIT_OK;

    if (verdict->status != PLAIT_OK)
        status = plait_fail(verdict->status, "%s", verdict->text);
    else if (hello->nrank != b->nrank)
        status = plait_fail(PLAIT_ERR_MISMATCH, "comm creation: nrank is %u on rank 0 and %u on rank %u", b->nrank,
                            hello->nrank, hello->rank);
    else if (hello->rank == 0 || hello->rank >= b->nrank || b->peers[hello->rank].fd >= 0)
        status = plait_fail(PLAIT_ERR_MISMATCH, "comm creation: two ranks have rank %u", hello->rank);
    ++*joined;
    if (status == PLAIT_OK) {
        b->peers[hello->rank].fd = fd;
        return PLAIT_OK;
    }
    const struct plait_error why = plait_error_of(status);
    plait_frame_write_error(fd, &why, plait_clock() + PLAIT_TELL);
    close(fd);
    return status;
}

static enum plait_status admit(struct plait_bootstrap *b, uint32_t *joined, double until)
{
    struct hello hello;
    struct plait_error verdict;
    int fd;
    const enum plait_status status = take(b->peers[0].fd, &hello, &verdict, until, &fd);

    return fd < 0 ? status : let_in(b, fd, &hello, &verdict, joined);
}

/* One step of the meeting: somebody comes, or somebody who has come is gone. Who has come says nothing more until all
 * are here. */
static enum plait_status meet_next(struct plait_bootstrap *b, uint32_t *joined, double until)
{
    const enum plait_status status = plait_star_poll(b, until);
    char text[256] = "";

    if (status == PLAIT_ERR_TIMEOUT) {
        name_missing(b, text, sizeof text);
        return plait_fail(status, "comm creation: %u of %u ranks did not come within %g s: rank %s", b->nrank - *joined,
                          b->nrank, b->limit, text);
    }
    if (status != PLAIT_OK)
        return status;
    for (uint32_t r = 1; r < b->nrank; r++)
        if (b->peers[r].fd >= 0 && b->peers[r].revents != 0)
            return plait_star_blame(b, r, PLAIT_ERR_PEER);
    return admit(b, joined, until);
}

/* A process that died may have had more ranks than those that it brought. */
static void add_missing(const struct plait_bootstrap *b, struct plait_error *death)
{
    const size_t n = strlen(death->text);
    char missing[256] = "";

    name_missing(b, missing, sizeof missing);
    if (missing[0] != '\0')
        snprintf(death->text + n, sizeof death->text - n, "; rank %s had not come", missing);
}

/* ---- Telling ---------------------------------------------------------------------------------------- */

/* How long a rank still tells others why: not longer than it would have waited for them. */
static double linger(const struct plait_bootstrap *b, enum plait_status why)
{
    const bool seen_by_all = why == PLAIT_ERR_PEER || why == PLAIT_ERR_FAILED; /* those who come will see it, too */
    const double most = why == PLAIT_ERR_TIMEOUT ? 0 : seen_by_all ? DEATH_LINGER : MOST_LINGER;

    return b->limit > 0 && b->limit < most ? b->limit : most; /* limit 0: it could not be read */
}

/* Tell those who still come. False when this process has no descriptor to let them in. */
static bool refuse(const struct plait_bootstrap *b, int listener, uint32_t *told, const struct plait_error *why,
                   double until)
{
    struct plait_error verdict;
    struct hello hello;

    for (uint32_t expected = b->nrank; *told < expected && plait_frame_wait(listener, POLLIN, until) == PLAIT_OK;) {
        int fd;
        const enum plait_status status = take(listener, &hello, &verdict, until, &fd);
        if (status != PLAIT_OK && status != PLAIT_ERR_PEER)
            return false;
        *told += fd >= 0 || status == PLAIT_ERR_PEER;
        if (fd < 0)
            continue;
        plait_frame_write_error(fd, why, plait_clock() + PLAIT_TELL);
        close(fd);
        expected = hello.nrank > expected ? hello.nrank : expected;
    }
    return true;
}

/* Connect to rank 0, once it is there, and say who this is and how it is. */
static enum plait_status say_hello(const struct plait_bootstrap *b, const struct place *place, int fd,
                                   const struct plait_error *verdict, double seconds)
{
    const double until = plait_clock() + seconds;
    const struct hello hello = { MAGIC, b->nrank, b->rank };
    useconds_t pause = 500;
    enum plait_status status;

    while (connect(fd, (const struct sockaddr *)&place->address, place->length) != 0) {
        if (errno != ECONNREFUSED && errno != EAGAIN && errno != EINTR)
            return plait_fail_errno(errno, "comm creation: connecting to rank 0");
        status = plait_frame_look();
        if (status != PLAIT_OK)
            return status;
        if (plait_clock() > until)
            return plait_fail(PLAIT_ERR_TIMEOUT, "comm creation: rank 0 did not come within %g s", b->limit);
        usleep(pause);
        if (pause < 10000)
            pause *= 2;
    }
    status = plait_frame_send(fd, &hello, sizeof hello, until + PLAIT_TELL);
    if (status == PLAIT_OK)
        status = verdict->status == PLAIT_OK ? plait_frame_write(fd, NULL, 0, until + PLAIT_TELL)
                                             : plait_frame_write_error(fd, verdict, until + PLAIT_TELL);
    return status == PLAIT_ERR_PEER ? PLAIT_OK
                                    : plait_star_blame(b, 0, status); /* it may have said why before it closed */
}

/*
 * A process that is out of descriptors tells the others from a thread with a table of its own: a copy, in which there
 * is room once some are closed.
 */
struct apart {
    struct plait_bootstrap *b;
    const struct place *place; /* NULL: rank 0 has its listener */
    int listener;
    uint32_t told;
    struct plait_error why;
};

static void *speak(void *arg)
{
    struct apart *a = arg;
    const bool host = a->b->rank == 0;

    if (unshare(CLONE_FILES) != 0)
        return NULL;
    for (int fd = 0; fd < 1024; fd++) /* of this thread's copies only; standard error may be written to */
        if (fd != a->listener && fd != STDERR_FILENO)
            close(fd);
    const int fd = a->listener >= 0 ? a->listener
                   : host           ? open_listener(a->place, a->b->nrank)
                                    : socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd >= 0 && host)
        refuse(a->b, fd, &a->told, &a->why, plait_clock() + linger(a->b, a->why.status));
    else if (fd >= 0)
        say_hello(a->b, a->place, fd, &a->why, linger(a->b, a->why.status));
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

/* The meeting has failed. Those who are here learn why and are let go, which frees their descriptors; then the others.
 */
static void break_up(struct plait_bootstrap *b, int listener, uint32_t told, const struct plait_error *why)
{
    struct apart apart = { .b = b, .listener = listener, .told = told, .why = *why };

    plait_star_tell_all(b, why);
    for (uint32_t r = 1; b->peers != NULL && r < b->nrank; r++) {
        hang_up(b->peers[r].fd);
        b->peers[r].fd = -1;
    }
    if (!refuse(b, listener, &apart.told, why, plait_clock() + linger(b, why->status)))
        tell_apart(&apart);
}

/* ---- The whole meeting ----------------------------------------------------------------------------- */

/* Wait until all have joined; then tell them so. */
static enum plait_status meet_all(struct plait_bootstrap *b, int listener, uint32_t *joined, double until)
{
    enum plait_status status = PLAIT_OK;

    b->peers[0].fd = listener;
    while (status == PLAIT_OK && *joined < b->nrank)
        status = meet_next(b, joined, until);
    b->peers[0].fd = -1;
    for (uint32_t r = 1; status == PLAIT_OK && r < b->nrank; r++)
        plait_frame_write(b->peers[r].fd, NULL, 0, plait_clock() + PLAIT_TELL);
    return status;
}

static enum plait_status host(struct plait_bootstrap *b, int listener, enum plait_status own)
{
    const double until = plait_clock() + b->limit;
    enum plait_status status = own;
    uint32_t joined = 1;

    b->peers = malloc(b->nrank * sizeof *b->peers);
    for (uint32_t r = 0; b->peers != NULL && r < b->nrank; r++)
        b->peers[r] = (struct pollfd){ .fd = -1, .events = POLLIN };
    if (status == PLAIT_OK && b->peers == NULL)
        status = plait_fail_memory("out of memory for %u ranks", b->nrank);
    if (status == PLAIT_OK)
        status = plait_check_descriptors(b->nrank - 1, "rank 0 of a comm, to meet the others");
    const bool failed = status != PLAIT_OK;
    if (!failed)
        status = meet_all(b, listener, &joined, until);
    if (status != PLAIT_OK) {
        struct plait_error mine = plait_error_of(status);
        if (!failed && status == PLAIT_ERR_PEER)
            add_missing(b, &mine);
        const struct plait_error why = failed ? plait_star_own_error(b, status) : mine;
        break_up(b, listener, joined, &why);
        plait_fail(status, "%s", mine.text);
    }
    return status;
}

static enum plait_status join(struct plait_bootstrap *b, const struct place *place, enum plait_status own)
{
    struct plait_error mine = plait_error_of(own);
    const struct plait_error verdict = own == PLAIT_OK ? mine : plait_star_own_error(b, own);
    const enum plait_status status =
        say_hello(b, place, b->root, &verdict, own == PLAIT_OK ? b->limit : linger(b, own));

    if (own != PLAIT_OK)
        return plait_fail(own, "%s", mine.text);
    /* Rank 0 has had its own wait by then, so that its error, which names the culprit, arrives. */
    return status == PLAIT_OK ? plait_star_read(b, 0, NULL, 0, plait_clock() + b->limit + 2.0) : status;
}

static enum plait_status meet(struct plait_bootstrap *b, const struct place *place, enum plait_status own)
{
    const int fd = b->rank == 0 ? open_listener(place, b->nrank) : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int error = errno;
    enum plait_status status = own;

    if (fd < 0 && error == EADDRINUSE)
        return own != PLAIT_OK
                   ? own
                   : plait_fail(PLAIT_ERR_ARG, "comm creation: two ranks have rank 0, or the id is used twice");
    if (fd < 0) {
        status = own != PLAIT_OK ? own : plait_fail_errno(error, "comm creation: no socket to meet at");
        const struct plait_error mine = plait_error_of(status);
        struct apart apart = { b, place, -1, 1, plait_star_own_error(b, status) };
        tell_apart(&apart);
        return plait_fail(status, "%s", mine.text);
    }
    if (b->rank > 0) {
        b->root = fd;
        return join(b, place, own);
    }
    status = host(b, fd, own);
    hang_up(fd);
    return status;
}

enum plait_status plait_bootstrap_create(const struct plait_unique_id *id, uint32_t rank, uint32_t nrank,
                                         double seconds, enum plait_status own, struct plait_bootstrap **out)
{
    struct plait_bootstrap *b = malloc(sizeof *b), here;
    struct place place;

    here = (struct plait_bootstrap){ .rank = rank, .nrank = nrank, .limit = seconds, .root = -1 };
    if (b == NULL && own == PLAIT_OK)
        own = plait_fail_memory("out of memory for the bootstrap");
    if (nrank > 1 && place_of(id, &place))
        own = meet(&here, &place, own);
    else if (nrank > 1 && own == PLAIT_OK)
        own = plait_fail(PLAIT_ERR_ARG, "comm creation: id was not made by plait_unique_id_create()");
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
