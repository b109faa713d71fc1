/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host's hardware by hwloc: packages, memory nodes, shared caches, and the devices beside them. The variables of
 * hwloc count: HWLOC_SYNTHETIC and HWLOC_XMLFILE describe another machine.
 */
#include "plugin/locate.h"

#include <hwloc.h>

#include <stdio.h>
#include <string.h>

/* Without, and with, devices; each is read once and kept. */
static hwloc_topology_t topologies[2];

/* Components that would start a GPU's driver in this process. PCI alone says where GPUs are. */
static const char *const components[] = { "cuda", "nvml", "opencl", "gl", "rsmi", "levelzero" };

static hwloc_topology_t topology_of(bool devices)
{
    hwloc_topology_t *t = &topologies[devices];

    if (*t != NULL)
        return *t;
    if (hwloc_topology_init(t) != 0)
        return *t = NULL;
    for (size_t i = 0; i < sizeof components / sizeof *components; i++)
        hwloc_topology_set_components(*t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, components[i]);
    if (devices)
        hwloc_topology_set_io_types_filter(*t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if (hwloc_topology_load(*t) != 0) {
        hwloc_topology_destroy(*t);
        *t = NULL;
    }
    return *t;
}

/* The outermost data cache: the one that most cores share. */
static hwloc_obj_type_t shared_cache(hwloc_topology_t t)
{
    for (int type = HWLOC_OBJ_L5CACHE; type > HWLOC_OBJ_L2CACHE; type--)
        if (hwloc_get_nbobjs_by_type(t, (hwloc_obj_type_t)type) > 0)
            return (hwloc_obj_type_t)type;
    return HWLOC_OBJ_L2CACHE;
}

/* The number of the first object of this type that holds all of `set`, and how many there are. */
static uint32_t number_of(hwloc_topology_t t, hwloc_obj_type_t type, hwloc_const_bitmap_t set, uint32_t *n)
{
    const int all = hwloc_get_nbobjs_by_type(t, type);

    *n = all > 0 ? (uint32_t)all : 0;
    for (uint32_t i = 0; i < *n; i++)
        if (hwloc_bitmap_isincluded(set, hwloc_get_obj_by_type(t, type, i)->cpuset))
            return i;
    return PLAIT_NOWHERE;
}

static void add(char *list, size_t room, const char *separator, const char *text)
{
    const size_t n = strlen(list);

    snprintf(list + n, room - n, "%s%s", n > 0 ? separator : "", text);
}

static void name_of(hwloc_obj_t pci, char *out, size_t room)
{
    const hwloc_obj_t os = pci->io_first_child;
    const struct hwloc_pcidev_attr_s *at = &pci->attr->pcidev;

    if (os != NULL && os->type == HWLOC_OBJ_OS_DEVICE && os->name != NULL)
        snprintf(out, room, "%s", os->name);
    else
        snprintf(out, room, "%04x:%02x:%02x.%x", (unsigned)at->domain, at->bus, at->dev, at->func);
}

/* List the devices of this PCI class that are beside `set`; advise if there are some, but none of these. */
static void find_devices(hwloc_topology_t t, hwloc_const_bitmap_t set, unsigned class, const char *what,
                         struct plait_locality *out)
{
    char name[64], text[160], elsewhere[64] = "";
    bool beside = false;

    for (hwloc_obj_t d = NULL; (d = hwloc_get_next_pcidev(t, d)) != NULL;) {
        const hwloc_obj_t at = hwloc_get_non_io_ancestor_obj(t, d);
        if (d->attr->pcidev.class_id >> 8 != class || at == NULL)
            continue;
        name_of(d, name, sizeof name);
        const bool here = hwloc_bitmap_intersects(at->cpuset, set);
        beside |= here;
        if (here)
            add(out->devices, sizeof out->devices, ", ", name);
        else if (elsewhere[0] == '\0')
            snprintf(elsewhere, sizeof elsewhere, "%s", name);
    }
    if (!beside && elsewhere[0] != '\0') {
        snprintf(text, sizeof text, "no %s is beside its processors: bind it to the package of %s", what, elsewhere);
        add(out->text, sizeof out->text, "; ", text);
    }
}

static hwloc_bitmap_t bitmap_of(const cpu_set_t *cpus)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();

    for (unsigned i = 0; set != NULL && i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, cpus))
            hwloc_bitmap_set(set, i);
    return set;
}

static bool locate(const cpu_set_t *cpus, bool devices, struct plait_locality *out)
{
    const hwloc_topology_t t = topology_of(devices);
    hwloc_bitmap_t set = bitmap_of(cpus);

    if (t == NULL || set == NULL) {
        snprintf(out->text, sizeof out->text, "hwloc cannot read this machine (hwloc's lstopo may say why)");
        hwloc_bitmap_free(set);
        return false;
    }
    if (!hwloc_topology_is_thissystem(t) || hwloc_bitmap_iszero(set))
        hwloc_bitmap_and(set, set, hwloc_topology_get_topology_cpuset(t));
    if (hwloc_bitmap_iszero(set)) /* none of these processors is there */
        hwloc_bitmap_copy(set, hwloc_topology_get_topology_cpuset(t));
    uint32_t ncore;
    (void)number_of(t, HWLOC_OBJ_CORE, set, &ncore);
    out->ncore = ncore;
    out->package = number_of(t, HWLOC_OBJ_PACKAGE, set, &out->npackage);
    out->memory = number_of(t, HWLOC_OBJ_NUMANODE, set, &out->nmemory);
    out->cache = number_of(t, shared_cache(t), set, &out->ncache);
    if (out->nmemory > 1 && out->memory == PLAIT_NOWHERE)
        add(out->text, sizeof out->text, "; ",
            "its processors lie on several memory nodes: where a host has several ranks, bind each to one "
            "(PLAIT_BIND, or the launcher)");
    if (devices) {
        find_devices(t, set, 0x03, "GPU", out);
        find_devices(t, set, 0x02, "NIC", out);
    }
    hwloc_bitmap_free(set);
    return true;
}

static bool bind_to(hwloc_topology_t t, hwloc_const_bitmap_t set, cpu_set_t *cpus, char *why, size_t room)
{
    if (hwloc_topology_is_thissystem(t) && hwloc_set_cpubind(t, set, HWLOC_CPUBIND_THREAD) != 0) {
        snprintf(why, room, "the system refuses");
        return false;
    }
    CPU_ZERO(cpus);
    for (int i = hwloc_bitmap_first(set); i >= 0 && i < CPU_SETSIZE; i = hwloc_bitmap_next(set, i))
        CPU_SET((unsigned)i, cpus);
    return true;
}

static bool bind(enum plait_bind unit, uint32_t index, uint32_t of, cpu_set_t *cpus, char *why, size_t room)
{
    const hwloc_topology_t t = topology_of(false);
    hwloc_bitmap_t now = t != NULL ? bitmap_of(cpus) : NULL;
    bool bound = now != NULL;

    if (!bound) {
        snprintf(why, room, "hwloc cannot read this machine");
        return false;
    }
    const hwloc_obj_type_t type = unit == PLAIT_BIND_CORE    ? HWLOC_OBJ_CORE
                                  : unit == PLAIT_BIND_CACHE ? shared_cache(t)
                                                             : HWLOC_OBJ_PACKAGE;
    const int n = hwloc_get_nbobjs_by_type(t, type);
    const bool free_to_run =
        !hwloc_topology_is_thissystem(t) || hwloc_bitmap_isincluded(hwloc_topology_get_topology_cpuset(t), now);
    if (n <= 0) {
        snprintf(why, room, "hwloc sees no such object");
        bound = false;
    } else if (free_to_run) {
        const unsigned which = (unsigned)((uint64_t)index * (unsigned)n / of);
        bound = bind_to(t, hwloc_get_obj_by_type(t, type, which)->cpuset, cpus, why, room);
    }
    hwloc_bitmap_free(now);
    return bound;
}

__attribute__((visibility("default"))) extern const struct plait_locate_plugin plait_locate_plugin;
const struct plait_locate_plugin plait_locate_plugin = { PLAIT_LOCATE_ABI, locate, bind };
