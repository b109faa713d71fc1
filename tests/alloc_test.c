/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every call of the library that takes a resource (in the short tier every third) fails once, one after the other: in
 * creating a comm, in the first operation of a kind, in leaving. The rank gets an error, all others get the same with the
 * rank's number, soon; nothing leaks; and the same processes can make a new comm.
 */
#include "base/clock.h"
#include "child.h"
#include "collective.h"
#include "inject.h"
#include "ranks.h"
#include "tier.h"
#include "unit.h"
#include "values.h"

#include "memory/arena.h"

#include <plait/group.h>
#include <plait/memory.h>
#include <plait/message.h>
#include <plait/request.h>

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define NRANK 3
#define COUNT 20000
#define PART  7000    /* elements of a block */
#define LARGE 3000000 /* more than a slice chosen from the largest second-level cache */
#define EVERY 5       /* of the calls fails in the short tier */
#define LATE  100.0   /* seconds: far above a loaded machine's delays, far below the limits of 600 */

enum phase { CREATE, FIRST, GROW, SECOND, DESTROY, ABORT, MEMORY, SPLIT, SHRINK };

enum form { BLOCKING, REQUEST, PERSISTENT, GROUP, MESSAGES };

struct kind { /* of operation */
    const char *name;
    struct collective c;
    bool nodes;
    enum form form;
};

static const struct kind kinds[] = {
    { "eager", { PLAIT_ALLREDUCE, "", PLAIT_FLOAT32, .count = 4 } },
    { "two-shot", { PLAIT_ALLREDUCE, "two-shot", PLAIT_FLOAT32, .count = COUNT } },
    { "two-shot in library memory", { PLAIT_ALLREDUCE, "two-shot", PLAIT_FLOAT32, .count = COUNT, .library = true } },
    { "ring", { PLAIT_ALLREDUCE, "ring", PLAIT_FLOAT32, .count = COUNT } },
    { "hierarchy", { PLAIT_ALLREDUCE, "hierarchy", PLAIT_FLOAT32, .count = COUNT }, .nodes = true },
    { "ring in bfloat16, rounded once",
      { PLAIT_ALLREDUCE, "ring", PLAIT_BFLOAT16, .round = PLAIT_ROUND_ONCE, .count = COUNT } },
    { "barrier", { PLAIT_BARRIER, "", PLAIT_INT32 } },
    { "reduce_scatter", { PLAIT_REDUCE_SCATTER, "ring", PLAIT_FLOAT32, .count = PART } },
    { "allgather", { PLAIT_ALLGATHER, "bruck", PLAIT_FLOAT32, .count = PART } },
    { "broadcast", { PLAIT_BROADCAST, "binomial", PLAIT_FLOAT32, .count = COUNT, .root = 2 } },
    { "reduce", { PLAIT_REDUCE, "binomial", PLAIT_FLOAT32, .count = COUNT, .root = 1 } },
    { "gather", { PLAIT_GATHER, "direct", PLAIT_FLOAT32, .count = PART, .root = 1 } },
    { "scatter", { PLAIT_SCATTER, "binomial", PLAIT_FLOAT32, .count = PART, .root = 2 } },
    { "alltoall", { PLAIT_ALLTOALL, "direct", PLAIT_FLOAT32, .count = PART } },
    { "reduce_scatterv", { PLAIT_REDUCE_SCATTER, "ring", PLAIT_FLOAT32, .count = PART, .sizes = 1 } },
    { "allgatherv", { PLAIT_ALLGATHER, "direct", PLAIT_FLOAT32, .count = COUNT, .sizes = 2 } },
    { "gatherv", { PLAIT_GATHER, "", PLAIT_FLOAT32, .count = PART, .sizes = 3 } },
    { "scatterv", { PLAIT_SCATTER, "", PLAIT_FLOAT32, .count = PART, .sizes = 4, .root = 1 } },
    { "alltoallv", { PLAIT_ALLTOALL, "", PLAIT_FLOAT32, .count = PART, .sizes = 5 } },
    { "two-shot in large slices", { PLAIT_ALLREDUCE, "two-shot", PLAIT_FLOAT32, .count = LARGE, .slice = 8 << 20 } },
    { "a request", { PLAIT_ALLREDUCE, "two-shot", PLAIT_FLOAT32, .count = COUNT }, .form = REQUEST },
    { "persistent", { PLAIT_ALLREDUCE, "two-shot", PLAIT_FLOAT32, .count = COUNT }, .form = PERSISTENT },
    { "a group", { PLAIT_ALLREDUCE, "two-shot", PLAIT_FLOAT32, .count = COUNT }, .form = GROUP },
    { "messages in a group", { PLAIT_ALLREDUCE, "", PLAIT_FLOAT32, .count = COUNT / 2 }, .form = MESSAGES },
};

#define NKIND     (sizeof kinds / sizeof *kinds)
#define EAGER     (&kinds[0])
#define TWO_SHOT  (&kinds[1])
#define RING      (&kinds[3])
#define HIERARCHY (&kinds[4])
#define NFORM     4
#define FORMS     (&kinds[NKIND - NFORM])
#define IN_GROUP  (&FORMS[2])
#define SLICED    (&kinds[NKIND - NFORM - 1])

struct counts { /* what a process has */
    long heap, descriptors, mappings, arena;
};

struct scene { /* shared by the test and its ranks */
    /* The job. */
    enum phase phase;
    const struct kind *kind;
    uint32_t nthread, victim;
    bool onwards;
    unsigned nth; /* first; 0: count */

    /* Of the round. */
    pthread_barrier_t all;
    struct plait_unique_id id;
    char call[32]; /* that failed, or "" */
    enum plait_status status[NRANK];
    char text[NRANK][512];
    double seconds[NRANK];

    /* Results. */
    unsigned points, fired, survived;
    struct counts reference[NRANK];
};

/* ---- What a process has ---------------------------------------------------------------------------------- */

static long count_descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    long n = 0;

    while (d != NULL && readdir(d) != NULL)
        n++;
    closedir(d);
    return n;
}

static long count_arenas(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    long n = 0;

    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        n += strstr(line, "/memfd:plait") != NULL;
    fclose(f);
    return n;
}

static struct counts count_all(void)
{
    return (struct counts){ .heap = inject_live(),
                            .descriptors = count_descriptors(),
                            .mappings = count_arenas(),
                            .arena = (long)plait_arena_used() };
}

/* ---- A round ----------------------------------------------------------------------------------------------- */

static struct plait_comm_options options_of(const struct scene *s, uint32_t rank)
{
    static const uint32_t node[NRANK] = { 0, 0, 1 };
    struct plait_comm_options o = options_of_rank(NRANK, rank, &s->id);

    o.timeout = o.deadline = 600;
    o.node = s->kind->nodes ? node : NULL;
    return o;
}

/* The operation, and a vector to the next rank, in one group. */
static enum plait_status exchange(struct plait_comm *comm, const struct collective *c, const void *in, void *out)
{
    static float letter[COUNT];
    const uint32_t rank = plait_comm_rank(comm);
    enum plait_status status = plait_group_start();

    if (status == PLAIT_OK)
        status = plait_send(comm, in, c->count, PLAIT_FLOAT32, (rank + 1) % NRANK, NULL);
    if (status == PLAIT_OK)
        status = plait_recv(comm, letter, c->count, PLAIT_FLOAT32, (rank + NRANK - 1) % NRANK, NULL);
    if (status == PLAIT_OK)
        status = collective_run(comm, c, in, out);
    const enum plait_status end = plait_group_end();
    return status == PLAIT_OK ? end : status;
}

static enum plait_status operate_in_form(struct plait_comm *comm, const struct kind *k, const void *in, void *out)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *r = NULL;
    enum plait_status status;

    if (k->form == GROUP)
        plait_group_start();
    else
        call.request = &r;
    call.persistent = k->form == PERSISTENT;
    status = collective_call(comm, &k->c, in, out, call);
    if (k->form == GROUP)
        return plait_group_end();
    if (status == PLAIT_OK && k->form == PERSISTENT)
        status = plait_start(r);
    if (status == PLAIT_OK)
        status = plait_wait(&r);
    plait_request_free(&r);
    return status;
}

static enum plait_status operate(struct plait_comm *comm, const struct kind *k, const void *in, void *out)
{
    if (k->form == MESSAGES)
        return exchange(comm, &k->c, in, out);
    return k->form == BLOCKING ? collective_run(comm, &k->c, in, out) : operate_in_form(comm, k, in, out);
}

struct buffers {
    char *memory[2], *want;
    struct collective_buffers at;
    bool library;
};

static int take_buffers(struct buffers *b, const struct collective *c, uint32_t rank)
{
    const size_t bytes = collective_room(c, NRANK) * plait_dtype_size(c->type) + 1;

    b->library = c->library;
    CHECK((b->want = malloc(bytes)) != NULL);
    for (unsigned i = 0; i < 2; i++)
        if (c->library)
            CHECK(plait_mem_alloc(bytes, (void **)&b->memory[i]) == PLAIT_OK);
        else
            CHECK((b->memory[i] = malloc(bytes)) != NULL);
    b->at = collective_place(c, NRANK, rank, b->memory[0], b->memory[1]);
    collective_want(c, NRANK, rank, b->memory[0], b->want);
    collective_fill(c, NRANK, rank, b->memory[0]);
    return 0;
}

static void free_buffers(struct buffers *b)
{
    for (unsigned i = 0; i < 2; i++)
        if (b->library)
            plait_mem_free(b->memory[i]);
        else
            free(b->memory[i]);
    free(b->want);
}

/* Few elements first where staging memory is to grow. */
static enum plait_status operate_small(struct plait_comm *comm, const struct kind *k, const struct buffers *b)
{
    struct collective c = k->c;

    c.count = 40;
    c.slice = 0;
    return collective_run(comm, &c, b->at.in, b->at.out);
}

/* What comes before the phase in which calls fail. */
static int before(const struct scene *s, struct plait_comm *comm, const struct buffers *b, uint32_t rank)
{
    if (s->phase == GROW)
        CHECK(operate_small(comm, s->kind, b) == PLAIT_OK);
    if (s->phase == SECOND || s->phase == DESTROY || s->phase == ABORT)
        CHECK(operate(comm, s->kind, b->at.in, b->at.out) == PLAIT_OK);
    return 0;
}

/* A comm of all ranks, and, of a kind in groups, at a group's end. */
static enum plait_status make_comm(const struct scene *s, struct plait_comm *of, uint32_t rank, struct plait_comm **out)
{
    const struct plait_comm_options o = options_of(s, rank);
    enum plait_status status, end = PLAIT_OK;

    if (s->kind->form == GROUP)
        plait_group_start();
    status = s->phase == CREATE  ? plait_comm_create(&o, out)
             : s->phase == SPLIT ? plait_comm_split(of, 0, (int)rank, NULL, out)
                                 : plait_comm_shrink(of, NULL, 0, 0, NULL, out);
    if (s->kind->form == GROUP)
        end = plait_group_end();
    return status == PLAIT_OK ? end : status;
}

/* The phase itself. */
static enum plait_status act(const struct scene *s, struct plait_comm **comm, const struct buffers *b, uint32_t rank)
{
    struct plait_comm *other = NULL;
    enum plait_status status;
    void *memory;

    switch (s->phase) {
    case CREATE:
        return make_comm(s, NULL, rank, comm);
    case FIRST:
    case GROW:
    case SECOND:
        return operate(*comm, s->kind, b->at.in, b->at.out);
    case MEMORY:
        status = plait_mem_alloc(1 << 20, &memory);
        return status == PLAIT_OK ? plait_mem_free(memory) : status;
    case SPLIT:
    case SHRINK:
        status = make_comm(s, *comm, rank, &other);
        inject_disarm();
        plait_comm_destroy(other);
        return status;
    case ABORT:
        return plait_comm_abort(*comm, "for the test");
    case DESTROY:
        status = plait_comm_destroy(*comm);
        *comm = NULL;
        return status;
    }
    return PLAIT_OK;
}

static void new_id(struct scene *s, uint32_t rank)
{
    pthread_barrier_wait(&s->all);
    if (rank == 0 && plait_unique_id_create(&s->id) != PLAIT_OK)
        abort();
    pthread_barrier_wait(&s->all);
}

static bool is_rooted(const struct kind *k)
{
    return plait_geometry_of(k->c.coll, 1, 0, 0, 1).rooted;
}

/* Run the phase with call `nth` failing on the victim, and note what comes of it. */
static int run_phase(struct scene *s, uint32_t rank, unsigned nth)
{
    const struct plait_comm_options o = options_of(s, rank);
    struct plait_comm *comm = NULL;
    struct buffers b;

    CHECK(take_buffers(&b, &s->kind->c, rank) == 0);
    new_id(s, rank);
    s->call[0] = '\0';
    if (s->phase != CREATE) {
        CHECK(plait_comm_create(&o, &comm) == PLAIT_OK);
        CHECK(before(s, comm, &b, rank) == 0);
    }
    pthread_barrier_wait(&s->all);
    const double start = plait_clock();
    if (rank == s->victim)
        inject_arm(nth, s->onwards);
    s->status[rank] = act(s, &comm, &b, rank);
    if (rank == s->victim)
        s->points = inject_disarm();
    if (s->status[rank] == PLAIT_OK && s->phase >= FIRST && s->phase <= SECOND)
        CHECK(collective_right(&s->kind->c, NRANK, rank, b.at.out, b.want));
    if (s->status[rank] == PLAIT_OK && s->phase >= FIRST && s->phase <= SECOND &&
        (is_rooted(s->kind) || s->kind->form == MESSAGES))
        s->status[rank] = plait_barrier(comm, NULL); /* not all hear of all: the next call fails at the latest */
    s->seconds[rank] = plait_clock() - start;
    snprintf(s->text[rank], sizeof s->text[rank], "%s", s->status[rank] != PLAIT_OK ? plait_last_error() : "");
    if (rank == s->victim && inject_fired() != NULL)
        snprintf(s->call, sizeof s->call, "%s", inject_fired());
    pthread_barrier_wait(&s->all); /* destroying earlier would be a second failure */
    plait_comm_destroy(comm);
    free_buffers(&b);
    pthread_barrier_wait(&s->all);
    return 0;
}

/* What the library does without: sizes of caches and limits that it cannot read, a way to empty freed pages, a look whether
 * who is slow to answer still lives, a descriptor more by which rank 0 takes several ranks at a time, or for a rank that comes
 * again later. */
static bool is_optional(const char *call)
{
    static const char *const calls[] = { "",        "fopen64",     "opendir",
                                         "open64",  "fallocate64", "pidfd_open of another",
                                         "fcntl64", "accept4" };

    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(call, calls[i]) == 0)
            return true;
    return false;
}

/* Was this the right outcome for this rank? */
static int judge(const struct scene *s, uint32_t rank, unsigned nth)
{
    const enum plait_status victim = s->status[s->victim], own = s->status[rank];
    char name[16], first[64];

    if (victim == PLAIT_OK || (s->phase == MEMORY && rank != s->victim)) {
        CHECK(own == PLAIT_OK && (rank != s->victim || is_optional(s->call)));
        return 0;
    }
    CHECK(victim == PLAIT_ERR_NOMEM || victim == PLAIT_ERR_SYSTEM);
    CHECK(s->text[s->victim][0] != '\0');
    CHECK(s->seconds[rank] < LATE);
    CHECK(s->call[0] != '\0');
    if (nth == 1 && s->phase == FIRST && s->kind->c.sizes != 0) { /* where the blocks start takes memory first */
        snprintf(first, sizeof first, "cannot begin %s #1 (float32", s->kind->name);
        CHECK(strstr(s->text[rank], first) != NULL && strstr(s->text[rank], "out of memory") != NULL);
    }
    if (rank == s->victim)
        return 0;
    snprintf(name, sizeof name, "rank %u", s->victim);
    CHECK(own == victim);
    CHECK(strstr(s->text[rank], name) != NULL && strstr(s->text[rank], s->text[s->victim]) != NULL);
    return 0;
}

static int use_new_comm(struct scene *s, uint32_t rank)
{
    struct plait_comm_options o = options_of(s, rank);
    struct plait_comm *comm;
    float in[40], out[40];

    new_id(s, rank);
    CHECK(plait_comm_create(&o, &comm) == PLAIT_OK);
    values_fill(in, PLAIT_FLOAT32, PLAIT_SUM, NRANK, rank, 40);
    CHECK(plait_allreduce(comm, in, out, 40, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK);
    CHECK(values_wrong(out, PLAIT_FLOAT32, PLAIT_SUM, NRANK, 40) == 0);
    CHECK(plait_comm_destroy(comm) == PLAIT_OK);
    pthread_barrier_wait(&s->all);
    o = (struct plait_comm_options)PLAIT_COMM_OPTIONS_DEFAULT;
    o.nrank = 1; /* a creation releases what the others have stopped reading */
    CHECK(plait_comm_create(&o, &comm) == PLAIT_OK && plait_comm_destroy(comm) == PLAIT_OK);
    pthread_barrier_wait(&s->all);
    return 0;
}

/* Equal to what the process has after a round in which nothing failed. One thread of each process looks. */
static int compare_counts(struct scene *s, uint32_t rank, unsigned nth)
{
    struct counts *r = &s->reference[rank];

    if (rank % s->nthread == 0) {
        const struct counts c = count_all();
        if (nth == 0)
            *r = c;
        if (memcmp(&c, r, sizeof c) != 0)
            fprintf(stderr,
                    "heap blocks %ld, %ld before; descriptors %ld, %ld; mappings %ld, %ld; arena bytes %ld, %ld\n",
                    c.heap, r->heap, c.descriptors, r->descriptors, c.mappings, r->mappings, c.arena, r->arena);
        CHECK(memcmp(&c, r, sizeof c) == 0);
    }
    pthread_barrier_wait(&s->all);
    return 0;
}

static int round_of(struct scene *s, uint32_t rank, unsigned nth)
{
    if (run_phase(s, rank, nth) != 0 || judge(s, rank, nth) != 0 || use_new_comm(s, rank) != 0 ||
        compare_counts(s, rank, nth) != 0) {
        fprintf(stderr, "phase %d (%s), rank %u, call %u of rank %u (%s) failed: rank says %s '%s', it says '%s'\n",
                (int)s->phase, s->kind->name, rank, nth, s->victim, s->call, plait_status_name(s->status[rank]),
                s->text[rank], s->text[s->victim]);
        return 1;
    }
    if (rank == s->victim && s->call[0] != '\0') {
        s->fired++;
        s->survived += s->status[rank] == PLAIT_OK;
    }
    pthread_barrier_wait(&s->all);
    return 0;
}

/* ---- A job ------------------------------------------------------------------------------------------------- */

/* After call `nth`. Jobs take other thirds of the calls; where few calls or none may be made, all are tried. */
static unsigned next_call(const struct scene *s, unsigned nth)
{
    const bool all = full() || (s->phase >= SECOND && s->phase <= MEMORY);
    const bool from_first = all || s->kind->c.sizes != 0;

    if (nth > 0)
        return nth + (all ? 1 : EVERY);
    return from_first ? 1 : 1 + (unsigned)(s->kind - kinds + s->victim + s->onwards) % EVERY;
}

/* In creation every round has new processes, as only a process's first comm makes the arena. */
static int run_rank(struct plait_comm **comm, uint32_t rank, void *scene)
{
    struct scene *s = scene;
    unsigned nth = s->nth;
    bool more;

    do {
        if ((nth == 0 && s->phase != CREATE && round_of(s, rank, 0) != 0) || round_of(s, rank, nth) != 0)
            _exit(1); /* with the threads that wait for it */
        more = nth == 0 || s->call[0] != '\0';
        nth = next_call(s, nth);
    } while (s->phase != CREATE && more);
    return 0;
}

/* Every call of a phase, until a round goes through without one failing. Returns the calls of a round. */
static unsigned run_job(enum phase phase, const struct kind *kind, uint32_t nthread, uint32_t victim, bool onwards)
{
    static const char *const names[] = { "create", "first",  "grow",  "second", "destroy",
                                         "abort",  "memory", "split", "shrink" };
    struct scene *s = shared_memory(sizeof *s);
    const struct ranks r = { .nprocess = NRANK / nthread,
                             .nthread = nthread,
                             .limit = 600,
                             .body = run_rank,
                             .arg = s,
                             .processes = true,
                             .no_comm = true,
                             .tied = true };

    *s = (struct scene){ .phase = phase, .kind = kind, .nthread = nthread, .victim = victim, .onwards = onwards };
    const double start = plait_clock();
    bool more;
    do {
        shared_barrier_init(&s->all, NRANK);
        if (ranks_run(&r) != 0)
            fail_msg("call %u (%s) failed", s->nth, s->call);
        more = s->nth == 0 || s->call[0] != '\0';
        s->nth = next_call(s, s->nth);
    } while (phase == CREATE && more);
    const unsigned fired = s->fired;
    printf("%-7s %-31s %s, rank %u, %s: %u calls failed, in %u the library did without (%.1f s)\n", names[phase],
           kind->name, nthread > 1 ? "threads  " : "processes", victim,
           onwards ? "all from the nth" : "the nth         ", fired, s->survived, plait_clock() - start);
    munmap(s, sizeof *s);
    return fired;
}

/*
 * Ranks as processes and as threads, failing on rank 0 and on a middle one, one call and all from there on. The short
 * tier takes every `of`th combination, beginning with number `first`.
 */
static void run_jobs(enum phase phase, const struct kind *kind, unsigned least, unsigned first, unsigned of)
{
    for (unsigned i = full() ? 0 : first; i < 8; i += full() ? 1 : of) {
        const unsigned fired = run_job(phase, kind, i & 1 ? NRANK : 1, i >> 1 & 1, i >> 2 & 1);
        if (fired < (full() ? least : least / EVERY))
            fail_msg("only %u calls failed, not %u: the test looks at the wrong calls", fired, least);
    }
}

static void creating_a_comm(void **state)
{
    run_jobs(CREATE, EAGER, 20, 0, 3);
    run_jobs(CREATE, HIERARCHY, 20, 2, 8);
}

static void the_first_operation_of_a_kind(void **state)
{
    for (size_t i = 0; &kinds[i] < SLICED; i++)
        if (full() || (i % 3 == 0 && !kinds[i].c.library && &kinds[i] != RING))
            run_jobs(FIRST, &kinds[i], kinds[i].c.spec[0] != '\0' || kinds[i].c.sizes != 0 ? 10 : 1, 3 * i % 8, 8);
}

/* Ranks as processes: a thread drives others' operations too. */
static void the_first_operation_in_a_form(void **state)
{
    for (unsigned i = 0; i < NFORM; i += full() ? 1 : 5)
        for (unsigned onwards = 0; onwards < (full() ? 2 : 1); onwards++)
            if (run_job(FIRST, &FORMS[i], 1, i % 2, onwards) <
                (FORMS[i].form == MESSAGES ? 10 : 50) / (full() ? 1 : EVERY))
                fail_msg("too few calls failed: the test looks at the wrong calls");
}

static void growing_the_staging_memory(void **state)
{
    run_jobs(GROW, SLICED, 5, 2, 8);
}

static void library_memory(void **state)
{
    run_jobs(MEMORY, EAGER, 2, 0, 5);
}

/* A rank that could not used to leave the others waiting for it. */
static void making_a_comm_of_a_comm(void **state)
{
    run_jobs(SPLIT, EAGER, 20, 1, 3);
    run_jobs(SHRINK, EAGER, 20, 0, 3);
}

/* A rank without a thread for it told nobody. */
static void making_comms_at_a_groups_end(void **state)
{
    run_jobs(CREATE, IN_GROUP, 2, 0, 3);
    run_jobs(SPLIT, IN_GROUP, 2, 1, 3);
    run_jobs(SHRINK, IN_GROUP, 2, 0, 3);
}

static void a_second_operation_takes_nothing(void **state)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        assert_int_equal(run_job(SECOND, &kinds[i], 1, 1, false), 0);
}

static void leaving_takes_nothing(void **state)
{
    for (uint32_t nthread = 1; nthread <= NRANK; nthread += NRANK - 1)
        for (size_t i = 0; i < 2; i++)
            run_job(DESTROY, &kinds[i], nthread, 1, true);
}

static void aborting_takes_nothing(void **state)
{
    assert_int_equal(run_job(ABORT, TWO_SHOT, 1, 1, true), 0);
}

static void an_id_without_random_bytes_is_an_error(void **state)
{
    struct plait_unique_id id;

    inject_arm(1, false);
    const enum plait_status status = plait_unique_id_create(&id);
    inject_disarm();
    assert_string_equal(inject_fired(), "getrandom");
    assert_int_equal(status, PLAIT_ERR_SYSTEM);
    assert_non_null(
        strstr(plait_last_error(), "no random bytes for a unique id: getrandom(), which a filter of system"));
}

/* In a process that has no arena yet: the nth call fails. Exit status: 0 as it should, 1 not, 2 there was none. */
static int make_first_arena(unsigned nth)
{
    void *memory;

    inject_arm(nth, false);
    const enum plait_status status = plait_mem_alloc(1, &memory);
    inject_disarm();
    if (inject_fired() == NULL)
        return status == PLAIT_OK ? 2 : 1;
    if (strcmp(inject_fired(), "memfd_create") == 0)
        return status != PLAIT_ERR_SYSTEM || strstr(plait_last_error(), strerror(EMFILE)) == NULL;
    if (strcmp(inject_fired(), "pthread_atfork") == 0)
        return status != PLAIT_ERR_NOMEM || strstr(plait_last_error(), "cannot watch for fork()") == NULL;
    return 0;
}

/* Watching for fork() came between the call that failed and the text of its error. */
static void the_first_arena_names_what_failed(void **state)
{
    int end = 0;

    for (unsigned nth = 1; end == 0; nth++) {
        const pid_t child = child_fork();
        if (child == 0)
            _exit(make_first_arena(nth));
        end = child_end(child);
        assert_true(nth > 3 || end == 0);
    }
    assert_int_equal(end, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_arena_names_what_failed), /* while this process has none */
        cmocka_unit_test(an_id_without_random_bytes_is_an_error),
        cmocka_unit_test(creating_a_comm),
        cmocka_unit_test(the_first_operation_of_a_kind),
        cmocka_unit_test(the_first_operation_in_a_form),
        cmocka_unit_test(growing_the_staging_memory),
        cmocka_unit_test(library_memory),
        cmocka_unit_test(making_a_comm_of_a_comm),
        cmocka_unit_test(making_comms_at_a_groups_end),
        cmocka_unit_test(a_second_operation_takes_nothing),
        cmocka_unit_test(leaving_takes_nothing),
        cmocka_unit_test(aborting_takes_nothing),
    };

    struct rlimit limit; /* a rank without a descriptor needs some above the soft limit to tell the others */

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max - 128 < limit.rlim_cur ? limit.rlim_max - 128 : limit.rlim_cur;
    setrlimit(RLIMIT_NOFILE, &limit);
    setenv("PLAIT_CONFIG", "/dev/null", 1); /* reading a file takes resources too */
    setenv("PLAIT_CALIBRATE", "0", 1);      /* it does without memory that it does not get */
    return cmocka_run_group_tests_name("alloc", tests, NULL, NULL);
}
