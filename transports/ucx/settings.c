/* SPDX-License-Identifier: BSD-3-Clause */
#include "settings.h"

#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Eager messages are cut into segments, each of which costs system calls at both ends. With UCX's default of 8 KiB,
 * messages of 256 KiB to 4 MiB take twice as long; more than this value gains nothing. It holds 128 KiB with the
 * headers.
 */
#define TCP_SEGMENT "132K"

/*
 * Least bytes that TCP sends from the caller's memory. UCX copies less into a buffer of its own, and calls the send
 * complete even if the socket has not taken all: the rest leaves only when this rank calls the library again. A send
 * from the caller's memory ends when the socket has all. On InfiniBand UCX's own choice stands, as the adapter sends
 * without the process.
 */
#define TCP_UNCOPIED "2K"

#define PORTS "/sys/class/infiniband/*/ports/*"

bool ucx_fail(char *why, size_t room, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(why, room, format, args);
    va_end(args);
    return false;
}

bool ucx_is_set(const char *name)
{
    char variable[64];

    snprintf(variable, sizeof variable, "UCX_%s", name);
    return getenv(variable) != NULL;
}

static bool has_infiniband(void)
{
    glob_t found = { .gl_pathc = 0 };
    const bool any = glob(PORTS, GLOB_NOSORT, NULL, &found) == 0;

    globfree(&found);
    return any;
}

/* Set an option that the user has not set. A name that this UCX version does not know changes nothing. */
static void prefer(ucp_config_t *config, const char *name, const char *value)
{
    if (!ucx_is_set(name))
        ucp_config_modify(config, name, value);
}

/* TRANSPORT_NAME: programs use this form since UCX 1.17, and NAME alone before. */
static void prefer_of_transport(ucp_config_t *config, const char *name, const char *value)
{
    if (ucx_is_set(name))
        return;
    ucp_config_modify(config, name, value);
    ucp_config_modify(config, strchr(name, '_') + 1, value);
}

/*
 * Adds each port of InfiniBand and RoCE, such as "mlx5_0:1", to "eth0,eth1": creation chooses among IP interfaces only.
 */
static void add_ports(char *devices, size_t room)
{
    glob_t found;

    if (glob(PORTS, GLOB_NOSORT, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char name[64], port[16];
        const size_t n = strlen(devices);
        if (sscanf(found.gl_pathv[i], "/sys/class/infiniband/%63[^/]/ports/%15s", name, port) == 2)
            snprintf(devices + n, room - n, ",%s:%s", name, port);
    }
    globfree(&found);
}

/*
 * UCX takes the device that claims the most bandwidth, whether the other hosts reach it or not. A bridge of containers
 * is an example: it has the same address on all hosts.
 */
static void prefer_devices(ucp_config_t *config, const char *interfaces)
{
    char devices[1024];

    if (interfaces == NULL || interfaces[0] == '\0')
        return;
    snprintf(devices, sizeof devices, "%s", interfaces);
    add_ports(devices, sizeof devices);
    prefer(config, "NET_DEVICES", devices);
}

const char *ucx_setting(const char *variable)
{
    const char *value = getenv(variable);
    return value != NULL ? value : "";
}

bool ucx_cannot_open(const char *what, ucs_status_t status, char *why, size_t room)
{
    const char *transports = ucx_setting("UCX_TLS"), *devices = ucx_setting("UCX_NET_DEVICES");

    if (*transports == '\0' && *devices == '\0')
        return ucx_fail(why, room, "%s: %s; UCX_LOG_LEVEL=info says more", what, ucs_status_string(status));
    return ucx_fail(why, room,
                    "%s: %s; UCX_TLS is '%s' and UCX_NET_DEVICES is '%s': unset what names nothing of this machine "
                    "(ucx_info -d lists what there is)",
                    what, ucs_status_string(status), transports, devices);
}

bool ucx_read_settings(const char *devices, ucp_config_t **out, char *why, size_t room)
{
    const ucs_status_t status = ucp_config_read(NULL, NULL, out);

    if (status != UCS_OK)
        return ucx_fail(why, room, "ucp_config_read: %s; is an UCX_* variable wrong?", ucs_status_string(status));
    if (!ucx_is_set("POSIX_ERROR_HANDLING") && !ucx_is_set("SYSV_ERROR_HANDLING"))
        prefer(*out, "MM_ERROR_HANDLING", "y");
    prefer_of_transport(*out, "TCP_TX_SEG_SIZE", TCP_SEGMENT);
    prefer_of_transport(*out, "TCP_RX_SEG_SIZE", TCP_SEGMENT);
    if (!has_infiniband() || strcmp(ucx_setting("UCX_TLS"), "tcp") == 0)
        prefer(*out, "ZCOPY_THRESH", TCP_UNCOPIED);
    prefer_of_transport(*out, "TCP_CONN_NB", "y"); /* else connecting blocks, for minutes if nobody answers */
    prefer_devices(*out, devices);
    prefer(*out, "ADDRESS_VERSION", "v2");
    prefer(*out, "ADDRESS_DEBUG_INFO", "n");
    return true;
}
