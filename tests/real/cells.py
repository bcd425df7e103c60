"""One cell of the matrix: a client that lists, finds, calls and saves with one server through the gateway."""

import json
import time
from dataclasses import dataclass

from envelope import compare_saved
from gateway import MENU
from table import Failure, check, equal

#: A client that the gateway cannot serve must be told so within this time.
REFUSAL_SECONDS = 5
BEST = 3


@dataclass
class Call:
    """A call of a server's tool, by the gateway's tool that fits it."""

    tool: str
    arguments: dict
    variant: str = "call_tool_read"

    def step(self, **more):
        return {"tool": self.variant, "arguments": {"name": self.tool, "args": self.arguments, **more}}


@dataclass
class Row:
    """A server, and what the clients do with it."""

    server: str
    version: str
    #: What an agent would search for when it wants `small`.
    query: str
    small: Call
    #: A call whose answer has one block of bytes, if the server has such a tool.
    blob: Call | None = None


def rows(stage, versions):
    """Every server; `versions` maps their names to what is installed."""
    fixture = stage.fixture
    repository = {"repo_path": str(fixture.repository)}
    thought = {"thought": "One step: größe 🙂", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
    noon = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    found = [
        (
            "everything",
            "echo back the input",
            Call("everything:echo", {"message": "größe 🙂"}),
            Call("everything:get-tiny-image", {}),
        ),
        (
            "filesystem",
            "read a file as text",
            Call("filesystem:read_text_file", {"path": str(fixture.small)}),
            Call("filesystem:read_media_file", {"path": str(fixture.blob)}),
        ),
        ("memory", "open nodes of the knowledge graph by name", Call("memory:open_nodes", {"names": ["entity 0", "entity 1"]})),
        ("thinking", "solve a problem step by step with thoughts", Call("thinking:sequentialthinking", thought)),
        ("git", "log of the commits", Call("git:git_log", repository)),
        ("time", "convert a time between timezones", Call("time:convert_time", noon)),
        ("fetch", "fetch a URL", Call("fetch:fetch", {"url": stage.pages.url(fixture.small.name), "raw": True})),
        ("sqlite", "list all tables of the database", Call("sqlite:list_tables", {})),
    ]
    return [Row(server, versions[server], *rest) for server, *rest in found]


def run_cell(stage, row, agent):
    """The words of the cell; raises what went wrong."""
    started = time.monotonic()
    if agent.not_yet:
        _refused(stage, row, agent)
        return "not yet"
    saves = [(row.small, "text"), (row.small, "json")] + ([(row.blob, "binary")] if row.blob else [])
    targets = [stage.target(f".{save_format}") for _, save_format in saves]
    steps = _steps(row, saves, targets)
    url, log = stage.gateway.url, stage.log(row.small.tool)
    listed, search, reply, *envelopes = agent.converse(url, steps)
    seconds = time.monotonic() - started
    equal([name for name in sorted(listed) if name in MENU], MENU, "the menu")
    _compare_search(row, search)
    equal([(call["name"], call["arguments"]) for call in log.calls()], _reached(row, saves), "calls that reached the server")
    answer, *results = log.tool_results()
    equal(len(results), len(saves), "results that the server wrote to be saved")
    _compare_inline(reply, json.loads(answer))
    for (_, save_format), target, envelope, raw in zip(saves, targets, envelopes, results, strict=True):
        compare_saved(envelope_of(envelope), target, raw, save_format)
    return f"ok {seconds:.2f} s"


def envelope_of(reply):
    """The envelope in the reply to a save."""
    check(not reply.get("isError"), f"the save failed: {str(reply)[:1000]}")
    equal([block["type"] for block in reply["content"]], ["text"], "blocks of the reply")
    return json.loads(reply["content"][0]["text"])


def _steps(row, saves, targets):
    search = {"tool": "retrieve_tools", "arguments": {"query": row.query}}
    saving = [
        call.step(save_to_file=str(target), save_format=save_format)
        for (call, save_format), target in zip(saves, targets, strict=True)
    ]
    return [{}, search, row.small.step(), *saving]


def _refused(stage, row, agent):
    """The client is told at once and in words which revisions there are, and nothing reaches the server."""
    url, log, started = stage.gateway.url, stage.log(row.small.tool), time.monotonic()
    try:
        agent.converse(url, _steps(row, [], []))
    except Exception as error:
        said, seconds = f"{type(error).__name__}: {error}", time.monotonic() - started
    else:
        raise Failure(f"{agent.label} works with the gateway now: let it be a client like the others")
    check(seconds < REFUSAL_SECONDS, f"the refusal took {seconds:.1f} s: {said}")
    check("version" in said.lower() and "2025-11-25" in said, f"the refusal does not name the revisions: {said}")
    equal(log.calls(), [], "calls that reached the server")
    agent.told = said


def _reached(row, saves):
    return [(call.tool.partition(":")[2], call.arguments) for call in [row.small, *(call for call, _ in saves)]]


def _compare_search(row, reply):
    check(not reply.get("isError"), f"the search failed: {str(reply)[:1000]}")
    tools = {tool["name"]: tool for tool in json.loads(reply["content"][0]["text"])["tools"][:BEST]}
    check(row.small.tool in tools, f"{row.query!r} gave {list(tools)}, not {row.small.tool}")
    equal(tools[row.small.tool]["call_with"], row.small.variant, "call_with")


def _compare_inline(reply, result):
    """The reply is the server's result, as far as every client hands it on."""
    for name in ["content", "structuredContent"]:
        equal(reply.get(name), result.get(name), f"{name} of the reply")
    equal(reply.get("isError", False), result.get("isError", False), "isError of the reply")
