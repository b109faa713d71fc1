/* SPDX-License-Identifier: BSD-3-Clause */
/* Another process has the same rank: who comes second fails, and who has come hears of it, whatever they do meanwhile. */
#include "child.h"
#include "unit.h"

#include "bootstrap/bootstrap.h"
#include "bootstrap/id.h"
#include "bootstrap/origin.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct plait_origin nobody;
static pid_t holder; /* whose end is waited for after the next poll; 0: nobody's */
static int go;       /* is written to before the next poll; 0: nothing is */

int __real_poll(struct pollfd *fds, nfds_t n, int limit);
int __wrap_poll(struct pollfd *fds, nfds_t n, int limit);

int __wrap_poll(struct pollfd *fds, nfds_t n, int limit)
{
    if (go > 0 && write(go, "", 1) == 1)
        go = 0;
    const int ready = __real_poll(fds, n, limit);

    if (holder > 0)
        waitpid(holder, NULL, 0);
    holder = 0;
    return ready;
}

/* It has rank 0's name until another process wants it. */
static void hold(const struct plait_unique_id *id, int ready)
{
    struct plait_rank_claim claim;

    bool fine = plait_claim_make(id, 0, nobody, &claim) == PLAIT_OK && claim.fd > 0 && write(ready, "", 1) == 1;
    while (fine && plait_claim_check(&claim, 0) == PLAIT_OK)
        usleep(1000);
    _exit(0);
}

static void who_answers_and_ends_had_the_rank(void **state)
{
    struct plait_rank_claim claim;
    struct plait_unique_id id;
    int ready[2];
    char word;

    assert_int_equal(plait_unique_id_create(&id), PLAIT_OK);
    assert_int_equal(pipe(ready), 0);
    holder = child_fork();
    if (holder == 0)
        hold(&id, ready[1]);
    assert_int_equal(read(ready[0], &word, 1), 1);
    assert_int_equal(plait_claim_make(&id, 0, nobody, &claim), PLAIT_ERR_MISMATCH);
    close(ready[0]);
    close(ready[1]);
}

/* It waits for rank 1, which never comes. */
static void rank_0_hears_of_another_while_it_waits_for_ranks(void **state)
{
    struct plait_bootstrap *b;
    struct plait_rank_claim claim;
    struct plait_unique_id id;
    int waits[2];
    char word;

    assert_int_equal(plait_unique_id_create(&id), PLAIT_OK);
    plait_id_set_unnamed(&id);
    assert_int_equal(pipe(waits), 0);
    const pid_t other = child_fork();
    if (other == 0)
        _exit(read(waits[0], &word, 1) != 1 || plait_claim_make(&id, 0, nobody, &claim) != PLAIT_ERR_MISMATCH);
    go = waits[1];
    assert_int_equal(plait_bootstrap_create(&id, 0, 2, 4, PLAIT_OK, &b), PLAIT_ERR_MISMATCH);
    assert_int_equal(child_end(other), 0);
    close(waits[0]);
    close(waits[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_answers_and_ends_had_the_rank),
        cmocka_unit_test(rank_0_hears_of_another_while_it_waits_for_ranks),
    };

    return cmocka_run_group_tests_name("claim", tests, NULL, NULL);
}
