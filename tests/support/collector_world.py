"""A collector's store filled with results that no aggregator released, and its service."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

from aggregator.codec import encode
from aggregator.collector import store
from aggregator.collector.documents import result_document
from aggregator.collector.requests import new_collection
from aggregator.collector.results.disclosure import disclose
from aggregator.collector.results.result import Result, collection_request
from aggregator.dap.ids import TaskId
from aggregator.dap.problems import InvalidBatchSize, problem_document
from aggregator.dap.times import Interval
from aggregator.protocol.task import Task
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.web.pages.host_page import Guest
from aggregator.written_times import IN_UTC, Times
from tests.support.clock import ManualClock
from tests.support.collector_service import CollectorService, put_task
from tests.support.entropy import SeededEntropy
from tests.support.surveys import VISITS, department, task_of

MONDAY = datetime(2026, 11, 2, tzinfo=UTC)
WEEK = timedelta(days=7)
NOW = MONDAY + 10 * WEEK + timedelta(days=1)
SCRIPT = "<script>alert(1)</script>"
TURNED = "\u202egnorts\u202c"
EMBEDDED = "\u202bgnorts\u202c"
"""Turned as far as the text of a survey may be."""
LONG = "very long, " * 909 + "x"
REPORTS = 600
"""Of every result."""
HOSTILE = (SCRIPT, EMBEDDED, LONG, "=1+1")


def task_asking(questions: str, number: int = 0, tables: str = "", **settings: object) -> Task:
    """Return the task of a weekly survey that asks these questions, one of several by number."""
    survey = VISITS.replace("[budget]", f"{tables}\n[budget]") + questions
    return task_of(survey, id=str(TaskId(number.to_bytes(32))), **settings)


def survey_task(labels: Sequence[str], text: str) -> Task:
    """Return the task of a weekly survey that asks for one of these labels."""
    return task_asking(department(labels, text))


class CollectorWorld(CollectorService):
    """A collector's store at one moment, filled without a leader."""

    def __init__(
        self,
        folder: Path,
        *tasks: Task,
        guests: Sequence[Guest] = (),
        word_lists: Path | None = None,
        times: Times = IN_UTC,
        permit_lists: Path | None = None,
    ) -> None:
        clock = ManualClock(seconds(NOW))
        super().__init__(
            folder,
            *tasks,
            clock=clock,
            guests=guests,
            word_lists=word_lists,
            times=times,
            permit_lists=permit_lists,
        )

    def add(self, task: Task) -> None:
        put_task(self.database, task)

    def ask(self, task: Task, start: datetime, length: timedelta = WEEK) -> bytes:
        return self.ask_seconds(task, seconds(start), seconds(start + length))

    def ask_seconds(self, task: Task, start: int, end: int) -> bytes:
        named = {"start": start, "end": end}
        seed = SeededEntropy(task.task_id.value + named["start"].to_bytes(8))
        new = new_collection(task, collection_request(task, named), seed)
        stored = self.database.run_sync("put", lambda tx: store.put_collection(tx, new))
        return stored.collection_id

    def finish(
        self, task: Task, start: datetime, values: list[int], length: timedelta = WEEK
    ) -> str:
        name = self.ask(task, start, length)
        document = json.dumps(_result(task, start, values, length, name.hex()))
        self.database.run_sync("finish", lambda tx: store.finish_collection(tx, name, document))
        return name.hex()

    def fill(self, task: Task, count: int, length: int) -> None:
        """Finish this many weeks before the first Monday, in one transaction."""

        def put(tx: Transaction) -> None:
            for place in range(count):
                start = MONDAY - (count - place) * WEEK
                named = {"start": seconds(start), "end": seconds(start + WEEK)}
                name = task.task_id.value[-8:] + place.to_bytes(8)
                request = encode(collection_request(task, named))
                new = store.NewCollection(name, task.task_id.value, request, asks_for_next=False)
                store.put_collection(tx, new)
                values = [place + other for other in range(length)]
                document = _result(task, start, values, WEEK, name.hex())
                store.finish_collection(tx, name, json.dumps(document))

        self.database.run_sync("fill", put)

    def fail(self, task: Task, start: datetime) -> None:
        name = self.ask(task, start)
        problem = json.dumps(problem_document(InvalidBatchSize("2 reports of at least 3")))
        self.database.run_sync("fail", lambda tx: store.fail_collection(tx, name, problem))

    def pending(self) -> int:
        stored = self.database.read_sync("list", store.list_collections)
        return sum(each.ended_at is None for each in stored)


def _result(
    task: Task, start: datetime, values: list[int], length: timedelta, release: str
) -> dict[str, object]:
    mechanism, circuit = task.policy.mechanism, task.prio3.circuit
    if len(values) == circuit.output_len - 1:
        values = [*values, REPORTS - sum(values)]  # all others gave no answer
    confidence, unit = Fraction(95, 100), task.time_precision
    disclosure = disclose(task.policy, circuit, values, REPORTS)
    return result_document(
        task,
        Result(
            values=disclosure.values,
            report_count=REPORTS,
            interval=Interval.of(
                seconds(start) // unit, max(1, int(length.total_seconds()) // unit)
            ),
            release=release,
            mechanism=mechanism.name,
            guarantee=mechanism.guarantee(circuit),
            confidence=confidence,
            half_width=mechanism.half_width(circuit, confidence),
            joint_half_width=mechanism.joint_half_width(circuit, confidence),
            scale=mechanism.describe_scale(circuit),
            disclosure=disclosure,
        ),
    )


def seconds(moment: datetime) -> int:
    return int(moment.timestamp())
