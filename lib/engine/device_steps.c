/* SPDX-License-Identifier: BSD-3-Clause */
#include "device_steps.h"

#include "device/device_comm.h"

void plait_device_copy(struct plait_run *run, void *to, const void *from, size_t bytes)
{
    struct plait_queue *queue = plait_device_here(run->comm);

    if (queue != NULL)
        plait_device_note(run->comm, run->comm->device->plugin->copy(queue, to, from, bytes));
}

void plait_device_combine(struct plait_run *run, const struct plait_instr *in, void *dst, const void *const *from,
                          size_t n)
{
    const struct plait_op_plan *o = run->o;
    struct plait_combine c = { .type = o->type,
                               .op = o->op,
                               .dst = dst,
                               .src = from,
                               .nsrc = in->nsource,
                               .divisor = in->final ? o->last.divisor : o->inner.divisor,
                               .wide_dst = in->wide,
                               .count = n };

    for (uint32_t k = 0; k < in->nsource && k < 64; k++)
        c.wide |= (uint64_t)run->prog->sources[in->source + k].wide << k;
    struct plait_queue *queue = plait_device_here(run->comm);
    if (queue != NULL)
        plait_device_note(run->comm, run->comm->device->plugin->combine(queue, &c));
}

enum plait_status plait_device_scale(struct plait_comm *comm, const struct plait_job *job, size_t n, const void **in)
{
    const struct plait_op_plan *o = job->o;
    struct plait_device_comm *d = comm->device;
    void *to = job->out;
    uint64_t capture;
    enum plait_status status = plait_device_captures(comm, job->queue, &capture);

    if (status == PLAIT_OK && !plait_scales_inplace(o->coll)) {
        struct plait_device_scaled *s = &d->scaled[capture != 0];
        if (s->bytes < n * o->size) {
            status = plait_device_room(comm, n * o->size, &to);
            if (status != PLAIT_OK)
                return status;
            plait_device_retire(comm, s->memory);
            *s = (struct plait_device_scaled){ to, n * o->size };
        }
        to = s->memory;
    }
    if (status != PLAIT_OK)
        return status;
    plait_device_aim(comm, job->queue, capture);
    struct plait_queue *queue = plait_device_here(comm);
    if (queue != NULL && o->selection.divides)
        plait_device_note(comm, d->plugin->combine(queue, &(struct plait_combine){ .type = o->type,
                                                                                   .op = o->op,
                                                                                   .dst = to,
                                                                                   .src = &job->in,
                                                                                   .nsrc = 1,
                                                                                   .divisor = comm->nrank,
                                                                                   .count = n }));
    else if (queue != NULL)
        plait_device_note(comm, d->plugin->scale(queue, o->type, to, job->in, n, job->scale, job->late));
    *in = to;
    return PLAIT_OK;
}
