/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared memory: a message is a mailbox, cache lines in the sender's arena that hold the data's address.
 *
 * Each rank has PLAIT_WINDOW mailboxes for every peer, and as many acknowledgement words; it alone writes both. Mailbox
 * `number % PLAIT_WINDOW` holds message `number`: the address is written first, then the word with fingerprint and
 * number. The receiver reads the data in place, then sets its word of that slot to number + 1. Between threads of one
 * process addresses are plain pointers; between processes they are offsets in the sender's arena. Messages of up to
 * PLAIT_MAILBOX_DATA bytes travel in the mailbox itself.
 *
 * An offset beyond the sender's arena is other memory of its process, not mapped here. The receiver copies it into the
 * landing through the kernel (process_vm_readv): a single copy, where staging needs two. A rank that can do so says it
 * in its control block when the comm is made. For other receivers, and for receives that read in place and have no
 * landing, such memory goes through a staging buffer.
 */
#include "../lib/comm/comm.h"
#include "../lib/device/device_comm.h"
#include "../lib/progress/progress.h"

#include <stdlib.h>
#include <string.h>

struct shm_link {
    struct plait_link link;
    struct plait_comm *comm;
    uint32_t peer;
    uint32_t room, end; /* messages from `room` to before `end` were seen to have room */
    bool one_process;
    bool single_copy; /* the peer reads memory of this process that is not mapped there */
    const struct plait_process *process;
    const char *base;               /* of the peer's addresses */
    const char *own_base;           /* of this rank's addresses */
    struct plait_mailbox *out;      /* this rank's mailboxes for the peer */
    _Atomic uint32_t *out_ack;      /* the peer's acknowledgement words for them */
    const struct plait_mailbox *in; /* the peer's mailboxes for this rank */
    _Atomic uint32_t *in_ack;       /* this rank's acknowledgement words for them */
};

static struct shm_link *shm(const struct plait_link *link)
{
    return (struct shm_link *)(uintptr_t)link;
}

/* The mailboxes of a rank whose arena begins at `base`; NULL: it has made none for this channel yet. */
static struct plait_mailbox *lines_of(const struct plait_control *c, const char *base, enum plait_channel channel,
                                      uint32_t nrank, uint32_t to, _Atomic uint32_t **acks)
{
    const uint64_t at = channel >= PLAIT_NMAILBOX ? atomic_load_explicit(&c->device, memory_order_acquire) : 0;
    const size_t line = ((size_t)(channel - PLAIT_NMAILBOX) * nrank + to) * PLAIT_WINDOW; /* of a device's channel */

    if (channel < PLAIT_NMAILBOX) {
        *acks = plait_control_ack(c, channel, nrank, to);
        return plait_control_mailbox(c, channel, nrank, to);
    }
    struct plait_mailbox *mailbox = ((struct plait_device_shown *)(uintptr_t)(base + at))->mailbox;
    *acks = (_Atomic uint32_t *)(void *)(mailbox + (size_t)PLAIT_NFLAGGED * nrank * PLAIT_WINDOW) + line;
    return at > 0 ? mailbox + line : NULL;
}

static struct plait_link *shm_connect(struct plait_comm *comm, uint32_t peer, enum plait_channel channel)
{
    struct shm_link *s = calloc(1, sizeof *s);
    const struct plait_peer *p = &comm->peers[peer];
    const struct plait_arena *arena;

    if (s == NULL || p->process == NULL || plait_arena_get(&arena) != PLAIT_OK) {
        free(s);
        return NULL;
    }
    s->comm = comm;
    s->peer = peer;
    s->one_process = p->process->base == NULL;
    s->single_copy = comm->config.cma && atomic_load_explicit(&p->control->reads, memory_order_relaxed);
    s->process = p->process;
    s->base = p->process->base;
    s->own_base = s->one_process ? NULL : arena->base;
    s->out = lines_of(comm->own, arena->base, channel, comm->nrank, peer, &s->in_ack);
    s->in = lines_of(p->control, s->one_process ? arena->base : s->base, channel, comm->nrank, comm->rank, &s->out_ack);
    if (s->out == NULL || s->in == NULL) {
        free(s);
        return NULL;
    }
    return &s->link;
}

static void shm_disconnect(struct plait_link *link)
{
    free(link);
}

static bool shm_reaches(const struct plait_link *link, const void *data, size_t bytes, bool land)
{
    const struct shm_link *s = shm(link);
    return s->one_process || plait_arena_contains(data, bytes) || (land && s->single_copy);
}

static bool shm_sent(const struct plait_link *link, uint32_t number)
{
    const uint32_t ack = atomic_load_explicit(&shm(link)->out_ack[number % PLAIT_WINDOW], memory_order_acquire);
    return (int32_t)(ack - (number + 1)) >= 0;
}

/* The peer keeps writing the cache line of its words. So one read of them usually checks several messages. */
static bool shm_ready(const struct plait_link *link, uint32_t number)
{
    struct shm_link *s = shm(link);

    if (number - s->room < s->end - s->room)
        return true;
    if (!shm_sent(link, number - PLAIT_WINDOW))
        return false;
    s->room = number;
    for (s->end = number + 1; s->end - number < PLAIT_WINDOW && shm_sent(link, s->end - PLAIT_WINDOW); s->end++)
        ;
    return true;
}

static bool shm_offer(struct plait_link *link, uint32_t number, uint32_t fingerprint, uint64_t header_word,
                      const void *data, size_t bytes, bool take)
{
    struct shm_link *s = shm(link);
    struct plait_mailbox *mailbox = &s->out[number % PLAIT_WINDOW];
    const bool taken = take && bytes <= sizeof mailbox->data;

    if (taken) {
        if (bytes > 0)
            memcpy(mailbox->data, data, bytes);
        data = mailbox->data; /* an empty message has an address too: NULL would mean that it has not arrived */
    }
    mailbox->bytes = bytes;
    mailbox->header_word = header_word;
    mailbox->address = (uint64_t)((uintptr_t)data - (uintptr_t)s->own_base);
    atomic_store_explicit(&mailbox->word, (uint64_t)fingerprint << 32 | (number + 1), memory_order_release);
    plait_wake(s->comm, s->peer);
    return taken;
}

/*
 * Single copy of a message outside the peer's arena. False: it failed, which is noted. Fingerprints are equal, so there
 * is a landing.
 */
static bool copy_over(struct shm_link *s, const struct plait_mailbox *mailbox, void *landing)
{
    const struct plait_arena_header *h = (const void *)s->base;
    struct plait_unread *unread = &s->comm->unread;
    const uint64_t address = h->base + mailbox->address;
    const int error = plait_process_read(s->process, address, landing, mailbox->bytes);

    if (error != 0)
        *unread = (struct plait_unread){ s->peer, error, address, landing, mailbox->bytes };
    else if (unread->error != 0 && unread->rank == s->peer)
        unread->error = 0;
    return error == 0;
}

static const void *shm_arrived(struct plait_link *link, uint32_t number, uint32_t fingerprint, void *landing,
                               size_t *bytes)
{
    struct shm_link *s = shm(link);
    const struct plait_mailbox *mailbox = &s->in[number % PLAIT_WINDOW];
    const size_t room = *bytes;

    if (atomic_load_explicit(&mailbox->word, memory_order_acquire) != ((uint64_t)fingerprint << 32 | (number + 1)))
        return NULL;
    *bytes = mailbox->bytes;
    if (!s->one_process && mailbox->address >= s->process->size)
        return mailbox->bytes != room || copy_over(s, mailbox, landing) ? landing : NULL;
    return (const void *)((uintptr_t)s->base + (uintptr_t)mailbox->address);
}

static void shm_release(struct plait_link *link, uint32_t number)
{
    struct shm_link *s = shm(link);

    atomic_store_explicit(&s->in_ack[number % PLAIT_WINDOW], number + 1, memory_order_release);
    plait_wake(s->comm, s->peer);
}

static bool shm_peek(const struct plait_link *link, uint32_t number, uint32_t *fingerprint, uint64_t *header_word)
{
    const struct plait_mailbox *mailbox = &shm(link)->in[number % PLAIT_WINDOW];
    const uint64_t word = atomic_load_explicit(&mailbox->word, memory_order_acquire);

    if ((uint32_t)word != number + 1) /* the mailbox may be written at this moment */
        return false;
    *fingerprint = (uint32_t)(word >> 32);
    *header_word = mailbox->header_word;
    return true;
}

const struct plait_transport plait_transport_shm = {
    .name = "shm",
    .connect = shm_connect,
    .disconnect = shm_disconnect,
    .reaches = shm_reaches,
    .ready = shm_ready,
    .offer = shm_offer,
    .sent = shm_sent,
    .arrived = shm_arrived,
    .release = shm_release,
    .peek = shm_peek,
};
