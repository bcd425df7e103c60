#!/usr/bin/env python3
"""`make laboratory`: runs everything that attacks the writer, at the size that CI uses, and writes what was counted into a page.

    tests/laboratory/run.py [--page FILE] [--bench] [STEP...]

Without a STEP all of them run. `--bench` adds the table of the writer's speed, which needs `make build-bench`. The page (docs/laboratory.md) is
written only when every step ran and passed. Each figure was counted by the test that it is of; nothing here is a figure.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
STRATEGIES = {
    "nameless": "anonymous file and link (the first choice on Linux)",
    "rename": "named temporary and a rename that replaces nothing",
    "link": "named temporary, link and unlink",
    "portable": "the walk by hand, without `openat2`",
}
TEST = ["cargo", "test", "--quiet", "-p", "outputfile"]
SUITES = {
    "attacks": "Hostile paths, links, owners, mounts and kinds",
    "races": "Races",
    "crash": "Kills and power cuts",
    "faults": "Failing system calls",
    "fuzz": "Plans against a model",
}


def steps():
    """What runs: a name, the command, its environment, and the words by which the page tells the conditions."""
    for name, words in STRATEGIES.items():
        yield f"strategy {name}", TEST, {"OUTPUTFILE_STRATEGY": name}, words
    full = {"OUTPUTFILE_LAB": "full"}
    yield "faults", [*TEST, "--test", "fault"], full, "every step, every error, once and always"
    yield "crash", [*TEST, "--test", "crash"], full, "every step"
    yield "races", [*TEST, "--test", "race"], {"OUTPUTFILE_RACE_SAVES": "20000"}, "on the disk of the temporary directory"
    seconds = os.environ.get("FUZZ_SECONDS", "60")
    yield "fuzz", ["crates/outputfile/fuzz/run"], {"FUZZ_SECONDS": seconds}, f"{seconds} s, led by coverage"


def main():
    words = argparse.ArgumentParser()
    words.add_argument("--page", type=Path, default=REPOSITORY / "docs" / "laboratory.md")
    words.add_argument("--bench", action="store_true")
    words.add_argument("steps", nargs="*")
    chosen = words.parse_args()
    told, minutes, failed = {}, {}, []
    for name, command, environment, _ in steps():
        if chosen.steps and not any(name.startswith(step) for step in chosen.steps):
            continue
        began = time.monotonic()
        code, lines = run(command, environment)
        minutes[name] = (time.monotonic() - began) / 60
        print(f"laboratory: {name}: {'ok' if code == 0 else f'FAILED ({code})'} after {minutes[name]:.1f} minutes", flush=True)
        if code:
            failed.append(name)
        told[name] = lines
    if not told:
        sys.exit(f"no step begins with any of {chosen.steps}; there are: {', '.join(name for name, *_ in steps())}")
    if failed:
        sys.exit(f"laboratory: failed: {', '.join(failed)}")
    if empty := [name for name, lines in told.items() if not lines]:
        sys.exit(f"laboratory: nothing was counted in: {', '.join(empty)}")
    if not chosen.steps:
        bench = speed() if chosen.bench else None
        chosen.page.write_text(page(told, minutes, bench), encoding="utf-8")
        print(f"laboratory: {chosen.page} is written")


def run(command, environment):
    """The exit code, and what the tests counted: (suite, what) to a number."""
    with tempfile.NamedTemporaryFile(prefix="laboratory-", suffix=".tsv") as report:
        environment = os.environ | environment | {"OUTPUTFILE_REPORT": report.name}
        code = subprocess.run(command, cwd=REPOSITORY, env=environment, stdin=subprocess.DEVNULL, check=False).returncode
        lines = {}
        for line in Path(report.name).read_text(encoding="utf-8").splitlines():
            suite, what, count = line.split("\t")
            lines[suite, what] = lines.get((suite, what), 0) + int(count)
    return code, lines


def speed():
    """The table of the writer's speed."""
    done = subprocess.run([sys.executable, "benches/writer.py"], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.rstrip()


def page(told, minutes, bench):
    """The page, in the order of the suites."""
    conditions = {name: words for name, _, _, words in steps()}
    own = {"races": "races", "crash": "crash", "faults": "faults", "fuzz": "fuzz"}
    text = [
        "# The writer's laboratory",
        "",
        "What attacked `outputfile` in one run of `make laboratory`, and how often. Every figure was counted by its own",
        "test; in each case the promises of the [writer](../crates/outputfile/README.md) were looked at afterwards, and all",
        "of them held. The counts of races and fuzzing differ from run to run.",
        "",
        f"{platform.system()} {platform.release().split('-')[0]}, {os.cpu_count()} cores, {sum(minutes.values()):.0f} minutes.",
    ]
    for suite, title in SUITES.items():
        step = own.get(suite)
        columns = [step] if step else [f"strategy {name}" for name in STRATEGIES]
        text += ["", f"## {title}", ""]
        if step:
            text += [f"Conditions: {conditions[step]}.", ""]
        whats = sorted({what for name in columns for kind, what in told[name] if kind == suite})
        heads = ["count"] if step else list(STRATEGIES)
        text += ["| what | " + " | ".join(heads) + " |", "|---|" + "---:|" * len(columns)]
        for what in whats:
            cells = [f"{told[name].get((suite, what), 0):,}" for name in columns]
            text.append(f"| {what} | " + " | ".join(cells) + " |")
        if not step:
            total = [f"**{sum(n for (kind, _), n in told[name].items() if kind == suite):,}**" for name in columns]
            text.append("| **all** | " + " | ".join(total) + " |")
            text += ["", *(f"- `{name}`: {words}." for name, words in STRATEGIES.items())]
    text += ["", "The whole suite of the crate runs under each of the four ways of writing; the table above is of its attacks."]
    if bench:
        text += ["", "## Speed", "", "```text", bench, "```"]
    return "\n".join(text) + "\n"


main()
