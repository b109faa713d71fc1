/* SPDX-License-Identifier: BSD-3-Clause */
#include <plait/version.h>

#include "build.h"

const char *plait_version(void)
{
    return PLAIT_VERSION;
}

const char *plait_features(void)
{
    return PLAIT_FEATURES;
}
