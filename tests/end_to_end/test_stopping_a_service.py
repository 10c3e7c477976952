"""A service that is told to stop does, even while it is sent something; between real processes."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from aggregator.dap.messages import UploadRequest
from aggregator.dap.resources import media_type
from tests.support.patience import wait_until
from tests.support.processes import Processes

pytestmark = pytest.mark.slow

TASK = ("--vdaf", "Prio3Count", "--epsilon", "1", "--min-batch-size", "3", "--max-reports", "9")


@contextmanager
def sending_for_ever(url: str, task_id: str) -> Iterator[list[bytes]]:
    """Send an upload of which a byte comes now and then; give what is answered."""
    address = urlsplit(url)
    head = (
        f"POST /tasks/{task_id}/reports HTTP/1.1\r\nHost: {address.netloc}\r\n"
        f"Content-Type: {media_type(UploadRequest.message)}\r\nContent-Length: 2000\r\n"
        "Expect: 100-continue\r\n\r\n"
    )
    done, answered = threading.Event(), list[bytes]()
    with socket.create_connection((address.hostname or "", address.port or 0)) as peer:
        peer.sendall(head.encode())
        assert b" 100 Continue" in peer.recv(4096)  # so the service is waiting for the body
        peer.settimeout(0.1)

        def send() -> None:
            while not done.is_set():
                with suppress(OSError):  # of one who was cut off, the answer is still there
                    peer.sendall(b"x")
                try:
                    answered.append(peer.recv(4096))
                except TimeoutError:
                    continue
                except OSError:
                    break
                if not answered[-1]:
                    break

        sender = threading.Thread(target=send)
        sender.start()
        try:
            yield answered
        finally:
            done.set()
            sender.join()


def test_a_sender_who_never_ends_is_cut_off_and_the_service_ends(tmp_path: Path) -> None:
    """As docs/operations/reload.md says; `stop` gives up long before a sender would."""
    with Processes(tmp_path) as processes:
        task_id, _ = processes.make_task("slow", *TASK)
        processes.commands["leader"] = ("leader", "serve")
        processes.start("leader")
        with sending_for_ever(processes.urls["leader"], task_id) as answered:
            assert processes.stop("leader") == 0
            wait_until(lambda: answered, "no answer")
            assert answered[0].startswith(b"HTTP/1.1 408 ")
        assert processes.log("leader")[-1]["role"] == "leader"
        assert [line["signal"] for line in processes.log("leader") if "signal" in line] == [
            "SIGTERM"
        ]
