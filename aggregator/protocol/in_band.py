"""Tasks that come with their first request: what the bytes of a configuration decide by themselves.

The configuration's hash is the task's id. What else a task needs stands in an agreement
(`agreements`).

Source: draft-ietf-ppm-dap-taskprov; RFC 9651, "Byte Sequences".
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Sequence

from aggregator.dap.ids import TaskId
from aggregator.protocol.task import Task

HEADER = "DAP-Taskprov"
"""The header that carries an encoded `TaskConfiguration`."""

MOST_BYTES = 4096
"""The largest configuration that is read: programs and proxies limit the size of a header."""

_ID_LABEL = hashlib.sha256(b"dap-taskprov task id").digest()
_ITEM = re.compile(r" *:([A-Za-z0-9+/]*={0,2}):(?:;[ -~]*)?", re.ASCII)


def id_of(configuration: bytes) -> TaskId:
    """Return the id of the task with this encoded configuration."""
    return TaskId(hashlib.sha256(_ID_LABEL + configuration).digest())


def is_named_by_its_hash(task: Task) -> bool:
    """Return whether a task's id is that of its configuration, so that others can check it."""
    return task.task_id == id_of(task.configuration_bytes)


def headers_of(task: Task) -> dict[str, str]:
    """Return the header by which the party that is asked learns of a task.

    Empty if the task's id is not its configuration's hash, or if a header has no room for it.
    """
    data = task.configuration_bytes
    if len(data) > MOST_BYTES or not is_named_by_its_hash(task):
        return {}
    return {HEADER.lower(): f":{base64.b64encode(data).decode()}:"}


def configuration_in(values: Sequence[str]) -> bytes | None:
    """Return the encoded configuration in the header's lines.

    None if there is none, or something else than one byte sequence, which is ignored like any
    unknown header.
    """
    item = _ITEM.fullmatch(values[0].rstrip(" ")) if len(values) == 1 else None
    if item is None:
        return None
    try:
        data = base64.b64decode(item[1] + "=" * (-len(item[1]) % 4), validate=True)
    except binascii.Error:
        return None
    return data if 0 < len(data) <= MOST_BYTES else None
