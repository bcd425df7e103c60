#!/usr/bin/env python3
"""What a save costs by the crate `outputfile` alone, beside the floor of the same bytes: a part of `make bench`, and a
bench of its own (it needs `cargo build --release -p benchkit`).

Floor and save come in turn in one process. `cost` is the median time of a save over the median time of its floor: write,
SHA-256 and fsync by plain calls, and the fsync of the directory, which is told apart.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile

import lab as bench
from lab import MB, median, spread
from table import Table, machine, micros, remarks

# Bytes of a save, and how many rounds are made of them.
SAVES = {1_000: 200, MB: 100, 50 * MB: 11, 1_000 * MB: 5}
# What is aimed at: cost of a save from FROM bytes up, growth of the memory, time of a check DEPTH levels deep.
MOST_COST, FROM, MOST_GROWTH_MB, MOST_CHECK_US, DEPTH = 1.15, MB, 4, 150, 10
HEADER = ("case", "save", "floor", "of it dir", "cost", "check", "begin", "write", "publish", "RSS", "spread")
COLUMNS = ("save", "floor", "names", "cost", "check", "begin", "put", "commit", "rss")


def add(lab):
    """Measures on disk and in memory, and prints the table."""
    table = Table(HEADER, COLUMNS)
    notes = []
    for where, run in places(lab):
        if run is None:
            notes.append(f"{where}: there is none here that takes files, and only root can mount one")
            continue
        for size, rounds in SAVES.items():
            save(lab, table, notes, f"{named(size)} on {where}", run, size, rounds)
        preflight(lab, notes, where, run)
    for line in [*table.text().splitlines(), *notes]:
        lab.record(case="writer", line=line)
        print(line)
    return table


def save(lab, table, notes, case, run, size, rounds):
    """One row: saves of one size, beside their floors."""
    figures = run("save", "--bytes", size, "--rounds", rounds)
    lab.record(case=case, who="writer", **figures)
    if figures.get("errors"):
        lab.errors.append(f"{case}: {next(iter(figures['kinds']))}")
        return
    runs = figures["rounds"]
    floors = [{"us": run["floor_us"] + run["floor_names_us"]} for run in runs]
    cost = median(runs, "save_us") / median(floors, "us")
    grown = figures["growth_kb"] * 1024 / MB
    table.add(case, save=micros(median(runs, "save_us")), floor=micros(median(floors, "us")),
              names=micros(median(runs, "floor_names_us")), cost=f"x {cost:.2f}",
              check=micros(median(runs, "preflight_us")), begin=micros(median(runs, "begin_us")),
              put=micros(median(runs, "put_us")), commit=micros(median(runs, "commit_us")), rss=f"+{grown:.1f} MB",
              spreads=(spread(runs, "save_us"), spread(floors, "us")))
    if size >= FROM and cost > MOST_COST:
        notes.append(f"{case}: x {cost:.2f} is more than the x {MOST_COST} aimed at")
    if grown > MOST_GROWTH_MB:
        notes.append(f"{case}: memory grew by more than the {MOST_GROWTH_MB} MB aimed at")


def preflight(lab, notes, where, run):
    """A line about the check of a deep path."""
    figures = run("preflight", "--depth", DEPTH)
    lab.record(case=f"preflight on {where}", who="writer", **figures)
    if figures.get("errors"):
        lab.errors.append(f"preflight on {where}: {next(iter(figures['kinds']))}")
        return
    verdict = "yes" if figures["median_us"] <= MOST_CHECK_US else "NO"
    notes.append(f"check of a path {DEPTH} levels deep on {where}, at most {MOST_CHECK_US} us: {verdict}, "
                 f"{figures['median_us']:.0f} us (99 of 100 in {figures['p99_us']:.0f} us), "
                 f"{figures['calls']} system calls and as many handles closed as opened")


def places(lab):
    """Where to measure, and how benchkit is run there: the disk of the figures, and a file system in memory."""
    on_disk = lab.dir / "writer"
    on_disk.mkdir(exist_ok=True)
    yield "disk", lambda *words: lab.run(*words, "--dir", on_disk)
    with contextlib.ExitStack() as stack:
        try:
            shared = stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm"))
            yield "tmpfs", lambda *words: lab.run(*words, "--dir", shared)
        except OSError:
            yield "tmpfs", mounted(lab) if os.geteuid() == 0 else None


def mounted(lab):
    """Runs benchkit on a tmpfs that only it sees, and that goes away with it."""
    at = lab.dir / "memory"
    at.mkdir(exist_ok=True)
    script = 'mount -t tmpfs -o mode=0755 tmpfs "$0" && exec "$@"'

    def run(*words):
        command = ["unshare", "-m", "sh", "-c", script, at, lab.benchkit, *words, "--dir", at]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=180)
        try:
            return json.loads(done.stdout)
        except ValueError:
            return {"errors": 1, "kinds": {done.stderr.strip()[-300:]: 1}}

    return run


def named(size):
    return f"{size // MB:,} MB" if size >= MB else f"{size // 1_000} KB"


def main():
    with bench.Lab("writer", seconds=200, programs=("benchkit",)) as lab:
        before = machine()
        lab.record(case="machine", machine=before)
        remarks(lab, add(lab), before)
        return 1 if lab.errors else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except bench.Trouble as trouble:
        sys.exit(f"bench: {trouble}")
    except KeyboardInterrupt:
        sys.exit(130)
