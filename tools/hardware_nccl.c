/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL's topology of a host, as NCCL_TOPO_DUMP_FILE writes it and NCCL_TOPO_FILE reads it: <system> has a <cpu> for
 * each memory node, with a tree of <pci>. A <pci> contains a <gpu> with its <nvlink>s, a <nic> with a <net> for each
 * port, or, as a switch, further <pci>. Files of cloud providers have <pci> of a GPU's or NIC's class with nothing
 * inside.
 */
#include "hardware.h"
#include "message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if PLAIT_HAVE_EXPAT
#include "base/ascii.h"

#include <expat.h>

#define DEPTH         64
#define MOST_ELEMENTS 16384

struct element {
    char name[16];
    char class[12]; /* of a <pci> */
    uint64_t rate;
    struct part *part; /* what the element is, or what contains it */
    bool device;       /* a GPU or NIC of this <pci> was found inside */
};

struct reader {
    const char *file;
    XML_Parser parser;
    struct element stack[DEPTH];
    unsigned depth, elements;
    struct part *host;
    char host_hash[32];
    bool failed;
};

static const char *attribute(const char *const *attributes, const char *name)
{
    for (; *attributes != NULL; attributes += 2)
        if (strcmp(attributes[0], name) == 0)
            return attributes[1];
    return NULL;
}

/* A number of an attribute, from 0 to `most`; `other` if there is none. */
static double number(const char *const *attributes, const char *name, double most, double other)
{
    const char *text = attribute(attributes, name);
    char *end;
    const double value = text != NULL ? plait_real(text, &end) : other;

    return text != NULL && end != text && value >= 0 && value <= most ? value : other;
}

static void fail(struct reader *r, const char *what, const char *remedy)
{
    if (!r->failed)
        complain("%s, line %lu: %s; %s", r->file, (unsigned long)XML_GetCurrentLineNumber(r->parser), what, remedy);
    r->failed = true;
    XML_StopParser(r->parser, XML_FALSE);
}

/* ---- Elements ---------------------------------------------------------------------------------------- */

/* Bytes per second of a PCIe link; 0: unknown. */
static uint64_t pcie_rate(const char *const *attributes)
{
    static const struct {
        double speed, lane; /* GT/s; bytes per second of a lane after its coding */
    } generations[] = {
        { 2.5, 0.25e9 }, { 5, 0.5e9 }, { 8, 0.985e9 }, { 16, 1.969e9 }, { 32, 3.938e9 }, { 64, 7.563e9 }
    };
    const double speed = number(attributes, "link_speed", 1000, 0);
    double width = number(attributes, "link_width", 64, 0);

    if (width < 1)
        width = 16;
    for (size_t i = 0; i < sizeof generations / sizeof *generations; i++)
        if (speed > 0 && speed <= generations[i].speed)
            return part_rate(generations[i].lane * width);
    return 0;
}

static bool is_class(const struct element *e, const char *prefix)
{
    return strncmp(e->class, prefix, strlen(prefix)) == 0;
}

/* The <pci> in which this element lies, NULL if in none. */
static struct element *device_of(struct reader *r)
{
    for (unsigned d = r->depth; d-- > 0;)
        if (strcmp(r->stack[d].name, "pci") == 0)
            return &r->stack[d];
    return NULL;
}

static void begin_cpu(struct reader *r, struct element *e, const char *const *attributes)
{
    const char *hash = attribute(attributes, "host_hash");

    if (hash != NULL && r->host_hash[0] != '\0' && strncmp(hash, r->host_hash, sizeof r->host_hash - 1) != 0)
        fail(r, "another host begins", "the file must be of one host: write it from a job of one host");
    if (hash != NULL)
        snprintf(r->host_hash, sizeof r->host_hash, "%.31s", hash);
    e->part = part_add(e->part, PART_NUMA);
}

static void begin_pci(struct element *e, const char *const *attributes)
{
    const char *class = attribute(attributes, "class");

    snprintf(e->class, sizeof e->class, "%.11s", class != NULL ? class : "");
    e->rate = pcie_rate(attributes);
    if (is_class(e, "0x0604")) {
        e->part = part_add(e->part, PART_SWITCH);
        e->part->rate = e->rate;
    }
}

static void begin_gpu(struct element *e, struct element *pci, const char *const *attributes)
{
    e->part = part_add(e->part, PART_GPU);
    e->part->capability = (uint32_t)number(attributes, "sm", 1000, 0);
    if (pci == NULL)
        return;
    e->part->rate = pci->rate;
    pci->device = true;
}

/* A port of a NIC. A NIC that NCCL sees beside several memory nodes is listed with each. */
static void begin_net(struct reader *r, struct element *e, struct element *pci, const char *const *attributes)
{
    const char *name = attribute(attributes, "name"), *used = attribute(attributes, "net");

    if (pci != NULL)
        pci->device = true;
    if (attribute(attributes, "dev") == NULL || (used != NULL && strcmp(used, "0") == 0))
        return;
    for (const struct part *p = r->host; p != NULL; p = parts_following(p))
        if (p->kind == PART_NIC && name != NULL && strncmp(p->name, name, sizeof p->name - 1) == 0)
            return;
    struct part *p = part_add(e->part, PART_NIC);
    snprintf(p->name, sizeof p->name, "%.39s", name != NULL ? name : "");
    p->network = (uint64_t)(number(attributes, "speed", 1e9, 0) * 1e6 / 8);
    p->rate = pci != NULL ? pci->rate : 0;
}

static void XMLCALL begin(void *arg, const XML_Char *name, const XML_Char **attributes)
{
    const char *const *a = (const char *const *)attributes;
    struct reader *r = arg;

    if (r->depth == DEPTH || r->elements++ == MOST_ELEMENTS) {
        fail(r, "too many elements", "NCCL's topology of a host has fewer");
        return;
    }
    struct element *e = &r->stack[r->depth], *pci = device_of(r);
    *e = (struct element){ .part = r->depth > 0 ? r->stack[r->depth - 1].part : r->host };
    snprintf(e->name, sizeof e->name, "%.15s", name);
    if (r->depth == 0 && strcmp(name, "system") != 0)
        fail(r, "the first element is not <system>", "write the file with NCCL_TOPO_DUMP_FILE=FILE.xml");
    else if (strcmp(name, "cpu") == 0)
        begin_cpu(r, e, a);
    else if (strcmp(name, "pci") == 0)
        begin_pci(e, a);
    else if (strcmp(name, "gpu") == 0)
        begin_gpu(e, pci, a);
    else if (strcmp(name, "nvlink") == 0 && e->part->kind == PART_GPU)
        e->part->nvlinks += (uint32_t)number(a, "count", 1000, 0);
    else if (strcmp(name, "net") == 0)
        begin_net(r, e, pci, a);
    r->depth++;
}

static void XMLCALL end(void *arg, const XML_Char *name)
{
    struct reader *r = arg;

    if (r->failed) /* the end of an empty element may still come */
        return;
    const struct element *e = &r->stack[--r->depth];
    if (strcmp(name, "pci") != 0 || e->device || !(is_class(e, "0x03") || is_class(e, "0x02")))
        return;
    part_add(e->part, is_class(e, "0x03") ? PART_GPU : PART_NIC)->rate = e->rate;
}

/* NCCL's files have none, and entities may grow without limit. */
static void XMLCALL begin_doctype(void *arg, const XML_Char *name, const XML_Char *system, const XML_Char *public,
                                  int internal)
{
    (void)name, (void)system, (void)public, (void)internal;
    fail(arg, "a document type", "NCCL's topology has none; leave it out");
}

/* complain() of what is no XML. */
static bool tell_error(const char *name, XML_Parser parser)
{
    return complain("%s, line %lu: %s", name, (unsigned long)XML_GetCurrentLineNumber(parser),
                    XML_ErrorString(XML_GetErrorCode(parser)));
}

bool xml_check(const char *name, const char *xml, size_t bytes)
{
    XML_Parser parser = XML_ParserCreate(NULL);

    if (parser == NULL)
        return complain("%s: out of memory", name);
    const bool ok = XML_Parse(parser, xml, (int)bytes, XML_TRUE) == XML_STATUS_OK || tell_error(name, parser);
    XML_ParserFree(parser);
    return ok;
}

struct part *parts_of_nccl(const char *name, const char *xml, size_t bytes)
{
    struct reader *r = calloc(1, sizeof *r);

    if (r == NULL || (r->parser = XML_ParserCreate(NULL)) == NULL) {
        complain("%s: out of memory", name);
        free(r);
        return NULL;
    }
    r->file = name;
    r->host = part_add(NULL, PART_HOST);
    XML_SetUserData(r->parser, r);
    XML_SetElementHandler(r->parser, begin, end);
    XML_SetStartDoctypeDeclHandler(r->parser, begin_doctype);
    if (XML_Parse(r->parser, xml, (int)bytes, XML_TRUE) != XML_STATUS_OK && !r->failed)
        r->failed = !tell_error(name, r->parser);
    struct part *host = r->host;
    if (r->failed) {
        parts_free(host);
        host = NULL;
    }
    XML_ParserFree(r->parser);
    free(r);
    return host;
}
#else
bool xml_check(const char *name, const char *xml, size_t bytes)
{
    (void)name, (void)xml, (void)bytes;
    return true;
}

struct part *parts_of_nccl(const char *name, const char *xml, size_t bytes)
{
    (void)xml, (void)bytes;
    complain("%s: built without expat, which reads NCCL's XML; install libexpat1-dev (Debian) and build again", name);
    return NULL;
}
#endif
