/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keeper's thread owns the copies while `busy` is set. A saver waits until it is not, copies, and hands the copies
 * over. Nothing is removed before the new file and its name are on the disk.
 */
#include "checkpoint.h"

#include "checkpoint_names.h"
#include "ending.h"
#include "replace.h"
#include "why.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOTES_MADE 3 /* added by the keeper */

enum { TROUBLE = PATH_MAX + 512 };

struct keeper {
    char folder[PATH_MAX];
    char newest[PATH_MAX];
    int lock; /* descriptor of the folder, locked while this process lives */
    uint32_t keep;

    pthread_t thread;
    bool running;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool busy, leave; /* these, and the error texts, are under the mutex */
    bool untold;
    char trouble[TROUBLE], told[TROUBLE];

    /* The checkpoint that is being written: */
    uint64_t step;
    bool best;
    struct entry *entries;
    uint32_t nentry;
    struct note *notes;
    uint32_t nnote;
    uint8_t *arena;
    size_t room;
};

static void trouble(struct keeper *k, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The first error stays until it is reported. */
static void trouble(struct keeper *k, const char *format, ...)
{
    va_list arguments;

    pthread_mutex_lock(&k->mutex);
    if (!k->untold) {
        va_start(arguments, format);
        vsnprintf(k->trouble, sizeof k->trouble, format, arguments);
        va_end(arguments);
        k->untold = true;
    }
    pthread_mutex_unlock(&k->mutex);
}

const char *keeper_newest(struct keeper *k)
{
    keeper_wait(k);
    return checkpoint_newest(k->folder, k->newest, sizeof k->newest) ? k->newest : "";
}

/* ---- Writing ------------------------------------------------------------------------------------------------ */

/* out: [NOTES_MADE + nnote] */
static uint32_t make_notes(uint64_t step, const struct note *notes, uint32_t nnote, struct note *out)
{
    out[0] = (struct note){ "format", "pt" }; /* PyTorch's mark of row-major files */
    out[1] = (struct note){ "plait", VERSION };
    out[2] = (struct note){ .name = "step" };
    snprintf(out[2].value, sizeof out[2].value, "%" PRIu64, step);
    if (nnote > 0)
        memcpy(out + NOTES_MADE, notes, nnote * sizeof *notes);
    return NOTES_MADE + nnote;
}

const char *checkpoint_write(const char *folder, uint64_t step, const struct entry *entries, uint32_t nentry,
                             const struct note *notes, uint32_t nnote)
{
    char path[PATH_MAX + NAME];
    struct note *const all = malloc((NOTES_MADE + (size_t)nnote) * sizeof *all);

    if (all == NULL)
        return because("%s: out of memory", folder);
    snprintf(path, sizeof path, "%s/" STEP_NAME, folder, step);
    const char *const why = safetensors_write(path, entries, nentry, all, make_notes(step, notes, nnote, all));
    free(all);
    return why;
}

/* best.safetensors is a hard link; where links are not possible, the file is written again. */
static const char *write_best(struct keeper *k, const char *path)
{
    static const char hidden[] = ".best" REPLACE_SUFFIX;
    char best[PATH_MAX + NAME];

    snprintf(best, sizeof best, "%s/" BEST, k->folder);
    unlinkat(k->lock, hidden, 0);
    const bool linked = linkat(AT_FDCWD, path, k->lock, hidden, 0) == 0 &&
                        renameat(k->lock, hidden, k->lock, BEST) == 0 && fsync(k->lock) == 0;
    unlinkat(k->lock, hidden, 0);
    return linked ? NULL : safetensors_write(best, k->entries, k->nentry, k->notes, k->nnote);
}

/* Keep the last `keep` checkpoints up to this one. Those of later steps belong to a run that was abandoned. */
static void remove_old(struct keeper *k)
{
    uint64_t *steps = NULL;
    const ssize_t n = checkpoint_steps(k->folder, &steps);
    uint32_t kept = 0;
    char name[NAME];

    if (n < 0)
        trouble(k, "%s cannot be read: %s; older checkpoints stay", k->folder, strerror(errno));
    for (ssize_t i = 0; i < n; i++) {
        if (steps[i] > k->step || k->keep == 0 || kept++ < k->keep)
            continue;
        snprintf(name, sizeof name, STEP_NAME, steps[i]);
        if (unlinkat(k->lock, name, 0) != 0 && errno != ENOENT)
            trouble(k, "%s/%s cannot be removed: %s; remove it", k->folder, name, strerror(errno));
    }
    free(steps);
}

static void write_it(struct keeper *k)
{
    char path[PATH_MAX + NAME];

    snprintf(path, sizeof path, "%s/" STEP_NAME, k->folder, k->step);
    const char *why = safetensors_write(path, k->entries, k->nentry, k->notes, k->nnote);
    if (why == NULL && k->best)
        why = write_best(k, path);
    if (why == NULL)
        remove_old(k);
    else
        trouble(k, "the checkpoint of step %" PRIu64 ": %s (older ones are kept)", k->step, why);
}

static void *work(void *argument)
{
    struct keeper *const k = argument;

    pthread_mutex_lock(&k->mutex);
    for (;;) {
        while (!k->busy && !k->leave)
            pthread_cond_wait(&k->changed, &k->mutex);
        if (!k->busy)
            break;
        pthread_mutex_unlock(&k->mutex);
        write_it(k);
        pthread_mutex_lock(&k->mutex);
        k->busy = false;
        pthread_cond_broadcast(&k->changed);
    }
    pthread_mutex_unlock(&k->mutex);
    return NULL;
}

/* ---- Saving ------------------------------------------------------------------------------------------------- */

/* Memory for a copy, as large as the largest so far. */
static bool reserve(struct keeper *k, size_t bytes, uint32_t nentry, uint32_t nnote)
{
    if (bytes > k->room) {
        free(k->arena);
        k->room = 0;
        k->arena = malloc(bytes);
        if (k->arena == NULL)
            return false;
        k->room = bytes;
    }
    struct entry *const entries = realloc(k->entries, (nentry + 1) * sizeof *entries);
    if (entries != NULL)
        k->entries = entries;
    struct note *const notes = realloc(k->notes, (nnote + NOTES_MADE) * sizeof *notes);
    if (notes != NULL)
        k->notes = notes;
    return entries != NULL && notes != NULL;
}

void keeper_save(struct keeper *k, uint64_t step, bool best, const struct entry *entries, uint32_t nentry,
                 const struct note *notes, uint32_t nnote)
{
    uint64_t bytes = 0, of_one;

    keeper_wait(k);
    for (uint32_t e = 0; e < nentry; e++)
        bytes += entry_bytes(&entries[e], &of_one) ? of_one : 0;
    if (!reserve(k, bytes, nentry, nnote)) {
        trouble(k, "no checkpoint of step %" PRIu64 ": no memory for a copy of %" PRIu64 " bytes", step, bytes);
        return;
    }
    uint8_t *at = k->arena;
    for (uint32_t e = 0; e < nentry; e++) {
        k->entries[e] = entries[e];
        k->entries[e].data = at;
        if (!entry_bytes(&entries[e], &of_one) || of_one == 0)
            continue;
        memcpy(at, entries[e].data, of_one);
        at += of_one;
    }
    k->nentry = nentry;
    k->nnote = make_notes(step, notes, nnote, k->notes);
    k->step = step;
    k->best = best;
    pthread_mutex_lock(&k->mutex);
    k->busy = true;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->mutex);
}

void keeper_wait(struct keeper *k)
{
    pthread_mutex_lock(&k->mutex);
    while (k->busy)
        pthread_cond_wait(&k->changed, &k->mutex);
    pthread_mutex_unlock(&k->mutex);
}

const char *keeper_trouble(struct keeper *k)
{
    pthread_mutex_lock(&k->mutex);
    const bool untold = k->untold;
    if (untold)
        memcpy(k->told, k->trouble, sizeof k->told);
    k->untold = false;
    pthread_mutex_unlock(&k->mutex);
    return untold ? k->told : NULL;
}

/* ---- Beginning and end -------------------------------------------------------------------------------------- */

/* Create a folder and its parents. */
static bool make_folder(char *path)
{
    for (char *c = path + 1; *c != '\0'; c++)
        if (*c == '/') {
            *c = '\0';
            const bool made = mkdir(path, 0777) == 0 || errno == EEXIST;
            *c = '/';
            if (!made)
                return false;
        }
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}

/* Temporary files of processes that were killed. */
static void remove_unfinished(struct keeper *k)
{
    static const char suffix[] = REPLACE_SUFFIX;
    DIR *const d = opendir(k->folder);
    const struct dirent *e;

    while (d != NULL && (e = readdir(d)) != NULL) {
        const size_t length = strlen(e->d_name);
        if (e->d_name[0] == '.' && length >= sizeof suffix && strcmp(e->d_name + length - strlen(suffix), suffix) == 0)
            unlinkat(k->lock, e->d_name, 0);
    }
    if (d != NULL)
        closedir(d);
}

/* Find out now, not after hours, that a folder cannot be written. */
static const char *try_to_write(struct keeper *k)
{
    char path[PATH_MAX + NAME];
    struct replace file;

    snprintf(path, sizeof path, "%s/.try" REPLACE_SUFFIX, k->folder);
    replace_begin(&file, path);
    replace_write(&file, "", 1);
    if (!replace_end(&file))
        return because("%s: no checkpoint can be written there: %s%s", k->folder, strerror(file.error),
                       replace_remedy(file.error));
    unlink(path);
    return NULL;
}

static const char *open_folder(struct keeper *k, const char *folder)
{
    if (folder[0] == '\0' || (size_t)snprintf(k->folder, sizeof k->folder, "%s", folder) >= sizeof k->folder)
        return because("'%.80s' is no folder for checkpoints", folder);
    if (!make_folder(k->folder))
        return because("%s: the folder for checkpoints cannot be made: %s%s", folder, strerror(errno),
                       replace_remedy(errno));
    k->lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (k->lock < 0)
        return because("%s: the folder for checkpoints cannot be opened: %s%s", folder, strerror(errno),
                       replace_remedy(errno));
    /* Some network file systems have no locks. */
    if (flock(k->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return because("%s: another process keeps its checkpoints there; wait for its end or name another folder",
                       folder);
    remove_unfinished(k);
    return try_to_write(k);
}

/*
 * The thread blocks all signals, which other threads handle; also SIGXFSZ, which would end the process at the file size
 * limit.
 */
static int start(struct keeper *k)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&k->thread, NULL, work, k);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    k->running = error == 0;
    return error;
}

struct keeper *keeper_create(const char *folder, uint32_t keep, const char **why)
{
    struct keeper *const k = calloc(1, sizeof *k);

    if (k == NULL) {
        *why = because("%s: out of memory", folder);
        return NULL;
    }
    k->lock = -1;
    k->keep = keep;
    pthread_mutex_init(&k->mutex, NULL);
    pthread_cond_init(&k->changed, NULL);
    *why = open_folder(k, folder);
    if (*why == NULL) {
        const int error = start(k);
        if (error == 0)
            return k;
        *why = because("%s: no thread to write checkpoints: %s", folder, strerror(error));
    }
    keeper_destroy(k);
    return NULL;
}

const char *keeper_destroy(struct keeper *k)
{
    if (k == NULL)
        return NULL;
    pthread_mutex_lock(&k->mutex);
    k->leave = true;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->mutex);
    if (k->running)
        pthread_join(k->thread, NULL);
    const char *const last = keeper_trouble(k), *const why = last != NULL ? because("%s", last) : NULL;
    if (k->lock >= 0)
        close(k->lock);
    pthread_cond_destroy(&k->changed);
    pthread_mutex_destroy(&k->mutex);
    free(k->arena);
    free(k->entries);
    free(k->notes);
    free(k);
    return why;
}
