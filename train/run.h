/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A run: the state of a training on one rank.
 *
 *     train.c        main(), and the step from images to new weights
 *     setup.c        creates a run from options and ranks
 *     folder.c       the run's folder and other files
 *     statistics.c   batch norm's running statistics, over passes, steps and ranks
 *     tree.h         sums of passes that do not depend on the number of ranks
 *     mirror.h         memory of the device with a copy on the host
 *     agree.c        when ranks that do not step together leave
 *     failure.c      what ends a run early
 *     evaluate.c     accuracy over all ranks, exact
 *     state.c        a run to a checkpoint, and back
 *     recall.c       the options of a run that is resumed
 *     alike.c        whether all ranks have the same options
 *     progress.c     the progress line, log.jsonl
 *     dry_run.c      --dry-run
 *     plot.c         curves of runs
 *     launch.c       which rank this is
 *     processors.c   how many processors it has
 */
#ifndef PLAIT_TRAIN_RUN_H
#define PLAIT_TRAIN_RUN_H

#include "checkpoint.h"
#include "data.h"
#include "mirror.h"
#include "model.h"
#include "options.h"
#include "processors.h"
#include "recall.h"
#include "statistics.h"
#include "tree.h"

#include <plait/comm.h>
#include <plait/elastic.h>
#include <plait/fusion.h>
#include <plait/optim.h>

/* Totals of a step or an epoch; summed over the ranks as one vector of doubles. */
struct totals {
    double loss, images, top1, top5; /* loss: summed over the images */
    /* Of the previous step, since this one is not over when totals are summed: */
    double seconds; /* summed over ranks, */
    double exposed; /* of which waiting for communication, */
    double data;    /* and waiting for images; */
    double idle;    /* and that a decoding thread waited for images to be taken */
    double stop;    /* ranks that received a signal to stop */
    /* A device with a stream of its own tells loss, images, top1 and top5 of several steps at once. */
};
enum { NTOTAL = sizeof(struct totals) / sizeof(double) };

struct norms { /* synchronised batch norm */
    struct plait_comm *comm;
    enum plait_status status; /* of the first sum that failed */
    double seconds;           /* of this step's sums */
};

struct run {
    const struct options *o;
    struct recalled recalled; /* --resume: what the checkpoint says */
    struct plait_comm *comm;  /* the ranks that train */
    struct plait_comm *side;  /* the same ranks: the totals of a step travel beside the gradients */
    uint32_t rank, nrank;
    struct seat seat;    /* where this rank runs */
    uint32_t all;        /* number of ranks, including servers of elastic averaging */
    bool together;       /* all ranks step together, except in elastic averaging with servers, which do not wait */
    struct agree *agree; /* where they do not */

    struct dataset *train, *val;
    struct store *store; /* --in-memory */
    struct loader *loader, *val_loader;
    struct image_decoder *decoder; /* of the device; NULL: processors decode */
    uint64_t epoch_steps;          /* steps of an epoch */

    struct device *device;       /* has all of the network's memory that is not said to be the host's */
    struct plait_stream *stream; /* of the device; NULL: its memory is the host's */
    struct model *model;
    uint32_t ntensor;
    size_t count;          /* floats of all tensors, each aligned to 64 bytes */
    size_t *start;         /* [ntensor] where each begins */
    struct mirror weights; /* [count] fp32 master weights */
    float **master;        /* [ntensor] inside them */
    enum plait_dtype gradient_type;
    void **gradient;  /* [ntensor] inside the buckets; with elastic averaging in memory of their own */
    uint32_t *place;  /* [ntensor] index of each tensor in the fusion, which is in backward order */
    struct tree tree; /* --reproducible: sums of passes */
    void **scratch;   /* [ntensor] where a pass writes its gradients */
    struct statistics *statistics;
    struct norms norms;

    struct plait_fusion *fusion;   /* synchronous SGD */
    struct plait_elastic *elastic; /* or elastic averaging */
    struct mirror centre;          /* [count] elastic averaging: the centre, which is evaluated */
    struct plait_optim *optim;
    struct mirror scale; /* struct plait_loss_scale, which the optimiser updates */
    uint64_t skipped;    /* steps that it has counted as skipped, as known here */
    struct plait_schedule schedule;
    double *milestones; /* of the schedule */

    uint32_t npass, pass; /* passes of a rank in a step; the current one */
    bool reports;         /* this step waits for the device, and tells the loss */
    uint64_t reported;    /* the latest complete step that did */
    uint64_t logged;      /* the step of the latest line of the log */
    uint32_t epoch;
    uint64_t at;                     /* complete steps of the epoch */
    uint64_t step;                   /* complete steps of the run */
    double rate;                     /* of the latest step */
    double seconds, exposed, waited; /* of the latest step, as in struct totals */
    double host; /* seconds to put the latest step on a device's stream that was empty, after a report; 0: none yet */
    double copying;           /* seconds of the latest step in which the host waited until images were copied */
    double idle;              /* likewise */
    struct totals epoch_sum;  /* of this epoch so far */
    double best;              /* top-1 so far */
    bool frozen;              /* polishing batch norm's statistics: weights do not change */
    bool stopping;            /* a rank was asked to stop */
    bool lost;                /* so is another rank, as all know */
    enum plait_status marked; /* why a gradient could not be given to the fusion */
    uint64_t exchanges;       /* of elastic averaging, made or left out */
    char nonfinite[200];      /* what was not finite, and where; "": nothing yet on this rank */

    char folder[4096];
    struct keeper *keeper; /* rank 0 */
    struct state *state;   /* contents of a checkpoint */
    struct progress *progress;
};

/**
 * Create this rank's run. Returns NULL on a server of elastic averaging, after it has served.
 *
 * o  settled here; must live as long as the run
 */
struct run *run_create(struct options *o, struct plait_comm *all);
void run_destroy(struct run *r);

/** Have the sums of gradients that the stream has passed arrived? On a device without a stream they have. */
enum plait_status run_sums(const struct run *r);

/** As of the last step that reported. */
const struct plait_loss_scale *run_scale(const struct run *r);
/** Of the gradients. */
enum precision run_precision(const struct run *r);

/** Choose and create the run's folder on rank 0, and tell all ranks its name. Collective; an error ends the process. */
void folder_choose(struct run *r);

void totals_add(struct totals *sum, const struct totals *more);
/** Sum over ranks, in place. */
enum plait_status totals_sum(struct plait_comm *comm, struct totals *totals);

/** Top-1, top-5 and loss on the validation images, over all ranks, with the result on all ranks. */
enum plait_status evaluate(struct run *r, struct totals *out);

struct state *state_create(struct run *r);
void state_destroy(struct state *s);
/** Collective: rank 0 writes a checkpoint in the background. */
enum plait_status state_save(struct run *r, bool best);
/** Is the last checkpoint on the disk? Collective. Returns false after a message. */
bool state_saved(struct run *r);
/** Not collective: save what this rank knows after another was lost. Returns NULL, or the error. */
const char *state_save_alone(struct run *r);
/** Continue from the newest checkpoint of --resume, or from the weights of --weights. Collective. */
void state_load(struct run *r);

/** Describe what a rank's memory is used for. */
void memory_text(const struct run *r, char *out, size_t room);
/** What of a step is CUDA graphs; NULL: nothing. */
const char *graphs_text(const struct run *r);
/** Print what a run would be like, after a calibration of 2 seconds. */
void dry_run(struct run *r);

/** Plot the curves of one or several runs. Returns the exit status. */
int plot_runs(const char *const *folders, uint32_t n, const char *path);

#endif
