/* SPDX-License-Identifier: BSD-3-Clause */
#include "device_operate.h"

#include "../ranks.h"

int device_operate(struct plait_comm *comm, uint32_t rank, struct device_rank *d, const struct collective *c,
                   bool blocking)
{
    const uint32_t nrank = plait_comm_nrank(comm);
    const size_t size = plait_dtype_size(c->type), bytes = collective_room(c, nrank) * size;
    const struct collective_buffers at = collective_place(c, nrank, rank, d->in, d->out);
    const struct plait_geometry g = plait_geometry_of(c->coll, nrank, c->root, rank, 1);
    struct plait_call call = PLAIT_CALL_DEFAULT;
    char *want = malloc(bytes + 1), *scratch = malloc(bytes + 1);

    CHECK(want != NULL && scratch != NULL && bytes <= d->bytes);
    collective_want(c, nrank, rank, scratch, want);
    collective_fill(c, nrank, rank, d->host);
    CHECK(at.in == NULL || device_write(d, at.in, d->host, collective_elements(c, &g.in) * size));
    if (blocking)
        CHECK(device.stream_synchronize(d->cuda) == 0);
    else
        call.stream = d->stream;
    CHECK(collective_call(comm, c, at.in, at.out, call) == PLAIT_OK);
    if (at.out != NULL) {
        const size_t n = collective_elements(c, &g.out) * size;
        char *got = scratch;
        CHECK(device_read(d, got, at.out, n));
        if (!collective_right(c, nrank, rank, got, want)) {
            fprintf(stderr, "rank %u: %s of %zu %s %s root %u inplace %d %s: wrong\n", rank, plait_coll_name(c->coll),
                    c->count, plait_dtype_name(c->type), plait_op_name(c->op), c->root, c->inplace, c->spec);
            return 1;
        }
    }
    CHECK(device.stream_synchronize(d->cuda) == 0); /* d->host is filled again */
    free(want);
    free(scratch);
    return 0;
}
