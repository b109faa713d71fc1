/* SPDX-License-Identifier: BSD-3-Clause */
#include "model_parts.h"

#include "allocate.h"

#include <assert.h>
#include <stdlib.h>

/*
 * Forward, node k runs in step k, backward in step 2 nnode - 1 - k. A value is alive from the node that computes it to
 * the last that reads it, including the backward pass. A gradient is alive from the backward step of the node that
 * reads the value to that of the node that computes it.
 */

static uint32_t back_step(const struct model *model, uint32_t node)
{
    return 2 * model->network->nnode - 1 - node;
}

/* If the backward pass does not need the input, the output takes its place. */
static bool in_place(const struct model *model, const struct node *node)
{
    return node->kind == NODE_NORM && !model->options.training;
}

static void wire_value(struct model *model, uint32_t value)
{
    model->data[value] = arena_add(&model->arena, model->env.layouts[value]->bytes);
}

static void wire_forward(struct model *model, uint32_t k)
{
    const struct node *node = &model->network->nodes[k];
    const bool training = model->options.training;
    struct arena *arena = &model->arena;
    const uint32_t *data = model->data;

    if (in_place(model, node))
        model->data[node->out] = data[node->in];
    else
        wire_value(model, node->out);
    model->wires[k].workspace =
        model->layers[k].workspace_bytes == 0 ? ARENA_NONE : arena_add(arena, model->layers[k].workspace_bytes);
    arena_use(arena, data[node->in], k);
    arena_use(arena, data[node->out], k);
    arena_use(arena, model->wires[k].workspace, k);
    if (node->in2 != 0)
        arena_use(arena, data[node->in2], k);
    if (!training)
        return;
    arena_use(arena, model->wires[k].workspace, back_step(model, k));
    if (node->kind == NODE_CONVOLUTION || node->kind == NODE_NORM)
        arena_use(arena, data[node->in], back_step(model, k));
    if (node->in2 != 0)
        arena_use(arena, data[node->out], back_step(model, k));
}

struct parts { /* parts of a value's gradient: one for each node that reads the value, the last such node's first */
    uint32_t buffer[2], n;
};

struct backward_plan {   /* state while the backward pass is planned */
    struct parts *parts; /* [nvalue] */
    uint32_t *holders;   /* [buffers] how many nodes have yet to read each */
};

static uint32_t gradient_add(struct model *model, struct backward_plan *back, uint32_t value)
{
    const uint32_t buffer = arena_add(&model->arena, model->env.layouts[value]->bytes);

    back->holders[buffer] = 0;
    return buffer;
}

static void part_add(struct backward_plan *back, uint32_t value, uint32_t buffer)
{
    struct parts *parts = &back->parts[value];

    if (value == 0)
        return; /* the images need no gradient */
    assert(parts->n < 2);
    parts->buffer[parts->n++] = buffer;
    back->holders[buffer]++;
}

/*
 * Choose the buffer of the gradient of a node's input: that of its output's gradient if the node works in place and no
 * other node has yet to read it; at the end of a block that of its output, which nobody reads after it.
 */
static uint32_t wire_diff_in(struct model *model, struct backward_plan *back, const struct node *node,
                             uint32_t diff_out)
{
    if (node->in == 0)
        return ARENA_NONE;
    if (node->in2 != 0)
        return model->data[node->out];
    if (node->kind == NODE_NORM && back->holders[diff_out] == 0)
        return diff_out;
    return gradient_add(model, back, node->in);
}

static void wire_backward(struct model *model, struct backward_plan *back, uint32_t k)
{
    const struct node *node = &model->network->nodes[k];
    struct parts *parts = &back->parts[node->out];
    struct wires *wires = &model->wires[k];

    wires->diff_out = parts->buffer[0];
    wires->diff_more = parts->n > 1 ? parts->buffer[1] : ARENA_NONE;
    for (uint32_t p = 0; p < parts->n; p++)
        back->holders[parts->buffer[p]]--;
    assert(node->kind == NODE_NORM || back->holders[wires->diff_out] == 0);
    if (node->in2 != 0) { /* its gradient takes the place of the output's */
        assert(back->holders[wires->diff_out] == 0);
        part_add(back, node->in2, wires->diff_out);
    }
    wires->diff_in = wire_diff_in(model, back, node, wires->diff_out);
    if (wires->diff_in != ARENA_NONE)
        part_add(back, node->in, wires->diff_in);
    arena_use(&model->arena, wires->diff_out, back_step(model, k));
    arena_use(&model->arena, wires->diff_more, back_step(model, k));
    arena_use(&model->arena, wires->diff_in, back_step(model, k));
}

void model_plan(struct model *model)
{
    const struct network *net = model->network;
    const uint32_t logits = net->nvalue - 1, end = 2 * net->nnode;
    struct backward_plan back = { allocate(net->nvalue, sizeof *back.parts),
                                  allocate((size_t)4 * net->nvalue, sizeof *back.holders) };

    model->arena.device = model->env.device;
    wire_value(model, 0);
    for (uint32_t k = 0; k < net->nnode; k++)
        wire_forward(model, k);
    /* The images stay for model_first_nonfinite(), the logits for the caller. */
    arena_use(&model->arena, model->data[0], end);
    arena_use(&model->arena, model->data[logits], end);
    if (model->options.training) {
        part_add(&back, logits, gradient_add(model, &back, logits));
        for (uint32_t k = net->nnode; k-- > 0;)
            wire_backward(model, &back, k);
    }
    free(back.parts);
    free(back.holders);
    arena_place(&model->arena);
}

void model_connect(struct model *model)
{
    const struct arena *arena = &model->arena;

    for (uint32_t k = 0; k < model->network->nnode; k++) {
        struct layer *layer = &model->layers[k];
        const struct node *node = layer->node;
        const struct wires *wires = &model->wires[k];

        layer->in = arena_at(arena, model->data[node->in]);
        layer->out = arena_at(arena, model->data[node->out]);
        layer->workspace = arena_at(arena, wires->workspace);
        if (node->in2 != 0)
            layer->in2 = arena_at(arena, model->data[node->in2]);
        if (!model->options.training)
            continue;
        layer->diff_out = arena_at(arena, wires->diff_out);
        layer->diff_more = arena_at(arena, wires->diff_more);
        layer->diff_in = arena_at(arena, wires->diff_in);
    }
}
