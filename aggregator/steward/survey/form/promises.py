"""What a survey's page promises about an answer and its cost: nothing that is not so."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from html import escape

from aggregator.client.survey.asked_survey import AskedSurvey
from aggregator.client.text.fitting import SpelledWindow
from aggregator.client.text.question import TextQuestion
from aggregator.dap.urls import read_endpoint
from aggregator.dp.rationals import at_most
from aggregator.protocol.task import Task
from aggregator.steward.survey.form.translations import filled
from aggregator.written_times import IN_UTC

_LARGEST_EPSILON = 6
"""Up to this epsilon, its factor is a readable number."""


def what_happens(
    asked: AskedSurvey,
    words: Mapping[str, str],
    spelled: Sequence[SpelledWindow] = (),
) -> str:
    """Return what happens to the answers, folded until somebody opens it."""
    configuration, task = asked.first.configuration, asked.task
    texts = [question for question, _ in asked.texts.values()]
    leader, helper = (
        f"<bdi>{escape(read_endpoint(url, name).authority)}</bdi>"
        for name, url in (
            ("leader", configuration.leader_aggregator_endpoint),
            ("helper", configuration.helper_aggregator_endpoint),
        )
    )
    is_noisy = asked.first.policy.mechanism.is_noisy
    said = [
        filled(escape(words[name]), leader=leader, helper=helper)
        for name in (
            "what_split",
            "what_trust",
            "what_noise" if is_noisy else "what_exact",
            *(("what_text", "what_text_lists", "what_text_group") if texts else ()),
            "what_page",
            "what_seen",
            "what_kept",
        )
    ]
    said[-3:-3] = [_letters(each, words) for each in spelled]
    said[-3:-3] = [escape(each) for each in _cost(task, words, texts)]
    points = "".join(f"<li>{each}</li>" for each in said)
    return f"<details><summary>{escape(words['what'])}</summary><ul>{points}</ul></details>"


def _letters(window: SpelledWindow, words: Mapping[str, str]) -> str:
    """Return when letters are asked for, and of how many answers."""
    task = window.tasks[0]
    interval, unit = task.interval, task.time_precision
    assert interval is not None  # noqa: S101  as `SpelledWindow.check` has seen
    start, end = (IN_UTC.moment(each.units * unit) for each in (interval.start, interval.end))
    count = str(len(window.spelling.fingerprints))
    return escape(filled(words["what_text_letters"], start=start, end=end, count=count))


def _cost(task: Task | None, words: Mapping[str, str], texts: Sequence[TextQuestion]) -> list[str]:
    """Return what an answer costs a person, with all that they write, if the cost is bounded.

    Without a task, people only write.
    """
    of_texts = sum((each.epsilon for each in texts), Fraction(0))
    epsilon, delta = of_texts, Fraction(0)
    if task is not None:
        promised = task.policy.mechanism.guarantee(task.prio3.circuit)
        if promised.epsilon is None:
            return []
        epsilon, delta = of_texts + promised.epsilon, promised.delta or delta
    is_small = epsilon <= _LARGEST_EPSILON
    factor = at_most(Fraction(math.exp(epsilon))) if is_small else f"exp({at_most(epsilon)})"
    names = {"factor": factor, "epsilon": at_most(epsilon)}
    if delta:
        said = [filled(words["what_cost_delta"], **names, delta=at_most(delta))]
    else:
        said = [filled(words["what_cost"], **names)]
    if task is not None and texts:
        said.append(filled(words["what_cost_text"], epsilon=at_most(of_texts)))
    return [" ".join(said)]
