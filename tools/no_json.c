/* SPDX-License-Identifier: BSD-3-Clause */
/* In the place of machine_file.c, in a build without jansson. */
#include "machine_file.h"
#include "message.h"

#define WITHOUT \
    "built without jansson, which reads and writes machines; install libjansson-dev (Debian) and build again"

bool machine_parse(const char *name, const char *text, size_t bytes, struct plait_machine *out,
                   struct machine_notes *notes)
{
    (void)text, (void)bytes, (void)out, (void)notes;
    return complain("%s: " WITHOUT, name);
}

char *machine_format(const struct plait_machine *machine, const struct machine_notes *notes)
{
    (void)machine, (void)notes;
    complain(WITHOUT);
    return NULL;
}
