/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tuning: what was measured on a machine, once, and which algorithms were the fastest there.
 *
 * A tuning file is JSON for people, too. Units are those of machine files (docs/predict.md): a time is nanoseconds or
 * "2 us", a rate bytes per second or "8 GB/s", a size bytes or "64 KiB"; "us" and "next_us" are microseconds.
 *
 *     { "plait": "0.1.0", "date": "2026-11-29",
 *       "machine": { "processor": "AMD EPYC", "processors": 2, "fingerprint": "0123456789abcdef" },
 *       "links": [ { "between": "hosts", "latency": "25 us", "overhead": "5 us", "bandwidth": "110 MB/s" } ],
 *       "copies": [ { "to": "32 KiB", "fastest": "single", "else": "staged" }, ... ],
 *       "copy": "9 GB/s", "reduce": "7 GB/s",
 *       "choices": [ { "collective": "allreduce", "hosts": 4, "ranks_per_host": 2, "memory": "host",
 *                      "oversubscribed": true,
 *                      "sizes": [
 *                        { "from": 0, "algorithm": "one-shot", "us": 12.5, "next": "two-shot", "next_us": 14 },
 *                        { "from": "64 KiB", "algorithm": "ring", "us": 700 } ] } ] }
 *
 * "plait", "date" and "machine" must be there. Each other part may be missing: nothing was measured. There are at most
 * 4,096 choices of 64 sizes.
 *
 * Loading proves the form: every field is known and within its limits, no class of links and no key of choices comes
 * twice, sizes begin at 0 and increase. It does not know whether a spec names an algorithm (plait_alg_find() does), nor
 * whether the file is of this machine: compare the fingerprint.
 */
#ifndef PLAIT_LIB_PLUGIN_TUNING_H
#define PLAIT_LIB_PLUGIN_TUNING_H

#include <plait/coll.h>
#include <plait/memory.h>
#include <plait/plan.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Classes of links, and the "between" of each. */
#define PLAIT_LINK_LIST(X)                       \
    X(PLAIT_LINK_RANKS, "ranks of a host")       \
    X(PLAIT_LINK_HOSTS, "hosts") /* of a rack */ \
    X(PLAIT_LINK_RACKS, "racks")

enum plait_link_class {
#define PLAIT_X(symbol, name) symbol,
    PLAIT_LINK_LIST(PLAIT_X)
#undef PLAIT_X
        PLAIT_NLINK
};

struct plait_tuned_link {
    uint64_t latency;   /* ns */
    uint64_t overhead;  /* ns of each side's processor; 0: not measured apart from the latency */
    uint64_t bandwidth; /* bytes per second; 0: not measured, nor is the latency */
};

/* Copy modes, and their names. lib/comm/copy_mode.h says what they are. */
#define PLAIT_COPY_LIST(X)         \
    X(PLAIT_COPY_SINGLE, "single") \
    X(PLAIT_COPY_STAGED, "staged") \
    X(PLAIT_COPY_STREAMED, "streamed")

enum plait_copy_mode {
#define PLAIT_X(symbol, name) symbol,
    PLAIT_COPY_LIST(PLAIT_X)
#undef PLAIT_X
        PLAIT_NCOPY
};

/* Classes of sizes: to 32 KiB ("to"), to 128 KiB, to 512 KiB, to 2 MiB, and all above, whose "to" is missing. */
#define PLAIT_COPY_CLASSES 5
#define PLAIT_COPY_TO(k)   ((size_t)(32 << 10) << 2 * (k))

struct plait_copy_modes {
    enum plait_copy_mode fastest, other; /* other: where a single copy is not possible; never PLAIT_COPY_SINGLE */
};

/* From `from` bytes on, up to the next row of the same key, `algorithm` is the fastest. */
struct plait_tuned_choice {
    /* The key: rows with one key come one after the other, by their sizes. */
    enum plait_coll coll;
    uint32_t hosts;
    uint32_t ranks_per_host; /* 0: unequal */
    enum plait_memory memory;
    bool oversubscribed; /* more ranks on a host than it has processors */

    uint64_t from; /* bytes of the vector, or of a block, as in plait_comm_choose(); 0 in a key's first row */
    char algorithm[PLAIT_MAX_SPEC];
    uint64_t ns;               /* that it took at `from`, or at the least size that was measured; not 0 */
    char next[PLAIT_MAX_SPEC]; /* the second; "": there was none, or it was not measured */
    uint64_t next_ns;
};

static inline bool plait_tuned_same_key(const struct plait_tuned_choice *a, const struct plait_tuned_choice *b)
{
    return a->coll == b->coll && a->hosts == b->hosts && a->ranks_per_host == b->ranks_per_host &&
           a->memory == b->memory && a->oversubscribed == b->oversubscribed;
}

struct plait_tuning {
    char version[24]; /* of Plait; only informative: loading accepts any */
    char date[11];    /* "2026-11-29" */

    /* The machine, as plait_topology_get() describes a host. */
    char processor[64];
    uint32_t processors;
    uint64_t fingerprint;

    struct plait_tuned_link link[PLAIT_NLINK]; /* by class */
    bool has_copies;
    struct plait_copy_modes copies[PLAIT_COPY_CLASSES]; /* of data between processes of a host, by class */
    uint64_t copy, reduce; /* bytes per second copied and added by one rank; 0: not measured */
    size_t nrow;
    struct plait_tuned_choice *rows; /* [nrow] */
};

/*
 * Read a tuning file. *out is to be finished after success.
 *
 * Errors: PLAIT_ERR_CONFIG (file, line, field and remedy), PLAIT_ERR_SYSTEM (it cannot be read), PLAIT_ERR_UNSUPPORTED
 *         (this build has no plait-json.so), PLAIT_ERR_NOMEM
 */
enum plait_status plait_tuning_load(const char *path, struct plait_tuning *out);

/* Free the rows. NULL is allowed, and so is a tuning that is all zero. */
void plait_tuning_finish(struct plait_tuning *tuning);

#endif
