"""The Client: turns measurements into reports at the leader, without a server.

An application that people answer has a `Reporter`, whose outbox is a file:

    with Reporter.open("task.toml", "outbox.sqlite") as reporter:
        reporter.put(3, claim="person 17")

A survey's application has a `SurveyClient`, which takes answers by the names of questions:

    with SurveyClient("task.json", "outbox.sqlite") as survey:
        survey.put({"education": "degree", "hours": 40}, person="17")

A script or a notebook that has all measurements needs a `Task` and a `Client`:

    with Client(task_from_toml(Path("task.toml").read_text())) as client:
        summary = client.upload([3, 1, 0])
"""

from typing import TYPE_CHECKING

from aggregator.lazy_exports import exports

if TYPE_CHECKING:
    from aggregator.client.bulk import Uploaded
    from aggregator.client.measurements import MeasurementReader
    from aggregator.client.outbox import AlreadyAnswered, Outbox, OutboxFull
    from aggregator.client.passes import Pass, Reason
    from aggregator.client.permit_store import PermitStore
    from aggregator.client.records import Outcome, State
    from aggregator.client.reporter import Reporter
    from aggregator.client.right_time import TimeUnknown
    from aggregator.client.survey.answers import AnswerError
    from aggregator.client.survey.client import NotAsked, SurveyClient
    from aggregator.client.survey.rows import Row
    from aggregator.client.table_files.cells import CellError
    from aggregator.client.upload import AsyncClient, Client, UploadError, UploadSummary
else:
    __getattr__ = exports(
        __name__,
        {
            "bulk": ("Uploaded",),
            "measurements": ("MeasurementReader",),
            "outbox": ("AlreadyAnswered", "Outbox", "OutboxFull"),
            "permit_store": ("PermitStore",),
            "records": ("Outcome", "State"),
            "reporter": ("Reporter",),
            "passes": ("Pass", "Reason"),
            "right_time": ("TimeUnknown",),
            "survey.answers": ("AnswerError",),
            "survey.client": ("NotAsked", "SurveyClient"),
            "survey.rows": ("Row",),
            "table_files.cells": ("CellError",),
            "upload": ("AsyncClient", "Client", "UploadError", "UploadSummary"),
        },
    )

__all__ = [
    "AlreadyAnswered",
    "AnswerError",
    "AsyncClient",
    "CellError",
    "Client",
    "MeasurementReader",
    "NotAsked",
    "Outbox",
    "OutboxFull",
    "Outcome",
    "Pass",
    "PermitStore",
    "Reason",
    "Reporter",
    "Row",
    "State",
    "SurveyClient",
    "TimeUnknown",
    "UploadError",
    "UploadSummary",
    "Uploaded",
]
