/* SPDX-License-Identifier: BSD-3-Clause */
#include "progress.h"

#include "base/clock.h"
#include "ending.h"
#include "message.h"

#include <jansson.h>

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct progress {
    FILE *log; /* NULL: it could not be written */
    bool terminal;
    double begin;                      /* start of this process's part of the run */
    uint64_t begin_step;               /* steps complete at that time */
    double epoch_begin, epoch_seconds; /* without the evaluation */
    double shown;                      /* when the line was last written */
    double log_begin;                  /* when the log was last written */
    struct totals window;              /* totals since then */
    double window_begin;               /* of the totals that the line shows, over a shorter time */
    struct totals recent;
};

/* ---- log.jsonl ----------------------------------------------------------------------------------- */

/* JSON has no infinities. */
static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static void set(json_t *object, const char *name, double value)
{
    json_object_set_new(object, name, number(value));
}

static void write_line(struct progress *p, json_t *object)
{
    char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9));
    const long whole = p->log != NULL ? ftell(p->log) : 0;

    if (p->log != NULL && (text == NULL || fprintf(p->log, "%s\n", text) < 0 || fflush(p->log) != 0)) {
        complain("log.jsonl cannot be written: %s; it ends here, and the training goes on", strerror(errno));
        if (whole < 0 || ftruncate(fileno(p->log), whole) != 0) /* remove the incomplete line */
            complain("log.jsonl: its last line is incomplete");
        fclose(p->log);
        p->log = NULL;
    }
    free(text);
    json_decref(object);
}

static json_t *event(const struct progress *p, const struct run *r, const char *name)
{
    json_t *object = json_object();

    json_object_set_new(object, "event", json_string(name));
    json_object_set_new(object, "epoch", json_integer(r->epoch));
    json_object_set_new(object, "step", json_integer((json_int_t)r->step));
    set(object, "position", (double)r->epoch + (double)r->at / (double)r->epoch_steps); /* in epochs */
    set(object, "seconds", plait_clock() - p->begin);
    return object;
}

/* As a share of the time of the steps in which these waits occurred. */
static double share(const struct totals *t, double part)
{
    return t->seconds > 0 ? part / t->seconds : 0;
}

/* The host does not see when a device's stream waits. */
static void set_exposed(json_t *object, const struct run *r, const struct totals *t)
{
    if (r->stream == NULL)
        set(object, "exposed", share(t, t->exposed));
}

static void log_start(struct progress *p, const struct run *r)
{
    const struct options *o = r->o;
    json_t *object = event(p, r, "start");

    json_object_set_new(object, "data", json_string(o->data));
    json_object_set_new(object, "model", json_string(o->model));
    json_object_set_new(object, "optimizer", json_string(o->method == PLAIT_OPTIM_LARS ? "lars" : "sgd"));
    json_object_set_new(object, "elastic",
                        o->elastic >= 0 ? json_string(plait_elastic_name((enum plait_elastic_mode)o->elastic))
                                        : json_null());
    json_object_set_new(object, "device", json_string(r->device->about));
    json_object_set_new(object, "graph", json_boolean(r->o->graph && r->stream != NULL));
    json_object_set_new(object, "precision", json_string(options_precision(o)));
    json_object_set_new(object, "payload", json_string(plait_dtype_name(o->payload)));
    json_object_set_new(object, "ranks", json_integer(r->nrank));
    json_object_set_new(object, "batch", json_integer((json_int_t)o->batch));
    json_object_set_new(object, "micro", json_integer((json_int_t)o->micro));
    json_object_set_new(object, "pixels", json_integer((json_int_t)o->pixels));
    json_object_set_new(object, "epochs", json_integer((json_int_t)o->epochs));
    json_object_set_new(object, "polish", json_integer((json_int_t)o->polish));
    json_object_set_new(object, "seed", json_integer((json_int_t)o->seed));
    set(object, "rate", o->rate);
    set(object, "warmup", o->warmup);
    set(object, "weight_decay", o->weight_decay);
    write_line(p, object);
}

/* ---- the line ------------------------------------------------------------------------------------ */

/* Columns of the terminal; some terminals report 0. */
static size_t width(void)
{
    struct winsize size;

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

static void duration(double seconds, char *out, size_t room)
{
    const unsigned long long s = seconds > 0 && seconds < 1e9 ? (unsigned long long)seconds : 0;

    if (s >= 86400)
        snprintf(out, room, "%llu d %llu h", s / 86400, s / 3600 % 24);
    else if (s >= 3600)
        snprintf(out, room, "%llu h %02llu min", s / 3600, s / 60 % 60);
    else if (s >= 60)
        snprintf(out, room, "%llu min %02llu s", s / 60, s % 60);
    else
        snprintf(out, room, "%llu s", s);
}

/* Append a field if it fits: the first fields matter most. */
static void field(char *line, size_t room, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void field(char *line, size_t room, const char *format, ...)
{
    char text[120];
    va_list arguments;
    const size_t used = strlen(line);

    va_start(arguments, format);
    const int n = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (n > 0 && used + 2 + (size_t)n < room)
        snprintf(line + used, room - used, "%s%s", used > 0 ? "  " : "", text);
}

static double steps_left(const struct run *r)
{
    const double of_epochs = (double)(r->o->epochs - r->epoch) * (double)r->epoch_steps - (double)r->at;
    const double asked = r->o->steps > 0 ? (double)r->o->steps - (double)r->step : of_epochs;

    return fmax(0, fmin(of_epochs, asked));
}

static void show(struct progress *p, const struct run *r)
{
    const struct totals *t = &p->recent;
    const double seconds = plait_clock() - p->window_begin, waits = share(t, t->data);
    const double done = (double)(r->step - p->begin_step);
    char line[512] = "", left[40];
    size_t room = p->terminal ? width() : 200;

    room = room < sizeof line ? room : sizeof line;
    duration((plait_clock() - p->begin) / fmax(done, 1) * steps_left(r), left, sizeof left);
    field(line, room, "epoch %u/%llu", r->epoch + 1, (unsigned long long)r->o->epochs);
    field(line, room, "step %llu/%llu", (unsigned long long)r->at, (unsigned long long)r->epoch_steps);
    field(line, room, "%.0f images/s", t->images / seconds);
    field(line, room, "loss %.3f", t->loss / t->images);
    field(line, room, "top-1 %.1f %%", 100 * t->top1 / t->images);
    field(line, room, "left %s", left);
    if (r->stream == NULL)
        field(line, room, "exposed %.1f %%", 100 * share(t, t->exposed));
    if (waits > 0.05)
        field(line, room, "WAITS FOR DATA %.0f %%", 100 * waits);
    field(line, room, "rate %.3g", r->rate);
    field(line, room, "decoders idle %.0f %%", 100 * share(t, t->idle));
    if (p->terminal)
        printf("\r\033[K%s", line);
    else
        printf("%s\n", line);
    fflush(stdout);
    p->shown = p->window_begin = plait_clock();
    p->recent = (struct totals){ 0 };
}

static void clear(const struct progress *p)
{
    if (p->terminal)
        fputs("\r\033[K", stdout);
}

void progress_say(struct progress *p, const char *format, ...)
{
    va_list arguments;

    if (p == NULL)
        return;
    clear(p);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    fputc('\n', stdout);
    fflush(stdout);
}

/* ---- events -------------------------------------------------------------------------------------- */

struct progress *progress_create(const struct run *r)
{
    char path[4200];

    if (r->rank > 0)
        return NULL;
    struct progress *p = allocate(1, sizeof *p);
    snprintf(path, sizeof path, "%s/log.jsonl", r->folder);
    p->log = fopen(path, r->o->resume != NULL ? "a" : "w");
    if (p->log == NULL)
        give_up(ENDING_ERROR, "%s: %m; choose another folder with --run", path);
    p->terminal = isatty(STDOUT_FILENO) &&
                  getenv("PMIX_RANK") == NULL; /* mpirun gives ranks a terminal, wherever its output goes */
    p->begin = p->epoch_begin = p->shown = p->log_begin = p->window_begin = plait_clock();
    p->begin_step = r->step;
    log_start(p, r);
    return p;
}

void progress_destroy(struct progress *p)
{
    if (p == NULL)
        return;
    if (p->log != NULL)
        fclose(p->log);
    free(p);
}

static void log_step(struct progress *p, const struct run *r)
{
    const struct totals *t = &p->window;
    const double seconds = plait_clock() - p->log_begin;
    json_t *object = event(p, r, "step");

    set(object, "loss", t->loss / t->images);
    set(object, "top1", t->top1 / t->images);
    set(object, "rate", r->rate);
    set(object, "scale", run_scale(r)->scale);
    set(object, "images", t->images);
    set(object, "images_per_second", t->images / seconds);
    set_exposed(object, r, t);
    set(object, "data_wait", share(t, t->data));
    set(object, "decoders_idle", share(t, t->idle));
    if (r->host > 0)
        set(object, "host", r->host * (double)(r->step - r->logged) / seconds);
    write_line(p, object);
    p->window = (struct totals){ 0 };
    p->log_begin = plait_clock();
}

void progress_step(struct progress *p, const struct run *r, const struct totals *sum)
{
    if (p == NULL)
        return;
    /* A rank that does not step with the others counts for all: as many times its images and waits. */
    for (uint32_t rank = 0; rank < (r->together ? 1 : r->nrank); rank++) {
        totals_add(&p->window, sum);
        totals_add(&p->recent, sum);
    }
    if (!r->reports)
        return;
    if (r->step - r->logged >= r->o->log_every)
        log_step(p, r);
    if (r->o->print_every > 0 ? r->at % r->o->print_every == 0 : plait_clock() - p->shown >= (p->terminal ? 0.1 : 10))
        show(p, r);
}

void progress_pause(struct progress *p, const struct run *r)
{
    if (p == NULL)
        return;
    if (r->step > r->logged && p->window.images > 0)
        log_step(p, r);
    p->epoch_seconds = plait_clock() - p->epoch_begin;
}

void progress_tested(const struct totals *tested, char *out, size_t room)
{
    if (tested->images == 0)
        snprintf(out, room, "test: no image could be read");
    else
        snprintf(out, room, "test: top-1 %5.2f %%, top-5 %5.2f %%, loss %.3f", 100 * tested->top1 / tested->images,
                 100 * tested->top5 / tested->images, tested->loss / tested->images);
}

void progress_epoch(struct progress *p, const struct run *r, const struct totals *sum, const struct totals *tested)
{
    if (p == NULL)
        return;
    const double seconds = p->epoch_seconds;
    json_t *object = event(p, r, "epoch");
    char test[120] = "", training[120] = "trained before";

    if (sum->images > 0) { /* else the run was stopped in its evaluation, and resumes there */
        set(object, "train_loss", sum->loss / sum->images);
        set(object, "train_top1", sum->top1 / sum->images);
        set(object, "images_per_second", sum->images / seconds);
        set_exposed(object, r, sum);
        set(object, "data_wait", share(sum, sum->data));
        set(object, "decoders_idle", share(sum, sum->idle));
        char exposed[40] = "";
        if (r->stream == NULL)
            snprintf(exposed, sizeof exposed, ", exposed %.1f %%", 100 * share(sum, sum->exposed));
        snprintf(training, sizeof training, "training: loss %.3f, %.0f images/s%s, %.1f s", sum->loss / sum->images,
                 sum->images / seconds, exposed, seconds);
    }
    if (tested != NULL) {
        progress_tested(tested, test, sizeof test - 3);
        strcat(test, " | ");
        set(object, "loss", tested->loss / tested->images);
        set(object, "top1", tested->top1 / tested->images);
        set(object, "top5", tested->top5 / tested->images);
        set(object, "images", tested->images);
    }
    write_line(p, object);
    progress_say(p, "epoch %3u/%llu | %s%s", r->epoch, (unsigned long long)r->o->epochs, test, training);
    p->epoch_begin = p->log_begin = p->window_begin = plait_clock();
    p->recent = (struct totals){ 0 };
}

/* FNV-1a hash of the weights: equal for runs with the same bits. */
static void hash_weights(const struct run *r, char *out, size_t room)
{
    const float *weights = r->weights.host;
    uint64_t hash = 14695981039346656037u;

    mirror_read(&r->weights);
    for (uint32_t t = 0; t < r->ntensor; t++)
        for (size_t k = 0; k < model_tensor(r->model, t)->count; k++) {
            uint32_t bits;
            memcpy(&bits, &weights[r->start[t] + k], sizeof bits);
            hash = (hash ^ bits) * 1099511628211u;
        }
    snprintf(out, room, "%016llx", (unsigned long long)hash);
}

void progress_end(struct progress *p, const struct run *r, bool saved)
{
    if (p == NULL)
        return;
    json_t *object = event(p, r, "end");
    char hash[20];

    hash_weights(r, hash, sizeof hash);
    json_object_set_new(object, "weights", json_string(hash));
    json_object_set_new(object, "why", json_string(r->stopping ? "asked to stop" : "trained"));
    set(object, "best_top1", r->best);
    write_line(p, object);
    if (r->stopping && saved)
        progress_say(p, "asked to stop: step %llu is saved; go on with plait-train %s --resume %s",
                     (unsigned long long)r->step, r->o->data, r->folder);
    else if (saved)
        progress_say(p, "trained %llu step%s: %s", (unsigned long long)r->step, plural(r->step), r->folder);
    clear(p);
    fflush(stdout);
}
