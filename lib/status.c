/* SPDX-License-Identifier: BSD-3-Clause */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char last_error[1024];

const char *plait_status_name(enum plait_status status)
{
    switch (status) {
#define PLAIT_X(name, value, text) \
    case name:                     \
        return #name;
        PLAIT_STATUS_LIST(PLAIT_X)
#undef PLAIT_X
    }
    return "PLAIT_ERR_UNKNOWN";
}

const char *plait_status_text(enum plait_status status)
{
    switch (status) {
#define PLAIT_X(name, value, text) \
    case name:                     \
        return text;
        PLAIT_STATUS_LIST(PLAIT_X)
#undef PLAIT_X
    }
    return "unknown status";
}

const char *plait_last_error(void)
{
    return last_error;
}

enum plait_status(plait_fail)(enum plait_status status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(last_error, sizeof last_error, format, args);
    va_end(args);
    return status;
}
