/* SPDX-License-Identifier: BSD-3-Clause */
/* The mode of the driver in which what other threads call, here other ranks, does not spoil a capture. */
#ifndef PLAIT_TESTS_CUDA_CAPTURE_H
#define PLAIT_TESTS_CUDA_CAPTURE_H

enum { CAPTURE_ALONE = 1 };

#endif
