/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whole messages on a socket, within a time limit; descriptors on a Unix socket only.
 *
 * Every message is a frame: a status, then bytes. The bytes of an error are its text. An error may arrive in place of
 * any message, so a rank that fails can always say why, whatever its peer waits for.
 */
#ifndef PLAIT_LIB_BOOTSTRAP_FRAME_H
#define PLAIT_LIB_BOOTSTRAP_FRAME_H

#include "base/status.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAIT_FRAME_FDS 128 /* descriptors in one message; the kernel allows 253 */

/*
 * A reason from outside to end this thread's waits: they call check() every 50 ms. If check() returns an error, it has
 * recorded the text, and the wait ends. The error must be neither PLAIT_ERR_TIMEOUT nor PLAIT_ERR_PEER, which are
 * states of a connection.
 */
struct plait_watch {
    enum plait_status (*check)(const void *context);
    const void *context;
};
/* Watch from now on. An interrupt (plait_interrupt_set()) then ends waits too; NULL: only an interrupt does. */
void plait_frame_watch(const struct plait_watch *watch);
/* Neither ends waits any more: this rank was told to stop and still has to tell others. */
void plait_frame_unwatch(void);
enum plait_status plait_frame_check(void);

/*
 * This thread's waits call `progress` until it returns false. No other thread drives this process's pending operations
 * then. NULL: they no longer do.
 */
void plait_frame_drive(bool (*progress)(void));

/* Is this number, received from another program, the status of an error? */
bool plait_is_error(int32_t status);

/*
 * All calls return the state of the connection: PLAIT_ERR_TIMEOUT, PLAIT_ERR_PEER (the other end is gone), or
 * PLAIT_ERR_SYSTEM with the cause recorded. Clock readings are plait_clock()'s.
 */
enum plait_status plait_frame_poll(struct pollfd *polls, uint32_t n, double until);       /* for one event at least */
enum plait_status plait_frame_send(int fd, const void *data, size_t bytes, double until); /* bytes without a frame */
enum plait_status plait_frame_receive(int fd, void *data, size_t bytes, double until);    /* bytes without a frame */
enum plait_status plait_frame_write(int fd, const void *data, size_t bytes, double until);
enum plait_status plait_frame_write_error(int fd, const struct plait_error *error, double until);
enum plait_status plait_frame_write_fds(int fd, const int *fds, uint32_t n, double until);

/* Read a frame of exactly `bytes`, or an error in its place: error->status is PLAIT_OK for the frame. */
enum plait_status plait_frame_read(int fd, void *data, size_t bytes, double until, struct plait_error *error);

/*
 * Read a frame with n descriptors. PLAIT_ERR_SYSTEM: this process has no room for all of them; those that arrived are
 * in fds, the rest is -1, also after other errors.
 */
enum plait_status plait_frame_read_fds(int fd, int *fds, uint32_t n, double until, struct plait_error *error);

#endif
