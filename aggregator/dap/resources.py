"""Every DAP resource and the media type of its messages: one table for routers and clients.

Source: DAP, "HTTP Resources Reference", "HTTP Usage", "Request Authentication" and "Protocol
Message Media Type"; RFC 9110, "Media Type", "Parameters" and "HEAD".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from re import ASCII, Pattern, escape, sub
from re import compile as compile_pattern

from aggregator.dap.hpke import HpkeConfigList
from aggregator.dap.ids import Identifier
from aggregator.dap.messages import (
    AggregateShare,
    AggregateShareReq,
    AggregationJobContinueReq,
    AggregationJobInitReq,
    AggregationJobResp,
    CollectionJobReq,
    CollectionJobResp,
    UploadErrors,
    UploadRequest,
)
from aggregator.dap.profile import Role
from aggregator.dap.urls import read_endpoint

MEDIA_TYPE = "application/ppm-dap"

ANSWERS_SO_FAR = "prio-answers-so-far"
"""The one message that is in no draft: a leader's counts (`aggregator.protocol.answers_so_far`)."""

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - RFC 9110's word for a name, no secret
_TYPE = compile_pattern(rf"\s*({_TOKEN}/{_TOKEN})\s*", ASCII)
_PARAMETER = compile_pattern(rf';\s*(?:({_TOKEN})=({_TOKEN}|"(?:[^"\\]|\\.)*")\s*)?', ASCII)


@dataclass(frozen=True, slots=True)
class Resource:
    """One method of one resource.

    Attributes:
        name: The resource's name for `path`; the same for all its methods.
        method: The HTTP method.
        template: The path under the role's base URL, ids in braces.
        servers: The roles that serve it.
        caller: The role that must authenticate, or None if anyone may call.
        request: The message in the request's body, as its media type names it, or None.
        response: The message in the response's body, or None; the body is left out if the response
            is deferred or there is nothing to say.
    """

    name: str
    method: str
    template: str
    servers: tuple[Role, ...]
    caller: Role | None
    request: str | None
    response: str | None

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that it answers: `GET` implies `HEAD`."""
        return ("GET", "HEAD") if self.method == "GET" else (self.method,)


_TASK = "/tasks/{task_id}"
_AGGREGATION_JOB = f"{_TASK}/aggregation_jobs/{{aggregation_job_id}}"
_COLLECTION_JOB = f"{_TASK}/collection_jobs/{{collection_job_id}}"
_AGGREGATE_SHARE = f"{_TASK}/aggregate_shares/{{aggregate_share_id}}"

_BOTH = (Role.LEADER, Role.HELPER)
_LEADER = (Role.LEADER,)
_HELPER = (Role.HELPER,)

RESOURCES = (
    Resource("hpke_config", "GET", "/hpke_config", _BOTH, None, None, HpkeConfigList.message),
    Resource(
        "reports",
        "POST",
        f"{_TASK}/reports",
        _LEADER,
        None,
        UploadRequest.message,
        UploadErrors.message,
    ),
    Resource(
        "reports_of_job",
        "POST",
        f"{_TASK}/reports/{{collection_job_id}}",
        _LEADER,
        None,
        UploadRequest.message,
        UploadErrors.message,
    ),
    Resource(
        "aggregation_jobs",
        "POST",
        f"{_TASK}/aggregation_jobs",
        _HELPER,
        Role.LEADER,
        AggregationJobInitReq.message,
        AggregationJobResp.message,
    ),
    Resource(
        "aggregation_job",
        "POST",
        _AGGREGATION_JOB,
        _HELPER,
        Role.LEADER,
        AggregationJobContinueReq.message,
        AggregationJobResp.message,
    ),
    Resource(
        "aggregation_job",
        "GET",
        _AGGREGATION_JOB,
        _HELPER,
        Role.LEADER,
        None,
        AggregationJobResp.message,
    ),
    Resource(
        "aggregation_job",
        "PUT",
        _AGGREGATION_JOB,
        _HELPER,
        Role.LEADER,
        AggregationJobInitReq.message,
        AggregationJobResp.message,
    ),
    Resource("aggregation_job", "DELETE", _AGGREGATION_JOB, _HELPER, Role.LEADER, None, None),
    Resource(
        "collection_jobs",
        "POST",
        f"{_TASK}/collection_jobs",
        _LEADER,
        Role.COLLECTOR,
        CollectionJobReq.message,
        CollectionJobResp.message,
    ),
    Resource(
        "collection_job",
        "GET",
        _COLLECTION_JOB,
        _LEADER,
        Role.COLLECTOR,
        None,
        CollectionJobResp.message,
    ),
    Resource(
        "collection_job",
        "PUT",
        _COLLECTION_JOB,
        _LEADER,
        Role.COLLECTOR,
        CollectionJobReq.message,
        CollectionJobResp.message,
    ),
    Resource("collection_job", "DELETE", _COLLECTION_JOB, _LEADER, Role.COLLECTOR, None, None),
    Resource(
        "answers_so_far",
        "GET",
        f"{_TASK}/answers_so_far",
        _LEADER,
        Role.COLLECTOR,
        None,
        ANSWERS_SO_FAR,
    ),
    Resource(
        "aggregate_shares",
        "POST",
        f"{_TASK}/aggregate_shares",
        _HELPER,
        Role.LEADER,
        AggregateShareReq.message,
        AggregateShare.message,
    ),
    Resource(
        "aggregate_share",
        "GET",
        _AGGREGATE_SHARE,
        _HELPER,
        Role.LEADER,
        None,
        AggregateShare.message,
    ),
    Resource(
        "aggregate_share",
        "PUT",
        _AGGREGATE_SHARE,
        _HELPER,
        Role.LEADER,
        AggregateShareReq.message,
        AggregateShare.message,
    ),
    Resource("aggregate_share", "DELETE", _AGGREGATE_SHARE, _HELPER, Role.LEADER, None, None),
)
"""Every method of every resource in the draft, `PUT` where a profile has the caller name it, and
uploads below a collection job (draft-thomson-ppm-dap-attribution)."""

TEMPLATES: Mapping[str, str] = {resource.name: resource.template for resource in RESOURCES}
"""The path template of each resource, by its name."""


def path(name: str, **ids: Identifier) -> str:
    """Return the path of a resource under the base URL of the role that serves it.

    Args:
        name: The resource's.
        ids: What its template has in braces: `task_id`, `aggregation_job_id` and so on.

    Raises:
        KeyError: There is no such resource, or an id that its template needs is not given.
    """
    return TEMPLATES[name].format_map(ids)


def location(endpoint: str, name: str, **ids: Identifier) -> str:
    """Return a resource's absolute path for a `Location` header, below the endpoint's own path.

    A proxy may serve us below a path: it strips that from requests but does not add it to answers.
    """
    return read_endpoint(endpoint, "endpoint").path.rstrip("/") + path(name, **ids)


def resources_of(role: Role) -> tuple[Resource, ...]:
    """Return the resources that `role` serves."""
    return tuple(resource for resource in RESOURCES if role in resource.servers)


def path_pattern(template: str, *, below_any: bool = False) -> Pattern[str]:
    """Return a pattern for whole paths made of `template`, with a group for each id.

    With `below_any` the path may follow another one, in the group `before`.
    """
    own = sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", escape(template))
    return compile_pattern(f"(?P<before>(?:/.*)?){own}" if below_any else own)


def media_type(message: str) -> str:
    """Return the media type of a message, `UploadRequest.message` for one."""
    return f"{MEDIA_TYPE};message={message}"


@lru_cache(maxsize=64)
def message_of(content_type: str | None) -> str | None:
    """Return the message that a `Content-Type` header declares, if any.

    Case, spaces and other parameters make no difference, except that the message's own name keeps
    its case. A header that is not well-formed, or has the parameter twice, declares nothing.
    """
    match = _TYPE.match(content_type or "")
    if content_type is None or match is None or match[1].lower() != MEDIA_TYPE:
        return None
    messages = []
    offset = match.end()
    while offset < len(content_type):
        parameter = _PARAMETER.match(content_type, offset)
        if parameter is None:
            return None
        name, value = parameter.groups()
        if name is not None and name.lower() == "message":
            messages.append(_unquote(value))
        offset = parameter.end()
    return messages[0] if len(messages) == 1 else None


def _unquote(value: str) -> str:
    if not value.startswith('"'):
        return value
    return sub(r"\\(.)", r"\1", value[1:-1])
