/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What UCX does to a process and what it leaves alone: it is loaded only when a network is opened, the program's
 * signal handlers, libc's code and the user's settings stay, and a peer that dies is seen.
 */
#include "comm/port.h"

#include "base/clock.h"
#include "child.h"
#include "plugin/plugin.h"
#include "ranks.h"
#include "unit.h"
#include "wire.h"

#include <plait/coll.h>
#include <plait/message.h>

#include <dirent.h>
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LIBC_KEEPS UINT64_C(0x180000000) /* signals 32 and 33, which libc takes with the first thread */

static int clear(void **state)
{
    unsetenv("UCX_TLS");
    unsetenv("UCX_HANDLE_ERRORS");
    unsetenv("UCX_MM_ERROR_HANDLING");
    unsetenv("UCX_MEM_EVENTS");
    unsetenv("UCX_TCP_SNDBUF");
    return 0;
}

#define STOPS 10000 /* ms without a message, far more than it takes */

static const struct plait_net_plugin *plugin;

struct counting {
    struct plait_net *net;
    uint32_t narrived;
};

static int run(int (*body)(struct plait_comm **, uint32_t, void *), uint32_t nprocess, bool wired)
{
    const struct ranks r = { .nprocess = nprocess, .nthread = 1, .body = body, .processes = true };

    ranks_prepare = wired ? wire : NULL;
    return (int)ranks_run(&r);
}

/* ---- The process ---------------------------------------------------------------------------------------- */

static uint64_t signals_of(const char *task, const char *which)
{
    char path[64], line[256];
    unsigned long long set = 0;

    snprintf(path, sizeof path, "/proc/self/task/%s/status", task);
    FILE *f = fopen(path, "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, which, strlen(which)) == 0)
            sscanf(line + strlen(which), ": %llx", &set);
    if (f != NULL)
        fclose(f);
    return set;
}

static uint64_t caught(void)
{
    char task[16];

    snprintf(task, sizeof task, "%d", getpid());
    return signals_of(task, "SigCgt") & ~LIBC_KEEPS;
}

static bool has_mapped(const char *name)
{
    char line[512];
    bool found = false;
    FILE *f = fopen("/proc/self/maps", "r");

    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        found |= strstr(line, name) != NULL;
    if (f != NULL)
        fclose(f);
    return found;
}

/* Do the threads that are not the program's leave its signals to it? */
static bool others_block_signals(void)
{
    DIR *d = opendir("/proc/self/task");
    bool all = d != NULL;

    for (const struct dirent *e; all && (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.' && atoi(e->d_name) != getpid() && atoi(e->d_name) != gettid())
            all = (signals_of(e->d_name, "SigBlk") >> (SIGUSR1 - 1) & 1) != 0;
    if (d != NULL)
        closedir(d);
    return all;
}

static void own_handler(int number)
{
}

static int use_ucx(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call ring = PLAIT_CALL_DEFAULT;
    float x[1000] = { 1 };
    struct sigaction action;

    signal(SIGSEGV, own_handler);
    const uint64_t before = caught();
    CHECK(!has_mapped("/libucp") && !has_mapped("/libucs"));
    CHECK(wire(*comm, rank) == 0);
    CHECK(has_mapped("/libucp"));
    CHECK(caught() == before);
    CHECK(others_block_signals());
    ring.algorithm = "ring";
    CHECK(plait_allreduce(*comm, x, x, 1000, PLAIT_FLOAT32, PLAIT_SUM, &ring) == PLAIT_OK && x[0] == 2);
    CHECK(caught() == before);
    CHECK(plait_comm_destroy(*comm) == PLAIT_OK);
    *comm = NULL;
    CHECK(caught() == before);
    CHECK(sigaction(SIGSEGV, NULL, &action) == 0 && action.sa_handler == own_handler);
    return 0;
}

static void signal_handlers_stay_before_while_and_after_ucx_is_used(void **state)
{
    assert_int_equal(run(use_ucx, 2, false), 0);
}

static int look_for_handlers(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const uint64_t before = caught();

    CHECK(wire(*comm, rank) == 0);
    CHECK(caught() != before);
    return 0;
}

static void who_asks_ucx_for_its_handlers_gets_them(void **state)
{
    setenv("UCX_HANDLE_ERRORS", "bt", 1);
    assert_int_equal(run(look_for_handlers, 2, false), 0);
}

static const char *const watched[] = { "brk", "sbrk", "mmap", "munmap", "mremap", "madvise", "shmat", "shmdt" };
#define NWATCHED (sizeof watched / sizeof *watched)

struct code {
    unsigned char bytes[NWATCHED][16];
};

static struct code code_of_libc(void)
{
    struct code c = { 0 };

    for (size_t k = 0; k < NWATCHED; k++) {
        const void *at = dlsym(RTLD_DEFAULT, watched[k]);
        if (at != NULL)
            memcpy(c.bytes[k], at, sizeof c.bytes[k]);
    }
    return c;
}

static int compare_code(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct code before = code_of_libc();
    const bool *rewritten = arg;
    float x[1000] = { 1 };

    CHECK(wire(*comm, rank) == 0);
    CHECK(plait_allreduce(*comm, x, x, 1000, PLAIT_FLOAT32, PLAIT_SUM, NULL) == PLAIT_OK && x[0] == 2);
    const struct code after = code_of_libc();
    CHECK((memcmp(&before, &after, sizeof before) != 0) == *rewritten);
    return 0;
}

/* One of 65 threads that made a comm was in brk() while UCX wrote over it, and died with the allocator's lock. */
static void the_code_of_libc_stays(void **state)
{
    static const char *const devices[] = { "/dev/nvidiactl", "/dev/kfd", "/dev/xpmem", "/dev/knem" };
    struct ranks r = { .nprocess = 2, .nthread = 1, .body = compare_code, .processes = true };

    for (size_t k = 0; k < sizeof devices / sizeof *devices; k++)
        if (access(devices[k], F_OK) == 0)
            skip(); /* they register memory: transports/ucx/events.c */
    if (access("/sys/class/infiniband", F_OK) == 0)
        skip();
    r.arg = &(bool){ false };
    assert_int_equal(ranks_run(&r), 0);
    setenv("UCX_MEM_EVENTS", "y", 1);
    r.arg = &(bool){ true };
    assert_int_equal(ranks_run(&r), 0);
}

/* ---- Ways ----------------------------------------------------------------------------------------------- */

static int describe(struct plait_comm **comm, uint32_t rank, void *arg)
{
    char text[128];

    CHECK(plait_connect(*comm, 1 - rank, PLAIT_CHANNEL_MESSAGES) != NULL);
    plait_port_describe((*comm)->port, 1 - rank, text, sizeof text);
    CHECK(strncmp(text, getenv("UCX_TLS"), strlen(getenv("UCX_TLS"))) == 0);
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    return 0;
}

static void the_way_to_a_rank_has_a_name(void **state)
{
    setenv("UCX_TLS", "tcp", 1);
    assert_int_equal(run(describe, 2, true), 0);
    setenv("UCX_TLS", "posix", 1);
    assert_int_equal(run(describe, 2, true), 0);
}

static int find_no_way(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const struct plait_link *link = plait_connect(*comm, 1 - rank, PLAIT_CHANNEL_MESSAGES);

    CHECK(link != NULL);
    const char *why = link->transport->broken(link);
    CHECK(why != NULL && strstr(why, "no way there") != NULL && strstr(why, "UCX_TLS is 'posix'") != NULL);
    CHECK(plait_barrier(*comm, NULL) == PLAIT_OK);
    return 0;
}

/* Ours would be y: without it, UCX does not use shared memory in this error mode. */
static void a_setting_of_the_user_s_stays(void **state)
{
    setenv("UCX_TLS", "posix", 1);
    setenv("UCX_MM_ERROR_HANDLING", "n", 1);
    assert_int_equal(run(find_no_way, 2, true), 0);
}

static void ignore_arrival(void *context, const struct plait_net_arrival *a)
{
}

static void ucx_that_finds_no_device_names_the_variable_that_leaves_none(void **state)
{
    const struct plait_net_options o = { .nendpoint = 1, .arrive = ignore_arrival };
    const struct plait_net_plugin *ucx;
    struct plait_net *net = NULL;
    char why[256] = "";

    setenv("UCX_TLS", "rc", 1);
    assert_non_null(getenv("PLAIT_PLUGINS"));
    assert_int_equal(plait_plugin_load(&plait_plugin_ucx, getenv("PLAIT_PLUGINS"), (const void **)&ucx), PLAIT_OK);
    if (plait_plugin_open_net(ucx, &o, &net, why, sizeof why)) {
        ucx->close(net);
        print_message("skipped: this machine has a device for UCX_TLS=rc\n");
        skip();
    }
    assert_non_null(strstr(why, "UCX_TLS is 'rc'"));
    assert_non_null(strstr(why, "ucx_info -d"));
}

/* ---- Sleep ---------------------------------------------------------------------------------------------- */

static unsigned nwoken;

int __real_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *most, const sigset_t *mask);
int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *most, const sigset_t *mask);
int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *most, const sigset_t *mask)
{
    const int ready = __real_ppoll(fds, n, most, mask);

    nwoken += ready > 0;
    return ready;
}

static int wait_long(struct plait_comm **comm, uint32_t rank, void *arg)
{
    enum { TURNS = 10 };
    int x = 0;

    for (int i = 0; i < TURNS; i++) {
        usleep(rank == 0 ? 20000 : 0);
        CHECK(rank == 1 || plait_send(*comm, &i, 1, PLAIT_INT32, 1, NULL) == PLAIT_OK);
        CHECK(rank == 0 || (plait_recv(*comm, &x, 1, PLAIT_INT32, 0, NULL) == PLAIT_OK && x == i));
    }
    CHECK(rank == 0 || nwoken >= 1); /* a busy machine may find it awake */
    return 0;
}

static void who_sleeps_is_woken_by_the_network(void **state)
{
    setenv("UCX_TLS", "tcp", 1);
    assert_int_equal(run(wait_long, 2, true), 0);
    setenv("UCX_TLS", "posix", 1);
    assert_int_equal(run(wait_long, 2, true), 0);
}

/* ---- Death ---------------------------------------------------------------------------------------------- */

static int lose_a_peer(struct plait_comm **comm, uint32_t rank, void *arg)
{
    const double until = plait_clock() + 30;
    const char *why = NULL;
    int x = 0;

    CHECK(rank == 0 || plait_send(*comm, &x, 1, PLAIT_INT32, 0, NULL) == PLAIT_OK);
    CHECK(rank == 1 || plait_recv(*comm, &x, 1, PLAIT_INT32, 1, NULL) == PLAIT_OK);
    CHECK(rank == 1 || plait_send(*comm, &x, 1, PLAIT_INT32, 1, NULL) == PLAIT_OK);
    CHECK(rank == 0 || plait_recv(*comm, &x, 1, PLAIT_INT32, 0, NULL) == PLAIT_OK);
    if (rank == 1)
        kill(getpid(), SIGKILL);
    const struct plait_link *link = (*comm)->peers[1].link[PLAIT_CHANNEL_MESSAGES];
    while ((why = link->transport->broken(link)) == NULL && plait_clock() < until)
        plait_port_turn((*comm)->port);
    CHECK(why != NULL && strstr(why, "UCX: ") != NULL);
    CHECK(plait_recv(*comm, &x, 1, PLAIT_INT32, 1, NULL) == PLAIT_ERR_PEER);
    CHECK(plait_comm_destroy(*comm) == PLAIT_ERR_PEER);
    *comm = NULL;
    return 0;
}

static void the_endpoint_to_a_dead_process_fails(void **state)
{
    setenv("UCX_TLS", "tcp", 1);
    assert_int_equal(run(lose_a_peer, 2, true), 1); /* the one that died */
}

static int close_without_a_word(struct plait_comm **comm, uint32_t rank, void *arg)
{
    int x = 0;

    CHECK(rank == 0 || plait_send(*comm, &x, 1, PLAIT_INT32, 0, NULL) == PLAIT_OK);
    CHECK(rank == 1 || plait_recv(*comm, &x, 1, PLAIT_INT32, 1, NULL) == PLAIT_OK);
    if (rank == 0) {
        CHECK(plait_recv(*comm, &x, 1, PLAIT_INT32, 1, NULL) == PLAIT_ERR_PEER);
        CHECK(strstr(plait_last_error(), "rank 1 cannot be reached any more: UCX: ") != NULL);
        CHECK(plait_comm_destroy(*comm) == PLAIT_ERR_PEER);
        *comm = NULL;
        return 0;
    }
    while (!plait_port_is_taken((*comm)->port, 0, PLAIT_CHANNEL_MESSAGES))
        plait_port_turn((*comm)->port);
    (*comm)->peers[0].link[PLAIT_CHANNEL_MESSAGES] = NULL;
    plait_port_close((*comm)->port);
    while (plait_barrier(*comm, NULL) == PLAIT_OK)
        ;
    CHECK(plait_comm_destroy(*comm) == PLAIT_ERR_PEER);
    *comm = NULL;
    return 0;
}

static void a_live_rank_that_cannot_be_reached_is_named(void **state)
{
    setenv("UCX_TLS", "tcp", 1);
    assert_int_equal(run(close_without_a_word, 2, true), 0);
}

/* Rank 2 dies, rank 1 leaves for that, and rank 0 needs only rank 1. */
static int leave_for_the_dead(struct plait_comm **comm, uint32_t rank, void *arg)
{
    int x = 0;

    if (rank == 2)
        kill(getpid(), SIGKILL);
    CHECK(rank == 0 || plait_send(*comm, &x, 1, PLAIT_INT32, 0, NULL) == PLAIT_OK);
    CHECK(rank == 1 || plait_recv(*comm, &x, 1, PLAIT_INT32, 1, NULL) == PLAIT_OK);
    if (rank == 0) {
        CHECK(plait_recv(*comm, &x, 1, PLAIT_INT32, 1, NULL) == PLAIT_ERR_PEER);
        CHECK(strstr(plait_last_error(), "rank 2 (process ") != NULL);
    } else {
        while (!plait_port_is_taken((*comm)->port, 0, PLAIT_CHANNEL_MESSAGES))
            plait_port_turn((*comm)->port);
        for (uint32_t i = 0; i < 3 * PLAIT_NCHANNEL; i++)
            (*comm)->peers[i / PLAIT_NCHANNEL].link[i % PLAIT_NCHANNEL] = NULL;
        plait_port_close((*comm)->port);
        while (atomic_load(&(*comm)->peers[0].control->failed) == PLAIT_OK)
            usleep(1000);
    }
    CHECK(plait_comm_destroy(*comm) == PLAIT_ERR_PEER);
    *comm = NULL;
    return 0;
}

static void who_died_is_named_before_who_left_for_that(void **state)
{
    setenv("UCX_TLS", "tcp", 1);
    assert_int_equal(run(leave_for_the_dead, 3, true), 1); /* the one that died */
}

/* ---- Leaving -------------------------------------------------------------------------------------------- */

static _Atomic int *nasked; /* receives that rank 1 has begun; shared by the ranks */

static int send_and_leave(struct plait_comm **comm, uint32_t rank, void *arg)
{
    int x;

    for (int i = 0; i < 8 && rank == 0; i++)
        CHECK(plait_send(*comm, &i, 1, PLAIT_INT32, 1, NULL) == PLAIT_OK);
    usleep(rank == 1 ? 200000 : 0);
    for (int i = 0; i < 8 && rank == 1; i++) {
        ++*nasked;
        CHECK(plait_recv(*comm, &x, 1, PLAIT_INT32, 0, NULL) == PLAIT_OK && x == i);
    }
    CHECK(plait_comm_destroy(*comm) == PLAIT_OK);
    *comm = NULL;
    CHECK(*nasked == 8);
    return 0;
}

/* A connection that is closed takes with it what was not read, so the sender waits. */
static void messages_arrive_although_their_sender_leaves(void **state)
{
    setenv("UCX_TLS", "tcp", 1);
    nasked = shared_memory(sizeof *nasked);
    assert_int_equal(run(send_and_leave, 2, true), 0);
    munmap((void *)(uintptr_t)nasked, sizeof *nasked);
}

static int gone[2]; /* a pipe: rank 0 has left */

/* Rank 1 ends later, as UCX 1.13 may abort a process that is connecting to one that ends. */
static int leave_unread(struct plait_comm **comm, uint32_t rank, void *arg)
{
    int x = 5;

    for (int i = 0; i < 2 && rank == 0; i++)
        CHECK(plait_send(*comm, &x, 1, PLAIT_INT32, 1, NULL) == PLAIT_OK);
    CHECK(rank == 0 || plait_recv(*comm, &x, 1, PLAIT_INT32, 0, NULL) == PLAIT_OK);
    CHECK(plait_comm_destroy(*comm) == PLAIT_OK);
    *comm = NULL;
    CHECK(rank == 1 ? read(gone[0], &x, 1) == 1 : write(gone[1], &x, 1) == 1);
    return 0;
}

static void a_message_that_nobody_wants_does_not_hold_up_who_leaves(void **state)
{
    setenv("UCX_TLS", "tcp", 1);
    assert_int_equal(pipe(gone), 0);
    assert_int_equal(run(leave_unread, 2, true), 0);
    close(gone[0]);
    close(gone[1]);
}

static int leave_and_exit(struct plait_comm **comm, uint32_t rank, void *arg)
{
    struct plait_call ring = PLAIT_CALL_DEFAULT;
    float x[1000] = { 1 };

    ring.algorithm = "ring";
    CHECK(plait_allreduce(*comm, x, x, 1000, PLAIT_FLOAT32, PLAIT_SUM, &ring) == PLAIT_OK);
    CHECK(plait_comm_destroy(*comm) == PLAIT_OK);
    *comm = NULL;
    usleep(rank * 20000);
    exit(0);
}

/* The first to leave keeps its network until the others have left, which is after it exits. */
static void a_process_may_exit_with_its_network_still_open(void **state)
{
    setenv("UCX_TLS", "tcp", 1);
    assert_int_equal(run(leave_and_exit, 3, true), 0);
    unsetenv("UCX_TLS");
    assert_int_equal(run(leave_and_exit, 3, true), 0);
}

static void let_go(void *network, const struct plait_net_arrival *a)
{
    plugin->release(*(struct plait_net **)network, a->held);
}

struct turned {
    struct plait_net *net;
    atomic_bool stop;
};

static void *keep_turning(void *arg)
{
    struct turned *t = arg;

    while (!atomic_load(&t->stop))
        plugin->progress(t->net);
    return NULL;
}

/* Networks of one process: the first connects to the second, which ends after so many turns of each. */
static int meet_and_part(uint32_t rank, int turns)
{
    static const unsigned char header[PLAIT_NET_HEADER];
    struct plait_net *n[2] = { NULL, NULL };
    struct turned first = { .stop = false };
    enum plait_net_state state;
    char why[256] = "";
    pthread_t thread;
    size_t bytes;

    for (int i = 0; i < 2; i++) {
        const struct plait_net_options o = { .nendpoint = 1, .context = &n[i], .arrive = let_go };
        CHECK(plugin->open(&o, &n[i], why, sizeof why));
    }
    const void *address = plugin->address(n[1], &bytes);
    struct plait_net_endpoint *e = plugin->connect(n[0], address, bytes, why, sizeof why);
    CHECK(e != NULL);
    plugin->send(e, header, "data", 4, &state);
    for (int i = 0; i < 2 * turns; i++)
        plugin->progress(n[i % 2]);
    first.net = n[0];
    CHECK(pthread_create(&thread, NULL, keep_turning, &first) == 0);
    plugin->close(n[1]);
    atomic_store(&first.stop, true);
    pthread_join(thread, NULL);
    plugin->close(n[0]);
    return 0;
}

static int end_while_connecting(struct plait_comm **comm, uint32_t rank, void *arg)
{
    CHECK(plait_plugin_load(&plait_plugin_ucx, (*comm)->config.plugins, (const void **)&plugin) == PLAIT_OK);
    for (int turns = 0; turns < 20; turns++)
        CHECK(meet_and_part(rank, turns) == 0);
    return 0;
}

static void a_network_may_end_while_another_connects_to_it(void **state)
{
    setenv("UCX_TLS", "tcp", 1);
    assert_int_equal(run(end_while_connecting, 1, false), 0);
}

/* Counts what arrives, and lets go of it. */
static void count_arrival(void *net, const struct plait_net_arrival *a)
{
    struct counting *c = net;

    c->narrived++;
    plugin->release(c->net, a->held);
}

/*
 * A sender that has ended its send makes no more progress: it computes. The message must arrive all the same. With a
 * small socket buffer the kernel does not take a message at once.
 */
static int leave_its_process(struct plait_comm **comm, uint32_t rank, void *arg)
{
    static const unsigned char header[PLAIT_NET_HEADER];
    static char data[1 << 20];
    struct counting n[2] = { { NULL, 0 }, { NULL, 0 } };
    enum plait_net_state state;
    char why[256] = "";
    size_t bytes;
    uint32_t nsent = 0;

    CHECK(plait_plugin_load(&plait_plugin_ucx, (*comm)->config.plugins, (const void **)&plugin) == PLAIT_OK);
    for (int i = 0; i < 2; i++) {
        const struct plait_net_options o = { .nendpoint = 1, .context = &n[i], .arrive = count_arrival };
        CHECK(plugin->open(&o, &n[i].net, why, sizeof why));
    }
    const void *address = plugin->address(n[1].net, &bytes);
    struct plait_net_endpoint *e = plugin->connect(n[0].net, address, bytes, why, sizeof why);
    CHECK(e != NULL);
    for (size_t size = 0; size <= sizeof data; size = size < 4096 ? size + 512 : 2 * size) {
        plugin->send(e, header, data, size, &state);
        nsent++;
        while (state == PLAIT_NET_BUSY)
            for (int i = 0; i < 2; i++)
                plugin->progress(n[i].net);
        CHECK(state == PLAIT_NET_DONE);
        for (int turns = 0; n[1].narrived < nsent && turns < STOPS; turns++)
            if (!plugin->progress(n[1].net))
                usleep(1000);
        if (n[1].narrived < nsent)
            print_error("a message of %zu bytes has not left its sender\n", size);
        CHECK(n[1].narrived == nsent);
    }
    for (int i = 0; i < 2; i++)
        plugin->close(n[i].net);
    return 0;
}

static void a_message_has_left_its_process_when_its_send_ends(void **state)
{
    setenv("UCX_TLS", "tcp", 1);
    setenv("UCX_TCP_SNDBUF", "4608", 1);
    assert_int_equal(run(leave_its_process, 1, false), 0);
}

#define TEST(test) cmocka_unit_test_teardown(test, clear)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(signal_handlers_stay_before_while_and_after_ucx_is_used),
        TEST(the_code_of_libc_stays),
        TEST(who_asks_ucx_for_its_handlers_gets_them),
        TEST(the_way_to_a_rank_has_a_name),
        TEST(a_setting_of_the_user_s_stays),
        TEST(the_endpoint_to_a_dead_process_fails),
        TEST(a_live_rank_that_cannot_be_reached_is_named),
        TEST(who_died_is_named_before_who_left_for_that),
        TEST(who_sleeps_is_woken_by_the_network),
        TEST(messages_arrive_although_their_sender_leaves),
        TEST(a_message_has_left_its_process_when_its_send_ends),
        TEST(a_process_may_exit_with_its_network_still_open),
        TEST(a_network_may_end_while_another_connects_to_it),
        TEST(a_message_that_nobody_wants_does_not_hold_up_who_leaves),
        TEST(ucx_that_finds_no_device_names_the_variable_that_leaves_none),
    };

    return cmocka_run_group_tests_name("ucx", tests, NULL, NULL);
}
