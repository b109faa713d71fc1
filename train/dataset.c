/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tree: classes are the folders of a half, sorted by the bytes of their names, and samples their files in the same
 * order. The order of an epoch is a permutation that is computed, not stored: any rank finds any position's sample at
 * once.
 */
#include "data.h"
#include "ending.h"
#include "random.h"
#include "why.h"

#include "base/ascii.h"

#include <plait/coll.h>
#include <plait/comm.h>

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct sample {
    size_t path; /* in text */
    uint32_t label;
};

struct open_folder { /* an open folder on the path to the one being listed */
    dev_t device;
    ino_t inode;
    const struct open_folder *above;
};

struct dataset {
    char *text; /* classes and paths, each ended by a zero */
    size_t ntext, text_room;
    size_t *classes; /* in text */
    uint32_t nclass;
    struct sample *samples;
    uint64_t nsample, sample_room;
    uint64_t nother;                /* files without a JPEG's suffix */
    size_t other;                   /* the first one, in text */
    const struct open_folder *open; /* the innermost open folder, while the tree is listed */
    uint64_t nloop;                 /* links to a folder that contains them */
    size_t loop;                    /* the first one, in text */
};

static size_t keep_text(struct dataset *d, const char *text)
{
    const size_t at = d->ntext, n = strlen(text) + 1;

    if (at + n > d->text_room) {
        d->text_room = 2 * d->text_room + n + 4096;
        d->text = grow(d->text, d->text_room, 1);
    }
    memcpy(d->text + at, text, n);
    d->ntext += n;
    return at;
}

static bool is_image(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot != NULL &&
           (plait_same_word(dot, ".jpg") || plait_same_word(dot, ".jpeg") || plait_same_word(dot, ".png"));
}

static void add_file(struct dataset *d, const char *path, const char *name)
{
    if (!is_image(name)) {
        if (d->nother++ == 0)
            d->other = keep_text(d, path);
        return;
    }
    if (d->nsample == d->sample_room) {
        d->sample_room = 2 * d->sample_room + 1024;
        d->samples = grow(d->samples, d->sample_room, sizeof *d->samples);
    }
    d->samples[d->nsample++] = (struct sample){ .path = keep_text(d, path), .label = d->nclass - 1 };
}

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* List a folder, sorted by name. Returns NULL, or the error. */
static const char *list_folder(const char *folder, struct dirent ***out, int *n)
{
    *n = scandir(folder, out, visible, by_bytes);
    return *n >= 0 ? NULL
                   : because("%s: %s; images lie in FOLDER/train/CLASS/NAME.jpg and FOLDER/val/CLASS/NAME.jpg "
                             "(plait-train make-data FOLDER draws some)",
                             folder, strerror(errno));
}

static void free_list(struct dirent **entries, int n)
{
    for (int i = 0; i < n; i++)
        free(entries[i]);
    free(entries);
}

static char *join(const char *folder, const char *name)
{
    char *path;

    if (asprintf(&path, "%s/%s", folder, name) < 0)
        give_up(ENDING_ERROR, "no memory for a path in %s", folder);
    return path;
}

/*
 * Is it a folder? A link to a folder that contains it would be listed forever: it is counted and skipped. Returns NULL,
 * or the error.
 */
static const char *look_for_folder(struct dataset *d, const char *path, bool *is_folder, bool *loops)
{
    struct stat s;

    if (stat(path, &s) != 0)
        return because("%s: %s; repair the link or remove it", path, strerror(errno));
    *is_folder = S_ISDIR(s.st_mode);
    *loops = false;
    for (const struct open_folder *f = d->open; *is_folder && f != NULL; f = f->above)
        *loops |= f->device == s.st_dev && f->inode == s.st_ino;
    if (*loops && d->nloop++ == 0)
        d->loop = keep_text(d, path);
    return NULL;
}

typedef const char *visit_entry(struct dataset *d, const char *path, const struct dirent *entry);

/* Visit each entry of a folder, in order, until a visit returns an error. */
static const char *for_each(struct dataset *d, const char *folder, visit_entry *visit)
{
    const struct open_folder *const above = d->open;
    struct open_folder here = { .above = above };
    struct dirent **entries;
    struct stat s;
    int n;
    const char *why = list_folder(folder, &entries, &n);

    if (why != NULL)
        return why;
    if (stat(folder, &s) == 0) {
        here.device = s.st_dev;
        here.inode = s.st_ino;
        d->open = &here;
    }
    for (int i = 0; why == NULL && i < n; i++) {
        char *path = join(folder, entries[i]->d_name);
        why = visit(d, path, entries[i]);
        free(path);
    }
    free_list(entries, n);
    d->open = above;
    return why;
}

/* Add the files of a class, including those of subfolders. */
static const char *add_to_class(struct dataset *d, const char *path, const struct dirent *entry)
{
    bool is_folder = false, loops = false;
    const char *const why = entry->d_type != DT_REG ? look_for_folder(d, path, &is_folder, &loops) : NULL;

    if (why != NULL || loops)
        return why;
    if (is_folder)
        return for_each(d, path, add_to_class);
    add_file(d, path, entry->d_name);
    return NULL;
}

static const char *add_class(struct dataset *d, const char *path, const struct dirent *entry)
{
    const uint64_t before = d->nsample;
    bool is_folder = false, loops = false;
    const char *why = entry->d_type != DT_REG ? look_for_folder(d, path, &is_folder, &loops) : NULL;

    if (why != NULL || loops || !is_folder)
        return why;
    d->classes = grow(d->classes, d->nclass + 1, sizeof *d->classes);
    d->classes[d->nclass++] = keep_text(d, entry->d_name);
    why = for_each(d, path, add_to_class);
    return why != NULL || d->nsample > before
               ? why
               : because("%s: no .jpg, .jpeg or .png in it; put images of this class there or remove the folder", path);
}

struct dataset *dataset_open(const char *folder, const char *half, const char **why)
{
    struct dataset *d = allocate(1, sizeof *d);
    char *path = join(folder, half);

    *why = for_each(d, path, add_class);
    if (*why == NULL && d->nclass == 0)
        *why = because("%s: no folder in it; put the images of each class into a folder there", path);
    free(path);
    if (*why != NULL) {
        dataset_close(d);
        return NULL;
    }
    if (d->nother > 0)
        complain("files left out, as they are not named .jpg, .jpeg or .png: %llu; the first is %s",
                 (unsigned long long)d->nother, d->text + d->other);
    if (d->nloop > 0)
        complain("symbolic links left out, as they lead to a folder above themselves: %llu; the first is %s",
                 (unsigned long long)d->nloop, d->text + d->loop);
    return d;
}

void dataset_close(struct dataset *d)
{
    if (d == NULL)
        return;
    free(d->text);
    free(d->classes);
    free(d->samples);
    free(d);
}

uint64_t dataset_count(const struct dataset *d)
{
    return d->nsample;
}

uint32_t dataset_nclass(const struct dataset *d)
{
    return d->nclass;
}

const char *dataset_class(const struct dataset *d, uint32_t k)
{
    return d->text + d->classes[k];
}

const char *dataset_path(const struct dataset *d, uint64_t sample)
{
    return d->text + d->samples[sample].path;
}

uint32_t dataset_label(const struct dataset *d, uint64_t sample)
{
    return d->samples[sample].label;
}

uint64_t dataset_hash(const struct dataset *d)
{
    uint64_t hash = random_stream(d->nsample, d->nclass, 0);

    for (uint64_t i = 0; i < d->nsample; i++) {
        hash = random_stream(hash, d->samples[i].label, 0);
        for (const char *p = strrchr(dataset_path(d, i), '/'); *p != '\0';
             p++) /* the folder's path may differ between hosts */
            hash = (hash ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
    }
    return hash;
}

struct sight { /* of a rank */
    uint64_t count, names, sizes;
};
enum { SIZED = 64 }; /* files of which the sizes are compared: asking for all takes long on a network's file system */

static struct sight look(const struct dataset *d)
{
    struct sight s = { d->nsample, dataset_hash(d), 0 };
    const uint64_t each = (d->nsample + SIZED - 1) / SIZED;
    struct stat file;

    for (uint32_t k = 0; k < d->nclass; k++)
        for (const char *p = dataset_class(d, k); *p != '\0'; p++)
            s.names = random_stream(s.names, (unsigned char)*p, k);
    for (uint64_t i = 0; i < d->nsample; i += each)
        s.sizes = random_stream(s.sizes, stat(dataset_path(d, i), &file) == 0 ? (uint64_t)file.st_size : 0, i);
    return s;
}

static bool is_same(const struct sight *a, const struct sight *b)
{
    return a->count == b->count && a->names == b->names && a->sizes == b->sizes;
}

bool dataset_same_on_all(const struct dataset *d, struct plait_comm *comm)
{
    const struct sight own = look(d);
    const uint32_t nrank = plait_comm_nrank(comm);
    struct sight *all = allocate(nrank, sizeof *all), *other = all;

    must(plait_allgather(comm, &own, all, sizeof own / sizeof(uint64_t), PLAIT_UINT64, NULL), "the files of all ranks");
    while (other < all + nrank && is_same(other, all))
        other++;
    const uint32_t rank = (uint32_t)(other - all);
    if (rank < nrank)
        complain("rank %u sees other files than rank 0: %llu images and %llu%s; all ranks need the same tree", rank,
                 (unsigned long long)other->count, (unsigned long long)all->count,
                 other->count != all->count   ? ""
                 : other->names != all->names ? ", of other names"
                                              : ", of other sizes");
    free(all);
    return rank == nrank;
}

bool dataset_same_classes(const struct dataset *a, const struct dataset *b)
{
    for (uint32_t k = 0; k < a->nclass || k < b->nclass; k++) {
        const char *in_a = k < a->nclass ? dataset_class(a, k) : "none",
                   *in_b = k < b->nclass ? dataset_class(b, k) : "none";
        if (strcmp(in_a, in_b) != 0)
            return complain("class %u is %s in train and %s in val; both need the same folders", k, in_a, in_b);
    }
    return true;
}

/*
 * A permutation of 0 to n - 1 for each key. The number is written as (x, y) in a grid of a x b places, at least n. Each
 * round adds a function of one coordinate to the other, which can be undone, so the rounds permute the grid. A result
 * of n or more is permuted again until it is below n.
 */
static uint64_t permuted(uint64_t position, uint64_t n, uint64_t key)
{
    enum { ROUNDS = 8 };
    uint64_t a = (uint64_t)sqrt((double)n), b;

    a += a * a < n;
    b = (n + a - 1) / a;
    do {
        uint64_t x = position / b, y = position % b;
        for (uint64_t round = 0; round < ROUNDS; round += 2) {
            x = (x + random_stream(key, round, y) % a) % a;
            y = (y + random_stream(key, round + 1, x) % b) % b;
        }
        position = x * b + y;
    } while (position >= n);
    return position;
}

uint64_t dataset_at(const struct dataset *d, bool shuffle, uint64_t seed, uint32_t epoch, uint64_t position)
{
    return shuffle ? permuted(position, d->nsample, random_stream(seed, epoch, 0)) : position;
}
