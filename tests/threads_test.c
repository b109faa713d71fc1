/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks as threads, in few operations that reach every kind of access that ranks share: made for the thread sanitizer,
 * which is ten times slower. Buffers are made and freed for each operation, so that late readers are seen.
 */
#include "ranks.h"
#include "specs.h"
#include "values.h"

#include <plait/memory.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

struct series {
    const struct specs *specs;
    const uint32_t *map;
    uint32_t nrank;
};

static char *get_memory(bool library, size_t bytes)
{
    void *p = NULL;

    if (!library)
        return malloc(bytes + 1);
    return plait_mem_alloc(bytes + 1, &p) == PLAIT_OK ? p : NULL;
}

static int sum(struct plait_comm *comm, uint32_t rank, uint32_t nrank, const char *spec, size_t count, bool library)
{
    const size_t bytes = count * sizeof(float);
    char *in = get_memory(library, bytes), *out = get_memory(library, bytes);
    struct plait_call call = PLAIT_CALL_DEFAULT;

    CHECK(in != NULL && out != NULL);
    call.algorithm = spec;
    call.slice = count > 4000 ? 8192 : 0; /* several slices in flight, on the same few windows */
    values_fill(in, PLAIT_FLOAT32, PLAIT_SUM, nrank, rank, count);
    CHECK(plait_allreduce(comm, in, out, count, PLAIT_FLOAT32, PLAIT_SUM, &call) == PLAIT_OK);
    CHECK(values_wrong(out, PLAIT_FLOAT32, PLAIT_SUM, nrank, count) == 0);
    if (library) {
        CHECK(plait_mem_free(in) == PLAIT_OK && plait_mem_free(out) == PLAIT_OK);
    } else {
        free(in);
        free(out);
    }
    return 0;
}

static int every_spec(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static const size_t counts[] = { 0, 1, 17, 997, 5003, 30011 };
    const struct series *s = arg;

    for (uint32_t i = 0; i < s->specs->n; i++) {
        const struct spec *spec = &s->specs->spec[i];
        char text[PLAIT_MAX_SPEC + 16];
        if (spec->shape.node != s->map)
            continue;
        snprintf(text, sizeof text, "%.*s", (int)strcspn(spec->text, " "), spec->text);
        for (uint32_t k = 0; k < 2; k++)
            if (sum(*comm, rank, s->nrank, text, counts[(i + 3 * k) % 6], (i + k) % 2) != 0)
                return 1;
    }
    return 0;
}

static void every_algorithm_between_threads(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 5; n++) {
        struct specs specs;
        specs_init(&specs, PLAIT_ALLREDUCE, n, false);
        for (unsigned map = 0; map < 3; map++) {
            struct series s = { &specs, specs.maps[map], n };
            struct ranks r = { .nprocess = 1,
                               .nthread = n,
                               .limit = 300,
                               .body = every_spec,
                               .arg = &s,
                               .options = PLAIT_COMM_OPTIONS_DEFAULT };
            r.options.node = specs.maps[map];
            assert_int_equal(ranks_run(&r), 0);
        }
        specs_finish(&specs);
    }
}

/* Tiny operations one after the other, no barrier between: slots are written again as soon as that is allowed. */
static int many_tiny(struct plait_comm **comm, uint32_t rank, void *arg)
{
    int64_t v[40], w[40];

    (void)arg;
    for (int64_t k = 0; k < 400; k++) {
        const size_t count = (size_t)k % 40 + 1;
        for (size_t i = 0; i < count; i++)
            v[i] = k + rank;
        CHECK(plait_allreduce(*comm, v, w, count, PLAIT_INT64, PLAIT_MAX, NULL) == PLAIT_OK);
        for (size_t i = 0; i < count; i++)
            CHECK(w[i] == k + 3);
    }
    return 0;
}

static void tiny_operations_between_threads(void **state)
{
    const struct ranks r = { .nprocess = 1, .nthread = 4, .limit = 300, .body = many_tiny };

    (void)state;
    assert_int_equal(ranks_run(&r), 0);
}

/* Control blocks and staging are given back while other ranks may still look at them. */
static int come_and_go(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plait_comm_options o = ranks_options(arg, rank);

    for (uint32_t k = 0; k < 12; k++) {
        CHECK(plait_comm_create(&o, comm) == PLAIT_OK);
        if (sum(*comm, rank, 3, "ring", 5003, k % 2) != 0)
            return 1;
        usleep(500 * ((rank + k) % 3));
        CHECK(plait_comm_destroy(*comm) == PLAIT_OK);
        *comm = NULL;
    }
    return 0;
}

static void comms_of_threads_come_and_go(void **state)
{
    struct ranks r = { .nprocess = 1,
                       .nthread = 3,
                       .limit = 300,
                       .body = come_and_go,
                       .no_comm = true,
                       .options = PLAIT_COMM_OPTIONS_DEFAULT };

    (void)state;
    r.arg = &r;
    assert_int_equal(ranks_run(&r), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_between_threads),
        cmocka_unit_test(tiny_operations_between_threads),
        cmocka_unit_test(comms_of_threads_come_and_go),
    };

    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
