"""The language of the real tests: a case is a function with a name in words; all of them make one table."""

import os
import signal
import time
import traceback
from contextlib import contextmanager

CASE_SECONDS = 180
_cases = []


class Failure(Exception):
    """What a check says when it does not hold."""


def case(name):
    """Registers a case; the function gets the stage."""

    def register(function):
        _cases.append((name, function))
        return function

    return register


def check(holds, message):
    """Fails the case with `message` unless `holds`."""
    if not holds:
        raise Failure(message)


def equal(got, wanted, what):
    """Fails the case unless both are equal; long values are cut where they part."""
    if got != wanted:
        raise Failure(f"{what}: {_difference(got, wanted)}")


def run(stage, words):
    """Runs the cases whose names contain one of `words`, or all. Gives the numbers of passed and failed ones."""
    chosen = [(name, f) for name, f in _cases if not words or any(word in name for word in words)]
    width = max((len(name) for name, _ in chosen), default=0)
    failures = []
    for name, function in chosen:
        started = time.monotonic()
        said = trouble(lambda: function(stage))  # noqa: B023
        seconds = time.monotonic() - started
        print(f"{'FAILED' if said else 'ok':6}  {name:{width}}  {seconds:7.2f} s", flush=True)
        if said:
            failures.append((name, said))
    for name, said in failures:
        print(f"\n--- {name}\n{said.rstrip()}")
    return len(chosen) - len(failures), len(failures)


def trouble(function):
    """Why the function failed, or None."""
    try:
        with _at_most(CASE_SECONDS):
            function()
    except Failure as failure:
        return str(failure)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return "".join(traceback.format_exception(error))[-6000:]
    return None


@contextmanager
def _at_most(seconds):
    def late(_signal, _frame):
        raise Failure(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _difference(got, wanted):
    if isinstance(got, str | bytes) and type(got) is type(wanted):
        at = len(os.path.commonprefix([got, wanted]))
        return f"differs at {at} of {len(got)} and {len(wanted)}: {got[at : at + 80]!r}, wanted {wanted[at : at + 80]!r}"
    return f"{str(got)[:500]!r}, wanted {str(wanted)[:500]!r}"
