"""A service keeps the memory of one batch for the next, instead of having it filled with zeros."""

import subprocess
import sys

import pytest

BLOCKS = 4
PAGES = 2048
"""Of a block: 8 MiB where pages have 4 KiB."""

BATCHES = 20
_PROGRAM = f"""
import resource, threading
from aggregator.cli.service.heap import keep_memory

def handle():
    [bytearray(b"x") * ({PAGES} * resource.getpagesize()) for _ in range({BLOCKS})]

{{call}}
handle()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({BATCHES}):
    thread = threading.Thread(target=handle)
    thread.start()
    thread.join()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(call: str) -> int:
    program = [sys.executable, "-c", _PROGRAM.format(call=call)]
    shown = subprocess.run(program, check=True, capture_output=True, text=True)  # noqa: S603 - ours
    return int(shown.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc is asked to keep it")
def test_batches_of_threads_in_turn_use_the_memory_of_the_first() -> None:
    """Each thread maps a stack of its own, of which it touches a few pages."""
    assert faults("keep_memory()") < PAGES
    assert faults("pass") > BATCHES * PAGES
