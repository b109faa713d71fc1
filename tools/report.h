/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-plan simulate --report: one HTML page with the table, pictures of the fastest algorithm, and what to try. */
#ifndef PLAIT_TOOLS_REPORT_H
#define PLAIT_TOOLS_REPORT_H

#include "draw.h"

struct report_row {
    char spec[PLAIT_MAX_SPEC];
    struct plait_prediction p;
};

struct report {
    struct drawing d; /* of the fastest algorithm */
    const struct report_row *rows;
    size_t n;          /* at least 1; the fastest first */
    const char *large; /* names that were not simulated; "": none */
};

/** Write the page. Returns false after a message. */
bool report_write(const char *path, const struct report *r);

#endif
