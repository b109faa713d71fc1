/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inputs whose results are known exactly in every type: small integers, so that no order of combination
 * and no format rounds, for up to 64 ranks (avg: a number of ranks up to 16, or a power of two). For operators
 * before PLAIT_PREMULSUM.
 */
#ifndef PLAIT_TESTS_VALUES_H
#define PLAIT_TESTS_VALUES_H

#include <plait/coll.h>

/* A number that the type holds exactly. Integers wrap. */
void values_store(void *vector, enum plait_dtype type, size_t i, double x);

/* Fill a rank's input; fill the result, bit by bit as it must be; count wrong results. */
void values_fill(void *vector, enum plait_dtype type, enum plait_op op, uint32_t nrank, uint32_t rank, size_t count);
void values_want(void *vector, enum plait_dtype type, enum plait_op op, uint32_t nrank, size_t count);
/* Work the results out that will be compared with, so that processes forked after this have them. */
void values_prepare(enum plait_dtype type, enum plait_op op, uint32_t nrank, size_t count);
size_t values_wrong(const void *vector, enum plait_dtype type, enum plait_op op, uint32_t nrank, size_t count);

#endif
