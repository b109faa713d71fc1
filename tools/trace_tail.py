#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How much of a step's communication could not have been hidden, from the timeline of plait-train --trace.

    tools/trace_tail.py TRACE [TRACE ...] [--link 1gbit] [--schedule FILE]

A bucket can be sent when its last gradient is ready on all ranks. A link that then sends nothing but buckets, in
order, at the rate that TCP leaves of the cable's, completes bucket b at

    done(b) = max(done(b - 1), ready(b)) + 2 (P - 1) / P bytes(b) / rate

The tail of a rank is the part of this after the end of its own backward pass. It is exposed with any library. All
ranks must share a clock, as those of one machine or of tools/hosts do. Several files are parts of one trace.
--schedule writes a schedule that tests/train_link_bench.c runs over bare sockets.
"""
import argparse
import json
import statistics

UNITS = {"gbit": 125e6, "mbit": 125e3}
TCP = 1448 / 1514  # data in a frame of Ethernet, which also has its own head, IP's and TCP's with a time stamp


def bytes_per_second(link):
    for unit, factor in UNITS.items():
        if link.endswith(unit):
            return float(link.removesuffix(unit)) * factor
    raise argparse.ArgumentTypeError(f"{link}: expected a rate such as 1gbit or 250mbit")


class Timeline:
    """A trace: for each step and rank, in seconds, when buckets were ready, and their events."""

    def __init__(self, *paths):
        events = []
        for path in paths:
            with open(path, encoding="utf-8") as f:
                events += json.load(f)["traceEvents"]
        self.names = {e["tid"]: e["args"]["name"] for e in events if e.get("name") == "thread_name"}
        events = [e for e in events if e["ph"] != "M"]
        self.nrank = 1 + max(e["pid"] for e in events)
        self.buckets = self.find_buckets(events)
        self.ntensor = sum(tensors for tensors, _ in self.buckets)
        self.ranks = [self.steps_of([e for e in events if e["pid"] == rank]) for rank in range(self.nrank)]
        self.nstep = min(len(steps) for steps in self.ranks)

    def find_buckets(self, events):
        """[bucket] number of tensors, and bytes."""
        sizes = {}
        for e in events:
            if self.names[e["tid"]] == "transfer":
                sizes[number(e)] = (e["args"]["tensors"], e["args"]["bytes"])
        return [sizes[k] for k in range(len(sizes))]

    def steps_of(self, events):
        """The steps of a rank. A step has each tensor once; a bucket is ready when its last tensor is."""
        marks = sorted((seconds(e)[0], e["args"]["bucket"]) for e in events if self.names[e["tid"]] == "ready")
        steps = []
        for first in range(0, len(marks) - self.ntensor + 1, self.ntensor):
            own = marks[first:first + self.ntensor]
            ready = [max(moment for moment, bucket in own if bucket == k) for k in range(len(self.buckets))]
            steps.append({"begin": own[0][0], "ready": ready, "backward": own[-1][0], "end": own[-1][0], "events": []})
        for e in events:
            kind, (begin, end) = self.names[e["tid"]], seconds(e)
            step = next((s for s in reversed(steps) if s["begin"] <= begin), None)
            if kind not in ("ready", "compute") and step:
                step["events"].append((kind, number(e), begin, end))
                step["end"] = max(step["end"], end)
        return steps


def number(event):
    return int(event["name"].removeprefix("bucket "))


def seconds(event):
    return event["ts"] / 1e6, (event["ts"] + event["dur"]) / 1e6


def ideal_end(timeline, step, rate):
    """When the link could have completed the last bucket of a step."""
    p, done = timeline.nrank, 0
    for k, (_, size) in enumerate(timeline.buckets):
        ready = max(steps[step]["ready"][k] for steps in timeline.ranks)
        done = max(done, ready) + 2 * (p - 1) / p * size / rate
    return done


def tails(timeline, rate, skip=2):
    """
    Means over all but the first steps, in seconds: exposed time and tail, over all ranks, and of the rank whose
    backward pass ended last, which waited for no other.
    """
    sums = {"exposed": [], "tail": [], "last_exposed": [], "last_tail": []}
    for step in range(min(skip, timeline.nstep - 1), timeline.nstep):
        end = ideal_end(timeline, step, rate)
        ranks = [steps[step] for steps in timeline.ranks]
        exposed = [rank["end"] - rank["backward"] for rank in ranks]
        tail = [max(0, end - rank["backward"]) for rank in ranks]
        last = max(range(len(ranks)), key=lambda k, ranks=ranks: ranks[k]["backward"])
        for name, value in zip(sums, (statistics.fmean(exposed), statistics.fmean(tail), exposed[last], tail[last])):
            sums[name].append(value)
    return {name: statistics.fmean(values) for name, values in sums.items()}


def write_schedule(timeline, path, skip=2):
    """A rank's mean step: milliseconds to the first gradient; then for each bucket its bytes, and the milliseconds from
    the first gradient until it is ready."""
    pairs = [(steps[k - 1], steps[k]) for steps in timeline.ranks for k in range(skip, timeline.nstep)]
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"{1e3 * statistics.fmean(step['begin'] - last['end'] for last, step in pairs):.3f}\n")
        for k, (_, size) in enumerate(timeline.buckets):
            f.write(f"{size} {1e3 * statistics.fmean(step['ready'][k] - step['begin'] for _, step in pairs):.3f}\n")


def of_file(path, link):
    return tails(Timeline(path), TCP * bytes_per_second(link))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", nargs="+")
    parser.add_argument("--link", type=bytes_per_second, default="1gbit",
                        help="rate of each rank's link, each way (1gbit)")
    parser.add_argument("--schedule", help="a file to write for train_link_bench")
    arguments = parser.parse_args()
    timeline = Timeline(*arguments.trace)
    if arguments.schedule:
        write_schedule(timeline, arguments.schedule)
    print(f"{timeline.nrank} ranks, {timeline.nstep} steps, {len(timeline.buckets)} buckets; milliseconds of a step:")
    found = tails(timeline, TCP * arguments.link)
    for who, prefix in (("all ranks", ""), ("the last rank", "last_")):
        exposed, tail = found[prefix + "exposed"], found[prefix + "tail"]
        times = exposed / tail if tail > 0 else 1
        print(f"{who}: exposed {1e3 * exposed:.1f}, unavoidable {1e3 * tail:.1f}, {times:.2f} times that")


if __name__ == "__main__":
    main()
