/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes an id from the variables of a launcher. */
#include "base/clock.h"
#include "base/config.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/status.h"
#include "bootstrap/frame.h"
#include "bootstrap/id.h"
#include "launcher.h"
#include "plugin/plugin.h"

#include <plait/launch.h>

#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_TEXT 2048   /* bytes of the text that identifies a job */
#define NPORT     8      /* candidate ports of a job */
#define ASK_EVERY 200000 /* us between lookups of a host's address */

/* ---- Where rank 0 is ------------------------------------------------------------------------------------- */

/*
 * Add the addresses of a host, or return an error of getaddrinfo(). The lookup is repeated for `seconds`: a container's
 * name may become known only some time after other containers have started.
 */
static int resolve(const char *host, double seconds, struct plait_hosts *out)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    const double start = plait_clock();
    struct addrinfo *all;
    int error;

    while ((error = getaddrinfo(host, NULL, &hints, &all)) != 0 && plait_clock() - start < seconds &&
           !plait_interrupted())
        usleep(ASK_EVERY);
    if (error != 0)
        return error;
    for (const struct addrinfo *a = all; a != NULL; a = a->ai_next)
        plait_hosts_add(out, a->ai_addr);
    freeaddrinfo(all);
    return 0;
}

/* why: what kept PMIx from saying it; NULL: there is none. */
static enum plait_status ask_for_host(const struct plait_launcher_says *says, const char *why)
{
    const bool torchrun = strcmp(says->launcher, "torchrun") == 0;

    return plait_fail(PLAIT_ERR_CONFIG,
                      "%s does not say on which host rank 0 is: %sset MASTER_ADDR to its name or address, 127.0.0.1 on "
                      "one machine%s, or pass an id around (plait_unique_id_exchange)%s%s",
                      says->launcher, torchrun ? "start the ranks with torchrun, or " : "",
                      torchrun ? ", and MASTER_PORT to a free port there" : " (mpirun -x MASTER_ADDR=...)",
                      why != NULL ? ", or fix this: " : "", why != NULL ? why : "");
}

/* Rank 0 listens on the addresses of its host's name and of its interfaces. The others know the name only. */
static enum plait_status find_rank_0(const struct plait_launcher_says *says, const struct plait_config *config,
                                     struct plait_hosts *out)
{
    struct plait_hosts own;
    union plait_address all[PLAIT_MOST_ADDRESSES];

    memset(out, 0, sizeof *out);
    if (says->host[0] == '\0')
        return ask_for_host(says, NULL);
    const int error = resolve(says->host, says->rank == 0 ? 0 : config->timeout, out);
    if (says->rank > 0 && error != 0)
        return plait_fail(PLAIT_ERR_CONFIG, "rank 0's host '%s' has no address here: %s; set MASTER_ADDR to one",
                          says->host, gai_strerror(error));
    if (says->rank > 0)
        return PLAIT_OK;
    const enum plait_status status = plait_hosts_find(config->ifname, &own);
    if (status == PLAIT_OK)
        for (unsigned i = 0, n = plait_hosts_list(&own, 1, all); i < n; i++)
            plait_hosts_add(out, &all[i].any);
    return status;
}

/* ---- The id ------------------------------------------------------------------------------------------------ */

/* A text that is equal on all ranks of this start of the job, and differs from those of other jobs. */
static size_t describe(const struct plait_launcher_says *says, char out[MOST_TEXT])
{
    return (size_t)snprintf(out, MOST_TEXT, "%s %s%s:%u", says->launcher, says->job, says->host, says->port);
}

/*
 * A few ports derived from the job and not from the secret. So a rank with another secret still finds rank 0 and can
 * say why it is refused.
 */
static struct plait_ports ports_of(const struct plait_launcher_says *says, const struct plait_config *config,
                                   uint64_t hash)
{
    const struct plait_ports all = config->ports;

    if (says->port > 0)
        return (struct plait_ports){ (uint16_t)(says->port <= UINT16_MAX - NPORT ? says->port + 1 : says->port - NPORT),
                                     NPORT };
    return all.n <= NPORT ? all
                          : (struct plait_ports){ (uint16_t)(all.first + hash % (uint64_t)(all.n - NPORT + 1)), NPORT };
}

static void warn_of_no_secret(const struct plait_launcher_says *says)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;

    if (says->rank == 0 && !atomic_flag_test_and_set(&warned))
        plait_log(PLAIT_LOG_WARN,
                  "no secret: anyone who reaches this host may join the job. Run plait-info --make-secret once (and "
                  "copy ~/.plait-secret to hosts that do not share the home directory), or set PLAIT_SECRET on all "
                  "hosts; PLAIT_REQUIRE_SECRET=1 makes this an error");
}

static enum plait_status make_tcp_id(const struct plait_launcher_says *says, const struct plait_config *config,
                                     struct plait_unique_id *out)
{
    unsigned char key[PLAIT_SECRET_BYTES], secret[PLAIT_SECRET_BYTES];
    struct plait_hosts hosts;
    char job[MOST_TEXT];
    bool found;
    enum plait_status status = plait_crypto_ready();

    if (status == PLAIT_OK)
        status = plait_secret_find(config, key, &found);
    if (status == PLAIT_OK && !found && config->require_secret)
        status = plait_fail(PLAIT_ERR_CONFIG, "PLAIT_REQUIRE_SECRET is 1, but there is no secret: run plait-info "
                                              "--make-secret, or set PLAIT_SECRET on all hosts");
    if (status == PLAIT_OK)
        status = find_rank_0(says, config, &hosts);
    if (status != PLAIT_OK)
        return status;
    if (!found)
        warn_of_no_secret(says);
    const size_t n = describe(says, job);
    const struct plait_ports ports = ports_of(says, config, plait_hash(PLAIT_HASH_START, job, n));
    plait_mac(key, "a job", job, n, secret);
    plait_tcp_id_make(ports, secret, &hosts, PLAIT_ID_LAUNCHED, out);
    return PLAIT_OK;
}

/* ---- By the launcher's own means ---------------------------------------------------------------------------- */

struct offer { /* sent by each rank; only rank 0's counts */
    enum plait_status status;
    char text[512]; /* of the error; launchers limit the size */
    struct plait_unique_id id;
};

/* One that works on this machine only, or over TCP. The others' is empty. */
static struct offer make_offer(uint32_t rank, bool here)
{
    struct offer o;

    memset(&o, 0, sizeof o);
    if (rank == 0)
        o.status = here ? plait_unique_id_create(&o.id) : plait_unique_id_create_tcp(NULL, &o.id);
    if (o.status != PLAIT_OK)
        snprintf(o.text, sizeof o.text, "%s", plait_last_error());
    return o;
}

/* Rank 0's id, or why there is none. */
static enum plait_status take_offer(const struct offer *o, struct plait_unique_id *out)
{
    if (o->status == PLAIT_OK) {
        *out = o->id;
        return PLAIT_OK;
    }
    return plait_fail(plait_is_error(o->status) ? o->status : PLAIT_ERR_MISMATCH, "rank 0: %.*s", (int)sizeof o->text,
                      o->text);
}

/* The key is a counter of calls: all ranks call this equally often, so their k-th calls belong together. */
static enum plait_status receive_id(const struct plait_launcher_says *says, const struct plait_config *config,
                                    const struct plait_pass_plugin *plugin, struct plait_unique_id *out)
{
    static atomic_uint calls;
    struct offer offer = make_offer(says->rank, says->local_nrank == says->nrank);
    char key[32], why[256] = "";

    snprintf(key, sizeof key, "plait.id.%u", atomic_fetch_add(&calls, 1));
    if (!plugin->pass(key, says->rank, &offer, sizeof offer, config->timeout, why, sizeof why))
        return plait_fail(PLAIT_ERR_SYSTEM,
                          "cannot learn rank 0's address from %s: %s; or set RANK, WORLD_SIZE and MASTER_ADDR",
                          says->launcher, why);
    return take_offer(&offer, out);
}

/*
 * Processes of mpirun and of srun --mpi=pmix have PMIx. With the plug-in, PMIx takes precedence over MASTER_ADDR, which
 * some ranks may have inherited and others not. Nothing that MPICH's mpiexec says tells its jobs apart, so rank 0's id
 * is asked for on one host, too.
 */
static enum plait_status find_id(const struct plait_launcher_says *says, const struct plait_config *config,
                                 struct plait_unique_id *out)
{
    const bool pmi = says->nrank > 1 && strcmp(says->launcher, "mpich") == 0;
    const struct plait_pass_plugin *plugin;
    char job[MOST_TEXT];

    if (!pmi && says->local_nrank == says->nrank) {
        plait_machine_id_make(job, describe(says, job), out);
        out->bytes[sizeof out->bytes - 1] = PLAIT_ID_LAUNCHED;
        return PLAIT_OK;
    }
    if (!pmi && (getenv("PMIX_RANK") == NULL || strcmp(says->launcher, "torchrun") == 0))
        return make_tcp_id(says, config, out);
    const enum plait_status status =
        plait_plugin_load(pmi ? &plait_plugin_pmi : &plait_plugin_pmix, config->plugins, (const void **)&plugin);
    if (status == PLAIT_OK)
        return receive_id(says, config, plugin, out);
    if (pmi)
        return status;
    return says->host[0] != '\0' ? make_tcp_id(says, config, out) : ask_for_host(says, plait_error_of(status).text);
}

enum plait_status plait_launch_find(struct plait_launch *out)
{
    struct plait_launcher_says says;
    struct plait_launch launch;
    struct plait_config config;

    if (out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_launch_find: out is NULL");
    enum plait_status status = plait_config_load(&config);
    if (status == PLAIT_OK)
        status = plait_launcher_read(config.launcher, &says);
    if (status != PLAIT_OK)
        return status;
    launch = (struct plait_launch){
        .rank = says.rank, .nrank = says.nrank, .local_rank = says.local_rank, .local_nrank = says.local_nrank
    };
    snprintf(launch.launcher, sizeof launch.launcher, "%s", says.launcher);
    status = find_id(&says, &config, &launch.id);
    if (status == PLAIT_OK)
        *out = launch;
    return status;
}

enum plait_status plait_unique_id_exchange(uint32_t rank, uint32_t nrank,
                                           enum plait_status (*allgather)(void *, const void *, size_t, void *),
                                           void *context, struct plait_unique_id *out)
{
    if (allgather == NULL || out == NULL || rank >= nrank)
        return plait_fail(PLAIT_ERR_ARG, "plait_unique_id_exchange: %s",
                          rank >= nrank       ? "rank is not below nrank"
                          : allgather == NULL ? "allgather is NULL"
                                              : "out is NULL");
    struct offer *all = calloc(nrank, sizeof *all);

    if (all == NULL) /* telling the others would need memory for their answers */
        return plait_fail_memory("out of memory for the ids of %u ranks", nrank);
    const struct offer own = make_offer(rank, false);
    enum plait_status status = allgather(context, &own, sizeof own, all);
    status = status == PLAIT_OK ? take_offer(&all[0], out)
                                : plait_fail(status, "plait_unique_id_exchange: the caller's allgather failed: %s",
                                             plait_status_text(status));
    free(all);
    return status;
}
