/* SPDX-License-Identifier: BSD-3-Clause */
#include "life.h"

#include "base/descriptor.h"
#include "base/status.h"
#include "bootstrap/bootstrap.h"
#include "comm/port.h"
#include "failure/failure.h"
#include "failure/remote/remote.h"
#include "machine/locality.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* State that lives for one rendezvous. */
struct connecting {
    const struct plait_arena *arena;
    struct plait_card own, *all;   /* [nrank] */
    uint32_t *node;                /* [nrank] ranks of a node share memory; nodes are numbered by their first ranks */
    uint32_t nnode, first;         /* number of nodes; lowest rank of this one */
    bool *leads;                   /* [nrank] is it its process's leader? */
    int (*fds)[PLAIT_COMM_SHARES]; /* [nrank] received from leaders: arena, pidfd */
    int given[PLAIT_COMM_SHARES];  /* this process's; given[1] < 0: not open */
    const void *address;           /* of this rank in the network */
    void *stage;                   /* of a calibration; the other rank may read it until the last agreement */
};

/* The leader of a process is its lowest rank; it exchanges descriptors for the process. */
static bool is_leader(const struct connecting *m, uint32_t rank)
{
    for (uint32_t r = 0; r < rank; r++)
        if (m->node[r] == m->node[rank] && plait_is_same_token(m->all[r].process, m->all[rank].process))
            return false;
    return true;
}

/*
 * A pidfd, by which peers detect this process's death. Old kernels and seccomp filters may refuse one. Then a copy of
 * `instead` is passed, which no peer keeps, and a death shows only as a stall.
 */
static int open_pidfd(int instead, bool *out)
{
    static const char purpose[] = "the others to see this process die";
    const int fd = plait_descriptor_keep((int)syscall(SYS_pidfd_open, getpid(), 0), purpose);

    *out = fd >= 0 || errno == EMFILE || errno == ENFILE || errno == ENOMEM;
    return *out ? fd : plait_descriptor_keep(fcntl(instead, F_DUPFD_CLOEXEC, 0), purpose);
}

static enum plait_status begin(struct connecting *m, const struct plait_comm *comm)
{
    enum plait_status status = plait_arena_get(&m->arena);

    if (status == PLAIT_OK)
        status = plait_descriptor_check(m->arena->fd);
    if (status == PLAIT_OK)
        status = plait_card_fill(comm, m->arena, &m->own);
    if (status != PLAIT_OK)
        return status;
    m->all = calloc(comm->nrank, sizeof *m->all);
    m->node = calloc(comm->nrank, sizeof *m->node);
    m->leads = calloc(comm->nrank, sizeof *m->leads);
    m->fds = malloc(comm->nrank * sizeof *m->fds);
    if (m->all == NULL || m->node == NULL || m->leads == NULL || m->fds == NULL)
        return plait_fail_memory("out of memory for a comm of %u ranks", comm->nrank);
    m->given[0] = m->arena->fd;
    m->given[1] = open_pidfd(m->arena->fd, &m->own.has_pidfd);
    if (m->given[1] < 0)
        return plait_fail_errno(errno, "no descriptor through which other processes see this one die");
    return PLAIT_OK;
}

static void end(struct connecting *m, const struct plait_comm *comm)
{
    plait_descriptor_close(m->given[1]);
    free(m->all);
    if (comm == NULL || m->node != comm->node)
        free(m->node);
    plait_arena_free(m->stage);
    free(m->leads);
    free(m->fds);
}

/*
 * Ranks that can pass each other descriptors form a node. In tests, PLAIT_HOSTS says how many nodes there are. They are
 * the nodes of plans, unless the caller has said others.
 */
static void find_nodes(struct plait_comm *comm, struct plait_bootstrap *boot, struct connecting *m)
{
    const uint64_t hosts = comm->config.hosts < comm->nrank ? comm->config.hosts : comm->nrank;

    for (uint32_t r = 0; r < comm->nrank; r++) {
        m->node[r] = hosts > 1 ? (uint32_t)(r * hosts / comm->nrank) : plait_node_of(plait_bootstrap_nodes(boot), r);
        m->nnode = m->node[r] >= m->nnode ? m->node[r] + 1 : m->nnode;
    }
    while (m->node[m->first] != m->node[comm->rank])
        m->first++;
    if (m->nnode > 1 && comm->node == NULL)
        comm->node = m->node;
}

/*
 * Find where this rank's processors lie, and bind it where PLAIT_BIND says so. One rank on a single host needs neither:
 * no level divides it.
 */
static void locate(const struct plait_comm *comm, struct connecting *m)
{
    struct plait_locality at = { .package = PLAIT_NOWHERE, .memory = PLAIT_NOWHERE, .cache = PLAIT_NOWHERE };
    uint32_t index = 0, of = 0;

    for (uint32_t r = 0; r < comm->nrank; r++) {
        index += r < comm->rank && m->node[r] == m->node[comm->rank];
        of += m->node[r] == m->node[comm->rank];
    }
    if (of > 1)
        plait_locate(&comm->config, index, of, &at);
    if (of > 1 && at.text[0] != '\0')
        plait_comm_log(comm, PLAIT_LOG_INFO, "%s", at.text);
    if (of > 1 && comm->config.bind != PLAIT_BIND_NONE)
        sched_getaffinity(0, sizeof m->own.cpus, &m->own.cpus);
    m->own.place[0] = at.package;
    m->own.place[1] = at.memory;
    m->own.place[2] = at.cache;
}

/* Say which other rank of this host is bound to the one processor of this rank, although there are enough. */
static void advise(const struct plait_comm *comm, const struct connecting *m)
{
    const struct plait_card *own = &m->all[comm->rank];
    uint32_t r = 0;

    while (r < comm->rank && (m->node[r] != m->node[comm->rank] || !CPU_EQUAL(&m->all[r].cpus, &own->cpus)))
        r++;
    if (r < comm->rank && CPU_COUNT(&own->cpus) == 1 && sysconf(_SC_NPROCESSORS_ONLN) >= (long)comm->nrank)
        plait_comm_log(comm, PLAIT_LOG_INFO,
                       "ranks %u and %u are bound to one processor: bind each to its own (PLAIT_BIND=core, or mpirun "
                       "--bind-to core)",
                       r, comm->rank);
}

/* Leaders exchange arena descriptors and pidfds and map the arenas. The other ranks map in find_controls(). */
static enum plait_status share_arenas(struct plait_comm *comm, struct plait_bootstrap *boot, struct connecting *m)
{
    for (uint32_t r = 0; r < comm->nrank; r++)
        m->leads[r] = is_leader(m, r);
    enum plait_status status = plait_bootstrap_share(boot, m->leads, m->given, PLAIT_COMM_SHARES, &m->fds[0][0]);
    for (uint32_t r = 0; r < comm->nrank; r++) {
        if (status == PLAIT_OK && m->leads[comm->rank] && m->leads[r] && m->node[r] == m->node[comm->rank])
            status = plait_process_get(m->all[r].process, m->all[r].pid, m->all[r].arena_size, m->fds[r][0],
                                       m->all[r].has_pidfd ? m->fds[r][1] : -1, &comm->peers[r].process);
        for (unsigned i = 0; i < PLAIT_COMM_SHARES; i++)
            plait_descriptor_close(m->fds[r][i]);
    }
    return plait_bootstrap_agree(boot, status);
}

/* Warn, once per process, if a rank of this host shares no memory with this one. */
static void warn_of_strangers(const struct plait_comm *comm, const struct connecting *m)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    const uint64_t host = m->all[comm->rank].host;
    uint32_t r = 0;

    while (r < comm->rank && (m->all[r].host != host || m->node[r] == m->node[comm->rank]))
        r++;
    if (r < comm->rank && host != 0 && comm->config.hosts <= 1 && !atomic_flag_test_and_set(&warned))
        plait_log(
            PLAIT_LOG_WARN,
            "ranks %u and %u are on one host but share no memory, so that messages between them go over the network: "
            "they are in different network name spaces, probably of different containers. Start the containers "
            "with one (docker run --network host, or one pod with a container for all ranks)",
            r, comm->rank);
}

/*
 * The fewest processors of a node that has more ranks; 0: none has. Only processors in the ranks' affinity masks count,
 * so ranks that are bound to one processor each are not too many.
 */
static uint32_t too_few_processors(const struct plait_comm *comm, const struct connecting *m)
{
    uint32_t fewest = 0;

    for (uint32_t node = 0; node < m->nnode; node++) {
        cpu_set_t cpus;
        uint32_t n = 0;
        CPU_ZERO(&cpus);
        for (uint32_t r = 0; r < comm->nrank; r++)
            if (m->node[r] == node) {
                CPU_OR(&cpus, &cpus, &m->all[r].cpus);
                n++;
            }
        const uint32_t ncpu = (uint32_t)CPU_COUNT(&cpus);
        if (ncpu > 0 && n > ncpu && (fewest == 0 || ncpu < fewest))
            fewest = ncpu;
    }
    return fewest;
}

/* Find every rank's control block in the mapped arenas. Of a rank on another node it is a local replica. */
static enum plait_status find_controls(struct plait_comm *comm, const struct connecting *m)
{
    const struct plait_card *all = m->all;
    enum plait_status status = PLAIT_OK;

    for (uint32_t r = 0; r < comm->nrank && status == PLAIT_OK; r++) {
        struct plait_peer *p = &comm->peers[r];
        if (m->node[r] != m->node[comm->rank]) {
            p->replica = plait_replica_create(comm->id, r, comm->nrank, comm->name);
            if (p->replica == NULL)
                return plait_fail_memory("out of memory for the replica of rank %u", r);
            p->replica->pid = all[r].pid;
            p->control = &p->replica->control;
            continue;
        }
        if (p->process == NULL)
            status = plait_process_get(all[r].process, all[r].pid, all[r].arena_size, -1, -1, &p->process);
        if (status != PLAIT_OK)
            break;
        p->control = plait_process_at(p->process, all[r].control);
        if (p->process->pidfd >= 0 && m->leads[r])
            comm->processes[comm->nprocess++] = (struct pollfd){ .fd = p->process->pidfd, .events = POLLIN };
    }
    comm->processors = too_few_processors(comm, m);
    return status;
}

/* ---- Several hosts --------------------------------------------------------------------------------------- */

/* Open the network to ranks of other hosts. */
static enum plait_status open_port(struct plait_comm *comm, struct plait_bootstrap *boot, struct connecting *m)
{
    enum plait_status status = plait_port_open(comm, NULL, plait_bootstrap_nodes(boot)->devices);

    if (status != PLAIT_OK)
        return status;
    m->address = plait_port_address(comm->port, &m->own.address);
    snprintf(m->own.network, sizeof m->own.network, "%s", plait_port_version(comm->port));
    gethostname(m->own.hostname, sizeof m->own.hostname - 1);
    return PLAIT_OK;
}

/* Create the thread that receives other hosts' control-plane updates, and lead the port to the ranks there. */
static enum plait_status lead_port(struct plait_comm *comm, struct plait_bootstrap *boot, const struct connecting *m,
                                   enum plait_status status)
{
    const uint32_t n = comm->nrank;
    size_t most = 0;

    for (uint32_t r = 0; r < n; r++)
        most = m->all[r].address > most ? m->all[r].address : most;
    char *all = calloc(n + 1, most); /* the last one is the copy that this rank sends */
    if (all == NULL && status == PLAIT_OK)
        status = plait_fail_memory("out of memory for the addresses of %u ranks", n);
    if (status == PLAIT_OK)
        status = plait_remote_create(comm, &comm->remote);
    if (all != NULL)
        memcpy(all + n * most, m->address, m->own.address);
    status = plait_bootstrap_allgather(boot, status, all != NULL ? all + n * most : NULL, most, all);
    for (uint32_t r = 0; r < n && status == PLAIT_OK; r++)
        if (m->node[r] != m->node[comm->rank]) {
            memcpy(comm->peers[r].replica->host, m->all[r].hostname, sizeof m->all[r].hostname);
            status = plait_port_lead(comm->port, r, all + r * most, m->all[r].address);
        }
    free(all);
    return status;
}

/* The rendezvous's sockets stay open, for control-plane updates. */
static void keep_sockets(struct plait_comm *comm, struct plait_bootstrap *boot, struct connecting *m)
{
    int *sockets = &m->fds[0][0]; /* reused: large enough, and its descriptors are closed */

    plait_bootstrap_take_sockets(boot, sockets);
    plait_remote_begin(comm->remote, sockets);
}

/* Can this rank read the memory of every other process by CMA? A read of 0 bytes reads only the arena's token. */
static bool can_read_all(const struct plait_comm *comm)
{
    for (uint32_t r = 0; r < comm->nrank; r++) {
        const struct plait_process *p = comm->peers[r].process;
        const int error = p->base != NULL ? plait_process_read(p, 0, NULL, 0) : 0;
        if (error == 0)
            continue;
        plait_comm_log(comm, PLAIT_LOG_INFO,
                       "memory of rank %u (process %d) cannot be read through the kernel (process_vm_readv: %s): what "
                       "others send to this rank from memory that is not plait_mem_alloc()'s is copied once more",
                       r, p->pid, strerror(error));
        return false;
    }
    return true;
}

#define RESULT_CACHES 4 /* caches of a core, see below */

static enum plait_status join(struct plait_comm *comm, struct plait_bootstrap *boot, struct connecting *m)
{
    const struct plait_card *all = m->all;

    find_nodes(comm, boot, m);
    locate(comm, m);
    enum plait_status status = m->nnode > 1 ? open_port(comm, boot, m) : PLAIT_OK;
    status = plait_bootstrap_allgather(boot, status, &m->own, sizeof m->own, m->all);

    if (status == PLAIT_OK)
        status = plait_cards_check(all, comm->nrank);
    if (status != PLAIT_OK)
        return status;
    warn_of_strangers(comm, m);
    advise(comm, m);
    comm->id = all[0].id;
    atomic_store_explicit(&comm->own->id, comm->id, memory_order_relaxed); /* peers read it after the next agreement */
    comm->cache = all[0].cache;
    comm->last_level = all[0].last_level;
    /*
     * Staging memory per slice in flight: 3/4 of a core's L2, so three times the L2 over all four. Slices of a quarter
     * of the L2 use it in rotation. So the cache lines of a part have left the readers' caches before it is written
     * again. Limit: half the last-level cache for all ranks together.
     */
    comm->slice_bytes = comm->last_level / (2 * PLAIT_NSLICE * comm->nrank);
    if (comm->slice_bytes > comm->cache / 4 * 3)
        comm->slice_bytes = comm->cache / 4 * 3;
    /* Results stay in caches while inputs and results of all ranks fit the last one, or a few L2 (large machines). */
    comm->streams_from = comm->last_level / (2 * (size_t)comm->nrank);
    if (comm->streams_from < RESULT_CACHES * comm->cache)
        comm->streams_from = RESULT_CACHES * comm->cache;
    status = share_arenas(comm, boot, m);
    if (status != PLAIT_OK)
        return status;
    status = find_controls(comm, m);
    if (status == PLAIT_OK)
        status = plait_levels_find(comm, all, m->node);
    if (status == PLAIT_OK && comm->config.cma && m->nnode == 1)
        atomic_store_explicit(&comm->own->reads, can_read_all(comm), memory_order_relaxed);
    if (status == PLAIT_OK)
        m->stage = plait_speeds_time(comm, all, m->node, m->first);
    if (m->nnode > 1)
        status = lead_port(comm, boot, m, status);
    status = plait_speeds_agree(comm, boot, m->first, status);
    if (status == PLAIT_OK && m->nnode > 1)
        keep_sockets(comm, boot, m);
    return status;
}

enum plait_status plait_comm_connect(struct plait_comm *comm, const struct plait_comm_options *o, enum plait_status own,
                                     const struct plait_watch *watch)
{
    struct connecting m = { .given = { -1, -1 } };
    struct plait_bootstrap *boot = NULL;
    const double timeout = o->timeout > 0 || (own != PLAIT_OK && comm == NULL) ? o->timeout : comm->config.timeout;
    enum plait_status status;

    if (own == PLAIT_OK)
        own = begin(&m, comm);
    plait_frame_watch(watch);
    status = plait_bootstrap_create(o->id, o->rank, o->nrank, timeout, own, &boot);
    if (own == PLAIT_OK && status == PLAIT_OK)
        status = join(comm, boot, &m);
    if (own == PLAIT_OK && status == PLAIT_OK) {
        comm->nodes = *plait_bootstrap_nodes(boot);
        *plait_bootstrap_nodes(boot) = (struct plait_nodes){ 0 };
    }
    plait_bootstrap_destroy(boot);
    plait_frame_unwatch();
    end(&m, comm);
    return status;
}
