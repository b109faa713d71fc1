/* SPDX-License-Identifier: BSD-3-Clause */
#include "hosts.h"

#include "base/ascii.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "base/status.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#ifndef INT_MAX
#define INT_MAX __INT_MAX__ /* <linux/ethtool.h> needs it */
#endif
#include <linux/ethtool.h>

/* ---- Packed addresses -------------------------------------------------------------------------------------- */

static size_t size_of(unsigned char kind)
{
    return kind == 4 ? 4 : kind == 6 ? 16 : 0;
}

/* Bytes of well-formed addresses. */
static size_t end_of(const struct plait_hosts *hosts)
{
    size_t at = 0;

    while (at < sizeof hosts->packed && size_of(hosts->packed[at]) > 0 &&
           at + 1 + size_of(hosts->packed[at]) <= sizeof hosts->packed)
        at += 1 + size_of(hosts->packed[at]);
    return at;
}

/* Pack one address, and return its bytes. 0: of another family, or link-local, which needs an interface too. */
static size_t pack(const struct sockaddr *address, unsigned char out[17])
{
    const union plait_address *a = (const union plait_address *)(const void *)address;
    const unsigned char kind = a->any.sa_family == AF_INET ? 4 : a->any.sa_family == AF_INET6 ? 6 : 0;

    if (kind == 0 || (kind == 6 && IN6_IS_ADDR_LINKLOCAL(&a->v6.sin6_addr)))
        return 0;
    out[0] = kind;
    memcpy(out + 1, kind == 4 ? (const void *)&a->v4.sin_addr : (const void *)&a->v6.sin6_addr, size_of(kind));
    return 1 + size_of(kind);
}

static bool has(const struct plait_hosts *hosts, const unsigned char *packed, size_t bytes)
{
    for (size_t at = 0, end = end_of(hosts); at < end; at += 1 + size_of(hosts->packed[at]))
        if (bytes > 0 && at + bytes <= end && memcmp(hosts->packed + at, packed, bytes) == 0)
            return true;
    return false;
}

bool plait_hosts_add(struct plait_hosts *hosts, const struct sockaddr *address)
{
    unsigned char packed[17];
    const size_t end = end_of(hosts), n = pack(address, packed);

    if (n == 0 || end + n > sizeof hosts->packed || has(hosts, packed, n))
        return false;
    memcpy(hosts->packed + end, packed, n);
    return true;
}

unsigned plait_hosts_list(const struct plait_hosts *hosts, uint16_t port, union plait_address out[PLAIT_MOST_ADDRESSES])
{
    const size_t end = end_of(hosts);
    unsigned n = 0;

    for (size_t at = 0; at < end && n < PLAIT_MOST_ADDRESSES; at += 1 + size_of(hosts->packed[at]), n++) {
        const bool v4 = hosts->packed[at] == 4;
        memset(&out[n], 0, sizeof out[n]);
        out[n].any.sa_family = v4 ? AF_INET : AF_INET6;
        *(v4 ? &out[n].v4.sin_port : &out[n].v6.sin6_port) = htons(port);
        memcpy(v4 ? (void *)&out[n].v4.sin_addr : &out[n].v6.sin6_addr, hosts->packed + at + 1, v4 ? 4 : 16);
    }
    return n;
}

socklen_t plait_address_length(const union plait_address *address)
{
    return address->any.sa_family == AF_INET ? sizeof address->v4 : sizeof address->v6;
}

const char *plait_address_text(const union plait_address *address, bool with_port, char out[PLAIT_ADDRESS_TEXT])
{
    const bool v4 = address->any.sa_family == AF_INET;
    char text[INET6_ADDRSTRLEN] = "?";

    inet_ntop(address->any.sa_family, v4 ? (const void *)&address->v4.sin_addr : (const void *)&address->v6.sin6_addr,
              text, sizeof text);
    if (with_port)
        snprintf(out, PLAIT_ADDRESS_TEXT, v4 ? "%s:%u" : "[%s]:%u", text,
                 ntohs(v4 ? address->v4.sin_port : address->v6.sin6_port));
    else
        snprintf(out, PLAIT_ADDRESS_TEXT, "%s", text);
    return out;
}

bool plait_ifname_matches(const char *list, const char *name)
{
    const bool exclude = *list == '^';

    list += exclude;
    const bool exact = *list == '=';
    list += exact;
    for (bool more = true; more;) {
        const size_t n = strcspn(list, ",");
        if (n > 0 && strncmp(list, name, n) == 0 && (!exact || name[n] == '\0'))
            return !exclude;
        more = list[n] == ',';
        list += n + more;
    }
    return exclude;
}

/* ---- Interfaces of this host ---------------------------------------------------------------------------------- */

/* In the order in which other ranks try the addresses; from LINK_LOCAL on they are of no use. */
enum kind { DEVICE, BRIDGE, LOOPBACK, LINK_LOCAL, DOWN };
static const char *const kinds[] = { "device", "bridge", "loopback", "link-local", "down" };

/* Mbit/s; 0: not known. Asked of the driver, as /sys may be that of another network namespace. */
static uint32_t speed_of(const char *name)
{
    struct ethtool_cmd link = { .cmd = ETHTOOL_GSET };
    struct ifreq request = { .ifr_data = (void *)&link };

    snprintf(request.ifr_name, sizeof request.ifr_name, "%.15s", name);
    const int fd = plait_descriptor_keep(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "asking for interfaces");
    const bool answers = fd >= 0 && ioctl(fd, SIOCETHTOOL, &request) == 0;
    plait_descriptor_close(fd);
    const uint32_t speed = (uint32_t)link.speed_hi << 16 | link.speed;
    return answers && speed != (uint32_t)SPEED_UNKNOWN ? speed : 0;
}

/* Of containers or virtual machines: each host has one, with an address that is its own. */
#define BRIDGES "docker,br-,virbr,cni,lxc,podman"

static enum kind kind_of(const struct ifaddrs *i)
{
    const union plait_address *a = (const union plait_address *)(const void *)i->ifa_addr;

    if (!(i->ifa_flags & IFF_UP) || !(i->ifa_flags & IFF_RUNNING))
        return DOWN;
    if (a->any.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&a->v6.sin6_addr))
        return LINK_LOCAL;
    if (i->ifa_flags & IFF_LOOPBACK)
        return LOOPBACK;
    return plait_ifname_matches(BRIDGES, i->ifa_name) ? BRIDGE : DEVICE;
}

#define IFNAME "PLAIT_IFNAME or NCCL_SOCKET_IFNAME" /* the variables of `list` */

/* ---- Addresses of this host ----------------------------------------------------------------------------------- */

#define MOST_FOUND 64

struct found { /* an address of this host */
    char name[IFNAMSIZ];
    union plait_address address;
    enum kind kind;
    uint32_t speed;
};

/* Insert by kind, then by speed, then as the system lists them. In a full array the last one, the worst, is dropped. */
static unsigned insert(struct found out[MOST_FOUND], unsigned n, const struct found *f)
{
    unsigned k = n;

    for (; k > 0 && (out[k - 1].kind > f->kind || (out[k - 1].kind == f->kind && out[k - 1].speed < f->speed)); k--)
        if (k < MOST_FOUND)
            out[k] = out[k - 1];
    if (k < MOST_FOUND)
        out[k] = *f;
    return n < MOST_FOUND ? n + 1 : n;
}

/* *n: how many. */
static enum plait_status find_all(struct found out[MOST_FOUND], unsigned *n)
{
    struct ifaddrs *all;

    *n = 0;
    if (getifaddrs(&all) != 0)
        return plait_fail_errno(errno, "the addresses of this host");
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
        const sa_family_t family = i->ifa_addr != NULL ? i->ifa_addr->sa_family : AF_UNSPEC;
        struct found f = { .speed = 0 };
        if (family != AF_INET && family != AF_INET6)
            continue;
        snprintf(f.name, sizeof f.name, "%.15s", i->ifa_name);
        memcpy(&f.address, i->ifa_addr, family == AF_INET ? sizeof f.address.v4 : sizeof f.address.v6);
        f.kind = kind_of(i);
        f.speed = f.kind == DEVICE ? speed_of(f.name) : 0;
        *n = insert(out, *n, &f);
    }
    freeifaddrs(all);
    return PLAIT_OK;
}

/* Append an address to a list for people, which is cut where there is no room. */
static void append(char *list, size_t room, const struct found *f, const char *why)
{
    char address[PLAIT_ADDRESS_TEXT];

    plait_append(list, room, " %.15s %s (%s)", f->name, plait_address_text(&f->address, false, address), why);
}

enum plait_status plait_hosts_find(const char *list, struct plait_hosts *out)
{
    struct found found[MOST_FOUND];
    char taken[512] = "", left[512] = "";
    unsigned nfound, n = 0;
    const enum plait_status status = find_all(found, &nfound);

    if (status != PLAIT_OK)
        return status;
    memset(out, 0, sizeof *out);
    for (const struct found *f = found; f < found + nfound; f++) {
        const bool meant = list[0] == '\0' || plait_ifname_matches(list, f->name);
        /* Loopback is usable if `list` names it or there is no other address. */
        const bool usable =
            f->kind < LINK_LOCAL && (f->kind != LOOPBACK || n == 0 || (list[0] != '\0' && list[0] != '^'));
        if (meant && usable && plait_hosts_add(out, &f->address.any)) {
            append(taken, sizeof taken, f, kinds[f->kind]);
            n++;
        } else {
            append(left, sizeof left, f, meant ? kinds[f->kind] : "not meant");
        }
    }
    if (n == 0)
        return plait_fail(PLAIT_ERR_CONFIG,
                          "no interface for other hosts: " IFNAME "='%s' leaves none of this host's, which are:%s; "
                          "set it to the start of a name, =NAME, or ^NAME to exclude one",
                          list, left[0] != '\0' ? left : " none");
    plait_log(PLAIT_LOG_INFO, "addresses for other hosts (" IFNAME "='%s'):%s%s%s", list, taken,
              left[0] != '\0' ? "; left out:" : "", left);
    return PLAIT_OK;
}

/* ---- Interfaces for data -------------------------------------------------------------------------------------- */

/* devices: "=eth0,eth1" */
static void warn_of_faster(const struct found *found, unsigned nfound, const char *devices, uint32_t fastest)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;

    for (const struct found *f = found; f < found + nfound && fastest > 0; f++)
        if (f->kind == DEVICE && f->speed > fastest && !plait_ifname_matches(devices, f->name) &&
            !atomic_flag_test_and_set(&warned))
            plait_log(
                PLAIT_LOG_WARN,
                "data for other hosts goes over %s (%u Mbit/s), by which the ranks met, and not over %s (%u Mbit/s): "
                "if all hosts reach each other there set PLAIT_IFNAME to its name on all of them, and MASTER_ADDR, "
                "if you use it, to rank 0's address on it",
                devices + 1, fastest, f->name, f->speed);
}

void plait_hosts_devices(const char *list, const struct plait_hosts *met, char out[PLAIT_DEVICES_TEXT])
{
    struct found found[MOST_FOUND];
    char devices[PLAIT_DEVICES_TEXT + 1] = "=";
    uint32_t fastest = 0;
    unsigned nfound;

    out[0] = '\0';
    if (find_all(found, &nfound) != PLAIT_OK)
        return;
    for (const struct found *f = found; f < found + nfound; f++) {
        unsigned char packed[17];
        const bool meant =
            list[0] == '\0' ? has(met, packed, pack(&f->address.any, packed)) : plait_ifname_matches(list, f->name);
        const bool usable = f->kind < LINK_LOCAL && (f->kind != LOOPBACK || list[0] != '^');
        if (!meant || !usable || plait_ifname_matches(devices, f->name) ||
            strlen(devices) + strlen(f->name) + 2 > sizeof devices)
            continue;
        plait_append(devices, sizeof devices, "%s%s", devices[1] != '\0' ? "," : "", f->name);
        fastest = f->speed > fastest ? f->speed : fastest;
    }
    strcpy(out, devices + 1);
    if (out[0] != '\0' && list[0] == '\0')
        warn_of_faster(found, nfound, devices, fastest);
    if (out[0] != '\0')
        plait_log(PLAIT_LOG_INFO, "data for other hosts goes over %s: %s", out,
                  list[0] != '\0' ? IFNAME : "there the ranks met");
    else if (list[0] != '\0')
        plait_log(PLAIT_LOG_WARN, IFNAME "='%s' leaves no interface for data to other hosts: UCX chooses", list);
}
