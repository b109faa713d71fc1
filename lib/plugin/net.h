/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a network is to Plait: a plug-in that carries messages between processes, on one host or several.
 *
 * A plug-in is a shared object `plait-NAME.so` that exports one `const struct plait_net_plugin plait_net_plugin`. It
 * is loaded when the first comm needs it (lib/plugin/plugin.h) and stays loaded. It knows nothing of comms, plans or
 * settings and calls nothing of libplait; transports/net.c makes links of it. transports/ucx/ is one,
 * tests/fake_net.c another.
 *
 * A network is one rank's: its address goes to the other ranks when the comm is made, and endpoints lead to theirs.
 * Each network is used by one thread at a time, whoever has the comm; networks do not know of each other, so that
 * what one comm leaves unfinished, or forces to an end, does not touch another. What is sent arrives once, whole, in
 * any order.
 *
 * Life of a message: send() gives header and data; both stay as they are until its state is no longer BUSY, which
 * says that the memory may be used again and not that anything has arrived. At the other end arrive() shows the
 * header, and the data where the network put it, or only how long it is: then it still lies with its sender, and
 * fetch() lands it where the receiver wants it. What arrive() showed is held until release(), or until a fetch() has
 * ended. Nothing blocks. Memory is the host's, but where a function says otherwise.
 *
 * In the steady state nothing is allocated for a message. What is called for messages, which is from connect() to
 * arm() below, leaves errno as it is.
 */
#ifndef PLAIT_LIB_PLUGIN_NET_H
#define PLAIT_LIB_PLUGIN_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAIT_NET_ABI    3  /* changes with everything below; a plug-in with another number is refused */
#define PLAIT_NET_HEADER 40 /* bytes of every message's header, which the network does not look into */

struct plait_net;          /* the plug-in's */
struct plait_net_endpoint; /* the plug-in's: the way from a network to another */

enum plait_net_state { PLAIT_NET_DONE, PLAIT_NET_BUSY, PLAIT_NET_FAILED };

struct plait_net_arrival {
    const void *header; /* only until arrive() returns */
    const void *data;   /* aligned to 64 bytes where bytes > 0; NULL: with its sender */
    size_t bytes;
    void *held; /* for release() or fetch() */
};

struct plait_net_options {
    uint32_t nendpoint; /* about as many will be connected */
    const char
        *devices; /* interfaces of IP that lead to the other hosts, "eth0,eth1"; NULL, "": not known. Only in open() */
    void *context;
    /* A message is there: called from within progress() and send(). It may call release() and nothing else. */
    void (*arrive)(void *context, const struct plait_net_arrival *a);
};

struct plait_net_plugin {
    uint32_t abi;
    const char *name;
    const char *(*version)(void); /* of what is below; ranks must agree on it */

    /*
     * Why a call failed is written into `why`, at least 256 bytes. One thread of the process is in open() at a time;
     * threads that it starts have all signals blocked. close() ends everything: every endpoint, and what is on the
     * way, whose states become FAILED; from then on the network touches no memory of its user's.
     */
    bool (*open)(const struct plait_net_options *o, struct plait_net **out, char *why, size_t room);
    void (*close)(struct plait_net *net);

    /* What leads here, for connect() on any host. Belongs to the network. */
    const void *(*address)(const struct plait_net *net, size_t *bytes);

    /* NULL: it cannot. It is not waited for. Both ends connect to each other. */
    struct plait_net_endpoint *(*connect)(struct plait_net *net, const void *address, size_t bytes, char *why,
                                          size_t room);

    /* PLAIT_NET_HEADER bytes of header, and the data: *state is BUSY, or what it will be already. */
    void (*send)(struct plait_net_endpoint *e, const void *header, const void *data, size_t bytes,
                 enum plait_net_state *state);

    /* Bring what still lies with its sender to where `bytes` have room, as many as arrive() said. */
    void (*fetch)(struct plait_net *net, void *held, void *to, size_t bytes, enum plait_net_state *state);

    /*
     * The same with memory of CUDA's devices. Where devices() is NULL or says no, the network cannot read and write it,
     * and neither of the others is called. What is in such memory when send_device() is called is what is sent.
     */
    bool (*devices)(const struct plait_net *net);
    void (*send_device)(struct plait_net_endpoint *e, const void *header, const void *data, size_t bytes,
                        enum plait_net_state *state);
    void (*fetch_device)(struct plait_net *net, void *held, void *to, size_t bytes, enum plait_net_state *state);

    /* Done with what arrive() showed, or not interested: its sender's memory is free, too. */
    void (*release)(struct plait_net *net, void *held);

    /* Move what can move. Did something? */
    bool (*progress)(struct plait_net *net);

    /*
     * For sleeping: a descriptor that becomes readable when there is something to do (-1: there is none), if arm() said
     * since the last progress() that there is nothing now.
     */
    int (*descriptor)(const struct plait_net *net);
    bool (*arm)(struct plait_net *net);

    /* Why nothing can pass any more, or NULL. What was sent or fetched has failed then, or soon will have. */
    const char *(*failed)(const struct plait_net_endpoint *e);

    /* What the endpoint goes over, as far as it is known, for people: "tcp/lo". It takes its time. */
    void (*describe)(const struct plait_net_endpoint *e, char *text, size_t room);
};

#endif
