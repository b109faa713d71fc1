/* SPDX-License-Identifier: BSD-3-Clause */
/* Trees as text, with box-drawing characters: a line for each node, in order. */
#ifndef PLAIT_TOOLS_TREE_H
#define PLAIT_TOOLS_TREE_H

#include <stdbool.h>
#include <stdio.h>

#define TREE_DEPTH 80

struct tree {
    FILE *f;
    unsigned depth;        /* of the next node: 0 is the root */
    bool more[TREE_DEPTH]; /* [depth] a sibling follows the node that was last drawn there */
};

/* Draw a node: its label, and in a column of its own what is said of it. more: a sibling follows. */
void tree_node(struct tree *t, bool more, const char *label, const char *text);

#endif
