"""Each real client with each real server through one gateway, then large calls, each saved whole. Prints both tables.

The exit code is 1 when anything failed or nothing ran. Words choose cells by server or client, and large calls by name.
"""

import os
import shutil
import sys
import tempfile
import time

# No client may ever ask a proxy about loopback.
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"

import largecalls  # noqa: E402
import parts  # noqa: E402
from agents import all_agents  # noqa: E402
from cells import rows, run_cell  # noqa: E402
from stage import MatrixStage  # noqa: E402
from table import trouble  # noqa: E402

CELL = 13
MIB = 1 << 20


class Score:
    """What passed, what failed and why."""

    def __init__(self):
        self.passed = 0
        self.failures = []

    def attempt(self, name, function):
        """What the function gives, or None when it failed."""
        given = []
        if said := trouble(lambda: given.append(function())):
            self.failures.append((name, said))
            return None
        return given[0]

    def tell_failures(self):
        for name, said in self.failures:
            print(f"\n--- {name}\n{said.rstrip()}")


def main(words):
    started = time.monotonic()
    directory = tempfile.mkdtemp(prefix="mcpproxy-matrix-")
    stage, score = MatrixStage(directory), Score()
    try:
        if score.attempt("the gateway with all servers", lambda: stage.gateway.url):
            print(f"gateway ready with {len(stage.servers)} servers after {time.monotonic() - started:.1f} s\n", flush=True)
            print_cells(stage, score, words)
            print_large_calls(stage, score, words)
    finally:
        try:
            stage.close()
        finally:
            if os.environ.get("REAL_KEEP"):
                print(f"\nkept: {directory}")
            else:
                shutil.rmtree(directory, ignore_errors=True)
    score.tell_failures()
    print(f"\nmatrix: {time.monotonic() - started:.0f} s")
    print(f"{score.passed} passed, {len(score.failures)} failed", flush=True)
    return 1 if score.failures or not score.passed else 0


def print_cells(stage, score, words):
    """The table of servers and clients: list, find, call and save in each format, the time of all of it together."""
    home = stage.directory / "home"
    home.mkdir()
    agents = all_agents(home)
    table = rows(stage, installed_versions())
    print("each client with each server: list, find, call, save as text, as json and, where there is one blob, as binary")
    for agent in agents:
        print(f"  {agent.label:{CELL}}  {agent.what}")
    width = max(len(f"{row.server} {row.version}") for row in table)
    print("\n" + "  ".join([" " * width, *(f"{agent.label:{CELL}}" for agent in agents)]).rstrip())
    for row in table:
        print(f"{f'{row.server} {row.version}':{width}}", end="", flush=True)
        for agent in agents:
            gap = "" if agent is agents[-1] else CELL
            print(f"  {cell(stage, score, row, agent, words):{gap}}", end="", flush=True)
        print(flush=True)
    for agent in agents:
        if agent.told:
            print(f"\nnot yet, {agent.label}: {agent.not_yet}\n  the client is told: {agent.told}")


def cell(stage, score, row, agent, words):
    """The words of one cell. One that says "not yet" as it must has neither passed nor failed."""
    name = f"{row.server} with {agent.label}"
    if not chosen(name, words):
        return "-"
    said = score.attempt(name, lambda: run_cell(stage, row, agent))
    score.passed += said is not None and not agent.not_yet
    return said or "FAILED"


def print_large_calls(stage, score, words):
    """The table of large calls. Memory is what the gateway held at most above what it held before."""
    calls = [large for large in largecalls.large_calls(stage) if chosen(large.name, words)]
    answers = largecalls.Answers(stage, calls)
    width, most = max((len(large.name) for large in calls), default=10), 0
    print(f"\n{'large calls, saved whole':{width}}  format  {'wire bytes':>11}  {'file bytes':>11}  seconds  peak RSS growth")
    for large in calls:
        for save_format in large.formats:
            name = f"{large.name} as {save_format}"
            saved = score.attempt(name, lambda: largecalls.save(stage, answers, large, save_format))  # noqa: B023
            told = "FAILED"
            if saved:
                score.passed, most = score.passed + 1, max(most, saved.peak_bytes)
                sizes = f"{saved.wire_bytes:>11,}  {saved.file_bytes:>11,}"
                told = f"{sizes}  {saved.seconds:7.2f}  {saved.growth_bytes / MIB:11.1f} MiB"
            print(f"{large.name:{width}}  {save_format:6}  {told}", flush=True)
    if most:
        print(f"the gateway never held more than {most / MIB:.1f} MiB while it saved these")


def installed_versions():
    """The versions of the servers, by their names in the gateway."""
    npm = {"everything": "everything", "filesystem": "filesystem", "memory": "memory", "thinking": "sequential-thinking"}
    versions = {name: parts.npm_version(f"@modelcontextprotocol/server-{package}") for name, package in npm.items()}
    versions |= {name: parts.python_version("servers", f"mcp-server-{name}") for name in ["git", "time", "fetch"]}
    return versions | {"sqlite": parts.python_version("sqlite", "mcp-server-sqlite")}


def chosen(name, words):
    return not words or any(word in name for word in words)


sys.exit(main(sys.argv[1:]))
