/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that decode ahead. The micro-batches of an epoch are numbered. Number m uses slot m % nslot from the start of
 * its first image until the loader_next() call after the one that returned it. A thread takes the next image of the
 * epoch as soon as the slot of its micro-batch is free. So images start in order, and micro-batches are returned in
 * order, whichever thread decoded them.
 */
#include "base/clock.h"
#include "data.h"
#include "ending.h"

#include <plait/coll.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct slot {
    char *images;
    int32_t *labels;
    uint32_t undone; /* images not yet decoded */
};

struct loader {
    struct loader_options options;
    pthread_t *threads;
    struct slot *slots;
    uint32_t nslot;
    size_t image; /* bytes of one */

    pthread_mutex_t lock; /* protects all that follows */
    pthread_cond_t work, done;
    bool stopping;
    uint32_t epoch;
    uint64_t first; /* micro-batch of this rank at which the epoch began */
    uint64_t end;   /* end of the epoch in micro-batches; 0: no epoch */
    uint64_t begun; /* images started, counted from the epoch's start */
    uint64_t given; /* micro-batches returned, including the one that the caller holds */
    uint32_t busy;  /* threads that decode an image */
    bool *broken;   /* [samples] already named */

    uint32_t idle;                 /* threads that wait because all slots are full */
    struct loader_figures figures; /* idle: of all threads, less the time at which each one that waits began */
};

static uint32_t micros_of_step(const struct loader *l)
{
    return l->options.batch / l->options.nrank / l->options.micro;
}

uint64_t loader_steps(const struct loader *l)
{
    const uint64_t n = dataset_count(l->options.dataset), batch = l->options.batch;

    return l->options.whole ? (n + batch - 1) / batch : n / batch;
}

/* Position in the epoch of an image of this rank. */
static uint64_t position_of(const struct loader *l, uint64_t image)
{
    const struct loader_options *o = &l->options;
    const uint64_t part = o->batch / o->nrank;

    return image / part * o->batch + o->rank * part + image % part;
}

/* ---- One image ---- */

#define ELSEWHERE UINT64_MAX /* an image that is not this rank's in the epoch */

struct bytes {
    const void *data;
    size_t n;
    void *owned; /* to be freed */
};

/*
 * A system error on a file that existed when the files were listed. It does not count as a broken file: if a disk
 * failed, every image in turn would be replaced, and nobody would notice.
 */
static _Noreturn void cannot_read(const char *path)
{
    give_up(ENDING_ERROR, "%s: %s; it could be found when the images were listed: repair it, then go on with --resume",
            path, strerror(errno));
}

/* Returns NULL, or what is wrong with the contents. */
static const char *read_whole(const char *path, FILE *f, struct bytes *out)
{
    struct stat status;

    if (fstat(fileno(f), &status) != 0)
        cannot_read(path);
    if (!S_ISREG(status.st_mode))
        return "not a regular file";
    out->data = out->owned = malloc((size_t)status.st_size + 1);
    if (out->owned == NULL)
        cannot_read(path);
    out->n = fread(out->owned, 1, (size_t)status.st_size, f);
    if (ferror(f))
        cannot_read(path);
    return NULL;
}

static const char *read_file(const char *path, struct bytes *out)
{
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* opening a pipe would wait for a writer */
    FILE *f = fd < 0 ? NULL : fdopen(fd, "rb");

    if (f == NULL)
        cannot_read(path);
    const char *why = read_whole(path, f, out);
    fclose(f);
    return why;
}

/*
 * The n-th image of this rank in the epoch is in memory, unless its file could not be read: then reading it reports the
 * error.
 */
static const char *find_file(const struct loader *l, uint64_t sample, uint64_t n, struct bytes *out)
{
    *out = (struct bytes){ 0 };
    if (l->options.store != NULL && n != ELSEWHERE)
        out->data = store_image(l->options.store, n, &out->n);
    return out->data != NULL ? NULL : read_file(dataset_path(l->options.dataset, sample), out);
}

/* The device counts files that it does not decode. The first one is named. */
static const char *decode_on(struct image_decoder *decoder, const struct loader *l, const struct bytes *file,
                             uint64_t sample, void *out)
{
    const struct loader_options *o = &l->options;
    const char *refused,
        *why = image_decode_on(decoder, file->data, file->n, &o->image, o->seed, l->epoch, sample, out, &refused);

    if (refused != NULL && why == NULL && atomic_fetch_add(&decoder->refused, 1) == 0)
        tell("%s: the processor decodes it, and others that the GPU does not decode: %s",
             dataset_path(o->dataset, sample), refused);
    return why;
}

/* Returns NULL, or why the sample is broken. */
static const char *decode_sample(struct loader *l, uint64_t sample, uint64_t n, void *out)
{
    const struct loader_options *o = &l->options;
    struct bytes file;
    const char *why = find_file(l, sample, n, &file);

    if (why == NULL && o->decoder != NULL)
        why = decode_on(o->decoder, l, &file, sample, out);
    else if (why == NULL)
        why = image_decode(file.data, file.n, &o->image, o->seed, l->epoch, sample, out);
    free(file.owned);
    return why;
}

/* Name a broken file the first time. */
static void tell_broken(struct loader *l, uint64_t sample, const char *why)
{
    const char *path = dataset_path(l->options.dataset, sample);

    pthread_mutex_lock(&l->lock);
    const bool again = l->broken[sample];
    l->broken[sample] = true;
    pthread_mutex_unlock(&l->lock);
    if (l->options.broken_fatal)
        give_up(ENDING_ERROR, "%s: %s; repair or remove it, or skip broken files with --broken skip", path, why);
    if (!again)
        tell("%s: %s; it is left out", path, why);
}

/*
 * Load the n-th image of this rank, or that of the next position whose file is not broken. Returns its label; -1: none.
 */
static int32_t load(struct loader *l, uint64_t n, void *out)
{
    const struct loader_options *o = &l->options;
    const uint64_t position = position_of(l, n);
    const uint64_t count = dataset_count(o->dataset);

    for (uint64_t i = 0; position < count && i < (o->whole ? 1 : count); i++) {
        const uint64_t sample = dataset_at(o->dataset, o->shuffle, o->seed, l->epoch, (position + i) % count);
        const char *why = decode_sample(l, sample, i == 0 ? n : ELSEWHERE, out);
        if (why == NULL)
            return (int32_t)dataset_label(o->dataset, sample);
        tell_broken(l, sample, why);
    }
    if (!o->whole)
        give_up(ENDING_ERROR, "all %llu images are broken; repair or replace them", (unsigned long long)count);
    if (o->decoder == NULL) /* a device's memory has zeros or an older image */
        memset(out, 0, l->image);
    return -1;
}

/* ---- Threads ---- */

static bool any_left(const struct loader *l)
{
    return l->begun / l->options.micro < l->end;
}

static bool may_begin(const struct loader *l)
{
    return any_left(l) && l->begun / l->options.micro < l->given + l->nslot - (l->given > l->first);
}

static void wait_for_work(struct loader *l)
{
    while (!l->stopping && !may_begin(l)) {
        const bool full = any_left(l);
        l->idle += full;
        l->figures.idle -= full * plait_clock();
        pthread_cond_wait(&l->work, &l->lock);
        l->figures.idle += full * plait_clock();
        l->idle -= full;
    }
}

static void *thread(void *argument)
{
    struct loader *l = argument;

    pthread_mutex_lock(&l->lock);
    for (;;) {
        wait_for_work(l);
        if (l->stopping)
            break;
        const uint64_t image = l->begun++;
        const uint32_t k = (uint32_t)(image % l->options.micro);
        struct slot *s = &l->slots[image / l->options.micro % l->nslot];
        if (k == 0)
            s->undone = l->options.micro;
        l->busy++;
        pthread_mutex_unlock(&l->lock);
        const int32_t label = load(l, image, s->images + k * l->image);
        pthread_mutex_lock(&l->lock);
        s->labels[k] = label;
        l->busy--;
        if (--s->undone == 0 || l->busy == 0)
            pthread_cond_signal(&l->done);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* Call with the lock held. Afterwards no image is being decoded, and none will be started. */
static void stop_epoch(struct loader *l)
{
    l->end = 0;
    while (l->busy > 0)
        pthread_cond_wait(&l->done, &l->lock);
}

static void check_options(const struct loader_options *o)
{
    if (o->threads == 0)
        give_up(ENDING_ERROR, "0 threads cannot decode images; use 1 or more");
    if (o->micro == 0 || o->nrank == 0 || o->batch == 0 || o->batch % ((uint64_t)o->micro * o->nrank) != 0)
        give_up(ENDING_ERROR, "a batch of %u images must be a multiple of %u (micro-batch) times %u (ranks)", o->batch,
                o->micro, o->nrank);
    if (!o->whole && dataset_count(o->dataset) < o->batch)
        give_up(ENDING_ERROR, "a batch of %u images is more than all %llu images; use smaller batches", o->batch,
                (unsigned long long)dataset_count(o->dataset));
}

static void *host_memory(const struct loader_options *o, size_t bytes)
{
    return o->alloc != NULL ? o->alloc(o->context, bytes) : allocate(bytes, 1);
}

static void make_slots(struct loader *l)
{
    const struct loader_options *o = &l->options;

    l->image = image_size(&o->image);
    l->nslot = (o->queue > 0 ? o->queue : 1) + 1; /* one is held by the caller */
    l->slots = allocate(l->nslot, sizeof *l->slots);
    for (struct slot *s = l->slots; s < l->slots + l->nslot; s++) {
        s->images = o->decoder != NULL ? o->decoder->alloc(o->decoder, o->micro * l->image)
                                       : host_memory(o, o->micro * l->image);
        s->labels = host_memory(o, o->micro * sizeof *s->labels);
    }
}

struct loader *loader_create(const struct loader_options *options)
{
    struct loader *l = allocate(1, sizeof *l);

    check_options(options);
    l->options = *options;
    make_slots(l);
    l->broken = allocate(dataset_count(options->dataset), sizeof *l->broken);
    l->threads = allocate(options->threads, sizeof *l->threads);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->done, NULL);
    for (unsigned i = 0; i < options->threads; i++)
        if (pthread_create(&l->threads[i], NULL, thread, l) != 0)
            give_up(ENDING_ERROR, "decoding thread %u of %u cannot be started; use fewer", i + 1, options->threads);
    return l;
}

void loader_destroy(struct loader *l)
{
    if (l == NULL)
        return;
    pthread_mutex_lock(&l->lock);
    l->stopping = true;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    for (unsigned i = 0; i < l->options.threads; i++)
        pthread_join(l->threads[i], NULL);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->work);
    pthread_cond_destroy(&l->done);
    for (uint32_t i = 0; i < l->nslot && l->options.alloc == NULL; i++) {
        free(l->options.decoder == NULL ? l->slots[i].images : NULL);
        free(l->slots[i].labels);
    }
    free(l->slots);
    free(l->threads);
    free(l->broken);
    free(l);
}

void loader_begin(struct loader *l, uint32_t epoch, uint64_t step)
{
    pthread_mutex_lock(&l->lock);
    stop_epoch(l);
    pthread_mutex_unlock(&l->lock);
    const double start = plait_clock();
    if (l->options.store != NULL)
        store_wait(l->options.store, l->options.shuffle, l->options.seed, epoch, l->options.batch);
    pthread_mutex_lock(&l->lock);
    l->figures.waited += plait_clock() - start;
    l->epoch = epoch;
    l->first = l->given = step * micros_of_step(l);
    l->begun = l->first * l->options.micro;
    l->end = loader_steps(l) * micros_of_step(l);
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
}

void loader_set_transform(struct loader *l, enum transform transform, bool shuffle)
{
    pthread_mutex_lock(&l->lock);
    stop_epoch(l);
    l->options.image.transform = transform;
    l->options.shuffle = shuffle;
    pthread_mutex_unlock(&l->lock);
}

/* Is the latest micro-batch that was asked for decoded? */
static bool is_done(const struct loader *l, const struct slot *s)
{
    return l->begun >= l->given * l->options.micro && s->undone == 0;
}

bool loader_next(struct loader *l, struct images *out)
{
    const double start = plait_clock();

    pthread_mutex_lock(&l->lock);
    if (l->given >= l->end) {
        pthread_mutex_unlock(&l->lock);
        return false;
    }
    const struct slot *s = &l->slots[l->given % l->nslot];
    l->given++; /* frees the slot of the previous one */
    pthread_cond_broadcast(&l->work);
    const bool late = !is_done(l, s);
    while (!is_done(l, s))
        pthread_cond_wait(&l->done, &l->lock);
    l->figures.given++;
    l->figures.late += late;
    l->figures.waited += plait_clock() - start;
    pthread_mutex_unlock(&l->lock);
    *out = (struct images){ .n = l->options.micro, .images = s->images, .labels = s->labels };
    return true;
}

struct loader_figures loader_figures(struct loader *l)
{
    pthread_mutex_lock(&l->lock);
    struct loader_figures f = l->figures;
    f.idle = (f.idle + l->idle * plait_clock()) / l->options.threads;
    pthread_mutex_unlock(&l->lock);
    return f;
}

size_t loader_memory(const struct loader *l)
{
    return (size_t)l->nslot * l->options.micro * (l->image + sizeof(int32_t));
}

uint64_t loader_broken(struct loader *l, struct plait_comm *comm)
{
    const uint64_t count = dataset_count(l->options.dataset);
    uint8_t *broken = allocate(count, sizeof *broken);
    uint64_t n = 0;

    pthread_mutex_lock(&l->lock);
    for (uint64_t i = 0; i < count; i++)
        broken[i] = l->broken[i];
    pthread_mutex_unlock(&l->lock);
    if (comm != NULL)
        must(plait_allreduce(comm, broken, broken, count, PLAIT_UINT8, PLAIT_MAX, NULL), "broken files");
    for (uint64_t i = 0; i < count; i++)
        n += broken[i];
    free(broken);
    return n;
}
