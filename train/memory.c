/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The dataset in the memory of the ranks (Kumar et al. 2017). A rank keeps its part, compressed, throughout. For each
 * epoch it receives the images of its positions from the ranks of its group, in all-to-all exchanges of bounded size:
 * one segment of the epoch's steps after the other. Every rank knows the sizes of all files and computes the epoch's
 * order, so every rank knows which rank needs what from which, and nothing is negotiated. A thread does it during the
 * epoch before.
 */
#include "data.h"
#include "ending.h"

#include <plait/comm.h>
#include <plait/memory.h>

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

uint64_t store_segment = 32 << 20;

struct group { /* a group of ranks that together hold all images */
    uint32_t first, size, me;
};

struct epoch { /* the images of this rank in one epoch */
    bool shuffle;
    uint64_t seed;
    uint32_t number, batch;
    struct store *store;
    pthread_t thread;            /* thread that fetches them */
    const unsigned char **image; /* [part x steps] */
    uint64_t *bytes;
    unsigned char **arrived; /* [nsegment] images received from others */
    uint64_t nsegment;
    char failure[512]; /* "": none */
};

struct store {
    const struct dataset *dataset;
    struct plait_comm *comm; /* the group's ranks; NULL: this rank alone */
    uint32_t rank, nrank;
    struct group group;
    uint64_t *sizes;       /* of all files; 0: unreadable */
    uint64_t *starts;      /* [part + 1] offsets in memory, of this rank's part */
    unsigned char *memory; /* of this rank's part */
    struct epoch *here, *coming;
    _Atomic bool stopping;
    _Atomic uint64_t brought, segments;
};

/* ---- Parts ---- */

static struct group group_of(uint32_t rank, uint32_t nrank, uint32_t ngroup)
{
    const uint32_t k = (uint32_t)((uint64_t)rank * ngroup / nrank);
    const uint32_t first = (uint32_t)(((uint64_t)k * nrank + ngroup - 1) / ngroup);
    const uint32_t end = (uint32_t)(((uint64_t)(k + 1) * nrank + ngroup - 1) / ngroup);

    return (struct group){ first, end - first, rank - first };
}

/* The first sample of a member's part. */
static uint64_t part_start(const struct store *s, uint32_t member)
{
    return (uint64_t)((unsigned __int128)dataset_count(s->dataset) * member / s->group.size);
}

/* The member that holds a sample. */
static uint32_t holder(const struct store *s, uint64_t sample)
{
    const uint64_t count = dataset_count(s->dataset);
    uint32_t member = (uint32_t)((unsigned __int128)sample * s->group.size / count);

    while (member + 1 < s->group.size && part_start(s, member + 1) <= sample)
        member++;
    return member;
}

static void read_sizes(struct store *s, uint64_t first, uint64_t end)
{
    struct stat status;

    for (uint64_t i = first; i < end; i++)
        s->sizes[i] =
            stat(dataset_path(s->dataset, i), &status) == 0 && S_ISREG(status.st_mode) ? (uint64_t)status.st_size : 0;
}

/* A file that cannot be read completely counts as empty. */
static void read_part(struct store *s, uint64_t first, uint64_t end)
{
    s->starts = allocate(end - first + 1, sizeof *s->starts);
    read_sizes(s, first, end);
    for (uint64_t i = first; i < end; i++)
        s->starts[i - first + 1] = s->starts[i - first] + s->sizes[i];
    s->memory = malloc(s->starts[end - first] + 1);
    if (s->memory == NULL)
        give_up(ENDING_ERROR,
                "no memory for the %llu bytes of this rank's part of the images; use more ranks or fewer --groups, or "
                "leave --in-memory out",
                (unsigned long long)s->starts[end - first]);
    for (uint64_t i = first; i < end; i++) {
        FILE *f = s->sizes[i] > 0 ? fopen(dataset_path(s->dataset, i), "rb") : NULL; /* opening a pipe would wait */
        if (f == NULL || fread(s->memory + s->starts[i - first], 1, s->sizes[i], f) != s->sizes[i])
            s->sizes[i] = 0;
        if (f != NULL)
            fclose(f);
    }
}

static void exchange_sizes(struct store *s)
{
    const uint32_t n = s->group.size;
    size_t *counts = allocate(n, sizeof *counts);

    for (uint32_t m = 0; m < n; m++)
        counts[m] = part_start(s, m + 1) - part_start(s, m);
    must(plait_allgatherv(s->comm, s->sizes + part_start(s, s->group.me), s->sizes, counts, NULL, PLAIT_UINT64, NULL),
         "images in memory");
    free(counts);
}

struct store *store_create(struct plait_comm *comm, const struct dataset *dataset, uint32_t ngroup)
{
    struct store *s = allocate(1, sizeof *s);

    s->dataset = dataset;
    s->nrank = comm == NULL ? 1 : plait_comm_nrank(comm);
    s->rank = plait_comm_rank(comm);
    assert(ngroup >= 1 && ngroup <= s->nrank);
    s->group = group_of(s->rank, s->nrank, ngroup);
    s->sizes = allocate(dataset_count(dataset), sizeof *s->sizes);
    read_part(s, part_start(s, s->group.me), part_start(s, s->group.me + 1));
    if (s->nrank > 1 && ngroup < s->nrank) {
        must(plait_comm_split(comm, (int)s->group.first, 0, "images", &s->comm), "images in memory");
        exchange_sizes(s);
    }
    return s;
}

/* ---- An epoch ---- */

static uint32_t images_of_step(const struct epoch *e)
{
    return e->batch / e->store->nrank;
}

static uint64_t steps_of(const struct epoch *e)
{
    return (dataset_count(e->store->dataset) + e->batch - 1) / e->batch;
}

/*
 * The sample that a member needs as image i of a step, and which member holds it. Returns false at the end of the
 * epoch.
 */
static bool needed(const struct epoch *e, uint64_t step, uint32_t member, uint32_t i, uint64_t *sample, uint32_t *from)
{
    const struct store *s = e->store;
    const uint64_t position = step * e->batch + (uint64_t)(s->group.first + member) * images_of_step(e) + i;

    if (position >= dataset_count(s->dataset))
        return false;
    *sample = dataset_at(s->dataset, e->shuffle, e->seed, e->number, position);
    *from = holder(s, *sample);
    return true;
}

struct segment {          /* steps that are exchanged together */
    uint64_t step, end;   /* the steps */
    size_t *gets, *sends; /* [group] bytes that each member receives and sends, to bound the segment */
    size_t *from, *to;    /* [group] bytes that this rank receives from and sends to each member */
    size_t nfrom, nto;    /* their sums */
    unsigned char *out;   /* data that this rank sends */
};

static void count_step(const struct epoch *e, struct segment *g)
{
    const struct store *s = e->store;

    for (uint32_t member = 0; member < s->group.size; member++)
        for (uint32_t i = 0; i < images_of_step(e); i++) {
            uint64_t sample;
            uint32_t from;
            if (!needed(e, g->end, member, i, &sample, &from) || from == member)
                continue;
            g->gets[member] += s->sizes[sample];
            g->sends[from] += s->sizes[sample];
            if (member == s->group.me)
                g->from[from] += s->sizes[sample];
            if (from == s->group.me)
                g->to[member] += s->sizes[sample];
        }
    g->end++;
}

/* Does a member send or receive enough? */
static bool is_full(const struct segment *g, uint32_t n)
{
    for (uint32_t member = 0; member < n; member++)
        if (g->gets[member] >= store_segment || g->sends[member] >= store_segment)
            return true;
    return false;
}

static void plan_segment(const struct epoch *e, struct segment *g)
{
    const uint32_t n = e->store->group.size;
    size_t *arrays[] = { g->gets, g->sends, g->from, g->to };

    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        memset(arrays[i], 0, n * sizeof *arrays[i]);
    g->step = g->end;
    while (g->end < steps_of(e) && !is_full(g, n))
        count_step(e, g);
    g->nfrom = g->nto = 0;
    for (uint32_t member = 0; member < n; member++) {
        g->nfrom += g->from[member];
        g->nto += g->to[member];
    }
}

static const unsigned char *own_image(const struct store *s, uint64_t sample)
{
    return s->memory + s->starts[sample - part_start(s, s->group.me)];
}

struct places {           /* while a segment is laid out: where the next image goes */
    unsigned char **from; /* [group] received from a member */
    unsigned char **to;   /* [group] sent to a member */
};

/* Lay out image i of a step for the member that needs it. */
static void place_image(const struct epoch *e, uint64_t step, uint32_t member, uint32_t i, const struct places *p)
{
    const struct store *s = e->store;
    const uint64_t k = step * images_of_step(e) + i;
    uint64_t sample;
    uint32_t from;

    if (!needed(e, step, member, i, &sample, &from) || s->sizes[sample] == 0)
        return;
    const uint64_t bytes = s->sizes[sample];
    if (member != s->group.me) {
        if (from != s->group.me)
            return;
        assert(p->to[member] != NULL); /* since it needs something */
        memcpy(p->to[member], own_image(s, sample), bytes);
        p->to[member] += bytes;
        return;
    }
    e->bytes[k] = bytes;
    e->image[k] = from == member ? own_image(s, sample) : p->from[from];
    p->from[from] += from == member ? 0 : bytes;
}

/* Determine where each image will lie, and collect what other ranks need from this one, in the order of the steps. */
static void place_segment(const struct epoch *e, const struct segment *g, unsigned char *in)
{
    const uint32_t n = e->store->group.size;
    unsigned char *out = g->out;
    struct places p = { .from = allocate(n, sizeof *p.from), .to = allocate(n, sizeof *p.to) };

    for (uint32_t member = 0; member < n; member++) {
        p.from[member] = in;
        p.to[member] = out;
        in += g->from[member];
        out += g->to[member];
    }
    for (uint64_t step = g->step; step < g->end; step++)
        for (uint32_t member = 0; member < n; member++)
            for (uint32_t i = 0; i < images_of_step(e); i++)
                place_image(e, step, member, i, &p);
    free(p.from);
    free(p.to);
}

/*
 * One exchange. All ranks of the group take part, even one with nothing to send. After an error the library owns the
 * memory.
 */
static enum plait_status exchange_segment(struct epoch *e, struct segment *g)
{
    struct store *s = e->store;
    unsigned char *in = allocate(g->nfrom, 1);
    void *out = NULL;
    enum plait_status status = g->nto > 0 ? plait_mem_alloc(g->nto, &out) : PLAIT_OK;

    if (status != PLAIT_OK)
        return status;
    g->out = out;
    place_segment(e, g, in);
    if (s->comm != NULL)
        status = plait_alltoallv(s->comm, out, g->to, NULL, in, g->from, NULL, PLAIT_UINT8, NULL);
    if (status != PLAIT_OK)
        return status;
    plait_mem_free(out);
    e->arrived = grow(e->arrived, e->nsegment + 1, sizeof *e->arrived);
    e->arrived[e->nsegment++] = in;
    s->brought += g->nfrom;
    s->segments++;
    return PLAIT_OK;
}

/* Before each exchange the ranks of a group learn whether one has stopped, so that none waits for it there. */
static enum plait_status ask_all(struct store *s, bool *given_up)
{
    const int32_t mine = s->stopping;
    int32_t any = mine;
    const enum plait_status status =
        s->comm == NULL ? PLAIT_OK : plait_allreduce(s->comm, &mine, &any, 1, PLAIT_INT32, PLAIT_MAX, NULL);

    *given_up = any != 0;
    return status;
}

static void *bring(void *argument)
{
    struct epoch *e = argument;
    struct store *s = e->store;
    const uint32_t n = s->group.size;
    size_t *arrays = allocate(4 * (size_t)n, sizeof *arrays);
    struct segment g = { .gets = arrays, .sends = arrays + n, .from = arrays + 2 * n, .to = arrays + 3 * n };
    enum plait_status status = PLAIT_OK;
    bool given_up = false;

    while (g.end < steps_of(e)) {
        status = ask_all(s, &given_up);
        if (status != PLAIT_OK || given_up)
            break;
        plan_segment(e, &g);
        if ((status = exchange_segment(e, &g)) != PLAIT_OK)
            break;
    }
    if (given_up)
        snprintf(e->failure, sizeof e->failure, "a rank has stopped training");
    if (status != PLAIT_OK) {
        snprintf(e->failure, sizeof e->failure, "%s: %s", plait_status_text(status), plait_last_error());
        plait_comm_abort(s->comm, e->failure); /* the others wait for this rank's part */
    }
    free(arrays);
    return NULL;
}

/* ---- From epoch to epoch ---- */

static void forget(struct epoch *e)
{
    if (e == NULL)
        return;
    for (uint64_t i = 0; i < e->nsegment; i++)
        free(e->arrived[i]);
    free(e->arrived);
    free(e->image);
    free(e->bytes);
    free(e);
}

static void end_coming(struct store *s)
{
    if (s->coming != NULL)
        pthread_join(s->coming->thread, NULL);
    forget(s->coming);
    s->coming = NULL;
}

static bool is_epoch(const struct epoch *e, bool shuffle, uint64_t seed, uint32_t number, uint32_t batch)
{
    return e != NULL && e->shuffle == shuffle && e->batch == batch &&
           (!shuffle || (e->seed == seed && e->number == number));
}

void store_shuffle(struct store *s, bool shuffle, uint64_t seed, uint32_t epoch, uint32_t batch)
{
    if (is_epoch(s->coming, shuffle, seed, epoch, batch) || is_epoch(s->here, shuffle, seed, epoch, batch))
        return;
    end_coming(s);
    struct epoch *e = s->coming = allocate(1, sizeof *e);
    *e = (struct epoch){ .shuffle = shuffle, .seed = seed, .number = epoch, .batch = batch, .store = s };
    e->image = allocate(steps_of(e) * images_of_step(e), sizeof *e->image);
    e->bytes = allocate(steps_of(e) * images_of_step(e), sizeof *e->bytes);
    if (pthread_create(&e->thread, NULL, bring, e) != 0)
        give_up(ENDING_ERROR, "the thread that exchanges images cannot be started");
}

void store_wait(struct store *s, bool shuffle, uint64_t seed, uint32_t epoch, uint32_t batch)
{
    store_shuffle(s, shuffle, seed, epoch, batch);
    if (is_epoch(s->here, shuffle, seed, epoch, batch))
        return;
    pthread_join(s->coming->thread, NULL);
    forget(s->here);
    s->here = s->coming;
    s->coming = NULL;
    if (s->here->failure[0] != '\0')
        tell("the images of epoch %u could not be exchanged between ranks (%s); they are read from files", epoch,
             s->here->failure);
}

const void *store_image(const struct store *s, uint64_t n, size_t *bytes)
{
    const struct epoch *e = s->here;

    *bytes = e->bytes[n];
    return e->failure[0] == '\0' && e->bytes[n] > 0 ? e->image[n] : NULL;
}

struct store_figures store_figures(const struct store *s)
{
    const uint64_t part = part_start(s, s->group.me + 1) - part_start(s, s->group.me);

    return (struct store_figures){ .held = s->starts[part], .brought = s->brought, .segments = s->segments };
}

void store_destroy(struct store *s)
{
    if (s == NULL)
        return;
    s->stopping = true;
    end_coming(s);
    forget(s->here);
    plait_comm_destroy(s->comm);
    free(s->sizes);
    free(s->starts);
    free(s->memory);
    free(s);
}
