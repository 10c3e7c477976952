"""Reads the forms of the collector's pages."""

from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import parse_qsl

from fastapi import Request

from aggregator.dap.problems import BatchInvalid, UnsupportedMediaType
from aggregator.service.web.messages import read_bytes

_MAX_FORM_SIZE = 1024
_FORM = "application/x-www-form-urlencoded"


async def read_form(request: Request, most: int = _MAX_FORM_SIZE) -> dict[str, str]:
    """Return the fields of a form.

    Args:
        request: The request with the form.
        most: The most bytes of the form.

    Raises:
        UnsupportedMediaType: The body is declared as something else.
        MessageTooLarge: It is too long.
    """
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != _FORM:
        raise UnsupportedMediaType(f"the media type must be {_FORM}")
    body = await read_bytes(request, most)
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def named_batch(form: Mapping[str, str]) -> dict[str, int]:
    """Return the fields by which a form names a batch, given as seconds since the epoch or in UTC.

    Raises:
        BatchInvalid: A field is not a time.
    """
    named = {}
    for name in ("start", "end"):
        text = form.get(name)
        if text is None:
            continue
        if text.isascii() and text.isdigit():
            named[name] = int(text)
            continue
        try:
            named[name] = int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())
        except ValueError:
            raise BatchInvalid(f"{name}: must be a date and a time of UTC") from None
    return named
