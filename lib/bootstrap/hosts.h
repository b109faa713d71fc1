/* SPDX-License-Identifier: BSD-3-Clause */
/* The addresses at which other hosts may reach this one, and the selection of its interfaces. */
#ifndef PLAIT_LIB_BOOTSTRAP_HOSTS_H
#define PLAIT_LIB_BOOTSTRAP_HOSTS_H

#include <plait/status.h>

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define PLAIT_MOST_ADDRESSES 15

/* Packed addresses: each a byte 4 or 6, then 4 or 16 bytes; a byte 0 ends them. Untrusted: other programs send them. */
struct plait_hosts {
    unsigned char packed[79];
};

union plait_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* False: no room, another family, link-local, or already there. */
bool plait_hosts_add(struct plait_hosts *hosts, const struct sockaddr *address);

/* Unpack the addresses, with this port; returns how many: at most PLAIT_MOST_ADDRESSES, well-formed for any bytes. */
unsigned plait_hosts_list(const struct plait_hosts *hosts, uint16_t port,
                          union plait_address out[PLAIT_MOST_ADDRESSES]);

socklen_t plait_address_length(const union plait_address *address);

/* "10.0.0.1", or with the port "10.0.0.1:20001", "[fe80::1]:20001". */
#define PLAIT_ADDRESS_TEXT 64
const char *plait_address_text(const union plait_address *address, bool with_port, char out[PLAIT_ADDRESS_TEXT]);

/* Does `list` (PLAIT_IFNAME, in NCCL's syntax) select this interface? See the row in config.c. */
bool plait_ifname_matches(const char *list, const char *name);

/*
 * This host's usable addresses on the interfaces that `list` selects, faster devices first, bridges last. "" selects
 * all that are up, loopback only if there is no other. The choice and the reason are logged (info). PLAIT_ERR_CONFIG
 * names the interfaces of this host.
 */
enum plait_status plait_hosts_find(const char *list, struct plait_hosts *out);

/*
 * The interfaces for data to other hosts, "eth0,eth1"; "": none. If `list` is not "", it selects them; else they are
 * those with an address in `met`. The choice is logged (info), and a faster interface that is left out (warning).
 */
#define PLAIT_DEVICES_TEXT 256
void plait_hosts_devices(const char *list, const struct plait_hosts *met, char out[PLAIT_DEVICES_TEXT]);

#endif
