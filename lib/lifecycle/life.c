/* SPDX-License-Identifier: BSD-3-Clause */
/* Creation of a comm up to the rendezvous (meet.c), and destruction that is safe for late readers (teardown.c frees the
 * memory that they may still read). */
#include "life.h"

#include "async_creation.h"
#include "base/clock.h"
#include "base/status.h"
#include "call/creation.h"
#include "call/drive.h"
#include "comm/port.h"
#include "device/device_comm.h"
#include "engine/prog.h"
#include "failure/failure.h"
#include "failure/remote/remote.h"
#include "failure/report.h"
#include "meet.h"
#include "memory/devices.h"
#include "operation/arguments.h"
#include "operation/run.h"
#include "operation/slices.h"
#include "p2p/message.h"
#include "plan/plan_check.h"
#include "progress/look.h"
#include "progress/progress.h"
#include "progress/wait.h"
#include "teardown.h"

#include <plait/topology.h>

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_PATIENCE 2.0 /* seconds; destroy waits so long, after a failure, for processes that have not noticed it */

/* ---- Creation ------------------------------------------------------------------------------------------ */

/* Check the options that the rendezvous itself needs: without them no error can be told to other ranks. */
static enum plait_status check_identity(const struct plait_comm_options *o, struct plait_comm **out)
{
    if (o == NULL || out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_comm_create: %s is NULL", o == NULL ? "options" : "out");
    if (o->size != sizeof *o)
        return plait_fail(PLAIT_ERR_ARG,
                          "plait_comm_create: options->size is %zu, not %zu; start from PLAIT_COMM_OPTIONS_DEFAULT of "
                          "this version's headers",
                          o->size, sizeof *o);
    if (o->nrank < 1 || o->nrank > PLAIT_MAX_RANKS)
        return plait_fail(PLAIT_ERR_ARG, "plait_comm_create: nrank is %u; 1 to %d are allowed", o->nrank,
                          PLAIT_MAX_RANKS);
    if (o->rank >= o->nrank)
        return plait_fail(PLAIT_ERR_ARG, "plait_comm_create: rank is %u, but nrank is %u", o->rank, o->nrank);
    if (o->id == NULL && o->nrank > 1)
        return plait_fail(PLAIT_ERR_ARG, "plait_comm_create: id is NULL, but nrank is %u", o->nrank);
    return PLAIT_OK;
}

/* setting: name of the setting that holds when the value is 0. */
static enum plait_status check_seconds(const char *name, double value, double most, const char *setting)
{
    if (value >= 0 && value <= most)
        return PLAIT_OK;
    return plait_fail(PLAIT_ERR_ARG, "plait_comm_create: %s is %g; 0 (%s holds) to %g seconds are allowed", name, value,
                      setting, most);
}

static enum plait_status check_options(const struct plait_comm_options *o)
{
    enum plait_status status = check_seconds("timeout", o->timeout, 1e6, "PLAIT_TIMEOUT");

    if (status == PLAIT_OK)
        status = check_seconds("deadline", o->deadline, 1e9, "PLAIT_DEADLINE");
    if (status == PLAIT_OK)
        status = check_seconds("warn", o->warn, INFINITY, "PLAIT_WARN");
    if (status != PLAIT_OK)
        return status;
    if ((unsigned)o->round > PLAIT_ROUND_HOP)
        return plait_fail(PLAIT_ERR_ARG, "plait_comm_create: round is %d, which is no enum plait_round", (int)o->round);
    status = plait_check_flag("plait_comm_create", "reproducible", o->reproducible);
    if (status == PLAIT_OK)
        status = plait_check_flag("plait_comm_create", "progress", o->progress);
    return status == PLAIT_OK ? plait_check_flag("plait_comm_create", "background", o->background) : status;
}

static enum plait_status join_algorithms(struct plait_comm *comm, const struct plait_alg *const *own)
{
    size_t n = 0, m = 0;

    for (; own != NULL && own[n] != NULL; n++)
        if (plait_alg_fault(own[n]) != NULL)
            return plait_fail(PLAIT_ERR_ARG, "plait_comm_create: options->algorithms[%zu] %s", n,
                              plait_alg_fault(own[n]));
    while (plait_algs[m] != NULL)
        m++;
    comm->algorithms = malloc((n + m + 1) * sizeof *comm->algorithms);
    if (comm->algorithms == NULL)
        return plait_fail_memory("out of memory for a comm");
    comm->nown_algorithms = n;
    for (size_t i = 0; i < n; i++)
        comm->algorithms[i] = own[i];
    for (size_t i = 0; i <= m; i++)
        comm->algorithms[n + i] = plait_algs[i];
    return PLAIT_OK;
}

/* All steps that need no other rank. They come first, so that a local failure cannot interrupt the rendezvous. */
static enum plait_status create_own(struct plait_comm *comm, const struct plait_comm_options *o)
{
    struct plait_topology topology;
    const struct plait_arena *arena;
    void *control;
    enum plait_status status = plait_config_load(&comm->config);

    if (status != PLAIT_OK)
        return status;
    explicit_bzero(comm->config.secret, sizeof comm->config.secret); /* no comm uses it */
    plait_topology_get(&topology);
    comm->cache = topology.l2;
    comm->last_level = topology.l3 > topology.l2 ? topology.l3 : topology.l2;
    comm->deadline = o->deadline > 0 ? o->deadline : comm->config.deadline;
    comm->warn = o->warn > 0 ? o->warn : comm->config.warn;
    comm->config.timeout = o->timeout > 0 ? o->timeout : comm->config.timeout;
    comm->reproducible = o->reproducible || comm->config.reproducible;
    comm->round = o->round;
    if (plait_is_paced(&comm->config.pace) && !comm->config.for_tests)
        return plait_fail(PLAIT_ERR_CONFIG,
                          "PLAIT_PACE is set, which slows every message down, and is for tests only: unset it, or set "
                          "PLAIT_FOR_TESTS=1 too");
    if (comm->config.hosts > 0 && !comm->config.for_tests)
        return plait_fail(PLAIT_ERR_CONFIG,
                          "PLAIT_HOSTS is set, which separates ranks that share memory, and is for tests only: unset "
                          "it, or set PLAIT_FOR_TESTS=1 too");
    plait_device_notice(&comm->config);
    comm->kernels = plait_kernels_find(comm->config.isa);
    if (comm->kernels == NULL)
        return plait_fail(PLAIT_ERR_CONFIG, "PLAIT_ISA is '%s', which this processor or build lacks", comm->config.isa);
    status = join_algorithms(comm, o->algorithms);
    if (status == PLAIT_OK)
        status = plait_arena_get(comm->config.arena, &arena);
    if (status == PLAIT_OK)
        status = plait_arena_alloc(plait_control_bytes(comm->nrank), &control);
    if (status != PLAIT_OK)
        return status;
    comm->own = control;
    comm->own->rank = comm->rank;
    comm->own->nrank = comm->nrank;
    memcpy(comm->own->name, comm->name, sizeof comm->own->name);
    plait_arena_show(&comm->own->shown);
    comm->drive = &plait_drive;
    comm->peers = calloc(comm->nrank, sizeof *comm->peers);
    comm->op_plans = calloc(PLAIT_NOP_PLAN, sizeof *comm->op_plans);
    comm->processes = calloc(comm->nrank, sizeof *comm->processes);
    comm->members = malloc(comm->nrank * sizeof *comm->members);
    comm->run = calloc(1, sizeof *comm->run);
    comm->node = o->node != NULL ? malloc(comm->nrank * sizeof *comm->node) : NULL;
    if (comm->peers == NULL || comm->op_plans == NULL || comm->processes == NULL || comm->members == NULL ||
        comm->run == NULL || (o->node != NULL && comm->node == NULL))
        return plait_fail_memory("out of memory for a comm of %u ranks", comm->nrank);
    comm->run->comm = comm;
    plait_requests_prepare(comm);
    if (o->node != NULL)
        memcpy(comm->node, o->node, comm->nrank * sizeof *comm->node);
    if (o->id != NULL)
        comm->id_bytes = *o->id;
    status = plait_slices_create(comm->nrank, &comm->slices);
    if (status == PLAIT_OK && (o->progress || comm->config.progress)) {
        status = plait_progress_thread_start();
        comm->progress = status == PLAIT_OK;
    }
    return status;
}

static void free_private(struct plait_comm *comm)
{
    for (uint32_t i = 0; comm->peers != NULL && i < comm->nrank * PLAIT_NCHANNEL; i++) {
        struct plait_link *link = comm->peers[i / PLAIT_NCHANNEL].link[i % PLAIT_NCHANNEL];
        if (link != NULL)
            link->transport->disconnect(link);
    }
    if (comm->port != NULL && !plait_port_is_quiet(comm->port))
        plait_port_close(comm->port);
    plait_device_comm_destroy(comm);
    plait_requests_forget(comm);
    for (uint32_t i = 0; comm->op_plans != NULL && i < PLAIT_NOP_PLAN; i++)
        free(comm->op_plans[i]);
    while (comm->progs != NULL) {
        struct plait_prog *next = comm->progs->next;
        plait_prog_destroy(comm->progs);
        comm->progs = next;
    }
    while (comm->tallies != NULL) {
        struct plait_tally *next = comm->tallies->next;
        free(comm->tallies);
        comm->tallies = next;
    }
    free(comm->op_plans);
    free(comm->slots);
    free(comm->run);
    plait_arena_free(comm->scaled);
    free(comm->algorithms);
    free(comm->node);
    plait_nodes_finish(&comm->nodes);
    free(comm->processes);
    free(comm->members);
    if (comm->progress)
        plait_progress_thread_stop();
}

/* An error-checking mutex knows its owner: see plait_comm_stats(). */
static void init_lock(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attr;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(lock, &attr);
    pthread_mutexattr_destroy(&attr);
}

struct plait_comm *plait_comm_allocate(const struct plait_comm_options *o)
{
    struct plait_comm *comm;

    plait_teardown(NULL);
    comm = calloc(1, sizeof *comm);

    if (comm == NULL)
        return NULL;
    comm->rank = o->rank; /* rank, nrank and name may be asked for during asynchronous creation */
    comm->nrank = o->nrank;
    snprintf(comm->name, sizeof comm->name, "%s", o->name != NULL ? o->name : "comm");
    comm->generation = plait_generation;
    comm->trials[false].results_alone = true;
    init_lock(&comm->lock);
    plait_comms_alive++;
    return comm;
}

void plait_comm_discard(struct plait_comm *comm)
{
    free_private(comm);
    plait_comm_release(comm);
    plait_comms_alive--;
}

/* Once per process. */
static void warn_of_pace(const struct plait_comm *comm)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    const struct plait_pace *pace = &comm->config.pace;

    if (comm->rank == 0 && plait_is_paced(pace) && !atomic_flag_test_and_set(&warned))
        plait_comm_log(
            comm, PLAIT_LOG_WARN,
            "slowed down for a test by PLAIT_PACE, as are the next ones: %g us per message, %g MB/s per link "
            "(0: no limit)",
            1e-3 * (double)pace->latency, 1e-6 * (double)pace->bandwidth);
}

/* comm NULL: memory was short; the rendezvous tells the other ranks. */
enum plait_status plait_comm_create_as(struct plait_comm *comm, const struct plait_comm_options *options,
                                       const struct plait_watch *watch)
{
    if (comm == NULL)
        return plait_meet(NULL, options, plait_fail_memory("out of memory for a comm"), watch);
    enum plait_status status = check_options(options);
    if (status == PLAIT_OK)
        status = create_own(comm, options);
    status = plait_meet(comm, options, status, watch);
    if (status == PLAIT_OK) {
        atomic_store_explicit(&comm->there, true, memory_order_release);
        comm->open = plait_generation;
        plait_comm_log(comm, PLAIT_LOG_INFO, "created, %u ranks", comm->nrank);
        warn_of_pace(comm);
    }
    return status;
}

/* ---- Creation as it is called ----------------------------------------------------------------------------- */

static enum plait_status create_now(const void *args, enum plait_status own, struct plait_comm **out)
{
    const struct plait_making *m = args;
    struct plait_comm *comm;
    enum plait_status status;

    if (own != PLAIT_OK)
        return plait_meet(NULL, &m->options, own, m->watch);
    comm = plait_comm_allocate(&m->options);
    status = plait_comm_create_as(comm, &m->options, m->watch);
    if (status == PLAIT_OK)
        *out = comm;
    else if (comm != NULL)
        plait_comm_discard(comm);
    return status;
}

enum plait_status plait_comm_make(const struct plait_comm_options *options, const struct plait_watch *watch,
                                  struct plait_comm **out)
{
    const struct plait_making m = { *options, watch };

    return plait_creation_needs_thread() ? plait_make_in_thread(create_now, &m, out) : create_now(&m, PLAIT_OK, out);
}

enum plait_status plait_comm_create(const struct plait_comm_options *options, struct plait_comm **out)
{
    const int saved = errno; /* system calls may fail inside a call that succeeds */
    enum plait_status status = check_identity(options, out);

    if (status != PLAIT_OK)
        return plait_refuse(status);
    if (plait_in_group())
        return plait_group_make(create_now, &(struct plait_making){ *options, NULL }, sizeof(struct plait_making), NULL,
                                out);
    status = options->background == 1 ? plait_async_creation_begin(options, out) : plait_comm_make(options, NULL, out);
    errno = saved;
    return status;
}

struct plait_comm_options plait_comm_options_of(const struct plait_comm *comm)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;

    o.name = comm->name;
    o.timeout = comm->config.timeout;
    o.deadline = comm->deadline;
    o.warn = comm->warn;
    o.reproducible = comm->reproducible;
    o.round = comm->round;
    o.progress = comm->progress;
    return o;
}

/* ---- Destruction ---------------------------------------------------------------------------------------- */

/*
 * Would the network lose anything for `rank` if this rank left now: a message that it has not acknowledged, or this
 * rank's acknowledgement of its messages? A rank that has left needs neither.
 */
static bool has_mail(const struct plait_comm *comm, uint32_t rank)
{
    return comm->port != NULL &&
           !(plait_port_is_taken(comm->port, rank, PLAIT_CHANNEL_MESSAGES) &&
             plait_port_is_taken(comm->port, rank, PLAIT_CHANNEL_DEVICE_MESSAGES) &&
             !plait_port_owes(comm->port, rank)) &&
           !atomic_load_explicit(&comm->peers[rank].control->departed, memory_order_acquire);
}

static uint32_t unfinished(const void *context, uint32_t *ranks, uint32_t most)
{
    const struct plait_comm *comm = context;
    uint32_t n = 0;

    for (uint32_t r = 0; r < comm->nrank && n < most; r++)
        if (atomic_load_explicit(&comm->peers[r].control->done, memory_order_acquire) < comm->sequence ||
            has_mail(comm, r))
            ranks[n++] = r;
    return n;
}

/* Wait until all ranks have finished the operations that this rank has finished: then nobody reads its memory. */
static enum plait_status wait_for_readers(struct plait_comm *comm)
{
    struct plait_wait w;
    enum plait_status status = PLAIT_OK;
    uint32_t rank;

    plait_wait_init(&w, NULL, unfinished, comm);
    comm->limit = 0;
    while (status == PLAIT_OK && unfinished(comm, &rank, 1) > 0) {
        plait_network_turn(comm);
        status = plait_wait_turn(comm, &w);
    }
    plait_wait_progress(comm, &w);
    if (status == PLAIT_OK)
        status = plait_look_at_past_calls(comm);
    return status == PLAIT_OK ? plait_look_for_failures(comm) : status;
}

enum plait_status plait_comm_settle(struct plait_comm *comm)
{
    plait_requests_finish(comm);
    plait_device_settle(comm);
    plait_remote_tell(comm->remote); /* send `done` to other hosts, whose ranks wait for it too */
    const enum plait_status status = (enum plait_status)atomic_load(&comm->own->failed);
    return status == PLAIT_OK ? wait_for_readers(comm) : status;
}

/*
 * Is the rank in an operation that may still read this rank's buffers? Its comm's failure does not answer that: another
 * thread of its process may have called abort.
 */
static bool is_inside(const struct plait_comm *comm, uint32_t rank)
{
    const struct plait_control *c = comm->peers[rank].control;
    const uint64_t next = atomic_load(&c->done) + 1;

    return ((uint32_t)atomic_load(&plait_ring_record(&c->ring, next)->word) == (uint32_t)next ||
            atomic_load(&c->receiving)) &&
           !atomic_load(&c->noticed) && !atomic_load(&c->departed) && atomic_load(&c->id) == comm->id;
}

/*
 * After a failure, wait until the ranks inside an operation have noticed it: milliseconds, or one copy or reduction.
 *
 * Ranks in threads of this process read the caller's memory directly. No thread dies alone, so there is no time limit.
 * Ranks of another process read the arena, which stays mapped, and the caller's memory by process_vm_readv(), which
 * returns an error for unmapped memory. Their reads land in buffers of a failed operation, and they check for failures
 * before they report success. So giving up on a stopped process after MOST_PATIENCE risks no fault and no wrong sum.
 */
static void wait_for_insiders(struct plait_comm *comm)
{
    const double until = plait_clock() + MOST_PATIENCE;

    for (uint32_t r = 0; r < comm->nrank; r++) {
        const struct plait_process *p = comm->peers[r].process;
        while (r != comm->rank && p != NULL && is_inside(comm, r) &&
               (p->base == NULL || (!plait_process_dead(p) && plait_clock() < until)))
            if (!plait_progress()) /* the rank may belong to this thread */
                usleep(200);
    }
}

enum plait_status plait_comm_destroy(struct plait_comm *comm)
{
    const int saved = errno;
    enum plait_status status;

    if (comm != NULL && comm->async_creation != NULL && !plait_comm_inherited(comm)) {
        if (plait_async_creation_end(comm) != PLAIT_OK) { /* plait_comm_status() reports that error */
            plait_comm_discard(comm);
            return PLAIT_OK;
        }
    }
    if (comm == NULL || plait_comm_inherited(comm)) /* a forked child leaves its parent's comm alone */
        return PLAIT_OK;
    status = plait_comm_is_inside(comm, "plait_comm_destroy");
    if (status != PLAIT_OK)
        return status;
    status = plait_comm_settle(comm);
    if (status != PLAIT_OK)
        plait_comm_tell_failure(comm, comm->own->failure, comm->own->culprit);
    if (status != PLAIT_OK || plait_device_leaves_some(comm)) {
        plait_device_settle(comm); /* again: the comm may have failed since plait_comm_settle() */
        wait_for_insiders(comm);
    }
    if (status != PLAIT_OK)
        plait_fail(status, "%s", comm->own->failure);
    plait_comm_log(comm, PLAIT_LOG_INFO, "left after %llu operations",
                   (unsigned long long)atomic_load_explicit(&comm->own->done, memory_order_relaxed));
    free_private(comm);
    plait_remote_depart(comm->remote);
    plait_teardown(comm);
    plait_comms_alive--;
    errno = saved;
    return status;
}

enum plait_status plait_comm_abort(struct plait_comm *comm, const char *reason)
{
    if (comm == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_comm_abort: comm is NULL");
    if (plait_comm_inherited(comm))
        return plait_comm_is_closed(comm, "plait_comm_abort");
    if (!plait_comm_uncreated(comm) || !plait_async_creation_abort(comm))
        plait_comm_announce_abort(comm, reason, false);
    return PLAIT_OK;
}

void plait_comm_stats(const struct plait_comm *comm, struct plait_comm_stats *out)
{
    if (out == NULL)
        return;
    memset(out, 0, sizeof *out);
    if (comm == NULL)
        return;
    const bool locked = plait_comm_look(comm);
    *out = comm->stats;
    out->wakes = atomic_load_explicit(&comm->wakes, memory_order_relaxed);
    out->plan_hash = comm->last != NULL ? comm->last->selection.plan_hash : 0;
    plait_comm_looked(comm, locked);
}
