"""Executes the tutorials: files they show are written, commands run, and what is printed compared.

A block of `toml` or `python` that begins with `# name` is that file. In one of `sh` each line is
a command; one that ends in `&` is a service, which is waited for. A block of `text` after it has
lines that were printed, in their order, where `…` stands for anything.
"""

import dataclasses
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

from tests.support.commands import run_here
from tests.support.patience import PATIENCE_SECONDS
from tests.support.ports import free_ports
from tests.support.warm_start import Warm

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_PORTS = ("8001", "8002", "8003", "8470", "9001", "9002")
_WITHIN = re.compile(r"\$\((prio [^)]*)\)")
_OF_A_SHELL = frozenset("$|><&;")
_PRIO = (sys.executable, "-m", "aggregator.cli")
_PATH = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block of a document.

    Attributes:
        language: After the fence.
        text: What is in it, with the ports of this run.
    """

    language: str
    text: str


class Tutorials:
    """A folder in which documents are executed one after the other, and the services they start.

    Args:
        folder: Empty at first, and the current one.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = dict(zip(_PORTS, map(str, free_ports(len(_PORTS))), strict=True))
        self._services: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for service in reversed(self._services):
            service.terminate()
            service.wait(PATIENCE_SECONDS)

    def execute(self, document: Path) -> int:
        """Execute a document's blocks; return how many lines were compared."""
        printed, compared = "", 0
        for block in self._blocks(document):
            match block.language:
                case "sh":
                    lines = block.text.replace("\\\n", " ").splitlines()
                    printed = "".join(self._run(line.strip()) for line in lines)
                case "text":
                    compared += compare(block.text, printed)
                case _:
                    name = block.text.split("\n", 1)[0].removeprefix("# ")
                    assert re.fullmatch(r"[a-z]+\.(toml|py)", name), f"{document.name}: {name!r}"
                    (self._folder / name).write_text(block.text, encoding="utf-8")
        return compared

    def _blocks(self, document: Path) -> Iterator[Block]:
        text = document.read_text(encoding="utf-8")
        for old, new in self._ports.items():
            text = text.replace(f":{old}", f":{new}")
        for match in _BLOCK.finditer(text):
            yield Block(match[1], match[2])

    def _run(self, line: str) -> str:
        """Run a command; return what it printed."""
        if line.endswith("&"):
            self._start(line.removesuffix("&").strip())
            return ""
        line = _WITHIN.sub(lambda match: self._run(match[1]).strip(), line)
        if line.startswith("prio ") and not _OF_A_SHELL & set(line):
            here = run_here(*shlex.split(line)[1:])  # another process would take seconds to begin
            assert here.returncode == 0, (line, here.stdout, here.stderr)
            return here.stdout
        done = subprocess.run(  # noqa: S603  the tutorial's own
            command_of(line),
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        # What fails at the head of a pipe is shown on purpose.
        assert done.returncode == 0 or "|" in line, (line, done.stdout, done.stderr)
        return done.stdout

    def _start(self, line: str) -> None:
        if line == "prio plan serve":
            port = self._ports["8470"]
            line = f"{line} --port {port}"
        else:
            config = self._folder / shlex.split(line)[-1]
            found = re.search(r'^listen = ".*:(\d+)"$', config.read_text("utf-8"), re.MULTILINE)
            assert found, config
            port = found[1]
        with (self._folder / "services.log").open("ab") as log:
            service = Warm(
                command_of(line),
                cwd=self._folder,
                env=self._environment,
                stdout=log,
                stderr=log,
            )
        self._services.append(service)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while service.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", int(port)), timeout=1).close()
            except OSError:
                assert time.monotonic() < deadline, line
                time.sleep(0.05)
            else:
                return
        raise AssertionError((line, (self._folder / "services.log").read_text("utf-8")))

    @property
    def _environment(self) -> Mapping[str, str]:
        return os.environ | {"PATH": _PATH}


def command_of(line: str) -> list[str]:
    """Return the command of a line: `prio` as `Warm` knows it, if a shell has nothing to do."""
    if line.startswith("prio ") and not _OF_A_SHELL & set(line):
        return [*_PRIO, *shlex.split(line)[1:]]
    return ["bash", "-o", "pipefail", "-c", line]


def compare(expected: str, printed: str) -> int:
    """Hold each line that is expected to one that was printed, in order; return how many."""
    lines = iter(printed.splitlines())
    count = 0
    for line in filter(None, expected.splitlines()):
        pattern = re.compile(".*".join(map(re.escape, line.split("…"))))
        assert any(pattern.fullmatch(each.rstrip()) for each in lines), (line, printed)
        count += 1
    return count
