/* SPDX-License-Identifier: BSD-3-Clause */
/* Copy a bucket's tensors into the payload, and the results out of it. */
#include "fusion.h"
#include "pass.h"

#include <string.h>

/* The payload of a bucket from element `start` on. */
static struct plait_vector payload_at(const struct plait_fusion *f, uint32_t bucket, size_t start)
{
    const struct plait_slab *s = &f->flat.buckets[bucket];

    return (struct plait_vector){ f->buckets[bucket].payload + start * plait_dtype_size(s->type), s->type };
}

static void pack_tensor(const struct plait_fusion *f, uint32_t t, uint32_t bucket)
{
    const struct plait_tensor *x = &f->tensors[t];
    const struct plait_vector to = payload_at(f, bucket, f->flat.places[t].start);
    const struct plait_vector from = { plait_fusion_place(f, t), x->type };

    if (plait_fusion_skips(f, t))
        memset(to.data, 0, x->count * plait_dtype_size(to.type));
    else if (to.data != from.data || f->in != 1)
        plait_pass(f->kernels, to, from, x->count, f->in, f->streaming, NULL);
}

void plait_fusion_pack(struct plait_fusion *f, uint32_t bucket)
{
    const struct plait_slab *s = &f->flat.buckets[bucket];

    if (f->stream != NULL) {
        plait_fusion_device_pack(f, bucket);
        return;
    }
    for (uint32_t t = s->first; t <= s->last; t++)
        if (f->flat.places[t].bucket == bucket)
            pack_tensor(f, t, bucket);
}

static void unpack_piece(struct plait_fusion *f, struct plait_piece *piece, uint32_t bucket)
{
    const struct plait_vector from = payload_at(f, bucket, f->flat.places[piece->tensor].start + piece->start);
    const struct plait_vector to = { piece->gradient, f->tensors[piece->tensor].type };
    const bool apart = to.data != from.data;
    double *square = f->options.check ? &piece->square : NULL;

    if ((apart || f->out != 1 || square != NULL) &&
        !plait_pass(f->kernels, to, from, piece->count, f->out, f->streaming && apart, square))
        atomic_store(&f->infinite, 1);
}

void plait_fusion_unpack(struct plait_fusion *f, uint32_t bucket)
{
    const struct plait_slab *s = &f->flat.buckets[bucket];

    if (f->stream != NULL) {
        plait_fusion_device_unpack(f, bucket);
        return;
    }
    for (uint32_t t = s->first; t <= s->last; t++)
        if (f->flat.places[t].bucket == bucket && f->piece_of[t] != PLAIT_NO_PIECE)
            unpack_piece(f, &f->pieces[f->piece_of[t]], bucket);
}
