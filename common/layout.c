/* SPDX-License-Identifier: BSD-3-Clause */
#include "layout.h"

#include "base/bytes.h"

#include <stdio.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)

static const char *const names[NRULE] = {
    [RULE_THRESHOLD] = "threshold", [RULE_SEGMENTS] = "segments", [RULE_CUBIC] = "cubic", [RULE_DDP] = "ddp",
    [RULE_HOROVOD] = "horovod",
};

bool layout_parse(const char *text, struct layout *out)
{
    static const char threshold[] = "threshold:";
    size_t bytes = SIZE_MAX;

    if (strncmp(text, threshold, sizeof threshold - 1) == 0) {
        text += sizeof threshold - 1;
        if (strcmp(text, "all") != 0 && (!plait_parse_bytes(text, &bytes) || bytes == 0))
            return false;
        *out = (struct layout){ RULE_THRESHOLD, bytes };
        return true;
    }
    for (uint32_t i = RULE_THRESHOLD + 1; i < NRULE; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (struct layout){ i, 0 };
            return true;
        }
    return false;
}

void layout_name(const struct layout *l, char *out, size_t room)
{
    const char *const units[] = { "", "K", "M", "G" };
    uint64_t bytes = l->threshold;
    int i = 0;

    if (l->rule != RULE_THRESHOLD) {
        snprintf(out, room, "%s", names[l->rule]);
        return;
    }
    for (; bytes % 1024 == 0 && i < 3; i++)
        bytes /= 1024;
    if (l->threshold == SIZE_MAX)
        snprintf(out, room, "threshold:all");
    else
        snprintf(out, room, "threshold:%llu%s", (unsigned long long)bytes, units[i]);
}

/* Cut at 74 %: that much of ResNet-50's gradients lies behind the cut between its layers 76 and 77. */
static uint32_t cut_segments(const uint64_t *count, uint32_t n, uint32_t *cuts)
{
    uint64_t all = 0, sum = 0;

    for (uint32_t i = 0; i < n; i++)
        all += count[i];
    for (uint32_t i = 0; i + 1 < n; i++) {
        sum += count[i];
        if (100 * sum >= 74 * all) {
            cuts[0] = i + 1;
            return 1;
        }
    }
    return 0;
}

static uint32_t cut_ddp(const uint64_t *count, uint32_t n, size_t width, uint32_t *cuts)
{
    uint64_t bytes = 0;
    uint32_t ncut = 0;

    for (uint32_t i = 0; i + 1 < n; i++) {
        bytes += count[i] * width;
        if (bytes >= (ncut == 0 ? 1 : 25) * MIB) {
            cuts[ncut++] = i + 1;
            bytes = 0;
        }
    }
    return ncut;
}

static uint32_t cut_horovod(const uint64_t *count, uint32_t n, size_t width, uint32_t *cuts)
{
    uint64_t bytes = 0;
    uint32_t ncut = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (i > 0 && bytes + count[i] * width > 64 * MIB) {
            cuts[ncut++] = i;
            bytes = 0;
        }
        bytes += count[i] * width;
    }
    return ncut;
}

void layout_make(const struct layout *l, const uint64_t *count, uint32_t n, size_t width, uint32_t *cuts,
                 struct plait_layout *out)
{
    *out = (struct plait_layout){ .rule = PLAIT_LAYOUT_CUTS, .cuts = cuts };
    switch ((enum rule)l->rule) {
    case RULE_THRESHOLD:
        *out = (struct plait_layout){ .rule = PLAIT_LAYOUT_THRESHOLD, .threshold = l->threshold };
        break;
    case RULE_CUBIC:
        *out = (struct plait_layout){ .rule = PLAIT_LAYOUT_CUBIC };
        break;
    case RULE_SEGMENTS:
        out->ncut = cut_segments(count, n, cuts);
        break;
    case RULE_DDP:
        out->ncut = cut_ddp(count, n, width, cuts);
        break;
    default:
        out->ncut = cut_horovod(count, n, width, cuts);
    }
}
