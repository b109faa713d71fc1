# SPDX-License-Identifier: BSD-3-Clause
"""Prints the tables of train-evidence, and draws docs/training.svg."""
import json
import pathlib
import statistics
import subprocess


def groups(results, part):
    """{name: results of all seeds}, as they were first made."""
    found = {}
    for result in results:
        if result["part"] == part:
            found.setdefault(result["name"], []).append(result)
    return found


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def spread(values, digits=1):
    """Mean, least and most."""
    if any(value is None for value in values):
        return f"{sum(value is None for value in values)} of {len(values)} diverged"
    mean = statistics.fmean(values)
    return f"{mean:.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def top1(results):
    return [None if r["top1"] is None else 100 * r["top1"] for r in results]


def of(results, name, digits=1, factor=1):
    return spread([factor * r[name] for r in results], digits)


# ---- tables ----------------------------------------------------------------------------------------


def search_table(results, part):
    rows = []
    for name, some in groups(results, part).items():
        best = max(some, key=lambda r: r["top1"] or 0)
        tried = [f"{r['rate']:g}: {'diverged' if r['top1'] is None else format(100 * r['top1'], '.1f')}"
                 for r in sorted(some, key=lambda r: r["rate"])]
        rows.append([name, ", ".join(tried), f"{best['rate']:g}"])
    return table(["method", "rate: top-1, %", "best"], rows)


def accuracy_table(results, part):
    rows = [[name, f"{some[0]['rate']:g}", spread(top1(some)), str(len(some))]
            for name, some in groups(results, part).items()]
    return table(["run", "rate", "top-1, % (least to most)", "seeds"], rows)


def decay_table(results):
    """Beside the runs of the comparison of batches, which decay weights only."""
    rows = []
    for name, some in groups(results, "decay").items():
        method = name.split(":")[0]
        rows.append([method, spread(top1(groups(results, "batch").get(method, [{"top1": None}]))), spread(top1(some))])
    return table(["method", "decay of weights only: top-1, %", "of all tensors: top-1, %"], rows)


def elastic_table(results):
    rows = [[name, f"{some[0]['rate']:g}", spread(top1(some)), of(some, "seconds"), of(some, "exposed", factor=100)]
            for name, some in groups(results, "elastic").items()]
    return table(["mode", "rate", "top-1, %", "seconds", "share of communication, %"], rows)


def beside_tail(results, prefix):
    """Exposed and unavoidable milliseconds of a step, and their ratio; nothing where it was not kept."""
    exposed, tail = f"{prefix}exposed_ms", f"{prefix}tail_ms"
    if any(tail not in result for result in results):
        return ["", ""]
    return [f"{of(results, exposed, 0)} / {of(results, tail, 0)}", spread([r[exposed] / r[tail] for r in results], 2)]


def hosts_table(results):
    rows = [[*name.split(", "), of(some, "images_per_second", 0), of(some, "exposed", factor=100),
             *beside_tail(some, ""), *beside_tail(some, "last_")] for name, some in groups(results, "hosts").items()]
    return table(["hosts", "with", "images/s", "exposed, %", "exposed / tail, ms a step", "ratio",
                  "the last rank's, ms", "ratio"], rows)


TABLES = {"search": lambda r: search_table(r, "search"), "batch": lambda r: accuracy_table(r, "batch"),
          "decay": decay_table, "polish": lambda r: accuracy_table(r, "polish"),
          "elastic-search": lambda r: search_table(r, "elastic-search"), "elastic": elastic_table, "hosts": hosts_table}


def print_tables(results):
    for name, make in TABLES.items():
        if groups(results, name):
            print(f"{name}\n\n{make(results)}\n")


# ---- the plot ----------------------------------------------------------------------------------------

CHARTS = pathlib.Path(__file__).resolve().parent.parent / "build/release/tools/charts"


def panel(title, axis, logarithmic, series):
    """For tools/charts.c."""
    return {"title": title, "x": axis, "log": logarithmic,
            "lines": [{"name": name, "points": points} for name, points in series]}


def search_series(results):
    return [(name, [(r["rate"], 100 * (r["top1"] or 0)) for r in sorted(some, key=lambda r: r["rate"])])
            for name, some in groups(results, "search").items()]


def elastic_series(results):
    """Means over seeds: of seconds and accuracy at each evaluation."""
    return [(name, [(statistics.fmean(p[0] for p in points), 100 * statistics.fmean(p[2] for p in points))
                    for points in zip(*(r["curve"] for r in some))])
            for name, some in groups(results, "elastic").items()]


def plot(results, path):
    panels = [panel("Rates that were tried: top-1", "rate", True, search_series(results))]
    if groups(results, "elastic"):
        panels.append(panel("Elastic averaging, mean of the seeds: top-1", "seconds", False, elastic_series(results)))
    with open(path, "w", encoding="utf-8") as f:
        subprocess.run([CHARTS], input=json.dumps(panels), text=True, stdout=f, check=True)


def write(results, folder):
    results = list(results)
    print_tables(results)
    plot(results, folder / "training.svg")
