/* SPDX-License-Identifier: BSD-3-Clause */
/* Edit distance, for "did you mean". */
#ifndef PLAIT_LIB_BASE_NEAREST_H
#define PLAIT_LIB_BASE_NEAREST_H

/* A word at a larger distance from a name is no misspelling of it. */
#define PLAIT_NEAR 3

/* Insertions, deletions and replacements that turn `a` into `b`, without case; both are cut at 63 characters. */
unsigned plait_distance(const char *a, const char *b);

#endif
