/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What launchers say: lines NAME=VALUE as an environment, the first of which is the value of PLAIT_LAUNCHER. What is
 * taken is in range, and errors name a variable. The lists of hosts, interfaces and secrets get every value, too.
 */
#include "fuzz.h"

#include "base/config.h"
#include "bootstrap/hosts.h"
#include "bootstrap/id.h"
#include "launch/launcher.h"

#include <plait/comm.h>

extern char **environ;

static void check_values(const char *value)
{
    char host[64], secret[256];

    if (plait_nodelist_first(value, host, sizeof host))
        MUST(host[0] != '\0' && strpbrk(host, "[],") == NULL && strlen(host) <= strlen(value));
    const char *list = value[0] == '^' ? value + 1 : value;
    if (list == value && value[0] != '=' && value[0] != '\0' && strchr(value, ',') == NULL)
        MUST(plait_ifname_matches(value, value));
    if (strlen(value) < 200) {
        char not [202] = "^";
        strcat(not, list);
        if (list == value)
            MUST(plait_ifname_matches(not, "eth0") == !plait_ifname_matches(value, "eth0"));
    }
    snprintf(secret, sizeof secret, "%s", value);
    if (plait_secret_trim(secret))
        MUST(strlen(secret) >= PLAIT_LEAST_SECRET && strlen(secret) < sizeof((struct plait_config *)0)->secret &&
             strpbrk(secret, "\r\n") == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *lines = malloc(size + 1), **variables = calloc(size + 2, sizeof *variables), **before = environ;
    struct plait_launcher_says says;
    size_t n = 0;

    MUST(lines != NULL && variables != NULL);
    memcpy(lines, data, size);
    lines[size] = '\0';
    for (size_t i = 0; i < size; i++)
        lines[i] = lines[i] == '\n' ? '\0' : lines[i] == '\0' ? ' ' : lines[i];
    for (size_t at = strlen(lines) + 1; at < size; at += strlen(lines + at) + 1)
        variables[n++] = lines + at;
    environ = variables;
    const enum plait_status status = plait_launcher_read(lines, &says);
    environ = before;
    if (status == PLAIT_OK) {
        MUST(says.nrank >= 1 && says.nrank <= PLAIT_MAX_RANKS && says.rank < says.nrank);
        MUST(says.local_nrank <= says.nrank &&
             says.local_rank < (says.local_nrank > 0 ? says.local_nrank : says.nrank));
        MUST(strnlen(says.host, sizeof says.host) < sizeof says.host);
        MUST(strnlen(says.job, sizeof says.job) < sizeof says.job);
    } else {
        MUST(status == PLAIT_ERR_CONFIG && plait_last_error()[0] != '\0');
    }
    for (size_t i = 0; i < n; i++)
        if (strchr(variables[i], '=') != NULL)
            check_values(strchr(variables[i], '=') + 1);
    free(variables);
    free(lines);
    return 0;
}
