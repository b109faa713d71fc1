/* SPDX-License-Identifier: BSD-3-Clause */
#include "json.h"

#include "fusion.h"
#include "message.h"
#include "overlap.h"
#include "report.h"

#ifdef HAVE_JANSSON

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_string("nan");
}

/* 0: not measured. */
static json_t *measured(double x)
{
    return x == 0 ? json_null() : number(x);
}

static json_t *integer(uint64_t x)
{
    return json_integer((json_int_t)x);
}

static json_t *boolean(bool x) /* nccl-tests writes them as strings */
{
    return json_string(x ? "true" : "false");
}

/* Only settings that may change results, and of these no secret. */
static json_t *environment(void)
{
    static const char *const prefixes[] = { "PLAIT_", "NCCL_", "OMPI_", "UCX_", "MALLOC_", "GLIBC_TUNABLES" };
    json_t *list = json_array();

    for (char **e = environ; *e != NULL; e++)
        for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
            if (strncmp(*e, prefixes[i], strlen(prefixes[i])) == 0 && strncmp(*e, "PLAIT_SECRET=", 13) != 0)
                json_array_append_new(list, json_string(*e));
    return list;
}

static json_t *devices(const struct bench *b)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < b->ranks[0].nrank; i++) {
        json_t *d = json_object();
        json_object_set_new(d, "rank", integer(i));
        json_object_set_new(d, "group", integer(0));
        json_object_set_new(d, "pid", json_integer(b->ranks[0].hello[i].pid));
        json_object_set_new(d, "hostname", json_string(b->ranks[0].hello[i].host));
        json_object_set_new(d, "device", integer(i));
        json_object_set_new(d, "device_hex", json_string("cpu"));
        json_object_set_new(d, "device_info", json_string(b->limits.processor));
        json_array_append_new(list, d);
    }
    return list;
}

static json_t *config(const struct bench *b)
{
    const struct options *o = b->options;
    json_t *c = json_object();

    json_object_set_new(c, "nthreads", integer(o->threads ? o->nrank : 1));
    json_object_set_new(c, "ngpus", integer(0));
    json_object_set_new(c, "minimum_bytes", integer(o->min_bytes));
    json_object_set_new(c, "maximum_bytes", integer(o->max_bytes));
    if (o->step_factor > 1)
        json_object_set_new(c, "step_factor", integer(o->step_factor));
    else
        json_object_set_new(c, "step_bytes", integer(o->step_bytes));
    json_object_set_new(c, "warmup_iters", o->warmup != UINT64_MAX ? integer(o->warmup) : json_null());
    json_object_set_new(c, "iterations", o->iterations > 0 ? integer(o->iterations) : json_null());
    json_object_set_new(c, "aggregated_iterations", integer(o->aggregate));
    json_object_set_new(c, "validation", integer(o->check));
    json_object_set_new(c, "graph", integer(0));
    json_object_set_new(c, "blocking_collectives", boolean(true));
    json_object_set_new(c, "per_iter_timing", boolean(o->per_iter));
    json_object_set_new(c, "per_iter_skip", integer(o->per_iter_skip));
    json_object_set_new(c, "parallel_init", boolean(true));
    json_object_set_new(c, "devices", devices(b));
    return c;
}

static json_t *limits(const struct limits *l)
{
    json_t *o = json_object(), *levels = json_array();

    json_object_set_new(o, "processor", json_string(l->processor));
    json_object_set_new(o, "processors", integer(l->cpus));
    json_object_set_new(o, "latency_ns", measured(1e9 * l->latency));
    json_object_set_new(o, "clock_ns", measured(1e9 * l->clock));
    for (int i = 0; i < l->nlevel; i++) {
        json_t *v = json_object();
        json_object_set_new(v, "bytes", integer(l->level[i].bytes));
        json_object_set_new(v, "copy_gbs", measured(1e-9 * l->level[i].copy));
        json_object_set_new(v, "reduce_gbs", measured(1e-9 * l->level[i].reduce));
        json_object_set_new(v, "read_gbs", measured(1e-9 * l->level[i].read));
        json_object_set_new(v, "read_others_gbs", measured(1e-9 * l->level[i].others));
        json_array_append_new(levels, v);
    }
    json_object_set_new(o, "levels", levels);
    return o;
}

/* What nccl-tests has no keys for. */
static json_t *setting(const struct bench *b)
{
    const struct options *o = b->options;
    json_t *s = json_object(), *backends = json_array();

    json_object_set_new(s, "collective", json_string(collective_name(b->coll->coll)));
    json_object_set_new(s, "ranks", integer(o->nrank));
    json_object_set_new(s, "as", json_string(o->threads ? "threads" : "processes"));
    json_object_set_new(s, "memory", json_string(o->library_memory ? "plait" : o->same_memory ? "same" : "malloc"));
    json_object_set_new(s, "rounds", integer(o->rounds));
    json_object_set_new(s, "start", integer(o->starts > 1 ? b->starts.begun : 1));
    json_object_set_new(s, "starts", integer(o->starts));
    json_object_set_new(s, "tensors", o->tensors != NULL ? json_string(o->tensors) : json_null());
    for (uint32_t k = 0; k < b->nbackend; k++) {
        json_t *v = json_object();
        json_object_set_new(v, "name", json_string(b->ranks[k].name));
        json_object_set_new(v, "about", json_string(b->ranks[k].about));
        json_array_append_new(backends, v);
    }
    json_object_set_new(s, "backends", backends);
    json_object_set_new(s, "limits", limits(&b->limits));
    return s;
}

static json_t *body(const struct bench *b, const struct cell *c, const struct half *h)
{
    const double seconds = outcome_time(b, &h->outcome[0]);
    json_t *o = json_object();

    if (!h->measured) {
        json_decref(o);
        return json_null();
    }
    json_object_set_new(o, b->options->cputime ? "cpu_time" : "time", number(1e6 * seconds));
    json_object_set_new(o, "alg_bw", number(1e-9 * algorithm_bandwidth(c, seconds)));
    json_object_set_new(o, "bus_bw", number(1e-9 * bus_bandwidth(b, c, seconds)));
    json_object_set_new(o, "nwrong", b->options->check > 0 ? number((double)h->outcome[0].wrong) : json_null());
    return o;
}

static json_t *per_iteration(const struct bench *b, const struct half *h)
{
    const struct outcome *from = &h->outcome[0];
    const struct stats s = outcome_stats(b, from);
    json_t *o = json_object(), *times = json_array();

    json_object_set_new(o, "skipped_iterations", integer(b->options->per_iter_skip));
    json_object_set_new(o, "min_us", number(1e6 * s.min));
    json_object_set_new(o, "max_us", number(1e6 * s.max));
    json_object_set_new(o, "avg_us", number(1e6 * s.mean));
    json_object_set_new(o, "p50_us", number(1e6 * s.median));
    json_object_set_new(o, "p95_us", number(1e6 * s.p95));
    json_object_set_new(o, "p99_us", number(1e6 * s.p99));
    json_object_set_new(o, "stdev_us", number(1e6 * s.stdev));
    json_object_set_new(o, "cv_pct", number(s.mean > 0 ? 100 * s.stdev / s.mean : 0));
    for (size_t i = 0; i < from->times.n; i++)
        json_array_append_new(times, number(1e6 * from->times.x[i]));
    json_object_set_new(o, "times_us", times);
    return o;
}

static json_t *compared(const struct bench *b, const struct half *h)
{
    json_t *o = json_object(), *backends = json_object();

    json_object_set_new(o, "core_to_core_latency",
                        h->guarded.c2c != C2C_UNKNOWN ? json_string(c2c_name(h->guarded.c2c)) : json_null());
    json_object_set_new(o, "attempts", integer(h->guarded.attempts));
    json_object_set_new(o, "latency_before_ns", measured(1e9 * h->guarded.before.latency));
    json_object_set_new(o, "latency_after_ns", measured(1e9 * h->guarded.after.latency));
    json_object_set_new(o, "copy_before_gbs", measured(1e-9 * h->guarded.before.copy));
    json_object_set_new(o, "copy_after_gbs", measured(1e-9 * h->guarded.after.copy));
    json_object_set_new(o, "best", h->best > 0 ? json_string(b->ranks[h->best].name) : json_null());
    for (uint32_t k = 0; k < b->nbackend; k++) {
        const struct outcome *from = &h->outcome[k];
        const struct stats s = outcome_stats(b, from);
        json_t *v = json_object();
        if (!from->measured) {
            json_decref(v);
            continue;
        }
        json_object_set_new(v, "iterations", integer(s.n));
        json_object_set_new(v, "min_us", number(1e6 * s.min));
        json_object_set_new(v, "median_us", number(1e6 * s.median));
        json_object_set_new(v, "midmean_us", number(1e6 * s.midmean));
        json_object_set_new(v, "mean_us", number(1e6 * s.mean));
        json_object_set_new(v, "p95_us", number(1e6 * s.p95));
        json_object_set_new(v, "p99_us", number(1e6 * s.p99));
        json_object_set_new(v, "back_to_back_us", number(1e6 * median_of(from->stream, b->options->rounds)));
        json_object_set_new(v, "cpu_us", number(1e6 * median_of(from->cpu, b->options->rounds)));
        json_object_set_new(v, "wrong", integer(from->wrong));
        if (*from->algorithm_name != '\0')
            json_object_set_new(v, "algorithm", json_string(from->algorithm_name));
        if (k > 0) {
            json_object_set_new(v, "ratio", number(from->ratio));
            json_object_set_new(v, "ratio_low", number(from->ratio_low));
            json_object_set_new(v, "ratio_high", number(from->ratio_high));
        }
        json_object_set_new(backends, b->ranks[k].name, v);
    }
    json_object_set_new(o, "backends", backends);
    return o;
}

static json_t *overlaps(const struct bench *b, const struct cell *c)
{
    json_t *list = json_array();

    for (size_t i = 0; i < c->noverlap; i++) {
        const struct overlap *from = &c->overlap[i];
        json_t *o = json_object();
        json_object_set_new(o, "place", json_string(place_name(from->place)));
        json_object_set_new(o, "backend", json_string(b->ranks[from->backend].name));
        json_object_set_new(o, "computing", json_string(computation_name(from->computation)));
        json_object_set_new(o, "driven_by", json_string(overlap_driver(from->kind)));
        json_object_set_new(o, "blocking_us", number(1e6 * from->blocking));
        json_object_set_new(o, "compute_us", number(1e6 * from->compute));
        json_object_set_new(o, "total_us", number(1e6 * from->total));
        json_object_set_new(o, "overlap_pct", number(from->percent));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *fusion_rows(const struct bench *b, const struct cell *c)
{
    json_t *list = json_array();

    for (size_t i = 0; i < c->nrow; i++) {
        const struct fusion_row *from = &c->row[i];
        const struct step_figures *f = &from->figures;
        json_t *o = json_object();
        json_object_set_new(o, "backend", json_string(b->ranks[from->backend].name));
        json_object_set_new(o, "exchange", json_string(from->name));
        json_object_set_new(o, "payload", json_string(dtype_label(from->payload)));
        json_object_set_new(o, "own_memory", json_boolean(from->own || from->scheme == SCHEME_UNFUSED));
        json_object_set_new(o, "step_us", number(1e6 * from->step));
        json_object_set_new(o, "exposed_pct", number(from->exposed));
        if (from->to_flat > 0)
            json_object_set_new(o, "ratio_to_flat", number(from->to_flat));
        if (from->to_peer > 0)
            json_object_set_new(o, "ratio_to_peer", number(from->to_peer));
        if (from->counted) {
            json_object_set_new(o, "bytes_sent", integer(f->bytes));
            json_object_set_new(o, "messages", integer(f->messages));
        }
        if (from->scheme == SCHEME_FUSED)
            json_object_set_new(o, "buckets", integer(f->nbucket));
        if (from->scheme == SCHEME_FUSED && from->counted) {
            json_object_set_new(o, "communicating_ms", number(1e3 * f->communicating));
            json_object_set_new(o, "hidden_ms", number(1e3 * f->hidden));
        }
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *result(const struct bench *b, const struct cell *c)
{
    static const char *const names[NPLACE] = { "out_of_place", "in_place" };
    json_t *r = json_object(), *more = json_object();
    size_t iterations = 0;
    char key[32];

    json_object_set_new(r, "size", integer(c->bytes));
    json_object_set_new(r, "count", integer(c->count));
    json_object_set_new(r, "type", json_string(dtype_label(c->type)));
    json_object_set_new(r, "redop", json_string(op_label(c->op)));
    snprintf(key, sizeof key, "%6d", (int)c->root); /* the format of nccl-tests */
    json_object_set_new(r, "root", json_string(key));
    for (int place = 0; place < NPLACE; place++) {
        const struct half *h = &c->half[place];
        json_object_set_new(r, names[place], body(b, c, h));
        if (!h->measured)
            continue;
        iterations = h->outcome[0].times.n;
        snprintf(key, sizeof key, "%s_per_iter", names[place]);
        if (b->options->per_iter)
            json_object_set_new(r, key, per_iteration(b, h));
        json_object_set_new(more, names[place], compared(b, h));
    }
    if (b->options->fusion)
        json_object_set_new(more, "fusion", fusion_rows(b, c));
    if (b->options->overlap)
        json_object_set_new(more, "overlap", overlaps(b, c));
    json_object_set_new(more, "bound_us",
                        measured(1e6 * limits_bound(&b->limits, b->coll, c->bytes, b->ranks[0].nrank)));
    json_object_set_new(r, "actual_iterations", integer(iterations));
    json_object_set_new(r, "experiment_name", json_string(*c->label != '\0' ? c->label : b->coll->program));
    json_object_set_new(r, "plait", more);
    return r;
}

static json_t *document(const struct bench *b)
{
    json_t *d = json_object(), *args = json_array(), *results = json_array(), *bounds = json_object();
    json_t *average = json_object();
    char ended[24];

    time_of_day(ended);
    for (int i = 0; i < b->argc; i++)
        json_array_append_new(args, json_string(b->argv[i]));
    for (size_t i = 0; i < b->ncell; i++)
        json_array_append_new(results, result(b, &b->cell[i]));
    json_object_set_new(bounds, "count", integer(b->wrong));
    json_object_set_new(bounds, "okay", boolean(b->wrong == 0));
    json_object_set_new(average, "bandwidth", number(average_bandwidth(b)));
    json_object_set_new(average, "okay", json_string("unchecked"));
    json_object_set_new(d, "version", integer(3));
    json_object_set_new(d, "start_time", json_string(b->started));
    json_object_set_new(d, "args", args);
    json_object_set_new(d, "env", environment());
    json_object_set_new(d, "nccl_version", integer(0));
    json_object_set_new(d, "config", config(b));
    json_object_set_new(d, "plait", setting(b));
    json_object_set_new(d, "results", results);
    json_object_set_new(d, "out_of_bounds", bounds);
    json_object_set_new(d, "average_bus_bandwidth", average);
    json_object_set_new(d, "errors", json_array());
    json_object_set_new(d, "end_time", json_string(ended));
    return d;
}

static FILE *open_new(const char *path, char *chosen, size_t room)
{
    FILE *file;

    snprintf(chosen, room, "%s", path);
    file = fopen(chosen, "wx");
    for (int i = 0; file == NULL && errno == EEXIST && i < 1000; i++) {
        snprintf(chosen, room, "%s.%d", path, i);
        file = fopen(chosen, "wx");
    }
    return file;
}

bool json_write(const struct bench *b, const char *path)
{
    char chosen[4096];
    FILE *file = open_new(path, chosen, sizeof chosen);

    if (file == NULL)
        return complain("%s: %s", path, strerror(errno));
    json_t *d = document(b);
    bool ok = json_dumpf(d, file, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0;
    json_decref(d);
    ok = fclose(file) == 0 && ok;
    if (!ok)
        return complain("%s: cannot write: %s", chosen, strerror(errno));
    printf("# JSON output          : %s\n", chosen);
    return true;
}

#else

bool json_write(const struct bench *b, const char *path)
{
    (void)b;
    return complain("%s: built without JSON", path);
}

#endif
