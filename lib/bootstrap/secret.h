/* SPDX-License-Identifier: BSD-3-Clause */
/* The secret for comms of launchers: PLAIT_SECRET, or the file in the home directory. */
#ifndef PLAIT_LIB_BOOTSTRAP_SECRET_H
#define PLAIT_LIB_BOOTSTRAP_SECRET_H

#include "base/config.h"
#include "crypto.h"

/*
 * A key derived from the secret. Without a secret *found is false, and anybody can derive the key. PLAIT_ERR_CONFIG:
 * the file is not for its owner alone, or holds no secret.
 */
enum plait_status plait_secret_find(const struct plait_config *config, unsigned char out[PLAIT_SECRET_BYTES],
                                    bool *found);

/* Strip blanks from both ends, in place. False: too short or too long for a secret, or more than one line. */
bool plait_secret_trim(char *text);

#endif
