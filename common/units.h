/* SPDX-License-Identifier: BSD-3-Clause */
/* Quantities as people read them: "4 MiB", "12.3 us", "25 GB/s". */
#ifndef PLAIT_COMMON_UNITS_H
#define PLAIT_COMMON_UNITS_H

#define UNITS_ROOM 32

/** "4 MiB", "1.5 KiB", "12 B" */
const char *units_bytes(char out[UNITS_ROOM], double bytes);

/** "12.3 us", "1.25 ms" */
const char *units_seconds(char out[UNITS_ROOM], double seconds);

/** "12.5 GB/s" */
const char *units_rate(char out[UNITS_ROOM], double bytes_per_second);

/** Three digits, as far as they matter: "12.3", "0.25", "1230". */
const char *units_number(char out[UNITS_ROOM], double x);

#endif
