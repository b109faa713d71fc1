/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PMI-1: mpiexec of MPICH and of Intel MPI (hydra) exchanges lines of text with each of its processes, over the socket
 * PMI_FD. No library is needed. An MPI in the same process uses that socket, too: create no comm while it is in
 * MPI_Init() or MPI_Finalize().
 */
#include "plugin/pass.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LINE  1200 /* characters of a line; values have at most 1024 */
#define PIECE 400  /* bytes of a value, two characters each */

static struct {
    pthread_mutex_t lock;
    pid_t user; /* the process that has used the socket */
} once = { PTHREAD_MUTEX_INITIALIZER, 0 };

struct talk {
    int fd;
    double end; /* clock */
    char *why;
    size_t room;
    char answer[LINE];
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool fail(const struct talk *t, const char *what, const char *detail)
{
    snprintf(t->why, t->room, "PMI: %s%s%.100s", what, detail[0] != '\0' ? ": " : "", detail);
    return false;
}

/* The descriptor that PMI_FD names; -1: none. */
static int socket_of_mpiexec(void)
{
    const char *text = getenv("PMI_FD");
    const bool number = text != NULL && text[0] != '\0' && strspn(text, "0123456789") == strlen(text);

    return number ? atoi(text) : -1;
}

/* Read a line, a character at a time: what follows it may be for another reader of the socket. */
static bool hear(struct talk *t)
{
    for (size_t n = 0; n < LINE - 1;) {
        struct pollfd p = { .fd = t->fd, .events = POLLIN };
        const double left = t->end - now();
        if (left <= 0)
            return fail(t, "mpiexec does not answer in time; has every rank called?", "");
        const int ready = poll(&p, 1, left < 1e6 ? (int)(left * 1e3) + 1 : 1000000000);
        if (ready < 0 && errno != EINTR)
            return fail(t, "poll", strerror(errno));
        if (ready <= 0)
            continue;
        const ssize_t got = recv(t->fd, t->answer + n, 1, 0);
        if (got <= 0)
            return fail(t, "mpiexec has closed PMI_FD", got < 0 ? strerror(errno) : "");
        t->answer[n + 1] = '\0';
        if (t->answer[n++] == '\n')
            return true;
    }
    return fail(t, "mpiexec's answer is too long", t->answer);
}

/* Send a line; the answer must begin so. */
static bool ask(struct talk *t, const char *line, const char *begins)
{
    if (send(t->fd, line, strlen(line), MSG_NOSIGNAL) != (ssize_t)strlen(line))
        return fail(t, "PMI_FD cannot be written", strerror(errno));
    if (!hear(t))
        return false;
    return strncmp(t->answer, begins, strlen(begins)) == 0 || fail(t, "mpiexec answers something else", t->answer);
}

/* The value of NAME= in the answer, up to a blank. */
static bool find(const struct talk *t, const char *name, char *out, size_t room)
{
    const char *at = strstr(t->answer, name);
    const size_t n = at != NULL ? strcspn(at + strlen(name), " \n") : 0;

    if (at == NULL || n >= room)
        return fail(t, "mpiexec's answer lacks something", name);
    memcpy(out, at + strlen(name), n);
    out[n] = '\0';
    return true;
}

static bool put(struct talk *t, const char *space, const char *key, const unsigned char *bytes, size_t n)
{
    char line[LINE], hex[2 * PIECE + 1];

    for (size_t at = 0; at < n; at += PIECE) {
        for (size_t i = 0; i < PIECE && at + i < n; i++)
            snprintf(hex + 2 * i, 3, "%02x", bytes[at + i]);
        snprintf(line, sizeof line, "cmd=put kvsname=%s key=%s.%zu value=%s\n", space, key, at, hex);
        if (!ask(t, line, "cmd=put_result rc=0"))
            return false;
    }
    return true;
}

static bool get(struct talk *t, const char *space, const char *key, unsigned char *bytes, size_t n)
{
    char line[LINE], hex[2 * PIECE + 1];
    unsigned byte;

    for (size_t at = 0; at < n; at += PIECE) {
        const size_t some = n - at < PIECE ? n - at : PIECE;
        snprintf(line, sizeof line, "cmd=get kvsname=%s key=%s.%zu\n", space, key, at);
        if (!ask(t, line, "cmd=get_result rc=0") || !find(t, "value=", hex, sizeof hex))
            return false;
        if (strlen(hex) != 2 * some)
            return fail(t, "rank 0 gave something else under this key: another version of Plait", "");
        for (size_t i = 0; i < some; i++) {
            if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
                return fail(t, "rank 0 gave no bytes", hex);
            bytes[at + i] = (unsigned char)byte;
        }
    }
    return true;
}

/* PMI has no wait for one key: all ranks meet in a barrier after rank 0 has published it. */
static bool talk(struct talk *t, const char *key, uint32_t rank, void *bytes, size_t n)
{
    char space[300];

    if (once.user != getpid() && !ask(t, "cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=response_to_init"))
        return false;
    once.user = getpid();
    return ask(t, "cmd=get_my_kvsname\n", "cmd=my_kvsname") && find(t, "kvsname=", space, sizeof space) &&
           (rank > 0 || put(t, space, key, bytes, n)) && ask(t, "cmd=barrier_in\n", "cmd=barrier_out") &&
           (rank == 0 || get(t, space, key, bytes, n));
}

/*
 * A process that has used the socket and ends without "finalize" has crashed, for mpiexec. If MPI_Finalize() has sent
 * it, mpiexec has closed its end, and this one fails.
 */
__attribute__((destructor)) static void leave(void)
{
    static const char line[] = "cmd=finalize\n";
    char why[100];
    struct talk t = { .fd = socket_of_mpiexec(), .end = now() + 5, .why = why, .room = sizeof why };

    if (once.user == getpid() && send(t.fd, line, sizeof line - 1, MSG_NOSIGNAL) > 0)
        hear(&t);
}

static bool pass(const char *key, uint32_t rank, void *bytes, size_t n, double seconds, char *why, size_t room)
{
    struct talk t = { .fd = socket_of_mpiexec(), .end = now() + seconds, .why = why, .room = room };

    if (t.fd < 0)
        return fail(&t, "PMI_FD is not set to a descriptor", "");
    pthread_mutex_lock(&once.lock);
    const bool passed = talk(&t, key, rank, bytes, n);
    pthread_mutex_unlock(&once.lock);
    return passed;
}

__attribute__((visibility("default"))) extern const struct plait_pass_plugin plait_pass_plugin;
const struct plait_pass_plugin plait_pass_plugin = { .abi = PLAIT_PASS_ABI, .pass = pass };
