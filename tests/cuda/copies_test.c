/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies between a comm's operations, streams that follow others, GPUs that are named, scalars that the GPU reads. */
#include "../ranks.h"
#include "device.h"
#include "unit_device.h"

#include <plait/memory.h>
#include <plait/message.h>
#include <plait/request.h>
#include <plait/stream.h>

#include <stdlib.h>
#include <string.h>

enum { PARTS = 300, EACH = 41, COUNT = PARTS * EACH, ROOM = 2 * COUNT * sizeof(int32_t) };

static int fill(struct device_rank *d, uint32_t rank, int32_t k)
{
    int32_t *host = (int32_t *)(void *)d->host;

    for (int32_t i = 0; i < COUNT; i++)
        host[i] = i * k + (int32_t)rank;
    CHECK(device_write(d, d->in, host, COUNT * sizeof *host));
    return 0;
}

/* Parts of IN, the last one first, into a buffer; sums on another stream; and back. The buffer is used again and again. */
static int pack_and_unpack(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const int32_t nrank = (int32_t)plait_comm_nrank(*comm);
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_copy in[PARTS], out[PARTS];
    struct device_rank d, other;

    CHECK(device_begin(&d, ROOM) && device_begin(&other, ROOM));
    call.stream = other.stream;
    for (uint32_t i = 0; i < PARTS; i++) {
        char *packed = other.in + i * EACH * sizeof(int32_t);
        const size_t at = (PARTS - 1 - i) * EACH * sizeof(int32_t);
        in[i] = (struct plait_copy){ packed, d.in + at, EACH * sizeof(int32_t) };
        out[i] = (struct plait_copy){ d.out + at, packed, i == 7 ? 0 : EACH * sizeof(int32_t) };
    }
    for (int32_t k = 1; k < 10; k++) {
        int32_t *got = (int32_t *)(void *)d.host;
        if (fill(&d, rank, k) != 0)
            return 1;
        CHECK(plait_comm_copy(*comm, in, PARTS, d.stream) == PLAIT_OK);
        CHECK(plait_allreduce(*comm, other.in, other.in, COUNT, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
        CHECK(plait_comm_copy(*comm, out, PARTS, d.stream) == PLAIT_OK);
        CHECK(plait_comm_copy(*comm, NULL, 0, d.stream) == PLAIT_OK);
        CHECK(device_read(&d, got, d.out, COUNT * sizeof *got));
        for (int32_t i = 0; i < COUNT; i++)
            CHECK(got[i] == (i / EACH == PARTS - 8 ? 0 : nrank * i * k + nrank * (nrank - 1) / 2));
    }
    CHECK(device_end(&d) && device_end(&other));
    return 0;
}

/* One or many, nothing of it is done. */
static int copy_elsewhere(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct device_rank d;
    int32_t host[4] = { 0 };

    CHECK(device_begin(&d, ROOM));
    for (size_t n = 1; n <= 2; n++) {
        struct plait_copy copies[2] = { { d.out, d.in, 4 }, { d.out + 4, d.in + 4, 4 } };
        copies[n - 1].to = host;
        CHECK(plait_comm_copy(*comm, copies, n, d.stream) == PLAIT_ERR_ARG);
        CHECK(strstr(plait_last_error(), n == 1 ? "copies[0].to is 0x" : "copies[1].to is 0x") != NULL);
        copies[n - 1] = (struct plait_copy){ d.out, NULL, 4 };
        CHECK(plait_comm_copy(*comm, copies, n, d.stream) == PLAIT_ERR_ARG);
        CHECK(strstr(plait_last_error(), n == 1 ? "copies[0].from is" : "copies[1].from is") != NULL);
        copies[n - 1] = (struct plait_copy){ host, NULL, 0 };
        CHECK(plait_comm_copy(*comm, copies, n, d.stream) == PLAIT_OK);
    }
    CHECK(device_end(&d));
    return 0;
}

static void copies_of_other_memory_are_refused_by_number(void **state)
{
    device_run(1, 2, copy_elsewhere, NULL);
}

static void copies_are_between_the_operations_of_a_comm(void **state)
{
    device_run(1, 3, pack_and_unpack, NULL);
    device_run(2, 1, pack_and_unpack, NULL);
}

/* The stand-in would find the second copy before the first. */
static int follow(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct device_rank a, b;
    int32_t got[COUNT];

    (void)comm, (void)arg;
    CHECK(device_begin(&a, ROOM) && device_begin(&b, ROOM));
    for (int32_t k = 0; k < 20; k++) {
        CHECK(plait_stream_follow(a.stream, b.stream) == PLAIT_OK); /* which has read IN */
        if (fill(&a, rank, k) != 0)
            return 1;
        CHECK(plait_stream_follow(b.stream, a.stream) == PLAIT_OK);
        CHECK(device_write(&b, b.out, a.in, COUNT * sizeof *got));
        CHECK(device.stream_synchronize(a.cuda) == 0);
    }
    CHECK(device_read(&b, got, b.out, sizeof got) && got[COUNT - 1] == 19 * (COUNT - 1) + (int32_t)rank);
    CHECK(plait_stream_follow(NULL, a.stream) == PLAIT_ERR_ARG);
    CHECK(device_end(&a) && device_end(&b));
    return 0;
}

static int ask_what_is_captured(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct device_rank d;
    void *graph;
    uint64_t captures = 7;

    (void)comm, (void)arg, (void)rank;
    CHECK(device_begin(&d, ROOM));
    CHECK(plait_stream_captures(d.stream, &captures) == PLAIT_OK && captures == 0);
    CHECK(device.capture_begin(d.cuda, CAPTURE_ALONE) == 0);
    CHECK(plait_stream_captures(d.stream, &captures) == PLAIT_OK && captures != 0);
    CHECK(device.capture_end(d.cuda, &graph) == 0 && device.graph_destroy(graph) == 0);
    CHECK(plait_stream_captures(d.stream, &captures) == PLAIT_OK && captures == 0);
    CHECK(plait_stream_captures(NULL, &captures) == PLAIT_ERR_ARG);
    CHECK(plait_stream_captures(d.stream, NULL) == PLAIT_ERR_ARG);
    CHECK(device_end(&d));
    return 0;
}

static void a_stream_says_if_it_is_captured(void **state)
{
    device_run(1, 1, ask_what_is_captured, NULL);
}

static void a_stream_follows_another(void **state)
{
    device_run(1, 1, follow, NULL);
}

/* ---- GPUs that are named ------------------------------------------------------------------------------------------ */

static int name_devices(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_stream *stream, *default_one;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    const struct plait_copy copy = { NULL, NULL, 0 };
    struct device_rank d;
    enum plait_memory kind;
    void *memory, *first;
    int number = -2;

    CHECK(plait_device_now(&number) == PLAIT_OK && number == -1); /* no driver was loaded */
    CHECK(device_begin_on(&d, ROOM, 1));
    CHECK(plait_device_now(&number) == PLAIT_OK && number == 1);
    CHECK(plait_mem_alloc_on(0, 100, &first) == PLAIT_OK && plait_mem_alloc_on(1, ROOM, &memory) == PLAIT_OK);
    CHECK(plait_mem_kind(first, &kind, &number) == PLAIT_OK && number == 0);
    CHECK(plait_mem_kind(memory, &kind, &number) == PLAIT_OK && number == 1);
    CHECK(plait_mem_kind(&number, &kind, &number) == PLAIT_OK && number == -1);
    CHECK(plait_mem_alloc_on(2, 100, &memory) == PLAIT_ERR_ARG && strstr(plait_last_error(), "no GPU 2") != NULL);
    CHECK(plait_mem_alloc_on(-1, 100, &memory) == PLAIT_ERR_ARG && plait_mem_alloc_on(1, 0, &memory) == PLAIT_ERR_ARG);
    CHECK(plait_stream_create_cuda_on(0, d.cuda, &stream) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "a stream of GPU 1, not of GPU 0") != NULL);
    CHECK(plait_stream_create_cuda_on(2, NULL, &stream) == PLAIT_ERR_ARG);
    CHECK(plait_stream_create_cuda_on(-1, NULL, &stream) == PLAIT_ERR_ARG);
    CHECK(plait_stream_create_cuda_on(1, (void *)2, &stream) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "cudaStreamPerThread") != NULL);
    CHECK(plait_stream_create_cuda_on(1, d.cuda, &stream) == PLAIT_OK); /* the same one once more */
    CHECK(plait_stream_create_cuda_on(0, NULL, &default_one) == PLAIT_OK);
    for (int k = 0; k < 4; k++) {
        call.stream = k % 2 == 0 ? stream : d.stream;
        CHECK(plait_allreduce(*comm, k == 0 ? d.in : memory, memory, 100, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
    }
    CHECK(plait_comm_copy(*comm, &copy, 1, default_one) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "this rank has used GPU 1") != NULL);
    CHECK(plait_comm_copy(*comm, &copy, 1, NULL) == PLAIT_ERR_ARG &&
          plait_comm_copy(*comm, NULL, 1, stream) == PLAIT_ERR_ARG);
    CHECK(plait_stream_destroy(stream) == PLAIT_OK && plait_stream_destroy(default_one) == PLAIT_OK);
    CHECK(device_end(&d) && plait_mem_free(memory) == PLAIT_OK && plait_mem_free(first) == PLAIT_OK);
    return rank < plait_comm_nrank(*comm) ? 0 : 1;
}

static void gpus_are_named(void **state)
{
    const char *with_a_driver = getenv("PLAIT_TEST_DEVICES");

    if (with_a_driver != NULL && atoi(with_a_driver) < 2)
        skip();
    setenv("PLAIT_STANDIN_DEVICES", "2", 1);
    device_run(2, 1, name_devices, NULL);
    unsetenv("PLAIT_STANDIN_DEVICES");
}

/* ---- Scalars that the GPU reads ------------------------------------------------------------------------------------ */

/* Each start of a persistent operation has its own, as it is on the stream then. */
static int scale_late(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const int32_t nrank = (int32_t)plait_comm_nrank(*comm);
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *request;
    int32_t got[100], scalars[5] = { 1, 2, 3, 4, 5 };
    struct device_rank d;
    void *pinned;

    CHECK(device_begin(&d, ROOM) && fill(&d, rank, 1) == 0 && device.stream_synchronize(d.cuda) == 0);
    CHECK(plait_mem_alloc_as(PLAIT_MEMORY_PINNED, sizeof *scalars, &pinned) == PLAIT_OK);
    call.stream = d.stream;
    call.scale = d.in + 4000;
    call.scale_when = PLAIT_SCALE_LATE;
    call.request = &request;
    call.persistent = 1;
    CHECK(plait_allreduce(*comm, d.in, d.out, 100, PLAIT_INT32, PLAIT_PREMULSUM, &call) == PLAIT_OK);
    for (int k = 0; k < 5; k++) {
        CHECK(device_write(&d, d.in + 4000, &scalars[k], sizeof *scalars));
        CHECK(plait_start(request) == PLAIT_OK && plait_wait(&request) == PLAIT_OK);
        CHECK(device_read(&d, got, d.out, sizeof got));
        for (int32_t i = 0; i < 100; i++)
            CHECK(got[i] == scalars[k] * (nrank * i + nrank * (nrank - 1) / 2));
    }
    CHECK(plait_request_free(&request) == PLAIT_OK);
    call.request = NULL;
    call.persistent = 0;
    call.scale = pinned;
    *(int32_t *)pinned = 7;
    CHECK(plait_reduce_scatter(*comm, d.in, d.out, 10, PLAIT_INT32, PLAIT_PREMULSUM, &call) == PLAIT_OK);
    CHECK(device_read(&d, got, d.out, 10 * sizeof *got));
    for (int32_t i = 0; i < 10; i++)
        CHECK(got[i] == 7 * (nrank * ((int32_t)rank * 10 + i) + nrank * (nrank - 1) / 2));
    CHECK(plait_mem_free(pinned) == PLAIT_OK && device_end(&d));
    return 0;
}

static void a_scalar_is_read_in_its_turn(void **state)
{
    device_run(1, 3, scale_late, NULL);
    device_run(2, 1, scale_late, NULL);
}

/* ---- Memory that a kernel could not access --------------------------------------------------------------------------- */

static int memory_that_is_not_aligned_to_its_elements_is_refused(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct device_rank d;

    CHECK(device_begin(&d, ROOM) && fill(&d, rank, 1) == 0);
    call.stream = d.stream;
    CHECK(plait_allreduce(*comm, d.in + 2, d.out, 10, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "allreduce: in is ") != NULL &&
          strstr(plait_last_error(), "no multiple of 4 bytes") != NULL);
    CHECK(plait_allreduce(*comm, d.in, d.out + 1, 10, PLAIT_FLOAT16, PLAIT_SUM, NULL) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "allreduce: out is ") != NULL);
    CHECK(plait_allgather(*comm, d.in + 4, d.out, 10, PLAIT_INT64, &call) == PLAIT_OK); /* bytes are moved */
    call.scale = d.in + 4001;
    call.scale_when = PLAIT_SCALE_LATE;
    CHECK(plait_allreduce(*comm, d.in, d.out, 10, PLAIT_INT32, PLAIT_PREMULSUM, &call) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "allreduce: call->scale is ") != NULL);
    call.scale = NULL;
    call.scale_when = PLAIT_SCALE_NOW;
    CHECK(plait_allreduce(*comm, d.in + 4, d.out + 12, 10, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
    CHECK(plait_allreduce(*comm, d.in + 3, d.out + 1, 10, PLAIT_UINT8, PLAIT_SUM, &call) == PLAIT_OK);
    CHECK(device_end(&d));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_between_the_operations_of_a_comm),
        cmocka_unit_test(copies_of_other_memory_are_refused_by_number),
        cmocka_unit_test(a_stream_follows_another),
        cmocka_unit_test(a_stream_says_if_it_is_captured),
        cmocka_unit_test(gpus_are_named),
        cmocka_unit_test(a_scalar_is_read_in_its_turn),
        test_on_device_both(memory_that_is_not_aligned_to_its_elements_is_refused, 2),
    };

    if (getenv("PLAIT_CUDA_DRIVER") == NULL)
        return 77;
    return cmocka_run_group_tests_name("copies on a device", tests, NULL, NULL);
}
