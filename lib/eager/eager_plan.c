/* SPDX-License-Identifier: BSD-3-Clause */
/* Eager operations: writers and readers, the choice of single copy, the copy into the slot otherwise; v-forms. */
#include "eager_slots.h"
#include "failure/failure.h"

#include <stddef.h>
#include <string.h>

#define MOST_STAGED 2048 /* bytes up to which a copy costs less than waiting for the readers */

/* A page apart; see struct plait_eager_entry. */
_Static_assert(offsetof(struct plait_control, small_data) - offsetof(struct plait_control, small) >= 4096 &&
                   offsetof(struct plait_control, large_data) - offsetof(struct plait_control, large) >= 4096,
               "data is not near the words");
_Static_assert(offsetof(struct plait_control, small_data) % (2 * PLAIT_LINE) == 0 &&
                   offsetof(struct plait_control, large_data) % (2 * PLAIT_LINE) == 0,
               "data begins with a pair of cache lines");

static size_t part_bytes(size_t bytes)
{
    return PLAIT_EAGER_HEAD + ((bytes + PLAIT_EAGER_HEAD - 1) & ~(PLAIT_EAGER_HEAD - 1));
}

static struct plait_ranks others(bool all, uint32_t root, uint32_t nrank, uint32_t rank)
{
    if (all)
        return (struct plait_ranks){ (rank + 1) % nrank, nrank - 1 };
    return (struct plait_ranks){ root, root != rank };
}

/* One part for all readers, or one for each other rank. */
static uint32_t parts_of(enum plait_coll coll, uint32_t nrank)
{
    return plait_geometry_of(coll, nrank, 0, 0, 1).in.nslot > 1 ? nrank - 1 : 1;
}

size_t plait_eager_room(enum plait_coll coll, uint32_t nrank, size_t bytes, bool vform)
{
    const size_t part = bytes / parts_of(coll, nrank);

    return !vform ? part : part > PLAIT_EAGER_HEAD ? (part - PLAIT_EAGER_HEAD) & ~(PLAIT_EAGER_HEAD - 1) : 0;
}

/* Every writer sends to every reader: the reader's slot of IN to the writer's slot of OUT, if there are several. */
struct plait_eager_plan plait_eager_plan(const struct plait_op_plan *o, size_t bytes, uint32_t nrank, uint32_t rank,
                                         bool single_copy)
{
    const struct plait_geometry *mine = &o->geometry;
    const struct plait_geometry root = plait_geometry_of(o->coll, nrank, 0, 0, 1);
    const struct plait_geometry other = plait_geometry_of(o->coll, nrank, 0, nrank > 1, 1);
    const uint32_t nparts = parts_of(o->coll, nrank);
    const size_t all = nparts * (o->vform ? part_bytes(bytes) : bytes);
    const bool few = all <= PLAIT_BESIDE_WORD, small = all <= PLAIT_EAGER_SOME;
    const size_t entries = small ? offsetof(struct plait_control, small) : offsetof(struct plait_control, large);

    return (struct plait_eager_plan){
        .from = mine->out.nslot > 0 ? others(other.in.nslot > 0, o->root, nrank, rank) : (struct plait_ranks){ 0, 0 },
        .to = mine->in.nslot > 0 ? others(other.out.nslot > 0, o->root, nrank, rank) : (struct plait_ranks){ 0, 0 },
        .keeps = mine->out.nslot > 0 && mine->in.nslot > 0 && !mine->combines,
        .single_copy = single_copy && !o->vform && all > MOST_STAGED,
        .turn = (small ? PLAIT_EAGER_SMALL : PLAIT_EAGER_LARGE) - 1,
        .entries = entries,
        .data = few     ? entries + offsetof(struct plait_eager_entry, few)
                : small ? offsetof(struct plait_control, small_data)
                        : offsetof(struct plait_control, large_data),
        .apart = few     ? sizeof(struct plait_eager_entry)
                 : small ? PLAIT_EAGER_SOME
                         : PLAIT_EAGER_MAX,
        .bytes = all,
        .at = root.in.nslot > 1 ? rank * bytes : 0,
        .head = o->vform ? PLAIT_EAGER_HEAD : 0,
        .part = o->vform ? part_bytes(bytes) : bytes,
        .room = bytes,
        .parts = root.in.nslot > 1,
        .stride = mine->out.nslot > 1 ? bytes : 0,
    };
}

bool plait_eager_has_all(const struct plait_op_plan *o, const struct plait_sizes *v, uint32_t nrank)
{
    const struct plait_eager_plan *t = &o->eager;
    bool all = true;

    for (uint32_t i = 0; i < t->to.n; i++)
        all &= plait_op_bytes(o, v->in[plait_eager_side_slot(&o->geometry.in, (t->to.first + i) % nrank)], false) <=
               t->room;
    for (uint32_t i = 0; i < t->from.n; i++)
        all &= plait_op_bytes(o, v->out[plait_eager_side_slot(&o->geometry.out, (t->from.first + i) % nrank)], false) <=
               t->room;
    return all;
}

/* ---- Variable block sizes -------------------------------------------------------------------------------- */

void plait_eager_put_parts(const struct plait_run *run, size_t slot)
{
    const struct plait_eager_plan *t = &run->o->eager;
    struct plait_comm *comm = run->comm;
    uint8_t *to = plait_eager_data_at(comm->own, t, slot);

    for (uint32_t i = 0, r = t->to.first; i < (t->parts ? t->to.n : 1); i++, r = plait_eager_next(comm, r)) {
        const char *at;
        const uint64_t bytes = plait_eager_part_in(run, r, &at);
        const uint32_t nreader = bytes > t->room ? 0 : t->parts ? 1 : t->to.n; /* of data in the slot */
        comm->stats.messages += nreader;
        comm->stats.bytes_sent += nreader * bytes;
        if (bytes > 0 && bytes <= t->room)
            plait_copy(comm->kernels, to + i * t->part + t->head, at, bytes);
        memcpy(to + i * t->part, &bytes, sizeof bytes);
    }
}

enum plait_status plait_eager_take_part(const struct plait_run *run, uint32_t rank, const void *from)
{
    const struct plait_eager_plan *t = &run->o->eager;
    struct plait_comm *comm = run->comm;
    char *to;
    const size_t expected = plait_eager_part_out(run, rank, &to);
    uint64_t bytes;

    memcpy(&bytes, (const char *)from - t->head, sizeof bytes);
    if (PLAIT_GUARDS && bytes != expected)
        return plait_comm_blame(comm, PLAIT_ERR_MISMATCH, rank, "rank %u sends %llu bytes where rank %u expects %zu",
                                rank, (unsigned long long)bytes, comm->rank, expected);
    if (!run->o->geometry.combines && expected <= t->room)
        plait_eager_copy(comm, to, from, expected);
    return PLAIT_OK;
}
