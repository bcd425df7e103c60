"""Large answers of real servers go to files: through the command line and through the Python client."""

import base64
import gzip
import json
from dataclasses import dataclass

import client
from envelope import compare_counts, compare_file
from table import case, check, equal
from wirelog import member


@dataclass
class Ask:
    """A call that gives a large answer."""

    tool: str
    arguments: dict
    #: The answer must be at least so long, or it would not be the case that it is named for.
    least_bytes: int


def tree(stage):
    return Ask("fs:directory_tree", {"path": str(stage.fixture.tree)}, 400_000)


def media(stage):
    return Ask("fs:read_media_file", {"path": str(stage.fixture.binary)}, 5_000_000)


def show(stage):
    return Ask("git:git_show", {"repo_path": str(stage.fixture.repository), "revision": "HEAD"}, 700_000)


def save_by_command_line(stage, ask, target, save_format):
    """Saves with `mcpproxy call`; gives the envelope that it printed."""
    flags = ["--save-to-file", target, "--save-format", save_format]
    if save_format == "text":
        flags = flags[:2]
    code, out, err = stage.gateway.home.call("tool-read", ask.tool, ask.arguments, *flags)
    check(code == 0, f"mcpproxy call ended with {code}: {err}{out.decode('utf-8', 'replace')[:1000]}")
    return json.loads(out)


def save_by_client(stage, ask, target, save_format):
    """Saves through /mcp with the Python client; gives the envelope of the reply."""
    reply = client.call(stage.gateway.url, "call_tool_read", save_arguments(ask, target, save_format))
    return envelope_of(reply)


def save_arguments(ask, target, save_format):
    arguments = {"name": ask.tool, "save_to_file": str(target), "save_format": save_format}
    # Both spellings of a tool's arguments that clients use.
    if save_format == "binary":
        return arguments | {"args_json": json.dumps(ask.arguments)}
    return arguments | {"args": ask.arguments}


def envelope_of(reply):
    check(not reply.is_error, f"the save failed: {client.text_of(reply)[:1000]}")
    equal([block.type for block in reply.content], ["text"], "blocks of the reply")
    return json.loads(reply.content[0].text)


WAYS = {"command line": save_by_command_line, "Python client": save_by_client}
ANSWERS = {
    "directory_tree of 5,000 files": (tree, ["text", "json"]),
    "read_media_file of 5 MB": (media, ["binary", "json"]),
    "git_show of 700 KB": (show, ["text", "json"]),
}


def save_and_compare(stage, make_ask, save_format, way):
    """Saves once, then compares file, envelope, what the server wrote and what the server answers without a gateway."""
    ask = make_ask(stage)
    _ = stage.gateway
    log, target = stage.log(ask.tool), stage.target(f".{save_format}")
    envelope = WAYS[way](stage, ask, target, save_format)
    raw = one_result(log)
    check(len(raw) >= ask.least_bytes, f"the answer has only {len(raw)} bytes")
    compare_file(envelope, target, save_format)
    compare_content(stage, ask, target.read_bytes(), raw, save_format, envelope)
    record = stage.gateway.home.newest_record()
    equal((record["tool_name"], record["status"]), (ask.tool.partition(":")[2], "success"), "the record")
    equal(record["saved_to"], str(target), "the path in the record")


def one_result(log):
    """The raw result of the one call that reached the server."""
    equal(len(log.calls()), 1, "calls that reached the server")
    results = log.tool_results()
    equal(len(results), 1, "results that the server wrote")
    return results[0]


def compare_content(stage, ask, data, raw, save_format, envelope):
    """The file holds what the server wrote."""
    compare_counts(envelope, raw, save_format)
    if save_format == "json":
        equal(data, raw, "the file against the result as the server wrote it")
    elif save_format == "text":
        equal(
            data.decode("utf-8"), client.text_of(stage.answer(ask.tool, ask.arguments)), "the file against the server's own answer"
        )
    else:
        equal(data, stage.fixture.binary.read_bytes(), "the file against the original")
        equal(envelope["mime_type"], "application/octet-stream", "mime_type")


def register():
    for answer, (make_ask, formats) in ANSWERS.items():
        for save_format in formats:
            for way in WAYS:
                case(f"{answer} as {save_format} by the {way}")(
                    lambda stage, m=make_ask, f=save_format, w=way: save_and_compare(stage, m, f, w)
                )


register()


@case("a picture between two texts is saved as the picture")
def a_picture(stage):
    ask = Ask("all:get-tiny-image", {}, 0)
    _ = stage.gateway
    log, target = stage.log(ask.tool), stage.target(".png")
    envelope = save_by_client(stage, ask, target, "binary")
    compare_file(envelope, target, "binary")
    blocks = json.loads(one_result(log))["content"]
    equal([block["type"] for block in blocks], ["text", "image", "text"], "blocks of the answer")
    equal(target.read_bytes(), base64.b64decode(blocks[1]["data"]), "the file against the picture")
    check(target.read_bytes().startswith(b"\x89PNG\r\n"), "the file is no PNG")
    equal((envelope["mime_type"], envelope["content_blocks"], envelope["non_text_blocks"]), ("image/png", 3, 1), "envelope")


@case("an answer without text saved as text is its structured content")
def structured_as_text(stage):
    ask = media(stage)
    _ = stage.gateway
    log, target = stage.log(ask.tool), stage.target(".txt")
    envelope = save_by_client(stage, ask, target, "text")
    compare_file(envelope, target, "text")
    equal(target.read_bytes(), member(one_result(log), "structuredContent"), "the file against the structured content")


@case("an answer of one binary block is saved as binary; as text it is an error that says how")
def binary_as_text(stage):
    original = stage.fixture.small.read_bytes()
    link = "data:text/plain;base64," + base64.b64encode(original).decode()
    ask = Ask("all:gzip-file-as-resource", {"name": "small.gz", "data": link, "outputType": "resource"}, 0)
    target = stage.target(".gz")
    reply = client.call(stage.gateway.url, "call_tool_write", save_arguments(ask, target, "text"))
    said = client.text_of(reply)
    check(reply.is_error and "binary" in said and "json" in said, f"the reply is {said[:300]!r}")
    check(not target.exists(), "a file was made")
    reply = client.call(stage.gateway.url, "call_tool_write", save_arguments(ask, target, "binary"))
    compare_file(envelope_of(reply), target, "binary")
    equal(gzip.decompress(target.read_bytes()), original, "the unpacked file")


@case("an existing file is refused before the server is asked, and replaced on request")
def existing_file(stage):
    ask = Ask("fs:read_text_file", {"path": str(stage.fixture.small)}, 0)
    target = stage.target(".txt")
    save_by_client(stage, ask, target, "text")
    target.write_text("another", encoding="utf-8")
    log = stage.log(ask.tool)
    again = save_arguments(ask, target, "text")
    reply = client.call(stage.gateway.url, "call_tool_read", again)
    check(reply.is_error and client.text_of(reply).startswith("save_to_file: "), f"the reply is {client.text_of(reply)[:300]!r}")
    equal(log.calls(), [], "calls that reached the server")
    equal(target.read_text(encoding="utf-8"), "another", "the file")
    envelope = envelope_of(client.call(stage.gateway.url, "call_tool_read", again | {"save_overwrite": True}))
    compare_file(envelope, target, "text")
    equal(target.read_bytes(), stage.fixture.small.read_bytes(), "the file")


@case("a path outside the roots is refused before the server is asked")
def outside_the_roots(stage):
    ask = Ask("fs:read_text_file", {"path": str(stage.fixture.small)}, 0)
    _ = stage.gateway
    log, target = stage.log(ask.tool), stage.directory / "elsewhere" / "answer.txt"
    code, out, err = stage.gateway.home.call("tool-read", ask.tool, ask.arguments, "--save-to-file", target)
    said = out.decode("utf-8", "replace") + err
    equal(code, 1, f"exit code ({said[:300]!r})")
    check("save_to_file: " in said and str(stage.output) in said, f"it said {said[:300]!r}")
    equal(log.calls(), [], "calls that reached the server")
    check(not target.parent.exists(), "a directory was made")
