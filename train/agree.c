/* SPDX-License-Identifier: BSD-3-Clause */
#include "agree.h"

#include "ending.h"

#include <plait/coll.h>
#include <plait/request.h>

#include <stdlib.h>

enum { STOP, WRONG, HERE, NVOTE };

struct agree {
    struct plait_comm *comm;
    struct plait_request *round; /* in progress; NULL: none */
    int32_t votes[NVOTE];        /* of this rank, then summed over all */
};

struct agree *agree_create(struct plait_comm *comm)
{
    struct agree *a = allocate(1, sizeof *a);

    a->comm = comm;
    return a;
}

void agree_destroy(struct agree *a)
{
    free(a);
}

static enum plait_status begin_round(struct agree *a, enum agreed wanted, bool here)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;

    a->votes[STOP] = wanted == AGREED_STOP;
    a->votes[WRONG] = wanted == AGREED_WRONG;
    a->votes[HERE] = here;
    call.request = &a->round;
    return plait_allreduce(a->comm, a->votes, a->votes, NVOTE, PLAIT_INT32, PLAIT_SUM, &call);
}

static enum agreed verdict(const struct agree *a)
{
    return a->votes[WRONG] > 0 ? AGREED_WRONG : a->votes[STOP] > 0 ? AGREED_STOP : AGREED_GO_ON;
}

enum plait_status agree_turn(struct agree *a, enum agreed wanted, enum agreed *out)
{
    enum plait_status status = PLAIT_OK;
    int done = 1;

    *out = AGREED_GO_ON;
    if (a->round != NULL) {
        status = plait_test(&a->round, &done);
        if (status != PLAIT_OK || !done)
            return status;
        *out = verdict(a);
    }
    return *out == AGREED_GO_ON ? begin_round(a, wanted, false) : PLAIT_OK;
}

enum plait_status agree_meet(struct agree *a, enum agreed wanted, enum agreed *out)
{
    enum plait_status status = PLAIT_OK;
    bool all = false;

    *out = AGREED_GO_ON;
    while (status == PLAIT_OK && *out == AGREED_GO_ON && !all) {
        if (a->round == NULL)
            status = begin_round(a, wanted, true);
        if (status == PLAIT_OK)
            status = plait_wait(&a->round);
        *out = verdict(a);
        all = a->votes[HERE] == (int32_t)plait_comm_nrank(a->comm);
    }
    return status;
}
