/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks on several devices, one that the others cannot reach among them; several comms on several streams. */
#include "../places.h"
#include "../ranks.h"
#include "../tier.h"
#include "device.h"
#include "device_operate.h"
#include "device_run.h"

#include <plait/memory.h>
#include <plait/stream.h>

#include <pthread.h>
#include <string.h>

enum { ROOM = 1 << 16, NCOMM = 3, ROUNDS = 20 };

static const struct {
    enum plait_dtype type;
    enum plait_op op;
    size_t count;
} kinds[] = {
    { PLAIT_FLOAT32, PLAIT_SUM, 1000 },
    { PLAIT_INT64, PLAIT_MAX, 7 },
    { PLAIT_BFLOAT16, PLAIT_AVG, 501 },
};

/* ---- Several devices ------------------------------------------------------------------------------------------ */

static int on_its_own_device(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const int *ndevice = arg;
    const uint32_t nrank = plait_comm_nrank(*comm);
    struct device_rank d;

    CHECK(device_begin_on(&d, ROOM, (int)rank % *ndevice));
    for (unsigned i = 0; i <= NCOLLECTIVE; i++)
        for (unsigned k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            const struct collective c = { .coll = i < NCOLLECTIVE ? collectives[i] : PLAIT_ALLREDUCE,
                                          .type = kinds[k].type,
                                          .op = kinds[k].op,
                                          .count = kinds[k].count };
            if (device_operate(*comm, rank, &d, &c, k == 1) != 0)
                return 1;
        }
    CHECK(nrank > 0 && device_end(&d));
    return 0;
}

static void ranks_on_several_devices(void **state)
{
    int two = 2, three = 3;

    setenv("PLAIT_STANDIN_DEVICES", "3", 1);
    device_run(1, 3, on_its_own_device, &three);
    device_run(1, 4, on_its_own_device, &two);
    device_run(3, 1, on_its_own_device, &three);
    device_run(2, 2, on_its_own_device, &two);
    device_run(2, 2, on_its_own_device, &three);
}

/* Once all have used their devices: graphs of two wait for each other on each, and there are two queues. */
static int capture_on_two_devices(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct device_rank d;
    void *graph;

    CHECK(device_begin_on(&d, ROOM, (int)rank % 2));
    call.stream = d.stream;
    for (int k = 0; k < 2; k++) {
        CHECK(k == 0 || device.capture_begin(d.cuda, CAPTURE_ALONE) == 0);
        CHECK(plait_allreduce(*comm, d.in, d.out, 100, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
        CHECK(k == 1 || plait_stream_synchronize(d.stream) == PLAIT_OK);
    }
    CHECK(device.capture_end(d.cuda, &graph) == 0 && device.graph_destroy(graph) == 0);
    CHECK(device_end(&d));
    return 0;
}

static void ranks_on_other_devices_take_no_hardware_queue(void **state)
{
    setenv("PLAIT_STANDIN_DEVICES", "2", 1);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "2", 1);
    device_run(1, 4, capture_on_two_devices, NULL);
    unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
}

static int on_a_device_that_is_alone(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct device_rank d;

    CHECK(device_begin_on(&d, ROOM, rank == 1 ? 2 : 0));
    call.stream = d.stream;
    CHECK(plait_allreduce(*comm, d.in, d.out, 100, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_ERR_SYSTEM);
    CHECK(strstr(plait_last_error(), "cannot reach the memory of") != NULL &&
          strstr(plait_last_error(), "use GPUs with peer access") != NULL);
    CHECK(plait_stream_synchronize(d.stream) == PLAIT_OK);
    CHECK(plait_comm_destroy(*comm) != PLAIT_OK);
    *comm = NULL;
    CHECK(device_end(&d));
    return 0;
}

/* On one host: by pinned memory it is reached */
static void a_device_that_others_cannot_reach_is_refused_by_name(void **state)
{
    setenv("PLAIT_STANDIN_DEVICES", "3", 1);
    setenv("PLAIT_STANDIN_ALONE", "2", 1);
    device_run(1, 2, on_a_device_that_is_alone, NULL);
    device_run(2, 1, on_a_device_that_is_alone, NULL);
    device_run(3, 1, on_a_device_that_is_alone, NULL);
    unsetenv("PLAIT_STANDIN_ALONE");
}

static int with_a_driver_that_is_older(struct plait_comm **comm, uint32_t rank, void *arg)
{
    void *memory;

    (void)comm, (void)arg;
    CHECK(plait_mem_alloc_as(PLAIT_MEMORY_DEVICE, 100, &memory) != PLAIT_OK);
    CHECK(strstr(plait_last_error(),
                 "cuModuleLoadData: an error (CUDA_ERROR_UNSUPPORTED_PTX_VERSION): the device code was built by") !=
          NULL);
    CHECK(strstr(plait_last_error(), "nvcc of CUDA 1") != NULL);
    CHECK(strstr(plait_last_error(), "the driver is of CUDA 9.2, and must not be older") != NULL);
    return 0;
}

/* It said neither. */
static void device_code_that_is_newer_than_the_driver_is_named_with_both_versions(void **state)
{
    setenv("PLAIT_STANDIN_CUDA", "9020", 1);
    device_run(1, 1, with_a_driver_that_is_older, NULL);
    unsetenv("PLAIT_STANDIN_CUDA");
}

/* Two comms, each on a device of its own. A comm that has used one does not take another. */
static int on_two_devices(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct collective c = { .coll = PLAIT_ALLREDUCE, .type = PLAIT_FLOAT32, .op = PLAIT_SUM, .count = 100 };
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct device_rank first, second;
    struct plait_comm *other;

    CHECK(plait_comm_duplicate(*comm, NULL, &other) == PLAIT_OK);
    CHECK(device_begin_on(&first, ROOM, 0) && device_begin_on(&second, ROOM, 1));
    for (int i = 0; i < 3; i++)
        if (device_operate(*comm, rank, &first, &c, i == 1) != 0 ||
            device_operate(other, rank, &second, &c, i == 1) != 0)
            return 1;
    call.stream = second.stream;
    CHECK(plait_allreduce(*comm, second.in, second.out, 10, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "a rank has one") != NULL);
    call.stream = first.stream;
    CHECK(plait_allreduce(*comm, first.in, second.out, 10, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_ERR_ARG);
    CHECK(strstr(plait_last_error(), "of GPU 1") != NULL);
    CHECK(plait_comm_destroy(other) == PLAIT_OK);
    CHECK(device_end(&first) && device_end(&second));
    return 0;
}

static void a_rank_may_use_two_devices_with_two_comms(void **state)
{
    setenv("PLAIT_STANDIN_DEVICES", "2", 1);
    device_run(1, 2, on_two_devices, NULL);
    device_run(2, 1, on_two_devices, NULL);
}

/* ---- Several comms on several streams --------------------------------------------------------------------------- */

struct lane { /* of a rank: a comm with a stream and buffers of its own */
    struct plait_comm *comm;
    struct device_rank d;
    uint32_t rank, number;
    int result;
};

static int begin_lanes(struct lane *lanes, struct plait_comm *comm, uint32_t rank)
{
    for (uint32_t i = 0; i < NCOMM; i++) {
        lanes[i] = (struct lane){ .rank = rank, .number = i };
        CHECK(plait_comm_duplicate(comm, NULL, &lanes[i].comm) == PLAIT_OK);
        CHECK(device_begin_on(&lanes[i].d, ROOM, (int)rank % 2));
    }
    return 0;
}

static int end_lanes(struct lane *lanes, uint32_t rank)
{
    for (uint32_t i = 0; i < NCOMM; i++) {
        CHECK(plait_comm_destroy(lanes[i].comm) == PLAIT_OK);
        CHECK(device_end(&lanes[i].d));
    }
    return 0;
}

/* Nothing is waited for between the calls; the streams go their own pace. */
static int at_once(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct lane lanes[NCOMM];
    int32_t *in, got[100];

    if (begin_lanes(lanes, *comm, rank) != 0)
        return 1;
    for (uint32_t i = 0; i < NCOMM; i++) {
        in = (int32_t *)(void *)lanes[i].d.host;
        for (int k = 0; k < 100; k++)
            in[k] = (int32_t)(rank + i);
        CHECK(device_write(&lanes[i].d, lanes[i].d.in, in, sizeof got));
    }
    for (unsigned turn = 0; turn < ROUNDS; turn++)
        for (uint32_t k = 0; k < NCOMM; k++) {
            struct lane *l = &lanes[(k + turn) % NCOMM];
            call.stream = l->d.stream;
            CHECK(plait_allreduce(l->comm, l->d.in, l->d.out, 100, PLAIT_INT32, PLAIT_SUM, &call) == PLAIT_OK);
            CHECK(plait_allreduce(l->comm, l->d.out, l->d.out, 100, PLAIT_INT32, PLAIT_MAX, &call) == PLAIT_OK);
        }
    for (uint32_t i = 0; i < NCOMM; i++) {
        const int32_t n = (int32_t)plait_comm_nrank(*comm);
        CHECK(device_read(&lanes[i].d, got, lanes[i].d.out, sizeof got));
        for (int k = 0; k < 100; k++)
            CHECK(got[k] == n * (n - 1) / 2 + n * (int32_t)i);
    }
    return end_lanes(lanes, rank);
}

static void *use_lane(void *arg)
{
    struct lane *l = arg;
    const struct collective c = { .coll = PLAIT_ALLREDUCE, .type = PLAIT_FLOAT32, .op = PLAIT_SUM, .count = 300 };
    void *context;

    if (device.context_retain(&context, (int)l->rank % 2) != 0 || device.context_push(context) != 0)
        l->result = 1;
    for (unsigned turn = 0; turn < ROUNDS && l->result == 0; turn++)
        l->result = device_operate(l->comm, l->rank, &l->d, &c, turn % 3 == 1);
    return NULL;
}

/* Each comm by a thread of its own, so that ranks call them in any order. */
static int by_threads(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct lane lanes[NCOMM];
    pthread_t ids[NCOMM];

    if (begin_lanes(lanes, *comm, rank) != 0)
        return 1;
    for (uint32_t i = 0; i < NCOMM; i++)
        CHECK(pthread_create(&ids[i], NULL, use_lane, &lanes[i]) == 0);
    for (uint32_t i = 0; i < NCOMM; i++) {
        pthread_join(ids[i], NULL);
        CHECK(lanes[i].result == 0);
    }
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    return end_lanes(lanes, rank);
}

static void several_comms_on_several_streams(void **state)
{
    setenv("PLAIT_STANDIN_DEVICES", "2", 1);
    for (int i = 0; i < (full() ? 20 : 2); i++) {
        device_run(1, 3, at_once, NULL);
        device_run(2, 2, at_once, NULL);
        device_run(1, 3, by_threads, NULL);
        device_run(3, 1, by_threads, NULL);
    }
}

int main(void)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_on_several_devices),
        test_on_one_host(a_device_that_others_cannot_reach_is_refused_by_name),
        test_on_one_host(device_code_that_is_newer_than_the_driver_is_named_with_both_versions),
        cmocka_unit_test(a_rank_may_use_two_devices_with_two_comms),
        cmocka_unit_test(several_comms_on_several_streams),
        test_on_one_host(ranks_on_other_devices_take_no_hardware_queue),
    };

    if (getenv("PLAIT_CUDA_DRIVER") == NULL)
        return 77;
    setenv("PLAIT_LOG_FILE", "/dev/null", 0);
    setenv("PLAIT_STANDIN_DELAY", "30", 1);
    return run_tests_of_this_place("several devices and comms", tests);
}
