/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cryptography of the TCP bootstrap, which is one keyed hash (libsodium's crypto_auth, HMAC-SHA-512-256); and the
 * secret for comms of launchers: PLAIT_SECRET, or the file in the home directory.
 */
#ifndef PLAIT_LIB_BOOTSTRAP_SECRET_H
#define PLAIT_LIB_BOOTSTRAP_SECRET_H

#include "base/config.h"

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

#endif
