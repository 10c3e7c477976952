"""A service keeps the memory of one batch for the next, instead of having it filled with zeros.

Once in a while it gives back what it keeps.
"""

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

_AT_REST = f"""
import resource
from pathlib import Path
from aggregator.cli.service.heap import give_back_memory, keep_memory

def pages():
    return int(Path("/proc/self/statm").read_text().split()[1])

keep_memory()
size = {PAGES} * resource.getpagesize()
before = pages()
kept = [(bytearray(b"x") * size, bytearray(1000)) for _ in range({BLOCKS})]
kept = [small for _, small in kept]
between = pages()
give_back_memory()
print(between - before, pages() - before)
"""


def printed(program: str, **variables: str) -> list[int]:
    shown = subprocess.run(  # noqa: S603 - ours
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
    )
    return [*map(int, shown.stdout.split())]


def faults(call: str, **variables: str) -> int:
    return printed(_PROGRAM.format(call=call), **variables)[0]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is asked to keep it")
def test_batches_of_threads_in_turn_use_the_memory_of_the_first() -> None:
    """Each thread maps a stack of its own, of which it touches a few pages."""
    assert faults("keep_memory()") < PAGES
    assert faults("pass") > BATCHES * PAGES
    of_operator = faults("keep_memory()", MALLOC_TRIM_THRESHOLD_="131072")
    assert of_operator > BATCHES * PAGES


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is asked to give it back")
def test_what_is_kept_goes_back_though_something_that_is_used_lies_after_it() -> None:
    kept, left = printed(_AT_REST)
    assert kept > (BLOCKS - 1) * PAGES
    assert left < PAGES
    kept, left = printed(_AT_REST, MALLOC_ARENA_MAX="1")  # what an operator sets up stays so
    assert left == kept
