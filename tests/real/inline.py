"""Without a save, the gateway gives what the servers give: found, called, failed, and with progress."""

import json

import client
from gateway import MENU
from saving import one_result, show
from stage import SECRET, SECRET_NAME
from table import case, check, equal


def read(stage, tool, arguments, **more):
    """One call_tool_read through the gateway."""
    return client.call(stage.gateway.url, "call_tool_read", {"name": tool, "args": arguments, **more})


def same_answer(stage, tool, arguments):
    """The reply through the gateway is the reply of the server itself."""
    through, direct = read(stage, tool, arguments), stage.answer(tool, arguments)
    equal(through.model_dump(exclude={"meta"}), direct.model_dump(exclude={"meta"}), f"the answer of {tool}")
    return through


async def tool_names(talk):
    return sorted(tool.name for tool in (await talk.list_tools()).tools)


def found(reply):
    """The names that retrieve_tools gave, best first."""
    check(not reply.is_error, client.text_of(reply)[:300])
    return [tool["name"] for tool in json.loads(client.text_of(reply))["tools"]]


@case("the menu has the five tools, for a client of either mode")
def menu(stage):
    for mode in ["legacy", "auto"]:
        names = client.ask(stage.gateway.url, tool_names, mode)
        # Later tools may join; these five stay.
        equal([name for name in names if name in MENU], MENU, f"the menu in mode {mode}")


@case("a search finds the tool of each server, and describe_tool its schema")
def search(stage):
    wanted = {
        "recursive tree view of files and directories": "fs:directory_tree",
        "show the contents of a commit": "git:git_show",
        "long running operation with progress": "all:trigger-long-running-operation",
    }
    for query, tool in wanted.items():
        names = found(client.call(stage.gateway.url, "retrieve_tools", {"query": query}))
        check(tool in names[:3], f"{query!r} gave {names}")
    reply = client.call(stage.gateway.url, "describe_tool", {"tool_ids": ["fs:directory_tree"]})
    entry = json.loads(client.text_of(reply))["definitions"][0]
    equal(entry["name"], "fs:directory_tree", "the described tool")
    check("path" in entry["inputSchema"]["properties"], f"the schema is {entry['inputSchema']}")


@case("a small answer is the server's own, structured content too")
def small_answer(stage):
    same_answer(stage, "fs:read_text_file", {"path": str(stage.fixture.small)})
    same_answer(stage, "fs:list_directory", {"path": str(stage.fixture.home)})
    same_answer(stage, "git:git_log", {"repo_path": str(stage.fixture.repository)})
    same_answer(stage, "all:get-tiny-image", {})
    same_answer(stage, "all:get-resource-links", {"count": 10})
    same_answer(stage, "all:get-annotated-message", {"messageType": "error", "includeImage": True})


@case("an answer of 700 KB passes whole when it is not saved")
def large_answer(stage):
    ask = show(stage)
    reply = same_answer(stage, ask.tool, ask.arguments)
    check(len(client.text_of(reply).encode()) >= ask.least_bytes, "the answer is not large")


@case("the command line prints the text, and with -o json the result as the server wrote it")
def command_line(stage):
    tool, arguments = "fs:read_text_file", {"path": str(stage.fixture.small)}
    _ = stage.gateway
    code, out, err = stage.gateway.home.call("tool-read", tool, arguments)
    equal((code, out.decode().rstrip("\n")), (0, stage.fixture.small.read_text(encoding="utf-8").rstrip("\n")), f"output ({err})")
    log = stage.log(tool)
    code, out, err = stage.gateway.home.call("tool-read", tool, arguments, "-o", "json")
    equal((code, out.rstrip(b"\n")), (0, one_result(log)), f"output ({err})")


@case("an error of the server is an error, is not saved, and ends the command line with 1")
def error_of_the_server(stage):
    tool, arguments = "fs:read_text_file", {"path": str(stage.fixture.missing)}
    direct = stage.answer(tool, arguments)
    check(direct.is_error, "the server has no error to give")
    target = stage.target(".txt")
    reply = read(stage, tool, arguments, save_to_file=str(target))
    equal((reply.is_error, client.text_of(reply)), (True, client.text_of(direct)), "the reply")
    equal(stage.gateway.home.newest_record()["status"], "error", "the record")
    code, out, err = stage.gateway.home.call("tool-read", tool, arguments, "--save-to-file", target)
    equal(code, 1, "exit code")
    check(client.text_of(direct) in out.decode() + err, f"it said {out!r} and {err!r}")
    check(not target.parent.exists(), "something was made for the file")


@case("a tool that the server says it destroys with needs call_tool_destructive")
def destructive(stage):
    tool = "fs:write_file"
    arguments = {"path": str(stage.fixture.home / "written.txt"), "content": "written\n"}
    _ = stage.gateway
    log = stage.log(tool)
    check(read(stage, tool, arguments).is_error, "call_tool_read was let through")
    equal(log.calls(), [], "calls that reached the server")
    code, out, err = stage.gateway.home.call("tool-destructive", tool, arguments)
    equal(code, 0, f"exit code ({out!r} {err!r})")
    written = stage.fixture.home / "written.txt"
    equal(written.read_text(encoding="utf-8"), "written\n", "the file")
    written.unlink()


@case("progress of the server reaches the client")
def progress(stage):
    heard = []

    async def note(done, total, _message):
        heard.append((done, total))

    async def operate(talk):
        arguments = {"name": "all:trigger-long-running-operation", "args": {"duration": 2, "steps": 4}}
        return await talk.call_tool("call_tool_read", arguments, progress_callback=note)

    reply = client.ask(stage.gateway.url, operate)
    check("completed" in client.text_of(reply), client.text_of(reply)[:300])
    # The last one may be overtaken by the answer.
    equal(heard[:3], [(1, 4), (2, 4), (3, 4)], "progress")


@case("a secret in the environment of the gateway does not reach a server")
def secrets(stage):
    told = client.text_of(read(stage, "all:get-env", {}))
    check("PATH" in told, f"the server told {told[:300]!r}")
    check(SECRET not in told and SECRET_NAME not in told, "the server sees the secret")
