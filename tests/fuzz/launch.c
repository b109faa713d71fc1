/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What launchers say: lines NAME=VALUE as an environment, the first of which is the value of PLAIT_LAUNCHER. What is
 * taken is in range, and errors name a variable. The lists of hosts, interfaces and secrets get every value, too.
 */
#include "fuzz.h"

#include "base/config.h"
#include "bootstrap/hosts.h"
#include "bootstrap/secret.h"
#include "launch/launcher.h"

#include <plait/comm.h>

/* `context`: lines, each ended by a NUL, and an empty one. */
static const char *find(const void *context, const char *name)
{
    const size_t n = strlen(name);

    for (const char *line = context; *line != '\0'; line += strlen(line) + 1)
        if (strncmp(line, name, n) == 0 && line[n] == '=')
            return line + n + 1;
    return NULL;
}

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
    char *lines = malloc(size + 2);
    struct plait_launcher_says says;

    MUST(lines != NULL);
    memcpy(lines, data, size);
    lines[size] = lines[size + 1] = '\0';
    for (size_t i = 0; i < size; i++)
        lines[i] = lines[i] == '\n' ? '\0' : lines[i] == '\0' ? ' ' : lines[i];
    const struct plait_environment environment = { find, lines[0] == '\0' ? lines : lines + strlen(lines) + 1 };
    const enum plait_status status = plait_launcher_read(&environment, lines, &says);
    if (status == PLAIT_OK) {
        MUST(says.nrank >= 1 && says.nrank <= PLAIT_MAX_RANKS && says.rank < says.nrank);
        MUST(says.local_nrank <= says.nrank &&
             says.local_rank < (says.local_nrank > 0 ? says.local_nrank : says.nrank));
        MUST(strnlen(says.host, sizeof says.host) < sizeof says.host);
        MUST(strnlen(says.job, sizeof says.job) < sizeof says.job);
    } else {
        MUST(status == PLAIT_ERR_CONFIG && plait_last_error()[0] != '\0');
    }
    for (const char *line = environment.context; *line != '\0'; line += strlen(line) + 1)
        if (strchr(line, '=') != NULL)
            check_values(strchr(line, '=') + 1);
    free(lines);
    return 0;
}
