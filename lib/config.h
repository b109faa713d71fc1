/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The settings, parsed. The table in config.c gives each its name, default, text and parser.
 *
 * An empty value means the default. PLAIT_TEST_* variables belong to the tests and are ignored.
 */
#ifndef PLAIT_LIB_CONFIG_H
#define PLAIT_LIB_CONFIG_H

#include <plait/config.h>

#include <stdbool.h>
#include <stdint.h>

struct plait_pace {     /* of links that a test slows down; 0, both: it does not */
    uint64_t latency;   /* ns of every message */
    uint64_t bandwidth; /* bytes per second and link; 0: no limit */
};

static inline bool plait_is_paced(const struct plait_pace *pace)
{
    return pace->latency > 0 || pace->bandwidth > 0;
}

struct plait_config {
    char algo[64];      /* PLAIT_ALGO       "" or "allreduce:SPEC": the algorithm, whatever the size */
    size_t arena;       /* PLAIT_ARENA      bytes of library memory a process may use; 0: main memory */
    int check;          /* PLAIT_CHECK      1: prove every plan before its first run */
    int cma;            /* PLAIT_CMA        1: receivers read what is not library memory through the kernel; 1 */
    char file[256];     /* PLAIT_CONFIG     "" or the file that the settings were read from */
    double deadline;    /* PLAIT_DEADLINE   seconds, 600 */
    char isa[16];       /* PLAIT_ISA        "", "scalar", "avx2", "avx512" */
    int log;            /* PLAIT_LOG        enum plait_log_level by name, "warn" */
    char log_file[256]; /* PLAIT_LOG_FILE "" for stderr, or a path with %h and %p */
    size_t slice;       /* PLAIT_SLICE      bytes of the vector per pipeline slice; 0: chosen */
    double timeout;     /* PLAIT_TIMEOUT    seconds, 60 */
    int progress;       /* PLAIT_PROGRESS   1: the progress thread runs for every comm; 0 */
    double warn;        /* PLAIT_WARN       seconds, 30 */

    struct plait_pace pace; /* PLAIT_PACE, which needs PLAIT_FOR_TESTS: of every link */
    int for_tests;          /* PLAIT_FOR_TESTS: 1: this is a test; 0 */
};

/*
 * Read the environment and the file of PLAIT_CONFIG, and set up the log. Unknown PLAIT_* names are
 * logged once per process with the nearest name. PLAIT_ERR_CONFIG names the variable, its value and
 * what is allowed, and for a file its line.
 */
enum plait_status plait_config_load(struct plait_config *out);

/*
 * The same without the environment: `text` are the `bytes` bytes of a file, `path` its name for
 * messages. Any input is safe; nothing is logged.
 */
enum plait_status plait_config_parse(const char *path, const char *text, size_t bytes, struct plait_config *out);

#endif
