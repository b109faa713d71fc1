/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts with several plans, one after the other. */
#ifndef PLAIT_LIB_PLAN_PLAN_PARSE_H
#define PLAIT_LIB_PLAN_PLAN_PARSE_H

#include <plait/plan.h>

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
