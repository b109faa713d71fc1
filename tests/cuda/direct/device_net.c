/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For tests: UCX's plug-in as it would be with CUDA. What it is given of a device's memory it copies, with a call of the
 * driver that waits for it, to or from memory of its own, which the real plug-in sends or fetches. The stand-in for the
 * driver finds such a copy that nothing orders. The real one lies in the folder above this one.
 */
#include "../../../lib/plugin/net.h"
#include "../driver_types.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct job { /* of the real one, with memory of ours */
    struct job *next;
    enum plait_net_state real, *state;
    void *memory, *to; /* to: NULL, or where it is copied when it has come */
    size_t bytes;
};

struct plait_net {
    struct plait_net *real;
    struct job *jobs;
};

struct plait_net_endpoint {
    struct plait_net_endpoint *real;
    struct plait_net *net;
};

static const struct plait_net_plugin *ucx;

static struct {
    int (*retain)(void **context, int device);
    int (*release)(int device);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*copy)(cu_address to, cu_address from, size_t bytes);
} driver;

static bool find(void **function, void *library, const char *name)
{
    return (*function = dlsym(library, name)) != NULL;
}

static bool load(char *why, size_t room)
{
    const char *folder = getenv("PLAIT_PLUGINS"), *path = getenv("PLAIT_CUDA_DRIVER");
    char real[512];

    if (ucx != NULL)
        return true;
    snprintf(real, sizeof real, "%s/../plait-ucx.so", folder != NULL ? folder : "");
    void *library = dlopen(real, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE), *cuda = dlopen(path, RTLD_NOW);
    if (library == NULL || cuda == NULL || !find((void **)&driver.retain, cuda, "cuDevicePrimaryCtxRetain") ||
        !find((void **)&driver.release, cuda, "cuDevicePrimaryCtxRelease_v2") ||
        !find((void **)&driver.push, cuda, "cuCtxPushCurrent_v2") ||
        !find((void **)&driver.pop, cuda, "cuCtxPopCurrent_v2") || !find((void **)&driver.copy, cuda, "cuMemcpy")) {
        snprintf(why, room, "%s", dlerror());
        return false;
    }
    ucx = dlsym(library, "plait_net_plugin");
    return ucx != NULL;
}

static void copy(void *to, const void *from, size_t bytes)
{
    void *context;

    if (driver.retain(&context, 0) != CU_OK || driver.push(context) != CU_OK ||
        driver.copy((uintptr_t)to, (uintptr_t)from, bytes) != CU_OK || driver.pop(&context) != CU_OK ||
        driver.release(0) != CU_OK)
        abort();
}

/* ---- Jobs --------------------------------------------------------------------------------------------------- */

static struct job *begin(struct plait_net *net, size_t bytes, void *to, enum plait_net_state *state)
{
    struct job *j = calloc(1, sizeof *j);

    if (j == NULL || (j->memory = malloc(bytes)) == NULL)
        abort();
    j->bytes = bytes;
    j->to = to;
    j->state = state;
    *state = PLAIT_NET_BUSY;
    j->next = net->jobs;
    net->jobs = j;
    return j;
}

static void end_jobs(struct plait_net *net)
{
    for (struct job **at = &net->jobs, *j; (j = *at) != NULL;) {
        if (j->real == PLAIT_NET_BUSY) {
            at = &j->next;
            continue;
        }
        if (j->real == PLAIT_NET_DONE && j->to != NULL)
            copy(j->to, j->memory, j->bytes);
        *j->state = j->real;
        *at = j->next;
        free(j->memory);
        free(j);
    }
}

/* ---- The plug-in -------------------------------------------------------------------------------------------- */

static const char *net_version(void)
{
    return ucx->version();
}

static bool net_open(const struct plait_net_options *o, struct plait_net **out, char *why, size_t room)
{
    struct plait_net *net = calloc(1, sizeof *net);

    if (net == NULL || !load(why, room) || !ucx->open(o, &net->real, why, room)) {
        free(net);
        return false;
    }
    *out = net;
    return true;
}

static void net_close(struct plait_net *net)
{
    ucx->close(net->real);
    for (struct job *j = net->jobs; j != NULL; j = j->next) /* what comes now comes nowhere */
        j->to = NULL;
    end_jobs(net);
    free(net);
}

static const void *net_address(const struct plait_net *net, size_t *bytes)
{
    return ucx->address(net->real, bytes);
}

static struct plait_net_endpoint *net_connect(struct plait_net *net, const void *address, size_t bytes, char *why,
                                              size_t room)
{
    struct plait_net_endpoint *real = ucx->connect(net->real, address, bytes, why, room), *e = calloc(1, sizeof *e);

    if (real == NULL || e == NULL) {
        free(e);
        return NULL;
    }
    *e = (struct plait_net_endpoint){ real, net };
    return e;
}

static void net_send(struct plait_net_endpoint *e, const void *header, const void *data, size_t bytes,
                     enum plait_net_state *state)
{
    ucx->send(e->real, header, data, bytes, state);
}

static void net_fetch(struct plait_net *net, void *held, void *to, size_t bytes, enum plait_net_state *state)
{
    ucx->fetch(net->real, held, to, bytes, state);
}

static bool net_devices(const struct plait_net *net)
{
    (void)net;
    return true;
}

static void net_send_device(struct plait_net_endpoint *e, const void *header, const void *data, size_t bytes,
                            enum plait_net_state *state)
{
    struct job *j = begin(e->net, bytes, NULL, state);

    copy(j->memory, data, bytes);
    ucx->send(e->real, header, j->memory, bytes, &j->real);
    end_jobs(e->net);
}

static void net_fetch_device(struct plait_net *net, void *held, void *to, size_t bytes, enum plait_net_state *state)
{
    struct job *j = begin(net, bytes, to, state);

    ucx->fetch(net->real, held, j->memory, bytes, &j->real);
    end_jobs(net);
}

static void net_release(struct plait_net *net, void *held)
{
    ucx->release(net->real, held);
}

static bool net_progress(struct plait_net *net)
{
    const bool moved = ucx->progress(net->real);

    end_jobs(net);
    return moved;
}

static int net_descriptor(const struct plait_net *net)
{
    return ucx->descriptor(net->real);
}

static bool net_arm(struct plait_net *net)
{
    return ucx->arm(net->real);
}

static const char *net_failed(const struct plait_net_endpoint *e)
{
    return ucx->failed(e->real);
}

static void net_describe(const struct plait_net_endpoint *e, char *text, size_t room)
{
    ucx->describe(e->real, text, room);
}

__attribute__((visibility("default"))) extern const struct plait_net_plugin plait_net_plugin;
const struct plait_net_plugin plait_net_plugin = {
    .abi = PLAIT_NET_ABI,
    .name = "ucx",
    .version = net_version,
    .open = net_open,
    .close = net_close,
    .address = net_address,
    .connect = net_connect,
    .send = net_send,
    .fetch = net_fetch,
    .devices = net_devices,
    .send_device = net_send_device,
    .fetch_device = net_fetch_device,
    .release = net_release,
    .progress = net_progress,
    .descriptor = net_descriptor,
    .arm = net_arm,
    .failed = net_failed,
    .describe = net_describe,
};
