/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The optimiser step for gradients of all ranks: SGD with momentum and LARS on fp32 master weights, loss scaling, and
 * learning rate schedules.
 *
 *     for every tensor t (or, of a sharded fusion, every piece):
 *         parts[t] = (struct plait_optim_part){ t, count, gradient, PLAIT_FLOAT16, master, weight, PLAIT_FLOAT16,
 *                                               bias or batch norm ? PLAIT_OPTIM_PLAIN : 0 };
 *     struct plait_optim_options o = PLAIT_OPTIM_OPTIONS_DEFAULT;
 *     o.parts = parts; o.npart = 161; o.ntensor = 161;
 *     plait_optim_create(&o, &optim);
 *
 *     for every step:
 *         loss times loss_scale.scale; backward pass; the gradients of all ranks (fusion.h)
 *         step.lr = plait_schedule_at(&schedule, i);
 *         step.factor = 1 / loss_scale.scale;
 *         plait_optim_step(optim, &step, &result);
 *         plait_loss_scale_update(&loss_scale, result.finite);
 *
 * With options.scale a step divides by the scale and updates it. A caller on a GPU then need not wait for a result: its
 * kernels multiply the loss by the scale that lies in the GPU's memory.
 *
 * A step, for each weight w of a tensor, with its gradient g times `factor`, its momentum v, and lr, decay and momentum
 * as the options and the step say:
 *
 *     d = trust (g + decay w)                 decay 0 with PLAIT_OPTIM_NO_DECAY
 *     v = momentum v + lr d                   lr_in_momentum 0: v = momentum v + d
 *     w = w - v                               lr_in_momentum 0: w = w - lr v
 *     nesterov: in the place of v above, w takes momentum v + lr d (lr_in_momentum 0: momentum v + d)
 *
 *     trust = 1                               SGD, and with PLAIT_OPTIM_NO_TRUST
 *     trust = eta |w| / (|g| + norm_decay |w| + eps)     LARS; 1 where |w| or |g| is 0
 *
 * |w| and |g| are norms of the whole tensor. Sums of squares and the trust are double precision; the rest is fp32,
 * rounded after every operation. Trust times factor, and trust times decay, are at most the largest float32.
 *
 * A step whose gradients have an infinity or a NaN is skipped on all ranks, and result.finite is 0. So is one whose
 * gradients times factor have a norm too large for float32. With check 0 gradients of SGD, and of parts with NO_TRUST,
 * are not checked. A rate or a decay that makes weights infinite shows in the next gradients that are computed from
 * them.
 *
 * A step makes three passes over all tensors together, without atomics. The first adds up squares. The second computes
 * the trusts from a few numbers for each tensor. The third reads gradient, master and momentum once and writes master,
 * momentum and copy once. Sums are formed in a fixed order: the bits are the same in every run and with every
 * instruction set.
 *
 * Forms of LARS: lr_in_momentum 1 and norm_decay as decay: You, Gitman, Ginsburg 2017 (arXiv 1708.03888), and
 * TensorFlow's. norm_decay 0 leaves decay out of the norm. lr_in_momentum 0: a change of lr acts on old gradients too,
 * as PyTorch's SGD. Yamazaki et al. 2019 (arXiv 1903.12650) as released: norm_decay is decay times the base rate, and
 * step.decay lets the decay follow a schedule of its own.
 * GPUs:   with options.stream, which lives as long as the optimiser, all parts are memory of its GPU, aligned to their
 *         elements. A step is queued on the stream: it reads data that the stream has written, and later operations
 *         find the new weights. The call returns when the step is queued, but waits for the stream if a result is asked
 *         for. A captured graph keeps the step's numbers of the capture, but reads and updates the loss scale whenever
 *         it runs. The bits are those of the host unless norms differ in the last digits of a double.
 * Sharded (comm): each rank has parts of the tensors; one all-reduce of 2 ntensor + 3 doubles (SGD: 3) brings norms,
 * the verdict on infinities, and whether all ranks make the same step.
 */
#ifndef PLAIT_OPTIM_H
#define PLAIT_OPTIM_H

#include <plait/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

struct plait_optim;
struct plait_loss_scale;

enum plait_optim_method { PLAIT_OPTIM_SGD, PLAIT_OPTIM_LARS };

/* Flags of a part; all parts of a tensor have the same. */
#define PLAIT_OPTIM_NO_DECAY 1u
#define PLAIT_OPTIM_NO_TRUST 2u
#define PLAIT_OPTIM_PLAIN    (PLAIT_OPTIM_NO_DECAY | PLAIT_OPTIM_NO_TRUST) /* biases, batch norm: Jia et al. 2018 */

struct plait_optim_part {  /* a tensor, or a part of one; masters must not overlap */
    uint32_t tensor;       /* below options.ntensor */
    size_t count;          /* elements, 1 or more */
    const void *gradient;  /* [count] */
    enum plait_dtype type; /* of the gradient: float32, or a float of 16 or 8 bits */
    float *master;         /* [count] the weights; the caller may change them between steps */
    void *copy; /* [count] written in every step with streaming stores: the weights for the next pass; NULL: none */
    enum plait_dtype copy_type; /* as `type`: rounded to nearest even */
    unsigned flags;
};

/* Start from PLAIT_OPTIM_OPTIONS_DEFAULT. With comm all but the parts must be equal on all ranks. */
struct plait_optim_options {
    size_t size;                          /* sizeof (struct plait_optim_options) */
    const struct plait_optim_part *parts; /* copied; what they point to must live as long as the optimiser */
    uint32_t npart;                       /* 0 only with comm */
    uint32_t ntensor;
    enum plait_optim_method method;
    double momentum; /* 0 to below 1 */
    int nesterov;
    int lr_in_momentum;      /* 1: the momentum holds steps; 0: gradients */
    double decay;            /* of weights, 0 or more */
    double eta;              /* LARS: the trust coefficient, above 0 */
    double eps;              /* LARS: 0 or more */
    double norm_decay;       /* LARS: of |w| in the denominator, 0 or more; below 0: the step's decay */
    int check;               /* 1: check all gradients for infinities and NaNs; 0: only those whose norm is needed */
    struct plait_comm *comm; /* sharded; it must live as long as the optimiser. NULL: parts are whole tensors */
    struct plait_stream *stream; /* a CUDA stream, on all ranks or on none, see above. NULL: parts are host memory */
    /*
     * Each step divides `factor` by scale->scale, and then updates the scale with its own verdict, as
     * plait_loss_scale_update(). The scale lies in the memory of the parts (with stream the GPU's), aligned to 8 bytes.
     * It is set before plait_optim_create(), lives as long as the optimiser, and no other one uses it. The caller may
     * read and write it between steps, with stream in the order of the stream. With comm it must be equal on all ranks.
     * On a GPU its values are not checked; steps are skipped while `scale` is 0, negative or a NaN. NULL: none
     */
    struct plait_loss_scale *scale;
};
#define PLAIT_OPTIM_OPTIONS_DEFAULT                                                                                    \
    {                                                                                                                  \
        sizeof(struct plait_optim_options), NULL, 0, 0, PLAIT_OPTIM_LARS, 0.9, 0, 1, 5e-5, 1e-3, 0, -1, 1, NULL, NULL, \
            NULL                                                                                                       \
    }

/**
 * Make an optimiser of parts. Its momentum is 0.
 *
 * options  copied, parts too
 * out      written only on success; free it with plait_optim_destroy()
 * Order:   with comm collective
 * Thread:  one for an optimiser; with comm also as for plait_allreduce()
 * Errors:  PLAIT_ERR_ARG (with comm also: a group is open; memory that is not where options.stream says, named),
 *          PLAIT_ERR_NOMEM, PLAIT_ERR_CONFIG (PLAIT_ISA), PLAIT_ERR_SYSTEM (the driver); with comm PLAIT_ERR_MISMATCH
 *          on every rank: names the option that differs, or the rank with wrong arguments and its error; those of
 *          plait_allgather()
 * Cost:    4 bytes for every element, and 8 for every tensor
 */
PLAIT_API enum plait_status plait_optim_create(const struct plait_optim_options *options, struct plait_optim **out);

/** Free it; on a GPU after all operations on options.stream. NULL is allowed. Thread: one for an optimiser. */
PLAIT_API void plait_optim_destroy(struct plait_optim *optim);

/**
 * The momentum of part `part`: [count] floats of the optimiser's, aligned to 64 bytes, to be saved and restored between
 * steps. On a GPU it is GPU memory, in the order of options.stream. NULL: no such part.
 *
 * Thread: any; no thread may write it during a step
 */
PLAIT_API float *plait_optim_momentum(struct plait_optim *optim, uint32_t part);

/* Start from PLAIT_OPTIM_STEP_DEFAULT. With comm all but squares must be equal on all ranks. */
struct plait_optim_step {
    size_t size;   /* sizeof (struct plait_optim_step) */
    double lr;     /* 0 or more */
    double factor; /* of gradients, applied first: 1 / loss scale (without options.scale), 1 / ranks. Above 0 */
    double decay;  /* multiplies the options' decay, 0 or more */
    /*
     * [npart] sums of squares of each part's gradient before `factor`, if known (plait_piece.square, of a fusion with
     * options.check); NULL: the first pass reads it. On a GPU NULL
     */
    const double *squares;
};
#define PLAIT_OPTIM_STEP_DEFAULT                             \
    {                                                        \
        sizeof(struct plait_optim_step), 0.0, 1.0, 1.0, NULL \
    }

struct plait_optim_result {
    /*
     * 0: gradients times factor had an infinity, a NaN, or a norm too large for float32; nothing was changed, on any
     * rank
     */
    int finite;
    double norm; /* of all checked gradients, times factor, divided by the loss scale of options.scale */
};

/**
 * One step.
 *
 * result  may be NULL
 * Order:  with comm collective
 * Thread: one for an optimiser; with comm also as for plait_allreduce()
 * Result: with comm the ranks have the same norms, bit for bit. A tensor that lies whole on one rank, and any tensor
 *         with SGD, gets the same bits as without comm. The norm of a tensor in parts is a sum of sums, which may
 *         differ from the whole's in the last digits of a double.
 * Errors: PLAIT_ERR_ARG (on the host also: *options.scale is wrong, the member is named; with comm also: a group is
 *         open; nothing was changed); with comm PLAIT_ERR_MISMATCH on every rank (lr, factor, decay or the loss scale
 *         differ; nothing was changed) and those of plait_allreduce(). On a GPU PLAIT_ERR_UNSUPPORTED (a result is
 *         asked for, and the stream is captured), PLAIT_ERR_SYSTEM (the driver; with comm it has failed). Without a
 *         result a later step reports a mismatch, when the mismatching step has completed. If the comm fails while a
 *         step is on the stream, weights and loss scale are lost
 * Cost:   reads gradient (twice, without squares), master (twice, for LARS) and momentum, writes master, momentum and
 *         copy
 */
PLAIT_API enum plait_status plait_optim_step(struct plait_optim *optim, const struct plait_optim_step *step,
                                             struct plait_optim_result *result);

/*
 * Loss scaling (Micikevicius et al. 2018): the loss is multiplied by `scale`, so that small gradients do not vanish in
 * 16 bits; the step undoes it (options.scale), or its factor. The caller's memory; start from one of the two below.
 */
struct plait_loss_scale {
    double scale;   /* now */
    double growth;  /* multiplies scale after `interval` finite steps in succession; 1 or more */
    double backoff; /* multiplies scale after a skipped step; above 0, at most 1 */
    double least;   /* scale stays between least and most; above 0 */
    double most;
    uint32_t interval; /* 0: static, the scale does not change */
    uint32_t good;     /* finite steps since the last change */
    uint64_t skipped;  /* steps that were not finite */
};
#define PLAIT_LOSS_SCALE_DYNAMIC               \
    {                                          \
        65536, 2, 0.5, 1, 16777216, 2000, 0, 0 \
    }
#define PLAIT_LOSS_SCALE_STATIC(scale)           \
    {                                            \
        (scale), 1, 1, (scale), (scale), 0, 0, 0 \
    }

/**
 * Call after a step without options.scale: the scale grows or backs off. Ranks that pass the step's result.finite keep
 * the same scale.
 *
 * Thread: one for a scale
 * Errors: PLAIT_ERR_ARG (names the member); nothing was changed
 */
PLAIT_API enum plait_status plait_loss_scale_update(struct plait_loss_scale *scale, int finite);

enum plait_decay_rule {
    PLAIT_DECAY_NONE,
    PLAIT_DECAY_POLYNOMIAL, /* (1 - end) (1 - t / steps)^power + end */
    PLAIT_DECAY_STEPS,      /* product of one gamma for each milestone that step has reached */
    PLAIT_DECAY_COSINE      /* (1 - end) (1 + cos(pi t / steps)) / 2 + end */
};

/*
 * The learning rate (or a factor) over the steps: a linear warm-up, then `base` times the rule's value at t = step -
 * warmup; from t = steps on base times end. Start from PLAIT_SCHEDULE_DEFAULT.
 */
struct plait_schedule {
    size_t size; /* sizeof (struct plait_schedule) */
    double base;
    double warmup; /* steps; 0: none */
    double start;  /* step 0 of the warm-up has base times start */
    enum plait_decay_rule rule;
    double steps;             /* of the decay, after the warm-up; above 0 */
    double power;             /* above 0 */
    double end;               /* 0 or more */
    const double *milestones; /* [nmilestone] steps from the beginning, warm-up included, increasing */
    uint32_t nmilestone;
    double gamma; /* above 0 */
};
#define PLAIT_SCHEDULE_DEFAULT                                                            \
    {                                                                                     \
        sizeof(struct plait_schedule), 0.1, 0, 0, PLAIT_DECAY_NONE, 1, 2, 0, NULL, 0, 0.1 \
    }

/**
 * The schedule's value at a step, which may be a fraction. NaN: the schedule or the step is wrong; plait_last_error()
 * says what is wrong.
 *
 * Thread: any
 * Source: warm-up: Goyal et al. 2017 (arXiv 1706.02677). Yamazaki et al. 2019 as released: warmup 540, polynomial of
 *         power 2.2 over 780 steps, end 0.0025, base 13.
 */
PLAIT_API double plait_schedule_at(const struct plait_schedule *schedule, double step);

#ifdef __cplusplus
}
#endif
#endif
