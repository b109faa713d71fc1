/* SPDX-License-Identifier: BSD-3-Clause */
/* Two threads add their vectors: built and run against an installed copy. */
#include <plait/comm.h>

#include <pthread.h>
#include <stdio.h>

#define COUNT 1000

struct rank {
    struct plait_unique_id id;
    uint32_t number;
    int wrong; /* elements that are not 3, or COUNT after an error */
};

static void *run(void *arg)
{
    struct rank *r = arg;
    struct plait_comm_options options = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_comm *comm = NULL;
    float in[COUNT], out[COUNT];

    for (int i = 0; i < COUNT; i++)
        in[i] = (float)(r->number + 1);
    options.nrank = 2;
    options.rank = r->number;
    options.id = &r->id;
    r->wrong = COUNT;
    if (plait_comm_create(&options, &comm) != PLAIT_OK ||
        plait_allreduce(comm, in, out, COUNT, PLAIT_FLOAT32, PLAIT_SUM, NULL) != PLAIT_OK) {
        fprintf(stderr, "rank %u: %s\n", r->number, plait_last_error());
    } else {
        r->wrong = 0;
        for (int i = 0; i < COUNT; i++)
            r->wrong += out[i] != 3;
    }
    plait_comm_destroy(comm);
    return NULL;
}

int main(void)
{
    struct rank ranks[2];
    pthread_t threads[2];

    if (plait_unique_id_create(&ranks[0].id) != PLAIT_OK) {
        fprintf(stderr, "%s\n", plait_last_error());
        return 1;
    }
    ranks[1].id = ranks[0].id;
    for (unsigned i = 0; i < 2; i++) {
        ranks[i].number = i;
        if (pthread_create(&threads[i], NULL, run, &ranks[i]) != 0)
            return 1;
    }
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%s\n", ranks[0].wrong + ranks[1].wrong == 0 ? "1 + 2 = 3 on both ranks" : "wrong");
    return ranks[0].wrong + ranks[1].wrong != 0;
}
