/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding the files that run a peer's ranks. */
#ifndef PLAIT_BENCH_BESIDE_H
#define PLAIT_BENCH_BESIDE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Look beside this program (build tree), in the libexec folder beside its bin folder (an installation that was moved),
 * and in that of the configured prefix. Returns false when the file is in none; `path` is then the last.
 *
 * mode  as for access()
 */
bool find_beside(const char *name, int mode, char *path, size_t room);

#endif
