/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plait-plan simulate --step, --scale and --sweep: points (layouts, numbers of ranks, or sizes), each with the fastest
 * algorithm, on a machine and beside it on a changed one.
 */
#ifndef PLAIT_TOOLS_STEP_H
#define PLAIT_TOOLS_STEP_H

#include "layout.h"
#include "model.h"
#include "scene.h"

#define MOST_POINTS   64
#define RULE_COMPUTED NRULE /* a rule of a layout: the cuts of plait_forecast_cuts() */

struct result {
    uint64_t time; /* ps */
    char algorithm[PLAIT_MAX_SPEC];
    double exposed, efficiency; /* of a step */
    uint32_t nbucket;
    uint32_t *cuts; /* [ncut] of RULE_COMPUTED; or NULL */
    uint32_t ncut;
    char large[256]; /* names of algorithms that were not simulated, with commas between */
};

struct point {
    char label[LAYOUT_TEXT];
    uint64_t x;           /* ranks or bytes */
    struct layout layout; /* or RULE_COMPUTED */
    struct result of[2];  /* on the machine, and on the changed one */
};

struct task {
    const char *what;           /* that differs between points: "layout", "ranks", "bytes" */
    const struct scene *scenes; /* [nscene] */
    int nscene;                 /* 1, or 2 with a changed machine */
    const struct plait_shape *shape;
    const char *spec; /* NULL: the fastest */
    size_t count;     /* of an operation */
    const struct simulate_options *options;
    struct model model; /* n 0: operations */
    struct point points[MOST_POINTS];
    uint32_t n;
};

/* Predict and print. Returns the exit status. */
int step_run(const struct scene *scenes, int nscene, const struct plait_shape *shape, const char *spec, size_t count,
             const struct simulate_options *options);

struct alone { /* a point with one of several changes */
    const char *change;
    struct result result;
};

/* points.c: print the points. alone: [nalone] changes of the point whose usual result is `beside`. */
void points_print(const struct task *t, const struct alone *alone, uint32_t nalone, const struct result *beside);

/* simulate.c: an array of names that have ", " between. */
struct json_t *names_json(const char *names);

#endif
