/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake_net.h"

#include "random.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LATE 3 /* each turn moves one in so many of what is on the way */

struct parcel { /* on the way to a network: a message, or the end of something that it began */
    struct parcel *next;
    unsigned char header[PLAIT_NET_HEADER];
    uint64_t from;
    const void *theirs; /* data that lies with its sender */
    void *own, *to;     /* data that was copied; where a fetch lands it */
    size_t bytes;
    enum plait_net_state *state, result; /* of the sender's, or of the fetch */
    enum { MESSAGE, FETCH, END } kind;
};

struct plait_net {
    struct plait_net *next;
    uint64_t id; /* its address */
    struct plait_net_options options;
    struct plait_net_endpoint *endpoints;
    struct parcel *first;
    uint64_t random;
};

struct plait_net_endpoint {
    struct plait_net_endpoint *next;
    struct plait_net *net;
    uint64_t to;
};

struct fake_net_counts fake_net_counts;
bool fake_net_prompt;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct plait_net *nets;
static uint64_t last_id;

static struct plait_net *find(uint64_t id)
{
    struct plait_net *n = nets;

    while (n != NULL && n->id != id)
        n = n->next;
    return n;
}

static void post(struct plait_net *to, const struct parcel *like)
{
    struct parcel **end = &to->first, *p = malloc(sizeof *p);

    if (p == NULL)
        abort();
    *p = *like;
    p->next = NULL;
    while (*end != NULL)
        end = &(*end)->next;
    *end = p;
}

/* What `id` began has ended. */
static void tell(uint64_t id, enum plait_net_state *state, enum plait_net_state result)
{
    struct plait_net *n = find(id);

    if (n != NULL && state != NULL)
        post(n, &(struct parcel){ .kind = END, .state = state, .result = result });
}

static void let_go(struct parcel *p, enum plait_net_state result)
{
    tell(p->from, p->state, result);
    fake_net_counts.nheld--;
    free(p->own);
    free(p);
}

static bool fake_open(const struct plait_net_options *o, struct plait_net **out, char *why, size_t room)
{
    struct plait_net *n = calloc(1, sizeof *n);

    if (n == NULL) {
        snprintf(why, room, "out of memory");
        return false;
    }
    pthread_mutex_lock(&lock);
    n->options = *o;
    n->id = n->random = ++last_id;
    n->next = nets;
    nets = n;
    pthread_mutex_unlock(&lock);
    *out = n;
    return true;
}

static void fake_close(struct plait_net *net)
{
    struct plait_net **n = &nets;

    pthread_mutex_lock(&lock);
    while (*n != net)
        n = &(*n)->next;
    *n = net->next;
    for (struct parcel *p = net->first, *next; p != NULL; p = next) {
        next = p->next;
        if (p->kind == MESSAGE)
            tell(p->from, p->state, PLAIT_NET_FAILED);
        else
            *p->state = PLAIT_NET_FAILED;
        if (p->kind == FETCH)
            let_go(p->own, PLAIT_NET_FAILED);
        else
            free(p->own);
        free(p);
    }
    for (struct plait_net_endpoint *e = net->endpoints, *next; e != NULL; e = next) {
        next = e->next;
        free(e);
    }
    free(net);
    pthread_mutex_unlock(&lock);
}

static const void *fake_address(const struct plait_net *net, size_t *bytes)
{
    *bytes = sizeof net->id;
    return &net->id;
}

static struct plait_net_endpoint *fake_connect(struct plait_net *net, const void *address, size_t bytes, char *why,
                                               size_t room)
{
    struct plait_net_endpoint *e = calloc(1, sizeof *e);

    if (e == NULL || bytes != sizeof e->to) {
        snprintf(why, room, "that is no address");
        free(e);
        return NULL;
    }
    memcpy(&e->to, address, bytes);
    e->net = net;
    e->next = net->endpoints;
    net->endpoints = e;
    return e;
}

static void fake_send(struct plait_net_endpoint *e, const void *header, const void *data, size_t bytes,
                      enum plait_net_state *state)
{
    struct parcel p = { .kind = MESSAGE, .from = e->net->id, .theirs = data, .bytes = bytes, .state = state };
    struct plait_net *to;

    pthread_mutex_lock(&lock);
    to = find(e->to);
    *state = to == NULL ? PLAIT_NET_FAILED : bytes > FAKE_EAGER ? PLAIT_NET_BUSY : PLAIT_NET_DONE;
    if (to != NULL) {
        memcpy(p.header, header, sizeof p.header);
        if (bytes <= FAKE_EAGER) {
            p.own = aligned_alloc(64, 64 + (bytes + 63) / 64 * 64);
            if (p.own == NULL)
                abort();
            memcpy(p.own, bytes > 0 ? data : "", bytes);
            p.theirs = NULL;
            p.state = NULL;
        }
        post(to, &p);
        fake_net_counts.nsend++;
        fake_net_counts.nempty += bytes == 0;
    }
    pthread_mutex_unlock(&lock);
}

static void fake_fetch(struct plait_net *net, void *held, void *to, size_t bytes, enum plait_net_state *state)
{
    struct parcel *p = held;

    pthread_mutex_lock(&lock);
    *state = PLAIT_NET_BUSY;
    post(net,
         &(struct parcel){
             .kind = FETCH, .from = p->from, .theirs = p->theirs, .to = to, .bytes = bytes, .own = p, .state = state });
    fake_net_counts.nfetch++;
    pthread_mutex_unlock(&lock);
}

static void fake_release(struct plait_net *net, void *held)
{
    (void)net;
    pthread_mutex_lock(&lock);
    let_go(held, PLAIT_NET_DONE);
    pthread_mutex_unlock(&lock);
}

/* The copy is made under the lock: its sender cannot close meanwhile. */
static void land(struct parcel *p)
{
    const bool there = find(p->from) != NULL;

    if (there)
        memcpy(p->to, p->theirs, p->bytes);
    *p->state = there ? PLAIT_NET_DONE : PLAIT_NET_FAILED;
    let_go(p->own, PLAIT_NET_DONE);
    free(p);
}

static void show(struct plait_net *net, struct parcel *p)
{
    const struct plait_net_arrival a = { p->header, p->theirs != NULL ? NULL : p->own, p->bytes, p };

    fake_net_counts.nheld++;
    pthread_mutex_unlock(&lock);
    net->options.arrive(net->options.context, &a);
    pthread_mutex_lock(&lock);
}

/* One of what is on the way, or none. */
static struct parcel *take(struct plait_net *net)
{
    struct parcel **at = &net->first, *p;
    uint32_t n = 0;

    for (p = net->first; p != NULL; p = p->next)
        n++;
    if (n == 0 || (!fake_net_prompt && (uint32_t)(random_next(&net->random) % LATE) > 0))
        return NULL;
    for (uint32_t k = fake_net_prompt ? 0 : (uint32_t)(random_next(&net->random) % n); k > 0; k--)
        at = &(*at)->next;
    p = *at;
    *at = p->next;
    return p;
}

static bool fake_progress(struct plait_net *net)
{
    struct parcel *p;
    bool moved = false;

    pthread_mutex_lock(&lock);
    while ((p = take(net)) != NULL) {
        moved = true;
        if (p->kind == MESSAGE) {
            show(net, p);
        } else if (p->kind == FETCH) {
            land(p);
        } else {
            *p->state = p->result;
            free(p);
        }
    }
    pthread_mutex_unlock(&lock);
    return moved;
}

static int fake_descriptor(const struct plait_net *net)
{
    (void)net;
    return -1;
}

static bool fake_arm(struct plait_net *net)
{
    (void)net;
    return false;
}

static const char *fake_failed(const struct plait_net_endpoint *e)
{
    pthread_mutex_lock(&lock);
    const bool there = find(e->to) != NULL;
    pthread_mutex_unlock(&lock);
    return there ? NULL : "the other end is closed";
}

static void fake_describe(const struct plait_net_endpoint *e, char *text, size_t room)
{
    (void)e;
    snprintf(text, room, "fake");
}

static const char *fake_version(void)
{
    return "1";
}

const struct plait_net_plugin fake_net = {
    .abi = PLAIT_NET_ABI,
    .name = "fake",
    .version = fake_version,
    .open = fake_open,
    .close = fake_close,
    .address = fake_address,
    .connect = fake_connect,
    .send = fake_send,
    .fetch = fake_fetch,
    .release = fake_release,
    .progress = fake_progress,
    .descriptor = fake_descriptor,
    .arm = fake_arm,
    .failed = fake_failed,
    .describe = fake_describe,
};
