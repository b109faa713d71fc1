/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which operators exist for which types (docs/types.md says), pre-multiplied sums, user functions, and the errors of
 * what they need.
 */
#include "ranks.h"
#include "reduce_reference.h"
#include "specs.h"
#include "tier.h"
#include "unit.h"

#include <plait/group.h>
#include <plait/plan.h>
#include <plait/request.h>

#include <stdlib.h>

static const enum plait_dtype types[] = {
#define PLAIT_X(symbol, value, bytes, name) symbol,
    PLAIT_DTYPE_LIST(PLAIT_X)
#undef PLAIT_X
};
#define NTYPE (sizeof types / sizeof *types)
#define COUNT 101

static void run_ranks(uint32_t nprocess, uint32_t nthread, int (*body)(struct plait_comm **, uint32_t, void *),
                      void *arg)
{
    const struct ranks r = {
        .nprocess = nprocess, .nthread = nthread, .body = body, .arg = arg, .limit = 300, .processes = false
    };
    assert_int_equal(ranks_run(&r), 0);
}

/* ---- User functions -------------------------------------------------------------------------------- */

/*
 * Elements of `type` as maps: x -> a x + b modulo 2^(half the bits), first `inout`, then `in`. Associative, and not
 * commutative.
 */
static void compose(void *inout, const void *in, size_t count, enum plait_dtype type, void *context)
{
    const unsigned half = 4 * (unsigned)plait_dtype_size(type);
    const uint64_t mask = (UINT64_C(1) << half) - 1;

    for (size_t i = 0; i < count; i++) {
        const uint64_t f = element(inout, type, i), g = element(in, type, i);
        const uint64_t a = f >> half, b = f & mask, c = g >> half, d = g & mask;
        set_element(inout, type, i, (c * a & mask) << half | ((c * b + d) & mask));
    }
    ++*(unsigned *)context;
}

static void add(void *inout, const void *in, size_t count, enum plait_dtype type, void *context)
{
    for (size_t i = 0; i < count; i++)
        set_element(inout, type, i, element(inout, type, i) + element(in, type, i));
}

static uint64_t map_of(uint32_t rank, size_t i)
{
    const uint64_t h = (rank + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ (i + 1) * UINT64_C(0xbf58476d1ce4e5b9);
    return (h ^ h >> 29) * UINT64_C(0x94d049bb133111eb) | UINT64_C(0x0101010101010101); /* odd: nothing is lost */
}

struct composition {
    enum plait_dtype type;
    const char *spec; /* NULL: chosen */
    size_t count;
    bool inplace;
};

static int compose_once(struct plait_comm *comm, uint32_t rank, uint32_t nrank, const struct composition *c)
{
    const size_t size = plait_dtype_size(c->type);
    unsigned calls = 0;
    const struct plait_user_op user = { sizeof user, compose, &calls, 0 };
    struct plait_call call = PLAIT_CALL_DEFAULT;
    char *in = malloc(c->count * size + 1), *out = c->inplace ? in : malloc(c->count * size + 1);

    CHECK(in != NULL && out != NULL);
    call.user = &user;
    call.algorithm = c->spec;
    for (size_t i = 0; i < c->count; i++)
        set_element(in, c->type, i, map_of(rank, i));
    CHECK(plait_allreduce(comm, in, out, c->count, c->type, PLAIT_USER, &call) == PLAIT_OK);
    for (size_t i = 0; i < c->count; i++) {
        char want[8], next[8];
        unsigned ignored = 0;
        set_element(want, c->type, 0, map_of(0, i));
        for (uint32_t r = 1; r < nrank; r++) {
            set_element(next, c->type, 0, map_of(r, i));
            compose(want, next, 1, c->type, &ignored);
        }
        CHECK(memcmp(out + i * size, want, size) == 0);
    }
    if (!c->inplace)
        free(out);
    free(in);
    return 0;
}

static int compose_all(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t nrank = *(uint32_t *)arg;
    struct specs specs;
    int wrong = 0;

    specs_init(&specs, PLAIT_ALLREDUCE, nrank, false);
    for (uint32_t i = 0; i < specs.n && wrong == 0; i++) {
        char spec[PLAIT_MAX_SPEC];
        snprintf(spec, sizeof spec, "%.*s", (int)strcspn(specs.spec[i].text, " "), specs.spec[i].text);
        for (size_t t = 0; t < NTYPE && wrong == 0; t++) {
            const struct composition c = { types[t], spec, i % 3 == 0 ? 5003 : COUNT, (i + t) % 2 };
            if (!full() && (i + t + nrank) % 3 != 0)
                continue; /* the others fall to other numbers of ranks */
            if (specs.spec[i].alg->canonical && specs.spec[i].shape.node == NULL)
                wrong = compose_once(*comm, rank, nrank, &c);
        }
    }
    for (size_t t = 0; t < 2 * NTYPE && wrong == 0; t++)
        if (full() || (t / 2 + nrank) % 4 == 0)
            wrong =
                compose_once(*comm, rank, nrank, &(struct composition){ types[t / 2], NULL, t % 2 ? 3 : 70000, false });
    specs_finish(&specs);
    return wrong;
}

static void functions_that_do_not_commute_are_applied_in_rank_order(void **state)
{
    for (uint32_t n = 1; n <= 9; n++) {
        run_ranks(1, n, compose_all, &n);
        if (full() || n == 3)
            run_ranks(n, 1, compose_all, &n);
    }
}

static int add_with_every_algorithm(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t nrank = *(uint32_t *)arg;
    const struct plait_user_op user = { sizeof user, add, NULL, 1 };
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct specs specs;
    uint64_t v[COUNT];

    call.user = &user;
    specs_init(&specs, PLAIT_ALLREDUCE, nrank, false);
    for (uint32_t i = 0; i < specs.n; i++) {
        if (specs.spec[i].shape.node != NULL)
            continue;
        for (size_t k = 0; k < COUNT; k++)
            v[k] = rank + k;
        call.algorithm = specs.spec[i].text;
        CHECK(plait_allreduce(*comm, v, v, COUNT, PLAIT_UINT64, PLAIT_USER, &call) == PLAIT_OK);
        for (size_t k = 0; k < COUNT; k++)
            CHECK(v[k] == nrank * k + nrank * (nrank - 1) / 2);
    }
    specs_finish(&specs);
    return 0;
}

static void functions_that_commute_run_with_every_algorithm(void **state)
{
    uint32_t n = 5;

    run_ranks(1, n, add_with_every_algorithm, &n);
}

static int promise_differently(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plait_user_op user = { sizeof user, add, NULL, rank == 1 };
    struct plait_call call = PLAIT_CALL_DEFAULT;
    uint64_t v[COUNT] = { 0 };

    call.user = &user;
    CHECK(plait_allreduce(*comm, v, v, COUNT, PLAIT_UINT64, PLAIT_USER, &call) == PLAIT_ERR_MISMATCH);
    CHECK(strstr(plait_last_error(), "commutative") != NULL);
    plait_comm_destroy(*comm);
    *comm = NULL;
    return 0;
}

static void a_promise_that_differs_is_named(void **state)
{
    run_ranks(1, 2, promise_differently, NULL);
}

/* ---- Pre-multiplied sums --------------------------------------------------------------------------- */

/* Products and sums that every type holds: 1 of the scalars is 0 in each group of 4 ranks. */
static int scale_by(uint32_t rank)
{
    return (int)(rank % 4);
}

static void store(void *vector, enum plait_dtype type, size_t i, int x)
{
    const float f = (float)x;
    const double d = x;

    if (is_integer(type))
        set_element(vector, type, i, (uint64_t)x);
    else
        set_element(vector, type, i,
                    is_narrow(type)         ? narrow_bits(type, x)
                    : type == PLAIT_FLOAT32 ? of_f32(f)
                                            : of_f64(d));
}

static int premultiply(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint32_t nrank = *(uint32_t *)arg;
    static const char *const specs[] = { NULL, "ring", "two-shot", "binomial", "one-shot" };
    static const size_t counts[] = { 0, 1, 7, COUNT, 5003 };

    for (size_t t = 0; t < NTYPE * 5 * 5 * 2; t++) {
        const enum plait_dtype type = types[t % NTYPE];
        const size_t size = plait_dtype_size(type), count = counts[t / NTYPE % 5], k = t / NTYPE / 5 % 5;
        const bool inplace = t / NTYPE / 25;
        struct plait_call call = PLAIT_CALL_DEFAULT;
        char scalar[9] = { 0 };
        char *in = malloc(count * size + 8), *out = inplace ? in : malloc(count * size + 8);

        if (specs[k] != NULL && nrank == 1)
            call.algorithm = NULL;
        else
            call.algorithm = specs[k];
        CHECK(in != NULL && out != NULL);
        store(scalar, type, 0, scale_by(rank));
        call.scale = scalar;
        call.scale_when = t % 2 ? PLAIT_SCALE_LATE : PLAIT_SCALE_NOW;
        for (size_t i = 0; i < count; i++)
            store(in, type, i, (i + rank) % 4 == 1);
        CHECK(plait_allreduce(*comm, in, out, count, type, PLAIT_PREMULSUM, &call) == PLAIT_OK);
        for (size_t i = 0; i < count; i++) {
            char want[8];
            int sum = 0;
            for (uint32_t r = 0; r < nrank; r++)
                sum += (i + r) % 4 == 1 ? scale_by(r) : 0;
            store(want, type, 0, sum);
            CHECK(memcmp(out + i * size, want, size) == 0);
            if (!inplace) {
                store(want, type, 0, (i + rank) % 4 == 1);
                CHECK(memcmp(in + i * size, want, size) == 0);
            }
        }
        if (!inplace)
            free(out);
        free(in);
    }
    return 0;
}

/* The number is read at the call, or when the operation runs, which may be later. */
static int scale_now(struct plait_comm **comm, uint32_t rank, void *arg)
{
    float v = 1, sum = 0, scale = 2;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *r;

    for (int i = 0; i < 20; i++) {
        CHECK(plait_group_start() == PLAIT_OK); /* it runs at the end of the group */
        call.request = &r;
        call.scale = &scale;
        call.scale_when = i % 2 ? PLAIT_SCALE_LATE : PLAIT_SCALE_NOW;
        scale = 2;
        CHECK(plait_allreduce(*comm, &v, &sum, 1, PLAIT_FLOAT32, PLAIT_PREMULSUM, &call) == PLAIT_OK);
        scale = 5;
        CHECK(plait_group_end() == PLAIT_OK && plait_wait(&r) == PLAIT_OK);
        CHECK(sum == (i % 2 ? 10 : 4));
    }
    return 0;
}

static void a_number_is_read_when_it_was_said_to_be(void **state)
{
    run_ranks(2, 1, scale_now, NULL);
    run_ranks(1, 2, scale_now, NULL);
}

/* A persistent one is started again and again; and a root's memory for what is scaled grows. */
static int scale_again(struct plait_comm **comm, uint32_t rank, void *arg)
{
    enum { SMALL = 10, LARGE = 100000 };
    struct plait_call call = PLAIT_CALL_DEFAULT;
    float v = 0, sum = 0, scale = 3, *in = malloc(LARGE * sizeof *in), *out = malloc(LARGE * sizeof *out);
    struct plait_request *r = NULL;

    CHECK(in != NULL && out != NULL);
    call.scale = &scale;
    for (size_t count = SMALL; count <= LARGE; count *= LARGE / SMALL) {
        for (size_t i = 0; i < count; i++)
            in[i] = (float)(i % 1000 + rank);
        CHECK(plait_reduce(*comm, in, out, count, PLAIT_FLOAT32, PLAIT_PREMULSUM, 0, &call) == PLAIT_OK);
        for (size_t i = 0; i < count; i++)
            CHECK(in[i] == (float)(i % 1000 + rank) && (rank > 0 || out[i] == (float)(6 * (i % 1000) + 3)));
    }
    call.request = &r;
    call.persistent = 1;
    CHECK(plait_allreduce(*comm, &v, &sum, 1, PLAIT_FLOAT32, PLAIT_PREMULSUM, &call) == PLAIT_OK);
    for (unsigned k = 0; k < 10; k++) {
        v = (float)(k + rank);
        CHECK(k % 2 == 0 ? plait_start(r) == PLAIT_OK && plait_wait(&r) == PLAIT_OK : plait_run_again(r) == PLAIT_OK);
        CHECK(sum == (float)(6 * k + 3));
    }
    CHECK(plait_request_free(&r) == PLAIT_OK);
    free(in);
    free(out);
    return 0;
}

static void what_is_scaled_again_is_scaled_each_time(void **state)
{
    run_ranks(2, 1, scale_again, NULL);
    run_ranks(1, 2, scale_again, NULL);
}

/* The same function for another context is another operator. */
static int two_contexts(struct plait_comm **comm, uint32_t rank, void *arg)
{
    unsigned calls[2] = { 0, 0 };
    const struct plait_user_op users[2] = { { sizeof *users, compose, &calls[0], 0 },
                                            { sizeof *users, compose, &calls[1], 0 } };
    uint32_t v = rank, out;

    for (int i = 0; i < 6; i++) {
        const unsigned before[2] = { calls[0], calls[1] };
        struct plait_call call = PLAIT_CALL_DEFAULT;
        call.user = &users[i % 2];
        CHECK(plait_allreduce(*comm, &v, &out, 1, PLAIT_UINT32, PLAIT_USER, &call) == PLAIT_OK);
        CHECK(calls[i % 2] > before[i % 2] && calls[1 - i % 2] == before[1 - i % 2]);
    }
    return 0;
}

static void a_function_is_called_with_its_own_context(void **state)
{
    run_ranks(2, 1, two_contexts, NULL);
}

static void every_rank_scales_by_its_own_number(void **state)
{
    static uint32_t numbers[] = { 1, 2, 3, 5 };

    for (size_t i = 0; i < 4; i++)
        run_ranks(1, numbers[i], premultiply, &numbers[i]);
    run_ranks(2, 1, premultiply, &numbers[1]);
}

/* ---- What is wrong --------------------------------------------------------------------------------- */

static int refuse(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const float one = 1;
    const struct plait_user_op user = { sizeof user, add, NULL, 1 }, ordered = { sizeof user, add, NULL, 0 },
                               none = { sizeof user, NULL, NULL, 1 }, old = { 1, add, NULL, 1 };
    const struct plait_call plain = PLAIT_CALL_DEFAULT;
    const struct {
        enum plait_op op;
        const void *scale;
        int when;
        const struct plait_user_op *user;
        const char *algorithm, *text;
        enum plait_status status;
    } wrong[] = {
        { PLAIT_PREMULSUM, NULL, 0, NULL, NULL, "call->scale is NULL", PLAIT_ERR_ARG },
        { PLAIT_SUM, &one, 0, NULL, NULL, "use premulsum", PLAIT_ERR_ARG },
        { PLAIT_USER, &one, 0, &user, NULL, "op is user, which does not scale", PLAIT_ERR_ARG },
        { PLAIT_PREMULSUM, &one, 7, NULL, NULL, "call->scale_when is 7", PLAIT_ERR_ARG },
        { PLAIT_USER, NULL, 0, NULL, NULL, "call->user is NULL", PLAIT_ERR_ARG },
        { PLAIT_MAX, NULL, 0, &user, NULL, "use op user", PLAIT_ERR_ARG },
        { PLAIT_USER, NULL, 0, &none, NULL, "call->user->combine is NULL", PLAIT_ERR_ARG },
        { PLAIT_USER, NULL, 0, &old, NULL, "call->user->size is 1", PLAIT_ERR_ARG },
        { PLAIT_USER, NULL, 0, &ordered, "ring", "not commutative", PLAIT_ERR_CONFIG },
        { (enum plait_op)PLAIT_NOP, NULL, 0, NULL, NULL, "op is 7", PLAIT_ERR_ARG },
    };

    for (unsigned again = 0; again < 2; again++)
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            struct plait_call call = plain;
            float in[4] = { 1, 2, 3, 4 }, out[4] = { 5, 6, 7, 8 };
            call.scale = wrong[i].scale;
            call.scale_when = (enum plait_scale_when)wrong[i].when;
            call.user = wrong[i].user;
            call.algorithm = wrong[i].algorithm;
            CHECK(plait_allreduce(*comm, in, out, 4, PLAIT_FLOAT32, wrong[i].op, &call) == wrong[i].status);
            CHECK(strstr(plait_last_error(), wrong[i].text) != NULL);
            CHECK(in[0] == 1 && in[3] == 4 && out[0] == 5 && out[3] == 8);
            /* and between right ones of the same kind */
            call.scale = &one;
            call.user = NULL;
            call.scale_when = PLAIT_SCALE_NOW;
            CHECK(plait_allreduce(*comm, in, out, 4, PLAIT_FLOAT32, PLAIT_PREMULSUM, &call) == PLAIT_OK);
            CHECK(out[0] == 3 && out[3] == 12);
        }
    CHECK(plait_allreduce(*comm, &rank, &rank, 1, PLAIT_UINT32, PLAIT_PREMULSUM, NULL) == PLAIT_ERR_ARG);
    CHECK(plait_allreduce(*comm, &rank, &rank, 1, PLAIT_UINT32, PLAIT_USER, NULL) == PLAIT_ERR_ARG);
    return 0;
}

static void wrong_options_are_named_and_change_nothing(void **state)
{
    run_ranks(1, 3, refuse, NULL);
}

/* ---- The table ------------------------------------------------------------------------------------- */

/* Cells of "| type | sum | ... |", trimmed. */
static unsigned cells(char *line, char **cell, unsigned most)
{
    unsigned n = 0;

    for (char *at = strtok(line, "|"); at != NULL && n < most; at = strtok(NULL, "|")) {
        at += strspn(at, " `");
        at[strcspn(at, "`\n")] = '\0';
        for (size_t k = strlen(at); k > 0 && at[k - 1] == ' ';)
            at[--k] = '\0';
        if (*at != '\0')
            cell[n++] = at;
    }
    return n;
}

static void compare_cell(struct plait_comm *comm, enum plait_dtype type, enum plait_op op, const char *says)
{
    const struct plait_user_op user = { sizeof user, add, NULL, 1 };
    struct plait_call call = PLAIT_CALL_DEFAULT;
    char v[8], one[8];

    store(v, type, 0, 1);
    store(one, type, 0, 1);
    call.scale = op == PLAIT_PREMULSUM ? one : NULL;
    call.user = op == PLAIT_USER ? &user : NULL;
    const enum plait_status status = plait_allreduce(comm, v, v, 1, type, op, &call);
    if ((status == PLAIT_OK) != (strcmp(says, "yes") == 0))
        fail_msg("%s %s: docs/types.md says '%s', the library: %s", plait_dtype_name(type), plait_op_name(op), says,
                 status == PLAIT_OK ? "yes" : plait_last_error());
    if (status != PLAIT_OK && strstr(plait_last_error(), says) == NULL)
        fail_msg("%s %s: '%s' does not say '%s'", plait_dtype_name(type), plait_op_name(op), plait_last_error(), says);
}

static void the_table_in_the_documentation_is_what_the_library_answers(void **state)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_unique_id id;
    struct plait_comm *comm;
    FILE *page = fopen(TYPES_PAGE, "r");
    char line[512], *cell[2 + PLAIT_NOP];
    int op[PLAIT_NOP], ntype = 0;
    bool inside = false;

    assert_non_null(page);
    assert_int_equal(plait_unique_id_create(&id), PLAIT_OK);
    o.nrank = 1;
    o.id = &id;
    assert_int_equal(plait_comm_create(&o, &comm), PLAIT_OK);
    while (fgets(line, sizeof line, page) != NULL) {
        const unsigned n = line[0] == '|' ? cells(line, cell, 2 + PLAIT_NOP) : 0;
        if (n == 1 + PLAIT_NOP && strcmp(cell[0], "type") == 0) {
            for (int i = 0; i < PLAIT_NOP; i++) {
                op[i] = plait_op_find(cell[1 + i]);
                assert_true(op[i] >= 0);
                for (int k = 0; k < i; k++)
                    assert_int_not_equal(op[i], op[k]);
            }
            inside = true;
        } else if (n != 1 + PLAIT_NOP) {
            inside = false;
        } else if (inside && cell[0][0] != '-') {
            const int type = plait_dtype_find(cell[0]);
            assert_true(type >= 0);
            ntype++;
            for (int i = 0; i < PLAIT_NOP; i++)
                compare_cell(comm, (enum plait_dtype)type, (enum plait_op)op[i], cell[1 + i]);
        }
    }
    fclose(page);
    plait_comm_destroy(comm);
    assert_int_equal(ntype, NTYPE);
}

static void names_of_nccl_tests_are_known(void **state)
{
    static const char *const names[] = { "int8", "uint8", "int32",  "uint32",   "int64",  "uint64",
                                         "half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2" };

    for (int i = 0; i < 12; i++)
        assert_int_equal(plait_dtype_find(names[i]), i);
    assert_int_equal(plait_op_find("mulsum"), PLAIT_PREMULSUM);
}

static void names_of_nccl_and_mpi_are_known_in_any_spelling(void **state)
{
    static const struct {
        const char *name;
        int coll;
    } colls[] = { { "allreduce", PLAIT_ALLREDUCE },
                  { "all_reduce", PLAIT_ALLREDUCE },
                  { "All-Reduce", PLAIT_ALLREDUCE },
                  { "ncclAllReduce", PLAIT_ALLREDUCE },
                  { "all_reduce_perf", PLAIT_ALLREDUCE },
                  { "MPI_Allreduce", PLAIT_ALLREDUCE },
                  { "plait_allreduce", PLAIT_ALLREDUCE },
                  { "MPI_Bcast", PLAIT_BROADCAST },
                  { "MPI_Reduce_scatter_block", PLAIT_REDUCE_SCATTER },
                  { "ncclReduceScatter", PLAIT_REDUCE_SCATTER },
                  { "alltoall_perf", PLAIT_ALLTOALL },
                  { "allgatherv", PLAIT_ALLGATHER },
                  { "ALLGATHER_V", PLAIT_ALLGATHER },
                  { "all_gather_v_perf", PLAIT_ALLGATHER },
                  { "ncclAlltoAllv", PLAIT_ALLTOALL },
                  { "MPI_Gatherv", PLAIT_GATHER },
                  { "MPI_Scatterv", PLAIT_SCATTER },
                  { "MPI_Reduce_scatter", PLAIT_REDUCE_SCATTER },
                  { "reduce_scatterv", PLAIT_REDUCE_SCATTER },
                  { "broadcastv", -1 },
                  { "v", -1 },
                  { "", -1 },
                  { "_", -1 },
                  { "_perf", -1 },
                  { "nccl", -1 },
                  { "MPI_", -1 },
                  { "plait_", -1 },
                  { "allreduce2", -1 },
                  { "a-name-that-is-longer-than-any-collective-has", -1 } };

    for (size_t i = 0; i < sizeof colls / sizeof *colls; i++)
        assert_int_equal(plait_coll_find(colls[i].name), colls[i].coll);
    assert_int_equal(plait_dtype_find("ncclFloat32"), PLAIT_FLOAT32);
    assert_int_equal(plait_dtype_find("MPI_DOUBLE"), PLAIT_FLOAT64);
    assert_int_equal(plait_dtype_find("BFloat16"), PLAIT_BFLOAT16);
    assert_int_equal(plait_op_find("ncclAvg"), PLAIT_AVG);
    assert_int_equal(plait_op_find("MPI_SUM"), PLAIT_SUM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_that_do_not_commute_are_applied_in_rank_order),
        cmocka_unit_test(functions_that_commute_run_with_every_algorithm),
        cmocka_unit_test(a_promise_that_differs_is_named),
        cmocka_unit_test(every_rank_scales_by_its_own_number),
        cmocka_unit_test(a_number_is_read_when_it_was_said_to_be),
        cmocka_unit_test(what_is_scaled_again_is_scaled_each_time),
        cmocka_unit_test(a_function_is_called_with_its_own_context),
        cmocka_unit_test(wrong_options_are_named_and_change_nothing),
        cmocka_unit_test(the_table_in_the_documentation_is_what_the_library_answers),
        cmocka_unit_test(names_of_nccl_tests_are_known),
        cmocka_unit_test(names_of_nccl_and_mpi_are_known_in_any_spelling),
    };

    return cmocka_run_group_tests_name("operators", tests, NULL, NULL);
}
