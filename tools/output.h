/* SPDX-License-Identifier: BSD-3-Clause */
/* The beginning and the end of a program's standard output. */
#ifndef PLAIT_TOOLS_OUTPUT_H
#define PLAIT_TOOLS_OUTPUT_H

/**
 * At the start of main(): where standard input, output or error is closed, hold its number, so that no file of the
 * program, its libraries or the programs that it starts gets it and what is printed. To read or write there fails, as
 * if it were closed.
 */
void output_begin(const char *program);

/**
 * The exit status of a program that would end with `status`: 1 in the place of 0, after a message on stderr, when
 * something that was printed could not be written (a full disk, a closed descriptor). A reader that closed its end of
 * a pipe has read enough: that is no error.
 */
int output_end(const char *program, int status);

/** What was written to standard output without stdio is lost, by this errno: output_end() tells. */
void output_lost(int error);

#endif
