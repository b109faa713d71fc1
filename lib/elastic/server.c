/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server waits for a control message from any worker, takes exchanges as they come, and answers each from the
 * worker's slot. It awaits all workers together, never one alone. Except in mode `original`, an answer to one worker
 * does not hold up the others.
 *
 * `asks` is set when a worker has asked for an exchange that has not begun: in mode `original` it begins in the
 * worker's turn. If the weights come as a message, `receives` is set until they have arrived in the slot. An exchange
 * of a worker that dies before that is not applied.
 *
 * Servers exchange no messages. Each has its own part of the centre, and counts workers as it hears of them.
 */
#include "elastic.h"

#include "base/clock.h"
#include "base/fork.h"
#include "base/status.h"
#include "memory/arena.h"

#include <plait/message.h>

#include <pthread.h>
#include <stdlib.h>

struct server_thread { /* one serving thread: every n-th worker from `first` on */
    struct plait_elastic *e;
    uint32_t first, n;
    uint32_t next;                  /* first worker to check (round robin): the one just served comes last */
    struct plait_request **awaited; /* [nworker] */
    uint32_t *who;                  /* [nworker] sender of each */
    bool cancelled;                 /* do nothing */
    struct plait_error why;         /* the error with which the thread ended */
    pthread_t thread;
};

/* ---- Exchanges --------------------------------------------------------------------------------------------- */

/* The centre has been updated. */
static void count_update(struct plait_elastic *e, struct plait_pair_end *end)
{
    const uint64_t before = atomic_fetch_add(&e->updates, 1);
    uint64_t most = atomic_load(&e->behind_max);

    end->said.pull = end->heard.pull;
    atomic_store(&e->last_pull, end->heard.pull);
    end->said.behind = before - end->seen;
    end->seen = before + 1;
    atomic_fetch_add(&e->behind, end->said.behind);
    while (end->said.behind > most && !atomic_compare_exchange_weak(&e->behind_max, &most, end->said.behind))
        ;
}

/* The weights are in the slot; the difference takes their place. */
static void apply(struct plait_elastic *e, struct plait_pair_end *end)
{
    const struct plait_elastic_options *o = &e->options;
    const double pull = end->heard.pull;
    const struct plait_kernels *k = e->kernels;

    if (o->mode == PLAIT_ELASTIC_HOGWILD) {
        const double forces =
            plait_elastic_serve_unlocked(k, o->payload, end->slot, end->slot, e->centre, e->own.count, (float)pull);
        double sum = atomic_load(&e->forces);
        while (!atomic_compare_exchange_weak(&e->forces, &sum, sum + forces))
            ;
    } else {
        plait_elastic_subtract(k, o->payload, end->slot, end->slot, e->centre, e->own.count, 1);
        plait_elastic_add(k, o->payload, e->centre, end->slot, e->own.count, (float)pull);
    }
    count_update(e, end);
}

/*
 * Read the weights in place. The new centre is formed in the slot: if the worker has not given up meanwhile, the slot
 * becomes the centre, and the old centre the answer. Hogwild's threads share one centre: the weights are copied first.
 */
static enum plait_status read_and_apply(struct plait_elastic *e, struct plait_pair_end *end)
{
    const float *w = plait_process_at(end->comm->peers[PLAIT_PAIR_WORKER].process, end->heard.at);
    const bool hogwild = e->options.mode == PLAIT_ELASTIC_HOGWILD;
    float *const next = end->slot, *const centre = e->centre;

    if (hogwild)
        plait_copy(e->kernels, next, w, e->own.count * sizeof *w);
    else
        plait_elastic_move(e->kernels, e->options.payload, next, centre, w, centre, e->own.count,
                           (float)end->heard.pull);
    const enum plait_status status = plait_probe_failures(end->comm);
    if (status != PLAIT_OK)
        return status;
    if (hogwild) {
        apply(e, end);
    } else {
        end->slot = centre;
        e->centre = next;
        count_update(e, end);
    }
    return PLAIT_OK;
}

/* ---- Workers' messages ------------------------------------------------------------------------------------- */

static void mark_gone(struct plait_elastic *e, struct plait_pair_end *end, bool died)
{
    end->asks = end->receives = false;
    if (end->gone)
        return;
    end->gone = true;
    atomic_fetch_sub(&e->alive, 1);
    atomic_fetch_add(died ? &e->died : &e->left, 1);
}

/* Send the slot's content, or show it to a worker that reads in place. Start to receive the next control message. */
static enum plait_status answer(struct plait_elastic *e, struct plait_pair_end *end, enum plait_dtype type)
{
    struct plait_call call = plait_elastic_call(&end->sent, PLAIT_FOREVER);

    end->said.kind = end->heard.kind;
    end->said.at = end->heard.at != 0 ? plait_arena_offset(end->slot) : 0;
    end->said.workers = atomic_load(&e->alive);
    enum plait_status status = plait_wait(&end->sent); /* until the worker has the last answer */
    if (status == PLAIT_OK)
        status = plait_start(end->control);
    if (status == PLAIT_OK)
        status = plait_send(end->comm, &end->said, sizeof end->said, PLAIT_UINT8, PLAIT_PAIR_WORKER, NULL);
    if (status == PLAIT_OK && end->said.at == 0)
        status = plait_send(end->comm, end->slot, e->own.count, type, PLAIT_PAIR_WORKER, &call);
    return status;
}

static void end_turn(struct plait_elastic *e)
{
    e->turn = (e->turn + 1) % e->nworker;
}

/* The exchange is applied. In mode original all its data is sent before the turn ends. */
static void end_exchange(struct plait_elastic *e, struct plait_pair_end *end)
{
    if (answer(e, end, e->options.payload) != PLAIT_OK)
        mark_gone(e, end, true);
    if (e->options.mode == PLAIT_ELASTIC_ORIGINAL) {
        plait_wait(&end->sent);
        end_turn(e);
    }
}

/* Begin the exchange of a worker that asks: make it in place, or start to receive the weights. */
static void fetch(struct plait_elastic *e, struct plait_pair_end *end)
{
    struct plait_call call = plait_elastic_call(&end->data, PLAIT_FOREVER);

    end->asks = false;
    enum plait_status status = plait_wait(&end->sent); /* until the slot is free: the worker has its content */
    if (status == PLAIT_OK && end->heard.at != 0)
        status = read_and_apply(e, end);
    else if (status == PLAIT_OK)
        status = plait_recv(end->comm, end->slot, e->own.count, PLAIT_FLOAT32, PLAIT_PAIR_WORKER, &call);
    end->receives = status == PLAIT_OK && end->heard.at == 0;
    if (status != PLAIT_OK)
        mark_gone(e, end, true);
    else if (!end->receives)
        end_exchange(e, end);
}

/* Mode original: the workers in turn, those that are gone left out. */
static void take_turns(struct plait_elastic *e)
{
    for (uint32_t gone = 0; gone < e->nworker;) {
        struct plait_pair_end *end = &e->ends[e->turn];
        if (end->asks) {
            fetch(e, end);
            gone = 0;
        } else if (end->gone) {
            end_turn(e);
            gone++;
        } else {
            return;
        }
    }
}

static enum plait_status give_centre(struct plait_elastic *e, struct plait_pair_end *end)
{
    _Atomic float *from = (_Atomic float *)e->centre;
    float *to = end->slot;

    for (size_t i = 0; i < e->own.count; i++)
        to[i] = atomic_load_explicit(&from[i], memory_order_relaxed);
    end->said.pull = atomic_load(&e->last_pull);
    return answer(e, end, PLAIT_FLOAT32);
}

/* A message has come from this worker, or the worker is dead. */
static void hear(struct plait_elastic *e, struct plait_pair_end *end, enum plait_status status)
{
    if (status == PLAIT_OK && end->receives) {
        end->receives = false;
        apply(e, end);
        end_exchange(e, end);
    } else if (status == PLAIT_OK && end->heard.kind == PLAIT_MESSAGE_READ) {
        status = give_centre(e, end);
    } else if (status == PLAIT_OK && end->heard.kind == PLAIT_MESSAGE_LEAVE) {
        mark_gone(e, end, false);
    } else if (status == PLAIT_OK) {
        end->asks = true;
    }
    if (status != PLAIT_OK)
        mark_gone(e, end, true);
    if (e->options.mode == PLAIT_ELASTIC_ORIGINAL)
        take_turns(e);
    else if (end->asks)
        fetch(e, end);
}

/* ---- Serving ----------------------------------------------------------------------------------------------- */

/* List the requests that this thread waits for; the worker served last comes last. */
static uint32_t list_awaited(struct server_thread *s)
{
    const struct plait_elastic *e = s->e;
    uint32_t n = 0;

    for (uint32_t k = 0; k < e->nworker; k++) {
        const uint32_t w = (s->next + k) % e->nworker;
        const struct plait_pair_end *end = &e->ends[w];
        if (w % s->n != s->first || end->gone || end->asks)
            continue;
        s->awaited[n] = end->receives ? end->data : end->control;
        s->who[n++] = w;
    }
    return n;
}

static void begin(struct server_thread *s)
{
    for (uint32_t w = s->first; w < s->e->nworker; w += s->n) {
        struct plait_pair_end *end = &s->e->ends[w];
        if (!end->gone && plait_start(end->control) != PLAIT_OK)
            hear(s->e, end, PLAIT_ERR_PEER);
    }
}

/* Held while threads are started: they begin to serve only when all exist. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *arg)
{
    struct server_thread *s = arg;
    struct plait_elastic *e = s->e;
    const uint32_t environment = plait_fpenv_enter();
    uint32_t n;

    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    if (!s->cancelled)
        begin(s);
    while (!s->cancelled && (n = list_awaited(s)) > 0) {
        size_t i = n;
        const enum plait_status status = plait_wait_any(s->awaited, n, &i);
        if (i == n) { /* no request could be waited for */
            s->why = plait_error_of(status);
            break;
        }
        struct plait_pair_end *end = &e->ends[s->who[i]];
        if (end->receives)
            end->data = s->awaited[i]; /* the wait has set it to NULL */
        s->next = (s->who[i] + 1) % e->nworker;
        hear(e, end, status);
    }
    plait_fpenv_leave(environment);
    return NULL;
}

/* This thread runs the first one. The other threads block all signals. */
static enum plait_status run_threads(struct server_thread *s, uint32_t n)
{
    uint32_t started = 1;
    int error = 0;

    pthread_mutex_lock(&gate);
    while (started < n && error == 0) {
        error = plait_thread_start(&s[started].thread, work, &s[started]);
        started += error == 0;
    }
    for (uint32_t t = 0; t < n; t++)
        s[t].cancelled = error != 0;
    pthread_mutex_unlock(&gate);
    work(&s[0]);
    const struct plait_error *why = &s[0].why;
    for (uint32_t t = 1; t < started; t++) {
        pthread_join(s[t].thread, NULL);
        why = why->status == PLAIT_OK ? &s[t].why : why;
    }
    return error == 0 ? plait_restore_error(why)
                      : plait_fail_errno(error, "plait_elastic_serve: cannot start thread %u of %u", started, n);
}

static double sum_of(const float *x, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

enum plait_status plait_elastic_serve(struct plait_elastic *e)
{
    enum plait_status status = plait_elastic_enter(e, "plait_elastic_serve", PLAIT_ELASTIC_SERVER);

    if (status != PLAIT_OK)
        return status;
    const uint32_t n =
        e->options.threads < e->nworker ? e->options.threads : e->nworker; /* each has every n-th worker */
    struct server_thread *s = calloc(n, sizeof *s);
    struct plait_request **awaited = calloc(n, e->nworker * sizeof(struct plait_request *));
    uint32_t *who = calloc(n, e->nworker * sizeof *who);
    if (s != NULL && awaited != NULL && who != NULL) {
        for (uint32_t t = 0; t < n; t++)
            s[t] = (struct server_thread){
                .e = e, .first = t, .n = n, .awaited = awaited + t * e->nworker, .who = who + t * e->nworker
            };
        const double before = sum_of(e->centre, e->own.count);
        status = run_threads(s, n);
        e->movement = sum_of(e->centre, e->own.count) - before;
    } else {
        status = plait_fail_memory("out of memory for serving %u workers", e->nworker);
    }
    free(s);
    free(awaited);
    free(who);
    return status;
}
