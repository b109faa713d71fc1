/* SPDX-License-Identifier: BSD-3-Clause */
#include "status.h"

#include "system_limits.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static _Thread_local char last_error[sizeof((struct plait_error *)NULL)->text];

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

struct plait_error plait_error_of(enum plait_status status)
{
    struct plait_error e = { .status = status };

    if (status != PLAIT_OK)
        memcpy(e.text, last_error, sizeof e.text);
    return e;
}

enum plait_status plait_restore_error(const struct plait_error *e)
{
    return e->status == PLAIT_OK ? PLAIT_OK : (plait_fail)(e->status, "%s", e->text);
}

/* " (limit; remedy)", or "". */
static void remedy(int error, char *text, size_t size)
{
    text[0] = '\0';
    if (error == EMFILE || error == ETOOMANYREFS)
        snprintf(text, size, " (this process may have %zu descriptors; raise the limit: ulimit -n)",
                 plait_limit(RLIMIT_NOFILE));
    else if (error == ENFILE)
        snprintf(text, size, " (open files of the whole machine; raise the limit: sysctl fs.file-max)");
    else if (error == ENOMEM && plait_limit(RLIMIT_AS) != SIZE_MAX)
        snprintf(text, size, " (this process may have %zu bytes of address space; raise the limit: ulimit -v)",
                 plait_limit(RLIMIT_AS));
}

enum plait_status(plait_fail_errno)(int error, const char *format, ...)
{
    char what[512], how[160];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    remedy(error, how, sizeof how);
    return plait_fail(error == ENOMEM ? PLAIT_ERR_NOMEM : PLAIT_ERR_SYSTEM, "%s: %s%s", what, strerror(error), how);
}
