/* SPDX-License-Identifier: BSD-3-Clause */
#include "slow.h"

#include "../lib/base/descriptor.h"
#include "../lib/base/log.h"

#include <ctype.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST_PATH 512

/* Is this port, InfiniBand or RoCE, unused? */
static bool port_is_missed(const char *sys, const char *device, const char *port, const char *route, char *text,
                           size_t room)
{
    char path[MOST_PATH], state[64];

    if ((size_t)snprintf(path, sizeof path, "%s/class/infiniband/%s/ports/%s/state", sys, device, port) >=
            sizeof path ||
        !plait_descriptor_read_line(path, state, sizeof state))
        return false;
    if (strstr(state, "ACTIVE") != NULL)
        snprintf(text, room,
                 "messages go over %s although port %s of %s is active: UCX_TLS or UCX_NET_DEVICES leave it out, UCX's "
                 "modules for it are not installed, or another host has none. ucx_info -d lists what UCX sees",
                 route, port, device);
    else
        snprintf(
            text, room,
            "messages go over %s as port %s of %s is not active (%s): look at cable, switch and subnet manager with "
            "ibstat",
            route, port, device, state);
    return true;
}

static bool any_port_is_missed(const char *sys, const char *device, const char *route, char *text, size_t room)
{
    char path[MOST_PATH];
    bool missed = false;

    if ((size_t)snprintf(path, sizeof path, "%s/class/infiniband/%s/ports", sys, device) >= sizeof path)
        return false;
    DIR *d = plait_descriptor_folder(path);
    for (struct dirent *e; !missed && d != NULL && (e = readdir(d)) != NULL;)
        missed = isdigit((unsigned char)e->d_name[0]) && port_is_missed(sys, device, e->d_name, route, text, room);
    if (d != NULL)
        closedir(d);
    return missed;
}

static bool infiniband_is_missed(const char *sys, const char *route, char *text, size_t room)
{
    char path[MOST_PATH];
    bool missed = false;

    snprintf(path, sizeof path, "%s/class/infiniband", sys);
    DIR *d = plait_descriptor_folder(path);
    for (struct dirent *e; !missed && d != NULL && (e = readdir(d)) != NULL;)
        missed = e->d_name[0] != '.' && any_port_is_missed(sys, e->d_name, route, text, room);
    if (d != NULL)
        closedir(d);
    return missed;
}

/* Container bridges have an address and are down while no container runs: no reason to warn. */
static bool is_bridge(const char *sys, const char *name)
{
    char path[MOST_PATH];

    return (size_t)snprintf(path, sizeof path, "%s/class/net/%s/bridge", sys, name) < sizeof path &&
           access(path, F_OK) == 0;
}

/* An interface with an address is meant to be used. */
static bool interface_is_missed(const char *sys, const char *route, char *text, size_t room)
{
    struct ifaddrs *all;
    bool missed = false;

    if (getifaddrs(&all) != 0)
        return false;
    for (const struct ifaddrs *i = all; !missed && i != NULL; i = i->ifa_next) {
        const bool has_address =
            i->ifa_addr != NULL && (i->ifa_addr->sa_family == AF_INET || i->ifa_addr->sa_family == AF_INET6);
        missed = has_address && (i->ifa_flags & IFF_LOOPBACK) == 0 && (i->ifa_flags & IFF_RUNNING) == 0 &&
                 !is_bridge(sys, i->ifa_name);
        if (missed)
            snprintf(
                text, room,
                "messages go over %s; %s has an address and is %s: %s, or take the address away if it is not for use",
                route, i->ifa_name, i->ifa_flags & IFF_UP ? "without a link" : "down",
                i->ifa_flags & IFF_UP ? "look at cable and switch" : "bring it up (ip link set NAME up)");
    }
    freeifaddrs(all);
    return missed;
}

/* Is TCP the only network between hosts? Any other is the fast device already. */
static bool is_slow(const char *route)
{
    return strstr(route, "tcp/") != NULL && strstr(route, "rc_") == NULL && strstr(route, "dc_") == NULL &&
           strstr(route, "ud_") == NULL;
}

bool plait_device_is_missed(const char *sys, const char *route, char *text, size_t room)
{
    return is_slow(route) &&
           (infiniband_is_missed(sys, route, text, room) || interface_is_missed(sys, route, text, room));
}

void plait_warn_of_device(const char *route)
{
    static atomic_flag looked = ATOMIC_FLAG_INIT;
    char text[1024];

    if (*route != '\0' && !atomic_flag_test_and_set(&looked) &&
        plait_device_is_missed("/sys", route, text, sizeof text))
        plait_log(PLAIT_LOG_WARN, "%s", text);
}
