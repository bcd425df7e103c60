"""One table of all cases, and the machine that it was made on."""

import os
import platform
import time
from pathlib import Path

HEADER = ("case", "p50", "p99", "rate", "against", "rate", "p50", "CPU a call", "RSS", "spread")
COLUMNS = ("p50", "p99", "rate", "against", "rate_ratio", "p50_ratio", "cpu", "rss")
# Runs of one case that lie further apart than this are marked.
NOISY = 1.25


class Table:
    """Rows of text; columns that no row uses are left out."""

    def __init__(self, header=HEADER, columns=COLUMNS):
        self.header = header
        self.columns = columns
        self.rows = []
        self.noisy = 0

    def add(self, case, spreads=(), **cells):
        """One row; `spreads` are those of the gateway's runs and of those that they are held against."""
        known = [spread for spread in spreads if spread]
        mark = "~" if any(spread > NOISY for spread in known) else " "
        self.noisy += mark == "~"
        shown = "/".join(f"{spread:.2f}" for spread in known) + mark if known else "-"
        self.rows.append((case, *(cells.get(name) or "-" for name in self.columns), shown))

    def text(self):
        """The table, first column to the left, the others to the right."""
        lines = [self.header, *self.rows]
        kept = [i for i in range(len(self.header)) if i == 0 or any(row[i] != "-" for row in self.rows)]
        width = {i: max(len(line[i]) for line in lines) for i in kept}
        shown = ["  ".join(f"{line[i]:{'<' if i == 0 else '>'}{width[i]}}" for i in kept) for line in lines]
        return "\n".join([shown[0], "-" * len(shown[0]), *shown[1:]])


def micros(value):
    """Microseconds, in the unit that reads best."""
    if value is None:
        return None
    if value < 1_000:
        return f"{value:.0f} us"
    return f"{value / 1_000:.2f} ms" if value < 10_000 else f"{value / 1_000:,.0f} ms"


def per_second(value, unit=""):
    """A rate."""
    return None if value is None else f"{value:,.0f}{unit}/s"


def megabytes(value, sign=""):
    """MB of 1,000,000 bytes."""
    return None if value is None else f"{value:{sign}.1f} MB"


def machine():
    """One line about where and beside what this was measured."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return f"{os.cpu_count()} x {model}, Linux {platform.release()}, load average {os.getloadavg()[0]:.1f}"


def part(ours, theirs):
    """How much of another rate is left."""
    return f"1/{theirs / ours:.1f}" if ours and theirs else None


def times(ours, theirs):
    """How many times another time."""
    return f"x {ours / theirs:.1f}" if ours and theirs else None


def remarks(lab, table, before):
    """What stands beneath a table: how far it can be trusted, where it was made and where every figure is."""
    if table.noisy:
        print(f"~ {table.noisy} noisy rows: others used the machine; trust their CPU, or run again.")
    if lab.cut:
        print("Time was short: some cases have fewer rounds.")
    for error in lab.errors:
        print(f"WRONG: {error}")
    print(f"{before}, at the end {machine().rsplit(' ', 1)[1]}")
    print(f"{time.monotonic() - lab.began:.0f} s; every figure: {lab.figures}")
