/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A transport slowed down, for tests: the delays of a network on one machine.
 *
 * The receiver delays each message. When the inner link first shows a message, the message passes the simulated link
 * behind earlier ones, which takes bytes / bandwidth. It arrives one latency later. The inner link is asked only once
 * after the size is known, as it may have had to copy the message. Time counts from when the receiver looks, so a
 * receiver that looks late sees the message later than on a network. Acknowledgements are not delayed, nor is what
 * ranks read of each other to detect mismatches and deaths.
 */
#include "paced.h"

#include "../lib/base/clock.h"
#include "../lib/comm/comm.h"
#include "../lib/progress/progress.h"

#include <stdlib.h>

struct held { /* a message that the inner link has shown */
    bool here;
    uint32_t number;
    const void *data;
    size_t bytes;
    uint64_t due; /* ns: when the message arrives */
};

struct paced_link {
    struct plait_link link;
    struct plait_link *inner;
    struct plait_pace pace;
    uint64_t busy; /* ns: the simulated link is busy until then */
    struct held held[PLAIT_WINDOW];
};

static struct paced_link *paced(const struct plait_link *link)
{
    return (struct paced_link *)(uintptr_t)link;
}

struct plait_link *plait_paced_link(struct plait_link *inner, const struct plait_pace *pace)
{
    struct paced_link *p = calloc(1, sizeof *p);

    if (p == NULL) {
        inner->transport->disconnect(inner);
        return NULL;
    }
    p->link.transport = &plait_transport_paced;
    p->inner = inner;
    p->pace = *pace;
    return &p->link;
}

/* The inner link is made by one of the transports after this one. */
static struct plait_link *paced_connect(struct plait_comm *comm, uint32_t peer, enum plait_channel channel)
{
    struct plait_link *inner;

    if (!plait_is_paced(&comm->config.pace))
        return NULL;
    inner = plait_connect_behind(&plait_transport_paced, comm, peer, channel);
    return inner != NULL ? plait_paced_link(inner, &comm->config.pace) : NULL;
}

static void paced_disconnect(struct plait_link *link)
{
    if (link != NULL)
        paced(link)->inner->transport->disconnect(paced(link)->inner);
    free(link);
}

static bool paced_reaches(const struct plait_link *link, const void *data, size_t bytes, bool land)
{
    const struct plait_link *inner = paced(link)->inner;
    return inner->transport->reaches(inner, data, bytes, land);
}

static bool paced_ready(const struct plait_link *link, uint32_t number)
{
    const struct plait_link *inner = paced(link)->inner;
    return inner->transport->ready(inner, number);
}

static bool paced_offer(struct plait_link *link, uint32_t number, uint32_t fingerprint, uint64_t header_word,
                        const void *data, size_t bytes, bool take)
{
    struct plait_link *inner = paced(link)->inner;
    return inner->transport->offer(inner, number, fingerprint, header_word, data, bytes, take);
}

static bool paced_sent(const struct plait_link *link, uint32_t number)
{
    const struct plait_link *inner = paced(link)->inner;
    return inner->transport->sent(inner, number);
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Let the message pass the simulated link. */
static void hold(struct paced_link *p, struct held *h)
{
    const double passing = p->pace.bandwidth > 0 ? 1e9 * (double)h->bytes / (double)p->pace.bandwidth : 0;

    p->busy = later(p->busy, plait_clock_ns()) + (uint64_t)passing;
    h->due = p->busy + p->pace.latency;
    h->here = true;
}

static const void *paced_arrived(struct plait_link *link, uint32_t number, uint32_t fingerprint, void *landing,
                                 size_t *bytes)
{
    struct paced_link *p = paced(link);
    struct held *h = &p->held[number % PLAIT_WINDOW];

    if (!h->here) {
        h->bytes = *bytes;
        h->data = p->inner->transport->arrived(p->inner, number, fingerprint, landing, &h->bytes);
        if (h->data == NULL)
            return NULL;
        /* only the size is told: the message passes the link when it is asked for with that size */
        if (h->bytes != *bytes) {
            *bytes = h->bytes;
            return h->data;
        }
        h->number = number;
        hold(p, h);
    }
    if (h->number != number) /* that message cannot arrive before this one, a window earlier, is released */
        return NULL;
    if (plait_clock_ns() < h->due) {
        plait_progress_alarm(h->due);
        return NULL;
    }
    *bytes = h->bytes;
    return h->data;
}

static void paced_release(struct plait_link *link, uint32_t number)
{
    struct paced_link *p = paced(link);

    p->held[number % PLAIT_WINDOW].here = false;
    p->inner->transport->release(p->inner, number);
}

/* Not delayed: peek is used to find that the peer sends another message. */
static bool paced_peek(const struct plait_link *link, uint32_t number, uint32_t *fingerprint, uint64_t *header_word)
{
    const struct plait_link *inner = paced(link)->inner;
    return inner->transport->peek(inner, number, fingerprint, header_word);
}

static const char *paced_broken(const struct plait_link *link)
{
    const struct plait_link *inner = paced(link)->inner;
    return inner->transport->broken != NULL ? inner->transport->broken(inner) : NULL;
}

const struct plait_transport plait_transport_paced = {
    .name = "paced",
    .connect = paced_connect,
    .disconnect = paced_disconnect,
    .reaches = paced_reaches,
    .ready = paced_ready,
    .offer = paced_offer,
    .sent = paced_sent,
    .arrived = paced_arrived,
    .release = paced_release,
    .peek = paced_peek,
    .broken = paced_broken,
};
