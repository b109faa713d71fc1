/* SPDX-License-Identifier: BSD-3-Clause */
#include "soak.h"

#include <unistd.h>

/* Random members in a random order. */
static bool create_comm(struct soak *s, uint32_t p)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct place *place = &s->places[p];
    uint32_t members[MOST_RANKS];
    const uint32_t n = 1 + below(s, s->nrank);

    for (uint32_t r = 0; r < s->nrank; r++)
        members[r] = r;
    for (uint32_t r = s->nrank; r-- > 1;) {
        const uint32_t other = below(s, r + 1), t = members[r];
        members[r] = members[other];
        members[other] = t;
    }
    place->alive = true;
    place->nrank = n;
    place->rank = UINT32_MAX;
    place->reproducible = below(s, 4) == 0;
    place->shrunk = false;
    place->made++;
    for (uint32_t r = 0; r < n; r++)
        if (members[r] == s->me)
            place->rank = r;
    if (place->rank == UINT32_MAX)
        return true;
    struct plait_unique_id *id = &s->shared->id[p][place->made % BATCH];
    _Atomic uint64_t *made = &s->shared->made[p][place->made % BATCH];
    if (place->rank == 0) {
        if (plait_unique_id_create(id) != PLAIT_OK)
            return complain(s, "id");
        *made = place->made;
        s->shared->comms++;
    }
    while (*made != place->made && !s->shared->failed)
        usleep(100);
    o.nrank = n;
    o.rank = place->rank;
    o.id = id;
    o.deadline = 120;
    o.reproducible = place->reproducible;
    return plait_comm_create(&o, &place->comm) == PLAIT_OK || complain(s, "create");
}

/*
 * Of some ranks of a comm that is there, or all. Whom it is shrunk by takes no part in that: so it is shrunk once more by
 * the same, or never again.
 */
static bool derive_comm(struct soak *s, struct place *place, struct place *of)
{
    enum { DUPLICATE, SPLIT, SHRINK } how = below(s, of->shrunk ? 2 : 3);
    const uint32_t sure = below(s, of->nrank), again = below(s, 2);
    uint32_t excluded[MOST_RANKS], n = 0;
    enum plait_status status = PLAIT_OK;

    place->alive = true;
    place->reproducible = of->reproducible;
    place->shrunk = false;
    place->rank = UINT32_MAX;
    place->nrank = 0;
    for (uint32_t r = 0; r < of->nrank; r++)
        if (how != DUPLICATE && r != sure && below(s, 2)) {
            excluded[n++] = r;
        } else {
            place->rank = r == of->rank ? place->nrank : place->rank;
            place->nrank++;
        }
    of->shrunk |= how == SHRINK;
    if (place->rank == 0)
        s->shared->comms++;
    if (of->rank == UINT32_MAX || (how == SHRINK && place->rank == UINT32_MAX))
        return true;
    if (how == DUPLICATE)
        status = plait_comm_duplicate(of->comm, "duplicate", &place->comm);
    else if (how == SPLIT)
        status = plait_comm_split(of->comm, place->rank == UINT32_MAX ? PLAIT_NO_COLOR : 1, 0, "part", &place->comm);
    else
        status = plait_comm_shrink(of->comm, excluded, n, 0, "rest", &place->comm);
    if (how == SHRINK && again && status == PLAIT_OK) {
        status = plait_comm_destroy(place->comm);
        if (status == PLAIT_OK)
            status = plait_comm_shrink(of->comm, excluded, n, 0, "rest", &place->comm);
    }
    return status == PLAIT_OK || complain(s, how == DUPLICATE ? "duplicate" : how == SPLIT ? "split" : "shrink");
}

bool make_comm(struct soak *s, uint32_t p)
{
    const uint32_t of = below(s, 2 * NCOMM);

    return of < NCOMM && s->places[of].alive ? derive_comm(s, &s->places[p], &s->places[of]) : create_comm(s, p);
}

bool suspend_comm(struct soak *s, struct place *place)
{
    if (place->rank == UINT32_MAX)
        return true;
    return (plait_comm_suspend(place->comm) == PLAIT_OK && plait_comm_resume(place->comm) == PLAIT_OK) ||
           complain(s, "suspend and resume");
}

bool end_comm(struct soak *s, uint32_t p)
{
    struct place *place = &s->places[p];

    place->alive = false;
    if (place->rank == UINT32_MAX)
        return true;
    return plait_comm_destroy(place->comm) == PLAIT_OK || complain(s, "destroy");
}
