/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker.h"

#include "verify.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

struct tensor {
    unsigned char *in, *out; /* as allocated; the operation uses them moved by unalign elements */
};

struct worker {
    int fd;
    uint32_t rank;
    struct stage *stage;
    const struct backend *backend;
    void *self;
    struct tensor *tensor; /* [stage->ntensor] */
};

static bool fail(struct reply *r, const char *text)
{
    r->answer = ANSWER_FAILED;
    snprintf(r->text, sizeof r->text, "%s", text);
    return false;
}

/* ---- buffers ----------------------------------------------------------------------------------- */

static void tensors_free(struct worker *w)
{
    for (uint32_t i = 0; w->tensor != NULL && i < w->stage->ntensor; i++) {
        w->backend->free(w->self, w->tensor[i].in);
        w->backend->free(w->self, w->tensor[i].out);
    }
    free(w->tensor);
}

static unsigned char *touched(struct worker *w, size_t bytes)
{
    unsigned char *memory = w->backend->alloc(w->self, bytes);

    if (memory != NULL)
        memset(memory, 0, bytes);
    return memory;
}

static bool tensors_alloc(struct worker *w)
{
    const struct stage *s = w->stage;
    const uint64_t *count = stage_counts(w->stage);

    w->tensor = calloc(s->ntensor, sizeof *w->tensor);
    if (w->tensor == NULL)
        return false;
    for (uint32_t i = 0; i < s->ntensor; i++) {
        const size_t bytes = count[i] * s->width + 8 * (s->unalign + 1);
        struct tensor *t = &w->tensor[i];
        t->in = touched(w, bytes);
        t->out = touched(w, bytes);
        if (t->in == NULL || t->out == NULL)
            return false;
    }
    return true;
}

/* One tensor as a command uses it. */
struct use {
    unsigned char *in, *out;
    size_t count;
};

/* The next tensor from *i on that the command wants. */
static bool next_use(const struct worker *w, const struct command *c, uint32_t *i, struct use *out)
{
    const size_t shift = w->stage->unalign * plait_dtype_size((enum plait_dtype)c->dtype);

    for (; *i < w->stage->ntensor; ++*i) {
        const uint64_t own = stage_counts(w->stage)[*i], count = c->count > 0 ? c->count : own;
        if (own < c->min_count || (c->max_count > 0 && own >= c->max_count))
            continue;
        out->out = w->tensor[*i].out + shift;
        out->in = c->inplace ? out->out : w->tensor[*i].in + shift;
        out->count = count;
        ++*i;
        return true;
    }
    return false;
}

/* ---- commands ---------------------------------------------------------------------------------- */

static bool one_pass(struct worker *w, const struct command *c, struct reply *r)
{
    struct use u;

    for (uint32_t i = 0; next_use(w, c, &i, &u);)
        if (!w->backend->allreduce(w->self, u.in, u.out, u.count, (enum plait_dtype)c->dtype, (enum plait_op)c->op))
            return fail(r, w->backend->error(w->self));
    return true;
}

static bool check_once(struct worker *w, const struct command *c, uint32_t seed, struct reply *r)
{
    const enum plait_dtype type = (enum plait_dtype)c->dtype;
    size_t most = 0;
    struct pattern p;
    struct use u;

    for (uint32_t i = 0; next_use(w, c, &i, &u);)
        most = u.count > most ? u.count : most;
    if (!pattern_init(&p, type, (enum plait_op)c->op, w->stage->nrank, w->rank, most, seed))
        return fail(r, "out of memory for the verification pattern");
    for (uint32_t i = 0; next_use(w, c, &i, &u);) {
        memset(u.out, 0xa5, u.count * p.width);
        pattern_fill(&p, u.in, u.count);
    }
    stage_barrier(w->stage);
    const bool done = one_pass(w, c, r);
    for (uint32_t i = 0; done && next_use(w, c, &i, &u);) {
        r->wrong += pattern_wrong(&p, u.out, u.count);
        if (!c->inplace)
            r->wrong += pattern_changed(&p, u.in, u.count);
    }
    pattern_finish(&p);
    return done;
}

static bool check(struct worker *w, const struct command *c, struct reply *r)
{
    struct use u;

    for (uint32_t i = 0; i < c->iterations; i++)
        if (!check_once(w, c, c->seed + i, r))
            return false;
    for (uint32_t i = 0; next_use(w, c, &i, &u);) {
        steady_fill(u.in, u.count, (enum plait_dtype)c->dtype, (enum plait_op)c->op);
        steady_fill(u.out, u.count, (enum plait_dtype)c->dtype, (enum plait_op)c->op);
    }
    return true;
}

static bool time_each(struct worker *w, const struct command *c, struct reply *r)
{
    double *times = stage_times(w->stage, w->rank);

    for (uint32_t i = 0; i < c->iterations && i < STAGE_ITERATIONS; i++) {
        stage_barrier(w->stage);
        const double begin = now();
        for (uint32_t k = 0; k < c->aggregate; k++)
            if (!one_pass(w, c, r))
                return false;
        times[i] = (now() - begin) / c->aggregate;
    }
    return true;
}

static double cpu_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool stream(struct worker *w, const struct command *c, struct reply *r)
{
    const double operations = (double)c->iterations * c->aggregate;

    stage_barrier(w->stage);
    const double cpu = cpu_now(), begin = now();
    for (uint64_t i = 0; i < (uint64_t)c->iterations * c->aggregate; i++)
        if (!one_pass(w, c, r))
            return false;
    r->seconds = (now() - begin) / operations;
    r->cpu = (cpu_now() - cpu) / operations;
    return true;
}

static void obey(struct worker *w, const struct command *c, struct reply *r)
{
    r->answer = ANSWER_OK;
    if (!w->backend->supports(w->self, (enum plait_dtype)c->dtype, (enum plait_op)c->op)) {
        r->answer = ANSWER_UNSUPPORTED;
        return;
    }
    switch (c->verb) {
    case VERB_CHECK:
        check(w, c, r);
        break;
    case VERB_TIME:
        time_each(w, c, r);
        break;
    case VERB_STREAM:
        stream(w, c, r);
        break;
    }
}

static bool serve(struct worker *w)
{
    for (;;) {
        struct command c;
        struct reply r = { 0 };
        const ssize_t got = recv(w->fd, &c, sizeof c, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got != sizeof c)
            return false;
        if (c.verb != VERB_QUIT)
            obey(w, &c, &r);
        if (send(w->fd, &r, sizeof r, MSG_NOSIGNAL) != sizeof r || r.answer == ANSWER_FAILED)
            return false;
        if (c.verb == VERB_QUIT)
            return true;
    }
}

bool worker_serve(int fd, struct stage *stage, uint32_t rank, const struct backend *backend, void *self)
{
    struct worker w = { fd, rank, stage, backend, self, NULL };
    struct reply ready = { .answer = ANSWER_OK };
    bool ok = true;

    if (!tensors_alloc(&w))
        ok = fail(&ready, "out of memory for the buffers; use a smaller -e, fewer ranks or fewer peers");
    if (send(fd, &ready, sizeof ready, MSG_NOSIGNAL) != sizeof ready)
        ok = false;
    ok = ok && serve(&w);
    tensors_free(&w);
    return ok;
}

/* ---- starting ---------------------------------------------------------------------------------- */

int worker_connect(const char *name)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const size_t length = strnlen(name, sizeof address.sun_path - 1);
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    memcpy(address.sun_path + 1, name, length);
    if (fd >= 0 && connect(fd, (void *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) == 0)
        return fd;
    const int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return -1;
}

static int receive_descriptor(int fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    char byte;
    struct iovec part = { &byte, 1 };
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
    };
    int passed = -1;

    if (recvmsg(fd, &message, MSG_CMSG_CLOEXEC) != 1 || CMSG_FIRSTHDR(&message) == NULL)
        return -1;
    memcpy(&passed, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof passed);
    return passed;
}

struct stage *worker_greet(int fd, uint32_t rank, const char *about)
{
    struct hello h = { .rank = rank, .pid = getpid() };

    snprintf(h.about, sizeof h.about, "%s", about);
    if (send(fd, &h, sizeof h, MSG_NOSIGNAL) != sizeof h)
        return NULL;
    const int passed = receive_descriptor(fd);
    if (passed < 0)
        return NULL;
    struct stage *stage = stage_map(passed);
    close(passed);
    return stage;
}

uint32_t worker_cpus(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
}

void worker_pin(uint32_t rank)
{
    cpu_set_t allowed, mine;
    uint32_t skip = rank % worker_cpus();

    CPU_ZERO(&mine);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && skip-- == 0) {
            CPU_SET(cpu, &mine);
            sched_setaffinity(0, sizeof mine, &mine);
            return;
        }
}

void worker_follow(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
}

static void *watch(void *argument)
{
    struct pollfd p = { .fd = (int)(intptr_t)argument }; /* no events: returns on a hang-up only */

    while (poll(&p, 1, -1) <= 0)
        ;
    _exit(1);
}

void worker_watch(int fd)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, watch, (void *)(intptr_t)fd) == 0)
        pthread_detach(thread);
}
