/* SPDX-License-Identifier: BSD-3-Clause */
#include "shared_net.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 64 /* ranks */
#define TO   28 /* where a header says which rank it is for (transports/net.c) */

struct plait_net { /* a rank's share */
    uint32_t place;
    struct plait_net_options options;
    struct mail *first, **end; /* arrived, not yet shown */
    struct work *work;         /* begun, not yet told */
};

struct plait_net_endpoint {
    uint32_t place;
    struct plait_net *net;
};

struct mail {
    struct mail *next;
    unsigned char header[PLAIT_NET_HEADER];
    struct plait_net_arrival a;
};

struct work { /* its end is told to the rank in its own turn */
    struct work *next;
    enum plait_net_state real, *state;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct plait_net_plugin *ucx;
static struct plait_net *real, *ranks[MOST];
static struct plait_net_endpoint *loop;
static uint32_t place_of[MOST], nopen; /* by rank */

/* From within progress() or send() of the real one, with the lock held. */
static void arrive(void *context, const struct plait_net_arrival *a)
{
    struct mail *m = malloc(sizeof *m);
    uint32_t to;

    (void)context;
    memcpy(&to, (const char *)a->header + TO, sizeof to);
    struct plait_net *n = to < MOST ? ranks[place_of[to]] : NULL;
    if (m == NULL || n == NULL)
        abort();
    m->a = *a;
    memcpy(m->header, a->header, sizeof m->header);
    m->a.header = m->header;
    m->next = NULL;
    *n->end = m;
    n->end = &m->next;
}

static bool open_real(char *why, size_t room)
{
    const char *folder = getenv("PLAIT_PLUGINS");
    const struct plait_net_options o = { .nendpoint = 1, .arrive = arrive };
    const void *address;
    char path[512];
    size_t bytes;
    void *handle;

    snprintf(path, sizeof path, "%s/plait-ucx.so", folder != NULL ? folder : "");
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* the library's loader is busy with this network */
    ucx = handle != NULL ? dlsym(handle, "plait_net_plugin") : NULL;
    if (ucx == NULL) {
        snprintf(why, room, "%s", dlerror());
        return false;
    }
    if (!ucx->open(&o, &real, why, room))
        return false;
    address = ucx->address(real, &bytes);
    loop = ucx->connect(real, address, bytes, why, room);
    return loop != NULL;
}

static bool shared_open(const struct plait_net_options *o, struct plait_net **out, char *why, size_t room)
{
    struct plait_net *n = calloc(1, sizeof *n);
    bool there;

    pthread_mutex_lock(&lock);
    there = n != NULL && nopen < MOST && (real != NULL || open_real(why, room));
    if (there) {
        n->place = nopen++;
        n->options = *o;
        n->end = &n->first;
        *out = ranks[n->place] = n;
    }
    pthread_mutex_unlock(&lock);
    return there;
}

/* The real one stays until the process ends. */
static void shared_close(struct plait_net *net)
{
    pthread_mutex_lock(&lock);
    for (struct work *w = net->work, *next; w != NULL; w = next) {
        next = w->next;
        while (w->real == PLAIT_NET_BUSY) /* others hold what it began */
            ucx->progress(real);
        free(w);
    }
    for (struct mail *m = net->first, *next; m != NULL; m = next) {
        next = m->next;
        ucx->release(real, m->a.held);
        free(m);
    }
    net->first = NULL;
    net->end = &net->first;
    net->work = NULL; /* the share stays: acknowledgements may still come */
    pthread_mutex_unlock(&lock);
}

static const void *shared_address(const struct plait_net *net, size_t *bytes)
{
    *bytes = sizeof net->place;
    return &net->place;
}

static struct plait_net_endpoint *shared_connect(struct plait_net *net, const void *address, size_t bytes, char *why,
                                                 size_t room)
{
    struct plait_net_endpoint *e = calloc(1, sizeof *e);

    (void)why, (void)room;
    if (e != NULL) {
        memcpy(&e->place, address, bytes);
        e->net = net;
    }
    return e;
}

static struct work *begin(struct plait_net *net, enum plait_net_state *state)
{
    struct work *w = calloc(1, sizeof *w);

    if (w == NULL)
        abort();
    *state = PLAIT_NET_BUSY;
    w->state = state;
    w->next = net->work;
    net->work = w;
    return w;
}

static void shared_send(struct plait_net_endpoint *e, const void *header, const void *data, size_t bytes,
                        enum plait_net_state *state)
{
    uint32_t to;

    memcpy(&to, (const char *)header + TO, sizeof to);
    pthread_mutex_lock(&lock);
    place_of[to] = e->place;
    ucx->send(loop, header, data, bytes, &begin(e->net, state)->real);
    pthread_mutex_unlock(&lock);
}

static void shared_fetch(struct plait_net *net, void *held, void *to, size_t bytes, enum plait_net_state *state)
{
    pthread_mutex_lock(&lock);
    ucx->fetch(real, held, to, bytes, &begin(net, state)->real);
    pthread_mutex_unlock(&lock);
}

static void shared_release(struct plait_net *net, void *held)
{
    (void)net;
    pthread_mutex_lock(&lock);
    ucx->release(real, held);
    pthread_mutex_unlock(&lock);
}

static struct mail *take(struct plait_net *net)
{
    struct mail *m;

    pthread_mutex_lock(&lock);
    m = net->first;
    if (m != NULL)
        net->first = m->next;
    if (net->first == NULL)
        net->end = &net->first;
    pthread_mutex_unlock(&lock);
    return m;
}

static bool shared_progress(struct plait_net *net)
{
    struct mail *m;
    bool moved;

    pthread_mutex_lock(&lock);
    moved = ucx->progress(real);
    for (struct work **at = &net->work, *w; (w = *at) != NULL;)
        if (w->real == PLAIT_NET_BUSY) {
            at = &w->next;
        } else {
            *at = w->next;
            *w->state = w->real;
            free(w);
        }
    pthread_mutex_unlock(&lock);
    while ((m = take(net)) != NULL) {
        net->options.arrive(net->options.context, &m->a);
        free(m);
    }
    return moved;
}

static int shared_descriptor(const struct plait_net *net)
{
    (void)net;
    return -1;
}

static bool shared_arm(struct plait_net *net)
{
    (void)net;
    return false;
}

static const char *shared_failed(const struct plait_net_endpoint *e)
{
    (void)e;
    return ucx->failed(loop);
}

static void shared_describe(const struct plait_net_endpoint *e, char *text, size_t room)
{
    (void)e;
    ucx->describe(loop, text, room);
}

static const char *shared_version(void)
{
    return ucx->version();
}

const struct plait_net_plugin shared_net = {
    .abi = PLAIT_NET_ABI,
    .name = "shared",
    .version = shared_version,
    .open = shared_open,
    .close = shared_close,
    .address = shared_address,
    .connect = shared_connect,
    .send = shared_send,
    .fetch = shared_fetch,
    .release = shared_release,
    .progress = shared_progress,
    .descriptor = shared_descriptor,
    .arm = shared_arm,
    .failed = shared_failed,
    .describe = shared_describe,
};
