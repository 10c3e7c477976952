"""A hospital's weekly survey, and the task that it is planned as."""

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime

from aggregator.dap.ids import encode_base64url
from aggregator.dap.times import Interval
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import issuer_keys_to_table
from aggregator.steward.survey import Meaning, Survey, plan, survey_from_toml, task_tables
from tests.support.signed import issuer_keys
from tests.support.tasks import make_task

FIRST = datetime(2026, 11, 2, tzinfo=UTC)
"""When surveys begin here that do not say when."""

VISITS = """
title = "Visits"
asked = "patients"
window = "week"
first = 2026-11-02
min_batch_size = 3
max_reports = 1000
[budget]
epsilon = "1"
windows = 52
"""

IN_2023 = VISITS.replace("2026-11-02", "2023-11-13")
"""The same when the aggregators of `Pair` have their clocks."""

NOWADAYS = VISITS.replace("first = 2026-11-02\n", "")
"""The same from the week on that holds now."""


def department(labels: Sequence[str] = ("surgery", "medicine"), text: str = "") -> str:
    """Return the table of a question whose answer is one of the labels."""
    words = f"text = {json.dumps(text)}\n" if text else ""
    return (
        f'[[question]]\nname = "department"\n{words}'
        f'kind = "choice"\nlabels = {json.dumps(list(labels))}\n'
    )


def task_of(survey: str, **settings: object) -> Task:
    """Return the task of a survey's text."""
    parsed = survey_from_toml(survey, FIRST)
    tables = task_tables(parsed, plan(parsed))
    permits = permits_in(parsed, "")
    return make_task(tables.vdaf, tables.privacy, **tables.settings, **permits, **settings)


def permits_in(survey: Survey, question: str) -> dict[str, dict[str, object]]:
    """Return the permits of a survey's own task, or of a text question's, if it has any."""
    if survey.answers == "by open link":
        return {}
    domain = encode_base64url(hashlib.sha256(f"domain {question}".encode()).digest())
    if survey.is_by_invitation:
        return {"permits": {"domain": domain}}
    keys = issuer_keys(survey.permit_windows.start)
    return {"permits": {"domain": domain, **issuer_keys_to_table(keys)}}


def every_kind(first: str = "") -> str:
    """Return a survey with a question of each kind, by one of them, of which some are conditional.

    `first` is a line for when its first window begins.
    """
    return f"""
title = "Every kind"
asked = "everybody"
window = "day"
min_batch_size = 20
{first}
by = "place"
[budget]
epsilon = "8"
windows = 9
[[question]]
name = "place"
kind = "choice"
labels = ["here", "there"]
[[question]]
name = "seat"
kind = "yes-no"
ask_if = {{ place = "there" }}
[[question]]
name = "good"
kind = "multiple"
labels = ["staff", "rooms", "food"]
at_most = 2
[[question]]
name = "waited"
kind = "bins"
edges = [0, 10, 30, 60]
[[question]]
name = "age"
kind = "number"
low = 0
high = 120
variance = true
[[question]]
name = "liked"
kind = "scale"
low = 1
high = 5
[[question]]
name = "town"
kind = "tree"
regions = [
  {{ label = "A", below = [{{ label = "A1" }}, {{ label = "A2" }}] }},
  {{ label = "B", below = [{{ label = "B1" }}, {{ label = "B2" }}] }},
]
[[question]]
name = "spent"
kind = "vector"
column = [{{ name = "food", low = 0, high = 9 }}, {{ name = "rent", low = 0, high = 9 }}]
[[question]]
name = "word"
kind = "text"
epsilon = "2"
buckets = 16
tasks = 8
ask_if = {{ place = "here" }}
"""


def week_of(task: Task, moment: datetime, meaning: Meaning | None = None) -> Interval:
    """Return the window of a survey at a moment, in its task's units of time.

    The meaning is that of the survey, if the task is of one of its text questions.
    """
    start, end = (Meaning.of_task(task) if meaning is None else meaning).window(moment)
    unit = task.time_precision
    return Interval.of(int(start.timestamp()) // unit, int((end - start).total_seconds()) // unit)
