/* SPDX-License-Identifier: BSD-3-Clause */
#include "share.h"

#include <stdlib.h>

#define NONE   UINT32_MAX
#define NEARLY (1 << 20) /* speeds that differ by less than this part are one */

typedef unsigned __int128 wide;

struct activity {
    wide left;     /* work times PLAIT_PS_PER_S, at the time `since` */
    uint64_t most; /* speeds: work per second */
    uint64_t speed;
    uint64_t since, end; /* ps */
    uint64_t number;     /* order of beginning */
    uint64_t what;
    uint32_t place; /* in the heap */
    uint32_t visit; /* of the last search that saw it */
    uint32_t nuse;
    struct {
        uint32_t resource, next, last; /* neighbours in the resource's list: activity * PLAIT_MOST_USES + use */
        uint64_t weight;
    } use[PLAIT_MOST_USES];
};

struct shared {     /* of a resource */
    uint32_t first; /* in its list of uses */
    uint32_t visit; /* of the last search that saw it */
    bool changed;   /* an activity began or ended */
    wide most;      /* what its activities take at their most speeds */
    wide left;      /* capacity not given away, while speeds are computed */
    wide weight;    /* of its activities without a speed */
    uint64_t rate;  /* as last told to watch() */
};

struct plait_share {
    struct plait_resource *resources;
    struct shared *shared;
    uint32_t *changed, nchanged;
    struct activity *activities;
    uint32_t nactivity, capacity, *vacant, nvacant;
    uint32_t *heap, nheap;                 /* activities, the earliest end first */
    uint32_t *found, nfound, *seen, nseen; /* activities and resources of a search */
    uint32_t visit;
    uint64_t number;
    void (*watch)(void *arg, uint32_t resource, uint64_t time, uint64_t rate, uint64_t capacity);
    void *arg;
};

struct plait_share *plait_share_create(struct plait_resource *resources, uint32_t n)
{
    struct plait_share *s = calloc(1, sizeof *s);

    if (s == NULL)
        return NULL;
    s->resources = resources;
    s->shared = calloc((size_t)n + 1, sizeof *s->shared);
    s->changed = calloc((size_t)n + 1, sizeof *s->changed);
    s->seen = calloc((size_t)n + 1, sizeof *s->seen);
    if (s->shared == NULL || s->changed == NULL || s->seen == NULL) {
        plait_share_destroy(s);
        return NULL;
    }
    for (uint32_t r = 0; r < n; r++)
        s->shared[r].first = NONE;
    return s;
}

void plait_share_destroy(struct plait_share *s)
{
    if (s == NULL)
        return;
    free(s->shared);
    free(s->changed);
    free(s->seen);
    free(s->activities);
    free(s->vacant);
    free(s->heap);
    free(s->found);
    free(s);
}

/* ---- The heap of ends ------------------------------------------------------------------------------- */

static bool is_before(const struct plait_share *s, uint32_t a, uint32_t b)
{
    const struct activity *x = &s->activities[a], *y = &s->activities[b];

    return x->end != y->end ? x->end < y->end : x->number < y->number;
}

static void put(struct plait_share *s, uint32_t place, uint32_t a)
{
    s->heap[place] = a;
    s->activities[a].place = place;
}

/* Move the activity at `place` to where it belongs. */
static void sift(struct plait_share *s, uint32_t place)
{
    const uint32_t a = s->heap[place];

    while (place > 0 && is_before(s, a, s->heap[(place - 1) / 2])) {
        put(s, place, s->heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    for (uint32_t child = 2 * place + 1; child < s->nheap; child = 2 * place + 1) {
        if (child + 1 < s->nheap && is_before(s, s->heap[child + 1], s->heap[child]))
            child++;
        if (!is_before(s, s->heap[child], a))
            break;
        put(s, place, s->heap[child]);
        place = child;
    }
    put(s, place, a);
}

/* ---- Beginning and ending --------------------------------------------------------------------------- */

static bool grow(struct plait_share *s)
{
    const uint32_t n = s->capacity > 0 ? 2 * s->capacity : 64;
    struct activity *activities = realloc(s->activities, n * sizeof *activities);
    uint32_t *vacant, *heap, *found;

    if (activities != NULL)
        s->activities = activities;
    if ((vacant = realloc(s->vacant, n * sizeof *vacant)) != NULL)
        s->vacant = vacant;
    if ((heap = realloc(s->heap, n * sizeof *heap)) != NULL)
        s->heap = heap;
    if ((found = realloc(s->found, n * sizeof *found)) != NULL)
        s->found = found;
    if (activities == NULL || vacant == NULL || heap == NULL || found == NULL)
        return false;
    s->capacity = n;
    return true;
}

static void mark(struct plait_share *s, uint32_t resource)
{
    if (!s->shared[resource].changed)
        s->changed[s->nchanged++] = resource;
    s->shared[resource].changed = true;
}

static void link_use(struct plait_share *s, uint32_t a, uint32_t u)
{
    struct shared *r = &s->shared[s->activities[a].use[u].resource];
    const uint32_t own = a * PLAIT_MOST_USES + u;

    s->activities[a].use[u].last = NONE;
    s->activities[a].use[u].next = r->first;
    if (r->first != NONE)
        s->activities[r->first / PLAIT_MOST_USES].use[r->first % PLAIT_MOST_USES].last = own;
    r->first = own;
    r->most += (wide)s->activities[a].most * s->activities[a].use[u].weight;
    mark(s, s->activities[a].use[u].resource);
}

static void unlink_use(struct plait_share *s, uint32_t a, uint32_t u)
{
    const uint32_t next = s->activities[a].use[u].next, last = s->activities[a].use[u].last;
    struct shared *r = &s->shared[s->activities[a].use[u].resource];

    if (last != NONE)
        s->activities[last / PLAIT_MOST_USES].use[last % PLAIT_MOST_USES].next = next;
    else
        r->first = next;
    if (next != NONE)
        s->activities[next / PLAIT_MOST_USES].use[next % PLAIT_MOST_USES].last = last;
    r->most -= (wide)s->activities[a].most * s->activities[a].use[u].weight;
    mark(s, s->activities[a].use[u].resource);
}

bool plait_share_begin(struct plait_share *s, uint64_t now, uint64_t work, uint64_t speed, const struct plait_use *uses,
                       uint32_t nuse, uint64_t what)
{
    if (s->nvacant == 0 && s->nactivity == s->capacity && !grow(s))
        return false;
    const uint32_t a = s->nvacant > 0 ? s->vacant[--s->nvacant] : s->nactivity++;
    struct activity *x = &s->activities[a];
    x->left = (wide)work * PLAIT_PS_PER_S;
    x->most = speed;
    x->speed = 0;
    x->since = now;
    x->end = work == 0 ? now : PLAIT_NEVER;
    x->number = s->number++;
    x->what = what;
    x->visit = 0;
    x->nuse = nuse;
    for (uint32_t u = 0; u < nuse; u++) {
        x->use[u].resource = uses[u].resource;
        x->use[u].weight = uses[u].weight;
        s->resources[uses[u].resource].used += (wide)work * uses[u].weight;
        link_use(s, a, u);
    }
    if (nuse == 0 && work > 0) {
        x->speed = speed;
        x->end = now + (uint64_t)((x->left + speed - 1) / speed);
    }
    put(s, s->nheap++, a);
    sift(s, s->nheap - 1);
    return true;
}

bool plait_share_due(const struct plait_share *s, uint64_t now)
{
    return s->nheap > 0 && s->activities[s->heap[0]].end <= now;
}

bool plait_share_end(struct plait_share *s, uint64_t now, uint64_t *what)
{
    if (!plait_share_due(s, now))
        return false;
    const uint32_t a = s->heap[0];
    *what = s->activities[a].what;
    for (uint32_t u = 0; u < s->activities[a].nuse; u++)
        unlink_use(s, a, u);
    s->nheap--;
    if (s->nheap > 0) {
        put(s, 0, s->heap[s->nheap]);
        sift(s, 0);
    }
    s->vacant[s->nvacant++] = a;
    return true;
}

/* ---- Speeds ----------------------------------------------------------------------------------------- */

/* Can its activities together take more than it has? If it has room for all at full speed, it couples none. */
static bool is_tight(const struct plait_share *s, uint32_t resource)
{
    return s->shared[resource].most > s->resources[resource].capacity;
}

static void see(struct plait_share *s, uint32_t resource)
{
    struct shared *r = &s->shared[resource];

    if (r->visit == s->visit)
        return;
    r->visit = s->visit;
    r->left = s->resources[resource].capacity;
    r->weight = 0;
    s->seen[s->nseen++] = resource;
}

/* Find the activities whose speeds may change: those of changed resources, and of tight ones that these use. */
static void search(struct plait_share *s)
{
    s->visit++;
    s->nfound = s->nseen = 0;
    for (uint32_t i = 0; i < s->nchanged; i++) {
        s->shared[s->changed[i]].changed = false;
        see(s, s->changed[i]);
    }
    s->nchanged = 0;
    for (uint32_t i = 0; i < s->nseen; i++)
        for (uint32_t use = s->shared[s->seen[i]].first; use != NONE;) {
            struct activity *x = &s->activities[use / PLAIT_MOST_USES];
            use = x->use[use % PLAIT_MOST_USES].next;
            if (x->visit == s->visit)
                continue;
            x->visit = s->visit;
            s->found[s->nfound++] = (uint32_t)(x - s->activities);
            for (uint32_t u = 0; u < x->nuse; u++)
                if (is_tight(s, x->use[u].resource))
                    see(s, x->use[u].resource);
        }
}

static int compare(const void *x, const void *y, void *activities)
{
    const struct activity *a = (struct activity *)activities + *(const uint32_t *)x,
                          *b = (struct activity *)activities + *(const uint32_t *)y;

    return a->most != b->most ? (a->most > b->most) - (a->most < b->most)
                              : (a->number > b->number) - (a->number < b->number);
}

/* Slowest first. Most often all are alike. */
static void sort_by_most(struct plait_share *s)
{
    bool sorted = true;

    for (uint32_t i = 1; i < s->nfound; i++)
        sorted &= s->activities[s->found[i - 1]].most <= s->activities[s->found[i]].most;
    if (!sorted)
        qsort_r(s->found, s->nfound, sizeof *s->found, compare, s->activities);
}

/* Its speed is final in this round. */
static void set_speed(struct plait_share *s, uint64_t now, uint32_t a, uint64_t speed)
{
    struct activity *x = &s->activities[a];

    x->visit = 0;
    for (uint32_t u = 0; u < x->nuse; u++) {
        struct shared *r = &s->shared[x->use[u].resource];
        const wide taken = (wide)speed * x->use[u].weight;
        if (r->visit != s->visit)
            continue;
        r->left = r->left > taken ? r->left - taken : 0;
        r->weight -= x->use[u].weight;
    }
    if (speed == x->speed)
        return;
    const wide done = (wide)x->speed * (now - x->since);
    x->left = x->left > done ? x->left - done : 0;
    x->since = now;
    x->speed = speed;
    x->end = now + (uint64_t)((x->left + speed - 1) / speed);
    sift(s, x->place);
}

/* Of the seen resources, the one that gives each of its activities the least. NONE: no activity needs any. */
static uint32_t find_tightest(const struct plait_share *s, wide *speed)
{
    uint32_t found = NONE;

    *speed = 0;
    for (uint32_t i = 0; i < s->nseen; i++) {
        const struct shared *r = &s->shared[s->seen[i]];
        if (r->weight > 0 && (found == NONE || r->left / r->weight < *speed)) {
            found = s->seen[i];
            *speed = r->left / r->weight;
        }
    }
    return found;
}

/* Speeds within 2^-20 count as equal, so that activities that are alike end together. At least 1, so that all end. */
static uint64_t rounded(wide speed, uint64_t last)
{
    const uint64_t v = speed > UINT64_MAX ? UINT64_MAX : (uint64_t)speed;

    if (v > last && v - last <= last / NEARLY)
        return last;
    return v > 0 ? v : 1;
}

static void set_all_of(struct plait_share *s, uint64_t now, uint32_t resource, uint64_t speed)
{
    for (uint32_t use = s->shared[resource].first; use != NONE;) {
        const uint32_t a = use / PLAIT_MOST_USES;
        use = s->activities[a].use[use % PLAIT_MOST_USES].next;
        if (s->activities[a].visit == s->visit)
            set_speed(s, now, a, speed);
    }
}

static void tell(const struct plait_share *s, uint64_t now)
{
    for (uint32_t i = 0; i < s->nseen; i++) {
        struct shared *r = &s->shared[s->seen[i]];
        const uint64_t capacity = s->resources[s->seen[i]].capacity, rate = capacity - (uint64_t)r->left;
        if (rate != r->rate)
            s->watch(s->arg, s->seen[i], now, rate, capacity);
        r->rate = rate;
    }
}

static void share(struct plait_share *s, uint64_t now)
{
    uint64_t last = 0;
    uint32_t n = 0, tightest;
    wide speed;

    search(s);
    for (uint32_t i = 0; i < s->nfound; i++)
        for (uint32_t u = 0; u < s->activities[s->found[i]].nuse; u++) {
            struct shared *r = &s->shared[s->activities[s->found[i]].use[u].resource];
            r->weight += r->visit == s->visit ? s->activities[s->found[i]].use[u].weight : 0;
        }
    sort_by_most(s);
    while ((tightest = find_tightest(s, &speed)) != NONE) {
        const uint32_t before = n;
        last = rounded(speed, last);
        for (; n < s->nfound && s->activities[s->found[n]].most <= last; n++)
            if (s->activities[s->found[n]].visit == s->visit)
                set_speed(s, now, s->found[n], s->activities[s->found[n]].most);
        if (n == before)
            set_all_of(s, now, tightest, last);
    }
    if (s->watch != NULL)
        tell(s, now);
}

uint64_t plait_share_next(struct plait_share *s, uint64_t now)
{
    if (s->nchanged > 0)
        share(s, now);
    return s->nheap > 0 ? s->activities[s->heap[0]].end : PLAIT_NEVER;
}

void plait_share_watch(struct plait_share *s,
                       void (*watch)(void *arg, uint32_t resource, uint64_t time, uint64_t rate, uint64_t capacity),
                       void *arg)
{
    s->watch = watch;
    s->arg = arg;
}
