"""The Python MCP client, for one question at a time, over HTTP to a gateway or over stdio to any program."""

import asyncio
import os
from dataclasses import dataclass

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

SECONDS = 90


@dataclass
class Program:
    """A program to talk to over its standard input and output; its standard error goes to the file `errors`."""

    command: list
    errors: str | os.PathLike = os.devnull


def ask(where, question, mode="legacy"):
    """Connects to `where`, an address or a `Program`, and gives what the coroutine `question(client)` returns."""

    async def talk(server):
        async with asyncio.timeout(SECONDS):
            async with Client(server, mode=mode, read_timeout_seconds=SECONDS) as client:
                return await question(client)

    if not isinstance(where, Program):
        return _run(talk(where))
    with open(where.errors, "a", encoding="utf-8") as errors:
        server = StdioServerParameters(command=where.command[0], args=where.command[1:])
        return _run(talk(stdio_client(server, errlog=errors)))


def call(where, tool, arguments):
    """One call on a connection of its own."""
    return ask(where, lambda client: client.call_tool(tool, arguments))


def text_of(result):
    """The text blocks of a result, joined as a saved text is."""
    return "\n".join(block.text for block in result.content if block.type == "text")


def _run(talk):
    try:
        return asyncio.run(talk)
    except BaseExceptionGroup as group:
        # The client's task groups wrap even what a check in the question has raised.
        raise _innermost(group) from None


def _innermost(error):
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
