/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-tune: its file fits the machine and the library; what ends it leaves no file. */
#include "child.h"
#include "folder.h"
#include "until.h"

#include "machine/tuned.h"

#include <stdlib.h>
#include <string.h>

static char said[4096]; /* on standard error */

static _Noreturn void become(const char *seconds, const char *output, const char *more)
{
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execl(TUNE, "plait-tune", "--ranks", "2", "--seconds", seconds, "--output", output, more, (char *)NULL);
    _exit(126);
}

/* On a busy machine a short time is too short for a row. */
static const char *const times[] = { "2", "10", "40" };
static const char *seconds;

static void tune_shortly(void)
{
    become(seconds, in_folder("made/here/t.json"), NULL);
}

static void tune_three(void)
{
    become(seconds, in_folder("made/here/t.json"), "--ranks=3");
}

/* Tune until the file has rows of so many ranks on the host. */
static void tune_until(void (*program)(void), uint32_t nrank)
{
    for (size_t k = 0; k < sizeof times / sizeof *times; k++) {
        struct plait_tuning t;
        bool found = false;
        seconds = times[k];
        if (child_run(program, said, sizeof said) != 0)
            fail_msg("plait-tune failed: %s", said);
        assert_int_equal(plait_tuning_load(in_folder("made/here/t.json"), &t), PLAIT_OK);
        for (size_t i = 0; i < t.nrow; i++)
            found |= t.rows[i].ranks_per_host == nrank;
        plait_tuning_finish(&t);
        if (found)
            return;
    }
}

/* The library's direct all-to-all of two ranks, but that it copies first. */
static const char copy_first[] =
    "plan 1 alltoall rank 0 of 2, blocks 4, tmp 0, lanes 1, out of place\n"
    "r0 #0 copy out[0] = in[0]\nr0 #1 send in[1] to r1\nr0 #2 recv out[1] from r1 block 2\n"
    "plan 1 alltoall rank 1 of 2, blocks 4, tmp 0, lanes 1, out of place\n"
    "r1 #0 copy out[1] = in[1] block 3\nr1 #1 send in[0] to r0 block 2\n"
    "r1 #2 recv out[0] from r0 block 1\n";

static void tune_with_a_plan(void)
{
    setenv("PLAIT_PLANS", in_folder("copy-first.plan"), 1);
    become(seconds, in_folder("plans.json"), NULL);
}

/* Values that no comm accepts. */
static void tune_with_settings(void)
{
    static const char text[] = "PLAIT_ALGO = no-such\nPLAIT_CMA = x\nPLAIT_SLICE = x\nPLAIT_TUNING = /no/such\n";

    folder_write("settings", text, sizeof text - 1);
    setenv("PLAIT_CONFIG", in_folder("settings"), 1);
    setenv("PLAIT_SLICE", "x", 1);
    become("1", in_folder("made/here/t.json"), NULL);
}

static void tune_into_no_folder(void)
{
    folder_write("file", "", 1);
    become("2", in_folder("file/t.json"), NULL);
}

static void tune_into_a_folder(void)
{
    become("2", in_folder("."), NULL);
}

static void tune_into_nothing(void)
{
    become("2", "", NULL);
}

static void tune_wrongly(void)
{
    become("2", in_folder("t.json"), "--rounds=3");
}

static void tune_with_an_argument(void)
{
    become("2", in_folder("t.json"), "all");
}

static void check_wrongly(void)
{
    become("2", in_folder("t.json"), "--check");
}

static void check(void)
{
    setenv("PLAIT_TUNING", in_folder("made/here/t.json"), 1);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execl(TUNE, "plait-tune", "--check", "--ranks", "3", "--seconds", seconds, (char *)NULL);
    _exit(126);
}

static void tune_at_length(void)
{
    become("60", in_folder("t.json"), NULL);
}

static void assert_said(const char *text)
{
    if (strstr(said, text) == NULL)
        fail_msg("'%s' is not in: %s", text, said);
}

static void assert_no_files(void)
{
    assert_int_not_equal(access(in_folder("t.json"), F_OK), 0);
    assert_int_not_equal(access(in_folder("t.json.new"), F_OK), 0);
}

/* A row is of two ranks of one host, its algorithms fit them, and the model's first row begins at 0. */
static void assert_fits(const struct plait_tuned_choice *row)
{
    const char *const specs[] = { row->algorithm, row->next };

    assert_true(row->hosts == 1 && row->ranks_per_host == 2 && row->memory == PLAIT_MEMORY_HOST && row->ns > 0);
    assert_int_not_equal(row->coll, PLAIT_BARRIER);
    assert_true(row->from <= 16 << 20);
    for (int k = 0; k < 2; k++) {
        struct plait_shape shape = { .coll = row->coll, .nrank = 2 };
        const struct plait_alg *alg;
        if (k == 0 || specs[k][0] != '\0')
            assert_int_equal(plait_alg_find(plait_algs, specs[k], &shape, &alg), PLAIT_OK);
    }
    assert_string_not_equal(row->algorithm, row->next);
}

static void the_file_fits_this_machine_and_library(void **state)
{
    struct plait_tuning t, here;

    tune_until(tune_shortly, 2);
    assert_said(in_folder("made/here/t.json"));
    assert_int_not_equal(access(in_folder("made/here/t.json.new"), F_OK), 0);
    assert_int_equal(plait_tuning_load(in_folder("made/here/t.json"), &t), PLAIT_OK);
    plait_tuning_describe(&here);
    assert_int_equal(t.fingerprint, here.fingerprint);
    assert_string_equal(t.version, here.version);
    assert_true(t.link[PLAIT_LINK_RANKS].bandwidth > 0);
    assert_int_equal(t.link[PLAIT_LINK_HOSTS].bandwidth, 0);
    assert_true(t.nrow > 0);
    for (size_t i = 0; i < t.nrow; i++) {
        assert_fits(&t.rows[i]);
        if (i > 0 && t.rows[i].from > 0) /* neighbours with one winner are one row */
            assert_string_not_equal(t.rows[i].algorithm, t.rows[i - 1].algorithm);
    }
    plait_tuning_finish(&t);
}

static void rows_of_other_numbers_of_ranks_stay(void **state)
{
    struct plait_tuning t;
    size_t n[4] = { 0 };

    tune_until(tune_three, 3);
    assert_int_equal(plait_tuning_load(in_folder("made/here/t.json"), &t), PLAIT_OK);
    for (size_t i = 0; i < t.nrow; i++) {
        assert_in_range(t.rows[i].ranks_per_host, 2, 3);
        n[t.rows[i].ranks_per_host]++;
    }
    assert_true(n[2] > 0 && n[3] > 0);
    plait_tuning_finish(&t);
}

static void what_settings_force_is_not_measured(void **state)
{
    if (child_run(tune_with_settings, said, sizeof said) != 0)
        fail_msg("plait-tune failed: %s", said);
}

/* It and the library's are first and second. */
static void a_users_plan_is_measured(void **state)
{
    bool found = false;

    folder_write("copy-first.plan", copy_first, sizeof copy_first - 1);
    for (size_t k = 0; k < sizeof times / sizeof *times && !found; k++) {
        struct plait_tuning t;
        seconds = times[k];
        if (child_run(tune_with_a_plan, said, sizeof said) != 0)
            fail_msg("plait-tune failed: %s", said);
        assert_int_equal(plait_tuning_load(in_folder("plans.json"), &t), PLAIT_OK);
        for (size_t i = 0; i < t.nrow; i++)
            found |= strcmp(t.rows[i].algorithm, "copy-first") == 0 || strcmp(t.rows[i].next, "copy-first") == 0;
        plait_tuning_finish(&t);
    }
    assert_true(found);
}

static void a_folder_that_cannot_be_made_is_an_error_at_once(void **state)
{
    assert_int_equal(child_run(tune_into_no_folder, said, sizeof said), 2);
    assert_said(in_folder("file"));
    assert_null(strstr(said, "ranks:"));
}

/* On a busy machine a short time is too short for a cell. */
static void a_check_says_how_good_the_choices_of_the_file_are(void **state)
{
    unsigned cells = 0;

    for (size_t k = 0; k < sizeof times / sizeof *times && cells == 0; k++) {
        seconds = times[k];
        if (child_run(check, said, sizeof said) != 0)
            fail_msg("plait-tune --check failed: %s", said);
        const char *line = strstr(said, " cells measured with every algorithm");
        while (line != NULL && line > said && line[-1] != '\n')
            line--;
        assert_non_null(line);
        cells = (unsigned)strtoul(line, NULL, 10);
    }
    assert_true(cells > 0);
    assert_said(in_folder("made/here/t.json"));
}

/* Of two ranks of a launcher. */
static pid_t start_launched(const char *rank, const char *output, FILE *err)
{
    char port[16];

    snprintf(port, sizeof port, "%d", 20000 + (int)getpid() % 10000);
    const pid_t pid = child_fork();
    if (pid > 0)
        return pid;
    dup2(fileno(err), STDERR_FILENO);
    setenv("RANK", rank, 1);
    setenv("WORLD_SIZE", "2", 1);
    setenv("LOCAL_WORLD_SIZE", "2", 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", port, 1);
    setenv("PLAIT_TIMEOUT", "20", 1);
    become("60", output, NULL);
}

/* Not after the time limit of the comm's creation, for want of rank 0. */
static void all_ranks_of_a_launcher_learn_that_the_file_cannot_be_written(void **state)
{
    FILE *err = tmpfile();
    char output[PATH_MAX];

    folder_write("file", "", 1);
    strcpy(output, in_folder("file/t.json"));
    const pid_t zero = start_launched("0", output, err), one = start_launched("1", output, err);
    assert_int_equal(child_end(zero), 2);
    assert_int_equal(child_end(one), 2);
    rewind(err);
    said[fread(said, 1, sizeof said - 1, err)] = '\0';
    fclose(err);
    assert_said(in_folder("file/t.json"));
}

static void wrong_arguments_are_errors(void **state)
{
    assert_int_equal(child_run(tune_wrongly, said, sizeof said), 2);
    assert_said("--rounds");
    assert_int_equal(child_run(tune_with_an_argument, said, sizeof said), 2);
    assert_said("'all'");
    assert_int_equal(child_run(tune_into_a_folder, said, sizeof said), 2);
    assert_said("a folder");
    assert_int_equal(child_run(tune_into_nothing, said, sizeof said), 2);
    assert_said("--output");
    assert_int_equal(child_run(check_wrongly, said, sizeof said), 2);
    assert_said("--output");
    assert_no_files();
}

static pid_t tuner, rank_1; /* found[1] of plait-tune's children */

static bool ranks_are_there(void)
{
    char path[64];
    int first = 0, second = 0;

    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)tuner, (int)tuner);
    FILE *f = fopen(path, "re");
    const bool found = f != NULL && fscanf(f, "%d %d", &first, &second) == 2;
    if (f != NULL)
        fclose(f);
    rank_1 = second;
    return found;
}

static void start_at_length(FILE *err)
{
    tuner = child_fork();
    if (tuner == 0) {
        dup2(fileno(err), STDERR_FILENO);
        tune_at_length();
    }
    assert_true(comes_true(ranks_are_there()));
}

static void a_dead_rank_is_named(void **state)
{
    FILE *err = tmpfile();

    start_at_length(err);
    assert_int_equal(kill(rank_1, SIGKILL), 0);
    assert_int_equal(child_end(tuner), 1);
    rewind(err);
    said[fread(said, 1, sizeof said - 1, err)] = '\0';
    fclose(err);
    assert_said("rank 1 of 2 ended unexpectedly: killed by signal 9");
    assert_no_files();
}

static void an_interrupt_leaves_no_file(void **state)
{
    FILE *err = tmpfile();

    start_at_length(err);
    assert_int_equal(kill(tuner, SIGINT), 0);
    assert_int_equal(child_end(tuner), -SIGINT);
    fclose(err);
    assert_true(comes_true(kill(rank_1, 0) != 0));
    assert_no_files();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_fits_this_machine_and_library),
        cmocka_unit_test(rows_of_other_numbers_of_ranks_stay),
        cmocka_unit_test(a_check_says_how_good_the_choices_of_the_file_are),
        cmocka_unit_test(what_settings_force_is_not_measured),
        cmocka_unit_test(a_users_plan_is_measured),
        cmocka_unit_test(a_folder_that_cannot_be_made_is_an_error_at_once),
        cmocka_unit_test(all_ranks_of_a_launcher_learn_that_the_file_cannot_be_written),
        cmocka_unit_test(wrong_arguments_are_errors),
        cmocka_unit_test(a_dead_rank_is_named),
        cmocka_unit_test(an_interrupt_leaves_no_file),
    };
    return cmocka_run_group_tests_name("tune", tests, folder_make, folder_remove);
}
