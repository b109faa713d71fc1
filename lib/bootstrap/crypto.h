/* SPDX-License-Identifier: BSD-3-Clause */
/* The cryptography of the TCP bootstrap: one keyed hash (libsodium's crypto_auth, HMAC-SHA-512-256). */
#ifndef PLAIT_LIB_BOOTSTRAP_CRYPTO_H
#define PLAIT_LIB_BOOTSTRAP_CRYPTO_H

#include <plait/status.h>

#include <stdbool.h>
#include <stddef.h>

#define PLAIT_SECRET_BYTES 32
#define PLAIT_MAC_BYTES    32

/* Call this before the others. PLAIT_ERR_UNSUPPORTED, with the remedy: this build has no libsodium. */
enum plait_status plait_crypto_ready(void);

/* `use` separates domains: hashes for two uses never coincide. */
void plait_mac(const unsigned char secret[PLAIT_SECRET_BYTES], const char *use, const void *data, size_t bytes,
               unsigned char out[PLAIT_MAC_BYTES]);

/* In constant time. */
bool plait_mac_equal(const unsigned char a[PLAIT_MAC_BYTES], const unsigned char b[PLAIT_MAC_BYTES]);

#endif
