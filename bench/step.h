/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One step of data-parallel training as a benchmark: gradients appear one after the other in backward order during a
 * computation (a sleep here), and are exchanged in one of several ways. The step ends when all sums are there.
 */
#ifndef PLAIT_BENCH_STEP_H
#define PLAIT_BENCH_STEP_H

#include <plait/fusion.h>

#include <stdbool.h>
#include <stdint.h>

enum scheme {
    SCHEME_OFF,     /* no steps: operations */
    SCHEME_COMPUTE, /* nothing is exchanged */
    SCHEME_UNFUSED, /* each tensor as it appears, blocking */
    SCHEME_FLAT,    /* all at the end, as one operation */
    SCHEME_FUSED,
};

/* How tensors are cut into buckets. */
enum rule {
    RULE_THRESHOLD,
    RULE_SEGMENTS, /* two buckets, the first with three quarters of the elements: Jia et al.'s for ResNet-50 */
    RULE_CUBIC,
    RULE_DDP,     /* PyTorch's: full at 1 MiB, then at 25 MiB */
    RULE_HOROVOD, /* at most 64 MiB per bucket */
    NRULE,
};

struct layout { /* of a row */
    uint32_t rule;
    uint64_t threshold; /* RULE_THRESHOLD: bytes of payload, SIZE_MAX for one bucket */
};

/* Parse "threshold:4M", "threshold:all", "segments", "cubic", "ddp" or "horovod". Returns false for other names. */
bool layout_parse(const char *text, struct layout *out);
void layout_name(const struct layout *l, char *out, size_t room);

/*
 * The layout as the library takes it.
 *
 * count  [n] elements of the tensors as they appear, each of `width` bytes of payload
 * cuts   [n] memory that `out` then points to
 */
void layout_make(const struct layout *l, const uint64_t *count, uint32_t n, size_t width, uint32_t *cuts,
                 struct plait_layout *out);

struct step {        /* what one iteration is */
    uint32_t scheme; /* enum scheme */
    struct layout layout;
    uint32_t payload; /* enum plait_dtype of what travels; gradients are float32 */
    uint32_t own;     /* gradients have their own memory: they are packed and unpacked */
    uint32_t traced;
    uint32_t cell;  /* number of the cell: what was made for another cell's steps is freed */
    double seconds; /* of computation, spread over tensors by their elements */
};

struct step_figures { /* of this rank, since the step was made */
    uint64_t bytes, messages;
    uint32_t nbucket;
    double communicating, hidden; /* seconds; traced steps */
};

#endif
