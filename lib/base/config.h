/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The settings, parsed. The table in config.c gives each its name, default, text and parser.
 *
 * An empty value means the default. PLAIT_TEST_* variables belong to the tests and are ignored.
 */
#ifndef PLAIT_LIB_BASE_CONFIG_H
#define PLAIT_LIB_BASE_CONFIG_H

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

#define PLAIT_LEAST_SECRET 16 /* characters */

struct plait_ports {
    uint16_t first, n;
};

enum plait_cma { PLAIT_CMA_NEVER, PLAIT_CMA_ALWAYS, PLAIT_CMA_MEASURED }; /* see lend.h */

struct plait_config {
    char algo[64];         /* PLAIT_ALGO       "" or "allreduce:SPEC": the algorithm, whatever the size */
    size_t arena;          /* PLAIT_ARENA      bytes of library memory a process may use; 0: main memory */
    int check;             /* PLAIT_CHECK      1: prove every plan before its first run */
    int cma;               /* PLAIT_CMA        enum plait_cma, "auto" */
    char file[256];        /* PLAIT_CONFIG     "" or the file that the settings were read from */
    char cuda_driver[256]; /* PLAIT_CUDA_DRIVER "" or the file to load as CUDA's driver, which needs PLAIT_FOR_TESTS */
    double deadline;       /* PLAIT_DEADLINE   seconds, 600 */
    char ifname[64];       /* PLAIT_IFNAME     "" or NCCL's syntax: interfaces for other hosts */
    char isa[16];          /* PLAIT_ISA        "", "scalar", "avx2", "avx512" */
    char launcher[16];     /* PLAIT_LAUNCHER   "" or the launcher that started this process */
    int log;               /* PLAIT_LOG        enum plait_log_level by name, "warn" */
    char log_file[256];    /* PLAIT_LOG_FILE "" for stderr, or a path with %h and %p */
    int reproducible;      /* PLAIT_REPRODUCIBLE 1: as if every comm's options said so; 0 */
    int require_secret;    /* PLAIT_REQUIRE_SECRET 1: launchers' comms need a secret; 0 */
    char secret[80];       /* PLAIT_SECRET     "" or what launchers' comms have in common and others do not know */
    size_t slice;          /* PLAIT_SLICE      bytes of the vector per pipeline slice; 0: chosen */
    double timeout;        /* PLAIT_TIMEOUT    seconds, 60 */
    char plugins[256];     /* PLAIT_PLUGINS    "" or the folder of the plug-ins */
    int progress;          /* PLAIT_PROGRESS   1: the progress thread runs for every comm; 0 */
    double warn;           /* PLAIT_WARN       seconds, 30 */

    struct plait_ports ports; /* PLAIT_PORTS  at which rank 0 of a comm over TCP may listen, 20000-29999 */

    size_t nccl_fusion;          /* PLAIT_NCCL_FUSION  bytes; for nccl/, which asks plait_config_get() */
    struct plait_pace nccl_link; /* PLAIT_NCCL_LINK    for it, too */
    uint32_t nccl_version;       /* PLAIT_NCCL_VERSION 10000 a + 100 b + c of "a.b.c"; for it, too */

    struct plait_pace pace; /* PLAIT_PACE, which needs PLAIT_FOR_TESTS: of every link */
    uint8_t hosts;          /* PLAIT_HOSTS, which needs it too: that ranks behave as if they were on */
    int for_tests;          /* PLAIT_FOR_TESTS: 1: this is a test; 0 */
};

/*
 * Read the environment and the file of PLAIT_CONFIG, and set up the log. Unknown PLAIT_* names are
 * logged once per process, with the nearest name if one is near. PLAIT_ERR_CONFIG names the variable, its value and
 * what is allowed, and for a file its line.
 */
enum plait_status plait_config_load(struct plait_config *out);

/*
 * The same without the environment: `text` are the `bytes` bytes of a file, `path` its name for
 * messages. Any input is safe; nothing is logged.
 */
enum plait_status plait_config_parse(const char *path, const char *text, size_t bytes, struct plait_config *out);

/*
 * The variable that this setting's value came from, for texts: another's, which was handed on, as NCCL_SOCKET_IFNAME;
 * else `name`.
 */
#define PLAIT_VARIABLE 64
void plait_config_variable(const char *name, char out[PLAIT_VARIABLE]);

#endif
