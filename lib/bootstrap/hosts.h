/* SPDX-License-Identifier: BSD-3-Clause */
/* The addresses under which other hosts may reach this one, and which of its interfaces are meant. */
#ifndef PLAIT_LIB_BOOTSTRAP_HOSTS_H
#define PLAIT_LIB_BOOTSTRAP_HOSTS_H

#include <plait/status.h>

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define PLAIT_MOST_ADDRESSES 16

/* Addresses, each a byte 4 or 6 and its 4 or 16 bytes; a byte 0 ends them. It comes from other programs. */
struct plait_hosts {
    unsigned char packed[80];
};

union plait_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* False when it does not fit, is of another family, or is there already. */
bool plait_hosts_add(struct plait_hosts *hosts, const struct sockaddr *address);

/* The addresses, with this port; how many. Whatever the bytes are, at most PLAIT_MOST_ADDRESSES well-formed ones. */
unsigned plait_hosts_list(const struct plait_hosts *hosts, uint16_t port,
                          union plait_address out[PLAIT_MOST_ADDRESSES]);

socklen_t plait_address_length(const union plait_address *address);
bool plait_address_is_loopback(const union plait_address *address);

/* "10.0.0.1", or with the port "10.0.0.1:20001", "[fe80::1]:20001". */
#define PLAIT_ADDRESS_TEXT 64
const char *plait_address_text(const union plait_address *address, bool with_port, char out[PLAIT_ADDRESS_TEXT]);

/* NCCL's syntax, the value of PLAIT_IFNAME: is this interface meant? See the row in config.c. */
bool plait_ifname_matches(const char *list, const char *name);

/*
 * The usable addresses of this host on the interfaces that `list` means ("": all that are up, without loopback where
 * there is another; faster devices first, bridges last). The choice and the reason go to the log (info) once per
 * process and list. PLAIT_ERR_CONFIG names what interfaces there are.
 */
enum plait_status plait_hosts_find(const char *list, struct plait_hosts *out);

#define PLAIT_LOOPBACK_IS_DOWN \
    "; the interface lo is down, over which this host's ranks reach its own addresses: ip link set lo up"
bool plait_loopback_is_down(void); /* even a host's own addresses are reached over it */

/*
 * The interfaces for data to other hosts, "eth0,eth1": those that `list` means, if it is not "", else those with an
 * address that is in `met`; "": none. The choice goes to the log (info), a faster interface that is left out too
 * (warning).
 */
#define PLAIT_DEVICES_TEXT 256
void plait_hosts_devices(const char *list, const struct plait_hosts *met, char out[PLAIT_DEVICES_TEXT]);

#endif
