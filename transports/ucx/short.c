/* SPDX-License-Identifier: BSD-3-Clause */
#include "short.h"

#include <stdlib.h>
#include <string.h>

#define ROOM    (PLAIT_NET_HEADER + PLAIT_SHORT)
#define NPOSTED 8 /* posted receives; UCX copies further messages of one turn once more */
#define ALIGNED 64

struct slot {
    struct slot *next, *next_spare;
    struct inbox *inbox;
    void *request; /* of the receive, while `posted` */
    bool posted;
    _Alignas(ALIGNED) char before[ALIGNED - PLAIT_NET_HEADER];
    char message[ROOM];
};

/* With tags and wake-up UCX takes only transports that report completed sends. Its "self" transport does not. */
bool plait_short_possible(void)
{
    const char *transports = getenv("UCX_TLS");

    return transports == NULL || strcmp(transports, "self") != 0;
}

void plait_short_open(struct inbox *b, ucp_worker_h worker, const struct plait_net_options *options)
{
    *b = (struct inbox){ .worker = worker, .options = options, .nwanted = plait_short_possible() ? NPOSTED : 0 };
}

void plait_short_cancel(struct inbox *b)
{
    for (struct slot *s = b->slots; s != NULL; s = s->next)
        if (s->posted)
            ucp_request_cancel(b->worker, s->request);
}

void plait_short_free(struct inbox *b)
{
    while (b->slots != NULL) {
        struct slot *s = b->slots;
        b->slots = s->next;
        free(s);
    }
}

bool plait_short_send(ucp_ep_h ep, const void *header, const void *data, size_t bytes)
{
    const ucp_request_param_t p = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL,
        .memory_type = UCS_MEMORY_TYPE_HOST,
    };
    char message[ROOM];

    memcpy(message, header, PLAIT_NET_HEADER);
    if (bytes > 0)
        memcpy(message + PLAIT_NET_HEADER, data, bytes);
    return ucp_tag_send_nbx(ep, message, PLAIT_NET_HEADER + bytes, 0, &p) == NULL;
}

/* ---- Slots ---------------------------------------------------------------------------------------------- */

/* UCX's own handles are aligned: an odd address marks a slot of ours. */
static void *hold(struct slot *s)
{
    return (char *)s + 1;
}

static void give(struct slot *s)
{
    s->next_spare = s->inbox->spare;
    s->inbox->spare = s;
}

static struct slot *take(struct inbox *b)
{
    struct slot *s = b->spare;

    if (s != NULL) {
        b->spare = s->next_spare;
        return s;
    }
    s = aligned_alloc(ALIGNED, sizeof *s);
    if (s == NULL)
        return NULL;
    s->inbox = b;
    s->posted = false;
    s->next = b->slots;
    b->slots = s;
    return s;
}

bool plait_short_release(struct inbox *b, void *held)
{
    (void)b;
    if ((uintptr_t)held % 2 == 0)
        return false;
    give((struct slot *)((char *)held - 1));
    return true;
}

static void on_message(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *arg)
{
    struct slot *s = arg;
    struct inbox *b = s->inbox;
    /* else a foreign message, or a cancelled receive */
    const bool whole = status == UCS_OK && info->length >= PLAIT_NET_HEADER;
    const size_t bytes = whole ? info->length - PLAIT_NET_HEADER : 0;
    const struct plait_net_arrival a = {
        .header = s->message, .data = s->message + PLAIT_NET_HEADER, .bytes = bytes, .held = bytes > 0 ? hold(s) : NULL
    };

    ucp_request_free(request);
    s->posted = false;
    b->nposted--;
    if (whole)
        b->options->arrive(b->options->context, &a);
    if (bytes == 0)
        give(s);
}

/* False: try again later. */
static bool post(struct inbox *b)
{
    struct slot *s = take(b);
    const ucp_request_param_t p = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE |
                        UCP_OP_ATTR_FLAG_NO_IMM_CMPL, /* UCX 1.13 reports the length only to the callback */
        .cb.recv = on_message,
        .user_data = s,
        .memory_type = UCS_MEMORY_TYPE_HOST,
    };

    if (s == NULL)
        return false;
    s->posted = true;
    b->nposted++;
    ucs_status_ptr_t request = ucp_tag_recv_nbx(b->worker, s->message, ROOM, 0, 0, &p);
    if (UCS_PTR_IS_ERR(request)) {
        s->posted = false;
        b->nposted--;
        give(s);
        return false;
    }
    s->request = request;
    return true;
}

void plait_short_post(struct inbox *b)
{
    while (b->nposted < b->nwanted && post(b))
        ;
}
