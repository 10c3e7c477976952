"""Searching very many fingerprints: the compiled loop finds what numpy finds."""

import numpy as np
import pytest

from aggregator.client.text.hashing import TextHashes
from aggregator.steward.text.candidates import Enumerated, Prints
from aggregator.steward.text.compiled import CompiledSearch
from aggregator.steward.text.search import Units, reaching, scores
from field.lanes import KernelMissing

SHAPES = [(8, 16), (16, 8192), (64, 1024), (9, 2**20)]


def some_units(tasks: int, length: int) -> Units:
    rng = np.random.default_rng(tasks)
    return np.clip(rng.normal(0, 16, (tasks, length - 1)), -128, 32).astype(np.int32)


def missing(*_: object) -> int:
    raise KernelMissing


@pytest.mark.slow
@pytest.mark.parametrize(("tasks", "length"), SHAPES)
@pytest.mark.parametrize("is_there", [True, False], ids=["compiled", "no compiler"])
def test_many_candidates_are_found_as_few_are(
    tasks: int, length: int, monkeypatch: pytest.MonkeyPatch, *, is_there: bool
) -> None:
    hashes = TextHashes(bytes(range(32)), tasks, length)
    units = some_units(tasks, length)
    level = int(2 * 16 * tasks**0.5)
    monkeypatch.setattr("aggregator.steward.text.search.MANY", 1)
    if not is_there:
        monkeypatch.setattr("aggregator.steward.text.compiled._search", missing)
    first = 2**32 - 200_000  # to the last fingerprint there is
    tried: list[int] = []
    found = reaching(hashes, units, level, Enumerated(first, 200_000), tried.append)
    all_of_them = np.arange(first, 2**32, dtype=np.uint64).astype(np.uint32)
    expected = all_of_them[scores(hashes, units, all_of_them, level)]
    assert len(expected) > 500
    assert found.tolist() == expected.tolist()
    assert sum(tried) == 200_000


def test_what_is_found_keeps_no_memory_of_what_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    hashes, units = TextHashes(bytes(32), 8, 16), some_units(8, 16)
    monkeypatch.setattr("aggregator.steward.text.compiled.compile_here", lambda: None)
    monkeypatch.setattr("aggregator.steward.text.compiled._search", lambda *_: 1)

    def plainly(_: Prints) -> Prints:
        raise AssertionError

    search = CompiledSearch(hashes, units, np.zeros(8, np.int64), plainly)
    found = search(np.arange(2**16, dtype=np.uint32))
    assert found.tolist() == [0]
    assert found.base is None  # 65,536 views of all that was tried are 16 GiB
