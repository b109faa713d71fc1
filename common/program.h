/* SPDX-License-Identifier: BSD-3-Clause */
/* The beginning and the end of a program, and of its standard output. */
#ifndef PLAIT_COMMON_PROGRAM_H
#define PLAIT_COMMON_PROGRAM_H

/**
 * At the start of main(): name the program in messages. Where standard input, output or error is closed, hold its
 * number, so that no file of the program, its libraries or its children gets that descriptor and with it the program's
 * output. Reading or writing there fails, as on a closed descriptor.
 *
 * name  must live as long as the process
 */
void program_begin(const char *name);

/**
 * The exit status of a program that would end with `status`. It is 1 instead of 0, after a message, when standard
 * output could not be written (a full disk, a closed descriptor). A reader that closed its end of a pipe has read
 * enough: that is no error.
 */
int program_end(int status);

/** What was written to standard output without stdio is lost, by this errno: program_end() says so. */
void output_lost(int error);

/** End this process at once with program_end(status), without destructors or atexit(). Thread: any. */
_Noreturn void leave(int status);

/**
 * Call `function` once before leave() ends the process, on the thread that leaves; NULL: nothing. why: the message of
 * give_up(), or NULL.
 */
void before_leaving(void (*function)(void *context, const char *why), void *context);

/** tell(), then leave(). */
_Noreturn void give_up(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
