/* SPDX-License-Identifier: BSD-3-Clause */
/* The equations of plait/elastic.h, one rank after the other: what all workers and the centre become. */
#ifndef PLAIT_TESTS_ELASTIC_MODEL_H
#define PLAIT_TESTS_ELASTIC_MODEL_H

#include <plait/elastic.h>

#include <stdbool.h>

struct model {
    enum plait_elastic_mode mode;
    enum plait_dtype payload;
    uint32_t nworker;
    size_t count;
    float **w, **v, **g, **d; /* [nworker][count]; gradients are the caller's to write */
    float *centre;
};

/* Weights that follow from the rank alone; the centre is rank 0's. False: no memory. */
bool model_make(struct model *m, enum plait_elastic_mode mode, enum plait_dtype payload, uint32_t nworker,
                size_t count);
void model_free(struct model *m);

/* An exchange of all with this pull, then the local step of all. Modes with servers: in the order of the ranks. */
void model_step(struct model *m, float pull, float momentum, float lr);

#endif
