/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bridges and links. In the supervisor's namespace: a bridge rackR, a port hostH of each host; and with racks a bridge
 * core and a link from upR (on the rack's bridge) to downR (on core). A host sees its end as eth0. Both ends of a link
 * are shaped.
 */
#include "hosts.h"

#include "child.h"
#include "message.h"
#include "program.h"

#include <errno.h>
#include <linux/capability.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char ip[4096], tc[4096];

void wires_address(uint32_t h, char *text)
{
    snprintf(text, HOSTS_ADDRESS_SIZE, "10.77.%u.%u", h / 250 % 250, h % 250 + 1);
}

/* The PATH of users other than root may lack /usr/sbin. */
static void find_tool(const char *name, char out[4096])
{
    if (!child_find(name, "/usr/sbin:/sbin", out, 4096))
        give_up(HOSTS_FAILED, "%s is missing: install the package iproute2 (tools/setup does)", name);
}

void wires_find_tools(const struct hosts_plan *plan)
{
    find_tool("ip", ip);
    if (plan->link > 0 || plan->uplink > 0)
        find_tool("tc", tc);
}

/* In a user namespace, programs that this process starts keep CAP_NET_ADMIN only as an ambient capability. */
static void hand_on_rights(void)
{
    struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct data[2];

    if (syscall(SYS_capget, &header, data) != 0)
        return;
    data[0].inheritable |= data[0].permitted & (1U << CAP_NET_ADMIN);
    if (syscall(SYS_capset, &header, data) == 0)
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_ADMIN, 0, 0);
}

static _Noreturn void run_tool(const char *path, int commands)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    hand_on_rights();
    dup2(commands, STDIN_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execl(path, path, "-batch", "-", (char *)NULL);
    _exit(127);
}

/* Run the commands of `text`, one a line, by ip or tc, which stop at the first that fails and name it. */
static void batch(const char *path, const char *text, const char *what)
{
    const size_t length = strlen(text);
    const int commands = memfd_create("commands", MFD_CLOEXEC);
    pid_t pid;
    int status;

    if (length == 0) {
        close(commands);
        return;
    }
    if (commands < 0 || write(commands, text, length) != (ssize_t)length || lseek(commands, 0, SEEK_SET) != 0)
        give_up(HOSTS_FAILED, "%s: %s", what, strerror(errno));
    pid = fork();
    if (pid == 0)
        run_tool(path, commands);
    close(commands);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        give_up(HOSTS_FAILED, "%s: %s", what, strerror(errno));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        char *first = strndup(text, 2000);
        give_up(HOSTS_FAILED, "%s failed: %s refused one of\n%s%s", what, path, first, length > 2000 ? "...\n" : "");
    }
}

/*
 * The burst is the data of 0.2 ms, but at least a packet before segmentation: 64 KiB plus the headers of its 45
 * segments. Packets longer than the burst are segmented, and 4 hosts with links of 1 Gbit/s then take all of two
 * processors to half fill them.
 */
static void shape(FILE *to, const char *device, uint32_t number, uint64_t rate)
{
    const uint64_t enough = rate / 8 / 5000, least = 72 << 10;

    if (rate > 0)
        fprintf(to, "qdisc add dev %s%u root tbf rate %llubit burst %llu latency 50ms\n", device, number,
                (unsigned long long)rate, (unsigned long long)(enough > least ? enough : least));
}

static FILE *begin(char **text, size_t *size)
{
    FILE *to = open_memstream(text, size);

    if (to == NULL)
        give_up(HOSTS_FAILED, "out of memory");
    return to;
}

void wires_make(const struct hosts_plan *plan, const struct host *hosts)
{
    const uint32_t nrack = plan->nrack > 0 ? plan->nrack : 1;
    char *links, *limits;
    size_t size;
    FILE *l = begin(&links, &size), *t = begin(&limits, &size);

    for (uint32_t r = 0; r < nrack; r++)
        fprintf(l, "link add name rack%u type bridge\nlink set rack%u up\n", r, r);
    if (plan->nrack > 0)
        fprintf(l, "link add name core type bridge\nlink set core up\n");
    for (uint32_t r = 0; r < plan->nrack; r++) {
        fprintf(l, "link add name up%u type veth peer name down%u\n", r, r);
        fprintf(l, "link set up%u master rack%u up\nlink set down%u master core up\n", r, r, r);
        shape(t, "up", r, plan->uplink);
        shape(t, "down", r, plan->uplink);
    }
    for (uint32_t h = 0; h < plan->nhost; h++) {
        fprintf(l, "link add name host%u type veth peer name eth0 netns %d\n", h, hosts[h].pid);
        fprintf(l, "link set host%u master rack%u up\n", h, h * nrack / plan->nhost);
        shape(t, "host", h, plan->link);
    }
    fclose(l);
    fclose(t);
    batch(ip, links, "joining the hosts");
    batch(tc, limits, "shaping the links");
    free(links);
    free(limits);
}

/* Wait until an interface carries packets, see wires_run(). */
static bool runs(const char *name)
{
    const int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request = { 0 };
    bool carries = false;

    strncpy(request.ifr_name, name, sizeof request.ifr_name - 1);
    for (int looks = 0; s >= 0 && !carries && looks < 1000; looks++) {
        carries = ioctl(s, SIOCGIFFLAGS, &request) == 0 && request.ifr_flags & IFF_RUNNING;
        if (!carries)
            usleep(10000);
    }
    if (s >= 0)
        close(s);
    return carries;
}

void wires_finish(const struct hosts_plan *plan, uint32_t h)
{
    char address[HOSTS_ADDRESS_SIZE], *links, *limits;
    size_t size;
    FILE *l = begin(&links, &size), *t = begin(&limits, &size);

    wires_address(h, address);
    fprintf(l, "link set lo up\naddr add %s/16 broadcast + dev eth0\nlink set eth0 up\n", address);
    shape(t, "eth", 0, plan->link);
    fclose(l);
    fclose(t);
    batch(ip, links, "setting up a host's network");
    batch(tc, limits, "shaping a host's link");
    free(links);
    free(limits);
    if (!runs("eth0"))
        tell("the link of host%u carries nothing after 10 s", h);
}

bool wires_run(uint32_t h)
{
    char name[IFNAMSIZ];

    snprintf(name, sizeof name, "host%u", h);
    return runs(name);
}

bool wires_set(uint32_t h, bool up)
{
    const int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request = { 0 };
    bool good;
    int error;

    snprintf(request.ifr_name, sizeof request.ifr_name, "host%u", h);
    good = s >= 0 && ioctl(s, SIOCGIFFLAGS, &request) == 0;
    request.ifr_flags = (short)(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
    good = good && ioctl(s, SIOCSIFFLAGS, &request) == 0;
    error = errno;
    if (s >= 0)
        close(s);
    errno = error;
    return good;
}
