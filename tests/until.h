/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for what comes true by itself. */
#ifndef PLAIT_TESTS_UNTIL_H
#define PLAIT_TESTS_UNTIL_H

#include "base/clock.h"

#include <stdbool.h>
#include <unistd.h>

/* Waits until the condition is true, at most so many seconds. Is it? */
#define comes_true(condition, seconds)                           \
    __extension__({                                              \
        const double until_ = plait_clock() + (seconds);         \
        bool true_;                                              \
        while (!(true_ = (condition)) && plait_clock() < until_) \
            usleep(1000);                                        \
        true_;                                                   \
    })

#endif
