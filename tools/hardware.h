/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a host has: a tree of packages, memory nodes, caches, PCIe switches, cores, GPUs and NICs. hwloc
 * (hardware_hwloc.c) and NCCL's XML (hardware_nccl.c) give such trees; machine_of_parts() makes a machine from one.
 */
#ifndef PLAIT_TOOLS_HARDWARE_H
#define PLAIT_TOOLS_HARDWARE_H

#include <plait/simulate.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum part_kind { /* a kind contains those below it, as far as they are there */
                 PART_HOST,
                 PART_PACKAGE,
                 PART_NUMA, /* a memory node */
                 PART_CACHE,
                 PART_SWITCH, /* of PCIe */
                 PART_CORE,
                 PART_THREAD,
                 PART_GPU,
                 PART_NIC,
                 PART_NKIND
};

struct part {
    enum part_kind kind;
    uint32_t number;             /* among its kind */
    char name[40];               /* of a device: "mlx5_0"; "": none */
    uint64_t bytes;              /* of memory or cache; of the host: of a core's own cache */
    uint64_t rate;               /* bytes per second of the PCIe link to what contains it; 0: unknown */
    uint64_t network;            /* NIC: bytes per second; 0: unknown */
    uint32_t nvlinks;            /* GPU */
    uint32_t capability;         /* GPU: CUDA's, such as 90; 0: unknown */
    uint32_t counts[PART_NKIND]; /* of the parts that it contains */
    struct part *above, *first, *last, *next;
};

/* How one host becomes a machine. All zero: as usual. */
struct machine_wish {
    uint32_t hosts;          /* 0: one */
    uint32_t rack;           /* hosts of a rack; 0: no racks */
    uint32_t nics;           /* of a host; 0: as many as there are */
    uint64_t network;        /* bytes per second of a NIC; 0: as it is, or 100 Gbit/s */
    double oversubscription; /* of the racks' uplinks; 0: none */
    enum part_kind rank;     /* a rank for each of these; PART_HOST: GPU or core */
};

/* A part in `above`; NULL: a host. It is numbered among its kind in the host. */
struct part *part_add(struct part *above, enum part_kind kind);
void parts_free(struct part *host);

/* The next part of the tree: each comes before those that it contains. NULL: there is none. */
const struct part *parts_following(const struct part *part);

/* A nominal rate, with the three digits that it has. */
uint64_t part_rate(double rate);

/* "L3", "memory node" */
const char *part_kind_name(enum part_kind kind);

/* The kind of which each is to be a rank: the wish's, or GPUs, cores, threads. */
enum part_kind parts_rank(const struct part *host, const struct machine_wish *wish);

/* name: of the source, in messages and in the machine's name. Returns false after a message. */
bool machine_of_parts(const char *name, const struct part *host, const struct machine_wish *wish,
                      struct plait_machine *out);

/* The tree with box-drawing characters, and the ranks. */
void parts_draw(FILE *f, const struct part *host, const struct machine_wish *wish);

/* Of this host; of hwloc's XML, with a zero behind its `bytes`; of a synthetic description. NULL after a message. */
struct part *parts_here(void);
struct part *parts_of_hwloc(const char *name, const char *xml, size_t bytes);
struct part *parts_of_synthetic(const char *description);

/* Is it well-formed? False after a message with the line; in a build without expat hwloc finds out alone. */
bool xml_check(const char *name, const char *xml, size_t bytes);

/* Of NCCL's topology XML. NULL after a message. */
struct part *parts_of_nccl(const char *name, const char *xml, size_t bytes);

#endif
