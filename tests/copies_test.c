/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several copies of the library in one process: this program's own, and copies of its file under other names, loaded
 * as plug-ins bring theirs. They know nothing of each other, and stay loaded.
 *
 * Usage: copies_test LIBPLAIT
 */
#include "child.h"
#include "unit.h"

#include <plait/comm.h>
#include <plait/memory.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NRANK  2
#define NCOPY  3 /* number 0 is the program's own */
#define NROUND 8
#define COUNT  30000

static const char *library;
static char folder[] = "/tmp/plait-copies-XXXXXX";

struct copy {
    void *handle; /* NULL: the program's own */
    enum plait_status (*create)(const struct plait_comm_options *, struct plait_comm **);
    enum plait_status (*destroy)(struct plait_comm *);
    enum plait_status (*allreduce)(struct plait_comm *, const void *, void *, size_t, enum plait_dtype, enum plait_op,
                                   const struct plait_call *);
    enum plait_status (*allocate)(size_t, void **);
    enum plait_status (*release)(void *);
    const char *(*last_error)(void);
};

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "copies_test.c:%d: %s is false\n", __LINE__, #condition); \
            return 1;                                                                 \
        }                                                                             \
    } while (0)

static void path_of(unsigned k, char path[64])
{
    snprintf(path, 64, "%s/libcopy%u.so", folder, k);
}

static bool open_copy(unsigned k, struct copy *c)
{
    char path[64];

    path_of(k, path);
    c->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (c->handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return false;
    }
    *(void **)&c->create = dlsym(c->handle, "plait_comm_create");
    *(void **)&c->destroy = dlsym(c->handle, "plait_comm_destroy");
    *(void **)&c->allreduce = dlsym(c->handle, "plait_allreduce");
    *(void **)&c->allocate = dlsym(c->handle, "plait_mem_alloc");
    *(void **)&c->release = dlsym(c->handle, "plait_mem_free");
    *(void **)&c->last_error = dlsym(c->handle, "plait_last_error");
    return c->create != NULL && c->destroy != NULL && c->allreduce != NULL && c->last_error != NULL &&
           c->create != plait_comm_create;
}

static const struct copy own = {
    NULL, plait_comm_create, plait_comm_destroy, plait_allreduce, plait_mem_alloc, plait_mem_free, plait_last_error
};

/* Copies of the file, and of what it is a link to. */
static int make_copies(void **state)
{
    char command[1024], path[64];

    if (mkdtemp(folder) == NULL)
        return -1;
    for (unsigned k = 1; k < NCOPY; k++) {
        path_of(k, path);
        snprintf(command, sizeof command, "cp -L '%s' '%s'", library, path);
        if (system(command) != 0)
            return -1;
    }
    return 0;
}

static int remove_copies(void **state)
{
    char path[64];

    for (unsigned k = 1; k < NCOPY; k++) {
        path_of(k, path);
        unlink(path);
    }
    return rmdir(folder);
}

/* ---- Running ranks as processes -------------------------------------------------------------------- */

struct ids {
    struct plait_unique_id id[NROUND][NCOPY];
};

static int run(int (*body)(uint32_t rank, const struct ids *ids))
{
    static struct ids ids;
    pid_t pids[NRANK];
    int failed = 0;

    for (unsigned i = 0; i < NROUND; i++)
        for (unsigned k = 0; k < NCOPY; k++)
            assert_int_equal(plait_unique_id_create(&ids.id[i][k]), PLAIT_OK);
    for (uint32_t r = 0; r < NRANK; r++)
        if ((pids[r] = child_fork()) == 0) {
            alarm(600);
            exit(body(r, &ids)); /* exit handlers run */
        }
    for (uint32_t r = 0; r < NRANK; r++)
        failed += child_end(pids[r]) != 0;
    return failed;
}

static struct plait_comm_options options_of(const struct plait_unique_id *id, uint32_t rank)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;

    o.nrank = NRANK;
    o.rank = rank;
    o.id = id;
    o.deadline = 20;
    return o;
}

static int make_comm(const struct copy *c, const struct plait_unique_id *id, uint32_t rank, struct plait_comm **out)
{
    const struct plait_comm_options o = options_of(id, rank);

    CHECK(c->create(&o, out) == PLAIT_OK);
    return 0;
}

static int sum(const struct copy *c, struct plait_comm *comm, uint32_t rank, size_t count, int salt)
{
    static _Thread_local int32_t in[COUNT], out[COUNT];

    for (size_t i = 0; i < count; i++)
        in[i] = (int32_t)i * salt + (int32_t)rank;
    CHECK(c->allreduce(comm, in, out, count, PLAIT_INT32, PLAIT_SUM, NULL) == PLAIT_OK);
    for (size_t i = 0; i < count; i++)
        CHECK(out[i] == 2 * (int32_t)i * salt + 1);
    return 0;
}

struct worker {
    const struct copy *copy;
    struct plait_comm *comm;
    uint32_t rank;
    int salt, failed;
};

static void *work(void *arg)
{
    struct worker *w = arg;

    for (unsigned k = 0; k < 100 && w->failed == 0; k++)
        w->failed = sum(w->copy, w->comm, w->rank, k % 2 ? COUNT : 100, w->salt);
    return NULL;
}

/* Every copy's comm in turn, then all at the same time. */
static int use_all(const struct copy *copies, struct plait_comm **comms, uint32_t rank)
{
    struct worker workers[NCOPY];
    pthread_t threads[NCOPY];

    for (unsigned i = 0; i < 10; i++)
        for (unsigned k = 0; k < NCOPY; k++)
            CHECK(sum(&copies[k], comms[k], rank, i % 2 ? COUNT : 10, (int)k + 1) == 0);
    for (unsigned k = 0; k < NCOPY; k++) {
        workers[k] = (struct worker){ &copies[k], comms[k], rank, (int)k + 1, 0 };
        CHECK(pthread_create(&threads[k], NULL, work, &workers[k]) == 0);
    }
    for (unsigned k = 0; k < NCOPY; k++)
        pthread_join(threads[k], NULL);
    for (unsigned k = 0; k < NCOPY; k++)
        CHECK(workers[k].failed == 0);
    return 0;
}

/* ---- Tests ----------------------------------------------------------------------------------------- */

static int interleave(uint32_t rank, const struct ids *ids)
{
    static const unsigned orders[6][NCOPY] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
                                               { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };
    struct copy copies[NCOPY] = { own };
    struct plait_comm *comms[NCOPY];

    for (unsigned k = 1; k < NCOPY; k++)
        CHECK(open_copy(k, &copies[k]));
    for (unsigned round = 0; round < 6; round++) {
        for (unsigned k = 0; k < NCOPY; k++)
            CHECK(make_comm(&copies[k], &ids->id[round][k], rank, &comms[k]) == 0);
        CHECK(use_all(copies, comms, rank) == 0);
        for (unsigned i = 0; i < NCOPY; i++) {
            CHECK(copies[orders[round][i]].destroy(comms[orders[round][i]]) == PLAIT_OK);
            for (unsigned k = i + 1; k < NCOPY; k++) /* the others go on */
                CHECK(sum(&copies[orders[round][k]], comms[orders[round][k]], rank, COUNT, 3) == 0);
        }
    }
    return 0;
}

static void copies_run_side_by_side_and_end_in_any_order(void **state)
{
    assert_int_equal(run(interleave), 0);
}

static int fail_in_one(uint32_t rank, const struct ids *ids)
{
    struct plait_comm_options o = options_of(&ids->id[0][1], rank);
    struct copy c;
    struct plait_comm *comm;
    char memory[16];

    CHECK(open_copy(1, &c));
    CHECK(c.release(memory) == PLAIT_ERR_ARG);
    CHECK(strstr(c.last_error(), "did not return") != NULL);
    CHECK(strcmp(plait_last_error(), "") == 0);
    CHECK(plait_comm_create(NULL, &comm) == PLAIT_ERR_ARG);
    CHECK(strstr(c.last_error(), "did not return") != NULL);
    o.nrank += rank; /* rank 0 sees it and passes on its last error */
    CHECK(c.create(&o, &comm) == PLAIT_ERR_MISMATCH);
    CHECK(strstr(c.last_error(), "nrank is 2 on rank 0 and 3 on rank 1") != NULL);
    CHECK(strstr(plait_last_error(), "options is NULL") != NULL);
    return 0;
}

/* Calls inside a copy went to the program's own library, which has its own last error. */
static void the_copies_errors_do_not_mix(void **state)
{
    assert_int_equal(run(fail_in_one), 0);
}

/* ---- Copies that are closed ------------------------------------------------------------------------- */

/* Its comm goes on, its memory stays, and its handlers of fork() run. */
static int close_copy(uint32_t rank, const struct ids *ids)
{
    struct copy c = { 0 };
    struct plait_comm *comm;
    uint64_t *memory;

    CHECK(open_copy(1, &c));
    CHECK(make_comm(&c, &ids->id[0][1], rank, &comm) == 0);
    CHECK(c.allocate(1 << 20, (void **)&memory) == PLAIT_OK);
    memory[5] = 77;
    CHECK(dlclose(c.handle) == 0);
    CHECK(sum(&c, comm, rank, COUNT, 1) == 0);
    const pid_t child = child_fork();
    if (child == 0)
        _exit(0);
    CHECK(child_end(child) == 0);
    CHECK(c.destroy(comm) == PLAIT_OK);
    CHECK(memory[5] == 77 && c.release(memory) == PLAIT_OK);
    return 0;
}

static void a_copy_that_is_closed_stays(void **state)
{
    assert_int_equal(run(close_copy), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_run_side_by_side_and_end_in_any_order),
        cmocka_unit_test(the_copies_errors_do_not_mix),
        cmocka_unit_test(a_copy_that_is_closed_stays),
    };

    if (argc != 2) {
        fprintf(stderr, "usage: copies_test LIBPLAIT\n");
        return 2;
    }
    library = argv[1];
    return cmocka_run_group_tests_name("copies", tests, make_copies, remove_copies);
}
