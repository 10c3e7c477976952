"""The collector's API, asked what its own schema allows and what it does not."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from structlog.testing import capture_logs

from aggregator.collector.driver import Driver
from aggregator.collector.openapi import openapi
from aggregator.collector.service import create_collector_app
from aggregator.dap.auth import bearer_header, hash_token
from aggregator.protocol.task import task_to_toml
from aggregator.storage import collector as store
from aggregator.storage.crypter import Crypter
from aggregator.storage.database import Database
from tests.support.empty_store import upgraded
from tests.support.entropy import SeededEntropy
from tests.support.pair import COLLECTOR_TOKEN
from tests.support.tasks import LAPLACE, collector_keypair, make_task

pytestmark = pytest.mark.slow

TASK = make_task(privacy=LAPLACE)
COLLECTIONS = "/api/tasks/{task_id}/collections"
QUERY = {
    "type": "object",
    "properties": {
        "start": {"type": "integer", "minimum": 0, "multipleOf": 100},
        "end": {"type": "integer", "minimum": 0, "multipleOf": 100},
    },
    "required": ["start", "end"],
    "additionalProperties": False,
}
"""What `collect` takes of a task of this time precision."""

HEADERS = {"authorization": bearer_header(COLLECTOR_TOKEN), "host": "collector"}


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> schemathesis.BaseSchema:
    file = tmp_path_factory.mktemp("collector") / "collector.sqlite"
    upgraded(f"sqlite:///{file}")
    database = Database.open(f"sqlite:///{file}", Crypter([bytes(32)]))
    record = store.CollectorTask(TASK.task_id.value, task_to_toml(TASK), COLLECTOR_TOKEN)
    database.run_sync("put task", lambda tx: store.put_collector_task(tx, record))
    app = create_collector_app(
        database,
        Driver(database, collector_keypair(), None),  # type: ignore[arg-type]  # it is not run
        SeededEntropy(b"api"),
        lambda: [hash_token(COLLECTOR_TOKEN)],
        {"collector"},
    )
    document = openapi(app)
    document["paths"][COLLECTIONS]["post"]["requestBody"] = {
        "required": True,
        "content": {"application/json": {"schema": QUERY}},
    }
    # Half of the requests are for a task that exists.
    for operations in document["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                if parameter["name"] == "task_id":
                    parameter["schema"] = {
                        "anyOf": [{"const": str(TASK.task_id)}, {"type": "string"}]
                    }
    made = schemathesis.openapi.from_dict(document)
    made.app = app
    return made


@pytest.mark.parametrize("mode", GenerationMode)
def test_whatever_the_schema_allows_or_not_is_answered_and_a_refusal_is_a_problem(
    schema: schemathesis.BaseSchema, mode: GenerationMode
) -> None:
    operations = [each.ok() for each in schema.get_all_operations()]
    assert len(operations) == 10
    cases = st.one_of([each.as_strategy(generation_mode=mode) for each in operations])
    statuses = set[int]()

    @given(cases)
    @settings(max_examples=60, database=None, suppress_health_check=list(HealthCheck))
    def ask(case: schemathesis.Case) -> None:
        with capture_logs() as lines:
            answer = case.call(headers=HEADERS, base_url="http://collector")
        statuses.add(answer.status_code)
        assert answer.status_code < 500, lines
        assert [line for line in lines if line["log_level"] == "error"] == []
        is_problem = answer.headers["content-type"] == ["application/problem+json"]
        assert is_problem == (answer.status_code >= 400)

    ask()
    assert statuses >= ({200, 404} if mode is GenerationMode.POSITIVE else {404})
