# SPDX-License-Identifier: BSD-3-Clause
"""Compares two reports of tools/gpu-check, which calls this file.

    tools/gpu-check --compare OLD NEW

Prints figures that got slower or faster by more than 10 %, rows that are new or gone, and what failed or did not run in
NEW. Exit status 1: something is slower, gone or failed.
"""
import re
import sys

LIMIT = 1.1
# The first number with a unit is the figure. More of it is worse, or better.
UNITS = {"us": True, "ms": True, "s": True, "GB/s": False, "images/s": False}
FIGURE = re.compile(r"([0-9][0-9.,]*) (us|ms|s|GB/s|images/s)\b")


def read(path):
    """Tests and figures: {what: cell} each."""
    tests, figures = {}, {}
    for line in open(path, encoding="utf-8"):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|") or cells[0] in ("test", "what") or set(cells[0]) <= {"-"}:
            continue
        if len(cells) == 2:
            tests[cells[0]] = cells[1]
        elif len(cells) == 3:
            what, colon, rest = cells[0].rpartition(": ")  # "LARS ...: 278 us": the figure is part of the name
            inside = colon and FIGURE.fullmatch(rest)
            figures[what if inside else cells[0]] = rest if inside else cells[1]
    return tests, figures


def worse(old, new):
    """How many times as slow; None: they cannot be compared."""
    a, b = FIGURE.search(old), FIGURE.search(new)
    if a is None or b is None or a.group(2) != b.group(2):
        return None
    x, y = (float(m.group(1).replace(",", "")) for m in (a, b))
    if x == 0 or y == 0:
        return None
    return y / x if UNITS[a.group(2)] else x / y


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    (old_tests, old), (tests, new) = read(sys.argv[1]), read(sys.argv[2])
    if not new and not tests:
        sys.exit(f"{sys.argv[2]}: there is no table in it")
    bad = 0
    for title, is_it in (("Slower", lambda w: w > LIMIT), ("Faster", lambda w: w < 1 / LIMIT)):
        both = [(what, worse(old[what], new[what])) for what in new if what in old]
        rows = [(what, w) for what, w in both if w is not None and is_it(w)]
        bad += len(rows) if title == "Slower" else 0
        for what, w in sorted(rows, key=lambda row: row[1], reverse=title == "Slower"):
            print(f"{title}: {what}: {old[what]} -> {new[what]} ({max(w, 1 / w):.2f} times)")
    for before, after in ((old, new), (old_tests, tests)):
        for what in after:
            if what not in before:
                print(f"New: {what}: {after[what]}")
        for what in before:
            if what not in after:
                print(f"Gone: {what}: {before[what]}")
                bad += 1
    for what, how in tests.items():
        if how.startswith("**"):
            too = old_tests.get(what, "").startswith("**")
            print(f"Failed: {what}: {how.replace('*', '')}{'' if too else ', not before'}")
            bad += 1
    if bad == 0:
        print("Nothing is slower, gone or failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
