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
from aggregator.steward.survey.about import About
from aggregator.steward.survey.form.texts import Texts
from aggregator.steward.survey.said import Own, Said

_LARGEST_EPSILON = 6
"""Up to this epsilon, its factor is a readable number."""


def what_happens(
    asked: AskedSurvey,
    texts: Texts,
    about: Sequence[About],
    spelled: Sequence[SpelledWindow],
) -> str:
    """Return what happens to the answers, folded until somebody opens it."""
    configuration, task = asked.first.configuration, asked.task
    questions = [question for question, _ in asked.texts.values()]
    hosts = {
        "leader": read_endpoint(configuration.leader_aggregator_endpoint, "leader").authority,
        "helper": read_endpoint(configuration.helper_aggregator_endpoint, "helper").authority,
    }
    permits = asked.first.permits
    by = None if permits is None else "permit" if permits.is_signed else "link"
    group = f"what_text_{by or 'group'}"
    beside = ["what_text_amount"] if any(each.amount for each in questions) else []
    beside += ["what_text_by"] if any(each.by for each in questions) else []
    is_noisy = asked.first.policy.mechanism.is_noisy
    said = [
        Said("what_split", hosts),
        Said("what_trust"),
        Said("what_noise" if is_noisy else "what_exact"),
        *(
            Said(name, hosts if name == group else {})
            for name in ("what_text", *beside, "what_text_lists", group)
            if questions
        ),
        *(_letters(each) for each in spelled),
        *_cost(task, questions),
        *([Said(f"what_{by}", hosts)] if by else []),
        Said("what_page"),
        Said("what_seen", hosts),
        Said("what_kept"),
    ]
    summary = texts.tag("summary", Said("what"))
    points = [texts.tag("li", each) for each in said]
    if about[0].leader:
        points[1:1] = [_operators(hosts, texts, about)]
    return f"<details>{summary}<ul>{''.join(points)}</ul></details>"


def _operators(hosts: Mapping[str, str], texts: Texts, about: Sequence[About]) -> str:
    """Return who runs the two, beside their hosts, and on whose word."""
    names = {
        "leader": [Own(each.leader) for each in about],
        "helper": [Own(each.helper) for each in about],
    }
    lines = "".join(
        f"<br><bdi>{escape(host)}</bdi>: {texts.tag('bdi', names[name])}"
        for name, host in hosts.items()
    )
    return f"<li>{texts.tag('span', Said('what_operators'))}{lines}</li>"


def _letters(window: SpelledWindow) -> Said:
    """Return when letters are asked for, and of how many answers."""
    task = window.tasks[0]
    interval, unit = task.interval, task.time_precision
    assert interval is not None  # noqa: S101  as `SpelledWindow.check` has seen
    start, end = (each.units * unit for each in (interval.start, interval.end))
    count = str(len(window.spelling.fingerprints))
    return Said("what_text_letters", {"start": start, "end": end, "count": count})


def _cost(task: Task | None, texts: Sequence[TextQuestion]) -> list[Said]:
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
        said = [Said("what_cost_delta", names | {"delta": at_most(delta)})]
    else:
        said = [Said("what_cost", names)]
    if task is not None and texts:
        said.append(Said("what_cost_text", {"epsilon": at_most(of_texts)}))
    return said
