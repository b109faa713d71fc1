/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions of a communicator for fusion, optimiser and elastic averaging, the objects above the public functions. They
 * use this header beside the public ones, and see no struct of the rooms below.
 *
 * "The comm" is the object's own, unless it says otherwise.
 */
#ifndef PLAIT_LIB_CALL_OBJECT_H
#define PLAIT_LIB_CALL_OBJECT_H

#include <plait/request.h>

#include "memory/devices.h"
#include "reduce/reduce.h"

#include <stdbool.h>
#include <stdio.h>

/* ---- Checks ------------------------------------------------------------------------------------------------ */

/*
 * Check that an options struct is not NULL and that its first member, its size, is this library's.
 * what: the argument's name, such as "options"; from: the macro that initialises it.
 */
enum plait_status plait_check_struct(const char *call, const char *what, const void *options, size_t size,
                                     const char *from);

struct plait_number {           /* an option or argument */
    const char *name, *allowed; /* "momentum", "0 to below 1" */
    double value;
    bool good;
};

/* Check that all are good; the error names the first that is not. */
enum plait_status plait_check_numbers(const char *call, const struct plait_number *numbers, size_t n);

/* May this thread make the collective `call` with the caller's comm? It is there, usable, and no group is open. */
enum plait_status plait_object_enter(struct plait_comm *comm, const char *call);

/* Refuse `call` while this thread has a group open. */
enum plait_status plait_object_ungrouped(const char *call);

/* Is the comm still open, and has it not failed? `name`: the object's. */
enum plait_status plait_object_check(const struct plait_comm *comm, const char *call, const char *name);

/* Is this a forked child, and the object its parent's? */
bool plait_object_inherited(const struct plait_comm *comm);

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

/* ---- The comm ---------------------------------------------------------------------------------------------- */

const struct plait_kernels *plait_object_kernels(const struct plait_comm *comm);
size_t plait_object_cache(const struct plait_comm *comm); /* bytes of the processor's cache, equal on all ranks */

/* Have the progress thread drive the comm from now on, until it is destroyed. */
enum plait_status plait_object_drive(struct plait_comm *comm);

/* Have two threads of this rank use the comm's memory in turn. */
void plait_object_lock(struct plait_comm *comm);
void plait_object_unlock(struct plait_comm *comm);

/* For a server: its worker may take its time, or die, which is logged as a warning. */
void plait_object_expect_death(struct plait_comm *comm);

/* ---- Failures ---------------------------------------------------------------------------------------------- */

/* If `status` is an error, with its text in plait_last_error(), fail the comm with it on all ranks. Returns status. */
enum plait_status plait_object_fail(struct plait_comm *comm, enum plait_status status);

/* Has another rank failed? Its failure is this rank's then. */
enum plait_status plait_object_probe(struct plait_comm *comm);

/* Has the comm failed? */
bool plait_object_failing(const struct plait_comm *comm);

/* ---- Memory ------------------------------------------------------------------------------------------------ */

/*
 * Collective. Each rank shows the others memory of its arena (plait_mem_alloc()). all: [nrank] where this process has
 * the memory of each rank; NULL: on another host. Read-only but for this rank's.
 */
enum plait_status plait_object_show(struct plait_comm *comm, const void *own, const void **all);

/* ---- Persistent collectives -------------------------------------------------------------------------------- */

/*
 * Have a persistent reduction call the object for each slice, while other slices travel. prologue: before others read
 * this rank's data of the slice; epilogue: when its sums are there. [start, start + n): elements of the vector or of
 * every block. NULL: nothing to do. With an epilogue, nobody else reads the sums.
 */
void plait_object_overlap(struct plait_request *r, void *object, void (*prologue)(void *, size_t start, size_t n),
                          void (*epilogue)(void *, size_t start, size_t n));

/* The element of OUT at which the sums of the slice from `start` on lie. */
size_t plait_object_sums_at(const struct plait_request *r, size_t start);

/* Wait until it has ended, if it was started, and free it. NULL is allowed. */
void plait_object_drop(struct plait_request **r);

/* ---- Work on a GPU ----------------------------------------------------------------------------------------- */

/*
 * It goes on the caller's stream, or on the comm's own queue, between begin and end. The comm's lock is held from begin
 * to end. A device's error fails the comm, so that other ranks do not wait for this one.
 */

/* The comm frees GPU memory when other ranks read it no longer. False: this rank has used no GPU with it. */
bool plait_work_free_later(struct plait_comm *comm, void *memory);

/* The comm uses the GPU of this queue. PLAIT_ERR_ARG: it has used another one; else others have failed the comm. */
enum plait_status plait_work_open(struct plait_comm *comm, const char *call, const struct plait_queue *queue);

/* The comm's own queue, after all work of the comm on other queues; NULL: the device has failed. */
struct plait_queue *plait_work_begin(struct plait_comm *comm);

/* Record the error `why` (NULL: none) of work that was put on the queue. False: the device has failed. */
bool plait_work_note(struct plait_comm *comm, const char *why);
void plait_work_end(struct plait_comm *comm);

/* A persistent request on the comm's own queue ends when all of it is enqueued; else when it has run. */
void plait_work_enqueues(struct plait_request *r);

/* ---- Ownership (owner.c) ----------------------------------------------------------------------------------- */

/*
 * A comm whose operations an object begins instead of its callers: a fusion. The object's turn runs whenever a thread
 * drives the comm, under the comm's lock. Persistent requests are begun there.
 *
 * While the object waits for input of this rank, no operation runs that would detect failures. The owner detects them
 * instead, warns of a stall, and after the deadline fails the comm, with blame() as the culprit.
 */
enum plait_awaits {
    PLAIT_AWAITS_RANKS,  /* or nothing: an operation in flight looks for failures itself */
    PLAIT_AWAITS_SELF,   /* a part of this rank: other threads wait for it */
    PLAIT_AWAITS_DEVICE, /* a GPU */
};

struct plait_owned {   /* what the object does */
    const char *whose; /* "a fusion's; plait_fusion_destroy() ends both" */
    /* Begin and end operations. Returns whether there was progress. */
    bool (*turn)(void *object, enum plait_awaits *awaits);
    /* Name what this rank lacks. */
    void (*blame)(const void *object, char *text, size_t room);
    /* Say what `rank` lacks to call the operation in progress. Nothing is written if it lacks nothing. */
    void (*excuse)(const void *object, uint32_t rank, char *text, size_t room);
};

/* Free the owner after the comm. NULL: out of memory. */
struct plait_ownership;
struct plait_ownership *plait_ownership_create(const struct plait_owned *does, void *object);
void plait_ownership_begin(struct plait_ownership *o, struct plait_comm *comm);

/* Any thread: one thing more is pending, so that the comm is driven; wake those who wait. */
void plait_owner_pends(struct plait_comm *comm);
void plait_owner_wake(void);

/* Any thread: drive all comms until over(self), or until the comm has failed with the returned error. */
enum plait_status plait_owner_wait(struct plait_comm *comm, const char *call, bool (*over)(const void *self),
                                   const void *self);

/* In a turn: n things are no longer pending. */
void plait_owner_ended(struct plait_comm *comm, uint32_t n);

/* In a turn: begin a persistent request; has it ended, and well? It may then begin again. */
void plait_owner_start(struct plait_request *r);
bool plait_owner_has(struct plait_request *r);

/* Multiply its sums by `factor` from now on. Ranks compare their factors when they run it. */
void plait_owner_scale(struct plait_request *r, double factor);
const char *plait_owner_algorithm(const struct plait_request *r);

#endif
