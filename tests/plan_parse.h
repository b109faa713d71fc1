/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAIT_TESTS_PLAN_PARSE_H
#define PLAIT_TESTS_PLAN_PARSE_H

#include <plait/plan.h>

/** The inverse of plait_plan_print(). Errors: PLAIT_ERR_PLAN names the line; PLAIT_ERR_NOMEM. */
enum plait_status plan_parse(const char *text, struct plait_plan **out);

#endif
