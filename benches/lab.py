"""What a bench works with: its processes, its directory, the load client, and the file of its figures.

Loopback only. Every process is started here, in a group of its own, and only those are stopped, by number. Everything
is gone at the end but the figures, target/bench/NAME-TIME.jsonl, one JSON object a line.
"""

import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute()
MB = 1_000_000
READY_SECONDS = 30
# Echo calls of one run, and of one against the bare upstream, which is several times faster.
CALLS = {"c1": 1_200, "c32": 4_000}
BARE_CALLS = {"c1": 2_400, "c32": 10_000}
# Turns of bare and gateway in one round: short ones, so that both meet what else the machine does.
TURNS = 5


class Trouble(Exception):
    """Why the bench cannot go on, in words for who runs it."""


class Lab:
    """One run of a bench."""

    def __init__(self, name, seconds, programs=("mcpproxy", "benchkit")):
        self.began = time.monotonic()
        self.seconds = seconds
        self.programs = programs
        self.started = []
        self.cut = False
        self.errors = []
        out = TARGET / "bench"
        out.mkdir(parents=True, exist_ok=True)
        self.figures = out / f"{name}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.jsonl"
        self._lines = open(self.figures, "w", encoding="utf-8")
        self.dir = Path(tempfile.mkdtemp(prefix="run-", dir=out))
        self.log = open(self.dir / "log", "ab")

    def __enter__(self):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            # Copies, so that a build beside the bench cannot change what is measured.
            for name in self.programs:
                setattr(self, name, self._copy(name))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(list(self.started)):
            self.stop(process)
        self._lines.close()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def _copy(self, name):
        built = TARGET / "release" / name
        if not built.is_file():
            raise Trouble(f"{built} is not there: cargo build --release -p {' -p '.join(self.programs)}")
        return Path(shutil.copy2(built, self.dir / name))

    def rounds(self, more=0):
        """Round numbers, ROUNDS and `more`; after the first, none is begun when the bench's time is over."""
        for number in range(int(os.environ.get("ROUNDS", "3")) + more):
            if number and time.monotonic() - self.began > self.seconds:
                self.cut = True
                return
            yield number

    def record(self, **fields):
        """Writes one line of figures."""
        line = {"seconds": round(time.monotonic() - self.began, 2), "load": os.getloadavg()[0], **fields}
        self._lines.write(json.dumps(line) + "\n")
        self._lines.flush()

    def start(self, command, env=None, **pipes):
        """Starts a program whose words go to the run's log."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": self.log, "stderr": self.log, **pipes}
        env = {**os.environ, **(env or {})}
        command = [str(word) for word in command]
        process = subprocess.Popen(command, env=env, cwd=self.dir, start_new_session=True, **pipes)
        self.started.append(process)
        return process

    def stop(self, process):
        """Ends a program that was started here, and what is left of its group."""
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        process.wait(10)
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.close()
        self.started.remove(process)

    def upstream(self, tools):
        """The URL of a bare upstream; it ends with this script, however that ends."""
        command = [self.benchkit, "upstream-http", "--tools", tools, "--until-stdin-closes"]
        process = self.start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        url = process.stdout.readline().decode().strip()
        if not url:
            raise Trouble("the bare upstream does not start")
        return url

    def gateway(self, servers, data="data"):
        """A gateway in front of `servers`, ready for calls."""
        return Gateway(self, servers, self.dir / data)

    def run(self, *words):
        """Runs benchkit once and gives its figures."""
        command = [str(word) for word in (self.benchkit, *words)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=180, cwd=self.dir)
        except subprocess.TimeoutExpired:
            return {"errors": 1, "kinds": {"benchkit did not end within 180 s": 1}}
        try:
            return json.loads(done.stdout)
        except ValueError:
            return {"errors": 1, "kinds": {done.stderr.strip()[-300:] or f"exit code {done.returncode}": 1}}

    def load(self, who, case, where, number, *words):
        """Runs the load client, keeps its figures and gives them."""
        figures = self.run("load", *where, *words)
        self.record(case=case, who=who, round=number, **figures)
        if figures["errors"]:
            kind = next(iter(figures["kinds"]), "")
            self.errors.append(f"{case}, {who}: {figures['errors']} wrong of {figures.get('calls', 0)}: {kind}")
        return figures

    def echo(self, who, case, where, number, calls):
        """Small calls, one or 32 at a time."""
        together = 32 if "c32" in case else 1
        words = ("--case", "echo", "--calls", calls, "--warm-up", max(1, min(calls // 4, 40 * together)))
        return self.load(who, case, where, number, *words, "--concurrency", together)


class Gateway:
    """mcpproxy, with its own configuration, data and directory for saved answers."""

    def __init__(self, lab, servers, data):
        port = free_port()
        self.saved = lab.dir / "saved"
        self.saved.mkdir(mode=0o700, exist_ok=True)
        config = {
            "listen": f"127.0.0.1:{port}",
            "data_dir": str(data),
            "tool_output_roots": [str(self.saved)],
            "tool_output_max_bytes": 500 * MB,
            "mcpServers": servers,
        }
        file = lab.dir / f"{data.name}.json"
        file.write_text(json.dumps(config), encoding="utf-8")
        file.chmod(0o600)
        began = time.monotonic()
        self.process = lab.start([lab.mcpproxy, "serve", "--config", file, "--log-level", "error"])
        self.pid = self.process.pid
        self.url = f"http://127.0.0.1:{port}/mcp"
        _wait_for_ready(port, self.process, lab)
        self.start_s = time.monotonic() - began

    def where(self, server):
        """How the load client calls a server's tools through this gateway."""
        return ("--url", self.url, "--via", server, "--pid", self.pid)


def _wait_for_ready(port, process, lab):
    """Asks /readyz every two milliseconds, with as little of this script's time as can be."""
    limit = time.monotonic() + READY_SECONDS
    while time.monotonic() < limit and process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as s:
                s.sendall(f"GET /readyz HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n\r\n".encode())
                if b" 200 " in s.recv(64):
                    return
        except OSError:
            pass
        time.sleep(0.002)
    said = (lab.dir / "log").read_text(errors="replace")[-800:]
    raise Trouble(f"the gateway is not ready after {READY_SECONDS} s, or ended: {said}")


def free_port():
    """A port on 127.0.0.1 that nobody listens on now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def stdio_upstream(lab, tools=3):
    """The command of the upstream that a gateway starts by itself."""
    return [str(lab.benchkit), "upstream-stdio", "--tools", str(tools)]


def resident_mb(pid):
    """Resident memory of a process without its children, in MB."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) * 1024 / MB


def peak_mb(figures):
    """The peak of the gateway's resident memory, in MB."""
    peak = figures.get("rss_peak_kb")
    return None if peak is None else peak * 1024 / MB


def median(rounds, key):
    """The median over rounds of one figure, a name or a function of one run's; None when nothing has it."""
    get = key if callable(key) else lambda figures: figures.get(key)
    values = [value for value in map(get, rounds) if value is not None]
    return statistics.median(values) if values else None


def cpu_us(rounds):
    """CPU time for one call over all rounds together, since the kernel counts in hundredths of a second; microseconds.
    None when it was not measured."""
    measured = [figures for figures in rounds if figures.get("cpu_s") is not None and figures.get("calls")]
    calls = sum(figures["calls"] for figures in measured)
    return sum(figures["cpu_s"] for figures in measured) / calls * 1e6 if calls else None


def spread(rounds, key):
    """How far the middle half of the rounds lies apart: the upper quartile over the lower one."""
    values = [figures[key] for figures in rounds if figures.get(key)]
    if len(values) < 2:
        return None
    lower, _, upper = statistics.quantiles(values, n=4, method="inclusive")
    return upper / lower
