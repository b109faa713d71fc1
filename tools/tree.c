/* SPDX-License-Identifier: BSD-3-Clause */
#include "tree.h"

#define COLUMN 30 /* of the text */

void tree_node(struct tree *t, bool more, const char *label, const char *text)
{
    t->more[t->depth] = more;
    for (unsigned d = 1; d < t->depth; d++)
        fputs(t->more[d] ? "│  " : "   ", t->f);
    if (t->depth > 0)
        fputs(more ? "├─ " : "└─ ", t->f);
    const int width = COLUMN - 3 * (int)t->depth;
    if (text[0] == '\0')
        fprintf(t->f, "%s\n", label);
    else
        fprintf(t->f, "%-*s %s\n", width > 0 ? width : 0, label, text);
}
