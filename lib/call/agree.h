/* SPDX-License-Identifier: BSD-3-Clause */
/* Agreements of all ranks before a collective creation or change: all are ready, and all give the same options. */
#ifndef PLAIT_LIB_CALL_AGREE_H
#define PLAIT_LIB_CALL_AGREE_H

#include <plait/comm.h>

#include <stddef.h>

/*
 * After a step that each rank does by itself: all ranks are ready, or none goes on. Collective. status: this rank's
 * result so far, with its text in plait_last_error(). Returns PLAIT_OK if all are ready. Else a rank that failed
 * returns its own error, and the others PLAIT_ERR_MISMATCH with `call` and the number and text of the lowest that
 * failed; the comm stays usable. Allocates nothing itself; a rank that lacks the memory for a small collective fails
 * the comm.
 */
enum plait_status plait_all_ready(struct plait_comm *comm, const char *call, enum plait_status status);

struct plait_text; /* lines "NAME VALUE", one for each option */
void plait_text_add(struct plait_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void plait_text_add_real(struct plait_text *t, const char *what, double value); /* a line; exact */

/*
 * The same, and do all ranks give rank 0's text? Else all return PLAIT_ERR_MISMATCH: `name`, the first line that
 * differs, and the two ranks. describe() writes the text; after an error of this rank it is not called.
 */
enum plait_status plait_all_alike(struct plait_comm *comm, const char *call, const char *name,
                                  void (*describe)(const void *options, struct plait_text *t), const void *options,
                                  enum plait_status status);

#endif
