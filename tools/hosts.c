/* SPDX-License-Identifier: BSD-3-Clause */
/* plait-hosts: the command line. */
#include "hosts.h"

#include "base/ascii.h"
#include "message.h"
#include "option.h"
#include "program.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_CUTS 256

static struct hosts_plan plan;
static const char *link_rate, *uplink_rate, *ranks = "1", *cuts_text;
static uint32_t of;

static const struct option options[] = {
    OPTION_TO(TEXT, "ranks", "K", &ranks, "ranks of each host (default 1), or one number for each host: 3+1+0"),
    OPTION_TO(TEXT, "link", "RATE", &link_rate,
              "rate of each host's link, each way: 1gbit, 250mbit (default: no limit)"),
    OPTION_TO(COUNT, "racks", "R", &plan.nrack, "spread the hosts over R racks, each a bridge (default: one bridge)",
              .least = 1, .most = HOSTS_MAX),
    OPTION_TO(TEXT, "uplink", "RATE", &uplink_rate, "rate of the link between a rack and the others, each way"),
    OPTION_TO(TEXT, "latency", "TIME", &plan.latency,
              "delay of Plait's messages, such as 20us; sets PLAIT_PACE and PLAIT_FOR_TESTS"),
    OPTION_TO(TEXT, "cut", "S:HOST[:S],...", &cuts_text,
              "S seconds after the start take the link of HOST down, for S seconds or for good"),
    OPTION_TO(TEXT, "share", "DIR[:DIR...]", &plan.share, "folders in /tmp or /dev/shm that all hosts see"),
    OPTION_TO(FLAG, "raw", NULL, &plan.raw, "no prefix: ranks use this terminal's input and output"),
    OPTION_TO(COUNT, "of", "PID", &of, "for link: process ID of the plait-hosts to change", .least = 1,
              .most = INT32_MAX),
    OPTION_TO(HELP, "help", NULL, NULL, "show this"),
};

static const struct option_table table = {
    "Usage: plait-hosts N [options] -- COMMAND [ARGUMENT ...] | link down|up HOST --of PID | on HOST COMMAND ...\n"
    "\n"
    "Runs COMMAND on N virtual hosts, host0, host1 and so on, on this machine. Each has its own processes, network,\n"
    "host name, /dev/shm and /tmp, and sees the other files of the machine. Hosts reach each other, by name or\n"
    "address (10.77.0.1 and following, device eth0), and nothing else.\n"
    "\n"
    "A rank finds HOST_INDEX, HOST_COUNT and torchrun's RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK,\n"
    "MASTER_ADDR and MASTER_PORT in its environment. [HOST RANK] precedes each line that it prints.\n"
    "The exit status is that of the first rank that failed, 128 + n for signal n; 125: the hosts could not be made.\n"
    "All hosts end with this process, however it ends. The working directory is shared, wherever it is.\n"
    "\n"
    "link takes the link of one host down, as if its cable were pulled, or up again. on works in commands that run on "
    "a\n"
    "host: it runs COMMAND in a shell of HOST, as ssh does. HOST_RSH holds it for scripts, and mpirun is set to use "
    "it.\n\n"
    "  $ plait-hosts 4 --ranks 2 --link 1gbit -- plait-info\n"
    "  $ plait-hosts 4 --racks 2 --link 1gbit --uplink 250mbit -- ping -c 3 host0\n"
    "  $ plait-hosts 2 --cut 5:1:2 -- ./train\n"
    "  $ plait-hosts 1 --raw -- bash\n"
    "  $ plait-hosts link down 1 --of 4711\n"
    "  $ plait-hosts 2 --ranks 1+0 -- mpirun --bind-to none -H host0,host1 ./program\n\n"
    "Options:\n",
    NULL, options, sizeof options / sizeof *options, sizeof *options
};

static struct option_given given[sizeof options / sizeof *options];

static const char *flag_of(const char *name)
{
    return option_flag(&table, given, name);
}

/* ---- Arguments --------------------------------------------------------------------------------- */

static bool whole(const char *text, uint32_t least, uint32_t most, uint32_t *out)
{
    const char *end;

    return number_begins(text, least, most, &end, out) && *end == '\0';
}

/* The same of a decimal. */
static bool decimal(const char *text, double most, const char **end, double *out)
{
    char *stop;

    if (!isdigit((unsigned char)*text))
        return false;
    *out = plait_real(text, &stop);
    *end = stop;
    return *out <= most;
}

/* In bit/s; 0 when it was not given. */
static uint64_t rate(const char *option, const char *text)
{
    static const struct {
        const char *unit;
        double factor;
    } units[] = { { "kbit", 1e3 }, { "mbit", 1e6 }, { "gbit", 1e9 } };
    const char *end;
    double value;

    if (text == NULL)
        return 0;
    for (size_t i = 0; decimal(text, 1e12, &end, &value) && i < sizeof units / sizeof *units; i++)
        if (strcmp(end, units[i].unit) == 0 && value * units[i].factor >= 8e3 && value * units[i].factor <= 1e12)
            return (uint64_t)(value * units[i].factor);
    option_misuse("%s %s: must be a rate from 8kbit to 1000gbit, such as 250mbit", option, text);
}

static void parse_ranks(void)
{
    const char *at = ranks;
    uint32_t n;

    for (uint32_t h = 0; h < plan.nhost; h++) {
        if (!number_begins(at, strchr(ranks, '+') == NULL, HOSTS_MAX, &at, &n) || (*at != '\0' && *at != '+'))
            option_misuse("%s %s: must be a number from 1 to %u, or one for each of the %u hosts with + between",
                          flag_of("ranks"), ranks, HOSTS_MAX, plan.nhost);
        plan.first[h + 1] = plan.first[h] + n;
        if (strchr(ranks, '+') == NULL)
            at = ranks;
        else if ((*at == '+') != (h + 1 < plan.nhost))
            option_misuse("%s %s: must have one number for each of the %u hosts", flag_of("ranks"), ranks, plan.nhost);
        else
            at += *at == '+';
    }
    if (plan.first[plan.nhost] == 0)
        option_misuse("%s %s: must have at least one rank in all", flag_of("ranks"), ranks);
}

static int by_time(const void *a, const void *b)
{
    const double x = ((const struct hosts_cut *)a)->when, y = ((const struct hosts_cut *)b)->when;

    return (x > y) - (x < y);
}

static uint32_t parse_cuts(struct hosts_cut *cuts)
{
    const char *at = cuts_text != NULL ? cuts_text : "";
    uint32_t n = 0;

    while (*at != '\0') {
        struct hosts_cut c = { 0, 0, false };
        double length;

        if (n + 2 > MAX_CUTS)
            option_misuse("--cut: at most %u changes of links", MAX_CUTS);
        if (!decimal(at, 1e6, &at, &c.when) || *at++ != ':' || !number_begins(at, 0, plan.nhost - 1, &at, &c.host))
            break;
        cuts[n++] = c;
        if (*at == ':') {
            if (!decimal(at + 1, 1e6, &at, &length))
                break;
            cuts[n++] = (struct hosts_cut){ c.when + length, c.host, true };
        }
        if (*at == ',' && at[1] != '\0')
            at++;
        else if (*at != '\0')
            break;
    }
    if (*at != '\0' || (cuts_text != NULL && n == 0))
        option_misuse("--cut %s: must be SECONDS:HOST or SECONDS:HOST:SECONDS, with HOST from 0 to %u", cuts_text,
                      plan.nhost - 1);
    qsort(cuts, n, sizeof *cuts, by_time);
    return n;
}

static void check_latency(void)
{
    const char *end;
    double value;

    if (plan.latency == NULL)
        return;
    if (!decimal(plan.latency, 1e10, &end, &value) || value <= 0 || (strcmp(end, "us") != 0 && strcmp(end, "ms") != 0))
        option_misuse("--latency %s: must be a time such as 20us or 1.5ms", plan.latency);
}

static void check_share(void)
{
    char *all = strdup(plan.share != NULL ? plan.share : ""), *rest = all;
    struct stat info;

    for (char *folder = strsep(&rest, ":"); plan.share != NULL && folder != NULL; folder = strsep(&rest, ":"))
        if (*folder != '/' || stat(folder, &info) != 0 || !S_ISDIR(info.st_mode))
            option_misuse("--share %s: must be the absolute path of a folder", folder);
    free(all);
}

/* ---- Commands ---------------------------------------------------------------------------------- */

/* A link of another plait-hosts, from inside its namespace of the bridges. */
static int set_link(int nrest, char **rest)
{
    const bool up = nrest > 1 && strcmp(rest[1], "up") == 0;
    struct stat ours, theirs;
    char path[64];
    uint32_t h;
    int user, net;

    if (nrest != 3 || (!up && strcmp(rest[1], "down") != 0) || !whole(rest[2], 0, HOSTS_MAX - 1, &h))
        option_misuse("link needs 'down' or 'up' and the number of a host");
    if (of == 0)
        option_misuse("link needs --of PID, the process ID of a running plait-hosts");
    snprintf(path, sizeof path, "/proc/%u/ns/user", of);
    user = open(path, O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof path, "/proc/%u/ns/net", of);
    net = open(path, O_RDONLY | O_CLOEXEC);
    if (user < 0 || net < 0)
        give_up(HOSTS_FAILED, "--of %u: %s", of, strerror(errno));
    if (fstat(net, &theirs) != 0 || stat("/proc/self/ns/net", &ours) != 0 || ours.st_ino == theirs.st_ino)
        give_up(HOSTS_FAILED, "--of %u: not a running plait-hosts", of);
    setns(user, CLONE_NEWUSER); /* fails where it is ours */
    if (setns(net, CLONE_NEWNET) != 0)
        give_up(HOSTS_FAILED, "--of %u: entering its network: %s; be root or the user who started it", of,
                strerror(errno));
    if (!wires_set(h, up))
        give_up(HOSTS_FAILED, "the link of host%u of process %u: %s", h, of, strerror(errno));
    if (up && !wires_run(h))
        give_up(HOSTS_FAILED, "the link of host%u of process %u is up, but carries nothing after 10 s", h, of);
    return 0;
}

/* The ranks of this run let in nobody else, and need no warning that they do. */
static void set_secret(void)
{
    uint64_t random[2];
    char text[33];

    if (getenv("PLAIT_SECRET") != NULL || getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return;
    snprintf(text, sizeof text, "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
    setenv("PLAIT_SECRET", text, 1);
}

static int run(void)
{
    static struct hosts_cut cuts[MAX_CUTS];
    uint32_t ncut;

    if (plan.nrack > plan.nhost)
        option_misuse("--racks %u: must be a number from 1 to that of the hosts, %u", plan.nrack, plan.nhost);
    if (uplink_rate != NULL && plan.nrack == 0)
        option_misuse("--uplink needs --racks");
    if (of != 0)
        option_misuse("--of has an effect only with link; leave it out");
    plan.link = rate("--link", link_rate);
    plan.uplink = rate("--uplink", uplink_rate);
    parse_ranks();
    check_latency();
    check_share();
    ncut = parse_cuts(cuts);
    set_secret();
    return supervise(&plan, cuts, ncut);
}

static int command(int argc, char **argv)
{
    int own = 1, nrest;

    if (argc > 1 && strcmp(argv[1], "on") == 0)
        return session_run(argv + 2);
    while (own < argc && strcmp(argv[own], "--") != 0)
        own++;
    if (!option_parse(&table, NULL, given, own, argv, &nrest))
        return 2;
    if (nrest > 0 && strcmp(argv[1], "link") == 0)
        return set_link(nrest, argv + 1);
    if (nrest == 0 || !whole(argv[1], 1, HOSTS_MAX, &plan.nhost))
        option_misuse("%s: the first argument must be the number of hosts, from 1 to %u",
                      nrest == 0 ? "nothing to do" : argv[1], HOSTS_MAX);
    if (nrest > 1)
        option_misuse("unexpected argument '%s'; the command comes after --", argv[2]);
    if (own + 1 >= argc)
        option_misuse("the command is missing: %s -- COMMAND", argv[1]);
    plan.command = argv + own + 1;
    return run();
}

int main(int argc, char **argv)
{
    program_begin("plait-hosts");
    return program_end(command(argc, argv));
}
