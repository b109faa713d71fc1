/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-plan: lists algorithms, shows the plans they emit, and proves them. */
#include "base/ascii.h"
#include "base/clock.h"
#include "draw.h"
#include "export.h"
#include "file.h"
#include "machine_load.h"
#include "message.h"
#include "names.h"
#include "option.h"
#include "program.h"
#include "shape.h"
#include "simulate.h"

#include <plait/plan.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RANKS    16384
#define MAX_ELEMENTS ((size_t)1 << 47)

static bool inplace;
static struct simulate_options predicted;
static size_t bytes = 4 << 20;
static uint32_t one_rank;
static const char *plans, *ranks, *rank, *nodes, *levels, *root = "0", *coll_name = "allreduce", *algorithm, *machine,
                                                          *output, *picture;
static enum export_format format = EXPORT_GOAL;

static const struct choice formats[] = { { "goal", EXPORT_GOAL }, { "chakra", EXPORT_CHAKRA }, { 0 } };
static const struct option options[] = {
    OPTION_TO(TEXT, "ranks", "N|A-B", &ranks, "rank count, for check also a range (default: that of --nodes, or 8)"),
    OPTION_TO(TEXT, "levels", "MAP,MAP...", &levels, SHAPE_LEVELS),
    OPTION_TO(TEXT, "nodes", "MAP", &nodes, SHAPE_NODES),
    OPTION_TO(FLAG, "inplace", NULL, &inplace, "the input is the output (check: only that; default: both)"),
    OPTION_TO(TEXT, "coll", "NAME", &coll_name,
              "collective or its v-form (default allreduce); all: every one, for list and check"),
    OPTION_TO(TEXT, "root", "R", &root, "root of a rooted collective (default 0); all: every rank, for check",
              .letter = 'r'),
    OPTION_TO(TEXT, "algo", "SPEC", &algorithm, "the same as the argument SPEC"),
    OPTION_TO(TEXT, "plans", "FILE", &plans, "a plan file (docs/plans.md), as PLAIT_PLANS"),
    OPTION_TO(HELP, "help", NULL, NULL, "show this"),
    OPTION_GROUP("show", "show"),
    OPTION_TO(TEXT, "rank", "R", &rank, "only this rank's plan"),
    OPTION_GROUP("simulate, export and draw", "simulate export draw"),
    OPTION_TO(TEXT, "machine", "NAME|FILE", &machine, MACHINE_NAMES " (docs/predict.md)"),
    OPTION_TO(BYTES, "bytes", "SIZE", &bytes, "of the vector, or of a block (default 4M)", .letter = 'b'),
    OPTION_GROUP("simulate", "simulate"),
    OPTION_TO(TEXT, "sweep", "A-B", &predicted.sweep, "sizes, 1K-64M by fours: the fastest, and the crossings"),
    OPTION_TO(TEXT, "scale", "A-B|LIST", &predicted.scale, "numbers of ranks, 8-1024 by twos: a curve"),
    OPTION_TO(TEXT, "step", "MODEL", &predicted.step,
              "a training step of alexnet, gpt2, resnet50, vgg16, a CSV file, or a trace of plait-train or plait-perf "
              "fusion: layouts, the best first"),
    OPTION_TO(TEXT, "what-if", "CHANGES", &predicted.what_if,
              "beside it a changed machine: rack.uplink=/4, 'rank 5=/2', 'host 3=/2'; commas"),
    OPTION_TO(TEXT, "placement", "round-robin|FILE", &predicted.placement, "beside it other places of the ranks"),
    OPTION_TO(TEXT, "trace", "FILE", &predicted.trace,
              "write SPEC's events, or the fastest algorithm's; of a step its best layout's; for ui.perfetto.dev"),
    OPTION_TO(TEXT, "report", "FILE", &predicted.report, "write one HTML page, too: pictures, table, what to try"),
    OPTION_TO(FLAG, "json", NULL, &predicted.json, "print JSON"),
    OPTION_GROUP("--step", "--step"),
    OPTION_TO(TEXT, "layouts", "LIST", &predicted.layouts, "per-tensor, threshold:4M, ddp, computed ..."),
    OPTION_TO(TEXT, "payload", "TYPE", &predicted.payload,
              "gradients travel in this type: float32, float16, bfloat16 (a trace's own, else float32)"),
    OPTION_TO(COUNT, "batch", "N", &predicted.batch, "samples of each rank (default 64)", .least = 1, .most = 1 << 20),
    OPTION_TO(REAL, "teraflops", "R", &predicted.teraflops, "10^12 FLOPs per second that a rank reaches (default 10)",
              .least = 1e-6, .most = 1e6),
    OPTION_TO(REAL, "samples", "R", &predicted.samples, "instead, samples per second of one rank alone", .least = 1e-6,
              .most = 1e9),
    OPTION_GROUP("export", "export"),
    OPTION_TO(CHOICE, "format", "KIND", &format, "goal (text) or chakra (a trace for each rank) (default goal)",
              .choices = formats),
    OPTION_TO(TEXT, "output", "PREFIX", &output, "rank R's trace is PREFIX.R.et"),
    OPTION_GROUP("draw", "draw"),
    OPTION_TO(TEXT, "picture", "NAME", &picture,
              "messages (the default: ranks against time), graph (over the machine), or links (their use over time)"),
};

static const struct option_table table = {
    "Usage: plait-plan list | show SPEC | check [SPEC|all] | simulate [SPEC] --machine NAME|FILE |\n"
    "                  export SPEC | draw SPEC --machine NAME|FILE [options]\n"
    "\n"
    "A plan is the steps of one rank in a collective, as data.\n"
    "\n"
    "  list    every algorithm: parameters, description, source, and cost at --ranks\n"
    "  show    the plans as text, one line per step\n"
    "  check   prove them: no deadlock, no data race, each contribution once on every rank, the same bits,\n"
    "          and the cost as claimed. Exit status 1 when one fails.\n"
    "  simulate\n"
    "          predict their times on a machine that need not exist, the fastest first, and where the time goes\n"
    "  export  all ranks' plans for other simulators: GOAL (LogGOPSim, ATLAHS) or Chakra traces (ASTRA-sim)\n"
    "  draw    a picture of one algorithm on a machine, as SVG on standard output\n"
    "\n"
    "  $ plait-plan list --ranks 1024\n"
    "  $ plait-plan show torus:2x4 --ranks 8 --rank 3\n"
    "  $ plait-plan check all --ranks 1-64\n"
    "  $ plait-plan check all --coll all --root all --ranks 1-16\n"
    "  $ plait-plan show gather:binomial --root 2 --ranks 5\n"
    "  $ plait-plan check hierarchy:jia:ring --nodes 64x16\n"
    "  $ plait-plan simulate --machine dgx-h100-pod --bytes 64M\n"
    "  $ plait-plan draw ring --machine dgx-h100-pod --ranks 16 >ring.svg\n"
    "\nOptions:\n",
    NULL, options, sizeof options / sizeof *options, sizeof *options
};

static struct option_given given[sizeof options / sizeof *options];

static const char *flag_of(const char *name)
{
    return option_flag(&table, given, name);
}

/* ---- Arguments --------------------------------------------------------------------------------- */

static struct plait_shape mapped; /* of --nodes and --levels */
static uint32_t usual_ranks = 8;

/* The collectives from *first up to, but not including, *end. */
static void read_colls(bool all, unsigned *first, unsigned *end)
{
    char names[256] = "";

    *first = 0;
    *end = PLAIT_NCOLL;
    if (all && strcmp(coll_name, "all") == 0)
        return;
    if (plait_coll_find(coll_name) >= 0) { /* a v-form has the plans of its collective */
        *first = (unsigned)plait_coll_find(coll_name);
        *end = *first + 1;
        return;
    }
    for (unsigned c = 0; c < PLAIT_NCOLL; c++)
        list_add(names, sizeof names, plait_coll_name((enum plait_coll)c));
    option_misuse("%s %s: must be %s%s", flag_of("coll"), coll_name, all ? "all, or " : "one of ", names);
}

static bool is_rooted(unsigned coll)
{
    return plait_geometry_of((enum plait_coll)coll, 1, 0, 0, 1).rooted;
}

/* The roots from *first up to, but not including, *end. */
static void read_roots(unsigned coll, uint32_t nrank, bool all, uint32_t *first, uint32_t *end)
{
    const char *rest = "";

    *first = 0;
    *end = is_rooted(coll) ? nrank : 1;
    if (*end == 1 || (all && strcmp(root, "all") == 0))
        return;
    if (!number_begins(root, 0, nrank - 1, &rest, first) || *rest != '\0')
        option_misuse("%s %s: must be a rank from 0 to %" PRIu32 "%s", flag_of("root"), root, nrank - 1,
                      all ? ", or all" : "");
    *end = *first + 1;
}

static void read_ranks(bool range, uint32_t *first, uint32_t *last)
{
    const char *end = "";

    *first = 0;
    bool ok = ranks == NULL || number_begins(ranks, 1, MAX_RANKS, &end, first);
    *last = *first;
    if (ok && *end == '-' && range)
        ok = number_begins(end + 1, *first, MAX_RANKS, &end, last);
    if (!ok || *end != '\0')
        option_misuse("%s %s: must be a number from 1 to %d%s", flag_of("ranks"), ranks, MAX_RANKS,
                      range ? ", or a range such as 1-64" : "");
    shape_read(nodes, levels, *first, flag_of("ranks"), MAX_RANKS, &mapped);
    if (mapped.nrank > 0 && *last > *first)
        option_misuse("%s %s: must be one number with --nodes or --levels", flag_of("ranks"), ranks);
    if (ranks == NULL)
        *first = *last = mapped.nrank > 0 ? mapped.nrank : usual_ranks;
}

static struct plait_shape shape_of(unsigned coll, uint32_t nrank, uint32_t at)
{
    struct plait_shape s = mapped;

    s.coll = (enum plait_coll)coll;
    s.nrank = nrank;
    s.root = at;
    s.inplace = inplace;
    return s;
}

_Noreturn static void refuse_spec(const struct plait_shape *s)
{
    const char *e = plait_last_error();
    const bool may = strstr(e, "does not fit") != NULL && strstr(e, "its plans are for") == NULL;
    option_misuse("%s%s", e, may && s->node == NULL && s->nlevel == 0 ? " (of one node; --nodes gives more)" : "");
}

/* ---- Commands ---------------------------------------------------------------------------------- */

static void list_coll(unsigned coll, uint32_t nrank)
{
    uint32_t at, end;

    read_roots(coll, nrank, false, &at, &end);
    for (const struct plait_alg *const *a = name_algorithms(); *a != NULL; a++) {
        struct plait_shape s = shape_of(coll, nrank, at);
        const struct plait_alg *alg;

        if ((*a)->coll != s.coll)
            continue;
        printf("%s%s\n    %s\n    source: %s\n", (*a)->name, (*a)->params, (*a)->text, (*a)->source);
        if ((*a)->canonical || (*a)->no_partials)
            printf("    %s%s%s\n", (*a)->canonical ? "canonical order" : "",
                   (*a)->canonical && (*a)->no_partials ? "; " : "", (*a)->no_partials ? "no partial sums travel" : "");
        if (plait_alg_find(name_algorithms(), (*a)->name, &s, &alg) != PLAIT_OK) {
            printf("    does not apply to %" PRIu32 " rank%s%s\n\n", nrank, plural(nrank),
                   nodes == NULL ? " of one node (try --nodes)" : "");
            continue;
        }
        const struct plait_claim c = alg->claim(alg, &s);
        printf("    %" PRIu32 " rank%s: depth %" PRIu64 ", rounds %s%" PRIu64 ", sends %" PRIu64
               " and receives %" PRIu64 " of %" PRIu64 " block%s\n\n",
               nrank, plural(nrank), c.depth, c.rounds_exact ? "" : "at most ", c.rounds, c.sent, c.received, c.nblk,
               plural(c.nblk));
    }
}

static void list(void)
{
    uint32_t nrank, last;
    unsigned coll, end;

    read_ranks(false, &nrank, &last);
    read_colls(true, &coll, &end);
    for (const bool title = end - coll > 1; coll < end; coll++) {
        if (title && coll != PLAIT_BARRIER) /* a barrier runs as an all-reduce of nothing */
            printf("==== %s ====\n\n", plait_coll_name((enum plait_coll)coll));
        list_coll(coll, nrank);
    }
}

static int show(const char *spec)
{
    const struct plait_alg *alg;
    const char *end = "";
    uint32_t nrank, last, at;
    unsigned coll, colls;

    read_ranks(false, &nrank, &last);
    read_colls(false, &coll, &colls);
    read_roots(coll, nrank, false, &at, &last);
    struct plait_shape s = shape_of(coll, nrank, at);
    if (rank != NULL && (!number_begins(rank, 0, nrank - 1, &end, &one_rank) || *end != '\0'))
        option_misuse("--rank %s: must be a rank from 0 to %" PRIu32, rank, nrank - 1);
    if (plait_alg_find(name_algorithms(), spec, &s, &alg) != PLAIT_OK)
        refuse_spec(&s);
    for (uint32_t r = 0; r < nrank; r++) {
        struct plait_plan *plan;
        char *text = NULL;
        if (rank != NULL && r != one_rank)
            continue;
        if (plait_plan_emit(alg, &s, r, &plan) != PLAIT_OK || plait_plan_print(plan, &text) != PLAIT_OK) {
            complain("%s", plait_last_error());
            return 1;
        }
        fputs(text, stdout);
        free(text);
        plait_plan_destroy(plan);
    }
    return 0;
}

struct tally {
    uint32_t passed, failed;
};

static void check_one(const struct plait_alg *alg, const char *spec, const struct plait_shape *s, struct tally *t)
{
    struct plait_report r;
    const double start = plait_clock();
    const bool ok = plait_alg_check(alg, s, &r) == PLAIT_OK;
    char where[64] = "", name[PLAIT_MAX_SPEC + 24];

    if (is_rooted(s->coll))
        snprintf(where, sizeof where, " root %" PRIu32, s->root);
    snprintf(name, sizeof name, "%s%s%.*s", s->coll == PLAIT_ALLREDUCE ? "" : plait_coll_name(s->coll),
             s->coll == PLAIT_ALLREDUCE ? "" : ":", PLAIT_MAX_SPEC, spec);
    if (ok) {
        t->passed++;
        printf("ok    %-28s %5" PRIu32 " rank%-1s%s%s: depth %" PRIu64 ", rounds %" PRIu64 ", sends %" PRIu64
               " and receives %" PRIu64 " of %" PRIu64 " block%s%s%s%s; %.2f s\n",
               name, s->nrank, plural(s->nrank), where, s->inplace ? " in place" : "", r.seen.depth, r.seen.rounds,
               r.seen.sent, r.seen.received, r.seen.nblk, plural(r.seen.nblk), r.canonical ? ", canonical" : "",
               r.no_partials ? ", no partial sums" : "", r.probabilistic ? ", probabilistic" : "",
               plait_clock() - start);
    } else {
        t->failed++;
        printf("FAIL  %-28s %5" PRIu32 " rank%-1s%s%s: %s\n", name, s->nrank, plural(s->nrank), where,
               s->inplace ? " in place" : "", r.text[0] != '\0' ? r.text : plait_last_error());
    }
    fflush(stdout);
}

/* One spec on one shape, out of place and in place. all: skip what does not fit. */
static void check_spec(const char *spec, struct plait_shape s, bool all, struct tally *t)
{
    const bool pairs = plait_geometry_of(s.coll, 1, 0, 0, 1).kind == PLAIT_KIND_PAIR;

    for (int twice = 0; twice < 2; twice++) {
        const struct plait_alg *alg;
        if (twice == 0 ? inplace : pairs && !inplace)
            continue; /* this form is not asked for, or does not exist */
        s.inplace = twice;
        if (plait_alg_find(name_algorithms(), spec, &s, &alg) == PLAIT_OK)
            check_one(alg, spec, &s, t);
        else if (!all)
            refuse_spec(&s);
    }
}

/* One spec, or all of a collective, at one rank count and all roots. */
static void check_coll(const char *spec, unsigned coll, uint32_t nrank, struct tally *t)
{
    const bool all = strcmp(spec, "all") == 0;
    uint32_t at, end;

    read_roots(coll, nrank, true, &at, &end);
    for (; at < end; at++) {
        if (!all)
            check_spec(spec, shape_of(coll, nrank, at), false, t);
        for (const struct plait_alg *const *a = name_algorithms(); all && *a != NULL; a++)
            if ((*a)->coll == (enum plait_coll)coll)
                check_spec((*a)->name, shape_of(coll, nrank, at), true, t);
    }
}

static int check(const char *spec)
{
    const double start = plait_clock();
    struct tally t = { 0 };
    uint32_t first, last;
    unsigned coll, end;

    read_ranks(true, &first, &last);
    read_colls(strcmp(spec, "all") == 0, &coll, &end);
    for (uint32_t n = first; n <= last; n++)
        for (unsigned c = coll; c < end; c++)
            check_coll(spec, c, n, &t);
    printf("%" PRIu32 " passed, %" PRIu32 " failed, in %.1f s\n", t.passed, t.failed, plait_clock() - start);
    return t.failed > 0 || t.passed == 0;
}

/* --bytes in float32 elements. */
static size_t read_count(void)
{
    if (bytes % sizeof(float) != 0)
        option_misuse("%s %zu: must be a whole number of float32 elements, of %zu bytes each", flag_of("bytes"), bytes,
                      sizeof(float));
    if (bytes / sizeof(float) > MAX_ELEMENTS)
        option_misuse("%s %zu: must be at most 2^47 elements of %zu bytes each", flag_of("bytes"), bytes,
                      sizeof(float));
    return bytes / sizeof(float);
}

/* The commands simulate, export and draw. */
static int predict(const char *name, const char *spec)
{
    const bool exports = strcmp(name, "export") == 0, simulates = strcmp(name, "simulate") == 0;
    struct plait_machine m;
    uint32_t nrank, last, at;
    unsigned coll, colls;

    if (machine == NULL && !exports)
        option_misuse("%s needs --machine: a file, or a name such as dgx-h100-pod or this-host", name);
    if (spec == NULL && !simulates)
        option_misuse("%s needs a spec such as ring or torus:2x4 (plait-plan list shows all)", name);
    if (!exports && (nodes != NULL || levels != NULL))
        option_misuse("%s %s: --machine says where ranks lie; leave it out (--placement places them otherwise)",
                      flag_of(nodes != NULL ? "nodes" : "levels"), nodes != NULL ? nodes : levels);
    if (exports && (format == EXPORT_CHAKRA) != (output != NULL))
        option_misuse(output == NULL ? "export --format chakra needs --output PREFIX: a file for each rank, PREFIX.R.et"
                                     : "export prints GOAL; --output is for --format chakra");
    if ((predicted.report != NULL && !file_possible("--report", predicted.report)) ||
        (predicted.trace != NULL && !file_possible("--trace", predicted.trace)))
        return 2;
    if (machine != NULL && !machine_load(machine, &m))
        return 2;
    read_colls(false, &coll, &colls);
    if (ranks == NULL && nodes == NULL && levels == NULL && machine != NULL)
        nrank = (uint32_t)plait_machine_ranks(&m);
    else
        read_ranks(false, &nrank, &last);
    read_roots(coll, nrank, false, &at, &last);
    if (coll == PLAIT_BARRIER)
        option_misuse("%s %s: it runs as an all-reduce of nothing; give %s allreduce --bytes 0", flag_of("coll"),
                      coll_name, flag_of("coll"));
    struct plait_shape s = shape_of(coll, nrank, at);
    const char *other = predicted.sweep != NULL ? "sweep" : predicted.step != NULL ? "step" : NULL;
    if (simulates && other != NULL && given[option_of(&table, "bytes")].yes)
        option_misuse("%s %zu: %s has the sizes; leave one of them out", flag_of("bytes"), bytes, flag_of(other));
    const size_t count = read_count();
    struct drawing d = { .machine = &m, .shape = &s, .spec = spec, .count = count };
    if (exports)
        return export_plans(format, output, machine != NULL ? &m : NULL, &s, spec, count);
    return simulates ? simulate(&m, &s, spec, count, &predicted) : draw(&d, picture != NULL ? picture : "messages");
}

/* SPEC is "bruck", or "allgather:bruck" as in PLAIT_ALGO. */
static const char *take_coll(const char *spec)
{
    int coll = -1;

    if (spec != NULL)
        spec = name_algorithm(spec, &coll);
    if (coll >= 0)
        coll_name = plait_coll_name((enum plait_coll)coll);
    return spec;
}

/* Has a plan file an algorithm of this name, but not for the usual number of ranks? Then for the least that it has. */
static void find_usual_ranks(const char *spec)
{
    const int coll = plait_coll_find(coll_name);

    for (const struct plait_alg *const *a = name_algorithms(); spec != NULL && *a != plait_algs[0]; a++) {
        struct plait_shape s = { .nrank = usual_ranks, .root = (uint32_t)strtoul(root, NULL, 10) };
        if ((int)(*a)->coll != coll || !plait_same_name((*a)->name, spec))
            continue;
        for (uint32_t n = 1; n <= MAX_RANKS && !(*a)->applies(*a, &s); n++)
            s.nrank = n;
        usual_ranks = (*a)->applies(*a, &s) ? s.nrank : usual_ranks;
        return;
    }
}

static int command(int argc, char **argv)
{
    int nrest;

    if (!option_parse(&table, NULL, given, argc, argv, &nrest))
        return 2;
    if (plans != NULL && setenv("PLAIT_PLANS", plans, 1) != 0)
        option_misuse("%s %s: out of memory", flag_of("plans"), plans);
    const char *name = nrest > 0 ? argv[1] : "", *spec = take_coll(nrest > 1 ? argv[2] : algorithm);
    if (algorithm != NULL && (nrest > 1 || strcmp(name, "list") == 0))
        option_misuse("%s %s: %s; leave it out", flag_of("algo"), algorithm,
                      nrest > 1 ? "SPEC is given, too" : "list shows all");
    option_effects(&table, given, name);
    find_usual_ranks(spec);
    if (nrest > 2 || (nrest > 1 && strcmp(name, "list") == 0))
        option_misuse("unexpected argument '%s'; see --help", argv[nrest]);
    if (strcmp(name, "list") == 0) {
        list();
        return 0;
    }
    if (strcmp(name, "check") == 0)
        return check(spec != NULL ? spec : "all");
    if (strcmp(name, "simulate") == 0 || strcmp(name, "export") == 0 || strcmp(name, "draw") == 0)
        return predict(name, spec);
    if (strcmp(name, "show") != 0)
        option_misuse(nrest == 0 ? "needs list, show, check, simulate, export or draw; see --help"
                                 : "there is no command '%s'; it must be list, show, check, simulate, export or draw",
                      name);
    if (spec == NULL)
        option_misuse("show needs a spec such as ring or torus:2x4 (plait-plan list shows all)");
    return show(spec);
}

int main(int argc, char **argv)
{
    program_begin("plait-plan");
    return program_end(command(argc, argv));
}
