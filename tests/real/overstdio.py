"""The gateway as a stdio server of the Python client."""

import client
from envelope import compare_file
from gateway import MENU
from inline import found, tool_names
from processes import Descendants
from saving import compare_content, envelope_of, one_result, save_arguments, show, tree
from table import case, check, equal

END_SECONDS = 15


@case("over stdio: list, find, call and save, and all ends with the client")
def over_stdio(stage):
    home = stage.home("stdio", stage.listened_servers())
    seen = {}

    async def session(talk):
        pid = home.run_file()["pid"]
        names = await tool_names(talk)
        equal([name for name in names if name in MENU], MENU, "the menu")
        # A call waits for its server; a search shows what is there by now.
        small = {"path": str(stage.fixture.small)}
        reply = await talk.call_tool("call_tool_read", {"name": "fs:read_text_file", "args": small})
        equal(client.text_of(reply), stage.fixture.small.read_text(encoding="utf-8"), "the small answer")
        names = found(await talk.call_tool("retrieve_tools", {"query": "recursive tree view of directories"}))
        check("fs:directory_tree" in names[:3], f"the search gave {names}")
        for make_ask, save_format in [(tree, "json"), (show, "json"), (show, "text")]:
            ask, target = make_ask(stage), stage.target(f".{save_format}")
            log = stage.log(ask.tool)
            envelope = envelope_of(await talk.call_tool("call_tool_read", save_arguments(ask, target, save_format)))
            seen[target] = (ask, save_format, envelope, one_result(log))
        seen["processes"] = Descendants(pid)

    client.ask(client.Program(home.command("serve", "--stdio"), home.log), session)
    processes = seen.pop("processes")
    for target, (ask, save_format, envelope, raw) in seen.items():
        compare_file(envelope, target, save_format)
        compare_content(stage, ask, target.read_bytes(), raw, save_format, envelope)
    check(len(processes.commands) >= 3, f"the gateway had started only {processes.commands}")
    equal(processes.left_after(END_SECONDS), [], "processes that outlived the client")
