/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A run: everything that training has in hand, on one rank.
 *
 *     train.c        main, and the step from images to new weights
 *     setup.c        makes a run of options and ranks
 *     statistics.c   batch norm's running statistics: over passes, steps, ranks
 *     tree.h         sums of passes that do not depend on the number of ranks
 *     agree.c        when to leave, of ranks that do not step together
 *     failure.c      what ends it before its time
 *     evaluate.c     accuracy over all ranks, exact
 *     state.c        a run to a checkpoint, and back
 *     recall.c       what a run was that goes on
 *     progress.c     the progress line, log.jsonl
 *     dry_run.c      --dry-run
 *     plot.c         curves of runs
 *     launch.c       which rank this is
 *     processors.c   and how many processors it has
 */
#ifndef PLAIT_TRAIN_RUN_H
#define PLAIT_TRAIN_RUN_H

#include "checkpoint.h"
#include "data.h"
#include "model.h"
#include "options.h"
#include "recall.h"
#include "statistics.h"
#include "tree.h"

#include <plait/comm.h>
#include <plait/elastic.h>
#include <plait/fusion.h>
#include <plait/optim.h>

/* Of a step or an epoch; summed over the ranks it is one vector of doubles. */
struct totals {
    double loss, images, top1, top5; /* loss: the sum over the images */
    /* Of the step before each, as its own are not over when totals are summed: */
    double seconds; /* added up over ranks, */
    double exposed; /* those of them that waited for communication, */
    double data;    /* and for images */
    double stop;    /* ranks that were asked to stop */
};
enum { NTOTAL = sizeof(struct totals) / sizeof(double) };

struct norms { /* synchronised batch norm */
    struct plait_comm *comm;
    enum plait_status status; /* of the first sum that failed */
    double seconds;           /* of this step's sums */
};

struct run {
    const struct options *o;
    struct recalled recalled; /* --resume */
    struct plait_comm *comm;  /* of the ranks that train */
    struct plait_comm *side;  /* of the same: totals of a step, on their way while gradients are */
    uint32_t rank, nrank;
    uint32_t all;        /* ranks, servers of elastic averaging among them */
    bool together;       /* all ranks step together: all but elastic averaging with servers, which do not wait */
    struct agree *agree; /* where they do not */

    struct dataset *train, *val;
    struct store *store; /* --in-memory */
    struct loader *loader, *val_loader;
    uint64_t epoch_steps; /* steps of an epoch */

    struct model *model;
    uint32_t ntensor;
    size_t count;   /* floats of all tensors, each aligned to 64 bytes */
    size_t *start;  /* [ntensor] where each begins */
    float *weights; /* [count] fp32 masters, in library memory */
    float **master; /* [ntensor] inside them */
    enum plait_dtype gradient_type;
    void **gradient;  /* [ntensor] inside the buckets; elastic averaging: inside memory of our own */
    uint32_t *place;  /* [ntensor] of a tensor among the fusion's, which are in the order of the way back */
    struct tree tree; /* --reproducible: sums of passes */
    void **scratch;   /* [ntensor] where a pass writes its gradients */
    struct statistics *statistics;
    struct norms norms;

    struct plait_fusion *fusion;   /* synchronous SGD */
    struct plait_elastic *elastic; /* or elastic averaging, */
    float *centre;                 /* [count] which is evaluated */
    struct plait_optim *optim;
    struct plait_loss_scale scale;
    struct plait_schedule schedule;

    uint32_t npass, pass; /* passes of a rank in a step; this one */
    uint32_t epoch;
    uint64_t at;                     /* step of the epoch, */
    uint64_t step;                   /* and of all: steps that are complete */
    double rate;                     /* of the latest step */
    double seconds, exposed, waited; /* of the latest step: totals.seconds, exposed, data */
    struct totals epoch_sum;         /* of this epoch so far */
    double best;                     /* top-1 so far */
    bool frozen;                     /* polishing batch norm's statistics: the weights stay */
    bool stopping;                   /* a rank was asked to */
    char nonfinite[200];             /* what was not finite, and where; "": nothing yet, on this rank */

    char folder[4096];
    struct keeper *keeper; /* rank 0 */
    struct state *state;   /* what a checkpoint holds */
    struct progress *progress;
};

/**
 * The run of this rank. NULL: it was a server of elastic averaging, and has served.
 *
 * o  settled here; it must live as long as the run
 */
struct run *run_create(struct options *o, struct plait_comm *all);
void run_destroy(struct run *r);

void totals_add(struct totals *sum, const struct totals *more);
/** Sum over ranks, in place. */
enum plait_status totals_sum(struct plait_comm *comm, struct totals *totals);

/** Top-1, top-5 and loss on the validation images: of all ranks, on all ranks. */
enum plait_status evaluate(struct run *r, struct totals *out);

struct state *state_create(struct run *r);
void state_destroy(struct state *s);
/** Collective: rank 0 writes a checkpoint in the background. */
enum plait_status state_save(struct run *r, bool best);
/** Is what was saved last on the disk? Collective; false after a message. */
bool state_saved(struct run *r);
/** Not collective: of what this rank alone knows, after another was lost. NULL, or why not. */
const char *state_save_alone(struct run *r);
/** Go on where the newest checkpoint of --resume was; the weights of --weights. Collective. */
void state_load(struct run *r);

/** What of a rank's memory is for what. */
void memory_text(const struct run *r, char *out, size_t room);
/** Print what a run would be, after a calibration of 2 seconds. */
void dry_run(struct run *r);

/** Curves of runs, one or several. Exit status. */
int plot_runs(const char *const *folders, uint32_t n, const char *path);

#endif
