/* SPDX-License-Identifier: BSD-3-Clause */
#include "machine_load.h"

#include "base/ascii.h"

#include "file.h"
#include "message.h"
#include "value.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES (16 << 20) /* of a description */
#define MOST_TEXT  512        /* of a synthetic one */
#define MOST_HOSTS (1 << 20)
#define MOST_UNITS 8192 /* processing units of a host; hwloc needs minutes for many more */

static bool has_wishes(const struct machine_wish *w)
{
    return w->hosts != 0 || w->rack != 0 || w->nics != 0 || w->network != 0 || w->oversubscription > 0 ||
           w->rank != PART_HOST;
}

/* ---- Synthetic descriptions ---------------------------------------------------------------------------- */

/* The number behind "WORD:" at the start of a token; 0: it is another. */
static bool counts_of(const char *token, const char *word, uint32_t *out)
{
    const size_t n = strlen(word);
    const char *end = "";

    return strncmp(token, word, n) == 0 && token[n] == ':' && number_begins(token + n + 1, 1, MOST_HOSTS, &end, out) &&
           *end == '\0';
}

/* Multiply with the number of a token: "core:8", "[numa]", or "8". At most UINT32_MAX. */
static void multiply(uint64_t *n, const char *token)
{
    const char *digits = strchr(token, ':');
    const uint64_t times = strtoull(digits != NULL ? digits + 1 : token, NULL, 10);

    if (times > 0)
        *n = times <= UINT32_MAX / *n ? *n * times : UINT32_MAX;
}

/* hwloc knows neither hosts nor GPUs: GPUs stand in for cores. */
static void cores_are_gpus(struct part *p)
{
    if (p->kind == PART_CORE) {
        p->kind = PART_GPU;
        parts_free(p->first);
        p->first = p->last = NULL;
    }
    p->counts[PART_GPU] = p->counts[PART_CORE];
    p->counts[PART_CORE] = p->counts[PART_THREAD] = 0;
    for (struct part *c = p->first; c != NULL; c = c->next)
        cores_are_gpus(c);
}

/* "rack:4 host:32 package:2 gpu:4" */
static struct part *read_synthetic(const char *name, struct machine_wish *wish)
{
    char text[MOST_TEXT], inner[MOST_TEXT + 16] = "", *rest = text;
    uint32_t racks = 0, hosts = 0, n;
    uint64_t units = 1;
    bool gpus = false, threads = false;

    if (snprintf(text, sizeof text, "%s", name) >= MOST_TEXT) {
        complain("'%.40s...': a description has at most %d bytes", name, MOST_TEXT - 1);
        return NULL;
    }
    for (char *token; (token = strsep(&rest, " ")) != NULL;) {
        if (*token == '\0' || (inner[0] == '\0' && racks == 0 && counts_of(token, "rack", &racks)) ||
            (inner[0] == '\0' && hosts == 0 && counts_of(token, "host", &hosts)))
            continue;
        char core[32];
        if (counts_of(token, "gpu", &n)) {
            gpus = true;
            snprintf(core, sizeof core, "core:%" PRIu32, n);
            token = core;
        }
        threads = strncmp(token, "pu:", 3) == 0;
        multiply(&units, token);
        snprintf(inner + strlen(inner), sizeof inner - strlen(inner), "%s%s", inner[0] != '\0' ? " " : "", token);
    }
    if (hosts > 0 && wish->hosts > 0) {
        complain("'%s' and --hosts say how many hosts there are; leave one of them out", name);
        return NULL;
    }
    if (racks > 0 && hosts == 0) {
        complain("'%s': racks need hosts, such as \"rack:4 host:16 core:8\"", name);
        return NULL;
    }
    if (racks > 0) {
        wish->rack = hosts;
        hosts = racks * hosts <= MOST_HOSTS && racks <= MOST_HOSTS / hosts ? racks * hosts : MOST_HOSTS;
    }
    if (hosts > 0)
        wish->hosts = hosts;
    if (units > MOST_UNITS) {
        complain("'%s' is too large: a host has at most %d processing units, and there are at most %d hosts", name,
                 MOST_UNITS, MOST_HOSTS);
        return NULL;
    }
    if (!threads) /* with which hwloc's descriptions end */
        strcat(inner, inner[0] != '\0' ? " pu:1" : "core:1 pu:1");
    struct part *host = parts_of_synthetic(inner);
    if (host != NULL && gpus)
        cores_are_gpus(host);
    return host;
}

/* ---- Files -------------------------------------------------------------------------------------------- */

/* text: ends with a zero */
static bool read_text(const char *path, const char *text, size_t bytes, struct machine_source *out)
{
    if (text[strspn(text, " \t\r\n\xef\xbb\xbf")] != '<') {
        if (has_wishes(&out->wish))
            return complain("%s: options such as --hosts are for the description of one host; this is a whole machine",
                            path);
        return plait_machine_parse(path, text, &out->machine) == PLAIT_OK || complain("%s", plait_last_error());
    }
    if (strstr(text, "<topology") != NULL)
        out->host = xml_check(path, text, bytes) ? parts_of_hwloc(path, text, bytes) : NULL;
    else if (strstr(text, "<system") != NULL)
        out->host = parts_of_nccl(path, text, bytes);
    else
        return complain(
            "%s: it is XML, but neither hwloc's nor NCCL's: it has no <topology> and no <system>; write one "
            "with lstopo FILE.xml or NCCL_TOPO_DUMP_FILE=FILE.xml",
            path);
    return out->host != NULL;
}

/* ---- Machines ------------------------------------------------------------------------------------------- */

/* A file, or a machine that comes with Plait, in any case, with '_' or '-'. NULL: neither. */
static FILE *open_file(const char *name, char *path, size_t room)
{
    char presets[] = MACHINE_PRESETS, *rest = presets;
    FILE *f = file_find(name, "json", "machines", PLAIT_MACHINES, path, room);

    for (char *preset; f == NULL && (preset = strsep(&rest, ", ")) != NULL;)
        if (plait_same_name(preset, name))
            f = file_find(preset, "json", "machines", PLAIT_MACHINES, path, room);
    return f;
}

static bool read_source(const char *name, struct machine_source *out)
{
    char path[4096];
    size_t bytes;
    FILE *f = open_file(name, path, sizeof path);

    if (f != NULL) {
        char *text = file_read(f, path, MOST_BYTES, &bytes);
        const bool ok = text != NULL && read_text(path, text, bytes, out);
        fclose(f);
        free(text);
        return ok;
    }
    if (plait_same_name(name, "this-host") || plait_same_name(name, "this"))
        out->host = parts_here();
    else if (strchr(name, ':') != NULL && strchr(name, '/') == NULL)
        out->host = read_synthetic(name, &out->wish);
    else
        return complain("there is no machine '%s'; it must be " MACHINE_NAMES
                        " (those that come with Plait are in share/plait/machines)",
                        name);
    return out->host != NULL;
}

bool machine_open(const char *name, const struct machine_wish *wish, struct machine_source *out)
{
    *out = (struct machine_source){ .wish = *wish };
    if (!read_source(name, out))
        return false;
    const char *slash = strrchr(name, '/');
    if (out->host == NULL || machine_of_parts(slash != NULL ? slash + 1 : name, out->host, &out->wish, &out->machine))
        return true;
    machine_close(out);
    return false;
}

void machine_close(struct machine_source *source)
{
    parts_free(source->host);
    source->host = NULL;
}

bool machine_load(const char *name, struct plait_machine *out)
{
    struct machine_source source;

    if (!machine_open(name, &(struct machine_wish){ 0 }, &source))
        return false;
    *out = source.machine;
    machine_close(&source);
    return true;
}
