/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room eager: the eager path, for small vectors without the engine.
 *
 * A writer copies its vector once into a slot of its own control block and then writes the operation's word. Readers
 * wait for the word and copy or reduce from the slot. Long blocks in library memory are not copied: the readers read
 * them in place. This is the plan of one step (one-shot, direct) for all collectives and their v-forms.
 *
 * The room promises: no message, no dependency list and no allocation. One cache line carries the word and up to 48
 * bytes. A slot is written again only when every reader has read it.
 *
 * It does not know bound plans, transports or devices. engine/select.c decides which operations are eager.
 */
#ifndef PLAIT_LIB_EAGER_EAGER_H
#define PLAIT_LIB_EAGER_EAGER_H

#include "operation/operation.h"

/*
 * An eager operation, in comm->run: begin, then turn until *ended. A rank with an IN is a writer, a rank with an OUT a
 * reader. v: if o->vform. run: begin and the turns of a spin, with which most operations end.
 */
enum plait_status plait_eager_run(struct plait_comm *comm, const struct plait_op_plan *o, const struct plait_sizes *v,
                                  uint64_t word, const void *in, void *out, bool *ended);
void plait_eager_begin(struct plait_run *run, const struct plait_op_plan *o, const struct plait_sizes *v, uint64_t word,
                       const void *in, void *out);
enum plait_status plait_eager_turn(struct plait_run *run, bool *moved, bool *ended);

/* Wakes the writers, which may wait until this rank has read their data. */
void plait_eager_tell(struct plait_comm *comm, const struct plait_op_plan *o);

#define PLAIT_EAGER_HEAD sizeof(uint64_t) /* bytes of the size field of a part (variable block sizes) */

/* Most bytes of a vector, or block, so that no writer writes more than `bytes`. */
size_t plait_eager_room(enum plait_coll coll, uint32_t nrank, size_t bytes, bool vform);

/*
 * Writers, readers and layout of an eager operation for one rank. bytes: of the vector, or of the largest eager block;
 * o: reads geometry, coll, root and vform only; single_copy: allow single copy of long vectors in library memory.
 */
struct plait_eager_plan plait_eager_plan(const struct plait_op_plan *o, size_t bytes, uint32_t nrank, uint32_t rank,
                                         bool single_copy);

/* Are all blocks that this rank sends and receives small enough for the eager path? */
bool plait_eager_has_all(const struct plait_op_plan *o, const struct plait_sizes *v, uint32_t nrank);

/* Nonblocking: the rank that this rank waits for, in ranks[0]; returns how many (0 or 1). most: at least 1. */
uint32_t plait_eager_awaited(const void *run, uint32_t *ranks, uint32_t most);

#endif
