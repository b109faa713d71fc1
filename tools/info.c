/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-info: what this build can do, its configuration, what it sees of the machine, and what it would run. */
#include "../simulate/fields.h"
#include "base/bytes.h"
#include "build.h"
#include "dump.h"
#include "info_json.h"
#include "machine.h"
#include "message.h"
#include "names.h"
#include "nccl.h"
#include "option.h"
#include "peers.h"
#include "program.h"
#include "shape.h"
#include "topology.h"
#include "units.h"

#include <plait/comm.h>
#include <plait/config.h>
#include <plait/memory.h>
#include <plait/plan.h>
#include <plait/topology.h>
#include <plait/version.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static bool show_features, show_json, show_config, show_topology, show_algorithms, explain, crossings, inplace,
    reproducible, make_secret, peers, show_nccl;
static uint32_t nrank, root;
static size_t slice;
static const char *type_name = "float32", *op_name = "sum", *nodes, *levels, *algorithm, *dump, *machine, *export,
                  *network;
static struct machine_wish wish;
static enum plait_round rounding = PLAIT_ROUND_DEFAULT;
static uint32_t dump_last;

static const struct choice roundings[] = { { "once", PLAIT_ROUND_ONCE }, { "hop", PLAIT_ROUND_HOP }, { 0 } };
static const struct choice rank_parts[] = { { "gpu", PART_GPU },       { "core", PART_CORE },
                                            { "thread", PART_THREAD }, { "package", PART_PACKAGE },
                                            { "numa", PART_NUMA },     { 0 } };
static const struct option options[] = {
    OPTION_TO(FLAG, "features", NULL, &show_features,
              "features of this build, packages for those it lacks, paths of its plug-ins, compiler, commit"),
    OPTION_TO(FLAG, "json", NULL, &show_json, "build, plug-ins, machine and settings as JSON"),
    OPTION_TO(FLAG, "config", NULL, &show_config, "every setting: value, source, meaning"),
    OPTION_TO(FLAG, "topology", NULL, &show_topology,
              "processors, caches, memory, single copy between processes (CMA), GPU, and the tree of the machine"),
    OPTION_TO(TEXT, "export", "FILE", &export,
              "write the machine as JSON, for plait-plan simulate (-: to standard output)"),
    OPTION_TO(FLAG, "algorithms", NULL, &show_algorithms, "every algorithm and its cost at --ranks"),
    OPTION_TO(FLAG, "explain", NULL, &explain,
              "path, algorithm and the reason for COLLECTIVE SIZE; SIZE (64K, 1M): bytes of the vector; of one rank's "
              "block for allgather and others with blocks; of the largest block for v-forms (allgatherv)"),
    OPTION_TO(FLAG, "peers", NULL, &peers,
              "under a launcher: transport, device, latency and bandwidth of the path to each rank, and slow paths"),
    OPTION_TO(FLAG, "nccl", NULL, &show_nccl,
              "functions of NCCL that libnccl.so.2 has, emulates and refuses, and NCCL_ variables that it honours"),
    OPTION_TO(FLAG, "make-secret", NULL, &make_secret,
              "write a secret for communicators over several hosts to ~/.plait-secret, mode 0600"),
    OPTION_TO(TEXT, "dump", "PID", &dump,
              "the communicators of a process and their last operations, even if it hangs or is stopped"),
    OPTION_TO(HELP, "help", NULL, NULL, "show this"),
    OPTION_GROUP("--topology and --export", "--topology --export"),
    OPTION_TO(TEXT, "machine", "NAME", &machine, MACHINE_NAMES " (default this-host)", .also = "from"),
    OPTION_TO(COUNT, "hosts", "N", &wish.hosts, "as many hosts like the one that --machine describes", .least = 1,
              .most = 1 << 20),
    OPTION_TO(COUNT, "hosts-per-rack", "N", &wish.rack, "racks of N hosts each (default: no racks)", .least = 1,
              .most = 1 << 20),
    OPTION_TO(TEXT, "network", "RATE", &network,
              "of each NIC, such as \"400 Gbit/s\" (default: what is found, or 100 Gbit/s)"),
    OPTION_TO(COUNT, "nics", "N", &wish.nics, "NICs of each host (default: those that are found)", .least = 1,
              .most = 1024),
    OPTION_TO(REAL, "oversubscription", "X", &wish.oversubscription,
              "the hosts of a rack have X times the bandwidth of its uplinks (default 1)", .least = 1, .most = 1000),
    OPTION_TO(CHOICE, "rank-per", "PART", &wish.rank,
              "a rank for each gpu, core, thread, numa or package (default: GPUs if there are, else cores)",
              .choices = rank_parts),
    OPTION_GROUP("--explain and --algorithms", "--explain --algorithms"),
    OPTION_TO(COUNT, "ranks", "N", &nrank, "ranks (default: one per processor, at least 2)", .least = 1,
              .most = PLAIT_MAX_RANKS),
    OPTION_TO(TEXT, "nodes", "MAP", &nodes, SHAPE_NODES),
    OPTION_TO(TEXT, "levels", "MAP,MAP...", &levels, SHAPE_LEVELS),
    OPTION_GROUP("--explain", "--explain"),
    OPTION_TO(FLAG, "crossings", NULL, &crossings,
              "instead: each algorithm that is chosen up to SIZE, and from which size on (in powers of two)"),
    OPTION_TO(TEXT, "datatype", "TYPE", &type_name, "element type (default float32)", .letter = 'd'),
    OPTION_TO(TEXT, "op", "OP", &op_name, "sum, prod, min, max, avg or premulsum (default sum)", .letter = 'o'),
    OPTION_TO(COUNT, "root", "N", &root, "of a collective with a root (default 0)", .most = PLAIT_MAX_RANKS - 1),
    OPTION_TO(FLAG, "inplace", NULL, &inplace, "the input is the output"),
    OPTION_TO(TEXT, "algo", "SPEC", &algorithm, "as if the call asked for this algorithm: ring, or allreduce:ring"),
    OPTION_TO(BYTES, "slice", "SIZE", &slice, "as if the call asked for this slice"),
    OPTION_TO(CHOICE, "round", "KIND", &rounding, "as if the call asked for rounding once or hop",
              .choices = roundings),
    OPTION_TO(FLAG, "reproducible", NULL, &reproducible, "as if the call asked for the canonical order"),
    OPTION_GROUP("--dump", "--dump"),
    OPTION_TO(COUNT, "last", "N", &dump_last,
              "collectives and messages of each communicator that --dump shows, at most 1024 (default 16)", .least = 1,
              .most = 1 << 20),
};

static const struct option_table table = {
    "Usage: plait-info [options] [COLLECTIVE SIZE]\n"
    "\n"
    "Shows the features of this build of Plait, its settings, the machine, and the algorithm that it chooses for a\n"
    "call. Without options: a short overview.\n\n"
    "  $ plait-info --config\n"
    "  $ plait-info --algorithms --ranks 16 --nodes 4x4\n"
    "  $ plait-info --explain allreduce 1M --ranks 8 --datatype bfloat16\n"
    "  $ plait-info --explain allreduce 64M --crossings --nodes 16x8\n"
    "  $ plait-info --topology --machine dgx-h100-pod\n"
    "  $ plait-info --export cluster.json --hosts 16 --network \"100 Gbit/s\"\n"
    "  $ plait-info --dump 4711 --last 4\n"
    "  $ mpirun -n 4 plait-info --peers\n\n"
    "--dump lists the last operations of each rank of a process, oldest first: the operation, its state, its\n"
    "progress, its start, and the rank that it waits for or last waited long for. A rank keeps its last 1,024\n"
    "collectives of each communicator. The messages follow that it waits long for: the next one of each pair of ranks\n"
    "and direction. Short operations have no time unless they waited.\n\n"
    "Options:\n",
    NULL, options, sizeof options / sizeof *options, sizeof *options
};

static struct option_given given[sizeof options / sizeof *options];

static const char *flag_of(const char *name)
{
    return option_flag(&table, given, name);
}

/* ---- Build and settings ------------------------------------------------------------------------ */

/* Print all settings, or those not at their default. Returns false when a value is invalid. */
static bool print_config(bool all)
{
    struct plait_setting s;
    char last[1024] = "";
    bool ok = true;

    for (size_t i = 0;; i++) {
        const enum plait_status status = plait_config_get(i, &s);
        if (status == PLAIT_ERR_ARG)
            return ok;
        if (status != PLAIT_OK) {
            if (strcmp(last, plait_last_error()) != 0)
                complain("%s", plait_last_error());
            snprintf(last, sizeof last, "%s", plait_last_error());
            ok = false;
        } else if (all) {
            printf("%-16s = %-10s # %s; %s\n", s.name, s.value, s.origin, s.text);
        } else if (strcmp(s.origin, "default") != 0) {
            printf("setting     %s=%s (%s)\n", s.name, s.value, s.origin);
        }
    }
}

/* ---- Algorithms -------------------------------------------------------------------------------- */

/* The shape that --ranks, --nodes and --levels describe. */
static struct plait_shape make_shape(enum plait_coll coll)
{
    struct plait_shape shape = { .coll = coll, .inplace = inplace };
    struct plait_topology t;

    shape_read(nodes, levels, nrank, flag_of("ranks"), PLAIT_MAX_RANKS, &shape);
    plait_topology_get(&t);
    if (shape.nrank == 0)
        shape.nrank = nrank != 0 ? nrank : t.ncpu > 2 ? t.ncpu : 2;
    return shape;
}

/* The largest buffer of a rank, in blocks. */
static double vector_blocks(const struct plait_shape *shape, const struct plait_claim *c)
{
    const bool pairs = plait_geometry_of(shape->coll, 1, 0, 0, 1).kind == PLAIT_KIND_PAIR;
    return pairs ? shape->nrank : c->nblk != 0 ? (double)c->nblk : 1;
}

static void print_algorithm(const struct plait_alg *a, struct plait_shape *shape, int width)
{
    const struct plait_alg *alg;

    shape->coll = a->coll;
    printf("%s%-*s ", a->name, width - (int)strlen(a->name), a->params);
    if (plait_alg_find(name_algorithms(), a->name, shape, &alg) == PLAIT_OK) {
        const struct plait_claim c = alg->claim(alg, shape);
        const double nblk = vector_blocks(shape, &c);
        char rounds[32];
        snprintf(rounds, sizeof rounds, "%s%" PRIu64, c.rounds_exact ? "" : "~", c.rounds);
        printf("%6" PRIu64 " %8s %8.3f %8.3f", c.depth, rounds, (double)c.sent / nblk, (double)c.received / nblk);
    } else {
        printf("%6s %8s %8s %8s", "-", "-", "-", "-");
    }
    printf("  %s%s  %s [%s]\n", a->canonical ? "c" : "-", a->no_partials ? "s" : "-", a->text, a->source);
}

static void print_algorithms(void)
{
    struct plait_shape shape = make_shape(PLAIT_ALLREDUCE);
    int width = 0;

    for (const struct plait_alg *const *a = name_algorithms(); *a != NULL; a++) {
        const int n = (int)(strlen((*a)->name) + strlen((*a)->params));
        width = n > width ? n : width;
    }
    printf("At %" PRIu32
           " rank%s. depth: messages on the longest path; rounds: one message per rank at a time (~ at most);\n"
           "sent, received: most by any rank, in vectors; c: canonical order; s: no partial sums travel.\n\n",
           shape.nrank, plural(shape.nrank));
    printf("%-*s %6s %8s %8s %8s  %-2s  %s\n", width, "algorithm", "depth", "rounds", "sent", "received", "",
           "what it is");
    for (const struct plait_alg *const *a = name_algorithms(); *a != NULL; a++) {
        if ((*a)->coll != shape.coll) /* those of all-reduce come first */
            printf("\n%s:\n", plait_coll_name((*a)->coll));
        print_algorithm(*a, &shape, width);
    }
}

static void print_candidate(const struct plait_candidate *c, const char *title, const char *timed)
{
    printf("%-12s%-20s", title, c->algorithm);
    if (c->predicted > 0)
        printf(" %s%.1f us for %s", c->estimated ? "about " : "", c->predicted * 1e6, timed);
    if (c->measured > 0)
        printf("%s %.1f us measured", c->predicted > 0 ? "," : "", c->measured * 1e6);
    putchar('\n');
}

/* ---- What would run ---------------------------------------------------------------------------- */

/* Print the sizes from which another algorithm is chosen. */
static int print_crossings(const struct plait_shape *shape, size_t most, enum plait_dtype type, enum plait_op op,
                           const struct plait_call *call)
{
    const size_t element = plait_dtype_size(type);
    struct plait_choice choice, last = { .algorithm = "" };
    char size[UNITS_ROOM];

    for (size_t bytes = element; bytes <= most && bytes >= element; bytes *= 2) {
        if (plait_choose(shape, bytes / element, type, op, call, &choice) != PLAIT_OK) {
            complain("%s", plait_last_error());
            return 1;
        }
        if (strcmp(choice.algorithm, last.algorithm) == 0 && strcmp(choice.path, last.path) == 0)
            continue;
        units_bytes(size, (double)bytes);
        printf("from %-9s %-20s %-7s %s\n", size, choice.algorithm, choice.path, choice.why);
        last = choice;
    }
    return 0;
}

static int print_choice(const char *coll_name, const char *size_text)
{
    static const char *const round_names[] = { "no effect here", "once, at the end", "at every combination" };
    bool vform;
    int named = -1;
    const int coll = name_coll(coll_name, &vform), type = plait_dtype_find(type_name), op = plait_op_find(op_name);
    const char *spec = algorithm != NULL ? name_algorithm(algorithm, &named) : NULL;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_choice choice;
    struct plait_shape shape;
    size_t bytes, element;
    char size[UNITS_ROOM], slice_size[UNITS_ROOM], timed[UNITS_ROOM];

    if (coll < 0 || coll == PLAIT_BARRIER)
        option_misuse("--explain %s: must be a collective with data, such as allreduce or allgatherv", coll_name);
    if (named >= 0 && named != coll)
        option_misuse("%s %s: must be an algorithm of %s, as --explain %s says", flag_of("algo"), algorithm,
                      plait_coll_name((enum plait_coll)coll), coll_name);
    if (type < 0)
        option_misuse("%s %s: must be an element type, such as float32 or bfloat16", flag_of("datatype"), type_name);
    if (op < 0 || op == PLAIT_USER)
        option_misuse("%s %s: must be sum, prod, min, max, avg or premulsum", flag_of("op"), op_name);
    if (!plait_parse_bytes(size_text, &bytes))
        option_misuse("size %s: must be a number of bytes such as 65536, 64K or 1M", size_text);
    element = plait_dtype_size((enum plait_dtype)type);
    if (bytes % element != 0)
        option_misuse("size %zu: not a whole number of %s (%zu bytes each)", bytes, type_name, element);
    shape = make_shape((enum plait_coll)coll);
    shape.vform = vform;
    shape.root = root;
    call.algorithm = spec;
    call.slice = slice;
    call.round = rounding;
    call.reproducible = reproducible;
    call.scale = op == PLAIT_PREMULSUM ? &bytes : NULL; /* not read */
    if (crossings)
        return print_crossings(&shape, bytes, (enum plait_dtype)type, (enum plait_op)op, &call);
    if (plait_choose(&shape, bytes / element, (enum plait_dtype)type, (enum plait_op)op, &call, &choice) != PLAIT_OK) {
        complain("%s", plait_last_error());
        return 1;
    }
    units_bytes(size, (double)bytes);
    units_bytes(timed, (double)choice.timed);
    units_bytes(slice_size, (double)(choice.slice < bytes ? choice.slice : bytes));
    const struct plait_geometry geometry = plait_geometry_of((enum plait_coll)coll, 1, 0, 0, 1);
    const bool part = !vform && geometry.kind != PLAIT_KIND_VECTOR, combines = geometry.combines;
    printf("%s%s of %s%zu %s (%s)%s%s%s, %" PRIu32 " rank%s%s\n", plait_coll_name((enum plait_coll)coll),
           vform ? "v" : "", vform ? "at most " : "", bytes / element, plait_dtype_name((enum plait_dtype)type), size,
           part ? " of one rank" : "", combines ? ", " : "", combines ? plait_op_name((enum plait_op)op) : "",
           shape.nrank, plural(shape.nrank), inplace ? ", in place" : "");
    printf("algorithm   %s\n", choice.algorithm);
    printf("why         %s\n", choice.why);
    for (uint32_t i = 0; i < choice.ncandidate; i++)
        print_candidate(&choice.candidate[i], i == 0 ? "candidates" : i == 1 ? "runner-up" : "", timed);
    printf("path        %s\n", choice.path);
    printf("slices      %" PRIu64 " of %s\n", choice.nslice, slice_size);
    printf("rounding    %s\n", round_names[choice.round]);
    printf("plan hash   %016" PRIx64 "\n", choice.plan_hash);
    return 0;
}

/* ---- main -------------------------------------------------------------------------------------- */

static bool overview(void)
{
    unsigned n = 0;
    bool ok;

    while (name_algorithms()[n] != NULL)
        n++;
    printf("Plait %s    ", plait_version());
    build_print_brief();
    machine_print();
    printf("algorithms  %u (--algorithms)\n", n);
    ok = print_config(false);
    printf("\nTry: plait-info --explain allreduce 1M    plait-info --config    plait-info --help\n");
    return ok;
}

static bool has_word(const char *word)
{
    return machine != NULL && strstr(machine, word) != NULL;
}

/* The machine of --topology and --export. */
static bool show_machine(void)
{
    const char *name = machine != NULL ? machine : "this-host";
    const bool here = machine == NULL && wish.hosts == 0;
    double rate = 0;
    bool ok = true;

    if (network != NULL && (!plait_quantity_parse(PLAIT_RATE, network, &rate) || rate < 1))
        option_misuse("--network %s: must be %s", network, plait_quantity_form(PLAIT_RATE));
    wish.network = (uint64_t)rate;
    if (wish.oversubscription > 1 && wish.rack == 0 && !has_word("rack:"))
        option_misuse("--oversubscription needs --hosts-per-rack");
    if ((wish.rack > 0 || wish.nics > 0 || network != NULL) && wish.hosts == 0 && !has_word("host:"))
        option_misuse("--hosts-per-rack, --network and --nics need --hosts");
    if (show_topology && here)
        machine_print();
    if (show_topology && (!here || PLAIT_HAVE_HWLOC)) {
        fputs(here ? "\n" : "", stdout);
        ok = topology_print(name, &wish);
    }
    return ok && (export == NULL || topology_export(name, &wish, export));
}

static void check_dump(void)
{
    if (dump_last > 1024)
        option_misuse("--last %" PRIu32 ": must be at most 1024, as a rank keeps no more", dump_last);
    if (dump != NULL && (strspn(dump, "0123456789") != strlen(dump) || strlen(dump) - 1 >= 10))
        option_misuse("--dump %s: must be a process ID", dump);
}

/* Write a file that libplait reads (lib/bootstrap/id.c) and print its name; the secret itself is not printed. */
static bool print_new_secret(void)
{
    const char *home = getenv("HOME");
    unsigned char random[32];
    char path[512], text[2 * sizeof random + 2];

    if (home == NULL || home[0] == '\0' || (size_t)snprintf(path, sizeof path, "%s/.plait-secret", home) >= sizeof path)
        return complain("HOME is not set, or too long: there is no directory for .plait-secret");
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return complain("no random bytes for a secret: %s", strerror(errno));
    for (unsigned i = 0; i < sizeof random; i++)
        sprintf(text + 2 * i, "%02x", random[i]);
    strcat(text, "\n");
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST)
        return complain("%s is there already; remove it first to make a new secret", path);
    const bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (!written)
        complain("%s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    if (fd >= 0 && !written)
        unlink(path);
    if (written)
        printf("%s: a new secret; copy it to hosts that do not share this home directory\n", path);
    return written;
}

static int command(int argc, char **argv)
{
    bool ok = true;
    int nrest;

    if (!option_parse(&table, NULL, given, argc, argv, &nrest))
        return 2;
    if (explain && nrest != 2)
        option_misuse("--explain needs a collective and a size, e.g. --explain allreduce 1M");
    if (!explain && nrest > 0)
        option_misuse("unexpected argument '%s'; see --help", argv[1]);
    option_effects(&table, given, NULL);
    if (show_json && (show_features || show_config || show_topology || make_secret || show_algorithms || show_nccl ||
                      peers || explain || dump != NULL || export != NULL))
        option_misuse("--json shows build, plug-ins, machine and settings; give it alone");
    check_dump();
    if (argc == 1)
        return overview() ? 0 : 1;
    if (show_features)
        build_print();
    if (show_json)
        ok = info_print_json() && ok;
    if (show_config)
        ok = print_config(true) && ok;
    if (show_topology || export != NULL)
        ok = show_machine() && ok;
    if (make_secret)
        ok = print_new_secret() && ok;
    if (show_algorithms)
        print_algorithms();
    if (show_nccl)
        print_nccl();
    if (peers)
        ok = peers_print() && ok;
    if (explain)
        ok = print_choice(argv[1], argv[2]) == 0 && ok;
    if (dump != NULL)
        ok = dump_process(dump, dump_last != 0 ? dump_last : 16) && ok;
    return ok ? 0 : 1;
}

int main(int argc, char **argv)
{
    program_begin("plait-info");
    return program_end(command(argc, argv));
}
