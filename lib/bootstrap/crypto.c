/* SPDX-License-Identifier: BSD-3-Clause */
#include "crypto.h"

#include "base/status.h"
#include "build.h"

#include <string.h>

#if PLAIT_HAVE_SODIUM

#include <sodium.h>

_Static_assert(crypto_auth_hmacsha512256_KEYBYTES == PLAIT_SECRET_BYTES, "a secret is a key");
_Static_assert(crypto_auth_hmacsha512256_BYTES == PLAIT_MAC_BYTES, "as in the messages");

enum plait_status plait_crypto_ready(void)
{
    return sodium_init() >= 0 ? PLAIT_OK : plait_fail(PLAIT_ERR_SYSTEM, "libsodium does not start (sodium_init)");
}

void plait_mac(const unsigned char secret[PLAIT_SECRET_BYTES], const char *use, const void *data, size_t bytes,
               unsigned char out[PLAIT_MAC_BYTES])
{
    crypto_auth_hmacsha512256_state state;

    crypto_auth_hmacsha512256_init(&state, secret, PLAIT_SECRET_BYTES);
    crypto_auth_hmacsha512256_update(&state, (const unsigned char *)use, strlen(use) + 1);
    crypto_auth_hmacsha512256_update(&state, data, bytes);
    crypto_auth_hmacsha512256_final(&state, out);
}

bool plait_mac_equal(const unsigned char a[PLAIT_MAC_BYTES], const unsigned char b[PLAIT_MAC_BYTES])
{
    return sodium_memcmp(a, b, PLAIT_MAC_BYTES) == 0;
}

#else

enum plait_status plait_crypto_ready(void)
{
    return plait_fail(PLAIT_ERR_UNSUPPORTED,
                      "comms over TCP need libsodium, which this build of libplait lacks: install libsodium-dev and "
                      "build it again (meson setup --reconfigure -Dlibsodium=enabled)");
}

/* Never reached: callers check plait_crypto_ready() first. */
void plait_mac(const unsigned char secret[PLAIT_SECRET_BYTES], const char *use, const void *data, size_t bytes,
               unsigned char out[PLAIT_MAC_BYTES])
{
    (void)secret;
    (void)use;
    (void)data;
    (void)bytes;
    memset(out, 0, PLAIT_MAC_BYTES);
}

bool plait_mac_equal(const unsigned char a[PLAIT_MAC_BYTES], const unsigned char b[PLAIT_MAC_BYTES])
{
    (void)a;
    (void)b;
    return false;
}

#endif
