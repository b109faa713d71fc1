/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whole messages on a socket, within a time limit; descriptors only on a Unix socket.
 *
 * Every message is a frame: a status, then bytes. An error's bytes are its text, and it may come in the place of any
 * message: so a rank that fails can always say why, whatever the other end waits for.
 */
#ifndef PLAIT_LIB_BOOTSTRAP_FRAME_H
#define PLAIT_LIB_BOOTSTRAP_FRAME_H

#include <plait/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAIT_FRAME_FDS 128 /* descriptors in one message; the kernel allows 253 */

struct plait_error { /* what the other end says instead of what is due */
    enum plait_status status;
    char text[512];
};

/*
 * What may end the waits of this thread from outside: asked every tick. An error, whose text it has recorded, ends
 * them; it must be neither PLAIT_ERR_TIMEOUT nor PLAIT_ERR_PEER, which are states of a connection.
 */
struct plait_watch {
    enum plait_status (*look)(const void *context);
    const void *context;
};
/* From now on, and an interrupt (plait_interrupt_set()) ends them too; NULL: only that. */
void plait_frame_watch(const struct plait_watch *watch);
/* Nothing any more: this rank was told to stop, and has yet to tell others. */
void plait_frame_unwatch(void);
enum plait_status plait_frame_look(void);

/*
 * Nobody else does what is pending in this process meanwhile: the waits of this thread do, by this; NULL: they do not.
 */
void plait_frame_drive(bool (*progress)(void));

#define PLAIT_FRAME_TICK 0.05 /* seconds between looks for a dead process while waiting */

/*
 * Is the process that opened the other end dead? Its socket does not tell while a child that it forked has the socket
 * too.
 */
bool plait_frame_dead(int fd);

/* Is this number, which came from another program, an error's? */
bool plait_is_error(int32_t status);

/* The error of the calling thread, to be told. */
struct plait_error plait_error_of(enum plait_status status);

/*
 * All calls return the state of the connection: PLAIT_ERR_TIMEOUT, PLAIT_ERR_PEER (the other end is gone), or
 * PLAIT_ERR_SYSTEM with the cause recorded. Clock readings are plait_clock()'s.
 */
enum plait_status plait_frame_wait(int fd, short events, double until);
enum plait_status plait_frame_send(int fd, const void *data, size_t bytes, double until); /* bytes without a frame */
enum plait_status plait_frame_receive(int fd, void *data, size_t bytes, double until);    /* bytes without a frame */
enum plait_status plait_frame_write(int fd, const void *data, size_t bytes, double until);
enum plait_status plait_frame_write_error(int fd, const struct plait_error *error, double until);
enum plait_status plait_frame_write_fds(int fd, const int *fds, uint32_t n, double until);

/* Read a frame of exactly `bytes`, or what the other end says instead: error->status is PLAIT_OK when it is the frame.
 */
enum plait_status plait_frame_read(int fd, void *data, size_t bytes, double until, struct plait_error *error);

/*
 * Read a frame that brings n descriptors. *all is false when this process could not take them all: those that
 * came are in fds, the rest is -1, and the connection goes on.
 */
enum plait_status plait_frame_read_fds(int fd, int *fds, uint32_t n, double until, struct plait_error *error,
                                       bool *all);

#endif
