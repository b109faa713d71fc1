/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process dies in the middle; the others are told which, make a smaller comm, and go on.
 *
 *     cc shrink.c $(pkg-config --cflags --libs plait) && ./a.out 4
 */
#include <plait/comm.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEPS   10
#define FAILING 4 /* step in which rank 1 dies */

/* Every call that can fail returns a status; plait_last_error() has the exact cause. */
static void check(enum plait_status status)
{
    if (status == PLAIT_OK)
        return;
    fprintf(stderr, "%s: %s\n", plait_status_text(status), plait_last_error());
    exit(1);
}

/*
 * Which rank is dead, is the program's to know, and all survivors must mean the same: a launcher, a heartbeat, or as
 * here the parent, who sees its children end and writes it down where all can read it.
 */
static volatile uint32_t *dead; /* shared; rank + 1, 0: none */

static struct plait_comm *go_on_without_the_dead(struct plait_comm *comm)
{
    struct plait_comm *rest;
    uint32_t excluded;

    while (*dead == 0)
        usleep(1000);
    excluded = *dead - 1;
    /* No word is exchanged through the old comm, which has failed. 1: stop whatever may still be in flight. */
    check(plait_comm_shrink(comm, &excluded, 1, 1, "survivors", &rest));
    plait_comm_destroy(comm); /* answers the error with which it failed */
    return rest;
}

static void run_rank(const struct plait_unique_id *id, uint32_t rank, uint32_t nrank)
{
    struct plait_comm_options options = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_comm *comm;
    int32_t sum = 0;

    options.nrank = nrank;
    options.rank = rank;
    options.id = id;
    check(plait_comm_create(&options, &comm));
    for (int step = 0; step < STEPS; step++) {
        const int32_t one = 1;
        if (rank == 1 && step == FAILING)
            raise(SIGKILL);
        const enum plait_status status = plait_allreduce(comm, &one, &sum, 1, PLAIT_INT32, PLAIT_SUM, NULL);
        /* A rank died or left: the text says which. Or a survivor that saw it first has stopped the comm. */
        if (status == PLAIT_ERR_PEER || status == PLAIT_ERR_FAILED) {
            printf("rank %u, step %d: %s\n", rank, step, plait_last_error());
            comm = go_on_without_the_dead(comm);
            step--; /* once more, with those that are left */
            continue;
        }
        check(status);
        if (sum != (int32_t)(step < FAILING ? nrank : nrank - 1)) {
            fprintf(stderr, "rank %u, step %d: %d ranks took part\n", rank, step, sum);
            exit(1);
        }
    }
    printf("rank %u is rank %u of %u now\n", rank, plait_comm_rank(comm), plait_comm_nrank(comm));
    check(plait_comm_destroy(comm));
}

int main(int argc, char **argv)
{
    const uint32_t nrank = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 4;
    struct plait_unique_id id;
    pid_t children[64], ended;
    int nkilled = 0, failed = 0, status;

    if (nrank < 2 || nrank > 64)
        return 2;
    dead = mmap(NULL, sizeof *dead, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (dead == MAP_FAILED)
        return 1;
    check(plait_unique_id_create(&id));
    for (uint32_t rank = 0; rank < nrank; rank++) {
        children[rank] = fork();
        if (children[rank] < 0)
            return 1;
        if (children[rank] == 0) {
            run_rank(&id, rank, nrank);
            return 0;
        }
    }
    while ((ended = wait(&status)) > 0) {
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
            failed |= status != 0;
            continue;
        }
        for (uint32_t rank = 0; rank < nrank; rank++)
            if (children[rank] == ended)
                *dead = rank + 1;
        nkilled++;
    }
    return failed || nkilled != 1;
}
