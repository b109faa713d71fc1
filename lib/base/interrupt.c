/* SPDX-License-Identifier: BSD-3-Clause */
#include "interrupt.h"

#include "clock.h"

#include <plait/comm.h>

#include <errno.h>

#define ASK_EVERY 0.1 /* seconds: the callback may wait milliseconds for an interpreter's lock (GIL) */

static _Thread_local int (*asks)(void);
static _Thread_local const atomic_bool *follows;
static _Thread_local bool asking; /* inside the callback, which may call the library */
static _Thread_local double last;
static _Thread_local void (*idles)(void);
static _Thread_local bool idling; /* inside that callback */

void plait_interrupt_set(int (*interrupted)(void))
{
    asks = interrupted;
}

void plait_interrupt_follow(const atomic_bool *flag)
{
    follows = flag;
}

bool plait_interrupted(void)
{
    if (follows != NULL)
        return atomic_load_explicit(follows, memory_order_relaxed);
    if (asks == NULL || asking)
        return false;
    const double now = plait_clock();
    if (now - last < ASK_EVERY)
        return false;
    asking = true;
    const bool ends = asks() != 0;
    asking = false;
    last = plait_clock();
    return ends;
}

plait_idle_function plait_idle_set(plait_idle_function idle)
{
    void (*const before)(void) = idles;

    idles = idle;
    return before;
}

bool plait_idle(void)
{
    if (idles == NULL || idling)
        return false;
    const int saved = errno;
    idling = true;
    idles();
    idling = false;
    errno = saved;
    return true;
}
