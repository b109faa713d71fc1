/* SPDX-License-Identifier: BSD-3-Clause */
#include "origin.h"

#include "base/descriptor.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/status.h"
#include "frame.h"
#include "id.h"
#include "rank_variables.h"
#include "unix.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_WRAPPERS 16  /* processes, such as shells, between a launcher and its rank */
#define ENDS_WITHIN   500 /* ms for an earlier process of the rank, which is exiting, to be gone */
#define SAYS_WITHIN   100 /* ms for a process that wants the name to send its origin, which it does on connecting */

/* ---- Who started this process --------------------------------------------------------------------------------- */

struct said { /* by one launcher's variables, to a process */
    bool rank;
    uint32_t nrank; /* 0: not said */
};

/* Record one "NAME=value" of a process's initial environment. */
static void note(const char *variable, struct said said[PLAIT_NLAUNCHER])
{
    const char *value = strchr(variable, '=');
    const size_t n = value != NULL ? (size_t)(value - variable) : 0;

    for (unsigned i = 0; i < PLAIT_NLAUNCHER && n > 0; i++) {
        const struct plait_rank_variables *v = &plait_rank_variables[i];
        if (strlen(v->sign) == n && memcmp(v->sign, variable, n) == 0)
            said[i].rank = value[1] != '\0';
        if (v->nrank != NULL && strlen(v->nrank) == n && memcmp(v->nrank, variable, n) == 0)
            sscanf(value, "=%" SCNu32, &said[i].nrank);
    }
}

/*
 * Did a launcher start this process as one of nrank? Then it is a wrapper of a rank. A process that was started as one
 * of another number may start ranks itself.
 */
static bool is_a_ranks(long pid, uint32_t nrank)
{
    struct said said[PLAIT_NLAUNCHER] = { { 0 } };
    char path[64], *line = NULL;
    size_t room = 0;
    bool one = false, others = false;

    snprintf(path, sizeof path, "/proc/%ld/environ", pid);
    FILE *f = plait_descriptor_stream(open(path, O_RDONLY | O_CLOEXEC), "r");
    while (f != NULL && getdelim(&line, &room, '\0', f) > 0)
        note(line, said);
    free(line);
    if (f != NULL)
        fclose(f);
    for (unsigned i = 0; i < PLAIT_NLAUNCHER; i++) {
        if (said[i].rank && said[i].nrank == nrank)
            return true;
        one |= said[i].rank && said[i].nrank == 0;
        others |= said[i].rank && said[i].nrank > 0;
    }
    return one && !others;
}

/* Did a launcher other than torchrun start exactly these ranks and name them? Then no other job has their id. */
static bool is_named(uint32_t nrank)
{
    for (unsigned i = 0; i < PLAIT_NLAUNCHER; i++) {
        const struct plait_rank_variables *v = &plait_rank_variables[i];
        const char *n = v->nrank != NULL && getenv(v->sign) != NULL ? getenv(v->nrank) : NULL;
        uint32_t count;
        for (unsigned k = 0; i != PLAIT_TORCHRUN && n != NULL && k < sizeof v->names / sizeof *v->names; k++)
            if (v->names[k] != NULL && getenv(v->names[k]) != NULL && sscanf(n, "%" SCNu32, &count) == 1 &&
                count == nrank)
                return true;
    }
    return false;
}

/* Read /proc/PID/stat. Its second field is a name that may have any character in it, so start after the last ')'. */
static bool read_stat(long pid, long *parent, unsigned long long *start)
{
    char path[64], text[1024];

    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    plait_descriptor_read(path, text, sizeof text);
    const char *rest = strrchr(text, ')');
    return rest != NULL &&
           sscanf(rest + 1, " %*c %ld %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", parent,
                  start) == 2;
}

static uint32_t short_hash(uint64_t hash)
{
    const uint32_t h = (uint32_t)(hash ^ hash >> 32);

    return h != 0 ? h : 1;
}

/* The nearest ancestor that wraps no rank. 0: it has ended, or is not visible. */
static uint32_t find_launcher(uint32_t nrank)
{
    struct {
        long pid;
        unsigned long long start;
    } who = { .pid = getppid() };
    long parent = 0;

    for (unsigned i = 0; i < MOST_WRAPPERS && who.pid > 1 && read_stat(who.pid, &parent, &who.start); i++) {
        if (!is_a_ranks(who.pid, nrank))
            return short_hash(plait_hash(PLAIT_HASH_START, &who, sizeof who));
        who.pid = parent;
    }
    return 0;
}

/* Hash with the group: torchrun may have several agents on one host, each with its group of ranks. */
static uint32_t find_machine(void)
{
    static const char *const spaces[] = { "/proc/self/ns/net", "/proc/self/ns/pid" };
    const char *group = getenv("GROUP_RANK");
    char text[256];
    size_t n = plait_descriptor_read("/proc/sys/kernel/random/boot_id", text, sizeof text);
    uint64_t hash = plait_hash(PLAIT_HASH_START, text, n);

    for (unsigned i = 0; i < 2; i++) {
        const ssize_t bytes = readlink(spaces[i], text, sizeof text);
        if (bytes <= 0)
            return 0;
        hash = plait_hash(hash, text, (size_t)bytes);
    }
    return short_hash(group != NULL ? plait_hash(hash, group, strlen(group)) : hash);
}

struct plait_origin plait_origin_find(uint32_t nrank)
{
    return (struct plait_origin){ find_machine(), is_named(nrank) ? 0 : find_launcher(nrank) };
}

static bool is_known(struct plait_origin o)
{
    return o.machine != 0 && o.launcher != 0;
}

bool plait_origins_differ(struct plait_origin a, struct plait_origin b)
{
    return is_known(a) && is_known(b) && a.machine == b.machine && a.launcher != b.launcher;
}

bool plait_origins_agree(struct plait_origin a, struct plait_origin b)
{
    return is_known(a) && a.machine == b.machine && a.launcher == b.launcher;
}

/* ---- Each rank once --------------------------------------------------------------------------------------------- */

static struct plait_unix_name name_of(const struct plait_unique_id *id, uint32_t rank)
{
    struct plait_tcp_id tcp;
    unsigned char hash[PLAIT_MAC_BYTES] = { 0 };
    uint64_t h[2];
    char text[96];

    if (plait_tcp_id_of(id, &tcp)) {
        plait_mac(tcp.secret, "a rank's claim", NULL, 0, hash);
        memcpy(h, hash, sizeof h);
    } else {
        h[0] = plait_hash(PLAIT_HASH_START, id->bytes, sizeof id->bytes);
        h[1] = plait_hash(h[0], id->bytes, sizeof id->bytes);
    }
    snprintf(text, sizeof text, "plait1-rank-%016llx%016llx-%u", (unsigned long long)h[0], (unsigned long long)h[1],
             rank);
    return plait_unix_name_make(text);
}

static enum plait_status refuse_claim(uint32_t rank, int pid)
{
    return plait_fail(PLAIT_ERR_MISMATCH, "comm creation: two processes have rank %u, %d and %d: " PLAIT_OTHER_JOB,
                      rank, pid, (int)getpid());
}

/* Tell the holder of the name who wants it. False: the holder is gone or exiting. */
static bool is_held(const struct plait_unix_name *name, struct plait_origin own, int *pid)
{
    const int fd = plait_unix_socket(SOCK_NONBLOCK);
    bool held = fd >= 0 && connect(fd, (const struct sockaddr *)&name->address, name->length) == 0;

    if (held && plait_is_this_user(fd, pid) && *pid != getpid()) {
        struct pollfd p = { .fd = fd, .events = POLLIN }; /* a holder that exits hangs up without a word */
        char word;
        send(fd, &own, sizeof own, MSG_NOSIGNAL | MSG_DONTWAIT);
        const bool silent = poll(&p, 1, ENDS_WITHIN) <= 0;
        held = silent || recv(fd, &word, 1, MSG_DONTWAIT) == 1;
        if (silent && plait_frame_dead(fd)) /* a forked child still holds the name */
            *pid = 0;
    } else {
        *pid = 0;
    }
    plait_descriptor_close(fd);
    return held;
}

/* A claim is only a guard: a rank without a socket for it still meets the others. */
enum plait_status plait_claim_make(const struct plait_unique_id *id, uint32_t rank, struct plait_origin own,
                                   struct plait_rank_claim *out)
{
    const struct plait_unix_name name = name_of(id, rank);
    int fd = plait_unix_socket(SOCK_NONBLOCK), pid = 0;

    *out = (struct plait_rank_claim){ 0 };
    for (unsigned tries = 0; fd >= 0 && tries < 8; tries++) {
        if (plait_unix_listen(&name, fd)) {
            out->fd = fd;
            return PLAIT_OK;
        }
        if (errno != EADDRINUSE || is_held(&name, own, &pid))
            break;
    }
    plait_descriptor_close(fd);
    return pid > 0 ? refuse_claim(rank, pid) : PLAIT_OK;
}

/* Did one process start all ranks of this comm, and another one the process at `fd`? Then that is none of them. */
static bool is_strange(const struct plait_rank_claim *claim, int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    struct plait_origin o;

    return is_known(claim->of_all) && poll(&p, 1, SAYS_WITHIN) > 0 &&
           recv(fd, &o, sizeof o, MSG_DONTWAIT) == sizeof o && is_known(o) && !plait_origins_agree(claim->of_all, o);
}

enum plait_status plait_claim_check(const struct plait_rank_claim *claim, uint32_t rank)
{
    enum plait_status status = PLAIT_OK;

    for (int fd, pid;
         claim->fd > 0 && status == PLAIT_OK && plait_descriptor_is_ours(claim->fd) &&
         (fd = plait_descriptor_keep(accept4(claim->fd, NULL, NULL, SOCK_CLOEXEC), PLAIT_FOR_RANKS)) >= 0;) {
        if (plait_is_this_user(fd, &pid) && pid != getpid()) {
            send(fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT); /* tell it that the name is held */
            if (is_strange(claim, fd))
                plait_log(PLAIT_LOG_INFO, "process %d wanted to be rank %u, too, and was refused: %s", pid, rank,
                          PLAIT_OTHER_JOB);
            else
                status = refuse_claim(rank, pid);
        }
        plait_descriptor_close(fd);
    }
    return status;
}
