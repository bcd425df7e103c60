"""What a server wrote, as the tee kept it: the raw bytes of its results, found without any code of the gateway."""

import json
import re
from pathlib import Path

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


class WireLog:
    """The log of one server. `mark` forgets what is there; the readers give what came since."""

    def __init__(self, path):
        self.path = Path(path)
        self.asked_path = Path(f"{path}.asked")
        self._read = self._asked = 0

    def mark(self):
        """From here on only new lines count."""
        self._read, self._asked = _size(self.path), _size(self.asked_path)

    def tool_results(self):
        """The raw result of each tools/call that was asked and answered since the mark."""
        asked = {_key(message["id"]) for message in self._call_messages()}
        lines = self._lines(self.path, self._read)
        return [raw for line in lines if _key(json.loads(line).get("id")) in asked and (raw := member(line, "result"))]

    def calls(self):
        """The parameters of each tools/call that reached the server since the mark."""
        return [message["params"] for message in self._call_messages()]

    def _call_messages(self):
        messages = (json.loads(line) for line in self._lines(self.asked_path, self._asked))
        return [message for message in messages if message.get("method") == "tools/call"]

    @staticmethod
    def _lines(path, start):
        if not path.exists():
            return []
        with path.open("rb") as log:
            log.seek(start)
            return [line for line in log.read().split(b"\n") if line.strip()]


def member(line, name):
    """The exact bytes of one top-level member of the JSON object `line`, or None."""
    text = line.decode("utf-8")
    at = _skip(text, 0) + 1
    while text[at := _skip(text, at)] != "}":
        key, at = _DECODER.raw_decode(text, at)
        start = _skip(text, _skip(text, at) + 1)
        _, end = _DECODER.raw_decode(text, start)
        if key == name:
            return text[start:end].encode("utf-8")
        at = _skip(text, end)
        if text[at] == ",":
            at += 1
    return None


def _key(request_id):
    """1 and "1" are different requests."""
    return json.dumps(request_id)


def _size(path):
    return path.stat().st_size if path.exists() else 0


def _skip(text, at):
    return _SPACE.match(text, at).end()
