/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets of algorithms from plan files; plan_known.c reads the files. */
#ifndef PLAIT_LIB_PLAN_PLAN_FILE_H
#define PLAIT_LIB_PLAN_PLAN_FILE_H

#include <plait/plan.h>

#define PLAIT_FILE_NAME 48 /* bytes of such an algorithm's name: with the collective it fits PLAIT_ALGO */

struct plait_plans_of { /* one number of ranks and root */
    uint32_t nrank, root;
    struct plait_plan **plans; /* [nrank] */
    struct plait_claim claim;
};

struct plait_file_alg {
    struct plait_alg alg; /* its preset is this struct */
    struct plait_plans_of *shapes;
    size_t nshape, room;
    uint64_t hash;
    char name[PLAIT_FILE_NAME], source[64];
    char text[200], remedy[256];
};

struct plait_alg_set {
    struct plait_file_alg **algs;
    size_t n, room;
    const struct plait_alg **list;
};

/*
 * Add the plans of a file's text. path: for errors, and the name if the text has none. After an error the set can only
 * be destroyed.
 */
enum plait_status plait_alg_set_add(struct plait_alg_set *set, const char *path, const char *text);

/* Make the list: the set's algorithms, then others. */
enum plait_status plait_alg_set_finish(struct plait_alg_set *set, const struct plait_alg *const *behind);

/* ---- plan_text.c: texts with several plans, one after the other ------------------------------------------------- */

#define PLAIT_MOST_PLANS 16384 /* ranks */

struct plait_text {   /* what is left of a text */
    const char *name; /* of the file, for errors: "NAME:LINE: ..." */
    const char *at;
    uint32_t line; /* of `at` */
};

/* Go on to the next word, over blanks, ends of lines and comments. */
void plait_text_skip(struct plait_text *text);

/* Read a plan: its head and all steps that follow. Errors: PLAIT_ERR_PLAN, PLAIT_ERR_NOMEM. */
enum plait_status plait_text_read_plan(struct plait_text *text, struct plait_plan **out);

#endif
