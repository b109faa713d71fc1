/* SPDX-License-Identifier: BSD-3-Clause */
#include "pending.h"

#include "unit.h"

#include <plait/comm.h>

struct ranks ranks;
int32_t memory[3][2][MANY * 50000];

void run(uint32_t nprocess, uint32_t nthread, int (*body)(struct plait_comm **, uint32_t, void *), void *arg)
{
    ranks = (struct ranks){ .nprocess = nprocess, .nthread = nthread, .limit = 120, .body = body, .arg = arg };
    assert_int_equal(ranks_run(&ranks), 0);
}

void run_both(uint32_t nrank, int (*body)(struct plait_comm **, uint32_t, void *), void *arg)
{
    run(nrank, 1, body, arg);
    run(1, nrank, body, arg);
}

enum plait_status begin_sum(struct plait_comm *comm, const int32_t *in, int32_t *out, size_t n,
                            struct plait_request **r)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;

    call.request = r;
    return plait_allreduce(comm, in, out, n, PLAIT_INT32, PLAIT_SUM, &call);
}
