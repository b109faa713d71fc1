/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room transport: the contract between the engine and a transport, which carries numbered messages between two
 * ranks.
 *
 * A link is one rank's end of the connection to one peer. Messages in each direction are numbered from 0 over the life
 * of the communicator; both ends compute the same numbers from the plan. Within a window, messages may be offered and
 * taken in any order. A message carries the operation's fingerprint. A message with another fingerprint never arrives;
 * the caller's slow path finds out why.
 *
 * Life of a message: the sender offers memory; the receiver sees the message arrive and may read it in place; the
 * receiver releases it; the sender sees that it may use the memory again.
 *
 * The room promises: no call blocks, and no data is lost or changes its order. It does not know plans or collectives.
 *
 * transports/shm.c lets the receiver read the sender's memory in place; memory that the receiver cannot map is copied
 * once, into `landing` (single copy). transports/net.c sends over a network and lands large messages; it progresses in
 * plait_port_turn() only. The conformance suite (tests/conformance.c) runs over each transport.
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
 * Messages of one channel do not wait for those of another and are numbered separately. Messages of device memory have
 * two channels of their own; a rank makes their mailboxes when it first has such memory (device_comm.h).
 */
enum plait_channel {
    PLAIT_CHANNEL_COLLECTIVES,
    PLAIT_CHANNEL_MESSAGES,
    PLAIT_CHANNEL_DEVICE,
    PLAIT_CHANNEL_DEVICE_MESSAGES,
    PLAIT_NCHANNEL,
    PLAIT_NMAILBOX = PLAIT_CHANNEL_DEVICE /* the channels with mailboxes in every control block */
};

struct plait_transport {
    const char *name;

    /*
     * Make the link of `comm` to `peer`. NULL: this transport does not reach that peer. The comm knows the peer's
     * process and control block.
     */
    struct plait_link *(*connect)(struct plait_comm *comm, uint32_t peer, enum plait_channel channel);
    void (*disconnect)(struct plait_link *link); /* NULL is allowed */

    /*
     * Can the peer get this memory from where it lies? If not, the caller first copies it into a staging buffer. With
     * `land` the message may be copied into the receiver's landing, as the receive has room and the message is large
     * enough to be worth it. Without `land` the peer must be able to read the memory in place.
     */
    bool (*reaches)(const struct plait_link *link, const void *data, size_t bytes, bool land);

    /* Is there room in the window for this number: has the peer released the message one window before it? */
    bool (*ready)(const struct plait_link *link, uint32_t number);

    /*
     * Offer a message; only after ready(). `data` must not change until sent(). With `take` the transport may copy the
     * message at once; true: it did, and `data` is free again. `header_word` travels with the message.
     */
    bool (*offer)(struct plait_link *link, uint32_t number, uint32_t fingerprint, uint64_t header_word,
                  const void *data, size_t bytes, bool take);

    /* May the memory of this message be used again? This says nothing about earlier messages. */
    bool (*sent)(const struct plait_link *link, uint32_t number);

    /*
     * The message, readable until release(); NULL: it has not arrived. `landing` has room for `*bytes`, or is NULL; the
     * answer may be `landing`. `*bytes` becomes the size that was sent. If that size differs, the caller may read
     * nothing: it asks again with that size, and room for it. A message that is there but cannot be read has not
     * arrived; the transport notes that in comm->unread.
     */
    const void *(*arrived)(struct plait_link *link, uint32_t number, uint32_t fingerprint, void *landing,
                           size_t *bytes);

    void (*release)(struct plait_link *link, uint32_t number);

    /* Fingerprint and header word of the message with this number, whatever it is; false: it has not arrived. */
    bool (*peek)(const struct plait_link *link, uint32_t number, uint32_t *fingerprint, uint64_t *header_word);

    /*
     * Why no message can pass any more, or NULL. The peer may just have left or died. The callback may be NULL: the
     * link cannot break.
     */
    const char *(*broken)(const struct plait_link *link);
};

/* Common to all transports; the first member of each transport's own link structure. */
struct plait_link {
    const struct plait_transport *transport;
    uint32_t next_out, next_in; /* numbers of the next operation's first messages */
};

/* Every transport of this build, NULL-ended, in order of preference. */
extern const struct plait_transport *const plait_transports[];

/* Make a link to `peer` with the first of these transports that reaches it. NULL: none does, or out of memory. */
struct plait_link *plait_connect_by(const struct plait_transport *const *transports, struct plait_comm *comm,
                                    uint32_t peer, enum plait_channel channel);

/* The same with the transports after `before` in that order: for a transport that builds on another one. */
struct plait_link *plait_connect_behind(const struct plait_transport *before, struct plait_comm *comm, uint32_t peer,
                                        enum plait_channel channel);

/*
 * The comm's link to `peer`; if there is none yet, the first transport that reaches the peer makes it. NULL: none does,
 * or out of memory.
 */
struct plait_link *plait_connect(struct plait_comm *comm, uint32_t peer, enum plait_channel channel);

#endif
