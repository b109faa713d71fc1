/* SPDX-License-Identifier: BSD-3-Clause */
#include "agree.h"
#include "ending.h"
#include "launch.h"
#include "run.h"

#include <stdlib.h>

void totals_add(struct totals *sum, const struct totals *t)
{
    double *to = (double *)sum;
    const double *from = (const double *)t;

    for (int k = 0; k < NTOTAL; k++)
        to[k] += from[k];
}

enum plait_status totals_sum(struct plait_comm *comm, struct totals *totals)
{
    return plait_allreduce(comm, totals, totals, NTOTAL, PLAIT_FLOAT64, PLAIT_SUM, NULL);
}

static enum agreed wanted(void)
{
    return asked_to_stop != 0 ? AGREED_STOP : AGREED_GO_ON;
}

/*
 * Every image once. The loader gives each rank its part of the rest, too, with label -1 where there is no image. All
 * ranks leave when one was asked to stop.
 */
static enum plait_status pass_over(struct run *r, struct totals *out)
{
    enum plait_status status = PLAIT_OK;
    enum agreed agreed = AGREED_GO_ON;
    struct images images;

    loader_begin(r->val_loader, 0, 0);
    while (status == PLAIT_OK && agreed == AGREED_GO_ON && loader_next(r->val_loader, &images)) {
        model_forward(r->model, images.images, images.labels, false, 0);
        status = agree_turn(r->agree, wanted(), &agreed);
        model_wait_images(r->model);
    }
    const struct model_result result = model_result(r->model);
    *out = (struct totals){
        .loss = result.loss, .images = (double)result.n, .top1 = (double)result.top1, .top5 = (double)result.top5
    };
    if (status == PLAIT_OK && agreed == AGREED_GO_ON)
        status = agree_meet(r->agree, wanted(), &agreed);
    r->stopping = agreed == AGREED_STOP;
    return status;
}

/* Elastic averaging tests the centre. */
static enum plait_status show_centre(struct run *r)
{
    float **centre = allocate(r->ntensor, sizeof *centre);
    const enum plait_status status = plait_elastic_centre(r->elastic, r->centre.host);

    mirror_write(&r->centre);
    for (uint32_t t = 0; t < r->ntensor; t++)
        centre[t] = (float *)r->centre.memory + r->start[t];
    if (status == PLAIT_OK)
        model_refresh(r->model, (const float *const *)centre);
    free(centre);
    return status;
}

enum plait_status evaluate(struct run *r, struct totals *out)
{
    enum plait_status status = r->elastic != NULL ? show_centre(r) : PLAIT_OK;

    if (status == PLAIT_OK)
        status = statistics_average(r->statistics);
    if (status != PLAIT_OK)
        return status;
    status = pass_over(r, out);
    statistics_undo(r->statistics);
    if (r->elastic != NULL)
        model_refresh(r->model, (const float *const *)r->master);
    return status == PLAIT_OK && !r->stopping ? totals_sum(r->comm, out) : status;
}
