/* SPDX-License-Identifier: BSD-3-Clause */
/* Replicas of control blocks follow those they replica, over connections; what comes that is no news hurts nobody. */
#include "base/clock.h"
#include "failure/remote/remote.h"
#include "random.h"
#include "unit.h"
#include "until.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define NRANK 4

/* Ranks on a host each, with nothing but what replication needs. */
struct world {
    struct plait_comm comm[NRANK];
    struct plait_peer peers[NRANK][NRANK];
};

static void begin(struct plait_comm *comm, const int *sockets)
{
    assert_int_equal(plait_remote_create(comm, &comm->remote), PLAIT_OK);
    plait_remote_begin(comm->remote, sockets);
}

static int set_up(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    int fds[NRANK][2], root[NRANK] = { -1, -1, -1, -1 };

    for (uint32_t r = 0; r < NRANK; r++) {
        struct plait_comm *c = &w->comm[r];
        *c = (struct plait_comm){ .rank = r, .nrank = NRANK, .peers = w->peers[r] };
        c->own = aligned_alloc(4096, (plait_control_bytes(NRANK) + 4095) / 4096 * 4096);
        memset(c->own, 0, plait_control_bytes(NRANK));
        c->own->rank = r;
        for (uint32_t o = 0; o < NRANK; o++) {
            w->peers[r][o].replica = o != r ? plait_replica_create(1, o, NRANK, "test") : NULL;
            w->peers[r][o].control = o != r ? &w->peers[r][o].replica->control : c->own;
        }
        if (r > 0) {
            assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds[r]), 0);
            root[r] = fds[r][0];
        }
    }
    for (uint32_t r = 0; r < NRANK; r++)
        begin(&w->comm[r], r == 0 ? root : &fds[r][1]);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    for (uint32_t r = 0; r < NRANK; r++) {
        plait_remote_destroy(w->comm[r].remote);
        free(w->comm[r].own);
        for (uint32_t o = 0; o < NRANK; o++)
            plait_replica_destroy(w->peers[r][o].replica);
    }
    free(w);
    return 0;
}

#define EVENTUALLY(condition) assert_true(comes_true(condition))

static const struct plait_replica *replica(const struct world *w, uint32_t on, uint32_t of)
{
    return w->peers[on][of].replica;
}

static void call(struct world *w, uint32_t rank, uint64_t sequence, uint64_t count)
{
    const struct plait_what what = { .count = count, .coll = PLAIT_ALLREDUCE, .type = PLAIT_FLOAT32 };

    plait_ring_add(&w->comm[rank].own->ring, sequence, count << 32 | sequence, &what, memory_order_release);
}

static void what_a_rank_does_shows_in_every_replica_of_it(void **state)
{
    struct world *w = *state;
    struct plait_operation o;

    for (uint32_t r = 0; r < NRANK; r++) {
        struct plait_control *own = w->comm[r].own;
        for (uint64_t s = 1; s <= 20; s++)
            call(w, r, s, 100 * r + s);
        plait_progress_begin(&own->ring, 20, plait_clock_ns(), 3, 30);
        plait_ring_progress(&own->ring, 20)->steps = 7 + r;
        plait_ring_progress(&own->ring, 20)->waiting_for = 1 + (r + 1) % NRANK;
        atomic_store(&own->done, 19);
        atomic_store(&own->seen, 1.0 + r);
    }
    for (uint32_t on = 0; on < NRANK; on++)
        for (uint32_t of = 0; of < NRANK; of++) {
            if (on == of)
                continue;
            const struct plait_replica *m = replica(w, on, of);
            EVENTUALLY(atomic_load(&m->control.done) == 19 && plait_ring_read(&m->control.ring, 20, 19, false, &o) &&
                       o.has_progress && o.progress.steps == 7 + of);
            assert_int_equal(o.what.count, 100 * of + 20);
            assert_int_equal(o.progress.waiting_for, 1 + (of + 1) % NRANK);
            assert_int_equal(o.progress.nslice, 3);
            assert_true(plait_ring_read(&m->control.ring, 18, 19, false, &o)); /* some before it, too */
            assert_int_equal(o.what.count, 100 * of + 18);
            EVENTUALLY(atomic_load(&m->control.seen) > 0);
            assert_int_equal(m->dead, 0);
        }
    atomic_store(&w->comm[1].own->done, 20); /* rank 1 goes on, and waits for nobody */
    EVENTUALLY(atomic_load(&replica(w, 2, 1)->control.done) == 20);
    const double seen = atomic_load(&replica(w, 2, 1)->control.seen);
    assert_true(seen >= 2 && seen < plait_clock() - 1); /* it has not probed again */
}

/* Rank 2 hangs in its third, which rank 1 has called long ago. */
static void what_the_slowest_rank_is_in_is_told_by_those_far_ahead(void **state)
{
    struct world *w = *state;
    struct plait_operation o;

    for (uint64_t s = 1; s <= 40; s++)
        for (uint32_t r = 0; r < NRANK; r++)
            if (r != 2 || s <= 3)
                call(w, r, s, 100 * r + s);
    for (uint32_t r = 0; r < NRANK; r++)
        atomic_store(&w->comm[r].own->done, r == 2 ? 2 : 39);
    EVENTUALLY(plait_ring_read(&replica(w, 2, 1)->control.ring, 3, 39, false, &o));
    assert_int_equal(o.what.count, 103);
    EVENTUALLY(plait_ring_read(&replica(w, 2, 1)->control.ring, 40, 39, false, &o));
}

/* A mismatch in the first of many was said to be in the fifth: the records before it never came. */
static void calls_that_others_have_to_compare_are_told_from_the_first_on(void **state)
{
    struct world *w = *state;
    const struct plait_replica *m = replica(w, 2, 1);
    struct plait_operation o;

    for (uint32_t r = 0; r < NRANK; r++) {
        for (uint64_t s = 1; s <= 40; s++)
            call(w, r, s, 100 * r + s);
        atomic_store(&w->comm[r].own->uncompared, r == 2 ? 1 : 0);
        atomic_store(&w->comm[r].own->done, 40);
    }
    EVENTUALLY(plait_ring_read(&m->control.ring, 40, 40, false, &o));
    for (uint64_t s = 1; s <= 36; s++) {
        EVENTUALLY(plait_ring_read(&m->control.ring, s, 40, false, &o));
        assert_int_equal(o.what.count, 100 + s);
        assert_true(m->from <= s); /* what is not there will come */
        atomic_store(&w->comm[2].own->uncompared, s + 1);
    }
    atomic_store(&w->comm[2].own->uncompared, 0);
    EVENTUALLY(m->from == 41);
}

static void a_failure_comes_with_its_text_and_culprit(void **state)
{
    struct world *w = *state;
    struct plait_control *own = w->comm[2].own;

    snprintf(own->failure, sizeof own->failure, "count is 5 on rank 2 and 7 on rank 1");
    own->culprit = 2;
    atomic_store(&own->failed, PLAIT_ERR_MISMATCH);
    plait_remote_tell(w->comm[2].remote);
    for (uint32_t on = 0; on < NRANK; on++) {
        if (on == 2)
            continue;
        EVENTUALLY(atomic_load(&replica(w, on, 2)->control.failed) == PLAIT_ERR_MISMATCH);
        assert_string_equal(replica(w, on, 2)->control.failure, own->failure);
        assert_int_equal(replica(w, on, 2)->control.culprit, 2);
    }
}

static void who_departs_has_not_died(void **state)
{
    struct world *w = *state;

    atomic_store(&w->comm[3].own->done, 12);
    plait_remote_depart(w->comm[3].remote);
    plait_remote_destroy(w->comm[3].remote);
    w->comm[3].remote = NULL;
    for (uint32_t on = 0; on < 3; on++) {
        EVENTUALLY(atomic_load(&replica(w, on, 3)->control.departed) == 1);
        assert_int_equal(atomic_load(&replica(w, on, 3)->control.done), 12);
    }
    atomic_store(&w->comm[1].own->done, 3); /* it goes on for the others */
    EVENTUALLY(atomic_load(&replica(w, 2, 1)->control.done) == 3);
    for (uint32_t on = 0; on < 3; on++)
        assert_int_equal(atomic_load(&replica(w, on, 3)->dead), 0);
    plait_remote_depart(w->comm[0].remote);
    plait_remote_destroy(w->comm[0].remote);
    w->comm[0].remote = NULL;
    EVENTUALLY(atomic_load(&replica(w, 1, 0)->control.departed) == 1);
    assert_int_equal(atomic_load(&replica(w, 1, 0)->dead), 0);
}

/* Rank 1's connection is replaced by the test's: it sends what no rank sends. */
static void what_is_no_news_ends_the_connection_and_is_a_death(void **state)
{
    struct world *w = *state;
    struct plait_comm *root = &w->comm[0];
    uint64_t seed = 7;
    int fds[2], more[NRANK] = { -1, -1, -1, -1 };

    for (uint32_t trial = 0; trial < 20; trial++) {
        struct plait_control_update news = { .bytes = PLAIT_CONTROL_UPDATE_LEAST, .rank = 1 };
        char bytes[sizeof news];
        plait_remote_destroy(root->remote);
        plait_replica_destroy(w->peers[0][1].replica);
        w->peers[0][1].replica = plait_replica_create(1, 1, NRANK, "test");
        w->peers[0][1].control = &w->peers[0][1].replica->control;
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        more[1] = fds[0];
        begin(root, more);
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (char)random_next(&seed);
        if (trial % 5 == 1)
            news.rank = 2; /* of another */
        if (trial % 5 == 2)
            news.dead = 1; /* which only rank 0 says */
        if (trial % 5 == 3)
            news.bytes--;
        if (trial % 5 == 4)
            news.silence = 7; /* which only rank 0 says, too */
        if (trial % 5 > 0)
            memcpy(bytes, &news, PLAIT_CONTROL_UPDATE_LEAST);
        assert_true(write(fds[1], bytes, sizeof bytes) > 0);
        EVENTUALLY(atomic_load(&replica(w, 0, 1)->dead) == 1);
        assert_int_equal(atomic_load(&replica(w, 0, 2)->control.done), 0);
        close(fds[1]);
    }
}

/* Rank 0 stops in the middle: its end is held open by the test, which says nothing. */
static void when_rank_0_was_heard_last_is_known(void **state)
{
    struct world *w = *state;
    struct plait_comm *c = &w->comm[1];
    struct plait_control_update news;
    int fds[2];

    plait_remote_destroy(c->remote);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    begin(c, &fds[1]);
    const double begun = plait_remote_heard(c->remote, 0);
    plait_control_update_write(w->comm[2].own, 1, plait_clock_ns(), &news);
    news.seen = news.now;
    assert_true(plait_remote_heard(w->comm[0].remote, 2) > begun);
    usleep(700000); /* longer than rank 0 is ever silent */
    assert_true(plait_remote_heard(c->remote, 0) == begun);
    assert_true(plait_remote_heard(c->remote, 2) == begun);
    assert_int_equal(send(fds[0], &news, news.bytes, 0), news.bytes);
    EVENTUALLY(plait_remote_heard(c->remote, 0) > begun);
    EVENTUALLY(atomic_load(&replica(w, 1, 2)->control.seen) > begun);
    assert_true(atomic_load(&replica(w, 1, 3)->control.seen) < begun);
    close(fds[0]);
    EVENTUALLY(atomic_load(&replica(w, 1, 0)->dead) == 1);
    EVENTUALLY(plait_remote_is_over(c->remote));
    assert_false(plait_remote_is_over(w->comm[2].remote));
}

/* Rank 1's process is cut off: the test holds its connection open and says nothing. The others compute. */
static void a_rank_that_is_cut_off_is_told_from_those_that_compute(void **state)
{
    struct world *w = *state;
    struct plait_comm *root = &w->comm[0];
    struct plait_control_update news;
    int fds[NRANK][2], sockets[NRANK] = { -1, -1, -1, -1 };

    for (uint32_t r = 0; r < NRANK; r++)
        plait_remote_destroy(w->comm[r].remote);
    for (uint32_t r = 1; r < NRANK; r++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds[r]), 0);
        sockets[r] = fds[r][0];
    }
    begin(root, sockets);
    w->comm[1].remote = NULL;
    for (uint32_t r = 2; r < NRANK; r++)
        begin(&w->comm[r], &fds[r][1]);
    EVENTUALLY(atomic_load(&replica(w, 0, 1)->silent) > 0);
    for (uint32_t on = 2; on < NRANK; on++) {
        EVENTUALLY(atomic_load(&replica(w, on, 1)->silent) > 0);
        const double told = plait_remote_heard(w->comm[on].remote, 0);
        assert_true(plait_remote_heard(w->comm[on].remote, 1) <= told - PLAIT_REMOTE_SILENCE / 2);
        assert_true(atomic_load(&replica(w, on, 5 - on)->silent) == 0);
    }
    assert_true(atomic_load(&replica(w, 0, 2)->silent) == 0);
    plait_control_update_write(w->comm[1].own, 1, plait_clock_ns(), &news);
    assert_int_equal(send(fds[1][1], &news, news.bytes, 0), news.bytes); /* its link is back */
    for (uint32_t on = 0; on < NRANK; on++)
        EVENTUALLY(on == 1 || atomic_load(&replica(w, on, 1)->silent) == 0);
    for (uint32_t on = 0; on < NRANK; on++)
        assert_true(on == 1 || atomic_load(&replica(w, on, 1)->dead) == 0);
    close(fds[1][1]);
}

static void only_whole_news_of_a_rank_of_the_comm_are_news(void **state)
{
    const struct world *w = *state;
    struct plait_control_update news, read;

    plait_control_update_write(w->comm[1].own, 1, 0, &news);
    assert_int_equal(plait_control_update_read(&news, news.bytes, NRANK, &read), news.bytes);
    assert_int_equal(plait_control_update_read(&news, news.bytes - 1, NRANK, &read), 0);
    assert_true(plait_control_update_read(&news, news.bytes, 1, &read) == SIZE_MAX);
    assert_int_equal(plait_control_update_read(&news, PLAIT_CONTROL_UPDATE_LEAST - 1, NRANK, &read), 0);
    news.culprit = NRANK;
    assert_int_equal(plait_control_update_read(&news, news.bytes, NRANK, &read), news.bytes);
    news.culprit = NRANK + 1;
    assert_true(plait_control_update_read(&news, news.bytes, NRANK, &read) == SIZE_MAX);
    news.culprit = 0;
    news.nrecord = PLAIT_CONTROL_UPDATE_RECORDS;
    news.bytes = offsetof(struct plait_control_update, failure);
    assert_int_equal(plait_control_update_read(&news, sizeof news, NRANK, &read), news.bytes);
    news.failed = PLAIT_ERR_PEER;
    news.bytes = sizeof news;
    memset(news.failure, 'x', sizeof news.failure);
    assert_int_equal(plait_control_update_read(&news, sizeof news, NRANK, &read), sizeof news);
    assert_int_equal(strlen(read.failure), sizeof read.failure - 1);
    news.nrecord++;
    assert_true(plait_control_update_read(&news, sizeof news, NRANK, &read) == SIZE_MAX);
    plait_control_update_write(w->comm[1].own, 1, 0, &news);
    for (uint32_t bit = 0; bit < 32; bit++) {
        struct plait_control_update other = news;
        other.bytes ^= UINT32_C(1) << bit;
        assert_true(plait_control_update_read(&other, sizeof other, NRANK, &read) == SIZE_MAX);
        other = news;
        other.nrecord ^= UINT32_C(1) << bit;
        assert_true(plait_control_update_read(&other, sizeof other, NRANK, &read) == SIZE_MAX);
    }
}

/* ---- One update ------------------------------------------------------------------------------------------- */

/* The records that others compare first, then the last ones. The oldest may be overwritten soon: they are left out. */
static void an_update_has_the_wanted_records_and_the_last_ones(void **state)
{
    enum { KEPT = PLAIT_NRECORD / 2 };
    static const struct {
        uint64_t done, wanted, from;
        uint32_t n; /* wanted records */
    } cases[] = {
        { 10, 3, 3, 9 }, /* the running one is the last */
        { 10, 11, 11, 1 },
        { 10, 12, 12, 0 },
        { KEPT + 20, 1, 21, 16 },
        { KEPT + 20, 20, 21, 16 },
        { KEPT + 20, 21, 21, 16 },
        { KEPT + 20, 22, 22, 16 },
        { KEPT + 20, KEPT + 7, KEPT + 7, 15 },
        { 2, 1, 1, 3 },
    };
    struct world *w = *state;
    struct plait_control *own = w->comm[1].own;
    struct plait_control_update u;

    for (uint64_t s = 1; s <= KEPT + 21; s++)
        call(w, 1, s, s);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint64_t done = cases[i].done, last = done + 1 < PLAIT_CONTROL_UPDATE_LAST ? done + 1 : 4;
        const uint32_t n = cases[i].n;
        atomic_store(&own->done, done);
        plait_control_update_write(own, cases[i].wanted, 0, &u);
        assert_int_equal(u.from, cases[i].from);
        assert_int_equal(u.nrecord, n + last);
        assert_int_equal(u.bytes, PLAIT_CONTROL_UPDATE_LEAST + u.nrecord * sizeof *u.record);
        for (uint32_t k = 0; k < u.nrecord; k++)
            assert_int_equal((uint32_t)u.record[k].word, k < n ? u.from + k : done + 1 - (k - n));
    }
}

static void an_update_tells_what_the_rank_wants_and_how_far_it_is(void **state)
{
    struct world *w = *state;
    struct plait_control *own = w->comm[1].own;
    struct plait_control_update u;

    for (uint64_t s = 1; s <= 3; s++)
        call(w, 1, s, s);
    atomic_store(&own->done, 2);
    plait_control_update_write(own, 1, 7, &u);
    assert_int_equal(u.now, 7);
    assert_int_equal(u.wanted, 3); /* all before it are compared */
    assert_int_equal(u.progress.sequence, 0);
    assert_int_equal(u.gpu, 0);
    assert_false(u.noticed || u.receiving || u.dead || u.departed);
    atomic_store(&own->uncompared, 2);
    atomic_store(&own->noticed, 1);
    atomic_store(&own->receiving, 1);
    atomic_store(&own->gpu, UINT64_C(5) << 32);
    plait_progress_begin(&own->ring, 2, 20, 1, 10);
    plait_control_update_write(own, 1, 7, &u);
    assert_int_equal(u.wanted, 2);
    assert_int_equal(u.progress.sequence, 0); /* of the newest only */
    assert_true(u.noticed && u.receiving && u.gpu == UINT64_C(5) << 32);
    plait_progress_begin(&own->ring, 3, 30, 1, 10);
    plait_control_update_write(own, 1, 7, &u);
    assert_int_equal(u.progress.sequence, 3);
    snprintf(own->failure, sizeof own->failure, "a text that may not be whole");
    own->culprit = 2;
    plait_control_update_write(own, 1, 7, &u);
    assert_true(u.failed == PLAIT_OK && u.culprit == 0 && u.failure[0] == '\0');
}

/* Updates may be repeated or overtaken, and what comes from another host is not trusted. */
static void what_is_known_of_a_rank_does_not_go_back(void **state)
{
    struct plait_replica *m = plait_replica_create(1, 1, NRANK, "test");
    struct plait_control *c = &m->control;
    struct plait_control_update u = { .rank = 1, .done = 5, .now = 100, .wanted = 4, .from = 3, .seen = 90 };
    struct plait_operation o;

    assert_true(c->id == 1 && c->rank == 1 && c->nrank == NRANK);
    assert_string_equal(c->name, "test");
    u.progress = (struct plait_progress){ .sequence = PLAIT_NRECORD, .began = 40, .steps = 2 };
    u.record[0].word = UINT64_C(9) << 32 | PLAIT_NRECORD;
    u.record[0].what.count = 9;
    u.nrecord = 1;
    plait_control_update_apply(&u, m, 1100);
    assert_true(plait_ring_read(&c->ring, PLAIT_NRECORD, 5, false, &o) && o.what.count == 9 && o.has_progress);
    assert_true(o.progress.steps == 2 && o.progress.began == 1040); /* by this process's clock */
    assert_true(m->wanted == 4 && m->from == 3 && c->done == 5);
    assert_true(c->seen == 1e-9 * 1090 && m->silent == 0);
    assert_true(m->dead == 0 && c->departed == 0 && c->noticed == 0 && c->receiving == 0 && c->gpu == 0);

    u = (struct plait_control_update){ .rank = 1, .done = 4, .now = 1000, .seen = 90, .nrecord = 1 };
    u.record[0].word = UINT64_C(8) << 32; /* of no operation */
    plait_control_update_apply(&u, m, 2000);
    assert_true(plait_ring_read(&c->ring, PLAIT_NRECORD, 5, false, &o) && o.what.count == 9 && o.has_progress);
    assert_true(c->done == 5 && c->seen == 1e-9 * 1090); /* it has not probed since */

    u = (struct plait_control_update){ .rank = 1, .now = 8, .seen = 7, .silence = 1, .noticed = 1, .receiving = 1 };
    u.gpu = 6;
    u.departed = 1;
    u.progress.sequence = PLAIT_NRECORD; /* that has not begun */
    plait_control_update_apply(&u, m, 3000000);
    assert_true(plait_ring_read(&c->ring, PLAIT_NRECORD, 5, false, &o) && o.has_progress && o.progress.began == 0);
    assert_true(c->seen == 1e-9 * 2999999 && m->silent > 0 && m->silent < c->seen);
    assert_true(c->noticed == 1 && c->receiving == 1 && c->gpu == 6 && c->departed == 1 && m->dead == 0);
    assert_true(c->failed == PLAIT_OK);

    u = (struct plait_control_update){ .rank = 1, .failed = PLAIT_ERR_MISMATCH, .culprit = 3, .dead = 1 };
    snprintf(u.failure, sizeof u.failure, "the first text");
    plait_control_update_apply(&u, m, 4000000);
    u.failed = PLAIT_ERR_PEER;
    u.culprit = 2;
    snprintf(u.failure, sizeof u.failure, "another");
    plait_control_update_apply(&u, m, 5000000);
    assert_true(c->failed == PLAIT_ERR_MISMATCH && c->culprit == 3 && m->dead == 1);
    assert_string_equal(c->failure, "the first text");
    plait_replica_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_whole_news_of_a_rank_of_the_comm_are_news, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_update_has_the_wanted_records_and_the_last_ones, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_update_tells_what_the_rank_wants_and_how_far_it_is, set_up, tear_down),
        cmocka_unit_test(what_is_known_of_a_rank_does_not_go_back),
        cmocka_unit_test_setup_teardown(what_a_rank_does_shows_in_every_replica_of_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_the_slowest_rank_is_in_is_told_by_those_far_ahead, set_up, tear_down),
        cmocka_unit_test_setup_teardown(calls_that_others_have_to_compare_are_told_from_the_first_on, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_failure_comes_with_its_text_and_culprit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_departs_has_not_died, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_news_ends_the_connection_and_is_a_death, set_up, tear_down),
        cmocka_unit_test_setup_teardown(when_rank_0_was_heard_last_is_known, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_rank_that_is_cut_off_is_told_from_those_that_compute, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
