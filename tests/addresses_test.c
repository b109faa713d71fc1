/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks on several hosts, which are network name spaces on one bridge: who shares a node, descriptors inside each, which
 * address is taken where some lead nowhere. Needs the right to make them (root); else skipped.
 */
#include "child.h"
#include "unit.h"
#include "until.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/hosts.h"
#include "bootstrap/id.h"

#include <plait/launch.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

#define NHOST 3
#define NRANK 6

#define CHECK(condition)                                                                                   \
    do {                                                                                                   \
        if (!(condition)) {                                                                                \
            fprintf(stderr, "%s:%d: rank %u: %s is false (%s)\n", __FILE__, __LINE__, s->rank, #condition, \
                    plait_last_error());                                                                   \
            return 1;                                                                                      \
        }                                                                                                  \
    } while (0)

static const uint32_t host_of[NRANK] = { 1, 0, 0, 2, 0, 2 }; /* 3 + 1 + 2, and in no order */
static const uint32_t node_of[NRANK] = { 0, 1, 1, 2, 1, 2 };

struct scene {
    uint32_t rank;              /* the process's own */
    struct plait_unique_id *id; /* shared */
};

static pid_t hosts[NHOST]; /* each holds its name space */

static int run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int run(const char *format, ...)
{
    char command[512];
    va_list list;

    va_start(list, format);
    vsnprintf(command, sizeof command, format, list);
    va_end(list);
    return system(command);
}

static int enter(pid_t host)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/ns/net", (int)host);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const int result = fd >= 0 ? setns(fd, CLONE_NEWNET) : -1;
    if (fd >= 0)
        close(fd);
    return result;
}

static pid_t start_host(void)
{
    int ready[2];
    char byte = 0;

    assert_int_equal(pipe(ready), 0);
    const pid_t pid = child_fork();
    if (pid == 0) {
        byte = unshare(CLONE_NEWNET) == 0;
        if (write(ready[1], &byte, 1) == 1)
            pause();
        _exit(0);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    assert_int_equal(byte, 1);
    return pid;
}

static int open_hosts(void **state)
{
    if (run("ip link set lo up && ip link add sw type bridge && ip link set sw up") != 0)
        return 1;
    for (int h = 0; h < NHOST; h++) {
        hosts[h] = start_host();
        if (run("ip link add v%d type veth peer name eth0 netns %d && ip link set v%d master sw up", h, hosts[h], h) !=
                0 ||
            run("nsenter -t %d -n sh -c 'ip link set lo up; ip addr add 10.77.0.%d/24 dev eth0; ip link set eth0 up'",
                hosts[h], h + 1) != 0)
            return 1;
    }
    return 0;
}

static int close_hosts(void **state)
{
    for (int h = 0; h < NHOST; h++)
        if (hosts[h] > 0) {
            kill(hosts[h], SIGKILL);
            child_end(hosts[h]);
            hosts[h] = 0;
            run("ip link del v%d 2>/dev/null", h);
        }
    run("ip link del sw");
    return 0;
}

/* Every rank on its host, as a process of its own; how many failed. */
static unsigned run_ranks(int (*body)(struct scene *), uint32_t nrank)
{
    struct plait_unique_id *id = shared_memory(sizeof *id);
    pid_t pids[NRANK];
    unsigned failed = 0;

    for (uint32_t r = 0; r < nrank; r++) {
        pids[r] = child_fork();
        if (pids[r] == 0) {
            struct scene s = { r, id };
            alarm(60);
            const int result = enter(hosts[host_of[r]]) != 0 ? 1 : body(&s);
            fflush(NULL);
            _exit(result);
        }
    }
    for (uint32_t r = 0; r < nrank; r++)
        failed += child_end(pids[r]) != 0;
    munmap(id, sizeof *id);
    return failed;
}

/* Rank 0 makes the id, the others wait for it: the magic comes last. */
static void share_id(struct scene *s)
{
    struct plait_unique_id id;

    if (s->rank == 0 && plait_unique_id_create_tcp(NULL, &id) == PLAIT_OK) {
        memcpy(s->id->bytes + 1, id.bytes + 1, sizeof id.bytes - 1);
        __atomic_store_n(&s->id->bytes[0], id.bytes[0], __ATOMIC_RELEASE);
    }
    (void)comes_true(__atomic_load_n(&s->id->bytes[0], __ATOMIC_ACQUIRE) != 0);
}

/* ---- Nodes ----------------------------------------------------------------------------------------------------- */

static int own_file(uint32_t rank)
{
    const int fd = memfd_create("of", MFD_CLOEXEC);

    return fd >= 0 && write(fd, &rank, sizeof rank) == sizeof rank ? fd : -1;
}

/* Descriptors of those on this node, none of others. */
static int check_share(struct scene *s, struct plait_bootstrap *b)
{
    const int mine = own_file(s->rank);
    bool gives[NRANK];
    int fds[NRANK];

    CHECK(mine >= 0);
    for (unsigned round = 0; round < 2; round++) { /* all give; then all but rank 4 */
        for (uint32_t r = 0; r < NRANK; r++)
            gives[r] = round == 0 || r != 4;
        CHECK(plait_bootstrap_share(b, gives, &mine, 1, fds) == PLAIT_OK);
        for (uint32_t r = 0; r < NRANK; r++) {
            uint32_t whose;
            CHECK((fds[r] >= 0) == (r != s->rank && node_of[r] == node_of[s->rank] && gives[r] && gives[s->rank]) ||
                  (!gives[s->rank] && node_of[r] == node_of[s->rank]));
            CHECK(fds[r] < 0 || (pread(fds[r], &whose, sizeof whose, 0) == sizeof whose && whose == r));
            if (fds[r] >= 0)
                close(fds[r]);
        }
    }
    close(mine);
    return 0;
}

/* The sockets go on when the bootstrap is gone: rank 0 says each its number. */
static int check_sockets(struct scene *s, struct plait_bootstrap *b)
{
    int fds[NRANK];
    uint32_t number = 0;

    plait_bootstrap_take_sockets(b, fds);
    plait_bootstrap_destroy(b);
    for (uint32_t r = 0; r < NRANK; r++)
        CHECK((fds[r] >= 0) == (s->rank == 0 ? r > 0 : r == 0));
    for (uint32_t r = 1; s->rank == 0 && r < NRANK; r++)
        CHECK(send(fds[r], &r, sizeof r, MSG_NOSIGNAL) == sizeof r);
    if (s->rank > 0) {
        fcntl(fds[0], F_SETFL, 0);
        CHECK(recv(fds[0], &number, sizeof number, MSG_WAITALL) == sizeof number && number == s->rank);
    }
    for (uint32_t r = 0; r < NRANK; r++)
        if (fds[r] >= 0)
            close(fds[r]);
    return 0;
}

static int meet(struct scene *s)
{
    struct plait_bootstrap *b;
    union plait_address all[PLAIT_MOST_ADDRESSES];
    char text[PLAIT_ADDRESS_TEXT], want[PLAIT_ADDRESS_TEXT];

    share_id(s);
    CHECK(plait_bootstrap_create(s->id, s->rank, NRANK, 30, PLAIT_OK, &b) == PLAIT_OK);
    const struct plait_nodes *nodes = plait_bootstrap_nodes(b);
    CHECK(nodes->n == NHOST);
    for (uint32_t r = 0; r < NRANK; r++) {
        CHECK(plait_node_of(nodes, r) == node_of[r]);
        CHECK(plait_hosts_list(plait_hosts_of(nodes, r), 1, all) == 1);
        snprintf(want, sizeof want, "10.77.0.%u", host_of[r] + 1);
        CHECK(strcmp(plait_address_text(&all[0], false, text), want) == 0);
    }
    CHECK(check_share(s, b) == 0);
    return check_sockets(s, b);
}

static void nodes_are_who_can_pass_descriptors(void **state)
{
    assert_int_equal(run_ranks(meet, NRANK), 0);
}

/* As shrink does: without a word, and rank 0's host need not live. */
static int meet_again(struct scene *s)
{
    struct plait_bootstrap *b;
    struct plait_unique_id derived;
    uint32_t all[NRANK];

    share_id(s);
    CHECK(plait_bootstrap_create(s->id, s->rank, NRANK, 30, PLAIT_OK, &b) == PLAIT_OK);
    struct plait_nodes nodes = *plait_bootstrap_nodes(b);
    *plait_bootstrap_nodes(b) = (struct plait_nodes){ 0 };
    plait_bootstrap_destroy(b);
    if (s->rank < 3)
        return 0;
    plait_unique_id_derive(s->id, 7, plait_hosts_of(&nodes, 3), &derived);
    CHECK(plait_bootstrap_create(&derived, s->rank - 3, 3, 30, PLAIT_OK, &b) == PLAIT_OK);
    CHECK(plait_bootstrap_allgather(b, PLAIT_OK, &s->rank, sizeof s->rank, all) == PLAIT_OK);
    CHECK(all[0] == 3 && all[1] == 4 && all[2] == 5 && plait_bootstrap_nodes(b)->n == 2);
    plait_bootstrap_destroy(b);
    plait_nodes_finish(&nodes);
    return 0;
}

static void derived_ids_meet_at_another_host(void **state)
{
    assert_int_equal(run_ranks(meet_again, NRANK), 0);
}

/* ---- Interfaces -------------------------------------------------------------------------------------------------- */

/* Has each host a bridge of its own with one address for all, a link that is down, and one that others cannot reach? */
static void add_interfaces(void)
{
    static const char *const commands[] = {
        "ip link add docker0 type bridge",
        "ip addr add 172.17.0.1/16 dev docker0",
        "ip link set docker0 up",
        "ip link add d0 type veth peer name d1",
        "ip link set d0 master docker0 up",
        "ip link set d1 up",
        "ip link add eth1 type veth peer name peer1",
        "ip addr add 10.88.0.%d/24 dev eth1",
        "ip link set eth1 up",
        "ip link set peer1 up",
        "ip link add eth9 type veth peer name peer9",
        "ip addr add 10.99.0.%d/24 dev eth9",
        "ip route add blackhole 10.88.0.0/16",
    };
    char command[128];

    for (int h = 0; h < NHOST; h++)
        for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
            snprintf(command, sizeof command, commands[i], h + 1);
            assert_int_equal(run("nsenter -t %d -n %s", hosts[h], command), 0);
        }
}

static bool lists(const struct plait_hosts *hosts_there, const char *want)
{
    union plait_address all[PLAIT_MOST_ADDRESSES];
    const unsigned n = plait_hosts_list(hosts_there, 1, all);
    char text[512] = "", one[PLAIT_ADDRESS_TEXT];

    for (unsigned i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i > 0 ? " " : "",
                 plait_address_text(&all[i], false, one));
    if (strcmp(text, want) != 0)
        fprintf(stderr, "'%s' and not '%s'\n", text, want);
    return strcmp(text, want) == 0;
}

static int choose(struct scene *s)
{
    struct plait_hosts found;

    /* Devices, then bridges; not what is down, nor loopback. */
    CHECK(plait_hosts_find("", &found) == PLAIT_OK);
    CHECK(lists(&found, "10.77.0.2 10.88.0.2 172.17.0.1"));
    CHECK(plait_hosts_find("^docker", &found) == PLAIT_OK && lists(&found, "10.77.0.2 10.88.0.2"));
    CHECK(plait_hosts_find("eth", &found) == PLAIT_OK && lists(&found, "10.77.0.2 10.88.0.2"));
    CHECK(plait_hosts_find("=eth1", &found) == PLAIT_OK && lists(&found, "10.88.0.2"));
    CHECK(plait_hosts_find("docker,eth0", &found) == PLAIT_OK && lists(&found, "10.77.0.2 172.17.0.1"));
    CHECK(plait_hosts_find("=lo", &found) == PLAIT_OK && lists(&found, "127.0.0.1 ::1"));
    CHECK(plait_hosts_find("=eth", &found) == PLAIT_ERR_CONFIG);
    CHECK(strstr(plait_last_error(), "eth0 10.77.0.2") != NULL && strstr(plait_last_error(), "^NAME") != NULL);
    CHECK(plait_hosts_find("eth9", &found) == PLAIT_ERR_CONFIG && strstr(plait_last_error(), "eth9 10.99.0.2 (down)"));
    return 0;
}

/* Data goes where ranks met, or where it is told to: not over a bridge because that claims more. */
static int choose_for_data(struct scene *s)
{
    const struct {
        const char *list, *met, *want;
    } rows[] = { { "", "10.77.0.2", "eth0" },
                 { "", "10.88.0.2", "eth1" },
                 { "", "192.0.2.1", "" }, /* behind another address */
                 { "^docker", "10.77.0.2", "eth0,eth1" },
                 { "=eth1", "10.77.0.2", "eth1" },
                 { "docker", "10.77.0.2", "docker0" },
                 { "=eth", "10.77.0.2", "" },
                 { "eth9", "10.77.0.2", "" } }; /* down */
    char devices[PLAIT_DEVICES_TEXT];

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = inet_addr(rows[i].met) };
        struct plait_hosts met = { { 0 } };
        plait_hosts_add(&met, (const struct sockaddr *)&a);
        plait_hosts_devices(rows[i].list, &met, devices);
        CHECK(strcmp(devices, rows[i].want) == 0);
    }
    return 0;
}

/* Containers' bridges, listed before the host's own, which is a bridge too, filled the id. */
static int choose_beside_bridges(struct scene *s)
{
    struct plait_hosts found;
    union plait_address all[PLAIT_MOST_ADDRESSES];
    char first[PLAIT_ADDRESS_TEXT];

    CHECK(unshare(CLONE_NEWNET) == 0);
    for (int i = 0; i < 80; i++)
        CHECK(run("ip link add br-%d type bridge && ip addr add 172.%d.%d.1/24 dev br-%d && ip link set br-%d up && "
                  "ip link add x%d type veth peer name y%d && ip link set x%d master br-%d up && ip link set y%d up",
                  i, 20 + i / 20, i, i, i, i, i, i, i, i) == 0);
    CHECK(run("ip link add own type bridge && ip link add p type veth peer name q && ip link set p master own up && "
              "ip link set q up && ip addr add 10.66.0.7/24 dev own && ip link set own up && "
              "ip route add default via 10.66.0.1 dev own") == 0);
    for (int i = 0; i < 500; i++) { /* the kernel reports a link a moment after it is set up */
        CHECK(plait_hosts_find("", &found) == PLAIT_OK);
        CHECK(plait_hosts_list(&found, 1, all) == PLAIT_MOST_ADDRESSES);
        if (strcmp(plait_address_text(&all[0], false, first), "10.66.0.7") == 0)
            break;
        usleep(10000);
    }
    CHECK(strcmp(plait_address_text(&all[0], false, first), "10.66.0.7") == 0);
    CHECK(plait_hosts_find("nope", &found) == PLAIT_ERR_CONFIG);
    CHECK(strstr(plait_last_error(), "PLAIT_IFNAME or NCCL_SOCKET_IFNAME='nope'") != NULL);
    return 0;
}

static void bridges_of_containers_do_not_hide_the_host(void **state)
{
    assert_int_equal(run_ranks(choose_beside_bridges, 1), 0);
}

/* Rank 1 of the others meets rank 0 although the first addresses lead nowhere, or to its own host. */
static int find_a_way(struct scene *s)
{
    struct plait_bootstrap *b;
    char log[2048] = "", path[] = "/tmp/plait-hosts-XXXXXX";
    struct plait_config config;
    const int fd = mkstemp(path);

    CHECK(fd >= 0);
    setenv("PLAIT_LOG", "info", 1);
    setenv("PLAIT_LOG_FILE", path, 1);
    CHECK(plait_config_load(&config) == PLAIT_OK);
    share_id(s);
    CHECK(plait_bootstrap_create(s->id, s->rank, 4, 30, PLAIT_OK, &b) == PLAIT_OK);
    CHECK(plait_bootstrap_nodes(b)->n > 1 && strcmp(plait_bootstrap_nodes(b)->devices, "eth0") == 0);
    plait_bootstrap_destroy(b);
    CHECK(read(fd, log, sizeof log - 1) > 0);
    unlink(path);
    if (s->rank > 0)
        CHECK(strstr(log, "rank 0 answers at 10.77.0.2:") != NULL);
    else
        CHECK(strstr(log, "eth1 10.88.0.2 (device) docker0 172.17.0.1 (bridge)") != NULL &&
              strstr(log, "eth9 10.99.0.2 (down)") != NULL);
    return 0;
}

/* Over these interfaces ranks do not meet. Rank 0 waits longer, so that its end is not what the other finds. */
static int meet_in_vain(struct scene *s, const char *ifname)
{
    struct plait_bootstrap *b;

    setenv("PLAIT_IFNAME", ifname, 1);
    share_id(s);
    CHECK(plait_bootstrap_create(s->id, s->rank, 2, s->rank == 0 ? 5 : 3, PLAIT_OK, &b) == PLAIT_ERR_TIMEOUT);
    return 0;
}

/* Only addresses that lead nowhere: the error says which, and why. */
static int find_no_way(struct scene *s)
{
    CHECK(meet_in_vain(s, "eth1,docker") == 0);
    if (s->rank > 0)
        CHECK(strstr(plait_last_error(), "10.88.0.2:") != NULL && strstr(plait_last_error(), "172.17.0.1:") != NULL &&
              strstr(plait_last_error(), "Connection refused") != NULL);
    return 0;
}

static int find_loopback_only(struct scene *s)
{
    CHECK(meet_in_vain(s, "=lo") == 0);
    if (s->rank > 0)
        CHECK(strstr(plait_last_error(), "other hosts cannot be reached at loopback addresses") != NULL);
    return 0;
}

static void interfaces_are_chosen_by_name_prefix_and_exclusion(void **state)
{
    add_interfaces();
    assert_int_equal(run_ranks(choose, 1), 0);
    assert_int_equal(run_ranks(choose_for_data, 1), 0);
}

static void ranks_find_the_address_that_they_reach(void **state)
{
    add_interfaces();
    assert_int_equal(run_ranks(find_a_way, 4), 0);
    assert_int_equal(run_ranks(find_no_way, 2), 0);
    assert_int_equal(run_ranks(find_loopback_only, 2), 0);
}

/* ---- Names ---------------------------------------------------------------------------------------------------- */

/* What this process finds in /etc/hosts. */
static bool set_hosts_file(const char *line)
{
    char path[] = "/tmp/plait-etc-XXXXXX";
    const int fd = mkstemp(path);
    bool ok = fd >= 0 && write(fd, line, strlen(line)) == (ssize_t)strlen(line) && unshare(CLONE_NEWNS) == 0 &&
              mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
              mount(path, "/etc/hosts", NULL, MS_BIND, NULL) == 0;

    close(fd);
    unlink(path);
    return ok;
}

static bool look_like_slurm(const struct scene *s)
{
    char text[16];

    snprintf(text, sizeof text, "%u", s->rank);
    setenv("SLURM_PROCID", text, 1);
    setenv("SLURM_NTASKS", "3", 1);
    setenv("SLURM_STEP_ID", "0", 1);
    setenv("SLURM_JOB_ID", "4711", 1);
    setenv("SLURM_STEP_NUM_NODES", "2", 1);
    setenv("SLURM_STEP_NODELIST", "node[0-1]", 1);
    return true;
}

static bool look_like_torchrun(const struct scene *s)
{
    char text[16];

    snprintf(text, sizeof text, "%u", s->rank);
    setenv("RANK", text, 1);
    setenv("WORLD_SIZE", "3", 1);
    setenv("MASTER_ADDR", "node0", 1);
    setenv("MASTER_PORT", "29500", 1);
    return true;
}

/* As on Debian: a host's own name is a loopback address there, and the others know better. */
static int meet_at_a_name(struct scene *s, bool (*look)(const struct scene *))
{
    struct plait_bootstrap *b;
    struct plait_launch launch;

    CHECK(set_hosts_file(s->rank == 0 ? "127.0.1.1 node0\n" : "10.77.0.2 node0\n") && look(s));
    CHECK(plait_launch_find(&launch) == PLAIT_OK && launch.rank == s->rank);
    CHECK(plait_bootstrap_create(&launch.id, launch.rank, launch.nrank, 30, PLAIT_OK, &b) == PLAIT_OK);
    CHECK(plait_bootstrap_nodes(b)->n == 2);
    plait_bootstrap_destroy(b);
    return 0;
}

static int meet_as_torchrun(struct scene *s)
{
    return meet_at_a_name(s, look_like_torchrun);
}

static int meet_as_slurm(struct scene *s)
{
    return meet_at_a_name(s, look_like_slurm);
}

/* The others have the same file: the error says what is wrong with it. */
static int miss_at_a_name(struct scene *s)
{
    struct plait_bootstrap *b;
    struct plait_launch launch;

    CHECK(set_hosts_file("127.0.1.1 node0\n") && look_like_torchrun(s));
    CHECK(plait_launch_find(&launch) == PLAIT_OK);
    CHECK(plait_bootstrap_create(&launch.id, launch.rank, launch.nrank, s->rank == 0 ? 3 : 1, PLAIT_OK, &b) ==
          PLAIT_ERR_TIMEOUT);
    if (s->rank > 0)
        CHECK(strstr(plait_last_error(), "127.0.1.1:") != NULL && strstr(plait_last_error(), "/etc/hosts") != NULL);
    return 0;
}

static void loopback_host_names_are_no_obstacle_or_are_named(void **state)
{
    assert_int_equal(run_ranks(meet_as_torchrun, 3), 0);
    assert_int_equal(run_ranks(meet_as_slurm, 3), 0);
    assert_int_equal(run_ranks(miss_at_a_name, 3), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nodes_are_who_can_pass_descriptors, open_hosts, close_hosts),
        cmocka_unit_test_setup_teardown(derived_ids_meet_at_another_host, open_hosts, close_hosts),
        cmocka_unit_test_setup_teardown(interfaces_are_chosen_by_name_prefix_and_exclusion, open_hosts, close_hosts),
        cmocka_unit_test_setup_teardown(bridges_of_containers_do_not_hide_the_host, open_hosts, close_hosts),
        cmocka_unit_test_setup_teardown(ranks_find_the_address_that_they_reach, open_hosts, close_hosts),
        cmocka_unit_test_setup_teardown(loopback_host_names_are_no_obstacle_or_are_named, open_hosts, close_hosts),
    };

    /* A name space of its own, so that nothing of it is seen outside, or left. */
    if (unshare(CLONE_NEWNET) != 0 || run("ip link add x type veth peer name y 2>/dev/null && ip link del x") != 0) {
        printf("no network name spaces and virtual links here (unshare: %s): this needs root and the ip program\n",
               strerror(errno));
        return 77;
    }
    return cmocka_run_group_tests_name("hosts", tests, NULL, NULL);
}
