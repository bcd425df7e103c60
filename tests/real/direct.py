"""A stdio server spoken to without a gateway and without a client: its results stay the bytes that it wrote."""

import json
import os
import selectors
import subprocess
import time

from table import Failure, check
from wirelog import member

ANSWER_SECONDS = 90
END_SECONDS = 5
CHUNK = 1 << 20


class Direct:
    """A server that has been greeted; to be used with `with`."""

    def __init__(self, command, environment):
        self._server = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=os.environ | environment,
        )
        self._rest = bytearray()
        self._next_id = 0

    def __enter__(self):
        who = {"name": "real-tests", "version": "1"}
        try:
            self._ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": who})
            self._say({"method": "notifications/initialized"})
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error):
        self._server.stdin.close()
        try:
            self._server.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        self._server.stdout.close()

    def call(self, tool, arguments):
        """The raw result of one call."""
        return self._ask("tools/call", {"name": tool, "arguments": arguments})

    def _ask(self, method, params):
        self._next_id += 1
        self._say({"id": self._next_id, "method": method, "params": params})
        limit = time.monotonic() + ANSWER_SECONDS
        while True:
            line = self._line(limit)
            message = json.loads(line)
            if message.get("id") == self._next_id and "method" not in message:
                raw = member(line, "result")
                check(raw is not None, f"{method}: {line[:500]!r}")
                return raw

    def _say(self, message):
        self._server.stdin.write(json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n")
        self._server.stdin.flush()

    def _line(self, limit):
        """The next line that is not empty."""
        with selectors.DefaultSelector() as ready:
            ready.register(self._server.stdout, selectors.EVENT_READ)
            while True:
                line, end, rest = self._rest.partition(b"\n")
                if end:
                    self._rest = rest
                    if line.strip():
                        return bytes(line)
                    continue
                if not ready.select(limit - time.monotonic()):
                    raise Failure(f"no answer of {self._server.args[-1]} within {ANSWER_SECONDS} s")
                chunk = os.read(self._server.stdout.fileno(), CHUNK)
                check(chunk, f"{self._server.args[-1]} has ended")
                self._rest += chunk
