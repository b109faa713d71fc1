/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UCX as a network (lib/plugin/net.h): everything that calls UCX is in this folder.
 *
 * A network has its own context and worker. Messages are active messages; UCX decides which go eagerly and which by
 * rendezvous. Short ones go by tag (short.h). Endpoints use error mode PEER, so that the death of a process ends the
 * messages to it. In that mode UCX leaves out its shared memory unless its error handling is switched on. UCX 1.13
 * takes that setting from a program only as MM_ERROR_HANDLING, for both kinds of shared memory, and warns of it if the
 * user's UCX_TLS leaves both out. The user's own environment variables stay in force.
 *
 * The address holds every transport. An address of network devices alone would be shorter. But it is empty if UCX_TLS
 * is shared memory, and for processes in containers of one machine shared memory may be the only fast transport.
 */
#include "settings.h"
#include "short.h"

#include <ucs/debug/log_def.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MESSAGE 1 /* id of the active message */
#define ALIGNED 64

/*
 * TCP has no rendezvous of its own: each message would first send a request and wait for the answer, and both wait
 * behind the data of other messages. On a link of 1 Gbit/s rendezvous carried 65 to 83 MB/s in each direction, eager
 * sending 110 to 116. So large messages over TCP go eagerly, unless UCX_RNDV_THRESH is set. Receivers keep at most one
 * window of such messages.
 */
#define LEAST_LARGE  ((size_t)4 << 10) /* bytes; any transport sends smaller messages eagerly */
#define MOST_AT_ONCE ((size_t)2 << 20)

#define LEAVE_MOST 0.2 /* seconds, see let_all_leave() */

struct plait_net {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_bytes;
    struct plait_net_options options;
    struct plait_net_endpoint *endpoints;
    void *arriving; /* the message that arrive() is shown; NULL after its release */
    int descriptor;
    struct inbox inbox;
};

struct plait_net_endpoint {
    struct plait_net *net;
    struct plait_net_endpoint *next;
    ucp_ep_h ep;
    enum { UNKNOWN, AT_ONCE, AS_UCX_LIKES } large; /* how large messages are sent */
    char failed[128];                              /* "": it has not failed */
};

/* Suppress the message that one of our settings was not used. */
static ucs_log_func_rc_t leave_out(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                                   const ucs_log_component_config_t *component, const char *message, va_list args)
{
    static const char unneeded[] = "invalid configuration";

    (void)file, (void)line, (void)function, (void)level, (void)component, (void)args;
    return strncmp(message, unneeded, sizeof unneeded - 1) == 0 ? UCS_LOG_FUNC_RC_STOP : UCS_LOG_FUNC_RC_CONTINUE;
}

/* ---- Messages ------------------------------------------------------------------------------------------- */

static ucs_status_t on_message(void *context, const void *header, size_t header_bytes, void *data, size_t bytes,
                               const ucp_am_recv_param_t *param)
{
    struct plait_net *net = context;
    const bool there = param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV;
    const bool kept = there || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA);
    const struct plait_net_arrival a = { .header = header,
                                         .data = there       ? NULL
                                                 : bytes > 0 ? data
                                                             : net, /* any address */
                                         .bytes = bytes,
                                         .held = kept ? data : NULL };

    if (header_bytes != PLAIT_NET_HEADER) /* not a message of ours */
        return UCS_OK;
    net->arriving = a.held;
    net->options.arrive(net->options.context, &a);
    const bool holds = net->arriving != NULL;
    net->arriving = NULL;
    return holds ? UCS_INPROGRESS : UCS_OK;
}

static void end(void *request, ucs_status_t status, void *state)
{
    *(enum plait_net_state *)state = status == UCS_OK ? PLAIT_NET_DONE : PLAIT_NET_FAILED;
    ucp_request_free(request);
}

static void end_fetch(void *request, ucs_status_t status, size_t bytes, void *state)
{
    (void)bytes;
    end(request, status, state);
}

/* UCX's return value of a started operation: it has succeeded or failed already, or its callback will tell. */
static void begun(ucs_status_ptr_t request, enum plait_net_state *state)
{
    if (!UCS_PTR_IS_PTR(request))
        *state = UCS_PTR_STATUS(request) == UCS_OK ? PLAIT_NET_DONE : PLAIT_NET_FAILED;
}

static void ucx_describe(const struct plait_net_endpoint *e, char *text, size_t room);

static uint32_t flags_for(struct plait_net_endpoint *e, size_t bytes)
{
    char text[64];

    if (bytes < LEAST_LARGE || bytes > MOST_AT_ONCE)
        return 0;
    if (e->large == UNKNOWN) {
        ucx_describe(e, text, sizeof text);
        e->large = strncmp(text, "tcp/", 4) == 0 && !ucx_is_set("RNDV_THRESH") ? AT_ONCE : AS_UCX_LIKES;
    }
    return e->large == AT_ONCE ? UCP_AM_SEND_FLAG_EAGER : 0;
}

static void send_from(ucs_memory_type_t memory, struct plait_net_endpoint *e, const void *header, const void *data,
                      size_t bytes, enum plait_net_state *state)
{
    const ucp_request_param_t p = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE |
                        UCP_OP_ATTR_FIELD_FLAGS,
        .flags = memory == UCS_MEMORY_TYPE_HOST ? flags_for(e, bytes) : 0,
        .cb.send = end,
        .user_data = state,
        .memory_type = memory,
    };

    const int saved = errno;

    *state = PLAIT_NET_BUSY;
    if (memory == UCS_MEMORY_TYPE_HOST && e->net->inbox.nwanted > 0 && bytes <= PLAIT_SHORT &&
        plait_short_send(e->ep, header, data, bytes))
        *state = PLAIT_NET_DONE;
    else
        begun(ucp_am_send_nbx(e->ep, MESSAGE, header, PLAIT_NET_HEADER, data, bytes, &p), state);
    errno = saved;
}

static void fetch_to(ucs_memory_type_t memory, struct plait_net *net, void *held, void *to, size_t bytes,
                     enum plait_net_state *state)
{
    const ucp_request_param_t p = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .cb.recv_am = end_fetch,
        .user_data = state,
        .memory_type = memory,
    };

    const int saved = errno;

    *state = PLAIT_NET_BUSY;
    begun(ucp_am_recv_data_nbx(net->worker, held, to, bytes, &p), state);
    errno = saved;
}

static void ucx_send(struct plait_net_endpoint *e, const void *header, const void *data, size_t bytes,
                     enum plait_net_state *state)
{
    send_from(UCS_MEMORY_TYPE_HOST, e, header, data, bytes, state);
}

static void ucx_fetch(struct plait_net *net, void *held, void *to, size_t bytes, enum plait_net_state *state)
{
    fetch_to(UCS_MEMORY_TYPE_HOST, net, held, to, bytes, state);
}

/*
 * Found by UCX when it was opened: it is built with CUDA, its CUDA modules are there, and UCX_TLS does not exclude
 * them.
 */
static bool ucx_devices(const struct plait_net *net)
{
    ucp_context_attr_t a = { .field_mask = UCP_ATTR_FIELD_MEMORY_TYPES };

    return ucp_context_query(net->context, &a) == UCS_OK && (a.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;
}

static void ucx_send_device(struct plait_net_endpoint *e, const void *header, const void *data, size_t bytes,
                            enum plait_net_state *state)
{
    send_from(UCS_MEMORY_TYPE_CUDA, e, header, data, bytes, state);
}

static void ucx_fetch_device(struct plait_net *net, void *held, void *to, size_t bytes, enum plait_net_state *state)
{
    fetch_to(UCS_MEMORY_TYPE_CUDA, net, held, to, bytes, state);
}

/* The callback's result releases the message that is just arriving. */
static void ucx_release(struct plait_net *net, void *held)
{
    const int saved = errno;

    if (held != NULL && held == net->arriving)
        net->arriving = NULL;
    else if (held != NULL && !plait_short_release(&net->inbox, held))
        ucp_am_data_release(net->worker, held);
    errno = saved;
}

static bool ucx_progress(struct plait_net *net)
{
    const int saved = errno;

    plait_short_post(&net->inbox);
    const bool moved = ucp_worker_progress(net->worker) > 0;
    errno = saved;
    return moved;
}

static int ucx_descriptor(const struct plait_net *net)
{
    return net->descriptor;
}

static bool ucx_arm(struct plait_net *net)
{
    const int saved = errno;
    const bool shown = plait_short_is_posted(&net->inbox);
    const bool armed = shown && net->descriptor >= 0 && ucp_worker_arm(net->worker) == UCS_OK;

    errno = saved;
    return armed;
}

/* ---- Endpoints ------------------------------------------------------------------------------------------ */

static void on_failure(void *context, ucp_ep_h ep, ucs_status_t status)
{
    struct plait_net_endpoint *e = context;

    (void)ep;
    snprintf(e->failed, sizeof e->failed, "UCX: %s", ucs_status_string(status));
}

/* A loop-back connection cannot fail, and UCX's "self" transport supports no other mode. */
static bool is_own(const struct plait_net *net, const void *address, size_t bytes)
{
    return bytes == net->address_bytes && memcmp(address, net->address, bytes) == 0;
}

static struct plait_net_endpoint *ucx_connect(struct plait_net *net, const void *address, size_t bytes, char *why,
                                              size_t room)
{
    struct plait_net_endpoint *e = calloc(1, sizeof *e);
    const ucp_ep_params_t p = {
        .field_mask =
            UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = address,
        .err_mode = is_own(net, address, bytes) ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = { on_failure, e },
    };

    if (e == NULL) {
        ucx_fail(why, room, "out of memory");
        return NULL;
    }
    const int saved = errno;
    const ucs_status_t status = ucp_ep_create(net->worker, &p, &e->ep);
    errno = saved;
    if (status != UCS_OK) {
        ucx_fail(why, room, "UCX has no way there: %s (UCX_TLS is '%s', UCX_NET_DEVICES is '%s')",
                 ucs_status_string(status), ucx_setting("UCX_TLS"), ucx_setting("UCX_NET_DEVICES"));
        free(e);
        return NULL;
    }
    e->net = net;
    e->next = net->endpoints;
    net->endpoints = e;
    return e;
}

static const char *ucx_failed(const struct plait_net_endpoint *e)
{
    return e->failed[0] != '\0' ? e->failed : NULL;
}

/* Lines of UCX's report on an endpoint that begin with "lane[N]:  M:TRANSPORT/DEVICE.K md". */
static void ucx_describe(const struct plait_net_endpoint *e, char *text, size_t room)
{
    char *report = NULL, lane[64];
    size_t bytes, n = 0;
    FILE *f = open_memstream(&report, &bytes);

    if (room > 0)
        *text = '\0';
    if (f == NULL)
        return;
    ucp_ep_print_info(e->ep, f);
    fclose(f);
    for (const char *at = report; at != NULL && (at = strstr(at, "lane[")) != NULL && n < room; at++)
        if (sscanf(at, "lane[%*u]: %*u:%63[^. ]", lane) == 1 && strstr(text, lane) == NULL)
            n += (size_t)snprintf(text + n, room - n, "%s%s", n > 0 ? ", " : "", lane);
    free(report);
}

/* ---- Networks ------------------------------------------------------------------------------------------- */

static ucs_status_t create_worker(struct plait_net *net)
{
    const ucp_worker_params_t p = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED,
        .am_alignment = ALIGNED,
    };
    ucs_log_push_handler(leave_out);
    const ucs_status_t status = ucp_worker_create(net->context, &p, &net->worker);
    ucs_log_pop_handler();
    return status;
}

static ucs_status_t listen_to(struct plait_net *net)
{
    const ucp_am_handler_param_t p = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS | UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = MESSAGE,
        .flags = UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA,
        .cb = on_message,
        .arg = net,
    };
    return ucp_worker_set_am_recv_handler(net->worker, &p);
}

static bool set_up(struct plait_net *net, char *why, size_t room)
{
    const ucp_params_t p = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS,
        .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP | (plait_short_possible() ? UCP_FEATURE_TAG : 0),
        .estimated_num_eps = net->options.nendpoint,
    };
    ucp_config_t *config;
    ucs_status_t status;

    if (!ucx_read_settings(net->options.devices, &config, why, room))
        return false;
    status = ucp_init(&p, config, &net->context);
    ucp_config_release(config);
    if (status != UCS_OK)
        return ucx_cannot_open("ucp_init", status, why, room);
    status = create_worker(net);
    if (status == UCS_OK)
        status = listen_to(net);
    plait_short_open(&net->inbox, net->worker, &net->options);
    if (status == UCS_OK)
        status = ucp_worker_get_address(net->worker, &net->address, &net->address_bytes);
    if (status != UCS_OK)
        return ucx_cannot_open("no UCX worker", status, why, room);
    if (ucp_worker_get_efd(net->worker, &net->descriptor) != UCS_OK)
        net->descriptor = -1;
    return true;
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Wait until the request has completed, at most so many seconds. */
static void wait_for(struct plait_net *net, ucs_status_ptr_t request, double most)
{
    const double end = seconds() + most;

    while (UCS_PTR_IS_PTR(request) && ucp_request_check_status(request) == UCS_INPROGRESS && seconds() < end)
        ucp_worker_progress(net->worker);
}

/*
 * Wait until all sent messages have left, at most LEAVE_MOST: another rank may wait for the last one. Also, UCX before
 * 1.14 ends the process if an endpoint closes at either side while a connection message still waits to be sent. The
 * returned request completes with the endpoints at the latest.
 */
static ucs_status_ptr_t let_all_leave(struct plait_net *net)
{
    const ucp_request_param_t p = { .op_attr_mask = 0 };

    if (net->worker == NULL)
        return NULL;
    ucs_status_ptr_t request = ucp_worker_flush_nbx(net->worker, &p);
    wait_for(net, request, LEAVE_MOST);
    return request;
}

/* Close at once: messages on the way are cancelled. */
static void force_to_end(struct plait_net_endpoint *e)
{
    const ucp_request_param_t p = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE };
    ucs_status_ptr_t request = ucp_ep_close_nbx(e->ep, &p);

    if (!UCS_PTR_IS_PTR(request))
        return;
    while (ucp_request_check_status(request) == UCS_INPROGRESS)
        ucp_worker_progress(e->net->worker);
    ucp_request_free(request);
}

static void arrive_nowhere(void *net, const struct plait_net_arrival *a)
{
    ucx_release(net, a->held);
}

static void ucx_close(struct plait_net *net)
{
    net->options.arrive = arrive_nowhere;
    net->options.context = net;
    ucs_status_ptr_t leaving = let_all_leave(net);
    while (net->endpoints != NULL) {
        struct plait_net_endpoint *e = net->endpoints;
        net->endpoints = e->next;
        force_to_end(e);
        free(e);
    }
    wait_for(net, leaving, LEAVE_MOST);
    if (UCS_PTR_IS_PTR(leaving))
        ucp_request_free(leaving);
    plait_short_cancel(&net->inbox);
    if (net->address != NULL)
        ucp_worker_release_address(net->worker, net->address);
    if (net->worker != NULL)
        ucp_worker_destroy(net->worker);
    if (net->context != NULL)
        ucp_cleanup(net->context);
    plait_short_free(&net->inbox);
    free(net);
}

static bool ucx_open(const struct plait_net_options *o, struct plait_net **out, char *why, size_t room)
{
    struct plait_net *net = calloc(1, sizeof *net);

    if (net == NULL)
        return ucx_fail(why, room, "out of memory");
    net->options = *o;
    net->descriptor = -1;
    if (!set_up(net, why, room)) {
        ucx_close(net);
        return false;
    }
    *out = net;
    return true;
}

static const void *ucx_address(const struct plait_net *net, size_t *bytes)
{
    *bytes = net->address_bytes;
    return net->address;
}

__attribute__((visibility("default"))) extern const struct plait_net_plugin plait_net_plugin;
const struct plait_net_plugin plait_net_plugin = {
    .abi = PLAIT_NET_ABI,
    .name = "ucx",
    .version = ucp_get_version_string,
    .open = ucx_open,
    .close = ucx_close,
    .address = ucx_address,
    .connect = ucx_connect,
    .send = ucx_send,
    .fetch = ucx_fetch,
    .devices = ucx_devices,
    .send_device = ucx_send_device,
    .fetch_device = ucx_fetch_device,
    .release = ucx_release,
    .progress = ucx_progress,
    .descriptor = ucx_descriptor,
    .arm = ucx_arm,
    .failed = ucx_failed,
    .describe = ucx_describe,
};
