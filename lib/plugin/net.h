/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface of a network plug-in, which carries messages between processes, on one host or several.
 *
 * A plug-in is a shared object `plait-NAME.so` that exports one `const struct plait_net_plugin plait_net_plugin`. It
 * is loaded when the first comm needs it (lib/plugin/plugin.h) and stays loaded. It knows nothing of comms, plans or
 * settings and calls nothing of libplait. transports/net.c builds links over it. transports/ucx/ is one,
 * tests/fake_net.c another.
 *
 * Each rank of a comm has a network object. Ranks exchange their addresses when the comm is created, and connect
 * endpoints to each other. Only the thread that uses the comm uses the network. Networks are independent of each other:
 * unfinished messages of one comm, or its forced end, do not affect another. Each message arrives once and whole;
 * messages may overtake each other.
 *
 * Life of a message: send() takes header and data. The sender must not change them while the state is BUSY; its end
 * means that the memory may be reused, not that the message has arrived. At the receiver, arrive() presents the header
 * and either the data in the network's buffer (eager) or only the length (rendezvous). In the second case the data is
 * still at the sender, and fetch() reads it into the receiver's memory. The network holds the message until release()
 * or the end of a fetch(). Nothing blocks. Memory is host memory unless a function says otherwise.
 *
 * In the steady state no message allocates memory. The functions from connect() to arm() leave errno unchanged.
 */
#ifndef PLAIT_LIB_PLUGIN_NET_H
#define PLAIT_LIB_PLUGIN_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAIT_NET_ABI    3  /* changes with the declarations below; a plug-in with another number is refused */
#define PLAIT_NET_HEADER 40 /* bytes of every message's header, opaque to the network */

struct plait_net;          /* defined by the plug-in */
struct plait_net_endpoint; /* defined by the plug-in: the connection from a network to a peer's */

enum plait_net_state { PLAIT_NET_DONE, PLAIT_NET_BUSY, PLAIT_NET_FAILED };

struct plait_net_arrival {
    const void *header; /* only until arrive() returns */
    const void *data;   /* aligned to 64 bytes if bytes > 0; NULL: still at the sender, to be fetched */
    size_t bytes;
    void *held; /* for release() or fetch() */
};

struct plait_net_options {
    uint32_t nendpoint;  /* expected number of connect() calls */
    const char *devices; /* IP interfaces to the other hosts, "eth0,eth1"; NULL or "": unknown. Valid only in open() */
    void *context;
    /* A message has arrived. Called inside progress() and send(); of this interface it may only call release(). */
    void (*arrive)(void *context, const struct plait_net_arrival *a);
};

struct plait_net_plugin {
    uint32_t abi;
    const char *name;
    const char *(*version)(void); /* of the network library; must be equal on all ranks */

    /*
     * On failure the reason is written into `why`, of at least 256 bytes. One thread of the process at a time calls
     * open(), with all signals blocked, so that threads started by open() inherit that. close() ends every endpoint and
     * every message in transit, whose state becomes FAILED; after it the network accesses none of its user's memory.
     */
    bool (*open)(const struct plait_net_options *o, struct plait_net **out, char *why, size_t room);
    void (*close)(struct plait_net *net);

    /* The address to pass to connect() on any host. The network owns it. */
    const void *(*address)(const struct plait_net *net, size_t *bytes);

    /* NULL: failed. Does not block. Both ends connect to each other. */
    struct plait_net_endpoint *(*connect)(struct plait_net *net, const void *address, size_t bytes, char *why,
                                          size_t room);

    /* PLAIT_NET_HEADER bytes of header, and the data. On return *state is BUSY, or already DONE or FAILED. */
    void (*send)(struct plait_net_endpoint *e, const void *header, const void *data, size_t bytes,
                 enum plait_net_state *state);

    /* Read data that is still at the sender into `to`. bytes: the length that arrive() gave. */
    void (*fetch)(struct plait_net *net, void *held, void *to, size_t bytes, enum plait_net_state *state);

    /*
     * The same with CUDA device memory. If devices() is NULL or returns false, the network cannot access such memory,
     * and the other two are not called. send_device() sends the memory's contents at the time of the call.
     */
    bool (*devices)(const struct plait_net *net);
    void (*send_device)(struct plait_net_endpoint *e, const void *header, const void *data, size_t bytes,
                        enum plait_net_state *state);
    void (*fetch_device)(struct plait_net *net, void *held, void *to, size_t bytes, enum plait_net_state *state);

    /* Drop a message that arrive() presented, read or not: the sender may then reuse the memory. */
    void (*release)(struct plait_net *net, void *held);

    /* Make progress without blocking. True: something happened. */
    bool (*progress)(struct plait_net *net);

    /*
     * For sleeping: a descriptor that becomes readable when there is something to do; -1: none. That holds only after
     * an arm() that returned true (nothing to do now), with no progress() since.
     */
    int (*descriptor)(const struct plait_net *net);
    bool (*arm)(struct plait_net *net);

    /* The reason why the endpoint is broken, or NULL. Its sends and fetches have failed, or soon will. */
    const char *(*failed)(const struct plait_net_endpoint *e);

    /* For people: the transport and device that the endpoint uses, as far as known: "tcp/lo". Slow. */
    void (*describe)(const struct plait_net_endpoint *e, char *text, size_t room);
};

#endif
