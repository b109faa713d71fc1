/* SPDX-License-Identifier: BSD-3-Clause */
#include "id.h"

#include "base/config.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/status.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(struct plait_unique_id) == 128, "as NCCL's");
_Static_assert(sizeof(struct plait_tcp_id) == sizeof(struct plait_unique_id), "an id is one of the two");
_Static_assert(offsetof(struct plait_tcp_id, kind) == sizeof(struct plait_unique_id) - 1, "in both the last byte");

/* ---- On this machine ----------------------------------------------------------------------------------------- */

void plait_machine_id_make(const void *from, size_t bytes, struct plait_unique_id *out)
{
    const unsigned long long a = plait_hash(PLAIT_HASH_START, from, bytes), b = plait_hash(a, from, bytes);

    memset(out, 0, sizeof *out);
    sprintf((char *)out->bytes, PLAIT_ID_MACHINE "%016llx%016llx", a, b);
}

enum plait_status plait_unique_id_create(struct plait_unique_id *out)
{
    uint64_t random[2];

    if (out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_unique_id_create: out is NULL");
    const enum plait_status status = plait_random(random, sizeof random, "a unique id");
    if (status == PLAIT_OK)
        plait_machine_id_make(random, sizeof random, out);
    return status;
}

/* ---- Over TCP -------------------------------------------------------------------------------------------------- */

bool plait_tcp_id_of(const struct plait_unique_id *id, struct plait_tcp_id *out)
{
    memcpy(out, id, sizeof *out);
    return memcmp(out->magic, PLAIT_ID_TCP, sizeof PLAIT_ID_TCP) == 0 && out->first_port > 0 && out->nport > 0 &&
           out->nport - 1 <= UINT16_MAX - out->first_port;
}

unsigned plait_tcp_id_nport(const struct plait_tcp_id *id)
{
    return id->nport < PLAIT_MOST_PORTS ? id->nport : PLAIT_MOST_PORTS;
}

uint16_t plait_tcp_id_port(const struct plait_tcp_id *id, unsigned i)
{
    unsigned char hash[PLAIT_MAC_BYTES];
    uint32_t start;

    plait_mac(id->secret, "port", NULL, 0, hash);
    memcpy(&start, hash, sizeof start);
    return (uint16_t)(id->first_port + (start % id->nport + i) % id->nport);
}

enum plait_status plait_tcp_id_make(uint16_t first_port, uint16_t nport, const unsigned char secret[PLAIT_SECRET_BYTES],
                                    const struct plait_hosts *hosts, struct plait_unique_id *out)
{
    struct plait_tcp_id id = { .magic = PLAIT_ID_TCP, .first_port = first_port, .nport = nport, .hosts = *hosts };

    memcpy(id.secret, secret, sizeof id.secret);
    if (first_port == 0 || nport == 0 || nport - 1 > UINT16_MAX - first_port)
        return plait_fail(PLAIT_ERR_ARG, "a unique id over TCP: %u ports from %u are no ports", nport, first_port);
    memcpy(out, &id, sizeof *out);
    return PLAIT_OK;
}

enum plait_status plait_unique_id_create_tcp(const char *ifname, struct plait_unique_id *out)
{
    struct plait_config config;
    struct plait_hosts hosts;
    unsigned char secret[PLAIT_SECRET_BYTES];
    enum plait_status status = plait_crypto_ready();

    if (out == NULL)
        return plait_fail(PLAIT_ERR_ARG, "plait_unique_id_create_tcp: out is NULL");
    if (status == PLAIT_OK)
        status = plait_config_load(&config);
    if (status == PLAIT_OK)
        status = plait_hosts_find(ifname != NULL ? ifname : config.ifname, &hosts);
    if (status == PLAIT_OK)
        status = plait_random(secret, sizeof secret, "a unique id");
    if (status == PLAIT_OK)
        status = plait_tcp_id_make(config.ports.first, config.ports.n, secret, &hosts, out);
    return status;
}

void plait_unique_id_derive(const struct plait_unique_id *from, uint64_t salt, const struct plait_hosts *root,
                            struct plait_unique_id *out)
{
    const struct {
        uint64_t salt;
        struct plait_unique_id from;
    } both = { salt, *from };
    struct plait_tcp_id id;

    if (root != NULL && plait_tcp_id_of(from, &id)) {
        unsigned char secret[PLAIT_SECRET_BYTES];
        plait_mac(id.secret, "derived comm", &salt, sizeof salt, secret);
        memcpy(id.secret, secret, sizeof secret);
        id.kind = PLAIT_ID_MADE;
        id.hosts = *root;
        memcpy(out, &id, sizeof *out);
        return;
    }
    plait_machine_id_make(&both, sizeof both, out);
}
