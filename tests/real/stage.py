"""What the cases share: the fixture, what the servers answer without a gateway, and one gateway between real servers."""

import signal
from functools import cached_property
from pathlib import Path

import client
import parts
from direct import Direct
from fixture import Fixture
from gateway import Gateway, Home
from pages import Pages
from wirelog import WireLog

#: A secret of the gateway that no server may see; put together here so that it stands in no file.
SECRET_NAME = "_".join(["REAL", "TEST", "SECRET"])
SECRET = "-".join(["s3cret", "of", "the", "gateway"])


class Stage:
    """Everything beneath one directory. What is costly is made when a case first asks for it."""

    #: Variables that the configuration gives to servers, by their names.
    environments = {}

    def __init__(self, directory):
        self.directory = Path(directory)
        self.output = self.directory / "output"
        self.output.mkdir(mode=0o700)
        self._count = 0
        self._failed = {}

    @cached_property
    def fixture(self):
        served = self.directory / "served"
        served.mkdir()
        return Fixture(served)

    @cached_property
    def servers(self):
        """The commands of the upstreams, by the names that they get."""
        return {
            "fs": parts.filesystem(self.fixture.home),
            "git": parts.git(self.fixture.repository),
            "all": parts.everything(),
        }

    def answer(self, tool, arguments):
        """What the server itself answers, asked by the client without any gateway."""
        server, _, name = tool.partition(":")
        return client.call(client.Program(self.servers[server]), name, arguments)

    def log(self, tool):
        """The wire log of the tool's server, marked: only what comes now counts."""
        log = WireLog(self._log_path(tool.partition(":")[0]))
        log.mark()
        return log

    def listened_servers(self):
        """The servers, each behind a tee."""
        return {name: parts.through_tee(self._log_path(name), command) for name, command in self.servers.items()}

    @property
    def gateway(self):
        """A running gateway over HTTP whose servers are behind tees. One that failed to start is not tried again."""
        if "gateway" in self._failed:
            raise self._failed["gateway"]
        try:
            return self._gateway
        except BaseException as error:
            self._failed["gateway"] = error
            raise

    @cached_property
    def _gateway(self):
        home = self.home("main", self.listened_servers())
        return Gateway(home, {SECRET_NAME: SECRET})

    def home(self, name, servers):
        """A home for another gateway; all of them save below the same root."""
        return Home(self.directory / name, servers, self.output, self.environments)

    def target(self, suffix):
        """A path below the root that does not exist, in a directory of its own that does not either."""
        self._count += 1
        return self.output / f"save-{self._count:02}" / f"answer{suffix}"

    def close(self):
        """Stops what still runs."""
        if gateway := self.__dict__.get("_gateway"):
            gateway.stop(signal.SIGTERM)

    def _log_path(self, server):
        return self.directory / f"wire-{server}.log"


class MatrixStage(Stage):
    """The stage of the matrix: one gateway with all servers, and pages for the one that fetches."""

    @cached_property
    def servers(self):
        fixture = self.fixture
        return {
            "everything": parts.everything(),
            "filesystem": parts.filesystem(fixture.home, parts.INSTALLED),
            "memory": parts.memory(),
            "thinking": parts.sequential_thinking(),
            "git": parts.git(fixture.repository),
            "time": parts.time(),
            "fetch": parts.fetch(),
            "sqlite": parts.sqlite(fixture.database),
        }

    @cached_property
    def environments(self):
        return {"memory": {"MEMORY_FILE_PATH": str(self.fixture.graph)}}

    @cached_property
    def pages(self):
        """The files of the fixture over HTTP."""
        return Pages(self.fixture.home)

    def direct(self, server):
        """The server itself, for raw results without a gateway."""
        return Direct(self.servers[server], self.environments.get(server, {}))

    def close(self):
        super().close()
        if pages := self.__dict__.get("pages"):
            pages.close()
