"""A client without numba shards the same bytes as one with it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]

SHARDS = """
import hashlib, sys
if "without" in sys.argv:
    sys.modules["numba"] = sys.modules["llvmlite"] = None  # as if they were not installed
from field.lanes import compiler
from tests.support.prio3s import prio3_count, prio3_histogram, prio3_sum, prio3_sum_vec
assert compiler.IS_THERE == ("without" not in sys.argv)
for prio3, given in (
    (prio3_count(), 1),
    (prio3_sum(10), 9),
    (prio3_histogram(50), 3),
    (prio3_sum_vec(30, 7), [*range(8)] * 3 + [0] * 6),
):
    names = [bytes([index]) * prio3.nonce_size for index in range(3)]
    rands = [bytes([7 + index]) * prio3.rand_size for index in range(3)]
    shards = prio3.shard(b"ctx", [given] * 3, names, rands)
    everything = b"".join([*shards.public_shares, *map(bytes, shards.input_shares[0]),
                           *map(bytes, shards.input_shares[1])])
    print(prio3.circuit, len(everything), hashlib.sha256(everything).hexdigest())
"""


@pytest.mark.slow
def test_shares_are_the_same() -> None:
    said = [
        subprocess.run(  # noqa: S603  our own interpreter
            [sys.executable, "-c", SHARDS, *more],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for more in ([], ["without"])
    ]
    assert said[0] == said[1]
    assert said[0].count("\n") >= 4
