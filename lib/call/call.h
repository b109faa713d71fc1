/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room call: what the public functions do.
 *
 * coll.c and collv.c have the collectives, send.c the messages, persistent.c persistent requests. coll.c also finds the
 * memory space in which a call's buffers lie. group_end.c has the groups, and creates their communicators while the
 * caller drives pending operations. drive.c is one turn of everything that is pending in a communicator.
 *
 * For fusion, optim and elastic: agree.c lets all ranks agree that each is ready and gave the same options; object.c
 * has checks, and what they do with their communicator.
 *
 * A call checks its arguments first and changes nothing when one is wrong. Then it runs at once, or becomes a
 * request.
 *
 * The room promises: an error names the call, the argument, its value and the remedy. This header has the first checks
 * of every call: is the communicator usable, and is another thread inside it?
 *
 * It does not know how plans run or messages travel, nor fusion, optim and elastic, which are above it.
 */
#ifndef PLAIT_LIB_CALL_CALL_H
#define PLAIT_LIB_CALL_CALL_H

#include "base/status.h"
#include "engine/operate.h"
#include "failure/failure.h"
#include "memory/devices.h"
#include "request/request.h"

#include <stdio.h>

/* The first checks of a call. op: of a collective that reduces, else PLAIT_SUM. */
static inline enum plait_status plait_enter(struct plait_comm *comm, const char *name, enum plait_op op,
                                            const struct plait_call *call)
{
    enum plait_status status;

    if (comm == NULL)
        return plait_fail(PLAIT_ERR_ARG, "%s: comm is NULL", name);
    if (plait_comm_closed(comm))
        return plait_comm_is_closed(comm, name);
    if (plait_has_failed(comm))
        return plait_fail(PLAIT_ERR_FAILED, "%s: the comm failed earlier: %s", name, comm->own->failure);
    if (__builtin_expect(atomic_load_explicit(&comm->inside, memory_order_relaxed) != NULL, 0)) {
        status = plait_comm_is_inside(comm, name);
        if (status != PLAIT_OK)
            return status;
    }
    if (call == NULL)
        return PLAIT_OK;
    status = plait_check_call(name, call);
    return status == PLAIT_OK ? plait_check_op(name, op, call) : status;
}

/*
 * The same for a call that works in the comm's memory without its lock: until plait_leave() other threads are refused.
 * It costs a load and two stores and no locked instruction. So two threads that enter within the few nanoseconds
 * between load and store are both let in.
 */
static inline enum plait_status plait_enter_alone(struct plait_comm *comm, const char *name, enum plait_op op,
                                                  const struct plait_call *call)
{
    const enum plait_status status = plait_enter(comm, name, op, call);

    if (status == PLAIT_OK)
        atomic_store_explicit(&comm->inside, name, memory_order_relaxed);
    return status;
}

/* End such a call; returns `status`. */
static inline enum plait_status plait_leave(struct plait_comm *comm, enum plait_status status)
{
    atomic_store_explicit(&comm->inside, NULL, memory_order_relaxed);
    return status;
}

/* ---- Creation in groups (group_end.c): threads create comms while the caller drives pending operations ---------- */

/* Makes a comm. own: an error of this rank, of which the other ranks are told, and which is returned; or PLAIT_OK. */
typedef enum plait_status plait_make_comm(const void *args, enum plait_status own, struct plait_comm **out);

/*
 * At the end of the group, concurrently with its other creations: make(args, PLAIT_OK, out) in another thread. The
 * `bytes` of args are copied, but not the memory that they point to. Comms made from one comm (`of`, or NULL) are made
 * in one thread, in the order of the calls.
 */
enum plait_status plait_group_make(plait_make_comm *make, const void *args, size_t bytes, const struct plait_comm *of,
                                   struct plait_comm **out);

/* Everything that is pending in a comm: requests, then messages. */
extern const struct plait_drive plait_drive;

/* ---- Memory spaces beside the host's, and which of them holds a call's buffers (coll.c; operation/space.h) ----- */

/* The spaces beside the host's, NULL-ended. Only tests add some, and set plait_other_spaces. */
#define PLAIT_MOST_SPACES 4
extern const struct plait_space *plait_spaces[PLAIT_MOST_SPACES + 1];

/* May the buffers of a call lie elsewhere than in the host's memory? */
static inline bool plait_has_spaces(void)
{
    return __builtin_expect(atomic_load_explicit(&plait_other_spaces, memory_order_acquire), 0);
}

/* Set a->space and a->queue, and check that the buffers fit the call. The arguments are those of find() in space.h. */
enum plait_status plait_space_find(struct plait_comm *comm, const char *name, size_t in_bytes, size_t out_bytes,
                                   size_t size, const struct plait_call *call, struct plait_args *a);

/* The call failed. If the driver is at fault, fail the comm, so that no rank waits. Returns the call's status. */
enum plait_status plait_space_cannot(struct plait_comm *comm, enum plait_status status, const struct plait_args *a);

/* Must the call become a request? Those of a queued space do, unless the caller gives a stream and no request. */
bool plait_space_must_queue(const struct plait_comm *comm, const struct plait_args *a, const struct plait_call *call);

/* ---- For the objects above: fusion, optimiser, elastic averaging ------------------------------------------- */

struct plait_number {           /* an option or argument */
    const char *name, *allowed; /* "momentum", "0 to below 1" */
    double value;
    bool good;
};

/* Check that all are good; the error names the first that is not. */
enum plait_status plait_check_numbers(const char *call, const struct plait_number *numbers, size_t n);

/* May this thread make the collective `call` with the caller's comm? It is there, usable, and no group is open. */
enum plait_status plait_object_enter(struct plait_comm *comm, const char *call);

/* Is the comm still open, and has it not failed? `name`: the object's. */
enum plait_status plait_object_check(const struct plait_comm *comm, const char *call, const char *name);

/* ---- Agreements of all ranks before a collective creation or change (agree.c) ------------------------------ */

/*
 * After a step that each rank does by itself: all ranks are ready, or none goes on. Collective. status: this rank's
 * result so far, with its text in plait_last_error(). Returns PLAIT_OK if all are ready. Else a rank that failed
 * returns its own error, and the others PLAIT_ERR_MISMATCH with `call` and the number and text of the lowest that
 * failed; the comm stays usable. Allocates nothing itself; a rank that lacks the memory for a small collective fails
 * the comm.
 */
enum plait_status plait_all_ready(struct plait_comm *comm, const char *call, enum plait_status status);

/*
 * The same, and do all ranks give rank 0's text? Else all return PLAIT_ERR_MISMATCH: `name`, the first line that
 * differs, and the two ranks. describe() writes the text: lines "NAME VALUE", one for each option. After an error of
 * this rank it is not called.
 */
enum plait_status plait_all_alike(struct plait_comm *comm, const char *call, const char *name,
                                  void (*describe)(const void *options, FILE *f), const void *options,
                                  enum plait_status status);
void plait_describe_real(FILE *f, const char *what, double value); /* such a line; exact */

/* ---- The comm of such an object ----------------------------------------------------------------------------- */

/* Have the progress thread drive the comm from now on, until it is destroyed. */
enum plait_status plait_object_drive(struct plait_comm *comm);

/* If `status` is an error, with its text in plait_last_error(), fail the comm with it on all ranks. Returns status. */
enum plait_status plait_object_fail(struct plait_comm *comm, enum plait_status status);

/* Wait until a request has ended, if it was started, and free it. NULL is allowed. */
void plait_object_drop(struct plait_request **r);

/* The comm frees GPU memory when other ranks read it no longer. False: this rank has used no GPU with it. */
bool plait_object_free_later(struct plait_comm *comm, void *memory);

#endif
