/* SPDX-License-Identifier: BSD-3-Clause */
#include "simulate.h"

#include "draw.h"
#include "message.h"
#include "option.h"
#include "report.h"
#include "step.h"
#include "trace.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_ALGORITHMS 64
#define MOST_MESSAGES   1000000 /* of an algorithm that was not asked for by name: a minute or so */
#define MOST_AT_ONCE    10000   /* messages at the same time, which share links; likewise */

static int compare(const void *a, const void *b)
{
    const struct report_row *x = a, *y = b;

    return (x->p.time > y->p.time) - (x->p.time < y->p.time);
}

/* Would its simulation take long? */
static bool is_large(const struct plait_alg *alg, const struct plait_shape *shape)
{
    const struct plait_claim c = alg->claim(alg, shape);
    const uint64_t messages = c.rounds * shape->nrank;

    return messages > MOST_MESSAGES || messages / (c.depth > 0 ? c.depth : 1) > MOST_AT_ONCE;
}

bool simulate_takes_long(const char *spec, const struct plait_shape *shape)
{
    struct plait_shape s = *shape;
    const struct plait_alg *alg;

    return plait_alg_find(plait_algs, spec, &s, &alg) == PLAIT_OK && is_large(alg, &s);
}

static void json_path(json_t *o, const struct plait_path *path)
{
    json_object_set_new(o, "latency_us", json_real(1e-6 * (double)path->latency));
    json_object_set_new(o, "transfer_us", json_real(1e-6 * (double)path->transfer));
    json_object_set_new(o, "compute_us", json_real(1e-6 * (double)path->compute));
    json_object_set_new(o, "waiting_us", json_real(1e-6 * (double)path->waiting));
}

static void print_json(const struct plait_machine *m, const struct plait_shape *s, size_t bytes,
                       const struct report_row *rows, size_t n)
{
    json_t *root = json_object(), *list = json_array();

    json_object_set_new(root, "machine", json_string(m->name));
    json_object_set_new(root, "collective", json_string(plait_coll_name(s->coll)));
    json_object_set_new(root, "ranks", json_integer(s->nrank));
    json_object_set_new(root, "bytes", json_integer((json_int_t)bytes));
    for (size_t i = 0; i < n; i++) {
        const struct plait_prediction *p = &rows[i].p;
        json_t *o = json_object();
        json_object_set_new(o, "algorithm", json_string(rows[i].spec));
        json_object_set_new(o, "time_us", json_real(1e-6 * (double)p->time));
        json_object_set_new(o, "bound_us", json_real(1e-6 * (double)p->bound));
        json_object_set_new(o, "busiest", json_string(p->busiest));
        json_path(o, &p->path);
        json_object_set_new(o, "messages", json_integer((json_int_t)p->messages));
        json_object_set_new(o, "message_bytes", json_integer((json_int_t)p->bytes));
        json_object_set_new(o, "slices", json_integer((json_int_t)p->slices));
        json_array_append_new(list, o);
    }
    json_object_set_new(root, "algorithms", list);
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(root);
}

static void print_table(const struct report_row *rows, size_t n)
{
    printf("%-20s %12s %6s  %-22s %7s %8s %7s %7s %9s\n", "algorithm", "time (us)", "bound", "busiest", "latency",
           "transfer", "compute", "waiting", "messages");
    for (size_t i = 0; i < n; i++) {
        const struct plait_prediction *p = &rows[i].p;
        const double all = p->time > 0 ? 1e-2 * (double)p->time : 1;
        printf("%-20s %12.1f %4.0f %%  %-22s %5.0f %% %6.0f %% %5.0f %% %5.0f %% %9" PRIu64 "\n", rows[i].spec,
               1e-6 * (double)p->time, (double)p->bound / all, p->busiest[0] != '\0' ? p->busiest : "-",
               (double)p->path.latency / all, (double)p->path.transfer / all, (double)p->path.compute / all,
               (double)p->path.waiting / all, p->messages);
    }
    printf("\nbound: the share of the time for which the busiest link, memory or processor is needed.\n"
           "latency to waiting: parts of the longest chain of dependent steps.\n");
}

static int simulate_all(const struct plait_machine *m, const struct plait_shape *shape, const char *spec, size_t count,
                        bool json, const char *report)
{
    struct report_row rows[MOST_ALGORITHMS];
    const struct drawing d = { .machine = m, .shape = shape };
    uint32_t *nodes = shape->node == NULL ? draw_nodes(&d) : NULL;
    char large[512] = "";
    size_t n = 0;

    for (const struct plait_alg *const *a = plait_algs; *a != NULL && n < MOST_ALGORITHMS; a++) {
        struct plait_shape s = *shape;
        s.node = nodes != NULL ? nodes : s.node;
        const struct plait_alg *alg;
        const char *name = spec != NULL ? spec : (*a)->name;
        if ((*a)->coll != shape->coll || plait_alg_find(plait_algs, name, &s, &alg) != PLAIT_OK) {
            if (spec == NULL || (*a)->coll != shape->coll)
                continue;
            option_misuse("%s", plait_last_error());
        }
        if (spec == NULL && is_large(alg, &s)) {
            list_add(large, sizeof large, name);
            continue;
        }
        if (plait_simulate(m, name, shape, PLAIT_FLOAT32, count, NULL, &rows[n].p) != PLAIT_OK) {
            complain("%s: %s", name, plait_last_error());
            free(nodes);
            return 1;
        }
        snprintf(rows[n].spec, sizeof rows[n].spec, "%s", name);
        n++;
        if (spec != NULL)
            break;
    }
    free(nodes);
    qsort(rows, n, sizeof *rows, compare);
    const struct report r = { .machine = m, .shape = shape, .count = count, .rows = rows, .n = n, .large = large };
    if (report != NULL && n > 0 && !report_write(report, &r))
        return 1;
    if (json) {
        print_json(m, shape, count * sizeof(float), rows, n);
        return n == 0;
    }
    printf("%s\n%s of %zu bytes, %" PRIu32 " ranks\n\n", m->name, plait_coll_name(shape->coll), count * sizeof(float),
           shape->nrank);
    print_table(rows, n);
    if (large[0] != '\0')
        printf("Not simulated, since that takes long: %s. Name one to wait for it.\n", large);
    return n == 0;
}

int simulate(const struct plait_machine *m, const struct plait_shape *shape, const char *spec, size_t count,
             const struct simulate_options *o)
{
    struct scene scenes[2] = { { .machine = *m }, { .machine = *m } };
    const int n = o->what_if != NULL || o->placement != NULL ? 2 : 1;
    char one[32];
    struct simulate_options own = *o;
    struct plait_shape s = *shape;
    int status;

    if ((o->sweep != NULL) + (o->scale != NULL || o->step != NULL) > 1)
        option_misuse("--sweep %s: does not go with --step or --scale; give one of them", o->sweep);
    if (o->step != NULL && shape->coll != PLAIT_ALLREDUCE)
        option_misuse("--step %s: gradients travel by all-reduce; leave out %s", o->step, plait_coll_name(shape->coll));
    if (o->what_if != NULL)
        scene_change(&scenes[1], o->what_if);
    if (o->placement != NULL)
        scene_place(&scenes[1], o->placement, shape->nrank);
    if (o->trace != NULL && (o->sweep != NULL || o->scale != NULL || o->step != NULL))
        option_misuse("--trace %s: is of one operation; leave out --sweep, --scale and --step", o->trace);
    if (o->step != NULL)
        s.inplace = true;
    if (o->scale != NULL) {
        status = step_scale(scenes, n, &s, spec, count, o);
    } else if (o->step != NULL) {
        status = step_layouts(scenes, n, &s, spec, o);
    } else if (o->sweep != NULL || n > 1) {
        snprintf(one, sizeof one, "%zu", count * sizeof(float));
        own.sweep = o->sweep != NULL ? o->sweep : one;
        status = step_sweep(scenes, n, &s, spec, &own);
    } else {
        status = simulate_all(m, shape, spec, count, o->json, o->report);
    }
    if (status == 0 && o->trace != NULL)
        status = trace_write(&scenes[n - 1], shape, spec, count, o->trace);
    free(scenes[1].place);
    return status;
}
