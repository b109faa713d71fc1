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

#endif
