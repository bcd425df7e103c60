"""The real parts: where they are installed, and how each is started, by path and never through a fetching launcher."""

import os
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
INSTALLED = REPOSITORY / "target" / "real"
BINARY = REPOSITORY / os.environ.get("MCPPROXY_BINARY", "target/debug/mcpproxy")
TEE = Path(__file__).with_name("tee.py")
_MODULES = INSTALLED / "npm" / "node_modules"


def filesystem(directory):
    """server-filesystem, which may read beneath `directory`."""
    return [_node(), str(_MODULES / "@modelcontextprotocol/server-filesystem/dist/index.js"), str(directory)]


def everything():
    """server-everything over stdio."""
    return [_node(), str(_MODULES / "@modelcontextprotocol/server-everything/dist/index.js"), "stdio"]


def git(repository):
    """mcp-server-git, confined to `repository`."""
    return [str(INSTALLED / "git-server.venv/bin/mcp-server-git"), "--repository", str(repository)]


def through_tee(log, command):
    """The same server with everything it says and hears written to `log` and `log`.asked."""
    return [sys.executable, "-B", str(TEE), str(log), *command]


def _node():
    """The installed Node for this machine."""
    found = sorted(_MODULES.glob("node-linux-*/bin/node"))
    if len(found) != 1:
        raise SystemExit("target/real/npm holds no Node for this machine: run tests/real/install")
    return str(found[0])
