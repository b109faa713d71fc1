/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a 4-byte all-reduce costs this rank when it waits for nobody. Built twice: with the library as it is, and with
 * one without fingerprints, deadlines and the ring of operations (PLAIT_GUARDS in lib/comm/comm.h); the difference is their
 * price. Usage:
 *
 *   price count    "INSTRUCTIONS CLOCKS CALLS LINES": instructions of one operation, among them entries of the vdso and
 *                  readings of the time stamp counter, system calls, and prefetches for writing; stepped one by one
 *   price count again          the same of plait_run_again()
 *   price count messages       the same of a group of two messages, one sent and one received by this rank itself
 *   price count parts          the same of an all-to-all-v of an element each
 *   price count block|large    the same of an all-reduce of 256 or 4096 bytes
 *   price count poll           instructions of one turn of the spin, of an all-reduce that waits
 *   price time     nanoseconds of one operation: alone, and between two processes on processors 0 and 1
 *
 * So that nothing spins, the other rank is a thread that has parked: its vector is put where it would put it before
 * each operation. The code that runs is the same as between processes.
 */
#include "comm/comm.h"
#include "operation/operation.h"

#include <plait/comm.h>
#include <plait/group.h>
#include <plait/message.h>
#include <plait/request.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if !defined(__x86_64__)
int main(void)
{
    fprintf(stderr, "instructions are told apart on x86_64 only\n");
    return 77;
}
#else
#include <sys/user.h>

#define WARM    100
#define COUNTED 4

static struct plait_unique_id id;

static void fail(const char *what)
{
    fprintf(stderr, "price: %s: %s\n", what, plait_last_error());
    _exit(1);
}

static struct plait_comm *create(uint32_t rank)
{
    struct plait_comm_options o = PLAIT_COMM_OPTIONS_DEFAULT;
    struct plait_comm *comm;

    o.nrank = 2;
    o.rank = rank;
    o.id = &id;
    if (plait_comm_create(&o, &comm) != PLAIT_OK)
        fail("create");
    return comm;
}

static _Thread_local float in = 1, out;

static void sum(struct plait_comm *comm)
{
    if (plait_allreduce(comm, &in, &out, 1, PLAIT_FLOAT32, PLAIT_SUM, NULL) != PLAIT_OK)
        fail("allreduce");
}

static void exchange(struct plait_comm *comm)
{
    if (plait_group_start() != PLAIT_OK || plait_send(comm, &in, 1, PLAIT_FLOAT32, 0, NULL) != PLAIT_OK ||
        plait_recv(comm, &out, 1, PLAIT_FLOAT32, 0, NULL) != PLAIT_OK || plait_group_end() != PLAIT_OK)
        fail("messages");
}

/* Blocks that may differ in size. */
static void parts(struct plait_comm *comm)
{
    static const size_t counts[] = { 1, 1 };
    float from[2] = { 1, 1 }, to[2];

    if (plait_alltoallv(comm, from, counts, NULL, to, counts, NULL, PLAIT_FLOAT32, NULL) != PLAIT_OK)
        fail("alltoallv");
}

static size_t length; /* floats of a block */

static void block(struct plait_comm *comm)
{
    static _Thread_local float sums[1024];

    if (plait_allreduce(comm, sums, sums, length, PLAIT_FLOAT32, PLAIT_SUM, NULL) != PLAIT_OK)
        fail("allreduce of a block");
}

static void (*operation)(struct plait_comm *) = sum; /* that is counted, in one form or another */

/* The same again and again. */
static struct plait_request *persist(struct plait_comm *comm)
{
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *r;

    call.request = &r;
    call.persistent = 1;
    if (plait_allreduce(comm, &in, &out, 1, PLAIT_FLOAT32, PLAIT_SUM, &call) != PLAIT_OK)
        fail("persistent allreduce");
    return r;
}

/* ---- Alone --------------------------------------------------------------------------------------- */

static void *park(void *arg)
{
    *(struct plait_comm **)arg = create(1);
    operation(*(struct plait_comm **)arg); /* a real one, from which rank 0 knows it */
    return NULL;
}

/* Rank 0, once rank 1 has parked. */
static struct plait_comm *create_alone(struct plait_comm **other)
{
    pthread_t thread;

    if (plait_unique_id_create(&id) != PLAIT_OK || pthread_create(&thread, NULL, park, other) != 0)
        fail("rank 1");
    struct plait_comm *comm = create(0);
    operation(comm);
    pthread_join(thread, NULL);
    return comm;
}

/* Put rank 1's vector of the next operation where rank 0 looks for it; what differs in size has its bytes before it. */
static inline void arrive(struct plait_comm *comm, struct plait_comm *other)
{
    const uint64_t next = comm->sequence + 1, bytes = sizeof(float);
    const struct plait_eager_plan *plan = &comm->last->eager;
    struct plait_eager_entry *slot =
        (struct plait_eager_entry *)((char *)other->own + plan->entries) + (~next & plan->turn);

    if (comm->last->vform)
        memcpy(slot->few, &bytes, sizeof bytes);
    atomic_store_explicit(&slot->word, plait_word(comm->last, next), memory_order_release);
}

/* ---- Instructions -------------------------------------------------------------------------------- */

#define MARK() __asm__ volatile("int3" ::: "memory")

enum what { CALL, AGAIN, MESSAGES, PARTS, BLOCK, LARGE, POLL };

/* Step through one operation, after some. */
static void count_me(enum what what)
{
    operation = what == PARTS ? parts : what == BLOCK || what == LARGE ? block : sum;
    length = what == LARGE ? 1024 : 64;
    struct plait_comm *other, *comm = create_alone(&other);
    struct plait_request *r = what == AGAIN ? persist(comm) : NULL;
    enum plait_status status = PLAIT_OK;

    for (unsigned i = 0; i < WARM + COUNTED; i++) {
        if (i == WARM && ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(77);
        if (what != POLL || i < WARM)
            arrive(comm, other);
        if (i >= WARM)
            MARK();
        if (what == CALL || what == PARTS || what == BLOCK || what == LARGE || what == POLL)
            operation(comm);
        else if (what == MESSAGES)
            exchange(comm);
        else
            status = plait_run_again(r);
        if (i >= WARM)
            MARK();
        if (status != PLAIT_OK)
            fail("a persistent operation");
    }
    _exit(0);
}

static void find_vdso(pid_t pid, unsigned long *start, unsigned long *end)
{
    char path[64], line[512];

    *start = *end = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *f = fopen(path, "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strstr(line, "[vdso]") != NULL && sscanf(line, "%lx-%lx", start, end) != 2)
            *start = *end = 0;
    if (f != NULL)
        fclose(f);
}

struct counted {
    unsigned instructions, clocks, calls, lines;
};

#define PAUSE    0x90f3
#define PREFETCH 0x0d0f /* for writing, as the library has no other of this opcode */

/* Step from one mark to the next; or, if it polls, from one pause to the next. */
static struct counted step_through(pid_t pid, bool polls, unsigned long vdso, unsigned long vdso_end)
{
    struct counted c = { 0, 0, 0, 0 };
    bool was_inside = false;
    unsigned pauses = 0;

    for (;;) {
        struct user_regs_struct regs;
        int how;
        ptrace(PTRACE_GETREGS, pid, NULL, &regs);
        const unsigned long code = (unsigned long)ptrace(PTRACE_PEEKTEXT, pid, (void *)regs.rip, NULL);
        if ((code & 0xff) == 0xcc)
            return c;
        if (polls && (code & 0xffff) == PAUSE && pauses++ < 2)
            c = (struct counted){ 0, 0, 0, 0 };
        else if (polls && pauses > 2)
            return c;
        const bool inside = regs.rip >= vdso && regs.rip < vdso_end;
        c.instructions++;
        c.clocks += (inside && !was_inside) || (code & 0xffff) == 0x310f || (code & 0xffffff) == 0xf9010f;
        c.calls += (code & 0xffff) == 0x050f;
        c.lines += (code & 0xffff) == PREFETCH || ((code & 0xf0) == 0x40 && (code >> 8 & 0xffff) == PREFETCH);
        was_inside = inside;
        if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) != 0 || waitpid(pid, &how, 0) != pid || !WIFSTOPPED(how))
            fail("the stepped process ended");
    }
}

static int count(enum what what)
{
    struct counted all[COUNTED];
    unsigned long vdso, vdso_end;
    int how;
    const pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        count_me(what);
    }
    for (unsigned i = 0; i < COUNTED; i++) {
        if (waitpid(pid, &how, 0) != pid || !WIFSTOPPED(how)) {
            fprintf(stderr, "price: processes may not be traced here\n");
            return WIFEXITED(how) ? WEXITSTATUS(how) : 1;
        }
        if (i == 0)
            find_vdso(pid, &vdso, &vdso_end);
        all[i] = step_through(pid, what == POLL, vdso, vdso_end);
        if (what == POLL) { /* it would wait forever */
            kill(pid, SIGKILL);
            waitpid(pid, &how, 0);
            printf("%u\n", all[i].instructions);
            return 0;
        }
        ptrace(PTRACE_CONT, pid, NULL, NULL); /* over the second mark, which stops it once more */
        waitpid(pid, &how, 0);
        ptrace(PTRACE_CONT, pid, NULL, NULL);
    }
    waitpid(pid, &how, 0);
    for (unsigned i = 1; i < COUNTED; i++) /* slots are used in turn; nothing else may vary */
        if (memcmp(&all[i], &all[0], sizeof all[0]) != 0) {
            fprintf(stderr, "price: operations differ: %u and %u instructions\n", all[0].instructions,
                    all[i].instructions);
            return 1;
        }
    printf("%u %u %u %u\n", all[COUNTED - 1].instructions, all[COUNTED - 1].clocks, all[COUNTED - 1].calls,
           all[COUNTED - 1].lines);
    return WIFEXITED(how) ? WEXITSTATUS(how) : 1;
}

/* ---- Time ---------------------------------------------------------------------------------------- */

enum { BATCHES = 200, BATCH = 10000 };

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static double time_batches(struct plait_comm *comm, struct plait_comm *other)
{
    double best = 1e18;

    for (unsigned b = 0; b < BATCHES; b++) {
        const double start = now_ns();
        for (unsigned i = 0; i < BATCH; i++) {
            if (other != NULL)
                arrive(comm, other);
            sum(comm);
        }
        const double each = (now_ns() - start) / BATCH;
        best = each < best ? each : best;
    }
    return best;
}

static void pin(unsigned processor)
{
    cpu_set_t cpus;

    CPU_ZERO(&cpus);
    CPU_SET(processor, &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
}

static int measure(void)
{
    int how;
    struct plait_comm *other = NULL;

    if (plait_unique_id_create(&id) != PLAIT_OK)
        fail("id");
    const pid_t pid = fork();
    pin(pid != 0);
    struct plait_comm *comm = create(pid != 0);
    const double both = time_batches(comm, NULL);
    if (plait_comm_destroy(comm) != PLAIT_OK)
        fail("destroy");
    if (pid == 0)
        _exit(0);
    waitpid(pid, &how, 0);
    comm = create_alone(&other);
    printf("alone %.2f ns, two processes %.2f ns (best of %d batches of %d)\n", time_batches(comm, other), both,
           BATCHES, BATCH);
    return 0;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {
        [CALL] = "call",   [AGAIN] = "again", [MESSAGES] = "messages", [PARTS] = "parts",
        [BLOCK] = "block", [LARGE] = "large", [POLL] = "poll"
    };
    const char *name = argc == 3 ? argv[2] : "call";

    for (unsigned i = 0; argc >= 2 && strcmp(argv[1], "count") == 0 && i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return count((enum what)i);
    if (argc == 2 && strcmp(argv[1], "time") == 0)
        return measure();
    fprintf(stderr, "usage: price count [call|again|messages|parts|block|large|poll] | time\n");
    return 2;
}
#endif
