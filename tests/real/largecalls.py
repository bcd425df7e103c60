"""Large calls of real servers, each saved whole: against what the server wrote, and against what it answers without a gateway."""

import time
from dataclasses import dataclass, field

import client
import parts
from cells import Call, envelope_of
from envelope import compare_saved, file_of
from peak import Peak
from table import check, equal

TEXT, JSON, BINARY = "text", "json", "binary"
#: A save must need less memory than this, whatever the size: less than the largest answers, so none can have been held whole.
GROWTH_BYTES = 8 << 20


@dataclass
class Large:
    """A call and the formats that it is saved in; `least_bytes` is how long the server's result must be."""

    name: str
    call: Call
    least_bytes: int
    formats: list = field(default_factory=lambda: [JSON, TEXT])
    #: The server answers the same again.
    repeatable: bool = True


@dataclass
class Saved:
    """What one save came to."""

    wire_bytes: int
    file_bytes: int
    seconds: float
    #: What the gateway held at most, and by how much that was more than before.
    peak_bytes: int
    growth_bytes: int


def large_calls(stage):
    """Those of the well-known servers that need no browser."""
    f, installed = stage.fixture, str(parts.INSTALLED)
    repository = {"repo_path": str(f.repository)}
    page = {"url": stage.pages.url(f.log.name), "max_length": 900_000, "raw": True}
    return [
        Large("filesystem directory_tree of installed parts", Call("filesystem:directory_tree", {"path": installed}), 5_000_000),
        Large(
            "filesystem search_files **/*.js",
            Call("filesystem:search_files", {"path": installed, "pattern": "**/*.js"}),
            400_000,
        ),
        Large("filesystem read_text_file of a log", Call("filesystem:read_text_file", {"path": str(f.log)}), 2_300_000),
        Large(
            "filesystem read_multiple_files",
            Call("filesystem:read_multiple_files", {"paths": [str(f.json), str(f.log)]}),
            3_200_000,
        ),
        Large(
            "filesystem read_media_file of 5 MB",
            Call("filesystem:read_media_file", {"path": str(f.binary)}),
            9_000_000,
            [JSON, BINARY],
        ),
        Large("memory read_graph of 1,000 entities", Call("memory:read_graph", {}), 600_000),
        Large("git git_show HEAD", Call("git:git_show", repository | {"revision": "HEAD"}), 700_000),
        Large("git git_diff HEAD~2", Call("git:git_diff", repository | {"target": "HEAD~2"}), 700_000),
        Large("sqlite read_query of 5,000 rows", Call("sqlite:read_query", {"query": "SELECT * FROM things"}), 260_000),
        Large(
            "sqlite read_query of one long line",
            Call("sqlite:read_query", {"query": "SELECT hex(randomblob(200000)) AS blob"}),
            400_000,
            repeatable=False,
        ),
        Large("fetch of a page of 900 KB", Call("fetch:fetch", page), 900_000),
        Large("everything echo of 150,000 characters", Call("everything:echo", {"message": "größe 🙂\n" * 18_750}), 150_000),
    ]


class Answers:
    """What the servers answer without a gateway: asked once for each call, one server at a time."""

    def __init__(self, stage, calls):
        self._stage, self._calls, self._raw = stage, calls, {}

    def raw(self, large):
        if large.name not in self._raw:
            server = large.call.tool.partition(":")[0]
            with self._stage.direct(server) as direct:
                for other in self._calls:
                    name, _, tool = other.call.tool.partition(":")
                    if name == server and other.repeatable:
                        self._raw[other.name] = direct.call(tool, other.call.arguments)
        return self._raw[large.name]


def save(stage, answers, large, save_format):
    """Saves once through the gateway and compares; gives a `Saved`."""
    gateway, target, log = stage.gateway, stage.target(f".{save_format}"), stage.log(large.call.tool)
    step = large.call.step(save_to_file=str(target), save_format=save_format)

    async def call(talk):
        peak, started = Peak(gateway.process.pid), time.monotonic()
        reply = await talk.call_tool(step["tool"], step["arguments"])
        return reply, time.monotonic() - started, *peak.bytes()

    reply, seconds, most, growth = client.ask(gateway.url, call)
    envelope = envelope_of(reply.model_dump(mode="json", by_alias=True, exclude_none=True))
    results = log.tool_results()
    equal((len(log.calls()), len(results)), (1, 1), "calls that reached the server and their results")
    check(len(results[0]) >= large.least_bytes, f"the answer has only {len(results[0])} bytes")
    compare_saved(envelope, target, results[0], save_format)
    if large.repeatable:
        equal(target.read_bytes(), file_of(answers.raw(large), save_format), "the file against the server's own answer")
    check(growth < GROWTH_BYTES, f"the gateway needed {growth:,} bytes more for an answer of {len(results[0]):,}")
    return Saved(len(results[0]), target.stat().st_size, seconds, most, growth)
