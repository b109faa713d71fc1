/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parsed settings. The table in config_rows.c has the name, default, text and parser of each.
 *
 * An empty value means the default. PLAIT_TEST_* variables belong to the tests and are ignored.
 */
#ifndef PLAIT_LIB_BASE_CONFIG_H
#define PLAIT_LIB_BASE_CONFIG_H

#include <plait/config.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct plait_pace {     /* delays that a test adds to links; both 0: none */
    uint64_t latency;   /* ns per message */
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

enum plait_cma { PLAIT_CMA_NEVER, PLAIT_CMA_ALWAYS, PLAIT_CMA_AUTO }; /* whether to use CMA; see copy_mode.h */

struct plait_config {
    char algo[64];         /* PLAIT_ALGO       "" or "allreduce:SPEC": the algorithm, whatever the size */
    size_t arena;          /* PLAIT_ARENA      bytes of library memory a process may use; 0: main memory */
    int bind;              /* PLAIT_BIND       none, core, cache or package: enum plait_bind */
    int calibrate;         /* PLAIT_CALIBRATE  1; 0: copy modes are built in, not timed */
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
    char rack[256];        /* PLAIT_RACK       "" or the name of this host's rack */
    int reproducible;      /* PLAIT_REPRODUCIBLE 0; 1: as if set in every comm's options */
    int require_secret;    /* PLAIT_REQUIRE_SECRET 0; 1: comms of a launcher need a secret */
    char secret[80];       /* PLAIT_SECRET     "" or the secret that the ranks of a launcher's comm share */
    size_t slice;          /* PLAIT_SLICE      bytes of the vector per pipeline slice; 0: chosen */
    double timeout;        /* PLAIT_TIMEOUT    seconds, 60 */
    char tuning[256];      /* PLAIT_TUNING     "" for the usual places, "none", or the file that plait-tune wrote */
    char plans[256];       /* PLAIT_PLANS      "" or a plan file or folder */
    char plugins[256];     /* PLAIT_PLUGINS    "" or the folder of the plug-ins */
    int progress;          /* PLAIT_PROGRESS   0; 1: the progress thread runs for every comm */
    double warn;           /* PLAIT_WARN       seconds, 30 */

    struct plait_ports ports; /* PLAIT_PORTS  TCP ports on which rank 0 of a comm may listen, 20000-29999 */

    int mpi;                /* PLAIT_MPI          on, off or report; read by mpi/ likewise */
    size_t nccl_fusion;     /* PLAIT_NCCL_FUSION  bytes; read by nccl/ through plait_config_get() */
    char nccl_version[256]; /* PLAIT_NCCL_VERSION "2.32.3"; likewise */

    struct plait_pace pace; /* PLAIT_PACE, of every link; needs PLAIT_FOR_TESTS */
    size_t hosts;           /* PLAIT_HOSTS, number of simulated hosts; needs PLAIT_FOR_TESTS */
    int for_tests;          /* PLAIT_FOR_TESTS 0; 1: this is a test */
};

/*
 * Read the environment and the file of PLAIT_CONFIG, and set up the log. Unknown PLAIT_* names are logged once per
 * process, with the nearest known name if one is near. The text of PLAIT_ERR_CONFIG names the variable, its value, the
 * allowed values, and, for a file, the line.
 */
enum plait_status plait_config_load(struct plait_config *out);

/* One table (config_rows.c) defines every setting: variable, default, text, offset in struct plait_config, parser. */
struct plait_config_row {
    const char *name, *initial, *text;
    size_t offset;
    /* Writes *field and returns NULL; or leaves *field and returns a text that says what is allowed. NULL: `words`. */
    const char *(*parse)(const char *text, void *field);
    /* "a, b or c": the int at `offset` gets the word's place in the list; or, if the default is "", it is the word. */
    const char *words;
    bool secret; /* never print the value */
};

/* Find the text among the row's words. NULL: the field is set; else the list. */
const char *plait_config_word(const struct plait_config_row *row, const char *text, void *field);

#define PLAIT_NSETTING 32
extern const struct plait_config_row plait_config_rows[PLAIT_NSETTING];

#endif
