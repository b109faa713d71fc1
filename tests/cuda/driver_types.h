/* SPDX-License-Identifier: BSD-3-Clause */
/* Of the CUDA driver's interface what the stand-in speaks; driver_types_test.c compares it with the toolkit's cuda.h. */
#ifndef PLAIT_TESTS_DRIVER_TYPES_H
#define PLAIT_TESTS_DRIVER_TYPES_H

#include <stddef.h>
#include <stdint.h>

/* name after CUDA_ or CUDA_ERROR_, value */
#define DRIVER_ERROR_LIST(X)               \
    X(INVALID_VALUE, 1)                    \
    X(OUT_OF_MEMORY, 2)                    \
    X(NOT_INITIALIZED, 3)                  \
    X(NO_DEVICE, 100)                      \
    X(INVALID_DEVICE, 101)                 \
    X(INVALID_CONTEXT, 201)                \
    X(MAP_FAILED, 205)                     \
    X(ALREADY_MAPPED, 208)                 \
    X(UNSUPPORTED_PTX_VERSION, 222)        \
    X(INVALID_HANDLE, 400)                 \
    X(NOT_FOUND, 500)                      \
    X(NOT_READY, 600)                      \
    X(PEER_ACCESS_UNSUPPORTED, 217)        \
    X(PEER_ACCESS_ALREADY_ENABLED, 704)    \
    X(PEER_ACCESS_NOT_ENABLED, 705)        \
    X(HOST_MEMORY_ALREADY_REGISTERED, 712) \
    X(HOST_MEMORY_NOT_REGISTERED, 713)     \
    X(NOT_SUPPORTED, 801)                  \
    X(STREAM_CAPTURE_UNSUPPORTED, 900)     \
    X(STREAM_CAPTURE_INVALIDATED, 901)     \
    X(STREAM_CAPTURE_MERGE, 902)           \
    X(STREAM_CAPTURE_UNMATCHED, 903)       \
    X(STREAM_CAPTURE_UNJOINED, 904)        \
    X(STREAM_CAPTURE_ISOLATION, 905)       \
    X(STREAM_CAPTURE_IMPLICIT, 906)        \
    X(CAPTURED_EVENT, 907)                 \
    X(STREAM_CAPTURE_WRONG_THREAD, 908)    \
    X(UNKNOWN, 999)

typedef enum {
    CU_OK = 0,
#define PLAIT_X(name, value) CU_##name = value,
    DRIVER_ERROR_LIST(PLAIT_X)
#undef PLAIT_X
} cu_result;

/* name after CU_, value */
#define DRIVER_VALUE_LIST(X)                            \
    X(MEMORYTYPE_HOST, 1)                               \
    X(MEMORYTYPE_DEVICE, 2)                             \
    X(POINTER_ATTRIBUTE_CONTEXT, 1)                     \
    X(POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                 \
    X(POINTER_ATTRIBUTE_DEVICE_POINTER, 3)              \
    X(POINTER_ATTRIBUTE_HOST_POINTER, 4)                \
    X(POINTER_ATTRIBUTE_BUFFER_ID, 7)                   \
    X(POINTER_ATTRIBUTE_IS_MANAGED, 8)                  \
    X(POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9)              \
    X(POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, 10) \
    X(POINTER_ATTRIBUTE_RANGE_START_ADDR, 11)           \
    X(POINTER_ATTRIBUTE_RANGE_SIZE, 12)                 \
    X(POINTER_ATTRIBUTE_MAPPED, 13)                     \
    X(DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)        \
    X(DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 41)          \
    X(DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)    \
    X(DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)    \
    X(STREAM_WAIT_VALUE_GEQ, 0)                         \
    X(STREAM_WAIT_VALUE_EQ, 1)                          \
    X(STREAM_WAIT_VALUE_AND, 2)                         \
    X(STREAM_WAIT_VALUE_NOR, 3)                         \
    X(STREAM_NON_BLOCKING, 1)                           \
    X(STREAM_MEM_OP_WAIT_VALUE_32, 1)                   \
    X(STREAM_MEM_OP_WRITE_VALUE_32, 2)                  \
    X(STREAM_MEM_OP_WAIT_VALUE_64, 4)                   \
    X(STREAM_MEM_OP_WRITE_VALUE_64, 5)                  \
    X(STREAM_CAPTURE_STATUS_NONE, 0)                    \
    X(STREAM_CAPTURE_STATUS_ACTIVE, 1)                  \
    X(STREAM_CAPTURE_STATUS_INVALIDATED, 2)             \
    X(STREAM_CAPTURE_MODE_GLOBAL, 0)                    \
    X(STREAM_CAPTURE_MODE_THREAD_LOCAL, 1)              \
    X(STREAM_CAPTURE_MODE_RELAXED, 2)                   \
    X(GRAPH_NODE_TYPE_CONDITIONAL, 13)                  \
    X(GRAPH_COND_TYPE_IF, 0)

enum {
#define PLAIT_X(name, value) VALUE_##name = value,
    DRIVER_VALUE_LIST(PLAIT_X)
#undef PLAIT_X
};

typedef unsigned long long cu_address;

typedef struct {
    char bytes[64];
} cu_ipc_handle;

/* An item of cuStreamBatchMemOp(): six words of 8 bytes, the members of a wait or a write of a value. */
typedef union {
    struct {
        uint32_t operation;
        cu_address address;
        uint64_t value;
        uint32_t flags;
        cu_address alias;
    } item;
    uint64_t pad[6];
} cu_mem_op;

/* A node of a graph, of the type that says what `of` has. */
typedef struct {
    int type, zero[3];
    union {
        long long pad[29];
        struct {
            unsigned long long handle;
            int type;
            unsigned size;
            void **graphs; /* [size] the driver's */
            void *context;
        } conditional;
    } of;
    long long also_zero;
} cu_node_params;

#endif
