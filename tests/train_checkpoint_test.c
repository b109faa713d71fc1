/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints: the last few and the best are kept, the newest whole one is found, what fails is told and loses nothing. */
#include "child.h"
#include "unit.h"

#include "checkpoint.h"
#include "replace.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COUNT = 1000 };

static char top[] = "/tmp/plait-checkpoint-XXXXXX", folder[PATH_MAX];

static const char *in_folder(const char *name)
{
    static char paths[2][PATH_MAX + NAME_MAX + 2];
    static unsigned k; /* two of them may be arguments of one call */
    char *const path = paths[k++ % 2];

    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static bool is_there(const char *name)
{
    return access(in_folder(name), F_OK) == 0;
}

/* Files of the folder, hidden ones too. */
static unsigned nfile(void)
{
    DIR *const d = opendir(folder);
    unsigned n = 0;

    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

static struct keeper *keep(uint32_t n)
{
    const char *why = NULL;
    struct keeper *const k = keeper_create(folder, n, &why);

    if (k == NULL)
        fail_msg("%s", why);
    return k;
}

static void save(struct keeper *k, uint64_t step, bool best)
{
    float values[COUNT];
    const struct entry e = { "weight", STORED_F32, 1, { COUNT }, values };

    for (int i = 0; i < COUNT; i++)
        values[i] = (float)step;
    keeper_save(k, step, best, &e, 1, NULL, 0);
    memset(values, 255, sizeof values); /* the copy counts */
}

/* Whole, and of this step. */
static void holds(const char *name, uint64_t step)
{
    const char *why = NULL;
    struct safetensors *const f = safetensors_open(in_folder(name), &why);
    float value;

    if (f == NULL)
        fail_msg("%s", why);
    for (int i = 0; i < COUNT; i++) {
        memcpy(&value, (const char *)safetensors_find(f, "weight")->data + (size_t)i * sizeof value, sizeof value);
        assert_true(value == (float)step);
    }
    safetensors_close(f);
}

static void newest_is(struct keeper *k, const char *name)
{
    assert_string_equal(keeper_newest(k), name[0] == '\0' ? "" : in_folder(name));
}

/* What standard error gets meanwhile goes to a file; said() looks for words there. */
static int standard_error;

static void listen(void)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/said", top);
    fflush(stderr);
    standard_error = dup(STDERR_FILENO);
    assert_non_null(freopen(path, "w", stderr));
}

static bool said(const char *words)
{
    char path[PATH_MAX], text[8192];

    fflush(stderr);
    dup2(standard_error, STDERR_FILENO);
    close(standard_error);
    snprintf(path, sizeof path, "%s/said", top);
    FILE *const f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return strstr(text, words) != NULL;
}

static void write_text(const char *name, const char *text)
{
    FILE *const f = fopen(in_folder(name), "w");

    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void the_last_few_and_the_best_are_kept(void **state)
{
    struct keeper *const k = keep(2);

    for (uint64_t step = 10; step <= 50; step += 10)
        save(k, step, step == 20);
    newest_is(k, "step-00000050.safetensors");
    assert_null(keeper_trouble(k));
    assert_int_equal(nfile(), 3);
    holds("step-00000040.safetensors", 40);
    holds("step-00000050.safetensors", 50);
    holds("best.safetensors", 20);
    save(k, 60, true);
    keeper_wait(k);
    holds("best.safetensors", 60);
    assert_null(keeper_destroy(k));
}

static void keep_0_keeps_all(void **state)
{
    struct keeper *const k = keep(0);

    for (uint64_t step = 1; step <= 9; step++)
        save(k, step, false);
    assert_null(keeper_destroy(k));
    assert_int_equal(nfile(), 9);
}

static void a_step_that_is_saved_again_is_replaced(void **state)
{
    struct keeper *const k = keep(3);

    save(k, 7, false);
    save(k, 7, true);
    save(k, 7, true);
    assert_null(keeper_destroy(k));
    assert_int_equal(nfile(), 2);
    holds("step-00000007.safetensors", 7);
    holds("best.safetensors", 7);
}

static void the_checkpoint_just_written_stays_beside_later_ones(void **state)
{
    struct keeper *const k = keep(1);

    save(k, 500, false);
    save(k, 100, false); /* the run went on from an older one */
    save(k, 200, false);
    keeper_wait(k);
    holds("step-00000500.safetensors", 500);
    holds("step-00000200.safetensors", 200);
    assert_false(is_there("step-00000100.safetensors"));
    assert_null(keeper_destroy(k));
}

static void a_torn_or_foreign_file_is_named_and_passed_over(void **state)
{
    struct keeper *const k = keep(0);
    const float one = 1;
    const struct entry e = { "weight", STORED_F32, 0, { 0 }, (void *)(uintptr_t)&one };

    for (uint64_t step = 1; step <= 5; step++)
        save(k, step, step == 1);
    keeper_wait(k);
    assert_int_equal(truncate(in_folder("step-00000005.safetensors"), 2000), 0);
    write_text("step-00000004.safetensors", "");
    assert_null(safetensors_write(in_folder("step-00000003.safetensors"), &e, 1, NULL, 0));
    assert_int_equal(rename(in_folder("step-00000001.safetensors"), in_folder("step-00000006.safetensors")), 0);
    write_text("step-7.safetensors", "another's");
    write_text("step-00000008.safetensors.old", "another's");
    listen();
    newest_is(k, "step-00000002.safetensors");
    assert_true(said("step-00000006.safetensors: a checkpoint of another step, renamed"));
    listen();
    newest_is(k, "step-00000002.safetensors");
    assert_true(said("step-00000005.safetensors: tensor weight lies at 0 to 4000"));
    listen();
    newest_is(k, "step-00000002.safetensors");
    assert_true(said("step-00000004.safetensors: empty"));
    listen();
    newest_is(k, "step-00000002.safetensors");
    assert_true(said("step-00000003.safetensors: not a checkpoint of plait-train"));
    unlink(in_folder("step-00000002.safetensors"));
    listen();
    newest_is(k, "best.safetensors");
    assert_false(said("best.safetensors"));
    unlink(in_folder("best.safetensors"));
    listen();
    newest_is(k, "");
    assert_false(said("best.safetensors"));
    assert_null(keeper_destroy(k));
}

/* Other bytes at a place of a file, from its end where it is negative. */
static void overwrite(const char *name, long at, const void *bytes, size_t n)
{
    FILE *const f = fopen(in_folder(name), "r+b");

    assert_non_null(f);
    assert_int_equal(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void a_damaged_checkpoint_is_named_and_passed_over(void **state)
{
    static const char zeros[2000];
    struct keeper *const k = keep(0);

    for (uint64_t step = 1; step <= 4; step++)
        save(k, step, step == 1);
    keeper_wait(k);
    overwrite("step-00000004.safetensors", -2500, zeros, sizeof zeros);
    overwrite("step-00000003.safetensors", -4, "abcd", 4);
    overwrite("step-00000002.safetensors", 8 + (long)strlen("{\"__metadata__\":{\"xxh6"), "5", 1);
    listen();
    newest_is(k, "step-00000001.safetensors");
    assert_true(said("step-00000004.safetensors: damaged: its bytes have the hash "));
    listen();
    newest_is(k, "step-00000001.safetensors");
    assert_true(said("step-00000003.safetensors: damaged: its bytes have the hash "));
    listen();
    newest_is(k, "step-00000001.safetensors");
    assert_true(said("step-00000002.safetensors: damaged: the hash of its bytes is missing"));
    assert_null(keeper_destroy(k));
}

static void a_link_that_leads_to_no_file_is_named_and_passed_over(void **state)
{
    struct keeper *const k = keep(0);

    for (uint64_t step = 1; step <= 2; step++)
        save(k, step, false);
    keeper_wait(k);
    assert_int_equal(symlink("nowhere", in_folder("step-00000003.safetensors")), 0);
    assert_int_equal(symlink("step-00000004.safetensors", in_folder("step-00000004.safetensors")), 0);
    assert_int_equal(symlink("step-00000001.safetensors", in_folder("step-00000005.safetensors")), 0);
    listen();
    newest_is(k, "step-00000002.safetensors");
    assert_true(said("step-00000003.safetensors: No such file or directory (target of this symbolic link)"));
    listen();
    newest_is(k, "step-00000002.safetensors");
    assert_true(said("step-00000004.safetensors: Too many levels of symbolic links"));
    listen();
    newest_is(k, "step-00000002.safetensors");
    assert_true(said("step-00000005.safetensors: a checkpoint of another step, renamed"));
    for (uint64_t step = 1; step <= 5; step++) {
        char name[64];
        snprintf(name, sizeof name, "step-%08d.safetensors", (int)step);
        assert_int_equal(unlink(in_folder(name)), 0);
    }
    assert_false(checkpoint_any(folder));
    assert_int_equal(symlink("nowhere", in_folder("best.safetensors")), 0);
    assert_true(checkpoint_any(folder));
    listen();
    newest_is(k, "");
    assert_true(said("best.safetensors: No such file or directory (target of this symbolic link)"));
    save(k, 6, true); /* in the link's place */
    keeper_wait(k);
    holds("best.safetensors", 6);
    assert_false(is_there("nowhere"));
    assert_null(keeper_destroy(k));
}

/* Of another version of plait-train, which had none. */
static void a_checkpoint_of_version_1_without_a_hash_is_read(void **state)
{
    const char text[] = "{\"__metadata__\":{\"plait\":\"1\",\"step\":\"7\"}}";
    const uint64_t length = strlen(text);
    struct keeper *const k = keep(0);
    FILE *const f = fopen(in_folder("step-00000007.safetensors"), "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(&length, sizeof length, 1, f), 1);
    assert_int_equal(fwrite(text, length, 1, f), 1);
    assert_int_equal(fclose(f), 0);
    newest_is(k, "step-00000007.safetensors");
    assert_null(keeper_destroy(k));
}

static void a_folder_without_checkpoints_has_none(void **state)
{
    char path[PATH_MAX];

    listen();
    assert_false(checkpoint_newest("/nonexistent/folder", path, sizeof path));
    assert_false(said("plait-train"));
    listen();
    assert_false(checkpoint_newest("/dev/null", path, sizeof path));
    assert_true(said("/dev/null cannot be read: Not a directory"));
}

static void what_a_killed_process_left_is_removed(void **state)
{
    assert_int_equal(mkdir(folder, 0777), 0);
    write_text(".step-00000001.safetensors.123-4" REPLACE_SUFFIX, "half");
    write_text(".best" REPLACE_SUFFIX, "half");
    write_text(REPLACE_SUFFIX, "another's");
    write_text("notes" REPLACE_SUFFIX, "another's");
    struct keeper *const k = keep(1);

    assert_int_equal(nfile(), 2);
    assert_null(keeper_destroy(k));
}

static void a_checkpoint_can_be_written_without_a_keeper(void **state)
{
    float values[COUNT] = { 0 };
    const struct entry e = { "weight", STORED_F32, 1, { COUNT }, values };
    char path[PATH_MAX];

    assert_int_equal(mkdir(folder, 0777), 0);
    assert_null(checkpoint_write(folder, 0, &e, 1, NULL, 0));
    holds("step-00000000.safetensors", 0);
    assert_true(checkpoint_newest(folder, path, sizeof path));
    assert_string_equal(path, in_folder("step-00000000.safetensors"));
}

/* ---- What fails --------------------------------------------------------------------------------------------- */

static void not_created(const char *where, const char *words)
{
    const char *why = NULL;

    assert_null(keeper_create(where, 1, &why));
    assert_non_null(why);
    if (strstr(why, words) == NULL)
        fail_msg("'%s' was expected, and it said: %s", words, why);
}

static void two_processes_cannot_keep_one_folder(void **state)
{
    struct keeper *const k = keep(1);

    not_created(folder, "another process keeps its checkpoints there");
    assert_null(keeper_destroy(k));
    assert_null(keeper_destroy(keep(1)));
}

static void a_folder_that_cannot_be_written_is_told_at_once(void **state)
{
    char longest[PATH_MAX + 10];

    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    not_created("", "no folder for checkpoints");
    not_created(longest, "no folder for checkpoints");
    not_created("/dev/null", "Not a directory; name a folder");
    not_created("/dev/null/run", "cannot be made: Not a directory");
    not_created("/proc/run", "cannot be made: No such file");
    assert_int_equal(mkdir(folder, 0777), 0);
    if (geteuid() == 0) { /* for whom nothing is forbidden: in a child that is nobody */
        assert_int_equal(chmod(top, 0755), 0);
        const pid_t child = child_fork();
        if (child == 0) {
            const char *why = NULL;
            _exit(setuid(65534) != 0                                                                            ? 1
                  : keeper_create(folder, 1, &why) != NULL                                                      ? 2
                  : strstr(why, "no checkpoint can be written there: Permission denied; name a folder") == NULL ? 3
                                                                                                                : 0);
        }
        assert_int_equal(child_end(child), 0);
    } else {
        assert_int_equal(chmod(folder, 0555), 0);
        not_created(folder, "no checkpoint can be written there: Permission denied; name a folder");
        assert_int_equal(chmod(folder, 0755), 0);
    }
}

/* A limit of file sizes stands for a full disk. */
static void limit_files(rlim_t bytes)
{
    const struct rlimit limit = { bytes, RLIM_INFINITY };

    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void after_a_failed_save_the_older_ones_are_there_and_the_next_succeeds(void **state)
{
    struct keeper *const k = keep(1);

    save(k, 1, true);
    keeper_wait(k);
    limit_files(1000);
    save(k, 2, true);
    keeper_wait(k);
    limit_files(RLIM_INFINITY);
    const char *why = keeper_trouble(k);
    assert_non_null(why);
    assert_non_null(strstr(why, "the checkpoint of step 2: "));
    assert_non_null(strstr(why, "File too large; raise the limit of file sizes"));
    assert_null(keeper_trouble(k)); /* told once */
    assert_int_equal(nfile(), 2);
    holds("step-00000001.safetensors", 1);
    holds("best.safetensors", 1);
    save(k, 3, false);
    assert_null(keeper_destroy(k));
    assert_int_equal(nfile(), 2);
    holds("step-00000003.safetensors", 3);
}

static void the_end_tells_what_failed_last(void **state)
{
    struct keeper *const k = keep(1);

    limit_files(1000);
    save(k, 2, false);
    const char *const why = keeper_destroy(k);
    limit_files(RLIM_INFINITY);
    assert_non_null(why);
    assert_non_null(strstr(why, "the checkpoint of step 2"));
}

static void a_folder_that_was_removed_is_told(void **state)
{
    struct keeper *const k = keep(1);

    assert_int_equal(rmdir(folder), 0);
    save(k, 1, false);
    keeper_wait(k);
    const char *const why = keeper_trouble(k);
    assert_non_null(why);
    assert_non_null(strstr(why, "No such file or directory; make the folder first"));
    assert_null(keeper_destroy(k));
}

/* ---- A folder for each test --------------------------------------------------------------------------------- */

static int name_folder(void **state)
{
    return snprintf(folder, sizeof folder, "%s/run", top) < 0;
}

static int remove_folder(void **state)
{
    DIR *const d = opendir(folder);

    for (const struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
        unlink(in_folder(e->d_name));
    if (d != NULL)
        closedir(d);
    return rmdir(folder) != 0 && errno != ENOENT;
}

static int make_top(void **state)
{
    return mkdtemp(top) == NULL;
}

static int remove_top(void **state)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/said", top);
    unlink(path);
    return rmdir(top);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, name_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(the_last_few_and_the_best_are_kept),
        IN_FOLDER(keep_0_keeps_all),
        IN_FOLDER(a_step_that_is_saved_again_is_replaced),
        IN_FOLDER(the_checkpoint_just_written_stays_beside_later_ones),
        IN_FOLDER(a_torn_or_foreign_file_is_named_and_passed_over),
        IN_FOLDER(a_damaged_checkpoint_is_named_and_passed_over),
        IN_FOLDER(a_link_that_leads_to_no_file_is_named_and_passed_over),
        IN_FOLDER(a_checkpoint_of_version_1_without_a_hash_is_read),
        IN_FOLDER(a_folder_without_checkpoints_has_none),
        IN_FOLDER(what_a_killed_process_left_is_removed),
        IN_FOLDER(a_checkpoint_can_be_written_without_a_keeper),
        IN_FOLDER(two_processes_cannot_keep_one_folder),
        IN_FOLDER(a_folder_that_cannot_be_written_is_told_at_once),
        IN_FOLDER(after_a_failed_save_the_older_ones_are_there_and_the_next_succeeds),
        IN_FOLDER(the_end_tells_what_failed_last),
        IN_FOLDER(a_folder_that_was_removed_is_told),
    };

    return cmocka_run_group_tests(tests, make_top, remove_top);
}
