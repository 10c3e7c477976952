"""Words of manual pages, as often as they stand there: found as the plan says, and no others.

They are what this machine's packages have, so they differ from host to host and nothing was tuned
to them. Sums are simulated (everybody tosses), the noise is that of an aggregator's release. One
row is printed for each setting (`pytest -m bench -s`).
"""

import functools
import gzip
import os
import re
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from aggregator.client.text.hashing import TextHashes
from aggregator.client.text.strings import FINGERPRINTS, fingerprint, normal_form
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.steward.text.candidates import Enumerated, Listed
from aggregator.steward.text.decode import _Decoder, decode
from aggregator.steward.text.laws import Clip
from aggregator.steward.text.plan import Tail, TextPlan
from aggregator.steward.text.search import reaching
from aggregator.vdaf.circuits import Histogram
from tests.support.entropy import SeededEntropy
from tests.support.text import Counts

pytestmark = [pytest.mark.bench, pytest.mark.statistical]

PAGES = Path("/usr/share/man")
TOKENS = 10**7
_WORD = re.compile(r"[^\W\d_]{2,}")
_ROFF = re.compile(r"\\f.|\\\(..|\\[-&e]|^[.'].*$", re.MULTILINE)


@functools.cache
def words() -> Counter[str]:
    """Return how often each word stands in the manual pages here, ten million words of them."""
    counted: Counter[str] = Counter()
    for file in sorted(PAGES.glob("man[2-8]/*.gz")):
        text = gzip.decompress(file.read_bytes()).decode(errors="replace")
        counted.update(_WORD.findall(_ROFF.sub(" ", text)))
        if counted.total() > TOKENS:
            break
    folded: Counter[str] = Counter()
    for word, count in counted.items():
        folded[normal_form(word)] += count
    if folded.total() < TOKENS // 20:
        pytest.skip(f"{PAGES} has too few pages to count words in")
    return folded


def released(hashes: TextHashes, strings: list[str], counts: Counts, seed: int) -> Counts:
    """Return the tables of a release, with the noise of two aggregators."""
    rng, entropy = np.random.default_rng(seed), SeededEntropy(b"%d" % seed)
    prints = np.array([fingerprint(each, hashes.meaning) for each in strings], np.uint32)
    tossed = rng.multinomial(counts, np.full(hashes.tasks, 1 / hashes.tasks))
    tables = np.zeros((hashes.tasks, hashes.length), np.int64)
    circuit = Histogram(hashes.length, 32)
    mechanism = PureDpDiscreteLaplace(Fraction(1))
    for task in range(hashes.tasks):
        np.add.at(tables[task], 1 + hashes.string_buckets(task, prints), tossed[:, task])
        for _ in range(2):
            tables[task] += np.array(mechanism.noise(circuit, entropy), np.int64)
    return tables


@pytest.mark.parametrize(
    ("people", "tasks", "length"),
    [
        (10**5, 20, 1024),
        (10**5, 12, 4096),
        (10**6, 64, 1024),
        (10**6, 32, 4096),
        (10**6, 16, 8192),
    ],
)
def test_words_are_found_as_the_plan_says(people: int, tasks: int, length: int) -> None:
    seed = people + tasks
    rng = np.random.default_rng(seed)
    strings, shares = list(words()), np.array([*words().values()], np.float64)
    counts = rng.multinomial(people, shares / shares.sum())
    hashes = TextHashes(rng.bytes(32), tasks, length)
    tables = released(hashes, strings, counts, seed)
    # Nobody holds a word that is written backwards, unless it is one.
    listed = Listed([*strings, *(word[::-1] for word in strings)], hashes.meaning)
    decoded = decode(hashes, tables, listed)
    plan = TextPlan(Tail.of(counts.astype(np.float64)), 1, tasks, length, listed.count)
    held = dict(zip(strings, counts.tolist(), strict=True))
    truths = [max(held.get(name, 0) for name in each.names) for each in decoded.found]
    false = truths.count(0)
    errors = np.array([each.count for each in decoded.found]) - truths
    covered = np.mean(
        [each.low <= truth <= each.high for each, truth in zip(decoded.found, truths, strict=True)]
    )
    print(  # noqa: T201  what is measured
        f"\n{people:,} people, {tasks} tasks of {length:,}, {listed.count:,} candidates: "
        f"found {len(errors)} (plan {plan.found:.0f}), false {false}, "
        f"threshold {decoded.threshold:.0f} (plan {plan.threshold:.0f}), "
        f"error {np.std(errors):.1f} (stated {np.mean([e.deviation for e in decoded.found]):.1f}, "
        f"plan {plan.deviation:.1f}), intervals hold {covered:.3f}; "
        f"99 % from {plan.found_from:.0f}"
    )
    assert false <= 1
    assert len(errors) == pytest.approx(plan.found, rel=0.1)
    assert decoded.threshold == pytest.approx(plan.threshold, rel=0.1)
    surely = [name for name, count in held.items() if count > plan.found_from]
    missed = set(surely) - {name for each in decoded.found for name in each.names}
    assert len(missed) <= 0.01 * len(surely) + 3


def test_only_fingerprints_of_words_that_people_hold_reach_the_threshold() -> None:
    """As many as `PRIO_TEST_STRINGS` says are tried, all 2^32 unless it is set."""
    people, tasks, length = 10**6, 16, 8192
    rng = np.random.default_rng(7)
    strings, shares = list(words()), np.array([*words().values()], np.float64)
    counts = rng.multinomial(people, shares / shares.sum())
    hashes = TextHashes(rng.bytes(32), tasks, length)
    tables = released(hashes, strings, counts, 7)
    listed = Listed(strings, hashes.meaning)
    # A threshold as for all fingerprints: of the listed ones so much fewer may be false.
    decoder = _Decoder(hashes, tables, listed, 0.01 * listed.count / FINGERPRINTS, lambda _: None)
    decoded = decoder.run(0.95)
    found = {each.fingerprint for each in decoded.found}
    clip = Clip(decoded.threshold, tasks)
    # What is left when all that was found is subtracted: nothing in it may reach the threshold.
    units = clip.units(decoder.left)
    level = clip.level(float(units.mean(axis=1).sum()))
    candidates = Enumerated(0, int(os.environ.get("PRIO_TEST_STRINGS", FINGERPRINTS)))
    begin, spent = time.perf_counter(), time.process_time()
    reached = set(reaching(hashes, units, level, candidates, lambda _: None).tolist())
    held = {fingerprint(word, hashes.meaning) for word, n in zip(strings, counts, strict=True) if n}
    print(  # noqa: T201  what is measured
        f"\n{candidates.count:,} fingerprints: {len(reached - held)} that nobody holds, "
        f"{len(found)} found, in {time.perf_counter() - begin:.0f} s, "
        f"{time.process_time() - spent:.0f} s of processors"
    )
    assert not reached - held - found
