"""Problem types: why a whole request was refused, as RFC 9457 documents name it.

One class per type. The draft's types have its URN; ours have our own URI, because the draft
reserves its namespace. `web.problems` gives each type its status code.

Source: DAP, "Errors"; RFC 9457, "Members of a Problem Details Object".
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from typing_extensions import override

from aggregator.codec import U16_MAX, DecodeError
from aggregator.dap.ids import TaskId
from aggregator.dap.profile import ERROR_NAMESPACE
from aggregator.errors import Abort
from aggregator.untrusted_text import escaped

OWN_NAMESPACE = "tag:prio-aggregator.invalid,2026:problem:"
"""Prefix of our own types: a tag URI in a domain that never resolves (RFC 4151)."""

MAX_TEXT = 1000
"""How many characters of a peer's title or detail are kept."""

LONGEST_WAIT_SECONDS = 3600
"""How long a collector is asked to wait before it asks again for a batch that is not over."""

MAX_LIST = 16
"""How many extension types of a peer's problem document are kept."""


class Problem(Abort):
    """A refusal with a type, whose detail holds nothing that the peer must not see."""

    type_uri: ClassVar[str] = "about:blank"
    title: ClassVar[str] = "The request was refused"
    retry_after: int | None = None
    """In how many seconds the same request may succeed; None if it never does."""

    def __init__(self, detail: str = "", task_id: TaskId | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.task_id = task_id

    @override
    def __str__(self) -> str:
        """Return title and detail."""
        return f"{self.title}: {self.detail}" if self.detail else self.title

    def members(self) -> dict[str, object]:
        """Return the members that only this type has."""
        return {}


class InvalidMessage(Problem):
    """A message that could not be parsed or is otherwise invalid."""

    type_uri = ERROR_NAMESPACE + "invalidMessage"
    title = "The message could not be parsed or was otherwise invalid"


class UnrecognizedTask(Problem):
    """A task we do not know."""

    type_uri = ERROR_NAMESPACE + "unrecognizedTask"
    title = "The task is not known"


class InvalidTask(Problem):
    """A task that came with a request and that this aggregator takes no part in.

    Source: draft-ietf-ppm-dap-taskprov.
    """

    type_uri = ERROR_NAMESPACE + "invalidTask"
    title = "The aggregator takes no part in the task"


class UnrecognizedAggregationJob(Problem):
    """An aggregation job we do not know."""

    type_uri = ERROR_NAMESPACE + "unrecognizedAggregationJob"
    title = "The aggregation job is not known"


class BatchInvalid(Problem):
    """A query or selector that names no valid batch."""

    type_uri = ERROR_NAMESPACE + "batchInvalid"
    title = "The query does not determine a batch that can be collected"


class InvalidBatchSize(Problem):
    """A batch of too few reports."""

    type_uri = ERROR_NAMESPACE + "invalidBatchSize"
    title = "The number of reports in the batch is invalid"


class InvalidAggregationParameter(Problem):
    """An aggregation parameter that the VDAF does not allow."""

    type_uri = ERROR_NAMESPACE + "invalidAggregationParameter"
    title = "The aggregation parameter is invalid"


class BatchMismatch(Problem):
    """Two aggregators that did not aggregate the same reports."""

    type_uri = ERROR_NAMESPACE + "batchMismatch"
    title = "The aggregators disagree on the reports that were aggregated in the batch"


class StepMismatch(Problem):
    """Two aggregators that are not at the same step of an aggregation job."""

    type_uri = ERROR_NAMESPACE + "stepMismatch"
    title = "The aggregators disagree on the current step of the aggregation job"


class BatchOverlap(Problem):
    """A batch with reports that were collected before."""

    type_uri = ERROR_NAMESPACE + "batchOverlap"
    title = "The batch includes reports that were collected in a different batch"


class UnsupportedExtension(Problem):
    """An extension we do not know."""

    type_uri = ERROR_NAMESPACE + "unsupportedExtension"
    title = "An extension is not supported"

    def __init__(
        self,
        detail: str = "",
        task_id: TaskId | None = None,
        unsupported_extensions: Sequence[int] = (),
    ) -> None:
        super().__init__(detail, task_id)
        self.unsupported_extensions = tuple(unsupported_extensions)

    @override
    def members(self) -> dict[str, object]:
        """Return the extension types, if they are known."""
        types = list(self.unsupported_extensions)
        return {"unsupported_extensions": types} if types else {}


class InvalidExtension(Problem):
    """An extension list out of order, or an extension that is not encoded as it must be."""

    type_uri = ERROR_NAMESPACE + "invalidExtension"
    title = "The extension list is out of order or an extension's encoding is invalid"


class Unauthorized(Problem):
    """No token, or a wrong one."""

    type_uri = OWN_NAMESPACE + "unauthorized"
    title = "The request carries no valid token"


class UnrecognizedCollectionJob(Problem):
    """A collection job we do not know; the draft has no type for it."""

    type_uri = OWN_NAMESPACE + "unrecognized-collection-job"
    title = "The collection job is not known"


class UnrecognizedAggregateShare(Problem):
    """An aggregate share we do not know; the draft has no type for it."""

    type_uri = OWN_NAMESPACE + "unrecognized-aggregate-share"
    title = "The aggregate share is not known"


class MessageTooLarge(Problem):
    """A body over this server's limit."""

    type_uri = OWN_NAMESPACE + "message-too-large"
    title = "The message is larger than this server accepts"


class UnsupportedMediaType(Problem):
    """A body whose media type is not the resource's."""

    type_uri = OWN_NAMESPACE + "unsupported-media-type"
    title = "The resource does not take messages of this media type"


class NameTaken(Problem):
    """A `PUT` of a name that another request has used: a name is for one request."""

    type_uri = OWN_NAMESPACE + "name-taken"
    title = "The name is that of another request"


class NotNamedByCaller(Problem):
    """A `PUT` of a resource that the server names in the task's profile."""

    type_uri = OWN_NAMESPACE + "not-named-by-caller"
    title = "In this task's profile the server names what it makes"


class TooManyRequests(Problem):
    """More work than we take on now; the peer may come again later."""

    type_uri = OWN_NAMESPACE + "too-many-requests"
    title = "The server is overloaded; try again later"
    retry_after = 1


class TooManyCollections(Problem):
    """A collection beyond the most that a task may have pending; retry when one has ended."""

    type_uri = OWN_NAMESPACE + "too-many-collections"
    title = "The task has as many pending collections as it may have"
    retry_after = 1


class BatchNotOver(Problem):
    """A batch to which reports are yet to come; it can be asked for later.

    The draft's batchInvalid is for what never becomes a batch, and collectors take it as final.
    """

    type_uri = OWN_NAMESPACE + "batch-not-over"
    title = "The batch is not over yet"

    def __init__(
        self,
        detail: str = "",
        task_id: TaskId | None = None,
        retry_after: int = LONGEST_WAIT_SECONDS,
    ) -> None:
        super().__init__(detail, task_id)
        self.retry_after = min(retry_after, LONGEST_WAIT_SECONDS)


class BudgetExceeded(Problem):
    """A release that would cost more privacy than the task has left.

    The detail says what the release costs and what is left; both are public parameters.
    """

    type_uri = OWN_NAMESPACE + "budget-exceeded"
    title = "The task's privacy budget does not allow another release"


class TaskRefused(Problem):
    """A task that protects people less than this aggregator requires."""

    type_uri = OWN_NAMESPACE + "task-refused"
    title = "This aggregator does not take part in the task"


class SetBack(Problem):
    """An aggregator that has forgotten a release that the other knows; a type of our own."""

    type_uri = OWN_NAMESPACE + "set-back"
    title = "This aggregator was set back"


class CollectionFailed(Problem):
    """A collection job that ended for a reason that is not in the Collector's request.

    The detail says which: the Helper kept refusing, or the Leader's operator gave the job up.
    """

    type_uri = OWN_NAMESPACE + "collection-failed"
    title = "The collection failed"


class OtherProblem(Problem):
    """A problem that a peer reported and whose type we do not know; passed on as it came."""

    def __init__(
        self, type_uri: str, title: str, detail: str = "", task_id: TaskId | None = None
    ) -> None:
        super().__init__(detail, task_id)
        self.type_uri = type_uri  # type: ignore[misc]  # the peer's own, not the class's
        self.title = title  # type: ignore[misc]  # the peer's own, not the class's


PROBLEM_TYPES: Mapping[str, type[Problem]] = {
    problem.type_uri: problem for problem in Problem.__subclasses__() if problem is not OtherProblem
}
"""Every type by its URI."""


_NOT_REPAIRED_BY_TIME = (BudgetExceeded, TaskRefused, CollectionFailed, UnrecognizedCollectionJob)


def is_final(problem: Problem) -> bool:
    """Return whether a peer has decided on a request, and would decide the same again.

    Everything else can be repaired by an operator, such as a wrong token, a task not yet
    provisioned or a proxy in between: the same request is sent again later.
    """
    if isinstance(problem, _NOT_REPAIRED_BY_TIME):
        return True
    is_known = problem.type_uri.startswith(ERROR_NAMESPACE)
    return is_known and not isinstance(problem, UnrecognizedTask)


def problem_document(abort: Abort, task_id: TaskId | None = None) -> dict[str, object]:
    """Return the members of the problem document for `abort`, without a status.

    Args:
        abort: Why the request is refused; a `DecodeError` becomes invalidMessage.
        task_id: The task at hand, for an abort that does not know it.
    """
    problem = as_problem(abort)
    document: dict[str, object] = {"type": problem.type_uri, "title": problem.title}
    if problem.detail:
        document["detail"] = problem.detail
    if known := problem.task_id or task_id:
        document["taskid"] = str(known)
    return document | problem.members()


def as_problem(abort: Abort) -> Problem:
    """Return `abort` itself if it has a type, otherwise the problem that stands for it."""
    if isinstance(abort, Problem):
        return abort
    if isinstance(abort, DecodeError):
        return InvalidMessage(str(abort))
    return Problem(str(abort))


def abort_from_problem(document: Mapping[str, object]) -> Problem:
    """Return the problem that a peer's document describes.

    Members that are missing or of the wrong JSON type are left out: a document that says nothing
    useful gives a bare `Problem`.
    """
    type_uri = _text(document, "type") or Problem.type_uri
    detail = _text(document, "detail")
    task_id = _task_id(document)
    if type_uri == UnsupportedExtension.type_uri:
        given = document.get("unsupported_extensions")
        listed = given[:MAX_LIST] if isinstance(given, list) else []
        types = [kind for kind in listed if type(kind) is int and 0 <= kind <= U16_MAX]
        return UnsupportedExtension(detail, task_id, types)
    if problem := PROBLEM_TYPES.get(type_uri):
        return problem(detail, task_id)
    title = _text(document, "title") or Problem.title
    return OtherProblem(type_uri, title, detail, task_id)


def _text(document: Mapping[str, object], name: str) -> str:
    """Return a member as text that a log, a store and a terminal can take."""
    value = document.get(name)
    if not isinstance(value, str):
        return ""
    return escaped(value[:MAX_TEXT].replace("\n", " "))


def _task_id(document: Mapping[str, object]) -> TaskId | None:
    try:
        return TaskId.parse(_text(document, "taskid"))
    except DecodeError:
        return None
