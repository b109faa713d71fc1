/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for what comes true by itself. */
#ifndef PLAIT_TESTS_UNTIL_H
#define PLAIT_TESTS_UNTIL_H

#include "base/clock.h"

#include <stdbool.h>
#include <unistd.h>

/* Waits until the condition is true. Is it? A minute and a half is a limit against hangs: a busy machine takes long. */
#define comes_true(condition)                                    \
    __extension__({                                              \
        const double until_ = plait_clock() + 90;                \
        bool true_;                                              \
        while (!(true_ = (condition)) && plait_clock() < until_) \
            usleep(1000);                                        \
        true_;                                                   \
    })

#endif
