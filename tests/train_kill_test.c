/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checkpoints are never torn and never lost: processes that save are killed at random moments, and their disk is full at
 * random moments; what is in the folder then is whole, and at least as new as what was on the disk.
 *
 *     train_kill_test [TRIES [SEED]]     20 tries of seeds 1, 2, ...; one try of SEED
 *
 * Tries with an even seed write to /tmp and are killed. Those with an odd seed write to a small tmpfs of a mount namespace of
 * their own, which another file fills now and then, and are killed too; where that is not allowed, a limit of file sizes
 * comes and goes in its place.
 */
#include "checkpoint.h"
#include "child.h"
#include "random.h"
#include "replace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { KEEP = 2, NTENSOR = 5, MOST = 16384, DISK = 1 << 20, ATTEMPTS = 12 };

struct life { /* what the process that saves has told before it died */
    _Atomic uint64_t attempts, done, best, ndone, failures;
};

static struct life *life;
static char disk[] = "/tmp/plait-kill-XXXXXX", small_disk[] = "/tmp/plait-full-XXXXXX";
static bool has_small_disk;
static uint64_t usual[2] = { 1000000, 1000000 }; /* nanoseconds of a save, on each disk */
static unsigned half_written, killed, full;

/* Of this process, or a child: as if the test had failed. */
#define MUST(condition)                                                              \
    do {                                                                             \
        if (!(condition)) {                                                          \
            fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                 \
        }                                                                            \
    } while (0)

static uint64_t nanoseconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- The process that saves --------------------------------------------------------------------------------- */

static float value(uint64_t step, uint32_t tensor, uint32_t i)
{
    return (float)(step % 1000 * 7 + tensor * 13 + i);
}

static void save(struct keeper *k, uint64_t step, bool best, uint64_t *state)
{
    static float values[NTENSOR][MOST];
    struct entry e[NTENSOR];

    for (uint32_t t = 0; t < NTENSOR; t++) {
        e[t] =
            (struct entry){ .type = STORED_F32, .ndim = 1, .shape = { random_next(state) % MOST }, .data = values[t] };
        snprintf(e[t].name, sizeof e[t].name, "tensor%u", t);
        for (uint32_t i = 0; i < e[t].shape[0]; i++)
            values[t][i] = value(step, t, i);
    }
    keeper_save(k, step, best, e, NTENSOR, NULL, 0);
    keeper_wait(k);
}

/* Fill the disk but for a few bytes, or free it. */
static void fill(const char *folder, uint64_t bytes)
{
    char path[PATH_MAX];
    const struct rlimit limit = { bytes == 0 ? RLIM_INFINITY : bytes, RLIM_INFINITY };

    if (!has_small_disk) {
        MUST(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        return;
    }
    snprintf(path, sizeof path, "%s.filler", folder);
    unlink(path);
    const int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    MUST(fd >= 0);
    /* Pages that are not there are not reserved: some less each time until they are. */
    for (uint64_t room = bytes == 0 ? 0 : DISK - bytes % DISK; room > 4096 && posix_fallocate(fd, 0, (off_t)room) != 0;)
        room -= 4096;
    close(fd);
}

static void live(const char *folder, uint64_t state, bool fills)
{
    const char *why;
    struct keeper *const k = keeper_create(folder, KEEP, &why);

    MUST(k != NULL);
    for (uint64_t step = 1; step <= ATTEMPTS; step++) {
        const bool best = random_next(&state) % 3 == 0;
        if (fills)
            fill(folder, random_next(&state) % 2 == 0 ? 0 : 1 + random_next(&state) % 300000);
        atomic_fetch_add(&life->attempts, 1);
        save(k, step, best, &state);
        why = keeper_trouble(k);
        if (why == NULL) {
            atomic_store(&life->done, step);
            atomic_fetch_add(&life->ndone, 1);
            if (best)
                atomic_store(&life->best, step);
        } else {
            MUST(strstr(why, has_small_disk ? "No space left on device; free some space" : "File too large") != NULL);
            atomic_fetch_add(&life->failures, 1);
        }
    }
    pause(); /* for the end that all of them have */
}

/* ---- What is in the folder then ----------------------------------------------------------------------------- */

/* Its step; it must be whole and have that step's numbers. */
static uint64_t check_file(const char *path)
{
    const char *why = NULL;
    struct safetensors *const f = safetensors_open(path, &why);

    if (f == NULL)
        fprintf(stderr, "%s\n", why);
    MUST(f != NULL && safetensors_nentry(f) == NTENSOR);
    const uint64_t step = strtoull(safetensors_note(f, "step"), NULL, 10);
    for (uint32_t k = 0; k < NTENSOR; k++) {
        const struct entry *const e = safetensors_entry(f, k);
        const uint32_t tensor = (uint32_t)atoi(e->name + 6);
        for (uint32_t i = 0; i < e->shape[0]; i++) {
            float stored;
            memcpy(&stored, (const char *)e->data + i * sizeof stored, sizeof stored);
            MUST(stored == value(step, tensor, i));
        }
    }
    safetensors_close(f);
    return step;
}

/* Whole checkpoints; every file with such a name is one. */
static unsigned check_folder(const char *folder, unsigned *unfinished)
{
    DIR *const d = opendir(folder);
    char path[PATH_MAX];
    unsigned n = 0;

    MUST(d != NULL);
    *unfinished = 0;
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        *unfinished += strstr(e->d_name, REPLACE_SUFFIX) != NULL;
        if (strncmp(e->d_name, "step-", 5) != 0)
            continue;
        check_file(path);
        n++;
    }
    closedir(d);
    return n;
}

static void check_newest(const char *folder, uint64_t least)
{
    char path[PATH_MAX];
    const bool found = checkpoint_newest(folder, path, sizeof path);

    MUST(found || least == 0);
    MUST(!found || check_file(path) >= least);
    snprintf(path, sizeof path, "%s/best.safetensors", folder);
    MUST(access(path, F_OK) == 0 || life->best == 0);
    MUST(access(path, F_OK) != 0 || check_file(path) >= life->best);
}

/* The next process goes on there. */
static void check_next(const char *folder, uint64_t state)
{
    const char *why;
    struct keeper *const k = keeper_create(folder, KEEP, &why);
    unsigned unfinished;

    MUST(k != NULL);
    save(k, ATTEMPTS + 1, false, &state);
    MUST(keeper_destroy(k) == NULL);
    const unsigned n = check_folder(folder, &unfinished);
    MUST(n >= 1 && n <= KEEP && unfinished == 0);
    check_newest(folder, ATTEMPTS + 1);
}

static void remove_folder(const char *folder)
{
    DIR *const d = opendir(folder);

    MUST(d != NULL);
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    MUST(rmdir(folder) == 0);
}

static void try(uint64_t seed)
{
    const bool fills = seed % 2 == 1;
    uint64_t state = seed;
    const uint64_t attempt = 1 + random_next(&state) % (ATTEMPTS - 1), late = random_next(&state);
    char folder[64];
    unsigned unfinished;
    int status;

    *life = (struct life){ 0 };
    snprintf(folder, sizeof folder, "%s/run", fills && has_small_disk ? small_disk : disk);
    const uint64_t begin = nanoseconds();
    const pid_t child = child_fork();
    if (child == 0) {
        live(folder, random_next(&state), fills);
        _exit(0);
    }
    while (life->attempts < attempt && waitpid(child, &status, WNOHANG) == 0)
        sched_yield();
    const uint64_t each = (nanoseconds() - begin) / attempt;
    usual[fills] = (3 * usual[fills] + each) / 4;
    const struct timespec wait = { 0, (long)(late % (2 * usual[fills]) % 500000000) };
    nanosleep(&wait, NULL);
    kill(child, SIGKILL);
    MUST(child_end(child) == -SIGKILL);

    const unsigned n = check_folder(folder, &unfinished);
    MUST(n >= (life->ndone < KEEP ? life->ndone : KEEP));
    check_newest(folder, life->done);
    if (fills)
        fill(folder, 0);
    check_next(folder, seed);
    killed++;
    half_written += unfinished > 0;
    full += (unsigned)life->failures;
    remove_folder(folder);
    if (fills && has_small_disk) {
        char filler[80];
        snprintf(filler, sizeof filler, "%s.filler", folder);
        unlink(filler);
    }
}

/* ---- The disks ---------------------------------------------------------------------------------------------- */

static void write_file(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd >= 0) {
        (void)!write(fd, text, strlen(text));
        close(fd);
    }
}

/* As root, else as root of a user namespace of our own. */
static bool mount_small_disk(void)
{
    char map[64], options[64];
    const unsigned uid = getuid(), gid = getgid();

    if (unshare(CLONE_NEWNS) != 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
            return false;
        write_file("/proc/self/setgroups", "deny");
        snprintf(map, sizeof map, "%u %u 1", uid, uid);
        write_file("/proc/self/uid_map", map);
        snprintf(map, sizeof map, "%u %u 1", gid, gid);
        write_file("/proc/self/gid_map", map);
    }
    snprintf(options, sizeof options, "size=%d", DISK);
    return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("plait", small_disk, "tmpfs", 0, options) == 0;
}

int main(int argc, char **argv)
{
    const uint64_t tries = argc > 2 ? 1 : argc > 1 ? strtoull(argv[1], NULL, 10) : 20;
    const uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

    life = shared_memory(sizeof *life);
    MUST(mkdtemp(disk) != NULL && mkdtemp(small_disk) != NULL);
    has_small_disk = mount_small_disk();
    if (!has_small_disk)
        printf("a small disk cannot be mounted (%s): limits of file sizes stand for it\n", strerror(errno));
    signal(SIGXFSZ, SIG_IGN);
    for (uint64_t seed = first; seed < first + tries; seed++) {
        fflush(stdout);
        try(seed);
    }
    if (has_small_disk)
        umount(small_disk);
    rmdir(small_disk);
    MUST(rmdir(disk) == 0);
    printf("%u killed, %u of them while a file was half written; %u saves met a full disk; none torn, none lost\n",
           killed, half_written, full);
    return 0;
}
