/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cmocka, with the headers that it wants before it. Tests, ranks' bodies and callbacks have the parameters that others give
 * them: a test need not use all.
 */
#ifndef PLAIT_TESTS_UNIT_H
#define PLAIT_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

#endif
