/* SPDX-License-Identifier: BSD-3-Clause */
/* An optimiser on a GPU: the passes of optim.c, enqueued on the caller's stream. */
#include "optim.h"

#include "base/status.h"
#include "call/call.h"
#include "comm/comm.h"
#include "device/device_comm.h"
#include "failure/failure.h"

#include <plait/coll.h>
#include <plait/memory.h>

/* The kernels need room for the norms of all tensors, with SGD too. */
enum plait_status plait_optim_device_make(struct plait_optim *o, size_t weights)
{
    const int device = plait_device_used()->device_of(o->queue);
    void *momentum = NULL, *sums = NULL;
    enum plait_status status = PLAIT_OK;

    if (o->options.comm != NULL)
        status = plait_device_open(o->options.comm, "plait_optim_create", device);
    if (status == PLAIT_OK)
        status = plait_mem_alloc_on(device, weights * sizeof *o->momentum + 1, &momentum);
    o->momentum = momentum;
    if (status == PLAIT_OK)
        status = plait_mem_alloc_on(device, (NORMS + 2 * (size_t)o->options.ntensor) * sizeof *o->sums, &sums);
    o->sums = sums;
    if (status != PLAIT_OK)
        return status;
    const struct plait_model model = { &o->options, o->momentum, o->at, o->sums };
    const char *why = plait_device_used()->make_stepper(device, &model, &o->stepper);
    return plait_device_result("an optimiser cannot use its GPU", why);
}

/* After a failure other ranks may still read the sums: the comm frees them when no rank does. */
void plait_optim_device_drop(struct plait_optim *o)
{
    struct plait_comm *comm = o->options.comm;

    plait_device_used()->drain(o->queue);
    plait_device_used()->free_stepper(o->stepper);
    if (comm == NULL || !plait_has_failed(comm) || !plait_object_free_later(comm, o->sums))
        plait_mem_free(o->sums);
    plait_mem_free(o->momentum);
}

/* ---- A step --------------------------------------------------------------------------------------------------- */

/* A device error fails the comm, so that the other ranks do not wait for this one. */
static enum plait_status fail(const struct plait_optim *o, const char *why)
{
    if (why == NULL)
        return PLAIT_OK;
    const enum plait_status status = plait_device_result("plait_optim_step", why);
    return o->options.comm != NULL ? plait_object_fail(o->options.comm, status) : status;
}

/* Enqueue the step: this rank's sums, their all-reduce, and the update. */
static enum plait_status put(struct plait_optim *o, const struct plait_optim_step *s)
{
    struct plait_comm *comm = o->options.comm;
    struct plait_stepping stepping = { s, true, comm == NULL, 0, 1 };
    struct plait_call call = PLAIT_CALL_DEFAULT;

    if (comm != NULL) {
        stepping.call = plait_optim_call(o, s);
        stepping.nrank = plait_comm_nrank(comm);
    }
    enum plait_status status = fail(o, plait_device_used()->step(o->queue, o->stepper, &stepping));
    if (status != PLAIT_OK || comm == NULL)
        return status;
    call.stream = o->options.stream;
    status = plait_allreduce(comm, o->sums, o->sums, o->nsum, PLAIT_FLOAT64, PLAIT_SUM, &call);
    stepping.sums = false;
    stepping.updates = true;
    return status == PLAIT_OK ? fail(o, plait_device_used()->step(o->queue, o->stepper, &stepping)) : status;
}

/* Results of the steps that have ended. Nobody waits for a step without a result: a later call reports its mismatch. */
static enum plait_status take_results(struct plait_optim *o, struct plait_optim_result *result)
{
    const uint32_t before = o->ndiffer;

    o->ndiffer = plait_device_used()->stepped(o->stepper, result);
    if (o->ndiffer == before)
        return PLAIT_OK;
    return plait_fail(
        PLAIT_ERR_MISMATCH,
        "plait_optim_step: lr, factor, decay or the loss scale differed between ranks; past steps without effect: %u",
        o->ndiffer - before);
}

/* A failure releases waiting streams without valid sums. This rank's failure detector may not have seen it yet. */
static enum plait_status look_for_failures(struct plait_comm *comm)
{
    pthread_mutex_lock(&comm->lock);
    const enum plait_status status = plait_probe_failures(comm);
    pthread_mutex_unlock(&comm->lock);
    return status;
}

enum plait_status plait_optim_device_step(struct plait_optim *o, const struct plait_optim_step *s,
                                          struct plait_optim_result *result)
{
    uint64_t capture = 0;
    const char *why = result != NULL ? plait_device_used()->capturing(o->queue, &capture) : NULL;

    if (capture != 0)
        return plait_fail(PLAIT_ERR_UNSUPPORTED,
                          "plait_optim_step: result is given, but options.stream is being captured, so that there is "
                          "none yet: pass NULL");
    enum plait_status status = fail(o, why);
    if (status == PLAIT_OK)
        status = put(o, s);
    if (status == PLAIT_OK && result != NULL)
        status = fail(o, plait_device_used()->drain(o->queue));
    if (status == PLAIT_OK && o->options.comm != NULL)
        status = look_for_failures(o->options.comm);
    return status == PLAIT_OK ? take_results(o, result) : status;
}
