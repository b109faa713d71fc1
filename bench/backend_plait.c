/* SPDX-License-Identifier: BSD-3-Clause */
#include "backend_plait.h"

#include "collectives.h"
#include "message.h"
#include "verify.h"

#include <plait/comm.h>
#include <plait/config.h>
#include <plait/group.h>
#include <plait/memory.h>
#include <plait/message.h>
#include <plait/request.h>
#include <plait/version.h>

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static void *alloc(void *self, size_t bytes)
{
    const struct plait_rank *r = self;
    void *memory = NULL;

    if (!r->library_memory)
        return worker_alloc(self, bytes);
    return plait_mem_alloc(bytes, &memory) == PLAIT_OK ? memory : NULL;
}

static void release(void *self, void *memory)
{
    const struct plait_rank *r = self;

    if (r->library_memory)
        plait_mem_free(memory);
    else
        worker_free(self, memory);
}

/* Everything: the library refuses an operation by an error of its own. */
static bool supports(void *self, const struct operation *o)
{
    (void)self;
    (void)o;
    return true;
}

typedef enum plait_status (*call_fn)(struct plait_comm *comm, const struct operation *o, const struct plait_call *call);

static enum plait_status allreduce(struct plait_comm *comm, const struct operation *o, const struct plait_call *call)
{
    return plait_allreduce(comm, o->in, o->out, o->count, o->type, o->op, call);
}

static enum plait_status reduce_scatter(struct plait_comm *comm, const struct operation *o,
                                        const struct plait_call *call)
{
    return plait_reduce_scatter(comm, o->in, o->out, o->count, o->type, o->op, call);
}

static enum plait_status allgather(struct plait_comm *comm, const struct operation *o, const struct plait_call *call)
{
    return plait_allgather(comm, o->in, o->out, o->count, o->type, call);
}

static enum plait_status broadcast(struct plait_comm *comm, const struct operation *o, const struct plait_call *call)
{
    return plait_broadcast(comm, o->in, o->out, o->count, o->type, o->root, call);
}

static enum plait_status reduce(struct plait_comm *comm, const struct operation *o, const struct plait_call *call)
{
    return plait_reduce(comm, o->in, o->out, o->count, o->type, o->op, o->root, call);
}

static enum plait_status gather(struct plait_comm *comm, const struct operation *o, const struct plait_call *call)
{
    return plait_gather(comm, o->in, o->out, o->count, o->type, o->root, call);
}

static enum plait_status scatter(struct plait_comm *comm, const struct operation *o, const struct plait_call *call)
{
    return plait_scatter(comm, o->in, o->out, o->count, o->type, o->root, call);
}

static enum plait_status alltoall(struct plait_comm *comm, const struct operation *o, const struct plait_call *call)
{
    return plait_alltoall(comm, o->in, o->out, o->count, o->type, call);
}

static enum plait_status reduce_scatterv(struct plait_comm *comm, const struct operation *o,
                                         const struct plait_call *call)
{
    return plait_reduce_scatterv(comm, o->in, o->out, o->in_parts.count, NULL, o->type, o->op, call);
}

static enum plait_status allgatherv(struct plait_comm *comm, const struct operation *o, const struct plait_call *call)
{
    return plait_allgatherv(comm, o->in, o->out, o->out_parts.count, NULL, o->type, call);
}

static enum plait_status gatherv(struct plait_comm *comm, const struct operation *o, const struct plait_call *call)
{
    return plait_gatherv(comm, o->in, *o->in_parts.count, o->out, o->out_parts.count, NULL, o->type, o->root, call);
}

static enum plait_status scatterv(struct plait_comm *comm, const struct operation *o, const struct plait_call *call)
{
    return plait_scatterv(comm, o->in, o->in_parts.count, NULL, o->out, *o->out_parts.count, o->type, o->root, call);
}

static enum plait_status alltoallv(struct plait_comm *comm, const struct operation *o, const struct plait_call *call)
{
    return plait_alltoallv(comm, o->in, o->in_parts.count, NULL, o->out, o->out_parts.count, NULL, o->type, call);
}

/* Blocking, both end with the group. With requests, the second is the send's. */
static enum plait_status sendrecv(struct plait_comm *comm, const struct operation *o, const struct plait_call *call)
{
    const uint32_t nrank = plait_comm_nrank(comm), rank = plait_comm_rank(comm);
    struct plait_call send = *call;
    enum plait_status status = plait_group_start();

    send.request = call->request != NULL ? call->request + 1 : NULL;
    if (status == PLAIT_OK)
        status = plait_recv(comm, o->out, o->count, o->type, (rank + nrank - 1) % nrank, call);
    if (status == PLAIT_OK)
        status = plait_send(comm, o->in, o->count, o->type, (rank + 1) % nrank, &send);
    const enum plait_status end = plait_group_end();
    return status == PLAIT_OK ? end : status;
}

static enum plait_status barrier(struct plait_comm *comm, const struct operation *o, const struct plait_call *call)
{
    (void)o;
    return plait_barrier(comm, call);
}

static const call_fn calls[NCOLL] = COLL_TABLE;

static bool run(void *self, const struct operation *o)
{
    struct plait_rank *r = self;
    unsigned char scalar[8];

    if (o->op == PLAIT_PREMULSUM)
        pattern_scale(o->type, r->rank, scalar);
    r->call.algorithm = options_algorithm(r->options, o->coll);
    r->call.scale = o->op == PLAIT_PREMULSUM ? scalar : NULL;
    return calls[o->coll](r->comm, o, &r->call) == PLAIT_OK;
}

static bool start(void *self, const struct operation *o)
{
    struct plait_rank *r = self;

    r->call.request = r->request;
    const bool ok = run(self, o);
    r->call.request = NULL;
    return ok;
}

static bool test(void *self)
{
    struct plait_rank *r = self;
    int done;

    return plait_test(&r->request[0], &done) == PLAIT_OK && plait_test(&r->request[1], &done) == PLAIT_OK;
}

static bool wait(void *self)
{
    struct plait_rank *r = self;
    return plait_wait(&r->request[0]) == PLAIT_OK && plait_wait(&r->request[1]) == PLAIT_OK;
}

static bool meet(void *self)
{
    struct plait_rank *r = self;
    return plait_barrier(r->comm, NULL) == PLAIT_OK;
}

/* The thread may run on any processor, as in a process that is not bound. */
static bool thread(void *self, bool on)
{
    struct plait_comm_options alone = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_rank *r = self;

    if (on == (r->driver != NULL))
        return true;
    if (!on) {
        plait_comm_destroy(r->driver);
        r->driver = NULL;
        return true;
    }
    alone.nrank = 1;
    alone.name = "plait-perf-driver";
    alone.progress = 1;
    sched_setaffinity(0, sizeof r->allowed, &r->allowed);
    const bool ok = plait_comm_create(&alone, &r->driver) == PLAIT_OK;
    if (r->pinned)
        worker_pin(r->rank);
    return ok;
}

static const char *error_text(void *self)
{
    (void)self;
    return plait_last_error();
}

static const struct backend plait = {
    .name = "plait",
    .alloc = alloc,
    .free = release,
    .supports = supports,
    .run = run,
    .error = error_text,
    .meet = meet,
    .start = start,
    .test = test,
    .wait = wait,
    .thread = thread,
    .fuser = &plait_fuser,
};

static void refuse(int fd)
{
    struct reply r = { .answer = ANSWER_FAILED };

    snprintf(r.text, sizeof r.text, "%s", plait_last_error());
    send(fd, &r, sizeof r, MSG_NOSIGNAL);
}

/* Did the user set this, in whatever way? */
static bool is_chosen(const char *name)
{
    struct plait_setting s;

    for (size_t i = 0; plait_config_get(i, &s) == PLAIT_OK; i++)
        if (strcmp(s.name, name) == 0)
            return strcmp(s.origin, "default") != 0;
    return false;
}

/*
 * The library knows which rank holds up an operation, the coordinator only which replies late. So the library reports
 * first.
 */
static void limit_stalls(struct plait_comm_options *comm, double timeout)
{
    if (!is_chosen("PLAIT_TIMEOUT"))
        comm->timeout = timeout / 2;
    if (!is_chosen("PLAIT_WARN"))
        comm->warn = timeout / 4;
    if (!is_chosen("PLAIT_DEADLINE"))
        comm->deadline = timeout / 2;
}

static bool create(struct plait_rank *self, const struct options *o, const struct plait_unique_id *id)
{
    struct plait_comm_options comm = PLAIT_COMM_OPTIONS_DEFAULT;

    comm.nrank = o->nrank;
    comm.rank = self->rank;
    comm.id = id;
    comm.name = "plait-perf";
    comm.node = o->node;
    comm.reproducible = o->reproducible;
    comm.round = o->round;
    limit_stalls(&comm, o->timeout);
    self->library_memory = o->library_memory;
    self->reproducible = o->reproducible;
    self->call = (struct plait_call)PLAIT_CALL_DEFAULT;
    self->call.algorithm = options_algorithm(o, PLAIT_ALLREDUCE);
    self->options = o;
    self->call.slice = o->slice;
    self->call.round = o->round;
    return plait_comm_create(&comm, &self->comm) == PLAIT_OK;
}

static bool serve(struct plait_rank *self, int fd, struct stage *stage)
{
    const bool ok = worker_serve(fd, stage, self->rank, &plait, self);

    plait_comm_destroy(self->driver);
    plait_comm_destroy(self->comm);
    stage_unmap(stage);
    return ok;
}

static const char *about(void)
{
    static _Thread_local char text[64];

    snprintf(text, sizeof text, "Plait %s", plait_version());
    return text;
}

bool plait_worker(int fd, uint32_t rank, const struct options *o, const struct plait_unique_id *id)
{
    struct plait_rank self = { .rank = rank };
    struct stage *stage = worker_greet(fd, NULL, rank, about());

    if (stage == NULL)
        return false;
    if (!create(&self, o, id)) {
        refuse(fd);
        return false;
    }
    sched_getaffinity(0, sizeof self.allowed, &self.allowed);
    self.pinned = true;
    worker_pin(rank); /* as mpirun binds; after creation, since a communicator counts the processors of its ranks */
    return serve(&self, fd, stage);
}

bool plait_worker_launched(const char *where, const struct options *o)
{
    struct plait_rank self = { .rank = o->launch.rank };
    struct stage *stage = NULL;
    char told[GREET_WHERE];
    int fd = -1;

    snprintf(told, sizeof told, "%s", where != NULL ? where : "");
    if (!create(&self, o, &o->launch.id) ||
        plait_broadcast(self.comm, told, told, sizeof told, PLAIT_UINT8, 0, NULL) != PLAIT_OK)
        return complain("rank %u: %s", self.rank, plait_last_error());
    sched_getaffinity(0, sizeof self.allowed, &self.allowed);
    stage = worker_meet(told, self.rank, about(), &fd);
    if (stage == NULL)
        return complain("rank %u: rank 0 cannot be reached at any of its addresses (%s): %s", self.rank,
                        told + (strlen(told) > 4 + GREET_TOKEN ? 4 + GREET_TOKEN : 0), strerror(errno));
    worker_watch(fd, stage, self.rank);
    return serve(&self, fd, stage);
}
