/* SPDX-License-Identifier: BSD-3-Clause */
#include "message.h"

#include "failure/failure.h"

#include <stdio.h>

enum { TURNS_A_PROBE = 16 }; /* without progress, between two probes for a mismatch */

/* ---- Both ends agree ------------------------------------------------------------------------------------- */

enum {
    TYPE = 59,
    SPACE = 55,
    SPACES = 16,
    NUMBER = 48,
    NUMBERS = 128
}; /* bit positions; NUMBERS > messages in flight */

#define COUNT (((uint64_t)1 << NUMBER) - 1)
_Static_assert(PLAIT_MOST_BYTES <= COUNT && NUMBERS > PLAIT_WINDOW && NUMBER + 7 == SPACE && PLAIT_NDTYPE <= 32,
               "a header_word has room");

uint64_t plait_message_header(const struct plait_message *m)
{
    return (uint64_t)m->type << TYPE | (uint64_t)m->space->id << SPACE | m->number % NUMBERS << NUMBER | m->count;
}

/* Fibonacci hashing (Knuth 6.4): similar header words get different fingerprints. */
uint32_t plait_message_print(const struct plait_message *m)
{
    return (uint32_t)(plait_message_header(m) * 0x9e3779b97f4a7c15 >> 32);
}

struct side { /* the arguments of one rank */
    uint32_t rank;
    uint64_t count;
    enum plait_dtype type;
    uint8_t space; /* id */
};

static enum plait_status say(struct plait_comm *comm, uint32_t culprit, uint64_t number, struct side from,
                             struct side to)
{
    char in[2][32] = { "", "" }; /* where the data lies, if that differs */

    if (from.space != to.space) {
        snprintf(in[0], sizeof in[0], " of %s memory", plait_space_whose(from.space));
        snprintf(in[1], sizeof in[1], " of %s memory", plait_space_whose(to.space));
    }

    return plait_comm_blame(
        comm, PLAIT_ERR_MISMATCH, culprit,
        "message #%llu from rank %u to rank %u: rank %u sends %llu %s%s, rank %u receives %llu %s%s",
        (unsigned long long)number + 1, from.rank, to.rank, from.rank, (unsigned long long)from.count,
        plait_dtype_name(from.type), in[0], to.rank, (unsigned long long)to.count, plait_dtype_name(to.type), in[1]);
}

static struct side own_side(const struct plait_comm *comm, const struct plait_message *m)
{
    return (struct side){ comm->rank, m->count, m->type, (uint8_t)m->space->id };
}

enum plait_status plait_message_differs(struct plait_comm *comm, const struct plait_message *m, uint64_t header_word)
{
    const struct side from = { m->peer, header_word & COUNT, (enum plait_dtype)(header_word >> TYPE),
                               (uint8_t)(header_word >> SPACE & (SPACES - 1)) };

    return say(comm, m->peer, m->number, from, own_side(comm, m));
}

/* Does the peer send another message than the next one to receive, perhaps from another space? That fails the comm. */
static enum plait_status check_incoming(struct plait_comm *comm, const struct plait_message *m)
{
    static const enum plait_channel channels[] = { PLAIT_CHANNEL_MESSAGES, PLAIT_CHANNEL_DEVICE_MESSAGES };

    for (unsigned i = 0; i < 2; i++) {
        const struct plait_link *link = comm->peers[m->peer].replica != NULL ? plait_connect(comm, m->peer, channels[i])
                                                                             : comm->peers[m->peer].link[channels[i]];
        uint32_t print;
        uint64_t header_word;
        if (link != NULL && link->transport->peek(link, link->next_in, &print, &header_word) &&
            (header_word >> NUMBER) % NUMBERS == m->number % NUMBERS && print != plait_message_print(m))
            return plait_message_differs(comm, m, header_word);
    }
    return PLAIT_OK;
}

/*
 * Does the peer, of this host, wait for the message in another space? It sees PLAIT_CHANNEL_MESSAGES itself, other
 * channels only if it uses that space.
 */
static enum plait_status check_outgoing(struct plait_comm *comm, const struct plait_message *m)
{
    const bool own = m->space->messages == PLAIT_CHANNEL_MESSAGES;
    struct plait_operation o;

    for (uint32_t i = 0; !own && i < PLAIT_NAWAITED; i++)
        if (plait_awaited_read(&comm->peers[m->peer].control->messages[i], false, &o) && !o.send &&
            o.peer == comm->rank && o.sequence == m->number + 1 && o.what.space != m->space->id)
            return say(comm, m->peer, m->number, own_side(comm, m),
                       (struct side){ m->peer, o.what.count, (enum plait_dtype)o.what.type, o.what.space });
    return PLAIT_OK;
}

/* ---- Waiting --------------------------------------------------------------------------------------------- */

static uint32_t awaited(const void *context, uint32_t *ranks, uint32_t most)
{
    const struct plait_pair *pair = ((const struct plait_pair_wait *)context)->pair;

    if (most == 0 || pair->peer == pair->comm->rank)
        return 0;
    *ranks = pair->peer;
    return 1;
}

uint32_t plait_messages_awaited(const struct plait_comm *comm, uint32_t *ranks, uint32_t most)
{
    uint32_t n = 0;

    for (const struct plait_pair *pair = plait_first_pair(comm); pair != NULL && n < most; pair = pair->next)
        if (pair->recvs.first != NULL || plait_message_first_out(pair) != NULL)
            n += awaited(&pair->receiving, ranks + n, most - n);
    return n;
}

/* The awaited message; NULL: none is. */
static struct plait_request *head_of(const struct plait_pair_wait *w)
{
    return w->out ? plait_message_first_out(w->pair) : w->pair->recvs.first;
}

static uint32_t clamp(uint64_t n)
{
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* Show the message of a long wait (now: ns), until its end (0). */
static void note(const void *context, uint64_t now)
{
    struct plait_pair_wait *w = (struct plait_pair_wait *)(uintptr_t)context;
    const struct plait_request *r = head_of(w);

    if (now == 0) {
        if (w->shown != NULL)
            atomic_store_explicit(&w->shown->since, 0, memory_order_relaxed);
        w->shown = NULL;
    } else if (w->shown == NULL && r != NULL) {
        const struct plait_message *m = &r->message;
        const struct plait_message_what what = { .number = m->number + 1,
                                                 .count = m->count,
                                                 .peer = m->peer,
                                                 .nslice = clamp(m->nslice),
                                                 .slices = clamp(m->slice),
                                                 .type = (uint8_t)m->type,
                                                 .send = w->out,
                                                 .space = (uint8_t)m->space->id };
        w->shown = plait_awaited_add(r->comm->own->messages, now, &what);
    }
}

static uint32_t blame(const void *context, char *text, size_t room)
{
    const struct plait_pair_wait *w = context;
    const struct plait_pair *pair = w->pair;
    const struct plait_message *m = &head_of(w)->message;
    char message[160] = "";

    if (w->out && m->space->queued && m->space->is_behind(pair->comm)) {
        snprintf(text, room, PLAIT_WAITS_FOR_ITSELF, pair->comm->rank);
        return pair->comm->rank + 1;
    }
    if (pair->peer != pair->comm->rank)
        plait_comm_waits_in(pair->comm, pair->peer, plait_detector_middle(&w->wait.detector), message, sizeof message);
    snprintf(text, room, "rank %u does not %s message #%llu %s rank %u (%zu %s)%s", pair->peer,
             w->out ? "receive" : "send", (unsigned long long)m->number + 1, w->out ? "from" : "to", pair->comm->rank,
             m->count, plait_dtype_name(m->type), message);
    return pair->peer + 1;
}

static const struct plait_wait_kind for_message = { .awaited = awaited, .blame = blame, .note = note };

void plait_message_wait_init(struct plait_pair *pair)
{
    pair->sending.out = true;
    pair->sending.pair = pair->receiving.pair = pair;
    plait_wait_init(&pair->sending.wait, &for_message, &pair->sending);
    plait_wait_init(&pair->receiving.wait, &for_message, &pair->receiving);
}

static enum plait_status probe_wait(struct plait_comm *comm, struct plait_pair_wait *w, bool moved, bool rarely)
{
    const struct plait_request *head = head_of(w);

    w->wait.detector.limit = head != NULL ? head->message.deadline : 0;
    return plait_wait_poll(comm, &w->wait, moved || head == NULL, rarely);
}

/* Not at each turn: a probe delays the moment when this rank sees the message. */
static bool is_due(const struct plait_wait *w)
{
    return w->spinner.turns % TURNS_A_PROBE == TURNS_A_PROBE - 1;
}

static enum plait_status probe_mismatch(struct plait_comm *comm, const struct plait_pair *pair)
{
    const struct plait_request *r = pair->recvs.first, *s = pair->out ? NULL : plait_message_first_out(pair);
    enum plait_status status = r != NULL ? check_incoming(comm, &r->message) : PLAIT_OK;

    return status == PLAIT_OK && s != NULL ? check_outgoing(comm, &s->message) : status;
}

enum plait_status plait_message_wait_turn(struct plait_comm *comm, struct plait_pair *pair, bool rarely)
{
    const bool looks = rarely || is_due(&pair->receiving.wait) || is_due(&pair->sending.wait);
    enum plait_status status = PLAIT_OK;

    if (PLAIT_GUARDS && !pair->in && pair->peer != comm->rank && looks)
        status = probe_mismatch(comm, pair);
    if (status == PLAIT_OK)
        status = probe_wait(comm, &pair->receiving, pair->in, rarely);
    if (status == PLAIT_OK)
        status = probe_wait(comm, &pair->sending, pair->out, rarely);
    return status;
}
