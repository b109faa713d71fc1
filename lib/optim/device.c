/* SPDX-License-Identifier: BSD-3-Clause */
/* An optimiser on a GPU: the passes of optim.c, enqueued on the caller's stream. */
#include "optim.h"

#include "call/call.h"
#include "device/device_comm.h"
#include "failure/failure.h"
#include "memory/devices.h"

static const struct plait_device_plugin *plugin(void)
{
    return plait_device_used();
}

static enum plait_status alloc(const struct plait_optim *o, size_t bytes, void *out)
{
    const int device = plugin()->device_of(o->queue);
    const char *why = plugin()->alloc(PLAIT_MEMORY_DEVICE, device, bytes, out);

    return why == NULL ? PLAIT_OK
                       : plait_fail(PLAIT_ERR_NOMEM, "no %zu bytes on GPU %d for an optimiser: %s", bytes, device, why);
}

/* The kernels need room for the norms of all tensors, with SGD too. */
enum plait_status plait_optim_device_make(struct plait_optim *o, size_t weights)
{
    enum plait_status status = alloc(o, weights * sizeof *o->momentum + 1, &o->momentum);

    if (status == PLAIT_OK)
        status = alloc(o, (NORMS + 2 * (size_t)o->options.ntensor) * sizeof *o->sums, &o->sums);
    if (status != PLAIT_OK)
        return status;
    const struct plait_model model = { &o->options, o->momentum, o->at, o->sums };
    const char *why = plugin()->make_stepper(plugin()->device_of(o->queue), &model, &o->stepper);
    return why == NULL ? PLAIT_OK : plait_device_fail("an optimiser cannot use its GPU", why);
}

/* The first error may be that of an earlier call: a second try tells. */
static const char *drain(const struct plait_optim *o)
{
    const char *why = plugin()->drain(o->queue);

    return why == NULL ? NULL : plugin()->drain(o->queue);
}

/* After a failure other ranks may still read the sums: the comm frees them when no rank does. */
static void drop_sums(struct plait_optim *o)
{
    struct plait_comm *comm = o->options.comm;

    if (comm != NULL && comm->device != NULL && plait_has_failed(comm)) {
        pthread_mutex_lock(&comm->lock);
        plait_device_retire(comm, o->sums);
        pthread_mutex_unlock(&comm->lock);
    } else if (o->sums != NULL) {
        plugin()->free(PLAIT_MEMORY_DEVICE, o->sums);
    }
}

void plait_optim_device_drop(struct plait_optim *o)
{
    drain(o);
    plugin()->free_stepper(o->stepper);
    drop_sums(o);
    if (o->momentum != NULL)
        plugin()->free(PLAIT_MEMORY_DEVICE, o->momentum);
}

/* ---- A step --------------------------------------------------------------------------------------------------- */

/* A device error fails the comm, so that the other ranks do not wait for this one. */
static enum plait_status fail(const struct plait_optim *o, const char *why)
{
    struct plait_comm *comm = o->options.comm;

    if (why == NULL || comm == NULL)
        return why == NULL ? PLAIT_OK : plait_device_fail("plait_optim_step", why);
    pthread_mutex_lock(&comm->lock);
    const enum plait_status status = plait_comm_fail(comm, PLAIT_ERR_SYSTEM, "plait_optim_step: %s", why);
    pthread_mutex_unlock(&comm->lock);
    return status;
}

/* Enqueue the step: this rank's sums, their all-reduce, and the update. */
static enum plait_status put(struct plait_optim *o, const struct plait_optim_step *s)
{
    struct plait_comm *comm = o->options.comm;
    const bool look = atomic_exchange_explicit(&o->look, false, memory_order_relaxed);
    struct plait_stepping stepping = { s, true, comm == NULL, look, 0, 1 };
    struct plait_call call = PLAIT_CALL_DEFAULT;

    if (comm != NULL) {
        stepping.call = plait_optim_call(o, s);
        stepping.nrank = plait_comm_nrank(comm);
    }
    enum plait_status status = fail(o, plugin()->step(o->queue, o->stepper, &stepping));
    if (status != PLAIT_OK || comm == NULL)
        return status;
    call.stream = o->options.stream;
    status = plait_allreduce(comm, o->sums, o->sums, o->nsum, PLAIT_FLOAT64, PLAIT_SUM, &call);
    stepping.sums = false;
    stepping.updates = true;
    return status == PLAIT_OK ? fail(o, plugin()->step(o->queue, o->stepper, &stepping)) : status;
}

/* Results of the steps that have ended. Nobody waits for a step without a result: a later call reports its mismatch. */
static enum plait_status look(struct plait_optim *o, struct plait_optim_result *result)
{
    const uint32_t before = o->ndiffer;

    o->ndiffer = plugin()->stepped(o->stepper, result);
    if (o->ndiffer == before)
        return PLAIT_OK;
    return plait_fail(
        PLAIT_ERR_MISMATCH,
        "plait_optim_step: lr, factor or decay differed between ranks in %u steps that are over now, which "
        "changed nothing",
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
    const char *why = result != NULL ? plugin()->capturing(o->queue, &capture) : NULL;

    if (capture != 0)
        return plait_fail(PLAIT_ERR_UNSUPPORTED,
                          "plait_optim_step: result is given, but options.stream is being captured, so that there is "
                          "none yet: pass NULL");
    enum plait_status status = fail(o, why);
    if (status == PLAIT_OK)
        status = put(o, s);
    if (status == PLAIT_OK && result != NULL)
        status = fail(o, drain(o));
    if (status == PLAIT_OK && o->options.comm != NULL)
        status = look_for_failures(o->options.comm);
    return status == PLAIT_OK ? look(o, result) : status;
}
