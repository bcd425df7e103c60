"""One gateway process for a test: its configuration, its start, the command line beside it, and its end."""

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from parts import BINARY
from processes import Descendants
from table import Failure, check

#: The tools of the gateway itself.
MENU = ["call_tool_destructive", "call_tool_read", "call_tool_write", "describe_tool", "retrieve_tools"]
START_SECONDS = 60
COMMAND_SECONDS = 90
STOP_SECONDS = 20
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Home:
    """A configuration file and a data directory of their own; `servers` maps names to commands or addresses, `environments` to variables."""

    def __init__(self, directory, servers, output_root, environments=None):
        self.directory = Path(directory)
        self.config = self.directory / "config" / "mcp_config.json"
        self.data = self.directory / "data"
        self.log = self.directory / "gateway.log"
        self.config.parent.mkdir(parents=True)
        self.config.write_text(json.dumps(_configuration(servers, output_root, environments or {}), indent=1), encoding="utf-8")

    def command(self, *words):
        """A command line of the program that uses this home."""
        return [str(BINARY), *words, "--config", str(self.config), "--data-dir", str(self.data)]

    def run_file(self):
        """What the daemon says of itself, or None."""
        try:
            return json.loads((self.data / "run.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None

    def call(self, variant, tool, arguments, *flags):
        """`mcpproxy call`: exit code, standard output as bytes, standard error as text."""
        words = ["call", variant, "--tool-name", tool, "--json_args", json.dumps(arguments), *map(str, flags)]
        return self.cli(*words)

    def cli(self, *words):
        """Any command; its output is never read as anything but bytes."""
        done = subprocess.run(
            self.command(*words), stdin=subprocess.DEVNULL, capture_output=True, cwd="/", timeout=COMMAND_SECONDS, check=False
        )
        return done.returncode, done.stdout, done.stderr.decode("utf-8", "replace")

    def newest_record(self):
        """The newest closed record of a call."""
        code, out, err = self.cli("activity", "list", "--type", "tool_call", "--limit", "1", "--output", "json")
        check(code == 0, f"activity list ended with {code}: {err}")
        return json.loads(out)["activities"][0]


class Gateway:
    """`mcpproxy serve` over HTTP, ready: every server has settled."""

    def __init__(self, home, environment=None):
        self.home = home
        with home.log.open("ab") as log:
            self.process = subprocess.Popen(
                home.command("serve"),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=os.environ | (environment or {}),
            )
        try:
            self.address = self._wait_until_ready()
        except BaseException:
            self.stop(signal.SIGKILL)
            raise
        self.url = f"http://{self.address}/mcp"

    def descendants(self):
        """Every process below it, now."""
        return Descendants(self.process.pid)

    def stop(self, number):
        """Sends the signal and waits for the end; gives the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Failure(f"the gateway did not end within {STOP_SECONDS} s of signal {number}") from None

    def _wait_until_ready(self):
        limit = time.monotonic() + START_SECONDS
        said = "no run.json"
        while time.monotonic() < limit:
            if self.process.poll() is not None:
                raise Failure(f"the gateway ended with {self.process.returncode}:\n{self._log_end()}")
            run = self.home.run_file()
            if run and run["pid"] == self.process.pid:
                said = _readiness(run["listen"])
                if said == 200:
                    return run["listen"]
            time.sleep(0.05)
        raise Failure(f"the gateway was not ready after {START_SECONDS} s ({said}):\n{self._log_end()}")

    def _log_end(self):
        return self.home.log.read_text(encoding="utf-8", errors="replace")[-3000:]


def _configuration(servers, output_root, environments):
    entries = {name: _entry(server) for name, server in servers.items()}
    for name, variables in environments.items():
        entries[name]["env"] = variables
    return {
        "listen": "127.0.0.1:0",
        # Whole answers also inline, whatever limit the program has by itself.
        "tool_response_limit": 0,
        "tool_output_roots": [str(output_root)],
        "init_timeout": "60s",
        "mcpServers": entries,
    }


def _entry(server):
    """A server that is an address, or a command."""
    return {"url": server} if isinstance(server, str) else {"command": server[0], "args": server[1:]}


def _readiness(address):
    """The status of /readyz, or why there is none."""
    try:
        with _direct.open(f"http://{address}/readyz", timeout=5) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError as error:
        return str(error)
