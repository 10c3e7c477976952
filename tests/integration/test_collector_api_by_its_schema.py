"""The collector's API, asked what its own schema allows and what it does not."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from structlog.testing import capture_logs

from aggregator.collector.openapi import openapi
from tests.support.collector_service import BEARER, CollectorService
from tests.support.tasks import LAPLACE, make_task

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

HEADERS = {**BEARER, "host": "collector"}


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> schemathesis.BaseSchema:
    app = CollectorService(tmp_path_factory.mktemp("collector"), TASK).app
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
    assert len(operations) == 29
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
