/* SPDX-License-Identifier: BSD-3-Clause */
/* Where log lines go and what they name. */
#include "base/descriptor.h"
#include "base/log.h"
#include "child.h"
#include "folder.h"

#include <plait/comm.h>
#include <plait/config.h>
#include <plait/log.h>

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct output {
    char out[16384], err[16384];
    pid_t pid;
};

static void read_all(FILE *f, char *text, size_t room)
{
    rewind(f);
    const size_t n = fread(text, 1, room - 1, f);
    text[n] = '\0';
    fclose(f);
}

/* Run in a child, so that settings, warnings once per process, and descriptors start afresh. */
static void run(void (*body)(void), struct output *o)
{
    FILE *out = tmpfile(), *err = tmpfile();

    assert_true(out != NULL && err != NULL);
    o->pid = child_fork();
    if (o->pid == 0) {
        dup2(fileno(out), 1);
        dup2(fileno(err), 2);
        body();
        fflush(NULL);
        _exit(0);
    }
    const int end = child_end(o->pid);
    read_all(out, o->out, sizeof o->out);
    read_all(err, o->err, sizeof o->err);
    if (end != 0)
        fail_msg("status %d, stdout '%s', stderr '%s'", end, o->out, o->err);
}

static int clear_environment(void **state)
{
    unsetenv("PLAIT_LOG");
    unsetenv("PLAIT_LOG_FILE");
    return 0;
}

static void set_file(const char *name)
{
    setenv("PLAIT_LOG_FILE", in_folder(name), 1);
}

/* The text of a file whose name is `format` with a number. */
__attribute__((format(printf, 3, 4))) static bool read_file(char *text, size_t room, const char *format, ...)
{
    char name[128];
    va_list args;

    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    FILE *f = fopen(in_folder(name), "r");
    if (f == NULL)
        return false;
    read_all(f, text, room);
    return true;
}

/* A comm of one rank: is made, runs, fails, is destroyed. */
static void live_and_fail(void)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_comm *comm;
    float v[2] = { 1, 2 };

    o.nrank = 1;
    o.name = "brief";
    if (plait_comm_create(&o, &comm) != PLAIT_OK ||
        plait_allreduce(comm, v, v, 2, PLAIT_FLOAT32, PLAIT_SUM, NULL) != PLAIT_OK ||
        plait_comm_abort(comm, "enough") != PLAIT_OK ||
        plait_allreduce(comm, v, v, 2, PLAIT_FLOAT32, PLAIT_SUM, NULL) != PLAIT_ERR_FAILED ||
        plait_comm_destroy(comm) != PLAIT_ERR_FAILED)
        _exit(1);
}

static unsigned lines_of(const char *text, const char *words)
{
    unsigned n = 0;

    for (const char *at = text; (at = strstr(at, words)) != NULL; at++)
        n++;
    return n;
}

static void lines_name_comm_rank_and_operation_and_stdout_stays_empty(void **state)
{
    struct output o;

    setenv("PLAIT_LOG", "debug", 1);
    run(live_and_fail, &o);
    assert_string_equal(o.out, "");
    assert_int_equal(lines_of(o.err, "\n"), lines_of(o.err, "comm 'brief'")); /* once, in an error too */
    assert_int_equal(lines_of(o.err, "Z info: comm 'brief': rank 0: created, ranks: 1, hosts: 1, Plait "), 1);
    assert_int_equal(lines_of(o.err, "Z debug: comm 'brief': rank 0: allreduce of 2 float32, sum: "), 1);
    assert_int_equal(
        lines_of(o.err, "Z error: rank 0 of 1 fails: comm 'brief' after operation #1: aborted by rank 0: enough\n"), 1);
    assert_int_equal(lines_of(o.err, ": last operations of rank 0: allreduce #1 (2 float32 sum, "), 1);
    assert_int_equal(lines_of(o.err, "Z info: comm 'brief': rank 0: left after operation #1\n"), 1);
}

static struct plait_unique_id two_id;

/* Rank 0 calls one collective, rank 1 another: one of them finds that they differ. */
static void *differ_as(void *rank)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_comm *comm;
    float v[2] = { 1, 2 };

    o.nrank = 2;
    o.rank = rank != NULL;
    o.id = &two_id;
    o.name = "two";
    if (plait_comm_create(&o, &comm) != PLAIT_OK ||
        (rank == NULL ? plait_allreduce(comm, v, v, 2, PLAIT_FLOAT32, PLAIT_SUM, NULL)
                      : plait_broadcast(comm, v, v, 2, PLAIT_FLOAT32, 0, NULL)) == PLAIT_OK)
        _exit(1);
    plait_comm_destroy(comm);
    return NULL;
}

static void differ(void)
{
    pthread_t other;

    if (plait_unique_id_create(&two_id) != PLAIT_OK || pthread_create(&other, NULL, differ_as, &two_id) != 0)
        _exit(1);
    differ_as(NULL);
    pthread_join(other, NULL);
}

static void each_ranks_line_says_what_it_was_in(void **state)
{
    struct output o;

    setenv("PLAIT_LOG", "error", 1);
    run(differ, &o);
    assert_int_equal(lines_of(o.err, "rank 0 of 2 fails: comm 'two', allreduce #1 ("), 1);
    assert_int_equal(lines_of(o.err, "rank 1 of 2 fails: comm 'two', broadcast #1 ("), 1);
    assert_int_equal(lines_of(o.err, ": collective is "), 2);
    assert_int_equal(lines_of(o.err, "\n"), 2);
}

static void less_important_lines_are_dropped(void **state)
{
    struct output o;

    run(live_and_fail, &o);                            /* by default warnings and errors */
    assert_int_equal(lines_of(o.err, "Z error: "), 1); /* a failure is one line */
    assert_int_equal(lines_of(o.err, "\n"), lines_of(o.err, "Z error: "));
    setenv("PLAIT_LOG", "info", 1);
    run(live_and_fail, &o);
    assert_int_equal(lines_of(o.err, "Z info: "), 3); /* with the last operation */
    assert_int_equal(lines_of(o.err, "Z debug: "), 0);
}

static void get_a_setting(void)
{
    struct plait_setting s;

    if (plait_config_get(0, &s) != PLAIT_OK)
        _exit(1);
}

static void say_one_thing(void)
{
    plait_log(PLAIT_LOG_ERROR, "now");
}

/* To the millisecond, in UTC whatever the zone; the calendar is this test's own library's. */
static void lines_have_the_time(void **state)
{
    struct output o;
    struct tm t = { 0 };
    unsigned thousandths;
    int end = 0;

    setenv("TZ", "America/New_York", 1);
    const time_t before = time(NULL);
    run(say_one_thing, &o);
    const time_t after = time(NULL);
    unsetenv("TZ");
    const char *at = strstr(o.err, "] ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "] %4d-%2d-%2dT%2d:%2d:%2d.%3uZ error: now\n%n", &t.tm_year, &t.tm_mon, &t.tm_mday,
                            &t.tm_hour, &t.tm_min, &t.tm_sec, &thousandths, &end),
                     7);
    assert_int_equal(end, strlen("] 2026-01-31T23:59:59.123Z error: now\n"));
    t.tm_year -= 1900;
    t.tm_mon -= 1;
    const time_t said = timegm(&t);
    assert_true(said >= before && said <= after);
}

/* ---- The file -------------------------------------------------------------------------------------- */

static void each_host_and_process_has_its_file(void **state)
{
    struct output o;
    char host[64] = "", text[16384];

    gethostname(host, sizeof host - 1);
    setenv("PLAIT_LOG", "info", 1);
    set_file("%h-%p-100%%.log");
    for (unsigned i = 0; i < 2; i++) {
        run(live_and_fail, &o);
        assert_string_equal(o.err, "");
        assert_string_equal(o.out, "");
        assert_true(read_file(text, sizeof text, "%s-%d-100%%.log", host, (int)o.pid));
        assert_int_equal(lines_of(text, "created, ranks: 1, hosts: 1, Plait "), 1);
        assert_int_equal(lines_of(text, "aborted by rank 0"), 1);
    }
}

static void fork_and_live(void)
{
    live_and_fail();
    const pid_t child = child_fork();
    if (child == 0) {
        live_and_fail();
        _exit(0);
    }
    if (child_end(child) != 0)
        _exit(1);
    printf("%d\n", (int)child);
}

static void a_forked_child_has_a_file_of_its_own(void **state)
{
    struct output o;
    char text[16384];
    int child;

    setenv("PLAIT_LOG", "info", 1);
    set_file("fork-%p");
    run(fork_and_live, &o);
    assert_int_equal(sscanf(o.out, "%d", &child), 1);
    assert_true(read_file(text, sizeof text, "fork-%d", (int)o.pid));
    assert_int_equal(lines_of(text, "created, ranks: 1, hosts: 1, Plait "), 1);
    assert_true(read_file(text, sizeof text, "fork-%d", child));
    assert_int_equal(lines_of(text, "created, ranks: 1, hosts: 1, Plait "), 1);
}

static void processes_may_share_a_file_which_is_added_to(void **state)
{
    struct output o;
    char text[16384];

    setenv("PLAIT_LOG", "info", 1);
    set_file("shared");
    run(live_and_fail, &o);
    run(live_and_fail, &o);
    assert_true(read_file(text, sizeof text, "shared"));
    assert_int_equal(lines_of(text, "created, ranks: 1, hosts: 1, Plait "), 2);
}

static void a_file_that_cannot_be_opened_is_named_and_lines_go_to_stderr(void **state)
{
    struct output o;

    set_file("no/such/folder-%p");
    run(live_and_fail, &o);
    assert_int_equal(lines_of(o.err, "warn: PLAIT_LOG_FILE='"), 1);
    assert_int_equal(lines_of(o.err, "cannot be opened (No such file or directory): log lines go to stderr\n"), 1);
    assert_int_equal(lines_of(o.err, "aborted by rank 0"), 1);
}

static void a_process_with_nothing_to_say_makes_no_file(void **state)
{
    struct output o;
    char text[64];

    set_file("silent");
    run(get_a_setting, &o);
    assert_string_equal(o.err, "");
    assert_false(read_file(text, sizeof text, "silent"));
}

static void any_other_percent_sign_stays(void **state)
{
    struct output o;
    char text[16384];

    set_file("100%-%x-%");
    run(live_and_fail, &o);
    assert_true(read_file(text, sizeof text, "100%%-%%x-%%"));
    assert_int_equal(lines_of(text, "aborted by rank 0"), 1);
}

/* ---- The callback ---------------------------------------------------------------------------------- */

struct heard {
    unsigned n[PLAIT_LOG_DEBUG + 1];
    char last[512];
};

static void hear(void *context, enum plait_log_level level, const char *line)
{
    struct heard *h = context;

    h->n[level]++;
    if (level == PLAIT_LOG_INFO)
        snprintf(h->last, sizeof h->last, "%s", line);
    if (level == PLAIT_LOG_WARN)
        plait_log(PLAIT_LOG_WARN, "said while listening"); /* as a call of the library might */
}

static void listen(void)
{
    struct heard first = { { 0 }, "" }, second = { { 0 }, "" };

    plait_log_callback(hear, &first);
    live_and_fail();
    if (first.n[PLAIT_LOG_ERROR] != 1 || first.n[PLAIT_LOG_INFO] != 3 || first.n[PLAIT_LOG_DEBUG] != 0 ||
        strstr(first.last, "] info: comm 'brief': rank 0: left after operation #1") == NULL ||
        strchr(first.last, '\n') != NULL)
        _exit(1);
    const struct heard before = first;
    plait_log_callback(hear, &second);
    plait_log(PLAIT_LOG_WARN, "to the second");
    if (memcmp(&before, &first, sizeof first) != 0 || second.n[PLAIT_LOG_WARN] != 1)
        _exit(2);
    plait_log_callback(NULL, NULL);
    plait_log(PLAIT_LOG_WARN, "to stderr again");
    if (second.n[PLAIT_LOG_WARN] != 1)
        _exit(3);
}

static void a_callback_gets_every_line_until_it_is_replaced(void **state)
{
    struct output o;

    setenv("PLAIT_LOG", "info", 1);
    run(listen, &o);
    assert_string_equal(o.out, "");
    assert_int_equal(lines_of(o.err, "\n"), 2);
    assert_int_equal(lines_of(o.err, "Z warn: said while listening\n"), 1);
    assert_int_equal(lines_of(o.err, "Z warn: to stderr again\n"), 1);
}

/* ---- Unknown variables ------------------------------------------------------------------------------ */

static void print_names(void)
{
    struct plait_setting s;

    for (size_t i = 0; plait_config_get(i, &s) == PLAIT_OK; i++)
        printf("%s\n", s.name);
}

static void assert_warned_of(const char *wrong, const char *name)
{
    struct output o;
    char expected[256];

    setenv(wrong, "1", 1);
    run(get_a_setting, &o);
    unsetenv(wrong);
    snprintf(expected, sizeof expected, "warn: environment: there is no setting '%s'; did you mean %s?", wrong, name);
    if (strstr(o.err, expected) == NULL)
        fail_msg("not '%s' but '%s'", expected, o.err);
    assert_string_equal(o.out, "");
}

static void a_misspelt_name_of_any_setting_is_warned_of_with_the_right_one(void **state)
{
    struct output all;
    char wrong[64], *save = NULL;
    unsigned n = 0;

    run(print_names, &all); /* this process must not have read its settings: each warns once */
    for (char *name = strtok_r(all.out, "\n", &save); name != NULL; name = strtok_r(NULL, "\n", &save), n++) {
        const size_t length = strlen(name);
        snprintf(wrong, sizeof wrong, "%sX", name);
        assert_warned_of(wrong, name);
        snprintf(wrong, sizeof wrong, "%s", name);
        wrong[length - 1] = '\0';
        assert_warned_of(wrong, name);
    }
    assert_true(n >= 11);
}

static void write_three(void)
{
    plait_log_write(PLAIT_LOG_WARN, "from above\n");
    plait_log_write(PLAIT_LOG_INFO, "not shown");
    plait_log_write(PLAIT_LOG_WARN, NULL);
}

static void what_is_built_on_the_library_writes_to_its_log(void **state)
{
    struct output o;
    char expected[64];

    run(write_three, &o);
    snprintf(expected, sizeof expected, ":%ld] ", (long)o.pid);
    assert_non_null(strstr(o.err, expected));
    assert_non_null(strstr(o.err, "Z warn: from above?\n"));
    assert_null(strstr(o.err, "not shown"));
    assert_string_equal(o.out, "");
}

/* The program closes all descriptors and opens a file of its own under the log's number. */
static void take_the_number(void)
{
    char path[] = "/tmp/plait-log-test-XXXXXX", text[4096];
    FILE *own = tmpfile();
    int fd = 3;

    close(mkstemp(path));
    plait_log_setup(PLAIT_LOG_INFO, path);
    plait_log(PLAIT_LOG_INFO, "before");
    while (!plait_descriptor_is_kept(fd))
        fd++;
    dup2(fileno(own), fd);
    plait_log(PLAIT_LOG_INFO, "after");
    struct stat there, file;
    if (fstat(fd, &there) != 0 || fstat(fileno(own), &file) != 0 || there.st_ino != file.st_ino || file.st_size != 0)
        _exit(1);
    read_all(fopen(path, "r"), text, sizeof text);
    unlink(path);
    if (strstr(text, "before") == NULL || strstr(text, "after") == NULL)
        _exit(2);
}

static void a_file_that_a_program_opens_under_the_logs_number_gets_no_line(void **state)
{
    struct output o;

    run(take_the_number, &o);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, clear_environment, clear_environment)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_a_program_opens_under_the_logs_number_gets_no_line),
        /* First: it needs a process that has not warned. */
        TEST(a_misspelt_name_of_any_setting_is_warned_of_with_the_right_one),
        TEST(lines_name_comm_rank_and_operation_and_stdout_stays_empty),
        TEST(lines_have_the_time),
        TEST(each_ranks_line_says_what_it_was_in),
        TEST(less_important_lines_are_dropped),
        TEST(each_host_and_process_has_its_file),
        TEST(a_forked_child_has_a_file_of_its_own),
        TEST(processes_may_share_a_file_which_is_added_to),
        TEST(a_file_that_cannot_be_opened_is_named_and_lines_go_to_stderr),
        TEST(a_process_with_nothing_to_say_makes_no_file),
        TEST(a_callback_gets_every_line_until_it_is_replaced),
        TEST(any_other_percent_sign_stays),
        TEST(what_is_built_on_the_library_writes_to_its_log),
    };
#undef TEST
    return cmocka_run_group_tests_name("log", tests, folder_make, folder_remove);
}
