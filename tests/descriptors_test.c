/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The descriptors of a process are its program's: the library has none below 3, so that what the program prints enters no
 * sum, and does nothing to those that the program has closed and opened again. Ranks meet on the machine and over TCP;
 * with PLAIT_FOR_TESTS=1 and PLAIT_HOSTS=2 they are on two hosts.
 */
#include "base/clock.h"
#include "base/descriptor.h"
#include "child.h"
#include "ranks.h"
#include "tier.h"
#include "unit.h"

#include <plait/memory.h>
#include <plait/request.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NRANK 2
#define COUNT 100000
#define MOST  256        /* descriptors that are looked at */
#define BYTES (64 << 10) /* of a file of the program's */
#define LATE  80000      /* microseconds that a rank comes later, so that the other looks around */
#define HIGH  17000      /* more files than most programs open */

#define BEYOND 65536 /* the library keeps a list of the numbers below */

enum moment { AFTER_CREATION, BETWEEN, PENDING, BEFORE_DESTROY, NMOMENT };
enum how { CLOSED, A_FILE, A_SOCKET, AN_EPOLL, AN_EVENT, A_PIDFD, NHOW };

static const char *const moments[NMOMENT] = { "after creation", "between operations", "while a request is pending",
                                              "before destroy" };
static const char *const hows[NHOW] = { "closed",
                                        "replaced by a file",
                                        "replaced by a socket",
                                        "replaced by an epoll descriptor",
                                        "replaced by an event descriptor",
                                        "replaced by a process descriptor" };

struct scene { /* shared by the ranks */
    struct plait_unique_id id[2];
    enum moment moment;
    enum how how;
    uint32_t victim; /* the rank whose program does it */
    int which;       /* of its descriptors; -1: all */
    int least;       /* numbers below it are taken before the library opens anything */
    int n;           /* how many it has */
    char what[64];   /* the one of this time */
};

static struct scene *scene;
static int errors = STDERR_FILENO; /* where a rank without a standard error says what is wrong */

#define MUST(condition)                                                                                          \
    do {                                                                                                         \
        if (!(condition)) {                                                                                      \
            dprintf(errors, "%s:%d: rank %u, %s %s %s of rank %u: %s is false (%s)\n", __FILE__, __LINE__, rank, \
                    scene->what, hows[scene->how], moments[scene->moment], scene->victim, #condition,            \
                    plait_last_error());                                                                         \
            return 1;                                                                                            \
        }                                                                                                        \
    } while (0)

static struct plait_comm_options options_of(const struct plait_unique_id *id, uint32_t rank)
{
    struct plait_comm_options o = options_of_rank(NRANK, rank, id);

    o.timeout = 20;
    o.deadline = 20;
    return o;
}

static enum plait_status create(const struct plait_unique_id *id, uint32_t rank, struct plait_comm **out)
{
    const struct plait_comm_options o = options_of(id, rank);

    return plait_comm_create(&o, out);
}

static void fill(int32_t *v, uint32_t rank)
{
    for (int32_t i = 0; i < COUNT; i++)
        v[i] = i % 1000 + (int32_t)rank;
}

static bool is_sum(const int32_t *v)
{
    for (int32_t i = 0; i < COUNT; i++)
        if (v[i] != NRANK * (i % 1000) + NRANK * (NRANK - 1) / 2)
            return false;
    return true;
}

static void new_scene(bool tcp)
{
    if (scene == NULL)
        scene = shared_memory(sizeof *scene);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(tcp ? plait_unique_id_create_tcp("lo", &scene->id[i]) : plait_unique_id_create(&scene->id[i]),
                         PLAIT_OK);
}

/* ---- Standard streams that are closed ----------------------------------------------------------------------- */

/* What stands there instead can neither be read nor written. */
static bool is_closed_to_all(int fd)
{
    const int flags = fcntl(fd, F_GETFL);

    return flags < 0 || (flags & O_PATH) != 0;
}

static bool print(void)
{
    for (unsigned i = 0; i < 2000; i++)
        printf("a line that the program prints, number %u\n", i);
    fflush(stdout);
    clearerr(stdout);
    fprintf(stderr, "and a complaint\n");
    return is_closed_to_all(STDIN_FILENO) && is_closed_to_all(STDOUT_FILENO) && is_closed_to_all(STDERR_FILENO);
}

static int print_while_summing(struct plait_comm **unused, uint32_t rank, void *arg)
{
    struct plait_comm *comm, *second;
    int32_t *v;

    errors = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, MOST);
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        close(fd);
    MUST(create(&scene->id[0], rank, &comm) == PLAIT_OK);
    MUST(print());
    MUST(plait_mem_alloc(COUNT * sizeof *v, (void **)&v) == PLAIT_OK);
    MUST(print());
    for (unsigned k = 0; k < 3; k++) {
        fill(v, rank);
        MUST(print());
        MUST(plait_allreduce(comm, v, v, COUNT, PLAIT_INT32, PLAIT_SUM, NULL) == PLAIT_OK);
        MUST(print());
        MUST(is_sum(v));
    }
    MUST(create(&scene->id[1], rank, &second) == PLAIT_OK);
    MUST(print());
    MUST(plait_comm_destroy(second) == PLAIT_OK);
    MUST(plait_comm_destroy(comm) == PLAIT_OK);
    MUST(plait_mem_free(v) == PLAIT_OK);
    return 0;
}

static void what_a_program_without_standard_streams_prints_enters_no_sum(void **state)
{
    for (unsigned tcp = 0; tcp < 2; tcp++) {
        const struct ranks r = { NRANK, 1, .body = print_while_summing, .processes = true, .no_comm = true };
        new_scene(tcp);
        assert_int_equal(ranks_run(&r), 0);
    }
}

/* ---- Descriptors that the program closes -------------------------------------------------------------------- */

struct theirs { /* a file of the program's under a number that was the library's */
    int fd;
    struct stat stat;
    int other;      /* end of a socket, or of what an epoll descriptor waits for; -1 */
    char info[512]; /* what the kernel tells of it: a counter, what it waits for, a process */
};

static bool has_room_for_high_numbers(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return false;
    limit.rlim_cur = limit.rlim_max;
    return limit.rlim_max >= HIGH + 2 * MOST && setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

/* As in a program that has that many connections. */
static void take_low_numbers(void)
{
    const int one = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (one < 0 || !has_room_for_high_numbers())
        abort();
    while (fcntl(one, F_DUPFD_CLOEXEC, 0) < scene->least - 1)
        ;
}

static void read_open(bool open[MOST])
{
    for (int i = 0; i < MOST; i++)
        open[i] = fcntl(scene->least + i, F_GETFD) >= 0;
}

static char pattern(size_t i)
{
    return (char)('a' + i % 23);
}

static int open_file(void)
{
    const int fd = memfd_create("the program's", MFD_CLOEXEC);
    char *all = malloc(BYTES);

    for (size_t i = 0; all != NULL && i < BYTES; i++)
        all[i] = pattern(i);
    if (fd < 0 || all == NULL || write(fd, all, BYTES) != BYTES || lseek(fd, 4096, SEEK_SET) != 4096)
        abort();
    free(all);
    return fd;
}

/* The text of /proc/self/fdinfo. */
static void read_info(int fd, char *out, size_t size)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    const int info = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = info >= 0 ? read(info, out, size - 1) : 0;
    out[n > 0 ? n : 0] = '\0';
    close(info);
}

/* The other end goes where no number is looked at. */
static int open_one(enum how how, struct theirs *t)
{
    struct epoll_event any = { .events = EPOLLIN };
    int new = -1, ends[2] = { -1, -1 };

    switch (how) {
    case A_FILE:
        return open_file();
    case A_SOCKET:
    case AN_EPOLL:
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
            abort();
        t->other = fcntl(ends[1], F_DUPFD_CLOEXEC, scene->least + MOST);
        close(ends[1]);
        if (write(t->other, "12345", 5) != 5) /* what the library must not read */
            abort();
        if (how == A_SOCKET)
            return ends[0];
        close(ends[0]);
        new = epoll_create1(EPOLL_CLOEXEC);
        if (epoll_ctl(new, EPOLL_CTL_ADD, t->other, &any) != 0)
            abort();
        return new;
    case AN_EVENT:
        return eventfd(12345, EFD_CLOEXEC);
    case A_PIDFD:
        return (int)syscall(SYS_pidfd_open, getppid(), 0);
    case CLOSED:
    case NHOW:
        break;
    }
    return new;
}

/*
 * fd -1 in *t: the kernel gives both one inode, so that they cannot be told apart; or another thread has closed it since
 * it was listed.
 */
static void take_over(int fd, enum how how, struct theirs *t)
{
    struct stat old, new_one;

    *t = (struct theirs){ .fd = fd, .other = -1 };
    if (how == CLOSED) {
        close(fd);
        return;
    }
    const int new = open_one(how, t);
    if (new < 0 || fstat(new, &new_one) != 0)
        abort();
    if (fstat(fd, &old) != 0 || (old.st_dev == new_one.st_dev && old.st_ino == new_one.st_ino))
        t->fd = -1;
    else if (dup2(new, fd) != fd || fstat(fd, &t->stat) != 0)
        abort();
    close(new);
    read_info(fd, t->info, sizeof t->info);
}

/* Still open under its number, and nothing was read, written, cut or added. */
static bool is_untouched(const struct theirs *t, enum how how)
{
    struct stat now;
    char *all = malloc(BYTES + 1), some[8], info[sizeof t->info];
    bool same = true;

    if (how != CLOSED) {
        read_info(t->fd, info, sizeof info);
        same = fstat(t->fd, &now) == 0 && now.st_ino == t->stat.st_ino && now.st_dev == t->stat.st_dev &&
               strcmp(info, t->info) == 0;
    }
    if (how == A_FILE && same) {
        same = now.st_size == BYTES && lseek(t->fd, 0, SEEK_CUR) == 4096 && pread(t->fd, all, BYTES + 1, 0) == BYTES;
        for (size_t i = 0; i < BYTES && same; i++)
            same = all[i] == pattern(i);
    }
    if (how == A_SOCKET && same) /* what came is there, nothing was sent, and it is not shut */
        same = recv(t->fd, some, sizeof some, MSG_PEEK | MSG_DONTWAIT) == 5 &&
               recv(t->other, some, sizeof some, MSG_PEEK | MSG_DONTWAIT) < 0;
    free(all);
    return same;
}

struct life { /* of a rank */
    uint32_t rank;
    bool open_before[MOST];
    struct theirs theirs[MOST];
    int n;
    bool over; /* its comm has failed */
};

/*
 * Until no other thread of this process runs. The library compares a descriptor right before it uses it; no system call
 * does both, so a program that closes it just between the two is not seen. On a busy machine a thread waits for a processor
 * for seconds.
 */
static void wait_for_other_threads(void)
{
    const double end = plait_clock() + 20;
    bool asleep;

    do {
        DIR *tasks = opendir("/proc/self/task");
        asleep = true;
        for (const struct dirent *task; tasks != NULL && (task = readdir(tasks)) != NULL;) {
            char path[300], state = 'S';
            if (atoi(task->d_name) == 0 || atoi(task->d_name) == gettid())
                continue;
            snprintf(path, sizeof path, "/proc/self/task/%s/stat", task->d_name);
            FILE *stat = fopen(path, "r");
            if (stat != NULL && fscanf(stat, "%*d (%*[^)]) %c", &state) == 1)
                asleep &= state == 'S';
            if (stat != NULL)
                fclose(stat);
        }
        if (tasks != NULL)
            closedir(tasks);
    } while (!asleep && plait_clock() < end);
}

/* The rank's program does what this scene is about, at its moment. */
static void act(struct life *l, enum moment moment)
{
    int n = 0;

    if (l->rank != scene->victim || moment != scene->moment)
        return;
    wait_for_other_threads();
    for (int fd = scene->least; fd < scene->least + MOST; fd++)
        if (fcntl(fd, F_GETFD) >= 0 && plait_descriptor_is_kept(fd)) {
            if (n++ != scene->which && scene->which >= 0)
                continue;
            char path[64];
            snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
            memset(scene->what, 0, sizeof scene->what);
            if (readlink(path, scene->what, sizeof scene->what - 1) < 0)
                continue; /* another thread has closed it */
            take_over(fd, scene->how, &l->theirs[l->n]);
            l->n += l->theirs[l->n].fd >= 0;
        }
    scene->n = n;
}

/* A success, or an error that says who has done what. */
static bool is_told(struct life *l, enum plait_status status)
{
    l->over |= status != PLAIT_OK;
    return status == PLAIT_OK || strstr(plait_last_error(), "was closed or replaced by the program") != NULL ||
           (l->rank != scene->victim && strstr(plait_last_error(), "rank ") != NULL);
}

static int sum(struct life *l, struct plait_comm *comm, bool pending)
{
    static int32_t v[COUNT];
    const uint32_t rank = l->rank;
    struct plait_call call = PLAIT_CALL_DEFAULT;
    struct plait_request *request = NULL;

    if (l->over)
        return 0;
    if (rank != scene->victim)
        usleep(LATE);
    fill(v, rank);
    if (pending)
        call.request = &request;
    enum plait_status status = plait_allreduce(comm, v, v, COUNT, PLAIT_INT32, PLAIT_SUM, &call);
    if (pending && status == PLAIT_OK) {
        act(l, PENDING);
        status = plait_wait(&request);
    }
    MUST(is_told(l, status));
    MUST(status != PLAIT_OK || is_sum(v));
    return 0;
}

static int live(struct plait_comm **unused, uint32_t rank, void *arg)
{
    static struct life life;
    struct life *l = &life;
    struct plait_comm *comm, *second;
    void *more;

    l->rank = rank;
    if (scene->least > 0)
        take_low_numbers();
    read_open(l->open_before);
    MUST(create(&scene->id[0], rank, &comm) == PLAIT_OK);
    /* Over hosts, a network's library has some. */
    for (int i = 0, fd = scene->least; i < MOST && !RANKS_ON_HOSTS; i++, fd++)
        MUST(l->open_before[i] || fcntl(fd, F_GETFD) < 0 || plait_descriptor_is_kept(fd) || l->n > 0);
    act(l, AFTER_CREATION);
    if (sum(l, comm, false) != 0)
        return 1;
    act(l, BETWEEN);
    if (sum(l, comm, false) != 0 || sum(l, comm, true) != 0)
        return 1;
    const enum plait_status status = plait_mem_alloc(1 << 20, &more);
    MUST(status == PLAIT_OK || strstr(plait_last_error(), "was closed or replaced by the program") != NULL);
    if (status == PLAIT_OK) {
        memset(more, 1, 1 << 20);
        MUST(plait_mem_free(more) == PLAIT_OK);
    }
    act(l, BEFORE_DESTROY);
    MUST(is_told(l, plait_comm_destroy(comm)));
    const enum plait_status again = create(&scene->id[1], rank, &second);
    MUST(is_told(l, again));
    if (again == PLAIT_OK)
        MUST(is_told(l, plait_comm_destroy(second)));
    for (int i = 0; i < l->n; i++)
        MUST(is_untouched(&l->theirs[i], scene->how));
    return 0;
}

static void live_with(bool tcp, enum moment moment, enum how how, uint32_t victim, int which, int least)
{
    const struct ranks r = { NRANK, 1, .body = live, .processes = true, .no_comm = true };

    new_scene(tcp);
    scene->moment = moment;
    scene->how = how;
    scene->victim = victim;
    scene->which = which;
    scene->least = least;
    scene->n = 0;
    assert_int_equal(ranks_run(&r), 0);
}

/* In the short tier: of all at once a third; of one alone each second, in one way. Over TCP there is one way. */
static bool is_drawn(bool tcp, enum moment m, uint32_t victim, enum how how, int which)
{
    const uint32_t turn = (uint32_t)which + m + victim;

    if (tcp)
        return which < 0 || turn % NHOW == how;
    return which < 0 ? (m + 2 * victim + how) % 3 == 0 : turn % 2 == 0 && turn / 2 % NHOW == how;
}

/*
 * One at a time, and then all at once, as daemons do. Only the slow tier closes each at every moment in every way. At least: the arena
 * twice, and a line or a process.
 */
static void close_each(bool tcp)
{
    for (enum moment m = 0; m < NMOMENT; m++)
        for (uint32_t victim = 0; victim < NRANK; victim++)
            for (enum how how = tcp ? A_FILE : 0; how < (tcp ? A_FILE + 1 : NHOW); how++) {
                int which = -1, most = 0;
                do {
                    if (full() || is_drawn(tcp, m, victim, how, which))
                        live_with(tcp, m, how, victim, which, 0);
                    if (most < scene->n)
                        most = scene->n;
                } while (++which < scene->n);
                assert_true(most >= 3);
            }
}

static void nothing_is_done_to_files_that_a_program_opens_under_our_numbers(void **state)
{
    close_each(false);
}

static void nor_where_ranks_met_over_tcp(void **state)
{
    close_each(true);
}

static void nor_where_numbers_are_high(void **state)
{
    if (!has_room_for_high_numbers())
        skip();
    for (enum moment m = 0; m < NMOMENT; m++)
        for (enum how how = full() ? 0 : A_FILE; how < (full() ? NHOW : A_FILE + 1); how++) {
            live_with(false, m, how, m % NRANK, -1, HIGH);
            assert_true(scene->n >= 3);
        }
}

/* Numbers are kept, and forgotten in any order; those beyond the list are opened and closed all the same. */
static void the_list_of_descriptors_keeps_its_numbers(void **state)
{
    static bool kept[HIGH + MOST];
    const int one = open("/dev/null", O_RDONLY | O_CLOEXEC), above = HIGH + MOST;
    int n = 0, fd = 0, last = 0;
    uint64_t seed = 1;

    if (!has_room_for_high_numbers())
        skip();
    for (; last < above - 1; n++) {
        fd = plait_descriptor_keep(fcntl(one, F_DUPFD_CLOEXEC, last + 1), "a test");
        assert_true(fd > last && fd < above);
        kept[last = fd] = true;
    }
    while (n > 0) {
        seed = seed * 6364136223846793005U + 1442695040888963407U;
        for (fd = (int)((seed >> 33) % (unsigned)above); !kept[fd]; fd = (fd + 1) % above)
            ;
        plait_descriptor_close(fd);
        kept[fd] = false;
        if (--n % 1000 == 0) {
            for (int i = 0; i < above; i++)
                assert_true(plait_descriptor_is_kept(i) == kept[i] && (!kept[i] || fcntl(i, F_GETFD) >= 0));
        }
    }
    fd = plait_descriptor_keep(fcntl(one, F_DUPFD_CLOEXEC, BEYOND), "a test");
    if (fd < 0)
        printf("this process may not open descriptor %d\n", BEYOND);
    assert_true(fd < 0 || (fd >= BEYOND && !plait_descriptor_is_kept(fd) && plait_descriptor_is_ours(fd)));
    plait_descriptor_close(fd);
    assert_true(fcntl(fd, F_GETFD) < 0);
    close(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_program_without_standard_streams_prints_enters_no_sum),
        cmocka_unit_test(nothing_is_done_to_files_that_a_program_opens_under_our_numbers),
        cmocka_unit_test(nor_where_ranks_met_over_tcp),
        cmocka_unit_test(nor_where_numbers_are_high),
        cmocka_unit_test(the_list_of_descriptors_keeps_its_numbers),
    };

    return cmocka_run_group_tests_name("descriptors", tests, NULL, NULL);
}
