/* SPDX-License-Identifier: BSD-3-Clause */
#include "id.h"

#include "base/ascii.h"
#include "base/config.h"
#include "base/descriptor.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/status.h"
#include "build.h"

#include <plait/launch.h>

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

void plait_tcp_id_make(struct plait_ports ports, const unsigned char secret[PLAIT_SECRET_BYTES],
                       const struct plait_hosts *hosts, enum plait_id_kind kind, struct plait_unique_id *out)
{
    struct plait_tcp_id id = {
        .magic = PLAIT_ID_TCP, .first_port = ports.first, .nport = ports.n, .hosts = *hosts, .kind = (uint8_t)kind
    };

    memcpy(id.secret, secret, sizeof id.secret);
    memcpy(out, &id, sizeof *out);
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
        plait_tcp_id_make(config.ports, secret, &hosts, PLAIT_ID_MADE, out);
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

#if PLAIT_HAVE_SODIUM
#include <sodium.h>
#endif

/* ---- The keyed hash -------------------------------------------------------------------------------------------- */

enum plait_status plait_crypto_ready(void)
{
#if PLAIT_HAVE_SODIUM
    return sodium_init() >= 0 ? PLAIT_OK : plait_fail(PLAIT_ERR_SYSTEM, "libsodium does not start (sodium_init)");
#else
    return plait_fail(PLAIT_ERR_UNSUPPORTED,
                      "comms over TCP need libsodium, which this build of libplait lacks: install libsodium-dev and "
                      "build it again (meson setup --reconfigure -Dlibsodium=enabled)");
#endif
}

void plait_mac(const unsigned char secret[PLAIT_SECRET_BYTES], const char *use, const void *data, size_t bytes,
               unsigned char out[PLAIT_MAC_BYTES])
{
#if PLAIT_HAVE_SODIUM
    _Static_assert(crypto_auth_hmacsha512256_KEYBYTES == PLAIT_SECRET_BYTES, "a secret is a key");
    _Static_assert(crypto_auth_hmacsha512256_BYTES == PLAIT_MAC_BYTES, "as in the messages");
    crypto_auth_hmacsha512256_state state;

    crypto_auth_hmacsha512256_init(&state, secret, PLAIT_SECRET_BYTES);
    crypto_auth_hmacsha512256_update(&state, (const unsigned char *)use, strlen(use) + 1);
    crypto_auth_hmacsha512256_update(&state, data, bytes);
    crypto_auth_hmacsha512256_final(&state, out);
#else /* callers check plait_crypto_ready() first */
    (void)secret, (void)use, (void)data, (void)bytes;
    memset(out, 0, PLAIT_MAC_BYTES);
#endif
}

/* ---- The secret of a user -------------------------------------------------------------------------------------- */

bool plait_secret_trim(char *text)
{
    const char *start = plait_trim(text);
    const size_t n = strlen(start);

    memmove(text, start, n + 1);
    return n >= PLAIT_LEAST_SECRET && n < sizeof((struct plait_config *)0)->secret && strpbrk(text, "\r\n") == NULL;
}

static enum plait_status check_file(int fd, const char *path)
{
    struct stat about;

    if (fstat(fd, &about) != 0)
        return plait_fail_errno(errno, "%s", path);
    if (!S_ISREG(about.st_mode) || about.st_uid != geteuid() || (about.st_mode & 077) != 0)
        return plait_fail(
            PLAIT_ERR_CONFIG,
            "%s has mode %04o and owner %u: others may know what is in it; make a new secret in a file of "
            "your own with mode 0600 (plait-info --make-secret)",
            path, (unsigned)about.st_mode & 07777, (unsigned)about.st_uid);
    return PLAIT_OK;
}

/* "" where there is no file. */
static enum plait_status read_file(char *text, size_t room)
{
    const char *home = getenv("HOME");
    char path[512];

    text[0] = '\0';
    if (home == NULL || (size_t)snprintf(path, sizeof path, "%s/.plait-secret", home) >= sizeof path)
        return PLAIT_OK; /* no home directory, no secret */
    const int fd = plait_descriptor_keep(open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), "a secret");
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? PLAIT_OK : plait_fail_errno(errno, "%s", path);
    enum plait_status status = check_file(fd, path);
    const ssize_t n = status == PLAIT_OK ? read(fd, text, room - 1) : 0;
    text[n > 0 ? n : 0] = '\0';
    plait_descriptor_close(fd);
    if (status == PLAIT_OK && (n < 0 || !plait_secret_trim(text)))
        status = plait_fail(PLAIT_ERR_CONFIG,
                            "%s holds no secret: one line of %d to %zu characters (plait-info --make-secret)", path,
                            PLAIT_LEAST_SECRET, sizeof((struct plait_config *)0)->secret - 1);
    return status;
}

enum plait_status plait_secret_find(const struct plait_config *config, unsigned char out[PLAIT_SECRET_BYTES],
                                    bool *found)
{
    static const unsigned char none[PLAIT_SECRET_BYTES];
    char text[256];
    enum plait_status status = PLAIT_OK;

    snprintf(text, sizeof text, "%s", config->secret);
    if (text[0] == '\0')
        status = read_file(text, sizeof text);
    *found = text[0] != '\0';
    if (status == PLAIT_OK)
        plait_mac(none, "a user's secret", text, strlen(text), out);
    explicit_bzero(text, sizeof text);
    return status;
}
