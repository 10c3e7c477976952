"""A service keeps the memory of one batch for the next, instead of having it filled with zeros."""

import os
import platform
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


def faults(call: str, **variables: str) -> int:
    program = [sys.executable, "-c", _PROGRAM.format(call=call)]
    shown = subprocess.run(  # noqa: S603 - ours
        program, check=True, capture_output=True, text=True, env={**os.environ, **variables}
    )
    return int(shown.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is asked to keep it")
def test_batches_of_threads_in_turn_use_the_memory_of_the_first() -> None:
    """Each thread maps a stack of its own, of which it touches a few pages."""
    assert faults("keep_memory()") < PAGES
    assert faults("pass") > BATCHES * PAGES
    of_operator = faults("keep_memory()", MALLOC_TRIM_THRESHOLD_="131072")
    assert of_operator > BATCHES * PAGES
