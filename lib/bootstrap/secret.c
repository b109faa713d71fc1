/* SPDX-License-Identifier: BSD-3-Clause */
#include "secret.h"

#include "base/descriptor.h"
#include "base/random.h"
#include "base/status.h"
#include "build.h"

#include <plait/launch.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
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

#define NAME ".plait-secret"

static enum plait_status find_path(char *out, size_t room)
{
    const char *home = getenv("HOME");

    if (home == NULL || home[0] == '\0')
        return plait_fail(PLAIT_ERR_CONFIG, "no home directory for " NAME ": HOME is not set");
    if ((size_t)snprintf(out, room, "%s/" NAME, home) >= room)
        return plait_fail(PLAIT_ERR_CONFIG, "the name of %.60s.../" NAME " is too long", home);
    return PLAIT_OK;
}

bool plait_secret_trim(char *text)
{
    size_t n = strlen(text);

    while (n > 0 && strchr(" \t\r\n", text[n - 1]) != NULL)
        n--;
    text[n] = '\0';
    const size_t start = strspn(text, " \t");
    memmove(text, text + start, n - start + 1);
    n -= start;
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
    char path[512];
    enum plait_status status = find_path(path, sizeof path);

    text[0] = '\0';
    if (status != PLAIT_OK) /* no home directory, no secret */
        return PLAIT_OK;
    const int fd = plait_descriptor_keep(open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), "a secret");
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? PLAIT_OK : plait_fail_errno(errno, "%s", path);
    status = check_file(fd, path);
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

enum plait_status plait_secret_make(char *path, size_t room)
{
    unsigned char random[PLAIT_SECRET_BYTES];
    char text[2 * PLAIT_SECRET_BYTES + 2];
    enum plait_status status = find_path(path, room);

    if (status == PLAIT_OK)
        status = plait_random(random, sizeof random, "a secret");
    if (status != PLAIT_OK)
        return status;
    for (unsigned i = 0; i < sizeof random; i++)
        sprintf(text + 2 * i, "%02x", random[i]);
    strcat(text, "\n");
    const int fd = plait_descriptor_keep(open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), "a secret");
    if (fd < 0 && errno == EEXIST)
        return plait_fail(PLAIT_ERR_CONFIG, "%s is there already; remove it first to make a new secret", path);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        status = plait_fail_errno(errno, "%s", path);
    plait_descriptor_close(fd);
    if (fd >= 0 && status != PLAIT_OK)
        unlink(path);
    explicit_bzero(text, sizeof text);
    return status;
}
