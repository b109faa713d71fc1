/* SPDX-License-Identifier: BSD-3-Clause */
/* Creation of a comm up to the rendezvous (connect.c), in the caller's thread or in one of its own. */
#include "life.h"

#include "base/status.h"
#include "bootstrap/frame.h"
#include "call/call.h"
#include "engine/prog.h"
#include "failure/failure.h"
#include "memory/devices.h"
#include "operation/operation.h"
#include "progress/progress.h"

#include <plait/topology.h>
#include <plait/version.h>

#include <errno.h>
#include <math.h>

/* Check the options that the rendezvous itself needs: without them no error can be told to other ranks. */
static enum plait_status check_identity(const struct plait_comm_options *o, struct plait_comm **out)
{
    const enum plait_status status =
        plait_check_struct("plait_comm_create", "options", o, sizeof *o, "PLAIT_COMM_OPTIONS_DEFAULT");

    if (status != PLAIT_OK)
        return status;
    if (out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_comm_create: out is NULL");
    if (o->nrank < 1 || o->nrank > PLAIT_MAX_RANKS)
        return plait_fail(PLAIT_ERR_ARG, "plait_comm_create: nrank is %u; 1 to %d are allowed", o->nrank,
                          PLAIT_MAX_RANKS);
    if (o->rank >= o->nrank)
        return plait_fail(PLAIT_ERR_ARG, "plait_comm_create: rank is %u, but nrank is %u", o->rank, o->nrank);
    if (o->id == NULL && o->nrank > 1)
        return plait_fail(PLAIT_ERR_ARG, "plait_comm_create: id is NULL, but nrank is %u", o->nrank);
    return PLAIT_OK;
}

static enum plait_status check_options(const struct plait_comm_options *o)
{
    static const char call[] = "plait_comm_create";
    const struct {
        const char *name, *setting; /* that holds when the value is 0 */
        double value, most;
    } seconds[] = {
        { "timeout", "PLAIT_TIMEOUT", o->timeout, 1e6 },
        { "deadline", "PLAIT_DEADLINE", o->deadline, 1e9 },
        { "warn", "PLAIT_WARN", o->warn, INFINITY },
    };

    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++)
        if (!(seconds[i].value >= 0 && seconds[i].value <= seconds[i].most))
            return plait_fail(PLAIT_ERR_ARG, "%s: %s is %g; 0 (%s holds) to %g seconds are allowed", call,
                              seconds[i].name, seconds[i].value, seconds[i].setting, seconds[i].most);
    if ((unsigned)o->round > PLAIT_ROUND_HOP)
        return plait_fail(PLAIT_ERR_ARG, "%s: round is %d, which is no enum plait_round", call, (int)o->round);
    enum plait_status status = plait_check_flag(call, "reproducible", o->reproducible);
    if (status == PLAIT_OK)
        status = plait_check_flag(call, "progress", o->progress);
    return status == PLAIT_OK ? plait_check_flag(call, "background", o->background) : status;
}

/* Settings that slow everything down are refused outside of tests. */
static enum plait_status check_for_tests(const struct plait_config *config)
{
    const char *what = plait_is_paced(&config->pace) ? "PLAIT_PACE is set, which slows every message down"
                       : config->hosts > 0           ? "PLAIT_HOSTS is set, which separates ranks that share memory"
                                                     : NULL;

    if (what == NULL || config->for_tests)
        return PLAIT_OK;
    return plait_fail(PLAIT_ERR_CONFIG, "%s, and is for tests only: unset it, or set PLAIT_FOR_TESTS=1 too", what);
}

static enum plait_status join_algorithms(struct plait_comm *comm, const struct plait_alg *const *own)
{
    const struct plait_alg *const *known;
    size_t n = 0, m = 0;
    const enum plait_status status = plait_alg_list(&known);

    if (status != PLAIT_OK)
        return status;
    for (; own != NULL && own[n] != NULL; n++)
        if (plait_alg_fault(own[n]) != NULL)
            return plait_fail(PLAIT_ERR_ARG, "plait_comm_create: options->algorithms[%zu] %s", n,
                              plait_alg_fault(own[n]));
    while (known[m] != NULL)
        m++;
    comm->algorithms = malloc((n + m + 1) * sizeof *comm->algorithms);
    if (comm->algorithms == NULL)
        return plait_fail_memory("out of memory for a comm");
    comm->nown_algorithms = n;
    for (size_t i = 0; i < n; i++)
        comm->algorithms[i] = own[i];
    for (size_t i = 0; i <= m; i++)
        comm->algorithms[n + i] = known[i];
    return PLAIT_OK;
}

/* These steps come first, so that a local failure cannot interrupt the rendezvous. */
static enum plait_status prepare(struct plait_comm *comm, const struct plait_comm_options *o)
{
    struct plait_topology topology;
    void *control;
    enum plait_status status = check_options(o);

    if (status == PLAIT_OK)
        status = plait_config_load(&comm->config);
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
    status = check_for_tests(&comm->config);
    if (status != PLAIT_OK)
        return status;
    plait_device_notice(&comm->config);
    comm->kernels = plait_kernels_find(comm->config.isa);
    if (comm->kernels == NULL)
        return plait_fail(PLAIT_ERR_CONFIG, "PLAIT_ISA is '%s', which this processor or build lacks", comm->config.isa);
    status = join_algorithms(comm, o->algorithms);
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
    comm->processes = calloc(comm->nrank, sizeof *comm->processes);
    comm->members = malloc(comm->nrank * sizeof *comm->members);
    comm->run = calloc(1, sizeof *comm->run);
    comm->node = o->node != NULL ? malloc(comm->nrank * sizeof *comm->node) : NULL;
    if (comm->peers == NULL || comm->processes == NULL || comm->members == NULL || comm->run == NULL ||
        (o->node != NULL && comm->node == NULL))
        return plait_fail_memory("out of memory for a comm of %u ranks", comm->nrank);
    comm->run->comm = comm;
    comm->run->space = &plait_host_space;
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

static struct plait_comm *allocate(const struct plait_comm_options *o)
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
    comm->lock = (pthread_mutex_t)PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP; /* knows its owner: plait_comm_stats() */
    return comm;
}

static enum plait_status meet(struct plait_comm *comm, const struct plait_comm_options *options, enum plait_status own,
                              const struct plait_watch *watch)
{
    const enum plait_status status = plait_comm_connect(comm, options, own, watch);

    if (status == PLAIT_OK) {
        atomic_store_explicit(&comm->there, true, memory_order_release);
        comm->open = plait_generation;
        char levels[96] = "";
        for (uint32_t l = 0; l < comm->nlevel; l++)
            plait_append(levels, sizeof levels, "%s%s", l > 0 ? ", " : ", levels: ", comm->level_names[l]);
        plait_comm_log(comm, PLAIT_LOG_INFO,
                       "created, ranks: %u, hosts: %u%s, Plait %s, shared memory%s, algorithms %s", comm->nrank,
                       comm->nodes.n > 1 ? comm->nodes.n : 1, levels, plait_version(),
                       comm->remote != NULL ? " and UCX between hosts" : "",
                       comm->config.algo[0] != '\0' ? comm->config.algo : "chosen by the library");
    } else if (comm->id != 0) {
        /*
         * The creation may succeed on another rank, which had this rank's last agreement before this rank was aborted
         * or timed out. That rank finds the failure in this rank's control block, as that of any operation.
         */
        plait_announce_failure(comm, status, plait_last_error(), 0);
    }
    return status;
}

/* ---- Creation as it is called ----------------------------------------------------------------------------- */

static enum plait_status create(const struct plait_comm_options *options, enum plait_status own,
                                const struct plait_watch *watch, struct plait_comm **out)
{
    struct plait_comm *comm = own == PLAIT_OK ? allocate(options) : NULL;

    if (own == PLAIT_OK && comm == NULL)
        own = plait_fail_memory("out of memory for a comm");
    if (own != PLAIT_OK)
        return plait_comm_connect(NULL, options, own, watch);
    const enum plait_status status = meet(comm, options, prepare(comm, options), watch);
    if (status == PLAIT_OK)
        *out = comm;
    else
        plait_comm_discard(comm);
    return status;
}

static enum plait_status create_in_group(const void *options, enum plait_status own, struct plait_comm **out)
{
    return create(options, own, NULL, out);
}

enum plait_status plait_comm_make(const struct plait_comm_options *options, enum plait_status own,
                                  const struct plait_watch *watch, struct plait_comm **out)
{
    const bool drives = atomic_load_explicit(&plait_nactive, memory_order_relaxed) > 0;

    if (drives) /* other ranks may wait for pending operations before they join */
        plait_frame_drive(plait_progress);
    const enum plait_status status = create(options, own, watch, out);
    if (drives)
        plait_frame_drive(NULL);
    return status;
}

/* ---- Asynchronous creation: a thread of its own meets the other ranks -------------------------------------- */

struct plait_async_creation {
    struct plait_comm_options options; /* only what plait_comm_connect() needs: the caller's arrays may be gone */
    struct plait_unique_id id;
    struct plait_error own; /* this rank's error, before it meets the others */
    pthread_t thread;
    atomic_bool cancelled; /* by plait_comm_abort() or destroy; the rendezvous polls the flag */
    atomic_bool aborted;   /* by plait_comm_abort() */
    atomic_bool over;      /* the result is final */
    struct plait_error result;
};

static enum plait_status check_cancelled(const void *context)
{
    const struct plait_async_creation *a = context;

    return atomic_load(&a->cancelled) ? plait_fail(PLAIT_ERR_FAILED, "comm creation: aborted on this rank") : PLAIT_OK;
}

static void *create_in_thread(void *arg)
{
    struct plait_comm *comm = arg;
    struct plait_async_creation *a = comm->async_creation;
    const struct plait_watch watch = { check_cancelled, a };

    a->result = plait_error_of(meet(comm, &a->options, plait_restore_error(&a->own), &watch));
    atomic_store(&a->over, true);
    if (a->result.status == PLAIT_OK &&
        atomic_load(&a->aborted)) /* abort came after the rendezvous last polled the flag */
        plait_comm_announce_abort(comm, "while it was created", false);
    return NULL;
}

static enum plait_status begin_async(const struct plait_comm_options *options, struct plait_comm **out)
{
    struct plait_comm *comm = allocate(options);
    struct plait_async_creation *a = comm != NULL ? calloc(1, sizeof *a) : NULL;
    int error = ENOMEM;

    if (a != NULL) {
        comm->async_creation = a;
        a->options = *options;
        a->options.id = options->id != NULL ? &a->id : NULL;
        if (options->id != NULL)
            a->id = *options->id;
        a->own = plait_error_of(prepare(comm, options));
        error = plait_thread_start(&a->thread, create_in_thread, comm);
    }
    if (error == 0) {
        *out = comm;
        return PLAIT_OK;
    }
    if (comm != NULL) {
        comm->async_creation = NULL;
        plait_comm_discard(comm);
    }
    free(a);
    /* The other ranks wait for this one: tell them of the error. */
    return plait_comm_make(options, plait_fail_errno(error, "no thread to create a comm in the background"), NULL, out);
}

bool plait_async_creation_abort(struct plait_comm *comm)
{
    atomic_store(&comm->async_creation->aborted, true);
    atomic_store(&comm->async_creation->cancelled, true);
    return plait_comm_uncreated(comm);
}

enum plait_status plait_async_creation_end(struct plait_comm *comm)
{
    struct plait_async_creation *a = comm->async_creation;

    atomic_store(&a->cancelled, true);
    pthread_join(a->thread, NULL);
    const enum plait_status status = a->result.status;
    comm->async_creation = NULL;
    free(a);
    return status;
}

enum plait_status plait_comm_status(struct plait_comm *comm)
{
    if (comm == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_comm_status: comm is NULL");
    if (plait_comm_inherited(comm))
        return plait_comm_is_closed(comm, "plait_comm_status");
    const struct plait_async_creation *a = comm->async_creation;
    if (a != NULL && !atomic_load_explicit(&a->over, memory_order_acquire))
        return PLAIT_IN_PROGRESS;
    if (a != NULL && a->result.status != PLAIT_OK)
        return plait_restore_error(&a->result);
    /* A rank that waits notices other ranks' failures. This rank may not be waiting, so look now. */
    const struct plait_control *failed = comm->own;
    for (uint32_t r = 0; r < comm->nrank && atomic_load(&failed->failed) == PLAIT_OK; r++)
        failed = comm->peers[r].control;
    const enum plait_status status = (enum plait_status)atomic_load(&failed->failed);
    if (status == PLAIT_OK)
        return PLAIT_OK;
    if (failed != comm->own)
        plait_announce_failure(comm, status, failed->failure, failed->culprit);
    return plait_fail(status, "%s", comm->own->failure);
}

/* ---- The call ----------------------------------------------------------------------------------------------- */

enum plait_status plait_comm_create(const struct plait_comm_options *options, struct plait_comm **out)
{
    const int saved = errno; /* system calls may fail inside a call that succeeds */
    enum plait_status status = check_identity(options, out);

    if (status != PLAIT_OK)
        return plait_refuse(status);
    if (plait_in_group())
        return plait_group_make(create_in_group, options, sizeof *options, NULL, out);
    status = options->background == 1 ? begin_async(options, out) : plait_comm_make(options, PLAIT_OK, NULL, out);
    errno = saved;
    return status;
}
