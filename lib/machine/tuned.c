/* SPDX-License-Identifier: BSD-3-Clause */
#include "tuned.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/status.h"

#include <plait/topology.h>
#include <plait/version.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define OF_ALL_USERS "/etc/plait/tuning.json"

/* Hosts with the same processors and caches are one kind of machine. */
void plait_tuning_describe(struct plait_tuning *out)
{
    const time_t now = time(NULL);
    struct plait_topology t;
    struct tm day;

    plait_topology_get(&t);
    *out = (struct plait_tuning){ .processors = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN) };
    snprintf(out->version, sizeof out->version, "%s", plait_version());
    snprintf(out->processor, sizeof out->processor, "%s", t.processor);
    strftime(out->date, sizeof out->date, "%Y-%m-%d", gmtime_r(&now, &day));
    const uint64_t numbers[] = { out->processors, t.l1, t.l2, t.l3 };
    out->fingerprint =
        plait_hash(plait_hash(PLAIT_HASH_START, out->processor, strlen(out->processor)), numbers, sizeof numbers);
}

void plait_tuning_path(char out[PLAIT_TUNING_PATH])
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

    if (config != NULL && config[0] == '/')
        snprintf(out, PLAIT_TUNING_PATH, "%s/plait/tuning.json", config);
    else
        snprintf(out, PLAIT_TUNING_PATH, "%s/.config/plait/tuning.json", home != NULL ? home : "");
}

static enum plait_status check_machine(const char *path, const struct plait_tuning *t)
{
    struct plait_tuning here;

    plait_tuning_describe(&here);
    if (t->fingerprint == here.fingerprint)
        return PLAIT_OK;
    return plait_fail(
        PLAIT_ERR_CONFIG,
        "%s is of another machine (%s, %u processors, fingerprint %016llx; this one: %s, %u, %016llx): run "
        "plait-tune here, or set PLAIT_TUNING to a file of this machine",
        path, t->processor, t->processors, (unsigned long long)t->fingerprint, here.processor, here.processors,
        (unsigned long long)here.fingerprint);
}

enum plait_status plait_tuning_find(const char *setting, char path[PLAIT_TUNING_PATH], struct plait_tuning *out)
{
    *out = (struct plait_tuning){ .nrow = 0 };
    path[0] = '\0';
    if (strcmp(setting, "none") == 0)
        return PLAIT_OK;
    if (setting[0] != '\0') {
        snprintf(path, PLAIT_TUNING_PATH, "%s", setting);
    } else {
        plait_tuning_path(path);
        if (access(path, F_OK) != 0)
            snprintf(path, PLAIT_TUNING_PATH, "%s", OF_ALL_USERS);
        if (access(path, F_OK) != 0) {
            path[0] = '\0';
            return PLAIT_OK;
        }
    }
    enum plait_status status = plait_tuning_load(path, out);
    if (status == PLAIT_OK && (status = check_machine(path, out)) != PLAIT_OK)
        plait_tuning_finish(out);
    return status;
}

void plait_tuning_take(const char *setting, char path[PLAIT_TUNING_PATH], struct plait_tuning *out)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;

    if (plait_tuning_find(setting, path, out) == PLAIT_OK)
        return;
    if (!atomic_flag_test_and_set(&warned))
        plait_log(PLAIT_LOG_WARN, "%s; algorithms are chosen by the model of the machine", plait_last_error());
    *out = (struct plait_tuning){ .nrow = 0 };
    path[0] = '\0';
}

#define FARTHEST 2 /* times as many ranks, or half as many */

static double ratio(uint32_t a, uint32_t b)
{
    return a > b ? (double)a / b : (double)b / a;
}

/* How far a key is from a shape, 1 to FARTHEST; 0: it is farther, or of another kind. */
static double distance(const struct plait_tuned_choice *c, uint32_t hosts, uint32_t each, bool oversubscribed)
{
    if ((c->hosts > 1) != (hosts > 1) || (c->ranks_per_host == 0) != (each == 0) || c->oversubscribed != oversubscribed)
        return 0;
    const double far = ratio(c->hosts, hosts) * (each > 0 ? ratio(c->ranks_per_host, each) : 1);
    return far <= FARTHEST ? far : 0;
}

void plait_tuning_keep(struct plait_tuning *t, uint32_t hosts, uint32_t each, bool oversubscribed)
{
    struct plait_tuned_choice key[PLAIT_NCOLL][PLAIT_NMEMORY];
    double nearest[PLAIT_NCOLL][PLAIT_NMEMORY] = { { 0 } };
    size_t kept = 0;

    for (size_t i = 0; i < t->nrow; i++) {
        const struct plait_tuned_choice *c = &t->rows[i];
        const double far = distance(c, hosts, each, oversubscribed);
        if (far > 0 && (nearest[c->coll][c->memory] == 0 || far < nearest[c->coll][c->memory])) {
            nearest[c->coll][c->memory] = far;
            key[c->coll][c->memory] = *c;
        }
    }
    for (size_t i = 0; i < t->nrow; i++) {
        const struct plait_tuned_choice c = t->rows[i];
        if (nearest[c.coll][c.memory] > 0 && plait_tuned_same_key(&key[c.coll][c.memory], &c))
            t->rows[kept++] = c;
    }
    t->nrow = kept;
}
