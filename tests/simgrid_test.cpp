// SPDX-License-Identifier: BSD-3-Clause
// Predictions beside those of SimGrid, another simulator, for the same plans on the same machines. SimGrid runs the plan
// as a graph of messages and computations; it knows nothing of the library's engine. Each cell is a process of its own,
// as a process has one simulation.
#include <plait/simulate.h>

#include <simgrid/s4u.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace sg4 = simgrid::s4u;

static plait_machine flat(uint32_t nrank)
{
    plait_machine m = {};

    snprintf(m.name, sizeof m.name, "flat");
    m.nlevel = 1;
    m.level[0] = { "cluster", nrank, 1, 12500000000, 2000, 0, 0, 0, 0, "" };
    return m;
}

static plait_machine hosts(uint32_t nrank)
{
    plait_machine m = {};

    snprintf(m.name, sizeof m.name, "hosts");
    m.nlevel = 2;
    m.level[0] = { "host", 8, 1, 100000000000, 1000, 0, 0, 0, 0, "" };
    m.level[1] = { "cluster", nrank / 8, 4, 12500000000, 3000, 0, 0, 0, 0, "" };
    m.reduce = 50000000000;
    return m;
}

static plait_machine racks(uint32_t nrank)
{
    plait_machine m = {};

    snprintf(m.name, sizeof m.name, "racks");
    m.nlevel = 3;
    m.level[0] = { "host", 2, 1, 20000000000, 500, 0, 0, 0, 0, "" };
    m.level[1] = { "rack", 4, 1, 5000000000, 4000, 0, 0, 0, 0, "" };
    m.level[2] = { "cluster", nrank / 8, 1, 5000000000, 8000, 0, 0, 0, 0, "" };
    return m;
}

using build = plait_machine (*)(uint32_t);

// ---- The machine in SimGrid

struct platform {
    const plait_machine &m;
    sg4::NetZone *zone;
    std::vector<sg4::Host *> host;
    std::vector<sg4::Host *> wire; // to each rank: a message is on it for as long as its flops are nanoseconds
    std::map<std::string, sg4::Link *> links;

    platform(const plait_machine &machine, uint32_t nrank) : m(machine), zone(sg4::create_full_zone("root"))
    {
        for (uint32_t r = 0; r < nrank; r++)
            host.push_back(zone->create_host(std::to_string(r), m.reduce > 0 ? (double)m.reduce : 1e15));
        for (auto *h : host)
            h->seal();
        for (uint32_t r = 0; r < nrank; r++) {
            wire.push_back(zone->create_host("to " + std::to_string(r), 1e9));
            wire.back()->set_core_count(4096)->seal();
        }
        for (uint32_t a = 0; a < nrank; a++)
            for (uint32_t b = 0; b < nrank; b++)
                if (a != b)
                    zone->add_route(host[a]->get_netpoint(), host[b]->get_netpoint(), nullptr, nullptr, route(a, b),
                                    false);
        zone->seal();
    }

    sg4::Link *link(const std::string &name, double bandwidth, double latency, bool shared)
    {
        sg4::Link *&l = links[name];
        if (l == nullptr) {
            l = zone->create_link(name, bandwidth);
            l->set_latency(latency)->set_sharing_policy(shared ? sg4::Link::SharingPolicy::SHARED
                                                               : sg4::Link::SharingPolicy::FATPIPE);
            l->seal();
        }
        return l;
    }

    uint32_t unit(uint32_t rank, uint32_t level) const
    {
        for (uint32_t k = 0; k <= level; k++)
            rank /= m.level[k].children;
        return rank;
    }

    // The links of each unit on the way, what one message may take of them, and the latency of the whole.
    std::vector<sg4::LinkInRoute> route(uint32_t a, uint32_t b)
    {
        std::vector<sg4::LinkInRoute> out;
        uint32_t top = 0;

        while (unit(a, top) != unit(b, top))
            top++;
        for (uint32_t k = 0; k <= top; k++) {
            const std::string level = std::to_string(k) + ".";
            const uint32_t from = k > 0 ? unit(a, k - 1) : a, to = k > 0 ? unit(b, k - 1) : b;
            const double one = (double)m.level[k].bandwidth, all = one * m.level[k].links;
            out.emplace_back(link(level + std::to_string(from) + ".up", all, 0, true));
            out.emplace_back(link(level + std::to_string(to) + ".down", all, 0, true));
            out.emplace_back(link(level + "one", one, 0, false));
        }
        return out;
    }

    uint32_t meet(uint32_t a, uint32_t b) const // the level at which they meet
    {
        uint32_t top = 0;

        while (unit(a, top) != unit(b, top))
            top++;
        return top;
    }
};

// ---- The plan in SimGrid

static const plait_step *steps_of(const plait_plan *plan)
{
    return reinterpret_cast<const plait_step *>(plan + 1);
}

static double bytes_of(const plait_plan *plan, const plait_step &s, size_t count)
{
    return 4.0 * (double)(plait_block_start(count, plan->nblk, s.blk + s.nblk) -
                          plait_block_start(count, plan->nblk, s.blk));
}

static void precede(const sg4::ActivityPtr &x, const sg4::ActivityPtr &next)
{
    if (auto *c = dynamic_cast<sg4::Comm *>(x.get()))
        c->add_successor(next);
    else
        dynamic_cast<sg4::Exec &>(*x).add_successor(next);
}

// One activity for each message and each reduction; copies take no time. A step without an activity hands its
// predecessors' on.
static double run_plans(const platform &p, const std::vector<plait_plan *> &plans, size_t count)
{
    using key = std::tuple<uint32_t, uint32_t, uint32_t, uint32_t>; // sender, receiver, lane, number
    struct message {
        sg4::CommPtr sent; // it has left the sender
        sg4::ExecPtr arrived;
    };
    std::map<key, message> messages;
    std::vector<std::pair<sg4::ExecPtr, sg4::Host *>> sums;
    std::vector<std::vector<std::vector<sg4::ActivityPtr>>> ends(plans.size()); // [rank][step] what its end waits for

    for (uint32_t r = 0; r < plans.size(); r++) {
        std::map<key, uint32_t> numbers;
        ends[r].resize(plans[r]->nstep);
        for (uint32_t i = 0; i < plans[r]->nstep; i++) {
            const plait_step &s = steps_of(plans[r])[i];
            std::vector<sg4::ActivityPtr> before;
            for (uint32_t d = 0; d < s.ndep; d++)
                for (const auto &x : ends[r][plait_plan_deps(plans[r])[s.dep0 + d]])
                    before.push_back(x);
            sg4::ActivityPtr own, end;
            if (s.verb == PLAIT_STEP_SEND || s.verb == PLAIT_STEP_RECV) {
                const uint32_t from = s.verb == PLAIT_STEP_SEND ? r : (uint32_t)s.peer,
                               to = s.verb == PLAIT_STEP_SEND ? (uint32_t)s.peer : r;
                const uint32_t number = numbers[key(from, to, s.lane, 0)]++;
                message &m = messages[key(from, to, s.lane, number)];
                if (m.sent == nullptr) {
                    m.sent = sg4::Comm::sendto_init();
                    m.sent->set_payload_size((uint64_t)bytes_of(plans[r], s, count));
                    m.arrived = sg4::Exec::init();
                    m.arrived->set_flops_amount((double)p.m.level[p.meet(from, to)].latency);
                    m.sent->add_successor(m.arrived);
                    sums.emplace_back(m.arrived, p.wire[to]);
                }
                own = m.sent;
                if (s.verb == PLAIT_STEP_RECV)
                    end = m.arrived;
            } else if (s.verb == PLAIT_STEP_REDUCE && p.m.reduce > 0) {
                sg4::ExecPtr e = sg4::Exec::init();
                e->set_flops_amount(bytes_of(plans[r], s, count));
                sums.emplace_back(e, p.host[r]);
                own = e;
            }
            if (own == nullptr) {
                ends[r][i] = before;
                continue;
            }
            std::sort(before.begin(), before.end());
            before.erase(std::unique(before.begin(), before.end()), before.end());
            for (auto &x : before)
                if (x != own && x->get_dependencies().count(own) == 0 && own->get_dependencies().count(x) == 0)
                    precede(x, own); // a message can come before another on both sides
            ends[r][i] = { end != nullptr ? end : own };
        }
    }
    // Messages of a pair have one connection: they leave one after the other.
    for (auto &[k, m] : messages) {
        const auto next = messages.find(key(std::get<0>(k), std::get<1>(k), std::get<2>(k), std::get<3>(k) + 1));
        if (next != messages.end() && next->second.sent->get_dependencies().count(m.sent) == 0)
            m.sent->add_successor(next->second.sent);
    }
    // An activity begins when it has its place and what comes before it is done.
    for (auto &[e, host] : sums)
        e->set_host(host);
    for (auto &[k, m] : messages) {
        m.sent->set_source(p.host[std::get<0>(k)]);
        m.sent->set_destination(p.host[std::get<1>(k)]);
    }
    sg4::Engine::get_instance()->run();
    return sg4::Engine::get_clock();
}

// ---- Cells

struct cell {
    const char *spec;
    build machine;
    uint32_t nrank;
};

[[noreturn]] static void give_up(const cell &c)
{
    fprintf(stderr, "%s, %u ranks: %s\n", c.spec, c.nrank, plait_last_error());
    exit(1);
}

static double by_simgrid(const cell &c, size_t count)
{
    const plait_machine m = c.machine(c.nrank);
    std::vector<uint32_t> node(c.nrank);
    plait_shape shape = {};
    const plait_alg *alg;

    shape.coll = PLAIT_ALLREDUCE;
    shape.nrank = c.nrank;
    for (uint32_t r = 0; r < c.nrank; r++)
        node[r] = r / m.level[0].children;
    shape.node = m.nlevel > 1 ? node.data() : nullptr;
    if (plait_alg_find(plait_algs, c.spec, &shape, &alg) != PLAIT_OK)
        give_up(c);
    std::vector<plait_plan *> plans(c.nrank);
    for (uint32_t r = 0; r < c.nrank; r++)
        if (plait_plan_emit(alg, &shape, r, &plans[r]) != PLAIT_OK)
            give_up(c);
    sg4::Engine::set_config("network/model:CM02"); // latency and fair shares, without factors for TCP
    sg4::Engine::set_config("network/TCP-gamma:0");
    sg4::Engine::set_config("network/crosstraffic:0");
    const platform p(m, c.nrank);
    return run_plans(p, plans, count);
}

// In a process of its own.
static double in_child(const cell &c, size_t count)
{
    int ends[2], state;
    double seconds = NAN;

    if (pipe(ends) != 0)
        exit(1);
    const pid_t child = fork();
    if (child == 0) {
        int argc = 2;
        char name[] = "simgrid_test", quiet[] = "--log=root.thres:critical", *argv[] = { name, quiet, nullptr };
        sg4::Engine e(&argc, argv);
        seconds = by_simgrid(c, count);
        _exit(write(ends[1], &seconds, sizeof seconds) != sizeof seconds);
    }
    close(ends[1]);
    if (read(ends[0], &seconds, sizeof seconds) != sizeof seconds)
        seconds = NAN;
    close(ends[0]);
    waitpid(child, &state, 0);
    return seconds;
}

static double by_plait(const cell &c, size_t count)
{
    plait_machine m = c.machine(c.nrank);
    plait_shape shape = {};
    plait_prediction p;

    m.cache = (size_t)1 << 40; // one slice
    shape.coll = PLAIT_ALLREDUCE;
    shape.nrank = c.nrank;
    if (plait_simulate(&m, c.spec, &shape, PLAIT_FLOAT32, count, nullptr, &p) != PLAIT_OK)
        give_up(c);
    return 1e-12 * (double)p.time;
}

int main()
{
    const char *const specs[] = { "ring", "halving-doubling", "torus", "double-tree", "binomial" };
    const build machines[] = { flat, hosts, racks };
    const bool full = getenv("PLAIT_TEST_TIER") != nullptr && strcmp(getenv("PLAIT_TEST_TIER"), "full") == 0;
    std::vector<uint32_t> ranks = { 16, 24, 32, 40 };
    std::vector<double> apart;
    const size_t count = 300000;
    double worst = 0;

    if (full) // a quarter of an hour
        ranks.insert(ranks.end(), { 48, 64, 128, 256 });
    setvbuf(stdout, nullptr, _IOLBF, 0);
    printf("%-8s %-18s %5s %12s %12s %7s\n", "machine", "algorithm", "ranks", "plait (us)", "SimGrid (us)", "apart");
    for (const build machine : machines)
        for (const char *spec : specs)
            for (const uint32_t n : ranks) {
                const cell c = { spec, machine, n };
                const double ours = by_plait(c, count), theirs = in_child(c, count), d = std::abs(ours / theirs - 1);
                printf("%-8s %-18s %5u %12.1f %12.1f %5.1f %%\n", machine(n).name, spec, n, 1e6 * ours, 1e6 * theirs,
                       100 * d);
                apart.push_back(d);
                worst = d > worst || std::isnan(d) ? d : worst;
            }
    std::sort(apart.begin(), apart.end());
    const double median = apart[apart.size() / 2];
    printf("%zu cells: median %.1f %%, most %.1f %%\n", apart.size(), 100 * median, 100 * worst);
    /* A fused sum of many vectors takes less time than the sums of two that SimGrid makes, in trees. */
    return !(median <= 0.01 && worst <= 0.25);
}
