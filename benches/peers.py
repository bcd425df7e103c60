#!/usr/bin/env python3
"""`make bench-peers`: this gateway and the peers that are installed, each beside the bare upstream.

Peers are looked for beneath $PEERS (~/.cache/mcp-peers): npm/NAME/node_modules, py/NAME/bin, cargo/NAME/bin. All that
are found run at the same time and take turns, case by case, each run right after the same run against the bare
upstream.
Nothing is installed from here.
"""

import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import lab as bench
from lab import BARE_CALLS, CALLS, MB, cpu_us, median, peak_mb, spread
from table import Table, machine, megabytes, micros, part, per_second, remarks, times

# No further round is begun after so many seconds.
SECONDS = 900
PEERS = Path(os.environ.get("PEERS", Path.home() / ".cache/mcp-peers"))
LARGE = 10 * MB
START_SECONDS = 60
# A slow peer's run is to take some seconds, not minutes.
RUN_SECONDS = 3


@dataclass
class Peer:
    """A gateway: its program beneath PEERS, and how it is started. `words` gets the lab, the port and the bare URL."""

    name: str
    program: str
    words: object
    path: str = "/mcp"
    front: str = "--url"
    env: dict = field(default_factory=dict)


def command_file(lab, name, server):
    """A file of `mcpServers` with one server, b."""
    file = lab.dir / f"{name}.json"
    file.write_text(json.dumps({"mcpServers": {"b": server}}), encoding="utf-8")
    return file


def child(lab):
    """The stdio upstream, in the form of mcpServers."""
    command, *arguments = bench.stdio_upstream(lab)
    return {"command": command, "args": arguments}


def toml_file(lab, name, port, backend):
    """The configuration of the Rust mcp-proxy; JSON's strings and lists are TOML's too."""
    lines = ["[proxy]", 'name = "bench"', 'separator = "__"', "[proxy.listen]", 'host = "127.0.0.1"', f"port = {port}"]
    lines += ["[[backends]]", 'name = "b"', *(f"{key} = {json.dumps(value)}" for key, value in backend.items())]
    file = lab.dir / f"{name}.toml"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def joined(lab):
    """The stdio upstream as one line of words."""
    return " ".join(bench.stdio_upstream(lab))


KNOWN = [
    Peer("mcp-proxy (Rust), HTTP", "cargo/mcpproxyrs/bin/mcp-proxy", lambda lab, port, url: [
        "--config", toml_file(lab, "rust-http", port, {"transport": "http", "url": url})],
        path="/", env={"RUST_LOG": "error"}),
    Peer("mcp-proxy (Rust), stdio", "cargo/mcpproxyrs/bin/mcp-proxy", lambda lab, port, url: [
        "--config", toml_file(lab, "rust-stdio", port, {"transport": "stdio", **child(lab)})],
        path="/", env={"RUST_LOG": "error"}),
    Peer("mcp-proxy (PyPI), stdio", "py/mcpproxy/bin/mcp-proxy", lambda lab, port, url: [
        "--host", "127.0.0.1", "--port", port, "--log-level", "ERROR", "--", *bench.stdio_upstream(lab)]),
    Peer("FastMCP, HTTP", "py/fastmcp/bin/fastmcp", lambda lab, port, url: [
        "run", url, "--transport", "http", "--host", "127.0.0.1", "--port", port,
        "--no-banner", "--log-level", "ERROR"]),
    Peer("FastMCP, stdio", "py/fastmcp/bin/fastmcp", lambda lab, port, url: [
        "run", command_file(lab, "fastmcp", child(lab)), "--transport", "http", "--host", "127.0.0.1", "--port", port,
        "--no-banner", "--log-level", "ERROR"]),
    Peer("supergateway, stdio", "npm/supergateway/node_modules/.bin/supergateway", lambda lab, port, url: [
        "--stdio", joined(lab), "--outputTransport", "streamableHttp", "--stateful", "--port", port,
        "--logLevel", "none"]),
    Peer("mcp-proxy (npm), stdio", "npm/mcp-proxy/node_modules/.bin/mcp-proxy", lambda lab, port, url: [
        "--host", "127.0.0.1", "--port", port, "--server", "stream", "--", *bench.stdio_upstream(lab)]),
    Peer("mcp-hub, HTTP", "npm/mcp-hub/node_modules/.bin/mcp-hub", lambda lab, port, url: [
        "--port", port, "--config", command_file(lab, "hub-http", {"url": url})], front="--legacy-sse"),
    Peer("mcp-hub, stdio", "npm/mcp-hub/node_modules/.bin/mcp-hub", lambda lab, port, url: [
        "--port", port, "--config", command_file(lab, "hub-stdio", child(lab))], front="--legacy-sse"),
    # Its client starts it, and speaks to it over its standard input and output.
    Peer("mcp-remote, HTTP", "npm/mcp-remote/node_modules/.bin/mcp-remote", lambda lab, port, url: [
        url, "--allow-http", "--transport", "http-only"], front="--stdio"),
]
# Known, and not started from here: it wants a login and a registered server first.
NOT_DRIVEN = {"contextforge": "py/cf/bin/mcpgateway"}


class Contender:
    """What takes turns: how to call it, under which names, and its runs by case."""

    def __init__(self, name, where, tools):
        self.name, self.where, self.tools = name, where, tools
        self.calls = dict(CALLS)
        self.runs = {}
        self.bare = {}

    def words(self, tool):
        """How the load client calls `tool` here."""
        name = self.tools.get(tool)
        return (*self.where, "--tool", name) if name else self.where


def main():
    found = [peer for peer in KNOWN if (PEERS / peer.program).exists()]
    for name, program in NOT_DRIVEN.items():
        if (PEERS / program).exists():
            print(f"{name} is installed and not measured: it wants a login and a registered server first.")
    if not found:
        print(f"No peer is installed beneath {PEERS}: the gateway runs beside the bare upstream only.")
    with bench.Lab("peers", SECONDS) as lab:
        before = machine()
        lab.record(case="machine", machine=before)
        url = lab.upstream(tools=3)
        gateway = lab.gateway({"http": {"url": url}, "stdio": child(lab)})
        contenders = [Contender(f"mcpproxy, {name}", gateway.where(server), {})
                      for server, name in (("http", "HTTP"), ("stdio", "stdio"))]
        contenders += [c for c in (start(lab, peer, url) for peer in found) if c]
        for contender in contenders:
            fit(lab, contender)
        for number in lab.rounds():
            for case in (*CALLS, "10MB"):
                for contender in contenders:
                    turn(lab, contender, case, url, number)
        show(lab, contenders, before)
        return 1 if any(error.startswith("mcpproxy") for error in lab.errors) else 0


def start(lab, peer, url):
    """A peer that lists the upstream's tools; None, and a word why, when it does not."""
    port = bench.free_port()
    command = [PEERS / peer.program, *peer.words(lab, port, url)]
    if peer.front == "--stdio":
        where, process = ("--stdio", " ".join(str(word) for word in command)), None
    else:
        env = {"XDG_STATE_HOME": str(lab.dir), **peer.env}
        process = lab.start(command, env=env)
        where = (peer.front, f"http://127.0.0.1:{port}{peer.path}", "--pid", process.pid)
    limit = time.monotonic() + START_SECONDS
    listed = {"kinds": {"no answer": 1}}
    while time.monotonic() < limit and (process is None or process.poll() is None):
        listed = lab.run("load", *where, "--case", "list", "--calls", 1, "--warm-up", 0, "--timeout", 10)
        tools = {tool: name for tool in ("echo", "big") for name in listed.get("names", ())
                 if name == tool or name.endswith(("_" + tool, "-" + tool, "/" + tool, "." + tool))}
        if len(tools) == 2:
            return Contender(peer.name, where, tools)
        time.sleep(0.1)
    print(f"{peer.name} does not list the upstream's tools: {next(iter(listed['kinds']), 'it ended')}")
    return None


def fit(lab, contender):
    """Fewer calls for who is slow."""
    probe = lab.run("load", *contender.words("echo"), "--case", "echo", "--calls", 10, "--warm-up", 5)
    fits = RUN_SECONDS * 1e6 / max(probe.get("p50_us") or 100_000, 100)
    contender.calls = {case: int(max(40, min(calls, fits))) for case, calls in CALLS.items()}


def turn(lab, contender, case, url, number):
    """One run against the bare upstream, and the same against the contender."""
    name = f"{contender.name}, {case}"
    if case == "10MB":
        words = ("--case", "big", "--bytes", LARGE, "--calls", 3, "--warm-up", 0, "--timeout", 60)
        bare = lab.load("bare", name, ("--url", url), number, *words)
        ours = lab.load(contender.name, name, contender.words("big"), number, *words)
    else:
        bare = lab.echo("bare", name, ("--url", url), number, BARE_CALLS[case])
        ours = lab.echo(contender.name, name, contender.words("echo"), number, contender.calls[case])
    contender.bare.setdefault(case, []).append(bare)
    contender.runs.setdefault(case, []).append(ours)


def show(lab, contenders, before):
    """Prints everything, case by case."""
    table = Table()
    for case in (*CALLS, "10MB"):
        for contender in contenders:
            add(table, f"{case}, {contender.name}", case, contender.runs[case], contender.bare[case])
    for line in table.text().splitlines():
        lab.record(case="table", line=line)
        print(line)
    print("""
bare: the same client straight to the HTTP upstream, right before. rate and p50 behind it: the share of that rate, and
how many times that p50. RSS: highest peak of the process tree. spread: upper quartile of the runs over the lower one.
The gateway is called through call_tool_read, a peer by the tool's own name.""")
    remarks(lab, table, before)


def add(table, name, case, runs, bare):
    """One row; runs that went wrong do not count."""
    runs = [run for run in runs if not run["errors"]]
    rate, bare_rate = median(runs, "calls_per_s"), median(bare, "calls_per_s")
    p50, bare_p50 = median(runs, "p50_us"), median(bare, "p50_us")
    small = case != "10MB"
    shown = per_second(rate) if small else p50 and per_second(LARGE / p50, " MB")
    table.add(name, p50=micros(p50), p99=micros(median(runs, "p99_us")) if small else None, rate=shown,
              against=f"bare {per_second(bare_rate)}, {micros(bare_p50)}" if small else f"bare {micros(bare_p50)}",
              rate_ratio=part(rate, bare_rate) if small else None, p50_ratio=times(p50, bare_p50),
              cpu=micros(cpu_us(runs)), rss=megabytes(max(filter(None, map(peak_mb, runs)), default=None)),
              spreads=(spread(runs, "p50_us"), spread(bare, "p50_us")))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except bench.Trouble as trouble:
        sys.exit(f"bench-peers: {trouble}")
    except KeyboardInterrupt:
        sys.exit(130)
