/* SPDX-License-Identifier: BSD-3-Clause */
/* The content of a unique id: a name on this machine, or the addresses and ports of rank 0 and the comm's secret. */
#ifndef PLAIT_LIB_BOOTSTRAP_ID_H
#define PLAIT_LIB_BOOTSTRAP_ID_H

#include "base/config.h"
#include "hosts.h"

#include <plait/comm.h>

/*
 * The cryptography of the TCP bootstrap, which is one keyed hash (libsodium's crypto_auth, HMAC-SHA-512-256); and the
 * secret for comms of launchers: PLAIT_SECRET, or the file in the home directory.
 */
#define PLAIT_SECRET_BYTES 32
#define PLAIT_MAC_BYTES    32

/* Call this before the others. PLAIT_ERR_UNSUPPORTED, with the remedy: this build has no libsodium. */
enum plait_status plait_crypto_ready(void);

/* `use` separates domains: hashes for two uses never coincide. */
void plait_mac(const unsigned char secret[PLAIT_SECRET_BYTES], const char *use, const void *data, size_t bytes,
               unsigned char out[PLAIT_MAC_BYTES]);

/*
 * A key derived from the secret. Without a secret *found is false, and anybody can derive the key. PLAIT_ERR_CONFIG:
 * the file is not for its owner alone, or holds no secret.
 */
enum plait_status plait_secret_find(const struct plait_config *config, unsigned char out[PLAIT_SECRET_BYTES],
                                    bool *found);

/* Strip blanks from both ends, in place. False: too short or too long for a secret, or more than one line. */
bool plait_secret_trim(char *text);

/* ---- Ids ------------------------------------------------------------------------------------------------------ */

#define PLAIT_ID_MACHINE "plait1-machine-" /* then 32 hexadecimal digits */

/*
 * An id over TCP. No port is reserved for it: rank 0 later takes the first free one of a few, in an order derived from
 * the secret, and the others try the same ports. The addresses are hints and may differ between ranks: rank 0 listens
 * on those in its copy of the id, the others try those in theirs.
 */
struct plait_tcp_id {
    char magic[12];
    uint16_t first_port, nport; /* where rank 0 may listen */
    unsigned char secret[PLAIT_SECRET_BYTES];
    struct plait_hosts hosts; /* rank 0's */
    uint8_t kind;
};
#define PLAIT_ID_TCP "plait1-tcp"

/* The last byte of any id. */
enum plait_id_kind {
    PLAIT_ID_MADE,
    PLAIT_ID_LAUNCHED, /* made from a launcher's variables: another job may have this id (unix.h) */
};

#define PLAIT_MOST_PORTS 8 /* ports of the range that one rendezvous tries */

/* False: no id over TCP, or its ports are invalid. */
bool plait_tcp_id_of(const struct plait_unique_id *id, struct plait_tcp_id *out);

/* The i-th port to try, i < plait_tcp_id_nport(). */
uint16_t plait_tcp_id_port(const struct plait_tcp_id *id, unsigned i);
unsigned plait_tcp_id_nport(const struct plait_tcp_id *id);

/* ports: as of PLAIT_PORTS, one at least. */
void plait_tcp_id_make(struct plait_ports ports, const unsigned char secret[PLAIT_SECRET_BYTES],
                       const struct plait_hosts *hosts, enum plait_id_kind kind, struct plait_unique_id *out);

/* The id of the name on this machine that is derived from these bytes. */
void plait_machine_id_make(const void *from, size_t bytes, struct plait_unique_id *out);

/*
 * Equal `from`, `salt` and `root` give equal ids, so ranks that share them need no message to agree. root: addresses of
 * the new rank 0, for ids over TCP; else NULL.
 */
void plait_unique_id_derive(const struct plait_unique_id *from, uint64_t salt, const struct plait_hosts *root,
                            struct plait_unique_id *out);

#endif
