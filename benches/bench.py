#!/usr/bin/env python3
"""`make bench`: what the gateway costs, measured beside the bare upstream and beside the floor of a save.

Each run of the gateway comes right after the same run against what it is held against, so that both had the same
machine. Figures are medians over the rounds (ROUNDS, 3), ratios are ratios of medians. Nothing here fails for being
slow; a wrong reply, an envelope that does not match or a file that differs does.
"""

import itertools
import shutil
import subprocess
import sys
import time

import lab as bench
import writer
from lab import BARE_CALLS, CALLS, MB, TURNS, cpu_us, median, peak_mb, spread
from table import Table, machine, megabytes, micros, part, per_second, remarks, times

# No further round is begun after so many seconds; the whole stays under five minutes.
SECONDS = 170
STARTS = 5
UPSTREAMS = {"http": "HTTP", "stdio": "stdio"}
LARGE = 50 * MB
SAVES = (25 * MB, 50 * MB, 100 * MB, 200 * MB)
# Twice the bytes may take so much more time.
LINEAR = 2.3


def main():
    with bench.Lab("bench", SECONDS) as lab:
        before = machine()
        lab.record(case="machine", machine=before)
        table = Table()
        url = lab.upstream(tools=3)
        command, *arguments = bench.stdio_upstream(lab)
        servers = {"http": {"url": url}, "stdio": {"command": command, "args": arguments}}
        small(lab, table, url, servers)
        notes = large(lab, table, url, servers)
        search(lab, table)
        starts(lab, table, servers)
        size(lab, table)
        show(lab, table, before, notes)
        print("\nA save by the crate alone, without a gateway; cost: over the floor with the fsync of its directory:\n")
        table.noisy += writer.add(lab).noisy
        remarks(lab, table, before)
        return 1 if lab.errors else 0


def small(lab, table, url, servers):
    """The whole path of a small call, beside the same call to the bare upstream."""
    gateway = lab.gateway(servers)
    ours, bare = {}, {}
    for number in lab.rounds():
        for together, server, _ in itertools.product(CALLS, UPSTREAMS, range(TURNS)):
            case = f"echo {together}, {UPSTREAMS[server]}"
            bare.setdefault(case, []).append(
                lab.echo("bare", case, ("--url", url), number, BARE_CALLS[together]))
            ours.setdefault(case, []).append(
                lab.echo("gateway", case, gateway.where(server), number, CALLS[together]))
    for case, runs in ours.items():
        add_small(table, case, runs, bare[case])
    lab.stop(gateway.process)


def add_small(table, case, runs, bare):
    """A row whose rates and times are of small calls."""
    rate, bare_rate = median(runs, "calls_per_s"), median(bare, "calls_per_s")
    p50, bare_p50 = median(runs, "p50_us"), median(bare, "p50_us")
    table.add(case, p50=micros(p50), p99=micros(median(runs, "p99_us")), rate=per_second(rate),
              against=f"bare {per_second(bare_rate)}, {micros(bare_p50)}", rate_ratio=part(rate, bare_rate),
              p50_ratio=times(p50, bare_p50), cpu=micros(cpu_us(runs)), rss=megabytes(median(runs, peak_mb)),
              spreads=(spread(runs, "calls_per_s"), spread(bare, "calls_per_s")))


def large(lab, table, url, servers):
    """Large answers, forwarded beside the bare upstream and saved beside the floor; gives a line for each upstream that
    says whether the time of a save grows with its bytes."""
    gateway = lab.gateway(servers)
    # What is grown from: a gateway that has made calls, but no large one yet.
    for server in UPSTREAMS:
        lab.echo("gateway", "warm-up", gateway.where(server), 0, 200)
    idle = bench.resident_mb(gateway.pid)
    for server in UPSTREAMS:
        save(lab, gateway, "warm-up", server, 0, SAVES[0], 1)
    ours, others = {}, {}
    for number in lab.rounds(more=2):
        for server in UPSTREAMS:
            case = f"{LARGE // MB} MB forwarded, {UPSTREAMS[server]}"
            words = ("--case", "big", "--bytes", LARGE, "--calls", 3, "--warm-up", 0)
            key = (LARGE, server, case)
            others.setdefault(key, []).append(lab.load("bare", case, ("--url", url), number, *words))
            ours.setdefault(key, []).append(lab.load("gateway", case, gateway.where(server), number, *words))
        for size_, server in itertools.product(SAVES, UPSTREAMS):
            case = f"{size_ // MB} MB saved, {UPSTREAMS[server]}"
            count = 3 if size_ == LARGE else 1
            key = (size_, server, case)
            others.setdefault(key, []).append(floor(lab, case, number, size_, count))
            ours.setdefault(key, []).append(save(lab, gateway, case, server, number, size_, count))
    for (size_, server, case), runs in ours.items():
        add_large(table, case, size_, runs, others[size_, server, case], idle)
    lab.stop(gateway.process)
    saved = {key[:2]: (median(ours[key], "p50_us"), cpu_us(ours[key]), median(others[key], "p50_us"))
             for key in ours if "saved" in key[2]}
    return [linear(server, saved) for server in UPSTREAMS]


def linear(server, saved):
    """Whether twice the bytes take at most LINEAR times the time, in words: by the clock and by the CPU time, which
    others on the machine disturb less; and what the floor did meanwhile."""
    growths = []
    for size_ in SAVES[1:]:
        half, whole = saved[size_ // 2, server], saved[size_, server]
        growths.append([after / before if after and before else float("inf") for before, after in zip(half, whole)])
    words = []
    for what, grown in zip(("time", "CPU", "floor"), zip(*growths)):
        steps = ", ".join(f"x {growth:.2f}" for growth in grown)
        verdict = "" if what == "floor" else " yes," if max(grown) <= LINEAR else " NO,"
        words.append(f"{what}:{verdict} {steps}")
    sizes = ", ".join(str(size_ // MB) for size_ in SAVES)
    return f"{UPSTREAMS[server]} saves of {sizes} MB, each step at most x {LINEAR}: {'; '.join(words)}"


def save(lab, gateway, case, server, number, size_, calls):
    """Saves an answer `calls` times."""
    words = ("--case", "save", "--bytes", size_, "--save-in", gateway.saved, "--calls", calls, "--warm-up", 0)
    return lab.load("gateway", case, gateway.where(server), number, *words)


def floor(lab, case, number, size_, count):
    """The median of as many floors as there are saves, in the form of a load's figures. One more goes before, so that
    the pages of memory that it is the first to use are there for both."""
    runs = [lab.run("floor", "--bytes", size_, "--dir", lab.dir / "saved") for _ in range(count + 1)][1:]
    broken = next((run for run in runs if run.get("errors")), None)
    if broken:
        raise bench.Trouble(f"the floor of a save: {next(iter(broken['kinds']))}")
    figures = {"p50_us": round(median(runs, "wall_s") * 1e6), "cpu_s": median(runs, "cpu_s"), "calls": 1}
    lab.record(case=case, who="floor", round=number, bytes=size_, **figures)
    return figures


def add_large(table, case, size_, runs, others, idle):
    """A row whose times are of whole answers."""
    wall, other, cpu = median(runs, "p50_us"), median(others, "p50_us"), micros(cpu_us(runs))
    what = "floor" if "saved" in case else "bare"
    if what == "floor":
        cpu = f"{cpu} (floor {micros(cpu_us(others))})"
    table.add(case, p50=micros(wall), rate=per_second(size_ / wall, " MB") if wall else None,
              against=f"{what} {micros(other)}", p50_ratio=times(wall, other), cpu=cpu, rss=growth(runs, idle),
              spreads=(spread(runs, "p50_us"), spread(others, "p50_us")))


def growth(runs, idle):
    """The highest peak of all runs, as growth over `idle` MB."""
    peaks = [peak for peak in map(peak_mb, runs) if peak is not None]
    return megabytes(max(peaks) - idle, "+") if peaks else None


def search(lab, table):
    """`retrieve_tools` over 1,000 tools."""
    gateway = lab.gateway({"many": {"url": lab.upstream(tools=1000)}}, data="data-many")
    where = ("--url", gateway.url, "--pid", gateway.pid)
    case = "retrieve_tools of 1,000, c1"
    words = ("--case", "search", "--calls", 400, "--warm-up", 16)
    rounds = [lab.load("gateway", case, where, number, *words) for number in lab.rounds()]
    table.add(case, p50=micros(median(rounds, "p50_us")), p99=micros(median(rounds, "p99_us")),
              rate=per_second(median(rounds, "calls_per_s")), cpu=micros(cpu_us(rounds)),
              rss=megabytes(median(rounds, peak_mb)), spreads=(spread(rounds, "calls_per_s"),))
    lab.stop(gateway.process)


def starts(lab, table, servers):
    """From the start until /readyz says yes, both servers listed; and what it holds then."""
    for what, data in (("new data", "start-{}"), ("old data", "start-0")):
        runs = []
        for number in range(STARTS):
            gateway = lab.gateway(servers, data=data.format(number))
            runs.append({"start_us": gateway.start_s * 1e6})
            lab.record(case=f"start to /readyz, {what}", who="gateway", round=number, **runs[-1])
            if number < STARTS - 1 or "new" in what:
                lab.stop(gateway.process)
        table.add(f"start to /readyz, {what}", p50=micros(median(runs, "start_us")),
                  spreads=(spread(runs, "start_us"),))
    time.sleep(2)
    idle = bench.resident_mb(gateway.pid)
    lab.record(case="idle", who="gateway", rss_mb=idle)
    table.add("idle, 2 s after the start", rss=megabytes(idle))
    lab.stop(gateway.process)


def size(lab, table):
    """The binary of the release profile without its symbols."""
    if not shutil.which("strip"):
        table.add("stripped binary: `strip` is missing (Debian: binutils)")
        return
    stripped = lab.dir / "stripped"
    subprocess.run(["strip", "-o", stripped, lab.mcpproxy], check=True, timeout=60)
    size_mb = stripped.stat().st_size / MB
    lab.record(case="size", who="gateway", size_mb=size_mb)
    table.add("stripped binary", rss=megabytes(size_mb))


def show(lab, table, before, notes):
    """Prints everything."""
    for line in table.text().splitlines():
        lab.record(case="table", line=line)
        print(line)
    print("""
c1, c32: one or 32 calls at a time, on one session. HTTP, stdio: the upstream's transport; the client's is always HTTP.
bare: the same client straight to the HTTP upstream, right before. floor: write, SHA-256 and fsync of the same bytes.
rate and p50 behind them: the gateway's share of that rate, and how many times that p50. p50 of a large answer: its
median time. RSS: the process's peak; + over a warm gateway at rest. spread: upper quartile of the runs over the lower
one, of the gateway and of what it is held against.""")
    for note in notes:
        lab.record(case="note", note=note)
        print(note)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except bench.Trouble as trouble:
        sys.exit(f"bench: {trouble}")
    except KeyboardInterrupt:
        sys.exit(130)
