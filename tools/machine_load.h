/* SPDX-License-Identifier: BSD-3-Clause */
/* Machines by name, as --machine takes them. */
#ifndef PLAIT_TOOLS_MACHINE_LOAD_H
#define PLAIT_TOOLS_MACHINE_LOAD_H

#include "hardware.h"

#define MACHINE_PRESETS "abci, dgx-h100-pod, knl-64, minsky-32, p40-1024, p40-2048" /* of tools/machines */
#define MACHINE_NAMES                                                                                                \
    "this-host, a machine that comes with Plait (" MACHINE_PRESETS "), a JSON file, hwloc's or NCCL's XML, or text " \
    "such as \"host:4 package:2 core:8\""

/* A machine and where it comes from. */
struct machine_source {
    struct plait_machine machine;
    struct machine_wish wish; /* with what the name says */
    struct part *host;        /* of which the machine was made; NULL: of a JSON file */
};

/*
 * name  one of MACHINE_NAMES
 * wish  for what describes one host
 * *out is to be closed after success. Returns false after a message that names source, line and remedy.
 */
bool machine_open(const char *name, const struct machine_wish *wish, struct machine_source *out);
void machine_close(struct machine_source *source);

/* The machine alone, as usual. */
bool machine_load(const char *name, struct plait_machine *out);

#endif
