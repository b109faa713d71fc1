/* SPDX-License-Identifier: BSD-3-Clause */
/* The secret that launchers' comms have: PLAIT_SECRET, or the file in the home directory. */
#ifndef PLAIT_LIB_BOOTSTRAP_SECRET_H
#define PLAIT_LIB_BOOTSTRAP_SECRET_H

#include "base/config.h"
#include "crypto.h"

/*
 * A key made of it. *found is false, and the key is one that all can make, where there is none. PLAIT_ERR_CONFIG: the
 * file is not for its owner alone, or holds no secret.
 */
enum plait_status plait_secret_find(const struct plait_config *config, unsigned char out[PLAIT_SECRET_BYTES],
                                    bool *found);

/*
 * The file's text as a secret, in place: without blanks at its ends. False: too short or too long, or more than a line.
 */
bool plait_secret_trim(char *text);

#endif
