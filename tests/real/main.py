"""Runs all real tests and prints the table. The exit code is 1 when one failed or none ran."""

import os
import shutil
import sys
import tempfile

# The client must never ask a proxy about loopback.
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"

# The order of these imports is the order of the cases.
import saving  # noqa: E402, F401
import inline  # noqa: E402, F401
import overstdio  # noqa: E402, F401
import secured  # noqa: E402, F401
import lifetime  # noqa: E402, F401
import table  # noqa: E402
from stage import Stage  # noqa: E402


def main(words):
    directory = tempfile.mkdtemp(prefix="mcpproxy-real-")
    stage = Stage(directory)
    try:
        passed, failed = table.run(stage, words)
    finally:
        try:
            stage.close()
        finally:
            keep = os.environ.get("REAL_KEEP")
            print(f"\nkept: {directory}" if keep else "", flush=True)
            if not keep:
                shutil.rmtree(directory, ignore_errors=True)
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed or not passed else 0


sys.exit(main(sys.argv[1:]))
