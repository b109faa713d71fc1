/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL's environment variables: which NCCL_ names have an effect, and which. This is the only list; docs/nccl.md and
 * plait-info --nccl show it. Values come from the environment, then from the file of NCCL_CONF_FILE, else ~/.nccl.conf,
 * else /etc/nccl.conf.
 */
#ifndef PLAIT_NCCL_ENVIRONMENT_H
#define PLAIT_NCCL_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* name, default, effect */
#define NCCL_HONOURED_LIST(X)                                                                                         \
    X("NCCL_ALGO", "",                                                                                                \
      "algorithms: \"ring\", \"allreduce:tree,ring;allgather:ring\", or names of plait-info --algorithms; the first " \
      "that can run is used, else the library chooses")                                                               \
    X("NCCL_BUFFSIZE", "0", "PLAIT_SLICE")                                                                            \
    X("NCCL_COMM_BLOCKING", "",                                                                                       \
      "0 or 1: blocking of every comm, whatever its config says; but ncclCommInitAll() blocks")                       \
    X("NCCL_CONF_FILE", "", "file with lines NAME=value")                                                             \
    X("NCCL_DEBUG", "",                                                                                               \
      "PLAIT_LOG: NONE is error, VERSION and WARN are warn, INFO is info, TRACE is debug; VERSION and above log the " \
      "version")                                                                                                      \
    X("NCCL_DEBUG_FILE", "", "PLAIT_LOG_FILE, with %h and %p")                                                        \
    X("NCCL_PARAM_DUMP_ALL", "",                                                                                      \
      "true: ncclParamDumpAll() and ncclParamGetAllParameterKeys() list Plait's settings too")                        \
    X("NCCL_SOCKET_IFNAME", "", "PLAIT_IFNAME")

/* prefix of a name, why it has no effect; the last row is for all others */
#define NCCL_MEANINGLESS_LIST(X)                                             \
    X("NCCL_CHECK", "arguments are always checked")                          \
    X("NCCL_COMM_ID", "ncclGetUniqueId() fails while it is set")             \
    X("NCCL_DEBUG_", "there are no subsystems and no other time stamps")     \
    X("NCCL_IB_", "UCX_NET_DEVICES and UCX's other settings choose devices") \
    X("NCCL_NET", "UCX_TLS and UCX_NET_DEVICES choose the network")          \
    X("NCCL_PROTO", "there are no protocols")                                \
    X("NCCL_RAS_", "plait-info --dump shows the operations of a process")    \
    X("NCCL_SOCKET_", "UCX's settings apply to sockets")                     \
    X("NCCL_TUNER_", "NCCL_ALGO or PLAIT_ALGO choose an algorithm")          \
    X("NCCL_", "this library has no such setting")

/* Frameworks' own names with that prefix, which are not reported. */
#define NCCL_FRAMEWORKS_LIST(X)    \
    X("NCCL_ASYNC_ERROR_HANDLING") \
    X("NCCL_BLOCKING_WAIT")        \
    X("NCCL_DESYNC_DEBUG")         \
    X("NCCL_ENABLE_TIMING")        \
    X("NCCL_TESTS_")               \
    X("NCCL_VERSION")

/* Call it first: it passes the variables on to Plait once, and reports names without effect. */
void nccl_environment_use(void);

/* Read the variables again, which may have changed. */
void nccl_environment_reload(void);

/* The value of a name; NULL: unset. Valid until nccl_environment_reload(). */
const char *nccl_environment(const char *name);

/* A setting of Plait as text; "" if it cannot be expressed. bytes: as "4M". */
void nccl_setting(const char *name, char *out, size_t room);
size_t nccl_setting_bytes(const char *name);

#endif
