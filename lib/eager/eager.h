/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room eager: small vectors without the engine.
 *
 * A writer puts its vector once into a slot of its own control block and then writes the operation's word. Readers
 * wait for the word and copy or combine from the slot. Long blocks in library memory are not copied: the readers read
 * them in place. This is the plan of one step (one-shot, direct) for all collectives and their forms with blocks of
 * different sizes.
 *
 * The room promises: no message, no dependency list and no allocation. One cache line carries the word and up to 48
 * bytes. A slot is written again only when every reader has read it.
 *
 * It does not know bound plans, transports or devices. Whether an operation goes this way is chosen in
 * engine/select.c.
 */
#ifndef PLAIT_LIB_EAGER_EAGER_H
#define PLAIT_LIB_EAGER_EAGER_H

#include "operation/run.h"

/*
 * The plan of one step (one-shot, direct) for small vectors, without the engine. Who has an IN gives: it writes once
 * what others take of it into its own control block, or says where it lies if that is long and they map it, then the
 * operation's word. Who has an OUT takes: it waits for the words of those who give and copies or combines what they
 * gave where it lies. v: of o->sized.
 */
enum plait_status plait_eager_run(struct plait_comm *comm, const struct plait_op_plan *o, const struct plait_sizes *v,
                                  uint64_t word, const void *in, void *out);

/* The same in turns, as comm->run: begin; then until *ended. */
void plait_eager_begin(struct plait_comm *comm, const struct plait_op_plan *o, const struct plait_sizes *v,
                       uint64_t word, const void *in, void *out);
enum plait_status plait_eager_turn(struct plait_comm *comm, bool *moved, bool *ended);

/* This rank has ended it: wake those who wait for that. */
void plait_eager_tell(struct plait_comm *comm, const struct plait_op_plan *o);

#define PLAIT_EAGER_HEAD sizeof(uint64_t) /* bytes of what says how long a part is, where they differ */

/*
 * Bytes that each who gives writes; bytes: of the vector, or of a block; sized: of the largest that any gives another.
 */
size_t plait_eager_bytes(enum plait_coll coll, uint32_t nrank, size_t bytes, bool sized);

/*
 * Who takes from whom, and what. bytes: of the vector, or of the largest block that goes this way; o: geometry, coll,
 * root and sized are read; lends: long vectors in library memory may be read where they lie.
 */
struct plait_eager_plan plait_eager_plan(const struct plait_op_plan *o, size_t bytes, uint32_t nrank, uint32_t rank,
                                         bool lends);

/* Do all blocks that this rank gives others and takes from them go this way? */
bool plait_eager_has_all(const struct plait_op_plan *o, const struct plait_sizes *v, uint32_t nrank);

/* Of a plan that lends: can all who take it read IN where it lies, and does this rank not write to it meanwhile? */
bool plait_eager_may_lend(const struct plait_comm *comm, const struct plait_op_plan *o, const void *in,
                          const void *out);

/* What the others take of IN, one part for all or each one's but this rank's own, through the caches or past them. */
void plait_eager_put(const struct plait_comm *comm, const struct plait_eager_plan *t, bool past, uint8_t *to,
                     const uint8_t *in);

/*
 * The same of a plan that is timed, as takes less time (lend.h, to the first who takes it). Returns what `lies` says.
 */
int64_t plait_eager_put_long(struct plait_comm *comm, const struct plait_op_plan *o, uint8_t *to, const uint8_t *in);

/* Of a plan that is timed: the row of its costs. What combines counts as taking it. */
static inline struct plait_passed plait_eager_passed(const struct plait_op_plan *o, size_t bytes)
{
    return (struct plait_passed){ .bytes = bytes, .row = plait_lend_row(o->coll, o->eager.room), .whole = bytes };
}

/* In turns: whom this rank waits for; most: 1 at least. */
uint32_t plait_eager_awaited(const void *run, uint32_t *ranks, uint32_t most);

#endif
