/* SPDX-License-Identifier: BSD-3-Clause */
#include "classes.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = hash * 0x9e3779b97f4a7c15 + value + 1;
    hash = (hash ^ hash >> 29) * 0xd6e8feb86659fd93;
    return hash ^ hash >> 32;
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Number equal hashes alike. room: [n]. Returns how many there are. */
static uint32_t number(const uint64_t *hash, uint32_t n, uint64_t *room, uint32_t *out)
{
    uint32_t different = 0;

    memcpy(room, hash, n * sizeof *room);
    qsort(room, n, sizeof *room, compare);
    for (uint32_t i = 0; i < n; i++)
        if (i == 0 || room[i] != room[different - 1])
            room[different++] = room[i];
    for (uint32_t i = 0; i < n; i++)
        out[i] = (uint32_t)((uint64_t *)bsearch(&hash[i], room, different, sizeof *room, compare) - room);
    return different;
}

/* ---- Refining ----------------------------------------------------------------------------------------- */

struct search {
    struct plait_classes *c;
    const struct plait_programs *p;
    const struct plait_hardware *h;
    uint64_t *rank, *resource, *room; /* hashes */
};

static bool sends(const struct plait_programs *p, uint32_t rank, uint32_t index)
{
    return p->programs[p->program[rank]].prog->nsend[index] > 0;
}

static void find_users(const struct search *s)
{
    struct plait_uses_of u;

    for (uint32_t i = 0; i < s->h->nresource; i++)
        s->resource[i] = mix(2, s->h->resources[i].capacity);
    for (uint32_t r = 0; r < s->c->nrank; r++) {
        const uint32_t n = (uint32_t)(s->p->first[r + 1] - s->p->first[r]);
        plait_hardware_own(s->h, r, &u);
        for (uint32_t k = 0; k < u.n; k++)
            s->resource[u.use[k].resource] += mix(mix(s->c->of[r], PLAIT_NONE), k);
        for (uint32_t j = 0; j < n; j++) {
            if (!sends(s->p, r, j))
                continue;
            plait_hardware_route(s->h, r, s->p->peer[s->p->first[r] + j], &u);
            for (uint32_t k = 0; k < u.n; k++)
                s->resource[u.use[k].resource] += mix(mix(s->c->of[r], j), k);
        }
    }
}

static uint64_t hash_uses(const struct search *s, uint64_t hash, const struct plait_uses_of *u)
{
    for (uint32_t k = 0; k < u->n; k++)
        hash = mix(hash, s->c->resource[u->use[k].resource]);
    return hash;
}

static uint64_t hash_rank(const struct search *s, uint32_t r)
{
    struct plait_uses_of u;

    plait_hardware_own(s->h, r, &u);
    uint64_t hash = hash_uses(s, mix(1, s->c->of[r]), &u);
    for (size_t i = s->p->first[r]; i < s->p->first[r + 1]; i++) {
        const uint32_t peer = s->p->peer[i];
        hash = mix(hash, (uint64_t)s->c->of[peer] << 32 | s->p->back[i]);
        hash = mix(hash, plait_hardware_level(s->h, r, peer));
        if (sends(s->p, r, (uint32_t)(i - s->p->first[r]))) {
            plait_hardware_route(s->h, r, peer, &u);
            hash = hash_uses(s, hash, &u);
        }
    }
    return hash;
}

static void refine(const struct search *s)
{
    struct plait_classes *c = s->c;
    uint32_t before;

    for (uint32_t r = 0; r < c->nrank; r++)
        s->rank[r] = mix(s->p->program[r], plait_hardware_speed(s->h, r));
    c->nclass = number(s->rank, c->nrank, s->room, c->of);
    do {
        before = c->nclass;
        find_users(s);
        c->nresource = number(s->resource, s->h->nresource, s->room, c->resource);
        for (uint32_t r = 0; r < c->nrank; r++)
            s->rank[r] = hash_rank(s, r);
        c->nclass = number(s->rank, c->nrank, s->room, c->of);
    } while (c->nclass > before);
}

/* ---- All ---------------------------------------------------------------------------------------------- */

static void list_members(struct plait_classes *c)
{
    for (uint32_t r = 0; r < c->nrank; r++)
        c->begin[c->of[r] + 1]++;
    for (uint32_t k = 0; k < c->nclass; k++)
        c->begin[k + 1] += c->begin[k];
    for (uint32_t r = 0; r < c->nrank; r++)
        c->member[c->begin[c->of[r]]++] = r;
    for (uint32_t k = c->nclass; k > 0; k--) /* begin[k] is where class k ends */
        c->begin[k] = c->begin[k - 1];
    c->begin[0] = 0;
}

enum plait_status plait_classes_create(struct plait_classes *c, const struct plait_programs *p,
                                       const struct plait_hardware *h, bool merge)
{
    const uint32_t n = h->nrank, m = h->nresource, most = n > m ? n : m;
    struct search s = { .c = c, .p = p, .h = h };

    *c = (struct plait_classes){ .nrank = n, .nclass = n, .nresource = m };
    c->of = malloc((size_t)n * sizeof *c->of);
    c->member = malloc((size_t)n * sizeof *c->member);
    c->begin = calloc((size_t)n + 1, sizeof *c->begin);
    c->resource = malloc(((size_t)m + 1) * sizeof *c->resource);
    c->first = malloc(((size_t)m + 1) * sizeof *c->first);
    s.rank = malloc((size_t)n * sizeof *s.rank);
    s.resource = malloc(((size_t)m + 1) * sizeof *s.resource);
    s.room = malloc(((size_t)most + 1) * sizeof *s.room);
    const bool ok = c->of && c->member && c->begin && c->resource && c->first && s.rank && s.resource && s.room;
    for (uint32_t i = 0; ok && i < n; i++)
        c->of[i] = i;
    for (uint32_t i = 0; ok && i < m; i++)
        c->resource[i] = i;
    if (ok && merge)
        refine(&s);
    if (ok)
        list_members(c);
    for (uint32_t i = m; ok && i-- > 0;)
        c->first[c->resource[i]] = i;
    free(s.rank);
    free(s.resource);
    free(s.room);
    return ok ? PLAIT_OK : plait_fail_memory("out of memory to simulate %u ranks", n);
}

void plait_classes_destroy(struct plait_classes *c)
{
    free(c->of);
    free(c->member);
    free(c->begin);
    free(c->resource);
    free(c->first);
}

/* ---- What a class uses -------------------------------------------------------------------------------- */

/* Add the weight of another member that uses the same resource. */
static void add_weights(struct plait_uses_of *u, const struct plait_uses_of *own, const struct plait_uses_of *other)
{
    for (uint32_t k = 0; k < u->n; k++)
        if (other->use[k].resource == own->use[k].resource)
            u->use[k].weight += own->use[k].weight;
}

static void name_classes(const struct plait_classes *c, struct plait_uses_of *u)
{
    for (uint32_t k = 0; k < u->n; k++)
        u->use[k].resource = c->resource[u->use[k].resource];
}

void plait_classes_route(const struct plait_classes *c, const struct plait_programs *p, const struct plait_hardware *h,
                         uint32_t class, uint32_t index, struct plait_uses_of *out)
{
    const uint32_t *r = &c->member[c->begin[class]], n = plait_class_size(c, class);
    struct plait_uses_of own, other;

    plait_hardware_route(h, r[0], p->peer[p->first[r[0]] + index], &own);
    *out = own;
    for (uint32_t i = 1; i < n && own.n > 0; i++) {
        plait_hardware_route(h, r[i], p->peer[p->first[r[i]] + index], &other);
        add_weights(out, &own, &other);
    }
    name_classes(c, out);
}

void plait_classes_own(const struct plait_classes *c, const struct plait_hardware *h, uint32_t class,
                       struct plait_uses_of *out)
{
    const uint32_t *r = &c->member[c->begin[class]], n = plait_class_size(c, class);
    struct plait_uses_of own, other;

    plait_hardware_own(h, r[0], &own);
    *out = own;
    for (uint32_t i = 1; i < n && own.n > 0; i++) {
        plait_hardware_own(h, r[i], &other);
        add_weights(out, &own, &other);
    }
    name_classes(c, out);
}
