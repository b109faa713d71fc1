/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The user's options: options.c has the table. Where its text says "chosen", 0 and NULL are replaced by settle.c. A
 * resumed run takes its options from the checkpoint (recall.c).
 */
#ifndef PLAIT_TRAIN_OPTIONS_H
#define PLAIT_TRAIN_OPTIONS_H

#include "layout.h"
#include "model.h"
#include "option.h"
#include "safetensors.h"

#include <plait/coll.h>
#include <plait/optim.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OPTIONS_MOST = 90 };

enum command { COMMAND_TRAIN, COMMAND_MAKE_DATA, COMMAND_PLOT };

enum decoder { DECODER_CPU, DECODER_NVJPEG };

enum polish { POLISH_WEIGHTS, POLISH_STATISTICS };

struct options {
    enum command command;
    struct option_given given[OPTIONS_MOST]; /* for each row of the table */
    char **paths;                            /* [npath] arguments that are no options */
    uint32_t npath;
    const char *data; /* an argument, or --data-path */

    uint64_t pixels, data_threads, queue, groups;
    double jitter, least_area;
    bool in_memory;
    int broken_fatal; /* true or false */
    enum decoder decoder;

    const char *model;
    enum precision precision;
    bool amp;
    bool cuda;
    int64_t gpu; /* its number; -1: by the ranks of a machine */
    bool tf32, nondeterministic, graph;
    bool recalled; /* --resume: what the checkpoint has of these options is here */
    uint64_t threads, micro;
    bool sync_norm;
    int zero_last; /* negative: chosen by the model */

    uint64_t epochs, steps, batch, seed;
    enum plait_optim_method method;
    double rate, warmup, power, rate_end, step_epochs, gamma, momentum, weight_decay, eta, smoothing, tail;
    enum plait_decay_rule decay;
    bool nesterov, decay_all, reproducible;
    double loss_scale; /* 0: dynamic */
    uint64_t polish;
    enum polish polish_kind;

    enum plait_dtype payload;
    struct layout bucket; /* rule NRULE: thresholds of a size that is chosen */
    bool overlap;
    const char *algorithm;
    int elastic; /* enum plait_elastic_mode; -1: synchronous SGD */
    uint64_t period, servers;
    double beta;

    uint64_t ranks; /* 0: those of the launcher, or one */

    const char *run, *resume, *weights, *trace, *plot;
    uint64_t keep, save_every, evaluate_every, log_every, print_every;
    bool dry_run, evaluate_only, new_classifier;

    uint64_t classes, train_images, val_images; /* make-data */
};

/** "fp32", "bf16", "fp16" */
const char *options_precision(const struct options *o);

/** Returns false after a message. */
bool options_parse(int argc, char **argv, struct options *out);
void options_help(void);

/** The option of this name, as the user wrote it: "-b" or "--batch-size" of "batch"; else "--batch". */
const char *options_flag(const struct options *o, const char *name);

/**
 * Check that each given option has an effect; for a resumed run, once its options are known. Returns false after a
 * message.
 */
bool options_needed(const struct options *o);

/** Check for options that exclude each other, whatever the data. Returns false after a message. */
bool options_check(const struct options *o);

/**
 * The k-th option that shapes the result of a run, as a note of its checkpoint; the value is "" if unset. Returns false
 * when there are only k.
 */
bool options_kept(const struct options *o, uint32_t k, struct note *out);

/**
 * The k-th option that all ranks must be given alike, and its value as text; "" where it is not given and the
 * checkpoint has it or it is chosen. A file is "given": it may have another name on each host. Returns false when there
 * are only k.
 */
bool options_alike(const struct options *o, uint32_t k, struct note *out);

/**
 * Take the options of a run's checkpoint, except those given here. Returns false after a message when one does not fit
 * the run's state.
 *
 * notes       of the checkpoint, from options_kept(); must live as long as the options
 * same_ranks  this run has as many ranks as that one had
 */
bool options_recall(struct options *o, const struct note *notes, bool same_ranks);

/** Choose types that are unset; also on servers, which do not see the data. */
void options_settle_types(struct options *o);

/**
 * Choose unset options, and check what depends on the data and the number of ranks. Returns false after a message.
 *
 * images   for training
 * nworker  ranks that train
 * cpus     processors of this rank
 */
bool options_settle(struct options *o, uint64_t images, uint32_t nworker, uint32_t cpus);

#endif
