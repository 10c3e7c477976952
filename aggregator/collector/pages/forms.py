"""Reads the addresses and the forms of the collector's pages."""

from collections.abc import Mapping
from email import message_from_bytes
from email.policy import HTTP
from itertools import islice
from urllib.parse import parse_qsl

from fastapi import Request

from aggregator.dap.ids import TaskId
from aggregator.dap.problems import (
    BatchInvalid,
    InvalidMessage,
    UnrecognizedTask,
    UnsupportedMediaType,
)
from aggregator.errors import Abort, ParameterError
from aggregator.failures import in_thread
from aggregator.service.web.messages import read_bytes
from aggregator.written_times import Times

_MAX_FORM_SIZE = 1024
_MAX_FIELDS = 16
"""More than any form of these pages has."""
_FORM = "application/x-www-form-urlencoded"
_WITH_FILE = "multipart/form-data"


def task_named(request: Request) -> TaskId:
    """Return the task of a page by its address; raises `UnrecognizedTask` if it names none."""
    try:
        return TaskId.parse(request.path_params["task_id"])
    except Abort as error:
        raise UnrecognizedTask("the address holds no task identifier") from error


async def read_form(request: Request, most: int = _MAX_FORM_SIZE) -> dict[str, str]:
    """Return the fields of a form of at most `most` bytes.

    Raises `UnsupportedMediaType`, `MessageTooLarge`, or `InvalidMessage` for too many fields.
    """
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != _FORM:
        raise UnsupportedMediaType(f"the media type must be {_FORM}")
    body = await read_bytes(request, most)
    # A long one would hold all other requests for a fifth of a second.
    return fields_of(body) if most == _MAX_FORM_SIZE else await in_thread(fields_of, body)


async def read_upload(request: Request, most: int) -> dict[str, bytes]:
    """Return the fields of a form with a file, of at most `most` bytes in all.

    Raises `UnsupportedMediaType`, `MessageTooLarge`, or `InvalidMessage` if it is none.

    Source: RFC 7578, "multipart/form-data".
    """
    kind = request.headers.get("content-type", "")
    if kind.split(";")[0].strip().lower() != _WITH_FILE:
        raise UnsupportedMediaType(f"the media type must be {_WITH_FILE}")
    body = await read_bytes(request, most)
    return await in_thread(parts_of, kind, body)


def parts_of(kind: str, body: bytes) -> dict[str, bytes]:
    """Return the fields of a body with a file; `kind` is its media type, with the boundary."""
    header = f"Content-Type: {kind}\r\n\r\n".encode("latin-1", "replace")
    message = message_from_bytes(header + body, policy=HTTP)
    if not message.is_multipart():
        raise InvalidMessage("the body is no form with a file")
    found = {}
    for part in islice(message.iter_parts(), _MAX_FIELDS):
        content = part.get_payload(decode=True)
        name = part.get_param("name", header="content-disposition")
        if isinstance(name, str) and isinstance(content, bytes):
            found[name] = content
    return found


def fields_of(body: bytes) -> dict[str, str]:
    """Return the fields of a form's body.

    Raises `InvalidMessage` if there are too many: a million of them took as long as four long
    texts.
    """
    try:
        text = body.decode("utf-8", "replace")
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS))
    except ValueError:
        raise InvalidMessage(f"the form may have {_MAX_FIELDS} fields") from None


def named_batch(form: Mapping[str, str], times: Times) -> dict[str, int]:
    """Return the fields by which a form names a batch, in seconds since the epoch.

    Raises `BatchInvalid` if a field is not a time.
    """
    try:
        return {name: times.read(form[name], name) for name in ("start", "end") if name in form}
    except ParameterError as error:
        raise BatchInvalid(str(error)) from None
