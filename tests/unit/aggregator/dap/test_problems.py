import pytest

from aggregator.codec import DecodeError
from aggregator.dap.messages import InvalidBatchInterval
from aggregator.dap.problems import (
    OWN_NAMESPACE,
    PROBLEM_TYPES,
    BatchInvalid,
    BatchMismatch,
    InvalidBatchSize,
    InvalidMessage,
    OtherProblem,
    Problem,
    TooManyRequests,
    UnsupportedExtension,
    abort_from_problem,
    as_problem,
    problem_document,
)
from aggregator.errors import Abort
from tests.support.dap_messages import TASK_ID

DRAFT_TOKENS = {
    "invalidMessage",
    "unrecognizedTask",
    "unrecognizedAggregationJob",
    "batchInvalid",
    "invalidBatchSize",
    "invalidAggregationParameter",
    "batchMismatch",
    "stepMismatch",
    "batchOverlap",
    "unsupportedExtension",
    "invalidExtension",
    "invalidTask",  # of draft-ietf-ppm-dap-taskprov
}


def test_the_drafts_namespace_holds_the_drafts_types_and_no_others() -> None:
    prefix = "urn:ietf:params:ppm:dap:error:"
    ours = {uri for uri in PROBLEM_TYPES if not uri.startswith(prefix)}
    assert {uri.removeprefix(prefix) for uri in PROBLEM_TYPES if uri not in ours} == DRAFT_TOKENS
    assert all(uri.startswith(OWN_NAMESPACE) for uri in ours)


def test_a_document_names_type_detail_and_task() -> None:
    assert problem_document(InvalidBatchSize("93 of 100 reports"), TASK_ID) == {
        "type": "urn:ietf:params:ppm:dap:error:invalidBatchSize",
        "title": "The number of reports in the batch is invalid",
        "detail": "93 of 100 reports",
        "taskid": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
    }


def test_unsupported_extensions_are_listed() -> None:
    document = problem_document(UnsupportedExtension(unsupported_extensions=(23, 42)))
    assert document["unsupported_extensions"] == [23, 42]
    assert "unsupported_extensions" not in problem_document(UnsupportedExtension("some"))


def test_a_decode_error_is_an_invalid_message() -> None:
    document = problem_document(DecodeError("byte 3: too short"))
    assert document["type"] == InvalidMessage.type_uri
    assert document["detail"] == "byte 3: too short"


def test_a_decode_error_with_a_type_of_its_own_keeps_it() -> None:
    assert problem_document(InvalidBatchInterval("too late"))["type"] == BatchInvalid.type_uri


def test_an_abort_without_a_type_is_about_blank() -> None:
    assert as_problem(Abort("no")).type_uri == "about:blank"


@pytest.mark.parametrize("problem", PROBLEM_TYPES.values(), ids=lambda problem: problem.__name__)
def test_every_type_comes_back_from_its_document(problem: type[Problem]) -> None:
    sent = problem("what was wrong", TASK_ID)
    received = abort_from_problem(problem_document(sent))
    assert type(received) is problem
    assert (received.detail, received.task_id) == ("what was wrong", TASK_ID)
    assert str(received) == f"{problem.title}: what was wrong"


def test_unsupported_extensions_come_back() -> None:
    sent = UnsupportedExtension("two", unsupported_extensions=(23, 42))
    received = abort_from_problem(problem_document(sent))
    assert isinstance(received, UnsupportedExtension)
    assert received.unsupported_extensions == (23, 42)


def test_a_type_we_do_not_know_is_passed_on_as_it_came() -> None:
    document = {"type": "https://peer.example/odd", "title": "Odd", "detail": "very"}
    received = abort_from_problem(document)
    assert isinstance(received, OtherProblem)
    assert problem_document(received) == document


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"type": 5, "title": None, "detail": ["x"], "taskid": 7},
        {"type": "", "taskid": "not base64url!"},
    ],
)
def test_a_useless_document_gives_a_bare_problem(document: dict[str, object]) -> None:
    received = abort_from_problem(document)
    assert received.type_uri == "about:blank"
    assert received.task_id is None
    assert received.detail == ""


def test_extension_types_that_are_not_integers_are_left_out() -> None:
    uri = UnsupportedExtension.type_uri
    given = abort_from_problem({"type": uri, "unsupported_extensions": [1, True, "2", None]})
    assert isinstance(given, UnsupportedExtension)
    assert given.unsupported_extensions == (1,)
    none = abort_from_problem({"type": uri, "unsupported_extensions": "23"})
    assert isinstance(none, UnsupportedExtension)
    assert none.unsupported_extensions == ()


def test_a_peers_text_is_cut() -> None:
    document = {"type": TooManyRequests.type_uri, "detail": "x" * 5000}
    assert len(abort_from_problem(document).detail) == 1000


def test_a_peers_text_becomes_text_that_a_log_a_store_and_a_terminal_can_take() -> None:
    received = abort_from_problem({"title": "half \ud800", "detail": "\x1b[31mred\0\n\u202e"})
    assert str(received) == r"half \ud800: \x1b[31mred\x00 \u202e"
    received = abort_from_problem({"type": "urn:\udfff"})
    assert received.type_uri == r"urn:\udfff"


def test_the_tasks_own_id_goes_before_the_one_at_hand() -> None:
    known = BatchMismatch("", TASK_ID)
    assert problem_document(known)["taskid"] == str(TASK_ID)
