"""What the processes of a service share: the one that is copied has code and nothing else."""

import asyncio
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext

import pytest

from aggregator.cli.service.sharing import hindrances
from aggregator.dap.hpke import generate_keypair
from aggregator.entropy import SystemEntropy
from aggregator.service.storage.secrets.crypter import Crypter, new_store_key

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux")

_MADE_READY = """
import aggregator.cli.service.serve
import aggregator.cli.service.services
from aggregator.cli.service.sharing import hindrances, make_ready
from aggregator.dap.profile import Role
from aggregator.service.runtime.compilation import Kind
from aggregator.vdaf.instances import TYPES, configuration_bytes

made = [(row, row.prio3(row.typical())) for row in TYPES.values()]
make_ready([
    Kind(role, row.algorithm_id, configuration_bytes(prio3))
    for row, prio3 in made
    for role in (Role.LEADER, Role.HELPER)
])
print(hindrances())
"""


@pytest.mark.slow
def test_a_process_that_has_loaded_code_and_kernels_has_nothing_that_two_may_not_have() -> None:
    program = [sys.executable, "-c", _MADE_READY]
    done = subprocess.run(program, check=True, capture_output=True, text=True)  # noqa: S603  ours
    assert done.stdout == "[]\n"


_WITH_A_KEY = """
from aggregator.cli.service.sharing import hindrances, make_ready
from aggregator.entropy import SystemEntropy
from aggregator.service.storage.secrets.crypter import Crypter, new_store_key

crypter = Crypter.parse(new_store_key(SystemEntropy()))
make_ready([])
print(hindrances())
"""


def test_a_key_that_a_process_has_when_it_is_made_ready_stands_in_the_way() -> None:
    program = [sys.executable, "-c", _WITH_A_KEY]
    done = subprocess.run(program, check=True, capture_output=True, text=True)  # noqa: S603  ours
    assert "'an object, Crypter'" in done.stdout


@contextmanager
def a_thread() -> Iterator[None]:
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="one of ours")
    thread.start()
    yield
    end.set()
    thread.join()


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (a_thread, "a thread, one of ours"),
        (lambda: closing(socket.socket()), "open, socket:["),
        (tempfile.TemporaryFile, "open, /"),
        (lambda: closing(asyncio.SelectorEventLoop()), "an object, _UnixSelectorEventLoop"),
        (lambda: nullcontext(Crypter.parse(new_store_key(SystemEntropy()))), "an object, Crypter"),
        (lambda: nullcontext(generate_keypair(1, SystemEntropy())), "an object, HpkeKeypair"),
    ],
)
def test_a_thread_a_connection_an_event_loop_or_a_key_stands_in_the_way(
    make: Callable[[], AbstractContextManager[object]], expected: str
) -> None:
    before = {*hindrances()} - {expected}  # another test may have left an object of this kind
    with make() as made:
        found = [each for each in hindrances() if each not in before]
    del made
    assert any(each.startswith(expected) for each in found), found
