"""However the gateway ends, no process of its upstreams is left."""

import os
import signal

import client
import parts
from gateway import Gateway
from processes import Descendants
from table import case, check, equal

END_SECONDS = 15


def stubborn_servers(stage):
    """Real servers, one beneath a launcher that stays, one whose launcher has left a process that waits for nothing."""
    git, files = parts.git(stage.fixture.repository), parts.filesystem(stage.fixture.home)
    return {
        "files": files,
        "launched": ["/bin/sh", "-c", '"$@"; exit $?', "launcher", *git],
        "careless": ["/bin/sh", "-c", 'sleep 3600 & exec "$@"', "launcher", *files],
    }


def noted(processes):
    """The processes, after a look that all the servers are among them."""
    commands = list(processes.commands.values())
    wanted = {"server-filesystem": 2, "mcp-server-git": 1, "sleep 3600": 1}
    for part, least in wanted.items():
        count = sum(part in command for command in commands)
        check(count >= least, f"{part} runs {count} times among {commands}")
    return processes


def status(stage):
    """A small call of the launched server."""
    return {"name": "launched:git_status", "args": {"repo_path": str(stage.fixture.repository)}}


def end_by(stage, name, number):
    """Starts a gateway, calls, ends it by the signal; gives the gateway and its exit code."""
    gateway = Gateway(stage.home(name, stubborn_servers(stage)))
    try:
        reply = client.call(gateway.url, "call_tool_read", status(stage))
        check(not reply.is_error, client.text_of(reply)[:300])
        processes = noted(gateway.descendants())
    finally:
        code = gateway.stop(number)
    equal(processes.left_after(END_SECONDS), [], f"processes that outlived signal {number}")
    return gateway, code


@case("after SIGTERM no process of an upstream is left")
def terminated(stage):
    gateway, code = end_by(stage, "terminated", signal.SIGTERM)
    equal(code, 0, "exit code")
    equal(gateway.home.run_file(), None, "run.json")


@case("after SIGKILL no process of an upstream is left, and the next start works")
def killed(stage):
    gateway, _ = end_by(stage, "killed", signal.SIGKILL)
    again = Gateway(gateway.home)
    processes = noted(again.descendants())
    again.stop(signal.SIGTERM)
    equal(processes.left_after(END_SECONDS), [], "processes that outlived the second gateway")


@case("after SIGKILL of a gateway over stdio no process of an upstream is left")
def killed_over_stdio(stage):
    home = stage.home("killed-stdio", stubborn_servers(stage))

    async def kill(talk):
        reply = await talk.call_tool("call_tool_read", status(stage))
        check(not reply.is_error, client.text_of(reply)[:300])
        pid = home.run_file()["pid"]
        processes = noted(Descendants(pid))
        os.kill(pid, signal.SIGKILL)
        return processes

    processes = client.ask(client.Program(home.command("serve", "--stdio"), home.log), kill)
    equal(processes.left_after(END_SECONDS), [], "processes that outlived the gateway")
