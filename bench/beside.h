/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding the files that run a peer's ranks. */
#ifndef PLAIT_BENCH_BESIDE_H
#define PLAIT_BENCH_BESIDE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Look beside this program (build tree) and in the libexec folder of the installation. Returns false when the file is
 * in neither; `path` is then the latter.
 *
 * mode  as for access()
 */
bool find_beside(const char *name, int mode, char *path, size_t room);

#endif
