"""Each problem that we raise was compared with the draft, and has its row in docs/protocol.md."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import aggregator
from aggregator.dap.problems import PROBLEM_TYPES
from aggregator.dap.profile import ERROR_NAMESPACE
from aggregator.service.web.problems import abort_response

HERE = Path(aggregator.__file__).parent
PAGE = (HERE.parent / "docs" / "protocol.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `([\w-]+)` \| (\d+) \| ([^|]+) \| (yes|ours)\b[^|]* \|$", re.MULTILINE)
TABLE = PAGE.partition("## Problems")[2].partition("\n## ")[0]
ROWS = [match.groups() for match in ROW.finditer(TABLE)]

ANSWERS_REQUESTS = ("codec.py", "dap", "dp", "protocol", "service", "vdaf")
"""What answers requests. Elsewhere these types are raised to people, on pages and at commands."""

_BODY = "a body that cannot be read"
_MODE = "a query or a selector of another batch mode"
_TASK = "no such task"
_NO_PARAMETER = "the VDAF does not take the aggregation parameter"
_EXTENSION = "an extension that we do not know, or that the batch mode does not have"
_COLLECTED = "a part of the batch was collected before"
_INTERVAL = "an interval of no unit of time, or beyond the last"
_WINDOW = "a batch that is not one of the task's windows"
_SPENT = "the budget of the task, or of its people, is spent"
_GIVEN_UP = "a collection that was given up"
_TOO_LARGE = "a body, or a number of reports, over our limit"
_COMPRESSED = "another media type, or a compressed body"
_NAME = "a name that another request has"
_ROOM = "no room now"
_NO_BUDGET = (
    "a collection of attribution without `min_dp_budget`, of another size, 0, or so small that its "
    "noise could wrap around the field"
)
_PERSON = None
"""Raised to whoever names a batch at a command or on a page, not to another party."""

COMPARED: dict[str, dict[str, str | None]] = {
    "BatchInvalid": {
        "dap/messages/collection.py InvalidBatchInterval": _INTERVAL,
        "protocol/time_interval.py _interval": _INTERVAL,
        "protocol/time_interval.py selected": "a selector that reaches beyond the query",
        "protocol/time_interval.py check_window": _WINDOW,
        "protocol/leader_selected.py check_window": _WINDOW,
        "protocol/collection.py check_size": "more reports than `max_reports`",
        "service/leader/answers_so_far.py answers_so_far": "answers are counted, without windows",
        "protocol/attribution.py check_budgets": (
            "a report of the batch pays less than `min_dp_budget`"
        ),
        "protocol/time_interval.py query": _PERSON,
        "protocol/leader_selected.py query": _PERSON,
    },
    "BatchMismatch": {
        "protocol/collection.py check_agreement": "another count or checksum than the helper's"
    },
    "BatchNotOver": {"protocol/time_interval.py asked": "a batch that reaches into the future"},
    "BatchOverlap": {
        "service/helper/aggregate_shares.py check": _COLLECTED,
        "service/leader/collections.py _freeze": _COLLECTED,
        "service/leader/routes.py create": _COLLECTED,
    },
    "BudgetExceeded": {
        "protocol/budget.py check_budget": _SPENT,
        "protocol/budget.py check_population": _SPENT,
    },
    "CollectionFailed": {
        "protocol/helper_answers.py after_refused_collection": _GIVEN_UP,
        "service/helper/aggregate_shares.py _lost_keys": _GIVEN_UP,
        "service/storage/backup/reconciliation.py _fail_collections": _GIVEN_UP,
    },
    "InvalidAggregationParameter": {"protocol/task.py vdaf": _NO_PARAMETER},
    "InvalidBatchSize": {
        "protocol/collection.py check_size": "fewer reports than `min_batch_size`",
        "service/leader/collections.py _await_batch": "fewer reports than `min_batch_size`",
    },
    "InvalidTask": {"service/runtime/in_band.py add": "a task in band that we take no part in"},
    "InvalidExtension": {
        "dap/extensions.py MisorderedCollectionExtensions": (
            "extensions of a collection, misordered"
        ),
        "protocol/attribution.py least_budget": _NO_BUDGET,
        "protocol/attribution.py check_noise": _NO_BUDGET,
    },
    "InvalidMessage": {
        "dap/problems.py as_problem": _BODY,
        "service/web/app.py _on_invalid_parameter": _BODY,
        "protocol/time_interval.py _interval": _MODE,
        "protocol/leader_selected.py _other_mode": _MODE,
        "protocol/leader_selected.py check_job": "a job that does not name its batch",
        "service/leader/routes.py _task_of_upload": "reports in a wrong place",
        "protocol/helper_aggregation.py _check_request": (
            "a job without reports, with one twice, or under an unknown key in draft 18"
        ),
    },
    "MessageTooLarge": {
        "dap/messages/job_columns.py _read_one_by_one": _TOO_LARGE,
        "service/leader/upload_checks.py _reports": _TOO_LARGE,
        "service/web/body_budget.py _content": _TOO_LARGE,
        "service/web/messages.py read_bytes": _TOO_LARGE,
    },
    "NameTaken": {
        "service/helper/aggregate_shares.py check": _NAME,
        "service/helper/aggregation.py find": _NAME,
        "service/leader/routes.py _named_job": _NAME,
    },
    "NotNamedByCaller": {"service/web/aggregators.py _named": "a `PUT` where the server names"},
    "SetBack": {
        "service/runtime/witness.py check_witness": "a release that one of us has forgotten"
    },
    "StepMismatch": {
        "service/helper/routes.py continue_aggregation_job": "a step that a job does not have"
    },
    "TaskRefused": {
        "protocol/attribution.py with_epsilon": (
            "a collection of attribution with a larger epsilon than the task's"
        ),
        "service/runtime/runtime.py _checked": "less protection than we require",
        "service/runtime/runtime.py _task": "less protection than we require",
    },
    "TooManyCollections": {
        "service/leader/routes.py create": "256 collections are pending",
        "service/leader/routes.py _check_room_of_collector": "as many are open as was agreed on",
    },
    "TooManyRequests": {
        "service/helper/aggregation.py defer": _ROOM,
        "service/web/body_budget.py _make_room": _ROOM,
        "service/web/body_budget.py take": _ROOM,
        "service/runtime/in_band.py _no_room": _ROOM,
    },
    "Unauthorized": {"service/web/auth.py check_token": "no token, or a wrong one"},
    "UnrecognizedAggregateShare": {"service/helper/routes.py Kind": "no such share"},
    "UnrecognizedAggregationJob": {"service/helper/routes.py Kind": "no such job"},
    "UnrecognizedCollectionJob": {
        "service/leader/routes.py Kind": "no such collection",
        "service/leader/routes.py upload_to_job": "reports below no collection",
    },
    "UnrecognizedTask": {
        "service/leader/upload_group.py fail": _TASK,
        "service/runtime/runtime.py _learn": _TASK,
        "service/runtime/runtime.py public_task_in": _TASK,
        "service/runtime/runtime.py task_in": _TASK,
        "service/web/messages.py task_id_of": _TASK,
        "service/web/aggregators.py _authorised": _TASK,
        "service/runtime/in_band.py check_id": "the header brings another task than the path names",
        "service/runtime/in_band.py add": "a task that may not come with an upload",
    },
    "UnsupportedExtension": {
        "protocol/collection.py _check_what_names_no_batch": _EXTENSION,
        "protocol/leader_selected.py check_job": _EXTENSION,
        "protocol/time_interval.py check_job": _EXTENSION,
        "dap/problems.py abort_from_problem": _PERSON,  # reads what another party raised
    },
    "UnsupportedMediaType": {
        "service/web/messages.py read_body": _COMPRESSED,
        "service/web/messages.py read_bytes": _COMPRESSED,
    },
}
"""Where each type is raised, and the row of the page that says why."""

TYPES = {kind.__name__: kind for kind in PROBLEM_TYPES.values()}


def raised_in(node: ast.AST, inside: str = "") -> Iterator[tuple[str, str]]:
    """Yield each type that a module makes, names for a `Kind` or extends, and where."""
    for child in ast.iter_child_nodes(node):
        within = inside
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            within = child.name
        found: list[ast.expr] = []
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Name):
            found = [child.func]
            if child.func.id == "Kind":
                found, within = child.args, "Kind"
        elif isinstance(child, ast.ClassDef):
            found = child.bases
        for each in found:
            if isinstance(each, ast.Name) and each.id in TYPES:
                yield each.id, within
        yield from raised_in(child, within)


def test_each_problem_that_is_raised_was_compared_with_the_draft() -> None:
    found: dict[str, set[str]] = {}
    for part in ANSWERS_REQUESTS:
        for path in sorted([HERE / part] if part.endswith(".py") else (HERE / part).rglob("*.py")):
            for kind, where in raised_in(ast.parse(path.read_text(encoding="utf-8"))):
                found.setdefault(kind, set()).add(f"{path.relative_to(HERE).as_posix()} {where}")
    assert found == {kind: {*places} for kind, places in COMPARED.items()}


def token_of(kind: str) -> str:
    return re.split(":", TYPES[kind].type_uri)[-1]


def test_each_problem_has_its_row_and_each_row_its_problem() -> None:
    wanted = {
        (token_of(kind), why) for kind, places in COMPARED.items() for why in places.values() if why
    }
    assert {(token, why) for token, _, why, _ in ROWS} == wanted
    assert len(ROWS) == len(wanted) == TABLE.count("\n| ") - 2


def test_each_row_has_the_status_of_its_problem_and_ours_are_marked() -> None:
    by_token = {token_of(kind): each for kind, each in TYPES.items()}
    for token, status, _, whose in ROWS:
        assert abort_response(by_token[token]()).status_code == int(status), token
        if not by_token[token].type_uri.startswith(ERROR_NAMESPACE):
            assert whose == "ours", token
