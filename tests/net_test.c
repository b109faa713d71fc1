/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links over a network (transports/net.c), both ends in this thread, over one that delays and reorders (fake_net.h);
 * and how the plug-in of a network is found.
 */
#include "comm/port.h"

#include "fake_net.h"
#include "plugin/plugin.h"
#include "random.h"
#include "unit.h"

#include <plait/log.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 5000 /* bytes of a message */

struct end { /* a rank's comm, as far as links need it */
    struct plait_comm comm;
    struct plait_link *link;
};
static struct end a, b;

static void open_end(struct end *e, uint32_t rank, uint64_t id)
{
    memset(e, 0, sizeof *e);
    e->comm.rank = rank;
    e->comm.nrank = 2;
    e->comm.id = id;
    e->comm.own = calloc(1, plait_control_bytes(2));
    assert_non_null(e->comm.own);
    assert_int_equal(plait_port_open(&e->comm, &fake_net, NULL), PLAIT_OK);
}

static void lead(struct end *from, const struct end *to)
{
    size_t bytes;
    const void *address = plait_port_address(to->comm.port, &bytes);

    assert_int_equal(plait_port_lead(from->comm.port, to->comm.rank, address, bytes), PLAIT_OK);
}

static void connect_end(struct end *e)
{
    e->link = plait_connect_by(plait_transports, &e->comm, 1 - e->comm.rank, PLAIT_CHANNEL_COLLECTIVES);
    assert_non_null(e->link);
    assert_string_equal(e->link->transport->name, "net");
}

static int set_up(void **state)
{
    memset(&fake_net_counts, 0, sizeof fake_net_counts);
    fake_net_prompt = false;
    open_end(&a, 0, 77);
    open_end(&b, 1, 77);
    lead(&a, &b);
    lead(&b, &a);
    connect_end(&a);
    connect_end(&b);
    return 0;
}

static void close_end(struct end *e)
{
    plait_port_close(e->comm.port);
    free(e->comm.own);
    e->comm.own = NULL;
}

static int tear_down(void **state)
{
    close_end(&a);
    close_end(&b);
    return fake_net_counts.nheld == 0 ? 0 : -1;
}

static void turn(unsigned n)
{
    while (n-- > 0) {
        plait_port_turn(a.comm.port);
        plait_port_turn(b.comm.port);
    }
}

static bool offer(struct end *e, uint32_t number, const void *data, size_t bytes)
{
    return e->link->transport->offer(e->link, number, 4711, number, data, bytes, bytes <= PLAIT_MAILBOX_DATA);
}

static const void *arrived(struct end *e, uint32_t number, void *landing, size_t *bytes)
{
    return e->link->transport->arrived(e->link, number, 4711, landing, bytes);
}

static bool ready(struct end *e, uint32_t number)
{
    return e->link->transport->ready(e->link, number);
}

static bool sent(struct end *e, uint32_t number)
{
    return e->link->transport->sent(e->link, number);
}

static void release(struct end *e, uint32_t number)
{
    e->link->transport->release(e->link, number);
}

/* ---- Messages ------------------------------------------------------------------------------------------- */

struct stream { /* from one end to the other; numbers are offered and taken in any order that a window allows */
    struct end *from, *to;
    uint32_t noffered, ntaken;
    bool offered[PLAIT_WINDOW], taken[PLAIT_WINDOW]; /* of the window at noffered, ntaken */
    unsigned char data[2 * PLAIT_WINDOW][MOST], landing[PLAIT_WINDOW][MOST];
};

static size_t size_of(uint32_t number)
{
    static const size_t sizes[] = { 0, 1, 32, 33, FAKE_EAGER, FAKE_EAGER + 1, 4096, MOST };
    return sizes[(number * 7 + number / 8) % 8];
}

static void fill(unsigned char *data, uint32_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)(number * 31 + i * 7 + i / 251);
}

static bool is_filled(const unsigned char *data, uint32_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != (unsigned char)(number * 31 + i * 7 + i / 251))
            return false;
    return true;
}

static void advance(uint32_t *first, bool done[PLAIT_WINDOW])
{
    while (done[*first % PLAIT_WINDOW])
        done[(*first)++ % PLAIT_WINDOW] = false;
}

static void try_to_offer(struct stream *s, uint32_t number)
{
    unsigned char *data = s->data[number % (2 * PLAIT_WINDOW)];
    const size_t bytes = size_of(number);

    if (s->offered[number % PLAIT_WINDOW] || !ready(s->from, number))
        return;
    fill(data, number, bytes);
    if (offer(s->from, number, data, bytes))
        memset(data, 0xee, bytes); /* it is free at once */
    s->offered[number % PLAIT_WINDOW] = true;
    advance(&s->noffered, s->offered);
}

static void try_to_take(struct stream *s, uint32_t number)
{
    size_t bytes = size_of(number);

    if (s->taken[number % PLAIT_WINDOW])
        return;
    const unsigned char *data =
        arrived(s->to, number, number % 3 == 0 ? s->landing[number % PLAIT_WINDOW] : NULL, &bytes);
    if (data == NULL)
        return;
    assert_int_equal(bytes, size_of(number));
    assert_true(is_filled(data, number, bytes));
    release(s->to, number);
    s->taken[number % PLAIT_WINDOW] = true;
    advance(&s->ntaken, s->taken);
}

/* What a peer reads in place is written over as soon as it may be. */
static void reuse(struct stream *s)
{
    for (uint32_t i = 0; i < PLAIT_WINDOW; i++) {
        const uint32_t number = s->noffered - PLAIT_WINDOW + i;
        if (s->noffered >= PLAIT_WINDOW && sent(s->from, number))
            memset(s->data[number % (2 * PLAIT_WINDOW)], 0xee, MOST);
    }
}

static void messages_arrive_whole_in_any_order_both_ways(void **state)
{
    enum { N = 1000 };
    static struct stream s[2];
    uint64_t random = 5;

    s[0] = (struct stream){ .from = &a, .to = &b };
    s[1] = (struct stream){ .from = &b, .to = &a };
    for (unsigned turns = 0; s[0].ntaken < N || s[1].ntaken < N; turns++) {
        struct stream *t = &s[turns % 2];
        const uint32_t at = (uint32_t)random_next(&random) % PLAIT_WINDOW;
        assert_true(turns < 1000000);
        if (t->noffered + at < N)
            try_to_offer(t, t->noffered + at);
        if (t->noffered < N)
            try_to_offer(t, t->noffered);
        try_to_take(t, t->ntaken + (uint32_t)random_next(&random) % PLAIT_WINDOW);
        reuse(t);
        plait_port_turn(turns % 5 < 2 ? a.comm.port : b.comm.port);
    }
}

/* Message 0 lies while those behind it go on, each through its own slot. */
static void a_slot_waits_only_for_itself(void **state)
{
    size_t bytes;

    for (uint32_t number = 0; number < 10 * PLAIT_WINDOW; number++) {
        if (number > 0 && number % PLAIT_WINDOW == 0)
            continue;
        for (unsigned i = 0; !ready(&a, number) && i < 1000; i++)
            turn(1);
        assert_true(ready(&a, number));
        offer(&a, number, "x", 1);
        for (unsigned i = 0; (bytes = 1, arrived(&b, number, NULL, &bytes)) == NULL && i < 1000; i++)
            turn(1);
        if (number > 0)
            release(&b, number);
        assert_false(ready(&a, PLAIT_WINDOW));
    }
    release(&b, 0);
    for (unsigned i = 0; !ready(&a, PLAIT_WINDOW) && i < 1000; i++)
        turn(1);
    assert_true(ready(&a, PLAIT_WINDOW));
    assert_false(ready(&a, 2 * PLAIT_WINDOW)); /* not before that one, although the slot is free */
}

static void a_sender_does_not_run_ahead(void **state)
{
    for (uint32_t number = 0; number < PLAIT_WINDOW; number++) {
        assert_true(ready(&a, number));
        offer(&a, number, "x", 1);
    }
    turn(1000);
    assert_false(ready(&a, PLAIT_WINDOW));
    assert_false(plait_port_is_taken(a.comm.port, 1, PLAIT_CHANNEL_COLLECTIVES));
    for (uint32_t number = 0; number < PLAIT_WINDOW; number++)
        release(&b, number);
    turn(1000);
    assert_true(ready(&a, PLAIT_WINDOW));
    assert_true(plait_port_is_taken(a.comm.port, 1, PLAIT_CHANNEL_COLLECTIVES));
}

static void what_comes_before_its_link_waits(void **state)
{
    struct plait_link *early = plait_connect_by(plait_transports, &a.comm, 1, PLAIT_CHANNEL_MESSAGES), *late;
    size_t bytes = 3;

    assert_non_null(early);
    for (uint32_t number = 0; number < PLAIT_WINDOW; number++)
        early->transport->offer(early, number, 9, 0, "abc", 3, true);
    turn(1000);
    late = plait_connect_by(plait_transports, &b.comm, 0, PLAIT_CHANNEL_MESSAGES);
    assert_non_null(late);
    for (uint32_t number = 0; number < PLAIT_WINDOW; number++) {
        const char *data = late->transport->arrived(late, number, 9, NULL, &bytes);
        assert_non_null(data);
        assert_memory_equal(data, "abc", 3);
        late->transport->release(late, number);
    }
}

static void what_is_not_expected_is_not_fetched(void **state)
{
    static unsigned char data[MOST], landing[MOST];
    size_t bytes = MOST;
    uint32_t fingerprint;
    uint64_t note;

    offer(&a, 0, data, MOST);
    turn(1000);
    assert_null(b.link->transport->arrived(b.link, 0, 4712, landing, &bytes)); /* another fingerprint */
    assert_int_equal(bytes, MOST);
    assert_true(b.link->transport->peek(b.link, 0, &fingerprint, &note));
    assert_int_equal(fingerprint, 4711);
    assert_false(b.link->transport->peek(b.link, 16, &fingerprint, &note));
    bytes = MOST - 1;
    assert_non_null(arrived(&b, 0, landing, &bytes)); /* another size */
    assert_int_equal(bytes, MOST);
    assert_int_equal(fake_net_counts.nfetch, 0);
    assert_false(sent(&a, 0));
    release(&b, 0);
    turn(1000);
    assert_true(sent(&a, 0)); /* it is free although nobody took it */
}

static void large_messages_land_where_the_receiver_says(void **state)
{
    static unsigned char data[MOST], landing[MOST];
    size_t bytes = MOST;

    fill(data, 0, MOST);
    offer(&a, 0, data, MOST);
    for (unsigned i = 0; arrived(&b, 0, landing, &bytes) == NULL && i < 1000; i++)
        turn(1);
    assert_ptr_equal(arrived(&b, 0, landing, &bytes), landing);
    assert_true(is_filled(landing, 0, MOST));
    assert_int_equal(fake_net_counts.nfetch, 1);
    release(&b, 0);
}

/* ---- Counts --------------------------------------------------------------------------------------------- */

static void pass(struct end *from, struct end *to, uint32_t number, size_t bytes)
{
    static unsigned char data[MOST];

    for (unsigned i = 0; !ready(from, number) && i < 1000; i++)
        turn(1);
    offer(from, number, data, bytes);
    size_t got = bytes;
    for (unsigned i = 0; arrived(to, number, NULL, &got) == NULL && i < 1000; i++)
        turn(1);
    release(to, number);
    for (unsigned i = 0; !sent(from, number) && i < 1000; i++)
        turn(1);
}

static void acknowledgements_travel_with_messages_or_for_half_a_window(void **state)
{
    fake_net_prompt = true;
    for (uint32_t number = 0; number < 80; number++) {
        pass(&a, &b, number, 8);
        pass(&b, &a, number, 8);
    }
    assert_int_equal(fake_net_counts.nsend, 160);
    for (uint32_t number = 80; number < 160; number++)
        pass(&a, &b, number, 8);
    assert_int_equal(fake_net_counts.nsend, 240 + 80 / (PLAIT_WINDOW / 2));
    assert_int_equal(fake_net_counts.nempty, 80 / (PLAIT_WINDOW / 2));
}

static void who_rests_acknowledges_at_once(void **state)
{
    fake_net_prompt = true;
    pass(&a, &b, 0, 8);
    assert_int_equal(fake_net_counts.nempty, 0);
    plait_port_rest(b.comm.port);
    assert_int_equal(fake_net_counts.nempty, 1);
    turn(100);
    assert_true(plait_port_is_taken(a.comm.port, 1, PLAIT_CHANNEL_COLLECTIVES));
    assert_int_equal(fake_net_counts.nempty, 1);
}

static void messages_allocate_nothing_after_the_first(void **state)
{
    pass(&a, &b, 0, MOST);
    const uint64_t before = a.comm.stats.allocations + b.comm.stats.allocations;
    for (uint32_t number = 1; number < 100; number++)
        pass(&a, &b, number, number % 2 ? MOST : 100);
    assert_int_equal(a.comm.stats.allocations + b.comm.stats.allocations, before);
}

/* ---- Faults --------------------------------------------------------------------------------------------- */

static char last_line[512];

static void keep_line(void *context, enum plait_log_level level, const char *line)
{
    (void)context, (void)level;
    snprintf(last_line, sizeof last_line, "%s", line);
}

static void a_message_of_another_comm_is_dropped_and_logged(void **state)
{
    struct end stranger;
    size_t bytes = 1;

    open_end(&stranger, 0, 78);
    lead(&stranger, &b);
    connect_end(&stranger);
    plait_log_callback(keep_line, NULL);
    offer(&stranger, 0, "x", 1);
    turn(1000);
    plait_log_callback(NULL, NULL);
    assert_null(arrived(&b, 0, NULL, &bytes));
    assert_non_null(strstr(last_line, "from rank 0 to rank 1"));
    assert_non_null(strstr(last_line, "was dropped"));
    assert_null(b.link->transport->broken(b.link));
    close_end(&stranger);
}

static void a_closed_end_breaks_the_link_and_frees_what_was_sent(void **state)
{
    static unsigned char data[MOST];

    assert_null(a.link->transport->broken(a.link));
    offer(&a, 0, data, MOST);
    turn(100);
    close_end(&b);
    for (unsigned i = 0; i < 1000; i++)
        plait_port_turn(a.comm.port);
    assert_true(sent(&a, 0));
    assert_string_equal(a.link->transport->broken(a.link), "the other end is closed");
    offer(&a, 1, data, MOST);
    assert_true(sent(&a, 1));
    open_end(&b, 1, 77);
}

static void a_rank_without_an_address_is_reached_otherwise(void **state)
{
    struct end alone;

    open_end(&alone, 0, 77);
    assert_null(plait_connect_by((const struct plait_transport *const[]){ a.link->transport, NULL }, &alone.comm, 1,
                                 PLAIT_CHANNEL_MESSAGES));
    close_end(&alone);
}

/* ---- Plug-ins ------------------------------------------------------------------------------------------- */

static void a_missing_plug_in_is_named_with_its_remedy(void **state)
{
    const struct plait_net_plugin *p = NULL;

    assert_int_equal(plait_plugin_load(&plait_plugin_ucx, "/nowhere", (const void **)&p), PLAIT_ERR_UNSUPPORTED);
    assert_non_null(strstr(plait_last_error(), "/nowhere/plait-ucx.so"));
    assert_non_null(strstr(plait_last_error(), "libucx-dev"));
    assert_non_null(strstr(plait_last_error(), "PLAIT_PLUGINS"));
    assert_null(p);
}

static void a_file_that_is_no_plug_in_is_refused(void **state)
{
    char folder[] = "/tmp/plait-net-XXXXXX", path[64];
    const struct plait_net_plugin *p = NULL;

    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/plait-ucx.so", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("not a shared object", f);
    fclose(f);
    assert_int_equal(plait_plugin_load(&plait_plugin_ucx, folder, (const void **)&p), PLAIT_ERR_UNSUPPORTED);
    assert_non_null(strstr(plait_last_error(), path));
    unlink(path);
    rmdir(folder);
}

#define OVER_FAKE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OVER_FAKE(messages_arrive_whole_in_any_order_both_ways),
        OVER_FAKE(a_slot_waits_only_for_itself),
        OVER_FAKE(a_sender_does_not_run_ahead),
        OVER_FAKE(what_comes_before_its_link_waits),
        OVER_FAKE(what_is_not_expected_is_not_fetched),
        OVER_FAKE(large_messages_land_where_the_receiver_says),
        OVER_FAKE(acknowledgements_travel_with_messages_or_for_half_a_window),
        OVER_FAKE(who_rests_acknowledges_at_once),
        OVER_FAKE(messages_allocate_nothing_after_the_first),
        OVER_FAKE(a_message_of_another_comm_is_dropped_and_logged),
        OVER_FAKE(a_closed_end_breaks_the_link_and_frees_what_was_sent),
        OVER_FAKE(a_rank_without_an_address_is_reached_otherwise),
        cmocka_unit_test(a_missing_plug_in_is_named_with_its_remedy),
        cmocka_unit_test(a_file_that_is_no_plug_in_is_refused),
    };

    return cmocka_run_group_tests_name("net", tests, NULL, NULL);
}
