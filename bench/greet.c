/* SPDX-License-Identifier: BSD-3-Clause */
#include "greet.h"

#include "base/clock.h"
#include "worker.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CONNECT_MS 2000 /* to one address */
#define HELLO      2.0  /* seconds for a client to send its hello */
#define STRANGERS  32   /* connections of other programs that are kept beside the ranks' */

static bool is_tcp(const char *where)
{
    return where != NULL && strncmp(where, "tcp ", 4) == 0;
}

bool greet_receive(int fd, void *message, size_t bytes)
{
    return recv(fd, message, bytes, MSG_WAITALL) == (ssize_t)bytes;
}

/* ---- the coordinator's side ------------------------------------------------------------------------ */

static bool make_token(char out[GREET_TOKEN])
{
    uint64_t secret[2];

    if (getrandom(secret, sizeof secret, 0) != sizeof secret)
        return false;
    snprintf(out, GREET_TOKEN, "%016llx%016llx", (unsigned long long)secret[0], (unsigned long long)secret[1]);
    return true;
}

static socklen_t unix_address(const char *name, struct sockaddr_un *out)
{
    const size_t length = strnlen(name, sizeof out->sun_path - 1);

    *out = (struct sockaddr_un){ .sun_family = AF_UNIX };
    memcpy(out->sun_path + 1, name, length);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

static int listen_here(int backlog, const char *token, char where[GREET_WHERE])
{
    struct sockaddr_un address;
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    snprintf(where, GREET_WHERE, "plait-perf-%s", token);
    const socklen_t length = unix_address(where, &address);
    if (fd >= 0 && (bind(fd, (void *)&address, length) != 0 || listen(fd, backlog) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Append this host's addresses to `where`: loopback last, for ranks of this host that have no other. */
static void add_addresses(char where[GREET_WHERE])
{
    struct ifaddrs *all;

    if (getifaddrs(&all) != 0)
        return;
    for (unsigned loopback = 0; loopback < 2; loopback++)
        for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
            char text[INET6_ADDRSTRLEN];
            const size_t n = strlen(where);
            const sa_family_t family = i->ifa_addr != NULL ? i->ifa_addr->sa_family : AF_UNSPEC;
            const socklen_t bytes = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
            if ((family != AF_INET && family != AF_INET6) || (i->ifa_flags & IFF_UP) == 0 ||
                ((i->ifa_flags & IFF_LOOPBACK) != 0) != loopback ||
                getnameinfo(i->ifa_addr, bytes, text, sizeof text, NULL, 0, NI_NUMERICHOST) != 0 ||
                strchr(text, '%') != NULL) /* valid on one link only */
                continue;
            if (n + 1 + strlen(text) < GREET_WHERE)
                snprintf(where + n, GREET_WHERE - n, " %s", text);
        }
    freeifaddrs(all);
}

/* -1 with errno; *port is what the kernel chose. */
static int listen_at(const struct sockaddr *any, int backlog, uint16_t *port)
{
    const int fd = socket(any->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), off = 0;
    struct sockaddr_in6 got = { 0 };
    socklen_t length = sizeof got;

    if (fd < 0)
        return -1;
    if (any->sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, any, any->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof got) == 0 &&
        listen(fd, backlog) == 0 && getsockname(fd, (void *)&got, &length) == 0) {
        *port = ntohs(got.sin6_port); /* at the same offset as in an IPv4 address */
        return fd;
    }
    close(fd);
    return -1;
}

static int listen_tcp(int backlog, const char *token, char where[GREET_WHERE])
{
    const struct sockaddr_in6 six = { .sin6_family = AF_INET6 };
    const struct sockaddr_in four = { .sin_family = AF_INET };
    uint16_t port;
    int fd = listen_at((const void *)&six, backlog, &port);

    if (fd < 0) /* a kernel without IPv6 */
        fd = listen_at((const void *)&four, backlog, &port);
    if (fd < 0)
        return -1;
    snprintf(where, GREET_WHERE, "tcp %s %u", token, port);
    add_addresses(where);
    return fd;
}

int greet_listen(uint32_t nrank, bool tcp, char where[GREET_WHERE])
{
    char token[GREET_TOKEN];

    if (!make_token(token))
        return -1;
    return (tcp ? listen_tcp : listen_here)((int)nrank, token, where);
}

static bool is_ours(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

/* Somebody waits for every message, so nothing is delayed; a lost host is noticed within a minute. */
static void set_up_tcp(int fd)
{
    const int on = 1, idle = 20, interval = 10, count = 4;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

struct client {
    int fd;
    size_t have; /* bytes of its hello so far */
    double until;
    struct hello hello;
};

bool listener_open(struct listener *d, int listen_fd, const char *where, uint32_t nrank)
{
    *d = (struct listener){ .listen_fd = listen_fd, .where = where, .most = nrank + STRANGERS };
    d->client = calloc(d->most, sizeof *d->client);
    d->ready = calloc(d->most + 1, sizeof *d->ready);
    return d->client != NULL && d->ready != NULL;
}

/* The last client takes the freed place. */
static void remove_client(struct listener *d, uint32_t i)
{
    d->client[i] = d->client[--d->n];
}

static void reject(struct listener *d, uint32_t i)
{
    close(d->client[i].fd);
    remove_client(d, i);
}

/* When the table is full, the client that has been silent for longest goes: ranks speak at once. */
static void accept_client(struct listener *d)
{
    const int fd = accept4(d->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    uint32_t oldest = 0;

    if (fd < 0)
        return;
    if (!is_tcp(d->where) && !is_ours(fd)) {
        close(fd);
        return;
    }
    for (uint32_t i = 1; i < d->n; i++)
        oldest = d->client[i].until < d->client[oldest].until ? i : oldest;
    if (d->n == d->most)
        reject(d, oldest);
    d->client[d->n++] = (struct client){ .fd = fd, .until = plait_clock() + HELLO };
}

/* Read on. Returns false for a client that is none of our ranks. */
static bool read_hello(const struct listener *d, struct client *g)
{
    char *hello = (char *)&g->hello;
    const ssize_t n = recv(g->fd, hello + g->have, sizeof g->hello - g->have, MSG_DONTWAIT);

    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    g->have += (size_t)n;
    return g->have < sizeof g->hello || !is_tcp(d->where) || memcmp(g->hello.token, d->where + 4, GREET_TOKEN - 1) == 0;
}

static int welcome(struct listener *d, uint32_t i, struct hello *out)
{
    const int fd = d->client[i].fd;

    *out = d->client[i].hello;
    out->about[sizeof out->about - 1] = out->host[sizeof out->host - 1] = '\0';
    out->machine[sizeof out->machine - 1] = '\0';
    remove_client(d, i);
    if (is_tcp(d->where))
        set_up_tcp(fd);
    return fd;
}

int listener_next(struct listener *d, int ms, struct hello *out)
{
    for (uint32_t i = d->n; i-- > 0;)
        if (plait_clock() > d->client[i].until)
            reject(d, i);
    d->ready[0] = (struct pollfd){ .fd = d->listen_fd, .events = POLLIN };
    for (uint32_t i = 0; i < d->n; i++)
        d->ready[1 + i] = (struct pollfd){ .fd = d->client[i].fd, .events = POLLIN };
    if (poll(d->ready, d->n + 1, ms) <= 0)
        return -1;
    for (uint32_t i = d->n; i-- > 0;) { /* backwards: a removal moves a client that has been looked at */
        struct client *g = &d->client[i];
        if (d->ready[1 + i].revents == 0)
            continue;
        if (!read_hello(d, g))
            reject(d, i);
        else if (g->have == sizeof g->hello)
            return welcome(d, i, out); /* the others' data is still there the next time */
    }
    if (d->ready[0].revents != 0)
        accept_client(d);
    return -1;
}

void listener_close(struct listener *d)
{
    while (d->n > 0)
        reject(d, 0);
    free(d->client);
    free(d->ready);
}

/* ---- the rank's ------------------------------------------------------------------------------------ */

static void say_where_it_runs(struct hello *h)
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");

    gethostname(h->host, sizeof h->host - 1);
    sched_getaffinity(0, sizeof h->cpus, &h->cpus);
    h->ncpu = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    if (f != NULL && fgets(h->machine, sizeof h->machine, f) == NULL)
        h->machine[0] = '\0';
    if (f != NULL)
        fclose(f);
}

static int receive_descriptor(int fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    char byte;
    struct iovec part = { &byte, 1 };
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
    };
    int passed = -1;

    if (recvmsg(fd, &message, MSG_CMSG_CLOEXEC) != 1 || CMSG_FIRSTHDR(&message) == NULL)
        return -1;
    memcpy(&passed, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof passed);
    return passed;
}

static struct stage *share_stage(int fd)
{
    const int passed = receive_descriptor(fd);

    if (passed < 0)
        return NULL;
    struct stage *stage = stage_map(passed);
    close(passed);
    return stage;
}

/* The other ranks' times in it are not used. */
static struct stage *make_stage(int fd)
{
    struct welcome w;

    if (!greet_receive(fd, &w, sizeof w))
        return NULL;
    int memory;
    struct stage *s = stage_create(w.nrank, w.ntensor, &memory);
    if (memory >= 0)
        close(memory);
    if (s == NULL)
        return NULL;
    s->width = w.width;
    s->unalign = w.unalign;
    s->inplace = w.inplace;
    s->apart = true;
    if (!greet_receive(fd, stage_counts(s), w.ntensor * sizeof(uint64_t))) {
        stage_unmap(s);
        return NULL;
    }
    if (w.bound)
        sched_setaffinity(0, sizeof w.cpus, &w.cpus);
    return s;
}

struct stage *worker_greet(int fd, const char *where, uint32_t rank, const char *about)
{
    const bool tcp = is_tcp(where);
    struct hello h;

    memset(&h, 0, sizeof h);
    h.rank = rank;
    h.pid = getpid();
    if (tcp)
        memcpy(h.token, where + 4, GREET_TOKEN - 1);
    snprintf(h.about, sizeof h.about, "%s", about);
    say_where_it_runs(&h);
    if (send(fd, &h, sizeof h, MSG_NOSIGNAL) != sizeof h)
        return NULL;
    return tcp ? make_stage(fd) : share_stage(fd);
}

static int connect_here(const char *name)
{
    struct sockaddr_un address;
    const socklen_t length = unix_address(name, &address);
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (void *)&address, length) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Bounded: connect() to an unreachable address may take minutes. */
static int connect_to(const char *address, const char *port)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
    struct addrinfo *a;
    int error = 0;
    socklen_t length = sizeof error;

    if (getaddrinfo(address, port, &hints, &a) != 0)
        return -1;
    const int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct pollfd p = { .fd = fd, .events = POLLOUT };
    const bool begun = fd >= 0 && (connect(fd, a->ai_addr, a->ai_addrlen) == 0 || errno == EINPROGRESS);
    freeaddrinfo(a);
    if (begun && poll(&p, 1, CONNECT_MS) > 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 &&
        error == 0) {
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
        set_up_tcp(fd);
        return fd;
    }
    if (fd >= 0)
        close(fd);
    errno = error != 0 ? error : ETIMEDOUT;
    return -1;
}

struct stage *worker_meet(const char *where, uint32_t rank, const char *about, int *fd)
{
    char copy[GREET_WHERE], *state = NULL;
    struct stage *stage = NULL;

    if (!is_tcp(where)) {
        *fd = connect_here(where);
        stage = *fd >= 0 ? worker_greet(*fd, NULL, rank, about) : NULL;
        if (stage != NULL)
            worker_pin(rank); /* a launcher may not have bound it, if ranks share processors */
        return stage;
    }
    snprintf(copy, sizeof copy, "%s", where + 4 + GREET_TOKEN);
    const char *port = strtok_r(copy, " ", &state);
    for (const char *a = strtok_r(NULL, " ", &state); stage == NULL && a != NULL; a = strtok_r(NULL, " ", &state)) {
        *fd = connect_to(a, port);
        stage = *fd >= 0 ? worker_greet(*fd, where, rank, about) : NULL;
        if (stage == NULL && *fd >= 0)
            close(*fd);
    }
    return stage;
}
