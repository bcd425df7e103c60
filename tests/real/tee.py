"""Stands between a gateway and a stdio server, copies both directions byte for byte, and keeps what was said.

tee.py LOG COMMAND ARGUMENTS...: LOG gets what the server wrote, LOG.asked what it was sent. A byte is in the log before it is
passed on, so whoever has an answer finds it there.
"""

import os
import subprocess
import sys
import threading

CHUNK = 1 << 20


def copy(source, target, log):
    """Copies until the source ends or the target is gone."""
    try:
        while chunk := os.read(source, CHUNK):
            write_all(log, chunk)
            write_all(target, chunk)
    except BrokenPipeError:
        pass
    finally:
        os.close(target)


def write_all(target, chunk):
    rest = memoryview(chunk)
    while rest:
        rest = rest[os.write(target, rest) :]


def open_log(path):
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def main():
    log, command = sys.argv[1], sys.argv[2:]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    asked = (sys.stdin.fileno(), os.dup(server.stdin.fileno()), open_log(log + ".asked"))
    server.stdin.close()
    threading.Thread(target=copy, args=asked, daemon=True).start()
    copy(server.stdout.fileno(), sys.stdout.fileno(), open_log(log))
    # The server has closed its output; it is given a moment to end by itself.
    try:
        code = server.wait(timeout=5)
    except subprocess.TimeoutExpired:
        server.kill()
        code = server.wait()
    # Standard output is closed already: a normal exit would complain about that.
    os._exit(code if code >= 0 else 1)


main()
