/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room transport: what the engine asks of a transport, numbered messages between two ranks.
 *
 * A link is one rank's end of the way to one peer. Messages in each direction are numbered from 0 over the life of
 * the communicator; both ends compute the same numbers from the plan. Messages may be offered and taken in any order
 * within a window. A message carries the operation's fingerprint; one with another fingerprint never arrives (the
 * caller's slow path finds out why).
 *
 * Life of a message: the sender offers memory, the receiver sees it arrive and may read it in place, the receiver
 * releases it, the sender sees that it may use the memory again. No call blocks.
 *
 * transports/shm.c lends the sender's memory itself, or lands what it cannot map in `landing`. transports/net.c sends
 * it over a network, and lands what is large; it moves in plait_port_turn() only. The conformance suite
 * (tests/conformance.c) runs over each.
 *
 * A transport does not know plans, types or operators.
 */
#ifndef PLAIT_LIB_TRANSPORT_TRANSPORT_H
#define PLAIT_LIB_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct plait_comm;
struct plait_link;

/*
 * Messages of one channel do not wait for those of another, and are numbered apart. What is in a device's memory has
 * two of its own, whose lines a rank makes when it first has some (device_comm.h).
 */
enum plait_channel {
    PLAIT_CHANNEL_COLLECTIVES,
    PLAIT_CHANNEL_MESSAGES,
    PLAIT_CHANNEL_DEVICE,
    PLAIT_CHANNEL_DEVICE_MESSAGES,
    PLAIT_NCHANNEL,
    PLAIT_NMAILBOX = PLAIT_CHANNEL_DEVICE /* with lines in every control block */
};

struct plait_transport {
    const char *name;

    /* Make the link of `comm` to `peer`, or NULL when this transport does not lead there. The comm knows the peer's
     * process and control block. */
    struct plait_link *(*connect)(struct plait_comm *comm, uint32_t peer, enum plait_channel channel);
    void (*disconnect)(struct plait_link *link); /* NULL is allowed */

    /*
     * Can the peer get this memory from where it lies? If not, the caller stages it in library memory first. `land`: it
     * may be landed, as the receive has room and the message is worth it; else the peer must be able to read it in
     * place.
     */
    bool (*reaches)(const struct plait_link *link, const void *data, size_t bytes, bool land);

    /* Is there room in the window for this number: has the peer released the one that is a window before? */
    bool (*ready)(const struct plait_link *link, uint32_t number);

    /*
     * Offer a message; only after ready(). `data` must not change until sent(). With `take`, the
     * transport may instead copy it away: true says it did, so `data` is free at once. The note goes with it.
     */
    bool (*offer)(struct plait_link *link, uint32_t number, uint32_t fingerprint, uint64_t note, const void *data,
                  size_t bytes, bool take);

    /* May the memory of the message be used again? This says nothing of those before it. */
    bool (*sent)(const struct plait_link *link, uint32_t number);

    /*
     * The message, readable until release(); NULL while it has not arrived. `landing` has room for `*bytes`, or is
     * NULL; the answer may be `landing`. `*bytes` becomes what was sent: when that is another number, nothing may be
     * read before it is asked for again with that number, and room for it. A message that is there but cannot be read
     * has not arrived; the transport notes it in comm->unread.
     */
    const void *(*arrived)(struct plait_link *link, uint32_t number, uint32_t fingerprint, void *landing,
                           size_t *bytes);

    void (*release)(struct plait_link *link, uint32_t number);

    /* Fingerprint and note of the message with this number, whatever its fingerprint is; false: it has not arrived. */
    bool (*peek)(const struct plait_link *link, uint32_t number, uint32_t *fingerprint, uint64_t *note);

    /* Why nothing can pass any more, or NULL. The peer may just have left, or died. May be NULL: that cannot be. */
    const char *(*broken)(const struct plait_link *link);
};

/* Common to every transport; the first member of its own link structure. */
struct plait_link {
    const struct plait_transport *transport;
    uint32_t next_out, next_in; /* numbers of the next operation's first messages */
    uint32_t row;               /* of the costs of what may arrive (lend.h); set before arrived() */
    bool past_out, past_in;     /* what is offered, what arrived last, was staged past the caches (shm's tells it) */
};

/* Every transport of this build, NULL-ended, in order of preference. */
extern const struct plait_transport *const plait_transports[];

/* A link made by the first of these that leads to `peer`. NULL: none does, or memory is short. */
struct plait_link *plait_connect_by(const struct plait_transport *const *transports, struct plait_comm *comm,
                                    uint32_t peer, enum plait_channel channel);

/* The same by those behind `before` in that order: of a transport that needs another one below it. */
struct plait_link *plait_connect_behind(const struct plait_transport *before, struct plait_comm *comm, uint32_t peer,
                                        enum plait_channel channel);

/* The comm's link to `peer`, made by the first transport that leads there if there is none yet. NULL: none does, or
 * memory is short. */
struct plait_link *plait_connect(struct plait_comm *comm, uint32_t peer, enum plait_channel channel);

#endif
