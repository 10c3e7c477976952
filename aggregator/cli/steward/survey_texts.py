"""A survey's text questions, for commands: groups of tasks besides the survey's task."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from aggregator.client.text import DESCRIPTION, SURVEY, TASKS, TASKS_OF_PAGES, TEXTS
from aggregator.entropy import SystemEntropy

if TYPE_CHECKING:
    from fractions import Fraction

    from aggregator.client.text.beside_survey import AskedTexts
    from aggregator.client.text.question import TextQuestion
    from aggregator.client.text.spelling import Spelling
    from aggregator.dap.hpke import HpkeConfig
    from aggregator.issuer import PrivateKeys
    from aggregator.protocol.signed_permits import IssuerKeys
    from aggregator.protocol.task import Task
    from aggregator.steward.survey import Survey
    from aggregator.steward.survey.texts import PlannedText


def write_survey(
    task: "Task | None",
    texts: "AskedTexts",
    out: Path,
    beside: Mapping[str, str] = MappingProxyType({}),
    issuer: "PrivateKeys | None" = None,
) -> list[str]:
    """Write a survey's files to a new folder: the public ones, and one for each party.

    A survey of text questions alone has no task, and its public file is its meaning. Public files
    of text questions are in folders; others, by name, are `beside`. Private keys of an issuer are
    written if they are given. Returns the names of the survey's own public files.
    """
    from aggregator.cli.service.task_making import write_folder
    from aggregator.protocol.issuer_key_file import ISSUER_KEYS, issuer_keys_to_json
    from aggregator.protocol.provisioning import provision_all
    from aggregator.protocol.task_file import task_to_toml, tasks_to_json

    everything = [each for _, tasks in texts.values() for each in tasks]
    if task is None:
        meaning = next(question.survey for question, _ in texts.values())
        own = {SURVEY: f"{meaning}\n"}
    else:
        own = {"task.toml": task_to_toml(task), "task.json": tasks_to_json([task])}
        everything.insert(0, task)
    if (keys := everything[0].issuer_keys) is not None:
        own[ISSUER_KEYS] = issuer_keys_to_json(keys)
    public = own | dict(beside)
    for name, (question, tasks) in texts.items():
        found = public_files(question, tasks)
        public |= {f"{TEXTS}/{name}/{file}": text for file, text in found.items()}
    write_folder(out, public, provision_all(everything, SystemEntropy()), issuer)
    return [*own]


def public_files(
    question: "TextQuestion | Spelling", tasks: "Sequence[Task]", description: str = DESCRIPTION
) -> dict[str, str]:
    """Return the public files of a question or a spelling, by name."""
    from aggregator.protocol.task_file import task_for_clients, tasks_to_toml

    return {
        TASKS: tasks_to_toml(tasks),
        TASKS_OF_PAGES: json.dumps([task_for_clients(each) for each in tasks]) + "\n",
        description: question.to_json(tasks),
    }


def text_tasks(
    survey: "Survey",
    texts: "Sequence[PlannedText]",
    config: "HpkeConfig",
    leader: str,
    helper: str,
    profile: str = "dap-18",
    domains: Mapping[str, bytes] = MappingProxyType({}),
    keys: "IssuerKeys | None" = None,
) -> "dict[str, tuple[TextQuestion, Sequence[Task]]]":
    """Make the tasks of a survey's text questions, each of which may have a domain of permits.

    Those permits are signed if there are keys.
    """
    from aggregator.cli.service.task_making import make_task
    from aggregator.steward.survey.bundle import text_tables

    parties = {"leader": leader, "helper": helper, "profile": profile}
    found: dict[str, tuple[TextQuestion, Sequence[Task]]] = {}
    for each in texts:
        permits = permits_of(domains, each.asked.name, keys)  # one for all its tasks
        tasks = [
            make_task(config, made.vdaf, made.privacy, **parties, **made.settings, **permits)
            for made in text_tables(survey, each)
        ]
        each.question.check(tasks)
        found[each.asked.name] = each.question, tasks
    return found


def permits_of(
    domains: Mapping[str, bytes], name: str, keys: "IssuerKeys | None" = None
) -> dict[str, dict[str, object]]:
    """Return the `[permits]` table of a question's tasks; empty if they have none."""
    from aggregator.dap.ids import encode_base64url
    from aggregator.protocol.task_file import issuer_keys_to_table

    if name not in domains:
        return {}
    signed = {} if keys is None else issuer_keys_to_table(keys)
    return {"permits": {"domain": encode_base64url(domains[name]), **signed}}


_KEPT = {
    "by open link": "of which each client keeps to one, which no aggregator can check",
    "by invitation": "in one of which each personal link counts in a window",
    "by application": "in one of which each person's permit counts in a window",
}


def text_line(
    planned: "PlannedText", budget: "Fraction | None", answers: str = "by open link"
) -> str:
    """Return a line that says how a text question is asked, and what will be found.

    The budget is the epsilon of a person and window; `answers` is whose count.
    """
    plan, question = planned.plan, planned.question
    surely, people = math.ceil(plan.found_from), round(plan.tail.people)
    found = (
        f"finds what {surely:,} or more of {people:,} people write, ± {2 * plan.deviation:,.0f}"
        if surely < people
        else f"finds nothing that fewer than all of {people:,} people write"
    )
    if planned.errors_of_means:
        unit = question.amount.unit if question.amount else ""
        (least, error), *more = planned.errors_of_means
        found += f"; mean ± {error:.2g} {unit}".rstrip() + f" of what {least:,} people write"
        found += "".join(f", ± {each:.2g} of what {count:,} write" for count, each in more)
    deviation, by = planned.deviation_of_a_label, question.by
    if deviation is not None and by is not None and surely < people:
        found += f"; of each answer to {by.question} ± {2 * deviation:,.0f}"
    buckets = f"{question.length} buckets"
    buckets += "" if question.amount is None else " with two levels each"
    buckets += "" if by is None else f" for each of {by.levels} labels of {by.question}"
    return (
        f"{planned.asked.name} (text): {question.tasks} tasks of {buckets}, "
        f"{_KEPT[answers]}; {found}; "
        f"{float(100 * question.epsilon / (budget or 1)):.3g} % of what a person pays"
    )


def beside_document(planned: "PlannedText") -> dict[str, object]:
    """Return what is foretold of means, or of each label, where something is told beside it."""
    if planned.question.by is not None:
        deviation = planned.deviation_of_a_label
        return {"by": {**planned.question.by.table, "standard_deviation": deviation}}
    if planned.question.amount is None:
        return {}
    errors = [{"people": count, "error": error} for count, error in planned.errors_of_means]
    return {"amount": {**planned.question.amount.table, "errors_of_means": errors}}
