/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * News of ranks on other hosts, as they come over a connection. The input is what the other end has sent. Whatever is
 * taken is whole, of a rank of the comm, and leaves a replica whose text ends and whose count of operations never falls.
 */
#include "fuzz.h"

#include "failure/remote/remote.h"

#define NRANK 3

static void apply(struct plait_replica *const *replicas, const struct plait_control_update *news)
{
    MUST(news->rank < NRANK && news->bytes <= sizeof *news && news->nrecord <= PLAIT_CONTROL_UPDATE_RECORDS);
    struct plait_replica *m = replicas[news->rank];
    const uint64_t done = atomic_load(&m->control.done);
    struct plait_operation o;
    char text[256];
    plait_control_update_apply(news, m, 1);
    MUST(atomic_load(&m->control.done) >= done && atomic_load(&m->control.done) >= news->done);
    MUST(memchr(m->control.failure, '\0', sizeof m->control.failure) != NULL);
    MUST(news->failed == PLAIT_OK || atomic_load(&m->control.failed) != PLAIT_OK);
    for (uint64_t s = 0; s < PLAIT_NRECORD; s++)
        if (plait_ring_read(&m->control.ring, s, done, false, &o))
            plait_operation_text(&o, 1, text, sizeof text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plait_replica *replicas[NRANK];
    struct plait_control_update news;
    char *input = text_of(data, size); /* so that reading past its end is seen */
    size_t bytes;

    for (uint32_t r = 0; r < NRANK; r++)
        MUST((replicas[r] = plait_replica_create(1, r, NRANK, "fuzz")) != NULL);
    for (size_t at = 0; (bytes = plait_control_update_read(input + at, size - at, NRANK, &news)) > 0; at += bytes) {
        if (bytes == SIZE_MAX)
            break;
        MUST(bytes <= size - at && bytes == news.bytes);
        apply(replicas, &news);
    }
    free(input);
    for (uint32_t r = 0; r < NRANK; r++)
        plait_replica_destroy(replicas[r]);
    return 0;
}
