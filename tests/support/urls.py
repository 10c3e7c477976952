"""URLs that everything takes or refuses, in Python and JavaScript, and how Node reads one."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aggregator.codec import encode
from aggregator.dap.ids import encode_base64url
from tests.support.node import SCRIPTS, node
from tests.support.tasks import make_task

_VECTORS = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))

ACCEPTED: list[tuple[str, str, str]] = [
    (each["url"], each["origin"], each["path"]) for each in _VECTORS["accepted"]
]
"""Each with its origin, as browsers write it, and its path, as it is written."""

REFUSED: list[str] = _VECTORS["refused"]


@dataclass(frozen=True, slots=True)
class InNode:
    """What Node makes of a URL.

    Attributes:
        read: The members of its `URL`; None if it is none.
        fault: Why our module refuses a task with this leader; None if it takes it.
    """

    read: dict[str, str] | None
    fault: str | None


class UrlsInNode:
    """A process that reads one URL after another."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        task = make_task()
        leader = task.configuration.leader_aggregator_endpoint.encode()
        self._id = str(task.task_id)
        self._head, self._tail = encode(task.configuration).split(
            len(leader).to_bytes(2, "big") + leader
        )

    def __call__(self, url: str) -> InNode:
        data = url.encode()
        whole = self._head + len(data).to_bytes(2, "big") + data + self._tail
        task = {"id": self._id, "configuration": encode_base64url(whole)}
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps({"url": url, "task": task}) + "\n")
        self._process.stdin.flush()
        said: dict[str, Any] = json.loads(self._process.stdout.readline())
        return InNode(said["read"], said["fault"])


@contextmanager
def urls_in_node() -> Iterator[UrlsInNode]:
    """Start Node; skip without one."""
    with subprocess.Popen(  # noqa: S603  the node that is installed, and our own script
        [node(), SCRIPTS / "urls.mjs"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield UrlsInNode(process)
        finally:
            assert process.stdin
            process.stdin.close()  # which ends it
