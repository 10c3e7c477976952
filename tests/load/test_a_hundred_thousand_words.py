"""Words of a hundred thousand people through the real services: reports, noise, results, decoder.

On demand: `pytest -m bench -s tests/load/test_a_hundred_thousand_words.py`, which repeats what
docs/benchmarks.md has of real reports, with the words of this machine's manual pages.
`PRIO_TEST_PEOPLE` sets how many people there are. Reports are sealed and sent as fast as they can
be, task after task, and not by `prio survey upload`, which keeps who is in which task. The second
time people also give a number, with another mean for each word; the third time words are counted by
the answer to a choice, which other people choose for each word.
"""

import dataclasses
import math
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import anyio
import numpy as np
import numpy.typing as npt
import pytest

from aggregator.client.survey.asked_survey import read_survey
from aggregator.client.text.strings import fingerprint
from aggregator.client.text.toss import Toss
from aggregator.collector import Collector
from aggregator.entropy import SystemEntropy
from aggregator.steward.text.beside import decode_beside, foretold_deviation, foretold_half_width
from aggregator.steward.text.candidates import Listed
from aggregator.steward.text.decode import Decoded, Found
from aggregator.steward.text.plan import Tail, TextPlan
from aggregator.steward.text.released import released_tables
from tests.load.test_twenty_thousand_reports import HOUR, requests, upload
from tests.statistical.test_words_that_people_write import words
from tests.support.processes import COMMANDS, Processes
from tests.support.text import Counts

pytestmark = [pytest.mark.bench, pytest.mark.slow, pytest.mark.statistical]

PEOPLE = int(os.environ.get("PRIO_TEST_PEOPLE", "100000"))
TASKS, LENGTH, STEPS = 20, 1024, 100
PER_REQUEST = 50


LAST_HOUR = int(time.time()) // HOUR * HOUR - HOUR
SURVEY = f"""
title = "Words"
asked = "people"
window = "hour"
first = {datetime.fromtimestamp(LAST_HOUR, UTC).isoformat()}
min_batch_size = {PEOPLE}
[budget]
epsilon = "{{epsilon}}"
windows = 1
[[question]]
name = "word"
text = "A word?"
kind = "text"
epsilon = "1"
buckets = {LENGTH}
tasks = {TASKS}
"""


AMOUNT = 'amount = { text = "How much?", low = 0, high = 100, unit = "euros" }\n'
LABELS = ("a", "b", "c", "d")
BY = f"""by = "age"
[[question]]
name = "age"
kind = "choice"
labels = {[*LABELS]}
"""


def make_question(services: Processes, folder: Path, beside: str) -> None:
    """Make the tasks of a survey of one text question, as its parties would."""
    config = services.prio("collector", "config", "--config", services.configs["collector"])
    survey = folder.with_suffix(".toml")
    survey.write_text(SURVEY.format(epsilon=2 if beside == BY else 1) + beside)
    services.prio(
        *("survey", "new", survey, "--out", folder, "--collector-config", config.stdout.strip()),
        *("--leader", services.urls["leader"], "--helper", services.urls["helper"]),
    )
    for party in COMMANDS:
        services.prio("task", "add", "--config", services.configs[party], folder / f"{party}.toml")


@dataclasses.dataclass
class Told:
    """What people tell beside their words: a level of each, and the truths of each word."""

    levels: Counts
    truths: npt.NDArray[np.float64]


def told_beside(rng: np.random.Generator, counts: Counts, beside: str) -> Told:
    """Draw what everybody tells; people are in the order of their words."""
    of_word = np.repeat(np.arange(len(counts)), counts)
    if beside == AMOUNT:
        steps = rng.binomial(STEPS, rng.beta(1, 3, len(counts))[of_word])
        means = np.bincount(of_word, steps, len(counts)) / counts.clip(1)
        return Told((rng.integers(0, STEPS, len(steps)) < steps).astype(np.int64), means[:, None])
    if beside == BY:
        until = rng.dirichlet(np.ones(len(LABELS)), len(counts)).cumsum(axis=1)[of_word]
        label = (rng.random(len(of_word))[:, None] > until).sum(axis=1).clip(0, len(LABELS) - 1)
        cells = np.bincount(of_word * len(LABELS) + label, minlength=len(counts) * len(LABELS))
        return Told(label, cells.reshape(-1, len(LABELS)).astype(np.float64))
    return Told(np.zeros(len(of_word), np.int64), np.zeros((len(counts), 0)))


def compared(found: Found, truths: Sequence[float], plan: TextPlan) -> list[tuple[bool, float]]:
    """Return whether each interval beside a word holds, and its half width as part of the plan's.

    That of a mean is at most as wide as is foretold; that of a label is foretold by its deviation.
    """
    if found.amount is None and not found.by:
        return []
    if found.amount is not None:
        (mean,), amount = truths, found.amount
        wide = foretold_half_width(plan, amount.law.range, found.count, 0.95)
        return [(amount.low <= mean <= amount.high, (amount.high - amount.low) / 2 / wide)]
    wide = 1.96 * foretold_deviation(plan)
    return [
        (
            part.sum_low <= truth <= part.sum_high,
            1.96 * math.hypot(part.law.base * found.deviation, part.law.deviation) / wide,
        )
        for (_, part), truth in zip(found.by, truths, strict=True)
    ]


def check(
    decoded: Decoded, plan: TextPlan, held: dict[str, int], of_words: dict[str, list[float]]
) -> None:
    """Print what was found, and compare it with the plan.

    `of_words` has what is true of what people told beside each word.
    """
    truths = [max(held.get(name, 0) for name in each.names) for each in decoded.found]
    errors = np.array([each.count for each in decoded.found]) - truths
    covered = [
        each.low <= truth <= each.high for each, truth in zip(decoded.found, truths, strict=True)
    ]
    true = [each for each in decoded.found if held.get(each.names[0])]
    beside_words = [one for each in true for one in compared(each, of_words[each.names[0]], plan)]
    hold = [each for each, _ in beside_words]
    surely = {name for name, count in held.items() if count > plan.found_from}
    missed = surely - {name for each in decoded.found for name in each.names}
    print(  # noqa: T201  what is measured
        f"\n{PEOPLE:,} people, {TASKS} tasks of {LENGTH:,}, {decoded.candidates:,} candidates: "
        f"found {len(errors)} (plan {plan.found:.0f}), false {truths.count(0)}, "
        f"threshold {decoded.threshold:.1f} (plan {plan.threshold:.1f}), "
        f"error {np.std(errors):.1f} (plan {plan.deviation:.1f}), on average "
        f"{np.mean(errors):+.1f}, intervals hold {np.mean(covered):.3f}, those of "
        f"{len(hold)} means or labels {sum(hold) / max(1, len(hold)):.3f}, as wide as "
        f"{np.mean([each for _, each in beside_words] or [0]):.2f} of what is foretold; "
        f"of {len(surely)} surely found {len(missed)} missed"
    )
    assert truths.count(0) <= 1
    assert sum(hold) >= 0.95 * len(hold) - 4 * (0.05 * len(hold)) ** 0.5
    assert len(hold) == sum(len(of_words[each.names[0]]) for each in true)
    assert decoded.threshold == pytest.approx(plan.threshold, rel=0.15)
    assert len(errors) == pytest.approx(plan.found, rel=0.25, abs=6)
    assert len(missed) <= 0.01 * len(surely) + 3


@pytest.mark.parametrize("beside", ["", AMOUNT, BY], ids=["words", "amounts", "labels"])
def test_words_of_real_reports_are_found_as_the_plan_says(tmp_path: Path, beside: str) -> None:
    start = LAST_HOUR
    rng = np.random.default_rng()
    strings, shares = list(words()), np.array([*words().values()], np.float64)
    counts = rng.multinomial(PEOPLE, shares / shares.sum())
    folder = tmp_path / "made"
    with Processes(tmp_path, linger_seconds=2) as services:
        make_question(services, folder, beside)
        public = folder / ("task.toml" if beside == BY else "survey.json")
        asked = read_survey(public)
        question, tasks = asked.texts["word"]
        hashes, entropy = question.hashes, SystemEntropy()
        prints = np.array([fingerprint(each, hashes.meaning) for each in strings], np.uint32)
        written = np.repeat(prints, counts)
        tossed = np.array([Toss.of(hashes, entropy).number for _ in written])
        told = told_beside(rng, counts, beside)
        services.start(*COMMANDS)
        before = {party: services.cpu_seconds(party) for party in ("leader", "helper")}
        sealing, size, began = 0.0, 0, time.monotonic()
        for number, task in enumerate(tasks):
            mine = tossed == number
            buckets = 1 + hashes.string_buckets(number, written[mine])
            entries = buckets + told.levels[mine] * hashes.buckets
            making = time.monotonic()
            bodies = requests(task, entries.tolist(), start, PER_REQUEST)
            sealing += time.monotonic() - making
            size += sum(map(len, bodies))
            assert set(anyio.run(upload, task, bodies)) == {200}
        if asked.task is not None:  # of the choice itself
            chosen = [asked.sheet.measurement([(label,)]) for label in told.levels.tolist()]
            bodies = requests(asked.task, chosen, start, PER_REQUEST)
            assert set(anyio.run(upload, asked.task, bodies)) == {200}
        uploaded = time.monotonic()
        window = datetime.fromtimestamp(start, UTC).isoformat()
        services.prio(
            *("survey", "collect", public, "--window", window),
            *("--config", services.configs["collector"]),
        )
        collected = time.monotonic()
        used = sum(services.cpu_seconds(party) - before[party] for party in before)
        stores = sum(
            path.stat().st_size
            for party in ("leader", "helper")
            for path in tmp_path.glob(f"{party}.sqlite*")
        )
        with Collector.open(services.configs["collector"]) as collector:
            documents = [each.document for task in tasks for each in collector.results(task)]
    tables = released_tables(tasks, documents)
    # Nobody holds a word that is written backwards, unless it is one.
    listed = Listed([*strings, *(word[::-1] for word in strings)], hashes.meaning)
    known = None if question.beside is None else question.beside.told
    decoded = decode_beside(hashes, tables, known, listed)
    plan = TextPlan(
        Tail.of(counts.astype(np.float64)),
        1,
        TASKS,
        LENGTH,
        listed.count,
        levels=1 if known is None else known.levels,
    )
    held = dict(zip(strings, counts.tolist(), strict=True))
    print(  # noqa: T201  what is measured
        f"\n{size / PEOPLE:,.0f} bytes a report; sealed in {sealing:.0f} s, all uploaded "
        f"{uploaded - began:.0f} s after the first was begun, collected {collected - uploaded:.0f} "
        f"s later; processors of both services {used:.0f} s, their stores {stores / 1e9:.2f} GB"
    )
    check(decoded, plan, held, dict(zip(strings, told.truths.tolist(), strict=True)))
    noise = (tables.size * 15.7) ** 0.5
    assert abs(tables.sum() - PEOPLE) < 7 * noise
