/* SPDX-License-Identifier: BSD-3-Clause */
#include "layout.h"

#include "base/ascii.h"
#include "base/bytes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)

static const char *const names[NRULE] = {
    [RULE_THRESHOLD] = "threshold", [RULE_SEGMENTS] = "segments", [RULE_CUBIC] = "cubic", [RULE_DDP] = "ddp",
    [RULE_HOROVOD] = "horovod",     [RULE_CUTS] = "cuts",
};

/* "4+28" */
static bool parse_cuts(const char *text, struct layout *out)
{
    *out = (struct layout){ .rule = RULE_CUTS };
    do {
        char *end;
        const unsigned long cut = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
        const uint32_t last = out->ncut > 0 ? out->cuts[out->ncut - 1] : 0;
        if (cut <= last || cut > UINT32_MAX || out->ncut == MOST_CUTS || (*end != '+' && *end != '\0'))
            return false;
        out->cuts[out->ncut++] = (uint32_t)cut;
        text = *end == '+' ? end + 1 : NULL;
    } while (text != NULL);
    return true;
}

bool layout_parse(const char *text, struct layout *out)
{
    static const char threshold[] = "threshold:", cuts[] = "cuts:";
    size_t bytes = SIZE_MAX;

    if (strncmp(text, threshold, sizeof threshold - 1) == 0) {
        text += sizeof threshold - 1;
        if (strcmp(text, "all") != 0 && (!plait_parse_bytes(text, &bytes) || bytes == 0))
            return false;
        *out = (struct layout){ .threshold = bytes };
        return true;
    }
    if (strncmp(text, cuts, sizeof cuts - 1) == 0)
        return parse_cuts(text + sizeof cuts - 1, out);
    for (uint32_t i = RULE_THRESHOLD + 1; i < RULE_CUTS; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (struct layout){ .rule = i };
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
        for (uint32_t k = 0; l->rule == RULE_CUTS && k < l->ncut; k++)
            plait_append(out, room, "%c%" PRIu32, k == 0 ? ':' : '+', l->cuts[k]);
        return;
    }
    for (; bytes % 1024 == 0 && i < 3; i++)
        bytes /= 1024;
    if (l->threshold == SIZE_MAX)
        snprintf(out, room, "threshold:all");
    else
        snprintf(out, room, "threshold:%" PRIu64 "%s", bytes, units[i]);
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
    case RULE_CUTS:
        out->cuts = l->cuts;
        out->ncut = l->ncut;
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
