/* SPDX-License-Identifier: BSD-3-Clause */
#include "ending.h"

/* Later ones in this list are more specific; an unknown status is the most specific. */
static int weight(int status)
{
    static const int order[] = {
        ENDING_GOOD, ENDING_LOST, ENDING_SIGNAL, ENDING_NONFINITE, ENDING_USAGE, ENDING_ERROR
    };
    const int n = sizeof order / sizeof *order;
    int k = 0;

    while (k < n && order[k] != (status > ENDING_SIGNAL ? ENDING_SIGNAL : status))
        k++;
    return k;
}

int ending_worse(int a, int b)
{
    return weight(a) > weight(b) ? a : b;
}

enum ending ending_of(enum plait_status status)
{
    return status == PLAIT_ERR_PEER || status == PLAIT_ERR_FAILED || status == PLAIT_ERR_TIMEOUT ? ENDING_LOST
                                                                                                 : ENDING_ERROR;
}

void must(enum plait_status status, const char *what)
{
    if (status != PLAIT_OK)
        give_up(ending_of(status), "%s: %s", what, plait_last_error());
}
