"""The real parts: where they are installed, and how each is started, by path and never through a fetching launcher."""

import json
import os
import sys
from importlib import metadata
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
INSTALLED = REPOSITORY / "target" / "real"
BINARY = REPOSITORY / os.environ.get("MCPPROXY_BINARY", "target/debug/mcpproxy")
TEE = Path(__file__).with_name("tee.py")
MODULES = INSTALLED / "npm" / "node_modules"


def filesystem(*directories):
    """server-filesystem, which may read beneath `directories`."""
    return _npm_server("filesystem", *map(str, directories))


def everything():
    """server-everything over stdio."""
    return _npm_server("everything", "stdio")


def memory():
    """server-memory; its environment names the file that it keeps its graph in."""
    return _npm_server("memory")


def sequential_thinking():
    """server-sequential-thinking."""
    return _npm_server("sequential-thinking")


def git(repository):
    """mcp-server-git, confined to `repository`."""
    return [_program("servers", "mcp-server-git"), "--repository", str(repository)]


def time():
    """mcp-server-time."""
    return [_program("servers", "mcp-server-time"), "--local-timezone", "UTC"]


def fetch():
    """mcp-server-fetch, which may read from loopback."""
    return [_program("servers", "mcp-server-fetch"), "--ignore-robots-txt", "--allow-private-ips"]


def sqlite(database):
    """mcp-server-sqlite with the file `database`."""
    return [_program("sqlite", "mcp-server-sqlite"), "--db-path", str(database)]


def inspector():
    """The command line of the Inspector."""
    return [node(), str(MODULES / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"), "--cli"]


def through_tee(log, command):
    """The same server with everything it says and hears written to `log` and `log`.asked."""
    return [sys.executable, "-B", str(TEE), str(log), *command]


def node():
    """The installed Node for this machine."""
    found = sorted(MODULES.glob("node-linux-*/bin/node"))
    if len(found) != 1:
        raise SystemExit("target/real/npm holds no Node for this machine: run tests/real/install")
    return str(found[0])


def npm_version(package):
    """The installed version of an npm package."""
    return json.loads((MODULES / package / "package.json").read_text(encoding="utf-8"))["version"]


def python_version(environment, package):
    """The installed version of a Python package in one of the virtual environments."""
    found = list(metadata.distributions(name=package, path=map(str, _venv(environment).glob("lib/python3*/site-packages"))))
    if len(found) != 1:
        raise SystemExit(f"target/real/{environment}.venv holds no {package}: run tests/real/install")
    return found[0].version


def _npm_server(name, *arguments):
    return [node(), str(MODULES / f"@modelcontextprotocol/server-{name}/dist/index.js"), *arguments]


def _program(environment, name):
    return str(_venv(environment) / "bin" / name)


def _venv(environment):
    return INSTALLED / f"{environment}.venv"
