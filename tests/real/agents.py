"""The clients of the matrix. Each holds a conversation with a gateway: a list of steps, and a list of what came back.

A step is {} (list the tools; the reply is their names) or {"tool": …, "arguments": …} (call one; the reply is the result).
"""

import asyncio
import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import client
import parts
from table import Failure, check

STEP_SECONDS = 60
CONVERSATION_SECONDS = 90


@dataclass
class Agent:
    """One column of the matrix."""

    label: str
    what: str
    #: converse(url, steps) gives the replies, or raises.
    converse: Callable
    #: Why this client cannot speak with this version of the gateway.
    not_yet: str | None = None
    #: What it was told instead.
    told: str | None = None


def all_agents(scratch):
    """Every client; what they write at home goes beneath `scratch`."""
    python, script = parts.python_version("client", "mcp"), parts.npm_version("@modelcontextprotocol/client")
    inspector, fast = parts.npm_version("@modelcontextprotocol/inspector"), parts.python_version("client", "fastmcp")
    return [
        Agent("inspector", f"Inspector CLI {inspector}, a process for each step", Inspector(Path(scratch)).converse),
        Agent("py legacy", f"Python mcp {python}, initialize", _python("legacy")),
        Agent("py auto", f"Python mcp {python}, asks for the newest revision first", _python("auto")),
        Agent(
            "py 2026-07-28",
            f"Python mcp {python}, speaks 2026-07-28 and nothing else",
            _python("2026-07-28"),
            not_yet="this version of the gateway serves the revisions that begin with initialize: 2024-11-05 to 2025-11-25",
        ),
        Agent("ts default", f"TypeScript client {script}, initialize", _typescript("default")),
        Agent("ts auto", f"TypeScript client {script}, asks for the newest revision first", _typescript("auto")),
        Agent("fastmcp", f"FastMCP client {fast}", _fastmcp),
    ]


class Inspector:
    """The command line of the Inspector, which connects anew for each step."""

    def __init__(self, home):
        self._environment = os.environ | {"HOME": str(home), "MCP_INSPECTOR_SECRET_STORE": "memory"}

    def converse(self, url, steps):
        return [self._step(url, step) for step in steps]

    def _step(self, url, step):
        words = ["--method", "tools/list"]
        if step:
            words = ["--method", "tools/call", "--tool-name", step["tool"], "--tool-args-json", json.dumps(step["arguments"])]
        done = subprocess.run(
            [*parts.inspector(), url, "--transport", "http", *words, "--format", "json"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=self._environment,
            timeout=STEP_SECONDS,
            check=False,
        )
        # 5 is a call that gave an error: that is for the reader of the reply to judge.
        check(done.returncode in (0, 5), f"the Inspector ended with {done.returncode}: {done.stderr.decode()[:1000]}")
        result = json.loads(done.stdout)["result"]
        return result if step else [tool["name"] for tool in result["tools"]]


def _python(mode):
    return lambda url, steps: client.ask(url, lambda talk: _take(steps, talk.list_tools, talk.call_tool), mode)


def _fastmcp(url, steps):
    # Takes seconds to import, so only when it is asked for.
    from fastmcp import Client

    async def talk():
        async with asyncio.timeout(CONVERSATION_SECONDS):
            async with Client(url, timeout=STEP_SECONDS) as fast:
                return await _take(steps, fast.list_tools, fast.call_tool_mcp)

    return asyncio.run(talk())


async def _take(steps, list_tools, call_tool):
    replies = []
    for step in steps:
        if step:
            reply = await call_tool(step["tool"], step["arguments"])
            replies.append(reply.model_dump(mode="json", by_alias=True, exclude_none=True))
        else:
            tools = await list_tools()
            replies.append([tool.name for tool in getattr(tools, "tools", tools)])
    return replies


def _typescript(mode):
    driver = str(Path(__file__).with_name("typescript.mjs"))

    def converse(url, steps):
        asked = {"modules": str(parts.MODULES.parent), "url": url, "mode": mode, "steps": steps}
        done = subprocess.run(
            [parts.node(), driver],
            input=json.dumps(asked).encode(),
            capture_output=True,
            timeout=CONVERSATION_SECONDS,
            check=False,
        )
        if done.returncode:
            raise Failure(f"the TypeScript client: {done.stdout.decode()[:1000]} {done.stderr.decode()[-2000:]}")
        return json.loads(done.stdout)

    return converse
