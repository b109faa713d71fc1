/* SPDX-License-Identifier: BSD-3-Clause */
/* The little cryptography that the TCP bootstrap needs: one keyed hash (libsodium's crypto_auth). */
#ifndef PLAIT_LIB_BOOTSTRAP_CRYPTO_H
#define PLAIT_LIB_BOOTSTRAP_CRYPTO_H

#include <plait/status.h>

#include <stdbool.h>
#include <stddef.h>

#define PLAIT_SECRET_BYTES 32
#define PLAIT_MAC_BYTES    32

/* PLAIT_ERR_UNSUPPORTED, with the remedy, where this build has no libsodium. The others need it. */
enum plait_status plait_crypto_ready(void);

/* `use` says what the hash is for: no two uses have hashes in common. */
void plait_mac(const unsigned char secret[PLAIT_SECRET_BYTES], const char *use, const void *data, size_t bytes,
               unsigned char out[PLAIT_MAC_BYTES]);

/* In the same time wherever they differ. */
bool plait_mac_equal(const unsigned char a[PLAIT_MAC_BYTES], const unsigned char b[PLAIT_MAC_BYTES]);

#endif
