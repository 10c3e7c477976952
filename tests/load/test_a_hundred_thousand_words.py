"""Words of a hundred thousand people through the real services: reports, noise, results, decoder.

On demand: `pytest -m bench -s tests/load/test_a_hundred_thousand_words.py`, which repeats what
docs/benchmarks.md has of real reports, with the words of this machine's manual pages.
`PRIO_TEST_PEOPLE` sets how many people there are. Reports are sealed and sent as fast as they can
be, task after task, and not by `prio survey upload`, which keeps who is in which task. The second
time people also give a number, with another mean for each word.
"""

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import anyio
import numpy as np
import pytest

from aggregator.client.survey.asked_survey import read_survey
from aggregator.client.text.strings import fingerprint
from aggregator.client.text.toss import Toss
from aggregator.collector import Collector
from aggregator.entropy import SystemEntropy
from aggregator.steward.text.beside import decode_beside
from aggregator.steward.text.candidates import Listed
from aggregator.steward.text.decode import Decoded
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
epsilon = "1"
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


def make_question(services: Processes, folder: Path, amount: str) -> None:
    """Make the tasks of a survey of one text question, as its parties would."""
    config = services.prio("collector", "config", "--config", services.configs["collector"])
    survey = folder.with_suffix(".toml")
    survey.write_text(SURVEY + amount)
    services.prio(
        *("survey", "new", survey, "--out", folder, "--collector-config", config.stdout.strip()),
        *("--leader", services.urls["leader"], "--helper", services.urls["helper"]),
    )
    for party in COMMANDS:
        services.prio("task", "add", "--config", services.configs[party], folder / f"{party}.toml")


def rounded(rng: np.random.Generator, counts: Counts, buckets: int) -> tuple[list[float], Counts]:
    """Return the mean of the numbers beside each word, and what each person's level adds."""
    of_word = np.repeat(np.arange(len(counts)), counts)
    steps = rng.binomial(STEPS, rng.beta(1, 3, len(counts))[of_word])
    means = np.bincount(of_word, steps, len(counts)) / counts.clip(1)
    return means.tolist(), buckets * (rng.integers(0, STEPS, len(steps)) < steps)


def hold(decoded: Decoded, means: dict[str, float], held: dict[str, int]) -> list[bool]:
    """Return which intervals of means hold, of words that people wrote."""
    return [
        each.amount.low <= means[each.names[0]] <= each.amount.high
        for each in decoded.found
        if each.amount and held.get(each.names[0])
    ]


@pytest.mark.parametrize("amount", ["", AMOUNT], ids=["words", "amounts"])
def test_words_of_real_reports_are_found_as_the_plan_says(tmp_path: Path, amount: str) -> None:
    start = LAST_HOUR
    rng = np.random.default_rng()
    strings, shares = list(words()), np.array([*words().values()], np.float64)
    counts = rng.multinomial(PEOPLE, shares / shares.sum())
    folder = tmp_path / "made"
    with Processes(tmp_path, linger_seconds=2) as services:
        make_question(services, folder, amount)
        question, tasks = read_survey(folder / "survey.json").texts["word"]
        hashes, entropy = question.hashes, SystemEntropy()
        prints = np.array([fingerprint(each, hashes.meaning) for each in strings], np.uint32)
        written = np.repeat(prints, counts)
        tossed = np.array([Toss.of(hashes, entropy).number for _ in written])
        given, uppers = rounded(rng, counts, hashes.buckets if amount else 0)
        services.start(*COMMANDS)
        before = {party: services.cpu_seconds(party) for party in ("leader", "helper")}
        sealing, size, began = 0.0, 0, time.monotonic()
        for number, task in enumerate(tasks):
            mine = tossed == number
            buckets = 1 + hashes.string_buckets(number, written[mine]) + uppers[mine]
            making = time.monotonic()
            bodies = requests(task, buckets.tolist(), start, PER_REQUEST)
            sealing += time.monotonic() - making
            size += sum(map(len, bodies))
            assert set(anyio.run(upload, task, bodies)) == {200}
        uploaded = time.monotonic()
        services.prio(
            *(
                "survey",
                "collect",
                folder / "survey.json",
                "--window",
                datetime.fromtimestamp(start, UTC).isoformat(),
            ),
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
    decoded = decode_beside(
        hashes, tables, question.beside.told if question.beside else None, listed
    )
    plan = TextPlan(
        Tail.of(counts.astype(np.float64)), 1, TASKS, LENGTH, listed.count, levels=1 + bool(amount)
    )
    held = dict(zip(strings, counts.tolist(), strict=True))
    truths = [max(held.get(name, 0) for name in each.names) for each in decoded.found]
    errors = np.array([each.count for each in decoded.found]) - truths
    covered = [
        each.low <= truth <= each.high for each, truth in zip(decoded.found, truths, strict=True)
    ]
    means = hold(decoded, dict(zip(strings, given, strict=True)), held)
    surely = {name for name, count in held.items() if count > plan.found_from}
    missed = surely - {name for each in decoded.found for name in each.names}
    print(  # noqa: T201  what is measured
        f"\n{PEOPLE:,} people, {TASKS} tasks of {LENGTH:,}, {listed.count:,} candidates: "
        f"found {len(errors)} (plan {plan.found:.0f}), false {truths.count(0)}, "
        f"threshold {decoded.threshold:.1f} (plan {plan.threshold:.1f}), "
        f"error {np.std(errors):.1f} (plan {plan.deviation:.1f}), on average "
        f"{np.mean(errors):+.1f}, intervals hold {np.mean(covered):.3f}, those of "
        f"{len(means)} means {sum(means) / max(1, len(means)):.3f}; "
        f"of {len(surely)} surely found {len(missed)} missed"
        f"\n{size / PEOPLE:,.0f} bytes a report; sealed in {sealing:.0f} s, all uploaded "
        f"{uploaded - began:.0f} s after the first was begun, collected {collected - uploaded:.0f} "
        f"s later; processors of both services {used:.0f} s, their stores {stores / 1e9:.2f} GB"
    )
    noise = (tables.size * 15.7) ** 0.5
    assert abs(tables.sum() - PEOPLE) < 7 * noise
    assert truths.count(0) <= 1
    assert sum(means) >= 0.95 * len(means) - 4 * (0.05 * len(means)) ** 0.5
    assert len(means) == bool(amount) * (len(errors) - truths.count(0))
    assert decoded.threshold == pytest.approx(plan.threshold, rel=0.15)
    assert len(errors) == pytest.approx(plan.found, rel=0.25, abs=6)
    assert len(missed) <= 0.01 * len(surely) + 3
