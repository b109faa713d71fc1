/* SPDX-License-Identifier: BSD-3-Clause */
/* A fusion on a device: the work of step.c, enqueued. */
#include "fusion.h"

#include "base/status.h"
#include "device/device_comm.h"

#include <stdlib.h>

/* ---- Memory, tables and events of a layout ----------------------------------------------------------------------- */

/* segments: [ntensor] scratch. The k-th segment of a bucket is its k-th tensor, or this rank's k-th piece. */
static const char *make_packing(struct plait_fusion *f, uint32_t bucket, bool pieces, struct plait_segment *segments,
                                struct plait_packing **out)
{
    const struct plait_slab *s = &f->flat.buckets[bucket];
    struct plait_bucket *b = &f->buckets[bucket];
    uint32_t n = 0;

    for (uint32_t t = s->first; t != PLAIT_NOTHING; t = f->flat.places[t].next) {
        const struct plait_tensor *x = &f->tensors[t];
        const struct plait_place *p = &f->flat.places[t];
        const struct plait_piece all = { .count = x->count, .gradient = x->data };
        const struct plait_piece *piece = pieces ? plait_fusion_piece_of(f, t) : &all;
        b->in_place &= x->data == plait_fusion_payload(f, t);
        if (piece != NULL)
            segments[n++] = (struct plait_segment){ piece->gradient, x->type, p->start + piece->start, piece->count };
    }
    if (n == 0)
        return NULL;
    return plait_device_used()->make_packing(plait_device_used()->device_of(f->stream), segments, n, s->type,
                                             pieces && f->options.check != 0, out);
}

static const char *make_bucket(struct plait_fusion *f, uint32_t bucket, struct plait_segment *segments)
{
    struct plait_bucket *b = &f->buckets[bucket];
    const int device = plait_device_used()->device_of(f->stream);

    b->in_place = true;
    const char *why = make_packing(f, bucket, false, segments, &b->packing);

    if (why == NULL)
        why = make_packing(f, bucket, true, segments, &b->pieces);
    if (why == NULL)
        why = plait_device_used()->create_event(device, &b->ready);
    if (why == NULL)
        why = plait_device_used()->create_event(device, &b->done);
    b->request->until_executed = false; /* the work after it is enqueued without waiting for it to run */
    if (b->gather != NULL)
        b->gather->until_executed = false;
    return why;
}

enum plait_status plait_fusion_device_make(struct plait_fusion *f)
{
    struct plait_segment *segments = calloc(f->ntensor, sizeof *segments);
    const char *why = NULL;

    if (segments == NULL)
        return plait_fail_memory("out of memory for %u tensors", f->ntensor);
    for (uint32_t k = 0; k < f->flat.nbucket && why == NULL; k++)
        why = make_bucket(f, k, segments);
    free(segments);
    return plait_device_result("a fusion cannot use its GPU", why);
}

void plait_fusion_device_drop(struct plait_fusion *f)
{
    for (uint32_t k = 0; f->buckets != NULL && k < f->flat.nbucket; k++) {
        plait_device_used()->free_packing(f->buckets[k].packing);
        plait_device_used()->free_packing(f->buckets[k].pieces);
        plait_device_used()->destroy_event(f->buckets[k].ready);
        plait_device_used()->destroy_event(f->buckets[k].done);
    }
}

/* ---- A round ----------------------------------------------------------------------------------------------------- */

enum plait_status plait_fusion_device_check(const struct plait_fusion *f, const char *call)
{
    uint64_t capture = 0;
    const char *why = plait_device_used()->capturing(f->stream, &capture);

    if (capture != 0)
        return plait_fail(PLAIT_ERR_UNSUPPORTED,
                          "%s: %s: its stream is being captured, which a fusion cannot be: end the capture first", call,
                          f->name);
    return plait_device_result(call, why);
}

/* The comm's own queue, after its work on others, until plait_device_end_operation(). NULL: the GPU has failed. */
static struct plait_queue *begin_work(struct plait_comm *comm)
{
    plait_device_use_queue(comm, &(struct plait_target){ .queue = comm->own_queue });
    return plait_device_queue(comm);
}

/* Has work, which failed with `why` unless NULL, and all before it been put on the queue? An error fails the comm. */
static bool note(struct plait_comm *comm, const char *why)
{
    plait_device_note(comm, why);
    return plait_device_works(comm);
}

void plait_fusion_device_pack(struct plait_fusion *f, uint32_t bucket)
{
    const struct plait_bucket *b = &f->buckets[bucket];
    struct plait_queue *queue = begin_work(f->comm);
    bool works = queue != NULL && note(f->comm, plait_device_used()->wait_event(queue, b->ready));

    if (works && (!b->in_place || f->in != 1))
        works = note(f->comm, plait_device_used()->pack(queue, b->packing, b->payload, f->in));
    for (uint32_t t = f->flat.buckets[bucket].first, k = 0; works && t != PLAIT_NOTHING;
         t = f->flat.places[t].next, k++)
        if (plait_fusion_skips(f, t))
            works = note(f->comm, plait_device_used()->zero(queue, b->packing, b->payload, k));
}

void plait_fusion_device_unpack(struct plait_fusion *f, uint32_t bucket)
{
    const struct plait_bucket *b = &f->buckets[bucket];
    struct plait_queue *queue = begin_work(f->comm);
    bool works = queue != NULL;

    if (works && b->pieces != NULL && (f->options.check || !b->in_place || f->out != 1))
        works = note(f->comm, plait_device_used()->unpack(queue, b->pieces, b->payload, f->out));
    if (works)
        note(f->comm, plait_device_used()->record_event(queue, b->done));
    plait_device_end_operation(f->comm);
}

/* Results of the check: squares of this rank's pieces of the bucket, and whether all are finite. */
static void read_sums(struct plait_fusion *f, uint32_t bucket)
{
    struct plait_piece *piece;
    uint32_t k = 0;

    for (uint32_t t = f->flat.buckets[bucket].first; t != PLAIT_NOTHING; t = f->flat.places[t].next)
        if ((piece = plait_fusion_piece_of(f, t)) != NULL &&
            !plait_device_used()->square_sum(f->buckets[bucket].pieces, k++, &piece->square))
            atomic_store(&f->infinite, 1);
}

bool plait_fusion_device_has_come(struct plait_fusion *f, uint32_t bucket)
{
    bool passed = true;

    if (!f->options.check)
        return true;
    if (!note(f->comm, plait_device_used()->event_done(f->buckets[bucket].done, &passed)) || !passed ||
        plait_probe_failures(f->comm) != PLAIT_OK)
        return false;
    read_sums(f, bucket);
    return true;
}
