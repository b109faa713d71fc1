/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Heat on a plate that is cut into bands of rows, one for each process. Before each step neighbours exchange the rows
 * at their borders (the halo), with sends and receives in a group: all begin together, so no order of calls can
 * deadlock.
 *
 *     cc halo.c $(pkg-config --cflags --libs plait) -lm && ./a.out 4
 */
#include <plait/comm.h>
#include <plait/group.h>
#include <plait/memory.h>
#include <plait/message.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROWS  12 /* of a process, without its halo */
#define COLS  1000
#define STEPS 6000

typedef double row[COLS];

/* Every call that can fail returns a status; plait_last_error() has the exact cause. */
static void check(enum plait_status status)
{
    if (status == PLAIT_OK)
        return;
    fprintf(stderr, "%s: %s\n", plait_status_text(status), plait_last_error());
    exit(1);
}

/* u[0] and u[ROWS + 1] are the halo: the last row of the process above and the first of the one below. */
static void exchange(struct plait_comm *comm, row *u)
{
    const uint32_t rank = plait_comm_rank(comm), last = plait_comm_nrank(comm) - 1;

    check(plait_group_start());
    if (rank > 0) {
        check(plait_send(comm, u[1], COLS, PLAIT_FLOAT64, rank - 1, NULL));
        check(plait_recv(comm, u[0], COLS, PLAIT_FLOAT64, rank - 1, NULL));
    }
    if (rank < last) {
        check(plait_send(comm, u[ROWS], COLS, PLAIT_FLOAT64, rank + 1, NULL));
        check(plait_recv(comm, u[ROWS + 1], COLS, PLAIT_FLOAT64, rank + 1, NULL));
    }
    check(plait_group_end());
}

/* The plate is 1 at the top and 0 at the bottom, and the same along a row: in the end it falls evenly. */
static void run_rank(const struct plait_unique_id *id, uint32_t rank, uint32_t nrank)
{
    struct plait_comm_options options = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_comm *comm;
    void *old_memory, *new_memory;
    double error = 0;

    options.nrank = nrank;
    options.rank = rank;
    options.id = id;
    check(plait_comm_create(&options, &comm));
    check(plait_mem_alloc((ROWS + 2) * sizeof(row), &old_memory)); /* zeroed; neighbours read it in place */
    check(plait_mem_alloc((ROWS + 2) * sizeof(row), &new_memory));
    row *u = old_memory, *next = new_memory;

    for (int step = 0; step < STEPS; step++) {
        for (int c = 0; rank == 0 && c < COLS; c++)
            u[0][c] = 1;
        exchange(comm, u);
        for (int r = 1; r <= ROWS; r++)
            for (int c = 0; c < COLS; c++)
                next[r][c] = (u[r - 1][c] + u[r + 1][c]) / 2;
        row *const swapped = u;
        u = next;
        next = swapped;
    }

    for (int r = 1; r <= ROWS; r++)
        for (int c = 0; c < COLS; c++)
            error = fmax(error, fabs(u[r][c] - (1 - (rank * ROWS + r) / (nrank * ROWS + 1.0))));
    check(plait_allreduce(comm, &error, &error, 1, PLAIT_FLOAT64, PLAIT_MAX, NULL));
    if (rank == 0)
        printf("%u ranks, %d steps: the largest error is %g\n", nrank, STEPS, error);
    if (!(error < 1e-3))
        exit(1);
    check(plait_comm_destroy(comm));
    check(plait_mem_free(old_memory));
    check(plait_mem_free(new_memory));
}

int main(int argc, char **argv)
{
    const uint32_t nrank = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 2;
    struct plait_unique_id id;
    int failed = 0, status;

    check(plait_unique_id_create(&id));
    for (uint32_t rank = 0; rank < nrank; rank++) {
        const pid_t child = fork();
        if (child < 0)
            return 1;
        if (child == 0) {
            run_rank(&id, rank, nrank);
            return 0;
        }
    }
    while (wait(&status) > 0)
        failed |= status != 0;
    return failed;
}
