/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Soak: processes that make comms over random ranks, run random collectives on them, alone or many at once beside
 * messages, and destroy them, for as long as asked; every result is checked, and now and then that nothing has grown.
 *
 * Usage: soak [--seconds N] [--seed N] [--ranks N]          900 s (10 s from meson), a random seed, 8 ranks
 *
 * All processes draw the same random numbers, so they agree on what comes next without talking. At a *checkpoint* no
 * comm is alive: then heap, arena, descriptors and mappings are as they were at the first one.
 */
#include "clock.h"
#include "collective.h"
#include "random.h"
#include "specs.h"
#include "values.h"

#include <plait/comm.h>
#include <plait/group.h>
#include <plait/memory.h>
#include <plait/message.h>
#include <plait/request.h>

#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST_RANKS 16
#define NCOMM      6                 /* alive at most */
#define MOST_BYTES ((size_t)8 << 20) /* of a vector */
#define MEMORIES   4
#define NMIX       7           /* operations at once */
#define BATCH      200         /* operations between checkpoints */
#define FLAT_HEAP  (256 << 10) /* bytes that the heap may differ at checkpoints: what the C library keeps for later */
#ifdef __SANITIZE_ADDRESS__
#define FLAT_MEMORY (260 << 20) /* address sanitizer keeps the last 256 MiB of what is freed */
#else
#define FLAT_MEMORY (4 << 20) /* as much of resident memory that is not shared */
#endif

struct shared {
    pthread_barrier_t all;
    _Atomic bool stop, failed;
    _Atomic uint64_t moment; /* last operation begun by any rank; for the watching parent */
    /* Of the last comms of each place: processes that are in few comms run ahead, until the checkpoint. */
    struct plait_unique_id id[NCOMM][BATCH];
    _Atomic uint64_t made[NCOMM][BATCH]; /* number of the comm that the id is for */
    _Atomic uint64_t operations, comms, checkpoints, bytes;
    size_t heap, resident, arena;
    int descriptors, mappings;
};

struct place { /* of a comm that is alive, or not */
    struct plait_comm *comm;
    bool alive;
    uint32_t nrank, rank; /* of this process in it; UINT32_MAX: it is not */
    bool reproducible;
    uint64_t made;
};

struct soak {
    struct shared *shared;
    uint32_t me, nrank;
    uint64_t state; /* of the random numbers; equal in all processes */
    struct place places[NCOMM];
    struct specs specs[MOST_RANKS + 1]; /* by ranks */
    char *memory[2][MEMORIES];          /* [in, out] heap, library, heap but for one element, static */
    char *scratch[2];                   /* what must come out */
};

static char statics[2][MOST_BYTES];

static uint64_t draw(struct soak *s)
{
    return random_next(&s->state);
}

static uint32_t below(struct soak *s, uint32_t n)
{
    return (uint32_t)(draw(s) % n);
}

static bool complain(struct soak *s, const char *what)
{
    fprintf(stderr, "soak: process %u, operation %llu: %s: %s\n", s->me, (unsigned long long)s->shared->operations,
            what, plait_last_error());
    s->shared->failed = true;
    return false;
}

/* ---- Comms ------------------------------------------------------------------------------------------- */

/* Random members in a random order. */
static bool make_comm(struct soak *s, uint32_t p)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct place *place = &s->places[p];
    uint32_t members[MOST_RANKS];
    const uint32_t n = 1 + below(s, s->nrank);

    for (uint32_t r = 0; r < s->nrank; r++)
        members[r] = r;
    for (uint32_t r = s->nrank; r-- > 1;) {
        const uint32_t other = below(s, r + 1), t = members[r];
        members[r] = members[other];
        members[other] = t;
    }
    place->alive = true;
    place->nrank = n;
    place->rank = UINT32_MAX;
    place->reproducible = below(s, 4) == 0;
    place->made++;
    for (uint32_t r = 0; r < n; r++)
        if (members[r] == s->me)
            place->rank = r;
    if (place->rank == UINT32_MAX)
        return true;
    struct plait_unique_id *id = &s->shared->id[p][place->made % BATCH];
    _Atomic uint64_t *made = &s->shared->made[p][place->made % BATCH];
    if (place->rank == 0) {
        if (plait_unique_id_create(id) != PLAIT_OK)
            return complain(s, "id");
        *made = place->made;
        s->shared->comms++;
    }
    while (*made != place->made && !s->shared->failed)
        usleep(100);
    o.nrank = n;
    o.rank = place->rank;
    o.id = id;
    o.deadline = 120;
    o.reproducible = place->reproducible;
    return plait_comm_create(&o, &place->comm) == PLAIT_OK || complain(s, "create");
}

static bool end_comm(struct soak *s, uint32_t p)
{
    struct place *place = &s->places[p];

    place->alive = false;
    if (place->rank == UINT32_MAX)
        return true;
    return plait_comm_destroy(place->comm) == PLAIT_OK || complain(s, "destroy");
}

/* ---- Operations -------------------------------------------------------------------------------------- */

static const enum plait_dtype types[] = { PLAIT_INT32,   PLAIT_INT64,   PLAIT_FLOAT16,
                                          PLAIT_FLOAT32, PLAIT_FLOAT64, PLAIT_BFLOAT16 };

/* Small ones more often than large ones. */
static size_t draw_count(struct soak *s, size_t size)
{
    const uint32_t bits = below(s, 100) == 0 ? 22 : below(s, 20);
    const size_t bytes = ((size_t)1 << bits) + draw(s) % ((size_t)1 << bits);

    return below(s, 50) == 0 ? 0 : (bytes < MOST_BYTES - 64 ? bytes : MOST_BYTES - 64) / size;
}

/* NULL: chosen by the library. One that may not serve here is not taken. */
static const char *draw_algorithm(struct soak *s, const struct place *place, bool reproducible)
{
    const struct specs *specs = &s->specs[place->nrank];
    const struct spec *spec = &specs->spec[below(s, specs->n)];

    if (below(s, 3) == 0 || spec->shape.node != NULL || (reproducible && !spec->alg->canonical))
        return NULL;
    return spec->text;
}

/* Any other collective, by any of its algorithms. */
static bool move(struct soak *s, struct place *place)
{
    struct collective c = { .coll = collectives[below(s, NCOLLECTIVE)],
                            .type = types[below(s, sizeof types / sizeof *types)],
                            .op = (enum plait_op)below(s, PLAIT_PREMULSUM),
                            .root = below(s, place->nrank) };
    const size_t size = plait_dtype_size(c.type);
    const uint64_t choice = draw(s), salt = draw(s);
    uint32_t n = 0;

    c.count = draw_count(s, size) / place->nrank;
    c.inplace = c.coll != PLAIT_ALLTOALL && below(s, 2);
    if (below(s, 3) == 0 && plait_geometry_of(c.coll, 1, 0, 0, 1).kind != PLAIT_KIND_VECTOR) {
        c.sizes = 1 + below(s, 1000);
        c.count -= c.count > 0; /* for the elements between blocks */
    }
    for (const struct plait_alg *const *a = plait_algs; *a != NULL && choice % 3 > 0 && c.sizes == 0; a++)
        n += (*a)->coll == c.coll;
    for (const struct plait_alg *const *a = plait_algs; *a != NULL && n > 0; a++)
        if ((*a)->coll == c.coll && (choice >> 8) % n-- == 0) {
            snprintf(c.spec, sizeof c.spec, "%s", (*a)->name);
            break;
        }
    if (place->rank == UINT32_MAX)
        return true;
    const struct plait_geometry g = plait_geometry_of(c.coll, place->nrank, c.root, place->rank, 1);
    if (c.spec[0] != '\0' && place->reproducible && g.combines)
        snprintf(c.spec, sizeof c.spec, "direct");
    const size_t give = collective_elements(&c, &g.in), get = collective_elements(&c, &g.out);
    char *in = s->memory[0][salt % MEMORIES], *out = s->memory[1][(salt >> 8) % MEMORIES];
    const struct collective_buffers b = collective_place(&c, place->nrank, place->rank, in, out);
    if (b.in != NULL)
        collective_fill(&c, place->nrank, place->rank, b.in);
    if (collective_run(place->comm, &c, b.in, b.out) != PLAIT_OK)
        return complain(s, plait_coll_name(c.coll));
    collective_want(&c, place->nrank, place->rank, s->scratch[0], s->scratch[1]);
    if (!collective_right(&c, place->nrank, place->rank, b.out, s->scratch[1])) {
        fprintf(stderr, "soak: %s%s of %zu %s, %s, on %u ranks, %s%s is wrong\n", plait_coll_name(c.coll),
                c.sizes != 0 ? "v" : "", c.count, plait_dtype_name(c.type), plait_op_name(c.op), place->nrank,
                c.spec[0] != '\0' ? c.spec : "default", c.inplace ? ", in place" : "");
        return complain(s, "wrong results");
    }
    if (place->rank == 0) {
        s->shared->operations++;
        s->shared->bytes += (give > get ? give : get) * size;
    }
    return true;
}

static bool operate(struct soak *s, struct place *place)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    const enum plait_dtype type = types[below(s, sizeof types / sizeof *types)];
    const enum plait_op op = (enum plait_op)below(s, PLAIT_PREMULSUM);
    const size_t size = plait_dtype_size(type), count = draw_count(s, size);
    const bool inplace = below(s, 2);

    call.reproducible = below(s, 8) == 0;
    call.algorithm = draw_algorithm(s, place, place->reproducible || call.reproducible);
    call.slice = below(s, 3) ? 0 : (size_t)4096 << below(s, 9);
    call.round = (enum plait_round)below(s, PLAIT_ROUND_HOP + 1);
    const bool options = below(s, 4) != 0;
    const uint64_t salt = draw(s);
    if (place->rank == UINT32_MAX)
        return true;
    /* Which memory is each rank's own matter. */
    const uint32_t kind = (uint32_t)((salt >> 8) + s->me * (salt % 7)) % MEMORIES;
    char *in = s->memory[0][kind] + (kind == 2 ? size : 0);
    char *out = inplace ? in : s->memory[1][(kind + (salt >> 40)) % MEMORIES];
    values_fill(in, type, op, place->nrank, place->rank, count);
    if (plait_allreduce(place->comm, in, out, count, type, op, options ? &call : NULL) != PLAIT_OK)
        return complain(s, "allreduce");
    const size_t wrong = values_wrong(out, type, op, place->nrank, count);
    if (wrong > 0) {
        fprintf(stderr, "soak: %zu of %zu %s %s are wrong on %u ranks, %s, slice %zu, round %d%s%s\n", wrong, count,
                plait_dtype_name(type), plait_op_name(op), place->nrank,
                options && call.algorithm ? call.algorithm : "default", call.slice, (int)call.round,
                inplace ? ", in place" : "", options ? "" : ", no options");
        return complain(s, "wrong results");
    }
    if (place->rank == 0) {
        s->shared->operations++;
        s->shared->bytes += count * size;
    }
    return true;
}

/* ---- Many at once, of two comms, with messages between ------------------------------------------------- */

struct pending {
    struct place *place;
    bool message;
    struct collective c;
    uint32_t from, to; /* of a message */
    char *in, *out;
    size_t give, get; /* elements */
    struct plait_request *request;
};

/* Each has a part of the vectors for itself. */
static void draw_pending(struct soak *s, struct pending *p, struct place *place, uint32_t i)
{
    const uint64_t salt = draw(s);
    const size_t part = MOST_BYTES / NMIX & ~(size_t)63;

    *p = (struct pending){ .place = place, .message = below(s, 3) == 0 };
    p->from = below(s, place->nrank);
    p->to = below(s, place->nrank);
    p->c.coll = collectives[below(s, NCOLLECTIVE)];
    p->c.type = types[below(s, sizeof types / sizeof *types)];
    p->c.op = (enum plait_op)below(s, PLAIT_PREMULSUM);
    p->c.root = below(s, place->nrank);
    p->c.count = draw_count(s, plait_dtype_size(p->c.type)) / place->nrank;
    if (p->c.count * place->nrank * plait_dtype_size(p->c.type) > part)
        p->c.count = part / place->nrank / plait_dtype_size(p->c.type);
    p->in = s->memory[0][salt % 2] + i * part;
    p->out = s->memory[1][(salt >> 8) % 2] + i * part;
    const struct plait_geometry g = plait_geometry_of(p->c.coll, place->nrank, p->c.root, place->rank, 1);
    p->give = p->message ? (p->from == place->rank ? p->c.count : 0) : collective_elements(&p->c, &g.in);
    p->get = p->message ? (p->to == place->rank ? p->c.count : 0) : collective_elements(&p->c, &g.out);
}

/* A message carries what its sender would give to a gather. */
static bool begin_pending(struct soak *s, struct pending *p, bool grouped)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_comm *comm = p->place->comm;
    struct plait_request *sent = NULL;
    enum plait_status status = PLAIT_OK;

    if (p->give > 0)
        values_fill(p->in, p->c.type, p->c.op, p->place->nrank, p->place->rank, p->give);
    call.request = grouped ? NULL : &p->request;
    if (!p->message) {
        status = collective_call(comm, &p->c, p->give > 0 ? p->in : NULL, p->get > 0 ? p->out : NULL, call);
    } else {
        if (p->to == p->place->rank)
            status = plait_recv(comm, p->out, p->c.count, p->c.type, p->from, &call);
        call.request = grouped ? NULL : &sent;
        if (status == PLAIT_OK && p->from == p->place->rank)
            status = plait_send(comm, p->in, p->c.count, p->c.type, p->to, &call);
        if (status == PLAIT_OK && sent != NULL && p->to == p->place->rank)
            status = plait_wait(&sent);
        else if (sent != NULL)
            p->request = sent;
    }
    return status == PLAIT_OK || complain(s, p->message ? "message" : plait_coll_name(p->c.coll));
}

static bool look_at_pending(struct soak *s, const struct pending *p)
{
    const size_t size = plait_dtype_size(p->c.type);

    if (p->get == 0)
        return true;
    if (p->message)
        values_fill(s->scratch[1], p->c.type, p->c.op, p->place->nrank, p->from, p->get);
    else
        collective_want(&p->c, p->place->nrank, p->place->rank, s->scratch[0], s->scratch[1]);
    if (memcmp(p->out, s->scratch[1], p->get * size) == 0)
        return true;
    fprintf(stderr, "soak: one of several at once: %s of %zu %s, %s, on %u ranks is wrong\n",
            p->message ? "message" : plait_coll_name(p->c.coll), p->c.count, plait_dtype_name(p->c.type),
            plait_op_name(p->c.op), p->place->nrank);
    return complain(s, "wrong results");
}

/* Of those that this process takes part in, the last begun is the first waited for, or whichever ends. */
static bool end_pending(struct soak *s, struct pending *p, uint32_t n, bool any)
{
    struct plait_request *r[NMIX];
    size_t index;

    for (uint32_t i = 0; i < n; i++)
        r[i] = p[n - 1 - i].request;
    for (uint32_t i = 0; i < n; i++)
        if ((any ? plait_wait_any(r, n, &index) : plait_wait(&r[i])) != PLAIT_OK)
            return complain(s, "wait");
    return true;
}

static bool mix(struct soak *s, struct place *a, struct place *b)
{
    struct pending p[NMIX];
    const uint32_t n = 1 + below(s, NMIX);
    const bool grouped = below(s, 2), any = below(s, 2);

    for (uint32_t i = 0; i < n; i++)
        draw_pending(s, &p[i], i % 2 ? b : a, i);
    if (grouped && plait_group_start() != PLAIT_OK)
        return complain(s, "group");
    for (uint32_t i = 0; i < n; i++)
        if (p[i].place->rank != UINT32_MAX && !begin_pending(s, &p[i], grouped))
            return false;
    if (grouped ? plait_group_end() != PLAIT_OK : !end_pending(s, p, n, any))
        return complain(s, "group or wait");
    for (uint32_t i = 0; i < n; i++) {
        if (p[i].place->rank != UINT32_MAX && !look_at_pending(s, &p[i]))
            return false;
        if (p[i].place->rank == 0) {
            s->shared->operations++;
            s->shared->bytes += p[i].c.count * plait_dtype_size(p[i].c.type);
        }
    }
    return true;
}

static bool work(struct soak *s, uint32_t p)
{
    const uint32_t what = below(s, 3), q = below(s, NCOMM);

    if (what == 0)
        return operate(s, &s->places[p]);
    return what == 1 ? move(s, &s->places[p]) : mix(s, &s->places[p], &s->places[s->places[q].alive ? q : p]);
}

/* ---- Checkpoints ------------------------------------------------------------------------------------- */

struct usage {
    size_t heap, resident, arena;
    int descriptors, mappings;
};

static struct usage usage(void)
{
    malloc_trim(0); /* what the C library keeps for later is no growth */
    struct usage u = { 0 };
    char path[300], target[64], line[1024];
    FILE *maps = fopen("/proc/self/maps", "r"), *status = fopen("/proc/self/status", "r");
    DIR *d = opendir("/proc/self/fd");
    struct stat info;

    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL; u.descriptors++) {
        snprintf(path, sizeof path, "/proc/self/fd/%s", e->d_name);
        const ssize_t n = readlink(path, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        if (strncmp(target, "/memfd:plait", 12) == 0 && stat(path, &info) == 0)
            u.arena = (size_t)info.st_blocks * 512;
    }
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        u.mappings += strstr(line, "[heap]") == NULL;
    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        if (strncmp(line, "RssAnon:", 8) == 0)
            u.resident = (size_t)atol(line + 8) << 10;
    if (maps != NULL)
        fclose(maps);
    if (status != NULL)
        fclose(status);
    closedir(d);
    u.heap = mallinfo2().uordblks;
    return u;
}

static bool meet(struct soak *s)
{
    pthread_barrier_wait(&s->shared->all);
    return !s->shared->failed;
}

static bool checkpoint(struct soak *s, struct usage *first)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_comm *comm;

    for (uint32_t p = 0; p < NCOMM; p++)
        if (s->places[p].alive && !end_comm(s, p))
            return false;
    if (!meet(s))
        return false;
    o.nrank = 1; /* what is left of comms that all have left goes with the next call */
    if (plait_comm_create(&o, &comm) != PLAIT_OK || plait_comm_destroy(comm) != PLAIT_OK)
        return complain(s, "checkpoint");
    if (!meet(s))
        return false;
    const struct usage u = usage();
    const size_t vectors = 2 * MOST_BYTES;
    if (first->mappings == 0)
        *first = u;
    /* A peer's last look at a block that is gone brings one page of zeros back, until the place is used again. */
    if (u.descriptors != first->descriptors || u.mappings > first->mappings + 4 || u.heap > first->heap + FLAT_HEAP ||
        u.resident > first->resident + FLAT_MEMORY || u.arena > vectors + 4096 * (NCOMM + 1) * (size_t)MOST_RANKS) {
        fprintf(stderr,
                "soak: process %u has grown: heap %zu, first %zu; resident %zu, first %zu; arena %zu of %zu; "
                "descriptors %d, first %d; mappings %d, first %d\n",
                s->me, u.heap, first->heap, u.resident, first->resident, u.arena, vectors, u.descriptors,
                first->descriptors, u.mappings, first->mappings);
        return complain(s, "not flat");
    }
    if (s->me == 0) {
        struct shared *h = s->shared;
        h->checkpoints++;
        h->heap = u.heap;
        h->resident = u.resident;
        h->arena = u.arena;
        h->descriptors = u.descriptors;
        h->mappings = u.mappings;
    }
    return true;
}

/* ---- One process --------------------------------------------------------------------------------------- */

static bool prepare(struct soak *s)
{
    for (uint32_t n = 1; n <= s->nrank; n++)
        specs_init(&s->specs[n], PLAIT_ALLREDUCE, n, false);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) /* results that are kept */
        for (unsigned op = 0; op < PLAIT_PREMULSUM; op++)
            values_want(statics[0], types[t], (enum plait_op)op, s->nrank, MOST_BYTES / 8);
    for (unsigned k = 0; k < 2; k++) {
        void *library;
        if (plait_mem_alloc(MOST_BYTES, &library) != PLAIT_OK)
            return complain(s, "memory");
        s->scratch[k] = malloc(MOST_BYTES);
        if (s->scratch[k] == NULL)
            return complain(s, "memory");
        memset(s->scratch[k], 1, MOST_BYTES); /* resident before the first checkpoint; zeros would be calloc() */
        s->memory[k][0] = malloc(MOST_BYTES);
        s->memory[k][1] = library;
        s->memory[k][2] = malloc(MOST_BYTES);
        s->memory[k][3] = statics[k];
        for (unsigned i = 0; i < MEMORIES; i++) {
            if (s->memory[k][i] == NULL)
                return complain(s, "memory");
            memset(s->memory[k][i], 1, MOST_BYTES);
        }
    }
    return true;
}

static int process(struct shared *shared, uint32_t me, uint32_t nrank, uint64_t seed)
{
    static struct soak s;
    struct usage first = { 0 };
    bool ok;

    s.shared = shared;
    s.me = me;
    s.nrank = nrank;
    s.state = seed;
    ok = prepare(&s);
    for (unsigned batch = 0; ok; batch++) {
        for (unsigned k = 0; k < BATCH && ok && !shared->failed; k++) {
            const uint32_t p = below(&s, NCOMM);
            if (!s.places[p].alive)
                ok = make_comm(&s, p);
            else if (below(&s, 25) == 0)
                ok = end_comm(&s, p);
            else
                ok = work(&s, p);
            shared->moment++;
        }
        ok = ok && checkpoint(&s, &first);
        if (batch == 0) /* it warmed up */
            first.mappings = 0;
        if (!ok || !meet(&s) || (shared->stop && batch > 1))
            break;
        if (!meet(&s)) /* all have looked at `stop` */
            break;
    }
    fflush(NULL);
    return ok && !shared->failed ? 0 : 1;
}

/* ---- The watching parent ------------------------------------------------------------------------------- */

static void show(const struct shared *s, double seconds)
{
    printf("[%4.0f s] %llu operations, %.1f GiB, %llu comms, %llu checkpoints; process 0: heap %zu KiB, resident %zu "
           "KiB, arena %zu KiB, %d descriptors, %d mappings\n",
           seconds, (unsigned long long)s->operations, (double)s->bytes / (1 << 30), (unsigned long long)s->comms,
           (unsigned long long)s->checkpoints, s->heap >> 10, s->resident >> 10, s->arena >> 10, s->descriptors,
           s->mappings);
    fflush(stdout);
}

/* Until all have ended. One that fails ends all: the others may wait for it. */
static int watch(struct shared *s, const pid_t *pids, uint32_t nrank, double seconds)
{
    const double start = plait_clock();
    double shown = start, moved = start;
    uint64_t moment = 0;
    int failed = 0;

    for (uint32_t left = nrank; left > 0;) {
        int how;
        const pid_t pid = waitpid(-1, &how, WNOHANG);
        if (pid > 0) {
            left--;
            failed += how != 0;
        }
        if (s->moment != moment) {
            moment = s->moment;
            moved = plait_clock();
        }
        if (failed == 0 && plait_clock() - moved > 180) {
            fprintf(stderr, "soak: nothing moves for 180 s\n");
            failed = 1;
        }
        for (uint32_t r = 0; r < nrank && failed > 0; r++)
            kill(pids[r], SIGKILL);
        s->stop = plait_clock() - start > seconds;
        if (plait_clock() - shown > 10) {
            show(s, plait_clock() - start);
            shown = plait_clock();
        }
        usleep(20000);
    }
    show(s, plait_clock() - start);
    return failed;
}

int main(int argc, char **argv)
{
    double seconds = 900;
    uint64_t seed = 0;
    uint32_t nrank = 8;
    pid_t pids[MOST_RANKS];
    struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_t shared;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seconds") == 0)
            seconds = atof(argv[i + 1]);
        else if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--ranks") == 0)
            nrank = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        else
            seconds = 0;
    }
    if (s == MAP_FAILED || argc % 2 == 0 || seconds <= 0 || nrank < 1 || nrank > MOST_RANKS) {
        fprintf(stderr, "usage: soak [--seconds N] [--seed N] [--ranks 1..%d]\n", MOST_RANKS);
        return 2;
    }
    if (seed == 0 && getrandom(&seed, 4, 0) != 4)
        seed = 1;
    printf("soak: %u processes, %g s, --seed %llu\n", nrank, seconds, (unsigned long long)seed);
    fflush(stdout);
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&s->all, &shared, nrank);
    for (uint32_t r = 0; r < nrank; r++) {
        pids[r] = fork();
        if (pids[r] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            _exit(process(s, r, nrank, seed));
        }
    }
    const int failed = watch(s, pids, nrank, seconds);
    printf("soak: %s; %u processes, --seed %llu: %llu operations, %.1f GiB, %llu comms\n", failed ? "FAILED" : "passed",
           nrank, (unsigned long long)seed, (unsigned long long)s->operations, (double)s->bytes / (1 << 30),
           (unsigned long long)s->comms);
    return failed != 0;
}
