/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-perf's coordinator and its ranks: who is late, and what is heard of a failure. Threads play the ranks. */
#include "unit.h"

#include "../bench/ranks.h" /* not that of the tests */
#include "message.h"

#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LIMIT 2.0 /* seconds, of -T */

struct player {
    pthread_t thread;
    int fd;
    struct stage *stage;
    void (*play)(struct player *p);
};

static void say(struct player *p, enum answer what)
{
    struct reply r = { .answer = what };

    assert_int_equal(send(p->fd, &r, sizeof r, MSG_NOSIGNAL), sizeof r);
}

static void answers(struct player *p)
{
    say(p, ANSWER_OK);
}

/* Longer than LIMIT by the passes in the stage, then longer by messages. */
static void works_long(struct player *p)
{
    for (int i = 0; i < 50; i++) {
        usleep(100000);
        if (i < 25)
            atomic_fetch_add(&p->stage->passes, 1);
        else
            say(p, ANSWER_BUSY);
    }
    say(p, ANSWER_OK);
}

static void is_silent(struct player *p)
{
    (void)p;
}

static void dies(struct player *p)
{
    close(p->fd);
    p->fd = -1;
}

static void fails_later(struct player *p)
{
    usleep(300000);
    say(p, ANSWER_FAILED);
}

static void *play(void *argument)
{
    struct player *p = argument;
    struct command c;

    if (recv(p->fd, &c, sizeof c, 0) == sizeof c)
        p->play(p);
    return NULL;
}

/* The coordinator commands two ranks that play these parts. Returns its result. */
static bool command(void (*first)(struct player *), void (*second)(struct player *), struct reply replies[2], bool *cut)
{
    const struct command c = { .verb = VERB_STREAM };
    const struct options o = { .nrank = 2 };
    struct player players[2] = { { .play = first }, { .play = second } };
    const uint64_t count = 1;
    struct ranks r;

    assert_true(ranks_init(&r, "fake", &o, 1, &count, 4));
    for (int i = 0; i < 2; i++) {
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        r.fd[i] = pair[0];
        players[i].fd = pair[1];
        players[i].stage = r.stage;
        assert_int_equal(pthread_create(&players[i].thread, NULL, play, &players[i]), 0);
    }
    const bool ok = ranks_command(&r, &c, replies, LIMIT);
    *cut = atomic_load(&r.stage->cut);
    for (int i = 0; i < 2; i++) {
        pthread_join(players[i].thread, NULL);
        if (players[i].fd >= 0)
            close(players[i].fd);
    }
    ranks_stop(&r, false);
    return ok;
}

static void a_command_may_take_longer_than_the_limit_while_rank_0_makes_progress(void **state)
{
    struct reply replies[2];
    bool cut;

    assert_true(command(works_long, answers, replies, &cut));
    assert_int_equal(replies[0].answer, ANSWER_OK);
    assert_false(cut);
}

static void a_silent_rank_ends_the_run(void **state)
{
    struct reply replies[2];
    bool cut;

    assert_false(command(answers, is_silent, replies, &cut));
}

static void the_others_tell_what_they_did_when_a_rank_dies(void **state)
{
    struct reply replies[2];
    bool cut;

    assert_false(command(fails_later, dies, replies, &cut));
    assert_int_equal(replies[0].answer, ANSWER_FAILED); /* was waited for */
    assert_true(cut);                                   /* it did not wait at a barrier for the dead one */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_may_take_longer_than_the_limit_while_rank_0_makes_progress),
        cmocka_unit_test(a_silent_rank_ends_the_run),
        cmocka_unit_test(the_others_tell_what_they_did_when_a_rank_dies),
    };

    message_hide(true);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
