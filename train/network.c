/* SPDX-License-Identifier: BSD-3-Clause */
#include "network.h"

#include "allocate.h"
#include "message.h"
#include "value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STAGE = 4 };

enum block { BASIC, BOTTLENECK }; /* He et al. 2015, figure 5 */

static const struct row {
    const char *name;
    enum block block;
    bool small;                /* images as in CIFAR: a 3x3 stem that keeps all pixels, and no pooling after it */
    uint32_t width;            /* channels of the first stage; each later one has twice as many */
    uint32_t depth[MAX_STAGE]; /* blocks of the stages */
} table[] = {
    { "resnet20", BASIC, true, 16, { 3, 3, 3 } },
    { "resnet18", BASIC, false, 64, { 2, 2, 2, 2 } },
    { "resnet34", BASIC, false, 64, { 3, 4, 6, 3 } },
    { "resnet50", BOTTLENECK, false, 64, { 3, 4, 6, 3 } },
    { "resnet101", BOTTLENECK, false, 64, { 3, 4, 23, 3 } },
    { "resnet152", BOTTLENECK, false, 64, { 3, 8, 36, 3 } },
};

enum { NROW = sizeof table / sizeof *table };

const char *const *network_names(void)
{
    static const char *names[NROW + 1];

    for (size_t k = 0; k < NROW; k++)
        names[k] = table[k].name;
    return names;
}

/* ---- Lists ---- */

static uint32_t value_add(struct network *net, uint32_t channels, uint32_t height, uint32_t width)
{
    net->values = grow(net->values, net->nvalue + 1, sizeof *net->values);
    net->values[net->nvalue] = (struct value){ channels, height, width };
    return net->nvalue++;
}

static void tensor_add(struct network *net, enum tensor_kind kind, const char *node, const char *what, uint32_t ndim,
                       const uint32_t *shape)
{
    struct tensor *tensor;

    net->tensors = grow(net->tensors, net->ntensor + 1, sizeof *net->tensors);
    tensor = &net->tensors[net->ntensor++];
    *tensor = (struct tensor){ .kind = kind, .ndim = ndim, .count = 1 };
    snprintf(tensor->name, sizeof tensor->name, "%s.%s", node, what);
    for (uint32_t d = 0; d < ndim; d++) {
        tensor->shape[d] = shape[d];
        tensor->count *= shape[d];
    }
}

/* A node's name is that of its block and its part of it; either may be "". */
static void join(char out[NODE_NAME], const char *block, const char *part)
{
    snprintf(out, NODE_NAME, "%s%s%s", block, *block != '\0' && *part != '\0' ? "." : "", part);
}

static struct node *node_add(struct network *net, enum node_kind kind, uint32_t in, uint32_t out, const char *block,
                             const char *part)
{
    struct node *node;

    net->nodes = grow(net->nodes, net->nnode + 1, sizeof *net->nodes);
    node = &net->nodes[net->nnode++];
    *node = (struct node){ .kind = kind, .in = in, .out = out, .tensor = net->ntensor };
    join(node->name, block, part);
    return node;
}

/* ---- Nodes: each takes a value and gives one ---- */

struct window {
    uint32_t kernel, stride, pad;
};

uint32_t network_pooled(uint32_t size, uint32_t kernel, uint32_t stride, uint32_t pad)
{
    return (size + 2 * pad - kernel) / stride + 1;
}

static struct node *windowed(struct network *net, enum node_kind kind, uint32_t in, uint32_t channels, struct window w,
                             const char *block, const char *part)
{
    const struct value from = net->values[in];
    const uint32_t out = value_add(net, channels, network_pooled(from.height, w.kernel, w.stride, w.pad),
                                   network_pooled(from.width, w.kernel, w.stride, w.pad));
    struct node *node = node_add(net, kind, in, out, block, part);

    node->kernel = w.kernel;
    node->stride = w.stride;
    node->pad = w.pad;
    return node;
}

static uint32_t convolution(struct network *net, uint32_t in, uint32_t channels, uint32_t kernel, uint32_t stride,
                            const char *block, const char *part)
{
    const uint32_t shape[] = { channels, net->values[in].channels, kernel, kernel };
    struct node *node =
        windowed(net, NODE_CONVOLUTION, in, channels, (struct window){ kernel, stride, kernel / 2 }, block, part);

    node->ntensor = 1;
    tensor_add(net, TENSOR_WEIGHT, node->name, "weight", 4, shape);
    return node->out;
}

static struct node *norm_node(struct network *net, uint32_t in, const char *block, const char *part)
{
    const struct value from = net->values[in];
    struct node *node =
        node_add(net, NODE_NORM, in, value_add(net, from.channels, from.height, from.width), block, part);

    node->ntensor = 2;
    return node;
}

static void norm_tensors(struct network *net, uint32_t in, const char *block, const char *part)
{
    char name[NODE_NAME];

    join(name, block, part);
    tensor_add(net, TENSOR_NORM, name, "weight", 1, &net->values[in].channels);
    tensor_add(net, TENSOR_NORM, name, "bias", 1, &net->values[in].channels);
}

static uint32_t norm(struct network *net, uint32_t in, bool relu, const char *block, const char *part)
{
    struct node *node = norm_node(net, in, block, part);

    node->relu = relu;
    norm_tensors(net, in, block, part);
    return node->out;
}

static uint32_t product(struct network *net, uint32_t in, uint32_t nclass)
{
    const uint32_t shape[] = { nclass, net->values[in].channels };
    const uint32_t out = value_add(net, nclass, 1, 1);
    struct node *node = node_add(net, NODE_PRODUCT, in, out, "", "fc");

    node->ntensor = 2;
    tensor_add(net, TENSOR_WEIGHT, node->name, "weight", 2, shape);
    tensor_add(net, TENSOR_BIAS, node->name, "bias", 1, &nclass);
    return out;
}

/* ---- Blocks ---- */

/* Where the shape changes, the shortcut is a projection (option B of He et al.), in the CIFAR variant too. */
static uint32_t project(struct network *net, uint32_t in, uint32_t channels, uint32_t stride, const char *block)
{
    if (stride == 1 && net->values[in].channels == channels)
        return in;
    return norm(net, convolution(net, in, channels, 1, stride, block, "downsample.0"), false, block, "downsample.1");
}

/* The last norm runs after the shortcut, which it adds. Its tensors come before, as in torchvision. */
static uint32_t end(struct network *net, uint32_t in, uint32_t shortcut_in, uint32_t stride, const char *block,
                    const char *part)
{
    const uint32_t tensor = net->ntensor;
    uint32_t shortcut;
    struct node *node;

    norm_tensors(net, in, block, part);
    shortcut = project(net, shortcut_in, net->values[in].channels, stride, block);
    node = norm_node(net, in, block, part);
    node->tensor = tensor;
    node->in2 = shortcut;
    node->relu = true;
    return node->out;
}

static uint32_t basic(struct network *net, uint32_t in, uint32_t width, uint32_t stride, const char *block)
{
    uint32_t x = convolution(net, in, width, 3, stride, block, "conv1");

    x = norm(net, x, true, block, "bn1");
    x = convolution(net, x, width, 3, 1, block, "conv2");
    return end(net, x, in, stride, block, "bn2");
}

/* v1.5: the stride is in the 3x3 convolution. */
static uint32_t bottleneck(struct network *net, uint32_t in, uint32_t width, uint32_t stride, const char *block)
{
    uint32_t x = convolution(net, in, width, 1, 1, block, "conv1");

    x = norm(net, x, true, block, "bn1");
    x = convolution(net, x, width, 3, stride, block, "conv2");
    x = norm(net, x, true, block, "bn2");
    x = convolution(net, x, 4 * width, 1, 1, block, "conv3");
    return end(net, x, in, stride, block, "bn3");
}

static uint32_t stem(struct network *net, const struct row *row, uint32_t in)
{
    uint32_t x = convolution(net, in, row->width, row->small ? 3 : 7, row->small ? 1 : 2, "", "conv1");

    x = norm(net, x, true, "", "bn1");
    return row->small ? x : windowed(net, NODE_LARGEST, x, row->width, (struct window){ 3, 2, 1 }, "", "maxpool")->out;
}

static void build(struct network *net, const struct row *row, uint32_t nclass, uint32_t pixels)
{
    uint32_t x = stem(net, row, value_add(net, 3, pixels, pixels));

    for (uint32_t stage = 0; stage < MAX_STAGE; stage++)
        for (uint32_t k = 0; k < row->depth[stage]; k++) {
            const uint32_t width = row->width << stage, stride = stage > 0 && k == 0 ? 2 : 1;
            char block[32];

            snprintf(block, sizeof block, "layer%u.%u", stage + 1, k);
            x = row->block == BASIC ? basic(net, x, width, stride, block) : bottleneck(net, x, width, stride, block);
        }
    x = windowed(net, NODE_AVERAGE, x, net->values[x].channels, (struct window){ net->values[x].height, 1, 0 }, "",
                 "avgpool")
            ->out;
    product(net, x, nclass);
}

/* ---- By name ---- */

static const struct row *find(const char *name)
{
    char names[128] = "";

    for (size_t k = 0; k < NROW; k++) {
        if (strcmp(table[k].name, name) == 0)
            return &table[k];
        list_add(names, sizeof names, table[k].name);
    }
    complain("there is no network %s; use one of %s", name, names);
    return NULL;
}

struct network *network_create(const char *name, uint32_t nclass, uint32_t pixels)
{
    const struct row *row = find(name);

    if (row == NULL)
        return NULL;
    const uint32_t least = row->small ? 8 : 32; /* else the last stage would see only padding */
    if (pixels < least) {
        complain("images of %u pixels are too small for %s; use at least %u", pixels, name, least);
        return NULL;
    }
    struct network *net = allocate(1, sizeof *net);
    build(net, row, nclass, pixels);
    return net;
}

void network_destroy(struct network *net)
{
    if (net == NULL)
        return;
    free(net->nodes);
    free(net->values);
    free(net->tensors);
    free(net);
}
