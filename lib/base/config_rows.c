/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of all settings, and the parsers of their values. */
#include "config.h"

#include "bytes.h"

#include <plait/coll.h>

#include <stdio.h>
#include <string.h>

/* The field gets Plait's own name of the collective; an algorithm alone is all-reduce's, as NCCL_ALGO's mostly is. */
static const char *parse_algo(const char *text, void *field)
{
    const size_t room = sizeof((struct plait_config *)0)->algo, n = strcspn(text, ":");
    const char *algorithm = text[n] == ':' ? text + n + 1 : text;
    char name[32];

    snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), text);
    const int coll = text[n] == ':' ? plait_coll_find(name) : PLAIT_ALLREDUCE;
    if (*text != '\0' && (*algorithm == '\0' || coll < 0))
        return "ALGORITHM or COLLECTIVE:ALGORITHM, e.g. ring or allgather:ring (plait-info --algorithms lists them)";
    if (strchr(text, ',') != NULL)
        return "one COLLECTIVE:ALGORITHM";
    const int length = snprintf(field, room, "%s:%s", plait_coll_name((enum plait_coll)coll), algorithm);
    if (*text == '\0')
        *(char *)field = '\0';
    return length < (int)room ? NULL : "at most 63 characters";
}

const char *plait_config_word(const struct plait_config_row *row, const char *text, void *field)
{
    const bool copies = row->initial[0] == '\0';
    char word[16];
    int i = 0;

    if (copies && *text == '\0')
        return NULL;
    for (const char *at = row->words; *at != '\0'; i++) {
        const size_t n = strcspn(at, ", ");
        snprintf(word, sizeof word, "%.*s", (int)n, at);
        if (plait_same_word(text, word)) {
            if (copies)
                strcpy(field, word);
            else
                *(int *)field = i;
            return NULL;
        }
        at += n + strspn(at + n, ", ");
        at += strncmp(at, "or ", 3) == 0 ? 3 : 0;
    }
    return row->words;
}

/* A value has at most 255 characters, for which all fields that are parsed so have room. */
static const char *parse_text(const char *text, void *field)
{
    strcpy(field, text);
    return NULL;
}

#define BYTES "a number of bytes, with K, M or G for 2^10, 2^20 or 2^30: 65536, 64K"
static const char *parse_bytes(const char *text, void *field)
{
    return plait_parse_bytes(text, field) ? NULL : BYTES;
}

static const char *parse_automatic(const char *text, void *field)
{
    const bool automatic = plait_same_word(text, "automatic") || plait_same_word(text, "auto");

    return plait_parse_bytes(automatic ? "0" : text, field) ? NULL : "automatic, or " BYTES;
}

static const char *parse_seconds(const char *text, void *field)
{
    char *end;
    const double value = plait_real(text, &end);

    if (*end != '\0' || !(value > 0) || value > 1e9)
        return "seconds: a positive number up to 1e9, e.g. 30 or 0.5";
    *(double *)field = value;
    return NULL;
}

/* "1000us", "1000MB/s", or both; each at most once. Limits prevent overflow. */
static const char *parse_pace(const char *text, void *field)
{
    static const struct {
        const char *unit;
        double factor; /* to ns, to bytes per second */
    } units[] = { { "us", 1e3 }, { "ms", 1e6 }, { "MB/s", 1e6 }, { "GB/s", 1e9 } };
    uint64_t parts[2] = { 0, 0 }; /* as in struct plait_pace */
    bool right = true;

    for (const char *at = text; *text != '\0' && right && at != NULL; at = strchr(at, ',')) {
        char *unit;
        const double value = plait_real(at += *at == ',', &unit);
        const size_t length = strcspn(unit, ",");
        size_t i = 0;
        while (i < 4 && (strlen(units[i].unit) != length || memcmp(unit, units[i].unit, length) != 0))
            i++;
        right = i < 4 && parts[i / 2] == 0 && value * units[i].factor >= 1000 && value * units[i].factor <= 1e13;
        if (right)
            parts[i / 2] = (uint64_t)(value * units[i].factor);
    }
    if (!right || *text == ',')
        return "the latency of a message, the bandwidth of a link, or both: 1000us, 1000MB/s, 1000us,1000MB/s; units "
               "are us, ms, MB/s and GB/s, values 1us to 1e10us, 0.001MB/s to 1e7MB/s";
    *(struct plait_pace *)field = (struct plait_pace){ parts[0], parts[1] };
    return NULL;
}

static const char *parse_ports(const char *text, void *field)
{
    unsigned first = 0, last;
    int end = 0;

    if (sscanf(text, "%5u-%5u%n", &first, &last, &end) < 2 && sscanf(text, "%5u%n", &last, &end) == 1)
        first = last;
    if (first == 0 || last < first || last > UINT16_MAX || text[end] != '\0')
        return "a port or a range of ports: 20000-29999";
    *(struct plait_ports *)field = (struct plait_ports){ (uint16_t)first, (uint16_t)(last - first + 1) };
    return NULL;
}

static const char *parse_ifname(const char *text, void *field)
{
    const char *name = text + strspn(text, "^=");

    if (strlen(text) >= sizeof((struct plait_config *)0)->ifname || (*text != '\0' && *name == '\0') ||
        strpbrk(name, "^= ") != NULL)
        return "names or starts of names, eth,ib; =eth0 the very name, ^docker all but: at most 63 characters";
    strcpy(field, text);
    return NULL;
}

static const char *parse_secret(const char *text, void *field)
{
    const size_t n = strlen(text);

    if (n > 0 && (n < PLAIT_LEAST_SECRET || n >= sizeof((struct plait_config *)0)->secret))
        return "16 to 79 characters that are hard to guess; plait-info --make-secret writes some to a file instead";
    strcpy(field, text);
    return NULL;
}

#define FIELD(name) offsetof(struct plait_config, name)
const struct plait_config_row plait_config_rows[] = {
    { "PLAIT_ALGO", "",
      "algorithm of every call of one collective and its v-form, as COLLECTIVE:ALGORITHM, or of all-reduces; empty: "
      "chosen by the library (plait-info --explain)",
      FIELD(algo), parse_algo },
    { "PLAIT_ARENA", "automatic", "bytes of library memory that a process may use; automatic: as much as main memory",
      FIELD(arena), parse_automatic },
    { "PLAIT_BIND", "none",
      "core, cache or package: bind the thread that creates its first comm, and threads that it starts, to one of "
      "these, "
      "spread over the host's in the order of its ranks; a rank that its launcher has bound stays so; none: as it is",
      FIELD(bind), .words = "none, core, cache or package" },
    { "PLAIT_CALIBRATE", "1",
      "1: the first comm of a process times copies (at most 20 ms), to choose copy modes; 0: built-in ones",
      FIELD(calibrate), .words = "0 or 1" },
    { "PLAIT_CHECK", "0", "1: prove every plan before its first run", FIELD(check), .words = "0 or 1" },
    { "PLAIT_CMA", "auto",
      "how ranks of one host read each other's ordinary memory if nothing is reduced; 1: single copy by the kernel; "
      "0: staging buffers; auto: the faster one (PLAIT_CALIBRATE)",
      FIELD(cma), .words = "0, 1 or auto" },
    { "PLAIT_CONFIG", "", "file with lines NAME = value, read after the environment", FIELD(file), parse_text },
    { "PLAIT_CUDA_DRIVER", "", "for tests: file to load as CUDA's driver; empty: libcuda.so.1", FIELD(cuda_driver),
      parse_text },
    { "PLAIT_DEADLINE", "600", "seconds until a stalled operation fails", FIELD(deadline), parse_seconds },
    { "PLAIT_FOR_TESTS", "0", "1: this is a test, which may slow Plait down with PLAIT_PACE", FIELD(for_tests),
      .words = "0 or 1" },
    { "PLAIT_HOSTS", "automatic",
      "for tests, with PLAIT_FOR_TESTS=1: a comm's ranks behave as if on so many hosts; automatic: as they are",
      FIELD(hosts), parse_automatic },
    { "PLAIT_IFNAME", "",
      "interfaces for other hosts, as NCCL_SOCKET_IFNAME: starts of names (eth,ib), =NAME, ^NAME for all but; "
      "empty: all that others can reach",
      FIELD(ifname), parse_ifname },
    { "PLAIT_ISA", "", "instruction set of the reduction kernels: scalar, avx2, avx512; empty: the best", FIELD(isa),
      .words = "scalar, avx2 or avx512" },
    { "PLAIT_LAUNCHER", "",
      "launcher that started this process: torchrun, slurm, openmpi, mpich, none; empty: found by its variables",
      FIELD(launcher), .words = "torchrun, slurm, openmpi, mpich or none" },
    { "PLAIT_LOG", "warn", "least important log lines that are shown: error, warn, info, debug", FIELD(log),
      .words = "error, warn, info or debug" },
    { "PLAIT_LOG_FILE", "",
      "file that log lines are added to, with %h for the host and %p for the process; empty: stderr", FIELD(log_file),
      parse_text },
    { "PLAIT_MPI", "on",
      "libplait-mpi.so, equal on all ranks; off: all collectives run in MPI; report: on, and rank 0 shows at the end "
      "which calls ran where",
      FIELD(mpi), .words = "on, off or report" },
    { "PLAIT_NCCL_FUSION", "4M",
      "libnccl.so.2: bytes up to which the all-reduces of a group become one operation, equal on all ranks; 0: no "
      "fusion",
      FIELD(nccl_fusion), parse_bytes },
    { "PLAIT_NCCL_VERSION", "2.32.3", "libnccl.so.2: what ncclGetVersion() answers", FIELD(nccl_version), parse_text },
    { "PLAIT_PACE", "",
      "for tests, with PLAIT_FOR_TESTS=1: latency that every message gets, and bandwidth of every link, as "
      "1000us,1000MB/s; empty: none",
      FIELD(pace), parse_pace },
    { "PLAIT_PLANS", "",
      "plan file, or folder of files *.plan: algorithms that every comm has besides the library's, the same on all "
      "ranks; empty: none",
      FIELD(plans), parse_text },
    { "PLAIT_PLUGINS", "", "folder of the plug-ins (plait-ucx.so); empty: plait/ beside libplait", FIELD(plugins),
      parse_text },
    { "PLAIT_PORTS", "20000-29999", "ports at which rank 0 of a comm over TCP may listen", FIELD(ports), parse_ports },
    { "PLAIT_PROGRESS", "0", "1: a thread drives pending operations of every comm", FIELD(progress),
      .words = "0 or 1" },
    { "PLAIT_RACK", "",
      "name of the rack, or switch, of this host, each rank's own: a level of hierarchical algorithms; empty: not "
      "known",
      FIELD(rack), parse_text },
    { "PLAIT_REPRODUCIBLE", "0", "1: results of every comm have bits that do not depend on algorithm, slices or fusion",
      FIELD(reproducible), .words = "0 or 1" },
    { "PLAIT_REQUIRE_SECRET", "0", "1: under a launcher, no comm over TCP without a secret", FIELD(require_secret),
      .words = "0 or 1" },
    { "PLAIT_SECRET", "",
      "under a launcher, secret of the job: only ranks with the same one may join; empty: the one in ~/.plait-secret, "
      "a file of mode 0600 (plait-info --make-secret)",
      FIELD(secret), parse_secret, .secret = true },
    { "PLAIT_SLICE", "automatic", "bytes of the vector in one pipeline slice; automatic: chosen by size", FIELD(slice),
      parse_automatic },
    { "PLAIT_TIMEOUT", "60", "seconds that the creation of a comm waits for all ranks", FIELD(timeout), parse_seconds },
    { "PLAIT_TUNING", "",
      "file that plait-tune wrote, of which rank 0's counts; none: do not use any; empty: plait/tuning.json in "
      "$XDG_CONFIG_HOME or ~/.config, or else /etc/plait/tuning.json",
      FIELD(tuning), parse_text },
    { "PLAIT_WARN", "30", "seconds until a stalled operation is named in a warning", FIELD(warn), parse_seconds },
};
_Static_assert(sizeof plait_config_rows / sizeof *plait_config_rows == PLAIT_NSETTING, "count the rows");
