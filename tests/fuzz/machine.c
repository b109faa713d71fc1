/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Machines as JSON: a description that is taken is valid, it is written and read again as itself, and a small operation
 * on it ends with a time above its bound. What is refused has a line.
 */
#include "machine_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plait_prediction p;
    struct plait_machine m, again;

    if (!machine_of_text((const char *)data, size, &m))
        return 0;
    char *text = text_of_machine(&m);
    MUST(machine_of_text(text, strlen(text), &again));
    must_be_equal(&m, &again);
    free(text);
    MUST(plait_machine_check(&m) == PLAIT_OK && plait_machine_ranks(&m) >= 1);
    const uint32_t nrank = plait_machine_ranks(&m) < 4 ? (uint32_t)plait_machine_ranks(&m) : 4;
    const struct plait_shape shape = { .coll = PLAIT_ALLREDUCE, .nrank = nrank };
    m.cache = m.cache > 0 && m.cache < 1000 ? 1000 : m.cache;
    MUST(plait_simulate(&m, "ring", &shape, PLAIT_FLOAT32, 1000, NULL, &p) == PLAIT_OK);
    MUST(p.bound <= p.time && p.path.latency + p.path.transfer + p.path.compute + p.path.waiting == p.time);
    return 0;
}
