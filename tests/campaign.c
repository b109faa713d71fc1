/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * campaign [--from SEED] [--count N] [--jobs N] [--kind FAULT] [--blind] [--hosts PLAIT-HOSTS]
 * campaign --seed SEED [--hosts PLAIT-HOSTS]
 *
 * Runs injections (campaign.h), several at a time, and prints a table. One that fails is run once more, alone, with
 * ten times the deadline (--seed: the deadline that was drawn) and its whole story. What was only a matter of time (an
 * error that came late, a deadline that passed without a fault) is forgiven and counted when it is right then, as the
 * machine may have been too busy; but not if that is so of many. Without --count, 40 injections, and 1,000 when PLAIT_TEST_TIER is full.
 * --hosts PLAIT-HOSTS: the ranks live on 2 to 4 virtual hosts that this program makes; root only. The seeds are others.
 * --blind: the library detects nothing, and every injection that needs detection must be reported.
 */
#include "campaign.h"
#include "child.h"
#include "tier.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT         15.0 /* seconds after the fault (and the deadline) until a rank is said to hang */
#define LIMIT_BLIND   1.2
#define SHORT         40 /* injections; of the long tier when PLAIT_TEST_TIER is full: */
#define LONG          1000
#define BLIND         32 /* with --blind; half of it in the short tier */
#define MOST_JOBS     64
#define MORE_PATIENCE 10 /* times the deadline, when an injection that failed is run alone */

/* Of n injections so many may be late; a machine with twice its work was seen to need 2 in 1,200, a very busy one 3 in 40. */
#define MOST_FORGIVEN(n) (2 + (n) / 5)

struct options {
    uint64_t from, count;
    unsigned jobs;
    int kind; /* -1: all */
    bool alone, blind;
    const char *hosts; /* NULL: this machine */
};

struct board { /* shared by the workers */
    _Atomic uint64_t next, done, failed;
    _Atomic int big; /* an injection that needs much memory runs */
    struct outcome outcomes[];
};

/* ---- Options ----------------------------------------------------------------------------------------- */

static int find_kind(const char *name)
{
    for (int k = 0; k < NFAULT; k++)
        if (strcmp(fault_kinds[k].name, name) == 0)
            return k;
    return -1;
}

static bool set_option(struct options *o, const char *name, const char *value)
{
    char *end = NULL;
    const unsigned long long number = strtoull(value, &end, 10);

    if (strcmp(name, "--hosts") == 0)
        return (o->hosts = value) != NULL;
    if (strcmp(name, "--kind") == 0)
        return (o->kind = find_kind(value)) >= 0;
    if (*value == '\0' || *end != '\0')
        return false;
    if (strcmp(name, "--seed") == 0) {
        o->from = number;
        o->alone = true;
    } else if (strcmp(name, "--from") == 0) {
        o->from = number;
    } else if (strcmp(name, "--count") == 0 && number > 0) {
        o->count = number;
    } else if (strcmp(name, "--jobs") == 0 && number >= 1 && number <= MOST_JOBS) {
        o->jobs = (unsigned)number;
    } else {
        return false;
    }
    return true;
}

static void usage(void)
{
    fprintf(stderr,
            "usage: campaign [--from SEED] [--count N] [--jobs N] [--kind FAULT] [--blind] [--hosts PLAIT-HOSTS]\n"
            "       campaign --seed SEED [--hosts PLAIT-HOSTS]\nfaults:");
    for (int k = 0; k < NFAULT; k++)
        fprintf(stderr, " %s", fault_kinds[k].name);
    fprintf(stderr, "\n");
    exit(2);
}

static struct options read_options(int argc, char **argv)
{
    struct options o = { .from = 1, .count = SHORT, .jobs = 4, .kind = -1 };

    if (full())
        o.count = LONG;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--blind") == 0) {
            o.blind = true;
            o.count = full() ? BLIND : BLIND / 2;
        } else if (i + 1 >= argc || !set_option(&o, argv[i], argv[i + 1])) {
            usage();
        } else {
            i++;
        }
    }
    if (o.alone)
        o.count = o.jobs = 1;
    return o;
}

/* ---- Running ----------------------------------------------------------------------------------------- */

static double limit_of(const struct options *o, const struct injection *j)
{
    const double silence = patience(j) > j->deadline ? patience(j) : j->deadline;

    if (o->blind)
        return LIMIT_BLIND + (j->fault == FAULT_ABSENT ? j->timeout : 0);
    return LIMIT + silence + 2 * cut_off(j);
}

/* Only one of these runs at a time: all ranks' vectors may take gigabytes. */
static bool is_big(const struct injection *j)
{
    return j->nrank * (step_bytes(j, STEP_STRUCK) + step_bytes(j, STEP_OTHER)) > ((size_t)64 << 20);
}

static void work(const struct options *o, struct board *board, const uint64_t *seeds)
{
    struct place place;
    struct injection j;

    place_open(o->hosts, &place);
    for (uint64_t i; (i = board->next++) < o->count;) {
        injection_draw(seeds[i], o->hosts != NULL, &j);
        const bool big = is_big(&j);
        while (big && atomic_exchange(&board->big, 1))
            usleep(1000);
        injection_run(&j, &place, limit_of(o, &j));
        if (big)
            board->big = 0;
        injection_judge(&j, place.s, &board->outcomes[i]);
        board->failed += outcome_failed(&board->outcomes[i]);
        board->done++;
    }
    place_close(&place);
}

/* The seeds from `from` on, of the wanted kind. */
static uint64_t *choose_seeds(const struct options *o)
{
    uint64_t *seeds = malloc((o->count + 1) * sizeof *seeds);
    struct injection j;

    for (uint64_t n = 0, seed = o->from; seeds != NULL && n < o->count; seed++) {
        injection_draw(seed, o->hosts != NULL, &j);
        if (o->alone || o->kind < 0 || j.fault == (enum fault)o->kind)
            seeds[n++] = seed;
    }
    return seeds;
}

static void show_progress(const struct options *o, const struct board *board)
{
    printf("%llu of %llu injections, %llu %s\n", (unsigned long long)board->done, (unsigned long long)o->count,
           (unsigned long long)board->failed, o->blind ? "seen" : "failed");
    fflush(stdout);
}

static void run_all(const struct options *o, struct board *board, const uint64_t *seeds)
{
    unsigned left = 0;

    for (uint64_t i = 0; i < o->count; i++)
        board->outcomes[i].seed = seeds[i];
    fflush(NULL);
    for (unsigned k = 0; k < o->jobs; k++) {
        const pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            work(o, board, seeds);
            _exit(0);
        }
        left += pid > 0;
    }
    for (unsigned ticks = 0; left > 0; ticks++) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            left--;
        if (ticks % 500 == 499)
            show_progress(o, board);
        usleep(10000);
    }
}

static void tell_story(const struct injection *j, const struct scene *s, const struct outcome *out)
{
    const char *last = NULL;
    char text[512];

    injection_print(j, text, sizeof text);
    printf("%s\n", text);
    for (uint32_t r = 0; r < j->nrank; r++) {
        const struct report *p = &s->reports[r];
        const double from = p->entered > s->fault ? p->entered : s->fault;
        const bool same = last != NULL && strcmp(p->text, last) == 0;
        if (p->status == PLAIT_OK)
            continue;
        printf("  rank %u, call #%llu, after %.3f s: %s: %s\n", r, (unsigned long long)p->number, p->returned - from,
               plait_status_name(p->status), same ? "the same" : p->text);
        last = p->text;
    }
    printf("%s%s", outcome_failed(out) ? "FAILED\n" : "right\n", out->text);
}

/* Once more, without others; what it was when it was only late. */
static void run_again(const struct options *o, struct outcome *out)
{
    struct place place;
    struct injection j;
    struct outcome second;
    const bool only_late = out->done && !out->hung && !out->crashed && !out->wrong && !out->untold && !out->bad;

    out->bad |= !out->done; /* its worker died */
    if (!o->alone)
        printf("\nfailed: --seed %llu (%s, %s):\n%sonce more:\n", (unsigned long long)out->seed,
               fault_kinds[out->fault].name, mode_names[out->mode], out->text);
    place_open(o->hosts, &place);
    injection_draw(out->seed, o->hosts != NULL, &j);
    j.deadline *= o->alone ? 1 : MORE_PATIENCE;
    injection_run(&j, &place, limit_of(o, &j));
    injection_judge(&j, place.s, &second);
    tell_story(&j, place.s, &second);
    if (only_late || o->alone)
        *out = second;
    place_close(&place);
}

/* ---- Files that must not appear ------------------------------------------------------------------------ */

static const char *const places[] = { "/dev/shm", "/tmp" };

static bool lies_in(const char *folder, const char *place)
{
    const size_t n = strlen(place);
    return strncmp(folder, place, n) == 0 && (folder[n] == '/' || folder[n] == '\0');
}

/* Empty ones of our own, where that is allowed and hides none of our files: the whole tree may lie in /tmp. */
static bool own_places(void)
{
    char here[4096];
    bool own = getcwd(here, sizeof here) != NULL;

    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        own = own && !lies_in(here, places[i]);
    own = own && (unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) &&
          mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        own = own && mount("none", places[i], "tmpfs", 0, NULL) == 0;
    return own;
}

/* In places that others use too, only what has the library's name. */
static unsigned count_files(bool own)
{
    unsigned n = 0;

    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        DIR *d = opendir(places[i]);
        for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
            n += own ? e->d_name[0] != '.' : strstr(e->d_name, "plait") != NULL;
        if (d != NULL)
            closedir(d);
    }
    return n;
}

/* ---- The table --------------------------------------------------------------------------------------- */

static void print_row(const struct options *o, const struct board *board, int kind)
{
    unsigned modes[NMODE] = { 0 }, told[NSTATUS] = { 0 }, n = 0, bad = 0;
    double slowest = 0;

    for (uint64_t i = 0; i < o->count; i++) {
        const struct outcome *out = &board->outcomes[i];
        if (!out->done || (kind < NFAULT && out->fault != (enum fault)kind))
            continue;
        n++;
        modes[out->mode]++;
        bad += outcome_failed(out);
        for (int k = 0; k < NSTATUS; k++)
            told[k] += out->told[k];
        slowest = out->slowest > slowest ? out->slowest : slowest;
    }
    if (n == 0)
        return;
    printf("%-14s %6u %6u %6u %6u %5u  %6u %7u %8u %6u %5u %5u  %8.3f %7u\n",
           kind < NFAULT ? fault_kinds[kind].name : "all", n, modes[MODE_PROCESSES], modes[MODE_THREADS],
           modes[MODE_MIXED], modes[MODE_HOSTS], told[0], told[1], told[2], told[3], told[4], told[5], slowest, bad);
}

/* How often each collective was struck, and the form of it with blocks of different sizes. */
static void print_collectives(const struct options *o, const struct board *board)
{
    unsigned times[PLAIT_NCOLL][2] = { 0 };

    for (uint64_t i = 0; i < o->count; i++)
        times[board->outcomes[i].coll][board->outcomes[i].vform] += board->outcomes[i].done;
    printf("struck:");
    for (int c = 0; c < PLAIT_NCOLL; c++)
        for (int vform = 0; vform < 2; vform++)
            if (times[c][vform] > 0)
                printf(" %s%s %u", plait_coll_name((enum plait_coll)c), vform ? "v" : "", times[c][vform]);
    printf("\n");
}

/* Of those between hosts. */
static void print_hosts(const struct options *o, const struct board *board)
{
    unsigned times[MOST_HOSTS + 1] = { 0 }, tcp = 0;

    for (uint64_t i = 0; i < o->count; i++) {
        times[board->outcomes[i].nhost] += board->outcomes[i].done;
        tcp += board->outcomes[i].tcp;
    }
    if (o->hosts != NULL)
        printf("on 2 hosts %u, 3 hosts %u, 4 hosts %u; UCX_TLS=tcp %u\n", times[2], times[3], times[4], tcp);
}

static void print_table(const struct options *o, const struct board *board)
{
    printf("\n                      ranks are:                    ranks were told:\n"
           "fault           times  procs threads mixed hosts    PEER TIMEOUT MISMATCH FAILED    OK other  slowest  "
           "failed\n");
    for (int k = 0; k <= NFAULT; k++)
        print_row(o, board, k);
    print_collectives(o, board);
    print_hosts(o, board);
    printf("slowest: seconds from the fault to a rank's error; for silence, from the deadline\n");
}

/* ---- Verdicts ------------------------------------------------------------------------------------------ */

static int conclude(const struct options *o, struct board *board)
{
    unsigned failed = 0, forgiven = 0;

    for (uint64_t i = 0; i < o->count; i++)
        if (!board->outcomes[i].done || outcome_failed(&board->outcomes[i])) {
            run_again(o, &board->outcomes[i]);
            forgiven += !outcome_failed(&board->outcomes[i]);
        }
    print_table(o, board);
    for (uint64_t i = 0; i < o->count; i++)
        if (outcome_failed(&board->outcomes[i]))
            printf("%s%llu", failed++ ? " " : "seeds that failed: ", (unsigned long long)board->outcomes[i].seed);
    printf("%s%llu injections, %u failed, %u were in time only when alone (with %d times the deadline)\n",
           failed > 0 ? "\n" : "", (unsigned long long)o->count, failed, forgiven, MORE_PATIENCE);
    if (forgiven > MOST_FORGIVEN(o->count))
        printf("FAILED: of %llu injections at most %llu may be late; is the machine idle otherwise?\n",
               (unsigned long long)o->count, (unsigned long long)MOST_FORGIVEN(o->count));
    return failed > 0 || forgiven > MOST_FORGIVEN(o->count);
}

/* Without detection only these need none: creation has its own, and an abort is told to ranks outside of operations. */
static bool needs_detection(enum fault fault)
{
    return fault != FAULT_ABSENT && fault != FAULT_BIRTH && fault != FAULT_ABORT;
}

static int conclude_blind(const struct options *o, const struct board *board)
{
    unsigned needed = 0, seen = 0, hung = 0, wrong = 0, untold = 0, crashed = 0;

    for (uint64_t i = 0; i < o->count; i++) {
        const struct outcome *out = &board->outcomes[i];
        const bool reported = out->hung || out->wrong || out->untold || out->crashed;
        if (!needs_detection(out->fault))
            continue;
        needed++;
        seen += reported;
        hung += out->hung;
        wrong += out->wrong;
        untold += out->untold && !out->wrong;
        crashed += out->crashed;
        if (!reported)
            printf("not seen: seed %llu (%s): %s\n", (unsigned long long)out->seed, fault_kinds[out->fault].name,
                   out->text);
    }
    print_table(o, board);
    printf("without detection: %u of %u injections are reported: %u hangs, %u wrong results, %u right by chance though "
           "the "
           "arguments differed, %u crashes\n",
           seen, needed, hung, wrong, untold, crashed);
    return seen < needed || hung == 0 || wrong == 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--agent") == 0)
        return agent_main(atoi(argv[2]));
    if (!full()) /* each injection would begin with a calibration */
        setenv("PLAIT_CALIBRATE", "0", 0);
    setenv("PLAIT_TUNING", "none", 0);
    const struct options o = read_options(argc, argv);
    struct board *board = shared_memory(sizeof *board + o.count * sizeof *board->outcomes);
    const bool own = own_places();
    const unsigned before = count_files(own);
    uint64_t *seeds = choose_seeds(&o);
    int bad;

    if (seeds == NULL)
        return 2;
    if (o.hosts != NULL && !hosts_possible()) {
        printf("skipped: virtual hosts need root\n");
        return 77;
    }
    if (o.hosts != NULL && !hosts_find_plugin())
        return 2;
    printf("seeds from %llu; /dev/shm and /tmp are %s\n", (unsigned long long)o.from, own ? "our own" : "shared");
    if (o.alone) {
        board->outcomes[0].seed = o.from;
        run_again(&o, &board->outcomes[0]);
        bad = outcome_failed(&board->outcomes[0]);
    } else {
        run_all(&o, board, seeds);
        bad = o.blind ? conclude_blind(&o, board) : conclude(&o, board);
    }
    if (count_files(own) > before) {
        printf("FAILED: files were left in /dev/shm or /tmp\n");
        bad = 1;
    }
    free(seeds);
    return bad;
}
