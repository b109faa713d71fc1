/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parsers of option values. Each reads one value into its members of struct options, or prints a message with flag,
 * value and remedy.
 */
#ifndef PLAIT_BENCH_OPTIONS_VALUES_H
#define PLAIT_BENCH_OPTIONS_VALUES_H

#include "options.h"

#define DTYPE_LABELS "int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, f8e4m3, f8e5m2"

typedef bool parse_value(struct options *o, const char *flag, const char *value);

parse_value parse_algorithm, parse_coll, parse_compute, parse_dtype, parse_gradients, parse_layouts, parse_memory,
    parse_modes, parse_op, parse_overlap, parse_payload, parse_peer, parse_place, parse_plot, parse_root, parse_threads;

#endif
