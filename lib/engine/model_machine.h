/* SPDX-License-Identifier: BSD-3-Clause */
/* The machine of a model (model.h): where the ranks are, and how fast everything is. */
#ifndef PLAIT_LIB_ENGINE_MODEL_MACHINE_H
#define PLAIT_LIB_ENGINE_MODEL_MACHINE_H

#include "model.h"

struct plait_model_machine {
    uint32_t *place;        /* [nrank] of the rank in the machine, rack by rack and host by host; to be freed */
    uint32_t nhost, each;   /* each: the most ranks of a host */
    uint32_t nrack, beside; /* beside: the most hosts of a rack */
    uint32_t processors;    /* of a host; 0: as many as ranks */
    size_t cache;
    struct plait_pace pace;
    struct plait_copies speeds;          /* timed between ranks that share memory */
    struct plait_tuned_link net, uplink; /* measured between hosts, and between racks; bandwidth 0: not */
};

/* Set places and numbers. Nothing is timed nor measured yet. Errors: PLAIT_ERR_NOMEM. */
enum plait_status plait_model_machine_make(const struct plait_model_options *options, struct plait_model_machine *out);

/* With built-in speeds, but for networks that were measured. device: the data is in GPUs' memory */
void plait_model_machine_describe(const struct plait_model_machine *machine, bool device, struct plait_machine *out);

/* Put in what was timed, for vectors of so many bytes in host memory. */
void plait_model_machine_use_timed(const struct plait_model_machine *machine, size_t bytes, struct plait_machine *out);

#endif
