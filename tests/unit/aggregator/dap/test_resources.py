import pytest

from aggregator.dap.ids import AggregationJobId, TaskId
from aggregator.dap.messages import UploadRequest
from aggregator.dap.profile import Role
from aggregator.dap.resources import RESOURCES, media_type, message_of, path, resources_of

# DAP, "HTTP Resources Reference" and "Request Authentication", copied by hand; and what Janus has
# in place of the three `POST`s by which something is made.
TASK = "/tasks/{task_id}"
LEADERS = {
    ("GET", "/hpke_config", None, None, "hpke-config-list"),
    ("POST", f"{TASK}/reports", None, "upload-req", "upload-errors"),
    (
        "POST",
        f"{TASK}/reports/{{collection_job_id}}",
        None,
        "upload-req",
        "upload-errors",
    ),
    ("POST", f"{TASK}/collection_jobs", 0, "collection-job-req", "collection-job-resp"),
    ("GET", f"{TASK}/collection_jobs/{{collection_job_id}}", 0, None, "collection-job-resp"),
    ("DELETE", f"{TASK}/collection_jobs/{{collection_job_id}}", 0, None, None),
    (
        "PUT",
        f"{TASK}/collection_jobs/{{collection_job_id}}",
        0,
        "collection-job-req",
        "collection-job-resp",
    ),
    ("GET", f"{TASK}/answers_so_far", 0, None, "prio-answers-so-far"),  # ours
}
JOB = f"{TASK}/aggregation_jobs/{{aggregation_job_id}}"
SHARE = f"{TASK}/aggregate_shares/{{aggregate_share_id}}"
HELPERS = {
    ("GET", "/hpke_config", None, None, "hpke-config-list"),
    ("POST", f"{TASK}/aggregation_jobs", 2, "aggregation-job-init-req", "aggregation-job-resp"),
    ("POST", JOB, 2, "aggregation-job-continue-req", "aggregation-job-resp"),
    ("GET", JOB, 2, None, "aggregation-job-resp"),
    ("DELETE", JOB, 2, None, None),
    ("PUT", JOB, 2, "aggregation-job-init-req", "aggregation-job-resp"),
    ("PUT", SHARE, 2, "aggregate-share-req", "aggregate-share"),
    ("POST", f"{TASK}/aggregate_shares", 2, "aggregate-share-req", "aggregate-share"),
    ("GET", SHARE, 2, None, "aggregate-share"),
    ("DELETE", SHARE, 2, None, None),
}


@pytest.mark.parametrize(("role", "expected"), [(Role.LEADER, LEADERS), (Role.HELPER, HELPERS)])
def test_each_role_serves_what_is_listed(role: Role, expected: set[object]) -> None:
    rows = {
        (row.method, row.template, row.caller, row.request, row.response)
        for row in resources_of(role)
    }
    assert rows == expected


def test_no_one_else_serves_anything() -> None:
    assert {role for row in RESOURCES for role in row.servers} == {Role.LEADER, Role.HELPER}


def test_a_path_is_written_as_the_drafts_example() -> None:
    task_id = TaskId.parse("8BY0RzZMzxvA46_8ymhzycOB9krN-QIGYvg_RsByGec")
    job_id = AggregationJobId.parse("lc7aUeGpdSNosNlh-UZhKA")
    assert path("hpke_config") == "/hpke_config"
    assert path("aggregation_job", task_id=task_id, aggregation_job_id=job_id) == (
        "/tasks/8BY0RzZMzxvA46_8ymhzycOB9krN-QIGYvg_RsByGec/aggregation_jobs/lc7aUeGpdSNosNlh-UZhKA"
    )


def test_a_path_without_its_id_is_refused() -> None:
    with pytest.raises(KeyError, match="task_id"):
        path("reports")


def test_a_media_type_is_written_as_the_draft_writes_it() -> None:
    assert media_type(UploadRequest.message) == "application/ppm-dap;message=upload-req"


@pytest.mark.parametrize(
    "header",
    [
        "application/ppm-dap;message=upload-req",
        "Application/PPM-DAP; Message=upload-req",
        "  application/ppm-dap ;  message=upload-req  ",
        'application/ppm-dap;message="upload-req"',
        'application/ppm-dap;message="upload\\-req"',
        "application/ppm-dap;version=18;message=upload-req",
        "application/ppm-dap;message=upload-req;version=18;",
        'application/ppm-dap;note="a;message=other";message=upload-req',
    ],
)
def test_a_media_type_is_read_whatever_its_spelling(header: str) -> None:
    assert message_of(header) == "upload-req"


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "application/ppm-dap",
        "application/ppm-dap;",
        "application/ppm-dap;version=18",
        "application/ppm-dap;message",
        "application/ppm-dap;message=",
        "application/ppm-dap;message=upload-req;message=upload-errors",
        'application/ppm-dap;message="upload-req',
        "application/ppm-dap message=upload-req",
        "application/json;message=upload-req",
        "application/ppm-dap2;message=upload-req",
        "text/plain",
        "application/dap-report",
    ],
)
def test_any_other_header_promises_no_message(header: str | None) -> None:
    assert message_of(header) is None


def test_a_long_hostile_header_is_read_in_linear_time() -> None:
    assert message_of("application/ppm-dap" + ";  " * 100_000 + "@") is None
    assert message_of('application/ppm-dap;a="' + "\\" * 100_000) is None
