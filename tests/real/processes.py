"""Which processes a program has started, and whether any of them is still there."""

import os
import time
from pathlib import Path


class Descendants:
    """Every process below one, as they were when this was made: pid and start time, so that a reused pid is nobody."""

    def __init__(self, root):
        self.commands = {}
        waiting, children = [root], _children()
        while waiting:
            for pid in children.get(waiting.pop(), []):
                if stat := _stat(pid):
                    self.commands[pid, stat["started"]] = _command(pid)
                    waiting.append(pid)

    def left(self):
        """The commands of those that still run."""
        return [f"{pid} {command}" for (pid, started), command in self.commands.items() if _runs(pid, started)]

    def left_after(self, seconds):
        """Waits until none is left, at most `seconds`; gives those that stayed."""
        limit = time.monotonic() + seconds
        while (left := self.left()) and time.monotonic() < limit:
            time.sleep(0.05)
        return left


def _children():
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (stat := _stat(int(entry))):
            children.setdefault(stat["parent"], []).append(int(entry))
    return children


def _runs(pid, started):
    stat = _stat(pid)
    return bool(stat) and stat["started"] == started and stat["state"] not in "ZX"


def _stat(pid):
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name in parentheses may hold anything, so the fields count from its end.
    fields = text.rpartition(")")[2].split()
    return {"state": fields[0], "parent": int(fields[1]), "started": fields[19]}


def _command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()[:160]
    except OSError:
        return "(gone)"
