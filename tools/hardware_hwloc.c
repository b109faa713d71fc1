/* SPDX-License-Identifier: BSD-3-Clause */
#include "hardware.h"
#include "message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if PLAIT_HAVE_HWLOC
#include <hwloc.h>

#define PCI_NETWORK 0x02 /* classes of PCI devices */
#define PCI_3D      0x0302
#define PCI_VGA     0x0300
#define PCI_DISPLAY 0x0380
#define NVIDIA      0x10de
#define AMD         0x1002

static void visit(hwloc_obj_t o, struct part *above);

/* ---- Devices ----------------------------------------------------------------------------------------- */

/* A device of computation, not the picture of a server's console? */
static bool is_gpu(const struct hwloc_pcidev_attr_s *pci)
{
    return pci->class_id == PCI_3D || (pci->class_id == PCI_VGA && pci->vendor_id == NVIDIA) ||
           (pci->class_id == PCI_DISPLAY && pci->vendor_id == AMD);
}

static bool is_nic(const struct hwloc_pcidev_attr_s *pci)
{
    return pci->class_id >> 8 == PCI_NETWORK;
}

static uint64_t rate_of(const struct hwloc_pcidev_attr_s *pci)
{
    return pci->linkspeed > 0 ? part_rate((double)pci->linkspeed * 1e9) : 0;
}

static void add_pci(hwloc_obj_t o, struct part *above)
{
    const struct hwloc_pcidev_attr_s *pci = &o->attr->pcidev;

    if (!is_gpu(pci) && !is_nic(pci))
        return;
    struct part *p = part_add(above, is_gpu(pci) ? PART_GPU : PART_NIC);
    p->rate = rate_of(pci);
    snprintf(p->name, sizeof p->name, "%04x:%02x:%02x.%01x", pci->domain, pci->bus, pci->dev, pci->func);
    for (hwloc_obj_t c = o->io_first_child; c != NULL; c = c->next_sibling)
        if (p->kind == PART_NIC && c->type == HWLOC_OBJ_OS_DEVICE && c->name != NULL)
            snprintf(p->name, sizeof p->name, "%.*s", (int)sizeof p->name - 1, c->name);
}

/* GPUs and NICs behind a bridge. */
static unsigned devices(hwloc_obj_t o)
{
    unsigned n = o->type == HWLOC_OBJ_PCI_DEVICE && (is_gpu(&o->attr->pcidev) || is_nic(&o->attr->pcidev));

    for (hwloc_obj_t c = o->io_first_child; c != NULL; c = c->next_sibling)
        n += devices(c);
    return n;
}

static void visit_io(hwloc_obj_t o, struct part *above)
{
    if (o->type == HWLOC_OBJ_PCI_DEVICE)
        add_pci(o, above);
    if (o->type != HWLOC_OBJ_BRIDGE)
        return;
    if (o->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI && devices(o) > 1) {
        above = part_add(above, PART_SWITCH);
        above->rate = rate_of(&o->attr->bridge.upstream.pci);
    }
    for (hwloc_obj_t c = o->io_first_child; c != NULL; c = c->next_sibling)
        visit_io(c, above);
}

/* ---- Processors and memory ----------------------------------------------------------------------------- */

static int kind_of(hwloc_obj_t o)
{
    switch (o->type) {
    case HWLOC_OBJ_PACKAGE:
        return PART_PACKAGE;
    case HWLOC_OBJ_L3CACHE:
        return PART_CACHE;
    case HWLOC_OBJ_CORE:
        return PART_CORE;
    case HWLOC_OBJ_PU:
        return PART_THREAD;
    default:
        return -1; /* what lies between them */
    }
}

/* The memory node of an object; of several kinds of memory the first. */
static struct part *add_memory(hwloc_obj_t o, struct part *above)
{
    hwloc_obj_t m = o->memory_first_child;

    while (m != NULL && m->type != HWLOC_OBJ_NUMANODE) /* a cache in front of it */
        m = m->memory_first_child;
    if (m == NULL)
        return above;
    struct part *p = part_add(above, PART_NUMA);
    p->bytes = m->attr->numanode.local_memory;
    return p;
}

static void visit(hwloc_obj_t o, struct part *above)
{
    const int kind = kind_of(o);
    const bool inside = o->type == HWLOC_OBJ_MACHINE || o->type == HWLOC_OBJ_PACKAGE; /* the memory is */

    if (!inside)
        above = add_memory(o, above);
    if (kind >= 0)
        above = part_add(above, (enum part_kind)kind);
    if (kind == PART_CACHE)
        above->bytes = o->attr->cache.size;
    if (inside)
        above = add_memory(o, above);
    for (hwloc_obj_t c = o->first_child; c != NULL; c = c->next_sibling)
        visit(c, above);
    for (hwloc_obj_t c = o->io_first_child; c != NULL; c = c->next_sibling)
        visit_io(c, above);
}

static struct part *parts_of(hwloc_topology_t topology)
{
    struct part *host = part_add(NULL, PART_HOST);
    hwloc_obj_t l2 = hwloc_get_obj_by_type(topology, HWLOC_OBJ_L2CACHE, 0);

    host->bytes = l2 != NULL ? l2->attr->cache.size : 0;
    visit(hwloc_get_root_obj(topology), host);
    return host;
}

/* ---- Sources ----------------------------------------------------------------------------------------- */

/* These load drivers and connect to displays; /sys has all that is needed. */
static void leave_out(hwloc_topology_t topology)
{
    static const char *const components[] = { "cuda", "nvml", "opencl", "gl", "rsmi", "levelzero", "pci" };

    for (size_t i = 0; i < sizeof components / sizeof *components; i++)
        hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, components[i]);
}

static bool set_source(hwloc_topology_t topology, const char *xml, size_t bytes, const char *synthetic)
{
    if (xml != NULL)
        return hwloc_topology_set_xmlbuffer(topology, xml, (int)bytes + 1) == 0;
    return synthetic == NULL || hwloc_topology_set_synthetic(topology, synthetic) == 0;
}

/* Of one of these, or with both NULL of this host. NULL without a message: hwloc cannot. */
static struct part *load(const char *xml, size_t bytes, const char *synthetic)
{
    struct part *host = NULL;
    hwloc_topology_t topology;

    if (hwloc_topology_init(&topology) != 0)
        return NULL;
    leave_out(topology);
    if (hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) == 0 &&
        set_source(topology, xml, bytes, synthetic) && hwloc_topology_load(topology) == 0)
        host = parts_of(topology);
    hwloc_topology_destroy(topology);
    return host;
}
#define WHY(cannot) cannot
#else
static struct part *load(const char *xml, size_t bytes, const char *synthetic)
{
    (void)xml, (void)bytes, (void)synthetic;
    return NULL;
}
#define WHY(cannot) "built without hwloc; install libhwloc-dev (Debian) and build again"
#endif

struct part *parts_here(void)
{
    struct part *host = load(NULL, 0, NULL);

    if (host == NULL)
        complain("this host: " WHY("hwloc cannot read its topology; lstopo may say why"));
    return host;
}

struct part *parts_of_hwloc(const char *name, const char *xml, size_t bytes)
{
    struct part *host = load(xml, bytes, NULL);

    if (host == NULL)
        complain("%s: " WHY("hwloc cannot read it; write it with lstopo FILE.xml"), name);
    return host;
}

struct part *parts_of_synthetic(const char *description)
{
    struct part *host = load(NULL, 0, description);

    if (host == NULL)
        complain("'%s': " WHY("hwloc knows no such machine; a description is like \"package:2 core:4\" or "
                              "\"package:2 numa:2 l3:2 core:2 pu:2\""),
                 description);
    return host;
}
