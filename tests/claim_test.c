/* SPDX-License-Identifier: BSD-3-Clause */
/* Another process has the same rank: who comes second fails, and the holder hears of it as long as its comm is young. */
#include "child.h"
#include "unit.h"

#include "base/descriptor.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/id.h"
#include "bootstrap/unix.h"

#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Another process holds rank 0's name for `seconds` of a young comm; *go ends it: it has heard of this one, or not. */
static pid_t start_holder(const struct plait_unique_id *id, double seconds, int *go)
{
    int ready[2], end[2];
    char word;

    assert_true(pipe(ready) == 0 && pipe(end) == 0);
    const pid_t pid = child_fork();
    if (pid == 0) {
        struct plait_rank_claim claim;
        bool fine = plait_claim_make(id, 0, seconds, &claim) == PLAIT_OK && claim.fd > 0;
        fine = fine && write(ready[1], "", 1) == 1 && read(end[0], &word, 1) == 1;
        _exit(!fine ? 1 : plait_claim_check(&claim, 0) == PLAIT_ERR_MISMATCH ? 2 : 3);
    }
    assert_int_equal(read(ready[0], &word, 1), 1);
    close(ready[0]);
    close(ready[1]);
    close(end[0]);
    *go = end[1];
    return pid;
}

static void who_comes_second_fails_and_a_young_comm_too(void **state)
{
    for (unsigned old = 0; old < 2; old++) {
        struct plait_rank_claim claim;
        struct plait_unique_id id;
        int go;
        assert_int_equal(plait_unique_id_create(&id), PLAIT_OK);
        const pid_t holder = start_holder(&id, old ? 0 : 60, &go);
        assert_int_equal(plait_claim_make(&id, 0, 60, &claim), PLAIT_ERR_MISMATCH);
        assert_non_null(strstr(plait_last_error(), "two ranks have rank 0: process "));
        assert_non_null(strstr(plait_last_error(), "port used by another job"));
        assert_int_equal(write(go, "", 1), 1);
        assert_int_equal(child_end(holder), old ? 3 : 2);
        assert_int_equal(plait_claim_make(&id, 0, 60, &claim), PLAIT_OK); /* the holder has ended */
        assert_true(claim.fd > 0);
        plait_descriptor_close(claim.fd);
        close(go);
    }
}

/* A process that is about to end still has the name. */
static void an_earlier_process_of_the_rank_may_be_ending(void **state)
{
    struct plait_rank_claim claim;
    struct plait_unique_id id;
    int go;

    assert_int_equal(plait_unique_id_create(&id), PLAIT_OK);
    const pid_t holder = start_holder(&id, 60, &go), ends = child_fork();
    if (ends == 0) {
        usleep(20000);
        _exit(write(go, "", 1) != 1);
    }
    assert_int_equal(plait_claim_make(&id, 0, 60, &claim), PLAIT_OK);
    assert_true(claim.fd > 0);
    assert_int_equal(child_end(holder), 3);
    assert_int_equal(child_end(ends), 0);
    plait_descriptor_close(claim.fd);
    close(go);
}

/* It waits for rank 1, which never comes. */
static void rank_0_hears_of_another_while_it_waits_for_ranks(void **state)
{
    struct plait_bootstrap *b;
    struct plait_unique_id id;

    assert_int_equal(plait_unique_id_create(&id), PLAIT_OK);
    id.bytes[sizeof id.bytes - 1] = PLAIT_ID_LAUNCHED;
    const pid_t other = child_fork();
    if (other == 0) {
        struct plait_rank_claim claim;
        enum plait_status status;
        do { /* until rank 0 has the name */
            status = plait_claim_make(&id, 0, 60, &claim);
            if (status == PLAIT_OK)
                plait_descriptor_close(claim.fd);
            usleep(1000);
        } while (status == PLAIT_OK);
        _exit(status != PLAIT_ERR_MISMATCH);
    }
    assert_int_equal(plait_bootstrap_create(&id, 0, 2, 30, PLAIT_OK, &b), PLAIT_ERR_MISMATCH);
    assert_int_equal(child_end(other), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_comes_second_fails_and_a_young_comm_too),
        cmocka_unit_test(an_earlier_process_of_the_rank_may_be_ending),
        cmocka_unit_test(rank_0_hears_of_another_while_it_waits_for_ranks),
    };

    return cmocka_run_group_tests_name("claim", tests, NULL, NULL);
}
