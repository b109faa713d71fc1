/* SPDX-License-Identifier: BSD-3-Clause */
#include "simulate.h"

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

static int compare(const void *a, const void *b)
{
    const struct report_row *x = a, *y = b;

    return (x->p.time > y->p.time) - (x->p.time < y->p.time);
}

json_t *names_json(const char *names)
{
    json_t *list = json_array();

    for (; *names != '\0'; names += strspn(names, ", ")) {
        json_array_append_new(list, json_stringn(names, strcspn(names, ",")));
        names += strcspn(names, ",");
    }
    return list;
}

static void print_json(const struct report *r)
{
    json_t *list = json_array();

    for (size_t i = 0; i < r->n; i++) {
        const struct plait_prediction *p = &r->rows[i].p;
        json_array_append_new(
            list, json_pack("{s:s, s:f, s:f, s:s, s:f, s:f, s:f, s:f, s:I, s:I, s:I}", "algorithm", r->rows[i].spec,
                            "time_us", 1e-6 * (double)p->time, "bound_us", 1e-6 * (double)p->bound, "busiest",
                            p->busiest, "latency_us", 1e-6 * (double)p->path.latency, "transfer_us",
                            1e-6 * (double)p->path.transfer, "compute_us", 1e-6 * (double)p->path.compute, "waiting_us",
                            1e-6 * (double)p->path.waiting, "messages", (json_int_t)p->messages, "message_bytes",
                            (json_int_t)p->bytes, "slices", (json_int_t)p->slices));
    }
    json_t *root =
        json_pack("{s:s, s:s, s:i, s:I, s:o, s:o}", "machine", r->d.machine->name, "collective",
                  plait_coll_name(r->d.shape->coll), "ranks", (int)r->d.shape->nrank, "bytes",
                  (json_int_t)(r->d.count * sizeof(float)), "algorithms", list, "not_simulated", names_json(r->large));
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

static int simulate_all(const struct scene *scene, const struct plait_shape *shape, const char *spec, size_t count,
                        const struct simulate_options *o)
{
    struct report_row rows[MOST_ALGORITHMS];
    char large[512] = "";
    struct plait_forecast *f = scene_forecast(scene, shape, spec, 0, large, sizeof large);
    struct report r = { .d = { .machine = &scene->machine, .shape = shape, .count = count },
                        .rows = rows,
                        .large = large };
    bool ok = f != NULL;

    for (uint32_t k = 0; ok && r.n < MOST_ALGORITHMS && plait_forecast_algorithm(f, k) != NULL; k++) {
        struct report_row *row = &rows[r.n];
        snprintf(row->spec, sizeof row->spec, "%s", plait_forecast_algorithm(f, k));
        const enum plait_status status = plait_forecast_time(f, k, PLAIT_FLOAT32, count, &row->p);
        if (status == PLAIT_ERR_UNSUPPORTED && spec == NULL)
            list_add(large, sizeof large, row->spec);
        else
            ok = status == PLAIT_OK || complain("%s: %s", row->spec, plait_last_error());
        r.n += status == PLAIT_OK;
    }
    if (ok && r.n == 0)
        ok = complain("every algorithm takes long to simulate; take fewer ranks or bytes");
    plait_forecast_destroy(f);
    if (!ok)
        return f == NULL ? 2 : 1;
    qsort(rows, r.n, sizeof *rows, compare);
    r.d.spec = rows[0].spec;
    r.d.p = rows[0].p;
    if (o->report != NULL && !report_write(o->report, &r))
        return 1;
    if (o->json) {
        print_json(&r);
        return 0;
    }
    printf("%s\n%s of %zu bytes, %" PRIu32 " ranks\n\n", scene->machine.name, plait_coll_name(shape->coll),
           count * sizeof(float), shape->nrank);
    print_table(rows, r.n);
    if (large[0] != '\0')
        printf("Not simulated, since that takes long: %s. Name one to wait for it.\n", large);
    return 0;
}

/* Options that do not go together end the program. */
static void check_options(const struct plait_shape *shape, const struct simulate_options *o)
{
    if ((o->sweep != NULL) + (o->scale != NULL || o->step != NULL) > 1)
        option_misuse("--sweep %s: does not go with --step or --scale; give one of them", o->sweep);
    if (o->step != NULL && shape->coll != PLAIT_ALLREDUCE)
        option_misuse("--step %s: gradients travel by all-reduce; leave out %s", o->step, plait_coll_name(shape->coll));
    if (o->trace != NULL && (o->sweep != NULL || o->scale != NULL))
        option_misuse("--trace %s: is of one operation or step; leave out --sweep and --scale", o->trace);
    const char *other = o->sweep != NULL       ? "--sweep"
                        : o->scale != NULL     ? "--scale"
                        : o->step != NULL      ? "--step"
                        : o->what_if != NULL   ? "--what-if"
                        : o->placement != NULL ? "--placement"
                                               : NULL;
    if (o->report != NULL && other != NULL)
        option_misuse("--report %s: is of one operation on one machine; leave out %s", o->report, other);
}

int simulate(const struct plait_machine *m, const struct plait_shape *shape, const char *spec, size_t count,
             const struct simulate_options *o)
{
    struct scene scenes[2] = { { .machine = *m }, { .machine = *m } };
    const int n = o->what_if != NULL || o->placement != NULL ? 2 : 1;
    struct plait_shape s = *shape;
    int status;

    check_options(shape, o);
    if (o->what_if != NULL)
        scene_change(&scenes[1], o->what_if);
    if (plait_machine_check(&scenes[1].machine) != PLAIT_OK)
        option_misuse("--what-if %s: %s", o->what_if, plait_last_error());
    if (o->placement != NULL)
        scene_place(&scenes[1], o->placement, shape->nrank);
    s.inplace |= o->step != NULL;
    if (o->scale != NULL || o->step != NULL || o->sweep != NULL || n > 1)
        status = step_run(scenes, n, &s, spec, count, o);
    else
        status = simulate_all(&scenes[0], shape, spec, count, o);
    if (status == 0 && o->trace != NULL && o->step == NULL)
        status = !trace_write(&scenes[n - 1], shape, spec, count, o->trace);
    free(scenes[1].place);
    return status;
}
