/* SPDX-License-Identifier: BSD-3-Clause */
/* The files that run a peer's ranks. */
#ifndef PLAIT_BENCH_BESIDE_H
#define PLAIT_BENCH_BESIDE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Beside this program (build tree) or in the libexec folder of the installation; false: in neither, `path` is the latter.
 *
 * mode  as of access()
 */
bool find_beside(const char *name, int mode, char *path, size_t room);

#endif
