/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the user asked for: options.c has the table. 0 and NULL, where its text says "chosen", are settled by settle.c. A run
 * that goes on takes what it was from its checkpoint (recall.c).
 */
#ifndef PLAIT_TRAIN_OPTIONS_H
#define PLAIT_TRAIN_OPTIONS_H

#include "model.h"
#include "safetensors.h"

#include <plait/coll.h>
#include <plait/optim.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OPTIONS_MOST = 80 };
#define BUCKET_CHOSEN (SIZE_MAX - 1)

enum command { COMMAND_TRAIN, COMMAND_MAKE_DATA, COMMAND_PLOT };

enum polish { POLISH_WEIGHTS, POLISH_STATISTICS };

struct options {
    enum command command;
    bool given[OPTIONS_MOST]; /* by the table's rows */
    char **paths;             /* [npath] arguments that are no options */
    uint32_t npath;
    const char *data;

    uint64_t pixels, data_threads, queue, groups;
    double jitter, least_area;
    bool in_memory, broken_fatal;

    const char *model;
    enum precision precision;
    uint64_t threads, micro;
    bool sync_norm;
    int zero_last; /* below 0: chosen by the model */

    uint64_t epochs, steps, batch, seed;
    enum plait_optim_method method;
    double rate, warmup, power, rate_end, momentum, weight_decay, eta, smoothing, tail;
    enum plait_decay_rule decay;
    bool nesterov, decay_all, reproducible;
    double loss_scale; /* 0: dynamic */
    uint64_t polish;
    enum polish polish_kind;

    enum plait_dtype payload;
    size_t bucket;
    bool overlap;
    const char *algorithm;
    int elastic; /* enum plait_elastic_mode; -1: synchronous SGD */
    uint64_t period, servers;
    double beta;

    uint64_t ranks; /* 0: those of the launcher, or one */

    const char *run, *resume, *weights, *trace, *plot;
    uint64_t keep, save_every, evaluate_every, log_every;
    bool dry_run, evaluate_only, new_classifier;

    uint64_t classes, train_images, val_images; /* make-data */
};

/** false after a message. */
bool options_parse(int argc, char **argv, struct options *out);
void options_help(void);

/** Has each option that was given an effect? Of a run that goes on, once it is known what it was. false after a message. */
bool options_needed(const struct options *o);

/** What excludes each other whatever the data. false after a message. */
bool options_check(const struct options *o);

/** The k-th option that shapes what comes out of a run, as a note of its checkpoint; the value is "" where nothing is set.
 *  false: there are only k. */
bool options_kept(const struct options *o, uint32_t k, struct note *out);

/**
 * Go on as a run was, but with what is given here. false after a message: that makes no sense of its state.
 *
 * notes       of its checkpoint, by options_kept(); they must live as long as the options
 * same_ranks  there are as many as there were
 */
bool options_recall(struct options *o, const struct note *notes, bool same_ranks);

/** Choose the types that were left open: of servers, too, which know no data. */
void options_settle_types(struct options *o);

/**
 * Choose what was left open, check what depends on the data and the number of ranks.
 *
 * images   for training
 * nworker  ranks that train
 * cpus     processors of this rank
 */
bool options_settle(struct options *o, uint64_t images, uint32_t nworker, uint32_t cpus);

#endif
