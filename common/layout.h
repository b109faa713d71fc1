/* SPDX-License-Identifier: BSD-3-Clause */
/* Fusion layouts by name: the library's rules, and those of others made with its cuts. */
#ifndef PLAIT_COMMON_LAYOUT_H
#define PLAIT_COMMON_LAYOUT_H

#include <plait/fusion.h>

#include <stdbool.h>
#include <stdint.h>

/* How tensors are cut into buckets. */
enum rule {
    RULE_THRESHOLD,
    RULE_SEGMENTS, /* two buckets, the first with three quarters of the elements: Jia et al.'s for ResNet-50 */
    RULE_CUBIC,
    RULE_DDP,     /* PyTorch's: full at 1 MiB, then at 25 MiB */
    RULE_HOROVOD, /* at most 64 MiB per bucket */
    RULE_CUTS,    /* as given */
    NRULE,
};

#define MOST_CUTS   60  /* given as text: a checkpoint keeps 255 characters */
#define LAYOUT_TEXT 256 /* bytes of any name */

struct layout { /* of a row */
    uint32_t rule;
    uint32_t ncut;
    uint64_t threshold;       /* RULE_THRESHOLD: bytes of payload, SIZE_MAX for one bucket */
    uint32_t cuts[MOST_CUTS]; /* RULE_CUTS: [ncut] increasing numbers of the first tensors of further buckets */
};

#define LAYOUT_NAMES "threshold:SIZE, threshold:all, segments, cubic, ddp, horovod or cuts:A+B+... (0 < A < B)"

/* Parse one of LAYOUT_NAMES. Returns false for other names. */
bool layout_parse(const char *text, struct layout *out);
void layout_name(const struct layout *l, char *out, size_t room);

/*
 * The layout as the library takes it.
 *
 * count  [n] elements of the tensors as they appear, each of `width` bytes of payload
 * cuts   [n] memory that `out` then points to, but for RULE_CUTS, whose own it has; they may not fit n
 */
void layout_make(const struct layout *l, const uint64_t *count, uint32_t n, size_t width, uint32_t *cuts,
                 struct plait_layout *out);

#endif
