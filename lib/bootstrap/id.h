/* SPDX-License-Identifier: BSD-3-Clause */
/* What a unique id says: a name on this machine, or how to reach rank 0 over TCP and the secret that lets in. */
#ifndef PLAIT_LIB_BOOTSTRAP_ID_H
#define PLAIT_LIB_BOOTSTRAP_ID_H

#include "crypto.h"
#include "hosts.h"

#include <plait/comm.h>

#define PLAIT_ID_MACHINE       "plait1-machine-" /* and 32 hexadecimal digits, and perhaps: */
#define PLAIT_ID_LOCAL_UNNAMED "-unnamed"        /* the launcher names no job: others may have this id (origin.h) */

/*
 * An id over TCP. Nothing listens yet: rank 0 takes the first port that it gets of a few, whose order follows from the
 * secret, and the others look for it there. The addresses are hints and may differ between the ranks: rank 0 listens on
 * those that it knows, the others try those that they know.
 */
enum plait_id_kind {
    PLAIT_ID_MADE,
    PLAIT_ID_DERIVED, /* of a comm made of another, whose siblings may listen at the same ports */
    PLAIT_ID_UNNAMED, /* the launcher names no job: others may have this id (origin.h) */
};

struct plait_tcp_id {
    char magic[11];
    uint8_t kind;               /* enum plait_id_kind */
    uint16_t first_port, nport; /* where it may listen */
    unsigned char secret[PLAIT_SECRET_BYTES];
    struct plait_hosts hosts; /* rank 0's */
};
#define PLAIT_ID_TCP "plait1-tcp"

#define PLAIT_MOST_PORTS 8 /* of the range, that one meeting tries */

/* False: it is no id over TCP, or says nonsense. */
bool plait_tcp_id_of(const struct plait_unique_id *id, struct plait_tcp_id *out);

/* The i-th port to try, i < plait_tcp_id_nport(). */
uint16_t plait_tcp_id_port(const struct plait_tcp_id *id, unsigned i);
unsigned plait_tcp_id_nport(const struct plait_tcp_id *id);

/* PLAIT_ERR_ARG: port 0, or more ports than there are. */
enum plait_status plait_tcp_id_make(uint16_t first_port, uint16_t nport, const unsigned char secret[PLAIT_SECRET_BYTES],
                                    const struct plait_hosts *hosts, struct plait_unique_id *out);

/* The name on this machine that follows from a hash. */
void plait_machine_id_make(const uint64_t hash[2], struct plait_unique_id *out);

/* Note that the launcher names no job, or ask. */
void plait_id_set_unnamed(struct plait_unique_id *id);
bool plait_id_is_unnamed(const struct plait_unique_id *id);

/*
 * An id that whoever has the same `from`, salt and `root` computes alike: ranks that have them in common may meet
 * without a word. root: addresses of the new rank 0, for ids over TCP; else NULL.
 */
void plait_unique_id_derive(const struct plait_unique_id *from, uint64_t salt, const struct plait_hosts *root,
                            struct plait_unique_id *out);

#endif
