/* SPDX-License-Identifier: BSD-3-Clause */
#include "host.h"

#include "crop_body.h"
#include "elements_body.h"
#include "loss_body.h"
#include "norm_body.h"
#include "pool_body.h"
#include "rows_body.h"

/* Run all phases of all blocks. */
#define PLAIT_X(name, args)                                                            \
    static void run_##name(const void *argument, uint32_t nblock)                      \
    {                                                                                  \
        union train_shared shared;                                                     \
                                                                                       \
        for (uint32_t block = 0; block < nblock; block++) {                            \
            struct plait_where at = { 0, TRAIN_THREADS, block, nblock };               \
            const uint32_t nphase = name##_phases((const struct args *)argument, &at); \
            memset(&shared, 0x7f, sizeof shared); /* as a device's is: undefined */    \
            for (uint32_t phase = 0; phase < nphase; phase++)                          \
                for (at.thread = 0; at.thread < TRAIN_THREADS; at.thread++)            \
                    name##_body((const struct args *)argument, phase, &at, &shared);   \
        }                                                                              \
    }
TRAIN_KERNEL_LIST(PLAIT_X)
#undef PLAIT_X

static const struct plait_cuda_host kernels[] = {
#define PLAIT_X(name, args) { #name, sizeof(struct args), TRAIN_THREADS, run_##name },
    TRAIN_KERNEL_LIST(PLAIT_X)
#undef PLAIT_X
};

const struct plait_cuda_host *train_cuda_host_find(const char *name)
{
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strcmp(kernels[i].name, name) == 0)
            return &kernels[i];
    return NULL;
}
