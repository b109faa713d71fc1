/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each system call of a save, one after the other: the process is killed before it, or it fails. What was on the disk is
 * still there and whole, and the next save succeeds. train_kill_test.c does the same at random moments.
 */
#include "child.h"
#include "folder.h"

#include "checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 3000, NOT_REACHED = 77 };
enum fault { KILL, FAIL };

/* ---- The calls ---------------------------------------------------------------------------------------------- */

static _Atomic int until; /* calls that go well before the fault; negative: none is planned any more */
static enum fault planned;

/* Does this call fail? */
static bool strikes(void)
{
    if (atomic_fetch_sub(&until, 1) != 0)
        return false;
    if (planned == KILL)
        kill(getpid(), SIGKILL);
    errno = ENOSPC;
    return true;
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
    va_list arguments;

    va_start(arguments, flags);
    const int mode = flags & O_CREAT ? va_arg(arguments, int) : 0;
    va_end(arguments);
    return strikes() ? -1 : __real_open64(path, flags, mode);
}

/* Half of it is written before a disk is full. */
ssize_t __real_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes)
{
    if (until == 0 && bytes > 1)
        return __real_write(fd, data, bytes / 2);
    return strikes() ? -1 : __real_write(fd, data, bytes);
}

#define WRAP(name, declared, arguments)                  \
    int __real_##name declared;                          \
    int __wrap_##name declared;                          \
    int __wrap_##name declared                           \
    {                                                    \
        return strikes() ? -1 : __real_##name arguments; \
    }
WRAP(fsync, (int fd), (fd))
WRAP(rename, (const char *from, const char *to), (from, to))
WRAP(linkat, (int a, const char *from, int b, const char *to, int flags), (a, from, b, to, flags))
WRAP(renameat, (int a, const char *from, int b, const char *to), (a, from, b, to))
WRAP(unlinkat, (int fd, const char *path, int flags), (fd, path, flags))
WRAP(unlink, (const char *path), (path))
#undef WRAP

/* A descriptor is closed whatever it says. */
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    const bool failed = strikes();
    const int status = __real_close(fd);

    errno = failed ? ENOSPC : errno;
    return failed ? -1 : status;
}

/* ---- The process that saves --------------------------------------------------------------------------------- */

static void save(struct keeper *k, uint64_t step, bool best)
{
    static float values[COUNT];
    const struct entry e = { "weight", STORED_F32, 1, { COUNT }, values };

    for (int i = 0; i < COUNT; i++)
        values[i] = (float)step;
    keeper_save(k, step, best, &e, 1, NULL, 0);
    keeper_wait(k);
}

/* Steps 1 and 2 are on the disk; the fault strikes in 3. */
static _Noreturn void live(int n, enum fault fault)
{
    const char *why;
    struct keeper *const k = keeper_create(folder, 2, &why);
    char path[PATH_MAX];

    if (k == NULL)
        _exit(1);
    save(k, 1, true);
    save(k, 2, false);
    planned = fault;
    until = n;
    save(k, 3, true);
    const bool reached = until < 0;
    until = -1;
    if (!reached)
        _exit(NOT_REACHED);
    const bool told = keeper_trouble(k) != NULL;
    if (!checkpoint_newest(folder, path, sizeof path) || (!told && strstr(path, "step-00000003") == NULL))
        _exit(2);
    save(k, 4, false);
    if (keeper_trouble(k) != NULL || strstr(keeper_newest(k), "step-00000004") == NULL || keeper_destroy(k) != NULL)
        _exit(3);
    _exit(0);
}

/* ---- What is in the folder then ----------------------------------------------------------------------------- */

/* Its step; it is whole. */
static uint64_t step_of(const char *path)
{
    const char *why = NULL;
    struct safetensors *const f = safetensors_open(path, &why);

    if (f == NULL)
        fail_msg("%s", why);
    const uint64_t step = strtoull(safetensors_note(f, "step"), NULL, 10);
    for (int i = 0; i < COUNT; i++) {
        float value;
        memcpy(&value, (const char *)safetensors_entry(f, 0)->data + (size_t)i * sizeof value, sizeof value);
        assert_true(value == (float)step);
    }
    safetensors_close(f);
    return step;
}

/* The folder is empty afterwards. */
static void check_folder(void)
{
    DIR *const d = opendir(folder);
    char path[PATH_MAX];
    unsigned n = 0;

    assert_true(checkpoint_newest(folder, path, sizeof path));
    assert_true(step_of(path) >= 2);
    snprintf(path, sizeof path, "%s/best.safetensors", folder);
    assert_true(step_of(path) == 1 || step_of(path) == 3);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (strncmp(e->d_name, "step-", 5) == 0)
            n += step_of(path) > 0;
        unlink(path);
    }
    closedir(d);
    assert_true(n >= 2);
}

/* Calls that were tried. */
static int strike_each(enum fault fault)
{
    for (int n = 0;; n++) {
        const pid_t child = child_fork();

        until = -1;
        if (child == 0)
            live(n, fault);
        const int end = child_end(child);
        check_folder();
        if (end == NOT_REACHED)
            return print_message("%d calls\n", n), n;
        if (end != (fault == KILL ? -SIGKILL : 0))
            fail_msg("call %d failed, and the child ended with %d", n, end);
    }
}

static void a_kill_before_any_call_loses_nothing(void **state)
{
    assert_true(strike_each(KILL) >= 15);
}

static void any_call_that_fails_is_told_or_made_good(void **state)
{
    assert_true(strike_each(FAIL) >= 15);
}

static int remove_folder(void **state)
{
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kill_before_any_call_loses_nothing),
        cmocka_unit_test(any_call_that_fails_is_told_or_made_good),
    };

    until = -1;
    return cmocka_run_group_tests(tests, folder_make, remove_folder);
}
